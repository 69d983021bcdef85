"""Whom to gossip with: anybody, or rather somebody near (004 §7.5, figure 7-8 and table 7.2).

The thesis says neither where its packets were lost nor how steep its bias was, and the answer hangs on both. So it is
looked at three times, each a step nearer to what it must have been:

    receivers     a packet is lost by chance at each receiver: a near member has what one lacks as likely as a far one,
                  and answers sooner
    links         every link loses 1 % for all that lie beyond it: a near member often lacks the same
    links, steep  the same, and the bias is by 1 / rtt and 1 / rtt², so that near members are asked again and again

The last is not the core's own bias, which falls by a straight line (or its square) from the nearest member to the
farthest: nobody is asked so rarely that it takes long to come upon somebody else.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Literal

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, summary, sweep
from gossamer.lab.transit import CORE, Outcome, Protocol, Setting, run

Choice = Literal["uniform", "linear", "quadratic"]
SELECTIONS: tuple[Choice, ...] = ("uniform", "linear", "quadratic")
CASES = {"receivers": (False, False), "links": (True, False), "links, steep": (True, True)}
"""Whether links lose, and whether the bias is steep."""
CURVES: tuple[tuple[Protocol, str], ...] = tuple(
    (protocol, case) for protocol in CORE for case in CASES if protocol == "rpbcast" or case != "links, steep"
)
"""The default setting is not looked at with the steep bias, which is not the core's."""
SHOWN = {"protocol": "rpbcast"}
SETTLE_S = 10.0
"""Long enough to have measured nearly everybody's round-trip time."""


@experiment(
    "004 Fig 7-8, Table 7.2",
    Panel("7.2 latency", "selection", ("latency_ms",), "loss_at", SHOWN, y_label="ms", kind="bar"),
    Panel("7.2 its standard deviation", "selection", ("deviation_ms",), "loss_at", SHOWN, y_label="ms", kind="bar"),
    Panel("7-8 through the hub besides data", "selection", ("hub_kb",), "loss_at", SHOWN, y_label="KB", kind="bar"),
    quick={"duration_s": 2.0, "seeds": 1, "processes": 1},
)
def selection_bias(
    *,
    rate: float = 360.0,
    loss: float = 0.01,
    duration_s: float = 10.0,
    seeds: int = 5,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """The stronger the bias to near members, the longer repair takes, and the less goes through the hub (004 §7.5)."""
    check_positive(rate=rate, loss=loss, duration_s=duration_s)

    def setting(protocol: Protocol, case: str, selection: Choice, loss: float) -> Setting:
        lossy_links, steep = CASES[case]
        return Setting(
            protocol,
            rate=rate,
            loss=loss,
            selection=selection,
            steep=steep and selection != "uniform",
            settle_s=SETTLE_S,
            duration_s=duration_s,
            lossy_links=lossy_links and loss > 0,
            measured=True,
        )

    wanted = {
        (curve, selection): (setting(*curve, selection, loss), setting(*curve, selection, 0.0))  # 0: data alone
        for curve in CURVES
        for selection in SELECTIONS
    }
    points = list(dict.fromkeys(point for both in wanted.values() for point in both))
    found = dict(zip(points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True))
    rows: list[Row] = []
    claims: list[Claim] = []
    for protocol, case in CURVES:
        some = [_row(case, selection, *wanted[(protocol, case), selection], found) for selection in SELECTIONS]
        rows += some
        claims += _claims(case if protocol == "rpbcast" else f"{case}, ours", some)
    return rows, claims


def _row(case: str, selection: str, lossy: Setting, lossless: Setting, found: Mapping[Setting, list[Outcome]]) -> Row:
    both = zip(found[lossy], found[lossless], strict=True)
    return {
        "protocol": lossy.protocol,
        "loss_at": case,
        "selection": selection,
        **summary("latency_ms", [1e3 * outcome.latency_s for outcome in found[lossy]], 2),
        "deviation_ms": round(1e3 * fmean(outcome.deviation_s for outcome in found[lossy]), 1),
        **summary("hub_kb", [(outcome.hub_bytes - data.hub_bytes) / 1e3 for outcome, data in both], 1),
    }


def _claims(case: str, rows: list[Row]) -> list[Claim]:
    ms, deviation_ms, hub_kb = (
        [float(row[name] or 0) for row in rows] for name in ("latency_ms", "deviation_ms", "hub_kb")
    )
    return [
        Claim(
            f"uniform < linear < quadratic in latency, with loss at {case}",
            "69, 82 and 136 ms, deviations 162, 187 and 440 ms (Table 7.2)",
            f"{', '.join(f'{each:.1f}' for each in ms)} ms, "
            f"deviations {', '.join(f'{each:.0f}' for each in deviation_ms)} ms",
            ms[0] < ms[1] < ms[2],
        ),
        Claim(
            f"the reverse in what goes through the hub, with loss at {case}",
            "uniform gossip causes more traffic; little between linear and quadratic (Fig 7-8)",
            f"{', '.join(f'{each:.0f}' for each in hub_kb)} KB besides data",
            hub_kb[0] > hub_kb[1] >= 0.95 * hub_kb[2],
        ),
    ]
