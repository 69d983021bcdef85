"""A live page: what flows through a logger, as it is logged, by Structured Streaming.

Events are counted in windows of their time of logging. Spark keeps the counts of windows that are still open (that is
its state), and hands on those that changed, whole; here they take the place of what was known of them. `live.json` has
all that is shown, and the number of the batch that it ends with: after a crash Spark gives that batch again, and it is
passed over. So nothing is lost or counted twice, and what is kept has a bound.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.page import page
from gossamer.analytics.report import Overview, Report, Section, Table

WINDOW_S = 5
SHOWN_S = 3_600
ROWS_MAX = 10_000
"""Windows of all groups that are shown: the last ones."""
CONFIG = {"spark.sql.shuffle.partitions": "4"}
"""The state is small, and each of its parts costs something in every batch."""

PLOTS = (
    Plot("windows", "line", "start", "events_per_s", "group", "Events a second", "Of the last hour, by group."),
    Plot(
        "windows", "line", "start", ("logged_p50_ms", "logged_p99_ms"), None, "From publishing to disk, ms",
        "If it rises while the rate does not, the logger's disk or a broker's loop is at its limit.",
    ),
)  # fmt: skip
COLUMNS = ("start", "group", "events", "bytes", "events_per_s", "logged_p50_ms", "logged_p99_ms")


class State(msgspec.Struct):
    """What the page shows, and how far it is."""

    batch: int = -1
    events: int = 0
    bytes: int = 0
    """Of windows that are not shown any more."""
    first: datetime | None = None
    windows: list[dict[str, Any]] = []


class Live:
    """Takes the batches of the stream, and keeps the page."""

    def __init__(self, store: str, out: Path, refreshed: Callable[[int], None], refresh_s: int) -> None:
        self._store = store
        self._out = out
        self._refreshed = refreshed
        self._refresh_s = refresh_s
        self._path = out / "live.json"
        self.state = msgspec.json.decode(self._path.read_bytes(), type=State) if self._path.exists() else State()
        self._show()

    def take(self, changed: DataFrame, batch: int) -> None:
        """`changed` are the windows in which something was logged, with all that was logged in them: after an outage
        a logger has many, of which the last are shown."""
        if batch <= self.state.batch:
            return
        window = F.col("window.start").alias("start")
        rows = changed.select(window, "group", "events", "bytes", "logged_p50_ms", "logged_p99_ms")
        totals = rows.agg(F.sum("events"), F.sum("bytes"), F.min("start")).collect()[0]
        if totals[0]:
            shown = rows.orderBy(F.desc("start"), "group").limit(ROWS_MAX).collect()
            self._merge([row.asDict() for row in shown], *totals)
        self.state.batch = batch
        _replace(self._path, msgspec.json.encode(self.state))
        self._show()

    def _merge(self, rows: list[dict[str, Any]], events: int, size: int, first: datetime) -> None:
        state = self.state
        for row in rows:
            row["start"] = row["start"].replace(tzinfo=UTC).isoformat()
        known = {(row["start"], row["group"]): row for row in state.windows}
        for row in rows:
            before = known.get((row["start"], row["group"]))
            if before is not None:  # it was counted as far as it was known
                events, size = events - before["events"], size - before["bytes"]
            row["events_per_s"] = row["events"] / WINDOW_S
            known[row["start"], row["group"]] = row
        state.events += events
        state.bytes += size
        first = first.replace(tzinfo=UTC)
        state.first = first if state.first is None else min(first, state.first)
        newest = max(start for start, _ in known)
        oldest = (datetime.fromisoformat(newest) - timedelta(seconds=SHOWN_S)).isoformat()
        kept = [known[each] for each in sorted(known) if each[0] >= oldest]
        state.windows = kept[-ROWS_MAX:]

    def _show(self) -> None:
        rows = [{**row, "start": datetime.fromisoformat(row["start"])} for row in self.state.windows]
        last = rows[-1]["start"] + timedelta(seconds=WINDOW_S) if rows else None
        overview = Overview(self.state.events, self.state.bytes, first=self.state.first, last=last)
        table = Table("windows", COLUMNS, rows[::-1], len(rows), "live.json")
        about = f"As it is logged: windows of {WINDOW_S} s, the last hour of them. This page loads itself anew."
        section = Section("live", "What flows now", about, {"windows": table}, PLOTS)
        _replace(self._out / "index.html", page(Report([self._store], overview, [section]), self._refresh_s).encode())
        self._refreshed(self.state.events)


def follow(
    spark: SparkSession, store: str, out: Path, since: datetime | None, refreshed: Callable[[int], None],
    interval_s: int = 5,
) -> StreamingQuery:  # fmt: skip
    """Keep `out/index.html` up to date until the query is stopped; one that was stopped, or killed, goes on."""
    reader = spark.readStream.format("gossamer").option("store", store)
    reader = reader.options(columns="group,published_ns,logged_ns,size", system="false")
    if since is not None:
        reader = reader.option("since", since.isoformat())
    events = reader.load()
    took_ms = F.when(F.col("published_ns") > 0, (F.col("logged_ns") - F.col("published_ns")) / 1e6)
    events = events.select("group", "size", F.timestamp_micros(F.expr("logged_ns div 1000")).alias("at"),
                           took_ms.alias("took_ms"))  # fmt: skip
    # A log is written in the order of its clock, but for a clock that is set back.
    windows = events.withWatermark("at", "1 minute").groupBy(F.window("at", f"{WINDOW_S} seconds"), "group")
    counted = windows.agg(
        F.count("*").alias("events"), F.sum("size").alias("bytes"),
        F.percentile_approx("took_ms", 0.5).alias("logged_p50_ms"),
        F.percentile_approx("took_ms", 0.99).alias("logged_p99_ms"),
    )  # fmt: skip
    live = Live(store, out, refreshed, interval_s)
    writer = counted.writeStream.outputMode("update").foreachBatch(live.take)
    writer = writer.option("checkpointLocation", (out / "checkpoint").absolute().as_uri())
    return writer.trigger(processingTime=f"{interval_s} seconds").start()


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all, whoever reads it meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{time.monotonic_ns()}")
    temporary.write_bytes(content)
    temporary.replace(path)
