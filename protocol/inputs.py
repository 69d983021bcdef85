"""What a node is told: the only ways in through `Node.handle(input, now)`."""

from dataclasses import dataclass

from gossamer.messages.event import Content
from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Message


@dataclass(frozen=True, slots=True)
class Start:
    """Begin: join the mesh through the peers given at construction."""


@dataclass(frozen=True, slots=True)
class Wake:
    """The time that `next_deadline()` named has come."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message from another member."""

    sender: NodeId
    message: Message


@dataclass(frozen=True, slots=True)
class Open:
    """A named publisher starts here; its stream may be published to at once, and flows once a block is checked out."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Publish:
    """Events for a stream that is published at this node."""

    stream: StreamId
    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """The publisher of a stream is done: announce its end once everything is logged."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Persisted:
    """What the `Persist` of that token named is on disk."""

    token: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the `Load` of that token asked for, as far as the store has it."""

    token: int
    packets: tuple[Packet, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the mesh for good, in order."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Leave for a while: loggers keep what is missed."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Come back after `Disconnect`."""


@dataclass(frozen=True, slots=True)
class Expel:
    """The operator says that a member will never return."""

    node: NodeId


Input = Start | Wake | Received | Open | Publish | Close | Persisted | Loaded | Leave | Disconnect | Reconnect | Expel
