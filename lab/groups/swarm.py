"""The swarm for groups: random members, traffic, faults and crashes from one seed, against every checker of the
protocol.

Up to as many members crash as the protocol promises to stand, some of them between two sends; links lose, delay and
reorder; members are silent for so long that they are wrongly expelled. Then everything is healed, and whoever is still
in must have what it should. What is promised less of is drawn less wildly: without uniform agreement the papers'
promises are about members that fail no more than the resilience allows, and wrong expulsions count as failures.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

from gossamer.lab.checkers import Violation
from gossamer.lab.faults import Delay, DropIf, Duplicate, Loss, Partition, Straggle
from gossamer.lab.groups import checkers
from gossamer.lab.groups.world import GROUP, Doom, Machine, World
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.groups.rotation import Settings
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.wire import Casts, Ordered

Protocol = Literal["urgc", "urcgc"]
PROTOCOLS: tuple[Protocol, ...] = ("urgc", "urcgc")
MACHINES: dict[str, type[Urgc] | type[Urcgc]] = {"urgc": Urgc, "urcgc": Urcgc}
HEALED_S = 12.0
"""How long after healing everything must be settled."""


@dataclass(frozen=True)
class Plan:
    """Everything that is drawn for one run."""

    seed: int
    protocol: Protocol
    members: int
    uniform: bool
    batch: int
    subrun_ms: float
    silence: int
    """k; 0: the default."""
    messages: int
    every_ms: float
    loss: float
    duplicate: float
    delay_ms: float
    straggle: float
    silences: int
    crashes: int
    crash_copies: tuple[int, ...]
    aim: str
    """The first crash is aimed: between the copies of what matters most, with the few that have one "isolate"d for a
    while, or their copies "late"; "mute": and what it multicast before was lost."""
    keys: int
    wire: bool

    def __str__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seed"}
        return f"seed {self.seed}: " + " ".join(f"{name}={value}" for name, value in shown.items())


@dataclass(frozen=True)
class Outcome:
    plan: Plan
    multicast: int
    delivered: int
    alive: int
    violation: Violation | None = None


Make = Callable[[Plan, str, tuple[str, ...]], Machine]


def draw(seed: int, protocol: Protocol | None = None) -> Plan:
    rng = random.Random(f"groups/{seed}")
    drawn: Protocol = rng.choice(PROTOCOLS)
    chosen = protocol or drawn
    members = rng.randint(3, 7)
    uniform = rng.random() < 0.6
    # Without uniform agreement who is wrongly expelled counts as failed, so that only the crashes are left to draw.
    wild = uniform or chosen == "urcgc"
    resilience = (members - 1) // 2 if chosen != "urgc" or uniform else max(members // 2 - 1, 0)
    crashes = rng.randint(0, resilience)
    return Plan(
        seed=seed,
        protocol=chosen,
        members=members,
        uniform=uniform,
        batch=rng.choice((1, 3, 16)),
        subrun_ms=rng.choice((20.0, 50.0)),
        silence=rng.choice((0, 8)),
        messages=rng.randint(5, 60),
        every_ms=rng.choice((1.0, 5.0, 20.0)),
        loss=rng.choice((0.0, 0.02, 0.1)) if wild else rng.choice((0.0, 0.02)),
        duplicate=rng.choice((0.0, 0.05)),
        delay_ms=rng.choice((0.0, 0.5, 3.0)),
        straggle=rng.choice((0.0, 0.02)) if wild else 0.0,
        silences=rng.choice((0, 0, 1, 2)) if wild else 0,
        crashes=crashes,
        crash_copies=tuple(rng.choice((-1, rng.randint(0, 12))) for _ in range(crashes)),
        aim=rng.choice(("", "", "isolate", "late", "mute" if chosen == "urgc" else "late")) if crashes else "",
        keys=rng.choice((0, 0, 2)),
        wire=rng.random() < 0.3,
    )


def settings(plan: Plan) -> Settings:
    return Settings(subrun_s=plan.subrun_ms / 1_000, batch=plan.batch, silence=plan.silence, uniform=plan.uniform)


def make(plan: Plan, name: str, members: tuple[str, ...]) -> Machine:
    return MACHINES[plan.protocol](GROUP, name, members, settings(plan))


def run(seed: int, protocol: Protocol | None = None, factory: Make = make) -> Outcome:
    plan = draw(seed, protocol)
    rng = random.Random(f"run/{seed}")
    world = World(seed, through_wire=plan.wire)
    names = tuple("abcdefg"[: plan.members])
    for name in names:
        world.add(name, factory(plan, name, names))
    _fault(world, plan, rng, names)
    _traffic(world, plan, rng, names)
    end_s = plan.messages * plan.every_ms / 1_000 + 1.0
    violation = None
    try:
        world.run(end_s)
        check(world, plan, settled=False)
        world.rules = []
        world.run(end_s + HEALED_S)
        check(world, plan, settled=True)
    except Violation as found:
        violation = found
    delivered = sum(len(life.delivered()) for life in world.lives.values())
    return Outcome(plan, len(world.sent), delivered, sum(life.alive for life in world.lives.values()), violation)


def _fault(world: World, plan: Plan, rng: random.Random, names: tuple[str, ...]) -> None:
    if plan.loss:
        world.rules.append(Loss(plan.loss))
    if plan.duplicate:
        world.rules.append(Duplicate(plan.duplicate))
    if plan.delay_ms:
        world.rules.append(Delay(plan.delay_ms))
    if plan.straggle:
        world.rules.append(Straggle(plan.straggle, 100.0))
    span_s = plan.messages * plan.every_ms / 1_000
    for _ in range(plan.silences):
        side = rng.sample(names, rng.randint(1, plan.members // 2))
        start_s = rng.uniform(0, span_s)
        others = [name for name in names if name not in side]
        world.rules.append(Partition(side, others, start_s=start_s, stop_s=start_s + rng.uniform(0.02, 0.3)))
    doomed = rng.sample(names, plan.crashes)
    for index, (name, copies) in enumerate(zip(doomed, plan.crash_copies, strict=True)):
        at_s = rng.uniform(0, span_s + 0.1)
        if index == 0 and plan.aim:
            world.at(at_s, _aim, world, plan, rng, name)
        elif copies < 0:
            world.at(at_s, world.crash, name)
        else:
            world.at(at_s, _doom, world, name, copies)


def _aim(world: World, plan: Plan, rng: random.Random, name: str) -> None:
    subrun_s = plan.subrun_ms / 1_000
    k = settings(plan).k(plan.members)
    if plan.aim == "mute":
        world.rules.append(DropIf(lambda sender, _, message: sender == name and isinstance(message, Casts)))
        world.multicast(name)
    # An expulsion takes k subruns: what matters for a cut happens then, what matters for an order at once.
    after_s = rng.uniform(0.0, 1.3) * k * subrun_s if plan.protocol == "urcgc" else 0.0

    def then(recipients: tuple[str, ...]) -> None:
        if plan.aim == "isolate":
            start_s = world.agenda.now_s + after_s + 0.002
            stop_s = start_s + rng.uniform(0.5, k - 1.5) * subrun_s
            others = [other for other in world.lives if other not in recipients]
            world.rules.append(Partition(recipients, others, start_s=start_s, stop_s=stop_s))

    late_s = after_s + rng.uniform(0.5, 3.0) * subrun_s if plan.aim == "late" else 0.0
    kind = Casts if plan.protocol == "urcgc" else Ordered
    copies = rng.choice((0, 1, 1, 1, 2)) if plan.aim != "mute" else plan.members - 1
    world.lives[name].doom = Doom(
        lambda message: isinstance(message, kind) and getattr(message, "log", "") is not None, copies, late_s, then
    )


def _doom(world: World, name: str, copies: int) -> None:
    """It crashes between two sends."""
    world.lives[name].copies_left = copies


def _traffic(world: World, plan: Plan, rng: random.Random, names: tuple[str, ...]) -> None:
    for number in range(plan.messages):
        world.at(number * plan.every_ms / 1_000, _multicast, world, plan, rng, rng.choice(names))


def _multicast(world: World, plan: Plan, rng: random.Random, name: str) -> None:
    life = world.lives[name]
    if not life.alive:
        return
    after: tuple[EventId, ...] = ()
    if plan.protocol == "urcgc":
        delivered = life.delivered()
        after = tuple(rng.sample(delivered[-6:], min(len(delivered), rng.randint(0, 2))))
    key = rng.choice("xyz"[: plan.keys]) if plan.keys else None
    world.multicast(name, Content(key=key), after)


def check(world: World, plan: Plan, settled: bool) -> None:
    checkers.check_integrity(world)
    checkers.check_fifo(world)
    if world.peer_errors:
        raise Violation("peers", f"an honest member was refused: {world.peer_errors[0]}")
    checkers.check_no_gap(world)
    if plan.protocol == "urgc":
        checkers.check_total_order(world, plan.uniform)
    else:
        checkers.check_causal(world)
        checkers.check_discarded(world)
    checkers.check_agreement(world, plan.uniform, settled)
    if settled:
        checkers.check_validity(world)
        if plan.loss == plan.straggle == plan.silences == 0 and plan.aim != "isolate":
            for life in world.lives.values():
                if life.out:
                    raise Violation("liveness", f"{life.name} is out without a fault of its own: {life.out}")
