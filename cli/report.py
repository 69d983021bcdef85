"""`gossamer report`: what was asked, what flowed and what to change, from what loggers have kept; made with Spark."""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from gossamer.cli.log import Moment, read_moment
from gossamer.cli.stores import find_store
from gossamer.messages.errors import GossamerError, UsageError

if TYPE_CHECKING:
    from gossamer.analytics.report import Report

MISSING = "a report needs Spark and matplotlib ({}): pip install 'gossamer[analytics]'"

Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store", envvar="GOSSAMER_STORE", help="sqlite:///FILE or postgresql://…, repeatable. [the store here]"
    ),
]
Archives = Annotated[list[Path] | None, typer.Option("--archive", help="A logger's archive in Parquet, repeatable.")]


def report(
    out: Annotated[Path, typer.Option("--out", help="Where to write index.html and all results.", metavar="DIR")],
    store: Stores = None,
    archive: Archives = None,
    master: Annotated[
        str | None, typer.Option("--master", envvar="GOSSAMER_MASTER", help="A Spark cluster: spark://…  [local[*]]")
    ] = None,
    since: Moment = None,
    until: Moment = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep a live page going, until ^C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Read what loggers have kept, and make one page of it: pictures, figures, and what to configure otherwise."""
    archives = [str(each) for each in archive or []]
    stores = store or ([] if archives else [find_store(None)])
    now_ns = time.time_ns()
    since_at, until_at = (None if text is None else _moment(text, now_ns) for text in (since, until))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from None
    check_installed()
    few = check_readable(stores) and not archives
    if follow:
        if archives or until is not None or len(stores) != 1:
            raise UsageError("--follow takes one --store, and neither --archive nor --until")
        from gossamer.cli.report_follow import follow_store

        follow_store(stores[0], out, master, since_at, as_json)
        return
    began = time.monotonic()
    with Steps() as steps:
        made, groups = make(stores, archives, out, master, since_at, until_at, steps, small=few)
    told = {
        "page": str(out / "index.html"),
        "groups": None if groups is None else str(groups),
        "events": made.overview.events,
        "unreadable": made.overview.unreadable,
        "telemetry": made.overview.telemetry,
        "took_s": round(time.monotonic() - began, 1),
        "results": {
            section.name: {name: {"folder": str(out / table.folder), "rows": table.total}
                           for name, table in section.tables.items()}
            for section in made.sections
        },
        "advice": [
            {"job": section.name, "title": advice.title, "why": advice.why, "setting": advice.setting,
             "severity": advice.severity}
            for section, advice in made.advice
        ],
        "notes": list(made.notes),
        "failures": made.failures,
    }  # fmt: skip
    for note in made.notes:
        print(f"gossamer: {note}", file=sys.stderr)
    if as_json:
        print(json.dumps(told))
    else:
        _tell(told)
    if made.failures:
        for failure in made.failures:
            print(f"gossamer: could not be answered: {failure}", file=sys.stderr)
        raise typer.Exit(1)


def check_installed() -> None:
    """What a report needs, or one line that says how to get it."""
    try:
        import matplotlib  # noqa: F401
        import pandas  # type: ignore[import-untyped] # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise UsageError(MISSING.format(error.name)) from None


def check_readable(stores: list[str]) -> bool:
    """What is wrong with a store is said before Spark is started, which takes a while. Whether all have few rows."""
    from gossamer.analytics.loggers import resolved
    from gossamer.analytics.planning import extent_of, has_few

    urls = [each for url in stores for each in resolved(url)]
    for url in urls:
        extent_of(url)
    return all(map(has_few, urls))


class Steps:
    """How far it is, on stderr, for people who look on."""

    def __init__(self, total: int = 0) -> None:
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=total or None)

    def __enter__(self) -> "Steps":
        if self._progress.console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.console.is_terminal:
            self._progress.stop()

    def expect(self, total: int) -> None:
        self._progress.update(self._task, total=total)

    def begin(self, what: str) -> None:
        self._progress.advance(self._task)
        self._progress.update(self._task, description=f"{what:<32}")


def make(
    stores: list[str], archives: list[str], out: Path, master: str | None, since: datetime | None,
    until: datetime | None, steps: Steps, *, small: bool,
) -> "tuple[Report, Path | None]":  # fmt: skip
    """Start Spark, run the jobs, write everything."""
    from pyspark.errors import PySparkException

    from gossamer.analytics import report as making
    from gossamer.analytics.inputs import load
    from gossamer.analytics.page import page
    from gossamer.analytics.session import session

    steps.expect(len(making.JOBS) + 3)
    steps.begin("starting Spark")
    spark = session(master, small=small)
    try:
        steps.begin("reading")
        inputs = load(spark, stores, archives, since, until)
        overview = making.overview(inputs)
        sections = list(making.sections(inputs, out, begins=steps.begin))
        steps.begin("drawing")
        made = making.Report([*stores, *archives], overview, sections, inputs.notes)
        groups = making.write_groups(out, made)
        (out / "index.html").write_text(page(made))
    except PySparkException as error:
        raise GossamerError(f"Spark could not read it: {making.in_a_line(error)}") from None
    finally:
        spark.stop()
    return made, groups


def _moment(text: str, now_ns: int) -> datetime:
    return datetime.fromtimestamp(read_moment(text, now_ns) / 1e9, UTC)


def _tell(told: dict[str, Any]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{told['events']:,} events, in {told['took_s']} s")
    for advice in told["advice"]:
        colour = {"critical": "red", "warning": "yellow"}.get(advice["severity"], "cyan")
        console.print(Text("  • ", colour).append(advice["title"], "default"))
    if told["groups"]:
        console.print(f"groups  {told['groups']}", markup=False)
    console.print(f"page    {told['page']}", markup=False)
