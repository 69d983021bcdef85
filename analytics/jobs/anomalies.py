"""What is not as it should be: each with what, when, how much, and why it is one.

`anomalies`: a row each, the gravest of its kind first, 1,000 of a kind at most.

| column | |
|---|---|
| `kind` string | `gap`, `silent`, `hot_key`, `skew`, `clock` |
| `group`, `subject` string | of which group; the stream (`gap`, `silent`, `clock`), key or publisher |
| `at` timestamp | when; null for what holds all the time |
| `amount` double, `unit` string | how much: events missing, seconds silent, share of the group's events, seconds ahead |
| `why` string | in words |

What counts as one:

- `gap`: sequence numbers that are not in the log. Purged before they were logged, collected, lost with a publisher that was
  killed, or not logged yet.
- `silent`: a stream with nothing for 20 times as long as it usually pauses, and 10 s at least; from `at` to its next event or the
  end of the log. If its session was closed meanwhile, it is not silent but away.
- `hot_key`: a key with a quarter of a group's events, in a group of ten keys or more.
- `skew`: a publisher with a fifth of a group's events and four times its equal share, in a group of four publishers or more.
- `clock`: a stream with events that were logged more than a millisecond before they were published, so that its clock must be
  ahead; or all of whose events took a second longer than the quickest of the group: then it is behind, or far away.

`clocks`: by stream: `group`, `stream`, `publisher`, `events`, `early` (logged before published), `offset_ms` (the least time from
publishing to logging; below 0 the clock is ahead by that at least). The 1,000 strangest.

**To see.** A gap at the end of a killed publisher's stream is the rule without a spool (`spool=`); others ask for a look at the
loggers (`gossamer logger --check`). Hot keys are the best case for purging, and the worst for a lookup by key. Clocks: run NTP.
"""  # noqa: E501 (a table)

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import DEFAULT, Advice, setting
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import AT_NS, per_second, second_of, span

NAME = "anomalies"
TITLE = "Anomalies"
PLOTS = (
    Plot(
        "kinds",
        "bar",
        "kind",
        "anomalies",
        None,
        "Anomalies by kind",
        "The table below says of each when it was, how much, and why.",
    ),
    Plot(
        "clocks",
        "bar",
        "stream",
        "offset_ms",
        None,
        "Least time from publishing to logging",
        "Below 0 a publisher's clock is ahead. Group-wide keys without a rank are ordered by these clocks.",
    ),
)

ROWS_MAX = 1_000
BLOCK_BITS = 12
"""Sequence numbers are counted in blocks of so many bits; only blocks that are not full are looked into."""
PAUSES = 20
"""How many times its usual pause is silence: of exponential ones one in 500 million is so long."""
SILENT_S = 10
SECONDS_MIN = 5
"""A stream that was active in fewer has no usual pause."""
HOT, KEYS_MIN = 1 / 4, 10
SKEWED, UNEQUAL, PUBLISHERS_MIN = 1 / 5, 4, 4
AHEAD_NS, BEHIND_NS = 1_000_000, 1_000_000_000
COLUMNS = ("kind", "group", "subject", "at", "amount", "unit", "why")


def run(inputs: Inputs) -> dict[str, DataFrame]:
    seconds = per_second(inputs)
    clocks = _clocks(seconds)
    kinds = (
        _gaps(inputs),
        _silent(seconds, inputs, span(inputs)[1]),
        _hot_keys(inputs),
        _skew(seconds),
        _ahead_or_behind(clocks),
    )
    main = reduce(DataFrame.unionByName, kinds).persist()
    return {
        NAME: main,
        "kinds": main.groupBy("kind").agg(F.count(F.lit(1)).alias("anomalies")).orderBy("kind"),
        "clocks": clocks.orderBy("offset_ms", "stream").limit(ROWS_MAX),
    }


def _told(found: DataFrame, kind: str, unit: str) -> DataFrame:
    whole = found.withColumn("kind", F.lit(kind)).withColumn("unit", F.lit(unit)).select(*COLUMNS)
    return whole.orderBy(F.desc(F.abs("amount")), "subject", "at").limit(ROWS_MAX)


# Gaps -----------------------------------------------------------------------------------------------------------------


def _gaps(inputs: Inputs) -> DataFrame:
    """Blocks are counted without sorting anything; what is sorted are blocks, and the events of those with holes."""
    block = F.shiftright("seq", BLOCK_BITS).alias("block")
    events = inputs.events.select("group", "stream", "seq", second_of(AT_NS).alias("second"), block)
    blocks = events.groupBy("group", "stream", "block").agg(
        F.min("seq").alias("first"),
        F.max("seq").alias("last"),
        F.count(F.lit(1)).alias("events"),
        F.min_by("second", "seq").alias("second"),
    )
    holed = blocks.where("events < last - first + 1").select("stream", "block")
    of_stream = Window.partitionBy("stream").orderBy("block")
    between = blocks.select(
        "group", "stream", "second", F.lag("last").over(of_stream).alias("before"), F.col("first").alias("next")
    )
    in_block = Window.partitionBy("stream", "block").orderBy("seq")
    within = events.join(F.broadcast(holed), ["stream", "block"], "left_semi").select(
        "group", "stream", "second", F.lag("seq").over(in_block).alias("before"), F.col("seq").alias("next")
    )
    missing = F.col("next") - F.col("before") - 1
    found = between.unionByName(within).where(missing > 0)
    return _told(
        found.select(
            "group",
            F.col("stream").alias("subject"),
            F.timestamp_seconds("second").alias("at"),
            missing.cast("double").alias("amount"),
            F.format_string(
                "%d to %d are not in the log: purged before they were logged, collected, or lost with their publisher",
                F.col("before") + 1,
                F.col("next") - 1,
            ).alias("why"),
        ),
        "gap",
        "events",
    )


# Publishers -----------------------------------------------------------------------------------------------------------


def _silent(seconds: DataFrame, inputs: Inputs, end: int) -> DataFrame:
    order = Window.partitionBy("group", "stream").orderBy("second")
    whole = Window.partitionBy("group", "stream")
    usual = (F.max("second").over(whole) - F.min("second").over(whole)) / (F.count(F.lit(1)).over(whole) - 1)
    closed = inputs.telemetry.where("type = 'session' AND deleted").select(
        F.get_json_object("attributes", "$.stream").alias("stream"), second_of("published_ns").alias("closed")
    )
    pauses = (
        seconds.select("group", "stream", "second")
        .withColumn("active", F.count(F.lit(1)).over(whole))
        .withColumn("next", F.lead("second").over(order))
        .withColumn("usual", F.when(F.col("active") > 1, usual))
        .where(F.col("active") >= SECONDS_MIN)
        .withColumn("until", F.coalesce("next", F.lit(end)))
        .withColumn("silence", F.col("until") - F.col("second"))
        .where((F.col("silence") >= SILENT_S) & (F.col("silence") >= PAUSES * F.col("usual")))
    )
    return _told(
        pauses.join(
            closed,
            (pauses["stream"] == closed["stream"]) & F.col("closed").between(F.col("second"), F.col("until")),
            "left_anti",
        ).select(
            "group",
            F.col("stream").alias("subject"),
            F.timestamp_seconds("second").alias("at"),
            F.col("silence").cast("double").alias("amount"),
            F.format_string(
                "nothing for %d s, where pauses of %.1f s are usual%s",
                F.col("silence"),
                F.col("usual"),
                F.when(F.col("next").isNull(), F.lit("; it has not come back")).otherwise(F.lit("")),
            ).alias("why"),
        ),
        "silent",
        "seconds",
    )


def _skew(seconds: DataFrame) -> DataFrame:
    whole = Window.partitionBy("group")
    share = F.col("events") / F.sum("events").over(whole)
    return _told(
        seconds.groupBy("group", "publisher")
        .agg(F.sum("events").alias("events"))
        .withColumn("share", share)
        .withColumn("publishers", F.count(F.lit(1)).over(whole))
        .where((F.col("publishers") >= PUBLISHERS_MIN) & (F.col("share") >= SKEWED))
        .where(F.col("share") * F.col("publishers") >= UNEQUAL)
        .select(
            "group",
            F.col("publisher").alias("subject"),
            F.lit(None).cast("timestamp").alias("at"),
            F.col("share").alias("amount"),
            F.format_string(
                "%.1f %% of the group's events, %.1f times the equal share of its %d publishers",
                F.col("share") * 100,
                F.col("share") * F.col("publishers"),
                F.col("publishers"),
            ).alias("why"),
        ),
        "skew",
        "share",
    )


def _clocks(seconds: DataFrame) -> DataFrame:
    return seconds.groupBy("group", "stream", "publisher").agg(
        F.sum("events").alias("events"),
        F.sum("early").alias("early"),
        (F.min("offset_ns") / 1e6).alias("offset_ms"),
        F.min(F.when(F.col("early") > 0, F.col("second"))).alias("since"),
    )


def _ahead_or_behind(clocks: DataFrame) -> DataFrame:
    quickest = F.percentile_approx("offset_ms", 0.5).over(Window.partitionBy("group"))
    ahead = F.col("offset_ms") < -AHEAD_NS / 1e6
    behind = F.col("offset_ms") - F.greatest("quickest", F.lit(0.0)) > BEHIND_NS / 1e6
    return _told(
        clocks.withColumn("quickest", quickest)
        .where(ahead | behind)
        .select(
            "group",
            F.col("stream").alias("subject"),
            F.timestamp_seconds("since").alias("at"),
            (-F.col("offset_ms") / 1e3).alias("amount"),
            F.when(
                ahead,
                F.format_string(
                    "%d of %d events were logged before they were published, by up to %.3f s: its clock is ahead",
                    F.col("early"),
                    F.col("events"),
                    -F.col("offset_ms") / 1e3,
                ),
            )
            .otherwise(
                F.format_string(
                    "the quickest of its %d events took %.3f s to be logged, those of half of the streams %.3f s at "
                    "most: its clock is behind, or it is far away",
                    F.col("events"),
                    F.col("offset_ms") / 1e3,
                    F.col("quickest") / 1e3,
                )
            )
            .alias("why"),
        ),
        "clock",
        "seconds ahead",
    )


# Keys -----------------------------------------------------------------------------------------------------------------


def _hot_keys(inputs: Inputs) -> DataFrame:
    counted = inputs.events.groupBy("group", "key").agg(F.count(F.lit(1)).alias("events"))
    totals = counted.groupBy("group").agg(F.sum("events").alias("total"), F.count("key").alias("keys"))
    share = F.col("events") / F.col("total")
    return _told(
        counted.join(F.broadcast(totals), "group")
        .where(F.col("key").isNotNull() & (F.col("keys") >= KEYS_MIN) & (share >= HOT))
        .select(
            "group",
            F.col("key").alias("subject"),
            F.lit(None).cast("timestamp").alias("at"),
            share.alias("amount"),
            F.format_string(
                "%.1f %% of the group's events, of %d keys: %.0f times its equal share",
                share * 100,
                F.col("keys"),
                share * F.col("keys"),
            ).alias("why"),
        ),
        "hot_key",
        "share",
    )


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    counted = {row.kind: row for row in _worst(tables[NAME]).collect()}
    return [_advice(kind, row.anomalies, row.worst) for kind, row in counted.items()]


def _worst(main: DataFrame) -> DataFrame:
    told = F.format_string("%s in %s: %s", F.col("subject"), F.col("group"), F.col("why"))
    return (
        main.groupBy("kind")
        .agg(F.count(F.lit(1)).alias("anomalies"), F.max_by(told, F.abs("amount")).alias("worst"))
        .orderBy("kind")
    )


def _advice(kind: str, count: int, worst: str) -> Advice:
    many = f"{count} of them. The worst: {worst}." if count > 1 else f"{worst}."
    match kind:
        case "gap":
            return Advice(
                "The log has gaps: check the loggers, and give publishers a spool",
                f"{many} `gossamer logger --check` tells what a store lacks. On two loggers' disks an event "
                "survives one.",
                setting("protocol", loggers_min=2),
                "warning",
            )
        case "silent":
            return Advice("Publishers fell silent", many, severity="warning")
        case "clock":
            return Advice(
                "Set the publishers' clocks (NTP)",
                f"{many} Keys of a whole group are ordered by these clocks where there is no rank.",
                severity="warning",
            )
        case "hot_key":
            return Advice(
                "Hot keys: purge them on links at once",
                f"{many} Nearly all of it is obsolete soon: without patience a link that is behind drops it sooner.",
                setting("protocol", link_policy="eager", link_patience_s=DEFAULT.link_patience_s / 4),
            )
        case _:
            return Advice("One publisher outweighs the others: spread what it publishes", many)
