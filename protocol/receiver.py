"""The receiver: every event delivered at most once, in its stream's order; every gap found (rpbcast §3.3, §4.3).

The receiver only finds out what is missing; `repair` gets it. A packet in order takes the short path at the top of
`accept`; everything else is interval arithmetic on the packet as a whole, never work for each event.
"""

from collections.abc import Callable

from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Hole, Packet
from gossamer.messages.wire import Position
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Deliver, Reason, Skip
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.marks import Marks
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.stream import Gaps, Held, Stream

OnGap = Callable[[Stream, int, int], None]
OnOpened = Callable[[Stream], None]
OnNamed = Callable[[EventId], None]
NEVER: tuple[Reason, ...] = ("void", "lost")


class Receiver:
    """All streams that this node receives."""

    __slots__ = (
        "_ctx",
        "from_the_beginning",
        "held_bytes",
        "keeps",
        "marks",
        "_on_awaited",
        "_on_gap",
        "_on_named",
        "_on_opened",
        "_refusing",
        "retired",
        "streams",
        "vouches",
    )

    def __init__(
        self,
        ctx: Context,
        on_gap: OnGap,
        on_opened: OnOpened = lambda _: None,
        on_awaited: OnGap = lambda *_: None,
        on_named: OnNamed = lambda _: None,
    ) -> None:
        """`on_gap` hears of what is missing, `on_awaited` of what is missing and marked as obsoleted by something that
        is not here yet, `on_named` of that something."""
        self._ctx = ctx
        self._on_gap = on_gap
        self._on_opened = on_opened
        self._on_awaited = on_awaited
        self._on_named = on_named
        self.marks = Marks()
        self.held_bytes = 0
        self._refusing = False
        """Something was refused for want of room, and none has been made since."""
        self.streams: dict[StreamId, Stream] = {}
        self.retired = RetiredStreams()
        self.from_the_beginning: Callable[[StreamId], bool] = lambda _: True
        """Whether all of a stream never heard of is ours to have; or only what comes next, at a logger that does not
        keep it."""
        self.keeps: Callable[[StreamId], bool] = lambda _: ctx.logger
        """Whether this node is a logger that keeps a stream: its word that it has an event of it is believed."""
        self.vouches: Callable[[EventId], bool] = lambda _: True
        """Whether an event that is here outlives us: a logger leaves out no event of a stream that it keeps for one
        that it has in memory only."""

    def accept(self, packet: Packet, from_logger: bool, own: bool = False) -> tuple[Packet, ...]:
        """Take in a packet; returns what was new: parts of it, and marks that waited for them. Our own publishers' are
        held back for order whatever there is room for: they are kept anyway."""
        fresh = self._accept_marked(packet, from_logger) if packet.holes else self._accept(packet, from_logger, own)
        if fresh and self.marks.waiting:
            return (*fresh, *self._release_marks(fresh, from_logger))
        return fresh

    def is_over(self, packet: Packet) -> bool:
        """Whether all of it was delivered, or excused, or is from before t_join."""
        stream = self.streams.get(packet.stream)
        return stream is not None and packet.last < stream.next

    def _accept(self, packet: Packet, from_logger: bool, own: bool = False) -> tuple[Packet, ...]:
        stream = self.streams.get(packet.stream)
        if stream is None:
            stream = self.open(packet.stream, packet.first)
            if stream is None:
                return ()
        if stream.gaps is None and packet.first == stream.next and stream.limit is None:
            stream.lastseen = last = packet.last
            stream.next = last + 1
            self._ctx.effects.append(Deliver(packet))
            return (packet,)
        if stream.limit is not None and packet.last > stream.limit:
            if packet.first > stream.limit:
                return ()  # a straggler of a stream that is being closed
            packet = packet.cut(packet.first, stream.limit)
        if packet.last < stream.next:
            return ()  # a duplicate, or from before t_join
        if not own and packet.first > stream.next and self._is_full(packet):
            return self._hold_what_is_named(stream, packet, from_logger)
        return self._take(stream, packet, from_logger)

    def learn(self, name: StreamId, last: int) -> Stream | None:
        """A stream is known to reach `last`: from a heartbeat, or from somebody's position. None if it is retired."""
        stream = self.streams.get(name) or self.open(name, last + 1)
        if stream is not None and last > stream.lastseen:
            first, stream.lastseen = stream.lastseen + 1, last
            self._gap(stream, first, last)
        return stream

    def worth_asking(self, stream: Stream) -> list[tuple[int, int]]:
        """Where to look for what is missing. With no room to hold anything back that is the first gap, and what marks
        wait for: the rest would be refused, and would have taken the place of what is needed on a slow link."""
        gaps = stream.gaps
        if not self._refusing or gaps is None or not gaps.held:
            return [(stream.next, stream.lastseen)]
        held = gaps.held[0].first
        return [(stream.next, held - 1), *((seq, seq) for seq in self.marks.named(stream.id, held, stream.lastseen))]

    def lacked(self, stream: Stream) -> list[tuple[int, int]]:
        """What is missing where it is worth asking for."""
        gaps = stream.gaps
        return [] if gaps is None else [part for each in self.worth_asking(stream) for part in gaps.lacks(*each)]

    def excuse(self, stream: Stream, first: int, last: int, reason: Reason) -> None:
        """What is missing of a span will never come: tell the application in its turn, and go on."""
        if stream.gaps is None:
            return
        for part in stream.gaps.lacks(first, last):
            if reason in NEVER:
                if stream.never is None:
                    stream.never = IntervalSet()
                stream.never.add(*part)
            stream.gaps.resolve(*part)
            stream.gaps.hold(Held(*part, reason))
            if stream.excused is None:
                stream.excused = IntervalSet()
            stream.excused.add(*part)
        self._release(stream)

    # Purge marks ----------------------------------------------------------------------------------------------------

    def has(self, event: EventId) -> bool:
        """Whether an event is here, or was, or is not ours to have any more: then it excuses what it obsoletes."""
        stream = self.streams.get(event.stream)
        return event.stream in self.retired if stream is None else stream.has(event.seq)

    def makes_up_for(self, packet: Packet) -> bool:
        """Whether all that what is left out of a packet is obsolete for is here, and outlives us."""
        return all(self._is_kept(packet.obsoleter(hole)) for hole in packet.holes)

    def _is_kept(self, event: EventId) -> bool:
        return self.has(event) and (event.stream in self.retired or self.vouches(event))

    def _excuses(self, marked: StreamId, by: EventId) -> bool:
        """Whether an event is here for which events of a stream may be left out; if this logger keeps that stream, the
        event must outlive it. To a logger that does not, the stream is what it is to any member."""
        return self._is_kept(by) if self.keeps(marked) else self.has(by)

    def awaits(self, name: StreamId, first: int, last: int) -> list[tuple[int, int]]:
        """What of a span was purged for something that is missing as well, and may yet come."""
        waiting = self.marks.of(name, first, last) if self.marks else []
        return [(max(first, low), min(last, high)) for low, high, by in waiting if self._is_missing(by)]

    def _is_missing(self, event: EventId) -> bool:
        stream = self.streams.get(event.stream)
        return stream is not None and stream.gaps is not None and bool(stream.gaps.lacks(event.seq, event.seq))

    def _accept_marked(self, packet: Packet, from_logger: bool) -> tuple[Packet, ...]:
        """Each mark counts if it is final, or what it names is here, or comes with it; with what lies between. The
        others wait."""
        fresh: list[Packet] = []
        at = packet.first
        waiting = self._waiting_holes(packet)
        for hole in waiting:
            if at < hole.first:
                fresh += self._accept(packet.cut(at, hole.first - 1), from_logger)
            at = hole.last + 1
        if at <= packet.last:
            fresh += self._accept(packet.cut(at, packet.last), from_logger)
        for hole in waiting:
            fresh += self._accept_mark(packet, hole, from_logger)
        return tuple(fresh)

    def _waiting_holes(self, packet: Packet) -> tuple[Hole, ...]:
        """Those marks of a packet that do not count yet; all of them if it is not certain that its events are taken."""
        stream = self.streams.get(packet.stream)
        if stream is not None and (stream.limit is not None or (stream.gaps is not None and stream.gaps.sealed)):
            return packet.holes
        if self._is_full(packet):
            return packet.holes
        sizes, first, last = packet.table(), packet.first, packet.last
        believed, waiting = not self.keeps(packet.stream), []
        for hole in packet.holes:
            by = hole.by
            if isinstance(by, int) and first <= by <= last and sizes[by - first]:
                continue
            if not (hole.final and believed) and not self._excuses(packet.stream, packet.obsoleter(hole)):
                waiting.append(hole)
        return tuple(waiting)

    def _accept_mark(self, packet: Packet, hole: Hole, from_logger: bool) -> tuple[Packet, ...]:
        mark, by = packet.mark(hole), packet.obsoleter(hole)
        # A logger's word that it has something is believed: it waits for what makes up for it, safe or not.
        if (hole.final and not self.keeps(packet.stream)) or self._excuses(packet.stream, by):
            return self._accept(mark, from_logger)
        known = self.streams.get(packet.stream)
        if known is not None and known.limit is not None and hole.last > known.limit:
            return ()  # a straggler of a stream that is being closed
        stream = self.learn(packet.stream, hole.last)
        told = stream is not None and stream.gaps is not None and (hole.first, hole.last) in stream.gaps.patience
        if told and by.stream not in self.streams:  # told again: it will not come unless it is asked for
            self._on_named(by)
        if stream is not None and stream.gaps is not None and stream.gaps.lacks(hole.first, hole.last):
            self.marks.wait(mark, by)
            self._on_awaited(stream, hole.first, hole.last)
        return ()

    def _release_marks(self, fresh: tuple[Packet, ...], from_logger: bool) -> list[Packet]:
        """What has come is what some marks waited for; what these cover may in turn be what others waited for."""
        released: list[Packet] = []
        came = list(fresh)
        while came:
            part = came.pop()
            for mark in self.marks.release(part.stream, part.first, part.last):
                if self.keeps(mark.stream) and not self._excuses(mark.stream, mark.obsoleter(mark.holes[0])):
                    continue  # it is asked for again, when that is safe
                covered = self._accept(mark, from_logger)
                released += covered
                came += covered
        return released

    # Streams --------------------------------------------------------------------------------------------------------

    def begin(self, vector: tuple[Position, ...]) -> None:
        """Start at t_join: what is up to these positions is not ours to receive."""
        for position in vector:
            if position.stream not in self.streams and position.stream not in self.retired:
                self._add(Stream(position.stream, position.last + 1))

    def open(self, name: StreamId, heard: int = 0) -> Stream | None:
        """A stream never heard of, and now of that seq: all of it is after t_join, unless it is long over."""
        if name in self.retired:
            return None
        return self._add(Stream(name, 0 if self.from_the_beginning(name) else heard))

    def _add(self, stream: Stream) -> Stream:
        self.streams[stream.id] = stream
        self._on_opened(stream)
        return stream

    def retire(self, name: StreamId) -> bool:
        """Forget a stream; False if there is something left to receive, or its publisher may return."""
        stream = self.streams.get(name)
        if (stream is not None and stream.gaps is not None) or not self.retired.add(name):
            return False
        self.streams.pop(name, None)
        return True

    def _is_full(self, packet: Packet) -> bool:
        # A mark takes no room, and makes some: whoever refuses it is sent it again and again.
        return bool(packet.blob) and self.held_bytes + len(packet.blob) > self._ctx.config.hold_bytes_max

    def _hold_what_is_named(self, stream: Stream, packet: Packet, from_logger: bool) -> tuple[Packet, ...]:
        """No room to hold it back: it is repaired when its turn comes. Only what a mark waits for is let in, or its
        turn might never come: earlier events that it obsoletes are sent to us as marks, again and again."""
        self._refusing = True
        fresh: list[Packet] = []
        for seq in self.marks.named(stream.id, packet.first, packet.last):
            fresh += self._take(stream, packet.cut(seq, seq), from_logger)
        self.learn(stream.id, packet.last)
        return tuple(fresh)

    def _take(self, stream: Stream, packet: Packet, from_logger: bool) -> tuple[Packet, ...]:
        """What is missing of a packet that is out of order, or that closes a gap."""
        parts = stream.lacks(max(packet.first, stream.start), packet.last)
        if packet.first > stream.lastseen + 1:
            first, stream.lastseen = stream.lastseen + 1, packet.first - 1
            self._gap(stream, first, packet.first - 1)
        if stream.gaps is not None and stream.gaps.sealed and not from_logger:
            parts = [open_part for part in parts for open_part in stream.gaps.sealed.gaps(*part)]
        stream.lastseen = max(stream.lastseen, packet.last)
        fresh = []
        for first, last in parts:
            piece = packet.cut(first, last)
            fresh.append(piece)
            if stream.gaps is None:  # in order after all: only its head was a duplicate
                stream.next = last + 1
                self._ctx.effects.append(Deliver(piece))
            else:
                found_in = stream.gaps.opened_in(first) if piece.blob else None
                if found_in is not None:
                    self._ctx.tally.repair(self._ctx.round - found_in, last - first + 1)
                stream.gaps.resolve(first, last)
                stream.gaps.hold(Held(first, last, piece))
                self.held_bytes += len(piece.blob)
        if stream.gaps is not None:
            self._release(stream)
        return tuple(fresh)

    def _gap(self, stream: Stream, first: int, last: int) -> None:
        if stream.gaps is None:
            stream.gaps = Gaps()
        stream.gaps.gmissing.add(first, last)
        stream.gaps.opened.append((first, last, self._ctx.round))
        self._on_gap(stream, first, last)

    def _release(self, stream: Stream) -> None:
        """Deliver what has become in order."""
        gaps = stream.gaps
        assert gaps is not None
        done = 0
        for first, last, what in gaps.held:
            if first != stream.next:
                break
            done += 1
            stream.next = last + 1
            if isinstance(what, Packet):
                self.held_bytes -= len(what.blob)
                self._refusing = False
                self._ctx.effects.append(Deliver(what))
            else:
                self._ctx.effects.append(Skip(stream.id, first, last, what))
        if done:
            del gaps.held[:done]
            while gaps.opened and gaps.opened[0][1] < stream.next:
                del gaps.opened[0]
        if not gaps.gmissing and not gaps.missing:
            stream.gaps = None
