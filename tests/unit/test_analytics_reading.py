"""A store as Arrow, without Spark around it: every column, filters, slices, and rows that are not as they should be."""

import json
import sqlite3
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from gossamer.analytics import reading
from gossamer.analytics.inputs import notes_on
from gossamer.analytics.planning import PACKETS_MIN, extent_of, nanoseconds, place_of, slices
from gossamer.analytics.reading import Condition, Place, read
from gossamer.analytics.schema import EVENTS, TABLES, TELEMETRY
from gossamer.analytics.source import GossamerSource, StoreStreamReader
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill, fill_archive
from gossamer.logger.migrations import described
from gossamer.matching import Selector
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content, Relation
from gossamer.messages.packet import pack


def rows(url, table="events", schema=EVENTS, conditions=(), count=3):
    extent = extent_of(url, table)
    parts = slices(place_of(url), extent.first, extent.last, count)
    return [row for part in parts for batch in read(table, schema, conditions, part) for row in batch.to_pylist()]


def test_every_column(store_url):
    contents = [
        Content(key="k", rank=3, time_ns=7, attributes={"a": "ü", "b": [], "c": None}, body=b"\0x"),
        Content(relation=Relation(group=True), rank=1.5, key="", deleted=True),
        Content(attributes={"price": 101.5}),
    ]
    fill(store_url, [(99, [pack("default/feed", 5, contents), pack("other/~n-1.3", 0, contents[2:])])])
    first, second, third, other = rows(store_url)
    assert list(first) == EVENTS.names
    assert json.loads(first.pop("attributes")) == {"a": "ü", "b": [], "c": None}
    assert first == {
        "id": 4096, "group": "default", "stream": "default/feed", "seq": 5, "published_ns": 7, "logged_ns": 99,
        "key": "k", "rank": 3.0, "annotation": None, "body": b"\0x",
        "size": len(next(pack("x/y", 0, contents).encoded())[1]), "deleted": False,
        "store": place_of(store_url).name, "publisher": "feed",
    }  # fmt: skip
    assert (second["rank"], second["key"], second["deleted"]) == (1.5, "", True)
    assert json.loads(second["annotation"]) == {"scope": "group"}
    assert json.loads(third["attributes"]) == {"price": 101.5}
    assert (other["group"], other["publisher"], other["id"]) == ("other", "other/~n-1", 8192)


def test_all_of_a_log_whatever_the_slices(store_url):
    log = MadeLog(3_000)
    fill(store_url, log)
    truth = log.truth()
    for count in (1, 7):
        found = rows(store_url, conditions=[Condition('"group" <> ?', ("$sys",))], count=count)
        assert len(found) == len({(row["stream"], row["seq"]) for row in found}) == truth["events"]
        assert [row["id"] for row in found] == sorted(row["id"] for row in found)
    assert sum(row["size"] for row in found) == truth["bytes"]
    told = rows(store_url, "telemetry", TELEMETRY)
    assert len(told) == truth["telemetry"]
    assert {row["type"] for row in told} == {"sample", "subscription", "consumer", "repair", "purge", "link"}


def test_a_store_tells_how_far_it_is_derived(store_url):
    from gossamer.logger.store import Store

    fill(store_url, [(5, [pack("default/feed", 0, [Content()])])])
    assert extent_of(store_url).lag == 0
    with Store(store_url) as store:
        store.apply([pack("default/feed", 1, [Content()]), pack("default/more", 0, [Content()])])
        store.commit()
    extent = extent_of(store_url)
    assert (extent.last, extent.lag) == (1, 2)
    assert len(rows(store_url)) == 1


def test_what_is_to_be_said_of_a_store(tmp_path):
    from gossamer.logger.store import Store

    url = f"sqlite:///{tmp_path / 'log.db'}"
    with Store(url) as store:
        assert notes_on([url], "local[2]") == ()
        store.apply([pack("default/feed", 0, [Content()])])
        store.commit()
    (lag,) = notes_on([url], "local[*]")
    assert "log.db: 1 packets are logged and not yet derived" in lag
    lag_again, shared = notes_on([url], "spark://host:7077")
    assert lag_again == lag
    assert "every executor must see it under this path" in shared
    assert "should read PostgreSQL or an archive" in shared


def test_a_stream_goes_on_in_the_log_that_it_began_with(tmp_path, monkeypatch):
    urls = [f"sqlite:///{tmp_path / name}" for name in ("a.db", "b.db")]
    for url, node in zip(urls, "AB", strict=True):
        first, second = Content(attributes={"even": True}), Content(key="odd", attributes={"even": False})
        fill(url, [(5, [pack("default/feed", 0, [first])]), (6, [pack("default/feed", 1, [second])])], node)
    one, other = (StoreStreamReader(GossamerSource({"store": url}), EVENTS) for url in urls)
    start, end = one.initialOffset(), one.latestOffset()
    assert (start, end) == ({"A": 0}, {"A": 2})
    assert seqs(one, start, end) == [0, 1]
    assert seqs(one, {"A": 1}, end) == [1]
    assert one.partitions(end, end) == []
    with pytest.raises(UsageError, match="of the log of A, which is not among these: B"):
        other.partitions(start, other.latestOffset())
    some = StoreStreamReader(GossamerSource({"store": urls[0], "key": "odd"}), EVENTS)
    assert seqs(some, start, end) == [1]
    some = StoreStreamReader(GossamerSource({"store": urls[0], "where": "even"}), EVENTS)
    assert seqs(some, start, end) == [0]
    monkeypatch.setattr(GossamerSource, "stores", lambda _: urls)
    both = StoreStreamReader(GossamerSource({}), EVENTS)
    assert both.latestOffset() == {"A": 2, "B": 2}
    assert seqs(both, {"A": 2}, both.latestOffset()) == [0, 1]  # B has come in meanwhile


def seqs(reader, start, end):
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


@pytest.mark.parametrize("table", list(TABLES))
def test_the_archive_is_the_same_table(tmp_path, table):
    log = list(MadeLog(1_000))
    url = f"sqlite:///{tmp_path / 'log.db'}"
    fill(url, log)
    fill_archive(tmp_path / "archive", log)
    source = GossamerSource({"archive": str(tmp_path / "archive"), "table": table})
    reader = source.reader(source.schema())
    archived = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    stored = rows(url, table, TABLES[table])
    for row in stored:
        row["store"] = str(tmp_path / "archive")
    assert sorted(archived, key=lambda row: row["id"]) == stored
    some = GossamerSource({"archive": str(tmp_path / "archive"), "group": "orders", "columns": "seq,publisher"})
    reader = some.reader(some.schema())
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert len(found) == sum(row["group"] == "orders" for row in rows(url))


def test_cells_that_are_not_of_their_type_do_not_take_their_row_with_them(tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    contents = [Content(key=f"k{number}", time_ns=number, attributes={"n": number}) for number in range(4)]
    fill(url, [(5, [pack("default/feed", 0, contents)])])
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("UPDATE events SET seq = 'rubbish', published_ns = 1e300 WHERE id = 4097")
        connection.execute("UPDATE events SET key = CAST(x'ff61' AS TEXT), attributes = x'ff' WHERE id = 4098")
        connection.execute("UPDATE events SET size = 1 << 40, deleted = 'maybe', body = 7 WHERE id = 4099")
    connection.close()
    found = rows(url)
    assert [row["id"] for row in found] == [4096, 4097, 4098, 4099]
    assert (found[0]["seq"], found[0]["key"], found[0]["attributes"]) == (0, "k0", '{"n":0}')
    assert (found[1]["seq"], found[1]["published_ns"], found[1]["key"]) == (0, 0, "k1")
    assert (found[2]["key"], found[2]["attributes"]) == ("\ufffda", "\ufffd")
    assert (found[3]["size"], found[3]["deleted"], found[3]["body"], found[3]["key"]) == (0, False, None, "k3")


@given(st.integers(1, 10_000), st.integers(0, 20_000), st.integers(1, 40))
def test_slices_are_all_of_it_and_do_not_overlap(first, length, count):
    last = first + length - 1
    found = slices(Place("sqlite", "x", "x"), first, last, count)
    numbers = [number for each in found for number in (each.first // 4096, each.last // 4096)]
    assert len(found) <= count
    assert numbers == sorted(numbers)
    assert (numbers[:1], numbers[-1:]) == (([first], [last]) if length else ([], []))
    assert all(after.first == before.last + 1 for before, after in pairwise(found))
    assert len(found) <= max(1, -(-length // PACKETS_MIN))


# Rows by options ------------------------------------------------------------------------------------------------------

OPTIONS = [
    ({"group": "orders"}, lambda row: row["group"] == "orders"),
    ({"system": "false"}, lambda row: row["group"] != "$sys"),
    ({"key": "ORD-HOT"}, lambda row: row["key"] == "ORD-HOT"),
    ({"where": "symbol PREFIX 'S0' AND price > 50"}, lambda row: wanted(row, "symbol PREFIX 'S0' AND price > 50")),
    ({"where": "type = 'sample'", "group": "$sys"}, lambda row: wanted(row, "type = 'sample'")),
    ({"where": "symbol IS NULL"}, lambda row: wanted(row, "symbol IS NULL")),
    ({"where": " "}, lambda _: True),
]


def wanted(row, selector):
    """The slow evaluator's answer."""
    return Selector(selector).evaluate(json.loads(row["attributes"])) is True


def chosen(**options):
    source = GossamerSource(options)
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_options_choose_the_same_rows_of_a_store_and_of_an_archive(store_url, tmp_path):
    log = list(MadeLog(2_000))
    fill(store_url, log)
    fill_archive(tmp_path / "archive", log)
    everything = rows(store_url)
    for options, keeps in OPTIONS:
        expected = [row["id"] for row in everything if keeps(row)]
        for place in ({"store": store_url}, {"archive": str(tmp_path / "archive")}):
            assert sorted(row["id"] for row in chosen(columns="id", **options, **place)) == expected, (options, place)
        assert expected, options
    times = [datetime.fromtimestamp(log[len(log) * third // 3][0] / 1e9, UTC) for third in (1, 2)]
    since, until = (time.isoformat() for time in times)
    low, high = map(nanoseconds, times)
    expected = [row["id"] for row in everything if low <= row["logged_ns"] < high]
    for place in ({"store": store_url}, {"archive": str(tmp_path / "archive")}):
        assert sorted(row["id"] for row in chosen(since=since, until=until, **place)) == expected
        assert chosen(since="9999-12-31", **place) == chosen(until="0001-01-01", **place) == []
    assert expected


def test_a_selector_matches_no_row_that_cannot_be_read(tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    fill(url, [(5, [pack("default/feed", 0, [Content(attributes={"n": n}) for n in range(6)])])])
    broken = ["NULL", "'{\"n\": '", "x'ff'", "7", "'[1]'"]
    with sqlite3.connect(tmp_path / "log.db") as connection:
        for place, value in enumerate(broken):
            connection.execute(f"UPDATE events SET attributes = {value} WHERE id = {4096 + place}")
    connection.close()
    assert [row["seq"] for row in chosen(store=url, where="x IS NULL")] == [5]
    assert [row["seq"] for row in chosen(store=url, where="n >= 0")] == [5]
    assert len(chosen(store=url)) == 6


def test_a_reader_takes_no_filters_from_the_planner(tmp_path):
    """Spark keeps a reader that took filters, and reads with it for other queries on the same DataFrame."""
    for options in ({"store": f"sqlite:///{tmp_path / 'log.db'}"}, {"archive": str(tmp_path)}):
        reader = GossamerSource(options).reader(EVENTS)
        assert reader.pushFilters.__func__ is DataSourceReader.pushFilters


# Who published --------------------------------------------------------------------------------------------------------

STREAMS = [
    "default/feed",
    "default/~b-1.0",
    "a b/~x.y.12",
    "g/~x.07",
    "g/~x.",
    "g/name.3",
    "$sys/~n-1-telemetry.0",
    "odd",
    "",
]


@given(st.one_of(st.sampled_from(STREAMS), st.from_regex(r"\w{1,3}/~?[\w.~]{1,8}", fullmatch=True)))
def test_the_publisher_is_the_one_that_the_store_knows(stream):
    _, publisher, issuer = described(stream)
    expected = publisher if issuer is None else issuer
    assert reading.publisher_of(stream) == expected
    assert reading.publishers(pa.array([stream, stream])).to_pylist() == [expected] * 2


# Options and urls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "say which store"),
        ({"store": "mysql://x/y"}, "sqlite:///FILE or postgresql"),
        ({"store": "nonsense"}, "not the url of a store"),
        ({"store": "sqlite:////nowhere/at.db"}, "no such file"),
        ({"store": "sqlite:///x", "tabel": "events"}, "no option 'tabel'"),
        ({"store": "sqlite:///x", "table": "packets"}, "there are events and telemetry"),
        ({"store": "sqlite:///x", "columns": "id,price"}, "no column 'price'"),
        ({"store": "sqlite:///x", "columns": " , "}, "no columns"),
        ({"store": "sqlite:///x", "partitions": "0"}, "a number from 1"),
        ({"store": "sqlite:///x", "since": "yesterday"}, "a time like"),
        ({"store": "sqlite:///x", "until": "2026-13-01"}, "until: a time like 2026-11-17T15:00:00Z, not '2026-13-01'"),
        ({"store": "sqlite:///x", "partitions": "²"}, "a number from 1"),
        ({"store": "sqlite:///x", "system": "no"}, "system: true or false, not 'no'"),
        ({"store": "sqlite:///x", "columns": "id, key,id"}, "'id' is named twice"),
        ({"store": "sqlite:///x", "group": "a", "table": "telemetry"}, "option group goes with the table events"),
        ({"store": "sqlite:///x", "system": "false", "table": "telemetry"}, "option system goes with the table events"),
        ({"store": "sqlite:///x", "archive": "/x"}, "options store and archive: one load"),
        (
            {"store": "sqlite:///x", "where": "price\nBETWEN 100 AND 200"},
            r"where: expected an operator, found 'BETWEN'; did you mean BETWEEN\? \(character 7, in: price BETWEN",
        ),
        ({"store": "sqlite:///x", "where": "price >"}, r"where: expected a value.*\(character 8, in: price >\)"),
        ({"archive": "/nowhere"}, "there is no archive"),
        ({"archive": "/usr"}, "is no archive"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(options, complaint):
    def plan():
        source = GossamerSource(options)
        return source.reader(source.schema()).partitions()

    with pytest.raises(UsageError, match=complaint) as caught:
        plan()
    assert "\n" not in str(caught.value)


def test_a_schema_that_the_table_does_not_have_is_refused():
    source = GossamerSource({"store": "sqlite:///x"})
    for field in (StructField("price", DoubleType()), StructField("seq", StringType())):
        with pytest.raises(UsageError, match=r"events has no such column: .*; use option columns"):
            source.reader(StructType([field]))


def test_no_store_and_one_of_another_version(tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(UsageError, match="is no store"):
        extent_of(url)
    (tmp_path / "log.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(UsageError, match="not a database"):
        extent_of(url)
    (tmp_path / "log.db").unlink()
    fill(url, [(5, [pack("default/feed", 0, [Content()])])])
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    connection.close()
    with pytest.raises(UsageError, match="has schema 99"):
        extent_of(url)


def test_a_password_is_shown_to_nobody():
    place = place_of("postgresql://me:secret@host/log")
    assert "secret" in place.where
    assert place.name == "postgresql://me@host/log"


def test_since_skips_what_was_logged_before(store_url):
    fill(store_url, [(second * 10**9, [pack("default/feed", second, [Content()])]) for second in range(1, 6)])
    assert extent_of(store_url, since=datetime.fromtimestamp(3, UTC)).first == 3
