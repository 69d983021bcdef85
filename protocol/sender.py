"""The sender: numbers a stream's events, keeps them until they are logged, announces itself idle (rpbcast §3.1).

An event is forgotten only when it is on `loggers_min` loggers' disks (in a mesh without loggers: held by f + 1
members), whatever acknowledgement its publisher asked for: freed earlier, a crash would leave a hole that nobody can
fill. What is not acknowledged in time goes to the loggers again.
Named publishers get their numbers in blocks: protocol/numbering.py. A client's stream is *adopted* (a named one:
*claimed*): its packets come numbered, and it may move to another node, where it sends again what was not acknowledged
here.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable

from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, NodeId, StreamId, issued_by
from gossamer.messages.packet import EVENTS_MAX, Packet, pack
from gossamer.messages.wire import Beat, CheckedOut, Data, GapNotice, Position, Return, Span
from gossamer.protocol.annotator import truncate
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Acked, Numbers, Refused
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.membership import Membership
from gossamer.protocol.numbering import READ, Numbering
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.thinning import thin

BACKOFF_MAX = 16
NEVER = float("inf")


class Outgoing:
    """One stream that is published here."""

    __slots__ = (
        "acked", "acks", "adopted", "backoff", "began", "beyond", "closed", "due", "following", "idle", "kept_at",
        "last_sent_at", "next", "noticed_at", "numbers", "queued", "stream", "tried_at", "unlogged", "unlogged_last",
    )  # fmt: skip

    def __init__(self, stream: StreamId, numbers: Numbering | None = None, adopted: bool = False) -> None:
        self.stream = stream
        self.adopted = adopted
        """Its publisher is a client, which may go on elsewhere."""
        self.numbers = numbers
        """Of a named publisher; an anonymous stream's are used up with its incarnation."""
        self.following = 0
        """Where a client that claims a name goes on, if it may."""
        self.noticed_at = 0.0
        """When the loggers were last told that what is before its numbers will not come."""
        self.next = 0
        self.unlogged: deque[Packet] = deque()
        """The thesis's `sendbuf`."""
        self.kept_at: deque[float] = deque()
        """When each packet of `unlogged` was published."""
        self.acks: dict[NodeId, int] = {}
        self.began: dict[NodeId, int] = {}
        """Where a member began: it has not got what is before, though its position is beyond it."""
        self.beyond: dict[NodeId, IntervalSet] = {}
        """Of loggers that lack earlier events: ranges on their disks after the first gap."""
        self.acked = -1
        self.unlogged_last = -1
        """Acknowledged when there was no logger: whoever waits for one hears of it when there is."""
        self.last_sent_at = 0.0
        self.tried_at = 0.0
        """When the oldest that is not logged was last sent, or the last progress was made."""
        self.backoff = 1
        self.due = NEVER
        self.idle = True
        """Announced as idle, or nothing sent yet."""
        self.closed = False
        self.queued: list[Content] = []
        """Waits for numbers."""


class Sender:
    """All streams that are published at this node."""

    __slots__ = (
        "_ctx", "_due", "_is_saturated", "_keepers", "_may_send", "_membership", "_over", "_soon_s", "bytes", "streams",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        may_send: Callable[[StreamId, int], bool] = lambda *_: True,
        is_saturated: Callable[[NodeId], bool] = lambda _: False,
        keepers: Callable[[StreamId], tuple[NodeId, ...]] | None = None,
    ) -> None:
        """`may_send(stream, next seq)` is back-pressure's word (protocol/flow.py); `is_saturated(node)` that something
        waits on the link to it (protocol/links.py); `keepers(stream)` are the other loggers that keep a stream."""
        self._keepers = keepers or (lambda _: membership.loggers)
        self._may_send = may_send
        self._is_saturated = is_saturated
        self._ctx = ctx
        self._soon_s = min(ctx.config.resend_s, ctx.config.idle_after_s)
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
            holder = f"{self._ctx.node[:150]}-{self._ctx.incarnation}"  # a new life remembers no numbers
            outgoing = Outgoing(stream, Numbering(stream, holder, self._ctx.config.block_seqs))
            self.streams[stream] = outgoing
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
            outgoing = self.streams[stream] = Outgoing(stream)
        waiting = len(outgoing.queued) >= self._ctx.config.block_seqs
        if waiting or self.bytes >= self._ctx.config.send_buffer_bytes_max:
            self._ctx.emit(Refused(stream, len(contents), "the send buffer is full"))
            return []
        if not self._may_send(stream, outgoing.next + len(outgoing.queued)):
            self._ctx.emit(Refused(stream, len(contents), "back-pressure: a member has no room for more"))
            return []
        outgoing.queued.extend(contents)
        return self._flush(outgoing)

    def adopt(self, stream: StreamId, following: int) -> None:
        """A client numbers this stream itself, and goes on at `following`: what is before, others have."""
        if stream in self._over or issued_by(stream) is None:
            self._ctx.emit(Refused(stream, 0, "the stream is closed"))
            return
        outgoing = self.streams.setdefault(stream, Outgoing(stream, adopted=True))
        outgoing.next = max(outgoing.next, following)
        outgoing.closed = False
        self._tell_again(outgoing)

    def claim(self, stream: StreamId, holder: str, held: bool, following: int) -> None:
        """A client wants to publish under a name: from here on, if the loggers let it."""
        outgoing = self.streams.get(stream)
        if outgoing is None or outgoing.numbers is None or outgoing.numbers.holder != holder:
            if outgoing is None:
                outgoing = self.streams[stream] = Outgoing(stream)
            # What another client published under the name stays ours to have logged.
            outgoing.adopted, outgoing.closed = True, False
            outgoing.numbers = Numbering(stream, holder, self._ctx.config.block_seqs, held)
            outgoing.following = following
            self._check_out(outgoing)
            self._arm(outgoing, self._ctx.config.resend_s)
            return
        outgoing.closed = False
        outgoing.following = max(outgoing.following, following)
        self._tell_again(outgoing)
        if outgoing.numbers.last >= 0:
            self._on_numbers(outgoing, outgoing.numbers)

    def _tell_again(self, outgoing: Outgoing) -> None:
        """A client is back: what was acknowledged when it was not listening, nothing else would tell it of."""
        if outgoing.acked >= 0:
            logged = self._membership.has_loggers and outgoing.unlogged_last < 0
            self._ctx.emit(Acked(outgoing.stream, outgoing.acked, "logged" if logged else "safe"))

    def _on_numbers(self, outgoing: Outgoing, numbers: Numbering) -> None:
        """Tell a client which numbers it has, if it waits for some."""
        outgoing.next = max(outgoing.next, outgoing.following, numbers.floor)
        if outgoing.next <= numbers.last:
            self._ctx.emit(Numbers(outgoing.stream, numbers.holder, numbers.floor, numbers.last))
        self._extend(outgoing)

    def forward(self, packet: Packet) -> list[Packet]:
        """Take a client's packet as our own; returns what of it is new here, to be disseminated. After one that was
        refused, those behind it are out of turn: their client begins again at `next`."""
        outgoing, last = self.streams.get(packet.stream), packet.last
        reason = None
        if outgoing is None or outgoing.closed:
            reason = "the stream is closed"
        elif last < outgoing.next:
            return []
        elif packet.first > outgoing.next:
            reason = f"out of turn: {outgoing.next} comes next"
        elif outgoing.numbers is not None and last > outgoing.numbers.last:
            reason = f"its numbers go up to {outgoing.numbers.last}"
        elif self.bytes >= self._ctx.config.send_buffer_bytes_max:
            reason = "the send buffer is full"
        elif not self._may_send(packet.stream, outgoing.next):
            reason = "back-pressure: a member has no room for more"
        if reason is not None or outgoing is None:
            self._ctx.emit(Refused(packet.stream, packet.count, reason or ""))
            return []
        if packet.first < outgoing.next:
            packet = packet.cut(outgoing.next, last)
        alone = self._membership.alone
        if alone and not outgoing.unlogged:  # nobody's word is needed, so nobody's is waited for, and nothing is kept
            outgoing.next = last + 1
            self._reached(outgoing, last, False)
        else:
            self._keep(outgoing, packet)
        self._sent(outgoing)
        if outgoing.numbers is not None:
            self._extend(outgoing)
        # It may have been published elsewhere before, and others have said that they have it.
        known = outgoing.beyond or (outgoing.acks and max(outgoing.acks.values()) >= last)
        if outgoing.unlogged and (alone or known):
            self._free(outgoing, everything=alone)
        return [packet]

    def abandon(self, stream: StreamId) -> bool:
        """Its client is gone, and may be elsewhere; whether we could let go. What is not logged stays with us."""
        outgoing = self.streams.get(stream)
        if outgoing is None or outgoing.closed:
            return False
        if outgoing.unlogged:
            return False
        del self.streams[stream]
        return True

    def close(self, stream: StreamId) -> tuple[Beat, ...]:
        outgoing = self.streams.get(stream)
        if outgoing is None:
            return ()
        outgoing.closed = True
        return self._ended(outgoing)

    def _flush(self, outgoing: Outgoing) -> list[Packet]:
        packets = []
        while outgoing.queued:
            room = EVENTS_MAX
            if outgoing.numbers is not None:
                room = min(room, outgoing.numbers.last - outgoing.next + 1)
            if room <= 0:
                break
            packet = self._pack(outgoing, min(room, len(outgoing.queued)))
            if packet is None:
                continue
            self._keep(outgoing, packet)
            packets.append(packet)
        if packets:
            self._sent(outgoing)
            if not self._membership.has_loggers and not self._membership.others:
                self._free(outgoing)  # there is nobody to wait for
        self._extend(outgoing)
        return packets

    def _extend(self, outgoing: Outgoing) -> None:
        """Ask for more numbers while there are some left."""
        numbers, config = outgoing.numbers, self._ctx.config
        if numbers is not None and numbers.asks is None and numbers.last - outgoing.next < config.block_seqs // 2:
            numbers.extend()
            self._check_out(outgoing)
            self._arm(outgoing, config.resend_s)

    def _keep(self, outgoing: Outgoing, packet: Packet) -> None:
        outgoing.next = packet.last + 1
        if not outgoing.unlogged:
            outgoing.tried_at = self._ctx.now
        outgoing.unlogged.append(packet)
        outgoing.kept_at.append(self._ctx.now)
        self.bytes += len(packet.blob)

    def _sent(self, outgoing: Outgoing) -> None:
        outgoing.idle = False
        outgoing.backoff = 1
        outgoing.last_sent_at = now = self._ctx.now
        if outgoing.due > now + self._soon_s:
            self._arm(outgoing, self._soon_s)

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

    def on_positions(self, sender: NodeId, vector: Iterable[Position], beyond: Iterable[Span] = ()) -> tuple[Beat, ...]:
        """Derive acknowledgements from what a logger (without loggers: any member) says it has (rpbcast §5.2). What a
        logger has on disk `beyond` a gap counts as logged too: else one gap would stop every publisher."""
        ended: tuple[Beat, ...] = ()
        for span in beyond:
            outgoing = self.streams.get(span.stream)
            if outgoing is not None and span.ranges:
                outgoing.beyond[sender] = IntervalSet(span.ranges)
                self._free(outgoing)
                ended += self._ended(outgoing)
        for position in vector:
            outgoing = self.streams.get(position.stream)
            if outgoing is not None and not position.passing and position.last > outgoing.acks.get(sender, -1):
                outgoing.acks[sender] = position.last
                if outgoing.beyond and sender in outgoing.beyond and outgoing.beyond[sender].last() <= position.last:
                    del outgoing.beyond[sender]
                outgoing.began[sender] = position.start
                self._free(outgoing)
                ended += self._ended(outgoing)
        return ended

    def on_new_life(self, node: NodeId) -> None:
        """A member came, or came back without its memory."""
        for outgoing in self.streams.values():
            outgoing.acks.pop(node, None)
            outgoing.beyond.pop(node, None)

    def on_members_changed(self) -> tuple[Beat, ...]:
        """Fewer may be enough now: f, or the loggers, have changed."""
        ended: tuple[Beat, ...] = ()
        for outgoing in list(self.streams.values()):
            self._free(outgoing)
            ended += self._ended(outgoing)
        return ended

    def on_taken_over(self, stream: StreamId, epoch: int) -> None:
        """A named publisher of ours has come up elsewhere, and what we have not logged is taken for lost there."""
        outgoing = self.streams.get(stream)
        if outgoing is not None and outgoing.numbers is not None and READ != outgoing.numbers.epoch < epoch:
            self._let_go(stream, "superseded: published from elsewhere")

    def on_sealed(self, stream: StreamId) -> bool:
        """What comes from a client is closed already: if it is a named publisher, it has been taken over."""
        outgoing = self.streams.get(stream)
        if outgoing is None or outgoing.numbers is None:
            return False
        self._let_go(stream, "superseded: published from elsewhere")
        return True

    def on_lost(self, stream: StreamId) -> None:
        """The others took us for dead and have closed our stream: its publisher has to know, and to begin another."""
        self._let_go(stream, "the stream was closed, because this node was taken for dead")

    def _let_go(self, stream: StreamId, reason: str) -> None:
        outgoing = self.streams.pop(stream, None)
        if outgoing is not None:
            self.bytes -= sum(len(packet.blob) for packet in outgoing.unlogged)
            self._over.add(stream)
            self._ctx.emit(Refused(stream, len(outgoing.queued), reason))

    def _free(self, outgoing: Outgoing, *, everything: bool = False) -> None:
        """Forget what enough others keep, or everything."""
        last = outgoing.acked
        while outgoing.unlogged and (everything or self._is_kept(outgoing, outgoing.unlogged[0])):
            packet = outgoing.unlogged.popleft()
            outgoing.kept_at.popleft()
            self.bytes -= len(packet.blob)
            last = packet.last
        if last > outgoing.acked:
            self._reached(outgoing, last, self._membership.has_loggers)
        elif outgoing.unlogged_last >= 0 and self._membership.has_loggers:
            having = [node for node, at in outgoing.acks.items() if at >= outgoing.unlogged_last]
            if sum(map(self._may_log, having)) >= self._ctx.config.loggers_min:
                self._ctx.emit(Acked(outgoing.stream, outgoing.unlogged_last, "logged"))
                outgoing.unlogged_last = -1

    def _reached(self, outgoing: Outgoing, last: int, logs: bool) -> None:
        """Acknowledged up to here, by loggers if there are any."""
        outgoing.acked = last
        outgoing.backoff = 1
        outgoing.tried_at = self._ctx.now
        outgoing.unlogged_last = last if outgoing.adopted and not logs else -1
        self._ctx.effects.append(Acked(outgoing.stream, last, "logged" if logs else "safe"))

    def _is_kept(self, outgoing: Outgoing, packet: Packet) -> bool:
        having = [node for node, last in outgoing.acks.items() if last >= packet.last]
        if self._membership.has_loggers:
            having += [node for node in outgoing.beyond if node not in having and _is_beyond(outgoing, node, packet)]
            return sum(self._may_log(node) for node in having) >= self._ctx.config.loggers_min
        # This node is the first of the f + 1; and what everyone has needs no more keeping, if we know enough of them.
        others = self._membership.others
        faults = self._membership.faults
        if len(others) >= faults and all(outgoing.acks.get(node, -1) >= packet.last for node in others):
            return True
        return sum(outgoing.began[node] <= packet.first for node in having) >= faults

    def _may_log(self, node: NodeId) -> bool:
        return node == self._ctx.node or self._membership.is_logger(node)

    def _ended(self, outgoing: Outgoing) -> tuple[Beat, ...]:
        if not outgoing.closed or outgoing.unlogged or outgoing.queued:
            return ()
        del self.streams[outgoing.stream]
        self._over.add(outgoing.stream)
        numbers = outgoing.numbers
        if numbers is not None and numbers.last >= 0:
            returned = Return(outgoing.stream, numbers.epoch, numbers.holder, outgoing.next - 1)
            self._ctx.multicast(self._membership.loggers, returned)
        if outgoing.next == 0:
            return ()
        return (Beat(outgoing.stream, outgoing.next - 1, numbers is None),)  # a name may come back

    # Time -----------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        return self._due[0][0] if self._due else float("inf")

    def on_due(self) -> tuple[Beat, ...]:
        """Send again what is not acknowledged, and find out which streams have gone idle."""
        beats = []
        config, now = self._ctx.config, self._ctx.now
        while self._due and self._due[0][0] <= now:
            due, name = heapq.heappop(self._due)
            outgoing = self.streams.get(name)
            if outgoing is None or outgoing.due != due:
                continue  # it was armed anew meanwhile
            outgoing.due = NEVER
            asking = outgoing.numbers is not None and outgoing.numbers.asks is not None
            if asking:
                self._check_out(outgoing)
            deaf = self._deaf(outgoing)
            if deaf and now >= outgoing.noticed_at + config.resend_s * outgoing.backoff:
                self._give_notice(outgoing, deaf)
                outgoing.backoff = min(2 * outgoing.backoff, BACKOFF_MAX)
            if not outgoing.idle and now >= outgoing.last_sent_at + config.idle_after_s:
                outgoing.idle = True
                beats.append(Beat(name, outgoing.next - 1))
            if outgoing.unlogged and now >= outgoing.tried_at + config.resend_s * outgoing.backoff:
                self._resend(outgoing)
                outgoing.tried_at = now
                outgoing.backoff = min(2 * outgoing.backoff, BACKOFF_MAX)
            if not outgoing.idle:
                self._arm(outgoing, self._soon_s)
            elif outgoing.unlogged or asking or deaf:
                self._arm(outgoing, config.resend_s * outgoing.backoff)
        return tuple(beats)

    def _deaf(self, outgoing: Outgoing) -> tuple[NodeId, ...]:
        """Loggers that wait for what an earlier holder of a name did not send, and that will not come."""
        numbers = outgoing.numbers
        if numbers is None or numbers.floor == 0:
            return ()
        loggers = (node for node in self._keepers(outgoing.stream) if node in self._membership.active)
        return tuple(node for node in loggers if outgoing.acks.get(node, -1) < numbers.floor - 1)

    def _give_notice(self, outgoing: Outgoing, to: tuple[NodeId, ...]) -> None:
        assert outgoing.numbers is not None
        outgoing.noticed_at = self._ctx.now
        numbers = outgoing.numbers
        self._ctx.multicast(to, GapNotice(outgoing.stream, numbers.floor - 1, numbers.epoch))

    def oldest_s(self, now: float) -> float:
        """The age of the oldest event here that is not acknowledged."""
        return max((now - out.kept_at[0] for out in self.streams.values() if out.kept_at), default=0.0)

    def overdue(self, before: float) -> tuple[int, tuple[NodeId, ...]]:
        """How many streams wait for loggers with an event from `before` a time, and the loggers that lack it."""
        streams, silent = 0, dict[NodeId, None]()
        for outgoing in self.streams.values() if self._membership.has_loggers else ():
            if outgoing.kept_at and outgoing.kept_at[0] < before:
                streams += 1
                packet = outgoing.unlogged[0]
                silent |= {node: None for node in self._keepers(outgoing.stream) if _lacks(outgoing, node, packet)}
        return streams, tuple(silent)

    def hurry(self) -> None:
        """Somebody came (back) who may log: do not wait out the back-off."""
        for outgoing in self.streams.values():
            outgoing.backoff = 1
            if outgoing.unlogged or (outgoing.numbers is not None and outgoing.numbers.asks is not None):
                self._arm(outgoing, self._ctx.config.resend_s)

    def _arm(self, outgoing: Outgoing, after_s: float) -> None:
        due = self._ctx.now + after_s
        if due < outgoing.due:
            outgoing.due = due
            heapq.heappush(self._due, (due, outgoing.stream))

    def _resend(self, outgoing: Outgoing) -> None:
        """Oldest first, to those whose acknowledgement is wanted and missing."""
        to = self._keepers(outgoing.stream)
        if not self._membership.has_loggers:
            others = self._membership.active
            to = tuple(self._ctx.rng.sample(others, min(len(others), max(1, self._membership.faults))))
        # What was sent may still wait on its link; to send it again would keep the link from ever getting to the end.
        to = tuple(node for node in to if not self._is_saturated(node))
        budget = self._ctx.config.repair_bytes_max
        for packet in outgoing.unlogged:
            late = tuple(node for node in to if _lacks(outgoing, node, packet))
            self._ctx.multicast(late, Data(self._ctx.node, packet))
            budget -= len(packet.blob)
            if budget <= 0:
                break

    def purge(self, purges: Callable[[StreamId], bool], is_safe: Callable[[EventId], bool]) -> int:
        """Thin what is not logged yet by what is obsolete for something safe: it counts as acknowledged with the rest
        of its packet. Returns how many events."""
        unlogged = (packet for outgoing in self.streams.values() for packet in outgoing.unlogged)
        thinner = thin(unlogged, purges, is_safe)
        replaced = {(packet.stream, packet.first): thinned for packet, thinned in thinner}
        for name in {name: None for name, _ in replaced}:
            outgoing = self.streams[name]
            outgoing.unlogged = deque(replaced.get((name, packet.first), packet) for packet in outgoing.unlogged)
        self.bytes = sum(len(packet.blob) for outgoing in self.streams.values() for packet in outgoing.unlogged)
        return sum(packet.present - thinned.present for packet, thinned in thinner)

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
        """A logger's answer about numbers. Returns what may be disseminated at last."""
        outgoing = self.streams.get(message.stream)
        if outgoing is None or outgoing.numbers is None or not self._membership.is_logger(sender):
            return []
        numbers, asked, epoch = outgoing.numbers, outgoing.numbers.asks, outgoing.numbers.epoch
        more = numbers.on_checked_out(sender, message, len(self._membership.loggers))
        if numbers.superseded:
            self._let_go(message.stream, "superseded: published from elsewhere")
            return []
        if numbers.asks is not None and numbers.asks != asked:
            self._check_out(outgoing)
        if not more:
            return []
        if numbers.epoch != epoch and numbers.floor > outgoing.next:  # what is before is not ours to send
            outgoing.next = numbers.floor
            # Who is how far back was said before the numbers jumped.
            outgoing.queued = [truncate(content, at) for at, content in enumerate(outgoing.queued)]
            self._give_notice(outgoing, self._membership.others)
        self._arm(outgoing, self._ctx.config.resend_s)
        if outgoing.adopted:
            self._on_numbers(outgoing, numbers)
        return self._flush(outgoing)

    def _check_out(self, outgoing: Outgoing) -> None:
        if outgoing.numbers is not None and outgoing.numbers.asks is not None:
            self._ctx.multicast(self._membership.loggers, outgoing.numbers.asks)


def _lacks(outgoing: Outgoing, node: NodeId, packet: Packet) -> bool:
    return outgoing.acks.get(node, -1) < packet.last and not _is_beyond(outgoing, node, packet)


def _is_beyond(outgoing: Outgoing, node: NodeId, packet: Packet) -> bool:
    """Whether a logger that lacks earlier events has a whole packet on disk."""
    beyond = outgoing.beyond.get(node)
    return beyond is not None and packet.first in beyond and beyond.run(packet.first) >= packet.last
