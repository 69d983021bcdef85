"""`gossamer lab report`: every experiment in one HTML page."""

from pathlib import Path

import typer

from gossamer.cli.lab_run import patience
from gossamer.lab import report
from gossamer.lab.experiments import registry
from gossamer.messages.errors import UsageError

OUT = typer.Option(..., "--out", help="Where to write index.html, and each result as NAME.json.", metavar="DIR")
QUICK = typer.Option(False, "--quick", help="Smaller parameters: minutes in all, the shape of the curves only.")
ONLY = typer.Option(None, "--experiment", help="Only this one; may be given more than once.", metavar="NAME")


def write_report(out: Path = OUT, quick: bool = QUICK, experiment: list[str] | None = ONLY) -> None:
    """Run every experiment and write one page. What is in DIR already is not run again: remove it to have it anew."""
    chosen = [registry.find(name) for name in experiment or registry.names()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from None
    results = []
    for place, each in enumerate(chosen, 1):
        result = report.kept(out, each.name)
        if result is None:
            with patience(f"{each.name} ({place} of {len(chosen)}) …") as progress, report.timed(out, each.name):
                result = each.run(progress, **(each.quick if quick else each.full))
            report.save(out, result)
        results.append(result)
    print(report.write(out, results))
