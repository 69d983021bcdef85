"""What a node wants done. The driver performs effects in the order given.

Order matters in one place: a `Persist` is answered by `Persisted` when it is on disk, and the node itself holds back
what depends on it (acknowledgements, notices, sponsorships). Everything else, gossip and live traffic, never waits.
"""

from dataclasses import dataclass
from typing import Literal

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Member, Message, Span

Reason = Literal["collected", "void", "lost", "declined"]
Level = Literal["logged", "safe"]
Status = Literal["outside", "joining", "member", "leaving", "disconnecting", "disconnected"]


@dataclass(frozen=True, slots=True)
class Send:
    """Encode once, and send to each; unreliable."""

    to: tuple[NodeId, ...]
    message: Message


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand a packet's events to the application: FIFO within the stream, each at most once."""

    packet: Packet


@dataclass(frozen=True, slots=True)
class Skip:
    """In the order of deliveries: these will not come, and why.

    `collected`: every logger has collected them; `void`: they never existed, or died with their publisher; `lost`:
    a mesh without loggers could not repair them; `declined`: the application did not want them requested.
    """

    stream: StreamId
    first: int
    last: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Acked:
    """The publisher may forget its stream up to `last`: it is `logged` (in a mesh without loggers, `safe`)."""

    stream: StreamId
    last: int
    level: Level


@dataclass(frozen=True, slots=True)
class Refused:
    """A `Publish` that was not taken, and why; the events have no ids and may be offered again."""

    stream: StreamId
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Promise:
    """A logger's word to a named publisher: `incarnation` may use seqs up to `last`, no lower incarnation any."""

    stream: StreamId
    incarnation: int
    last: int


@dataclass(frozen=True, slots=True)
class Void:
    """A logger's record that these will never exist."""

    span: Span


Record = Packet | Void | Promise | Member


@dataclass(frozen=True, slots=True)
class Persist:
    """Write all of it durably, then answer `Persisted(token)`; tokens are answered in order."""

    token: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Read these from the store, and answer `Loaded(token, packets)`, cut to what was asked for."""

    token: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """The store may forget this stream up to `last`, and must remember that it did."""

    stream: StreamId
    last: int


@dataclass(frozen=True, slots=True)
class Became:
    """This node's place in the mesh changed."""

    status: Status


Effect = Send | Deliver | Skip | Acked | Refused | Persist | Load | Collect | Became


@dataclass(frozen=True, slots=True)
class StoredStream:
    """What a store holds of one stream: the seqs on disk, those that are void, and the last one collected."""

    stored: tuple[tuple[int, int], ...] = ()
    void: tuple[tuple[int, int], ...] = ()
    collected: int = -1
    promise: Promise | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What a logger finds on its disk when it starts; empty for a new one."""

    streams: dict[StreamId, StoredStream]
    members: tuple[Member, ...] = ()
