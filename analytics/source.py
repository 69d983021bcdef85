"""The data source `gossamer`: a logger's store, or its archive, as a table of Spark, or as a stream.

    spark.dataSource.register(GossamerSource)
    spark.read.format("gossamer").option("store", "sqlite:///gossamer.db").load()
    spark.readStream.format("gossamer").option("store", "postgresql://host/log").load()

Options: `store` (a url) or `archive` (a folder), `table` (`events`, the default, or `telemetry`), `columns` (some of
the schema's, with commas: Spark does not tell a Python source which ones it needs), `partitions`, `group`, `since`,
`until` (ISO 8601, of `logged_ns`).

A stream is read as far as it is derived, by the numbers of its packets. They are ascending with the commits and never
given twice, and what was derived from a packet does not change: so a batch that is read again after a crash is the
same, and with Spark's checkpoint each event of a log is had exactly once by a sink that is idempotent.

This module is imported by Spark's workers, too: what only the driver needs is imported where it is used.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gossamer.analytics.reading import Condition, Slice, read
from gossamer.analytics.schema import TABLES
from gossamer.messages.errors import UsageError

OPTIONS = ("store", "archive", "table", "columns", "partitions", "group", "since", "until", "path")


class GossamerSource(DataSource):
    def __init__(self, options: Any) -> None:
        super().__init__(options)
        for name in options:
            if name.lower() not in OPTIONS:
                raise UsageError(f"the source gossamer has no option {name!r}; it has {', '.join(OPTIONS[:-1])}")
        self.table = options.get("table", "events")
        if self.table not in TABLES:
            raise UsageError(f"table {self.table!r}: there are {' and '.join(TABLES)}")

    @classmethod
    def name(cls) -> str:
        return "gossamer"

    def schema(self) -> StructType:
        whole = TABLES[self.table]
        if "columns" not in self.options:
            return whole
        names = [name.strip() for name in self.options["columns"].split(",") if name.strip()]
        if not names or (unknown := [name for name in names if name not in whole.names]):
            wrong = f"no column {unknown[0]!r}" if names else "no columns"
            raise UsageError(f"columns: {wrong} in {self.table}; there are {', '.join(whole.names)}")
        return StructType([whole[name] for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        if "archive" in self.options:
            from gossamer.analytics.archives import ArchiveReader

            return ArchiveReader(self, schema)
        return StoreReader(self, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if "archive" in self.options:
            raise UsageError("an archive is no stream: option store, not archive")
        return StoreStreamReader(self, schema)

    # What the options say ---------------------------------------------------------------------------------------------

    def stores(self) -> list[str]:
        from gossamer.analytics.loggers import resolved

        url = self.options.get("store") or self.options.get("path")
        if not url:
            raise UsageError('say which store: option("store", "sqlite:///gossamer.db"), or option("archive", DIR)')
        return resolved(url)

    def partitions(self, default: int) -> int:
        text = self.options.get("partitions", str(default))
        if not text.isdecimal() or not int(text):
            raise UsageError(f"partitions: a number from 1, not {text!r}")
        return int(text)

    def time(self, name: str) -> datetime | None:
        text = self.options.get(name)
        try:
            return None if text is None else datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"{name}: a time like 2026-11-17T15:00:00Z, not {text!r}") from None

    def conditions(self) -> list[Condition]:
        from gossamer.analytics.planning import logged_within

        found = logged_within(self.time("since"), self.time("until"))
        if "group" in self.options:
            if self.table != "events":
                raise UsageError("option group goes with the table events: all telemetry is of the group $sys")
            found.append(Condition('"group" = ?', (self.options["group"],)))
        return found


class Pushing:
    """`pushFilters` of a reader, if Spark calls it.

    Spark refuses a reader that has a `pushFilters` of its own while `spark.sql.python.filterPushdown.enabled` is off,
    which it is by default. It looks at the function behind the method: this one shows the one that Spark knows, and so
    the source works either way.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)  # not to be bound to this one

    def __init__(self, push: Any) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterator[Filter]:
        return iter(self._push(filters))


class StoreReader(DataSourceReader):
    """A table of one store, or of several whose rows are not compared with each other."""

    def __init__(self, source: GossamerSource, schema: StructType) -> None:
        self._source = source
        self._table = source.table
        self._schema = schema
        self._conditions = source.conditions()

    @property
    def pushFilters(self) -> Any:
        return Pushing(self._push)

    def _push(self, filters: list[Filter]) -> list[Filter]:
        from gossamer.analytics.filtering import split

        taken, left = split(filters, self._schema.names)
        self._conditions += taken
        return left

    def partitions(self) -> Sequence[InputPartition]:
        from gossamer.analytics.planning import PARTITIONS, extent_of, place_of, slices

        count = self._source.partitions(PARTITIONS)
        found: list[InputPartition] = []
        for url in self._source.stores():
            extent = extent_of(url, self._table, self._source.time("since"))
            found += slices(place_of(url), extent.first, extent.last, count)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._table, self._schema, self._conditions, partition)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Logs as they grow. An offset tells of each logger up to which number; of several loggers, which may have logged
    the same events, each is had from each: `dropDuplicates(["stream", "seq"])`."""

    def __init__(self, source: GossamerSource, schema: StructType) -> None:
        from gossamer.analytics.planning import PARTITIONS

        self._source = source
        self._table = source.table
        self._schema = schema
        self._conditions = source.conditions()
        self._count = source.partitions(PARTITIONS)
        self._urls = source.stores()
        self._numbers: dict[str, int] = {}
        self._end: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        from gossamer.analytics.planning import number_at, reached

        since = self._source.time("since")
        return {reached(url).logger: 0 if since is None else number_at(url, since) for url in self._urls}

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all there is. Without this Spark ends such a query after one batch, and after a crash
        that is the one that was interrupted."""
        self._end = self.latestOffset()

    def latestOffset(self, *_: Any) -> dict[str, int]:
        from gossamer.analytics.planning import reached

        if self._end is not None:
            return self._end
        for found in map(reached, self._urls):
            # While it is being made again (`gossamer logger --rebuild`) it falls back: nobody reads backwards.
            self._numbers[found.logger] = max(self._numbers.get(found.logger, 0), found.number)
        return dict(self._numbers)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        from gossamer.analytics.planning import place_of, reached, slices

        stores = {reached(url).logger: url for url in self._urls}
        # Each logger has its own numbers.
        if missing := sorted((start.keys() | end.keys()) - stores.keys()):
            raise UsageError(
                f"the checkpoint is of the log of {missing[0]}, which is not among these: {', '.join(sorted(stores))}. "
                "Name its store, or begin a checkpoint"
            )
        found: list[InputPartition] = []
        for logger, number in sorted(end.items()):
            found += slices(place_of(stores[logger]), start.get(logger, 0) + 1, number, self._count)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._table, self._schema, self._conditions, partition)


def _read(
    table: str, schema: StructType, conditions: Sequence[Condition], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, Slice):  # else there was nothing to read, and Spark made up a partition
        yield from read(table, schema, conditions, partition)
