"""How benchmarks measure, and how they tell it.

The machine is shared and noisy, so what counts is a ratio within one run: cases take turns (never one after the other),
the time is the processor's and not the wall's, and of several repetitions the best counts, since noise only adds.
"""

import gc
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

Case = TypeVar("Case")
Cost = TypeVar("Cost")


class Row(Struct, frozen=True):
    """One figure, and the most it should be if an issue names a target."""

    benchmark: str
    what: str
    value: float
    unit: str
    target: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "holds" if self.value <= self.target else "MISSED"


Benchmark = Callable[[bool], Iterable[Row]]
"""A module's `rows(quick)`: measure; `quick` is a small size that shows that it works, and says little."""


def take_turns(cases: Mapping[Case, Callable[[], Cost]], repetitions: int) -> dict[Case, list[Cost]]:
    """Each case's costs over some repetitions, all cases in each; every other time backwards, so that nobody always
    follows the same."""
    costs: dict[Case, list[Cost]] = {case: [] for case in cases}
    for repetition in range(repetitions):
        for case in list(cases)[:: -1 if repetition % 2 else 1]:
            costs[case].append(cases[case]())
    return costs


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without the cyclic collector, whose turns would hit one case or another; it has nothing to collect here."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def run(benchmarks: Mapping[str, Benchmark], arguments: Sequence[str] | None, prog: str = "gossamer.bench") -> None:
    """The command line of one or of all benchmarks: measure, then a table, or one line of JSON."""
    parser = ArgumentParser(prog=prog, description="Every speed the issues name, as ratios within one run.")
    if len(benchmarks) > 1:
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(benchmarks)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, in seconds")
    parser.add_argument("--json", action="store_true", help="one JSON document on one line")
    parser.error = _complain  # type: ignore[method-assign]
    options = parser.parse_args(arguments)
    names = getattr(options, "names", None) or list(benchmarks)
    if unknown := [name for name in names if name not in benchmarks]:
        _complain(f"there is no benchmark {unknown[0]!r}, only {', '.join(benchmarks)}")
    rows: list[Row] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += benchmarks[name](options.quick)
    if options.json:
        sys.stdout.write(msgspec.json.encode({"quick": options.quick, "rows": rows}).decode() + "\n")
    else:
        Console().print(_table(rows))


def _table(rows: Iterable[Row]) -> Table:
    table = Table("benchmark", "what")
    for title in ("measured", "target"):
        table.add_column(title, justify="right")
    table.add_column("unit")
    table.add_column("")
    before = ""
    for row in rows:
        if before not in ("", row.benchmark):
            table.add_section()
        table.add_row(
            "" if before == row.benchmark else row.benchmark,
            row.what,
            f"{row.value:,.4g}",
            "" if row.target is None else f"≤ {row.target:,g}",
            row.unit,
            row.verdict,
        )
        before = row.benchmark
    return table


def _complain(message: str) -> NoReturn:
    print(f"gossamer.bench: {message}", file=sys.stderr)
    sys.exit(2)
