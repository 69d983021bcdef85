"""How much was lost on the way, who repaired it, how many rounds that took, and who carried the load.

`repair`: what each member lacked and got, by window, from the samples of its telemetry.

| column | |
|---|---|
| `window_start` timestamp, `node`, `role` string | when, and who lacked it |
| `delivered` long | events that came to it in that window |
| `late`, `gossip`, `logger` long | of those that were missing at first: came by themselves, from another member, from a logger |
| `repaired_share` double | of what was delivered, how much was asked for: `(gossip + logger) / delivered` |

`shares`: the same in all, by `way` (`late`, `gossip`, `logger`): `events`, `share` of all that was missing,
`delivered_share` of all that was delivered.

`rounds`: how many rounds of gossip it took: `way`, `rounds` (64 stands for more), `events`, `share` (of that way within
so many rounds or fewer).

`load`: who sent the repairs (thesis, figure 7-2): `node`, `role`, `packets_repaired`, `share`, `fair` (its share
relative to an equal one: 1 is equal), `rank` (1 carried most).

**To see.** Repairs by gossip should take few rounds and be spread evenly over members; loggers should have little to do.
A `logger` share that is high, or rounds near `gclimit_rounds`: packets leave the gossip buffers too soon. A load far from
equal: near members are asked too often (`selection`).
"""  # noqa: E501 (a table)

from math import ceil

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import DEFAULT, Advice, setting
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import second_of, width_s, window_start
from gossamer.analytics.jobs.told import increases, told

NAME = "repair"
TITLE = "Repair"
PLOTS = (
    Plot(
        "repair",
        "line",
        "window_start",
        "repaired_share",
        "node",
        "Share of events that had to be repaired",
        "A member that stands out has a bad link, or too little time to read it.",
    ),
    Plot(
        "rounds",
        "cdf",
        "rounds",
        "share",
        "way",
        "Rounds needed",
        "What needs nearly gclimit_rounds is about to be lost to gossip: raise it.",
    ),
    Plot(
        "load",
        "bar",
        "node",
        "packets_repaired",
        "role",
        "Who repaired the others (thesis, figure 7-2)",
        "Bars of one height: the load is shared. One high bar: selection asks near members too often.",
    ),
)

WAYS = ("late", "gossip", "logger")
TOTALS = ("events_delivered", "packets_repaired", *(f"repaired_{way}" for way in WAYS))
MANY = 0.05
"""Of what is delivered: more repairs than this are a link that loses too much."""
LOGGER_SHARE = 0.2
UNEVEN = 3.0
PACKETS_MIN = 100
"""Fewer than that tell nothing of how a load is spread."""


def run(inputs: Inputs) -> dict[str, DataFrame]:
    width = width_s(inputs)
    samples = told(inputs.telemetry, "sample", ("uptime_s", "interval_s", *TOTALS), ("role",))
    grown = increases(samples, TOTALS).persist()
    return {NAME: _repair(grown, width), "shares": _shares(grown), "rounds": _rounds(inputs), "load": _load(grown)}


def _repair(grown: DataFrame, width: int) -> DataFrame:
    window = window_start(second_of("published_ns"), width).alias("window_start")
    return (
        grown.groupBy(window, "node", "role")
        .agg(
            F.sum("events_delivered").alias("delivered"),
            *(F.sum(f"repaired_{way}").alias(way) for way in WAYS),
        )
        .withColumn("repaired_share", F.try_divide(F.col("gossip") + F.col("logger"), F.col("delivered")))
        .orderBy("window_start", "node")
    )


def _shares(grown: DataFrame) -> DataFrame:
    ways = F.explode(F.array(*(F.struct(F.lit(way).alias("way"), F.col(way).alias("events")) for way in WAYS)))
    sums = (F.coalesce(F.sum(f"repaired_{way}"), F.lit(0)).alias(way) for way in WAYS)
    return (
        grown.agg(F.sum("events_delivered").alias("delivered"), *sums)
        .where(F.col("delivered").isNotNull())
        .select("delivered", sum((F.col(way) for way in WAYS[1:]), F.col(WAYS[0])).alias("missing"), ways.alias("each"))
        .select(
            "each.way",
            "each.events",
            F.coalesce(F.try_divide("each.events", "missing"), F.lit(0.0)).alias("share"),
            F.coalesce(F.try_divide("each.events", "delivered"), F.lit(0.0)).alias("delivered_share"),
        )
    )


def _rounds(inputs: Inputs) -> DataFrame:
    """Totals by way and rounds; one that is lower than before is of a later life."""
    order = Window.partitionBy("node", "way", "rounds").orderBy("published_ns")
    now, before = F.col("events"), F.lag("events").over(order)
    upto = Window.partitionBy("way").orderBy("rounds")
    return (
        told(inputs.telemetry, "repair", ("rounds", "events"), ("way",))
        .withColumn("grown", F.when(before.isNull() | (now < before), now).otherwise(now - before))
        .groupBy("way", F.col("rounds").cast("int").alias("rounds"))
        .agg(F.sum("grown").cast("long").alias("events"))
        .withColumn("share", F.try_divide(F.sum("events").over(upto), F.sum("events").over(Window.partitionBy("way"))))
        .orderBy("way", "rounds")
    )


def _load(grown: DataFrame) -> DataFrame:
    everyone = Window.partitionBy()
    sent = F.col("packets_repaired")
    return (
        grown.groupBy("node", "role")
        .agg(F.sum("packets_repaired").alias("packets_repaired"))
        .withColumn("share", F.coalesce(F.try_divide(sent, F.sum(sent).over(everyone)), F.lit(0.0)))
        .withColumn("fair", F.col("share") * F.count(F.lit(1)).over(everyone))
        .withColumn("rank", F.row_number().over(everyone.orderBy(F.desc("packets_repaired"), "node")))
        .orderBy("rank")
    )


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    shares = {row.way: row for row in tables["shares"].collect()}
    if not shares:
        return []
    found = []
    gossip, logger = shares["gossip"], shares["logger"]
    asked = gossip.delivered_share + logger.delivered_share
    if asked > MANY:
        found.append(
            Advice(
                "The network loses too much",
                f"{asked:.1%} of what was delivered had to be asked for. Look for links that drop; until then a "
                "smaller window keeps less under way, so that what a link cannot take waits where it can be purged.",
                setting("protocol", link_window_bytes=(DEFAULT.link_window_bytes or 2**20) // 4),
                "critical" if asked > 4 * MANY else "warning",
            )
        )
    needed = _rounds_needed(tables["rounds"])
    if logger.events and logger.events > LOGGER_SHARE * (gossip.events + logger.events):
        rounds = max(2 * DEFAULT.gclimit_rounds, ceil(1.5 * needed))
        found.append(
            Advice(
                "Keep packets for gossip longer",
                f"Loggers repaired {logger.events:,} of {gossip.events + logger.events:,} events: what members forget "
                "too soon, loggers have to read from disk.",
                setting("protocol", gclimit_rounds=rounds, repair_first="gossip"),
                "warning",
            )
        )
    elif needed > 0.7 * DEFAULT.gclimit_rounds:
        found.append(
            Advice(
                "Keep packets for gossip longer",
                f"99 % of the repairs by gossip took up to {needed} rounds, and packets are kept for "
                f"{DEFAULT.gclimit_rounds} by default.",
                setting("protocol", gclimit_rounds=2 * needed),
            )
        )
    load = tables["load"].where("rank = 1").first()
    if load is not None and load.packets_repaired >= PACKETS_MIN and load.fair > UNEVEN:
        found.append(
            Advice(
                "Spread repairs evenly",
                f"{load.node} sent {load.share:.0%} of all repairs, {load.fair:.1f} times its part.",
                setting("protocol", selection="uniform"),
                "warning",
            )
        )
    return found


def _rounds_needed(rounds: DataFrame) -> int:
    """Within how many rounds 99 % of the repairs by gossip were done."""
    row = rounds.where("way = 'gossip' AND share >= 0.99").agg(F.min("rounds")).first()
    return 0 if row is None or row[0] is None else int(row[0])
