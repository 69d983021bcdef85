"""Answering other members: repairs, collected notices, and a second multicast for what many lack (rpbcast §4.3, §8)."""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import PACKETS_MAX, RANGES_MAX, Repair, Span
from gossamer.protocol.context import Context
from gossamer.protocol.gossip_buffer import GossipBuffer, fitting
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.sender import Sender


class Answers:
    """What this node can do for a member that lacks something."""

    __slots__ = (
        "_buffer", "_ctx", "_receiver", "_remulticast", "_requesters", "_sampled_round", "_sender", "_withholds",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        receiver: Receiver,
        buffer: GossipBuffer,
        sender: Sender,
        remulticast: Callable[[Packet], None],
        withholds: Callable[[NodeId, StreamId], bool] = lambda *_: False,
    ) -> None:
        """`withholds(requester, stream)`: whether a requester gets no purge marks of a stream, since it gets the events
        themselves from their sender."""
        self._withholds = withholds
        self._ctx = ctx
        self._receiver = receiver
        self._buffer = buffer
        self._sender = sender
        self._remulticast = remulticast
        self._requesters: dict[tuple[StreamId, int], dict[NodeId, None] | None] = {}
        self._sampled_round = -1

    def on_lacks(self, requester: NodeId, lacks: Iterable[Span]) -> tuple[Span, ...]:
        """Send what is at hand; return what was received here once and is at hand no more. Silence about the rest."""
        packets: list[Packet] = []
        collected: list[Span] = []
        budget = self._ctx.config.repair_bytes_max
        for span in lacks:
            absent = IntervalSet()
            for first, last in span.ranges:
                if budget <= 0:
                    break  # nobody has looked for the rest, so nothing is known of it
                found = self.find(span.stream, first, last)
                here = IntervalSet((packet.first, packet.last) for packet in found)
                withheld = any(packet.holes for packet in found) and self._withholds(requester, span.stream)
                found = without_marks(found) if withheld else self._with_obsoleters(found)
                packets += found
                budget -= sum(len(packet.blob) for packet in found)
                for part in here.gaps(first, last):
                    absent.add(*part)
            stream = self._receiver.streams.get(span.stream)
            if absent and stream is not None:
                had = IntervalSet(part for gap in absent.ranges() for part in stream.had(*gap))
                if had:
                    collected.append(Span(span.stream, had.ranges()[:RANGES_MAX]))
        if chosen := fitting(packets, self._ctx.config.repair_bytes_max):
            self._sample(requester, chosen)
            self._ctx.send(requester, Repair(chosen))
        return tuple(collected)

    def absent(self, lacks: Iterable[Span]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """The parts of some spans that are not at hand: those received here once, and those never received."""
        had: list[Span] = []
        never: list[Span] = []
        for span in lacks:
            absent = IntervalSet(span.ranges)
            for packet in [packet for part in span.ranges for packet in self.find(span.stream, *part)]:
                absent.remove(packet.first, packet.last)
            stream = self._receiver.streams.get(span.stream)
            received = [part for gap in absent.ranges() for part in (stream.had(*gap) if stream is not None else ())]
            for part in received:
                absent.remove(*part)
            if received:
                had.append(Span(span.stream, tuple(received[:RANGES_MAX])))
            if absent:
                never.append(Span(span.stream, absent.ranges()[:RANGES_MAX]))
        return tuple(had), tuple(never)

    def find(self, stream: StreamId, first: int, last: int) -> list[Packet]:
        """What is at hand of a span: recent, or our own and not logged yet."""
        found = self._buffer.find(stream, first, last)
        for gap in IntervalSet((packet.first, packet.last) for packet in found).gaps(first, last):
            found += self._sender.find(stream, *gap)
        return found

    def _with_obsoleters(self, packets: list[Packet]) -> list[Packet]:
        """With the marks of what was purged, what replaced it in the end: without it they are of no use."""
        with_them = list(packets)
        for packet in with_them:  # it grows: what replaced it may have been replaced in turn
            for hole in packet.holes if len(with_them) < PACKETS_MAX else ():
                stream, seq = packet.obsoleter(hole)
                if not hole.final and not any(p.stream == stream and p.first <= seq <= p.last for p in with_them):
                    with_them += self.find(stream, seq, seq)
        return with_them

    def _sample(self, requester: NodeId, packets: Iterable[Packet]) -> None:
        """Requests reach members at random, so how many reach this one tells how many lack it (rpbcast §8)."""
        needed = self._ctx.config.remulticast_requesters
        if not needed:
            return
        if self._sampled_round != self._ctx.round:
            self._sampled_round = self._ctx.round
            self._requesters.clear()
        for packet in packets:
            key = (packet.stream, packet.first)
            requesters = self._requesters.setdefault(key, {})
            if requesters is not None:
                requesters[requester] = None
                if len(requesters) >= needed:
                    self._requesters[key] = None  # once a round is enough
                    self._remulticast(packet)


def without_marks(packets: Iterable[Packet]) -> list[Packet]:
    """The parts of packets between their purge marks."""
    found: list[Packet] = []
    for packet in packets:
        holes = IntervalSet((hole.first, hole.last) for hole in packet.holes)
        found += [packet.cut(*part) for part in holes.gaps(packet.first, packet.last)]
    return found
