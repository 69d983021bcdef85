"""Events in SQL: every column, whatever an event says; the newest of each key; telemetry; made again when need be."""

import json
import struct
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.event import listen, remove

from gossamer.logger.databases import FILL_ROWS, database
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.event import Commit, Content, Head, Relation
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet, pack
from gossamer.protocol.obsolescence import Told, obsoletes
from machines import S, T, packet


@contextmanager
def opened(url, **options):
    with Store(url, **options) as store:
        keeper = Keeper(store.database, store.on_swept)
        yield store, keeper
        keeper.close()


def write(store, *packets):
    store.apply(packets)
    store.commit()


def ask(store, statement):
    with store._engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


def raw(stream, first, *pieces):
    """A packet of events as no publisher's broker would let them pass."""
    return Packet(stream, first, struct.pack(f"<{len(pieces)}I", *map(len, pieces)), b"".join(pieces))


def test_every_column(store_url):
    contents = [
        Content(
            key="IBM", rank=1.5, time_ns=7, attributes={"a": 1, "b": "x", "c": [], "d": None, "e": True}, body=b"\0x"
        ),
        Content(key="IBM", relation=Relation(near=b"\1"), deleted=True),
        Content(key="k", relation=Relation(group=True), rank=2**62),
    ]
    with opened(store_url, clock_ns=lambda: 99) as (store, keeper):
        write(store, pack("default/feed", 5, contents).thin([(6, EventId("default/feed", 7))]), packet(0, 1))
        keeper.work()
        rows = ask(store, "SELECT * FROM events ORDER BY id")
        shown = [
            (*row[:8], *(json.loads(v) if isinstance(v, str) else v for v in row[8:10]), *row[10:]) for row in rows
        ]
        sizes = [len(piece) for _, piece in pack("default/feed", 5, contents).encoded()]
        first = (4096, "default", "default/feed", 5, 7, 99, "IBM", 1.5, None)
        assert shown[0] == (*first, contents[0].attributes, b"\0x", sizes[0], False)
        assert shown[1][:9] == (4098, "default", "default/feed", 7, 0, 99, "k", 2**62, {"scope": "group"})
        assert [row[2:4] for row in shown[2:]] == [(S, 0), (S, 1)]
        assert ask(store, 'SELECT "group", publisher, issuer FROM streams ORDER BY number') == [
            ("default", "feed", None),
            ("default", None, "default/~a-1"),
        ]


def test_attributes_can_be_asked_for(store_url):
    with opened(store_url) as (store, keeper):
        write(store, pack(S, 0, [Content(attributes={"symbol": s, "price": p}) for s, p in [("IBM", 9.5), ("X", 200)]]))
        keeper.work()
        if store_url.startswith("sqlite"):
            found = ask(store, "SELECT seq FROM events WHERE json_extract(attributes, '$.price') > 100")
        else:
            found = ask(store, "SELECT seq FROM events WHERE (attributes->>'price')::float > 100")
        assert found == [(1,)]


def test_what_events_say_of_others(store_url):
    relations = [
        Relation(near=b"\5", ids=(EventId(T, 4),)),
        Relation(part=(0, 2)),
        Relation(commit=Commit(2, ("a", "b"))),
    ]
    with opened(store_url) as (store, keeper):
        write(store, pack(S, 7, [Content(relation=relation) for relation in relations]))
        keeper.work()
        found = [json.loads(v) if isinstance(v, str) else v for (v,) in ask(store, "SELECT annotation FROM events")]
        assert found == [
            {"obsoletes": [[S, 6], [S, 4], [T, 4]]},
            {"part": [0, 2]},
            {"commit": {"parts": 2, "keys": ["a", "b"]}},
        ]


def encoded(*fields):
    return msgspec.msgpack.encode(fields)


POISON = {
    "NaN": encoded(None, None, None, 0, False, {"a": float("nan")}, b""),
    "infinity": encoded(None, float("inf"), None, 0, False, {}, b""),
    "NUL in a value": encoded(None, None, None, 0, False, {"a": "x\0y", "b": ["\0"]}, b""),
    "NUL in a name": encoded(None, None, None, 0, False, {"a\0": 1}, b""),
    "NUL in a key": encoded("x\0", None, None, 0, False, {}, b""),
    "half a surrogate": encoded("x", None, None, 0, False, {"a": "?"}, b"").replace(b"\xa1?", b"\xa3\xed\xa0\x80"),
    "a number too large": encoded(None, None, None, 0, False, {"a": 2**64 - 1}, b""),
    "no event": b"\xc1\xc1\xc1",
    "nested": b"\x91" * 5_000,
    "NUL in a commit": encoded(None, None, [False, b"", [], None, [1, ["\0"]]], 0, False, {}, b""),
}


@pytest.mark.parametrize("what", POISON)
def test_one_poison_event_stops_nobody(store_url, what):
    good = encoded("k", None, None, 5, False, {"a": 1}, b"")
    with opened(store_url) as (store, keeper):
        write(store, raw(S, 0, good, POISON[what], good), packet(0, 9, stream=T))
        keeper.work()
        rows = ask(store, f"SELECT seq, key, attributes, size FROM events WHERE stream = '{S}' ORDER BY id")
        assert [row[0] for row in rows] == [0, 1, 2]
        assert [rows[0][1], rows[2][1]] == ["k", "k"]
        assert [row[3] for row in rows] == [len(good), len(POISON[what]), len(good)]
        assert ask(store, f"SELECT count(*) FROM events WHERE stream = '{T}'") == [(10,)]


def test_what_the_database_does_not_take_is_kept_bare(store_url):
    with opened(store_url) as (store, keeper):
        write(store, packet(0, 2), packet(3, 5), packet(6))
        fill = store.database.fill

        def picky(connection, table, columns):
            taken = zip(columns["seq"], columns["attributes"], strict=True)
            if any(seq == 4 and attributes is not None for seq, attributes in taken):
                fill(connection, table, {name: [None] for name in columns})  # it never takes that
            fill(connection, table, columns)

        store.database.fill = picky
        keeper.work()
        rows = ask(store, "SELECT seq, attributes IS NULL FROM events ORDER BY id")
        assert [(seq, bool(bare)) for seq, bare in rows] == [(seq, seq in (3, 4, 5)) for seq in range(7)]
        assert keeper.deriving.spoilt == 3


VALUES = st.sampled_from([None, 0, 1, 2**62, 0.5, "", "x", b"", b"y"])


@given(st.data(), st.integers(1, 3 * FILL_ROWS), st.lists(st.booleans(), min_size=3, max_size=3))
def test_rows_that_stand_in_columns_are_filled_in_as_row_by_row(data, count, same):
    columns = {"id": list(range(count))}
    for name, is_same in zip("abc", same, strict=True):
        few = data.draw(st.lists(VALUES, min_size=1, max_size=1 if is_same else 5))
        columns[name] = [few[row % len(few)] for row in range(count)]
    store = database("sqlite://")
    engine = store.writer()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)")
        store.fill(connection, "t", columns)
        found = [tuple(row) for row in connection.exec_driver_sql("SELECT * FROM t ORDER BY id")]
    engine.dispose()
    store.close()
    assert found == list(zip(*columns.values(), strict=True))


def test_it_goes_on_where_it_was_and_can_be_made_again(store_url):
    with opened(store_url) as (store, keeper):
        write(store, packet(0, 9))
        keeper.work()
    with opened(store_url) as (store, keeper):
        write(store, packet(10, 19))
        keeper.work()
        rows = ask(store, "SELECT * FROM events ORDER BY id")
        assert [row[3] for row in rows] == [*range(20)]
        keeper.deriving.rebuild()
        assert ask(store, "SELECT * FROM events") == []
        assert store.derived() == 0
        keeper.work()
        assert ask(store, "SELECT * FROM events ORDER BY id") == rows


def newest(store, group="default", bytes_max=10**6):
    found, cursor, upto = [], 0, store.derived()
    while True:
        page = store.newest(group, cursor, upto, bytes_max)
        found += [event.id for _, _, packet in page.rows for event in packet.events()]
        if page.end:
            assert page.last == upto
            return found
        cursor = page.last


def test_the_newest_of_each_key(store_url):
    with opened(store_url) as (store, keeper):
        write(
            store,
            pack(S, 0, [Content(key=key) for key in "abac"]),
            pack(S, 6, [Content(key="b")]),
            pack(S, 4, [Content(key="b"), Content(key="c", deleted=True)]),  # by repair: later, and older
            pack(T, 0, [Content(key="a"), Content(attributes={"no": "key"})]),
            pack("other/x", 0, [Content(key="a")]),
        )
        keeper.work()
        assert newest(store) == [(S, 2), (S, 6), (T, 0)]
        assert newest(store, bytes_max=0) == [(S, 2), (S, 6), (T, 0)]
        assert newest(store, "other") == [("other/x", 0)]
        store.collect(S, 2)
        store.commit()
        assert newest(store) == [(S, 6), (T, 0)]
        store.collect(S, 3)
        store.commit()
        keeper.sweep()
        assert newest(store) == [(S, 6), (T, 0)]


def test_what_a_transaction_sets_counts_when_it_is_committed(store_url):
    def part(key, index, count):
        return Content(key=key, relation=Relation(part=(index, count)))

    with opened(store_url) as (store, keeper):
        write(store, pack(S, 0, [Content(key="a"), Content(key="c"), part("a", 0, 2), part("b", 1, 2)]))
        keeper.work()
        assert newest(store) == [(S, 0), (S, 1)]
        write(store, pack(S, 4, [Content(relation=Relation(commit=Commit(2, ("a", "b")))), part("c", 0, 1)]))
        keeper.work()
        assert newest(store) == [(S, 1), (S, 2), (S, 3), (S, 4)]
        write(store, pack(S, 6, [Content(relation=Relation(commit=Commit(1, ("c",))))]))
        keeper.work()
        assert newest(store) == [(S, 2), (S, 3), (S, 5), (S, 6)]


ranks = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**62, 2.0**62, 2**62 + 1, 0.5, -1e300, 5e-324]))
contents = st.builds(
    lambda key, group, rank, time_ns: Content(
        key=key, rank=rank, relation=Relation(True) if group else None, time_ns=time_ns
    ),
    st.sampled_from("ab"),
    st.booleans(),
    ranks,
    st.integers(0, 3),
)


@given(
    runs=st.lists(st.tuples(st.sampled_from([S, T]), st.lists(contents, min_size=1, max_size=4)), max_size=6),
    order=st.randoms(),
    at_once=st.booleans(),
)
def test_newest_is_what_nothing_obsoletes(runs, order, at_once):
    check_newest("sqlite://", runs, order, at_once)


@pytest.mark.parametrize("seed", range(4))
def test_newest_in_postgresql(postgres, seed):
    import random

    draw = random.Random(seed)
    values = [None, 1, 0.5, 2**62, 2.0**62, 2**62 + 1, -1e300, 5e-324]
    runs = [
        (draw.choice([S, T]), [
            Content(key=draw.choice("ab"), rank=draw.choice(values), relation=draw.choice([None, Relation(True)]))
            for _ in range(4)
        ])
        for _ in range(10)
    ]  # fmt: skip
    check_newest(postgres.url(), runs, draw, seed % 2)


def check_newest(url, runs, order, at_once):
    at, packets, told = {S: 0, T: 0}, [], []
    for stream, run in runs:
        packets.append(pack(stream, at[stream], run))
        for seq, content in enumerate(run, at[stream]):
            head = Head(content.key, content.rank, content.relation, content.time_ns)
            told.append(Told(EventId(stream, seq), head))
        at[stream] += len(run)
    order.shuffle(packets)
    with opened(url) as (store, keeper):
        for each in packets:
            write(store, each)
            if not at_once:
                keeper.work()
        keeper.work()
        expected = {one.id for one in told if not any(obsoletes(other, one) for other in told)}
        assert set(newest(store)) == expected


def test_telemetry_and_who_asked_for_what(store_url):
    said = [
        {"type": "sample", "node": "b1", "events": 7},
        {"type": "subscription", "node": "b1", "action": "added", "client": "c", "subscription": 3, "selector": "a > 1",
         "group": "default"},
        {"odd": 1},
    ]  # fmt: skip
    with opened(store_url) as (store, keeper):
        write(store, pack("$sys/b1", 0, [Content(attributes=each, time_ns=5) for each in said]), packet(0))
        keeper.work()
        rows = ask(store, "SELECT type, node, published_ns FROM telemetry ORDER BY id")
        assert rows == [("sample", "b1", 5), ("subscription", "b1", 5), (None, None, 5)]
        asked = ask(store, 'SELECT node, action, client, selector, "group" FROM subscriptions')
        assert asked == [("b1", "added", "c", "a > 1", "default")]


# Under load ----------------------------------------------------------------------------------------------------------


@contextmanager
def counted(keeper):
    """The statements that the keeper runs; each row of an `executemany` is one of its own to the driver."""
    statements = []

    def on_statement(_, __, statement, parameters, ___, executemany):
        statements.extend([statement] * (len(parameters) if executemany else 1))

    listen(keeper._engine, "before_cursor_execute", on_statement)
    yield statements
    remove(keeper._engine, "before_cursor_execute", on_statement)


def test_sweeping_interleaved_streams_takes_few_statements(store_url):
    """The writer waits meanwhile, and each statement may wait for the interpreter."""
    with opened(store_url) as (store, keeper):
        for first in range(150):
            write(store, *(pack(stream, first, [Content(key="a")]) for stream in (S, T)))
        keeper.work()
        store.collect(S, 148)
        store.commit()
        with counted(keeper) as statements:
            keeper.sweep()
        assert len(statements) < 20, len(statements)
        left = [tuple(row) for row in ask(store, "SELECT stream, COUNT(*) FROM events GROUP BY stream ORDER BY stream")]
        assert left == sorted([(S, 1), (T, 150)])
        assert ask(store, "SELECT COUNT(*) FROM packets")[0][0] == 151
        assert newest(store) == [(S, 149), (T, 149)]


def test_newest_events_of_many_keys_are_kept_in_few_statements(store_url):
    with opened(store_url) as (store, keeper):
        for first in (0, 1_000):
            write(store, pack(S, first, [Content(key=f"k{number}") for number in range(1_000)]))
            with counted(keeper) as statements:
                keeper.work()
            assert len(statements) < 50, len(statements)
        assert [seq for _, seq in newest(store)] == list(range(1_000, 2_000))


def test_late_deriving_is_told_in_the_log(store_url, monkeypatch, caplog):
    with opened(store_url) as (store, keeper):
        write(store, packet(0))
        monkeypatch.setattr("gossamer.logger.keeper.LATE_S", -1.0)
        keeper.work()
        assert "behind the log: events come faster than they are derived" in caplog.messages[-1]
        write(store, packet(1))
        monkeypatch.setattr("gossamer.logger.keeper.LATE_S", 1e9)
        keeper.work()
        assert caplog.messages[-1] == "the SQL tables have caught up with the log"
