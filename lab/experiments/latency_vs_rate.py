"""Until everybody has a packet, against the rate at which they are sent (004 §7.3, figures 7-4 and 7-5).

The logger answers 1,000 requests a second. At 1 % loss LBRM asks it for 0.18 packets a packet sent, so it is at its
limit from 5,600 packets a second on.

What pbcast never delivers are packets of which a member was told nothing before they were collected: in each of ten
rounds, none of the others drew it. With the bias and the distances of this network the chance of that is 0.25 to 0.5 a
round and member (`untold_share`), once in 48,000 packets, and in bursts: whoever is told nothing for so long lacks all
that it lost meanwhile.
"""

import math
from dataclasses import replace
from functools import partial
from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, Value, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, summary, sweep
from gossamer.lab.transit import CORE, Outcome, Protocol, Setting, run, seats
from gossamer.protocol.config import Config
from gossamer.protocol.selection import POWER, weights

PROTOCOLS: tuple[Protocol, ...] = ("lbrm", *CORE, "pbcast")
UNRELIABLE: tuple[Protocol, ...] = (*CORE, "pbcast")
RATE_OF_ONE_RUN, RUNS_MAX = 1_800.0, 10


@experiment(
    "004 Fig 7-4, 7-5",
    Panel("7-4 delivery latency", "rate", ("latency_ms",), "protocol", {"loss_at": "receivers"}, "packets/s", "ms"),
    Panel(
        "7-5 packets that somebody never got", "rate", ("undelivered",), "protocol", {"loss_at": "links"}, "packets/s"
    ),
    minutes=20,
    quick={
        "rates": "200,400,800,1600",
        "rates_links": "",
        "service_limit": 100.0,
        "duration_s": 2.0,
        "seeds": 1,
        "processes": 1,
    },
)
def latency_vs_rate(
    *,
    rates: str = "180,360,1800,3600,7200",
    rates_links: str = "360,1800",
    service_limit: float = 1_000.0,
    loss: float = 0.01,
    duration_s: float = 10.0,
    seeds: int = 3,
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
    points += [
        replace(Setting(protocol), rate=rate, loss=loss, duration_s=duration_s, lossy_links=True, measured=True)
        for protocol in UNRELIABLE
        for rate in (positive("rates_links", rates_links) if rates_links else ())
    ]
    chance = untold_share(loss)
    rows: list[Row] = [
        row_of(point, outcomes) | {"expected": _expected(point, outcomes, chance)}
        for point, outcomes in zip(
            points,
            sweep(run, points, seeds=partial(_runs, seeds=seeds), processes=processes, progress=progress),
            strict=True,
        )
    ]
    return rows, _claims(rows)


def _runs(point: Setting, *, seeds: int) -> int:
    """At low rates a run has few packets, and there the curves are close: more runs, so that as many are looked at."""
    return seeds if point.lossy_links else seeds * max(1, min(RUNS_MAX, round(RATE_OF_ONE_RUN / point.rate)))


def _expected(point: Setting, outcomes: list[Outcome], chance: float) -> float:
    """How many packets of a run somebody should never get, if each is lost by a chance of its own."""
    computed = point.protocol == "pbcast" and not point.lossy_links
    return round(chance * fmean(outcome.packets for outcome in outcomes), 2) if computed else 0.0


def row_of(point: Setting, outcomes: list[Outcome]) -> dict[str, Value]:
    return {
        "rate": point.rate,
        "protocol": point.protocol,
        "loss_at": "links" if point.lossy_links else "receivers",
        **summary("latency_ms", [1e3 * outcome.latency_s for outcome in outcomes], 1),
        "deviation_ms": round(1e3 * fmean(outcome.deviation_s for outcome in outcomes), 1),
        "undelivered": round(fmean(outcome.undelivered for outcome in outcomes), 2),
        "packets": round(fmean(outcome.packets for outcome in outcomes)),
        "runs": len(outcomes),
    }


def gap(slow: Row, fast: Row) -> tuple[float, float]:
    """By how many ms one is ahead of the other, and the interval of that."""
    by_ms = float(slow["latency_ms"] or 0) - float(fast["latency_ms"] or 0)
    return by_ms, math.hypot(float(slow["latency_ms_ci"] or 0), float(fast["latency_ms_ci"] or 0))


def untold_share(loss: float, rounds: int = Config().gclimit_rounds) -> float:
    """How likely it is that a packet is lost for somebody whom no digest then reaches in so many rounds of pbcast."""
    hosts, latencies_s = seats()
    untold = [1.0] * len(hosts)
    for drawing, seat in enumerate(hosts):
        others = [place for place in range(len(hosts)) if place != drawing]
        chances = weights([2 * latencies_s[seat][hosts[place]] for place in others], POWER["linear"])
        for place, chance in zip(others, chances, strict=True):
            untold[place] *= 1 - chance / sum(chances)
    return (len(hosts) - 1) * loss * fmean(share**rounds for share in untold)


def _claims(rows: list[Row]) -> list[Claim]:
    by_chance = [row for row in rows if row["loss_at"] == "receivers"]
    curves = {name: {row["rate"]: row for row in by_chance if row["protocol"] == name} for name in PROTOCOLS}
    rates = list(curves["lbrm"])
    ms = {name: [float(curve[rate]["latency_ms"] or 0) for rate in rates] for name, curve in curves.items()}
    ahead = [gap(curves["rpbcast"][rate], curves["lbrm"][rate]) for rate in rates]
    crossing = next((rate for rate, (by_ms, ci_ms) in zip(rates, ahead, strict=True) if by_ms < -ci_ms), None)

    def told(values: list[float]) -> str:
        return ", ".join(f"{value:.0f}" for value in values)

    core = ", ".join(f"{name} {told(ms[name])}" for name in CORE)
    return [
        Claim(
            "LBRM explodes when its logger is overloaded, and rpbcast does not",
            "the cross-over is where the logger cannot keep up (Fig 7-4)",
            f"LBRM {told(ms['lbrm'])} ms, {core} ms at {told([float(rate or 0) for rate in rates])} packets/s",
            all(ms["lbrm"][-1] > 1.5 * ms[name][-1] for name in CORE),
        ),
        Claim(
            "LBRM is not behind at low rates",
            "ahead until its logger is overloaded (Fig 7-4); at low rates they are indistinguishable (§8)",
            f"LBRM is ahead by {', '.join(f'{by_ms:.1f} ± {ci_ms:.1f}' for by_ms, ci_ms in ahead)} ms, "
            f"behind from {crossing} on",
            ahead[0][0] >= -ahead[0][1],
        ),
        Claim(
            "rpbcast is faster than pbcast",
            "pull-based recovery exhibits lower latency than push-based (Fig 7-4)",
            f"{core} ms, pbcast {told(ms['pbcast'])} ms",
            all(pull < push for name in CORE for pull, push in zip(ms[name], ms["pbcast"], strict=True)),
        ),
        *(
            _undelivered(where, some)
            for where in ("receivers", "links")
            if (some := [row for row in rows if row["loss_at"] == where])
        ),
    ]


def _undelivered(where: str, rows: list[Row]) -> Claim:
    lost = {name: [row for row in rows if row["protocol"] == name] for name in UNRELIABLE}
    told = {
        name: ", ".join(f"{row['undelivered']:g} of {row['packets']} at {row['rate']:g}/s" for row in some)
        for name, some in lost.items()
    }
    expected = ", ".join(f"{row['expected']:g}" for row in lost["pbcast"])
    return Claim(
        f"pbcast leaves packets undelivered at high rates, rpbcast none, with loss at {where}",
        "so it does (Fig 7-5)",
        f"a run: pbcast {told['pbcast']}"
        + (f" ({expected} to be expected)" if where == "receivers" else "")
        + "".join(f"; {name} {told[name]}" for name in CORE),
        bool(lost["pbcast"][-1]["undelivered"]) and not any(row["undelivered"] for name in CORE for row in lost[name]),
    )
