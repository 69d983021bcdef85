"""The case study: the state of a game server, multicast to a slow replica (000 §6.3, §6.4, figures 6.2 to 6.5).

The trace is synthetic (`traffic.game`): it has the published averages, and what was not published is a guess. A round's
messages come at once, every 31 ms. The production core carries it, with the prototype's 40 places a receiver.

Rows of four kinds: `6.2` has the trace's statistics; `6.3` the sender's rate and what is purged, by the receiver's
delay; `6.4` the largest delay that costs the sender less than 5 %, by the buffer; `6.5` after how many rounds the
receiver has the update of an item, or a newer one.
"""

from bisect import bisect_right
from collections import Counter
from functools import partial
from random import Random
from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, interval, largest, positive, sweep
from gossamer.lab.slow_consumer import Measured, measure
from gossamer.lab.traffic import GAME_ROUNDS, GAME_S, game, never_obsolete, round_start_s
from gossamer.protocol.purging_model import distances

BUFFER = 40
WARMUP_S = 5.0
DISTURBED = 0.95
ROUND_S = GAME_S / GAME_ROUNDS
HISTOGRAM = (0, 1, 2, 5, 10, 20, 50)

Point = tuple[str, str, float, int]
"""Figure, curve, delay and buffer."""


@experiment(
    "000 Fig 6.2–6.5",
    Panel("6.2(b) distance of related messages", "x", ("value",), None, {"figure": "6.2"}, "messages", "share within"),
    Panel("6.3(a) throughput", "x", ("value",), "curve", {"figure": "6.3 rate"}, "delay (ms)", "share of the input"),
    Panel("6.3(b) purged", "x", ("value",), "curve", {"figure": "6.3 purged"}, "delay (ms)", "share"),
    Panel("6.4(a) tolerated delay", "x", ("value",), "curve", {"figure": "6.4"}, "buffer", "messages/s needed"),
    Panel("6.5 staleness", "x", ("value",), "curve", {"figure": "6.5"}, "rounds", "share of updates within"),
    quick={"delays_ms": "10,20,30", "buffers": "", "duration_s": 20.0, "processes": 1},
)
def quake(
    *,
    delays_ms: str = "10,20,30,40",
    buffers: str = "8,24,40",
    duration_s: float = 30.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """A replica with a third of the throughput is accommodated, with about half the traffic purged (000 §6)."""
    check_positive(duration_s=duration_s)
    delays = positive("delays_ms", delays_ms)
    points: list[Point] = [("6.3", curve, delay, BUFFER) for curve in ("reliable", "semantic") for delay in delays]
    points += [
        ("6.4", curve, 0.0, int(buffer))
        for curve in ("reliable", "semantic")
        for buffer in (positive("buffers", buffers) if buffers else ())
    ]
    run = partial(measure_point, duration_s=duration_s)
    rows, claims = _statistics()
    found = dict(zip(points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True))
    for name in ("rate", "purged"):
        for (figure, curve, delay_ms, _), outcomes in found.items():
            if figure == "6.3":
                rows.append(_row(f"6.3 {name}", curve, delay_ms, [outcome[name] for outcome in outcomes]))
    for (figure, curve, _, buffer), outcomes in found.items():
        if figure == "6.4":
            rows.append(_row("6.4", curve, buffer, [outcome["needed"] for outcome in outcomes]))
    for (figure, curve, delay_ms, _), outcomes in found.items():
        if figure == "6.3" and curve == "semantic" and delay_ms in (10.0, 20.0, 30.0):
            for rounds in HISTOGRAM:
                within = [outcome[f"within {rounds}"] for outcome in outcomes]
                rows.append(_row("6.5", f"{delay_ms:g} ms", rounds, within))
    return rows, claims + _claims(rows)


def measure_point(point: Point, seed: int, *, duration_s: float) -> dict[str, float]:
    figure, curve, delay_ms, buffer = point
    purging = curve == "semantic"
    if figure == "6.4":
        return {"needed": needed_rate(buffer, purging, seed, duration_s)}
    measured, offered = _run(delay_ms, seed=seed, purging=purging, buffer=buffer, duration_s=duration_s)
    return {
        "rate": measured.rate / offered,
        "purged": len(measured.slow.omitted) / len(measured.published),
        **_staleness(measured),
    }


def _run(delay_ms: float, *, seed: int, purging: bool, buffer: int, duration_s: float) -> tuple[Measured, float]:
    """What the core makes of it, and how many messages a second there were to send."""
    rounds = int((WARMUP_S + duration_s) / ROUND_S)
    trace = list(game(Random(f"game/{seed}"), rounds + 1))
    offered = sum(WARMUP_S <= round_start_s(content) < WARMUP_S + duration_s for content in trace) / duration_s
    measured = measure(
        iter(trace),
        delay_ms,
        buffer=buffer,
        duration_s=duration_s,
        warmup_s=WARMUP_S,
        seed=seed,
        purging=purging,
        pace=round_start_s,
    )
    return measured, offered


def needed_rate(buffer: int, purging: bool, seed: int, duration_s: float) -> float:
    """Messages a second that the receiver has to take for the sender to lose less than 5 %."""

    def undisturbed(delay_ms: float) -> bool:
        measured, offered = _run(delay_ms, seed=seed, purging=purging, buffer=buffer, duration_s=duration_s)
        return measured.rate > DISTURBED * offered

    return 1e3 / largest(undisturbed, 2.0, 60.0, 1.0)


def _staleness(measured: Measured) -> dict[str, float]:
    """Which share of updates has arrived, or has been replaced by a newer one that has, within so many rounds."""
    arrived: dict[str, list[tuple[int, float]]] = {}
    for event, at_s in zip(measured.slow.applied, measured.slow.applied_s, strict=True):
        key = measured.published[event.seq].key
        if key is not None:
            arrived.setdefault(key, []).append((event.seq, at_s))
    late = []
    for seq, (content, said_s) in enumerate(zip(measured.published, measured.published_s, strict=True)):
        if content.key is not None:
            came = arrived[content.key]
            late.append((came[bisect_right(came, (seq - 1, float("inf")))][1] - said_s) / ROUND_S)
    return {f"within {rounds}": fmean(each < rounds + 1 for each in late) for rounds in HISTOGRAM}


def _row(figure: str, curve: str, x: float, samples: list[float]) -> Row:
    return {
        "figure": figure,
        "curve": curve,
        "x": x,
        "value": round(fmean(samples), 3),
        "value_ci": round(interval(samples), 3),
    }


def _statistics() -> tuple[list[Row], list[Claim]]:
    """Of one session of the published length."""
    trace = list(game(Random("game/1")))
    updates = [content for content in trace if content.key is not None]
    lasting = fmean(never_obsolete(trace))
    related = [distance for distance in distances(trace) if distance]
    within = Counter(min(distance, 100) for distance in related)
    rows = [
        _row("6.2", "related within", upto, [sum(within[x] for x in range(1, upto + 1)) / len(related)])
        for upto in (1, 2, 5, 10, 20, 40, 80)
    ]
    close = float(rows[3]["value"] or 0)
    return rows, [
        Claim(
            "the trace has the published statistics",
            "11,696 rounds; 1.39 items modified a round; 41.88 % never obsolete; pairs often within 10 (§6.3)",
            f"{GAME_ROUNDS:,} rounds; {len(updates) / GAME_ROUNDS:.2f}; {lasting:.2%}; {close:.0%} of pairs within 10",
            abs(len(updates) / GAME_ROUNDS - 1.39) < 0.05 and abs(lasting - 0.4188) < 0.02 and close > 0.5,
        )
    ]


def _claims(rows: list[Row]) -> list[Claim]:
    found = {(row["figure"], row["curve"], row["x"]): float(row["value"] or 0) for row in rows}
    claims = []
    if ("6.3 rate", "semantic", 30.0) in found:
        kept, purged = found["6.3 rate", "semantic", 30.0], found["6.3 purged", "semantic", 30.0]
        reliable = found["6.3 rate", "reliable", 30.0]
        claims.append(
            Claim(
                "a delay of 30 ms is accommodated, with half of the traffic purged",
                "no impact on the sender up to 30 ms, 51.14 % purged (§6.4)",
                f"{kept:.0%} of the input, {purged:.1%} purged; without purging {reliable:.0%}",
                kept > 0.95 and 0.4 < purged < 0.6 and reliable < 0.6,
            )
        )
    if ("6.5", "10 ms", 0) in found:
        at_once, ten = found["6.5", "10 ms", 0], found["6.5", "10 ms", 10]
        claims.append(
            Claim(
                "at 10 ms most updates arrive within a round",
                "78 % within a single round, 94 % within 10 rounds (§6.4)",
                f"{at_once:.0%} within a round, {ten:.0%} within 10",
                at_once > 0.6 and ten > 0.9,
            )
        )
    if ("6.4", "semantic", 24) in found:
        semantic, reliable = found["6.4", "semantic", 24], found["6.4", "reliable", 24]
        claims.append(
            Claim(
                "a slower receiver is tolerated with the same buffer",
                "about one third of the throughput (§6.5); without purging more than the average, for the bursts",
                f"N = 24: {semantic:.0f} messages/s needed with purging, {reliable:.0f} without",
                semantic < 0.75 * reliable,
            )
        )
    return claims
