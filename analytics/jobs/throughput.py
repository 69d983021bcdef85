"""How much flowed, whose it was, when it was most, and how long nothing came.

`throughput`: events and bytes by window, group and publisher; the `events` of all rows are all events.

| column | |
|---|---|
| `window_start` timestamp, `window_s` int | from when, and for how long |
| `group`, `publisher` string | whose; a named publisher, or the issuer of the anonymous ones of a broker; `(others)` are all but the 50 busiest of their group |
| `broker` string | where its clients are; null for named publishers, which may be anywhere |
| `events`, `bytes` long | in that window |
| `events_per_s`, `bytes_per_s` double | on average in it |

`groups`, `publishers`: what each did in all: `group`, (`publisher`,) `events`, `bytes`, `events_per_s` (over the time of
the whole log), `peak_per_s` (the busiest second) and `peak_at`, `idle_share` (of the seconds of the log, those in which
nothing came). The 1,000 busiest.

`brokers`: what members told of themselves, by window: `window_start`, `node`, `role`, `events_published_per_s`,
`events_delivered_per_s`, `events_matched_per_s`, `bytes_published_per_s`, `bytes_sent_per_s`, `bytes_received_per_s`,
`bytes_delivered_per_s`, `loop_busy` (0 to 1, on average).

**To see.** Events a second by group: peaks far above the mean are what buffers are for. A broker whose `loop_busy` comes
near 1 is at its limit: give its clients a second one. Publishers with a high `idle_share` cost heartbeats, not traffic.
"""  # noqa: E501 (a table)

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import Advice
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import broker_of, per_second, second_of, span, width_s, window_start
from gossamer.analytics.jobs.told import increases, told

NAME = "throughput"
TITLE = "Throughput"
PLOTS = (
    Plot(
        "by_group",
        "line",
        "window_start",
        "events_per_s",
        "group",
        "Events a second by group",
        "Peaks far above the mean are what buffers are for; a group that is mostly idle needs none.",
    ),
    Plot(
        "publishers",
        "bar",
        "publisher",
        "events",
        None,
        "The busiest publishers",
        "One that is far ahead of all others decides how large the mesh has to be.",
    ),
    Plot(
        "brokers",
        "line",
        "window_start",
        "loop_busy",
        "node",
        "How busy each member was",
        "Near 1 a member is at its limit: spread its clients over more brokers.",
    ),
)

BUSIEST = 50
ROWS_MAX = 1_000
OTHERS = "(others)"
BUSY = 0.8
TOTALS = (
    "events_published", "events_delivered", "events_matched", "bytes_published", "bytes_sent", "bytes_received",
    "bytes_delivered",
)  # fmt: skip


def run(inputs: Inputs) -> dict[str, DataFrame]:
    seconds, width = per_second(inputs), width_s(inputs)
    first, end = span(inputs)
    publishers = _totals(seconds, ("group", "publisher"), end - first)
    main = _windows(seconds, width).persist()
    return {
        NAME: main,
        "by_group": _by_group(main),
        "groups": _totals(seconds, ("group",), end - first),
        "publishers": publishers,
        "brokers": _brokers(inputs.telemetry, width),
    }


def _windows(seconds: DataFrame, width: int) -> DataFrame:
    by_publisher = seconds.groupBy("second", "group", "publisher").agg(
        F.sum("events").alias("events"), F.sum("bytes").alias("bytes")
    )
    place = F.row_number().over(Window.partitionBy("group").orderBy(F.desc("events"), "publisher"))
    busiest = (
        by_publisher.groupBy("group", "publisher")
        .agg(F.sum("events").alias("events"))
        .withColumn("place", place)
        .where(F.col("place") <= BUSIEST)
        .select("group", "publisher", F.lit(True).alias("known"))
    )
    known = F.when(F.col("known"), F.col("publisher")).otherwise(OTHERS)
    return (
        by_publisher.join(F.broadcast(busiest), ["group", "publisher"], "left")
        .groupBy(window_start(F.col("second"), width).alias("window_start"), "group", known.alias("publisher"))
        .agg(F.sum("events").alias("events"), F.sum("bytes").alias("bytes"))
        .select(
            "window_start",
            F.lit(width).alias("window_s"),
            "group",
            "publisher",
            broker_of(F.col("publisher")).alias("broker"),
            "events",
            "bytes",
            (F.col("events") / width).alias("events_per_s"),
            (F.col("bytes") / width).alias("bytes_per_s"),
        )
        .orderBy("window_start", "group", "publisher")
    )


def _by_group(main: DataFrame) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in ("events_per_s", "bytes_per_s"))
    return main.groupBy("window_start", "group").agg(*sums).orderBy("window_start", "group")


def _totals(seconds: DataFrame, by: tuple[str, ...], log_s: int) -> DataFrame:
    return (
        seconds.groupBy("second", *by)
        .agg(F.sum("events").alias("events"), F.sum("bytes").alias("bytes"))
        .groupBy(*by)
        .agg(
            F.sum("events").alias("events"),
            F.sum("bytes").alias("bytes"),
            (F.sum("events") / log_s).alias("events_per_s"),
            F.max("events").alias("peak_per_s"),
            F.timestamp_seconds(F.min_by("second", F.struct(-F.col("events"), "second"))).alias("peak_at"),
            (1 - F.count(F.lit(1)) / log_s).alias("idle_share"),
        )
        .orderBy(F.desc("events"), *by)
        .limit(ROWS_MAX)
    )


def _brokers(telemetry: DataFrame, width: int) -> DataFrame:
    samples = told(telemetry, "sample", ("uptime_s", "interval_s", "loop_busy", *TOTALS), ("role",))
    window = window_start(second_of("published_ns"), width).alias("window_start")
    return (
        increases(samples, TOTALS)
        .groupBy(window, "node", "role")
        .agg(
            *((F.sum(name) / width).alias(f"{name}_per_s") for name in TOTALS),
            F.avg("loop_busy").alias("loop_busy"),
        )
        .orderBy("window_start", "node")
    )


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    busy = (
        tables["brokers"]
        .groupBy("node")
        .agg(F.max("loop_busy").alias("most"), F.avg("loop_busy").alias("mean"))
        .where(F.col("most") >= BUSY)
        .orderBy(F.desc("most"))
        .limit(3)
        .collect()
    )
    return [
        Advice(
            f"{row.node} is at its limit: give its clients a second broker",
            f"Its loop was busy {row.most:.0%} of the busiest window and {row.mean:.0%} on average.",
            severity="critical" if row.most >= 0.95 else "warning",
        )
        for row in busy
    ]
