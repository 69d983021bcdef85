"""Indexed purging is purging by definition: every step of a buffer agrees with a list that is looked through."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages.event import Commit, Head, Relation
from gossamer.messages.ids import EventId
from gossamer.protocol.memory import Memory
from gossamer.protocol.obsolescence import Told, obsoletes
from gossamer.protocol.purging import Entry, Omitted, PurgingBuffer

STREAMS = ["g/a", "g/b", "h/a"]
SEQS = [*range(12), 250, 255, 256, 257, 258, 259, 300, 511, 512, 600]
"""Most are near one another, and some just within and just beyond the reach of a bitmap."""
KEYS = ["x", "y", "z"]

ids = st.builds(EventId, st.sampled_from(STREAMS), st.sampled_from(SEQS))
keys = st.none() | st.sampled_from(KEYS)
nears = st.just(b"") | st.binary(max_size=2) | st.binary(min_size=32, max_size=32) | st.just(b"\xff" * 32)
commits = st.builds(Commit, st.integers(0, 4), st.lists(st.sampled_from(KEYS), max_size=3).map(tuple))
relations = st.one_of(
    st.none(),
    st.just(Relation(group=True)),
    st.builds(
        Relation,
        near=nears,
        ids=st.lists(ids, max_size=4).map(tuple),
        part=st.none() | st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
        commit=st.none() | st.none() | commits,
    ),
)
heads = st.builds(Head, keys, st.none() | st.integers(0, 3) | st.floats(0, 3), relations, st.integers(0, 3))


class Arrival(NamedTuple):
    id: EventId
    head: Head | None
    size: int

    @property
    def told(self) -> Told:
        return Told(self.id, self.head or Head())


@st.composite
def histories(draw: st.DrawFn) -> list[tuple]:
    """Arrivals, each id once and mostly in order, with events that pass by and takes in between."""
    events = draw(st.lists(ids, unique=True, max_size=30))
    if draw(st.booleans()):
        events.sort(key=lambda id: id.seq)
        for _ in range(draw(st.integers(0, 3)) if events else 0):
            events.append(events.pop(draw(st.integers(0, len(events) - 1))))
    takes = st.tuples(st.integers(0, 4), st.integers(0, 40))
    steps: list[tuple] = []
    for id in events:
        arrival = Arrival(id, draw(heads if draw(st.integers(0, 9)) else st.none()), draw(st.integers(0, 12)))
        steps.append((draw(st.sampled_from(["append"] * 6 + ["passing"])), arrival))
        if draw(st.integers(0, 4)) == 0:
            steps.append(("take", draw(takes)))
    return steps


def long_history(rng: random.Random) -> Iterator[tuple]:
    """Drawn by an ordinary generator: Hypothesis prefers short ones, in which few events meet."""
    every = [EventId(stream, seq) for stream in STREAMS for seq in (*SEQS, *range(12, 60))]
    every.sort(key=lambda id: id.seq + rng.expovariate(1) * rng.choice([0, 0, 3, 300]))
    kinds = rng.sample(["plain", "group", "near", "ids", "part", "commit", "any"], rng.randint(1, 7))
    readers = rng.choice([0, 0.1, 0.5])
    for id in every:
        relation = relation_of(rng, rng.choice(kinds))
        rank = rng.choice([None, rng.randint(0, 9), rng.random() * 9])
        head = Head(rng.choice([None, *KEYS, *KEYS]), rank, relation, rng.randint(0, 9))
        yield (
            "append" if rng.random() < 0.9 else "passing",
            Arrival(id, head if rng.random() < 0.95 else None, rng.randint(0, 12)),
        )
        if rng.random() < readers:
            yield "take", (rng.randint(0, 4), rng.randint(0, 40))


def relation_of(rng: random.Random, kind: str) -> Relation | None:
    if kind in ("plain", "group"):
        return None if kind == "plain" else Relation(group=True)
    chance = 0.4 if kind == "any" else 0.0
    some = {what: kind == what or rng.random() < chance for what in ("near", "ids", "part", "commit")}
    near = rng.choice([rng.randbytes(32), b"\xff" * 32, rng.randbytes(1), b"\1", b"\2"])
    return Relation(
        near=near if some["near"] else b"",
        ids=tuple(EventId(rng.choice(STREAMS), rng.randrange(60)) for _ in range(some["ids"] * rng.randint(1, 4))),
        part=(0, 1) if some["part"] else None,
        commit=Commit(rng.randint(0, 4), tuple(rng.choices(KEYS, k=rng.randint(0, 3)))) if some["commit"] else None,
    )


class Naive:
    """The definition: everything inside is looked at, one by one."""

    def __init__(self, events_max: int, bytes_max: int, semantic: str, overflow: str) -> None:
        self.events_max, self.bytes_max, self.semantic, self.overflow = events_max, bytes_max, semantic, overflow
        self.inside: list[Arrival] = []
        self.marked: dict[EventId, EventId] = {}

    @property
    def bytes(self) -> int:
        return sum(arrival.size for arrival in self.inside)

    def current(self) -> list[Arrival]:
        if self.semantic == "off":
            return []
        return [held for held in self.inside if held.head is not None and held.id not in self.marked]

    def obsoleters(self, arrival: Arrival) -> set[EventId]:
        if arrival.head is None:
            return set()
        return {held.id for held in self.current() if obsoletes(held.told, arrival.told)}

    def obsoleted(self, arrival: Arrival) -> set[EventId]:
        if arrival.head is None:
            return set()
        return {held.id for held in self.current() if obsoletes(arrival.told, held.told)}

    def fits(self, size: int, without: set[EventId]) -> bool:
        rest = [held.size for held in self.inside if held.id not in without]
        return not rest or (len(rest) < self.events_max and sum(rest) + size <= self.bytes_max)

    def drop(self, gone: set[EventId]) -> None:
        self.inside = [held for held in self.inside if held.id not in gone]
        for id in gone:
            self.marked.pop(id, None)

    def append(self, arrival: Arrival, omitted: list[Omitted]) -> None:
        """Check what a buffer says it left out for an arrival, and do likewise."""
        told = {(item.entry.stream, item.entry.seq): item for item in omitted}
        assert len(told) == len(omitted), "left out twice"
        itself = told.pop(arrival.id, None)
        if obsoleters := self.obsoleters(arrival):
            assert itself is not None
            assert itself.by in obsoleters
            assert not told
            return
        victims = self.obsoleted(arrival)
        expected: dict[EventId, EventId | None] = {}
        if not self.fits(arrival.size, set()):
            expected |= self.marked
        full = not self.fits(arrival.size, set(expected))
        lost = not self.fits(arrival.size, set(expected) | victims)
        if lost and (self.overflow != "random" or arrival.size > self.bytes_max):
            assert itself == Omitted(itself.entry, None, self.overflow == "refuse")
            assert {id: item.by for id, item in told.items()} == expected
            self.drop(set(expected))
            return
        assert itself is None
        if self.semantic == "eager" or not self.fits(arrival.size, set()):
            expected |= dict.fromkeys(victims, arrival.id)
        else:
            self.marked |= dict.fromkeys(victims, arrival.id)
        assert {id: item.by for id, item in told.items() if item.reason == "obsoleted"} == expected
        evicted = [id for id, item in told.items() if item.reason == "overflow"]
        assert bool(evicted) == lost
        assert full or not evicted
        for id in evicted:  # no more than it takes
            assert not self.fits(arrival.size, set(expected))
            expected[id] = None
        assert self.fits(arrival.size, set(expected))
        self.drop(set(expected))
        self.inside.append(arrival)

    def passing(self, arrival: Arrival, omitted: list[Omitted]) -> None:
        victims = self.obsoleted(arrival)
        if self.semantic == "lazy":
            self.marked |= dict.fromkeys(victims, arrival.id)
            victims = set()
        assert {item.entry.id: item.by for item in omitted} == dict.fromkeys(victims, arrival.id)
        self.drop(victims)

    def take(self, events_max: int, bytes_max: int, taken: list[Entry]) -> None:
        expected: list[Arrival] = []
        for held in self.inside[:events_max]:
            if expected and sum(one.size for one in expected) + held.size > bytes_max:
                break
            expected.append(held)
        assert [entry.id for entry in taken] == [held.id for held in expected]
        self.drop({held.id for held in expected})


policies = st.tuples(st.sampled_from(["eager", "lazy", "off"]), st.sampled_from(["random", "drop-new", "refuse"]))


@given(histories(), policies, st.integers(1, 20), st.integers(5, 100))
def test_every_step_agrees_with_the_definition(steps, policy, events_max, bytes_max):
    agree(steps, policy, events_max, bytes_max)


@settings(max_examples=250)
@given(st.integers(0, 2**32), policies)
def test_so_do_long_histories(seed, policy):
    rng = random.Random(seed)
    agree(list(long_history(rng)), policy, rng.choice([3, 10, 40]), rng.choice([20, 100, 1_000]))


@settings(max_examples=100)
@given(st.integers(0, 2**32), policies)
def test_a_run_is_as_good_as_one_by_one(seed, policy):
    rng = random.Random(seed)
    semantic, overflow = policy
    limits = rng.choice([3, 10, 40]), rng.choice([20, 100, 1_000])
    runs, single = (
        PurgingBuffer(*limits, semantic=semantic, overflow=overflow, rng=random.Random(1)) for _ in range(2)
    )
    arrivals = [about for what, about in long_history(rng) if what == "append"]
    for stream in STREAMS:
        run = [(one.id.seq, one.head, one.size, one) for one in arrivals if one.id.stream == stream]
        for at in range(0, len(run), 8):
            expected = []
            for item in run[at : at + 8]:
                expected += single.append(stream, *item)
                if expected and expected[-1].refused:
                    break
            told = runs.extend(stream, run[at : at + 8])
            assert [shown(item) for item in told] == [shown(item) for item in expected]
            assert [entry.payload for entry in runs] == [entry.payload for entry in single]
            assert (len(runs), runs.bytes) == (len(single), single.bytes)
            if rng.random() < 0.5:
                assert [entry.id for entry in runs.take(2)] == [entry.id for entry in single.take(2)]


def shown(item: Omitted) -> tuple:
    return item.entry.id, item.by, item.reason


@settings(max_examples=100)
@given(st.integers(0, 2**32), policies)
def test_every_event_ends_once_and_is_explained(seed, policy):
    """Told apart from `Naive`: by what goes in and comes out alone."""
    rng = random.Random(seed)
    semantic, overflow = policy
    buffer = PurgingBuffer(rng.choice([3, 10, 40]), 100, semantic=semantic, overflow=overflow, rng=random.Random(1))
    known: dict[EventId, Arrival] = {}
    appended, ended, read = [], [], []
    for what, about in long_history(rng):
        omitted: Sequence[Omitted] = ()
        if what == "take":
            read += [entry.id for entry in buffer.take(*about)]
        elif what == "append":
            known[about.id] = about
            appended.append(about.id)
            omitted = buffer.append(*about.id, about.head, about.size, None)
        else:
            known[about.id] = about
            omitted = buffer.passing(*about.id, about.head)
        for item in omitted:
            ended.append(item.entry.id)
            if item.by is not None:
                assert semantic != "off"
                assert obsoletes(known[item.by].told, known[item.entry.id].told)
            else:
                assert item.refused == (overflow == "refuse")
                assert (item.entry.id == about.id) or overflow == "random"
    inside = [entry.id for entry in buffer]
    assert sorted([*ended, *read, *inside]) == sorted(appended)
    came = {id: at for at, id in enumerate(appended)}
    assert [came[id] for id in [*read, *inside]] == sorted(came[id] for id in [*read, *inside]), "arrival order"


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.booleans())
def test_a_memory_tells_what_obsoletes_of_what_was_passed_on(seed, fifo):
    rng = random.Random(seed)
    memory = Memory(fifo=fifo)
    passed: list[Told] = []
    for what, about in long_history(rng):
        if what == "take" or about.head is None:
            continue
        told = about.told
        obsoleters = {one.id for one in passed if obsoletes(one, told)}
        by = memory.obsoleter(*told.id, told.head)
        if fifo:  # what is late in its own stream does not happen
            elsewhere = {id for id in obsoleters if id.stream != told.id.stream}
            assert by in obsoleters if elsewhere else by is None or by in obsoleters
        else:
            assert (by in obsoleters) if obsoleters else by is None
        memory.passed(*told.id, told.head)
        passed.append(told)


def agree(steps, policy, events_max, bytes_max):
    semantic, overflow = policy
    buffer = PurgingBuffer(events_max, bytes_max, semantic=semantic, overflow=overflow, rng=random.Random(1))
    naive = Naive(events_max, bytes_max, semantic, overflow)
    for what, about in steps:
        if what == "append":
            naive.append(about, buffer.append(*about.id, about.head, about.size, about))
        elif what == "passing":
            naive.passing(about, buffer.passing(*about.id, about.head))
        else:
            naive.take(*about, buffer.take(*about))
        assert [entry.payload for entry in buffer] == naive.inside
        assert (len(buffer), buffer.bytes) == (len(naive.inside), naive.bytes)
        assert len(buffer) <= events_max
        assert buffer.bytes <= bytes_max or len(buffer) == 1
