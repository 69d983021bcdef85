"""How far apart related events are, and so what a buffer of N can purge, and what a slow receiver costs (000 §5.1).

D of an event is how far before it the latest one is that it makes obsolete, 0 if there is none; f(x) is the share of
events with D = x, and R_N, the sum of f(x) for x from 1 to N, is the share that finds something to purge in a buffer of
the last N. Distances count messages: of its stream (by sequence numbers, so what was purged before it was logged counts
as well), and for keys of the whole group (`scope="group"`) those of the group, in the order of publishing. What relates
two events is what `protocol/obsolescence.py` says: keys, names (`obsoletes=`, within the stream) and commits. Of two
events of a group's key that come in the wrong order, the second is the obsolete one: whichever it is, one of them need
not be kept, and so they count like any other two.

`obsolescence`: the profile.

| column | |
|---|---|
| `group` string, `scope` string | whose; `stream` or `group`: what distances are counted in |
| `distance` long | x: every one up to 256, from there on in steps of 1/32 of their size, each for those up to it |
| `events` long | with that distance; of distance 0, those that make nothing obsolete |
| `f` double | their share of the events of the group |
| `r` double | R_N for N = `distance` |

`buffers`: what it takes to purge a given share of what could be: `group`, `scope`, `target` (0.5 to 0.99), `r` (what that
is of all events), `buffer` (the least N), `k` (for `stream`: bits of a k-enumeration that reach as far, 256 at most),
`streams` (how many publish at a time, as the inverse of Simpson's index: where the streams of a group share a queue, N
times so many), `queue` (that product).

`prediction`: the model (`protocol/purging_model.py`) with these: `group`, `scope`, `buffer`, `receiver_share` (how fast a
slow receiver is, relative to the sender), `sender_rate` (T_s, events a second), `receiver_rate` (T_r), `r`,
`predicted_rate` (T: what the sender reaches, and fast receivers get), `predicted_share` (T of T_s: 1 is undisturbed). Of
the 20 busiest groups.

**To see.** Where the curve of R_N is flat, a larger buffer gains nothing; if it ends low, little is obsolete, and purging
will not help a slow receiver: give events keys. `buffer=` of a subscription is N times the streams it hears.
"""  # noqa: E501 (a table)

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics import local
from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import DEFAULT, Advice, setting
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import AT_NS, per_second, second_of
from gossamer.messages.event import REACH_MAX
from gossamer.messages.session import BUFFER_EVENTS_MAX
from gossamer.protocol.purging_model import rates

NAME = "obsolescence"
TITLE = "Obsolescence profile"
PLOTS = (
    Plot(
        "obsolescence",
        "cdf",
        "distance",
        "r",
        "group",
        "R_N: share of events that find something to purge in a buffer of N",
        "Where it is flat, more buffer gains nothing; if it ends low, little becomes obsolete: use keys.",
        log_x=True,
    ),
    Plot(
        "prediction",
        "line",
        "receiver_share",
        "predicted_share",
        "group",
        "What a slow receiver costs the sender, by the model",
        "1 is undisturbed. Without purging it would be the diagonal.",
    ),
)

EXACT = 256
"""Distances up to this have a row each."""
TARGETS = (0.5, 0.8, 0.9, 0.95, 0.99)
TARGET = 0.9
"""Of what could be purged: beyond it buffers grow faster than what they gain."""
RECEIVERS = (0.1, 0.25, 0.5, 0.75)
GROUPS_MAX = 20
LITTLE = 0.1
"""If less than this share makes anything obsolete, purging saves nobody."""
QUEUE_MAX = 100_000
"""What a subscription may ask for unless it is configured (`ClientLimits.buffer_events_max`)."""


def run(inputs: Inputs) -> dict[str, DataFrame]:
    profile = _profile(inputs).persist()
    buffers = _buffers(profile, _traffic(per_second(inputs))).persist()
    return {NAME: profile, "buffers": buffers, "prediction": _prediction(inputs, buffers)}


# The profile ----------------------------------------------------------------------------------------------------------


def _profile(inputs: Inputs) -> DataFrame:
    events = _said(inputs.events)
    counted = _in_streams(events).unionByName(_in_groups(events, per_second(inputs))).persist()
    totals = per_second(inputs).groupBy("group").agg(F.sum("events").alias("total"))
    scopes = totals.select("group", F.lit("stream").alias("scope")).union(counted.select("group", "scope")).distinct()
    related = counted.groupBy("group", "scope").agg(F.sum("events").alias("related"))
    rest = F.col("total") - F.coalesce("related", F.lit(0))
    nothing = (
        scopes.join(totals, "group")
        .join(related, ["group", "scope"], "left")
        .select("group", "scope", F.lit(0).cast("long").alias("distance"), rest.alias("events"))
    )
    upto = Window.partitionBy("group", "scope").orderBy("distance")
    purgeable = F.sum(F.when(F.col("distance") > 0, F.col("events")).otherwise(0)).over(upto)
    return (
        counted.unionByName(nothing)
        .join(totals, "group")
        .select(
            "group",
            "scope",
            "distance",
            "events",
            (F.col("events") / F.col("total")).alias("f"),
            (purgeable / F.col("total")).alias("r"),
        )
        .orderBy("group", "scope", "distance")
    )


def _said(events: DataFrame) -> DataFrame:
    """What each event says of others; null annotations cost next to nothing."""
    said = {name: F.get_json_object("annotation", f"$.{name}") for name in ("scope", "part", "obsoletes")}
    return events.select(
        "group",
        "stream",
        "seq",
        "key",
        second_of(AT_NS).alias("second"),
        F.expr(AT_NS).alias("at_ns"),
        F.coalesce(said["scope"] == "group", F.lit(False)).alias("grouped"),
        said["part"].isNotNull().alias("part"),
        said["obsoletes"].alias("names"),
        F.get_json_object("annotation", "$.commit.parts").cast("long").alias("parts"),
        F.get_json_object("annotation", "$.commit.keys").alias("keys"),
    )


# Distances ------------------------------------------------------------------------------------------------------------


def _in_streams(events: DataFrame) -> DataFrame:
    """By keys, names and commits: `group`, `scope`, `distance`, `events`.

    A window over each stream and key holds the events that set it, in order. For an event of its own the one before
    counts that is no part of a transaction; a commit looks, once for each of its keys, at what was set before its
    first part, and once at the commit before it.
    """
    nothing = F.lit(None).cast("long")
    names = F.filter(F.from_json("names", "array<array<string>>"), lambda each: each[0] == F.col("stream"))
    named = F.array_max(F.transform(names, lambda each: each[1].cast("long")))
    said = F.when(F.col("names").isNotNull(), F.when(named < F.col("seq"), named)).alias("named")
    plain = events.where("NOT grouped AND parts IS NULL AND (key IS NOT NULL OR names IS NOT NULL)").select(
        "group",
        # 64 bits stand for a stream and key: of ten million, two are taken for one with a chance of 3 in a million.
        F.when(F.col("key").isNull(), F.xxhash64("stream", "seq")).otherwise(F.xxhash64("stream", "key")).alias("item"),
        F.col("seq").alias("place"),
        "seq",
        nothing.alias("commit"),
        F.when(~F.col("part"), F.col("seq")).alias("own"),
        F.col("seq").alias("sets"),
        said,
    )
    commits = events.where("NOT grouped AND parts IS NOT NULL").withColumn("commit", F.xxhash64("stream", "seq"))
    of_keys = commits.select("*", F.explode(F.from_json("keys", "array<string>")).alias("set")).select(
        "group",
        F.xxhash64("stream", "set").alias("item"),
        (F.col("seq") - F.col("parts") - 1).alias("place"),  # with the last one before its parts, and after it
        "seq",
        "commit",
        nothing.alias("own"),
        nothing.alias("sets"),
        nothing.alias("named"),
    )
    of_commits = commits.select(
        "group",
        F.xxhash64("stream").alias("item"),
        F.col("seq").alias("place"),
        "seq",
        "commit",
        nothing.alias("own"),
        F.col("seq").alias("sets"),
        said,
    )
    before = Window.partitionBy("item").orderBy("place", F.col("sets").isNull())
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    latest = F.when(F.col("commit").isNotNull(), F.last("sets", ignorenulls=True).over(before)).otherwise(
        F.when(F.col("own").isNotNull(), F.last("own", ignorenulls=True).over(before))
    )
    return (
        plain.unionByName(of_keys)
        .unionByName(of_commits)
        .select("group", "commit", (F.col("seq") - F.greatest(latest, "named")).alias("distance"))
        .where("distance IS NOT NULL")
        .groupBy("group", "commit", _step(F.col("distance")).alias("distance"))
        .agg(F.count(F.lit(1)).alias("events"))
        # Of what a commit found, the nearest counts.
        .groupBy("group", "commit", F.when(F.col("commit").isNull(), F.col("distance")).alias("each"))
        .agg(F.min("distance").alias("distance"), F.sum("events").alias("events"))
        .groupBy("group", F.lit("stream").alias("scope"), "distance")
        .agg(F.sum(F.when(F.col("commit").isNull(), F.col("events")).otherwise(1)).alias("events"))
    )


def _in_groups(events: DataFrame, seconds: DataFrame) -> DataFrame:
    """By keys of the whole group: `group`, `scope`, `distance`, `events`.

    The place of an event in its group is how many there were in the seconds before, and its place in its own: no window
    is larger than a second of a group, or a key of it. Groups without such keys are not looked at.
    """
    some = events.where("grouped").select("group").distinct()
    upto = Window.partitionBy("group").orderBy("second")
    before = (
        seconds.groupBy("group", "second")
        .agg(F.sum("events").alias("events"))
        .select("group", "second", (F.sum("events").over(upto) - F.col("events")).alias("before"))
    )
    in_second = Window.partitionBy("group", "second").orderBy("at_ns", "stream", "seq")
    of_key = Window.partitionBy("item").orderBy("place")
    return (
        events.join(F.broadcast(some), "group", "left_semi")
        .select("group", "second", "at_ns", "stream", "seq", "key", "grouped")
        .withColumn("nth", F.row_number().over(in_second))
        .where("grouped AND key IS NOT NULL")
        .join(before, ["group", "second"])
        .select("group", F.xxhash64("group", "key").alias("item"), (F.col("before") + F.col("nth")).alias("place"))
        .select("group", (F.col("place") - F.lag("place").over(of_key)).alias("distance"))
        .where("distance IS NOT NULL")
        .groupBy("group", F.lit("group").alias("scope"), _step(F.col("distance")).alias("distance"))
        .agg(F.count(F.lit(1)).alias("events"))
    )


def _step(distance: Column) -> Column:
    """Up to the next distance that has a row, in integers: so R_N is exact at every one that has."""
    step = F.pow(F.lit(2), F.length(F.bin(distance - 1)) - 6).cast("long")
    return F.when(distance <= EXACT, distance).otherwise(distance + F.pmod(-distance, step))


# What follows ---------------------------------------------------------------------------------------------------------


def _traffic(seconds: DataFrame) -> DataFrame:
    """How many streams of a group publish at a time, and how many events a second while it does."""
    streams = seconds.groupBy("group", "stream").agg(F.sum("events").alias("events"))
    spread = streams.groupBy("group").agg(
        (F.pow(F.sum("events"), F.lit(2)) / F.sum(F.pow("events", F.lit(2)))).alias("streams")
    )
    rate = seconds.groupBy("group").agg((F.sum("events") / F.count_distinct("second")).alias("sender_rate"))
    return spread.join(rate, "group")


def _buffers(profile: DataFrame, traffic: DataFrame) -> DataFrame:
    most = profile.groupBy("group", "scope").agg(F.max("r").alias("most"))
    targets = F.explode(F.array(*map(F.lit, TARGETS))).alias("target")
    reach = F.least(F.ceil(F.col("buffer") / 8) * 8, F.lit(REACH_MAX))
    streams = F.when(F.col("scope") == "stream", F.col("streams")).otherwise(1.0)
    return (
        profile.where("distance > 0")
        .join(most, ["group", "scope"])
        .select("group", "scope", "distance", "r", "most", targets)
        .where(F.col("r") >= F.col("target") * F.col("most"))
        .groupBy("group", "scope", "target")
        .agg(F.min("distance").alias("buffer"), F.min("r").alias("r"))
        .join(traffic, "group")
        .select(
            "group",
            "scope",
            "target",
            "r",
            "buffer",
            F.when(F.col("scope") == "stream", reach).cast("int").alias("k"),
            streams.alias("streams"),
            F.ceil(F.col("buffer") * streams).alias("queue"),
            "sender_rate",
        )
        .orderBy("group", "scope", "target")
    )


def _prediction(inputs: Inputs, buffers: DataFrame) -> DataFrame:
    """By the model itself, of so few rows that the driver may have them."""
    rows = buffers.where(F.col("target") == TARGET).orderBy(F.desc("sender_rate"), "group", "scope").limit(GROUPS_MAX)
    predicted = [
        (
            row.group,
            row.scope,
            row.buffer,
            share,
            row.sender_rate,
            share * row.sender_rate,
            row.r,
            sender,
            sender / row.sender_rate,
        )
        for row in rows.collect()
        for share in RECEIVERS
        for sender in (rates(row.sender_rate, share * row.sender_rate, row.r).sender,)
    ]
    return local.table(inputs.spark, predicted, PREDICTION)


PREDICTION = (
    "group string, scope string, buffer long, receiver_share double, sender_rate double, receiver_rate double, "
    "r double, predicted_rate double, predicted_share double"
)


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    found = []
    rows = tables["buffers"].where(F.col("target") == TARGET).orderBy(F.desc("sender_rate")).limit(GROUPS_MAX).collect()
    if rows:
        widest = max(rows, key=lambda row: row.queue)
        told = "; ".join(
            f"{row.group}: buffer={row.queue:,} purges {row.r:.0%} of what comes"
            + (f", k={row.k} reaches as far" if row.k else "")
            for row in rows
        )
        found.append(
            Advice(
                f"Buffers of {widest.queue:,} events purge {TARGET:.0%} of all that can be",
                f"{told}. Those are the queues of subscriptions to whole groups; larger ones only make older "
                "what slow consumers see.",
                _setting(widest.queue),
                "warning" if widest.queue > DEFAULT.link_buffer_events_max else "info",
            )
        )
    best = tables[NAME].groupBy("group").agg(F.max("r").alias("r"), F.sum("events").alias("events"))
    poor = best.where(F.col("r") < LITTLE).orderBy(F.desc("events")).limit(3).collect()
    found += [
        Advice(
            f"Give the events of {row.group} keys, if newer ones replace older ones",
            f"Only {row.r:.1%} of its events make another one obsolete, so a slow consumer of it can be spared "
            "nothing: it will fall behind.",
        )
        for row in poor
    ]
    return found


def _setting(queue: int) -> str:
    """Room for that on links and in queues, never less than there is by default."""
    links = setting("protocol", link_buffer_events_max=max(DEFAULT.link_buffer_events_max, _power(queue)))
    if queue <= QUEUE_MAX:
        return links
    return links + setting("clients", buffer_events_max=min(_power(queue), BUFFER_EVENTS_MAX))


def _power(number: int) -> int:
    return int(1 << (number - 1).bit_length())
