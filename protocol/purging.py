"""A bounded buffer that makes room by leaving out what has become pointless (000 §4.2, 003 §3.1).

Events wait here in the order in which they came. Of five, two of which set `x`, with room for three:

    append x=1      x=1
    append y=1      x=1 y=1
    append x=2          y=1 x=2          x=1 is obsolete, and out at once ("eager")
    append z=1          y=1 x=2 z=1
    append w=1          y=1 x=2 w=1      full, and nothing is obsolete: a random one goes ("random"), here z=1

A buffer between two that are fast enough is empty, so nothing is ever left out; the slower the reader, the more of what
it would have got is obsolete by the time it gets there. That is what makes a slow reader cheap: it falls behind in
events, not in state.

    semantic    eager     what an arrival obsoletes is purged at once
                lazy      it is purged when there is no room otherwise, and passed on if there always is
                off       heads are not looked at
    overflow    random    with no room and nothing obsolete, entries drawn from those inside make room
                drop-new  the arrival is left out
                refuse    the arrival is handed back

Nothing is left out silently: every call returns what it left out and why. An arrival that is obsolete already (by what
is inside, or by what has gone through: protocol/memory.py) is never let in, lazy or not, since whoever reads the buffer
would go back in time. An arrival that does not get in purges nothing: what it obsoletes may be all that a reader gets.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from gossamer.messages.event import Head
from gossamer.messages.ids import EventId, StreamId
from gossamer.protocol.entries import Entry, Omitted
from gossamer.protocol.memory import Memory
from gossamer.protocol.purge_index import Index

__all__ = ["Entry", "Omitted", "Overflow", "PurgingBuffer", "Semantic"]

Semantic = Literal["eager", "lazy", "off"]
Overflow = Literal["random", "drop-new", "refuse"]

BYTES_MAX = 64 * 2**20
QUEUE_SLACK = 64
GAPS = 4
"""How much longer than the entries in it the queue may get: a gap is 8 bytes, and closing it touches what is kept."""
_tuple = tuple.__new__  # builds an EventId in under half the time of its own constructor


class PurgingBuffer:
    """Events in arrival order, bounded in number and bytes; each id is inside at most once.

    The bounds hold at all times, but for one event that is larger than `bytes_max` by itself and alone in the buffer.
    """

    __slots__ = (
        "_queue",
        "_first",
        "count",
        "_compact_at",
        "_index",
        "_marked",
        "_events_max",
        "_bytes_max",
        "_eager",
        "_overflow",
        "_evicting",
        "_rng",
        "_memory",
        "bytes",
    )

    def __init__(
        self,
        events_max: int,
        bytes_max: int = BYTES_MAX,
        *,
        semantic: Semantic = "eager",
        overflow: Overflow = "random",
        rng: random.Random | None = None,
        memory: Memory | None = None,
    ) -> None:
        assert events_max >= 1, events_max
        assert rng is not None or overflow != "random", "random overflow draws from a generator that is handed in"
        self._events_max, self._bytes_max = events_max, bytes_max
        self._eager, self._overflow = semantic == "eager", overflow
        self._evicting = overflow == "random"
        self._rng = rng
        self._memory = None if semantic == "off" else memory
        self._index = None if semantic == "off" else Index()
        # A list with gaps: what is purged leaves None, and the gaps close when there are too many.
        # Removal is O(1) anywhere, and one can draw from it; a dict has neither a quick first nor a quick random entry.
        self._queue: list[Entry | None] = []
        self._first = 0
        self._compact_at = QUEUE_SLACK
        self.count = 0
        """How many there are: `len()` takes a call."""
        self._marked: list[Entry] = []
        self.bytes = 0

    # Coming in ------------------------------------------------------------------------------------------------------

    def append(self, stream: StreamId, seq: int, head: Head | None, size: int, payload: object) -> Sequence[Omitted]:
        """Take in an event, and tell what is left out for it, or why it is left out itself."""
        index = self._index
        entry = Entry(stream, seq, head, size, payload)
        if head is None or index is None:
            return self._admit(entry, ())
        if self._memory is not None and (by := self._memory.obsoleter(stream, seq, head)) is not None:
            return (Omitted(entry, by),)
        relation, key = head.relation, head.key
        state = index.streams.get(stream)
        if relation is None and index.plain:  # most events by far: no question but that of the key
            if key is None or state is None or (old := state.tags.get(key)) is None:
                return self._admit(entry, ())
            if old.seq >= seq:  # it is late; or the caller's mistake, and in twice
                return (Omitted(entry, old),) if old.seq > seq else self._admit(entry, ())
            bytes_then = self.bytes - old.size + size
            if not self._eager or bytes_then > self._bytes_max:
                return self._admit(entry, (old,))
            # One comes and one goes. This is what `_admit` does, in half the time.
            state.tags[key] = entry
            queue = self._queue
            queue[old.place] = None
            old.place = -1
            entry.place = at = len(queue)
            queue.append(entry)
            self.bytes = bytes_then
            if at > self._compact_at:
                self._compact()
            return (Omitted(old, entry),)
        if index.plain and relation is not None and not relation.group:
            index.widen(held for held in self if held.by is None)
            state = index.streams.get(stream)
        if state is not None and seq > state.top and not index.named and not index.plain:
            # Nothing of its own stream obsoletes the last of it, and that is how events come.
            if relation is None:
                return self._admit(entry, index.obsoleted(stream, seq, head))
            if relation.near and key is None and not relation.ids and relation.commit is None and not relation.group:
                free = self.bytes + size <= self._bytes_max and self.count < self._events_max
                if self._eager and (free or (self._evicting and size <= self._bytes_max)):
                    return self._admit_next(entry, index.renew(state, entry, relation.near))
        if (newer := index.obsoleter(stream, seq, head)) is not None:
            return (Omitted(entry, newer),)
        return self._admit(entry, index.obsoleted(stream, seq, head))

    def extend(self, stream: StreamId, run: Iterable[tuple[int, Head | None, int, object]]) -> Sequence[Omitted]:
        """Append a run of one stream, `(seq, head, size, payload)` each, up to the first that is refused."""
        omitted: list[Omitted] = []
        index, queue, bytes_max = self._index, self._queue, self._bytes_max
        quick = index is not None and index.plain and self._memory is None and self._eager
        state = index.streams.get(stream) if quick and index is not None else None
        for seq, head, size, payload in run:
            if state is not None and head is not None and head.relation is None and (key := head.key) is not None:
                # One comes and one goes: the shortest way through `append`, with everything at hand.
                old = state.tags.get(key)
                if old is not None and old.seq < seq and (bytes_then := self.bytes - old.size + size) <= bytes_max:
                    at = len(queue)
                    state.tags[key] = entry = Entry(stream, seq, head, size, payload, at)
                    queue[old.place] = None
                    old.place = -1
                    queue.append(entry)
                    self.bytes = bytes_then
                    if at > self._compact_at:
                        self._compact()
                    omitted.append(Omitted(old, entry))
                    continue
            if more := self.append(stream, seq, head, size, payload):
                omitted += more
                if more[-1].refused:
                    break
            if state is not None and head is not None and head.relation is not None:
                state = None  # names something: no longer only a question of the key
        return omitted

    def passing(self, stream: StreamId, seq: int, head: Head | None) -> Sequence[Omitted]:
        """Purge what is obsoleted by an event that does not come in: the reader gets that one in another way."""
        index = self._index
        if head is None or index is None:
            return ()
        if head.relation is not None and index.plain and not head.relation.group:
            index.widen(held for held in self if held.by is None)
        victims = index.obsoleted(stream, seq, head)
        if not victims:
            return ()
        by = _tuple(EventId, (stream, seq))
        if self._eager:
            return self._purge(victims, by)
        self._mark(victims, by)
        return ()

    def be_eager(self, eager: bool) -> Sequence[Omitted]:
        """From now on purge at once what becomes obsolete, and now what has, or (False) only when there is no room."""
        if self._index is None or self._eager == eager:
            return ()
        self._eager = eager
        return self._purge_marked() if eager else ()

    # Going out ------------------------------------------------------------------------------------------------------

    def take(self, events_max: int, bytes_max: int = BYTES_MAX) -> list[Entry]:
        """Pass on the first entries, up to these limits; the very first even if it is larger than `bytes_max`."""
        queue, index, memory = self._queue, self._index, self._memory
        taken: list[Entry] = []
        at, end = self._first, len(queue)
        bytes_left = bytes_max
        while at < end and len(taken) < events_max:
            entry = queue[at]
            if entry is not None:
                bytes_left -= entry.size
                if bytes_left < 0 and taken:
                    break
                queue[at] = None
                entry.place = -1
                self.bytes -= entry.size
                taken.append(entry)
                if index is not None:
                    index.discard(entry)
                if memory is not None and entry.head is not None:
                    memory.passed(entry.stream, entry.seq, entry.head)
            at += 1
        self._first = at
        self.count -= len(taken)
        return taken

    def peek(self) -> Entry | None:
        """The entry that would be taken next."""
        return next(iter(self), None)

    def clear(self) -> None:
        """Forget everything inside; what has gone through is remembered."""
        for entry in self:
            entry.place = -1
        self._queue.clear()
        self._marked.clear()
        self._first = self.count = self.bytes = 0
        self._compact_at = QUEUE_SLACK
        if self._index is not None:
            self._index = Index()

    @property
    def full(self) -> bool:
        """Whether the next event needs room to be made."""
        return self.count >= self._events_max or self.bytes >= self._bytes_max

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Entry]:
        for at in range(self._first, len(self._queue)):
            if (entry := self._queue[at]) is not None:
                yield entry

    # Making room ----------------------------------------------------------------------------------------------------

    def _admit(self, entry: Entry, victims: Sequence[Entry]) -> Sequence[Omitted]:
        """Let in what is not obsolete, by the bounds and the rules for what to leave out: first what is obsolete."""
        omitted: Sequence[Omitted] = ()
        if self.bytes + entry.size > self._bytes_max or self.count >= self._events_max + (self._eager and len(victims)):
            omitted, admitted = self._make_room(entry, victims)
            if not admitted:
                return omitted
        elif victims:
            if self._eager:
                omitted = self._purge(victims, entry)
            else:
                self._mark(victims, entry.id)
        self._put(entry)
        if self._index is not None and entry.head is not None:
            self._index.add(entry)
        return omitted

    def _admit_next(self, entry: Entry, victims: Sequence[Entry]) -> Sequence[Omitted]:
        """`_admit` for one that is in the index, whose victims are out of it, and that comes in in any case."""
        omitted: list[Omitted] = []
        queue, count, size = self._queue, self.count, self.bytes + entry.size
        for victim in victims:
            queue[victim.place] = None
            victim.place = -1
            size -= victim.size
            omitted.append(Omitted(victim, entry))
        count -= len(omitted)
        if count >= self._events_max or size > self._bytes_max:
            self.count, self.bytes = count, size - entry.size
            while not self._fits(entry.size):
                omitted.append(Omitted(self._evict()))
            self._put(entry)
            return omitted
        entry.place = at = len(queue)
        queue.append(entry)
        self.count, self.bytes = count + 1, size
        if at > self._compact_at:
            self._compact()
        return omitted

    def _put(self, entry: Entry) -> None:
        queue = self._queue
        entry.place = at = len(queue)
        queue.append(entry)
        self.count += 1
        self.bytes += entry.size
        if at > self._compact_at:
            self._compact()

    def _make_room(self, entry: Entry, victims: Sequence[Entry]) -> tuple[list[Omitted], bool]:
        """Leave out others, or the arrival itself; and tell whether it may come in."""
        omitted = self._purge_marked()
        freed = sum(victim.size for victim in victims)
        # The others are not thrown out, either, for one that would have the whole buffer to itself.
        orderly = self._overflow != "random" or entry.size > self._bytes_max
        if orderly and not self._fits(entry.size - freed, len(victims)):
            entry.place = -1
            omitted.append(Omitted(entry, None, self._overflow == "refuse"))
            return omitted, False
        omitted += self._purge(victims, entry)
        while not self._fits(entry.size):
            omitted.append(Omitted(self._evict()))
        return omitted, True

    def _fits(self, size: int, fewer: int = 0) -> bool:
        count = self.count - fewer
        return count == 0 or (count < self._events_max and self.bytes + size <= self._bytes_max)

    def _remove(self, entry: Entry) -> None:
        self._queue[entry.place] = None
        entry.place = -1
        self.count -= 1
        self.bytes -= entry.size

    def _purge(self, victims: Sequence[Entry], newer: Entry | EventId) -> list[Omitted]:
        if self._index is None:
            return []
        discard, queue = self._index.discard, self._queue
        for victim in victims:
            discard(victim)
            queue[victim.place] = None
            victim.place = -1
            self.bytes -= victim.size
        self.count -= len(victims)
        return [Omitted(victim, newer) for victim in victims]

    def _mark(self, victims: Sequence[Entry], by: EventId) -> None:
        assert self._index is not None
        for victim in victims:
            self._index.discard(victim)
            victim.by = by
        self._marked += victims
        if len(self._marked) > 2 * self.count + QUEUE_SLACK:  # a reader that keeps up takes them all the same
            self._marked = [marked for marked in self._marked if marked.place >= 0]

    def _purge_marked(self) -> list[Omitted]:
        marked = [marked for marked in self._marked if marked.place >= 0]
        self._marked.clear()
        for entry in marked:
            self._remove(entry)
        return [Omitted(entry, entry.by) for entry in marked]

    def _evict(self) -> Entry:
        """Throw out any entry, each as likely as the others."""
        assert self._rng is not None
        if len(self._queue) - self._first > GAPS * self.count + QUEUE_SLACK:
            self._compact()  # else large entries after many small ones would be looked for in a long list of gaps
        queue, first = self._queue, self._first
        span = len(queue) - first
        while (entry := queue[first + int(self._rng.random() * span)]) is None:
            pass
        if self._index is not None:
            self._index.discard(entry)
        self._remove(entry)
        return entry

    def _compact(self) -> None:
        kept = [entry for entry in self._queue if entry is not None]
        for place, entry in enumerate(kept):
            entry.place = place
        self._queue[:] = kept
        self._first = 0
        self._compact_at = GAPS * len(kept) + QUEUE_SLACK
