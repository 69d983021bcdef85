"""Faults as composable rules: each maps the copies of a message to the copies that are left of them.

A copy is `(destination, extra delay)`. A rule sees all copies of a message at once, in one call: with a thousand
members anything that is done once a copy is done a million times.
"""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Message

Copy = tuple[str, float]
"""A destination and by how many seconds the copy is late."""
Predicate = Callable[[str, str, Message], bool]
"""Of sender, destination and message."""


class Sending(NamedTuple):
    """What a rule may look at: one message on its way to all its destinations, and a generator to draw from."""

    now_s: float
    sender: str
    message: Message
    rng: random.Random


class Rule(Protocol):
    """It owns the list it is given, and may change and return it."""

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]: ...


@dataclass(slots=True)
class Loss:
    """Each copy is lost with probability p, independently."""

    p: float

    def __post_init__(self) -> None:
        _probability(self.p)

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        for place in reversed(picked(self.p, len(copies), sending.rng)):
            del copies[place]
        return copies


@dataclass(slots=True)
class BurstLoss:
    """Gilbert's model: each path is good or bad; a copy turns a good path bad with probability `enter` and a bad one
    good with `leave`, and is lost with probability `p` on a bad one. Mean burst: 1 / leave copies."""

    enter: float
    leave: float
    p: float = 1.0
    _bad: set[tuple[str, str]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        for p in (self.enter, self.leave, self.p):
            _probability(p)

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        kept = []
        rng = sending.rng
        for copy in copies:
            path = (sending.sender, copy[0])
            if path in self._bad:
                if rng.random() < self.leave:
                    self._bad.discard(path)
            elif rng.random() < self.enter:
                self._bad.add(path)
            if path not in self._bad or rng.random() >= self.p:
                kept.append(copy)
        return kept


@dataclass(slots=True)
class Duplicate:
    """A copy comes twice with probability p, the second a little later."""

    p: float
    exp_ms: float = 5.0

    def __post_init__(self) -> None:
        _probability(self.p)

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        for place in picked(self.p, len(copies), sending.rng):
            destination, late_s = copies[place]
            copies.append((destination, late_s + _exponential_s(self.exp_ms, sending.rng)))
        return copies


@dataclass(slots=True)
class Delay:
    """Each copy is late by a time of its own, so that copies overtake each other."""

    exp_ms: float

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        return [(destination, late_s + _exponential_s(self.exp_ms, sending.rng)) for destination, late_s in copies]


@dataclass(slots=True)
class Straggle:
    """A copy is very late with probability p: it arrives when everyone has gone on without it."""

    p: float
    exp_ms: float = 1_500.0

    def __post_init__(self) -> None:
        _probability(self.p)

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        for place in picked(self.p, len(copies), sending.rng):
            destination, late_s = copies[place]
            copies[place] = (destination, late_s + _exponential_s(self.exp_ms, sending.rng))
        return copies


class Partition:
    """Nothing passes between different sides from `start_s` to `stop_s`; who is on no side is not affected."""

    def __init__(self, *sides: Iterable[str], start_s: float = 0.0, stop_s: float = math.inf) -> None:
        self.start_s = start_s
        self.stop_s = stop_s
        self._side = {name: number for number, side in enumerate(sides) for name in side}

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        side = self._side
        if not self.start_s <= sending.now_s < self.stop_s or sending.sender not in side:
            return copies
        mine = side[sending.sender]
        return [copy for copy in copies if side.get(copy[0], mine) == mine]


class Isolate:
    """These nodes hear nobody and nobody hears them."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        if sending.sender in self._names:
            return []
        return [copy for copy in copies if copy[0] not in self._names]


@dataclass(slots=True)
class DropIf:
    """Whatever the predicate picks is lost, the first `times` of it if that is given."""

    predicate: Predicate
    times: int | None = None

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        kept = []
        for copy in copies:
            if self.times != 0 and self.predicate(sending.sender, copy[0], sending.message):
                if self.times is not None:
                    self.times -= 1
            else:
                kept.append(copy)
        return kept


@dataclass(slots=True)
class Only:
    """Another rule, applied to what the predicate picks: `Only(Delay(50), lambda sender, to, message: to == "c")`."""

    rule: Rule
    predicate: Predicate

    def __call__(self, sending: Sending, copies: list[Copy]) -> list[Copy]:
        chosen: list[Copy] = []
        others: list[Copy] = []
        for copy in copies:
            (chosen if self.predicate(sending.sender, copy[0], sending.message) else others).append(copy)
        return others + self.rule(sending, chosen)


@dataclass(frozen=True, slots=True)
class Crash:
    """A node crashes at `at_s` and is restarted at `back_s`, if that is given (`World.schedule`)."""

    name: str
    at_s: float
    back_s: float | None = None
    resume: bool = False


def picked(p: float, count: int, rng: random.Random) -> list[int]:
    """Which of `count` a coin of probability p picks, ascending.

    Drawn by the gaps between them (geometric), so that 1 % of a thousand costs ten draws and not a thousand.
    """
    if p <= 0.0:
        return []
    if p >= 1.0:
        return list(range(count))
    places = []
    scale = 1.0 / math.log1p(-p)
    place = math.log(1.0 - rng.random()) * scale // 1  # a float: it may be infinite
    while place < count:
        places.append(int(place))
        place += 1 + math.log(1.0 - rng.random()) * scale // 1
    return places


def _exponential_s(mean_ms: float, rng: random.Random) -> float:
    return -math.log(1.0 - rng.random()) * mean_ms / 1_000.0


def _probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise UsageError(f"a probability lies between 0 and 1, not at {p}")
