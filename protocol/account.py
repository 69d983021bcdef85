"""The account of one subscription at its broker: the events that it is not sent, counted when its position passes them.

A client that changes brokers resumes at its position, and the next broker decides anew about all events behind that. So
an event must be in a counter if it stands before the position, and in none if it stands behind it:

    queue                  position   obsolete        counted
    a:1 x   a:2 y             -                       0
    a:2 y   a:4 x             -       a:1 a:3         0
    a:4 x                    a:2      a:1 a:3         1: a:1 stands before the position, a:3 behind it
    (empty)                  a:4      a:1 a:3         2

Events wait here by stream and seq until the broker sends an event behind them.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from gossamer.messages.ids import EventId, StreamId

PENDING_MAX = 4_096


class Totals(NamedTuple):
    """Events that a subscription was not sent."""

    obsoleted: int = 0
    lost: int = 0
    unseen: int = 0
    """Purged on a link before the broker saw them: whether they match is not known."""

    def plus(self, other: "Totals") -> "Totals":
        return Totals(self[0] + other[0], self[1] + other[1], self[2] + other[2])


OBSOLETE, LOST = Totals(1), Totals(0, 1)


class _Came(NamedTuple):
    """Events of a conflated queue: so many, the last with the seq `last`."""

    last: int
    events: int
    seqs: Sequence[int] | None
    """None if only the last of them waits: the position is before or behind all of them."""


class Account:
    """Totals of the events before the position, and the events behind it."""

    __slots__ = ("_came", "_came_max", "_came_size", "_pending_max", "_size", "_waiting", "begin", "pending", "totals")

    def __init__(self, waiting: Callable[[], Iterable[EventId]]) -> None:
        """`waiting` lists the events in the queue. Positions lie on these, so that events between two can be merged."""
        self._waiting = waiting
        self.begin: Mapping[StreamId, int] = {}
        """The position at which the session began: events before it were counted by other brokers."""
        self.totals = Totals()
        """Events before the position."""
        self.pending: dict[StreamId, list[tuple[int, Totals]]] = {}
        """Events behind the position: a heap by seq for each stream."""
        self._size = 0
        self._pending_max = PENDING_MAX
        self._came: dict[StreamId, deque[_Came]] = {}
        """All events of a conflated queue, ascending. Those that are not taken from it are obsolete."""
        self._came_size = 0
        self._came_max = PENDING_MAX

    def put(self, stream: StreamId, seq: int, totals: Totals) -> None:
        """Count these as soon as the position is at `seq` or behind it."""
        if self.begin and seq <= self.begin.get(stream, -1):
            return
        heappush(self.pending.setdefault(stream, []), (seq, totals))
        self._size += 1
        if self._size >= self._pending_max:
            self._merge()

    def lose(self, stream: StreamId, first: int, last: int, count: int) -> None:
        """So many events of this range are lost."""
        if (count := min(count, last - max(first - 1, self.begin.get(stream, -1)))) > 0:
            self.put(stream, last, Totals(0, count))

    def skip(self, stream: StreamId, first: int, last: int) -> None:
        """Links purged the events of this range."""
        if (count := last - max(first - 1, self.begin.get(stream, -1))) > 0:
            self.put(stream, last, Totals(unseen=count))

    def passed(self, stream: StreamId, seq: int) -> None:
        """The position of a stream is at `seq` now."""
        heap = self.pending.get(stream)
        if heap is None:
            return
        while heap and heap[0][0] <= seq:
            self.totals = self.totals.plus(heappop(heap)[1])
            self._size -= 1
        if not heap:
            del self.pending[stream]

    def drop_unseen(self, positions: Mapping[StreamId, int]) -> None:
        """A logger is read from these positions on, and has the events that links purged."""
        for stream in list(self.pending):
            last, heap = positions.get(stream, -1), self.pending[stream]
            kept = [(seq, totals if seq <= last else totals._replace(unseen=0)) for seq, totals in heap]
            self._size -= len(heap)
            heap[:] = [each for each in kept if any(each[1])]
            heapify(heap)
            self._size += len(heap)
            if not heap:
                del self.pending[stream]

    def ends(self) -> dict[StreamId, int]:
        """The positions at which everything of each stream is counted."""
        return {stream: max(heap)[0] for stream, heap in self.pending.items()}

    def _merge(self) -> None:
        stops = self._stops()
        self._size = 0
        for stream, heap in self.pending.items():
            ends, merged = stops.get(stream, []), dict[tuple[int, bool], tuple[int, Totals]]()
            for seq, totals in sorted(heap):
                at = bisect_left(ends, seq)
                behind = at == len(ends)
                which = at, behind and not totals.obsoleted  # a loss may be known long before the events around it
                known = merged.get(which, (seq, Totals()))[1]
                merged[which] = seq if behind else ends[at], known.plus(totals)
            heap[:] = merged.values()
            heapify(heap)
            self._size += len(heap)
        self._pending_max = 2 * self._size + PENDING_MAX

    def _stops(self) -> dict[StreamId, list[int]]:
        stops: dict[StreamId, list[int]] = {}
        for stream, seq in self._waiting():
            stops.setdefault(stream, []).append(seq)
        for seqs in stops.values():
            seqs.sort()
        return stops

    # A conflated queue ----------------------------------------------------------------------------------------------

    def came(self, stream: StreamId, seqs: Sequence[int]) -> None:
        """These are in the conflated queue, or were: a batch costs one step, not one for each event."""
        if self.begin:
            seqs = seqs[bisect_right(seqs, self.begin.get(stream, -1)) :]
            if not seqs:
                return
        self._came.setdefault(stream, deque()).append(_Came(seqs[-1], len(seqs), seqs))
        self._came_size += 1 if isinstance(seqs, range) else len(seqs)
        if self._came_size >= self._came_max:
            self._merge_came()

    def took(self, stream: StreamId, seq: int) -> int:
        """Take the event `seq` from the conflated queue, and return how many before it are obsolete."""
        return max(0, self._took(stream, seq) - 1)

    def _took(self, stream: StreamId, seq: int) -> int:
        runs, count = self._came.get(stream), 0
        if runs is None:
            return 0
        while runs and runs[0].last <= seq:
            count += runs.popleft().events
        if runs and (seqs := runs[0].seqs) is not None and (taken := bisect_right(seqs, seq)):
            count += taken
            runs[0] = _Came(runs[0].last, len(seqs) - taken, seqs[taken:])
        if not runs:
            del self._came[stream]
            if not self._came:
                self._came_size, self._came_max = 0, PENDING_MAX
        return count

    def _merge_came(self) -> None:
        merged: dict[StreamId, deque[_Came]] = {}
        for stream, ends in self._stops().items():
            if stream in self._came:
                counts = [(end, self._took(stream, end)) for end in ends if stream in self._came]
                merged[stream] = deque(_Came(end, count, None) for end, count in counts if count)
        self._came = merged
        self._came_size = sum(map(len, merged.values()))
        self._came_max = 2 * self._came_size + PENDING_MAX
