"""What a node is told: the only ways in through `Node.handle(input, now)`."""

from msgspec import Struct

from gossamer.messages.event import Content
from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Message, Page, Read, Span


class Start(Struct, frozen=True):
    """Begin: join the mesh through the peers given at construction."""


class Wake(Struct, frozen=True):
    """The time that `next_deadline()` named has come."""


class Received(Struct, frozen=True):
    """A message from another member."""

    sender: NodeId
    message: Message


class Met(Struct, frozen=True):
    """A peer that was called by its address has answered: it is `node`."""

    node: NodeId


class Open(Struct, frozen=True):
    """A named publisher starts here; its stream may be published to at once, and flows once a block is checked out."""

    stream: StreamId


class Publish(Struct, frozen=True):
    """Events for a stream that is published at this node."""

    stream: StreamId
    contents: tuple[Content, ...]


class Adopt(Struct, frozen=True):
    """A client that numbers its own stream is here now, perhaps from another node; it goes on at `following`."""

    stream: StreamId
    following: int


class Claim(Struct, frozen=True):
    """A client wants to be the named publisher of this stream; the `Numbers` that it may use will follow. `held`: it
    has been, with the events before `following` acknowledged, and goes on only if nobody else has taken it over."""

    stream: StreamId
    holder: str
    held: bool = False
    following: int = 0


class Forward(Struct, frozen=True):
    """A packet of an adopted stream, in its turn; what was forwarded before is ignored, so it may be sent again."""

    packet: Packet


class Abandon(Struct, frozen=True):
    """The client of an adopted stream has vanished: unless it is found elsewhere, its stream is over."""

    stream: StreamId


class Close(Struct, frozen=True):
    """The publisher of a stream is done: announce its end once everything is logged."""

    stream: StreamId


class Attach(Struct, frozen=True):
    """A client takes a durable subscription up, or begins it: behind `start`, or (None) with what comes now. `held`:
    this `holder` has it, and goes on only if nobody else has taken it over. `Attached` is the answer, or `Detached`; to
    whoever was waiting for one before there is none."""

    name: NodeId
    holder: int = 0
    held: bool = False
    start: dict[StreamId, int] | None = None


class Mark(Struct, frozen=True):
    """A durable subscription has taken each of these streams up to there."""

    name: NodeId
    epoch: int
    vector: dict[StreamId, int]


class Detach(Struct, frozen=True):
    """The client of a durable subscription is gone; or (`forget`) wants no more of it, ever."""

    name: NodeId
    epoch: int
    forget: bool = False


class Hold(Struct, frozen=True):
    """Subscriptions here still read these streams from a logger, and have come to there: no more than that is to be
    acknowledged. It replaces the one before."""

    positions: dict[StreamId, int]


class Room(Struct, frozen=True):
    """The application can take so many more events of a group, after purging; for groups with back-pressure. None: any
    number, as before the first `Room`."""

    group: str
    events: int | None
    by: str = ""
    """The consumer that has the least room, for people."""


class Connected(Struct, frozen=True):
    """The transport has a new connection to a member: what was under way to it on the old one is gone."""

    node: NodeId


class Persisted(Struct, frozen=True):
    """What the `Persist` of that token named is on disk."""

    token: int


class Loaded(Struct, frozen=True):
    """What the `Load` of that token asked for, as far as the store has it."""

    token: int
    packets: tuple[Packet, ...]


class Measured(Struct, frozen=True):
    """What is in the store comes to so many bytes of packets: told once, at the start."""

    bytes: int


class Aged(Struct, frozen=True):
    """The ages of the packets on disk, in place of those that the logger started with (`Stored.ages`)."""

    ages: dict[StreamId, tuple[tuple[float, int], ...]]


class Compacted(Struct, frozen=True):
    """The store has dropped so many events that were obsolete, and bytes with them."""

    events: int
    bytes: int


class Damaged(Struct, frozen=True):
    """The store has found that these are not as they were written, and has them no more."""

    spans: tuple[Span, ...]


class Scanned(Struct, frozen=True):
    """What the `Scan` of that token asked for."""

    token: int
    page: Page


class Consult(Struct, frozen=True):
    """Ask a logger for a page of its log; unreliable, like all that is sent."""

    logger: NodeId
    read: Read


class Leave(Struct, frozen=True):
    """Leave the mesh for good, in order."""


class Disconnect(Struct, frozen=True):
    """Leave for a while: loggers keep what is missed."""


class Reconnect(Struct, frozen=True):
    """Come back after `Disconnect`."""


class Expel(Struct, frozen=True):
    """The operator says that a member will never return."""

    node: NodeId


Input = (
    Start | Wake | Received | Met | Open | Publish | Adopt | Claim | Forward | Abandon | Close | Attach | Mark | Detach
    | Hold | Room | Connected | Persisted | Loaded | Measured | Aged | Compacted | Damaged | Scanned | Consult
    | Leave | Disconnect | Reconnect | Expel
)  # fmt: skip
