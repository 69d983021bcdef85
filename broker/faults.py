"""A lossy network between a node and its sockets, for tests: TCP hides loss, and loopback hides delay.

    loss=0.2,delay=20ms,duplicate=0.05,partition=a|b,c@3s-8s,seed=7

loses each copy with probability 0.2, makes each late by an exponential time of mean 20 ms (so that copies overtake
each other), doubles one in twenty, and from the 3rd to the 8th second of this node's life lets nothing pass between
`a` and `b`, `c`. A partition without a time lasts; several may be named. A partition holds in both directions even if
only one side knows of it; everything else happens to what a node sends.

`oneway=a>b` drops messages from `a` to `b` alone. `file=PATH` reads the faults from a file, and again whenever it
changes, so that a test cuts and heals running members.

Only messages are touched. Marks are not, so links stay up while nothing gets through them, as behind a bad switch.
"""

import heapq
import math
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from gossamer.broker.counters import Counters
from gossamer.broker.framing import Header
from gossamer.broker.poll import Poll
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NodeId
from gossamer.protocol.inputs import Input, Met, Received

_TIME = re.compile(r"([0-9]*\.?[0-9]+)(ms|s)")
LOOK_S = 0.1
"""How often a file of faults is looked at."""


class Links(Protocol):
    """What a runtime needs of a mesh: the mesh itself, or one with faults in front."""

    own: Header
    counters: Counters

    def send(self, to: tuple[str, ...], frame: bytes, now: float) -> None: ...
    def learn(self, node: NodeId, address: str, now: float) -> None: ...
    def receive(self, now: float) -> list[Input]: ...
    def next_deadline(self) -> float: ...
    def on_time(self, now: float) -> None: ...
    def lost(self, node: NodeId, heard_at: float, now: float) -> Literal["gone", "silent"] | None: ...
    def untaken_s(self, node: NodeId, now: float) -> float: ...
    def answered_at(self, node: NodeId) -> float: ...
    def links(self) -> list[tuple[str, int, int]]: ...
    @property
    def poll(self) -> Poll:
        """What to sleep on."""

    @property
    def queued_bytes(self) -> int: ...
    @property
    def settled(self) -> bool: ...
    def close(self, linger_s: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing passes between different sides for a while; who is on no side is not affected."""

    sides: tuple[frozenset[str], ...]
    start_s: float = 0.0
    stop_s: float = math.inf

    def parts(self, one: str, other: str, age_s: float) -> bool:
        if not self.start_s <= age_s < self.stop_s:
            return False
        here = [number for number, side in enumerate(self.sides) if one in side]
        there = [number for number, side in enumerate(self.sides) if other in side]
        return bool(here and there and here != there)


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay_s: float = 0.0
    cuts: tuple[Cut, ...] = ()
    seed: int = 0
    oneways: tuple[tuple[str, str], ...] = ()
    """Pairs of nodes: messages from the first to the second are dropped."""
    file: Path | None = None
    """Holds further faults, in place of these."""


def parse_faults(text: str) -> Faults:
    """Read a specification, or say which part of it cannot be read."""
    found = Faults()
    for part in _parts(text):
        name, _, value = part.partition("=")
        match name:
            case "loss":
                found = replace(found, loss=_probability(part, value))
            case "duplicate":
                found = replace(found, duplicate=_probability(part, value))
            case "delay":
                found = replace(found, delay_s=_seconds(part, value))
            case "partition":
                found = replace(found, cuts=(*found.cuts, _cut(part, value)))
            case "oneway":
                found = replace(found, oneways=(*found.oneways, _oneway(part, value)))
            case "seed" if value.isdecimal():
                found = replace(found, seed=int(value))
            case "file" if value:
                found = replace(found, file=Path(value))
            case _:
                raise UsageError(
                    f"faults: {part!r} is none of loss=P, duplicate=P, delay=20ms, partition=a|b,c@3s-8s, "
                    "oneway=a>b, seed=N, file=PATH"
                )
    return found


def _parts(text: str) -> list[str]:
    """Split at commas, except those between the names of a partition."""
    parts: list[str] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        if "=" not in piece and parts and parts[-1].startswith("partition="):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return parts


def _probability(part: str, value: str) -> float:
    try:
        p = float(value)
    except ValueError:
        p = -1.0
    if not 0.0 <= p <= 1.0:
        raise UsageError(f"faults: {part!r}: a probability lies between 0 and 1")
    return p


def _seconds(part: str, value: str) -> float:
    found = _TIME.fullmatch(value)
    if found is None:
        raise UsageError(f"faults: {part!r}: a time is written like 20ms or 1.5s")
    return float(found[1]) / (1_000 if found[2] == "ms" else 1)


def _cut(part: str, value: str) -> Cut:
    names, _, times = value.partition("@")
    sides = tuple(frozenset(filter(None, side.split(","))) for side in names.split("|"))
    if len(sides) < 2 or not all(sides):
        raise UsageError(f"faults: {part!r}: the sides of a partition are written like a|b,c")
    if not times:
        return Cut(sides)
    start, _, stop = times.partition("-")
    return Cut(sides, _seconds(part, start), _seconds(part, stop) if stop else math.inf)


def _oneway(part: str, value: str) -> tuple[str, str]:
    sender, _, receiver = value.partition(">")
    if not sender or not receiver:
        raise UsageError(f"faults: {part!r}: one direction is written like a>b")
    return sender, receiver


class FaultyMesh:
    """A mesh that does to messages what `faults` says; exchange that at any time, from any thread."""

    def __init__(self, mesh: Links, faults: Faults, now: float) -> None:
        self.own = mesh.own
        self.counters = mesh.counters
        self.faults = faults
        self._mesh = mesh
        self._rng = random.Random(f"{faults.seed}/{mesh.own.node}")
        self._late: list[tuple[float, int, str, bytes]] = []
        self._count = 0
        self._born = now
        self._file = faults.file
        self._look_at = now
        self._changed: tuple[int, int] | None = None

    def send(self, to: tuple[str, ...], frame: bytes, now: float) -> None:
        self._look(now)
        faults, at_once = self.faults, []
        for name in to:
            if self._lost(faults, name, now):
                self.counters.frames_lost += 1
                continue
            copies = 2 if faults.duplicate and self._rng.random() < faults.duplicate else 1
            for _ in range(copies):
                if faults.delay_s:
                    self._count += 1  # what is due at the same time leaves in order
                    at = now + self._rng.expovariate(1.0 / faults.delay_s)
                    heapq.heappush(self._late, (at, self._count, name, frame))
                else:
                    at_once.append(name)
        if at_once:
            self._mesh.send(tuple(at_once), frame, now)

    def receive(self, now: float) -> list[Input]:
        self._look(now)
        taken = self._mesh.receive(now)
        if self.faults.cuts or self.faults.oneways:
            passed = [given for given in taken if not self._cut_off(given, now)]
            self.counters.frames_lost += len(taken) - len(passed)
            return passed
        return taken

    def next_deadline(self) -> float:
        deadline = self._mesh.next_deadline()
        return min(deadline, self._late[0][0]) if self._late else deadline

    def on_time(self, now: float) -> None:
        while self._late and self._late[0][0] <= now:
            _, _, name, frame = heapq.heappop(self._late)
            self._mesh.send((name,), frame, now)
        self._mesh.on_time(now)

    def _lost(self, faults: Faults, name: str, now: float) -> bool:
        if faults.loss and self._rng.random() < faults.loss:
            return True
        return (self.own.node, name) in faults.oneways or self._parted(faults, name, now)

    def _cut_off(self, given: Input, now: float) -> bool:
        match given:
            case Received(sender=name) | Met(node=name):
                return (name, self.own.node) in self.faults.oneways or self._parted(self.faults, name, now)
        return False

    def _parted(self, faults: Faults, name: str, now: float) -> bool:
        age_s = now - self._born
        return any(cut.parts(self.own.node, name, age_s) for cut in faults.cuts)

    def _look(self, now: float) -> None:
        """Take the faults from the file if it has changed."""
        if self._file is None or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        found = self._file.stat()
        changed = found.st_mtime_ns, found.st_ino
        if changed != self._changed:
            self._changed = changed
            self.faults = parse_faults(self._file.read_text().strip())

    # What faults do not touch ---------------------------------------------------------------------------------------

    def learn(self, node: NodeId, address: str, now: float) -> None:
        self._mesh.learn(node, address, now)

    @property
    def poll(self) -> Poll:
        return self._mesh.poll

    def lost(self, node: NodeId, heard_at: float, now: float) -> Literal["gone", "silent"] | None:
        return self._mesh.lost(node, heard_at, now)

    def answered_at(self, node: NodeId) -> float:
        return self._mesh.answered_at(node)

    def untaken_s(self, node: NodeId, now: float) -> float:
        return self._mesh.untaken_s(node, now)

    def links(self) -> list[tuple[str, int, int]]:
        return self._mesh.links()

    @property
    def queued_bytes(self) -> int:
        return self._mesh.queued_bytes

    @property
    def settled(self) -> bool:
        return not self._late and self._mesh.settled

    def close(self, linger_s: float | None = None) -> None:
        self._mesh.close(linger_s)
