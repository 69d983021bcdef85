"""What every job is given: the events of all stores and archives, each once, and what the members told about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gossamer.analytics.archives import loggers_of, read_archive
from gossamer.analytics.loggers import resolved
from gossamer.analytics.planning import extent_of, nanoseconds, place_of
from gossamer.analytics.schema import TABLES
from gossamer.analytics.session import is_local
from gossamer.messages.errors import UsageError

SLICES_A_CORE = 4
_SAME = {"events": ["stream", "seq"], "telemetry": ["node", "type", "key", "published_ns", "deleted"]}
"""What tells one row from another. Telemetry has no stream and seq; but a hybrid clock gives no time twice."""
_UNASKED = {"id", "rank", "body", "deleted", "store"}
KEPT = {
    "events": [name for name in TABLES["events"].names if name not in _UNASKED],
    "telemetry": TABLES["telemetry"].names,
}
"""The columns that jobs ask for: no others are read, or kept."""


@dataclass(frozen=True)
class Inputs:
    spark: SparkSession
    events: DataFrame
    """Of `schema.EVENTS` the columns in `KEPT`, without the rows of `$sys` and other namespaces that begin so."""
    telemetry: DataFrame
    """`schema.TELEMETRY`."""
    notes: tuple[str, ...] = ()
    """What whoever reads the results should know of what they are made from."""

    def release(self) -> None:
        """Give back what is kept for the jobs."""
        self.events.unpersist()
        self.telemetry.unpersist()


def load(
    spark: SparkSession,
    stores: Sequence[str],
    archives: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> Inputs:
    """What was logged from `since` to before `until`, each event once, however many stores and archives have it.

    It is read once and kept (on disk, where there is no room), as the jobs ask for it again and again.
    """
    urls = [each for url in stores for each in resolved(url)]
    if not urls and not archives:
        raise UsageError("nothing to read: name a store, or an archive")
    notes = notes_on(urls, spark.conf.get("spark.master") or "")
    several = len(urls) + sum(loggers_of(archive) for archive in archives) > 1
    parts = SLICES_A_CORE * spark.sparkContext.defaultParallelism

    def united(table: str) -> DataFrame:
        read = [_read_store(spark, url, table, since, until, parts) for url in urls]
        times = [None if time is None else nanoseconds(time) for time in (since, until)]
        for archive in archives:
            archived = read_archive(spark, archive, table, *times)
            read.append(archived.where(~F.col("group").startswith("$")) if table == "events" else archived)
        found = reduce(DataFrame.unionByName, (each.select(*KEPT[table]) for each in read))
        return (found.dropDuplicates(_SAME[table]) if several else found).persist(StorageLevel.MEMORY_AND_DISK)

    return Inputs(spark, united("events"), united("telemetry"), notes)


def notes_on(urls: Sequence[str], master: str) -> tuple[str, ...]:
    """What is to be said of these stores; `UsageError` if one of them cannot be read."""
    found = []
    for url in urls:
        place = place_of(url)
        if (lag := extent_of(url).lag) > 0:
            found.append(f"{place.name}: {lag:,} packets are logged and not yet derived; their events are not in here")
        if place.backend == "sqlite" and not is_local(master):
            found.append(
                f"{place.name} is a file: every executor must see it under this path, on this machine or a shared "
                "disk. A cluster should read PostgreSQL or an archive."
            )
    return tuple(found)


def _read_store(
    spark: SparkSession, url: str, table: str, since: datetime | None, until: datetime | None, parts: int
) -> DataFrame:
    columns = ",".join(KEPT[table])
    reader = spark.read.format("gossamer").options(store=url, table=table, columns=columns, partitions=parts)
    if table == "events":
        reader = reader.option("system", "false")
    for name, time in (("since", since), ("until", until)):
        if time is not None:
            reader = reader.option(name, time.isoformat())
    return reader.load()
