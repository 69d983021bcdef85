"""What Spark takes to read a log and to answer from it, and what others take that can.

The source is measured by itself (a store to Arrow, in one process) and in Spark, where the time of the JVM and of
Python's workers counts as well: processor time, so µs a row of one core. Spark's start is told apart.

pandas and DuckDB are given the same archive, and two questions that they can answer as well: events and bytes a second
by group and publisher, and how far apart related events are. All three count the same, or the bench fails.

The whole report is made by the command, as anyone would, from a store in SQLite; its memory is all of its processes'.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill, fill_archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "analytics"
SECOND_NS = 10**9
DISTANCES = 64
REPORT_S = 240
REPORT_GB = 6
STORE = "GOSSAMER_BENCH_STORE"
"""In the environment: the url of a store that `gossamer lab run make-log` has made, to be reported on."""
_TICKS = os.sysconf("SC_CLK_TCK")
_COMMAND = [sys.executable, "-c", "from gossamer.cli.main import main; main()", "report"]


def rows(quick: bool = False) -> Iterator[Row]:
    if find_spec("pyspark") is None:
        print("analytics is not measured: it needs pip install 'gossamer[analytics]', and Java", file=sys.stderr)
        return
    events, repetitions = (5_000, 1) if quick else (1_000_000, 3)
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir=".") as folder:
        path = Path(folder).absolute()
        url = f"sqlite:///{path}/log.db"
        began_s = time.process_time()
        fill(url, MadeLog(events))
        yield Row(NAME, "make-log: a store", 1e6 * (time.process_time() - began_s) / events, "µs an event")
        fill_archive(path / "archive", MadeLog(events))
        yield from _alone(url, repetitions)
        yield from _in_spark(url, str(path / "archive"), repetitions)
        if not quick:
            yield from _report(os.environ.get(STORE, url), path / "report")


# The source -----------------------------------------------------------------------------------------------------------


def _alone(url: str, repetitions: int) -> Iterator[Row]:
    """A store to Arrow, in this process."""
    from gossamer.analytics.planning import extent_of, place_of, slices
    from gossamer.analytics.reading import read
    from gossamer.analytics.schema import EVENTS

    extent = extent_of(url)

    def cost_us() -> float:
        began_s, count = time.process_time(), 0
        for part in slices(place_of(url), extent.first, extent.last, 1):
            count += sum(batch.num_rows for batch in read("events", EVENTS, [], part))
        return 1e6 * (time.process_time() - began_s) / count

    costs = measure.take_turns({"all": cost_us}, repetitions)
    yield Row(NAME, "SQLite to Arrow, all columns", min(costs["all"]), "µs a row", 1e6 / 120_000)


def _in_spark(url: str, archive: str, repetitions: int) -> Iterator[Row]:
    from pyspark.sql import SparkSession

    from gossamer.analytics.session import session

    is_ours = SparkSession.getActiveSession() is None
    began = time.perf_counter()
    spark = session("local[2]")
    spark.range(1).count()
    yield Row(NAME, "Spark: its start", time.perf_counter() - began, "s")
    try:
        yield from _reading(spark, url, repetitions)
        yield from _answering(spark, archive, repetitions)
    finally:
        if is_ours:
            spark.stop()


def _reading(spark: "SparkSession", url: str, repetitions: int) -> Iterator[Row]:
    def read(**options: Any) -> "DataFrame":
        return spark.read.format("gossamer").options(store=url, **options).load()

    count = read(columns="id").count()
    narrow = "group,stream,seq,published_ns,logged_ns,key,size,publisher"
    cases = {
        "all columns": lambda: _cost(lambda: _drained(read(partitions=2))),
        "eight columns": lambda: _cost(lambda: _drained(read(partitions=2, columns=narrow))),
        "all columns, 1 partition": lambda: _cost(lambda: _drained(read(partitions=1))),
        "all columns, 8 partitions": lambda: _cost(lambda: _drained(read(partitions=8))),
    }
    costs = measure.take_turns(cases, repetitions)
    target_us = 1e6 / 120_000
    for case, found in costs.items():
        busy_s = min(busy for _, busy in found)
        target = target_us if case == "all columns" else None
        yield Row(NAME, f"SQLite in Spark, {case}: JVM and workers", 1e6 * busy_s / count, "µs a row", target)
    wall = {case: min(wall for wall, _ in found) for case, found in costs.items()}
    for parts, case in ((2, "all columns"), (8, "all columns, 8 partitions")):
        ratio = wall["all columns, 1 partition"] / wall[case]
        yield Row(NAME, f"{parts} partitions: times as fast as 1, by the wall's clock", ratio, "×")


def _drained(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


# Others ---------------------------------------------------------------------------------------------------------------


def _answering(spark: "SparkSession", archive: str, repetitions: int) -> Iterator[Row]:
    files = f"{archive}/*/*/*.parquet"
    questions: dict[str, dict[str, Callable[[], object]]] = {
        "throughput": {"Spark": lambda: _spark_throughput(spark, archive)},
        "distances": {"Spark": lambda: _spark_distances(spark, archive)},
    }
    if find_spec("pandas") is not None:
        questions["throughput"]["pandas"] = lambda: _pandas_throughput(archive)
        questions["distances"]["pandas"] = lambda: _pandas_distances(archive)
    if find_spec("duckdb") is not None:
        questions["throughput"]["DuckDB"] = lambda: _duckdb(_THROUGHPUT.format(files))
        questions["distances"]["DuckDB"] = lambda: _duckdb(_DISTANCES.format(files))
    for question, engines in questions.items():
        answers = {name: ask() for name, ask in engines.items()}  # and everything is warm
        assert len({str(answer) for answer in answers.values()}) == 1, f"{question}: they differ: {answers}"
        cases = {name: (lambda ask=ask: _cost(ask)) for name, ask in engines.items()}
        costs = measure.take_turns(cases, repetitions)
        best = {name: min(busy for _, busy in found) for name, found in costs.items()}
        for name, busy_s in best.items():
            yield Row(NAME, f"{question}: {name}, processor time", busy_s, "s")
            if name != "Spark":
                yield Row(NAME, f"{question}: Spark to {name}", best["Spark"] / busy_s, "×")


Answer = tuple[int, int, int]
"""Rows of the result, and two sums over it: enough to see that all mean the same."""


def _spark_throughput(spark: "SparkSession", archive: str) -> Answer:
    from pyspark.sql import functions as F

    from gossamer.analytics.archives import read_archive

    second = F.floor(F.col("logged_ns") / SECOND_NS)
    found = read_archive(spark, archive, "events").groupBy("group", "stream", second.alias("second"))
    table = found.agg(F.count("*").alias("events"), F.sum("size").alias("bytes"))
    return _row(table.agg(F.count("*"), F.sum("events"), F.sum("bytes")).first())


def _spark_distances(spark: "SparkSession", archive: str) -> Answer:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from gossamer.analytics.archives import read_archive

    keyed = read_archive(spark, archive, "events").where("key IS NOT NULL").select("stream", "key", "seq")
    before = F.lag("seq").over(Window.partitionBy("stream", "key").orderBy("seq"))
    distances = keyed.select((F.col("seq") - before).alias("x")).where(F.col("x") <= DISTANCES)
    table = distances.groupBy("x").agg(F.count("*").alias("events"))
    return _row(table.agg(F.count("*"), F.sum("events"), F.sum(F.col("x") * F.col("events"))).first())


def _pandas_throughput(archive: str) -> Answer:
    frame = _pandas_read(archive, ["stream", "logged_ns", "size"])
    frame["second"] = frame["logged_ns"] // SECOND_NS
    frame["group"] = frame["stream"].str.partition("/")[0]
    table = frame.groupby(["group", "stream", "second"], observed=True)["size"].agg(["count", "sum"])
    return len(table), int(table["count"].sum()), int(table["sum"].sum())


def _pandas_distances(archive: str) -> Answer:
    frame = _pandas_read(archive, ["stream", "key", "seq"]).dropna(subset=["key"]).sort_values("seq")
    apart = frame.groupby(["stream", "key"], observed=True)["seq"].diff().dropna().astype("int64")
    table = apart[apart <= DISTANCES].value_counts()
    return len(table), int(table.sum()), int((table.index * table).sum())


def _pandas_read(archive: str, columns: list[str]) -> Any:
    import pyarrow.dataset as dataset

    return dataset.dataset(archive, format="parquet").to_table(columns=columns).to_pandas()


_THROUGHPUT = """
    SELECT COUNT(*), SUM(events), SUM(bytes) FROM (
        SELECT split_part(stream, '/', 1), stream, logged_ns // 1000000000, COUNT(*) AS events, SUM(size) AS bytes
        FROM '{}' GROUP BY ALL)
"""
_DISTANCES = f"""
    SELECT COUNT(*), SUM(events), SUM(x * events) FROM (
        SELECT x, COUNT(*) AS events FROM (
            SELECT seq - LAG(seq) OVER (PARTITION BY stream, key ORDER BY seq) AS x FROM '{{}}' WHERE key IS NOT NULL)
        WHERE x <= {DISTANCES} GROUP BY x)
"""


def _duckdb(question: str) -> Answer:
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        return _row(connection.execute(question).fetchone())


def _row(row: Any) -> Answer:
    return tuple(int(value) for value in row)  # type: ignore[return-value]


# The report -----------------------------------------------------------------------------------------------------------


def _report(url: str, out: Path) -> Iterator[Row]:
    if subprocess.run([*_COMMAND, "--help"], capture_output=True, check=False).returncode:
        print("the report is not measured: there is no such command", file=sys.stderr)
        return
    began = time.perf_counter()
    with (out.parent / "report.log").open("wb") as log:
        report = subprocess.Popen([*_COMMAND, "--store", url, "--out", str(out)], stdout=log, stderr=log)
        peak = 0
        while report.poll() is None:
            peak = max(peak, sum(_memory(pid) for pid in _family(report.pid)))
            time.sleep(0.5)
    took_s = time.perf_counter() - began
    if report.returncode:
        print((out.parent / "report.log").read_text()[-2_000:], file=sys.stderr)
        return
    large = STORE in os.environ
    yield Row(NAME, f"the report on {url}", took_s, "s", REPORT_S if large else None)
    yield Row(NAME, "the report, memory of all its processes", peak / 2**30, "GB", REPORT_GB if large else None)


# Processes ------------------------------------------------------------------------------------------------------------


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the wall's clock, and of the processor's in this process and all that it has started."""
    began, busy_s = time.perf_counter(), _busy_s()
    work()
    return time.perf_counter() - began, _busy_s() - busy_s


def _busy_s() -> float:
    return sum(map(_processor_s, _family(os.getpid())))


def _processor_s(pid: int) -> float:
    """Of a process, and of those that it has seen end."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def _memory(pid: int) -> int:
    """What is its own, and its part of what it shares: forked workers share most."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def _family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
