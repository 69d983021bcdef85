"""The report: every job is run, what it found is written for machines, and a page is made of it for people.

    DIR/index.html                    the page: needs nothing but itself, and no network
    DIR/groups.toml                   the groups that job `interests` proposes, if it does
    DIR/JOB/*.parquet                 the table of a job that has its name, whole
    DIR/JOB/_JOB.json                 the same: {"job", "table", "columns", "rows", "rows_total"}; the first 10,000 rows
    DIR/JOB-TABLE/*.parquet, _….json  the job's other tables

Spark and pyarrow read a folder as a whole and pass over names that begin with an underscore: each folder is one table.
A table of up to 10,000 rows comes to the driver and is written there; a longer one is written by the executors.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import Advice
from gossamer.analytics.jobs.interests import groups_toml
from gossamer.analytics.jobs.plot import Plot
from gossamer.messages.errors import GossamerError

JOBS = (
    "throughput", "latency", "repair", "purging", "obsolescence", "subscriptions", "interests", "anomalies",
)  # fmt: skip
ROWS_MAX = 10_000
SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    """The first `ROWS_MAX`."""
    total: int
    folder: str


@dataclass(frozen=True)
class Section:
    """What a job found."""

    name: str
    title: str
    about: str
    tables: dict[str, Table] = field(default_factory=dict)
    plots: Sequence[Plot] = ()
    advice: Sequence[Advice] = ()
    took_s: float = 0.0
    failure: str = ""


@dataclass(frozen=True)
class Overview:
    """What there is, at a glance."""

    events: int = 0
    bytes: int = 0
    unreadable: int = 0
    streams: int = 0
    telemetry: int = 0
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True)
class Report:
    sources: Sequence[str]
    overview: Overview
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    """What to know of what it is made from."""

    @property
    def advice(self) -> list[tuple[Section, Advice]]:
        """All of it, what matters most first."""
        found = [(section, advice) for section in self.sections for advice in section.advice]
        return sorted(found, key=lambda each: SEVERITIES.index(each[1].severity))

    @property
    def failures(self) -> list[str]:
        return [f"{section.name}: {section.failure}" for section in self.sections if section.failure]


def overview(inputs: Inputs) -> Overview:
    at = F.expr("logged_ns div 1000")
    row = inputs.events.agg(
        F.count("*"), F.coalesce(F.sum("size"), F.lit(0)), F.count_if(F.col("attributes").isNull()),
        F.approx_count_distinct("stream"), F.timestamp_micros(F.min(at)), F.timestamp_micros(F.max(at)),
    ).collect()[0]  # fmt: skip
    events, size, unreadable, streams, first, last = row
    return Overview(events, size, unreadable, streams, inputs.telemetry.count(), first, last)


def sections(
    inputs: Inputs, out: Path, jobs: Sequence[str] = JOBS, begins: Callable[[str], None] = lambda _: None
) -> Iterator[Section]:
    """Run the jobs one after the other, and write what each found."""
    for name in jobs:
        job = import_module(f"gossamer.analytics.jobs.{name}")
        begins(job.TITLE)
        yield _section(job, inputs, out)


def _section(job: ModuleType, inputs: Inputs, out: Path) -> Section:
    began = time.monotonic()
    about = (job.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    try:
        frames: dict[str, DataFrame] = job.run(inputs)
        tables = {}
        for table, frame in frames.items():
            folder = job.NAME if table == job.NAME else f"{job.NAME}-{table}"
            tables[table], frames[table] = write(out / folder, job.NAME, table, frame)
        advice = job.advise(frames) if hasattr(job, "advise") else []
    except (PySparkException, GossamerError) as error:
        # One question that cannot be answered is no reason to answer none of the others.
        return Section(job.NAME, job.TITLE, about, failure=in_a_line(error), took_s=time.monotonic() - began)
    return Section(job.NAME, job.TITLE, about, tables, job.PLOTS, advice, time.monotonic() - began)


def write(folder: Path, job: str, name: str, frame: DataFrame) -> tuple[Table, DataFrame]:
    """What is shown of it, and the whole of it as what need not be computed again."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("*.parquet", "_*", ".*.crc"):  # of an earlier report, and of nobody else
        for path in folder.glob(pattern):
            path.unlink()
    found = frame.limit(ROWS_MAX + 1).toArrow()
    total = found.num_rows
    if total <= ROWS_MAX:
        pyarrow.parquet.write_table(found, folder / "part-0.parquet", compression="zstd")
        frame = frame.sparkSession.createDataFrame(found, frame.schema)
    else:
        frame.write.mode("append").parquet(folder.absolute().as_uri())
        frame = frame.sparkSession.read.parquet(folder.absolute().as_uri())
        total = frame.count()
        found = found.slice(0, ROWS_MAX)
    rows: list[dict[str, Any]] = found.to_pylist()
    columns = tuple(found.column_names)
    told = {"job": job, "table": name, "columns": columns, "rows": rows, "rows_total": total}
    (folder / f"_{folder.name}.json").write_text(json.dumps(told, default=plain))
    return Table(name, columns, rows, total, folder.name), frame


def plain(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return value.hex() if isinstance(value, bytes) else str(value)


def write_groups(out: Path, report: Report) -> Path | None:
    """The groups that are proposed, as a file that brokers load; none if there are none to propose."""
    path = out / "groups.toml"
    path.unlink(missing_ok=True)
    found = [section for section in report.sections if section.name == "interests" and section.tables]
    rows = found[0].tables["interests"].rows if found else []
    if not rows:
        return None
    path.write_text(groups_toml(rows))
    return path


def in_a_line(error: BaseException) -> str:
    """Spark's errors are pages long; what happened is in a line of them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("gossamer.") or "UsageError" in line or "StoreError" in line]
    return (ours or lines or [type(error).__name__])[-1 if ours else 0][:500]
