"""The data source in a real Spark: stores and archives are one table, several are united, a stream loses nothing."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from gossamer.analytics import archives, reading
from gossamer.analytics.inputs import KEPT, load
from gossamer.analytics.loggers import resolved
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill, fill_archive
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from processes import until

EVENT_COUNT = 2_000
PATIENCE_S = 600
FOLLOWER = Path(__file__).with_name("stream_follower.py")


@pytest.fixture(scope="module")
def log():
    made = MadeLog(EVENT_COUNT)
    return list(made), made.truth()


@pytest.fixture(scope="module")
def stores(log, postgres, tmp_path_factory):
    """The same log, in every way that it can be kept."""
    folder = tmp_path_factory.mktemp("stores")
    urls = {"sqlite": f"sqlite:///{folder / 'log.db'}", "postgres": postgres.url()}
    for url in urls.values():
        fill(url, log[0])
    fill_archive(folder / "archive", log[0])
    return {**urls, "archive": str(folder / "archive")}


def shown(frame):
    """Rows as they can be compared: JSON is written by each database in its own way, and the store is another."""
    found = frame.toArrow().to_pylist()
    found.sort(key=itemgetter("stream", "seq") if "stream" in frame.columns else itemgetter("id"))
    for row in found:
        row.pop("store", None)
        for name in {"attributes", "annotation"} & row.keys():
            row[name] = None if row[name] is None else json.loads(row[name])
    return found


def test_every_way_to_load_gives_the_same_inputs_and_the_truth(spark, stores, log):
    truth = log[1]
    each = [load(spark, [stores["sqlite"]]), load(spark, [stores["postgres"]]), load(spark, [], [stores["archive"]])]
    all_of_them = load(spark, [stores["sqlite"], stores["postgres"]], [stores["archive"]])
    expected, told = shown(each[0].events), shown(each[0].telemetry)
    assert (len(expected), len(told)) == (truth["events"], truth["telemetry"])
    for inputs in (*each[1:], all_of_them):
        assert shown(inputs.events) == expected
        assert shown(inputs.telemetry) == told
    events = each[2].events
    assert events.schema.names == KEPT["events"]
    table = events.groupBy("publisher").agg(F.count("*").alias("events"), F.sum("size").alias("bytes"))
    assert {row["publisher"]: (row["events"], row["bytes"]) for row in table.collect()} == {
        name: (each["events"], each["bytes"]) for name, each in truth["publishers"].items()
    }
    symbols = events.where(F.get_json_object("attributes", "$.symbol") == F.col("key")).count()
    assert symbols == truth["groups"]["default"]["events"]
    for inputs in (*each, all_of_them):
        inputs.release()


def test_stores_that_have_a_part_each_are_united(spark, log, tmp_path):
    half = len(log[0]) // 2
    parts = [log[0][: half + 10], log[0][half - 10 :]]
    urls = [f"sqlite:///{tmp_path / name}" for name in ("a.db", "b.db")]
    for url, part in zip(urls, parts, strict=True):
        fill(url, part)
    inputs = load(spark, urls)
    found = inputs.events.agg(F.count("*"), F.countDistinct("stream", "seq")).first()
    assert found == (log[1]["events"], log[1]["events"])
    inputs.release()


def test_columns_groups_and_times(spark, stores, log):
    middle_ns = log[0][len(log[0]) // 2][0]
    middle = datetime.fromtimestamp(middle_ns / 1e9, UTC)
    reader = spark.read.format("gossamer").option("store", stores["sqlite"])
    narrow = reader.options(columns="key, publisher", group="orders").load()
    assert narrow.schema.names == ["key", "publisher"]
    assert narrow.count() == log[1]["groups"]["orders"]["events"]
    before = load(spark, [stores["sqlite"]], until=middle).events
    after = load(spark, [], [stores["archive"]], since=middle).events
    counted = before.agg(F.max("logged_ns"), F.count("*")).first(), after.agg(F.min("logged_ns"), F.count("*")).first()
    assert counted[0][0] < middle_ns == counted[1][0]
    assert counted[0][1] + counted[1][1] == log[1]["events"]
    before.unpersist()
    after.unpersist()


def test_the_jvm_knows_the_publishers_that_python_knows(spark):
    streams = ["default/feed", "default/~b-1.0", "a b/~x.y.12", "g/~x.07", "g/~x.", "g/name.3", "g/~a.1/b"]
    frame = spark.createDataFrame([(stream,) for stream in streams], "stream string")
    found = frame.select(archives.publisher_of(F.col("stream"))).collect()
    assert [row[0] for row in found] == [reading.publisher_of(stream) for stream in streams]


def test_nothing_but_telemetry_in_a_store_and_nothing_in_others(spark, log, tmp_path):
    empty, only = f"sqlite:///{tmp_path / 'empty.db'}", f"sqlite:///{tmp_path / 'sys.db'}"
    Store(empty).close()
    fill(only, [(at, [p for p in packets if p.stream.startswith("$sys/")]) for at, packets in log[0]])
    (tmp_path / "archive").mkdir()
    inputs = load(spark, [empty, only], [str(tmp_path / "archive")])
    assert inputs.events.count() == 0
    assert inputs.telemetry.count() == log[1]["telemetry"]
    inputs.release()


def test_a_corrupt_row_is_counted_and_stops_nobody(spark, tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    fill(url, [(5, [pack("default/feed", 0, [Content(key="k", attributes={"n": n}) for n in range(100)])])])
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("UPDATE events SET attributes = '{\"n\": ', published_ns = 'never' WHERE id = 4100")
    connection.close()
    events = spark.read.format("gossamer").option("store", url).load()
    numbers = events.select(F.get_json_object("attributes", "$.n").cast("int").alias("n"), "published_ns")
    assert numbers.agg(F.count("*"), F.count("n"), F.sum("n")).first() == (100, 99, 99 * 100 // 2 - 4)


# A stream -------------------------------------------------------------------------------------------------------------


class Growing:
    """A store that a logger writes to."""

    def __init__(self, url):
        self._now_ns = 0
        self.store = Store(url, lambda: self._now_ns)
        self.store.claim("L")
        self._keeper = Keeper(self.store.database, self.store.on_swept)

    def log(self, commits):
        for now_ns, packets in commits:
            self._now_ns = now_ns
            self.store.apply(packets)
            self.store.commit()
        self._keeper.work()

    def close(self):
        self._keeper.close()
        self.store.close()


def followed(spark, url, folder):
    """Take what is there now into a folder of Parquet, going on where the checkpoint says."""
    stream = spark.readStream.format("gossamer").options(store=url, columns="stream,seq,store").load()
    writer = stream.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.options(path=str(folder / "out"), checkpointLocation=str(folder / "checkpoint"))
    while True:
        try:
            assert writer.start().awaitTermination(PATIENCE_S)
            return
        except StreamingQueryException as error:
            # Spark gives a Python process ten seconds to start, which a crowded machine may not have.
            if "failed to connect back" not in str(error):
                raise


def taken(spark, folder):
    return sorted((row["stream"], row["seq"]) for row in spark.read.parquet(str(folder / "out")).collect())


def logged(commits):
    return sorted((packet.stream, seq) for _, packets in commits for packet in packets for seq in packet.seqs())


@pytest.mark.slow
def test_a_stream_killed_in_the_middle_neither_loses_nor_doubles(spark, log, tmp_path):
    third = len(log[0]) // 3
    url = f"sqlite:///{tmp_path / 'log.db'}"
    growing = Growing(url)
    growing.log(islice(log[0], third))
    with open(tmp_path / "follower.log", "wb") as errors:
        follower = subprocess.Popen(
            [sys.executable, str(FOLLOWER), url, str(tmp_path)], stdout=errors, stderr=errors, start_new_session=True
        )
    try:

        def begun(batch):
            assert follower.poll() is None, (tmp_path / "follower.log").read_text()
            return (tmp_path / "checkpoint" / "offsets" / str(batch)).exists()

        until(lambda: begun(0) and (tmp_path / "out" / "_spark_metadata" / "0").exists(), "the first batch", PATIENCE_S)
        growing.log(log[0][third : 2 * third])
        until(lambda: begun(1), "the second batch to begin", PATIENCE_S)
    finally:
        os.killpg(follower.pid, signal.SIGKILL)  # Python, the JVM and its workers, all at once
        follower.wait()
    growing.log(log[0][2 * third :])
    followed(spark, url, tmp_path)
    assert taken(spark, tmp_path) == logged(log[0])
    followed(spark, url, tmp_path)  # and nothing that is not new
    assert taken(spark, tmp_path) == logged(log[0])
    growing.close()


def test_a_broker_tells_where_its_loggers_store(mesh):
    broker = mesh.broker("B", mesh.logger("L").ready().address).ready()
    assert resolved(broker.url) == [mesh.store_url("L")]
    assert resolved("sqlite:///x.db") == ["sqlite:///x.db"]
