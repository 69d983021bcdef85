"""The log as Parquet, for what outlives it: `DIR/group=default/hour=2026-11-16-15/LOGGER-FIRST-LAST.parquet`.

What is collected is archived before it is swept, and what is new when its hour is over, always in the order of the log.
A run writes the packets FIRST to LAST (their numbers) into files that are renamed when they are whole, and then notes
in the store that it has come to LAST. If it dies in between, its files are told by a FIRST that the store does not know
of yet: they are removed, and the run is made again. So no row is ever missing, and none is there twice.

The columns are those of `events` (docs/store.md), the group being told by the path, and the rank a float.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from xxhash import xxh3_64_hexdigest

from gossamer.logger.databases import StoreError
from gossamer.logger.pages import Pages
from gossamer.logger.rows import COLUMNS, Row, rows
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NodeId

RUN_BYTES = 32 * 2**20
"""Packets of a run: it is held in memory, several times as large."""
HOUR_NS = 3_600 * 10**9
SEGMENT_LENGTH_MAX = 200
_KEPT = tuple(column for column in COLUMNS if column != "group")


class Archive:
    """A folder that one logger, or several, write what they have into."""

    def __init__(self, folder: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UsageError("an archive needs pyarrow: pip install 'gossamer[archive]'") from None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the archive {folder}: {error.strerror}") from None
        self.folder = folder
        self._arrow: Any = pyarrow
        self._parquet: Any = pyarrow.parquet
        self._schema = _schema(pyarrow)
        self._prefix = ""
        self.events = 0

    def begin(self, node: NodeId, number: int) -> None:
        """This logger's archive is complete up to that number: what a run beyond it has left is removed."""
        self._prefix = f"{_segment(node)}-"
        try:
            for path in self.folder.glob("group=*/hour=*/*"):
                name = path.name.removeprefix(".")
                if name.startswith(self._prefix):
                    first = name.removeprefix(self._prefix).partition("-")[0]
                    if path.name.startswith(".") or (first.isdecimal() and int(first) > number):
                        path.unlink()
        except OSError as error:
            raise self._trouble(error) from None

    def run(self, pages: Pages, number: int, done: Callable[[int], None]) -> int:
        """Write what was logged after that number, and tell how far it is done; returns that."""
        while True:
            page = pages.page(number, RUN_BYTES, collected=True)
            if page.last == number:
                return number
            made = [row for number, logged_ns, packet in page.rows for row in rows(number, logged_ns, packet)[0]]
            try:
                self._write(made, number + 1, page.last)
            except (OSError, self._arrow.ArrowException) as error:
                raise self._trouble(error) from None
            done(page.last)
            number = page.last
            self.events += len(made)

    def _write(self, made: list[Row], first: int, last: int) -> None:
        name = f"{self._prefix}{first:019}-{last:019}.parquet"
        written: list[Path] = []
        made.sort(key=_place)  # stable: within an hour it is still the order of the log
        for (group, hour), part in groupby(made, _place):
            folder = self.folder / f"group={_segment(group)}" / f"hour={hour}"
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{name}"
            columns = list(zip(*part, strict=True))
            del columns[COLUMNS.index("group")]
            rank = _KEPT.index("rank")
            columns[rank] = tuple(None if value is None else float(value) for value in columns[rank])
            arrays = [
                self._arrow.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)
            ]
            table = self._arrow.Table.from_arrays(arrays, schema=self._schema)
            self._parquet.write_table(table, temporary, compression="zstd")
            _sync(temporary)
            written.append(temporary)
        for temporary in written:
            temporary.rename(temporary.with_name(name))
        for folder in {temporary.parent for temporary in written}:
            _sync(folder)

    def _trouble(self, error: Exception) -> StoreError:
        return StoreError(f"the archive {self.folder}: {error}")


def _schema(arrow: Any) -> Any:
    types = {
        "id": arrow.int64(), "stream": arrow.string(), "seq": arrow.int64(), "published_ns": arrow.int64(),
        "logged_ns": arrow.int64(), "key": arrow.string(), "rank": arrow.float64(), "annotation": arrow.string(),
        "attributes": arrow.string(), "body": arrow.binary(), "size": arrow.int32(), "deleted": arrow.bool_(),
    }  # fmt: skip
    return arrow.schema([(column, types[column]) for column in _KEPT])


def _place(row: Row) -> tuple[str, str]:
    """Group and hour."""
    return row[1], hour_of(row[5])


def hour_of(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // HOUR_NS * 3_600, UTC).strftime("%Y-%m-%d-%H")


def _segment(name: str) -> str:
    """A name as a part of a path; one that is too long for that is cut, and told from others by its hash."""
    quoted = quote(name, safe="$")
    if len(quoted) > SEGMENT_LENGTH_MAX:
        shown = "".join(each for each in name if each.isascii() and each.isalnum())
        quoted = f"{shown[:100]}~{xxh3_64_hexdigest(name.encode())}"
    return quoted


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
