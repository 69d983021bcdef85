"""Events a second at the sender with one slow receiver: model, simulation and protocol (000 §5.4.1, figure 5.3).

Three answers to the same question, each assuming less than the one before: `protocol/purging_model.py` knows only how
far apart related messages are, `lab/purging_simulation.py` what is in the buffers, and `lab/slow_consumer.py` runs the
production core.

The section's other figures are reached by parameters; they concern the simulation, the model has no word for them:

    5.5, 5.6   --ratios … --diversity 5 --delays-ms 25 --buffer N, or --reach k (the model knows this one, too)
    5.7        --ratios 0.5 --diversity 5 --policy lazy
    5.8        --ratios 1 --diversity 20 --split 10
    5.9        --ratios 0.5 --diversity 5 --safety-delay-ms 100
"""

from functools import partial
from random import Random
from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_not_negative, check_positive, in_order, numbers, positive
from gossamer.lab.purging_simulation import Policy, simulate
from gossamer.lab.slow_consumer import measure_real
from gossamer.lab.traffic import overwrites, overwriting
from gossamer.messages.errors import UsageError
from gossamer.protocol.purging_model import purgeable_share, rates

CLOSE = 0.05
"""Two columns agree if they differ by less than this share."""
CRITICAL = 0.1
"""A point is near critical load if what has to be taken and what can be differ by less than this share."""
LONGER = 5
"""Near critical load it is rare runs of independent events that slow the sender down: there we look so much longer."""


@experiment(
    "000 Fig 5.3",
    *(
        Panel(column, "delay_ms", (column,), "r", x_label="delay of the slow receiver (ms)", y_label="events/s")
        for column in ("analytical", "simulation", "real")
    ),
    quick={"delays_ms": "10,20,30", "duration_s": 10.0, "processes": 1},
)
def purging_model(
    *,
    sender_rate: float = 100.0,
    buffer: int = 20,
    diversity: int = 1,
    ratios: str = "0,0.25,0.5,0.75",
    delays_ms: str = "5,10,15,20,25,30,35,40",
    duration_s: float = 120.0,
    policy: Policy = "eager",
    split: int = 0,
    safety_delay_ms: float = 0.0,
    reach: int = 0,
    seed: int = 1,
    seeds: int = 1,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """A sender is undisturbed while purging makes up for a slow receiver; beyond that it slows down less (000 §5.4)."""
    check_positive(sender_rate=sender_rate, buffer=buffer, diversity=diversity, duration_s=duration_s)
    check_positive(seeds=seeds, processes=processes)
    check_not_negative(safety_delay_ms=safety_delay_ms, reach=reach, split=split, seed=seed)
    if policy not in ("eager", "lazy"):
        raise UsageError(f"policy: eager or lazy, not {policy!r}")
    shares = numbers("ratios", ratios)
    if not all(0 <= r <= 1 for r in shares):
        raise UsageError(f"ratios: shares from 0 to 1, not {ratios!r}")
    delays = positive("delays_ms", delays_ms)
    points = [(r, delay_ms, each) for r in shares for delay_ms in delays for each in range(seed, seed + seeds)]
    row = partial(
        _row,
        sender_rate=sender_rate,
        buffer=buffer,
        diversity=diversity,
        duration_s=duration_s,
        policy=policy,
        split=split,
        safety_delay_ms=safety_delay_ms,
        reach=reach,
    )
    found = list(in_order(row, points, processes, progress))
    rows = [_mean(found[at : at + seeds]) for at in range(0, len(found), seeds)]
    return rows, [_compared(rows, column) for column in ("simulation", "real")]


def _mean(rows: list[Row]) -> Row:
    """Of one point over its seeds."""
    means = {column: round(fmean(float(row[column]) for row in rows), 2) for column in ("simulation", "real")}  # type: ignore[arg-type]
    return {**rows[0], **means}


def _row(
    r: float,
    delay_ms: float,
    seed: int,
    *,
    sender_rate: float,
    buffer: int,
    diversity: int,
    duration_s: float,
    policy: Policy,
    split: int,
    safety_delay_ms: float,
    reach: int,
) -> Row:
    purgeable = purgeable_share(overwriting(r, diversity), min(buffer, reach or buffer))
    load = sender_rate * delay_ms / 1e3 * (1 - purgeable)
    if abs(load - 1) < CRITICAL:
        duration_s *= LONGER
    # The same traffic for all delays of a curve, so that its shape is not blurred by chance.
    simulated = simulate(
        overwrites(Random(f"{seed}/{r}"), r, diversity),
        sender_rate=sender_rate,
        delay_s=delay_ms / 1e3,
        buffer=buffer,
        split=split,
        policy=policy,
        safety_delay_s=safety_delay_ms / 1e3,
        reach=reach,
        duration_s=duration_s,
    )
    real = measure_real(
        r,
        delay_ms,
        sender_rate=sender_rate,
        buffer=buffer,
        diversity=diversity,
        duration_s=duration_s,
        seed=seed,
    )
    return {
        "r": r,
        "delay_ms": delay_ms,
        "analytical": round(rates(sender_rate, 1e3 / delay_ms, purgeable).sender, 2),
        "simulation": round(simulated.sender_rate, 2),
        "real": round(real, 2),
    }


def _compared(rows: list[Row], column: str) -> Claim:
    """How a column fares against the model."""
    apart = {at: _apart(row, column) for at, row in enumerate(rows)}
    worst = max(apart, key=lambda at: abs(apart[at]))
    close = sum(abs(share) < CLOSE for share in apart.values())
    ours = (
        f"{column} is within {CLOSE:.0%} of the model in {close} of {len(apart)} points, at worst {apart[worst]:+.1%} "
        f"(r {rows[worst]['r']}, {rows[worst]['delay_ms']} ms)"
    )
    return Claim(f"{column} and model agree", "results are sufficiently close (§5.5)", ours, close >= 0.9 * len(apart))


def _apart(row: Row, column: str) -> float:
    measured, modelled = row[column], row["analytical"]
    assert isinstance(measured, float)
    assert isinstance(modelled, float)
    return measured / modelled - 1
