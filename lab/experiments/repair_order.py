"""The order of repair: peers first, a logger first, or by congestion (004 §2.2, §7.3, §8), as the mesh grows.

The thesis fixes eighteen members and varies the rate. Here the rate is fixed and members are added, since every member
asks for its own losses: at 1 % loss a packet is requested by 1 % of the members. One logger answers
`service_limit` requests a second. The nodes are the production core with its defaults; only `repair_first` differs.

    calm     20 packets/s, 1 % of the copies lost
    loaded   200 packets/s, 1 % lost
    lossy    100 packets/s, 10 % lost

Repair latency is the time from a gap's detection to the event's arrival. It includes the reorder grace.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Literal, NamedTuple, cast, get_args

from gossamer.lab.door import Arrivals, Watched
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, Value, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, sweep
from gossamer.lab.faults import Loss
from gossamer.lab.mutants import become
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.topology import uniform
from gossamer.lab.world import Machine, World
from gossamer.messages import codec
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.wire import Data, Gossip, Member, Message, Recover, Repair, Request
from gossamer.protocol.config import Config
from gossamer.protocol.node import Node
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.stream import Stream

Order = Literal["gossip", "logger", "auto"]
ORDERS: tuple[Order, ...] = get_args(Order)


class Traffic(NamedTuple):
    rate: float
    """Packets a second, of all senders."""
    loss: float


SETTINGS = {"calm": Traffic(20.0, 0.01), "loaded": Traffic(200.0, 0.01), "lossy": Traffic(100.0, 0.1)}
LOGGER = "L"
FIRST_INCARNATION = 1 << 8
SENDERS_MAX = 10
PACKET_BYTES = 1_000
SETTLE_S = 2.0
LINGER_MAX_S = 60.0
"""Virtual time in which everybody must have everything, after the last packet."""
AS_FAST = 1.1
"""A median within this factor of the other counts as equally fast."""


class Point(NamedTuple):
    setting: str
    members: int
    order: Order


@dataclass(frozen=True, slots=True)
class Outcome:
    waits_s: list[float]
    """From a gap's detection to the event's arrival, each lost copy once, ascending."""
    missing: int
    """Copies that never arrived."""
    requests: int
    """Messages that asked the logger for something, while packets were published."""
    repair_bytes: Counter[str]
    """Bytes of repairs by the node that sent them, in the same time."""
    overhead_bytes: int
    """Bytes of all that is not a first multicast, in the same time."""
    span_s: float


@experiment(
    "004 §2.2, §8",
    Panel("repair latency, 99 %, loaded", "members", ("p99_ms",), "order", {"setting": "loaded"}, y_label="ms"),
    Panel("repair latency, 99 %, lossy", "members", ("p99_ms",), "order", {"setting": "lossy"}, y_label="ms"),
    Panel("repairs sent by the logger, loaded", "members", ("logger_kb_s",), "order", {"setting": "loaded"}, "KB/s"),
    minutes=5,
    quick={"members": "10,40", "service_limit": 30.0, "duration_s": 3.0, "seeds": 1, "processes": 1},
)
def repair_order(
    *,
    members: str = "10,50,200",
    settings: str = ",".join(SETTINGS),
    service_limit: float = 200.0,
    latency_ms: float = 5.0,
    sync_ms: float = 5.0,
    duration_s: float = 10.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """Gossip first keeps the logger from becoming the bottleneck as members are added, and is no slower when calm."""
    check_positive(service_limit=service_limit, latency_ms=latency_ms, sync_ms=sync_ms, duration_s=duration_s)
    chosen = settings.split(",")
    sizes = [int(size) for size in positive("members", members)]
    if not set(chosen) <= set(SETTINGS) or min(sizes) < 3:
        raise UsageError(f"settings of {','.join(SETTINGS)}, and at least three members")
    points = [Point(setting, size, order) for setting in chosen for size in sizes for order in ORDERS]
    measured = partial(
        measure, service_limit=service_limit, latency_s=latency_ms / 1e3, sync_s=sync_ms / 1e3, duration_s=duration_s
    )
    found = sweep(
        measured,
        points,
        seeds=seeds,
        processes=processes,
        progress=progress,
        weight=lambda point: point.members * SETTINGS[point.setting].rate,
    )
    rows = [_row(point, outcomes) for point, outcomes in zip(points, found, strict=True)]
    return rows, _claims(rows, max(sizes))


def measure(
    point: Point, seed: int, *, service_limit: float, latency_s: float, sync_s: float, duration_s: float
) -> Outcome:
    names = [f"n{number}" for number in range(point.members)]
    roster = tuple(Member(name, "member", FIRST_INCARNATION, name == LOGGER) for name in (*names, LOGGER))
    traffic = SETTINGS[point.setting]
    arrivals, opened = Arrivals(), dict[tuple[str, EventId], float]()

    def make(name: str, *arguments: Any, **options: Any) -> Machine:
        node = Node(name, *arguments, **{**options, "peers": ()}, roster=roster)
        if name == LOGGER:
            return node
        become(node.receiver, timed(name, opened))
        return Watched(node, name, arrivals)

    config = Config(repair_first=point.order, service_limit_per_s=service_limit, link_window_bytes=None, faults=1)
    world = World(seed, config=config, topology=uniform(latency_s), node_factory=make, sync_s=sync_s)
    for name in (LOGGER, *names):
        world.add(name, logger=name == LOGGER)
    world.run(SETTLE_S)
    world.add_rule(Loss(traffic.loss))
    load = Load()
    world.observe(load)
    published = _schedule(world, names, traffic.rate, duration_s)
    world.run(SETTLE_S + duration_s)
    sent = load.requests, load.repair_bytes.copy(), load.overhead_bytes

    def missing() -> int:
        came = sum(len(arrivals.at_s.get(event, {}).keys() - {by}) for event, by in published.items())
        return len(published) * (point.members - 1) - came

    world.run_until(lambda: not missing(), world.now_s + LINGER_MAX_S, every_s=0.5)
    waits_s = sorted(
        at_s - opened[name, event]
        for event in published
        for name, at_s in arrivals.at_s.get(event, {}).items()
        if (name, event) in opened
    )
    return Outcome(waits_s, missing(), *sent, duration_s)


def timed(name: str, opened: dict[tuple[str, EventId], float]) -> type[Receiver]:
    class Timed(Receiver):
        """Notes when each gap was noticed."""

        __slots__ = ()

        def _gap(self, stream: Stream, first: int, last: int) -> None:
            for seq in range(first, last + 1):
                opened.setdefault((name, EventId(stream.id, seq)), self._ctx.now)
            super()._gap(stream, first, last)

    return Timed


def _schedule(world: World, names: Sequence[str], rate: float, duration_s: float) -> dict[EventId, str]:
    """Independent senders, each a Poisson process, as in 004 §7.1. Returns each event's publisher."""
    published: dict[EventId, str] = {}
    content = Content(body=bytes(PACKET_BYTES))
    senders = names[:SENDERS_MAX]
    for name in senders:
        stream, rng, at_s, seq = stream_of(name, 1), random.Random(f"{world.seed}/{name}"), SETTLE_S, 0
        while (at_s := at_s + rng.expovariate(rate / len(senders))) < SETTLE_S + duration_s:
            world.at(at_s, world.publish, name, stream, (content,))
            published[EventId(stream, seq)] = name
            seq += 1
    return published


class Load(Observer):
    """Counts requests to the logger, repairs by sender, and the bytes of all that is not a first multicast."""

    def __init__(self) -> None:
        self.requests = 0
        self.repair_bytes: Counter[str] = Counter()
        self.overhead_bytes = 0
        self._multicast: set[EventId] = set()

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        if isinstance(message, Data):
            event = EventId(message.packet.stream, message.packet.first)
            if event not in self._multicast:
                self._multicast.add(event)
                return
        size = len(to) * len(codec.encode(message))
        self.overhead_bytes += size
        if isinstance(message, Repair | Data):
            self.repair_bytes[node] += size
        asks = isinstance(message, Recover | Request) or (isinstance(message, Gossip) and bool(message.lacks))
        self.requests += asks and LOGGER in to


def _row(point: Point, outcomes: Sequence[Outcome]) -> Row:
    waits_s = sorted(wait_s for outcome in outcomes for wait_s in outcome.waits_s)
    busiest = [
        max((sent for node, sent in each.repair_bytes.items() if node != LOGGER), default=0) for each in outcomes
    ]
    return {
        "setting": point.setting,
        "members": point.members,
        "order": point.order,
        "repairs": len(waits_s),
        "missing": sum(outcome.missing for outcome in outcomes),
        "p50_ms": round(1e3 * quantile(waits_s, 0.5), 1),
        "p99_ms": round(1e3 * quantile(waits_s, 0.99), 1),
        "logger_requests_s": round(fmean(each.requests / each.span_s for each in outcomes), 1),
        "logger_kb_s": round(fmean(each.repair_bytes[LOGGER] / each.span_s / 1e3 for each in outcomes), 1),
        "busiest_kb_s": round(fmean(sent / each.span_s / 1e3 for sent, each in zip(busiest, outcomes, strict=True)), 1),
        "overhead_kb_s": round(fmean(each.overhead_bytes / each.span_s / 1e3 for each in outcomes), 1),
    }


def quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else 0.0


def _claims(rows: Sequence[Row], largest: int) -> list[Claim]:
    by = {(row["setting"], row["members"], row["order"]): row for row in rows}

    def figure(setting: Value, members: Value, order: Order, name: str) -> float:
        return float(cast(float, by[setting, members, order][name]))

    places = list(dict.fromkeys((row["setting"], row["members"]) for row in rows))
    slower = [
        f"{setting} with {members}: {figure(setting, members, 'gossip', 'p50_ms'):.0f} against "
        f"{figure(setting, members, 'logger', 'p50_ms'):.0f} ms"
        for setting, members in places
        if figure(setting, members, "gossip", "p50_ms") > AS_FAST * figure(setting, members, "logger", "p50_ms")
    ]
    busy = [setting for setting, members in places if members == largest and setting != "calm"]
    slowest = {
        setting: ", ".join(f"{order} {figure(setting, largest, order, 'p99_ms'):.0f}" for order in ORDERS)
        for setting in busy
    }
    never = {order: sum(int(cast(int, row["missing"])) for row in rows if row["order"] == order) for order in ORDERS}
    sent = {order: [figure(*place, order, "logger_kb_s") for place in places] for order in ORDERS}
    times = {order: max(map(_times, sent[order], sent["gossip"])) for order in ORDERS}
    return [
        Claim(
            f"everybody has everything {LINGER_MAX_S:.0f} s after the last packet, with gossip first and with auto",
            "loggers are the failsafe of gossip (004 §2.2)",
            "; ".join(f"{order}: {copies} copies missing" for order, copies in never.items()),
            not never["gossip"] and not never["auto"],
        ),
        Claim(
            "gossip first is as fast as logger first, or faster, in the median",
            "at low rates they are indistinguishable (004 §8)",
            "; ".join(slower) or f"in all {len(places)} cases, to within 10 %",
            not slower,
        ),
        Claim(
            f"with {largest} members the logger is the bottleneck of logger first, and not of gossip first",
            "gossip takes most of the logger's service load (004 §2.2); the logger overloads much later (§8)",
            "99 % of repairs take up to " + "; ".join(f"{each} ms ({setting})" for setting, each in slowest.items()),
            all(
                figure(setting, largest, "logger", "p99_ms") > 2 * figure(setting, largest, "gossip", "p99_ms")
                for setting in busy
            ),
        ),
        Claim(
            "with gossip first the logger repairs no more than the busiest peer",
            "balanced load distribution (004 §7.2)",
            f"up to {times['logger']:.0f} times as many bytes with logger first, {times['auto']:.0f} times with auto",
            all(
                figure(*place, "gossip", "logger_kb_s") <= figure(*place, "gossip", "busiest_kb_s") for place in places
            ),
        ),
    ]


def _times(much: float, little: float) -> float:
    return much / max(little, 0.1)  # rows are rounded to this
