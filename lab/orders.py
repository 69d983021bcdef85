"""Groups of brokers with causal or total order: random meshes and faults, and what their applications must never see.

Like the swarm (lab/swarm.py) it first lets anything go wrong up to a minority of crashes, then heals, and then asks for
everything. What is checked: no event twice; each publisher's in its order and without a gap; what an event comes after
before it (causal); no two events in different orders at two applications, dead ones among them (total, uniform).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

from gossamer.lab.checkers import Violation
from gossamer.lab.faults import Crash, Delay, Loss, Partition
from gossamer.lab.groups import mutants as group_mutants
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.world import NodeFactory, World
from gossamer.messages.event import Content, Relation
from gossamer.messages.ids import DEFAULT_GROUP, EventId, StreamId
from gossamer.protocol.causal import CausalOrder
from gossamer.protocol.config import Config, Group, Order
from gossamer.protocol.effects import Deliver, Skip
from gossamer.protocol.node import Node
from gossamer.protocol.ordered import Ordered
from gossamer.protocol.total import TotalOrder

SETTLE_S = 90.0


@dataclass(frozen=True)
class Plan:
    """Everything that is drawn for one run."""

    seed: int
    order: Order
    brokers: int
    loggers: int
    logger_agrees: bool
    """A logger is one of those who agree, too."""
    duration_s: float
    every_ms: float
    loss: float
    delay_ms: float
    partitions: int
    crashes: int
    return_s: float
    """So long after its crash a broker comes back; 0: it stays away."""
    joins: int

    def __str__(self) -> str:
        return " ".join(f"{each.name}={getattr(self, each.name)}" for each in fields(self))


def draw(seed: int, order: Order | None = None) -> Plan:
    rng = random.Random(f"orders/{seed}")
    drawn: Order = rng.choice(("causal", "total", "total"))
    brokers, loggers = rng.randint(3, 5), rng.choice((0, 1, 2))
    return Plan(
        seed=seed,
        order=order or drawn,
        brokers=brokers,
        loggers=loggers,
        logger_agrees=loggers > 0 and rng.random() < 0.3,
        duration_s=rng.choice((2.0, 4.0)),
        every_ms=rng.choice((5.0, 20.0, 50.0)),
        loss=rng.choice((0.0, 0.05, 0.2)),
        delay_ms=rng.choice((0.0, 5.0, 40.0)),
        partitions=rng.choice((0, 0, 1, 2)),
        crashes=rng.randint(0, (brokers - 1) // 2),
        return_s=rng.choice((0.0, 0.3, 3.0)),
        joins=rng.choice((0, 0, 1)),
    )


class Seen(Observer):
    """What the application of each life of each broker was handed, in order."""

    def __init__(self) -> None:
        self.lives: dict[tuple[str, int], list[EventId]] = {}
        self.begun: dict[tuple[str, int], dict[str, int]] = {}
        """Of each stream the first seq that a life heard of: before that it was not there."""
        self.current: dict[str, tuple[str, int]] = {}

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        if not logger:
            life = self.current[node] = (node, incarnation)
            self.lives[life], self.begun[life] = [], {}

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        packet = deliver.packet
        if (life := self.current.get(node)) is None:
            return
        self.begun[life].setdefault(packet.stream, packet.first)
        self.lives[life] += [EventId(packet.stream, seq) for seq in packet.seqs()]

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        if (life := self.current.get(node)) is None:
            return
        self.begun[life].setdefault(skip.stream, skip.first)
        self.lives[life] += [EventId(skip.stream, seq) for seq in range(skip.first, skip.last + 1)]


class Run:
    """One run of one plan."""

    def __init__(self, plan: Plan, node_factory: NodeFactory | None = None) -> None:
        self.plan = plan
        self.rng = random.Random(f"orders/workload/{plan.seed}")
        self.brokers = [f"b{number}" for number in range(plan.brokers)]
        self.loggers = [f"L{number}" for number in range(plan.loggers)]
        agreed_by = tuple(self.brokers + self.loggers[: plan.logger_agrees])
        config = Config(groups={DEFAULT_GROUP: Group(order=plan.order)}, agreed_by=agreed_by, round_interval_s=0.1)
        self.world = World(plan.seed, config=config, node_factory=node_factory)
        self.seen = Seen()
        self.world.observe(self.seen)
        self.sent: dict[EventId, tuple[EventId, ...]] = {}
        """What was published, and what it comes after."""
        self._told: dict[tuple[str, int], int] = {}
        self._next: dict[str, int] = {}

    def execute(self) -> None:
        """`Violation`, if something is not as it must be."""
        plan, world = self.plan, self.world
        names = self.loggers + self.brokers
        for name in self.loggers:
            world.add(name, logger=True, peers=tuple(self.loggers))
        for name in self.brokers:
            world.add(name, peers=() if name == names[0] else tuple(names))
        for host in world.hosts.values():
            host.peers = tuple(name for name in names if name != host.name)
        if not world.run_until(self._all_ready, 30.0, every_s=0.1):
            raise Violation("liveness", "those who agree on the order have not begun")
        self._draw_faults()
        end_s, at_s = world.now_s + plan.duration_s, world.now_s
        while (at_s := at_s + self.rng.expovariate(1e3 / plan.every_ms)) < end_s:
            world.at(at_s, self._publish)
        world.run(end_s)
        world.heal()
        if not world.run_until(lambda: self._lacking() is None, SETTLE_S, every_s=0.5):
            raise Violation("liveness", f"{self._lacking()}, {SETTLE_S:.0f} s after healing")
        self.check()

    def _all_ready(self) -> bool:
        """Those who are to agree do, or need not."""
        nodes = [self.world.hosts[name].node for name in self.brokers]
        return all(getattr(node, "ready", _yes)(DEFAULT_GROUP) and _is_member(node) for node in nodes)

    def _draw_faults(self) -> None:
        plan, world, rng = self.plan, self.world, self.rng
        begin_s, length_s = world.now_s, plan.duration_s
        if plan.loss:
            world.add_rule(Loss(plan.loss))
        if plan.delay_ms:
            world.add_rule(Delay(exp_ms=plan.delay_ms))
        for _ in range(plan.partitions):
            names = rng.sample(self.brokers, len(self.brokers))
            cut = rng.randint(1, len(names) - 1)
            rule = Partition((*names[:cut], *self.loggers), names[cut:])
            start_s = begin_s + rng.uniform(0, length_s)
            world.at(start_s, world.add_rule, rule)
            world.at(start_s + rng.uniform(0.1, 2.5), self._mend, rule)
        for name in rng.sample(self.brokers, plan.crashes):
            at_s = begin_s + rng.uniform(0, length_s)
            world.schedule(Crash(name, at_s, at_s + plan.return_s if plan.return_s else None))
        for number in range(plan.joins):
            world.at(begin_s + rng.uniform(0, length_s), self._join, f"b{plan.brokers + number}")

    def _mend(self, rule: Partition) -> None:
        if rule in self.world.network.rules:
            self.world.remove_rule(rule)

    def _join(self, name: str) -> None:
        self.brokers.append(name)
        self.world.add(name, peers=tuple(self.world.hosts))

    def _publish(self) -> None:
        name = self.rng.choice(self.brokers)
        node = self.world.hosts[name].node
        if node is None or not _is_member(node):
            return
        life = self.seen.current[name]
        delivered, told = self.seen.lives[life], self._told.get(life, 0)
        newest = {id.stream: id for id in delivered[told:]}
        self._told[life] = len(delivered)
        stream = stream_of(name, life[1])
        after = tuple(id for id in newest.values() if id.stream != stream)
        id = EventId(stream, self._next.get(stream, 0))
        self._next[stream] = id.seq + 1
        self.sent[id] = after
        relation = Relation(after=after) if self.plan.order == "causal" and after else None
        self.world.publish(name, stream, (Content(relation=relation, attributes={"n": id.seq}),))

    # Checking -------------------------------------------------------------------------------------------------------

    def _live(self) -> list[tuple[str, int]]:
        return [life for name, life in self.seen.current.items() if self.world.is_up(name) and name in self.brokers]

    def _lacking(self) -> str | None:
        """Who lacks what of those that are up: what a publisher that is up has sent, everyone who was there has."""
        live = self._live()
        own = {stream_of(*life): life for life in live}
        for life in live:
            here, begun = set(self.seen.lives[life]), self.seen.begun[life]
            if not _is_member(self.world.hosts[life[0]].node):
                return f"{life[0]} is not in"
            for id in self.sent:
                if id.stream not in own or id in here or id.seq < begun.get(id.stream, 0):
                    continue
                if id.stream in begun or life == own[id.stream] or not self._is_newer(life):
                    return f"{life[0]} lacks {id}"
        return None

    def _is_newer(self, life: tuple[str, int]) -> bool:
        """Whether it was not there from the beginning."""
        return life[1] > 1 or life[0] not in self.brokers[: self.plan.brokers]

    def check(self) -> None:
        for life, events in self.seen.lives.items():
            self._check_fifo(life, events)
            if self.plan.order == "causal":
                self._check_causal(life, events)
        if self.plan.order == "total":
            for one, other in combinations(self.seen.lives, 2):
                self._check_pair(one, other)

    def _check_fifo(self, life: tuple[str, int], events: list[EventId]) -> None:
        following = dict(self.seen.begun[life])
        for id in events:
            if id.seq != following[id.stream]:
                raise Violation("FIFO", f"{life} was handed {id}, and {following[id.stream]} came next", id)
            following[id.stream] += 1

    def _check_causal(self, life: tuple[str, int], events: list[EventId]) -> None:
        place = {id: at for at, id in enumerate(events)}
        begun = self.seen.begun[life]
        for id, at in place.items():
            for before in self.sent.get(id, ()):
                if before.seq >= begun.get(before.stream, SEQ_NEVER) and place.get(before, at + 1) > at:
                    raise Violation("causal order", f"{life} was handed {id} before {before}", id)

    def _check_pair(self, one: tuple[str, int], other: tuple[str, int]) -> None:
        place = {id: at for at, id in enumerate(self.seen.lives[one])}
        last = -1
        for id in self.seen.lives[other]:
            if id in place:
                if place[id] < last:
                    raise Violation("total order", f"{one} and {other} were handed {id} in different orders", id)
                last = place[id]


SEQ_NEVER = 2**63


def _yes(_: str) -> bool:
    return True


def _is_member(node: Any) -> bool:
    """Whether a node, or what orders its groups, is in the mesh."""
    inner = getattr(node, "node", node)
    return inner is not None and inner.membership.status == "member"


def swarm(
    first: int,
    runs: int,
    order: Order | None = None,
    node_factory: NodeFactory | None = None,
    on_run: Callable[[Plan], None] = lambda _: None,
) -> None:
    """So many runs from a seed on; `Violation` at the first that is not as it must be, with its plan as a note."""
    for seed in range(first, first + runs):
        plan = draw(seed, order)
        on_run(plan)
        try:
            Run(plan, node_factory).execute()
        except (Violation, AssertionError) as error:
            error.add_note(f"orders: {plan}")
            raise


# Mutants ------------------------------------------------------------------------------------------------------------


class DecideWhatFewHold(TotalOrder):
    """What the first of the view has itself comes next, whoever else has it."""

    def _quorum(self) -> int:
        return 1


class EveryoneDecides(TotalOrder):
    """Whoever has something decides on it, and all that is decided counts."""

    @property
    def _decides(self) -> bool:
        return self._seat is not None and bool(self._members)

    def _counts(self, _: StreamId) -> bool:
        return True


class ForgetDecisions(TotalOrder):
    """Whoever was shut out is told how far the others are, and not by which way."""

    def _snapshot(self) -> bytes:
        self._tail.clear()
        return super()._snapshot()


class DeliverBeforeUniform(TotalOrder):
    """A decision counts as soon as it is heard."""

    VIEWS = group_mutants.DeliverBeforeUniform


class AsTheyCome(CausalOrder):
    """What an event comes after is not waited for."""

    def _is_out(self, _: StreamId, __: EventId) -> bool:
        return True


MUTANTS: dict[str, type[TotalOrder] | type[CausalOrder]] = {
    "decide-what-few-hold": DecideWhatFewHold,
    "everyone-decides": EveryoneDecides,
    "forget-decisions": ForgetDecisions,
    "deliver-before-uniform": DeliverBeforeUniform,
    "as-they-come": AsTheyCome,
}


def mutant(kind: type[TotalOrder] | type[CausalOrder]) -> NodeFactory:
    """Nodes with one rule taken out."""

    class Mutant(Ordered):
        if issubclass(kind, TotalOrder):
            TOTAL = kind
        else:
            CAUSAL = kind

    def make(node: str, config: Config, rng: random.Random, **options: Any) -> Ordered:
        made = Node(node, config, rng, **options)
        return Mutant(made, node, config, options["incarnation"], options["logger"])

    return make
