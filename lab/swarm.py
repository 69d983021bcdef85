"""The swarm: random meshes, workloads, settings and faults, each from one seed, against every checker.

First a phase in which anything may go wrong and nothing may be violated; then everything is healed, and within a
bounded time everyone must have everything. A seed determines all of it: the line that is printed first replays a run.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from gossamer.lab.application import Consumer
from gossamer.lab.checkers import SERIAL, Checker, Life, Violation
from gossamer.lab.durables import Reader
from gossamer.lab.faults import BurstLoss, Delay, Duplicate, Loss, Partition, Straggle
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.story import StoryTeller
from gossamer.lab.topology import Topology, star, transit_stub, uniform
from gossamer.lab.world import NodeFactory, World
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content, Value
from gossamer.messages.ids import DEFAULT_GROUP, EventId, issued_by, named_stream
from gossamer.messages.wire import Data, Repair
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.config import Config, Group
from gossamer.protocol.inputs import Close, Connected, Disconnect, Expel, Leave, Open, Received, Reconnect
from gossamer.protocol.memory import Memory
from gossamer.protocol.node import Node
from gossamer.protocol.pressure import Pressure
from gossamer.protocol.purging import Semantic

PACKET_BYTES_MAX = 200
"""The largest packet of the workload: a buffer may be over its limit by the one that filled it."""
LIVENESS_ROUNDS = 400
"""After healing, everyone must have everything within so many gossip rounds."""


@dataclass(frozen=True)
class Plan:
    """Everything that is drawn for one run."""

    seed: int
    brokers: int
    loggers: int
    topology: str
    latency_ms: float
    duration_s: float
    streams: int
    publish_every_s: float
    named: bool
    moves: bool
    wire: bool
    loss: float
    burst: float
    duplicate: float
    delay_ms: float
    straggle: float
    partitions: int
    crashes: int
    resume: bool
    logger_crashes: int
    disconnects: int
    joins: int
    late_logger: bool
    logger_leaves: bool
    all_loggers_leave: bool
    """At once, and as many as are needed have to stay."""
    leaves: int
    never_return: int
    speech: str
    """How publishers speak of obsolescence: not at all, by key, by rank in the group, or in every way there is."""
    keys: int
    slow: int
    """So many brokers have a slow application behind them."""
    delay_each_ms: float
    queue: int
    reconnections: int
    """So often a link is cut in the middle of its window."""
    durables: int
    config: Config
    stuck: bool = False
    """The slow applications stop altogether at some time, until everybody has everything."""

    def __str__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("seed", "config")}
        defaults = asdict(Config())
        settings = {name: value for name, value in asdict(self.config).items() if value != defaults[name]}
        return f"seed {self.seed}: " + " ".join(f"{name}={value}" for name, value in {**shown, **settings}.items())


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    plan: Plan
    events: int
    simulated_s: float
    violation: Violation | None = None
    at_s: float = 0.0


def seeds(first: int, runs: int) -> Iterator[int]:
    """The first run has the seed itself, so that any run can be replayed alone; the others derive from it."""
    for number in range(runs):
        yield first if number == 0 else xxh3_64_intdigest(f"{first}/{number}".encode()) >> 16


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)

    def maybe(chance: float, high: float) -> float:
        return round(rng.uniform(0, high), 3) if rng.random() < chance else 0.0

    loggers = rng.choices((0, 1, 2, 3), (2, 9, 6, 3))[0]
    brokers = rng.randint(2, 6) + (loggers == 0)
    round_s = rng.choice((0.1, 0.25))
    retain_s = rng.choice((0.2, 1.0, 5.0))
    config = Config(
        strategy=rng.choice(("multicast", "multicast", "gossip")),
        fanout=rng.randint(2, 4),
        hops=rng.randint(2, 4),
        round_interval_s=round_s,
        round_interval_max_s=round_s * rng.choice((1, 4, 16)),
        gclimit_rounds=rng.choice((2, 4, 10)),
        reorder_grace_s=rng.choice((0.0, 0.005, 0.02)),
        selection=rng.choice(("uniform", "linear", "quadratic")),
        remulticast_requesters=rng.choice((0, 2, 3)),
        repair_first=rng.choice(("gossip", "logger", "auto")),
        service_limit_per_s=rng.choice((20.0, 1000.0)),
        seek_after_rounds=rng.choice((4, 12)),
        loggers_min=rng.randint(1, max(1, loggers)),
        faults=rng.randint(0, brokers // 2),
        retain_s=retain_s,
        expire_s=10_000.0,
        resend_s=rng.choice((0.1, 0.5)),
        idle_after_s=rng.choice((0.05, 0.5)),
        block_seqs=rng.choice((3, 50)),
        positions_rounds=rng.choice((1, 4)),
        sponsors=rng.randint(1, 3),
        hold_bytes_max=rng.choice((500, 64 * 2**20)),
        send_buffer_bytes_max=rng.choice((2_000, 64 * 2**20)),
    )
    semantics = random.Random(f"semantics/{seed}")  # apart from the rest, so that the rest is as it was
    config = replace(config, **_draw_semantics(semantics))
    durables = random.Random(f"durables/{seed}").choice((0, 1, 2)) if loggers else 0
    placement = random.Random(f"placement/{seed}")
    replicas = placement.choice((None, 1, 2)) if loggers > 1 else None
    if replicas is not None:
        config = replace(config, replicas=replicas, loggers_min=min(config.loggers_min, replicas))
    config = replace(config, compact=loggers > 0 and placement.random() < 0.3)
    pressure = random.Random(f"pressure/{seed}")
    group = replace(config.group(DEFAULT_GROUP), backpressure_max_s=pressure.choice((0.5, 2.0, 30.0)))
    config = replace(config, groups={DEFAULT_GROUP: group})
    # With small answers a long gap takes several, and each full one is followed by the next request.
    answers = random.Random(f"answers/{seed}")
    config = replace(config, repair_bytes_max=answers.choice((500, Config().repair_bytes_max)))
    kind, chance = ("leaving", 0.9) if replicas is None else ("leaving with replicas", 0.3)
    all_loggers_leave = loggers > 1 and random.Random(f"{kind}/{seed}").random() < chance
    crashes = rng.choice((0, 0, 1, 2, 3))
    if not loggers:  # nothing outlives its holders: at most f may crash, ever
        crashes = min(crashes, config.faults or 0)
    else:  # what is safe for f + 1 hold it must outlive as many crashes as there are
        config = replace(config, faults=max(config.faults or 0, crashes))
    return Plan(
        seed=seed,
        brokers=brokers,
        loggers=loggers,
        topology=rng.choices(("uniform", "star", "transit-stub"), (8, 2, 1))[0],
        latency_ms=rng.choice((0.5, 5.0, 40.0)),
        duration_s=rng.choice((2.0, 4.0, 8.0)),
        streams=rng.randint(1, 3),
        publish_every_s=rng.choice((0.02, 0.05, 0.2)),
        named=loggers > 0 and rng.random() < 0.4,
        moves=rng.random() < 0.5,
        wire=rng.random() < 0.2,
        loss=maybe(0.7, 0.3),
        burst=maybe(0.2, 0.1),
        duplicate=maybe(0.4, 0.2),
        delay_ms=maybe(0.5, 60.0),
        straggle=maybe(0.3, 0.2),
        partitions=rng.choice((0, 0, 1, 2)),
        crashes=crashes,
        resume=rng.random() < 0.5,
        logger_crashes=rng.choice((0, 0, 1, 2)) if loggers else 0,
        disconnects=rng.choice((0, 0, 1)),
        joins=rng.choice((0, 0, 1, 2)),
        late_logger=loggers > 0 and rng.random() < 0.15,
        logger_leaves=loggers > config.loggers_min and placement.random() < 0.3,
        all_loggers_leave=all_loggers_leave,
        leaves=rng.choice((0, 0, 0, 1)) if brokers > 2 else 0,
        never_return=rng.choice((0, 0, 1)) if crashes else 0,
        speech=semantics.choice(("silent", "key", "rank", "all", "all")),
        keys=semantics.choice((1, 3, 10)),
        slow=semantics.choice((0, 1, 1, 2)),
        delay_each_ms=semantics.choice((1.0, 20.0, 100.0)),
        queue=semantics.choice((2, 8, 64)),
        reconnections=semantics.choice((0, 0, 5, 20)) if config.link_window_bytes else 0,
        durables=durables,
        stuck=group.backpressure and pressure.random() < 0.5,
        config=config,
    )


def _draw_semantics(rng: random.Random) -> dict[str, Any]:
    """Links that saturate, buffers that fill, and the two switches."""
    return {
        "link_window_bytes": rng.choice((None, None, 200, 2_000)),
        "link_bandwidth_bps": rng.choice((None, None, None, 100_000.0)),
        "link_buffer_events_max": rng.choice((3, 10, 1_024)),
        "link_policy": rng.choice(("eager", "eager", "lazy", "random", "drop-new")),
        "purge_above_bytes": rng.choice((0, 500, 32 * 2**20)),
        "purge_send_buffer": rng.random() < 0.5,
        "groups": {DEFAULT_GROUP: Group(purging=rng.random() < 0.85, backpressure=rng.random() < 0.25)},
        "link_patience_s": rng.choice((0.0, 0.0, 0.2)),
    }


class CheckedNode(Node):
    """The production node, which asserts its invariants after every step: of the streams that a packet was of, and now
    and then of all, since with many streams that takes longer than the step."""

    _steps = 0

    def handle(self, given: Any, now: float) -> Any:
        effects = super().handle(given, now)
        self._steps += 1
        message = given.message if isinstance(given, Received) else None
        if isinstance(message, Data | Repair) and self._steps % 8:
            packets = message.packets if isinstance(message, Repair) else (message.packet,)
            self.check(packet.stream for packet in packets)
        elif message is None or self._steps % 8 == 0:
            self.check()
        return effects


class Run:
    """One run of one plan."""

    def __init__(
        self, plan: Plan, node_factory: NodeFactory | None = None, observers: tuple[Observer, ...] = ()
    ) -> None:
        self.plan = plan
        self._memory: Callable[[], Memory] = getattr(node_factory, "memory", Memory)  # a mutant may bring its own
        self._pressure: type[Pressure[str]] = getattr(node_factory, "pressure", Pressure)
        self.rng = random.Random(xxh3_64_intdigest(f"workload/{plan.seed}".encode()))
        self.world = World(
            plan.seed,
            topology=_topology(plan),
            config=plan.config,
            node_factory=node_factory or CheckedNode,
            wire=plan.wire,
        )
        config = plan.config
        faults = config.faults or 0
        self.checker = Checker(config.loggers_min, config.retain_s, config.expire_s, faults, config.replicas)
        self.checker.purging = config.group(DEFAULT_GROUP).purging
        for observer in (*observers, self.checker):
            self.world.observe(observer)
        self.loggers = [f"L{number}" for number in range(plan.loggers)]
        self.brokers = [f"b{number}" for number in range(plan.brokers)]
        self.founders = (*self.loggers, *(self.brokers[:1] if plan.loggers else self.brokers))
        self._serial = 0
        self._slot: dict[tuple[str, int], int] = {}
        self._opened: dict[tuple[str, int], str] = {}
        self._closed: dict[str, None] = {}
        self._home: str | None = None
        self._annotators: dict[str, Annotator] = {}
        self.consumers: dict[str, Consumer] = {}
        self.readers: list[Reader] = []
        self._gone: dict[str, None] = {}
        self._leaving: list[str] = []

    def execute(self) -> Outcome:
        try:
            self._execute()
            self._check_bounds()
        except Violation as violation:
            return self._outcome(violation)
        except AssertionError as error:
            return self._outcome(Violation("invariant", str(error)))
        return self._outcome(None)

    def _outcome(self, violation: Violation | None) -> Outcome:
        return Outcome(self.plan, len(self.checker.published_events), self.world.now_s, violation, self.world.now_s)

    def _execute(self) -> None:
        plan, world = self.plan, self.world
        for name in self.loggers:
            world.add(name, logger=True, peers=tuple(self.loggers))
        for name in self.brokers:
            founder = name == self.brokers[0] and not self.loggers
            world.add(name, peers=() if founder else self.founders)
        if not self.loggers:
            world.hosts[self.brokers[0]].peers = self.founders  # should it come back
        world.run_until(self._all_in, 30.0, every_s=0.1)
        for name in self.brokers[: plan.slow]:
            self._employ(name)
        self.readers = [
            Reader(world, f"reader {number}", self.brokers, world.rng("durable", number))
            for number in range(plan.durables)
        ]
        self._draw_faults(world.now_s)
        self._draw_workload(world.now_s)
        world.run(world.now_s + plan.duration_s)
        self._heal()
        limit_s = LIVENESS_ROUNDS * plan.config.round_interval_s + 30.0
        if not world.run_until(lambda: self.checker.outsider() is None, limit_s, every_s=0.5):
            raise Violation("liveness", f"{self.checker.outsider()} is still not in, {limit_s:.0f} s after healing")
        if not world.run_until(lambda: self.checker.owing() is None, limit_s, every_s=0.5):
            owing = self.checker.owing()
            assert owing is not None
            node, event = owing
            raise Violation("liveness", f"{node} still lacks {event}, {limit_s:.0f} s after healing", event)
        if not world.run_until(lambda: self._unlogged() is None, limit_s, every_s=0.5):
            node, event = self._unlogged() or ("", EventId("", 0))
            raise Violation("kept by those that are to", f"{node} does not keep {event}, which was logged", event)
        if not world.run_until(lambda: self._staying() is None, limit_s, every_s=0.5):
            raise Violation("liveness", f"{self._staying()} was to leave, and has not")
        if not world.run_until(lambda: self.checker.unreplaced() is None, limit_s, every_s=0.5):
            node, event = self.checker.unreplaced() or ("", EventId("", 0))
            raise Violation("semantic completeness", f"{node} has nothing in the place of {event}", event)
        self._check_publishers(limit_s)
        for consumer in self.consumers.values():
            consumer.resume()
        self._check_consumers(limit_s)
        self._check_publishers(limit_s)
        if not world.run_until(lambda: all(reader.done for reader in self.readers), limit_s, every_s=0.5):
            late = next(reader.id for reader in self.readers if not reader.done)
            raise Violation("liveness", f"{late} has not got to the end, {limit_s:.0f} s after healing")
        if not world.run_until(lambda: self._left_over() is None, limit_s, every_s=0.5):
            node, stream = self._left_over() or ("", "")
            what = f"{node} still remembers {stream}, which is over, {limit_s:.0f} s after everyone had it"
            raise Violation("no trace", what, EventId(stream, 0))

    def _unlogged(self) -> tuple[str, EventId] | None:
        nodes = [host.node for host in self.world.hosts.values() if isinstance(host.node, Node)]
        loggers = [node.membership.own.node for node in nodes if node.membership.own.logger]
        return self.checker.unlogged(loggers, lambda stream: any(stream in node.receiver.retired for node in nodes))

    def _staying(self) -> str | None:
        """A logger that was to leave, and is still there."""
        hosts = self.world.hosts
        for name in self._leaving:
            node = hosts[name].node
            if isinstance(node, Node) and not node.membership.own.logger and node.membership.status == "member":
                return name
        return None

    def _employ(self, name: str) -> None:
        """A slow application behind a broker, for as long as the broker lives."""
        semantic: Semantic = "eager" if self.plan.config.group(DEFAULT_GROUP).purging else "off"
        self.consumers[name] = Consumer(
            self.world,
            name,
            delay_s=self.plan.delay_each_ms / 1000,
            events_max=self.plan.queue,
            semantic=semantic,
            memory=self._memory(),
            pressure=self._pressure,
        )

    def _stop_consumers(self) -> None:
        for consumer in self.consumers.values():
            consumer.stop()

    def _check_publishers(self, limit_s: float) -> None:
        """Nobody waits for ever to publish: windows get there, and a consumer that is stuck is waited for no longer."""
        if not self.world.run_until(lambda: self._blocked() is None, limit_s, every_s=0.5):
            name, stream, seq = self._blocked() or ("", "", 0)
            what = f"{name} may still not publish {stream}:{seq}, {limit_s:.0f} s after healing"
            raise Violation("liveness", what, EventId(stream, seq))

    def _blocked(self) -> tuple[str, str, int] | None:
        """A stream that back-pressure keeps a live member from publishing."""
        for name, life in self.checker.lives.items():
            node = self.world.hosts[name].node
            assert isinstance(node, Node)
            if life.status == "member":
                for stream, seq in node.windows.blocked.items():
                    return name, stream, seq
        return None

    def _check_consumers(self, limit_s: float) -> None:
        """Every application ends in the right state: it got what its node got, or what obsoletes that."""
        busy_s = limit_s + sum(len(consumer) for consumer in self.consumers.values()) * self.plan.delay_each_ms / 1000
        self.world.run_until(lambda: all(consumer.idle for consumer in self.consumers.values()), busy_s, every_s=1.0)
        for name, consumer in self.consumers.items():
            if not consumer.idle:
                raise Violation("liveness", f"the application at {name} still has {len(consumer)} to do")
            applied = set(consumer.applied)
            if len(applied) < len(consumer.applied):
                raise Violation("no duplication", f"the application at {name} got something twice")
            life = self.checker.lives[name]
            if life.status != "member":
                continue  # it left, and is owed nothing any more
            for event in consumer.omitted:
                if not self._is_made_up_for(life, consumer, applied, event):
                    what = f"the application at {name} did without {event}, and got nothing that obsoletes it"
                    raise Violation("semantic completeness", what, event)
            self._check_order(name, consumer)

    def _is_made_up_for(self, life: Life, consumer: Consumer, applied: set[EventId], event: EventId) -> bool:
        """By what it was left out for, or what that was left out for in turn; else by anything that obsoletes it."""
        by, seen = consumer.omitted[event], {event}
        while by in consumer.omitted and by not in seen:
            seen.add(by)
            by = consumer.omitted[by]
        events = self.checker.events
        return by in applied or any(
            by in applied or (life.replaces(by, events[by]) and not life.has(by))
            for by in self.checker.history.obsoleters(event)
        )

    def _check_order(self, name: str, consumer: Consumer) -> None:
        """FIFO by stream; and of a group's key never an older one after a newer."""
        last: dict[str, int] = {}
        newest: dict[str, EventId] = {}
        for event in consumer.applied:
            if event.seq <= last.get(event.stream, -1):
                raise Violation("FIFO", f"the application at {name} got {event} after {last[event.stream]}", event)
            last[event.stream] = event.seq
            key = self.checker.history.group_key(event)
            if key is not None and self.plan.config.group(DEFAULT_GROUP).purging:
                if key in newest and self.checker.history.is_named_by(event, newest[key]):
                    what = f"the application at {name} got {event} after {newest[key]}, which obsoletes it"
                    raise Violation("no way back", what, event)
                newest[key] = event

    def _check_bounds(self) -> None:
        """Nothing grows without bound: what is kept for repair, held back for order, or waiting to be logged."""
        for name, host in self.world.hosts.items():
            node, config = host.node, self.plan.config
            if isinstance(node, Node) and self.checker.lives[name].status == "member":  # who has left gets to no end
                kept = {
                    "gossip buffer": (node.buffer.bytes, config.gossip_buffer_bytes_max),
                    "held back": (node.receiver.held_bytes, config.hold_bytes_max + node.sender.bytes),
                    "send buffer": (node.sender.bytes, config.send_buffer_bytes_max),
                }
                for what, (size, limit) in kept.items():
                    if not 0 <= size <= limit + PACKET_BYTES_MAX:
                        raise Violation("bounded buffers", f"{name} has {size} bytes in its {what}, over {limit}")

    def _left_over(self) -> tuple[str, str] | None:
        """A live member that keeps something of a stream that is over: closed, or its publisher dead or gone."""
        lives = self.checker.lives
        owners = {published.stream: published.life for published in self.checker.published_events.values()}
        over = {
            stream: None
            for stream, life in owners.items()
            if issued_by(stream) is not None and (stream in self._closed or not life.up or life.status == "outside")
        }
        for name, life in lives.items():
            node = self.world.hosts[name].node
            assert isinstance(node, Node)
            if life.status == "member":
                for stream in node.receiver.streams:
                    if stream in over:
                        return name, stream
        return None

    # What happens ---------------------------------------------------------------------------------------------------

    def _all_in(self) -> bool:
        return all(life.status == "member" for life in self.checker.lives.values())

    def _draw_faults(self, start_s: float) -> None:
        plan, world, rng = self.plan, self.world, self.rng
        if plan.loss:
            world.add_rule(Loss(plan.loss))
        if plan.burst:
            world.add_rule(BurstLoss(plan.burst, 0.3))
        if plan.duplicate:
            world.add_rule(Duplicate(plan.duplicate))
        if plan.delay_ms:
            world.add_rule(Delay(plan.delay_ms))
        if plan.straggle:
            world.add_rule(Straggle(plan.straggle))
        everyone = [*self.loggers, *self.brokers]
        for _ in range(plan.partitions):
            side = rng.sample(everyone, rng.randint(1, len(everyone) - 1))
            other = [name for name in everyone if name not in side]
            at_s = start_s + rng.uniform(0, plan.duration_s)
            world.add_rule(Partition(side, other, start_s=at_s, stop_s=at_s + rng.uniform(0.5, plan.duration_s)))
        for number in range(plan.crashes):
            name = rng.choice(self.brokers)
            at_s = start_s + rng.uniform(0, plan.duration_s)
            world.at(at_s, self._crash, name)
            if number < plan.never_return and plan.loggers:
                self._gone[name] = None
            else:
                world.at(at_s + rng.uniform(0.01, plan.duration_s), self._restart, name)
        for _ in range(plan.logger_crashes):
            name = rng.choice(self.loggers)
            at_s = start_s + rng.uniform(0, plan.duration_s)
            world.at(at_s, self._crash, name)
            world.at(at_s + rng.uniform(0.01, plan.duration_s), self._restart, name)
        for _ in range(plan.disconnects):
            name = rng.choice(self.brokers)
            at_s = start_s + rng.uniform(0, plan.duration_s)
            world.at(at_s, self._tell, name, Disconnect())
            world.at(at_s + rng.uniform(0.1, plan.duration_s), self._tell, name, Reconnect())
        if plan.stuck:
            at_s = start_s + world.rng("stuck").uniform(0, plan.duration_s)
            world.at(at_s, self._stop_consumers)
        for _ in range(plan.reconnections):
            world.at(start_s + rng.uniform(0, plan.duration_s), self._cut, *rng.sample(everyone, 2))
        for number in range(plan.joins):
            self._draw_join(f"j{number}", start_s + rng.uniform(0, plan.duration_s))
        if plan.late_logger:
            world.at(start_s + rng.uniform(0, plan.duration_s), self._join, "Late", tuple(self.loggers), True)
        if plan.logger_leaves:
            self._leaving.append(self.loggers[-1])
            world.at(start_s + rng.uniform(0, plan.duration_s), self._tell, self.loggers[-1], Leave())
        if plan.all_loggers_leave:
            self._leaving[:] = self.loggers
            at_s = start_s + world.rng("leaving").uniform(0, plan.duration_s)
            for name in self.loggers:
                world.at(at_s, self._tell, name, Leave())
        for name in rng.sample(self.brokers[1:], plan.leaves):
            world.at(start_s + rng.uniform(0, plan.duration_s), self._tell, name, Leave())

    def _draw_join(self, name: str, at_s: float) -> None:
        """Through a logger; or through brokers while loggers are out of reach and hear of it last."""
        if self.rng.random() < 0.5:
            self.world.at(at_s, self._join, name, self.founders)
        else:
            self.world.add_rule(Partition([name], self.loggers, start_s=at_s, stop_s=at_s + self.rng.uniform(0.5, 3.0)))
            self.world.at(at_s, self._join, name, tuple(self.brokers))

    def _draw_workload(self, start_s: float) -> None:
        rng, plan = self.rng, self.plan
        at_s = start_s
        while at_s < start_s + plan.duration_s:
            at_s += rng.expovariate(1 / plan.publish_every_s)
            stream = rng.randrange(plan.streams + plan.named)
            if rng.random() < 0.03:
                self.world.at(at_s, self._close, rng.choice(self.brokers), stream)
            else:
                self.world.at(at_s, self._publish, rng.choice(self.brokers), stream, rng.choice((1, 1, 1, 2, 5)))

    def _publish(self, node: str, number: int, count: int) -> None:
        if number == self.plan.streams and self.plan.moves:  # it stays where it is until that node is down
            if self._home is None or not self.world.is_up(self._home):
                self._home = node
            node = self._home
        if not self.world.is_up(node):
            return
        stream = self._stream(node, number)
        if number == self.plan.streams and (node, self.world.hosts[node].incarnation) not in self._opened:
            self._opened[node, self.world.hosts[node].incarnation] = stream
            self.world.tell(node, Open(stream))
        self.world.publish(node, stream, tuple(self._contents(node, stream, count)))

    def _contents(self, node: str, stream: str, count: int) -> list[Content]:
        """So many events, said in the way of the plan."""
        speech, rng = self.plan.speech, self.rng
        annotator = self._annotator(node, stream)
        if speech == "all" and count > 1 and rng.random() < 0.5:
            keys = [f"k{rng.randrange(self.plan.keys)}" for _ in range(count)]
            contents = [*annotator.transaction([Part(self._attributes(), key=key) for key in keys])]
            contents[-1] = msgspec.structs.replace(contents[-1], attributes=self._attributes())
            return contents
        return [self._said(annotator, speech) for _ in range(count)]

    def _said(self, annotator: Annotator, speech: str) -> Content:
        rng, key, attributes = self.rng, f"k{self.rng.randrange(self.plan.keys)}", self._attributes()
        way = rng.choice(("plain", "key", "key", "rank", "names")) if speech == "all" else speech
        if way == "rank":
            rank = rng.choice((None, rng.randrange(10)))
            return annotator.event(attributes, key=f"g{key}", rank=rank, scope="group", time_ns=self._serial)
        if way == "names":
            try:
                return annotator.event(attributes, obsoletes=self._nameable(annotator))
            except UsageError:  # others have closed the stream, and this numbers it anew: all of it will be refused
                return annotator.event(attributes)
        return annotator.event(attributes, key=key if way == "key" else None)

    def _nameable(self, annotator: Annotator) -> list[EventId]:
        """Some events that a client may know: recent, and outside of transactions and of scope "group"."""
        plain = [event for event in islice(reversed(self.checker.events), 12) if self.checker.history.is_plain(event)]
        chosen = self.rng.sample(plain, min(len(plain), 2))
        return [event for event in chosen if event.stream != annotator.stream or event.seq < annotator.next]

    def _attributes(self) -> dict[str, Value]:
        self._serial += 1
        return {SERIAL: self._serial}

    def _annotator(self, node: str, stream: str) -> Annotator:
        """One a stream and life; its numbers are those of the sender, which may have refused some of what was said."""
        life = f"{stream} {node} {self.world.hosts[node].incarnation}"
        annotator = self._annotators.get(life)
        host = self.world.hosts[node].node
        assert isinstance(host, Node)
        outgoing = host.sender.streams.get(stream)
        following = 0 if outgoing is None else outgoing.next + len(outgoing.queued)
        if annotator is None or annotator.next != following:
            annotator = self._annotators[life] = Annotator(stream, first=following)
        return annotator

    def _stream(self, node: str, number: int) -> str:
        if number == self.plan.streams:
            return named_stream(DEFAULT_GROUP, "feed" if self.plan.moves else f"feed-{node}")
        return stream_of(node, self.world.hosts[node].incarnation, 100 * self._slot.get((node, number), 0) + number)

    def _close(self, node: str, number: int) -> None:
        if self.world.is_up(node) and number < self.plan.streams:
            self._closed[self._stream(node, number)] = None
            self.world.tell(node, Close(self._stream(node, number)))
            self._slot[node, number] = self._slot.get((node, number), 0) + 1

    def _crash(self, name: str) -> None:
        self.consumers.pop(name, None)
        self.world.crash(name)

    def _cut(self, name: str, other: str) -> None:
        """What is under way between two is gone, and the transport connects them anew."""
        at_s = self.world.now_s
        self.world.add_rule(Partition([name], [other], start_s=at_s, stop_s=at_s + 0.02))
        for node, peer in ((name, other), (other, name)):
            self.world.at(at_s + 0.03, self.world.offer, node, Connected(peer))

    def _restart(self, name: str) -> None:
        life = self.checker.lives.get(name)
        if life is None and name not in self._gone:
            for key in [key for key in self._slot if key[0] == name]:
                del self._slot[key]
            self.world.restart(name, resume=self.plan.resume and name not in self.loggers)

    def _tell(self, name: str, given: Any) -> None:
        if self.world.is_up(name):
            self.world.tell(name, given)

    def _join(self, name: str, peers: tuple[str, ...], logger: bool = False) -> None:
        self.world.add(name, peers=peers, logger=logger)

    # Healing --------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        """No more faults; who is down returns, or is declared gone for good."""
        self.world.heal()
        for name in self.world.hosts:
            if not self.world.is_up(name):
                self._restart(name)
            if self.world.is_up(name) and self.checker.lives[name].status in ("disconnected", "disconnecting"):
                self.world.tell(name, Reconnect())
        self._return_publishers()
        for reader in self.readers:
            reader.settling = True
        for name in self._gone:
            self.checker.expelled[name] = None
            for logger in self._loggers_in():
                self.world.tell(logger, Expel(name))

    def _loggers_in(self) -> list[str]:
        """Those there are: of those at the beginning all may have left, if another has come."""
        lives = self.checker.lives
        return [name for name, life in lives.items() if life.logger and life.status == "member"]

    def _return_publishers(self) -> None:
        """Named publishers come back, here or elsewhere: until then the holes that they left stay open."""
        for (node, _), stream in list(self._opened.items()):
            up = [name for name in (node, *self.brokers) if self.world.is_up(name)]
            publishing = [name for name in up if self._is_publishing(name, stream)]
            if up and not publishing:
                self.world.tell(up[0], Open(stream))

    def _is_publishing(self, name: str, stream: str) -> bool:
        node = self.world.hosts[name].node
        return isinstance(node, Node) and stream in node.sender.streams


def _topology(plan: Plan) -> Topology:
    if plan.topology == "star":  # 10 Mb/s arms with short queues: bursts of repairs overflow them
        return star(16, plan.latency_ms / 2000, bandwidth_bps=10e6, queue_packets_max=50)
    return transit_stub(plan.seed) if plan.topology == "transit-stub" else uniform(plan.latency_ms / 1000)


def run(seed: int, node_factory: NodeFactory | None = None, observers: tuple[Observer, ...] = ()) -> Outcome:
    return Run(draw(seed), node_factory, observers).execute()


def story(seed: int, event: EventId, node_factory: NodeFactory | None = None) -> list[str]:
    """Run it again, and tell all that happened to one event."""
    teller = StoryTeller(event)
    run(seed, node_factory, (teller,))
    return teller.lines
