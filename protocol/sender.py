"""The sender: numbers a stream's events, keeps them until they are logged, announces itself idle (rpbcast §3.1).

An event is forgotten only when it is on `loggers_min` loggers' disks (in a mesh without loggers: held by f + 1
members), whatever acknowledgement its publisher asked for: freed earlier, a crash would leave a hole that nobody can
fill. What is not acknowledged in time goes to the loggers again.

A named publisher's stream spans its restarts. Its numbers are checked out in blocks from a majority of the loggers, in
two steps: read the highest block ever promised, then write a higher one. Two majorities meet in a logger, and a logger
that has promised to an incarnation refuses all lower ones, so no two incarnations ever use one number. What the last
incarnation had not logged is lost with it: a gap notice says so.
"""

import heapq
from collections import deque
from collections.abc import Iterable

from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import NodeId, StreamId, issued_by
from gossamer.messages.packet import EVENTS_MAX, Packet, pack
from gossamer.messages.wire import Beat, CheckedOut, Checkout, Data, GapNotice, Position
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Acked, Refused
from gossamer.protocol.membership import Membership
from gossamer.protocol.retired import RetiredStreams

BACKOFF_MAX = 16


class Outgoing:
    """One stream that is published here."""

    __slots__ = (
        "acked", "acks", "armed", "began", "backoff", "block_last", "checkout", "closed", "idle", "last_sent_at",
        "next", "queued", "stream", "unlogged",
    )  # fmt: skip

    def __init__(self, stream: StreamId, block_last: int | None) -> None:
        self.stream = stream
        self.next = 0
        self.unlogged: deque[Packet] = deque()
        """The thesis's `sendbuf`."""
        self.acks: dict[NodeId, int] = {}
        self.began: dict[NodeId, int] = {}
        """Where we were when a member came: it need not have what is before, though its position is beyond it."""
        self.acked = -1
        self.last_sent_at = 0.0
        self.backoff = 1
        self.armed = False
        self.idle = True
        """Announced as idle, or nothing sent yet."""
        self.closed = False
        self.block_last = block_last
        """The last number that may be used; None for an anonymous stream, which is used up with its incarnation."""
        self.queued: list[Content] = []
        """Waits for a block of numbers."""
        self.checkout: _CheckingOut | None = None


class _CheckingOut:
    """A checkout under way: reading until `last` is set, then writing it."""

    __slots__ = ("answers", "highest", "last")

    def __init__(self, last: int | None = None) -> None:
        self.answers: dict[NodeId, None] = {}
        self.highest = -1
        self.last = last


class Sender:
    """All streams that are published at this node."""

    __slots__ = ("_ctx", "_due", "_membership", "_over", "bytes", "streams")

    def __init__(self, ctx: Context, membership: Membership) -> None:
        self._ctx = ctx
        self._membership = membership
        self._due: list[tuple[float, StreamId]] = []
        self._over = RetiredStreams()
        """Ended here: their numbers are used up."""
        self.streams: dict[StreamId, Outgoing] = {}
        self.bytes = 0

    # Publishing -----------------------------------------------------------------------------------------------------

    def open(self, stream: StreamId) -> None:
        """A named publisher: no number may be used before a block of them is checked out."""
        if stream not in self.streams:
            outgoing = self.streams[stream] = Outgoing(stream, block_last=-1)
            outgoing.checkout = _CheckingOut()
            self._check_out(outgoing)
            self._arm(outgoing, self._ctx.config.resend_s)

    def publish(self, stream: StreamId, contents: tuple[Content, ...]) -> list[Packet]:
        """Number and encode events; returns the packets to disseminate now."""
        outgoing = self.streams.get(stream)
        if (outgoing is not None and outgoing.closed) or stream in self._over:
            self._ctx.emit(Refused(stream, len(contents), "the stream is closed"))
            return []
        if outgoing is None:
            if issued_by(stream) is None:  # its numbers may be another incarnation's
                self._ctx.emit(Refused(stream, len(contents), "the publisher is not open"))
                return []
            outgoing = self.streams[stream] = Outgoing(stream, block_last=None)
        waiting = len(outgoing.queued) >= self._ctx.config.block_seqs
        if waiting or self.bytes >= self._ctx.config.send_buffer_bytes_max:
            self._ctx.emit(Refused(stream, len(contents), "the send buffer is full"))
            return []
        outgoing.queued.extend(contents)
        return self._flush(outgoing)

    def close(self, stream: StreamId) -> tuple[Beat, ...]:
        outgoing = self.streams.get(stream)
        if outgoing is None:
            return ()
        outgoing.closed = True
        return self._ended(outgoing)

    def _flush(self, outgoing: Outgoing) -> list[Packet]:
        config = self._ctx.config
        packets = []
        while outgoing.queued:
            room = EVENTS_MAX
            if outgoing.block_last is not None:
                room = min(room, outgoing.block_last - outgoing.next + 1)
            if room <= 0:
                break
            packet = self._pack(outgoing, min(room, len(outgoing.queued)))
            if packet is None:
                continue
            outgoing.next = packet.last + 1
            outgoing.unlogged.append(packet)
            self.bytes += len(packet.blob)
            packets.append(packet)
        if packets:
            outgoing.idle = False
            outgoing.backoff = 1
            outgoing.last_sent_at = self._ctx.now
            self._arm(outgoing, min(config.resend_s, config.idle_after_s))
        if (
            outgoing.block_last is not None
            and outgoing.checkout is None
            and outgoing.block_last - outgoing.next < config.block_seqs // 2
        ):
            outgoing.checkout = _CheckingOut(outgoing.block_last + config.block_seqs)
            self._check_out(outgoing)
        return packets

    def _pack(self, outgoing: Outgoing, count: int) -> Packet | None:
        """The next `count` events as a packet, or fewer if they are too many bytes; None if one alone is too many."""
        while True:
            try:
                packet = pack(outgoing.stream, outgoing.next, outgoing.queued[:count])
            except UsageError as error:
                if count == 1:
                    del outgoing.queued[0]
                    self._ctx.emit(Refused(outgoing.stream, 1, str(error)))
                    return None
                count //= 2
            else:
                del outgoing.queued[:count]
                return packet

    # Acknowledgements -----------------------------------------------------------------------------------------------

    def on_positions(self, sender: NodeId, vector: Iterable[Position]) -> tuple[Beat, ...]:
        """Derive acknowledgements from what a logger (without loggers: any member) says it has (rpbcast §5.2)."""
        ended: tuple[Beat, ...] = ()
        for position in vector:
            outgoing = self.streams.get(position.stream)
            if outgoing is not None and position.last > outgoing.acks.get(sender, -1):
                outgoing.acks[sender] = position.last
                self._free(outgoing)
                ended += self._ended(outgoing)
        return ended

    def on_new_life(self, node: NodeId) -> None:
        """A member came, or came back without its memory."""
        for outgoing in self.streams.values():
            outgoing.began[node] = outgoing.next
            outgoing.acks.pop(node, None)

    def _free(self, outgoing: Outgoing) -> None:
        """Forget what enough others keep."""
        last = outgoing.acked
        while outgoing.unlogged and self._is_kept(outgoing, outgoing.unlogged[0]):
            packet = outgoing.unlogged.popleft()
            self.bytes -= len(packet.blob)
            last = packet.last
        if last > outgoing.acked:
            outgoing.acked = last
            outgoing.backoff = 1
            self._ctx.emit(Acked(outgoing.stream, last, "logged" if self._membership.has_loggers else "safe"))

    def _is_kept(self, outgoing: Outgoing, packet: Packet) -> bool:
        having = [node for node, last in outgoing.acks.items() if last >= packet.last]
        if self._membership.has_loggers:
            return sum(self._may_log(node) for node in having) >= self._ctx.config.loggers_min
        # This node is the first of the f + 1.
        return sum(outgoing.began.get(node, 0) <= packet.first for node in having) >= self.faults

    def _may_log(self, node: NodeId) -> bool:
        return node == self._ctx.node or self._membership.is_logger(node)

    @property
    def faults(self) -> int:
        """f: how many members may be lost with what they hold."""
        configured = self._ctx.config.faults
        return len(self._membership.others) // 2 if configured is None else configured

    def _ended(self, outgoing: Outgoing) -> tuple[Beat, ...]:
        if not outgoing.closed or outgoing.unlogged or outgoing.queued:
            return ()
        del self.streams[outgoing.stream]
        self._over.add(outgoing.stream)
        if outgoing.next == 0:
            return ()
        return (Beat(outgoing.stream, outgoing.next - 1, True),)

    # Time -----------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        return self._due[0][0] if self._due else float("inf")

    def on_due(self) -> tuple[Beat, ...]:
        """Send again what is not acknowledged, and find out which streams have gone idle."""
        beats = []
        config = self._ctx.config
        while self._due and self._due[0][0] <= self._ctx.now:
            _, name = heapq.heappop(self._due)
            outgoing = self.streams.get(name)
            if outgoing is None:
                continue
            outgoing.armed = False
            if outgoing.checkout is not None:
                self._check_out(outgoing)
            if not outgoing.idle and self._ctx.now >= outgoing.last_sent_at + config.idle_after_s:
                outgoing.idle = True
                beats.append(Beat(name, outgoing.next - 1))
            if outgoing.unlogged and self._ctx.now >= outgoing.last_sent_at + config.resend_s:
                self._resend(outgoing)
                outgoing.backoff = min(2 * outgoing.backoff, BACKOFF_MAX)
            if not outgoing.idle:
                self._arm(outgoing, min(config.resend_s, config.idle_after_s))
            elif outgoing.unlogged or outgoing.checkout is not None:
                self._arm(outgoing, config.resend_s * outgoing.backoff)
        return tuple(beats)

    def hurry(self) -> None:
        """Somebody came (back) who may log: do not wait out the back-off."""
        for outgoing in self.streams.values():
            outgoing.backoff = 1
            if outgoing.unlogged or outgoing.checkout is not None:
                outgoing.armed = False
                self._arm(outgoing, self._ctx.config.resend_s)

    def _arm(self, outgoing: Outgoing, after_s: float) -> None:
        if not outgoing.armed:
            outgoing.armed = True
            heapq.heappush(self._due, (self._ctx.now + after_s, outgoing.stream))

    def _resend(self, outgoing: Outgoing) -> None:
        """Oldest first, to those whose acknowledgement is wanted and missing."""
        to = self._membership.loggers
        if not self._membership.has_loggers:
            others = self._membership.active
            to = tuple(self._ctx.rng.sample(others, min(len(others), max(1, self.faults))))
        budget = self._ctx.config.repair_bytes_max
        for packet in outgoing.unlogged:
            late = tuple(node for node in to if outgoing.acks.get(node, -1) < packet.last)
            self._ctx.multicast(late, Data(self._ctx.node, packet))
            budget -= len(packet.blob)
            if budget <= 0:
                break

    def find(self, stream: StreamId, first: int, last: int) -> list[Packet]:
        """What is kept of a span of one of our own streams, cut to it."""
        outgoing = self.streams.get(stream)
        if outgoing is None:
            return []
        return [
            packet.cut(max(first, packet.first), min(last, packet.last))
            for packet in outgoing.unlogged
            if packet.first <= last and packet.last >= first
        ]

    # Named publishers -----------------------------------------------------------------------------------------------

    def on_checked_out(self, sender: NodeId, message: CheckedOut) -> list[Packet]:
        """Count a logger's answer; with a majority, go on. Returns what may be disseminated at last."""
        outgoing = self.streams.get(message.stream)
        if outgoing is None or outgoing.checkout is None or not self._may_log(sender):
            return []
        if message.incarnation > self._ctx.incarnation:
            del self.streams[message.stream]
            self._ctx.emit(Refused(message.stream, len(outgoing.queued), "superseded by a later incarnation"))
            return []
        checkout = outgoing.checkout
        if message.incarnation < self._ctx.incarnation or message.asked != (
            -1 if checkout.last is None else checkout.last
        ):
            return []
        checkout.answers[sender] = None
        checkout.highest = max(checkout.highest, message.last)
        if len(checkout.answers) < self._majority():
            return []
        if checkout.last is None:
            outgoing.checkout = _CheckingOut(checkout.highest + self._ctx.config.block_seqs)
            outgoing.checkout.highest = checkout.highest
            self._check_out(outgoing)
            return []
        outgoing.checkout = None
        if outgoing.block_last == -1:
            outgoing.next = checkout.last - self._ctx.config.block_seqs + 1
            if outgoing.next > 0:
                self._ctx.multicast(self._membership.others, GapNotice(outgoing.stream, outgoing.next - 1))
        outgoing.block_last = checkout.last
        return self._flush(outgoing)

    def _check_out(self, outgoing: Outgoing) -> None:
        assert outgoing.checkout is not None
        asked = -1 if outgoing.checkout.last is None else outgoing.checkout.last
        self._ctx.multicast(self._membership.loggers, Checkout(outgoing.stream, self._ctx.incarnation, asked))

    def _majority(self) -> int:
        loggers = len(self._membership.loggers) + self._ctx.logger
        return max(1, loggers // 2 + 1)
