"""The test bed of 003 §4.2: fifty nodes that push messages at each other over thin links.

Every pair of nodes has a connection of its own, and all connections together have 10 Mbps: 510 bytes a second for each
direction of each, five messages. A message that everybody relays to five others is 250 copies, so the whole network
carries 50 messages a second; what is offered beyond that is left out somewhere, and the question is what.

The paper's protocol has neither order nor repair. To measure ours without them, a message counts for a node when it
first comes in at its door, rounds and the grace before a request are put off until after the end, and what is purged is
not announced: the marks are there so that nobody asks for it.

A link admits a message when the one before it has left, and a message takes 0.2 s to leave: that is the way of every
hop, beside which the 100 µs of the protocol stack are nothing. It matters that it is so. Were a message on an idle link
there at once, it would come to most nodes first by four quick hops, after which nobody relays it.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean, pstdev
from typing import Any, Literal

from gossamer.lab.door import Arrivals, Watched
from gossamer.lab.faults import Loss
from gossamer.lab.mutants import become
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.topology import Topology, uniform
from gossamer.lab.traffic import chains
from gossamer.lab.world import Machine, World
from gossamer.messages.event import Content, Relation
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Reason, pack
from gossamer.messages.wire import Member
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Deliver
from gossamer.protocol.links import Link, Links, cost
from gossamer.protocol.node import Node

NODES = 50
NETWORK_MBPS = 10.0
MESSAGE_BYTES = 100
LATENCY_S = 100e-6
LOSS = 0.05
FANOUT, HOPS = 5, 4
DURATION_S, MARGIN_S = 40.0, 10.0
MOST = 0.95
"""Delivered to more than this share of the members counts as delivered (row P5)."""
ROUND_S = 1.0
FIRST_INCARNATION = 1 << 8
NEVER_S = 1e6

Policy = Literal["random", "lazy", "eager"]
Factory = Callable[..., Machine]


@dataclass(frozen=True, slots=True)
class Load:
    """What is offered: so many messages a second, of the paper's traffic model (`traffic.chains`)."""

    rate: float
    r: float = 1.0
    d: int = 1
    l: int = 5  # noqa: E741 (the paper's)
    senders: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of the messages sent in the middle of the run."""

    share: float
    """Never obsolete ones that reached more than 95 % of the members, of all never obsolete ones."""
    share_of_all: float
    """The same of all messages."""
    receivers: float
    """How many members a never obsolete message reached on average, as a share of all."""
    variation: float
    """The standard deviation of that, divided by it."""
    latency_ms: float
    """Of what got to one member."""


def link_bps(nodes: int, network_mbps: float = NETWORK_MBPS) -> float:
    """What each direction of each connection has."""
    return 1e6 * network_mbps / (nodes * (nodes - 1))


def pushing(bps: float, policy: Policy, buffer: int, *, round_s: float | None = None) -> Config:
    """Ours, set like the paper's, or with rounds of repair. f is 1: a minority of fifty would be 24, of whom each round
    asks what is safe, which is more than these links carry."""
    config = Config(
        strategy="gossip",
        fanout=FANOUT,
        hops=HOPS,
        link_bandwidth_bps=bps,
        link_window_bytes=None,
        link_buffer_events_max=buffer,
        link_policy=policy,
        faults=1,
    )
    if round_s is not None:
        return replace(config, round_interval_s=round_s)
    return replace(
        config,
        round_interval_s=NEVER_S,
        round_interval_max_s=NEVER_S,
        reorder_grace_s=NEVER_S,
        resend_s=NEVER_S,
        idle_after_s=NEVER_S,
    )


def run(
    load: Load,
    config: Config,
    seed: int,
    *,
    nodes: int = NODES,
    duration_s: float = DURATION_S,
    margin_s: float = MARGIN_S,
    logger: bool = False,
    factory: Factory | None = None,
    topology: Topology | None = None,
) -> Outcome:
    """One simulation. `factory` makes other nodes than ours; with a `logger` what counts is delivery, in order."""
    names = [f"n{number}" for number in range(nodes)]
    loggers = ["L"] if logger else []
    roster = tuple(Member(name, "member", FIRST_INCARNATION, name in loggers) for name in (*names, *loggers))
    arrivals = Arrivals()

    def make(*arguments: Any, **options: Any) -> Machine:
        if factory is not None:
            return Watched(factory(*arguments, **options), arguments[0], arrivals)
        node = Node(*arguments, **options, roster=roster)
        if logger:
            return node
        become(node.links, Unannounced)
        return Watched(node, arguments[0], arrivals)

    world = World(
        seed,
        config=config,
        topology=topology or uniform(LATENCY_S + 8 * MESSAGE_BYTES / (config.link_bandwidth_bps or math.inf)),
        node_factory=make,
    )
    if logger:
        world.observe(Delivered(arrivals))
    for name in loggers:
        world.add(name, logger=True)
    for name in names:
        world.add(name, peers=() if factory is None else tuple(names))
    world.add_rule(Loss(LOSS))
    sent = _schedule(world, load, names, duration_s)
    world.run(duration_s)
    return _outcome(arrivals, sent, names, margin_s, duration_s - margin_s)


class Delivered(Observer):
    """What is handed to applications, for when it is order that counts."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        self._arrivals.note(at_s, node, deliver.packet)


class Unannounced(Links):
    """Purges, and says nothing of it: there is nobody who would ask."""

    __slots__ = ()

    def _mark(self, link: Link, stream: StreamId, seq: int, reason: Reason) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Sent:
    at_s: float
    event: EventId
    by: str
    lasting: bool


def _schedule(world: World, load: Load, names: list[str], duration_s: float) -> list[_Sent]:
    rng = random.Random(f"traffic/{world.seed}")
    count = int(load.rate * duration_s)
    sent: list[_Sent] = []
    for number, said in enumerate(islice(chains(rng, load.r, load.d, load.l), count)):
        name = names[number % load.senders]
        stream, seq = stream_of(name, 1), number // load.senders
        relation = Relation(group=True) if load.senders > 1 and said.key is not None else None
        content = _sized(Content(said.key, said.rank, relation), stream)
        at_s = (number + rng.random()) / load.rate
        world.at(at_s, world.publish, name, stream, (content,))
        sent.append(_Sent(at_s, EventId(stream, seq), name, bool(said.attributes["lasting"])))
    return sent


def _sized(content: Content, stream: str) -> Content:
    """With a body that makes the packet 100 bytes."""
    bare = cost(pack(stream, 0, [content]))
    return Content(content.key, content.rank, content.relation, body=bytes(max(0, MESSAGE_BYTES - bare)))


def _outcome(arrivals: Arrivals, sent: list[_Sent], names: list[str], from_s: float, until_s: float) -> Outcome:
    reached: list[float] = []
    reached_lasting: list[float] = []
    latencies_s: list[float] = []
    witness = names[-1]
    for each in sent:
        if not from_s <= each.at_s < until_s:
            continue
        at_s = arrivals.at_s.get(each.event, {})
        share = sum(name == each.by or name in at_s for name in names) / len(names)
        reached.append(share)
        if each.lasting:
            reached_lasting.append(share)
        if witness in at_s:
            latencies_s.append(at_s[witness] - each.at_s)
    receivers = fmean(reached_lasting)
    return Outcome(
        share=fmean(share > MOST for share in reached_lasting),
        share_of_all=fmean(share > MOST for share in reached),
        receivers=receivers,
        variation=pstdev(reached_lasting) / receivers if receivers else 0.0,
        latency_ms=1e3 * fmean(latencies_s) if latencies_s else 0.0,
    )
