"""What the naive composition costs an idle system (003 §4.3, figure 2).

At 10 messages a second the network is a fifth full. The naive protocol purges in its gossip buffer, so it needs a
period long enough to find something there, and pays for it with or without congestion. Ours relays at once and purges
only what waits for a busy link; its period is that of the rounds of repair, and is varied just the same, with repair
and a logger on.
"""

from functools import partial

from gossamer.lab import epidemic
from gossamer.lab.baselines.naive import NaivePsrm
from gossamer.lab.epidemic import Load, Outcome
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, summary, sweep
from gossamer.lab.topology import full
from gossamer.messages.errors import UsageError

PROTOCOLS = ("naive", "ours")


@experiment(
    "003 Fig 2",
    Panel("(a) delivered to more than 95 %", "period_s", ("share_of_all",), "protocol", x_label="gossip period (s)"),
    Panel("(b) latency", "period_s", ("latency_ms",), "protocol", x_label="gossip period (s)", y_label="ms"),
    quick={
        "periods_s": "0.1,1",
        "rate": 2.0,
        "nodes": 12,
        "network_mbps": 0.24,
        "duration_s": 14.0,
        "margin_s": 4.0,
        "seeds": 1,
        "processes": 1,
    },
)
def psrm_naive(
    *,
    periods_s: str = "0.1,0.5,2",
    rate: float = 10.0,
    nodes: int = epidemic.NODES,
    network_mbps: float = epidemic.NETWORK_MBPS,
    buffer: int = 10,
    duration_s: float = 24.0,
    margin_s: float = 6.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """Purging in the gossip buffer needs a longer period, which costs a lightly loaded system delivery and latency."""
    check_positive(rate=rate, network_mbps=network_mbps, buffer=buffer, duration_s=duration_s, margin_s=margin_s)
    if nodes < 2 or 2 * margin_s >= duration_s:
        raise UsageError("at least two nodes, and margins shorter than half the run")
    points = [(protocol, period_s) for protocol in PROTOCOLS for period_s in positive("periods_s", periods_s)]
    bps = epidemic.link_bps(nodes, network_mbps)
    run = partial(measure, rate=rate, nodes=nodes, bps=bps, buffer=buffer, duration_s=duration_s, margin_s=margin_s)
    rows: list[Row] = [
        {
            "period_s": period_s,
            "protocol": protocol,
            **summary("share_of_all", [each.share_of_all for each in outcomes]),
            **summary("share", [each.share for each in outcomes]),
            **summary("latency_ms", [each.latency_ms for each in outcomes], 1),
        }
        for (protocol, period_s), outcomes in zip(
            points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True
        )
    ]
    return rows, _claims(rows)


def measure(
    point: tuple[str, float],
    seed: int,
    *,
    rate: float,
    nodes: int,
    bps: float,
    buffer: int,
    duration_s: float,
    margin_s: float,
) -> Outcome:
    protocol, period_s = point
    how = partial(epidemic.run, Load(rate), seed=seed, nodes=nodes, duration_s=duration_s, margin_s=margin_s)
    config = epidemic.pushing(bps, "eager", buffer, round_s=period_s)
    if protocol == "ours":
        return how(config=config, logger=True)
    network = full(
        nodes, epidemic.LATENCY_S, bandwidth_bps=bps, queue_packets_max=buffer
    )  # without a tier that admits, the network queues, and drops
    return how(config=config, factory=NaivePsrm, topology=network)


def _claims(rows: list[Row]) -> list[Claim]:
    claims = []
    for protocol, paper in (
        ("naive", "delivery decreases and latency increases with the period (§4.3)"),
        ("ours", "latency only when the load exceeds the capacity (§4.5)"),
    ):
        curve = [row for row in rows if row["protocol"] == protocol]
        delivered, latencies_ms = ([float(row[name] or 0) for row in curve] for name in ("share_of_all", "latency_ms"))
        costs = delivered[-1] < 0.9 * delivered[0], latencies_ms[-1] > 1.5 * latencies_ms[0]
        claims.append(
            Claim(
                f"{protocol}: a longer period costs {'delivery and latency' if protocol == 'naive' else 'neither'}",
                paper,
                f"from {curve[0]['period_s']:g} s to {curve[-1]['period_s']:g} s: {delivered[0]:.0%} to "
                f"{delivered[-1]:.0%} delivered, {latencies_ms[0]:.0f} to {latencies_ms[-1]:.0f} ms",
                all(costs) if protocol == "naive" else not any(costs),
            )
        )
    return claims
