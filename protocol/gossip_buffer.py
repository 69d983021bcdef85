"""Recent packets, kept to answer other members' requests (the thesis's `gossipbuf`).

A packet leaves when it is `gclimit_rounds` old, or sooner when the buffer is over its bytes. In a mesh without loggers
it stays until it is stable, since nobody else will keep it.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter

from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import PACKETS_MAX
from gossamer.protocol.thinning import thin

PURGE_EVENTS_MAX = 16_384
"""Looked at in one pass."""
LOOKS = 8
LOOKED_AT_MIN = 256
"""What is old and still needed is looked at again in turn: so many of it in a round, or all in so many rounds. Without
loggers an event stays until everybody has acknowledged it, and to look at all that waits, in every round, was half of a
node's work with thousands of streams."""
_first = attrgetter("first")


class GossipBuffer:
    """Packets by stream and seq, and by age."""

    __slots__ = ("_ages", "_bytes_max", "_needed", "_streams", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._streams: dict[StreamId, list[Packet]] = {}
        self._ages: deque[tuple[int, StreamId, int]] = deque()
        self._needed: deque[tuple[int, StreamId, int]] = deque()
        """Older than all in `_ages`, and kept back."""
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
        self._ages.append((round_no, packet.stream, packet.first))
        self.bytes += len(packet.blob)
        while self.bytes > self._bytes_max and (oldest := self._needed or self._ages):
            _, stream, first = oldest.popleft()
            if (packets := self._streams.get(stream)) is not None and _holds(packets, first):
                self._drop(packets, first)

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
        ages, needed = self._ages, self._needed
        for _ in range(min(len(needed), max(LOOKED_AT_MIN, len(needed) // LOOKS))):
            self._drop_or_keep(needed.popleft(), before_round, keep)
        while ages and ages[0][0] < before_round:
            self._drop_or_keep(ages.popleft(), before_round, keep)

    def _drop_or_keep(
        self, entry: tuple[int, StreamId, int], before_round: int, keep: Callable[[Packet], bool] | None
    ) -> None:
        round_no, stream, first = entry
        packets = self._streams.get(stream)
        if packets is None or not _holds(packets, first):
            return  # retired since
        if round_no >= before_round or (keep is not None and keep(packets[_place(packets, first)])):
            self._needed.append(entry)
        else:
            self._drop(packets, first)

    def purge(self, purges: Callable[[StreamId], bool], is_safe: Callable[[EventId], bool]) -> int:
        """Thin what came last by what is obsolete for something safe (protocol/thinning.py); returns how many events.
        To look at all that is kept would take seconds, which nobody else should have to wait for."""
        purged = 0
        for packet, thinned in thin(self._newest(PURGE_EVENTS_MAX), purges, is_safe):
            packets = self._streams[packet.stream]
            packets[_place(packets, packet.first)] = thinned
            self.bytes -= len(packet.blob) - len(thinned.blob)
            purged += packet.present - thinned.present
        return purged

    def _newest(self, events_max: int) -> list[Packet]:
        """The last packets, stream by stream, up to so many events."""
        found: list[Packet] = []
        for packets in self._streams.values():
            last = len(found)
            for packet in reversed(packets):
                if events_max <= 0:
                    break
                events_max -= packet.count
                found.insert(last, packet)
        return found

    def needed(
        self, is_needed: Callable[[Packet], bool], upto_round: int, always: Container[StreamId] = ()
    ) -> Iterator[Packet]:
        """The packets that are still needed of those that came up to a round, and of some streams `always`."""
        for round_no, stream, first in chain(self._needed, self._ages):
            packets = self._streams.get(stream, ()) if round_no <= upto_round or stream in always else ()
            if packets and _holds(packets, first) and is_needed(packet := packets[_place(packets, first)]):
                yield packet

    def forget(self, stream: StreamId) -> None:
        """Drop everything of a retired stream."""
        for packet in self._streams.pop(stream, ()):
            self.bytes -= len(packet.blob)  # its age runs out by itself

    def _drop(self, packets: list[Packet], first: int) -> None:
        packet = packets.pop(_place(packets, first))
        self.bytes -= len(packet.blob)
        if not packets:
            del self._streams[packet.stream]


def _holds(packets: Sequence[Packet], first: int) -> bool:
    place = _place(packets, first)
    return place < len(packets) and packets[place].first == first


def _place(packets: Sequence[Packet], first: int) -> int:
    if packets[0].first == first:  # they come and go in order, but for repairs
        return 0
    return bisect_left(packets, first, key=_first)


def fitting(packets: Iterable[Packet], bytes_max: int) -> tuple[Packet, ...]:
    """As many of these as one answer may bring; the rest is asked for again."""
    chosen: list[Packet] = []
    for packet in packets:
        if bytes_max <= 0 or len(chosen) == PACKETS_MAX:
            break
        bytes_max -= len(packet.blob)
        chosen.append(packet)
    return tuple(chosen)


def is_full(packets: Sequence[Packet], bytes_max: int) -> bool:
    """Whether an answer brought as much as `fitting` lets it: there may be more where it came from."""
    return len(packets) >= PACKETS_MAX or sum(len(packet.blob) for packet in packets) >= bytes_max
