"""`gossamer lab groups`: the swarm for group protocols."""

import sys

import msgspec
import typer
from rich.console import Console

from gossamer.lab.groups import swarm
from gossamer.lab.groups.mutants import MUTANTS
from gossamer.lab.swarm import seeds
from gossamer.messages.errors import UsageError


def run_groups(
    seed: int = typer.Option(1, help="The seed of the first run; the others derive from it."),
    runs: int = typer.Option(50, help="How many runs."),
    protocol: str = typer.Option("", help=f"One of {', '.join(swarm.PROTOCOLS)}; any if not given."),
    mutant: str = typer.Option("", help="Run a deliberately broken protocol instead: it should be caught."),
    json: bool = typer.Option(False, "--json", help="One JSON object on one line."),
) -> None:
    """Total and causal order, agreement and views under crashes and loss; exit code 1 if anything is violated."""
    if runs < 1 or seed < 0:
        raise UsageError("--runs must be at least 1, and --seed not negative")
    if protocol and protocol not in swarm.PROTOCOLS:
        raise UsageError(f"no protocol {protocol!r}; there are: {', '.join(swarm.PROTOCOLS)}")
    if mutant and mutant not in MUTANTS:
        raise UsageError(f"no mutant {mutant!r}; there are: {', '.join(MUTANTS)}")
    console = Console(stderr=True, highlight=False)
    chosen = MUTANTS[mutant].protocol if mutant else next((p for p in swarm.PROTOCOLS if p == protocol), None)
    make = MUTANTS[mutant].make if mutant else swarm.make
    failed, multicast, delivered = [], 0, 0
    for each in seeds(seed, runs):
        if runs == 1:
            console.print(str(swarm.draw(each, chosen)), soft_wrap=True)
        outcome = swarm.run(each, chosen, make)
        multicast, delivered = multicast + outcome.multicast, delivered + outcome.delivered
        if outcome.violation is not None:
            failed.append(each)
            option = f" --mutant {mutant}" if mutant else f" --protocol {chosen}" if chosen else ""
            console.print(f"{outcome.plan}\nviolated: {outcome.violation}", soft_wrap=True)
            console.print(f"replay: gossamer lab groups --seed {each} --runs 1{option}\n", soft_wrap=True)
    if json:
        document = {"runs": runs, "violations": len(failed), "multicast": multicast, "delivered": delivered,
                    "seeds": failed}  # fmt: skip
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        found = "nothing" if not failed else f"{len(failed)} violations"
        print(f"{runs} runs from seed {seed}, {multicast:,} multicast, {delivered:,} delivered: found {found}")
    if failed:
        raise typer.Exit(1)
