"""What was left out for something newer, where, of which keys, for whom; who is slowest, and how old what they see is.

`purging`: events purged by window, member, hop and reason, from the samples of telemetry.

| column | |
|---|---|
| `window_start` timestamp, `node` string | when, and where |
| `hop` string | `link` (towards a peer), `queue` (towards a subscription), `gossip` (kept for repairs), `send` (kept until logged) |
| `reason` string | `obsolete`, or `room`: not obsolete, left out for want of room, and repaired later |
| `events` long | how many |

`hops`: the same in all, by `hop` and `reason`.

`keys`: which keys were purged most, as far as members told (16 of each interval): `group`, `key`, `hop`, `reason`, `events`.
The first 1,000.

`consumers`: each subscription, the slowest first: `node`, `client`, `subscription`, `group`, `selector`, `delivered`,
`obsoleted`, `left`, `lost` (totals), `obsoleted_share` (of what was for it), `delivered_per_s`, `queued_most`,
`oldest_most_s` (the greatest age of what waited), `behind_share` (of what was told of it, how often it read from the log).
The first 1,000.

`ages`: how old the state is that consumers see, by window and member: `window_start`, `node`, `oldest_p50_s`,
`oldest_p99_s`, `oldest_most_s`.

**To see.** Purging at the queues is what slow consumers are for: they get the newest, and nobody waits. Purging of links
for want of `room` is not: those events are repaired later, so give the links more buffer or publishers more keys.
Consumers with `lost` above 0 missed something: add a logger.
"""  # noqa: E501 (a table)

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import DEFAULT, Advice, setting
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import second_of, width_s, window_start
from gossamer.analytics.jobs.told import increases, told

NAME = "purging"
TITLE = "Purging"
PLOTS = (
    Plot(
        "by_hop",
        "line",
        "window_start",
        "events",
        "hop",
        "Events left out, by hop",
        "At queues: slow consumers, served with the newest. At links: connections that cannot take what is sent.",
    ),
    Plot(
        "ages",
        "line",
        "window_start",
        "oldest_p99_s",
        "node",
        "Age of what waits for consumers",
        "How old the state is that slow consumers see: smaller buffers make it younger.",
    ),
    Plot(
        "consumers",
        "bar",
        "client",
        "obsoleted_share",
        None,
        "The slowest consumers: what they were spared",
        "One near 1 sees only the newest: faster, or a narrower selector, if it should see more.",
    ),
)

HOPS = ("link", "queue", "gossip", "send")
REASONS = ("obsolete", "room")
TOTALS = tuple(f"purged_{hop}_{reason}" for hop in HOPS for reason in REASONS)
ROWS_MAX = 1_000
ROOM_SHARE = 0.01
"""Of what is purged: so much for want of room is too much."""
BEHIND = 0.5
LOG_BYTES = 256 * 2**20
"""Four times what a broker keeps by default for those that are behind (`ClientLimits.log_bytes_max`)."""
COUNTS = ("delivered", "obsoleted", "left", "lost")


def run(inputs: Inputs) -> dict[str, DataFrame]:
    width = width_s(inputs)
    window = window_start(second_of("published_ns"), width).alias("window_start")
    samples = told(inputs.telemetry, "sample", ("uptime_s", "interval_s", *TOTALS))
    each = F.array(
        *(
            F.struct(F.lit(hop).alias("hop"), F.lit(reason).alias("reason"), F.col(f"purged_{hop}_{reason}").alias("n"))
            for hop in HOPS
            for reason in REASONS
        )
    )
    main = (
        increases(samples, TOTALS)
        .select(window, "node", F.inline(each))
        .where("n > 0")
        .groupBy("window_start", "node", "hop", "reason")
        .agg(F.sum("n").alias("events"))
        .orderBy("window_start", "node", "hop", "reason")
        .persist()
    )
    consumers = told(
        inputs.telemetry, "consumer", (*COUNTS, "queued", "oldest_s"), ("client", "subscription", "group", "behind")
    ).persist()
    return {
        NAME: main,
        "by_hop": main.groupBy("window_start", "hop").agg(F.sum("events").alias("events")).orderBy("window_start"),
        "hops": main.groupBy("hop", "reason").agg(F.sum("events").alias("events")).orderBy(F.desc("events")),
        "keys": _keys(inputs.telemetry),
        "consumers": _consumers(consumers, inputs.telemetry),
        "ages": consumers.groupBy(window, "node")
        .agg(
            F.percentile_approx("oldest_s", 0.5).alias("oldest_p50_s"),
            F.percentile_approx("oldest_s", 0.99).alias("oldest_p99_s"),
            F.max("oldest_s").alias("oldest_most_s"),
        )
        .orderBy("window_start", "node"),
    }


def _keys(telemetry: DataFrame) -> DataFrame:
    return (
        told(telemetry, "purge", ("events",), ("hop", "reason", "group", "key"))
        .groupBy("group", "key", "hop", "reason")
        .agg(F.sum("events").cast("long").alias("events"))
        .orderBy(F.desc("events"), "group", "key", "hop")
        .limit(ROWS_MAX)
    )


def _consumers(consumers: DataFrame, telemetry: DataFrame) -> DataFrame:
    who = ["node", "client", "subscription"]
    newest = Window.partitionBy(*who).orderBy(F.desc("published_ns"))
    asked = (
        told(telemetry, "subscription", (), ("client", "subscription", "selector"))
        .withColumn("place", F.row_number().over(newest))
        .where("place = 1")
        .select(*who, "selector")
    )
    seconds = (F.max("published_ns") - F.min("published_ns")) / 1e9
    taken = F.max("delivered") - F.min("delivered")
    return (
        consumers.groupBy(*who, "group")
        .agg(
            *(F.max(name).cast("long").alias(name) for name in COUNTS),
            F.coalesce(F.try_divide(taken, seconds), F.lit(0.0)).alias("delivered_per_s"),
            F.max("queued").cast("long").alias("queued_most"),
            F.max("oldest_s").alias("oldest_most_s"),
            F.avg(F.when(F.col("behind") == "true", 1.0).otherwise(0.0)).alias("behind_share"),
        )
        .withColumn(
            "obsoleted_share",
            F.coalesce(F.try_divide(F.col("obsoleted"), F.col("delivered") + F.col("obsoleted")), F.lit(0.0)),
        )
        .join(asked, who, "left")
        .orderBy(F.desc("lost"), F.desc("oldest_most_s"), F.desc("obsoleted_share"), *who)
        .limit(ROWS_MAX)
        .select(
            *who,
            "group",
            "selector",
            *COUNTS,
            "obsoleted_share",
            "delivered_per_s",
            "queued_most",
            "oldest_most_s",
            "behind_share",
        )
    )


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    found = []
    hops = {(row.hop, row.reason): row.events for row in tables["hops"].collect()}
    room, purged = hops.get(("link", "room"), 0), sum(hops.values())
    if room > ROOM_SHARE * purged:
        found.append(
            Advice(
                "Give links more room, or publishers more keys",
                f"{room:,} of {purged:,} events left out were not obsolete: links were full of what nothing replaces. "
                "They are sent again as repairs.",
                setting(
                    "protocol",
                    link_buffer_events_max=4 * DEFAULT.link_buffer_events_max,
                    link_buffer_bytes_max=4 * DEFAULT.link_buffer_bytes_max,
                ),
                "warning",
            )
        )
    told = tables["consumers"].agg(
        F.count(F.lit(1)).alias("all"),
        F.sum("lost").alias("lost"),
        F.count(F.when(F.col("lost") > 0, 1)).alias("losers"),
        F.count(F.when(F.col("behind_share") >= BEHIND, 1)).alias("behind"),
    )
    row = told.first()
    if row is not None and row.losers:
        found.append(
            Advice(
                "Consumers missed events: add a logger, or keep more in memory",
                f"{row.losers} of {row.all} subscriptions lost {row.lost:,} events in all: what they were behind was "
                "longer than the broker's memory, and there was no logger to read it from.",
                setting("clients", log_bytes_max=LOG_BYTES),
                "critical",
            )
        )
    if row is not None and row.behind:
        found.append(
            Advice(
                "Some consumers never catch up: give their events keys, or narrow their selectors",
                f"{row.behind} of {row.all} subscriptions read from the log most of the time: they are sent more than "
                "they take, and too little of it becomes obsolete.",
                severity="warning",
            )
        )
    return found
