"""`gossamer lab list` and `gossamer lab run NAME`: the papers' experiments.

An experiment's options are the parameters of its function (lab/experiments/registry.py): nothing is declared twice.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from gossamer.cli import lab_make_log
from gossamer.lab import plots
from gossamer.lab.experiments import registry
from gossamer.lab.experiments.registry import Experiment, Result, Row

PATIENCE_S = 1.0
ROWS_SHOWN_MAX = 32


class Experiments(TyperGroup):
    """One command an experiment, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [*registry.names(), lab_make_log.NAME]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand:  # noqa: ARG002
        made = typer.Typer(add_completion=False)
        is_experiment = cmd_name != lab_make_log.NAME
        made.command(cmd_name)(_command(registry.find(cmd_name)) if is_experiment else lab_make_log.make_log)
        command = typer.main.get_command(made)
        assert isinstance(command, TyperCommand)
        return command


app = typer.Typer(cls=Experiments, no_args_is_help=True, help="Run an experiment: its options are its parameters.")


@app.callback()
def run() -> None:
    """Run an experiment: its options are its parameters."""


def list_experiments(json: bool = typer.Option(False, "--json", help="One JSON object on one line.")) -> None:
    """The experiments, and the claim that each of them tests."""
    claims = {name: registry.find(name).claim for name in registry.names()}
    if json:
        _print_json({"experiments": [{"name": name, "claim": claim} for name, claim in claims.items()]})
        return
    table = Table("experiment", "the claim it tests")
    for name, claim in claims.items():
        table.add_row(name, claim)
    Console().print(table)


def _command(experiment: Experiment) -> Callable[..., None]:
    def command(*, json: bool, plot: Path | None, quick: bool = False, **parameters: registry.Value) -> None:
        if quick:
            known = experiment.parameters
            chosen = {name: value for name, value in parameters.items() if value != known[name].default}
            parameters = {**experiment.quick, **chosen}
        with patience(f"{experiment.name} …") as tell:
            result = experiment.run(lambda done, total: tell(f"{done} of {total}"), **parameters)
        if plot is not None:
            plots.save(plot, f"{result.name} ({result.paper})", experiment.panels, result.rows)
        if json:
            _print_json(result)
        else:
            _print_table(experiment, result)

    # What Typer reads a command's options from.
    common = [
        _option("json", bool, typer.Option(False, "--json", help="One JSON object on one line.")),
        _option("plot", Path | None, typer.Option(None, "--plot", help="Draw it, too: a .svg, .png or .pdf file.")),
    ]
    if experiment.quick:
        shrunk = ", ".join(f"{name} {value}" for name, value in experiment.quick.items())
        common.append(_option("quick", bool, typer.Option(False, "--quick", help=f"With {shrunk}.")))
    options = [*experiment.parameters.values(), *common]
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in options}
    command.__doc__ = experiment.claim
    return command


def _option(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


@contextmanager
def patience(text: str) -> Iterator[Callable[[str], None]]:
    """Show on stderr that something is under way, and how far it is, should it take more than a moment."""
    status = Console(stderr=True).status(text)
    timer = threading.Timer(PATIENCE_S, status.start)
    timer.start()
    try:
        yield lambda said: status.update(f"{text} {said}")
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _print_json(document: object) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def _print_table(experiment: Experiment, result: Result) -> None:
    shown = _some(result.rows)
    parameters = ", ".join(f"{name} {value}" for name, value in result.parameters.items())
    table = Table(*result.rows[0], title=f"{result.name}: {parameters}")
    for row in shown:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    console = Console()
    console.print(table)
    if len(shown) < len(result.rows):
        console.print(f"({len(shown)} of {len(result.rows)} rows; --json has them all)")
    console.print(f"{experiment.claim} ({experiment.paper})", highlight=False)
    for claim in result.claims:
        mark = "[green]holds[/]" if claim.holds else "[red]does not hold[/]"
        console.print(f"- {claim.claim}: {mark}\n    paper: {claim.paper}\n    ours:  {claim.ours}", highlight=False)


def _some(rows: Sequence[Row]) -> Sequence[Row]:
    """All, or as many as a screen takes: the first ten, where most happens, and an even choice of the rest."""
    if len(rows) <= ROWS_SHOWN_MAX:
        return rows
    step = -(-(len(rows) - 10) // (ROWS_SHOWN_MAX - 10))
    return [*rows[:10], *rows[10:][::-1][::step][::-1]]
