"""`gossamer lab orders`: the swarm for groups of brokers with causal or total order."""

import sys

import msgspec
import typer
from rich.console import Console

from gossamer.lab.checkers import Violation
from gossamer.lab.orders import MUTANTS, Run, draw, mutant
from gossamer.messages.errors import UsageError
from gossamer.protocol.config import ORDERS


def run_orders(
    seed: int = typer.Option(1, help="The seed of the first run; the others follow."),
    runs: int = typer.Option(20, help="How many runs."),
    order: str = typer.Option("", help="causal or total; any if not given."),
    broken: str = typer.Option("", "--mutant", help="Run deliberately broken brokers instead: they should be caught."),
    json: bool = typer.Option(False, "--json", help="One JSON object on one line."),
) -> None:
    """What plain subscribers are handed in groups with an order; exit code 1 if anything is violated."""
    if runs < 1 or seed < 0:
        raise UsageError("--runs must be at least 1, and --seed not negative")
    chosen = next((each for each in ORDERS[1:] if each == order), None)
    if order and chosen is None:
        raise UsageError(f"no order {order!r}; there are: {', '.join(ORDERS[1:])}")
    if broken and broken not in MUTANTS:
        raise UsageError(f"no mutant {broken!r}; there are: {', '.join(MUTANTS)}")
    console = Console(stderr=True, highlight=False)
    failed, events = [], 0
    for each in range(seed, seed + runs):
        run = Run(draw(each, chosen), mutant(MUTANTS[broken]) if broken else None)
        if runs == 1:
            console.print(str(run.plan), soft_wrap=True)
        try:
            run.execute()
        except (Violation, AssertionError) as error:
            failed.append(each)
            option = (f" --order {order}" if order else "") + (f" --mutant {broken}" if broken else "")
            console.print(f"{run.plan}\nviolated: {error}", soft_wrap=True)
            console.print(f"replay: gossamer lab orders --seed {each} --runs 1{option}\n", soft_wrap=True)
        events += len(run.sent)
    if json:
        document = {"runs": runs, "violations": len(failed), "events": events, "seeds": failed}
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        found = "nothing" if not failed else f"{len(failed)} violations"
        print(f"{runs} runs from seed {seed}, {events:,} events: found {found}")
    if failed:
        raise typer.Exit(1)
