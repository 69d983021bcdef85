"""How purging is done: eager or lazy, in one buffer or two, at once or when safe (000 §5.4.1, figures 5.7 to 5.9).

All three are the paper's simulation, as they are in the paper (`lab/purging_simulation.py`).
"""

from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, interval, positive, sweep
from gossamer.lab.purging_simulation import Policy, simulate
from gossamer.lab.traffic import overwrites


@dataclass(frozen=True, slots=True)
class Point:
    figure: str
    curve: str
    delay_ms: float
    r: float = 0.5
    d: int = 5
    buffer: int = 20
    split: int = 0
    policy: Policy = "eager"
    safety_delay_ms: float = 0.0


def _points(delays_ms: list[float]) -> list[Point]:
    points = []
    for delay_ms in delays_ms:
        points += [
            Point("5.7", "eager", delay_ms),
            Point("5.7", "lazy", delay_ms, policy="lazy"),
            Point("5.8", "N = 10", delay_ms, 1.0, 20, 10),
            Point("5.8", "N = 10 + 10", delay_ms, 1.0, 20, 20, 10),
            Point("5.8", "N = 20", delay_ms, 1.0, 20, 20),
            *(Point("5.9", f"{safety_ms} ms", delay_ms, safety_delay_ms=safety_ms) for safety_ms in (0, 100, 200, 400)),
        ]
    return sorted(points, key=lambda point: (point.figure, point.curve))


@experiment(
    "000 Fig 5.7–5.9",
    Panel("5.7(a) throughput", "delay_ms", ("sender",), "curve", {"figure": "5.7"}, "delay (ms)", "messages/s"),
    Panel("5.7(b) buffer usage", "delay_ms", ("occupancy",), "curve", {"figure": "5.7"}, "delay (ms)", "messages"),
    Panel("5.8(a) throughput", "delay_ms", ("sender",), "curve", {"figure": "5.8"}, "delay (ms)", "messages/s"),
    Panel("5.8(b, c) purged", "delay_ms", ("purged_share",), "curve", {"figure": "5.8"}, "delay (ms)", "share"),
    Panel("5.9 safety delay", "delay_ms", ("sender",), "curve", {"figure": "5.9"}, "delay (ms)", "messages/s"),
    quick={"duration_s": 60.0, "seeds": 1},
)
def purging_details(
    *,
    delays_ms: str = "5,10,15,20,25,30,40",
    duration_s: float = 300.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """Eager purging keeps buffers low, one buffer is worth more than its halves, and waiting for safety costs."""
    check_positive(duration_s=duration_s)
    points = _points(positive("delays_ms", delays_ms))
    run = partial(measure_point, duration_s=duration_s)
    rows: list[Row] = []
    found = sweep(run, points, seeds=seeds, processes=processes, progress=progress)
    for point, samples in zip(points, found, strict=True):
        senders = [sender for sender, _, _ in samples]
        rows.append(
            {
                "figure": point.figure,
                "curve": point.curve,
                "delay_ms": point.delay_ms,
                "sender": round(fmean(senders), 2),
                "sender_ci": round(interval(senders), 2),
                "occupancy": round(fmean(occupancy for _, occupancy, _ in samples), 2),
                "purged_share": round(fmean(purged for _, _, purged in samples), 3),
            }
        )
    return rows, _claims(rows)


def measure_point(point: Point, seed: int, *, duration_s: float) -> tuple[float, float, float]:
    outcome = simulate(
        overwrites(Random(f"{seed}/{point.r}/{point.d}"), point.r, point.d),
        delay_s=point.delay_ms / 1e3,
        buffer=point.buffer,
        split=point.split,
        policy=point.policy,
        safety_delay_s=point.safety_delay_ms / 1e3,
        duration_s=duration_s,
    )
    return outcome.sender_rate, outcome.slow.occupancy, outcome.slow.purged_share


def _claims(rows: list[Row]) -> list[Claim]:
    found = {(row["figure"], row["curve"], row["delay_ms"]): row for row in rows}

    def at(figure: str, curve: str, column: str = "sender", delay_ms: float = 20.0) -> float:
        return float(found[figure, curve, delay_ms][column] or 0.0)

    if ("5.7", "eager", 20.0) not in found or ("5.7", "eager", 15.0) not in found:
        return []
    used = {curve: at("5.7", curve, "occupancy", 15.0) for curve in ("eager", "lazy")}
    far_ms = 30.0 if ("5.8", "N = 20", 30.0) in found else 20.0
    split = [at("5.8", curve, delay_ms=far_ms) for curve in ("N = 10", "N = 10 + 10", "N = 20")]
    safety = [at("5.9", f"{ms} ms") for ms in (0, 100, 200, 400)]
    return [
        Claim(
            "while purging is enough, eager purging keeps the buffer low, lazy purging fills it",
            "Fig 5.7(b), delays from 10 to 20 ms",
            f"at 15 ms {used['eager']:.1f} of 20 places with eager, {used['lazy']:.1f} with lazy purging",
            used["eager"] < 0.75 * used["lazy"],
        ),
        Claim(
            "two buffers of 10 are better than one, and not as good as one of 20",
            "Fig 5.8",
            f"at {far_ms:g} ms {split[0]:.0f}, {split[1]:.0f} and {split[2]:.0f} messages/s",
            split[0] <= split[1] < split[2],
        ),
        Claim(
            "the longer safety takes, the less is purged",
            "Fig 5.9",
            f"at 20 ms {', '.join(f'{rate:.0f}' for rate in safety)} messages/s for 0, 100, 200, 400 ms",
            sorted(safety, reverse=True) == safety and safety[0] > safety[-1],
        ),
    ]
