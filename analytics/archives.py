"""The archive (docs/store.md) in the schema of a store: by Spark's own reader, or as a part of the source.

A file of it has the columns of a store's events without the group, which its stream tells; telemetry is what was
published in `$sys`, so its type and node are attributes.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from gossamer.analytics.reading import BATCH_ROWS, arrow_schema, publishers
from gossamer.analytics.schema import EVENTS, TABLES
from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from gossamer.analytics.source import GossamerSource

SYSTEM_GROUP = "$sys"
_FILES = StructType(
    [each for each in EVENTS.fields if each.name not in ("group", "store", "publisher")]
    + [StructField("group", StringType()), StructField("hour", StringType())]
)
_ISSUED = r"^([^/]+/~[^/]+)\.(0|[1-9][0-9]{0,18})$"  # as messages/ids.py has it; a test compares


def checked(archive: str) -> Path:
    folder = Path(archive)
    if not folder.is_dir():
        raise UsageError(f"there is no archive {archive}")
    if not any(folder.glob("group=*/hour=*")) and any(folder.iterdir()):
        raise UsageError(f"{archive} is no archive: it has no folders group=…/hour=…")
    return folder.absolute()


def loggers_of(archive: str) -> int:
    """How many loggers have written into it: more than one may have written the same."""
    return len({path.name.rsplit("-", 2)[0] for path in checked(archive).glob("group=*/hour=*/*.parquet")})


def read_archive(
    spark: SparkSession, archive: str, table: str, since_ns: int | None = None, until_ns: int | None = None
) -> DataFrame:
    """By Spark's own reader of Parquet: all in the JVM, and only the columns and hours that are needed."""
    folder = checked(archive)
    # Given, since Spark would take a group that is called 42 for a number.
    found = spark.read.schema(_FILES).option("basePath", str(folder)).parquet(str(folder))
    if since_ns is not None:
        found = found.where((F.col("hour") >= hour_of(since_ns)) & (F.col("logged_ns") >= since_ns))
    if until_ns is not None:
        found = found.where((F.col("hour") <= hour_of(until_ns)) & (F.col("logged_ns") < until_ns))
    if table == "telemetry":
        told = found.where(F.col("group") == SYSTEM_GROUP)
        found = told.withColumn("type", _told("type")).withColumn("node", _told("node"))
    else:
        found = found.withColumn("group", F.substring_index("stream", "/", 1))
        found = found.withColumn("publisher", publisher_of(F.col("stream")))
    return found.withColumn("store", F.lit(str(folder))).select(*TABLES[table].names)


def publisher_of(stream: Column) -> Column:
    """`reading.publisher_of`, in the JVM."""
    named = F.substring(stream, F.instr(stream, "/") + 1, F.length(stream))
    return F.when(stream.rlike(_ISSUED), F.regexp_extract(stream, _ISSUED, 1)).otherwise(named)


def hour_of(time_ns: int) -> str:
    from gossamer.logger.archive import hour_of

    return hour_of(time_ns)


def _told(name: str) -> Column:
    return F.get_json_object("attributes", f"$.{name}")


# As a part of the source ----------------------------------------------------------------------------------------------


class File(InputPartition):
    def __init__(self, path: str, store: str) -> None:
        super().__init__(path)
        self.path = path
        self.store = store


class ArchiveReader(DataSourceReader):
    """A partition a file. Options that choose rows skip files by their paths, and row groups by their statistics."""

    def __init__(self, source: "GossamerSource", schema: StructType) -> None:
        from gossamer.analytics.planning import nanoseconds

        self._archive: str = source.options["archive"]
        self._schema = schema
        self._group = SYSTEM_GROUP if source.table == "telemetry" else source.group
        self._has_system = source.has_system
        self._key = source.key
        self._since_ns = None if source.since is None else nanoseconds(source.since)
        self._until_ns = None if source.until is None else nanoseconds(source.until)
        self._where = source.where

    def partitions(self) -> Sequence[InputPartition]:
        folder = checked(self._archive)
        files = sorted(folder.glob("group=*/hour=*/[!.]*.parquet"))
        return [File(str(path), str(folder)) for path in files if self._may_have(path)]

    def _may_have(self, path: Path) -> bool:
        group = unquote(path.parts[-3].removeprefix("group="))
        hour = path.parts[-2].removeprefix("hour=")
        return (
            # A name that was too long for a path is cut, and marked so.
            (self._group is None or group == self._group or "~" in group)
            and (self._has_system or not group.startswith("$"))
            and (self._since_ns is None or hour >= hour_of(self._since_ns))
            and (self._until_ns is None or hour <= hour_of(self._until_ns))
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, File):
            return
        import pyarrow.dataset as dataset

        wanted = arrow_schema(self._schema)
        made = {
            "group": ["stream"],
            "publisher": ["stream"],
            "store": [],
            "type": ["attributes"],
            "node": ["attributes"],
        }
        columns = {need for name in wanted.names for need in made.get(name, [name])} | {"stream"}
        if self._where is not None:
            columns.add("attributes")
        batches = dataset.dataset(partition.path, format="parquet").to_batches(
            columns=sorted(columns), filter=self._conditions(), batch_size=BATCH_ROWS, batch_readahead=1,
            use_threads=False, fragment_scan_options=dataset.ParquetFragmentScanOptions(pre_buffer=False),
        )  # fmt: skip
        for batch in batches:
            if self._where is not None:
                batch = batch.filter(pa.array(self._where.keeps(batch["attributes"].to_pylist()), pa.bool_()))
            if len(batch):
                yield self._in_schema(batch, wanted, partition.store)

    def _conditions(self) -> pc.Expression:
        stream = pc.field("stream")
        keep = pc.is_valid(stream)
        if self._group is not None:
            keep &= pc.starts_with(stream, f"{self._group}/")
        if not self._has_system:
            keep &= ~pc.starts_with(stream, "$")
        if self._key is not None:
            keep &= pc.field("key") == self._key
        if self._since_ns is not None:
            keep &= pc.field("logged_ns") >= self._since_ns
        if self._until_ns is not None:
            keep &= pc.field("logged_ns") < self._until_ns
        if self._where is not None and self._where.needles:
            holds = [pc.match_substring(pc.field("attributes"), needle) for needle in self._where.needles]
            keep &= reduce(or_, holds)
        return keep

    def _in_schema(self, batch: pa.RecordBatch, wanted: pa.Schema, store: str) -> pa.RecordBatch:
        arrays = []
        for name in wanted.names:
            match name:
                case "group":
                    arrays.append(_groups(batch))
                case "publisher":
                    arrays.append(publishers(batch["stream"]))
                case "store":
                    arrays.append(pa.repeat(pa.scalar(store, pa.string()), len(batch)))
                case "type" | "node":
                    arrays.append(_attribute(batch["attributes"], name))
                case _:
                    arrays.append(batch[name])
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _groups(batch: pa.RecordBatch) -> pa.Array:
    return pc.replace_substring_regex(batch["stream"], "/.*$", "")


def _attribute(attributes: pa.Array, name: str) -> pa.Array:
    """Of telemetry, whose attributes its members write: there is one of that name, and it is a plain string."""
    return pc.struct_field(pc.extract_regex(attributes, rf'"{name}":"(?P<value>[^"\\]*)"'), "value")
