"""A node's stable storage: what survives its crash.

It stands in for `logger/`: the same duties (durable when synced, idempotent by id, remembers what it collected), none
of the bytes.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import NamedTuple

from gossamer.matching import stretching
from gossamer.messages.event import Event
from gossamer.messages.ids import StreamId, group_of
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Member, Page, Read, Span
from gossamer.protocol.effects import Covered, Marked, Moved, Over, Promise, Record, Stored, StoredStream, Void
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.thinning import thin

_first = attrgetter("first")
_last = attrgetter("last")
_number = itemgetter(0)


@dataclass(slots=True)
class _Stream:
    packets: list[Packet] = field(default_factory=list)
    """Ascending, and no seq twice."""
    void: IntervalSet = field(default_factory=IntervalSet)
    collected: int = -1
    promise: Promise | None = None


class _Rows(NamedTuple):
    rows: list[tuple[int, int, Packet]]
    last: int
    end: bool
    damaged: tuple[Span, ...] = ()


class Storage:
    def __init__(self) -> None:
        self._log: list[tuple[int, int, Packet]] = []
        """`(number, time, packet)`, in the order in which they were written; a time is what `now_ns` was then."""
        self._number = 0
        self.now_ns = 0
        self._streams: dict[StreamId, _Stream] = {}
        self._members: dict[str, Member] = {}
        self._retired = RetiredStreams()
        self._bookmarks: dict[str, dict[StreamId, int]] = {}
        self._safe: dict[StreamId, int] = {}
        self._covered: dict[str, None] = {}

    def apply(self, records: Iterable[Record]) -> None:
        """These are on disk now."""
        for record in records:
            if isinstance(record, Packet):
                for packet in _add(self._stream(record.stream), record):
                    self._number += 1
                    self._log.append((self._number, self.now_ns, packet))
            elif isinstance(record, Void):
                stream = self._stream(record.span.stream)
                stream.void = IntervalSet([*stream.void.ranges(), *record.span.ranges])
            elif isinstance(record, Over):
                self._retired.add(record.stream)
            elif isinstance(record, Promise):
                self._stream(record.stream).promise = record
            elif isinstance(record, Marked):
                self._mark(record)
            elif isinstance(record, Moved):
                self._move(record.stream)
            elif isinstance(record, Covered):
                self._cover(record)
            else:
                self._members[record.node] = record

    def _move(self, stream_id: StreamId) -> None:
        stream = self._streams.pop(stream_id, None)
        self._log = [row for row in self._log if row[2].stream != stream_id]
        if stream is not None and stream.promise is not None:
            self._stream(stream_id).promise = stream.promise

    def _cover(self, record: Covered) -> None:
        self._covered.pop(record.node, None)
        if record.covered:
            self._covered[record.node] = None

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
        place = bisect_left(stream.packets, last + 1, key=_last)
        del stream.packets[:place]
        if stream.packets and stream.packets[0].first <= last:
            stream.packets[0] = stream.packets[0].cut(last + 1, stream.packets[0].last)

    def compact(self, safe: Mapping[StreamId, int]) -> int:
        """Leave out what is obsolete for something up to there, and say so in its place; returns how many events."""
        self._safe.update(safe)
        packets = [packet for _, _, packet in self._log if packet.stream in self._streams]
        packets = [packet for packet in packets if packet in self._streams[packet.stream].packets]
        thinner = thin(packets, lambda _: True, lambda by: by.seq <= self._safe.get(by.stream, -1))
        for packet, thinned in thinner:
            of_stream = self._streams[packet.stream].packets
            of_stream[of_stream.index(packet)] = thinned
            place = next(at for at, row in enumerate(self._log) if row[2] is packet)
            self._log[place] = (*self._log[place][:2], thinned)
        return sum(packet.present - thinned.present for packet, thinned in thinner)

    # The log, as it is read -----------------------------------------------------------------------------------------

    def scan(self, read: Read, lacks: tuple[Span, ...]) -> Page:
        return stretching.scan(self, read, lacks)

    def page(self, after: int, bytes_max: int, group: str | None = None) -> _Rows:
        rows: list[tuple[int, int, Packet]] = []
        size = 0
        for number, time_ns, packet in self._log[bisect_right(self._log, after, key=_number) :]:
            collected = self._streams[packet.stream].collected
            if packet.last <= collected or group not in (None, group_of(packet.stream)):
                continue
            if rows and size + len(packet.blob) > bytes_max:
                return _Rows(rows, number - 1, False)
            rows.append((number, time_ns, packet.cut(max(packet.first, collected + 1), packet.last)))
            size += len(packet.blob)
        return _Rows(rows, self._number, True)

    def derived(self) -> int:
        return self._number

    def newest(self, group: str, after: int, upto: int, _: int) -> _Rows:
        newest: dict[tuple[str, str | None], tuple[tuple[float, str, int], int, Event]] = {}
        logged = {(packet.stream, event.id): number for number, _, packet in self._log for event in packet.events()}
        for name, stream in self._streams.items():
            parts: list[Event] = []
            for event in (event for packet in stream.packets for event in packet.events()):
                relation = event.relation
                if relation is not None and relation.part is not None:
                    parts.append(event)
                    continue
                whole = [event, *parts] if relation is not None and relation.commit is not None else [event]
                parts = parts if len(whole) == 1 else []
                for each in whole if group_of(name) == group else ():
                    _take_newest(newest, name, each, logged[name, each.id])
        rows: list[tuple[int, int, Packet]] = []
        for number, id in sorted((number, event.id) for _, number, event in newest.values() if not event.deleted):
            if after < number <= upto and id is not None:
                rows += [(number, 0, packet) for packet in self.load([Span(id.stream, ((id.seq, id.seq),))])]
        return _Rows(rows, upto, True)

    def number_at(self, time_ns: int) -> int:
        return next((number - 1 for number, logged_ns, _ in self._log if logged_ns >= time_ns), self._number)

    def number_after(
        self, positions: Mapping[StreamId, int], group: str | None = None, others: int = 0, *, over: bool = True
    ) -> int:
        for number, _, packet in self._log:
            if not over and packet.stream not in positions and packet.stream in self._retired:
                continue
            position = positions.get(packet.stream, -1 if number > others else packet.last)
            if group in (None, group_of(packet.stream)) and packet.last > position:
                return number - 1
        return self._number

    def passed(self, spans: Iterable[Span], number: int) -> tuple[Span, ...]:
        log = self._log[: bisect_right(self._log, number, key=_number)]
        found = []
        for span in spans:
            here = IntervalSet((packet.first, packet.last) for _, _, packet in log if packet.stream == span.stream)
            if parts := IntervalSet(part for each in span.ranges for part in here.overlap(*each)).ranges():
                found.append(Span(span.stream, parts))
        return tuple(found)

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
            covered=tuple(self._covered),
        )

    def prefix(self, stream_id: StreamId) -> int:
        """The last seq up to which everything was here: stored, void or collected; -1 if nothing."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return -1
        here = IntervalSet([*((packet.first, packet.last) for packet in stream.packets), *stream.void.ranges()])
        if stream.collected >= 0:
            here.add(0, stream.collected)
        return here.run(0) if 0 in here else -1

    def _stream(self, stream_id: StreamId) -> _Stream:
        return self._streams.setdefault(stream_id, _Stream())


def _take_newest(
    newest: dict[tuple[str, str | None], tuple[tuple[float, str, int], int, Event]],
    stream: str,
    event: Event,
    number: int,
) -> None:
    relation = event.relation
    assert event.id is not None
    if event.key is None and (relation is None or relation.commit is None):
        return
    grouped = relation is not None and relation.group
    place: tuple[float, str, int] = (0, stream, event.id.seq)
    if grouped:
        place = (event.time_ns if event.rank is None else event.rank, stream, event.id.seq)
    slot = (group_of(stream) if grouped else stream), event.key
    if slot not in newest or newest[slot][0] < place:
        newest[slot] = place, number, event


def _add(stream: _Stream, packet: Packet) -> list[Packet]:
    """Keep those seqs of a packet that are new: a seq is stored once, whatever packets it came in. Returns them."""
    packets = stream.packets
    first, end = max(packet.first, stream.collected + 1), packet.last
    if not packets or packets[-1].last < first:  # the usual case: it goes on where the stream ended
        if first > end:
            return []
        packets.append(packet.cut(first, end))
        return packets[-1:]
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
    return news
