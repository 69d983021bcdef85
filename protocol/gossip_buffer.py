"""Recent packets, kept to answer other members' requests (the thesis's `gossipbuf`).

A packet leaves when it is `gclimit_rounds` old, or sooner when the buffer is over its bytes. In a mesh without loggers
it stays until it is stable, since nobody else will keep it.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from itertools import islice
from operator import attrgetter

from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet

_first = attrgetter("first")


class GossipBuffer:
    """Packets by stream and seq, and by age."""

    __slots__ = ("_ages", "_bytes_max", "_streams", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._streams: dict[StreamId, list[Packet]] = {}
        self._ages: deque[tuple[int, Packet]] = deque()
        self._bytes_max = bytes_max
        self.bytes = 0

    def add(self, packet: Packet, round_no: int) -> None:
        """Keep a packet that overlaps nothing kept already."""
        packets = self._streams.get(packet.stream)
        if packets is None:
            self._streams[packet.stream] = [packet]
        elif packet.first > packets[-1].first:
            packets.append(packet)
        else:
            insort(packets, packet, key=_first)
        self._ages.append((round_no, packet))
        self.bytes += len(packet.blob)
        while self.bytes > self._bytes_max and self._ages:
            self._drop(self._ages.popleft()[1])

    def find(self, stream: StreamId, first: int, last: int) -> list[Packet]:
        """What is here of a span, cut to it."""
        packets = self._streams.get(stream)
        if packets is None:
            return []
        parts = []
        for packet in islice(packets, max(0, bisect_right(packets, first, key=_first) - 1), None):
            if packet.first > last:
                break
            if packet.last >= first:
                parts.append(packet.cut(max(first, packet.first), min(last, packet.last)))
        return parts

    def collect(self, before_round: int, keep: Callable[[Packet], bool] | None = None) -> None:
        """Drop what came before a round; `keep` may hold back what is not stable yet."""
        kept, ages = [], self._ages
        while ages and ages[0][0] < before_round:
            entry = ages.popleft()
            packet = entry[1]
            if keep is not None and packet.stream in self._streams and keep(packet):
                kept.append(entry)
            else:
                self._drop(packet)
        ages.extendleft(reversed(kept))

    def holds(self, needed: Callable[[Packet], bool]) -> bool:
        """Whether anything here is still needed."""
        return any(needed(packet) for packets in self._streams.values() for packet in packets)

    def forget(self, stream: StreamId) -> None:
        """A stream is retired: nobody will ask for it."""
        self._streams.pop(stream, None)  # its packets count until their age runs out

    def _drop(self, packet: Packet) -> None:
        self.bytes -= len(packet.blob)
        packets = self._streams.get(packet.stream)
        if packets is None:
            return
        if len(packets) == 1:
            del self._streams[packet.stream]
        elif packets[0] is packet:  # they come and go in order, but for repairs
            del packets[0]
        else:
            del packets[bisect_left(packets, packet.first, key=_first)]
