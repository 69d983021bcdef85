"""What is sent besides packets and repairs, against the loss (004 §7.4, figure 7-7)."""

from gossamer.lab.experiments.overhead_vs_senders import PROTOCOLS, overhead
from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, sweep
from gossamer.lab.transit import Setting, run
from gossamer.messages.errors import UsageError


@experiment(
    "004 Fig 7-7",
    Panel("7-7 overhead", "loss", ("kbytes_per_s",), "protocol", x_label="loss", y_label="KB/s"),
    Panel("the same in messages", "loss", ("messages_per_s",), "protocol", x_label="loss", y_label="messages/s"),
    quick={"losses": "0.001,0.01,0.05", "duration_s": 2.0, "seeds": 1, "processes": 1},
)
def overhead_vs_loss(
    *,
    losses: str = "0.001,0.01,0.02,0.03,0.05",
    rate: float = 360.0,
    duration_s: float = 10.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """Overhead grows with loss, by the requests for what was lost (004 §7.4)."""
    check_positive(rate=rate, duration_s=duration_s)
    shares = positive("losses", losses)
    if max(shares) >= 1:
        raise UsageError(f"losses: shares below 1, not {losses!r}")
    points = [
        Setting(protocol, rate=rate, loss=loss, duration_s=duration_s) for protocol in PROTOCOLS for loss in shares
    ]
    found = sweep(run, points, seeds=seeds, processes=processes, progress=progress)
    rows: list[Row] = [
        {"loss": point.loss, "protocol": point.protocol, **overhead(outcomes, duration_s)}
        for point, outcomes in zip(points, found, strict=True)
    ]
    claims = []
    for protocol in PROTOCOLS:
        curve = [float(row["kbytes_per_s"] or 0) for row in rows if row["protocol"] == protocol]
        claims.append(
            Claim(
                f"the overhead of {protocol} grows with loss",
                "dominated by more retransmission requests (Fig 7-7)",
                f"{', '.join(f'{each:.1f}' for each in curve)} KB/s for {losses}",
                curve[-1] > curve[0],
            )
        )
    return rows, claims
