"""`gossamer lab report`: every experiment in one HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.lab_run import patience
from gossamer.lab import documented, report
from gossamer.lab.experiments import registry
from gossamer.lab.experiments.registry import Result
from gossamer.lab.report import Taken
from gossamer.messages.errors import UsageError

OUT = typer.Option(..., "--out", help="Where to write index.html, and each result as NAME.json.", metavar="DIR")
QUICK = typer.Option(False, "--quick", help="Smaller parameters: minutes in all, the shape of the curves only.")
ONLY = typer.Option(None, "--experiment", help="Only this one; may be given more than once.", metavar="NAME")
PAGE = typer.Option(
    None, "--renew", help="Put the results into this page, too: docs/experiments.md.", metavar="FILE", dir_okay=False
)


def write_report(
    out: Path = OUT, quick: bool = QUICK, experiment: list[str] | None = ONLY, renew: Path | None = PAGE
) -> None:
    """Run every experiment and write one page. What is in DIR already, of the same parameters, is not run again: remove
    it to have it anew."""
    chosen = [registry.find(name) for name in experiment or registry.names()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from None
    results = []
    for place, each in enumerate(chosen, 1):
        parameters = each.quick if quick else each.full
        result = report.kept(out, each, parameters)
        at = f"{each.name} ({place} of {len(chosen)})"
        if result is not None:
            print(f"{at}: not run again, {out / each.name}.json is there", flush=True)
        else:
            with patience(f"{at} …") as progress, report.timed(out, each.name):
                result = each.run(progress, **parameters)
            report.save(out, result)
            taken = report.times(out)[each.name]
            print(f"{at}: {taken.wall_s:.0f} s by the clock, {taken.cpu_s:.0f} s of processor time", flush=True)
        results.append(result)
    _print_claims(results, report.times(out))
    if renew is not None:
        for name in documented.renew(renew, results, report.times(out)):
            print(f"{renew} has no section for {name}")
    print(report.write(out, results))


def _print_claims(results: Sequence[Result], taken: Mapping[str, Taken]) -> None:
    table = Table("experiment", "claims that hold", "claims that do not", "processor time")
    for result in results:
        held = sum(claim.holds for claim in result.claims)
        fails = "\n".join(f"{claim.claim}: {claim.ours}" for claim in result.claims if not claim.holds)
        cpu = f"{taken[result.name].cpu_s:,.0f} s" if result.name in taken else "–"
        table.add_row(result.name, f"{held} of {len(result.claims)}", fails, cpu)
    Console().print(table)
