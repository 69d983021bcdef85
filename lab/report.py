"""All experiments on one page: the claims, the pictures, the numbers. It needs nothing but itself, and no network."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec

from gossamer.lab import plots
from gossamer.lab.experiments import registry
from gossamer.lab.experiments.registry import Experiment, Result, Value
from gossamer.messages.errors import UsageError

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Gossamer: the papers' experiments</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
h2 {{ margin-top: 3rem; border-bottom: 1px solid #ccc }} svg {{ max-width: 100%; height: auto }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
td, th {{ border: 1px solid #ccc; padding: .2rem .5rem; text-align: left }}
.yes {{ color: #176f2c }} .no {{ color: #a4201f; font-weight: 600 }} .small {{ color: #666; font-size: 13px }}
</style>
<h1>The papers' experiments</h1>
<p>{summary}</p>
{contents}
{sections}
</html>
"""


TIMES = "times.json"
CPU = ("user", "system", "children_user", "children_system")


class Taken(NamedTuple):
    """By the clock, and of processors."""

    wall_s: float
    cpu_s: float


def kept(directory: Path, name: str) -> Result | None:
    """A result that is there already, as `save` has left it."""
    path = directory / f"{name}.json"
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no result: {error}; remove it") from None


@contextmanager
def timed(directory: Path, name: str) -> Iterator[None]:
    """Write down what an experiment took: of this process and of those that it started and that have ended."""
    began_s, before = monotonic(), os.times()
    yield
    after = os.times()
    cpu_s = sum(getattr(after, kind) - getattr(before, kind) for kind in CPU)
    taken = {**times(directory), name: Taken(round(monotonic() - began_s, 1), round(cpu_s, 1))}
    (directory / TIMES).write_bytes(msgspec.json.encode(taken))


def times(directory: Path) -> dict[str, Taken]:
    """What each experiment took, as far as it is known."""
    path = directory / TIMES
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Taken]) if path.exists() else {}


def save(directory: Path, result: Result) -> None:
    (directory / f"{result.name}.json").write_bytes(msgspec.json.encode(result))


def write(directory: Path, results: Iterable[Result]) -> Path:
    """The page for these results."""
    shown = list(results)
    claims = [claim for result in shown for claim in result.claims]
    held = sum(claim.holds for claim in claims)
    path = directory / "index.html"
    path.write_text(
        PAGE.format(
            summary=f"{len(shown)} experiments with the production protocol code; {held} of {len(claims)} claims hold.",
            contents=_table(
                ["experiment", "from", "claims that hold"],
                [
                    [
                        f'<a href="#{result.name}">{result.name}</a>',
                        escape(result.paper),
                        f"{sum(claim.holds for claim in result.claims)} of {len(result.claims)}",
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
        [
            [
                *map(escape, (claim.claim, claim.paper, claim.ours)),
                '<span class="yes">yes</span>' if claim.holds else '<span class="no">no</span>',
            ]
            for claim in result.claims
        ],
    )
    parameters = ", ".join(f"{name} {_said(value)}" for name, value in result.parameters.items())
    rows = _table(
        [*map(escape, result.rows[0])] if result.rows else [],
        [[_said(value) for value in row.values()] for row in result.rows],
    )
    return (
        f'<h2 id="{result.name}">{result.name} <span class="small">{escape(result.paper)}</span></h2>\n'
        f"<p>{escape(experiment.claim)}</p>\n{claims}\n{plots.svg(experiment.panels, result.rows)}\n"
        f'<p class="small">{parameters}</p>\n'
        f"<details><summary>{len(result.rows)} rows</summary>{rows}</details>"
    )


def _said(value: Value) -> str:
    return "–" if value is None else escape(str(value))


def _table(head: list[str], body: list[list[str]]) -> str:
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in cells) for cells in body]
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
