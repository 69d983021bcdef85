"""What can be seen of a run from outside. Observers only observe: checkers, measurements and transcripts are such."""

from collections.abc import Callable
from typing import Any

from gossamer.messages.event import Content
from gossamer.messages.wire import Message
from gossamer.protocol.effects import (
    Acked,
    Attached,
    Collect,
    Deliver,
    Detached,
    Numbers,
    Paged,
    Ready,
    Record,
    Refused,
    Skip,
    Status,
)


class Observer:
    """Override what you want to see; the world calls only what was overridden."""

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        """A node came up; an incarnation over 1 is a restart, which may resume what the last one was delivered."""

    def crashed(self, at_s: float, node: str) -> None:
        """A node lost all that was not on its disk."""

    def published(self, at_s: float, node: str, stream: str, contents: tuple[Content, ...]) -> None:
        """Events are offered to a node. A `refused` that follows takes it back."""

    def refused(self, at_s: float, node: str, refused: Refused) -> None: ...

    def ready(self, at_s: float, node: str, ready: Ready) -> None:
        """A stream that was refused for back-pressure may be published to again."""

    def numbers(self, at_s: float, node: str, numbers: Numbers) -> None:
        """A client at this node may use these numbers."""

    def attached(self, at_s: float, node: str, attached: Attached) -> None:
        """A durable subscription is with this node."""

    def detached(self, at_s: float, node: str, detached: Detached) -> None: ...

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None: ...

    def skipped(self, at_s: float, node: str, skip: Skip) -> None: ...

    def acked(self, at_s: float, node: str, acked: Acked) -> None: ...

    def became(self, at_s: float, node: str, status: Status) -> None: ...

    def persisted(self, at_s: float, node: str, records: tuple[Record, ...]) -> None:
        """Records are on a node's disk now."""

    def paged(self, at_s: float, node: str, paged: Paged) -> None:
        """A node was given a page of a logger's log."""

    def collected(self, at_s: float, node: str, collect: Collect) -> None: ...

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None: ...

    def lost(self, at_s: float, node: str, to: str, message: Message) -> None:
        """A fault rule, a full queue or a dead receiver swallowed the copy for `to`."""


class Journal(Observer):
    """Everything, in order, as tuples: two runs of one seed have equal journals."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []


def _recorder(what: str) -> Callable[..., None]:
    def record(self: Journal, *seen: Any) -> None:
        self.entries.append((what, *seen))

    return record


SIGHTS = tuple(name for name in vars(Observer) if not name.startswith("_"))
for _sight in SIGHTS:
    setattr(Journal, _sight, _recorder(_sight))


class Audience:
    """The observers of a run: for each thing to be seen, whoever wants to see it.

    A sight that nobody watches is an empty tuple, so that it costs the world one look.
    """

    started: tuple[Callable[[float, str, int, bool, bool], None], ...] = ()
    crashed: tuple[Callable[[float, str], None], ...] = ()
    published: tuple[Callable[[float, str, str, tuple[Content, ...]], None], ...] = ()
    refused: tuple[Callable[[float, str, Refused], None], ...] = ()
    ready: tuple[Callable[[float, str, Ready], None], ...] = ()
    numbers: tuple[Callable[[float, str, Numbers], None], ...] = ()
    attached: tuple[Callable[[float, str, Attached], None], ...] = ()
    detached: tuple[Callable[[float, str, Detached], None], ...] = ()
    delivered: tuple[Callable[[float, str, Deliver], None], ...] = ()
    skipped: tuple[Callable[[float, str, Skip], None], ...] = ()
    acked: tuple[Callable[[float, str, Acked], None], ...] = ()
    became: tuple[Callable[[float, str, Status], None], ...] = ()
    persisted: tuple[Callable[[float, str, tuple[Record, ...]], None], ...] = ()
    paged: tuple[Callable[[float, str, Paged], None], ...] = ()
    collected: tuple[Callable[[float, str, Collect], None], ...] = ()
    sent: tuple[Callable[[float, str, tuple[str, ...], Message], None], ...] = ()
    lost: tuple[Callable[[float, str, str, Message], None], ...] = ()

    def admit(self, observer: Observer) -> None:
        for sight in SIGHTS:
            if getattr(type(observer), sight) is not getattr(Observer, sight):
                setattr(self, sight, (*getattr(self, sight), getattr(observer, sight)))
