"""What it costs to purge: nothing by the size of the buffer (000 §5.2.2, 003 §3.1).

An event comes into a buffer that is full, and what it obsoletes leaves: by its key, with as many keys as the buffer has
room for; or by a bitmap, naming what an earlier one with the same key left. The same with a reader that takes now and
then, and the same by looking at every event inside, which is what the definition says. Heads are decoded from packets,
as they are in use: neither they nor their keys have been seen before.
"""

import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.messages.event import REACH_MAX, Content, Head, Relation
from gossamer.messages.ids import EventId, anonymous_stream
from gossamer.messages.packet import EVENTS_MAX, pack
from gossamer.protocol.obsolescence import Told, obsoletes
from gossamer.protocol.purging import PurgingBuffer

NAME = "purging"
STREAM = anonymous_stream("default", "b-1", 0)
SIZE = 100
NAMING_KEYS = 32
"""Few enough that the event before of the same key is nearly always within reach of a bitmap."""
READ_EVERY = 64
READ = 16

Run = list[tuple[int, Head, int, None]]


class Workload:
    """Heads of one publisher's events, without end."""

    def __init__(self, buffer_events: int, naming: bool) -> None:
        self._rng = random.Random(1)
        self._naming = naming
        self._next = 0
        self._used: dict[str, list[int]] = {}
        keys = [f"sensor-{number}" for number in range(buffer_events)]
        self._keys = keys[:NAMING_KEYS] if naming else keys
        self.fill = self._run([Content(None if naming else key) for key in keys])

    def run(self, events: int) -> Run:
        keys = self._rng.choices(self._keys, k=events)
        if not self._naming:
            return self._run([Content(key) for key in keys])
        return self._run([Content(relation=self._named(seq, key)) for seq, key in enumerate(keys, self._next)])

    def _named(self, seq: int, key: str) -> Relation:
        # All within reach, and not only the last: the publisher adds what the named ones named.
        seqs = [before for before in self._used.get(key, ()) if seq - before <= REACH_MAX]
        near = sum(1 << (seq - before - 1) for before in seqs)
        self._used[key] = [*seqs, seq]
        return Relation(near=near.to_bytes((near.bit_length() + 7) // 8, "little"))

    def _run(self, contents: Sequence[Content]) -> Run:
        heads: list[Head] = []
        for at in range(0, len(contents), EVENTS_MAX):
            heads += [head for _, head in pack(STREAM, 0, contents[at : at + EVENTS_MAX]).heads()]
        first, self._next = self._next, self._next + len(heads)
        return [(seq, head, SIZE, None) for seq, head in enumerate(heads, first)]


class Indexed:
    """The buffer as it is."""

    def __init__(self, buffer_events: int, naming: bool) -> None:
        self._workload = Workload(buffer_events, naming)
        self.buffer = PurgingBuffer(buffer_events, rng=random.Random(2))
        self.buffer.extend(STREAM, self._workload.fill)

    def one_by_one(self, events: int) -> float:
        """µs an event."""
        run, append = self._workload.run(events), self.buffer.append
        start_s = time.process_time()
        for seq, head, size, payload in run:
            append(STREAM, seq, head, size, payload)
        return (time.process_time() - start_s) * 1e6 / events

    def in_runs(self, events: int) -> float:
        """µs an event, as it comes out of a packet."""
        run, extend = self._workload.run(events), self.buffer.extend
        runs = [run[at : at + READ_EVERY] for at in range(0, events, READ_EVERY)]
        start_s = time.process_time()
        for part in runs:
            extend(STREAM, part)
        return (time.process_time() - start_s) * 1e6 / events

    def read(self, events: int) -> float:
        """µs an event, of which a reader takes a quarter."""
        run, extend, take = self._workload.run(events), self.buffer.extend, self.buffer.take
        runs = [run[at : at + READ_EVERY] for at in range(0, events, READ_EVERY)]
        start_s = time.process_time()
        for part in runs:
            extend(STREAM, part)
            take(READ)
        return (time.process_time() - start_s) * 1e6 / events


class Scanned:
    """A list that is looked through for each arrival."""

    def __init__(self, buffer_events: int) -> None:
        self._workload = Workload(buffer_events, False)
        self.inside = [Told(EventId(STREAM, seq), head) for seq, head, _, _ in self._workload.fill]

    def run(self, events: int) -> float:
        """µs an event."""
        arrivals = [Told(EventId(STREAM, seq), head) for seq, head, _, _ in self._workload.run(events)]
        start_s = time.process_time()
        for arrival in arrivals:
            self.inside = [held for held in self.inside if not obsoletes(arrival, held)]
            self.inside.append(arrival)
        return (time.process_time() - start_s) * 1e6 / events


def rows(quick: bool = False) -> list[Row]:
    sizes = (10, 100) if quick else (10, 1_000, 100_000)
    scanned = sizes[:-1]
    # As many as the largest holds: the gaps in its queue are closed that often, and that is part of the cost.
    events, scans, repetitions = (200, 20, 2) if quick else (100_000, 50, 7)
    keyed = {size: Indexed(size, False) for size in sizes}
    read = {size: Indexed(size, False) for size in sizes}
    naming = {size: Indexed(size, True) for size in sizes}
    cases: dict[tuple[str, int], Callable[[], float]] = {
        **{("keyed", size): partial(buffer.one_by_one, events) for size, buffer in keyed.items()},
        **{("runs", size): partial(buffer.in_runs, events) for size, buffer in keyed.items()},
        **{("read", size): partial(buffer.read, events) for size, buffer in read.items()},
        **{("named", size): partial(buffer.one_by_one, events) for size, buffer in naming.items()},
        **{("scan", size): partial(Scanned(size).run, scans) for size in scanned},
    }
    with measure.undisturbed():
        costs = {case: min(each) for case, each in measure.take_turns(cases, repetitions).items()}
    result = []
    for what, told in (
        ("keyed", "one key, one by one"),
        ("runs", f"one key, in runs of {READ_EVERY}"),
        ("read", f"one key, and {READ} of {READ_EVERY} taken"),
    ):
        result += [Row(NAME, f"{told}, {size:,} inside", costs[what, size], "µs an event", 1.5) for size in sizes]
        each = [costs[what, size] for size in sizes]
        result.append(Row(NAME, f"{told}, the dearest size against the cheapest", max(each) / min(each), "×", 3))
    for size in sizes:
        result.append(Row(NAME, f"a bitmap, {size:,} inside", costs["named", size], "µs an event"))
        ratio = costs["named", size] / costs["keyed", size]
        result.append(Row(NAME, f"a bitmap against a key, {size:,} inside", ratio, "×", 2))
    for size in scanned:
        result.append(Row(NAME, f"looking through {size:,}", costs["scan", size], "µs an event"))
        result.append(
            Row(NAME, f"looking through {size:,} against the index", costs["scan", size] / costs["keyed", size], "×")
        )
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
