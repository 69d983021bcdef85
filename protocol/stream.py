"""What a receiver knows of one stream.

    0 ......... start ........... next ............ lastseen
    before      delivered, or     held back for     not known
    t_join      excused           order, or absent  to exist yet

Every seq from `start` to `lastseen` is exactly one of (rpbcast Property 3.5, with the fourth case):

    delivered   handed to the application, in order;
    held        received, waiting for an earlier one (the thesis's `deliverbuf`);
    missing     in `gmissing` (peers are asked) or in `missing` (loggers are asked);
    excused     it will never come, and the application is told why.

Almost all streams almost always have no gap. All that a gap needs is in a `Gaps`, made when one opens and dropped when
the last one closes, so that a stream in order costs a few slots and a comparison a packet.
"""

from bisect import bisect_right, insort
from typing import NamedTuple

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Beat
from gossamer.protocol.effects import Reason
from gossamer.protocol.intervals import IntervalSet


class Held(NamedTuple):
    """Something that waits for its turn: a packet, or the reason why there will be none."""

    first: int
    last: int
    what: Packet | Reason


def _first(held: Held) -> int:
    return held.first


def _first_of(opened: tuple[int, int, int]) -> int:
    return opened[0]


class Gaps:
    """The open gaps of one stream."""

    __slots__ = ("asked", "awaited", "early", "opened", "patience", "gmissing", "held", "missing", "sealed", "votes")

    def __init__(self) -> None:
        self.gmissing = IntervalSet()
        """Missing, in the gossip phase."""
        self.missing = IntervalSet()
        """Missing, in the logger phase."""
        self.asked = IntervalSet()
        """Missing and not to be requested now: within the reorder grace, or in flight from somebody."""
        self.awaited = IntervalSet()
        """Missing and not to be requested now: purged on the way for something that is not here yet."""
        self.patience: dict[tuple[int, int], tuple[float, int]] = {}
        """Until when each span is awaited, and how often it has been put off."""
        self.early = IntervalSet()
        """In `missing` without having been gossiped for: loggers were calm (`repair_first`)."""
        self.sealed = IntervalSet()
        """Missing, and taken from a logger only, because a logger was told that we lack it (`Seek`)."""
        self.opened: list[tuple[int, int, int]] = []
        """First and last of each gap, ascending, and the round in which it was found; closed ones go in their turn."""
        self.held: list[Held] = []
        self.votes: dict[NodeId, IntervalSet] = {}
        """Which loggers said that they have collected what."""

    def lacks(self, first: int, last: int) -> list[tuple[int, int]]:
        """What of the span is missing, in either phase."""
        return sorted(self.gmissing.overlap(first, last) + self.missing.overlap(first, last))

    def askable(self, phase: IntervalSet, first: int, last: int) -> list[tuple[int, int]]:
        """What of a span is missing in a phase and may be requested now."""
        parts = [part for missing in phase.overlap(first, last) for part in self.asked.gaps(*missing)]
        return [part for free in parts for part in self.awaited.gaps(*free)] if self.awaited else parts

    def resolve(self, first: int, last: int) -> None:
        """It is here, or it is excused: nobody need be asked any more."""
        for each in (self.gmissing, self.missing, self.asked, self.awaited, self.early, self.sealed):
            each.remove(first, last)

    def opened_in(self, seq: int) -> int | None:
        """The round in which it was found that this is missing."""
        place = bisect_right(self.opened, seq, key=_first_of)
        return self.opened[place - 1][2] if place and seq <= self.opened[place - 1][1] else None

    def hold(self, held: Held) -> None:
        insort(self.held, held, key=_first)


class Stream:
    """The receiving side of one stream."""

    __slots__ = ("beat", "excused", "floor", "gaps", "id", "lastseen", "limit", "never", "next", "origin", "start")

    def __init__(self, stream: StreamId, start: int = 0) -> None:
        self.id = stream
        self.start = start
        """The first seq that is ours to receive: t_join + 1 (rpbcast §5.3)."""
        self.next = start
        """The next seq to deliver; `next - 1` is the position to acknowledge."""
        self.lastseen = start - 1
        """The highest seq known to exist."""
        self.gaps: Gaps | None = None
        self.excused: IntervalSet | None = None
        self.never: IntervalSet | None = None
        """Of what is excused, that which nobody will ever see: void or lost."""
        self.beat: Beat | None = None
        """Its entry in the heartbeat table, while it is idle."""
        self.origin: NodeId | None = None
        """The node that publishes it, as far as we know."""
        self.floor = 0
        """Before this its publisher has nothing to send any more: a named one has begun anew here, an anonymous one has
        let go of what was safe before there was a logger."""
        self.limit: int | None = None
        """Its publisher is dead, and we told the leader how far we know it: nothing beyond is taken."""

    def lacks(self, first: int, last: int) -> list[tuple[int, int]]:
        """What of the span is new to us: missing, or beyond what we have seen."""
        parts = self.gaps.lacks(first, last) if self.gaps else []
        beyond = max(first, self.lastseen + 1)
        if beyond <= last:
            parts.append((beyond, last))
        return parts

    def is_closed(self, first: int, last: int) -> bool:
        """Whether something of the span is void, or may become so without a logger's word to the contrary."""
        if self.never is not None and self.never.overlap(first, last):
            return True
        return self.gaps is not None and bool(self.gaps.sealed.overlap(first, last))

    def has(self, seq: int) -> bool:
        """Whether an event is here, was, or was replaced: whatever it obsoletes may be left out."""
        if seq > self.lastseen or (self.never is not None and seq in self.never):
            return False
        return self.gaps is None or not self.gaps.lacks(seq, seq)

    def had(self, first: int, last: int) -> list[tuple[int, int]]:
        """What of the span has been received here, whether or not it is still at hand."""
        absent = IntervalSet(self.lacks(first, last))
        if first < self.start:
            absent.add(first, min(last, self.start - 1))
        if self.excused:
            for part in self.excused.overlap(first, last):
                absent.add(*part)
        return absent.gaps(first, last)

    def check(self) -> None:
        """Invariant 3.3 and Property 3.5, asserted in tests after every step."""
        gaps = self.gaps
        if gaps is None:
            assert self.next == self.lastseen + 1, self.story()
            return
        missing = [*gaps.gmissing.ranges(), *gaps.missing.ranges()]
        assert missing, f"no gap, yet not in order: {self.story()}"
        at = self.next
        for first, last in sorted([*missing, *((held.first, held.last) for held in gaps.held)]):
            assert first == at, f"{min(first, at)} is in two places or in none: {self.story()}"
            at = last + 1
        assert at == self.lastseen + 1, self.story()
        named = (gaps.asked, gaps.awaited, gaps.early, gaps.sealed)
        for first, last in (part for each in named for part in each.ranges()):
            lacked = gaps.gmissing.count_within(first, last) + gaps.missing.count_within(first, last)
            assert lacked == last - first + 1, f"asked for, awaited or sealed, but not missing: {self.story()}"
        for first, last in gaps.sealed.ranges():
            assert gaps.missing.overlap(first, last) == [(first, last)], f"sealed, but not a logger's: {self.story()}"

    def story(self) -> str:
        """All of it on one line, for the one who has to find out what went wrong."""
        told = f"{self.id} start={self.start} next={self.next} lastseen={self.lastseen} excused={self.excused}"
        if self.gaps is None:
            return told
        gaps, held = self.gaps, [(held.first, held.last) for held in self.gaps.held]
        return (
            f"{told} gmissing={gaps.gmissing} missing={gaps.missing} held={held} asked={gaps.asked} "
            f"awaited={gaps.awaited} early={gaps.early} sealed={gaps.sealed}"
        )
