"""Events as rows that SQL can ask about, made from packets in bulk: decoded in one call, encoded as JSON in another.

A packet that its publisher's broker should have refused is made into rows event by event: what cannot be read is kept
as a row that says so (no attributes, the bytes as they came as its body), and stops nobody else's.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content, Event, Relation
from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.messages.packet import EVENTS_MAX, Packet
from gossamer.protocol.obsolescence import named

COLUMNS = (
    "id", "group", "stream", "seq", "published_ns", "logged_ns", "key", "rank", "annotation", "attributes", "body",
    "size", "deleted",
)  # fmt: skip
Row = tuple[int, str, StreamId, int, int, int, str | None, int | float | None, str | None, str | None, bytes, int, bool]

_json = msgspec.json.Encoder()
_content = msgspec.msgpack.Decoder(Content)


def event_id(number: int, offset: int) -> int:
    """A row's id: the number of its packet in the log, and its place in it. Ids ascend with the log, and all that
    belongs to a packet is one range of them."""
    return number * EVENTS_MAX + offset


def ids_of(first: int, last: int) -> tuple[int, int]:
    """The ids of all events of the packets `first` to `last`."""
    return first * EVENTS_MAX, last * EVENTS_MAX + EVENTS_MAX - 1


def number_of(id: int) -> int:
    return id // EVENTS_MAX


def rows(number: int, logged_ns: int, packet: Packet) -> tuple[list[Row], list[Event]]:
    """The rows of a packet, and its events as far as they can be read."""
    table = columns(number, logged_ns, packet)
    if table is None:
        return _one_by_one(number, logged_ns, packet)
    return list(zip(*table.values.values(), strict=True)), packet.events()


class Table(NamedTuple):
    """The rows of a packet, by column."""

    values: dict[str, Sequence[Any]]
    seqs: Sequence[int]
    contents: Sequence[Content | Event]


def columns(number: int, logged_ns: int, packet: Packet) -> Table | None:
    """None if it has to be looked at event by event."""
    try:
        events = packet.contents()
    except PeerError:
        return None
    attributes = _json.encode_lines([event.attributes for event in events]).decode()
    keys = [event.key for event in events]
    if "\\u0000" in attributes or "\0" in "".join(filter(None, keys)):
        return None  # PostgreSQL has no NUL in text
    sizes = packet.table()
    seqs: Sequence[int] = range(packet.first, packet.last + 1)
    if packet.holes:
        seqs = [seq for seq, size in zip(seqs, sizes, strict=True) if size]
        sizes = tuple(size for size in sizes if size)
    base, count = event_id(number, -packet.first), len(events)
    relations = [event.relation for event in events]
    notes: list[str | None] = [None] * count
    if any(relations):
        notes = [
            None if relation is None else annotation(packet.stream, seq, relation)
            for seq, relation in zip(seqs, relations, strict=True)
        ]
    values: tuple[Sequence[Any], ...] = (
        range(base + packet.first, base + packet.last + 1) if not packet.holes else [base + seq for seq in seqs],
        [group_of(packet.stream)] * count,
        [packet.stream] * count,
        seqs,
        [event.time_ns for event in events],
        [logged_ns] * count,
        keys,
        [event.rank for event in events],
        notes,
        attributes.split("\n")[:count],
        [event.body for event in events],
        sizes,
        [event.deleted for event in events],
    )
    return Table(dict(zip(COLUMNS, values, strict=True)), seqs, events)


def annotation(stream: StreamId, seq: int, relation: Relation) -> str:
    """What an event obsoletes beyond the earlier ones of its key, as JSON."""
    told: dict[str, Any] = {}
    if relation.group:
        told["scope"] = "group"
    if ids := named(EventId(stream, seq), relation):
        told["obsoletes"] = ids
    if relation.part is not None:
        told["part"] = relation.part
    if relation.commit is not None:
        told["commit"] = {"parts": relation.commit.parts, "keys": relation.commit.keys}
    return _json.encode(_clean(told)).decode()


def bare(number: int, logged_ns: int, packet: Packet) -> list[Row]:
    """The rows of a packet that the database would not take: that there were these events, and no more."""
    return [
        (event_id(number, seq - packet.first), _text(group_of(packet.stream)), _text(packet.stream), seq, 0, logged_ns,
         None, None, None, None, piece, len(piece), False)
        for seq, piece in packet.encoded()
    ]  # fmt: skip


def _one_by_one(number: int, logged_ns: int, packet: Packet) -> tuple[list[Row], list[Event]]:
    found: list[Row] = []
    events: list[Event] = []
    for row, (seq, piece) in zip(bare(number, logged_ns, packet), packet.encoded(), strict=True):
        try:
            content = _content.decode(piece)
            clean = _clean(content.attributes)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            found.append(row)
            continue
        relation = content.relation
        found.append(
            (*row[:4], content.time_ns, logged_ns, None if content.key is None else _text(content.key), content.rank,
             None if relation is None else annotation(packet.stream, seq, relation), _json.encode(clean).decode(),
             content.body, row[11], content.deleted)
        )  # fmt: skip
        events.append(Event(**msgspec.structs.asdict(content), id=EventId(packet.stream, seq)))
    return found, events


def _clean(value: Any) -> Any:
    match value:
        case str():
            return _text(value)
        case dict():
            return {_clean(name): _clean(each) for name, each in value.items()}
        case list() | tuple():
            return [_clean(each) for each in value]
    return value


def _text(text: str) -> str:
    return text.replace("\0", "\ufffd")
