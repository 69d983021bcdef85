"""An event as a subscriber is handed it: what it says is decoded when it is first looked at.

A subscriber reads a part of what it gets: a body, the attributes of some events, an id now and then. To make a
dictionary, its values and an id of each event takes three times as long as all the rest of decoding it, and leaves the
collector of garbage with as many objects to visit. So a run of events is decoded with the attributes as the bytes that
they are, and the ids as bare pairs; the first look at either makes it what it is, and keeps that.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Attributes, Content, Event
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import seqs_of
from gossamer.messages.quick import number

EMPTY = msgspec.Raw(msgspec.msgpack.encode({}))

_decode_attributes = msgspec.msgpack.Decoder(Attributes).decode
_fields = attrgetter(*Event.__struct_fields__)


class _Encoded(Event, frozen=True, gc=False):
    """How it is decoded. Runs are of plain events: one with a relation is malformed."""

    relation: None = None
    attributes: msgspec.Raw = EMPTY  # type: ignore[assignment]
    id: tuple[StreamId, int] | None = None  # type: ignore[assignment]


_attributes: Any = Content.attributes
_get_attributes, _set_attributes = _attributes.__get__, _attributes.__set__
_id: Any = Event.id
_get_id, _set_id = _id.__get__, _id.__set__
"""Both as they are, decoded or not."""
_Raw = msgspec.Raw


class Received(_Encoded, frozen=True, gc=False):
    """An `Event`, whatever it is asked for, and equal to one that says the same.

    But msgspec takes fields from where they lie, and has no hook to ask anybody: `msgspec.json.encode(event)`,
    `to_builtins`, `asdict` and `astuple` find attributes that nobody has looked at as the MessagePack that they are,
    and the JSON is none. Encode `event.to_cloudevent()`, or `event.attributes` and what else is wanted; once
    `attributes` has been read, the event itself will do.
    """

    @property  # type: ignore[misc]
    def attributes(self) -> Attributes:  # type: ignore[override]
        found = _get_attributes(self)
        if type(found) is _Raw:
            try:
                found = _decode_attributes(found)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise PeerError(f"event {self.id}: {error}") from None
            _set_attributes(self, found)
        return found  # type: ignore[no-any-return]

    @property  # type: ignore[misc]
    def id(self) -> EventId:
        found = _get_id(self)
        if type(found) is not EventId:
            found = EventId(*found)
            _set_id(self, found)
        return found

    def __eq__(self, other: object) -> bool:
        return _fields(self) == _fields(other) if isinstance(other, Event) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as of whatever has a dictionary in it

    def __repr__(self) -> str:
        return repr(self._plain())

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return self._plain().__rich_repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return Event, _fields(self)

    def _plain(self) -> Event:
        return Event(*_fields(self))


_run: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[Received])


def identify(event: Received, stream: StreamId, seq: int) -> Event:
    """Give an event that came by itself its id."""
    _set_id(event, (stream, seq))
    return event


def decode_received(stream: StreamId, ranges: Sequence[tuple[int, int]], blob: bytes) -> list[Event]:
    """Plain events of one stream from their bytes in a row, with the ids that these ranges tell; one call for all."""
    try:
        seqs = seqs_of(ranges)
        events = _run.decode(b"\xdd" + len(seqs).to_bytes(4, "big") + blob)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"run of {stream}: {error}") from None
    number(_id, events, stream, seqs)
    return events
