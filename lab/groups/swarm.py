"""The swarm for groups: random members, traffic, faults and crashes from one seed, against every checker of the
protocol.

Up to as many members crash as the protocol promises to stand, some of them between two sends; links lose, delay and
reorder; members are silent for so long that they are wrongly expelled. A view may change in trouble (`Change`). Then
everything is healed, and whoever is still in must have what it should. What is promised less of is drawn less wildly:
without uniform agreement the papers' promises are about members that fail no more than the resilience allows, and wrong
expulsions count as failures.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal, cast

from gossamer.lab.checkers import Violation
from gossamer.lab.faults import Copy, Delay, DropIf, Duplicate, Loss, Partition, Sending, Straggle
from gossamer.lab.groups import checkers
from gossamer.lab.groups.world import GROUP, Doom, Machine, World
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.groups import seat
from gossamer.protocol.groups.effects import View
from gossamer.protocol.groups.inputs import Exclude, Leave
from gossamer.protocol.groups.rotation import Settings
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.views import Order, Timing, Views
from gossamer.protocol.groups.wire import Casts, Data, Decided, Hello, Message, Ordered, Pred, Propose

Protocol = Literal["urgc", "urcgc", "views"]
PROTOCOLS: tuple[Protocol, ...] = ("urgc", "urcgc", "views")
MACHINES: dict[str, type[Urgc] | type[Urcgc]] = {"urgc": Urgc, "urcgc": Urcgc}
AIMS = {
    "urgc": ("", "", "isolate", "late", "mute"),
    "urcgc": ("", "", "isolate", "late", "mute"),
    "views": ("", "", "isolate", "late", "mute"),
}
HEALED_S = 5.0
"""How long after healing everything must be settled."""


@dataclass(frozen=True)
class Change:
    """A change of view in trouble: an outsider asks to join while a member that multicasts is about to crash, some of
    its links are cut, another member is slow, and control messages are lost."""

    at_ms: float
    """When the outsider asks, before the end of the traffic."""
    asked: int
    """How many members hear the outsider in time."""
    messages: int
    """Multicast by the doomed member around that moment."""
    every_ms: float
    keys: int
    cut: bool
    """Whether the doomed member's messages reach only the members that hear the outsider."""
    deaf: bool
    """Whether each `Pred` for the doomed member is lost."""
    slow_ms: float
    """By how much the messages of one slow member are late."""
    span_ms: float
    """How long the links are cut, the slow member is slow and control messages are lost."""
    control_loss: float
    """The share of messages other than `Data` that is lost."""
    crash_after_ms: float
    """-1: nobody crashes. Nor does anybody if as many crash, leave or are excluded as the first view stands."""


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
    order: Order
    joins: int
    leaves: int
    excludes: int
    """Somebody says that a member must go, though nothing is wrong with it."""
    crashes: int
    crash_copies: tuple[int, ...]
    aim: str
    """The first crash is aimed: between the copies of what matters most, with the few that have one "isolate"d for a
    while, or their copies "late"; "mute": when what it multicast is lost, and it alone has it."""
    keys: int
    wire: bool
    change: Change | None = None

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
    stood: bool = True
    """Whether a majority of each view lived on, so that liveness was checked."""


Make = Callable[[Plan, str, tuple[str, ...]], Machine]


def draw(seed: int, protocol: Protocol | None = None) -> Plan:
    rng = random.Random(f"groups/{seed}")
    drawn: Protocol = rng.choice(PROTOCOLS)
    chosen = protocol or drawn
    members = rng.randint(3, 7)
    uniform = rng.random() < 0.6
    # Without uniform agreement who is wrongly expelled counts as failed, so that only the crashes are left to draw.
    wild = uniform or chosen != "urgc"
    resilience = (members - 1) // 2 if chosen != "urgc" or uniform else max(members // 2 - 1, 0)
    crashes = rng.randint(0, resilience)
    orders: tuple[Order, ...] = ("fifo", "causal", "total", "total")
    order: Order = "total" if chosen == "urgc" else "causal" if chosen == "urcgc" else rng.choice(orders)
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
        order=order,
        joins=rng.choice((0, 0, 1, 2)) if chosen == "views" else 0,
        leaves=rng.choice((0, 0, 1)) if chosen == "views" and not crashes else 0,
        excludes=rng.choice((0, 0, 1)) if chosen == "views" and not crashes else 0,
        crashes=crashes,
        crash_copies=tuple(rng.choice((-1, rng.randint(0, 12))) for _ in range(crashes)),
        aim=rng.choice(AIMS[chosen] if wild else ("isolate", "isolate", "late", "mute")) if crashes else "",
        keys=rng.choice((0, 0, 2)),
        wire=rng.random() < 0.3,
        change=_draw_change(seed, members) if chosen == "views" else None,
    )


def _draw_change(seed: int, members: int) -> Change | None:
    """From a generator of its own, so that everything else is as it was."""
    rng = random.Random(f"change/{seed}")
    if rng.random() < 0.4:
        return None
    return Change(
        at_ms=rng.uniform(50.0, 400.0),
        asked=rng.randint(1, members - 1),
        messages=rng.randint(2, 12),
        every_ms=rng.choice((0.3, 1.0, 3.0, 10.0)),
        keys=rng.choice((0, 1, 2)),
        cut=rng.random() < 0.7,
        deaf=rng.random() < 0.5,
        slow_ms=rng.choice((0.0, 10.0, 50.0, 100.0, 200.0)),
        span_ms=rng.uniform(50.0, 300.0),
        control_loss=rng.choice((0.0, 0.1, 0.3)),
        crash_after_ms=rng.uniform(1.0, 120.0) if rng.random() < 0.8 else -1.0,
    )


def settings(plan: Plan) -> Settings:
    return Settings(subrun_s=plan.subrun_ms / 1_000, batch=plan.batch, silence=plan.silence, uniform=plan.uniform)


def make(plan: Plan, name: str, members: tuple[str, ...]) -> Machine:
    """A founder; or, if the members do not name it, somebody who wants to join them."""
    if plan.protocol == "views":
        return seated(name, members, views(plan, name))
    return MACHINES[plan.protocol](GROUP, name, members, settings(plan))


def views(plan: Plan, name: str, kind: type[Views] = Views) -> seat.Make:
    timing = Timing(tick_s=plan.subrun_ms / 1_000, suspect_s=0.15, exclude_s=0.3, ack_s=0.005)

    def begin(view: int, members: tuple[str, ...], starts: tuple[int, ...]) -> Machine:
        return kind(
            GROUP, name, members, view=view, starts=starts, order=plan.order, uniform=plan.uniform, timing=timing
        )

    return begin


def seated(name: str, members: tuple[str, ...], begin: seat.Make) -> Machine:
    if name in members:
        return begin(0, members, ())
    return seat.Seat(name, name, members, begin, joins=True, address_of=str)


def run(seed: int, protocol: Protocol | None = None, factory: Make = make) -> Outcome:
    plan = draw(seed, protocol)
    rng = random.Random(f"run/{seed}")
    world = World(seed, through_wire=plan.wire)
    names = tuple("abcdefg"[: plan.members])
    for name in names:
        world.add(name, factory(plan, name, names))
    _fault(world, plan, rng, names)
    _traffic(world, plan, rng, names)
    _come_and_go(world, plan, rng, names, factory)
    if plan.change is not None:
        _change(world, plan, plan.change, names, factory)
    end_s = plan.messages * plan.every_ms / 1_000 + 1.0
    if plan.change is not None:
        end_s = max(end_s, (plan.change.at_ms + plan.change.span_ms) / 1_000 + 1.0)
    violation, stood = None, True
    try:
        world.run(end_s)
        check(world, plan, settled=False)
        world.rules = []
        world.run(end_s + HEALED_S)
        stood = plan.change is None or _stood(world)
        check(world, plan, settled=stood)
    except Violation as found:
        violation = found
    delivered = sum(len(life.delivered()) for life in world.lives.values())
    alive = sum(life.alive for life in world.lives.values())
    return Outcome(plan, len(world.sent), delivered, alive, violation, stood)


def _stood(world: World) -> bool:
    """Whether a majority of each view lives, or went on to the next view: members may also be expelled wrongly."""
    views = {seen.number: seen.members for life in world.lives.values() for seen in life.seen if isinstance(seen, View)}
    return all(
        2 * sum(world.lives[name].alive or world.lives[name].view > number for name in members) > len(members)
        for number, members in views.items()
    )


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
        world.rules.append(DropIf(lambda sender, _, message: sender == name and isinstance(message, Casts | Data)))
        world.multicast(name)
        if plan.protocol != "urgc":
            world.at(world.agenda.now_s + rng.uniform(0.0, 2.0) * subrun_s, world.crash, name)
            return
    # An expulsion takes k subruns: what matters for a cut happens then, what matters for an order at once.
    after_s = rng.uniform(0.0, 1.3) * k * subrun_s if plan.protocol == "urcgc" else 0.0

    def then(recipients: tuple[str, ...]) -> None:
        if plan.aim == "isolate":
            start_s = world.agenda.now_s + after_s + 0.002
            stop_s = start_s + rng.uniform(0.5, k - 1.5) * subrun_s
            others = [other for other in world.lives if other not in recipients]
            world.rules.append(Partition(recipients, others, start_s=start_s, stop_s=stop_s))

    late_s = after_s + rng.uniform(0.5, 3.0) * subrun_s if plan.aim == "late" else 0.0
    kinds = {"urgc": (Ordered,), "urcgc": (Casts,), "views": rng.choice(((Data,), (Propose,), (Decided,)))}
    kind = kinds[plan.protocol]
    copies = rng.choice((0, 1, 1, 1, 2)) if plan.aim != "mute" else plan.members - 1
    world.lives[name].doom = Doom(
        lambda message: isinstance(message, kind) and getattr(message, "log", "") is not None, copies, late_s, then
    )


def _come_and_go(world: World, plan: Plan, rng: random.Random, names: tuple[str, ...], factory: Make) -> None:
    span_s = plan.messages * plan.every_ms / 1_000
    for number in range(plan.joins):
        name = "xyz"[number]
        world.at(rng.uniform(0, span_s), _join, world, plan, name, names, factory)
        world.at(span_s + 2.0, _multicast, world, plan, rng, name)
    gone = rng.sample(names, plan.leaves + plan.excludes)
    for name in gone[: plan.leaves]:
        world.at(rng.uniform(0, span_s), world.tell, name, Leave())
    for name in gone[plan.leaves :]:
        world.at(rng.uniform(0, span_s), world.tell, rng.choice(names), Exclude(name))


def _change(world: World, plan: Plan, change: Change, names: tuple[str, ...], factory: Make) -> None:
    rng = random.Random(f"change/run/{plan.seed}")
    doomed, *others = rng.sample(names, len(names))
    asked = others[: change.asked]
    slow = rng.choice(others)
    at_s, span_s = change.at_ms / 1_000, change.span_ms / 1_000
    start_s = at_s - rng.uniform(0.0, span_s)
    stop_s = start_s + span_s

    def trouble(sending: Sending, copies: list[Copy]) -> list[Copy]:
        message = cast(Message, sending.message)
        if isinstance(message, Hello):
            return [(to, late_s) for to, late_s in copies if to in asked or sending.now_s > stop_s + 0.2]
        if not start_s <= sending.now_s < stop_s:
            return copies
        if change.cut and sending.sender == doomed:
            copies = [copy for copy in copies if copy[0] in asked]
        if change.deaf and isinstance(message, Pred):
            copies = [copy for copy in copies if copy[0] != doomed]
        if change.control_loss and not isinstance(message, Data):
            copies = [copy for copy in copies if rng.random() >= change.control_loss]
        if sending.sender == slow:
            copies = [(to, late_s + change.slow_ms / 1_000) for to, late_s in copies]
        return copies

    world.rules.append(trouble)
    first_s = at_s - rng.uniform(0.0, change.messages * change.every_ms / 1_000)
    for number in range(change.messages):
        key = rng.choice((*"xy"[: change.keys], None))
        world.at(max(0.0, first_s + number * change.every_ms / 1_000), _say, world, doomed, key)
    world.at(at_s, _join, world, plan, "w", names, factory)
    if change.crash_after_ms >= 0 and plan.crashes + plan.leaves + plan.excludes < (plan.members - 1) // 2:
        world.at(at_s + change.crash_after_ms / 1_000, world.crash, doomed)


def _say(world: World, name: str, key: str | None) -> None:
    if world.lives[name].alive:
        world.multicast(name, Content(key=key))


def _join(world: World, plan: Plan, name: str, names: tuple[str, ...], factory: Make) -> None:
    world.add(name, factory(plan, name, names))


def _doom(world: World, name: str, copies: int) -> None:
    """It crashes between two sends."""
    world.lives[name].copies_left = copies


def _traffic(world: World, plan: Plan, rng: random.Random, names: tuple[str, ...]) -> None:
    for number in range(plan.messages):
        world.at(number * plan.every_ms / 1_000, _multicast, world, plan, rng, rng.choice(names))


def _multicast(world: World, plan: Plan, rng: random.Random, name: str) -> None:
    life = world.lives.get(name)
    if life is None or not life.alive:
        return
    after: tuple[EventId, ...] = ()
    if plan.order == "causal":
        delivered = life.delivered()
        after = tuple(rng.sample(delivered[-6:], min(len(delivered), rng.randint(0, 2))))
    key = rng.choice("xyz"[: plan.keys]) if plan.keys else None
    if plan.protocol == "views":
        # There a message comes after whatever its sender was delivered; the checker is told, the machine knows.
        world.multicast(name, Content(key=key), implied=after)
    else:
        world.multicast(name, Content(key=key), after)


def check(world: World, plan: Plan, settled: bool) -> None:
    checkers.check_integrity(world)
    checkers.check_fifo(world)
    if world.peer_errors:
        raise Violation("peers", f"an honest member was refused: {world.peer_errors[0]}")
    if plan.protocol == "views":
        checkers.check_views(world)
        if settled:
            checkers.check_fifo_completeness(world)
    else:
        checkers.check_no_gap(world)
    if plan.order == "total":
        checkers.check_total_order(world, plan.uniform or plan.protocol == "views")
    elif plan.order == "causal":
        checkers.check_causal(world, settled)
        checkers.check_discarded(world)
    checkers.check_agreement(world, plan.uniform, settled)
    if settled:
        checkers.check_validity(world)
        tame = plan.loss == plan.straggle == plan.silences == plan.excludes == 0 and plan.aim != "isolate"
        if tame and plan.joins == 0 and plan.change is None:
            for life in world.lives.values():
                if life.out not in ("", "left"):
                    raise Violation("liveness", f"{life.name} is out without a fault of its own: {life.out}")
