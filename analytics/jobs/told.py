"""What members told of themselves (docs/telemetry.md), as columns."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

YOUNG = 3
"""A life is young in so many of its first telemetry intervals."""


def told(telemetry: DataFrame, kind: str, numbers: Iterable[str] = (), texts: Iterable[str] = ()) -> DataFrame:
    """The events of a type, in columns `node`, `published_ns` and the attributes that are named; null where one is
    absent. Tombstones repeat what was said last, so they are left out."""
    schema = ", ".join([*(f"`{name}` DOUBLE" for name in numbers), *(f"`{name}` STRING" for name in texts)])
    return (
        telemetry.where((F.col("type") == kind) & ~F.col("deleted"))
        .select("node", "published_ns", F.from_json("attributes", schema).alias("said"))
        .select("node", "published_ns", "said.*")
    )


def increases(samples: DataFrame, totals: Iterable[str], by: Iterable[str] = ("node",)) -> DataFrame:
    """Totals since a member's start as what they grew by since the sample before, in a column of the same name.

    A lower `uptime_s` is a later life, which counts from 0 again. Of the first sample there is nothing to compare with:
    it counts if the life was young then, else what it tells was before our time.
    """
    order = Window.partitionBy(*by).orderBy("published_ns")
    before = F.lag("uptime_s").over(order)
    begun = F.when(before.isNull(), F.col("uptime_s") <= YOUNG * F.col("interval_s")).otherwise(
        F.col("uptime_s") < before
    )
    fresh = samples.withColumn("fresh", F.coalesce(begun, F.lit(False))).withColumn("first", before.isNull())
    return fresh.select(
        *(name for name in samples.columns if name not in set(totals)),
        *(_increase(name, F.lag(F.coalesce(F.col(name), F.lit(0.0))).over(order)).alias(name) for name in totals),
    )


def _increase(name: str, before: Column) -> Column:
    now = F.coalesce(F.col(name), F.lit(0.0))
    grown = F.when(F.col("first"), F.lit(0.0)).otherwise(F.greatest(now - before, F.lit(0.0)))
    return F.when(F.col("fresh"), now).otherwise(grown).cast("long")
