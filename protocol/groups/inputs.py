"""What a group machine is told: the only ways in through `handle(input, now)`."""

from msgspec import Struct

from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, NodeId
from gossamer.protocol.groups.wire import Message


class Start(Struct, frozen=True):
    """Begin."""


class Wake(Struct, frozen=True):
    """The time that `next_deadline()` named has come."""


class Received(Struct, frozen=True):
    """A message from another member, or from who wants to be one."""

    sender: NodeId
    message: Message


class Multicast(Struct, frozen=True):
    """Messages for the group, numbered in the order given; `after` names what they come after (causal order)."""

    contents: tuple[Content, ...]
    after: tuple[EventId, ...] = ()


class Exclude(Struct, frozen=True):
    """The application says that a member must go: it is dead, or too slow."""

    node: NodeId


class Leave(Struct, frozen=True):
    """Leave the group, in order."""


class Snapshot(Struct, frozen=True):
    """The application's state at the moment a view that some have joined was delivered to it."""

    view: int
    state: bytes


Input = Start | Wake | Received | Multicast | Exclude | Leave | Snapshot
