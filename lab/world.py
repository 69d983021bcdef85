"""The simulated world: virtual time, a network, disks, and the production protocol code on every node.

It is the loop of the ZeroMQ runtime with everything real replaced: `handle`, perform the effects, re-arm. One seed
determines a run: each node draws from its own generator, seeded by run, name and incarnation, so that adding a node
changes nobody else's draws.
"""

import math
import random
from collections.abc import Callable
from typing import Any, Protocol

from xxhash import xxh3_64_intdigest

from gossamer.lab.agenda import Agenda
from gossamer.lab.faults import Crash, Rule
from gossamer.lab.network import Network
from gossamer.lab.observer import Audience, Observer
from gossamer.lab.storage import Storage
from gossamer.lab.topology import Topology, uniform
from gossamer.messages import codec
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet
from gossamer.protocol.config import Config
from gossamer.protocol.effects import (
    Acked,
    Attached,
    Became,
    Collect,
    Compact,
    Deliver,
    Detached,
    Effect,
    Load,
    Numbers,
    Paged,
    Persist,
    Ready,
    Refused,
    Scan,
    Send,
    Skip,
    Stored,
)
from gossamer.protocol.inputs import Compacted, Input, Loaded, Persisted, Publish, Received, Scanned, Start, Wake
from gossamer.protocol.ordered import make_node

SPINS_MAX = 10_000
"""A node that wants to be woken so often at one instant would stop time."""

_WAKE = Wake()


class Machine(Protocol):
    """What drives like `gossamer.protocol.node.Node`."""

    def handle(self, given: Input, now: float, /) -> list[Effect]: ...

    def next_deadline(self) -> float: ...


class NodeFactory(Protocol):
    def __call__(
        self,
        node: str,
        config: Config,
        rng: random.Random,
        /,
        *,
        peers: tuple[str, ...] = (),
        logger: bool = False,
        incarnation: int = 1,
        stored: Stored | None = None,
        resume: bool = False,
    ) -> Machine: ...


class Host:
    """The machine a node runs on: what is left of it when the node crashes."""

    __slots__ = (
        "applications", "name", "logger", "peers", "config", "storage", "incarnation", "node",
        "wake_s", "wakes", "woken_s", "spins", "synced_s",
    )  # fmt: skip

    def __init__(self, name: str, logger: bool, peers: tuple[str, ...], config: Config) -> None:
        self.name = name
        self.applications: tuple[Callable[[Packet], None], ...] = ()
        """Whoever is handed what is delivered here; gone with a crash."""
        self.logger = logger
        self.peers = peers
        self.config = config
        self.storage = Storage()
        self.incarnation = 0
        self.node: Machine | None = None
        """None while it is down."""
        self.wake_s = math.inf
        """When the one wake-up that counts is due; `wakes` is its number, all lower ones are stale."""
        self.wakes = 0
        self.woken_s = -1.0
        self.spins = 0
        self.synced_s = 0.0
        """When the last sync under way will be done: syncs end in the order they began."""


class World:
    def __init__(
        self,
        seed: int = 0,
        *,
        topology: Topology | None = None,
        config: Config | None = None,
        node_factory: NodeFactory | None = None,
        wire: bool = False,
        measure: bool = False,
        tree: bool = False,
        sync_s: float = 0.002,
        load_s: float = 0.001,
    ) -> None:
        """`wire`: every message goes through the codec. `measure`, `tree`: see `Network`."""
        self.seed = seed
        self.config = config or Config()
        self.hosts: dict[str, Host] = {}
        self.agenda = Agenda()
        self.audience = Audience()
        self.network = Network(
            self.agenda,
            self._arrive,
            self.audience,
            topology or uniform(),
            self.rng("the network"),
            measure=measure,
            tree=tree,
        )
        self.wire = wire
        self.sync_s = sync_s
        self.load_s = load_s
        self._node_factory = node_factory or make_node

    # Running --------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    def run(self, until_s: float) -> None:
        """Run to a point in virtual time."""
        try:
            self.agenda.run(until_s)
        except Exception as error:
            error.add_note(f"simulated world: seed {self.seed}, at {self.now_s} s")
            raise

    def run_until(self, done: Callable[[], bool], limit_s: float, every_s: float = 0.0) -> bool:
        """Run until `done()`, asked whenever time has moved on by `every_s`; False if it was not after `limit_s`."""
        try:
            return self.agenda.run_until(done, limit_s, every_s)
        except Exception as error:
            error.add_note(f"simulated world: seed {self.seed}, at {self.now_s} s")
            raise

    def at(self, at_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do something later: `world.at(3.0, world.publish, "a", stream, contents)`."""
        self.agenda.at(at_s, action, *arguments)

    def observe(self, observer: Observer) -> None:
        self.audience.admit(observer)

    def rng(self, *names: object) -> random.Random:
        """A generator of its own for whoever is named, the same in every run of this seed."""
        return random.Random(xxh3_64_intdigest("/".join(map(str, (self.seed, *names))).encode()))

    # Nodes ----------------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        *,
        logger: bool = False,
        peers: tuple[str, ...] = (),
        config: Config | None = None,
        router: int | None = None,
    ) -> None:
        """Add a node and start it."""
        if name in self.hosts:
            raise UsageError(f"there is a node {name!r} already")
        host = self.hosts[name] = Host(name, logger, peers, config or self.config)
        self.network.place(name, router)
        self._boot(host, resume=False)

    def is_up(self, name: str) -> bool:
        return self._host(name).node is not None

    def tell(self, name: str, input: Input) -> None:
        """Hand an input to a node: open or close a stream, leave, disconnect, reconnect, expel."""
        host = self._host(name)
        if host.node is None:
            raise UsageError(f"{name} is down")
        self._handle(host, host.node, input)

    def offer(self, name: str, input: Input) -> None:
        """Hand an input to a node if it is up."""
        host = self._host(name)
        if host.node is not None:
            self._handle(host, host.node, input)

    def attach(self, name: str, deliver: Callable[[Packet], None]) -> None:
        """An application at a node: it is handed every packet that is delivered there, until the node crashes."""
        host = self._host(name)
        host.applications = (*host.applications, deliver)

    def publish(self, name: str, stream: str, contents: tuple[Content, ...]) -> None:
        if self.is_up(name):
            for see in self.audience.published:
                see(self.now_s, name, stream, contents)
        self.tell(name, Publish(stream, contents))

    def crash(self, name: str) -> None:
        """All that is volatile is gone: state, timers, syncs and reads under way. Nothing happens to who is down."""
        host = self._host(name)
        if host.node is None:
            return
        host.node = None
        host.applications = ()
        host.wake_s = math.inf
        host.wakes += 1
        for see in self.audience.crashed:
            see(self.now_s, name)

    def restart(self, name: str, resume: bool = False) -> None:
        """A new incarnation on the old disk; who is still up crashes first."""
        self.crash(name)
        self._boot(self._host(name), resume)

    # Faults ---------------------------------------------------------------------------------------------------------

    def add_rule(self, rule: Rule) -> None:
        self.network.rules.append(rule)

    def remove_rule(self, rule: Rule) -> None:
        self.network.rules.remove(rule)

    def heal(self) -> None:
        """Take out every fault rule; what is down stays down."""
        self.network.rules.clear()

    def schedule(self, crash: Crash) -> None:
        self.at(crash.at_s, self.crash, crash.name)
        if crash.back_s is not None:
            self.at(crash.back_s, self.restart, crash.name, crash.resume)

    # The loop -------------------------------------------------------------------------------------------------------

    def _arrive(self, destinations: list[str], received: Received) -> None:
        hosts = self.hosts
        for name in destinations:
            host = hosts[name]
            if host.node is None:
                self.network.lose(name, received)
            else:
                self._handle(host, host.node, received)

    def _handle(self, host: Host, node: Machine, input: Input) -> None:
        effects = node.handle(input, self.agenda.now_s)
        if effects:
            self._perform(host, effects)
        due_s = node.next_deadline()
        # Lazily: a deadline that moved away is noticed when the old one comes, and costs no entry until then.
        if due_s < host.wake_s:
            self._arm(host, due_s)

    def _arm(self, host: Host, due_s: float) -> None:
        host.wake_s = due_s
        host.wakes += 1
        self.agenda.at(due_s, self._wake, host, host.wakes)

    def _wake(self, host: Host, number: int) -> None:
        node = host.node
        if node is None or number != host.wakes:
            return
        host.wake_s = math.inf
        now_s = self.agenda.now_s
        due_s = node.next_deadline()
        if due_s > now_s:
            if due_s < math.inf:
                self._arm(host, due_s)
            return
        host.spins = host.spins + 1 if host.woken_s == now_s else 0
        host.woken_s = now_s
        assert host.spins < SPINS_MAX, f"{host.name} was woken {SPINS_MAX} times at {now_s} s, and still wants to be"
        self._handle(host, node, _WAKE)

    def _perform(self, host: Host, effects: list[Effect]) -> None:
        audience, now_s, name = self.audience, self.agenda.now_s, host.name
        for effect in effects:
            match effect:
                case Send():
                    self._send(name, effect)
                case Deliver():
                    for see_delivered in audience.delivered:
                        see_delivered(now_s, name, effect)
                    for deliver in host.applications:
                        deliver(effect.packet)
                case Persist():
                    host.synced_s = max(host.synced_s, now_s + self.sync_s)
                    self.agenda.at(host.synced_s, self._sync, host, host.incarnation, effect)
                case Load():
                    self.agenda.at(now_s + self.load_s, self._load, host, host.incarnation, effect)
                case Scan():
                    self.agenda.at(now_s + self.load_s, self._scan, host, host.incarnation, effect)
                case Paged():
                    for see_paged in audience.paged:
                        see_paged(now_s, name, effect)
                case Collect():
                    host.storage.collect(effect.stream, effect.last)
                    for see_collected in audience.collected:
                        see_collected(now_s, name, effect)
                case Compact():
                    self.agenda.at(now_s + self.sync_s, self._compact, host, host.incarnation, effect)
                case Skip():
                    for see_skipped in audience.skipped:
                        see_skipped(now_s, name, effect)
                case Acked():
                    for see_acked in audience.acked:
                        see_acked(now_s, name, effect)
                case Refused():
                    for see_refused in audience.refused:
                        see_refused(now_s, name, effect)
                case Numbers():
                    for see_numbers in audience.numbers:
                        see_numbers(now_s, name, effect)
                case Attached():
                    for see_attached in audience.attached:
                        see_attached(now_s, name, effect)
                case Detached():
                    for see_detached in audience.detached:
                        see_detached(now_s, name, effect)
                case Ready():
                    for see_ready in audience.ready:
                        see_ready(now_s, name, effect)
                case Became():
                    for see_became in audience.became:
                        see_became(now_s, name, effect.status)
                case _:
                    raise AssertionError(f"{name} wants {effect!r}, which nobody can do")

    def _send(self, name: str, send: Send) -> None:
        for see in self.audience.sent:
            see(self.agenda.now_s, name, send.to, send.message)
        message = codec.decode(codec.encode(send.message)) if self.wire else send.message
        self.network.send(send.to, Received(name, message))

    def _sync(self, host: Host, incarnation: int, persist: Persist) -> None:
        if host.node is None or host.incarnation != incarnation:
            return  # it crashed before the sync was done
        host.storage.now_ns = round(1e9 * self.now_s)
        host.storage.apply(persist.records)
        for see in self.audience.persisted:
            see(self.agenda.now_s, host.name, persist.records)
        self._handle(host, host.node, Persisted(persist.token))

    def _compact(self, host: Host, incarnation: int, compact: Compact) -> None:
        if host.node is not None and host.incarnation == incarnation:
            self._handle(host, host.node, Compacted(host.storage.compact(compact.safe), 0))

    def _load(self, host: Host, incarnation: int, load: Load) -> None:
        if host.node is not None and host.incarnation == incarnation:
            self._handle(host, host.node, Loaded(load.token, host.storage.load(load.spans)))

    def _scan(self, host: Host, incarnation: int, scan: Scan) -> None:
        if host.node is not None and host.incarnation == incarnation:
            self._handle(host, host.node, Scanned(scan.token, host.storage.scan(scan.read, scan.lacks)))

    def _boot(self, host: Host, resume: bool) -> None:
        host.incarnation += 1
        host.synced_s = self.now_s
        host.node = self._node_factory(
            host.name,
            host.config,
            self.rng("node", host.name, host.incarnation),
            peers=host.peers,
            logger=host.logger,
            incarnation=host.incarnation
            << 8,  # a life may leave and come back: its numbers must not reach the next one's
            stored=host.storage.stored() if host.logger else None,
            resume=resume,
        )
        for see in self.audience.started:
            see(self.now_s, host.name, host.incarnation, host.logger, resume)
        self._handle(host, host.node, Start())

    def _host(self, name: str) -> Host:
        if name not in self.hosts:
            raise UsageError(f"there is no node {name!r}")
        return self.hosts[name]
