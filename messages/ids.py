"""Who sent what: nodes, groups, streams and events.

A *stream* is one publisher's numbered sequence of events in one group; an event's id is `(stream, seq)`, seq from 0.
Stream ids are strings, because they are dictionary keys on the hot path and a string's hash is kept:

    default/~b1-1731.42     the 42nd anonymous publisher that the node incarnation `b1-1731` numbered
    default/trades-feed     the named publisher `trades-feed`, one stream across its restarts

Anonymous streams are numbered by an *issuer* so that the retired ones of a mesh are a handful of intervals and not
a tombstone each (a million short-lived publishers must leave no trace: docs/decisions/stream-ids.md).
"""

import re
from functools import lru_cache
from typing import Annotated, NamedTuple

from msgspec import Meta

from gossamer.messages.errors import UsageError

NAME_LENGTH_MAX = 200
STREAM_LENGTH_MIN = 3
STREAM_LENGTH_MAX = 2 * NAME_LENGTH_MAX + 32
SEQ_MAX = 2**63 - 1

NodeId = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
StreamId = Annotated[str, Meta(min_length=STREAM_LENGTH_MIN, max_length=STREAM_LENGTH_MAX)]
Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
Last = Annotated[int, Meta(ge=-1, le=SEQ_MAX)]
"""A position in a stream: the last seq of a prefix, -1 for the empty one."""

DEFAULT_GROUP = "default"
SYSTEM_GROUP = "$sys"

_NAME = re.compile(r"[^\s/~\x00-\x1f\ud800-\udfff][^/\x00-\x1f\ud800-\udfff]*")
_ISSUED = re.compile(r"([^/]+/~[^/]+)\.(0|[1-9][0-9]{0,18})")


class EventId(NamedTuple):
    """`(stream, seq)`: unique for ever, because a stream has one numbering authority."""

    stream: StreamId
    seq: Seq

    def __str__(self) -> str:
        return f"{self.stream}:{self.seq}"


class Issued(NamedTuple):
    """Which issuer numbered an anonymous stream, and as its how-manieth."""

    issuer: str
    number: int


def anonymous_stream(group: str, issuer: str, number: int) -> StreamId:
    """The stream of one incarnation of a publisher without a name."""
    return f"{_checked(group, 'group')}/~{_checked(issuer, 'issuer')}.{number}"


def named_stream(group: str, name: str, what: str = "publisher") -> StreamId:
    """The stream of a named publisher, the same across its restarts."""
    return f"{_checked(group, 'group')}/{_checked(name, what)}"


def finished_streams(group: str) -> StreamId:
    """Stands for the finished streams of a group in a gap of which no stream is known. No stream has this id."""
    return f"{group}/~"


@lru_cache(maxsize=16_384)
def group_of(stream: StreamId) -> str:
    """It is asked several times of each packet."""
    return stream.partition("/")[0]


def issued_by(stream: StreamId) -> Issued | None:
    """Where an anonymous stream's number came from; None for a named one (or one a peer spelt oddly)."""
    # Strict, because numbers become intervals: `.07` must not pass for `.7`, nor a number that no message can carry.
    found = _ISSUED.fullmatch(stream)
    if found and (number := int(found[2])) <= SEQ_MAX:
        return Issued(found[1], number)
    return None


def _checked(name: str, what: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise UsageError(
            f"{what} {str(name)[:40]!r}: a name is 1 to {NAME_LENGTH_MAX} characters, without '/' or control "
            "characters, and does not begin with '~' or a space"
        )
    return name
