"""A node's stable storage: what survives its crash.

It stands in for `logger/`: the same duties (durable when synced, idempotent by id, remembers what it collected), none
of the bytes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Member, Span
from gossamer.protocol.effects import Marked, Over, Promise, Record, Stored, StoredStream, Void
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.retired import RetiredStreams

_first = attrgetter("first")
_last = attrgetter("last")


@dataclass(slots=True)
class _Stream:
    packets: list[Packet] = field(default_factory=list)
    """Ascending, and no seq twice."""
    void: IntervalSet = field(default_factory=IntervalSet)
    collected: int = -1
    promise: Promise | None = None


class Storage:
    def __init__(self) -> None:
        self._streams: dict[StreamId, _Stream] = {}
        self._members: dict[str, Member] = {}
        self._retired = RetiredStreams()
        self._bookmarks: dict[str, dict[StreamId, int]] = {}

    def apply(self, records: Iterable[Record]) -> None:
        """These are on disk now."""
        for record in records:
            if isinstance(record, Packet):
                _add(self._stream(record.stream), record)
            elif isinstance(record, Void):
                stream = self._stream(record.span.stream)
                stream.void = IntervalSet([*stream.void.ranges(), *record.span.ranges])
            elif isinstance(record, Over):
                self._retired.add(record.stream)
            elif isinstance(record, Promise):
                self._stream(record.stream).promise = record
            elif isinstance(record, Marked):
                self._mark(record)
            else:
                self._members[record.node] = record

    def _mark(self, record: Marked) -> None:
        if record.vector is None:
            self._bookmarks.pop(record.name, None)
            return
        for position in record.vector:
            known = self._bookmarks.setdefault(record.name, {})
            known[position.stream] = max(position.last, known.get(position.stream, -1))

    def load(self, spans: Iterable[Span]) -> tuple[Packet, ...]:
        """What there is of these, cut to what was asked for."""
        found: list[Packet] = []
        for span in spans:
            packets = self._streams[span.stream].packets if span.stream in self._streams else []
            for first, last in span.ranges:
                place = bisect_left(packets, first, key=_last)
                while place < len(packets) and packets[place].first <= last:
                    packet = packets[place]
                    found.append(packet.cut(max(first, packet.first), min(last, packet.last)))
                    place += 1
        return tuple(found)

    def collect(self, stream_id: StreamId, last: int) -> None:
        """Forget the stream up to `last`, and remember that."""
        stream = self._stream(stream_id)
        if last <= stream.collected:
            return
        stream.collected = last
        stream.void.remove(0, last)
        place = bisect_left(stream.packets, last + 1, key=_last)
        del stream.packets[:place]
        if stream.packets and stream.packets[0].first <= last:
            stream.packets[0] = stream.packets[0].cut(last + 1, stream.packets[0].last)

    def stored(self) -> Stored:
        """What a node that starts on this storage finds."""
        return Stored(
            {
                stream_id: StoredStream(
                    IntervalSet((packet.first, packet.last) for packet in stream.packets).ranges(),
                    stream.void.ranges(),
                    stream.collected,
                    stream.promise,
                )
                for stream_id, stream in self._streams.items()
                if stream.packets or stream_id not in self._retired
            },
            tuple(self._members.values()),
            self._retired.told(),
            {name: dict(vector) for name, vector in self._bookmarks.items()},
        )

    def prefix(self, stream_id: StreamId) -> int:
        """The last seq up to which everything was here: stored, void or collected; -1 if nothing."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return -1
        here = IntervalSet(
            [*((packet.first, packet.last) for packet in stream.packets), *stream.void.ranges()]
        ).ranges()
        if here and here[0][0] <= stream.collected + 1:
            return max(here[0][1], stream.collected)
        return stream.collected

    def _stream(self, stream_id: StreamId) -> _Stream:
        return self._streams.setdefault(stream_id, _Stream())


def _add(stream: _Stream, packet: Packet) -> None:
    """Keep those seqs of a packet that are new: a seq is stored once, whatever packets it came in."""
    packets = stream.packets
    first, end = max(packet.first, stream.collected + 1), packet.last
    if not packets or packets[-1].last < first:  # the usual case: it goes on where the stream ended
        if first <= end:
            packets.append(packet.cut(first, end))
        return
    place = bisect_left(packets, first, key=_last)
    news: list[Packet] = []
    while first <= end:
        known = packets[place] if place < len(packets) else None
        if known is None or known.first > end:
            news.append(packet.cut(first, end))
            break
        if known.first > first:
            news.append(packet.cut(first, known.first - 1))
        first = known.last + 1
        place += 1
    for new in news:
        insort(packets, new, key=_first)
