"""What is sent besides packets and repairs, against the number of senders (004 §7.4, figure 7-6)."""

from collections.abc import Sequence
from dataclasses import replace

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, positive, summary, sweep
from gossamer.lab.transit import CORE, MEMBERS, Outcome, Protocol, Setting, run
from gossamer.messages.errors import UsageError

PROTOCOLS: tuple[Protocol, ...] = ("pbcast", *CORE, "lbrm")
SELDOM = "rpbcast, seldom"
SELDOM_ROUNDS = 16
"""Acknowledgements are what grows with the senders in ours: with them every 4 s instead of every second."""
CURVES = {protocol: Setting(protocol) for protocol in PROTOCOLS} | {
    SELDOM: Setting("rpbcast", positions_rounds=SELDOM_ROUNDS)
}


@experiment(
    "004 Fig 7-6",
    Panel("7-6 overhead", "senders", ("kbytes_per_s",), "protocol", y_label="KB/s"),
    Panel("the same in messages", "senders", ("messages_per_s",), "protocol", y_label="messages/s"),
    quick={"senders": "1,9,18", "duration_s": 2.0, "seeds": 1, "processes": 1},
)
def overhead_vs_senders(
    *,
    senders: str = "1,3,6,9,12,15,18",
    rate: float = 360.0,
    loss: float = 0.01,
    duration_s: float = 10.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """The overhead of pbcast is linear in the number of senders, that of rpbcast and LBRM is not (004 §7.4)."""
    check_positive(rate=rate, loss=loss, duration_s=duration_s)
    numbers = [int(number) for number in positive("senders", senders)]
    if max(numbers) > MEMBERS:
        raise UsageError(f"senders: at most {MEMBERS}, not {max(numbers)}")
    points = [
        replace(setting, rate=rate, senders=number, loss=loss, duration_s=duration_s)
        for setting in CURVES.values()
        for number in numbers
    ]
    found = sweep(run, points, seeds=seeds, processes=processes, progress=progress)
    curves = [name for name in CURVES for _ in numbers]
    rows: list[Row] = [
        {"senders": point.senders, "protocol": name, **overhead(outcomes, duration_s)}
        for name, point, outcomes in zip(curves, points, found, strict=True)
    ]
    return rows, _claims(rows)


def overhead(outcomes: Sequence[Outcome], duration_s: float) -> dict[str, float]:
    return {
        **summary("kbytes_per_s", [outcome.overhead_bytes / duration_s / 1e3 for outcome in outcomes], 2),
        **summary("messages_per_s", [outcome.overhead_messages / duration_s for outcome in outcomes], 1),
    }


def _claims(rows: list[Row]) -> list[Claim]:
    curves = {
        protocol: [float(row["kbytes_per_s"] or 0) for row in rows if row["protocol"] == protocol]
        for protocol in CURVES
    }
    grows = {protocol: curve[-1] / curve[0] for protocol, curve in curves.items()}
    numbers = [row["senders"] for row in rows if row["protocol"] == "pbcast"]
    told = {name: ", ".join(f"{each:.1f}" for each in curve) for name, curve in curves.items()}
    return [
        Claim(
            "the overhead of pbcast grows with the senders",
            "approximately linear (Fig 7-6)",
            f"{told['pbcast']} KB/s for {numbers} senders",
            grows["pbcast"] > 2,
        ),
        Claim(
            "those of rpbcast and LBRM do not",
            "insensitive to the number of senders; a constant difference between them (Fig 7-6)",
            "; ".join(f"{name} {told[name]}" for name in CORE)
            + f"; rpbcast acknowledging every 4 s {told[SELDOM]}; LBRM {told['lbrm']} KB/s",
            max(grows[name] for name in (*CORE, "lbrm")) < 0.5 * grows["pbcast"],
        ),
    ]
