"""All experiments on one page: the claims, the pictures, the numbers. It needs nothing but itself, and no network."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from html import escape
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec

from gossamer.lab import plots
from gossamer.lab.experiments import registry
from gossamer.lab.experiments.registry import Experiment, Result, Value
from gossamer.messages.errors import UsageError

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gossamer: the papers' experiments</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>
:root {{ --ink: #1d2430; --soft: #5d6675; --line: #dde1e8; --back: #f5f6f8; --card: #fff; --link: #2458b3;
  --yes: #176f2c; --yes-back: #e2f3e6; --no: #a4201f; --no-back: #fbe6e5 }}
* {{ box-sizing: border-box }} html {{ scroll-padding-top: 1rem }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--back) }}
main {{ max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }}
h1 {{ margin: 0 0 .25rem; font-size: 1.9rem }} h2 {{ margin: 0; font-size: 1.3rem }}
a {{ color: var(--link); text-decoration: none }} a:hover {{ text-decoration: underline }}
.lead {{ color: var(--soft); margin: 0 0 1.5rem; max-width: 48rem }}
.card {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.25rem 1.5rem;
  margin: 0 0 1.25rem; overflow-x: auto }}
.head {{ display: flex; gap: .75rem; align-items: baseline; flex-wrap: wrap }}
.from {{ color: var(--soft); font-size: 13px }} .from:last-child {{ margin-left: auto }}
.said {{ margin: .25rem 0 1rem; max-width: 52rem }}
svg {{ display: block; width: 100%; height: auto; margin: .75rem auto }}
table {{ border-collapse: collapse; width: 100% }}
th {{ text-align: left; font-weight: 600; font-size: 13px; color: var(--soft); white-space: nowrap }}
td, th {{ border-bottom: 1px solid var(--line); padding: .4rem .75rem .4rem 0; vertical-align: top }}
tr:last-child td {{ border-bottom: 0 }}
.claims td {{ width: 30% }} .claims td:last-child {{ width: 10% }}
.rows td, .rows th {{ font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap }}
.mark {{ display: inline-block; white-space: nowrap; border-radius: 99px; padding: 0 .6rem;
  font-size: 13px; font-weight: 600 }}
.yes {{ color: var(--yes); background: var(--yes-back) }} .no {{ color: var(--no); background: var(--no-back) }}
.small {{ color: var(--soft); font-size: 13px; overflow-wrap: anywhere }} summary {{ cursor: pointer }}
@media print {{ body {{ background: none }} .card {{ break-inside: avoid; border: 0 }} }}
</style></head><body><main>
<h1>The papers' experiments</h1>
<p class="lead">{summary}</p>
<div class="card">{contents}</div>
{sections}
</main></body></html>
"""
PANEL_REM = 28
NOTES = (
    "000 is Pereira's thesis on semantic reliability, 001 urgc and urcgc, 003 the paper on PSRM, "
    "004 Sun's thesis on rpbcast."
)

TIMES = "times.json"
CPU = ("user", "system", "children_user", "children_system")
LANES = 2
WATCH_S = 0.5

Steps = tuple[int, int]
"""How many are done, and of how many."""
Watch = Callable[[Mapping[str, Steps]], None]


class Taken(NamedTuple):
    """By the clock, and of processors."""

    wall_s: float
    cpu_s: float


def kept(directory: Path, experiment: Experiment, chosen: Mapping[str, Value]) -> Result | None:
    """A result that is there already, as `save` has left it, of a run with the same parameters."""
    path = directory / f"{experiment.name}.json"
    if not path.exists():
        return None
    try:
        result = msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no result: {error}; remove it") from None
    wanted = {name: chosen.get(name, each.default) for name, each in experiment.parameters.items()}
    return result if result.parameters == wanted else None


def run_all(chosen: Mapping[str, Mapping[str, Value]], watch: Watch) -> Iterator[tuple[Result, Taken]]:
    """Run these experiments with these parameters, some side by side, the longest first; each as soon as it has ended.
    One by one, all but one processor would wait for the last point of each. `watch` hears now and then how far those
    are that run."""
    if not chosen:
        return
    context = get_context("spawn")
    waiting = sorted(chosen, key=lambda name: -registry.find(name).minutes)
    # Each in a process of its own: then what it and those that it starts take can be told apart.
    with context.Manager() as manager, ProcessPoolExecutor(LANES, context, max_tasks_per_child=1) as lanes:
        told = manager.dict()
        running = {lanes.submit(_measured, name, chosen[name], told) for name in waiting}
        try:
            while running:
                ended, running = wait(running, WATCH_S, FIRST_COMPLETED)
                for each in ended:
                    result, _ = each.result()
                    told.pop(result.name, None)
                watch(dict(told))
                yield from (each.result() for each in ended)
        finally:
            for each in running:  # if it ends early: what has not begun is not begun
                each.cancel()


def _measured(name: str, chosen: Mapping[str, Value], told: MutableMapping[str, Steps]) -> tuple[Result, Taken]:
    """What came out, and what it took: of this process and of those that it started and that have ended."""
    began_s, before = monotonic(), os.times()
    result = registry.find(name).run(lambda done, total: told.__setitem__(name, (done, total)), **chosen)
    after = os.times()
    cpu_s = sum(getattr(after, kind) - getattr(before, kind) for kind in CPU)
    return result, Taken(round(monotonic() - began_s, 3), round(cpu_s, 3))


def times(directory: Path) -> dict[str, Taken]:
    """What each experiment took, as far as it is known."""
    path = directory / TIMES
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Taken]) if path.exists() else {}


def save(directory: Path, result: Result, taken: Taken) -> None:
    (directory / f"{result.name}.json").write_bytes(msgspec.json.encode(result))
    known = {**times(directory), result.name: taken}
    (directory / TIMES).write_bytes(msgspec.json.encode(dict(sorted(known.items()))))


def write(directory: Path, results: Iterable[Result]) -> Path:
    """The page for these results."""
    shown = list(results)
    claims = [claim for result in shown for claim in result.claims]
    held = sum(claim.holds for claim in claims)
    taken = times(directory)
    path = directory / "index.html"
    path.write_text(
        PAGE.format(
            summary=f"{len(shown)} experiments with the production protocol code, beside what the papers claim: "
            f"{held} of {len(claims)} claims hold. {NOTES}",
            contents=_table(
                ["experiment", "from", "what is claimed", "holds", "processor time"],
                [
                    [
                        f'<a href="#{result.name}">{result.name}</a>',
                        escape(result.paper),
                        escape(registry.find(result.name).claim),
                        _mark(sum(claim.holds for claim in result.claims), len(result.claims)),
                        _duration(taken.get(result.name)),
                    ]
                    for result in shown
                ],
            ),
            sections="\n".join(_section(registry.find(result.name), result) for result in shown),
        )
    )
    return path


def _section(experiment: Experiment, result: Result) -> str:
    claims = _table(
        ["claim", "the paper", "ours", "holds"],
        [[*map(escape, (claim.claim, claim.paper, claim.ours)), _mark(int(claim.holds), 1)] for claim in result.claims],
        "claims",
    )
    parameters = ", ".join(f"{name} {_said(value)}" for name, value in result.parameters.items())
    rows = _table(
        [*map(escape, result.rows[0])] if result.rows else [],
        [[_said(value) for value in row.values()] for row in result.rows],
        "rows",
    )
    return (
        f'<section class="card" id="{result.name}"><div class="head"><h2>{result.name}</h2>'
        f'<span class="from">{escape(result.paper)}</span></div>\n'
        f'<p class="said">{escape(experiment.claim)}</p>\n{claims}\n'
        f"{_picture(experiment, result)}\n"
        f'<p class="small">{parameters}</p>\n'
        f'<details><summary class="small">{len(result.rows)} rows</summary>{rows}</details></section>'
    )


def _picture(experiment: Experiment, result: Result) -> str:
    """One diagram alone would fill the page."""
    width_rem = PANEL_REM * min(len(experiment.panels), plots.COLUMNS_MAX)
    return f'<div style="max-width: {width_rem}rem; margin: auto">{plots.svg(experiment.panels, result.rows)}</div>'


def _mark(held: int, of: int) -> str:
    word = ("no", "yes")[held] if of == 1 else f"{held} of {of}"
    return f'<span class="mark {"yes" if held == of else "no"}">{word}</span>'


def _duration(taken: Taken | None) -> str:
    if taken is None:
        return "–"
    return f"{taken.cpu_s:.0f} s" if taken.cpu_s < 100 else f"{taken.cpu_s / 60:.0f} min"


def _said(value: Value) -> str:
    return "–" if value is None else escape(str(value))


def _table(head: list[str], body: list[list[str]], kind: str = "") -> str:
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in cells) for cells in body]
    return f'<table class="{kind}">' + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
