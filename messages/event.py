"""What a publisher says, and what a subscriber is handed."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import EventId

KEY_LENGTH_MAX = 1_024
ATTRIBUTES_MAX = 256
NAME_LENGTH_MAX = 256
BODY_BYTES_MAX = 4 * 2**20
OBSOLETES_MAX = 1_024
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
FLOAT_MAX = sys.float_info.max

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
Key = Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]
Int64 = Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)]
Finite = Annotated[float, Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)]
"""Neither an infinity nor NaN: a bound that NaN fails, too."""
Value = bool | Int64 | Finite | str | list[str] | None
Attributes = Annotated[dict[Name, Value], Meta(max_length=ATTRIBUTES_MAX)]


class Content(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An event as its publisher says it and as it is encoded: everything but the id, which its place in a packet gives.

    What purging needs stands first, so that it can be decoded without touching attributes or body.
    """

    key: Key | None = None
    rank: Int64 | Finite | None = None
    obsoletes: Annotated[tuple[EventId, ...], Meta(max_length=OBSOLETES_MAX)] = ()
    deleted: bool = False
    time_ns: Annotated[int, Meta(ge=0, le=INT_MAX)] = 0
    attributes: Attributes = {}
    body: Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)] = b""

    @property
    def time(self) -> datetime:
        """When it was published, by its publisher's clock."""
        return datetime.fromtimestamp(self.time_ns / 1e9, UTC)


class Event(Content, frozen=True, gc=False):
    """A content with its id, as it is delivered."""

    id: EventId | None = None


def check_content(content: Content) -> Content:
    """Refuse, at the caller, what no receiver would accept: one clear line that names the attribute at fault."""
    if content.key is not None and (not isinstance(content.key, str) or len(content.key) > KEY_LENGTH_MAX):
        raise UsageError(f"key: a string of at most {KEY_LENGTH_MAX} characters, not {_shown(content.key)}")
    if len(content.obsoletes) > OBSOLETES_MAX:
        raise UsageError(f"obsoletes: at most {OBSOLETES_MAX} ids, not {len(content.obsoletes)}")
    if not isinstance(content.body, bytes) or len(content.body) > BODY_BYTES_MAX:
        raise UsageError(f"body: bytes, at most {BODY_BYTES_MAX}")
    if len(content.attributes) > ATTRIBUTES_MAX:
        raise UsageError(f"at most {ATTRIBUTES_MAX} attributes, not {len(content.attributes)}")
    if content.rank is not None and (isinstance(content.rank, bool) or not _is_number(content.rank)):
        raise UsageError(f"rank: a 64-bit int or a finite float, not {_shown(content.rank)}")
    for name, value in content.attributes.items():
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or "\0" in name:
            raise UsageError(f"attribute name {_shown(name)}: 1 to {NAME_LENGTH_MAX} characters, no NUL")
        if not _is_value(value):
            raise UsageError(
                f"attribute {name!r}: {_shown(value)} is not a bool, 64-bit int, finite float, string without NUL, "
                "null or list of strings"
            )
    return content


def _is_value(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, list):
        return all(isinstance(item, str) and "\0" not in item for item in value)
    return _is_number(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return -FLOAT_MAX <= value <= FLOAT_MAX
    return isinstance(value, int) and INT_MIN <= value <= INT_MAX


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
