"""Of many plain events the last of each key, as long as their consumer takes none: an eager queue, a batch at a time.

A purging buffer looks at each event as it comes: what it obsoletes, what obsoletes it, whether there is room. Plain
events with keys need none of that. Of a key the last one counts, so a table of where each key was last seen is the
queue, and a batch changes it in a few calls:

    came (positions)          keys → positions       obsolete
    0: a   1: b   2: a        b 1, a 2               0
    3: c   4: b               a 2, c 3, b 4          1

The order of the table is that of the queue. Batches are kept as they came, shared by all that conflate them, and only
what is taken of them is looked at; of those that are too long ago, only what still counts.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from gossamer.messages.ids import EventId, StreamId
from gossamer.protocol.shown import Slot

RUNS_MAX = 32
RUNS_BYTES_MAX = 4 * 2**20
Arrived = TypeVar("Arrived", covariant=True)
_place = itemgetter(1)


class Source(Protocol[Arrived]):
    """Plain events of one stream that came at once."""

    stream: StreamId
    size: int
    """Of all of them, in bytes."""

    @property
    def slots(self) -> Sequence[Slot | None]:
        """Of each its stream and key; None if it has no key."""

    @property
    def sizes(self) -> Sequence[int]: ...

    @property
    def seqs(self) -> Sequence[int]: ...

    def arrival(self, place: int) -> Arrived: ...

    def rest(self) -> None:
        """It is not looked at for some time."""


class Conflation(Generic[Arrived]):
    """The last events of each key, in order."""

    __slots__ = ("_base", "_came", "_kept", "_runs", "_runs_bytes", "last")

    def __init__(self) -> None:
        self.last: dict[Slot, int] = {}
        """Where each key was last seen, ascending."""
        self._runs: deque[tuple[int, Source[Arrived]]] = deque()
        """What came, and the position of its first event."""
        self._runs_bytes = 0
        self._kept: dict[int, tuple[Arrived, int, int]] = {}
        """The events before that still count, with their seqs and bytes."""
        self._base = 0
        self._came: Counter[Slot] = Counter()
        """How many came of each key that waits."""

    def __len__(self) -> int:
        return len(self.last)

    @property
    def bytes(self) -> int:
        kept = sum(size for _, _, size in self._kept.values())
        runs = deque(self._runs)
        for position in self.last.values():
            if position not in self._kept:
                while position >= runs[0][0] + len(runs[0][1].sizes):
                    runs.popleft()
                kept += runs[0][1].sizes[position - runs[0][0]]
        return kept

    def put(self, source: Source[Arrived], places: Sequence[int], events_max: int) -> int | None:
        """These of its events; returns how many are obsolete by that. None, and nothing has happened, if some have no
        key, or if there would be more than so many."""
        slots, count = source.slots, len(source.slots)
        if len(places) < count:
            slots = [slots[place] for place in places]
        newest = dict(zip(slots, places, strict=True))
        if None in newest or len(newest) > events_max:
            return None
        last, before = self.last, len(self.last)
        if before + len(newest) > events_max and len(last.keys() | newest.keys()) > events_max:
            return None
        old = list(map(last.pop, newest, repeat(None)))  # type: ignore[arg-type]
        if self._kept:
            deque(map(self._kept.pop, old, repeat(None)), maxlen=0)
        obsolete = len(places) - len(newest) + before - len(last)
        self._came.update(slots)  # type: ignore[arg-type]
        if len(newest) < len(places):
            newest = dict(sorted(newest.items(), key=_place))
        last.update(zip(newest, map(self._base.__add__, newest.values()), strict=True))  # type: ignore[arg-type]
        if self._runs:
            self._runs[-1][1].rest()
        self._runs.append((self._base, source))
        self._base += count
        self._runs_bytes += source.size
        self._let_go()
        return obsolete

    def first(self) -> Arrived:
        """The one that waits for longest."""
        position, runs = next(iter(self.last.values())), self._runs
        if position in self._kept:
            return self._kept[position][0]
        while position >= runs[0][0] + len(runs[0][1].sizes):
            self._drop()
        base, source = runs[0]
        return source.arrival(position - base)

    def waiting(self) -> Iterator[EventId]:
        """The ids of the events that wait, in order."""
        runs, seqs = deque(self._runs), None
        for (stream, _), position in self.last.items():
            if position in self._kept:
                yield EventId(stream, self._kept[position][1])
                continue
            while position >= runs[0][0] + len(runs[0][1].sizes):
                runs.popleft()
                seqs = None
            base, source = runs[0]
            seqs = source.seqs if seqs is None else seqs
            yield EventId(stream, seqs[position - base])

    def take(self) -> Iterator[tuple[Slot, Arrived, int]]:
        """What waits, one by one, and how many of its key it stands for."""
        last, kept, runs = self.last, self._kept, self._runs
        try:
            while last:
                slot, arrival = next(iter(last)), self.first()
                kept.pop(last.pop(slot), None)
                yield slot, arrival, self._came.pop(slot)
        finally:
            while runs and not last:
                self._drop()
            if runs:
                runs[0][1].rest()

    def obsolete(self) -> list[tuple[Slot, int]]:
        """Of each key that waits, how many it has made obsolete and nobody was told of; they are told hereby."""
        found = [(slot, count - 1) for slot, count in self._came.items() if count > 1]
        self._came.update({slot: -count for slot, count in found})
        return found

    def _let_go(self) -> None:
        """What nothing is left of is let go of; and of what came too long ago, all but what still counts."""
        runs, first = self._runs, next(iter(self.last.values()))
        while len(runs) > 1 and runs[1][0] <= first:
            self._drop()
        while len(runs) > 1 and (len(runs) > RUNS_MAX or self._runs_bytes > RUNS_BYTES_MAX):
            base, source = self._drop()
            seqs = None
            for position in self.last.values():
                if position >= runs[0][0]:
                    break
                if position >= base:
                    place = position - base
                    seqs = source.seqs if seqs is None else seqs
                    self._kept[position] = source.arrival(place), seqs[place], source.sizes[place]
            source.rest()

    def _drop(self) -> tuple[int, Source[Arrived]]:
        """Let go of the oldest."""
        base, source = self._runs.popleft()
        self._runs_bytes -= source.size
        source.rest()
        return base, source
