"""What a publisher says, and what a subscriber is handed."""

import sys
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any

from msgspec import Meta, Struct

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import STREAM_LENGTH_MAX, STREAM_LENGTH_MIN, EventId

KEY_LENGTH_MAX = 1_024
ATTRIBUTES_MAX = 256
NAME_LENGTH_MAX = 256
TEXT_MAX = 512 * 1024
"""Characters in the attributes of one event, in all."""
PLAIN_TEXT_MAX = TEXT_MAX // ATTRIBUTES_MAX // 2
BODY_BYTES_MAX = 4 * 2**20
IDS_MAX = 1_024
REACH_MAX = 256
"""k of k-enumeration: how many preceding events of its stream an event may name by a bit (000 §3.3.3)."""
PARTS_MAX = 2**20
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
FLOAT_MAX = sys.float_info.max

Key = Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]
Int64 = Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)]
Finite = Annotated[float, Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)]
"""Neither an infinity nor NaN: a bound that NaN fails, too."""
Value = bool | Int64 | Finite | str | list[str] | None
Attributes = Annotated[dict[str, Value], Meta(max_length=ATTRIBUTES_MAX)]
"""How long a name may be is not said here: msgspec remembers names that it has decoded only if any string will do, and
without that an event takes half as long again. `check_names` sees to it where events come in."""


Time = Annotated[int, Meta(ge=0, le=INT_MAX)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=PARTS_MAX)]
PartNumber = Annotated[int, Meta(ge=0, le=PARTS_MAX)]


class Commit(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The end of a transaction: the `parts` events before it are to be applied as one, and they set these `keys`."""

    parts: PartNumber
    keys: Keys = ()


class Relation(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What an event obsoletes beyond the earlier ones of its key from its own publisher (docs/semantics.md)."""

    group: bool = False
    """`scope="group"`: the newest of its key in its group, whoever published it, by rank (else time), stream, seq."""
    near: Annotated[bytes, Meta(max_length=REACH_MAX // 8)] = b""
    """k-enumeration, little-endian: bit n - 1 names the n-th event before this one in its stream."""
    ids: Annotated[tuple[EventId, ...], Meta(max_length=IDS_MAX)] = ()
    """Enumeration: events anywhere, by id."""
    part: tuple[PartNumber, PartNumber] | None = None
    """`(index, count)`: one of the parts of a transaction, whose `Commit` stands `count - index` events further on."""
    commit: Commit | None = None
    after: Annotated[tuple[EventId, ...], Meta(max_length=IDS_MAX)] = ()
    """In a group with causal order: what its publisher had been delivered since its last event."""


class Content(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An event as its publisher says it and as it is encoded: everything but the id, which its place in a packet gives.

    What purging needs stands first, so that it can be decoded without touching attributes or body: see `Head`.
    """

    key: Key | None = None
    rank: Int64 | Finite | None = None
    relation: Relation | None = None
    time_ns: Time = 0
    deleted: bool = False
    attributes: Attributes = {}
    body: Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)] = b""

    @property
    def time(self) -> datetime:
        """When it was published, by its publisher's clock."""
        return datetime.fromtimestamp(self.time_ns / 1e9, UTC)


class Head(Struct, frozen=True, array_like=True, gc=False):
    """The first fields of a `Content`: what an event obsoletes, and what obsoletes it."""

    key: Key | None = None
    rank: Int64 | Finite | None = None
    relation: Relation | None = None
    time_ns: Time = 0


class Outline(Struct, frozen=True, array_like=True, gc=False):
    """One field more: what an event says of its key."""

    key: Key | None = None
    rank: Int64 | Finite | None = None
    relation: Relation | None = None
    time_ns: Time = 0
    deleted: bool = False


class Event(Content, frozen=True, gc=False):
    """A content with its id, as it is delivered."""

    id: EventId | None = None

    def to_cloudevent(self) -> dict[str, Any]:
        """As a CloudEvent 1.0, in the shape of its JSON format; see docs/sdk.md for what becomes what.

        print(json.dumps(event.to_cloudevent()))
        """
        from gossamer.messages.cloudevents import to_cloudevent

        return to_cloudevent(self)


NAMES_MAX = 10_000
known_names: set[str] = set()
"""Names that were found to be good: publishers use the same ones again and again."""
_are_known = known_names.issuperset
PLAIN_BYTES_MAX = 3 * ATTRIBUTES_MAX
"""An encoded event of no more than this has neither too many attributes, each of at least three bytes, nor too large a
body."""
TEXTS_MAX, TEXT_LENGTH_MAX = 10_000, 64
_texts: set[str] = set()
"""And short values that were."""


def is_plain(key: str | None, attributes: Attributes, body: bytes) -> bool:
    """Whether these are surely good, as almost all are: names that were used before, and everyday values. The quick way
    to see it; whether there is too much of it is seen when it is encoded (`PLAIN_BYTES_MAX`)."""
    if type(body) is not bytes or type(attributes) is not dict or not _are_known(attributes):
        return False
    if key is not None and (type(key) is not str or len(key) > KEY_LENGTH_MAX or "\0" in key or not key.isascii()):
        return False
    for value in attributes.values():
        kind = type(value)
        if kind is str:
            if value not in _texts and not _is_plain_text(value):  # type: ignore[arg-type]
                return False
        elif kind is float:
            if value - value:  # type: ignore[operator]  # not 0.0 but NaN, of an infinity and of NaN
                return False
        elif kind is int:
            if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
                return False
        elif kind is not bool and value is not None:
            return False
    return True


def _is_plain_text(text: str) -> bool:
    if "\0" in text or not text.isascii() or len(text) > PLAIN_TEXT_MAX:
        return False
    if len(_texts) < TEXTS_MAX and len(text) <= TEXT_LENGTH_MAX:
        _texts.add(text)
    return True


def check_names(each: list[Attributes]) -> None:
    """Raise `ValueError` if one of these has a name that no attribute may have."""
    if not _are_known(chain.from_iterable(each)):
        for name in set().union(*each).difference(known_names):
            if not (_is_text(name) and 0 < len(name) <= NAME_LENGTH_MAX):
                raise ValueError(f"attribute name {_shown(name)}: 1 to {NAME_LENGTH_MAX} characters, no NUL")
            _remember(name)


def _remember(name: str) -> None:
    # With "specversion" a dict is a CloudEvent.
    if len(known_names) < NAMES_MAX and type(name) is str and name != "specversion":
        known_names.add(name)


def check_sizes(attributes: Attributes, body: bytes) -> None:
    """Refuse, at the caller, more than an event may have."""
    if not isinstance(body, bytes) or len(body) > BODY_BYTES_MAX:
        raise UsageError(f"body: bytes, at most {BODY_BYTES_MAX}")
    if not isinstance(attributes, dict) or len(attributes) > ATTRIBUTES_MAX:
        raise UsageError(f"attributes: a dict of at most {ATTRIBUTES_MAX}, not {_shown(attributes)}")


def check_content(content: Content) -> Content:
    """Refuse, at the caller, what no receiver would accept: one clear line that names the attribute at fault."""
    if content.key is not None and not (_is_text(content.key) and len(content.key) <= KEY_LENGTH_MAX):
        raise UsageError(f"key: a string of at most {KEY_LENGTH_MAX} characters, no NUL, not {_shown(content.key)}")
    if content.rank is not None and not _is_number(content.rank):
        raise UsageError(f"rank: a 64-bit int or a finite float, not {_shown(content.rank)}")
    if content.relation is not None:
        _check_relation(content.relation)
    if not isinstance(content.deleted, bool):
        raise UsageError(f"deleted: a bool, not {_shown(content.deleted)}")
    if not _is_int(content.time_ns) or content.time_ns < 0:
        raise UsageError(f"time: nanoseconds from 0 to {INT_MAX}, not {_shown(content.time_ns)}")
    check_sizes(content.attributes, content.body)
    if is_plain(content.key, content.attributes, content.body):
        return content
    for name, value in content.attributes.items():
        if not (_is_text(name) and 0 < len(name) <= NAME_LENGTH_MAX):
            raise UsageError(f"attribute name {_shown(name)}: 1 to {NAME_LENGTH_MAX} characters, no NUL")
        if not _is_value(value):
            raise UsageError(
                f"attribute {name!r}: {_shown(value)} is not a bool, 64-bit int, finite float, string without NUL, "
                "null or list of strings"
            )
        _remember(name)
    if (length := sum(map(_length, content.attributes.items()))) > TEXT_MAX:
        raise UsageError(f"attributes: at most {TEXT_MAX} characters in all, not {length}")
    return content


def _length(item: tuple[str, Any]) -> int:
    name, value = item
    return len(name) + (
        sum(map(len, value)) if isinstance(value, list) else len(value) if isinstance(value, str) else 0
    )


def _check_relation(relation: Relation) -> None:
    if not isinstance(relation, Relation):
        raise UsageError(f"relation: {_shown(relation)} is not a Relation")
    if len(relation.near) > REACH_MAX // 8:
        raise UsageError(f"an event names at most its {REACH_MAX} predecessors by a bit, not {8 * len(relation.near)}")
    for name, ids in (("obsoletes", relation.ids), ("after", relation.after)):
        if len(ids) > IDS_MAX:
            raise UsageError(f"{name}: at most {IDS_MAX} event ids, not {len(ids)}")
        for id in ids:
            if not _is_id(id):
                raise UsageError(f"{name}: {_shown(id)} is not an event id")
    if relation.group and (relation.near or relation.ids or relation.part or relation.commit):
        # P4: one total order a group and key has no cycles; together with named events it could have.
        raise UsageError('scope "group" goes with a key and a rank, not with obsoletes= or a transaction')
    keys = relation.commit.keys if relation.commit is not None else ()
    for key in keys:
        if not (_is_text(key) and len(key) <= KEY_LENGTH_MAX):
            raise UsageError(f"key: a string of at most {KEY_LENGTH_MAX} characters, no NUL, not {_shown(key)}")
    if (length := sum(map(len, keys))) > TEXT_MAX:
        raise UsageError(f"a transaction's keys have at most {TEXT_MAX} characters in all, not {length}")


def plain(value: Any) -> int | float | str | bytes:
    """What to encode in place of a subclass (a NumPy float is a float); the codec itself takes exact types only."""
    match value:
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return str(value)
        case bytes():
            return bytes(value)
    raise UsageError(f"{_shown(value)} cannot be encoded")


def _is_value(value: Any) -> bool:
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, list):
        return all(map(_is_text, value))
    return value is None or isinstance(value, bool) or _is_number(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return -FLOAT_MAX <= value <= FLOAT_MAX
    return _is_int(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX


def _is_text(value: Any) -> bool:
    """A string that every receiver and store takes: no NUL, and no half of a surrogate pair, which has no encoding."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _is_id(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    stream, seq = value
    return _is_text(stream) and STREAM_LENGTH_MIN <= len(stream) <= STREAM_LENGTH_MAX and _is_int(seq) and seq >= 0


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
