"""Random queries, unions and self-joins on one DataFrame of the source get the answers of SQL on the store.

Filter push-down is switched on: Spark then offers each query's filters to the source, and keeps a reader that took some
for later queries on the same DataFrame.
"""

import json
import random
import re
import sqlite3
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill, fill_archive
from gossamer.matching import Selector
from gossamer.messages.event import Content
from gossamer.messages.packet import pack

COLUMNS = ["id", "group", "stream", "seq", "key", "logged_ns", "size"]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SELECTOR = "type = 'quote' AND (price BETWEEN 20 AND 120 OR symbol PREFIX 'S15')"
PATIENCE_S = 600
PAGE = Path(__file__).resolve().parents[2] / "docs" / "analytics.md"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """One log in a store and in an archive; and the store's file, with the rows that match `SELECTOR` as a table."""
    folder: Path = tmp_path_factory.mktemp("queries")
    log = list(MadeLog(600))
    fill(f"sqlite:///{folder / 'log.db'}", log)
    fill_archive(folder / "archive", log)
    database = sqlite3.connect(folder / "log.db")
    slow = Selector(SELECTOR)
    rows = database.execute("SELECT id, attributes FROM events").fetchall()
    database.execute("CREATE TEMP TABLE matched (id INTEGER PRIMARY KEY)")
    database.executemany(
        "INSERT INTO matched VALUES (?)",
        [(id,) for id, attributes in rows if slow.evaluate(json.loads(attributes)) is True],
    )
    yield {"store": f"sqlite:///{folder / 'log.db'}"}, {"archive": str(folder / "archive")}, database
    database.close()


@pytest.fixture(autouse=True)
def pushed(spark):
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, before)


def loaded(spark, place, **options):
    return spark.read.format("gossamer").options(**place, columns=",".join(COLUMNS), **options).load()


class Queries:
    """Pairs of a DataFrame and the SQL that means the same, each made from earlier ones."""

    def __init__(self, spark, place, database, seed):
        self._rng = random.Random(seed)
        self._database = database
        self._times, self._sizes = (
            [row[0] for row in database.execute(f"SELECT DISTINCT {name} FROM events ORDER BY 1")]
            for name in ("logged_ns", "size")
        )
        everything = f"SELECT {', '.join(map(quoted, COLUMNS))} FROM events"
        self._whole = loaded(spark, place), everything
        self.made = [
            self._whole,
            (loaded(spark, place, where=SELECTOR), f"{everything} WHERE id IN (SELECT id FROM matched)"),
            (loaded(spark, place, system="false"), f"{everything} WHERE `group` <> '$sys'"),
        ]

    def new(self):
        """Mostly from one and the same DataFrame, so that its scans meet."""
        frame, sql = self._one()
        match self._rng.choice(("filter", "filter", "union", "join", "anti")):
            case "filter":
                condition = self._condition()
                made = frame.where(condition), f"SELECT * FROM ({sql}) WHERE {condition}"
            case "union":
                other, other_sql = self._one()
                made = frame.unionAll(other), f"SELECT * FROM ({sql}) UNION ALL SELECT * FROM ({other_sql})"
            case "join":
                other, other_sql = self._one()
                after = other.select(F.col("stream").alias("s"), (F.col("seq") + 1).alias("n"))
                joined = frame.join(after, (F.col("stream") == F.col("s")) & (F.col("seq") == F.col("n")))
                names = ", ".join(f"l.{quoted(name)}" for name in COLUMNS)
                on = "l.stream = r.stream AND l.seq = r.seq + 1"
                made = joined.select(*COLUMNS), f"SELECT {names} FROM ({sql}) l JOIN ({other_sql}) r ON {on}"
            case "anti":
                other, other_sql = self._one()
                kept = frame.join(other.select(F.col("id").alias("other")), F.col("id") == F.col("other"), "left_anti")
                made = kept, f"SELECT * FROM ({sql}) WHERE id NOT IN (SELECT id FROM ({other_sql}))"
        self.made.append(made)
        return made

    def _one(self):
        # Deep queries take Spark long to plan: half begin anew.
        frame, sql = self._whole if self._rng.random() < 0.5 else self._rng.choice(self.made[:6])
        condition = self._condition()
        return frame.where(condition), f"SELECT * FROM ({sql}) WHERE {condition}"

    def _condition(self):
        """Text that Spark and SQLite read alike."""
        pick = self._rng.choice
        return pick([
            f"`group` = '{pick(['orders', 'default', '$sys'])}'", "`group` <> '$sys'", f"seq >= {pick([1, 5, 20])}",
            f"key = '{pick(['ORD-HOT', 'S004'])}'", f"key IN ('{pick(['S056', 'S098'])}', 'ORD-HOT')", "key IS NULL",
            "NOT (key IS NULL)", f"logged_ns < {pick(self._times)}", f"logged_ns >= {pick(self._times)}",
            f"size > {pick(self._sizes)}", f"id BETWEEN 5000 AND {pick([50_000, 500_000, 5_000_000])}",
        ])  # fmt: skip

    def check(self, frame, sql):
        columns = "COUNT(*) AS a, COUNT(DISTINCT id) AS b, SUM(seq) AS c, SUM(size) AS d, MIN(logged_ns) AS e"
        found = frame.selectExpr(*columns.split(", ")).first()
        (expected,) = self._database.execute(f"SELECT {columns} FROM ({sql})").fetchall()
        assert tuple(found) == expected, sql
        return expected[0] > 0


def quoted(name):
    return f"`{name}`"


def check(queries, count, rng):
    """Each query is asked when it is made; then an earlier one once more."""
    some = 0
    for _ in range(count):
        some += queries.check(*queries.new())
        queries.check(*rng.choice(queries.made))
    assert some > count / 4, "most queries have found nothing"


def test_queries_on_one_frame_do_not_change_each_other(spark, places):
    store, _, database = places
    events = loaded(spark, store)
    (everything,), (orders,), (quotes,) = (
        database.execute(f"SELECT COUNT(*) FROM events {where}").fetchone()
        for where in ("", "WHERE `group` = 'orders'", "WHERE `group` = 'default'")
    )
    one, other = events.where("`group` = 'orders'"), events.where("`group` = 'default'")
    assert (events.count(), one.count(), events.count()) == (everything, orders, everything)
    counts = one.union(other).groupBy("group").count().collect()
    assert {row["group"]: row["count"] for row in counts} == {"orders": orders, "default": quotes}


@pytest.mark.parametrize("place", [0, 1], ids=["store", "archive"])
def test_random_queries_get_the_answers_of_sql(spark, places, place):
    check(Queries(spark, places[place], places[2], seed=place), 5, random.Random(place))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.parametrize("place", [0, 1], ids=["store", "archive"])
def test_many_random_queries_get_the_answers_of_sql(spark, places, place, seed):
    check(Queries(spark, places[place], places[2], seed), 25, random.Random(seed))


def test_the_documented_code_runs(spark, monkeypatch, tmp_path):
    """On the shared session: another one would configure it anew."""
    quotes = [Content(key="IBM", attributes={"symbol": "IBM", "price": price}) for price in (99.5, 101.5)]
    url = f"sqlite:///{tmp_path / 'gossamer.db'}"
    fill(url, [(5, [pack("default/feed", 0, quotes)])])
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "spark" in block)
    monkeypatch.setattr("gossamer.analytics.session.session", lambda: spark)
    shown = {}
    # A relative path is one of the folder in which Spark was started.
    exec(code.replace("sqlite:///gossamer.db", url), shown)
    assert [(row["seq"], json.loads(row["attributes"])["price"]) for row in shown["dear"].collect()] == [(1, 101.5)]
    assert shown["events"].count() == 2


def test_load_says_which_option_is_wrong(spark, places):
    with pytest.raises(
        AnalysisException, match=r"where: expected an operator, found 'BETWEN'.*\(character 7, in: price"
    ):
        loaded(spark, places[0], where="price BETWEN 100 AND 200")
    with pytest.raises(AnalysisException, match="since: a time like 2026-11-17T15:00:00Z, not 'yesterday'"):
        loaded(spark, places[1], since="yesterday")


@pytest.mark.slow
def test_queries_on_one_stream_do_not_change_each_other(spark, places, tmp_path):
    store, _, database = places
    reader = spark.readStream.format("gossamer").options(**store, columns="group,stream,seq,key", where=SELECTOR)
    stream = reader.load()
    conditions = {"first": "seq < 5", "rest": "seq >= 5", "all": "TRUE"}
    for name, condition in conditions.items():
        writer = stream.where(condition).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.options(path=str(tmp_path / name), checkpointLocation=str(tmp_path / f"{name}-checkpoint"))
        finish(writer)
    for name, condition in conditions.items():
        expected = database.execute(
            f"SELECT stream, seq FROM events WHERE id IN (SELECT id FROM matched) AND {condition} ORDER BY 1, 2"
        ).fetchall()
        found = spark.read.parquet(str(tmp_path / name)).select("stream", "seq").collect()
        assert sorted(tuple(row) for row in found) == expected, name
        assert expected, name


def finish(writer):
    while True:
        try:
            assert writer.start().awaitTermination(PATIENCE_S)
            return
        except StreamingQueryException as error:
            # Spark gives a Python process ten seconds to start, which a crowded machine may not have.
            if "failed to connect back" not in str(error):
                raise
