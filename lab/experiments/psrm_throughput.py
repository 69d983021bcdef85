"""How much of what matters gets through a congested network (003 §4.4, figure 3).

`random`, `lazy` and `eager` are the production core with that link policy and, as in the paper, without repair; `plain`
is push gossip without anything of ours (lab/baselines/push.py), so that it can be seen that `random` is no straw man;
`ours` is the core as it is meant to run, with repair, marks and a logger on the same thin links. In `ours` a message
counts when it is delivered, in its publisher's order; in the others when it comes in.
"""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from gossamer.lab import epidemic
from gossamer.lab.baselines.push import PushGossip
from gossamer.lab.epidemic import Load, Outcome
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, summary, sweep
from gossamer.messages.errors import UsageError

POLICIES = ("random", "lazy", "eager", "plain", "ours")
OVERLOAD = 2.0
"""The paper's text speaks of 100 messages/s, which is twice what the network carries."""


@experiment(
    "003 Fig 3",
    Panel("(a) receivers of never obsolete messages", "rate", ("receivers",), "policy", x_label="messages/s"),
    Panel("(b) coefficient of variation of (a)", "rate", ("variation",), "policy", x_label="messages/s"),
    Panel("(c) delivered to more than 95 %", "rate", ("share",), "policy", x_label="messages/s"),
    Panel("(d) latency", "rate", ("latency_ms",), "policy", x_label="messages/s", y_label="ms"),
    minutes=30,
    quick={
        "rates": "2,5,10,20",
        "nodes": 12,
        "network_mbps": 0.24,
        "duration_s": 14.0,
        "margin_s": 4.0,
        "seeds": 1,
        "processes": 1,
    },
)
def psrm_throughput(
    *,
    rates: str = "10,50,100,250",
    policies: str = "random,lazy,eager",
    nodes: int = epidemic.NODES,
    network_mbps: float = epidemic.NETWORK_MBPS,
    buffer: int = 10,
    r: float = 1.0,
    d: int = 1,
    l: int = 5,  # noqa: E741 (the paper's)
    senders: int = 1,
    duration_s: float = epidemic.DURATION_S,
    margin_s: float = epidemic.MARGIN_S,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """Semantic purging keeps never obsolete messages intact where random purging has collapsed (003 §4.4)."""
    chosen = policies.split(",")
    if not set(chosen) <= set(POLICIES):
        raise UsageError(f"policies: some of {','.join(POLICIES)}, not {policies!r}")
    check_positive(nodes=nodes, network_mbps=network_mbps, buffer=buffer, d=d, l=l, senders=senders)
    check_positive(duration_s=duration_s, margin_s=margin_s)
    if nodes < 2 or senders > nodes or 2 * margin_s >= duration_s or not 0 <= r <= 1:
        raise UsageError("at least two nodes, no more senders than nodes, margins shorter than half the run, r a share")
    points = [(policy, Load(rate, r, d, l, senders)) for policy in chosen for rate in positive("rates", rates)]
    bps = epidemic.link_bps(nodes, network_mbps)
    run = partial(measure, nodes=nodes, bps=bps, buffer=buffer, duration_s=duration_s, margin_s=margin_s)
    rows = [
        _row(policy, load, outcomes)
        for (policy, load), outcomes in zip(
            points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True
        )
    ]
    capacity = 1e6 * network_mbps / (8 * epidemic.MESSAGE_BYTES * epidemic.FANOUT * nodes)
    return rows, _claims(rows, OVERLOAD * capacity)


def measure(
    point: tuple[str, Load], seed: int, *, nodes: int, bps: float, buffer: int, duration_s: float, margin_s: float
) -> Outcome:
    policy, load = point
    how = partial(epidemic.run, load, seed=seed, nodes=nodes, duration_s=duration_s, margin_s=margin_s)
    match policy:
        case "plain":
            return how(config=epidemic.pushing(bps, "random", buffer), factory=PushGossip)
        case "ours":
            return how(config=epidemic.pushing(bps, "eager", buffer, round_s=epidemic.ROUND_S), logger=True)
        case "random" | "lazy" | "eager":
            return how(config=epidemic.pushing(bps, policy, buffer))
    raise AssertionError(policy)


def _row(policy: str, load: Load, outcomes: Sequence[Outcome]) -> Row:
    return {
        "rate": load.rate,
        "policy": policy,
        **summary("share", [each.share for each in outcomes]),
        **summary("latency_ms", [each.latency_ms for each in outcomes], 1),
        "receivers": round(fmean(each.receivers for each in outcomes), 3),
        "variation": round(fmean(each.variation for each in outcomes), 3),
    }


def _claims(rows: Sequence[Row], overload: float) -> list[Claim]:
    """What is said of twice the rate that the network carries, at the rate next to it."""
    rates = sorted({float(row["rate"] or 0) for row in rows})
    low, high = rates[0], min(rates, key=lambda rate: abs(rate - overload))
    share, latency_ms = (
        {(row["policy"], row["rate"]): float(row[name] or 0) for row in rows} for name in ("share", "latency_ms")
    )
    claims: list[Claim] = []
    if {("eager", high), ("random", high)} <= share.keys():
        claims.append(
            Claim(
                "where random purging has collapsed, eager purging is (nearly) intact",
                "at 100 messages/s intact against 20 % (§4.4)",
                f"at {high:g} messages/s eager {share['eager', high]:.0%}, random {share['random', high]:.0%}",
                share["eager", high] >= 0.85 and share["random", high] <= 0.4,
            )
        )
    if {("eager", high), ("lazy", high)} <= share.keys():
        claims.append(
            Claim(
                "eager purging has the better latency",
                "by eliminating transmission of as much obsolete messages as possible (§4.4)",
                f"at {high:g} messages/s {latency_ms['eager', high]:.0f} ms, lazy {latency_ms['lazy', high]:.0f} ms",
                latency_ms["eager", high] < latency_ms["lazy", high],
            )
        )
    claims += [
        Claim(
            f"latency rises only when the network is congested ({policy})",
            "introduced only when the system is congested (§4.4)",
            ", ".join(f"{rate:g}/s {latency_ms[policy, rate]:.0f} ms" for rate in rates),
            latency_ms[policy, rates[-1]] > 1.3 * latency_ms[policy, low],
        )
        for policy in ("random", "eager")
        if (policy, high) in latency_ms and low < high
    ]
    return claims
