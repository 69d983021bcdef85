"""`gossamer chaos`: a mesh of processes on this machine, faults from a seed, and a check of clients' records."""

import json as json_format
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.messages.errors import UsageError

NETWORKS = ("auto", "namespaces", "loopback")


def chaos(
    minutes: Annotated[float, typer.Option("--minutes", help="Time during which faults are injected.")] = 10.0,
    seed: Annotated[int, typer.Option("--seed", help="Faults and clients are drawn from it.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder for records, stores and logs; must be empty.  [a new one]", metavar="DIR"),
    ] = None,
    network: Annotated[
        str, typer.Option("--network", help="auto, namespaces (needs root and iproute2) or loopback.")
    ] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Only the result, as one JSON object.")] = False,
) -> None:
    """Run a mesh of processes, inject faults, and check that every promise held; exit code 1 if one did not."""
    if not 0 < minutes < float("inf"):
        raise UsageError(f"--minutes must be above 0, not {minutes:g}")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, not {seed}")
    if network not in NETWORKS:
        raise UsageError(f"--network is one of {', '.join(NETWORKS)}, not {network!r}")
    # Here, because a list of commands needs none of it.
    from gossamer.lab.chaos.checker import check, figures
    from gossamer.lab.chaos.run import Chaos, ChaosFailed, document

    folder = (data or Path(tempfile.mkdtemp(prefix="gossamer-chaos-"))).resolve()
    console = Console(highlight=False, quiet=json)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Chaos(folder, seed, minutes * 60, network) as run:
            if network == "namespaces" and run.network == "loopback":
                raise ChaosFailed(f"--network namespaces: {run.skipped['cut off']}")
            again = f"--minutes {minutes:g} --seed {seed} --network {run.network}"
            console.print(f"gossamer chaos {again}", soft_wrap=True)
            console.print(f"records in {folder}", soft_wrap=True)
            for kind, reason in run.skipped.items():
                console.print(f"skipped: {kind}: {reason}", soft_wrap=True, markup=False)
            with progress(minutes * 60) as tell:
                history = run.play(tell)
    except KeyboardInterrupt:
        console.print(f"interrupted; records are in {folder}", soft_wrap=True)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    found = document(run, figures(history, check(history)))
    (folder / "result.json").write_text(json_format.dumps(found, indent=1) + "\n")
    if json:
        print(json_format.dumps(found))
    else:
        console.print(summary(found))
        for each in found["violations"]:
            console.print(Text(f"{each['kind']}: {each['where']}: {each['text']}", "red"), soft_wrap=True)
    if found["violations"]:
        raise typer.Exit(1)


@contextmanager
def progress(seconds: float) -> Iterator[Callable[[str], None]]:
    """Yield a function that rewrites one line on stderr: on a terminal; in a pipe it is silent."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    began_at = time.monotonic()
    with console.status("") as status:
        yield lambda text: status.update(f"{time.monotonic() - began_at:.0f} s (faults for {seconds:.0f} s): {text}")


def summary(found: dict[str, Any]) -> RenderableType:
    """The table of a run: faults, their count, and what they did to publishers."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("fault", no_wrap=True)
    for title in ("count", "longest pause", "recovery", "at most", "outcome"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in found["faults"]:
        outcome = f"{row['violations']} violated" if row["violations"] else "held"
        table.add_row(
            row["fault"],
            str(row["count"]),
            *(_seconds(row[name]) for name in ("pause_max_s", "recovery_median_s", "recovery_max_s")),
            Text(outcome, "bold red" if row["violations"] else "green"),
        )
    totals = Text(f"\n{found['published']:,} published, {found['logged']:,} acknowledged as logged, ")
    totals.append(f"{found['replayed']:,} in the log\n")
    totals.append("delivered: " + ", ".join(f"{name} {count:,}" for name, count in found["delivered"].items()) + "\n")
    violations = found["violations"]
    if not violations:
        return Group(table, totals, Text("no violation", "bold green"))
    return Group(table, totals, Text(f"{len(violations)} violations", "bold red"))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
