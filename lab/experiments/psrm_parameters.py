"""What buffers and traffic have to do with the highest rate that gets through (003 §4.4, figure 4).

The highest rate is searched by halving, as in the paper: the largest at which `goal` of the never obsolete messages
reach more than 95 % of the members, to within `step`. The paper does not name its goal; a gossip of four rounds of five
reaches so many in about 97 of 100 cases when nothing is in its way, so it cannot be all.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import fmean

from gossamer.lab import epidemic
from gossamer.lab.epidemic import Load, Policy
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, interval, largest, numbers, sweep
from gossamer.messages.errors import UsageError

SMALL_BUFFER = 3
"""With which the paper varies d."""

Point = tuple[str, float, Policy]


@experiment(
    "003 Fig 4",
    Panel(
        "(a) buffer size", "value", ("max_rate",), "policy", {"parameter": "buffer"}, "messages a link", "messages/s"
    ),
    Panel("(b) diversity d, buffer 3", "value", ("max_rate",), "policy", {"parameter": "d"}, "d", "messages/s"),
    Panel("(c) chain length l", "value", ("max_rate",), "policy", {"parameter": "l"}, "l", "messages/s"),
    Panel("(d) ratio r", "value", ("max_rate",), "policy", {"parameter": "r"}, "r", "messages/s"),
    quick={
        "buffers": "1,10",
        "diversities": "1,10",
        "lengths": "1,5",
        "ratios": "0,1",
        "goal": 0.6,
        "step": 4.0,
        "rate_max": 40.0,
        "nodes": 12,
        "network_mbps": 0.24,
        "duration_s": 14.0,
        "margin_s": 4.0,
        "seeds": 1,
        "processes": 1,
    },
)
def psrm_parameters(
    *,
    buffers: str = "1,3,5,10,20",
    diversities: str = "1,5,10,20",
    lengths: str = "1,2,5,10",
    ratios: str = "0,0.5,1",
    policies: str = "eager",
    goal: float = 0.7,
    step: float = 5.0,
    rate_max: float = 80.0,
    nodes: int = 12,
    network_mbps: float = 0.48,
    duration_s: float = 16.0,
    margin_s: float = 4.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """A small buffer is enough; diversity costs gradually, longer chains and more related messages gain throughput."""
    check_positive(step=step, network_mbps=network_mbps, rate_max=rate_max, duration_s=duration_s, margin_s=margin_s)
    if nodes < 2 or 2 * margin_s >= duration_s or not 0 < goal <= 1:
        raise UsageError("at least two nodes, margins shorter than half the run, and a goal that is a share")
    known: tuple[Policy, ...] = ("random", "lazy", "eager")
    chosen = [policy for policy in known if policy in policies.split(",")]
    if not chosen:
        raise UsageError(f"policies: some of random,lazy,eager, not {policies!r}")
    points: list[Point] = [
        (parameter, value, policy)
        for policy in chosen
        for parameter, values in (("buffer", buffers), ("d", diversities), ("l", lengths), ("r", ratios))
        for value in (numbers(parameter, values) if values else ())
    ]
    run = partial(
        max_rate,
        goal=goal,
        step=step,
        rate_max=rate_max,
        nodes=nodes,
        bps=epidemic.link_bps(nodes, network_mbps),
        duration_s=duration_s,
        margin_s=margin_s,
    )
    rows: list[Row] = [
        {
            "parameter": parameter,
            "value": value,
            "policy": policy,
            "max_rate": round(fmean(found), 1),
            "max_rate_ci": round(interval(found), 1),
        }
        for (parameter, value, policy), found in zip(
            points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True
        )
    ]
    return rows, [
        _claim(rows, chosen[-1], *each) for each in EXPECTED if any(row["parameter"] == each[0] for row in rows)
    ]


def max_rate(
    point: Point,
    seed: int,
    *,
    goal: float,
    step: float,
    rate_max: float,
    nodes: int,
    bps: float,
    duration_s: float,
    margin_s: float,
) -> float:
    """The highest rate at which enough gets through, by halving."""
    parameter, value, policy = point
    buffer = int(value) if parameter == "buffer" else SMALL_BUFFER if parameter == "d" else 10
    load = Load(
        0.0,
        r=value if parameter == "r" else 1.0,
        d=int(value) if parameter == "d" else 1,
        l=int(value) if parameter == "l" else 5,
    )
    config = epidemic.pushing(bps, policy, buffer)

    def gets_through(rate: float) -> bool:
        outcome = epidemic.run(
            replace(load, rate=rate), config, seed, nodes=nodes, duration_s=duration_s, margin_s=margin_s
        )
        return outcome.share >= goal

    return largest(gets_through, 0.0, rate_max, step)


EXPECTED = (
    ("buffer", "there is a smallest buffer with the best throughput; more gains nothing", "Fig 4(a)", 1, 0.9),
    ("d", "more diversity costs throughput, not suddenly", "Fig 4(b)", -1, 0.3),
    ("l", "longer chains gain throughput", "Fig 4(c)", 1, 0.9),
    ("r", "more related messages gain throughput", "Fig 4(d)", 1, 0.9),
)


def _claim(rows: list[Row], policy: str, parameter: str, claim: str, paper: str, sign: int, keeps: float) -> Claim:
    """`sign`: up or down along the curve; `keeps`: how much of it is left at least from one point to the next."""
    curve = [row for row in rows if (row["parameter"], row["policy"]) == (parameter, policy)]
    found = [float(row["max_rate"] or 0) for row in curve]
    gradual = all(after >= keeps * before for before, after in pairwise(found))
    return Claim(
        claim,
        f"{paper}, §4.4",
        ", ".join(f"{row['value']:g}: {rate:g}" for row, rate in zip(curve, found, strict=True)) + " messages/s",
        len(found) < 2 or ((found[-1] - found[0]) * sign > 0 and gradual),
    )
