"""One client at a broker: how far it is, what is under way to it, and what it may ask for."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from gossamer.broker.catching_up import LOG_BYTES_MAX
from gossamer.broker.connection import Connection
from gossamer.broker.counters import Counters
from gossamer.broker.door import UNFINISHED_BYTES_MAX
from gossamer.broker.subscriber import Subscriber
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.session import BUFFER_EVENTS_MAX, FRAME_BYTES_MAX, SELECTOR_LENGTH_MAX, Hello

MOST = {
    "message_bytes_max": FRAME_BYTES_MAX,
    "selector_length_max": SELECTOR_LENGTH_MAX,
    "buffer_events_max": BUFFER_EVENTS_MAX,
}
"""What no message can say more of, whatever is configured."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may ask for, each with its refusal."""

    sessions_max: int = 10_000
    subscriptions_max: int = 1_000
    """Of one client."""
    selector_length_max: int = 16 * 1024
    buffer_events_max: int = 100_000
    """Of one subscription's queue."""
    message_bytes_max: int = FRAME_BYTES_MAX
    unfinished_bytes_max: int = UNFINISHED_BYTES_MAX
    """Of messages that are not whole yet, all clients together."""
    window_bytes: int = 4 * 2**20
    """Under way to one client and not yet taken by it."""
    log_bytes_max: int = LOG_BYTES_MAX
    """Kept in memory for those that are behind; who falls out of that reads from a logger."""
    silence_s: float = 20.0
    """A client that says nothing for so long is gone."""
    return_s: float = 60.0
    """And so long its stream waits for it to return."""
    purge_patience_s: float = 0.05
    """`policy="auto"`: obsolete events are purged once an event has waited this long for its consumer. The clients of
    this broker use the same value for the events that wait in their process."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) <= 0:
                raise UsageError(f"{each.name} must be more than 0, not {getattr(self, each.name)}")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise UsageError(f"{name} must be at most {most}, not {getattr(self, name)}")
        if self.unfinished_bytes_max < 2 * self.message_bytes_max:
            raise UsageError(
                f"unfinished_bytes_max must be at least twice message_bytes_max ({self.message_bytes_max}), "
                f"not {self.unfinished_bytes_max}"
            )


class Session:
    """One client, as long as it is here."""

    __slots__ = (
        "_counters", "_on_stuck", "client", "durables", "epoch", "group", "holder", "logged", "parked", "place",
        "safe", "sent_bytes", "stream", "subscribers", "taken_bytes", "told", "welcomed", "window_bytes",
    )  # fmt: skip

    def __init__(
        self,
        place: Connection,
        hello: Hello,
        stream: StreamId,
        window_bytes: int,
        counters: Counters,
        on_stuck: Callable[["Session"], None],
    ) -> None:
        """`on_stuck` is told when not all that was sent is on its way."""
        self._counters = counters
        self._on_stuck = on_stuck
        self.place = place
        """Its connection."""
        self.client = hello.client
        self.epoch = hello.epoch
        self.group = hello.group
        self.stream = stream
        self.holder = hello.holder if hello.publisher is not None else ""
        """Who has the name that is published under, if there is one."""
        self.welcomed = False
        self.subscribers: dict[int, Subscriber] = {}
        self.durables: dict[int, NodeId] = {}
        """Which of them are durable, and their names."""
        self.parked = 0
        """How many subscriptions wait until the events of its group have their order."""
        self.sent_bytes = 0
        self.taken_bytes = 0
        self.window_bytes = window_bytes
        self.logged = self.safe = -1
        self.told: tuple[int, int, int] | None = None
        """The acknowledgements that it was last sent."""

    @property
    def open(self) -> bool:
        return self.sent_bytes - self.taken_bytes < self.window_bytes

    def deliver(self, frame: bytes) -> None:
        """Send what counts towards its window."""
        self.sent_bytes += len(frame)
        self.send(frame)

    def send(self, frame: bytes) -> None:
        """Put a frame on the way to it."""
        counters = self._counters
        counters.frames_delivered += 1
        counters.bytes_delivered += len(frame)
        if not self.place.send(frame):
            self._on_stuck(self)
