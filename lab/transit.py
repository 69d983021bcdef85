"""The test bed of 004 §7.1: eighteen members at the fringe of a transit-stub network, sending a kilobyte at a time.

Senders are independent, each a Poisson process, for ten seconds; then everybody has some more to repair. Each copy of
each message is lost with the same probability, requests and repairs too, by chance of its own; or, with `lossy_links`,
every link loses what it carries with that probability, and with it the copies for all that lie beyond. The thesis does
not say which it is there. A packet's
latency is the time until the last member has it. The logger sits at the router that is farthest from the hub, as the
thesis's node 14 does, unless `at_hub`; there it is one of the members, here a node of its own beside one.

    rpbcast   the paper's setting: the production core at the thesis's fixed period and without a second multicast
    logger    the same, asking the logger first
    ours      the default setting: the production core as it is, which asks peers first too
    auto      the same, asking the logger first while it is calm
    lbrm      lab/baselines/lbrm.py
    pbcast    lab/baselines/pbcast.py
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median, pstdev
from typing import Any, Literal

from gossamer.lab.baselines.lbrm import Lbrm
from gossamer.lab.baselines.pbcast import Pbcast
from gossamer.lab.door import Arrivals, Watched
from gossamer.lab.faults import Loss
from gossamer.lab.mutants import become
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.topology import Link, Topology, transit_stub
from gossamer.lab.world import Machine, World
from gossamer.messages import codec
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.wire import Data, Member, Message, Repair
from gossamer.protocol.config import Config
from gossamer.protocol.node import Node
from gossamer.protocol.selection import Selection

Protocol = Literal["rpbcast", "logger", "ours", "auto", "lbrm", "pbcast"]
CORE: tuple[Protocol, ...] = ("rpbcast", "ours")
"""The core with the paper's setting, and with its own defaults: the figures of 004 are measured with both."""
MEMBERS = 18
PACKET_BYTES = 1_000
DURATION_S = 10.0
LINGER_S = 10.0
TOPOLOGY_SEED = 1
FIRST_INCARNATION = 1 << 8
LOGGER = "L"
RTT_MIN_S = 1e-4


@dataclass(frozen=True, slots=True)
class Setting:
    protocol: Protocol
    rate: float = 360.0
    """Packets a second, of all senders."""
    senders: int = MEMBERS
    loss: float = 0.01
    service_limit: float = 1_000.0
    selection: Literal["uniform", "linear", "quadratic"] = "linear"
    steep: bool = False
    """Whether the bias is by 1 / rtt and 1 / rtt², instead of the core's own, which falls by a straight line (to that
    power) from the nearest to the farthest."""
    positions_rounds: int = 4
    """Acknowledgements go to the logger every so many rounds."""
    gclimit_rounds: int = 10
    settle_s: float = 2.0
    """Before the first packet, in which the core measures its round-trip times."""
    duration_s: float = DURATION_S
    lossy_links: bool = False
    at_hub: bool = False
    """Whether the logger sits at the hub, nearer to everybody than most peers are."""
    measured: bool = False
    """Whether every link is looked at; otherwise a copy takes the time of its way, and no more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    latency_s: float
    """The mean over all packets that everybody got."""
    deviation_s: float
    undelivered: int
    """Packets that somebody never got."""
    packets: int
    repairs: dict[str, int]
    """Packets sent again, by node."""
    overhead_bytes: int
    """All that is neither a multicast packet nor a repair, a copy each."""
    overhead_messages: int
    links: list[tuple[int, int, int, int]]
    """Of each link: its ends, packets and bytes; if it was measured."""
    hub_bytes: int
    """What crossed the links of the hub."""


def run(setting: Setting, seed: int) -> Outcome:
    names = [f"n{number}" for number in range(MEMBERS)]
    topology = transit_stub(TOPOLOGY_SEED, bandwidth_bps=100e6 if setting.measured else None)
    arrivals = Arrivals()
    world = World(
        seed,
        config=_config(setting),
        topology=topology,
        node_factory=partial(_make, setting, names, topology, arrivals),
        tree=True,
        measure=setting.measured,
    )
    tally = Tally()
    if setting.protocol != "pbcast":
        world.add(LOGGER, logger=True, peers=tuple(names), router=0 if setting.at_hub else topology.hosts[0])
    everybody = (*names, LOGGER) if setting.protocol != "pbcast" else tuple(names)
    for name, router in zip(names, topology.hosts, strict=True):
        world.add(name, peers=everybody, router=router)
    world.run(setting.settle_s)
    if setting.lossy_links:
        assert setting.measured, "a copy that takes no links is lost on none"
        for link in topology.links:
            link.loss = setting.loss
    else:
        world.add_rule(Loss(setting.loss))
    for link in topology.links:
        link.packets = link.bytes = 0
    world.observe(tally)
    sent = _schedule(world, setting, names)
    sent_s = setting.settle_s + setting.duration_s
    world.run(sent_s)
    overhead = tally.overhead_bytes, tally.overhead_messages
    world.run(sent_s + LINGER_S)
    return _outcome(sent, arrivals, names, tally, overhead, topology.links)


def seats() -> tuple[tuple[int, ...], list[list[float]]]:
    """Where the members sit, and the latencies between any two routers."""
    topology = transit_stub(TOPOLOGY_SEED)
    return topology.hosts, topology.latencies_s


def _config(setting: Setting) -> Config:
    config = Config(
        selection=setting.selection,
        service_limit_per_s=setting.service_limit,
        positions_rounds=setting.positions_rounds,
        gclimit_rounds=setting.gclimit_rounds,
        link_window_bytes=None,
        faults=1,
    )
    if setting.protocol in ("ours", "auto"):
        return config if setting.protocol == "ours" else replace(config, repair_first="auto")
    return replace(
        config,
        round_interval_max_s=config.round_interval_s,
        repair_first="logger" if setting.protocol == "logger" else "gossip",
        remulticast_requesters=0,
    )


def _make(
    setting: Setting,
    names: list[str],
    topology: Topology,
    arrivals: Arrivals,
    node: str,
    *arguments: Any,
    **options: Any,
) -> Machine:
    made: Machine
    match setting.protocol:
        case "lbrm":
            made = Lbrm(node, *arguments, **options, loggers=(LOGGER,))
        case "pbcast":
            seats = dict(zip(names, topology.hosts, strict=True))
            rtt_s = {other: 2 * topology.latencies_s[seats[node]][seat] for other, seat in seats.items()}
            made = Pbcast(node, *arguments, **options, rtt_s=rtt_s)
        case _:
            roster = tuple(Member(name, "member", FIRST_INCARNATION, name == LOGGER) for name in (*names, LOGGER))
            made = ours = Node(node, *arguments, **{**options, "peers": ()}, roster=roster)
            if setting.steep:
                become(ours.selection, Steep)
    return made if node == LOGGER else Watched(made, node, arrivals)


class Steep(Selection):
    """Near members are asked almost always: by 1 / rtt, or 1 / rtt²."""

    __slots__ = ()

    def weigh(self, rtts_s: Sequence[float | None], power: int) -> list[float]:
        middling = median([rtt_s for rtt_s in rtts_s if rtt_s is not None] or [1.0])
        return [(middling / max(middling if rtt_s is None else rtt_s, RTT_MIN_S)) ** power for rtt_s in rtts_s]


class Tally(Observer):
    """What is sent besides the packets themselves."""

    def __init__(self) -> None:
        self.repairs: Counter[str] = Counter()
        self.overhead_bytes = 0
        self.overhead_messages = 0
        self._multicast: set[EventId] = set()

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        if isinstance(message, Repair):
            self.repairs[node] += len(message.packets) * len(to)
        elif isinstance(message, Data):
            event = EventId(message.packet.stream, message.packet.first)
            if event in self._multicast:  # sent again to the logger
                self.repairs[node] += len(to)
            self._multicast.add(event)
        else:
            self.overhead_messages += len(to)
            self.overhead_bytes += len(to) * len(codec.encode(message))


@dataclass(frozen=True, slots=True)
class _Sent:
    at_s: float
    event: EventId
    by: str


def _schedule(world: World, setting: Setting, names: list[str]) -> list[_Sent]:
    """Senders are spread over the network, whatever their number."""
    sent: list[_Sent] = []
    content = Content(body=bytes(PACKET_BYTES))
    for number in range(setting.senders):
        name = names[number * len(names) // setting.senders]
        stream = stream_of(name, 1)
        rng = random.Random(f"{world.seed}/{name}")
        at_s, seq = setting.settle_s, 0
        until_s = setting.settle_s + setting.duration_s
        while (at_s := at_s + rng.expovariate(setting.rate / setting.senders)) < until_s:
            world.at(at_s, world.publish, name, stream, (content,))
            sent.append(_Sent(at_s, EventId(stream, seq), name))
            seq += 1
    return sent


def _outcome(
    sent: list[_Sent],
    arrivals: Arrivals,
    names: list[str],
    tally: Tally,
    overhead: tuple[int, int],
    links: list[Link],
) -> Outcome:
    latencies_s: list[float] = []
    for each in sent:
        came = arrivals.at_s.get(each.event, {})
        last_s = max(came.get(name, math.inf) for name in names if name != each.by)
        latencies_s.append(last_s - each.at_s)
    complete = [latency_s for latency_s in latencies_s if latency_s < math.inf]
    return Outcome(
        latency_s=fmean(complete) if complete else math.inf,
        deviation_s=pstdev(complete) if complete else 0.0,
        undelivered=len(latencies_s) - len(complete),
        packets=len(sent),
        repairs={name: tally.repairs[name] for name in (*names, LOGGER)},
        overhead_bytes=overhead[0],
        overhead_messages=overhead[1],
        links=[(link.source, link.target, link.packets, link.bytes) for link in links],
        hub_bytes=sum(link.bytes for link in links if 0 in (link.source, link.target)),
    )
