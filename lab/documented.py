"""docs/experiments.md renewed from a run: what a result says, put where an older one said it.

A section of the page has an experiment's name for its heading. In it these are made from the result, and everything
else is somebody's own words:

    the picture             figures/NAME.svg, beside the page
    the table of claims     | claim | the paper | ours | holds |
    tables of rows          after a line <!-- rows: COLUMN, COLUMN -->
    the parameters          the line that begins with "Parameters: "

Before the sections, the table of what the experiments took is made from what was written down of the run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from gossamer.lab import plots
from gossamer.lab.experiments import registry
from gossamer.lab.experiments.registry import Result, Value
from gossamer.lab.report import Taken
from gossamer.messages.errors import UsageError

HEADING = re.compile(r"^## (.*)$", re.M)
TABLE = r"(?:^\|.*\n)+"
CLAIMS = re.compile(rf"^\| claim \| .*\n(?:{TABLE})?", re.M)
ROWS = re.compile(rf"^<!-- rows: (.*) -->\n(?:{TABLE})?", re.M)
PARAMETERS = re.compile(r"^Parameters: .*$", re.M)
TIMES = re.compile(rf"^\| experiment \| processor time \| .*\n(?:{TABLE})?", re.M)
TIME = re.compile(r"\| ([a-z-]+) \| ([\d,]+) s ")
UNSAID = ("processes",)
"""Parameters that change nothing in a result."""


def renew(page: Path, results: Iterable[Result], taken: Mapping[str, Taken]) -> list[str]:
    """Renew a page and its pictures; returns the experiments that it has no section for."""
    try:
        before = page.read_text()
    except OSError as error:
        raise UsageError(f"cannot read {page}: {error.strerror}") from None
    by_name = {result.name: result for result in results}
    page.write_text(renewed(before, by_name, taken))
    headings = set(HEADING.findall(before))
    for name in by_name.keys() & headings:
        experiment = registry.find(name)
        figure = page.parent / "figures" / f"{name}.svg"
        figure.parent.mkdir(exist_ok=True)
        plots.save(figure, f"{name} ({experiment.paper})", experiment.panels, by_name[name].rows)
    return [name for name in by_name if name not in headings]


def renewed(text: str, results: Mapping[str, Result], taken: Mapping[str, Taken]) -> str:
    before, *sections = re.split(r"^(?=## )", text, flags=re.M)
    before = TIMES.sub(lambda found: _times(found[0], taken), before)
    return before + "".join(_section(section, results) for section in sections)


def _section(section: str, results: Mapping[str, Result]) -> str:
    result = results.get(HEADING.findall(section)[0])
    if result is None:
        return section
    said = ", ".join(f"{name} {value}" for name, value in result.parameters.items() if name not in UNSAID)
    section = _put(PARAMETERS, section, f"Parameters: {said}.")
    section = ROWS.sub(lambda found: found[0].splitlines()[0] + "\n" + _rows(result, found[1]), section)
    claims = [(claim.claim, claim.paper, claim.ours, "yes" if claim.holds else "**no**") for claim in result.claims]
    return _put(CLAIMS, section, _table(("claim", "the paper", "ours", "holds"), claims))


def _put(where: re.Pattern[str], text: str, what: str) -> str:
    return where.sub(lambda _: what, text, count=1)


def _rows(result: Result, columns: str) -> str:
    names = [name.strip() for name in columns.split(",")]
    if unknown := [name for name in names for row in result.rows if name not in row]:
        raise UsageError(f"the rows of {result.name} have no {unknown[0]!r}, but {', '.join(result.rows[0])}")
    return _table(names, ([_said(row[name]) for name in names] for row in result.rows))


def _times(before: str, taken: Mapping[str, Taken]) -> str:
    """What was not run this time took what it took before. In two columns: the table is long, and narrow."""
    cells = sorted(
        {**dict(TIME.findall(before)), **{name: f"{each.cpu_s:,.0f}" for name, each in taken.items()}}.items()
    )
    cells = [(name, f"{seconds} s") for name, seconds in cells]
    half = (len(cells) + 1) // 2
    head = ("experiment", "processor time")
    pairs = zip_longest(cells[:half], cells[half:], fillvalue=("", ""))
    return _table((*head, "", *head), ((*left, "", *right) for left, right in pairs))


def _said(value: Value) -> str:
    return "–" if value is None else str(value)


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in cells] for cells in body)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
