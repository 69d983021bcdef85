"""Consensus under any schedule: whatever is lost, late or suspected, no two decide differently."""

import random

import pytest

from gossamer.lab.groups.mutants import Forgetful, Trusting
from gossamer.protocol.groups.consensus import Instance
from gossamer.protocol.groups.wire import Answer, Decided, Estimate, Message, Propose, Value


class Side:
    """One member's view of the world: whom it suspects, and what it holds."""

    def __init__(self, place: int, bus: "Bus") -> None:
        self.place, self.bus = place, bus
        self.suspected: set[int] = set()

    def suspects(self, place: int) -> bool:
        return place in self.suspected

    def holds(self, value: Value) -> bool:
        return value.marks[0] in self.bus.held[self.place]

    def initial(self) -> Value:
        return Value((self.place,))

    def tell(self, places: list[int], message: Message) -> None:
        self.bus.flying += [(self.place, place, message) for place in places]


class Bus:
    """Members, and messages on their way in no order."""

    def __init__(self, count: int, rng: random.Random, kind: type[Instance] = Instance) -> None:
        self.rng = rng
        self.flying: list[tuple[int, int, Message]] = []
        self.held = [{place, *(v for v in range(count) if rng.random() < 0.7)} for place in range(count)]
        self.sides = [Side(place, self) for place in range(count)]
        self.instances = [kind(0, 0, place, count, self.sides[place], 0.0, 1e9) for place in range(count)]
        self.alive = set(range(count))
        for instance in self.instances:
            instance.step(0.0)

    def deliver(self, at: int) -> None:
        sender, to, message = self.flying.pop(at)
        if to not in self.alive:
            return
        instance = self.instances[to]
        match message:
            case Estimate():
                instance.on_estimate(sender, message, 0.0)
            case Propose():
                instance.on_propose(sender, message, 0.0)
            case Answer():
                instance.on_answer(sender, message, 0.0)
            case Decided():
                instance.on_decided(message.value)

    def act(self) -> None:
        """One thing that may happen."""
        rng = self.rng
        chance = rng.random()
        if self.flying and chance < 0.6:
            self.deliver(rng.randrange(len(self.flying)))
        elif self.flying and chance < 0.7:
            del self.flying[rng.randrange(len(self.flying))]
        elif chance < 0.8:
            side = rng.choice(self.sides)
            side.suspected ^= {rng.randrange(len(self.sides))}
        elif chance < 0.9:
            rng.choice(self.held).add(rng.randrange(len(self.sides)))
        else:
            place = rng.choice(sorted(self.alive))
            self.instances[place].tick(0.0)

    def decisions(self) -> set[Value]:
        return {instance.decision for instance in self.instances if instance.decision is not None}


def split(kind: type[Instance], seed: int) -> bool:
    """Whether two decided differently in one run."""
    rng = random.Random(seed)
    bus = Bus(rng.choice((3, 4, 5)), rng, kind)
    for _ in range(200):
        bus.act()
    return len(bus.decisions()) > 1


def test_no_two_decide_differently() -> None:
    assert not [seed for seed in range(250) if split(Instance, seed)]


def test_a_coordinator_that_forgets_what_was_adopted_is_caught() -> None:
    assert any(split(Forgetful, seed) for seed in range(400))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_it_ends_once_nobody_is_suspected_and_nothing_lost(count: int) -> None:
    rng = random.Random(count)
    bus = Bus(count, rng)
    for _ in range(100):
        bus.act()
    for side in bus.sides:
        side.suspected.clear()
    bus.held = [set(range(count)) for _ in range(count)]
    for round in range(30):
        for instance in bus.instances:
            instance.tick(0.0)
            if instance.round < max(each.round for each in bus.instances):
                instance._enter(max(each.round for each in bus.instances), 0.0)
        while bus.flying:
            bus.deliver(0)
        if all(instance.decision is not None for instance in bus.instances):
            return
        assert round < 29
    assert len(bus.decisions()) == 1


def test_who_decides_is_in_a_majority_that_holds_it() -> None:
    """A value names messages: it is not adopted by who does not have them."""

    def decided_without(kind: type[Instance]) -> bool:
        bus = Bus(3, random.Random(1), kind)
        bus.held = [{place} for place in range(3)]
        while bus.flying:
            bus.deliver(0)
        return bool(bus.decisions())

    assert not decided_without(Instance)
    assert decided_without(Trusting)
