"""Short names for tests and transcripts: `a:0` for the first event of the first stream of node a."""

from collections.abc import Iterable

from gossamer.messages.ids import DEFAULT_GROUP, StreamId, anonymous_stream, group_of, issued_by
from gossamer.messages.packet import Packet
from gossamer.messages.wire import (
    Collected,
    Data,
    Echo,
    Gone,
    Gossip,
    Join,
    Kept,
    Lacking,
    Message,
    Positions,
    Recover,
    Repair,
    Request,
    Seek,
    Span,
    Vouch,
)


def stream_of(node: str, incarnation: int, number: int = 0) -> StreamId:
    """The stream that `short` calls `node`, or `node'2` in its second life."""
    return anonymous_stream(DEFAULT_GROUP, f"{node}-{incarnation}", number)


def short(stream: StreamId) -> str:
    group, name = group_of(stream), stream.partition("/")[2]
    if issued := issued_by(stream):
        node, _, incarnation = issued.issuer.partition("/~")[2].rpartition("-")
        name = node + (f"'{incarnation}" if incarnation != "1" else "") + (f".{issued.number}" if issued.number else "")
    return name if group == DEFAULT_GROUP else f"{group}/{name}"


def seqs(stream: StreamId, first: int, last: int) -> str:
    return f"{short(stream)}:{first}" if first == last else f"{short(stream)}:{first}-{last}"


def ids(packet: Packet) -> list[str]:
    """Each event that is present, without the holes."""
    name = short(packet.stream)
    return [f"{name}:{seq}" for seq, size in enumerate(packet.table(), packet.first) if size]


def brief(message: Message) -> str:
    """A message in a few words: its kind, and which events it is about."""
    match message:
        case Data(packet=packet):
            about = _packets([packet])
        case Repair(packets=packets):
            about = _packets(packets)
        case Gossip(lacks=spans) | Request(lacks=spans) | Recover(lacks=spans) | Seek(lacks=spans):
            about = _spans(spans)
        case Lacking(spans=spans, had=had):
            about = [*_spans(spans), *(["had", *_spans(had)] if had else [])]
        case Echo(collected=spans) | Collected(spans=spans) | Kept(spans=spans) | Vouch(spans=spans):
            about = _spans(spans)
        case Gone(spans=spans, void=void):
            about = [*_spans(spans), "void" if void else "collected"]
        case Positions(vector=vector):
            about = [f"{short(entry.stream)}:{entry.last}" for entry in vector]
        case Join(member=member):
            about = [member.status]
        case _:
            about = []
    return " ".join([type(message).__name__, *about])


def _packets(packets: Iterable[Packet]) -> list[str]:
    return [seqs(packet.stream, packet.first, packet.last) + _marks(packet) for packet in packets]


def _marks(packet: Packet) -> str:
    return "".join(
        f"({seqs(packet.stream, hole.first, hole.last)} for {seqs(*packet.obsoleter(hole), packet.obsoleter(hole).seq)}"
        f"{', final' if hole.final else ''})"
        for hole in packet.holes
    )


def _spans(spans: Iterable[Span]) -> list[str]:
    return [seqs(span.stream, first, last) for span in spans for first, last in span.ranges]
