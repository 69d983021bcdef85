"""Until everybody has a packet, against the rate at which they are sent (004 §7.3, figures 7-4 and 7-5).

The logger answers 1,000 requests a second. At 1 % loss LBRM asks it for 0.18 packets a packet sent, so it is at its
limit from 5,600 packets a second on.
"""

from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, summary, sweep
from gossamer.lab.transit import Outcome, Protocol, Setting, run

PROTOCOLS: tuple[Protocol, ...] = ("lbrm", "rpbcast", "pbcast")


@experiment(
    "004 Fig 7-4, 7-5",
    Panel("7-4 delivery latency", "rate", ("latency_ms",), "protocol", x_label="packets/s", y_label="ms"),
    Panel("7-5 packets that somebody never got", "rate", ("undelivered",), "protocol", x_label="packets/s"),
    quick={"rates": "200,400,800,1600", "service_limit": 100.0, "duration_s": 2.0, "seeds": 1, "processes": 1},
)
def latency_vs_rate(
    *,
    rates: str = "180,360,1800,3600,5400,7200",
    service_limit: float = 1_000.0,
    loss: float = 0.01,
    duration_s: float = 10.0,
    seeds: int = 1,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """LBRM is ahead until its logger is overloaded; rpbcast stays below pbcast, and loses nothing (004 §7.3)."""
    check_positive(service_limit=service_limit, loss=loss, duration_s=duration_s)
    points = [
        Setting(protocol, rate=rate, loss=loss, service_limit=service_limit, duration_s=duration_s)
        for protocol in PROTOCOLS
        for rate in positive("rates", rates)
    ]
    rows = [
        row_of(point, outcomes)
        for point, outcomes in zip(
            points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True
        )
    ]
    return rows, _claims(rows)


def row_of(point: Setting, outcomes: list[Outcome]) -> Row:
    return {
        "rate": point.rate,
        "protocol": point.protocol,
        **summary("latency_ms", [1e3 * outcome.latency_s for outcome in outcomes], 1),
        "deviation_ms": round(1e3 * fmean(outcome.deviation_s for outcome in outcomes), 1),
        "undelivered": round(fmean(outcome.undelivered for outcome in outcomes), 1),
        "packets": round(fmean(outcome.packets for outcome in outcomes)),
    }


def _claims(rows: list[Row]) -> list[Claim]:
    curves = {name: {row["rate"]: row for row in rows if row["protocol"] == name} for name in PROTOCOLS}
    rates = list(curves["lbrm"])
    ms = {name: [float(curve[rate]["latency_ms"] or 0) for rate in rates] for name, curve in curves.items()}
    lost = {name: [float(curve[rate]["undelivered"] or 0) for rate in rates] for name, curve in curves.items()}
    crossing = next(
        (rate for rate, lbrm, ours in zip(rates, ms["lbrm"], ms["rpbcast"], strict=True) if lbrm > ours), None
    )

    def told(values: list[float]) -> str:
        return ", ".join(f"{value:.0f}" for value in values)

    return [
        Claim(
            "LBRM is ahead at low rates, crosses over, and explodes",
            "the cross-over is where its logger is overloaded (Fig 7-4)",
            f"LBRM {told(ms['lbrm'])} ms, rpbcast {told(ms['rpbcast'])} ms at "
            f"{told([float(rate or 0) for rate in rates])} packets/s; LBRM is behind from {crossing} on",
            ms["lbrm"][0] <= ms["rpbcast"][0] and ms["lbrm"][-1] > 1.5 * ms["rpbcast"][-1],
        ),
        Claim(
            "rpbcast is faster than pbcast",
            "pull-based recovery exhibits lower latency than push-based (Fig 7-4)",
            f"rpbcast {told(ms['rpbcast'])} ms, pbcast {told(ms['pbcast'])} ms",
            all(pull < push for pull, push in zip(ms["rpbcast"], ms["pbcast"], strict=True)),
        ),
        Claim(
            "pbcast leaves packets undelivered at high rates, rpbcast none",
            "Fig 7-5",
            f"pbcast {told(lost['pbcast'])}, rpbcast {told(lost['rpbcast'])} of "
            f"{told([float(curves['pbcast'][rate]['packets'] or 0) for rate in rates])} packets",
            lost["pbcast"][-1] > 0 and not any(lost["rpbcast"]),
        ),
    ]
