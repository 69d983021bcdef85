"""A small model, explored exhaustively: few members, few messages, and every way in which up to two faults can strike.

A run without faults sends some number of copies, one after the other. A fault strikes at one of them: it is lost, it is
late (beyond the subrun or the time-out it was for), or its sender crashes instead of sending it, so that every crash
between any two sends is among them. Runs are explored breadth-first: all with one fault, then all with two, the second
at any copy after the first in the run that the first one leads to.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gossamer.lab.checkers import Violation
from gossamer.lab.groups.world import World
from gossamer.protocol.groups.wire import Message

Fault = tuple[int, str]
"""At which copy, and what: "loss", "late" or "crash"."""
KINDS = ("loss", "late", "crash")


@dataclass(frozen=True)
class Model:
    """A world to explore: how to build it, how long it runs, and what must hold at its end."""

    build: Callable[[], World]
    until_s: float
    check: Callable[[World], None]
    faulty_until: int = 10_000
    """Faults strike at the first copies only, so many; the others are there to heal."""
    counts: Callable[[Message], bool] = lambda _: True
    """Which messages a fault may strike."""
    crashes_max: int = 1


@dataclass(frozen=True)
class Found:
    faults: tuple[Fault, ...]
    violation: Violation


def play(model: Model, faults: tuple[Fault, ...]) -> tuple[list[int], Violation | None]:
    """One run; which copies a further fault could have struck, and what was violated."""
    struck = dict(faults)
    copies: list[int] = []

    def fate(number: int, message: Message) -> str:
        if number < model.faulty_until and model.counts(message):
            copies.append(number)
        return struck.get(number, "")

    world = model.build()
    world.on_copy = fate
    try:
        world.run(model.until_s)
        model.check(world)
    except Violation as violation:
        return copies, violation
    return copies, None


def explore(model: Model, faults_max: int, runs_max: int = 10**9) -> Iterator[tuple[tuple[Fault, ...], Found | None]]:
    """Every run with up to so many faults, breadth-first, and what was found in it."""
    queue: deque[tuple[Fault, ...]] = deque([()])
    runs = 0
    while queue and runs < runs_max:
        faults = queue.popleft()
        copies, violation = play(model, faults)
        runs += 1
        yield faults, None if violation is None else Found(faults, violation)
        if violation is not None or len(faults) >= faults_max:
            continue
        last = faults[-1][0] if faults else -1
        crashes = sum(kind == "crash" for _, kind in faults)
        queue.extend(
            (*faults, (number, kind))
            for number in copies
            if number > last
            for kind in KINDS
            if kind != "crash" or crashes < model.crashes_max
        )
