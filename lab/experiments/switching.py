"""Logger first or peers first, by the logger's congestion: what 004 §8 leaves to others.

`logger` and `gossip` are the core with the paper's setting, told to do one or the other. `auto` is the core with its
defaults and `repair_first="auto"`: it asks a logger while none says that it is busy, and peers for a while after one
did. `default` is the core with its defaults, which is gossip first. LBRM itself is there for comparison. With `at_hub`
the logger is nearer to everybody than most peers are; with `lossy_links` near peers often lack the same packet.
"""

from gossamer.lab.experiments.latency_vs_rate import row_of
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, sweep
from gossamer.lab.transit import Protocol, Setting, run

CURVES: dict[Protocol, str] = {
    "lbrm": "lbrm", "logger": "logger", "rpbcast": "gossip", "auto": "auto", "ours": "default",
}  # fmt: skip


@experiment(
    "004 §8",
    Panel("delivery latency", "rate", ("latency_ms",), "protocol", x_label="packets/s", y_label="ms"),
    quick={"rates": "200,400,800,1600", "service_limit": 100.0, "duration_s": 2.0, "seeds": 1, "processes": 1},
)
def switching(
    *,
    rates: str = "180,720,1080,1440,2160",
    service_limit: float = 200.0,
    loss: float = 0.01,
    duration_s: float = 5.0,
    lossy_links: bool = False,
    at_hub: bool = False,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """The switch follows the better of LBRM and rpbcast on both sides of the cross-over."""
    check_positive(service_limit=service_limit, loss=loss, duration_s=duration_s)
    points = [
        Setting(
            protocol,
            rate=rate,
            loss=loss,
            service_limit=service_limit,
            duration_s=duration_s,
            lossy_links=lossy_links,
            measured=lossy_links,
            at_hub=at_hub,
        )
        for protocol in CURVES
        for rate in positive("rates", rates)
    ]
    rows: list[Row] = []
    found = sweep(run, points, seeds=seeds, processes=processes, progress=progress)
    for point, outcomes in zip(points, found, strict=True):
        rows.append({**row_of(point, outcomes), "protocol": CURVES[point.protocol]})
    ms = {name: [float(row["latency_ms"] or 0) for row in rows if row["protocol"] == name] for name in CURVES.values()}
    best = list(map(min, ms["lbrm"], ms["gossip"]))
    return rows, [
        Claim(
            "the switch is as good as the better of the two, to within 10 %, at every rate",
            "use LBRM for low send rates and switch after detecting logger congestion (§7.3, §8)",
            "; ".join(f"{name} {', '.join(f'{each:.0f}' for each in curve)} ms" for name, curve in ms.items())
            + f" at {rates} packets/s",
            all(ours <= 1.1 * better for ours, better in zip(ms["auto"], best, strict=True)),
        ),
        Claim(
            "without it, asking the logger first fails at high rates",
            "LBRM explodes (Fig 7-4)",
            f"at {rates.split(',')[-1]} packets/s logger first {ms['logger'][-1]:.0f} ms, auto {ms['auto'][-1]:.0f} ms",
            ms["logger"][-1] > 1.2 * ms["auto"][-1],
        ),
    ]
