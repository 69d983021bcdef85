"""The purging buffer, told in examples: what is left out, for what, and when."""

import random
from collections import Counter

import pytest

from gossamer.messages.event import Commit, Head, Relation
from gossamer.messages.ids import EventId
from gossamer.protocol.memory import Memory
from gossamer.protocol.purge_index import STREAMS_SLACK
from gossamer.protocol.purging import PurgingBuffer
from machines import S, T

OTHER_GROUP = "other/~c-1.0"


def buffer(events_max=100, bytes_max=10**6, **options):
    return PurgingBuffer(events_max, bytes_max, rng=random.Random(1), **options)


def head(key=None, **options):
    rank, time_ns = options.pop("rank", None), options.pop("time_ns", 0)
    return Head(key, rank, Relation(**options) if options else None, time_ns)


def near(*distances, key=None):
    return head(key, near=sum(1 << (n - 1) for n in distances).to_bytes(32, "little"))


def put(into, *events):
    """Append events of 10 bytes, `(seq, head)` of `S` or `(stream, seq, head)`; what was left out, as text."""
    omitted = []
    for event in events:
        stream, seq, said = event if len(event) == 3 else (S, *event)
        omitted += into.append(stream, seq, said, 10, None)
    return told(omitted)


def told(omitted):
    return [f"{item.entry.seq} {item.reason}" + (f" by {item.by.seq}" if item.by else "") for item in omitted]


def inside(of):
    return [entry.seq for entry in of]


# What obsoletes what ------------------------------------------------------------------------------------------------

PART = {"part": (0, 2)}


@pytest.mark.parametrize(
    ("events", "omitted", "left"),
    [
        pytest.param([(0, head("x")), (1, head("y")), (2, head("x"))], ["0 obsoleted by 2"], [1, 2], id="same key"),
        pytest.param([(0, head("x")), (T, 1, head("x"))], [], [0, 1], id="same key, another publisher"),
        pytest.param([(2, head("x")), (0, head("x"))], ["0 obsoleted by 2"], [2], id="late"),
        pytest.param([(0, head()), (1, head())], [], [0, 1], id="no key"),
        pytest.param([(0, None), (1, head("x")), (2, None)], [], [0, 1, 2], id="no head"),
        pytest.param(
            [(0, head("x", group=True, rank=1)), (T, 1, head("x", group=True, rank=2))],
            ["0 obsoleted by 1"],
            [1],
            id="another publisher of the group, by rank",
        ),
        pytest.param(
            [(T, 1, head("x", group=True, rank=2)), (9, head("x", group=True, rank=1))],
            ["9 obsoleted by 1"],
            [1],
            id="a lower rank comes later",
        ),
        pytest.param(
            [(0, head("x", group=True, time_ns=1)), (OTHER_GROUP, 1, head("x", group=True, time_ns=2))],
            [],
            [0, 1],
            id="another group",
        ),
        pytest.param([(0, head("x", group=True)), (1, head("x"))], [], [0, 1], id="one of the group, one not"),
        pytest.param([(0, head()), (1, head()), (2, near(2))], ["0 obsoleted by 2"], [1, 2], id="named by a bit"),
        pytest.param([(5, near(4)), (1, head())], ["1 obsoleted by 5"], [5], id="named by a bit, and late"),
        pytest.param(
            [(0, head()), (1, head()), (256, near(256)), (257, near(256))],
            ["0 obsoleted by 256", "1 obsoleted by 257"],
            [256, 257],
            id="as far as bits reach",
        ),
        pytest.param([(0, near(9)), (256, near(256))], ["0 obsoleted by 256"], [256], id="all the way at once"),
        pytest.param([(0, near(9)), (255, head()), (256, near(256))], ["0 obsoleted by 256"], [255, 256], id="or not"),
        pytest.param([(0, near(9)), (255, near(9)), (256, near(256))], ["0 obsoleted by 256"], [255, 256], id="named"),
        pytest.param([(0, near(9)), (257, near(256))], [], [0, 257], id="one too far"),
        pytest.param([(0, head()), (999, near(256, 1))], [], [0, 999], id="further than bits reach"),
        pytest.param(
            [(0, head()), (T, 1, head()), (2, head(ids=(EventId(S, 0), EventId(T, 1))))],
            ["0 obsoleted by 2", "1 obsoleted by 2"],
            [2],
            id="named by id",
        ),
        pytest.param([(2, head(ids=(EventId(T, 0),))), (T, 0, head())], ["0 obsoleted by 2"], [2], id="named before"),
        pytest.param([(0, head("x")), (1, near(1, key="x"))], ["0 obsoleted by 1"], [1], id="in two ways, but once"),
        pytest.param(
            [(0, head("x")), (1, head("x", **PART)), (2, head("y", **PART)), (3, head(commit=Commit(2, ("x", "y"))))],
            ["0 obsoleted by 3"],
            [1, 2, 3],
            id="a part waits for its commit",
        ),
        pytest.param(
            [
                (0, head("x", **PART)),
                (1, head("y", **PART)),
                (2, head(commit=Commit(2, ("x", "y")))),
                (3, head("x")),
                (4, head("x", **PART)),
                (5, head(commit=Commit(1, ("x",)))),
            ],
            ["2 obsoleted by 5", "3 obsoleted by 5", "0 obsoleted by 5"],
            [1, 4, 5],
            id="the next transaction",
        ),
        pytest.param(
            [(9, head(commit=Commit(1, ("x",)))), (2, head("x")), (3, head("y")), (8, head("x", **PART))],
            ["2 obsoleted by 9"],
            [9, 3, 8],
            id="a commit before what it covers",
        ),
    ],
)
def test_what_is_obsolete_is_left_out(events, omitted, left):
    eager = buffer()
    assert put(eager, *events) == omitted
    assert inside(eager) == left
    assert (len(eager), eager.bytes) == (len(left), 10 * len(left))
    off = buffer(semantic="off")
    assert put(off, *events) == []
    assert len(off) == len(events)


def test_what_names_nothing_yet_is_found_by_what_names_it_later():
    mixed = buffer()
    assert put(mixed, (0, head("x")), (1, None), (2, head()), (3, head("z", group=True))) == []
    assert put(mixed, (4, near(1, 2, 3, 4))) == ["0 obsoleted by 4", "2 obsoleted by 4", "3 obsoleted by 4"]
    assert inside(mixed) == [1, 4], "what has no head is never obsolete"
    assert put(mixed, (5, head("x"))) == [], "and what is gone is not found again"


# Room ---------------------------------------------------------------------------------------------------------------


def test_a_lazy_buffer_purges_when_there_is_no_room():
    lazy = buffer(3, semantic="lazy")
    assert put(lazy, (0, head("x")), (1, head("x")), (2, head("y"))) == []
    assert inside(lazy) == [0, 1, 2]
    assert put(lazy, (3, head("y"))) == ["0 obsoleted by 1", "2 obsoleted by 3"]
    assert inside(lazy) == [1, 3]


def test_a_lazy_buffer_passes_on_what_is_obsolete_and_forgets_that_it_is():
    lazy = buffer(2, semantic="lazy", overflow="drop-new")
    put(lazy, (0, head("x")), (1, head("x")))
    assert [(entry.seq, entry.by) for entry in lazy.take(1)] == [(0, EventId(S, 1))]
    assert put(lazy, (2, head("y")), (3, head("z"))) == ["3 overflow"]


def test_what_is_obsolete_in_a_lazy_buffer_is_not_made_obsolete_again():
    for come_in in (True, False):
        lazy = buffer(3, semantic="lazy")
        put(lazy, (0, head("x")), (1, head("x")))
        if come_in:
            put(lazy, (2, near(2)))
        else:
            lazy.passing(S, 2, near(2))
            put(lazy, (T, 7, head()))
        assert put(lazy, (3, head())) == ["0 obsoleted by 1"]


def test_a_lazy_buffer_turns_away_what_is_obsolete_already():
    lazy = buffer(semantic="lazy")
    assert put(lazy, (5, head("x")), (3, head("x"))) == ["3 obsoleted by 5"]


def test_what_is_obsolete_goes_before_anything_else():
    for semantic in ("eager", "lazy"):
        full = buffer(3, semantic=semantic)
        put(full, (0, head("x")), (1, head("y")), (2, head("z")))
        assert put(full, (3, head("y"))) == ["1 obsoleted by 3"]
        assert inside(full) == [0, 2, 3]


def test_every_entry_is_as_likely_to_be_thrown_out():
    rng = random.Random(5)
    gone = Counter()
    for _ in range(4_000):
        full = PurgingBuffer(5, rng=rng)
        put(full, *((seq, None) for seq in range(7)))  # two were taken or thrown out before, and left gaps
        full.take(1)
        put(full, (7, None))
        before = inside(full)
        (item,) = full.append(S, 8, None, 10, None)
        assert item.reason == "overflow"
        gone[before.index(item.entry.seq)] += 1
    assert all(700 < times < 900 for times in gone.values()), gone
    assert len(gone) == 5


def test_drop_new_leaves_out_the_arrival_and_purges_nothing_for_it():
    small = buffer(5, 30, overflow="drop-new")
    put(small, (0, head("x")), (1, head("y")), (2, head("z")))
    assert told(small.append(S, 3, head("x"), 25, None)) == ["3 overflow"]
    assert inside(small) == [0, 1, 2]
    assert told(small.append(S, 3, head("x"), 10, None)) == ["0 obsoleted by 3"]


def test_refuse_hands_the_arrival_back_and_leaves_everything_as_it_was():
    small = buffer(2, overflow="refuse")
    put(small, (0, head("x")), (1, head("y")))
    assert small.full
    omitted = small.extend(S, [(2, head("x"), 10, "a"), (3, head("z"), 10, "b"), (4, head("y"), 10, "c")])
    assert told(omitted) == ["0 obsoleted by 2", "3 refused"], "and what follows was not looked at"
    assert omitted[-1].entry.payload == "b"
    assert inside(small) == [1, 2]


@pytest.mark.parametrize("overflow", ["random", "drop-new", "refuse"])
def test_an_event_larger_than_the_buffer_has_it_to_itself(overflow):
    small = buffer(5, 30, overflow=overflow)
    assert not small.append(S, 0, head(), 100, None)
    assert (len(small), small.bytes, small.full) == (1, 100, True)
    small.take(1)
    put(small, (1, head("x")), (2, head("y")))
    (left_out,) = small.append(S, 3, head("x"), 100, None)
    assert (left_out.entry.seq, left_out.by) == (3, None)
    assert inside(small) == [1, 2], "nobody is thrown out for it"
    small.take(1, 0)
    assert told(small.append(S, 3, head("y"), 100, None)) == ["2 obsoleted by 3"]


def test_a_run_may_begin_with_keys_and_go_on_with_names():
    queue = buffer()
    put(queue, (0, head("x")))
    said = [head("x"), head(), near(1), head("x"), near(1)]
    assert told(queue.extend(S, [(seq, one, 10, None) for seq, one in enumerate(said, 1)])) == [
        "0 obsoleted by 1",
        "2 obsoleted by 3",
        "1 obsoleted by 4",
        "4 obsoleted by 5",
    ]


def test_an_event_that_is_put_in_twice_is_in_twice():
    queue = buffer()
    assert put(queue, (0, head("x")), (0, head("x")), (1, None)) == []
    assert inside(queue) == [0, 0, 1]
    assert len(queue.take(9)) == 3


# Passing by, taking, clearing ---------------------------------------------------------------------------------------


def test_an_event_that_passes_by_purges_and_does_not_come_in():
    for semantic, omitted, left in (("eager", ["0 obsoleted by 2"], [1]), ("lazy", [], [0, 1]), ("off", [], [0, 1])):
        link = buffer(semantic=semantic)
        put(link, (0, head("x")), (1, head("y")))
        assert told(link.passing(S, 2, head("x"))) == omitted
        assert inside(link) == left
        assert link.passing(S, 3, None) == ()
    link = buffer()
    put(link, (0, head()), (1, head()))
    assert told(link.passing(S, 2, near(1))) == ["1 obsoleted by 2"]


@pytest.mark.parametrize(
    ("events_max", "bytes_max", "taken"),
    [(2, 1_000, [0, 2]), (9, 29, [0, 2]), (9, 30, [0, 2, 3]), (1, 0, [0]), (0, 1_000, [])],
)
def test_what_is_taken(events_max, bytes_max, taken):
    queue = buffer()
    put(queue, (0, head()), (1, head("x")), (2, head()), (3, head("x")))
    assert queue.peek().seq == 0
    assert [entry.seq for entry in queue.take(events_max, bytes_max)] == taken
    assert inside(queue) == [0, 2, 3][len(taken) :]
    assert queue.bytes == 10 * len(queue)


def test_what_was_taken_obsoletes_nothing_unless_it_is_remembered():
    for memory, omitted in ((None, []), (Memory(), ["9 obsoleted by 1"])):
        queue = buffer(memory=memory)
        put(queue, (T, 1, head("x", group=True, rank=2)))
        queue.take(1)
        assert put(queue, (9, head("x", group=True, rank=1))) == omitted
        assert put(queue, (10, head("y", group=True, rank=1))) == []


def test_clear():
    queue = buffer()
    put(queue, (0, head("x")), (1, near(5)), (2, head("g", group=True)))
    queue.clear()
    assert (len(queue), queue.bytes, queue.peek(), queue.take(9)) == (0, 0, None, [])
    assert put(queue, (3, head("x")), (4, head("g", group=True))) == []


# What is left behind ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("semantic", ["eager", "lazy"])
@pytest.mark.parametrize("said", [head("x"), near(1), head("x", group=True), head(ids=(EventId(T, 7),))])
def test_neither_purging_nor_reading_leaves_anything_behind(semantic, said):
    queue = buffer(50, semantic=semantic)
    for seq in range(5_000):
        put(queue, (seq, said), (f"default/~{seq}-1.0", 0, head("y")))
        if seq % 2:
            queue.take(1)
    index = queue._index
    assert len(queue._queue) < 1_000
    assert len(queue._marked) < 500
    assert len(index.streams) < 500
    queue.take(100)
    assert not index.groups
    assert not index.named
    assert not any(state.tags or state.seqs or state.parts for state in index.streams.values())


def test_a_stream_that_is_gone_is_forgotten_sooner_or_later():
    queue = buffer()
    for number in range(100 * STREAMS_SLACK):
        put(queue, (f"default/~{number}-1.0", 0, head("y")))
        queue.take(1)
    assert len(queue._index.streams) <= 2 * STREAMS_SLACK


def test_a_stream_without_keys_is_not_forgotten_while_something_of_it_is_inside():
    queue = buffer(10**4)
    put(queue, (0, near(1)))
    put(queue, *((f"default/~{number}-1.0", 0, head("y")) for number in range(10 * STREAMS_SLACK)))
    assert put(queue, (1, near(1))) == ["0 obsoleted by 1"]


# Memory -------------------------------------------------------------------------------------------------------------


def test_memory_of_an_ordered_reader_is_of_other_streams():
    memory = Memory()
    memory.passed(S, 5, head("x"))
    memory.passed(S, 6, head(ids=(EventId(S, 2), EventId(T, 3)), near=b"\xff"))
    assert len(memory) == 1
    assert memory.obsoleter(T, 3, head()) == EventId(S, 6)
    assert memory.obsoleter(S, 2, head()) is None


@pytest.mark.parametrize(
    ("seq", "said", "by"),
    [
        (4, head("x"), 5),
        (6, head("x"), None),
        (4, head("x", **PART), None),
        (4, head(), None),
        (8, head(), 9),
        (7, head(), None),
        (10, head("y"), 20),
        (19, head("y"), None),
        (10, head("y", **PART), 20),
        (19, head(commit=Commit(0)), 20),
        (21, head(commit=Commit(0)), None),
    ],
)
def test_memory_of_a_reader_without_order(seq, said, by):
    memory = Memory(fifo=False)
    memory.passed(S, 5, head("x"))
    memory.passed(S, 9, near(1))
    memory.passed(S, 20, head(commit=Commit(2, ("y",))))
    memory.passed(S, 3, head("x"))
    assert memory.obsoleter(S, seq, said) == (None if by is None else EventId(S, by))
    assert memory.obsoleter(T, seq, said) is None


def test_memory_forgets_what_it_has_not_heard_of_for_longest_and_counts_it():
    memory = Memory(keys_max=2, ids_max=1)
    for number, key in enumerate("xyxz"):
        memory.passed(S, number, head(key, group=True, rank=number))
    assert [memory.obsoleter(T, 0, head(key, group=True, rank=-1)) is None for key in "xyz"] == [False, True, False]
    assert memory.forgotten == 1
    memory.passed(S, 9, head(ids=(EventId(T, 1), EventId(T, 2))))
    assert memory.obsoleter(T, 1, head()) is None
    assert memory.obsoleter(T, 2, head()) == EventId(S, 9)
    assert (len(memory), memory.forgotten) == (3, 2)


def test_memory_keeps_the_highest_not_the_last():
    memory = Memory()
    memory.passed(S, 0, head("x", group=True, rank=5))
    memory.passed(S, 1, head("x", group=True, rank=2))
    assert memory.obsoleter(T, 0, head("x", group=True, rank=3)) == EventId(S, 0)
