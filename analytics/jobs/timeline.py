"""When things happened, once for all jobs: what each stream published in each second, and windows to show it by.

The time of an event is when it was published, by its publisher's clock, or when it was logged if that is earlier:
nothing is logged before it is published, so the smaller of the two is nearer to the truth, and one clock that is ahead
does not stretch everybody's time.
"""

from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs

WINDOWS_MAX = 240
"""So many windows at most: more than that nobody sees in a plot."""
WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)

AT_NS = "CASE WHEN published_ns > 0 THEN least(published_ns, logged_ns) ELSE logged_ns END"
"""The time of an event; one that could not be read has no publish time."""


def at_ns() -> Column:
    return F.expr(AT_NS)


def second_of(ns: str) -> Column:
    """The second in which that was, an expression in nanoseconds: divided as integers, since as doubles they are not
    exact."""
    return F.expr(f"({ns}) div 1000000000")


def broker_of(publisher: Column) -> Column:
    """Where an anonymous publisher was a client: its issuer is `group/~node-incarnation` (messages/ids.py). A named one
    may be anywhere: null."""
    issued = F.substring_index(publisher, "/~", -1)
    incarnation = F.substring_index(issued, "-", -1)
    node = issued.substr(F.lit(1), F.length(issued) - F.length(incarnation) - 1)
    return F.when(F.contains(publisher, F.lit("/~")) & (F.length(issued) > F.length(incarnation)), node)


@lru_cache(maxsize=2)
def per_second(inputs: Inputs) -> DataFrame:
    """What each stream published in each second: the one pass over all events that several jobs share.

    `second` long, `group`, `stream`, `publisher` string; `events`, `bytes` long; `offset_ns` long: the least time from
    publishing to logging, null if nothing could be read; `early` long: how many were logged before they were published.
    """
    took = F.when(F.col("published_ns") > 0, F.col("logged_ns") - F.col("published_ns"))
    return (
        inputs.events.select(
            second_of(AT_NS).alias("second"), "group", "stream", "publisher", "size", took.alias("took")
        )
        .groupBy("second", "group", "stream", "publisher")
        .agg(
            F.count(F.lit(1)).alias("events"),
            F.sum(F.col("size").cast("long")).alias("bytes"),
            F.min("took").alias("offset_ns"),
            F.sum(F.when(F.col("took") < 0, 1).otherwise(0)).alias("early"),
        )
        .persist()
    )


@lru_cache(maxsize=2)
def span(inputs: Inputs) -> tuple[int, int]:
    """The first second of the events and the one after the last; of the telemetry, if there are no events."""
    row = per_second(inputs).agg(F.min("second"), F.max("second")).first()
    if row is None or row[0] is None:
        second = second_of("published_ns")
        row = inputs.telemetry.agg(F.min(second), F.max(second)).first()
    return (0, 1) if row is None or row[0] is None else (row[0], row[1] + 1)


def width_s(inputs: Inputs) -> int:
    """How long a window is: the shortest of `WIDTHS_S` of which there are not too many."""
    first, end = span(inputs)
    return next((width for width in WIDTHS_S if end - first <= width * WINDOWS_MAX), WIDTHS_S[-1])


def window_start(second: Column, width: int) -> Column:
    """When the window begins in which a second is."""
    return F.timestamp_seconds(second - F.pmod(second, F.lit(width)))
