"""How long it took from publishing to a logger's disk, and to the brokers that deliver.

`latency`: percentiles by window, stage and broker.

| column | |
|---|---|
| `window_start` timestamp, `window_s` int | from when, and for how long |
| `stage` string | `logged`: from publishing to the disk, of every event in the log. `delivered`: from publishing to a member, as members sampled it |
| `broker` string | of `logged` the one where it was published (null: a named publisher's, which may be anywhere), of `delivered` the one that it came to |
| `events` long | how many were measured; null if samples do not tell |
| `p50_ms`, `p90_ms`, `p99_ms`, `max_ms` double | of `delivered` the median of the samples' medians and the worst of their 99 % bounds; no others |

`overall`: the same without windows.

Times are differences of two machines' clocks, and those that are below 0 count as 0: how far clocks are off is among the
anomalies.

**To see.** A steady p50 with a p99 that jumps: somebody waits, usually a disk (`logged`) or a gap that is being repaired
(`delivered`: shorten `round_interval_s`). A broker that is slower than the others is far away or busy.
"""  # noqa: E501 (a table)

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import DEFAULT, Advice, setting
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import AT_NS, broker_of, second_of, width_s, window_start
from gossamer.analytics.jobs.told import told

NAME = "latency"
TITLE = "Latency"
PLOTS = (
    Plot(
        "by_stage",
        "line",
        "window_start",
        ("p50_ms", "p99_ms"),
        "stage",
        "From publishing to disk and to delivery",
        "A p99 that jumps while p50 is steady: a disk that stalls (logged), or gaps being repaired (delivered).",
        log_y=True,
    ),
    Plot(
        "overall",
        "bar",
        "broker",
        ("p50_ms", "p99_ms"),
        "stage",
        "By broker",
        "One that is slower than the others is far away, or busy.",
    ),
)

BITS = 6
"""Latencies are counted in steps of 1/64 of their size at most: one pass over the events serves all percentiles."""
SHARES = (0.5, 0.9, 0.99)
SLOW_MS = 100.0
TAIL = 20.0
"""A p99 of so many times the median is a tail that something causes."""


def run(inputs: Inputs) -> dict[str, DataFrame]:
    width = width_s(inputs)
    counted, sampled = _counted(inputs.events, width), _sampled(inputs.telemetry, width)

    def table(*by: str) -> DataFrame:
        return _logged(counted, by).unionByName(_delivered(sampled, by)).select(*by, *COLUMNS).orderBy(*by, "stage")

    return {
        NAME: table("window_start", "window_s", "broker"),
        "by_stage": table("window_start"),
        "overall": table("broker"),
    }


COLUMNS = ("stage", "events", "p50_ms", "p90_ms", "p99_ms", "max_ms")


def _counted(events: DataFrame, width: int) -> DataFrame:
    """How many events took how long, by window and broker: as many rows as there are steps, not events."""
    took_us = F.greatest(F.expr("(logged_ns - published_ns) div 1000"), F.lit(0))
    step = F.pow(F.lit(2.0), F.greatest(F.floor(F.log2("took_us")) - BITS, F.lit(0)))
    return (
        events.where("published_ns > 0")  # what could not be read tells no time
        .select(second_of(AT_NS).alias("second"), "publisher", took_us.alias("took_us"))
        .groupBy(
            window_start(F.col("second"), width).alias("window_start"),
            F.lit(width).alias("window_s"),
            "publisher",
            F.when(F.col("took_us") == 0, 0.0).otherwise(F.floor(F.col("took_us") / step) * step).alias("step_us"),
        )
        .agg(F.count(F.lit(1)).alias("n"), F.max("took_us").alias("longest_us"))
        .groupBy("window_start", "window_s", broker_of(F.col("publisher")).alias("broker"), "step_us")
        .agg(F.sum("n").alias("n"), F.max("longest_us").alias("longest_us"))
        .persist()
    )


def _logged(counted: DataFrame, by: tuple[str, ...]) -> DataFrame:
    return (
        counted.groupBy(*by)
        .agg(
            F.percentile("step_us", list(SHARES), F.col("n")).alias("p"),
            F.sum("n").alias("events"),
            (F.max("longest_us") / 1_000).alias("max_ms"),
        )
        .select(
            *by,
            F.lit("logged").alias("stage"),
            "events",
            *((F.col("p")[at] / 1_000).alias(f"p{share * 100:g}_ms") for at, share in enumerate(SHARES)),
            "max_ms",
        )
    )


def _sampled(telemetry: DataFrame, width: int) -> DataFrame:
    window = window_start(second_of("published_ns"), width).alias("window_start")
    return told(telemetry, "sample", ("latency_delivered_p50_ms", "latency_delivered_p99_ms")).select(
        window, F.lit(width).alias("window_s"), F.col("node").alias("broker"), "latency_delivered_p50_ms",
        "latency_delivered_p99_ms",
    ).where(F.col("latency_delivered_p50_ms").isNotNull())  # fmt: skip


def _delivered(sampled: DataFrame, by: tuple[str, ...]) -> DataFrame:
    unknown = F.lit(None)
    return (
        sampled.groupBy(*by)
        .agg(
            F.median("latency_delivered_p50_ms").alias("p50_ms"),
            F.max("latency_delivered_p99_ms").alias("p99_ms"),
        )
        .select(
            *by,
            F.lit("delivered").alias("stage"),
            unknown.cast("long").alias("events"),
            "p50_ms",
            unknown.cast("double").alias("p90_ms"),
            "p99_ms",
            unknown.cast("double").alias("max_ms"),
        )
    )


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    found = []
    for row in tables["overall"].orderBy(F.desc("p99_ms")).limit(20).collect():
        if row.p99_ms is None or row.p99_ms < max(SLOW_MS, TAIL * (row.p50_ms or 0.0)):
            continue
        seen = f"Half of the events took {row.p50_ms:.1f} ms, one in a hundred {row.p99_ms:.0f} ms or more"
        if row.stage == "delivered":
            shorter = max(DEFAULT.round_interval_s / 2, 0.05)
            found.append(
                Advice(
                    f"Repair sooner: events come to {row.broker} with a long tail",
                    f"{seen}. What was lost on the way waits for the next round of gossip; more rounds cost messages.",
                    setting("protocol", round_interval_s=shorter),
                    "warning",
                )
            )
        else:
            where = "named publishers" if row.broker is None else f"clients of {row.broker}"
            found.append(
                Advice(
                    f"Look at the loggers' disks: events of {where} are logged with a long tail",
                    f"{seen} until they were on disk. A disk of their own, or a second logger, takes it away.",
                    severity="warning",
                )
            )
    return found
