"""What order costs: urgc against urcgc, and consensus, by the size of the group (001 §5, figures 3 to 5).

The paper's machines sent a copy to each member, one after the other, and two thirds of the time went into that. Here it
costs a member `send_ms` to send a copy, and to take one in; the way takes `latency_ms`. All is well, and nobody
crashes. Latency is from the multicast of a message until the last member has delivered it.

Either there is one message at a time, or `2n` at once, two from each member, which urgc orders in one decision.
"""

from functools import partial
from itertools import product
from random import Random
from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import summary, sweep
from gossamer.lab.groups.world import GROUP, Machine, World
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.groups.effects import Deliver
from gossamer.protocol.groups.rotation import Settings
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.views import Timing, Views

PROTOCOLS = ("urgc", "urcgc", "consensus")
MEMBERS_MAX = 24
APART_S = 0.5
SUBRUN_S = 0.1
"""Messages are multicast at any moment of one; `seed` draws it."""


@experiment(
    "001 Fig 3, 4, 5",
    Panel("one message at a time", "members", ("latency_ms",), "protocol", y_label="ms"),
    Panel("2n messages at once", "members", ("latency_2n_ms",), "protocol", y_label="ms"),
    Panel("copies a delivery, 2n at once", "members", ("copies_a_delivery",), "protocol"),
    quick={"members": "3,5,7", "messages": 5, "seeds": 1, "processes": 1},
)
def ordering(
    *,
    members: str = "2,3,4,5,6,7,15",
    messages: int = 20,
    latency_ms: float = 1.5,
    send_ms: float = 0.25,
    body_bytes: int = 1_000,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """Latency grows about linearly with the group, and total order costs more than causal order (001 §5)."""
    sizes = _sizes(members)
    if messages < 1 or latency_ms < 0 or send_ms < 0 or body_bytes < 0:
        raise UsageError("messages: at least one; latency_ms, send_ms and body_bytes: not negative")
    points = list(product(sizes, PROTOCOLS))
    run = partial(_measure, messages=messages, latency_ms=latency_ms, send_ms=send_ms, body_bytes=body_bytes)
    found = sweep(run, points, seeds=seeds, processes=processes, progress=progress)
    rows: list[Row] = []
    for (size, protocol), outcomes in zip(points, found, strict=True):
        one, many, copies, carried = zip(*outcomes, strict=True)
        rows.append(
            {
                "members": size,
                "protocol": protocol,
                **summary("latency_ms", one),
                **summary("latency_2n_ms", many),
                "copies_a_delivery": round(fmean(copies), 3),
                "bytes_a_delivery": round(fmean(carried), 1),
            }
        )
    return rows, _claims(rows, sizes)


def _sizes(members: str) -> list[int]:
    try:
        sizes = sorted({int(each) for each in members.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 2 or sizes[-1] > MEMBERS_MAX:
        raise UsageError(f"members: sizes from 2 to {MEMBERS_MAX}, like 3,5,7, not {members!r}")
    return sizes


def _measure(
    point: tuple[int, str], seed: int, *, messages: int, latency_ms: float, send_ms: float, body_bytes: int
) -> tuple[float, float, float, float]:
    """Mean latency of one message at a time, and of 2n at once; and for these, copies and bytes a delivery."""
    size, protocol = point
    one, *_ = _run(protocol, size, 1, messages, latency_ms, send_ms, body_bytes, seed)
    return one, *_run(protocol, size, 2 * size, messages, latency_ms, send_ms, body_bytes, seed)


def _run(
    protocol: str, size: int, at_once: int, messages: int, latency_ms: float, send_ms: float, body_bytes: int, seed: int
) -> tuple[float, float, float]:
    """Mean latency in ms, and copies and bytes a delivery beyond what an idle group sends."""
    names = tuple("abcdefghijklmnopqrstuvwxyz"[:size])
    world = World(latency_s=latency_ms / 1_000, send_s=send_ms / 1_000)
    world.measure = True
    for name in names:
        world.add(name, _machine(protocol, name, names, at_once))
    world.run(APART_S)
    idle, idle_bytes = world.copies, world.bytes
    world.run(2 * APART_S)
    idle, idle_bytes = world.copies - idle, world.bytes - idle_bytes
    copies, carried, latencies = 0, 0, []
    rng = Random(seed)
    for _ in range(messages):
        world.run(world.agenda.now_s + rng.uniform(0.0, SUBRUN_S))
        began_s, before, before_bytes = world.agenda.now_s, world.copies, world.bytes
        read = {name: len(life.seen) for name, life in world.lives.items()}
        sent = [world.multicast(names[at % size], Content(body=bytes(body_bytes))) for at in range(at_once)]
        latencies += _delivered_after(world, sent, read, began_s)
        world.run(began_s + APART_S)
        copies += world.copies - before - idle
        carried += world.bytes - before_bytes - idle_bytes
    deliveries = messages * at_once * size
    return 1_000 * fmean(latencies), max(0, copies) / deliveries, max(0, carried) / deliveries


def _machine(protocol: str, name: str, names: tuple[str, ...], at_once: int) -> Machine:
    settings = Settings(subrun_s=SUBRUN_S, batch=at_once, uniform=False)
    if protocol == "urgc":
        return Urgc(GROUP, name, names, settings)
    if protocol == "urcgc":
        return Urcgc(GROUP, name, names, settings)
    return Views(GROUP, name, names, timing=Timing(tick_s=SUBRUN_S))


def _delivered_after(world: World, sent: list[EventId], read: dict[str, int], began_s: float) -> list[float]:
    """How long it took until everyone had each of these."""
    wanted = set(sent)
    missing = {id: len(world.lives) for id in sent}
    took: list[float] = []
    while missing:
        assert world.agenda.now_s < began_s + 60, "never delivered"
        world.run(world.agenda.next_s())
        for name, life in world.lives.items():
            for each in life.seen[read[name] :]:
                if isinstance(each, Deliver) and each.event.id in wanted:
                    missing[each.event.id] -= 1
                    if not missing[each.event.id]:
                        del missing[each.event.id]
                        took.append(world.agenda.now_s - began_s)
            read[name] = len(life.seen)
    return took


def _claims(rows: list[Row], sizes: list[int]) -> list[Claim]:
    at = {(row["protocol"], row["members"]): row for row in rows}

    def told(column: str, protocol: str) -> str:
        return ", ".join(f"{at[protocol, size][column]:.1f}" for size in sizes)

    def gap(column: str, size: int) -> float:
        return float(at["urgc", size][column]) - float(at["urcgc", size][column])  # type: ignore[arg-type]

    small, large = sizes[0], sizes[-1]
    growth = [float(at["urgc", size]["latency_ms"]) for size in (small, large)]  # type: ignore[arg-type]
    return [
        Claim(
            "latency grows about linearly with the group",
            "latency time roughly grows linearly with the group cardinality (§5, Fig. 3)",
            f"urgc at {', '.join(map(str, sizes))} members: {told('latency_ms', 'urgc')} ms",
            small == large or 1 < growth[1] / growth[0] < 1.5 * large / small,
        ),
        Claim(
            "total order is slower than causal order",
            "urgc is slower than causal ordering, because urcgc does not require that group members agree (§5)",
            f"urcgc {told('latency_ms', 'urcgc')} ms",
            all(gap("latency_ms", size) > 0 for size in sizes),
        ),
        Claim(
            "the difference increases with 2n messages a subrun",
            "the difference between the performances of the two protocols also increases (§5, Fig. 5)",
            f"at {large} members {gap('latency_ms', large):.1f} ms, with 2n {gap('latency_2n_ms', large):.1f} ms",
            gap("latency_2n_ms", large) > gap("latency_ms", large),
        ),
    ]
