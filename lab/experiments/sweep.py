"""Every point of a figure, over some seeds, in a few processes; means and confidence intervals of what comes out."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice, starmap
from math import isfinite, nan, sqrt
from multiprocessing import get_context
from statistics import fmean, stdev
from typing import Any, TypeVar

from gossamer.lab.experiments.registry import Progress
from gossamer.messages.errors import UsageError

Point = TypeVar("Point")
Outcome = TypeVar("Outcome")

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for 95 %, by degrees of freedom from 1; beyond 9 the normal distribution is close enough."""
NORMAL = 1.96


def sweep(
    measure: Callable[[Point, int], Outcome],
    points: Sequence[Point],
    *,
    seeds: int | Callable[[Point], int],
    processes: int,
    progress: Progress,
    weight: Callable[[Point], float] = lambda _: 0.0,
    fresh: bool = False,
) -> list[list[Outcome]]:
    """`measure(point, seed)` for each point and each seed from 1, as many as there are for it; the outcomes point by
    point. The heaviest go first, so that no processor ends up waiting for another. `fresh`: each in a process of its
    own, whose memory tells something."""
    numbers = [seeds if isinstance(seeds, int) else seeds(point) for point in points]
    check_positive(seeds=min(numbers, default=1), processes=processes)
    jobs = [(point, seed) for point, number in zip(points, numbers, strict=True) for seed in range(1, number + 1)]
    order = sorted(range(len(jobs)), key=lambda place: -weight(jobs[place][0]))
    found = dict(
        zip(order, in_order(measure, [jobs[place] for place in order], processes, progress, fresh), strict=True)
    )
    outcomes = (found[place] for place in range(len(jobs)))
    return [list(islice(outcomes, number)) for number in numbers]


def in_order(
    measure: Callable[..., Outcome],
    jobs: Sequence[tuple[Any, ...]],
    processes: int,
    progress: Progress,
    fresh: bool = False,
) -> Iterator[Outcome]:
    """What `measure` makes of each job, in their order."""
    progress(0, len(jobs))
    if processes == 1 and not fresh:
        for done, outcome in enumerate(starmap(measure, jobs), 1):
            progress(done, len(jobs))
            yield outcome
    else:
        # Another process knows nothing of this one and starts from the code alone.
        with ProcessPoolExecutor(processes, get_context("spawn"), max_tasks_per_child=1 if fresh else None) as pool:
            under_way = [pool.submit(measure, *job) for job in jobs]
            try:
                for done, ended in enumerate(as_completed(under_way), 1):
                    ended.result()
                    progress(done, len(jobs))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        # They have ended, so what they took is known (lab/report.py).
        yield from (ended.result() for ended in under_way)


def largest(holds: Callable[[float], bool], low: float, high: float, step: float) -> float:
    """Up to where something holds, by halving to within `step`; it holds at `low`, and stops holding only once."""
    if holds(high):
        return high
    while high - low > step:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def interval(samples: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the mean; 0 for a single sample, of which nobody knows."""
    if len(samples) < 2:
        return 0.0
    t = STUDENT[len(samples) - 2] if len(samples) - 2 < len(STUDENT) else NORMAL
    return t * stdev(samples) / sqrt(len(samples))


def summary(name: str, samples: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Two columns of a row: the mean, and its interval."""
    return {name: round(fmean(samples), digits), f"{name}_ci": round(interval(samples), digits)}


def numbers(name: str, text: str) -> list[float]:
    """A parameter that is a list: numbers with commas between them."""
    try:
        listed = [float(each) for each in text.split(",")]
    except ValueError:
        listed = [nan]
    if not all(map(isfinite, listed)):
        raise UsageError(f"{name}: numbers with commas between them, not {text!r}")
    return listed


def positive(name: str, text: str) -> list[float]:
    listed = numbers(name, text)
    if not all(each > 0 for each in listed):
        raise UsageError(f"{name}: positive, not {text!r}")
    return listed


def check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (isfinite(value) and value > 0):
            raise UsageError(f"{name}: positive, not {value}")


def check_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not (isfinite(value) and value >= 0):
            raise UsageError(f"{name}: not negative, not {value}")
