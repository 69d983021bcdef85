"""The story of one event: everything that was seen of it, as lines to read."""

from gossamer.lab.names import brief, seqs, short
from gossamer.lab.observer import Observer
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Data, Idle, Message, Positions, Repair, Retire
from gossamer.protocol.effects import Acked, Collect, Deliver, Record, Refused, Skip, Status, Void


class StoryTeller(Observer):
    """Follows an event from its publisher to everyone it reached, or did not."""

    def __init__(self, event: EventId) -> None:
        self.event = event
        self.lines: list[str] = []

    def _tell(self, at_s: float, what: str) -> None:
        self.lines.append(f"{at_s:9.3f}  {what}")

    def _in(self, stream: StreamId, first: int, last: int) -> bool:
        return stream == self.event.stream and first <= self.event.seq <= last

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        what = ("logger " if logger else "") + f"{node} starts, life {incarnation}"
        self._tell(at_s, what + (", resuming" if resume else ""))

    def crashed(self, at_s: float, node: str) -> None:
        self._tell(at_s, f"{node} crashes")

    def became(self, at_s: float, node: str, status: Status) -> None:
        self._tell(at_s, f"{node} is {status}")

    def published(self, at_s: float, node: str, stream: StreamId, contents: tuple[Content, ...]) -> None:
        if stream == self.event.stream:
            self._tell(at_s, f"{node} publishes {len(contents)} on {short(stream)}")

    def refused(self, at_s: float, node: str, refused: Refused) -> None:
        if refused.stream == self.event.stream:
            self._tell(at_s, f"{node} refuses them: {refused.reason}")

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        packet = deliver.packet
        if self._in(packet.stream, packet.first, packet.last):
            by = [packet.obsoleter(h) for h in packet.holes if h.first <= self.event.seq <= h.last]
            without = f", but for it {short(by[0].stream)}:{by[0].seq}" if by else ""
            self._tell(at_s, f"{node} delivers {seqs(packet.stream, packet.first, packet.last)}{without}")

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        if self._in(skip.stream, skip.first, skip.last):
            self._tell(at_s, f"{node} skips {seqs(skip.stream, skip.first, skip.last)}: {skip.reason}")

    def acked(self, at_s: float, node: str, acked: Acked) -> None:
        if self._in(acked.stream, 0, acked.last):
            self._tell(at_s, f"{node} hears that {seqs(acked.stream, 0, acked.last)} is {acked.level}")

    def persisted(self, at_s: float, node: str, records: tuple[Record, ...]) -> None:
        for record in records:
            if isinstance(record, Packet) and self._in(record.stream, record.first, record.last):
                self._tell(at_s, f"{node} has {seqs(record.stream, record.first, record.last)} on disk")
            elif isinstance(record, Void) and record.span.stream == self.event.stream:
                self._tell(at_s, f"{node} has on disk that {seqs(record.span.stream, *record.span.ranges[0])} is void")

    def collected(self, at_s: float, node: str, collect: Collect) -> None:
        if self._in(collect.stream, 0, collect.last):
            self._tell(at_s, f"{node} collects {seqs(collect.stream, 0, collect.last)}")

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        if self._concerns(message):
            self._tell(at_s, f"{node} -> {','.join(to)}: {brief(message)}")

    def lost(self, at_s: float, node: str, to: str, message: Message) -> None:
        if self._concerns(message):
            self._tell(at_s, f"  lost on its way from {node} to {to}: {brief(message)}")

    def _concerns(self, message: Message) -> bool:
        stream = self.event.stream
        match message:
            case Data(packet=packet):
                return self._in(packet.stream, packet.first, packet.last)
            case Repair(packets=packets):
                return any(self._in(packet.stream, packet.first, packet.last) for packet in packets)
            case Positions(vector=vector):
                return any(position.stream == stream for position in vector)
            case Idle(beats=beats):
                return any(beat.stream == stream for beat in beats)
            case Retire(streams=streams):
                return stream in streams
        spans = getattr(message, "lacks", ()) or getattr(message, "spans", ()) or getattr(message, "collected", ())
        return any(self._in(span.stream, *part) for span in spans for part in span.ranges)
