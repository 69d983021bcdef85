"""Records of a run: clients append one JSON line per action to a file of their own; the checker reads nothing else.

Times are seconds of the machine's monotonic clock, which all processes of a machine share and no fault touches. Body
and key of an event follow from its publisher and number, so a reader needs no word of anybody to tell a torn event.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

KEYS = 9
"""Keys per publisher. Every fourth event has none: it is never obsolete."""


class Began(msgspec.Struct, tag="began", array_like=True, frozen=True):
    """A publisher has connected, or a subscriber's `subscribe` has returned."""

    at: float
    life: int
    """Counts the processes of this client."""


class Intended(msgspec.Struct, tag="intended", array_like=True, frozen=True):
    """The publisher is about to publish its event `n`."""

    at: float
    n: int


class Accepted(msgspec.Struct, tag="accepted", array_like=True, frozen=True):
    """`publish` has taken event `n` and told its id."""

    at: float
    n: int
    stream: str
    seq: int


class Spooled(msgspec.Struct, tag="spooled", array_like=True, frozen=True):
    """Event `n` of a publisher with a spool was acknowledged as sent: it is in the file, and outlives the process."""

    at: float
    n: int


class Logged(msgspec.Struct, tag="logged", array_like=True, frozen=True):
    """Event `n` was acknowledged as logged."""

    at: float
    n: int


class Delivered(msgspec.Struct, tag="delivered", array_like=True, frozen=True):
    at: float
    stream: str
    seq: int
    publisher: str
    n: int
    key: str | None
    digest: str
    """Of the body."""


class Missed(msgspec.Struct, tag="missed", array_like=True, frozen=True):
    """A `Gap` notice."""

    at: float
    stream: str
    first: int
    last: int
    reason: str


class Counted(msgspec.Struct, tag="counted", array_like=True, frozen=True):
    """`sub.stats` at the end of a subscription."""

    at: float
    delivered: int
    obsoleted: int
    lost: int
    waiting: int


class Failed(msgspec.Struct, tag="failed", array_like=True, frozen=True):
    """The SDK raised an error."""

    at: float
    error: str


class Ended(msgspec.Struct, tag="ended", array_like=True, frozen=True):
    """The client has closed in order."""

    at: float


Record = Began | Intended | Accepted | Spooled | Logged | Delivered | Missed | Counted | Failed | Ended


class Fault(msgspec.Struct, frozen=True):
    """A fault that was injected."""

    kind: str
    targets: tuple[str, ...]
    detail: str
    begun_at: float
    ended_at: float
    """The fault was lifted: the process was started again, the links were healed."""
    healthy_at: float | None
    """All members answered `/healthz` with 200; None: not in time."""


class Spec(msgspec.Struct, frozen=True):
    """A client of the run."""

    name: str
    role: Literal["publisher", "subscriber"]
    named: bool = False
    spool: str | None = None
    rate: float = 40.0
    """Events per second that a publisher aims at."""
    stay_s: float | None = None
    """Time after which a publisher closes and connects to the next broker; None: never."""
    policy: Literal["auto", "none"] = "auto"
    start: Literal["new", "all"] = "new"
    durable: str | None = None
    delay_s: float = 0.0
    """Time that a slow subscriber takes for each event."""

    @property
    def complete(self) -> bool:
        """The subscription is owed every event: obsolete ones as well."""
        return self.policy == "none" or self.durable is not None or self.start == "all"


class Client(msgspec.Struct, frozen=True):
    """The argument of a client process."""

    spec: Spec
    urls: tuple[str, ...]
    path: str
    """The file of its records."""
    life: int
    seed: int


@dataclass(frozen=True)
class History:
    """Everything that a run has recorded."""

    specs: dict[str, Spec]
    records: dict[str, list[Record]]
    faults: list[Fault] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    """Processes that ended though nobody told them to, with their last words."""
    stopped_at: float = 0.0
    """Publishers were told to stop."""

    @property
    def publishers(self) -> list[str]:
        return [name for name, spec in self.specs.items() if spec.role == "publisher"]

    @property
    def subscribers(self) -> list[str]:
        return [name for name, spec in self.specs.items() if spec.role == "subscriber"]


def body_of(publisher: str, n: int) -> bytes:
    return hashlib.sha256(f"{publisher}/{n}".encode()).digest() * (1 + n % 8)


def key_of(publisher: str, n: int) -> str | None:
    return f"{publisher}/{n // 4 * 3 % KEYS + n % 4}" if n % 4 else None


def digest_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()


class Recorder:
    """An append-only file. Each call is one write, so a killed process leaves whole lines."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
        self._encode = msgspec.json.Encoder().encode

    def write(self, *records: Record) -> None:
        os.write(self._file, b"".join(self._encode(each) + b"\n" for each in records))


_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def read(path: Path) -> list[Record]:
    return list(_lines(path)) if path.exists() else []


def _lines(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):  # a kill in the middle of a write may leave a part of a line
                yield _DECODER.decode(line)
