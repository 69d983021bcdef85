"""What idle streams cost: nothing by the stream (rpbcast §5.1).

One change to the table of heartbeats, and finding the one entry in which two members differ, among few idle streams and
among many; and what a stream that came, published, ended and was retired leaves behind.
"""

import gc
import random
import resource
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, cycle, islice

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.messages.event import Content
from gossamer.messages.ids import StreamId, anonymous_stream
from gossamer.messages.packet import pack
from gossamer.messages.wire import Beat, Data, Gossip, Idle, Member, Retire
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Persist, Send
from gossamer.protocol.inputs import Close, Input, Persisted, Publish, Received, Start, Wake
from gossamer.protocol.node import Node

NAME = "signatures"
CONTENT = (Content(body=b"0123456789abcdef"),)
BATCH = 500
FLAT = 8
"""A trace of each stream would take a hundred at least; less than this is the noise of what is measured."""


class Mesh:
    """Members that know each other from the start and talk without delay or loss: nothing but `Node.handle`."""

    def __init__(self, *names: str, logger: str | None = None, config: Config | None = None) -> None:
        names += () if logger is None else (logger,)
        roster = tuple(Member(name, "member", 1, name == logger) for name in names)
        self.nodes = {
            name: Node(name, config or Config(), random.Random(1), logger=name == logger, roster=roster)
            for name in names
        }
        self.now = 0.0
        for name in names:
            self.tell(name, Start())

    def tell(self, name: str, given: Input) -> None:
        """Hand an input to a node, and everything that follows from it to whom it concerns."""
        todo: deque[tuple[str, Input]] = deque([(name, given)])
        while todo:
            name, given = todo.popleft()
            for effect in self.nodes[name].handle(given, self.now):
                if isinstance(effect, Send):
                    todo.extend((to, Received(name, effect.message)) for to in effect.to if to in self.nodes)
                elif isinstance(effect, Persist):
                    todo.append((name, Persisted(effect.token)))

    def run(self, duration_s: float) -> None:
        until = self.now + duration_s
        while (due := min(node.next_deadline() for node in self.nodes.values())) <= until:
            self.now = max(self.now, due)
            for name, node in self.nodes.items():
                if node.next_deadline() <= self.now:
                    self.tell(name, Wake())
        self.now = until


# One change ---------------------------------------------------------------------------------------------------------


class Updates:
    """A table of idle streams in which one after another changes."""

    def __init__(self, streams: int) -> None:
        names = [_name(number) for number in range(streams)]
        self._table = Node("me", Config(), random.Random(1)).heartbeats.table
        for name in names:
            self._table.set(name, Beat(name, 0))
        random.Random(2).shuffle(names)  # neighbours in the table are not neighbours in memory
        self._beats = cycle([Beat(name, last) for last in (1, 2) for name in names])

    def run(self, updates: int) -> float:
        """µs for a change and a look at the root."""
        beats = list(islice(self._beats, updates))
        table, theirs = self._table, self._table.root
        agreed = 0
        start_s = time.process_time()
        for beat in beats:
            table.set(beat.stream, beat)
            agreed += table.root == theirs
        spent_s = time.process_time() - start_s
        assert not agreed
        return spent_s * 1e6 / updates


class Exchange:
    """Two members that know the same idle streams, until one of them hears of one more."""

    def __init__(self, streams: int) -> None:
        self._mesh = Mesh("a", "b")
        for at in range(0, streams, 1_000):
            beats = tuple(Beat(_name(number), -1) for number in range(at, min(at + 1_000, streams)))
            for name in "ab":
                self._mesh.tell(name, Received("c", Idle(beats)))
        self._next = streams

    def run(self) -> float:
        """µs from the gossip that shows the difference until there is none."""
        name = _name(self._next)
        self._next += 1
        a, b = self._mesh.nodes.values()
        for node in "ab":
            self._mesh.tell(node, Received("c", Data("c", pack(name, 0, CONTENT))))
        self._mesh.tell("a", Received("c", Idle((Beat(name, 0),))))
        assert a.heartbeats.table.root != b.heartbeats.table.root
        gossip = Gossip(1, (), a.heartbeats.table.root, a.membership.table.root)
        start_s = time.process_time()
        self._mesh.tell("b", Received("a", gossip))
        spent_s = time.process_time() - start_s
        assert a.heartbeats.table.root == b.heartbeats.table.root
        return spent_s * 1e6


# A million of them --------------------------------------------------------------------------------------------------


def leaves_in_a_mesh(streams: int) -> float:
    """Bytes that a stream leaves behind on three nodes together, from its first event to its retirement."""
    mesh = Mesh("a", "b", logger="l", config=Config(retain_s=5.0))
    numbers = count()

    def live(how_many: int) -> None:
        for _ in range(how_many // BATCH):
            for _ in range(BATCH):
                name = _name(next(numbers))
                mesh.tell("a", Publish(name, CONTENT))
                mesh.tell("a", Close(name))
            mesh.run(1.0)
        mesh.run(30.0)  # acknowledged, retired, and past its retention
        for node in mesh.nodes.values():
            assert not node.heartbeats.ended, "not retired"
            assert not node.receiver.streams

    tracemalloc.start()
    try:
        live(streams)  # so that every dictionary has its size
        before = _traced_bytes()
        live(streams)
        return (_traced_bytes() - before) / streams
    finally:
        tracemalloc.stop()


def leaves_at_a_member(streams: int) -> float:
    """Bytes of memory that a stream leaves behind at a member that received it, heard that it ended, and retired it."""
    mesh = Mesh("a", "b")
    numbers = count()

    def live(how_many: int) -> None:
        for _ in range(how_many // BATCH):
            names = [_name(next(numbers)) for _ in range(BATCH)]
            for name in names:
                mesh.tell("a", Received("b", Data("b", pack(name, 0, CONTENT))))
            mesh.tell("a", Received("b", Idle(tuple(Beat(name, 0, True) for name in names))))
            mesh.tell("a", Received("b", Retire(tuple(names))))
            mesh.run(0.25)
        assert not mesh.nodes["a"].receiver.streams

    live(max(BATCH, streams // 10))  # for longer than the gossip buffer remembers
    before = _resident_bytes()
    live(streams)
    return (_resident_bytes() - before) / streams


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize()


def _name(number: int) -> StreamId:
    return anonymous_stream("default", "b-1", number)


def rows(quick: bool = False) -> list[Row]:
    sizes = (100, 1_000) if quick else (1_000, 100_000)
    updates, repetitions = (100, 2) if quick else (1_000, 30)
    in_a_mesh, at_a_member = (BATCH, 2 * BATCH) if quick else (20_000, 1_000_000)

    tables, exchanges = {size: Updates(size) for size in sizes}, {size: Exchange(size) for size in sizes}
    cases: dict[tuple[str, int], Callable[[], float]] = {
        **{("update", size): partial(table.run, updates) for size, table in tables.items()},
        **{("exchange", size): exchange.run for size, exchange in exchanges.items()},
    }
    with measure.undisturbed():
        costs = {case: min(each) for case, each in measure.take_turns(cases, repetitions).items()}
    few, many = sizes
    result = []
    for what, told in (("update", "one change and comparison"), ("exchange", "finding one entry that differs")):
        result += [Row(NAME, f"{told}, {size:,} idle streams", costs[what, size], "µs") for size in sizes]
        result.append(Row(NAME, f"{told}, {many:,} against {few:,}", costs[what, many] / costs[what, few], "×", 2))
    left = {
        f"in three nodes by {in_a_mesh:,}": leaves_in_a_mesh(in_a_mesh),
        f"at a member by {at_a_member:,}": leaves_at_a_member(at_a_member),
    }
    result += [Row(NAME, f"left {told} retired streams", each, "bytes a stream", FLAT) for told, each in left.items()]
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
