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
from gossamer.lab.report import Steps, Taken
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
    places = {each.name: f"{each.name} ({place} of {len(chosen)})" for place, each in enumerate(chosen, 1)}
    wanted = {each.name: each.quick if quick else each.full for each in chosen}
    results = {each.name: report.kept(out, each, wanted[each.name]) for each in chosen}
    for name, result in results.items():
        if result is not None:
            print(f"{places[name]}: not run again, {out / name}.json is there", flush=True)
    with patience("experiments:") as tell:
        missing = {name: wanted[name] for name, result in results.items() if result is None}
        for result, taken in report.run_all(missing, lambda steps: tell(_said(steps))):
            report.save(out, result, taken)
            results[result.name] = result
            place = places[result.name]
            print(f"{place}: {taken.wall_s:.0f} s by the clock, {taken.cpu_s:.0f} s of processor time", flush=True)
    _write(out, [result for result in results.values() if result is not None], renew)


def _said(steps: Mapping[str, Steps]) -> str:
    return ", ".join(f"{name} {done} of {total}" for name, (done, total) in steps.items())


def _write(out: Path, results: Sequence[Result], renew: Path | None) -> None:
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
