"""Recent packets, kept to answer other members' requests (the thesis's `gossipbuf`).

A packet leaves when it is `gclimit_rounds` old, or sooner when the buffer is over its bytes. In a mesh without loggers
it stays until it is stable, since nobody else will keep it.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable

from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import PACKETS_MAX


class GossipBuffer:
    """Packets by stream and seq, and by age."""

    __slots__ = ("_ages", "_bytes_max", "_streams", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._streams: dict[StreamId, tuple[list[int], list[Packet]]] = {}
        self._ages: deque[tuple[int, StreamId, int]] = deque()
        self._bytes_max = bytes_max
        self.bytes = 0

    def add(self, packet: Packet, round_no: int) -> None:
        """Keep a packet that overlaps nothing kept already."""
        found = self._streams.get(packet.stream)
        if found is None:
            self._streams[packet.stream] = ([packet.first], [packet])
        else:
            firsts, packets = found
            if packet.first > firsts[-1]:
                firsts.append(packet.first)
                packets.append(packet)
            else:
                at = bisect_left(firsts, packet.first)
                firsts.insert(at, packet.first)
                packets.insert(at, packet)
        self._ages.append((round_no, packet.stream, packet.first))
        self.bytes += len(packet.blob)
        while self.bytes > self._bytes_max and self._ages:
            _, stream, first = self._ages.popleft()
            self._drop(stream, first)

    def find(self, stream: StreamId, first: int, last: int) -> list[Packet]:
        """What is here of a span, cut to it."""
        found = self._streams.get(stream)
        if found is None:
            return []
        firsts, packets = found
        at = max(0, bisect_right(firsts, first) - 1)
        parts = []
        while at < len(packets) and firsts[at] <= last:
            packet = packets[at]
            if packet.last >= first:
                parts.append(packet.cut(max(first, packet.first), min(last, packet.last)))
            at += 1
        return parts

    def collect(self, before_round: int, keep: Callable[[Packet], bool] | None = None) -> None:
        """Drop what came before a round; `keep` may hold back what is not stable yet."""
        kept = []
        while self._ages and self._ages[0][0] < before_round:
            entry = self._ages.popleft()
            _, stream, first = entry
            if keep is not None and (packet := self._get(stream, first)) is not None and keep(packet):
                kept.append(entry)
            else:
                self._drop(stream, first)
        self._ages.extendleft(reversed(kept))

    def holds(self, needed: Callable[[Packet], bool]) -> bool:
        """Whether anything here is still needed."""
        return any(needed(packet) for _, packets in self._streams.values() for packet in packets)

    def forget(self, stream: StreamId) -> None:
        """Drop everything of a retired stream."""
        found = self._streams.pop(stream, None)
        if found is not None:
            self.bytes -= sum(len(packet.blob) for packet in found[1])  # its ages run out by themselves

    def _get(self, stream: StreamId, first: int) -> Packet | None:
        firsts, packets = self._streams.get(stream, ((), ()))
        at = bisect_left(firsts, first)
        return packets[at] if at < len(firsts) else None

    def _drop(self, stream: StreamId, first: int) -> None:
        found = self._streams.get(stream)
        if found is None:
            return
        firsts, packets = found
        at = bisect_left(firsts, first)
        self.bytes -= len(packets[at].blob)
        del firsts[at], packets[at]
        if not firsts:
            del self._streams[stream]


def fitting(packets: Iterable[Packet], bytes_max: int) -> tuple[Packet, ...]:
    """As many of these as one answer may bring; the rest is asked for again."""
    chosen: list[Packet] = []
    for packet in packets:
        if bytes_max <= 0 or len(chosen) == PACKETS_MAX:
            break
        bytes_max -= len(packet.blob)
        chosen.append(packet)
    return tuple(chosen)
