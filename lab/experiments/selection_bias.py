"""Whom to gossip with: anybody, or rather somebody near (004 §7.5, figure 7-8 and table 7.2).

Twice: with loss by chance at each receiver, and with links that lose a packet for all that lie beyond them. In the one
case a near member is as likely to have what one lacks as a far one, and answers sooner; in the other it lacks the same.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Literal

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, summary, sweep
from gossamer.lab.transit import Outcome, Setting, run

SELECTIONS: tuple[Literal["uniform", "linear", "quadratic"], ...] = ("uniform", "linear", "quadratic")


@experiment(
    "004 Fig 7-8, Table 7.2",
    Panel("7.2 latency", "selection", ("latency_ms",), "loss_at", y_label="ms", kind="bar"),
    Panel("7-8 traffic through the hub besides data", "selection", ("hub_kb",), "loss_at", y_label="KB", kind="bar"),
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
    points = [
        Setting(
            "rpbcast",
            rate=rate,
            loss=each,
            selection=selection,
            duration_s=duration_s,
            lossy_links=lossy_links,
            measured=True,
        )
        for lossy_links in (False, True)
        for selection in SELECTIONS
        for each in (loss, 0.0)  # without loss: the data alone
    ]
    found = dict(zip(points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True))
    rows: list[Row] = []
    claims: list[Claim] = []
    for lossy_links in (False, True):
        where = "links" if lossy_links else "receivers"
        some = {point: outcomes for point, outcomes in found.items() if point.lossy_links == lossy_links}
        half = [_row(where, selection, some) for selection in SELECTIONS]
        rows += half
        claims += _claims(where, half)
    return rows, claims


def _row(where: str, selection: str, found: Mapping[Setting, list[Outcome]]) -> Row:
    lossy, lossless = (outcomes for point, outcomes in found.items() if point.selection == selection)
    crossed = [(with_loss.hub_bytes - data.hub_bytes) / 1e3 for with_loss, data in zip(lossy, lossless, strict=True)]
    return {
        "loss_at": where,
        "selection": selection,
        **summary("latency_ms", [1e3 * outcome.latency_s for outcome in lossy], 2),
        "deviation_ms": round(1e3 * fmean(outcome.deviation_s for outcome in lossy), 1),
        **summary("hub_kb", crossed, 1),
    }


def _claims(where: str, rows: list[Row]) -> list[Claim]:
    ms, hub_kb = ([float(row[name] or 0) for row in rows] for name in ("latency_ms", "hub_kb"))
    return [
        Claim(
            f"uniform < linear < quadratic in latency, with loss at {where}",
            "69, 82 and 136 ms (Table 7.2)",
            f"{', '.join(f'{each:.1f}' for each in ms)} ms",
            ms[0] < ms[1] < ms[2],
        ),
        Claim(
            f"the reverse in what goes through the hub, with loss at {where}",
            "uniform gossip causes more traffic; little between linear and quadratic (Fig 7-8)",
            f"{', '.join(f'{each:.0f}' for each in hub_kb)} KB besides data",
            hub_kb[0] > hub_kb[1] >= 0.95 * hub_kb[2],
        ),
    ]
