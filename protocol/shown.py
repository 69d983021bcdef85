"""Filters and obsolescence: what a subscription was shown, and when that is no longer true (design §5).

A subscriber of `price > 100` was shown IBM at 101. Now IBM is at 99: that event does not match, and it obsoletes one
that did. To say nothing would leave the subscriber with 101 for ever; so it is told that IBM *left*.

    event            matches   the subscription gets     remembered as shown
    1: IBM 101       yes       1                         IBM (1)
    2: IBM 103       yes       2                         IBM (2)
    3: IBM 99        no        Left(IBM, 2)              nothing: memory is that of what is shown now
    4: IBM 98        no        nothing                   nothing
    5: IBM deleted   no        nothing; after 1 or 2 it would have been Left

Keys are remembered by (stream, key), or by (group, key) for scope "group". An event without a key can be made obsolete
by whoever names it, so of those the last 256 seqs of a stream are remembered, a bit each, which is how far a bit of
`near` reaches, and the last few thousand beyond that by their ids. What falls out of that memory is not missed in time.

Parts of a transaction show nothing yet: a part that matches is delivered, and counts from its commit on; until then
what was shown before stays shown. The commit goes to whoever was delivered a part that waits for it, whatever the
selector, and to nobody else (row S3): a purged commit is stood for by the next one. What a commit obsoletes and its
parts do not replace has left. So parts that do not match are remembered too: the commit that stands for theirs may set
other keys, and name what stands further back than a bit reaches.

What is fed here is in the order of its stream, and is not obsolete by something that was fed before: late arrivals of
scope "group" are rejected once for all subscriptions (row S4), since one that was told that a key left has forgotten
why. An omission needs nothing here if it was obsolete, for what obsoleted it comes; what is lost is told by `on_lost`.
"""

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Literal, NamedTuple

from gossamer.messages.event import REACH_MAX, Head, Outline, Relation
from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.messages.packet import seqs_of
from gossamer.protocol.obsolescence import Order, Told, named, order

FAR_MAX = 4_096
STREAMS_MAX = 4_096

_WINDOW = (1 << REACH_MAX) - 1
_key, _deleted = attrgetter("key"), attrgetter("deleted")


class Left(NamedTuple):
    """An event that was shown and is obsolete, while what obsoleted it does not match."""

    key: str | None
    id: EventId
    group: bool = False
    """Whether the key is one of the group (scope "group"), and not of the stream."""


class Verdict(NamedTuple):
    """What a subscription gets: the event or not, and what has left with it."""

    deliver: bool
    left: tuple[Left, ...] = ()
    replaced: tuple[Left, ...] = ()
    """What was shown and is named by the event that is delivered in its place. Nobody needs a notice of these, unless
    that event is purged for something that does not name them."""


DELIVER, NOTHING = Verdict(True), Verdict(False)

Slot = tuple[str, str]
"""(stream, key), or (group, key): a stream has a slash in it, a group none."""


class _Part(NamedTuple):
    """A part that is not committed; it was delivered if it matches."""

    id: EventId
    key: str | None
    matches: bool
    deleted: bool
    first: int
    commit: int
    overtaken: Literal["no", "shown", "unseen"] = "no"
    """By a plain event of its key, while its own commit was left out for the next one; the last of them matched, or it
    did not, and nobody has told the subscription."""


class Shown:
    """What one subscription was last shown as matching."""

    def __init__(self, *, far_max: int = FAR_MAX, streams_max: int = STREAMS_MAX) -> None:
        self.far_max = far_max
        self.streams_max = streams_max
        self._slots: dict[Slot, tuple[StreamId, int, Order | None]] = {}
        """The event of a key, and its place among others of the group."""
        self._keyed: dict[tuple[StreamId, int], Slot] | None = None
        """The same, by id, from the first time on that an event is named by its id."""
        self._recent: dict[StreamId, tuple[int, int]] = {}
        """Of events without a key: the last one of a stream, and a bit for each at and before it."""
        self._far: dict[EventId, None] = {}
        self._parts: dict[StreamId, list[_Part]] = {}

    def on_event(self, id: EventId, head: Head, matches: bool, deleted: bool) -> Verdict:
        """The next event of its stream, which matches the selector or not."""
        relation = head.relation
        if relation is None:
            if head.key is not None:
                return self._plain(id, head.key, matches, deleted)
            return self._add(id) if matches else NOTHING
        if relation.part is not None:
            return self._part(id, head.key, relation.part, matches, deleted)
        if relation.group and head.key is not None:
            return self._set((group_of(id.stream), head.key), id, order(Told(id, head)), matches, deleted)
        if relation.commit is not None:
            return self._commit(id, head)
        gone = self._named(id, head)
        verdict = DELIVER if matches else NOTHING
        if head.key is not None:
            verdict = self._plain(id, head.key, matches, deleted)
        elif matches:
            self._add(id)
        if not gone:
            return verdict
        return Verdict(True, (), tuple(gone)) if matches else Verdict(False, (*verdict.left, *gone))

    def on_run(self, stream: StreamId, ranges: Sequence[tuple[int, int]], events: Sequence[Outline] = ()) -> None:
        """Plain events of one stream were delivered, all that match and nothing that makes anything leave; without
        `events` none of them has a key."""
        if events:
            self._on_keyed_run(stream, seqs_of(ranges), events)
        elif ranges:
            bits, last = 0, ranges[-1][1]
            for low, high in reversed(ranges):
                if high <= last - REACH_MAX:
                    break
                bits |= ((1 << (high - low + 1)) - 1) << (last - high)
            before, known = self._recent.pop(stream, (last, 0))
            self._recent[stream] = (
                last,
                (known << (last - before) if last - before < REACH_MAX else 0) & _WINDOW | bits & _WINDOW,
            )
            if len(self._recent) > self.streams_max:
                del self._recent[next(iter(self._recent))]

    def _on_keyed_run(self, stream: StreamId, seqs: Sequence[int], events: Sequence[Outline]) -> None:
        """A batch changes the table in a few calls (as in protocol/conflation.py), unless something in it is deleted or
        older than what is shown, or may be asked for by its id."""
        newest = dict(zip(map(_key, events), seqs, strict=True))
        if None in newest:
            del newest[None]
            for seq, event in zip(seqs[-REACH_MAX:], events[-REACH_MAX:], strict=True):
                if event.key is None:
                    self._add(EventId(stream, seq))
        slots = list(zip(repeat(stream), newest))
        known = max(filter(None, map(self._slots.get, slots)), default=(stream, -1))
        if self._keyed is None and known[1] < seqs[0] and not any(map(_deleted, events)):
            self._slots.update(zip(slots, zip(repeat(stream), newest.values(), repeat(None)), strict=True))
            return
        deleted = dict(zip(map(_key, events), map(_deleted, events), strict=True))
        for slot, seq in zip(slots, newest.values(), strict=True):
            self._set(slot, EventId(stream, seq), None, True, deleted[slot[1]])

    def shown(self) -> list[tuple[EventId, Head]]:
        """What is shown of each key now."""
        return [
            (EventId(stream, seq), Head(name) if place is None else Head(name, place[0], Relation(group=True)))
            for (_, name), (stream, seq, place) in self._slots.items()
        ]

    def shown_by(self, slot: Slot) -> EventId | None:
        """What a key is shown as."""
        known = self._slots.get(slot)
        return None if known is None else EventId(*known[:2])

    def shows(self, slot: Slot) -> bool:
        """Whether a key is shown now."""
        return slot in self._slots

    def on_lost(self, stream: StreamId, first: int, last: int) -> None:
        """These never came, and not because they were obsolete: parts that need them will not be applied."""
        parts = self._parts.get(stream)
        if parts:
            kept = [part for part in parts if part.commit < first or part.first > last]
            self._parts[stream] = kept
            if not kept:
                del self._parts[stream]

    def forget(self, stream: StreamId) -> None:
        """Nothing more comes of this stream. Its keys stay shown: others may obsolete them still."""
        self._recent.pop(stream, None)
        self._parts.pop(stream, None)

    def _plain(self, id: EventId, key: str, matches: bool, deleted: bool) -> Verdict:
        if self._parts and id.stream in self._parts:
            by: Literal["shown", "unseen"] = "shown" if matches else "unseen"
            parts = self._parts[id.stream]
            self._parts[id.stream] = [part._replace(overtaken=by) if part.key == key else part for part in parts]
        return self._set((id.stream, key), id, None, matches, deleted)

    def _set(self, slot: Slot, id: EventId, place: Order | None, matches: bool, deleted: bool) -> Verdict:
        known = self._slots.get(slot)
        if known is not None:
            late = known[2] > place if known[2] is not None and place is not None else known[1] > id.seq
            if late:
                return NOTHING  # obsolete by what is shown
            if self._keyed is not None:
                del self._keyed[known[:2]]
        if matches and not deleted:
            self._slots[slot] = *id, place
            if self._keyed is not None:
                self._keyed[id] = slot
            return DELIVER
        if known is not None:
            del self._slots[slot]
        if matches:
            return DELIVER
        return NOTHING if known is None else Verdict(False, (Left(slot[1], EventId(*known[:2]), place is not None),))

    def _add(self, id: EventId) -> Verdict:
        stream, seq = id
        last, bits = self._recent.pop(stream, (seq, 0))
        if seq >= last:
            bits = bits << (seq - last) | 1
            if out := bits >> REACH_MAX:
                self._put_far(stream, seq - REACH_MAX, out)
                bits &= _WINDOW
            last = seq
        elif last - seq < REACH_MAX:
            bits |= 1 << (last - seq)
        else:
            self._put_far(stream, seq, 1)
        self._recent[stream] = last, bits
        if len(self._recent) > self.streams_max:
            del self._recent[next(iter(self._recent))]
        return DELIVER

    def _put_far(self, stream: StreamId, last: int, bits: int) -> None:
        for distance in reversed(_positions(bits)):  # the oldest goes first
            self._far[EventId(stream, last - distance)] = None
        while len(self._far) > self.far_max:
            del self._far[next(iter(self._far))]

    def _part(self, id: EventId, key: str | None, part: tuple[int, int], matches: bool, deleted: bool) -> Verdict:
        if not matches and key is None:
            return NOTHING
        first = id.seq - part[0]
        self._parts.setdefault(id.stream, []).append(_Part(id, key, matches, deleted, first, first + part[1]))
        return DELIVER if matches else NOTHING

    def _commit(self, id: EventId, head: Head) -> Verdict:
        assert head.relation is not None
        assert head.relation.commit is not None
        commit, stream = head.relation.commit, id.stream
        first, keys = id.seq - commit.parts, dict.fromkeys(commit.keys)
        left: dict[str, Left] = {}
        parts = self._parts.pop(stream, [])
        for part in parts:
            if part.key is None:
                self._add(part.id)
            elif part.overtaken != "no":
                if part.overtaken == "unseen" and part.matches:
                    left[part.key] = Left(part.key, part.id)
            else:
                shows = part.matches and (part.id.seq >= first or part.key not in keys)
                verdict = self._set((stream, part.key), part.id, None, shows, part.deleted)
                if shows:
                    left.pop(part.key, None)  # a part that is delivered tells more than a notice
                elif part.matches:  # one that is obsolete, and needed only by the commit that was left out
                    left[part.key] = Left(part.key, part.id)
                elif verdict.left:
                    left[part.key] = verdict.left[0]
        for key in keys:
            known = self._slots.get((stream, key))
            if known is not None and known[1] < first:
                left[key] = Left(key, EventId(*known[:2]))
                self._drop(left[key].id)
        return Verdict(any(part.matches for part in parts), (*left.values(), *self._named(id, head)))

    def _named(self, by: EventId, head: Head) -> list[Left]:
        """Forget what this event names by a bit or an id, and tell what of that was shown."""
        return [left for id in named(by, head.relation) if (left := self._drop(id)) is not None]

    def _drop(self, id: EventId) -> Left | None:
        if self._keyed is None:
            self._keyed = {known[:2]: slot for slot, known in self._slots.items()}
        slot = self._keyed.pop(id, None)
        if slot is not None:
            del self._slots[slot]
            return Left(slot[1], id, "/" not in slot[0])
        if id in self._far:
            del self._far[id]
            return Left(None, id)
        known = self._recent.get(id.stream)
        if known is not None and 0 <= known[0] - id.seq < REACH_MAX and known[1] >> (known[0] - id.seq) & 1:
            self._recent[id.stream] = known[0], known[1] ^ 1 << (known[0] - id.seq)
            return Left(None, id)
        return None


def _positions(bits: int) -> list[int]:
    return [at for at in range(bits.bit_length()) if bits >> at & 1]
