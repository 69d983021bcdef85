"""The data source `gossamer`: a logger's store, or its archive, as a table of Spark, or as a stream.

    spark.dataSource.register(GossamerSource)
    spark.read.format("gossamer").option("store", "sqlite:///gossamer.db").option("where", "price > 100").load()
    spark.readStream.format("gossamer").option("store", "postgresql://host/log").load()

Options choose the rows and columns that are read, for all queries on the `load()` that has them; docs/analytics.md has
the table. Readers take no filters from Spark's planner: Spark keeps a reader with the filters of one query, and reads
with it for other queries on the same DataFrame (docs/decisions/spark-source.md).

A stream is read as far as it is derived, by the numbers of its packets. They are ascending with the commits and never
given twice, and what was derived from a packet does not change: so a batch that is read again after a crash is the
same, and with Spark's checkpoint each event of a log is had exactly once by a sink that is idempotent.

This module is imported by Spark's workers, too: what only the driver needs is imported where it is used.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gossamer.analytics.reading import Condition, Slice, read
from gossamer.analytics.schema import TABLES
from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from gossamer.analytics.where import Where

OPTIONS = (
    "store", "archive", "table", "where", "key", "group", "system", "since", "until", "columns", "partitions", "path"
)  # fmt: skip


class GossamerSource(DataSource):
    """The options of one `load()`, all of them checked: `UsageError` names the one that is wrong."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        for name in options:
            if name.lower() not in OPTIONS:
                raise UsageError(f"the source gossamer has no option {name!r}; it has {', '.join(OPTIONS[:-1])}")
        self.table = options.get("table", "events")
        if self.table not in TABLES:
            raise UsageError(f"table {self.table!r}: there are {' and '.join(TABLES)}")
        if "archive" in options and ("store" in options or "path" in options):
            raise UsageError("options store and archive: one load() reads one of them; unite two with unionByName")
        if self.table != "events" and ("group" in options or "system" in options):
            name = "group" if "group" in options else "system"
            raise UsageError(f"option {name} goes with the table events: all telemetry is of the group $sys")
        self.key: str | None = options.get("key")
        self.group: str | None = options.get("group")
        self.has_system = _flag("system", options.get("system", "true"))
        self.since, self.until = _time("since", options.get("since")), _time("until", options.get("until"))
        self.partitions: int | None = _count("partitions", options.get("partitions"))
        self.where = _where(options.get("where", ""))

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
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"columns: {twice!r} is named twice")
        return StructType([whole[name] for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check(schema)
        if "archive" in self.options:
            from gossamer.analytics.archives import ArchiveReader

            return ArchiveReader(self, schema)
        return StoreReader(self, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._check(schema)
        if "archive" in self.options:
            raise UsageError("an archive is no stream: option store, not archive")
        return StoreStreamReader(self, schema)

    def _check(self, schema: StructType) -> None:
        """Refuse a schema given with `.schema(…)` that this table does not have."""
        whole = TABLES[self.table]
        for field in schema.fields:
            if field.name not in whole.names or whole[field.name].dataType != field.dataType:
                raise UsageError(f"schema: {self.table} has no such column: {field.simpleString()}; use option columns")

    def stores(self) -> list[str]:
        from gossamer.analytics.loggers import resolved

        url = self.options.get("store") or self.options.get("path")
        if not url:
            raise UsageError('say which store: option("store", "sqlite:///gossamer.db"), or option("archive", DIR)')
        return resolved(url)

    def conditions(self) -> list[Condition]:
        """All options that choose rows, but for `where`, as SQL."""
        from gossamer.analytics.planning import logged_within

        found = logged_within(self.since, self.until)
        if self.group is not None:
            found.append(Condition('"group" = ?', (self.group,)))
        if not self.has_system:
            found.append(Condition("substr(\"group\", 1, 1) <> '$'"))
        if self.key is not None:
            found.append(Condition('"key" = ?', (self.key,)))
        return found


# Options of load() -------------------------------------------------------------------------------------------------


def _where(text: str) -> "Where | None":
    if not text.strip():
        return None
    from gossamer.analytics.where import where_of

    return where_of(text)


def _time(name: str, text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{name}: a time like 2026-11-17T15:00:00Z, not {text!r}") from None


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise UsageError(f"{name}: a number from 1, not {text!r}")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{name}: true or false, not {text!r}")
    return text.lower() == "true"


# Readers --------------------------------------------------------------------------------------------------------------


class StoreReader(DataSourceReader):
    """A table of one store, or of several whose rows are not compared with each other."""

    def __init__(self, source: GossamerSource, schema: StructType) -> None:
        self._source = source
        self._table = source.table
        self._schema = schema
        self._conditions = source.conditions()
        self._where = source.where

    def partitions(self) -> Sequence[InputPartition]:
        from gossamer.analytics.planning import PARTITIONS, extent_of, place_of, slices

        count = self._source.partitions or PARTITIONS
        found: list[InputPartition] = []
        for url in self._source.stores():
            extent = extent_of(url, self._table, self._source.since)
            found += slices(place_of(url), extent.first, extent.last, count)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Slice):  # else there was nothing to read, and Spark made up a partition
            yield from read(self._table, self._schema, self._conditions, partition, self._where)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Logs as they grow. An offset tells of each logger up to which number; of several loggers, which may have logged
    the same events, each is had from each: `dropDuplicates(["stream", "seq"])`."""

    def __init__(self, source: GossamerSource, schema: StructType) -> None:
        from gossamer.analytics.planning import PARTITIONS

        self._source = source
        self._table = source.table
        self._schema = schema
        self._conditions = source.conditions()
        self._where = source.where
        self._count = source.partitions or PARTITIONS
        self._urls = source.stores()
        self._numbers: dict[str, int] = {}
        self._end: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        from gossamer.analytics.planning import number_at, reached

        since = self._source.since
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
        if isinstance(partition, Slice):  # else there was nothing to read, and Spark made up a partition
            yield from read(self._table, self._schema, self._conditions, partition, self._where)
