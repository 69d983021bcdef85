"""Rows of a store as Arrow, in bulk: what runs in Spark's Python workers.

A worker of a cluster may have no more than Python, pyarrow and, for PostgreSQL, psycopg; so this module, and what it
imports of ours, gets by with those. No row is looked at by itself: the drivers fetch thousands, `zip` turns them into
columns, and Arrow converts a column at a time. Only if a column cannot be converted, because somebody wrote something
into the database that is not of its type, are its cells looked at one by one, and what does not fit becomes null (or
what stands for nothing where null may not be): the row is there, and counts.
"""

import gc
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from gossamer.analytics.where import Where

BATCH_ROWS = 8_192
BUSY_S = 30

_ARROW: dict[DataType, pa.DataType] = {
    LongType(): pa.int64(),
    IntegerType(): pa.int32(),
    DoubleType(): pa.float64(),
    BooleanType(): pa.bool_(),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
}
_NOTHING: dict[pa.DataType, object] = {
    pa.int64(): 0, pa.int32(): 0, pa.float64(): 0.0, pa.bool_(): False, pa.string(): "", pa.binary(): b"",
}  # fmt: skip
MADE = ("store", "publisher")
"""Columns that no table has."""
_ISSUED = re.compile(r"([^/]+/~[^/]+)\.(0|[1-9][0-9]{0,18})")  # as messages/ids.py has it; a test compares
_CASTS = {
    "sqlite": {"rank": "CAST(rank AS REAL)"},
    "postgresql": {
        "rank": "CAST(rank AS DOUBLE PRECISION)",
        "annotation": "CAST(annotation AS TEXT)",
        "attributes": "CAST(attributes AS TEXT)",
    },
}

_HOLDS = {"sqlite": "instr(attributes, ?) > 0", "postgresql": "strpos(CAST(attributes AS TEXT), ?) > 0"}


@dataclass(frozen=True)
class Place:
    """A store, as a driver of its database opens it."""

    backend: str
    """`sqlite` or `postgresql`."""
    where: str
    """A path; or a url, with the password."""
    name: str
    """The url as it may be shown."""


@dataclass(frozen=True)
class Condition:
    """A part of WHERE, with `?` for what is compared with."""

    text: str
    values: tuple[object, ...] = ()


class Slice(InputPartition):
    """Rows of a table, by a range of their ids."""

    def __init__(self, place: Place, first: int, last: int) -> None:
        super().__init__((first, last))
        self.place = place
        self.first = first
        self.last = last


def arrow_schema(schema: StructType) -> pa.Schema:
    return pa.schema([pa.field(each.name, _ARROW[each.dataType], each.nullable) for each in schema.fields])


def read(
    table: str, schema: StructType, conditions: Sequence[Condition], part: Slice, where: "Where | None" = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice that meet the conditions and match the selector, in the order of the log."""
    wanted = arrow_schema(schema)
    columns = [name for name in wanted.names if name not in MADE]
    needed = ["stream"] * ("publisher" in wanted.names) + ["attributes"] * (where is not None)
    columns += [name for name in needed if name not in columns]
    casts = _CASTS[part.place.backend]
    limits = [Condition("id BETWEEN ? AND ?", (part.first, part.last)), *conditions]
    if where is not None and where.needles:
        holds = " OR ".join([_HOLDS[part.place.backend]] * len(where.needles))
        limits.append(Condition(f"({holds})", where.needles))
    statement = (
        f"SELECT {', '.join(casts.get(name, quoted(name)) for name in columns) or 'id'} FROM {table} "
        f"WHERE {' AND '.join(each.text for each in limits)} ORDER BY id"
    )
    values = tuple(value for each in limits for value in each.values)
    fetched = _DRIVERS[part.place.backend](part.place.where, statement, values)

    def batch(rows: Rows) -> pa.RecordBatch | None:
        if where is not None:
            place = columns.index("attributes")
            rows = list(compress(rows, where.keeps([row[place] for row in rows])))
        if not rows:
            return None
        found = dict(zip(columns, zip(*rows, strict=True), strict=False))
        arrays = [
            _made(name, part.place, found, len(rows)) if name in MADE else column(found[name], wanted.field(name))
            for name in wanted.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)

    while True:
        with _uncollected():
            rows = next(fetched, None)
            made = None if rows is None else batch(rows)
        if rows is None:
            return
        if made is not None:
            yield made


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cyclic collector, which looks again and again at rows that have no cycles: a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def quoted(name: str) -> str:
    return f'"{name}"'


def column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Converted at once; or, if something is not what it should be, cell by cell."""
    try:
        if field.type == pa.bool_():  # SQLite has none
            return pa.array(values, pa.int8() if type(values[0]) is int else pa.bool_()).cast(pa.bool_())
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        nothing = None if field.nullable else _NOTHING[field.type]
        return pa.array([_cell(value, field.type, nothing) for value in values], field.type)


def publishers(streams: pa.Array) -> pa.Array:
    """Who published in each of these: looked at once a stream, of which a batch has few."""
    encoded = streams.dictionary_encode()
    named = pa.array([publisher_of(stream) for stream in encoded.dictionary.to_pylist()], pa.string())
    return named.take(encoded.indices)


def publisher_of(stream: str) -> str:
    """The name of a named publisher; else who numbered its stream."""
    issued = _ISSUED.fullmatch(stream)
    return issued[1] if issued is not None else stream.partition("/")[2]


def _made(name: str, place: Place, found: dict[str, Sequence[Any]], count: int) -> pa.Array:
    if name == "store":
        return pa.repeat(pa.scalar(place.name, pa.string()), count)
    return publishers(column(found["stream"], pa.field("stream", pa.string(), False)))


def _cell(value: object, kind: pa.DataType, nothing: object) -> object:
    if isinstance(value, bytes) and kind == pa.string():
        return value.decode(errors="replace")
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return nothing


# The drivers ----------------------------------------------------------------------------------------------------------

Rows = list[tuple[Any, ...]]


def _from_sqlite(path: str, statement: str, values: tuple[object, ...]) -> Iterator[Rows]:
    with closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.text_factory = bytes  # Arrow checks that it is UTF-8; this way nobody fails at what is not
        cursor = connection.execute(statement, values)
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield rows


def _from_postgresql(url: str, statement: str, values: tuple[object, ...]) -> Iterator[Rows]:
    import psycopg

    with psycopg.connect(url, application_name="gossamer analytics") as connection:
        connection.read_only = True
        with psycopg.ServerCursor(connection, "gossamer") as cursor:
            cursor.execute(statement.replace("?", "%s").encode(), values, binary=True)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield rows


_DRIVERS: dict[str, Callable[[str, str, tuple[object, ...]], Iterator[Rows]]] = {
    "sqlite": _from_sqlite,
    "postgresql": _from_postgresql,
}
