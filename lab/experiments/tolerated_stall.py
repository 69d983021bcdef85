"""For how long a receiver may stop altogether before the sender feels it (000 §5.4.3 and §6.4, figures 5.13 and 6.4).

The paper does not stop a receiver. It divides the buffer by the rate that a receiver needs in the long run not to
disturb the sender, as if as much were purged from the first moment as in a full buffer (`estimate_ms`). Beside it stand
two measurements: the production purging buffer by itself, filled until it has no room, and the production core, in
which a consumer stops and the publisher goes on until it is refused. The core adds the event that the consumer is at.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from random import Random
from statistics import fmean

from gossamer.lab.experiments.quake import DISTURBED, needed_rate
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, Value, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, interval, largest, positive, sweep
from gossamer.lab.purging_simulation import simulate
from gossamer.lab.slow_consumer import tolerated_s
from gossamer.lab.traffic import game, overwrites, round_start_s
from gossamer.messages.event import Content, Head
from gossamer.protocol.purging import PurgingBuffer

RATE = 100.0
R, D = 0.5, 5
CLOSE = 0.1
"""How far from the paper's figures ours may be, as a share."""
LONGER = 1.25
WARMUP_S = 1.0
ESTIMATE_S = 60.0
MESSAGES, GAME_TURNS = 2_000, 1_000
"""More than any of these buffers can take."""


@dataclass(frozen=True, slots=True)
class Point:
    traffic: str
    """`model` is figure 5.13, `quake` figure 6.4."""
    curve: str
    buffer: int


@experiment(
    "000 Fig 5.13, 6.4",
    Panel("5.13(b) model traffic", "buffer", ("core_ms",), "curve", {"traffic": "model"}, "buffer", "tolerated (ms)"),
    Panel("6.4(b) game traffic", "buffer", ("core_ms",), "curve", {"traffic": "quake"}, "buffer", "tolerated (ms)"),
    quick={"buffers": "20,24", "stalls": 2, "seeds": 1, "processes": 1},
)
def tolerated_stall(
    *,
    buffers: str = "8,20,24,32",
    stalls: int = 5,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """With the same buffer, semantic reliability tolerates a receiver that stops for about twice as long."""
    check_positive(stalls=stalls)
    points = [
        Point(traffic, curve, int(buffer))
        for traffic in ("model", "quake")
        for curve in ("reliable", "semantic")
        for buffer in positive("buffers", buffers)
    ]
    rows: list[Row] = []
    jobs = [(point, stalls) for point in points]
    for (point, _), samples in zip(
        jobs, sweep(measure_point, jobs, seeds=seeds, processes=processes, progress=progress), strict=True
    ):
        core = [core_ms for _, core_ms in samples]
        rows.append(
            {
                "traffic": point.traffic,
                "curve": point.curve,
                "buffer": point.buffer,
                "buffer_ms": round(fmean(alone_ms for alone_ms, _ in samples), 1),
                "core_ms": round(fmean(core), 1),
                "core_ms_ci": round(interval(core), 1),
                "estimate_ms": round(estimate_ms(point), 1),
            }
        )
    return rows, _claims(rows)


def measure_point(point: tuple[Point, int], seed: int) -> tuple[float, float]:
    """How long the buffer by itself, and the core, stand a stall, on average over so many."""
    at, stalls = point
    purging = at.curve == "semantic"
    alone_s, core_s = [], []
    for number in range(stalls):
        rng = Random(f"{seed}/{number}/{at.traffic}")  # reliable and semantic see the same
        stop_s = WARMUP_S + rng.random()
        contents = _contents(at.traffic, rng)
        pace = round_start_s if at.traffic == "quake" else None
        due_s = [pace(content) if pace else place / RATE for place, content in enumerate(contents)]
        left = [(due_s - stop_s, content) for due_s, content in zip(due_s, contents, strict=True) if due_s >= stop_s]
        alone_s.append(fill_s(left, at.buffer, purging))
        core_s.append(
            tolerated_s(
                iter(contents), stop_s, sender_rate=RATE, buffer=at.buffer, seed=seed, purging=purging, pace=pace
            )
        )
    return 1e3 * fmean(alone_s), 1e3 * fmean(core_s)


def estimate_ms(point: Point) -> float:
    """As the paper does it."""
    purging = point.curve == "semantic"
    if point.traffic == "quake":
        return 1e3 * point.buffer / needed_rate(point.buffer, purging, 1, ESTIMATE_S)

    def undisturbed(delay_ms: float) -> bool:
        said = overwrites(Random("1"), R if purging else 0.0, D)
        outcome = simulate(said, delay_s=delay_ms / 1e3, buffer=point.buffer, duration_s=ESTIMATE_S)
        return outcome.sender_rate > DISTURBED * RATE

    return point.buffer * largest(undisturbed, 2.0, 60.0, 0.1)


def _contents(traffic: str, rng: Random) -> list[Content]:
    return list(game(rng, GAME_TURNS)) if traffic == "quake" else list(islice(overwrites(rng, R, D), MESSAGES))


def fill_s(said: Iterable[tuple[float, Content]], buffer: int, purging: bool) -> float:
    """How long until a buffer of which nobody takes anything refuses what comes."""
    queue = PurgingBuffer(buffer, semantic="eager" if purging else "off", overflow="refuse")
    for number, (at_s, content) in enumerate(said):
        head = Head(content.key, content.rank, content.relation, content.time_ns)
        omissions = queue.append("default/~a.0", number, head, 1, None)
        if omissions and omissions[-1].refused:
            return at_s
    raise AssertionError("it never fills")


def _claims(rows: list[Row]) -> list[Claim]:
    claims = []
    for traffic, buffer, strict, semantic in (("model", 20, 212, 377), ("quake", 24, 342, 857)):
        stopped, estimated = (
            {
                row["curve"]: float(row[column] or 0)
                for row in rows
                if (row["traffic"], row["buffer"]) == (traffic, buffer)
            }
            for column in ("core_ms", "estimate_ms")
        )
        if not stopped:
            continue
        claims += [
            Claim(
                f"{traffic} traffic, N = {buffer}: by the rate that a receiver needs, purging tolerates a longer stall",
                f"{strict} and {semantic} ms, {semantic / strict:.2f} times as long",
                _told(estimated),
                abs(estimated["reliable"] / strict - 1) < CLOSE and abs(estimated["semantic"] / semantic - 1) < CLOSE,
            ),
            Claim(
                f"{traffic} traffic, N = {buffer}: a receiver that really stops is tolerated for longer",
                "not tried: its figure is the buffer divided by that rate (§5.4.3)",
                _told(stopped),
                stopped["semantic"] > LONGER * stopped["reliable"],
            ),
        ]
    return claims


def _told(ms: dict[Value, float]) -> str:
    return f"{ms['reliable']:.0f} and {ms['semantic']:.0f} ms, {ms['semantic'] / ms['reliable']:.2f} times as long"
