"""What a member pays as the mesh grows, with push gossip and 1 % loss: beyond the papers.

The fanout is ln n + 1, which is what it takes to reach everybody with a probability that does not fall with n; hops are
as many as it takes, and two more.

    repair    the core as it is: every member knows every other, and what the push did not reach is repaired
    push      the same without rounds, and so without repair: what the push alone reaches
    partial   the core with repair; each member knows only some others, drawn at random, and learns of no more
    streams   the same with ten streams for each member instead of a hundred in all, each of which says something once

One table of all members in each of them is memory and start-up by the square of their number in one process, so the
first two end at `full_max`. The core has no partial views of its own. `partial` takes out what needs to know everybody
(`Acquainted`, `Led`), and leaves everything else as it is. Who knows somebody is known to it, since members wait for
each other's acknowledgements.
"""

import gc
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, NamedTuple

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, summary, sweep
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
from gossamer.messages.wire import Member, Message
from gossamer.protocol.comparing import Comparing
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Deliver
from gossamer.protocol.membership import Membership
from gossamer.protocol.node import Node

CURVES = ("repair", "push", "partial", "streams")
PARTIAL = ("partial", "streams")
"""The curves with partial views."""
BODY_BYTES = 100
EVERY_S = {"streams": 0.002}
"""Between two messages; by default:"""
DEFAULT_EVERY_S = 0.02
STREAMS_OF_A_MEMBER = 10
LINGER_S = 3.0
MANY_RUNS_MAX = 300
NEVER_S = 1e6
PAGE_KB = 4
FIRST_INCARNATION = 1 << 8


class Point(NamedTuple):
    curve: str
    members: int
    streams: int
    messages: int
    view: int


@dataclass(frozen=True, slots=True)
class Outcome:
    reached: float
    """Members that got a message, on average, as a share of all."""
    kbytes: float
    """Sent by a member for each message."""
    cpu_ms: float
    """Of a member for each message."""
    latency_ms: float
    kbytes_held: float
    """Memory of a member, at the end."""


@experiment(
    "beyond",
    Panel("members reached", "members", ("reached",), "curve", log_x=True, y_label="share"),
    Panel("sent by a member for a message", "members", ("kbytes",), "curve", log_x=True, y_label="KB"),
    Panel("processor time of a member for a message", "members", ("cpu_ms",), "curve", log_x=True, y_label="ms"),
    Panel("memory of a member", "members", ("kbytes_held",), "curve", log_x=True, y_label="KB"),
    minutes=60,
    quick={"members": "30,60,120", "streams_max": 60, "streams": 10, "messages": 10, "seeds": 1, "processes": 1},
)
def scale(
    *,
    members: str = "100,300,1000,3000,10000",
    curves: str = "repair,push,partial,streams",
    full_max: int = 300,
    streams_max: int = 1_000,
    streams: int = 100,
    messages: int = 100,
    view: int = 32,
    streams_view: int = 16,
    loss: float = 0.01,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """What a member sends and computes for a message grows with the logarithm of the number of members."""
    check_positive(streams=streams, messages=messages, view=view, streams_view=streams_view)
    chosen = curves.split(",")
    sizes = [int(size) for size in positive("members", members)]
    if not set(chosen) <= set(CURVES) or not 0 <= loss < 1 or min(sizes) < 2:
        raise UsageError(f"curves of {','.join(CURVES)}, a loss below 1, and at least two members")
    points = [
        Point(curve, size, size * STREAMS_OF_A_MEMBER, size * STREAMS_OF_A_MEMBER, streams_view)
        if curve == "streams"
        else Point(curve, size, streams, messages, view)
        for curve in chosen
        for size in sizes
        if size <= {"partial": math.inf, "streams": streams_max}.get(curve, full_max)
    ]
    outcomes = sweep(
        partial(measure, loss=loss),
        points,
        seeds=partial(_runs, seeds=seeds),
        processes=processes,
        progress=progress,
        weight=lambda point: point.members * point.messages,
        fresh=processes > 1,
    )
    rows: list[Row] = [
        {
            "members": point.members,
            "curve": point.curve,
            "streams": point.streams,
            **summary("reached", [each.reached for each in some], 6),
            **summary("kbytes", [each.kbytes for each in some], 3),
            **summary("cpu_ms", [each.cpu_ms for each in some], 3),
            **summary("latency_ms", [each.latency_ms for each in some], 1),
            # A process that has held other meshes before tells nothing.
            "kbytes_held": round(fmean(each.kbytes_held for each in some), 1) if processes > 1 else None,
        }
        for point, some in zip(points, outcomes, strict=True)
    ]
    return rows, [_fitted(rows, curve) for curve in chosen if any(row["curve"] == curve for row in rows)]


def _runs(point: Point, *, seeds: int) -> int:
    """The large ones are seen once: a mean over so many members hardly varies."""
    return seeds if point.members <= MANY_RUNS_MAX else 1


class Acquainted(Comparing):
    """Knows some members for good: what others know of membership is not asked for, and not told."""

    __slots__ = ()

    def agrees(self, sender: str, members_root: int) -> bool:
        return True

    def _compare(self, table: str, to: str) -> None:
        if table != "members":
            super()._compare(table, to)


class Led(Membership):
    """Never leads: who knows only some cannot tell a publisher that it does not know from one that is no more."""

    __slots__ = ()

    @property
    def leads(self) -> bool:
        return False


def acquaint(records: Sequence[Member], view: int, rng: random.Random) -> list[tuple[Member, ...]]:
    """Whom each knows, itself and about `view` others: each draws half as many, and is known to those it drew."""
    known = [{place: None} for place in range(len(records))]
    for place in range(len(records)):
        for other in rng.sample(range(len(records)), min(math.ceil(view / 2), len(records))):
            known[place][other] = known[other][place] = None
    return [tuple(records[place] for place in places) for places in known]


class Bytes(Observer):
    """All that is sent."""

    def __init__(self) -> None:
        self.count = 0

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        self.count += len(to) * len(codec.encode(message))


class Delivered(Observer):
    """To how many each event was delivered, and how long that took in all; not when to whom, which of ten million
    would be more than what the members hold."""

    def __init__(self) -> None:
        self.times: Counter[EventId] = Counter()
        self.late_s = 0.0
        self.said_s: dict[EventId, float] = {}

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        packet = deliver.packet
        for seq in packet.seqs():
            event = EventId(packet.stream, seq)
            self.times[event] += 1
            self.late_s += at_s - self.said_s[event]


def measure(point: Point, seed: int, *, loss: float) -> Outcome:
    curve, size, streams, messages, view = point
    before_kb = _resident_kb()
    names = [f"n{number}" for number in range(size)]
    records = [Member(name, "member", FIRST_INCARNATION) for name in names]
    known = acquaint(records, view, random.Random(f"{seed}/views")) if curve in PARTIAL else [tuple(records)] * size
    sent, delivered = Bytes(), Delivered()

    def make(name: str, *arguments: Any, **options: Any) -> Machine:
        node = Node(name, *arguments, **options, roster=known[int(name[1:])])
        if curve in PARTIAL:
            become(node.comparing, Acquainted)
            become(node.membership, Led)
        return node

    world = World(seed, config=_config(curve, size), topology=uniform(0.01), node_factory=make)
    for name in names:
        world.add(name)
    world.run(1.0)
    world.add_rule(Loss(loss))
    world.observe(sent)
    world.observe(delivered)
    every_s = EVERY_S.get(curve, DEFAULT_EVERY_S)
    seqs = [count() for _ in range(streams)]
    for number in range(messages):
        lives, place = divmod(number % streams, size)
        at_s, name = 1.0 + number * every_s, names[place]
        stream = stream_of(name, 1 + lives)
        delivered.said_s[EventId(stream, next(seqs[number % streams]))] = at_s
        world.at(at_s, world.publish, name, stream, (Content(body=bytes(BODY_BYTES)),))
    gc.disable()  # nothing refers to itself in there, and to look for it is a seventh of the time
    begun_s = process_time()
    world.run(1.0 + messages * every_s + LINGER_S)
    cpu_s = process_time() - begun_s
    gc.enable()
    held_kb = _resident_kb() - before_kb
    times = delivered.times.total()
    return Outcome(
        reached=times / size / messages,
        kbytes=sent.count / size / messages / 1e3,
        cpu_ms=1e3 * cpu_s / size / messages,
        latency_ms=1e3 * delivered.late_s / max(1, times - messages),  # its publisher has it at once
        kbytes_held=held_kb / size,
    )


def _resident_kb() -> float:
    """Memory of this process, where the system tells."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB
    except OSError:
        return 0.0


def _config(curve: str, size: int) -> Config:
    fanout = math.ceil(math.log(size)) + 1
    hops = math.ceil(math.log(size, fanout)) + 2
    config = Config(strategy="gossip", fanout=fanout, hops=hops, link_window_bytes=None, faults=1)
    if curve == "streams":  # each publishes every 20 s, and so is not idle
        return replace(config, idle_after_s=60.0)
    if curve != "push":
        return config
    return replace(
        config,
        round_interval_s=NEVER_S,
        round_interval_max_s=NEVER_S,
        reorder_grace_s=NEVER_S,
        resend_s=NEVER_S,
        idle_after_s=NEVER_S,
    )


def _fitted(rows: list[Row], curve: str) -> Claim:
    """How well a + b ln n describes what is sent, and whether everybody was reached."""
    some = [row for row in rows if row["curve"] == curve]
    logs = [math.log(float(row["members"] or 0)) for row in some]
    sent, reached = ([float(row[name] or 0) for row in some] for name in ("kbytes", "reached"))
    off, told = 0.0, ", ".join(f"{each:.2f}" for each in sent)
    if len(some) > 1:
        x, y = fmean(logs), fmean(sent)
        slope = sum((a - x) * (b - y) for a, b in zip(logs, sent, strict=True)) / sum((a - x) ** 2 for a in logs)
        off = max(abs(y + slope * (a - x) - b) / b for a, b in zip(logs, sent, strict=True))
        told += f" KB a message; {slope:.2f} KB more for each factor of e, at most {off:.0%} off"
    return Claim(
        f"{curve}: a member's cost grows with ln n, and (nearly) everybody is reached",
        "the cost of a member of push gossip does not grow with the group (003 §2.1)",
        f"{told}; {min(reached):.2%} reached at least",
        min(reached) > 0.99 and off < 0.25,
    )
