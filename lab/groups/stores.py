"""Primaries and backups in simulated time: updates and reads at whichever member is the primary, under faults.

Each member is a `Views` machine with the `Items` of a `PrimaryBackup` on top. The history of updates and reads must be
linearizable, and whatever a member shows must be the state after some operation, the same at all members.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gossamer.lab.checkers import Violation
from gossamer.lab.faults import Copy, Loss, Sending
from gossamer.lab.groups.linearizability import Operation, linearizable
from gossamer.lab.groups.world import GROUP, Life, Seen, Sent, World
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.groups import seat
from gossamer.protocol.groups.effects import Deliver, Joined, Omit, View
from gossamer.protocol.groups.inputs import Multicast, Snapshot
from gossamer.protocol.groups.items import Items
from gossamer.protocol.groups.streams import stream_of
from gossamer.protocol.groups.views import Order, Timing, Views

TIMING = Timing(tick_s=0.02, suspect_s=0.15, exclude_s=0.3, ack_s=0.005)
ITEMS = "xyz"


@dataclass
class Replica:
    """The application of one member."""

    items: Items
    annotator: Annotator
    primary: bool = False


@dataclass(frozen=True)
class Called:
    """An update or a read that has not returned."""

    seq: int
    kind: str
    names: tuple[str, ...]
    value: Any
    at_s: float


class Stores(World):
    def __init__(self, seed: int, *, order: Order = "fifo", items: Callable[[], Items] = Items) -> None:
        super().__init__(seed)
        self.replicas: dict[str, Replica] = {}
        self.history: list[Operation] = []
        self.states: dict[int, dict[str, Any]] = {0: {}}
        """By operation, the state after it."""
        self.omitted = 0
        self._order: Order = order
        self._items = items
        self._called: dict[str, list[Called]] = {}

    def found(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.enter(name, names)

    def enter(self, name: str, founders: tuple[str, ...]) -> None:
        """A founder; or, if the founders do not name it, an outsider that asks to join them."""

        def begin(view: int, members: tuple[str, ...], starts: tuple[int, ...]) -> Views:
            return Views(GROUP, name, members, view=view, starts=starts, order=self._order, timing=TIMING)

        self.replicas[name] = Replica(self._items(), Annotator(stream_of(GROUP, name)))
        self._called[name] = []
        outside = seat.Seat(name, name, founders, begin, joins=True, address_of=str)
        self.add(name, begin(0, founders, ()) if name in founders else outside)

    # The clients ----------------------------------------------------------------------------------------------------

    def primary(self) -> str | None:
        """A member that takes itself for the primary and lives; there may be another that it does not know of."""
        return next((name for name, each in self.replicas.items() if each.primary and self.lives[name].alive), None)

    def update(self, names: tuple[str, ...], value: Any) -> None:
        if (name := self.primary()) is not None:
            replica = self.replicas[name]

            def multicast(parts: list[Part]) -> EventId:
                if len(parts) > 1:
                    return self._say(name, replica.annotator.transaction(parts), "write", names, value)
                (part,) = parts
                content = replica.annotator.event(part.attributes, part.body, key=part.key)
                return self._say(name, (content,), "write", names, value)

            replica.items.issue(dict.fromkeys(names, value), multicast)

    def read(self, item: str) -> None:
        if (name := self.primary()) is not None:
            content = self.replicas[name].annotator.event(self.replicas[name].items.question())
            self._say(name, (content,), "read", (item,), None)

    def _say(self, name: str, contents: tuple[Content, ...], kind: str, names: tuple[str, ...], value: Any) -> EventId:
        life = self.lives[name]
        for content in contents:
            id = EventId(stream_of(GROUP, name), len(life.sent))
            life.sent.append(id)
            self.sent[id] = Sent(content, (), life.view)
        self._called[name].append(Called(id.seq, kind, names, value, self.agenda.now_s))
        self._feed(life, Multicast(contents))
        return id

    # The applications -----------------------------------------------------------------------------------------------

    def _show(self, life: Life, effect: Seen) -> None:
        replica = self.replicas[life.name]
        match effect:
            case Joined(state):
                life.seen.append(effect)
                if state:
                    replica.items.restore(state)
            case View(number, members, joined):
                life.seen.append(effect)
                life.view = number
                replica.items.end_view()
                if joined and life.name not in joined:
                    snapshot = Snapshot(number, replica.items.snapshot())
                    self.agenda.at(self.agenda.now_s, self._feed, life, snapshot)
                if members[0] == life.name and not replica.primary:
                    replica.primary = True
                    replica.items.take_over()
            case _:
                super()._show(life, effect)
                self.omitted += isinstance(effect, Omit)
                if isinstance(effect, Deliver) and (id := effect.event.id) is not None:
                    complete = replica.items.take(effect.event)
                    self._check_state(life.name, replica.items)
                    if complete and id.stream == stream_of(GROUP, life.name):
                        self._return(life.name, replica.items, id)

    def _check_state(self, name: str, items: Items) -> None:
        state = self.states.setdefault(items.operation, dict(items.values))
        if state != items.values:
            raise Violation("states", f"{name} shows {items.values} after operation {items.operation}, not {state}")

    def _return(self, name: str, items: Items, id: EventId) -> None:
        """Everything that the primary multicast up to an event has taken effect."""
        done = [called for called in self._called[name] if called.seq <= id.seq]
        self._called[name] = self._called[name][len(done) :]
        for called in done:
            for item in called.names:
                value = items.values.get(item) if called.kind == "read" else called.value
                self.history.append(Operation(called.kind, item, value, called.at_s, self.agenda.now_s))

    def check(self) -> None:
        """At the end, once everything is healed."""
        waiting = [
            Operation(called.kind, item, called.value, called.at_s, math.inf)
            for each in self._called.values()
            for called in each
            for item in called.names
        ]
        if not linearizable([*self.history, *waiting]):
            raise Violation("linearizability", f"{len(self.history)} operations have no order that explains them")
        found = {
            name: self.replicas[name].items.values for name, life in self.lives.items() if life.alive and life.view >= 0
        }
        last = self.states[max(self.states)]
        for name, values in found.items():
            if values != last:
                raise Violation("states", f"{name} ends with {values}, not {last}")


def run(seed: int, order: Order = "fifo", items: Callable[[], Items] = Items) -> Stores:
    """Three to five members of which a minority crashes, the first primary among them; one is slow, others come."""
    rng = random.Random(f"stores/{seed}")
    world = Stores(seed, order=order, items=items)
    names = tuple("abcde"[: rng.choice((3, 5))])
    world.found(names)
    slow, slow_s = rng.choice(names[1:]), rng.choice((0.0, 0.02, 0.1))
    cut_s = rng.uniform(0.0, 0.6)

    def trouble(sending: Sending, copies: list[Copy]) -> list[Copy]:
        if sending.sender == names[0] and cut_s <= sending.now_s < cut_s + 0.15:
            copies = [copy for copy in copies if copy[0] != slow]
        late_s = slow_s if sending.sender == slow else 0.0
        return [(to, more_s + late_s) for to, more_s in copies]

    world.rules += [Loss(rng.choice((0.0, 0.02, 0.1))), trouble]
    for number in range(rng.randint(40, 120)):
        at_s = 0.05 + number * rng.choice((0.003, 0.01))
        if rng.random() < 0.7:
            world.at(at_s, world.update, tuple(rng.sample(ITEMS, rng.randint(1, 3))), number)
        else:
            world.at(at_s, world.read, rng.choice(ITEMS))
    if rng.random() < 0.8:
        world.at(rng.uniform(0.1, 0.8), world.crash, names[0])
    if rng.random() < 0.6:
        world.at(rng.uniform(0.05, 0.8), world.enter, "w", names)
    world.run(2.5)
    world.rules = []
    world.run(6.0)
    world.update(("x", "y", "z"), "end")
    world.run(7.0)
    world.check()
    return world
