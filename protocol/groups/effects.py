"""What a group machine wants done, in the order given."""

from msgspec import Struct

from gossamer.messages.event import Event
from gossamer.messages.ids import EventId, NodeId
from gossamer.protocol.groups.wire import Message


class Send(Struct, frozen=True):
    """Encode once, and send to each; unreliable."""

    to: tuple[NodeId, ...]
    message: Message


class Deliver(Struct, frozen=True, gc=False):
    """Hand an event to the application, with the guarantees that were chosen."""

    event: Event


class Omit(Struct, frozen=True, gc=False):
    """In the order of deliveries: this one is not delivered, because one that obsoletes it is, or will be."""

    id: EventId


class Joined(Struct, frozen=True):
    """This member is in; its application begins with this state, and a `View` follows."""

    state: bytes


class View(Struct, frozen=True):
    """The group is now these; `joined` are new in it. In the order of deliveries."""

    number: int
    members: tuple[NodeId, ...]
    joined: tuple[NodeId, ...] = ()


class Discarded(Struct, frozen=True):
    """Nobody will ever deliver what this member sent beyond `last`: it, and whatever came after it, died with it."""

    node: NodeId
    last: int


class Stalled(Struct, frozen=True):
    """Too few members can be reached for anything to be decided; or, with `reached` enough again, no longer so."""

    reached: int
    needed: int


class Expelled(Struct, frozen=True):
    """This member is out, and will deliver nothing more."""

    reason: str


class Left(Struct, frozen=True):
    """This member has left, as it was told to."""


Effect = Send | Deliver | Omit | Joined | View | Discarded | Stalled | Expelled | Left
