"""`gossamer lab swarm`: random meshes, workloads and faults against every checker."""

import sys
import time

import msgspec
import typer
from rich.console import Console

from gossamer.lab import swarm
from gossamer.lab.mutants import MUTANTS
from gossamer.lab.semantic_mutants import SEMANTIC
from gossamer.messages.errors import UsageError

STORY_LINES_MAX = 200

ALL = MUTANTS | SEMANTIC


def run_swarm(
    seed: int = typer.Option(1, help="The seed of the first run; the others derive from it."),
    runs: int = typer.Option(100, help="How many runs."),
    mutant: str = typer.Option("", help="Run a deliberately broken protocol instead: it should be caught."),
    json: bool = typer.Option(False, "--json", help="One JSON object on one line."),
) -> None:
    """Safety while everything goes wrong, liveness after healing; exit code 1 if anything is violated."""
    if runs < 1:
        raise UsageError(f"--runs must be at least 1, not {runs}")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, not {seed}")
    if mutant and mutant not in ALL:
        raise UsageError(f"no mutant {mutant!r}; there are: {', '.join(ALL)}")
    console = Console(stderr=True, highlight=False)
    factory = ALL.get(mutant)
    failed: list[swarm.Outcome] = []
    events = 0
    started = time.monotonic()
    with console.status("…") as status:
        for number, each in enumerate(swarm.seeds(seed, runs), 1):
            plan = swarm.draw(each)
            # Before the run, not after it: should it hang, this line is all there is.
            status.update(f"run {number} of {runs}, {events} events, {len(failed)} violations: {plan}")
            if runs == 1 or not console.is_terminal:
                console.print(str(plan), soft_wrap=True)
            outcome = swarm.run(each, factory)
            events += outcome.events
            if outcome.violation is not None:
                failed.append(outcome)
                _explain(console, outcome, mutant)
    if json:
        document = {
            "runs": runs,
            "violations": len(failed),
            "events": events,
            "seeds": [outcome.plan.seed for outcome in failed],
        }
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        took_s = time.monotonic() - started
        found = "nothing" if not failed else f"{len(failed)} violations"
        print(f"{runs} runs from seed {seed}, {events:,} events, {took_s:.0f} s: found {found}")
    if failed:
        raise typer.Exit(1)


def _explain(console: Console, outcome: swarm.Outcome, mutant: str) -> None:
    violation, seed = outcome.violation, outcome.plan.seed
    assert violation is not None
    console.print(f"\n{outcome.plan}", soft_wrap=True)
    console.print(f"violated at {outcome.at_s:.3f} s: {violation}", soft_wrap=True, style="bold red")
    if violation.event is not None:
        story = swarm.story(seed, violation.event, ALL.get(mutant))
        if len(story) > STORY_LINES_MAX:
            console.print(f"  … {len(story) - STORY_LINES_MAX} earlier lines")
        for line in story[-STORY_LINES_MAX:]:
            console.print(f"  {line}", soft_wrap=True, markup=False)
    option = f" --mutant {mutant}" if mutant else ""
    console.print(f"replay: gossamer lab swarm --seed {seed} --runs 1{option}\n", soft_wrap=True)
