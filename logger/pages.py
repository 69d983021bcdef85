"""The log in the order in which it was written, for whoever reads along: brokers that catch up, the command line.

Packets are numbered as they are committed, so a *number* is a cursor: what is read after it never misses a packet that
is committed later. Reading has its own connections and is safe in any thread; the writer is not held up by it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter

import msgspec
from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from xxhash import xxh3_64_digest

from gossamer.logger.databases import Database, StoreError, trouble
from gossamer.logger.rows import ids_of, number_of
from gossamer.logger.schema import SCHEMA_VERSION, version_of
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import StreamId, group_of
from gossamer.messages.packet import EVENTS_MAX, Packet
from gossamer.messages.wire import Retired, Span
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.retired import RetiredStreams

ROWS_MAX = 4_096
"""Packets of a page. Without a limit PostgreSQL would sort all that follow, for each page."""

_decoder = msgspec.msgpack.Decoder(Packet)

# By number, whatever the group: an index on streams would give the rows in another order.
_PAGE = """
    SELECT number, logged_ns, packets.stream, first, packets.last, checksum, bytes, COALESCE(collected.last, -1)
    FROM packets LEFT JOIN collected ON collected.stream = packets.stream
    WHERE number > ? AND packets.last > COALESCE(collected.last, -1) AND substr(packets.stream, 1, ?) = ?
    ORDER BY number LIMIT ?
"""
_WHOLE_PAGE = """
    SELECT number, logged_ns, stream, first, last, checksum, bytes, -1 FROM packets WHERE number > ?
    ORDER BY number LIMIT ?
"""
_NEWEST = """
    SELECT id, seq FROM newest WHERE id > ? AND id <= ? AND NOT deleted AND "group" = ?
      AND seq > COALESCE((SELECT last FROM collected WHERE collected.stream = newest.stream), -1)
    ORDER BY id LIMIT ?
"""
_NUMBERED = "SELECT number, logged_ns, stream, first, last, checksum, bytes FROM packets WHERE number = ?"
_FIND = """
    SELECT number, first, last, checksum, bytes FROM packets
    WHERE stream = ? AND last >= ? AND first <= ?
      AND first >= COALESCE((SELECT MAX(first) FROM packets WHERE stream = ? AND first <= ?), 0)
    ORDER BY first
"""
_DERIVED = "SELECT value FROM meta WHERE name = 'derived'"
_LAST = "SELECT COALESCE(MAX(number), 0) FROM packets"
_HIGHEST_AFTER = "SELECT number, highest_ns FROM packets WHERE number > ? ORDER BY number LIMIT 1"
_RETIRED = "SELECT issuer, ranges FROM retired"
_STREAMS = "SELECT stream, number FROM streams WHERE substr(stream, 1, ?) = ?"
_FIRST_SINCE = "SELECT MIN(number) FROM packets WHERE stream = ? AND number > ?"
_FIRST_BEYOND = """
    SELECT MIN(number) FROM packets
    WHERE stream = ? AND last > ?
      AND first >= COALESCE((SELECT MAX(first) FROM packets WHERE stream = ? AND first <= ?), 0)
"""
_PASSED = """
    SELECT first, last FROM packets
    WHERE stream = ? AND last >= ? AND first <= ? AND number <= ?
      AND first >= COALESCE((SELECT MAX(first) FROM packets WHERE stream = ? AND first <= ?), 0)
"""


class Page(Struct, frozen=True):
    """A piece of the log, in its order."""

    rows: tuple[tuple[int, int, Packet], ...]
    """`(number, logged_ns, packet)` each."""
    last: int
    """Where to read on: all up to this number is in here, or was not asked for."""
    end: bool
    """There was no more at that moment."""
    damaged: tuple[Span, ...] = ()
    """On disk, but not as it was written: left out."""


class Pages:
    """Reads a store; there may be many, in this process and in others."""

    def __init__(self, database: Database) -> None:
        self._engine = database.readers()
        self._name = database.name

    def page(self, after: int, bytes_max: int, group: str | None = None, *, collected: bool = False) -> Page:
        """What was logged after that number, in one group or all: at least one packet, if there is one. What has been
        collected only if it is asked for; then packets are as they were logged."""
        with self.snapshot() as connection:
            return self.page_in(connection, after, bytes_max, group, collected=collected)

    @staticmethod
    def page_in(
        connection: Connection, after: int, bytes_max: int, group: str | None = None, *, collected: bool = False
    ) -> Page:
        """The same, of a moment that one has already."""
        rows: list[tuple[int, int, Packet]] = []
        damaged: list[Span] = []
        size = 0
        last = connection.exec_driver_sql(_LAST).scalar_one()
        if collected:
            found = connection.exec_driver_sql(_WHOLE_PAGE, (after, ROWS_MAX))
        else:
            found = connection.exec_driver_sql(_PAGE, (after, *_prefix(group), ROWS_MAX))
        count = 0
        for count, (number, logged_ns, stream, first, high, checksum, data, gone) in enumerate(found, 1):  # noqa: B007
            if rows and size + len(data) > bytes_max:
                found.close()
                return Page(tuple(rows), number - 1, False, tuple(damaged))
            packet = intact(stream, first, high, checksum, data)
            if packet is None:
                damaged.append(Span(stream, ((max(first, gone + 1), high),)))
            else:
                rows.append((number, logged_ns, packet.cut(max(first, gone + 1), high)))
                size += len(data)
        if count == ROWS_MAX:
            return Page(tuple(rows), number, False, tuple(damaged))
        return Page(tuple(rows), max(after, last), True, tuple(damaged))

    def newest(self, group: str, after: int, upto: int, bytes_max: int) -> Page:
        """Of what was logged after one number and up to another only the newest event of each key, tombstones left out.
        `upto` is at most what `derived()` was; of what is newer than that, whoever reads on sees everything.

        What is newest changes while one reads: a key that is set again meanwhile stands further on, and comes then.
        """
        rows: list[tuple[int, int, Packet]] = []
        damaged: list[Span] = []
        size = 0
        with self.snapshot() as connection:
            bounds = (ids_of(after, after)[1], ids_of(upto, upto)[1], group, EVENTS_MAX + 1)
            found = [(number_of(id), seq) for id, seq in connection.exec_driver_sql(_NEWEST, bounds)]
            end = len(found) <= EVENTS_MAX
            last = upto if end else found[-1][0] - 1  # a page does not end within a packet
            found = [row for row in found if row[0] <= last]
            for number, of_packet in groupby(found, itemgetter(0)):
                if rows and size > bytes_max:
                    return Page(tuple(rows), number - 1, False, tuple(damaged))
                row = connection.exec_driver_sql(_NUMBERED, (number,)).one_or_none()
                if row is not None:
                    packet = intact(*row[2:])
                    if packet is None:
                        damaged.append(Span(row[2], ((row[3], row[4]),)))
                        continue
                    parts = [packet.cut(seq, seq) for _, seq in of_packet]
                    rows += [(number, row[1], part) for part in parts]
                    size += sum(len(part.blob) for part in parts)
        return Page(tuple(rows), last, end, tuple(damaged))

    def find(self, stream: StreamId, first: int, last: int) -> list[tuple[int, int, Packet]]:
        """A part of a stream, as `(number, first seq of the packet as it was logged, packet)`."""
        found = []
        with self.snapshot() as connection:
            for number, low, high, checksum, data in connection.exec_driver_sql(
                _FIND, (stream, first, last, stream, first)
            ):
                packet = intact(stream, low, high, checksum, data)
                if packet is not None:
                    found.append((number, low, packet.cut(max(first, low), min(last, high))))
        return found

    def derived(self) -> int:
        """Up to this number the log has been made into events, and `newest` is known."""
        with self.snapshot() as connection:
            return self.derived_in(connection)

    @staticmethod
    def derived_in(connection: Connection) -> int:
        return int(connection.exec_driver_sql(_DERIVED).scalar() or 0)

    def number_at(self, time_ns: int) -> int:
        """A cursor: everything logged at or after that time has a higher number.

        By bisection in the highest time so far: that it passes `time_ns` is the first time that anything does, whatever
        the clock did before and after.
        """
        with self.snapshot() as connection:
            low, high = 0, int(connection.exec_driver_sql(_LAST).scalar_one())
            while low < high:
                middle = (low + high) // 2
                found = connection.exec_driver_sql(_HIGHEST_AFTER, (middle,)).one_or_none()
                if found is None or found[1] >= time_ns:
                    high = middle
                else:
                    low = found[0]
        return int(low)

    def number_after(
        self, positions: Mapping[StreamId, int], group: str | None = None, others: int = 0, *, over: bool = True
    ) -> int:
        """A cursor: nothing beyond these positions has a lower number, or that one. Streams that are not named count
        from the cursor `others` on, those that are over only with `over`; with a group, only its streams do.

        It may be lower than need be: of a stream that is not named its first packet counts though that was collected
        (`streams.number`; to look for the first that is left would be to look through all of them), and of one that is
        named, what was collected and is not swept yet. Whoever reads drops what it has had.
        """
        with self.snapshot() as connection:
            retired = RetiredStreams()
            for issuer, ranges in () if over else connection.exec_driver_sql(_RETIRED):
                retired.merge((Retired(issuer, msgspec.json.decode(ranges, type=tuple[tuple[int, int], ...])),))
            found: list[int] = [connection.exec_driver_sql(_LAST).scalar_one() + 1]
            for stream, number in connection.exec_driver_sql(_STREAMS, _prefix(group)).all():
                if stream not in positions and stream not in retired:
                    beyond = number
                    if number <= others:
                        beyond = connection.exec_driver_sql(_FIRST_SINCE, (stream, others)).scalar()
                    if beyond is not None:
                        found.append(beyond)
            for stream, position in positions.items():
                if group is None or group_of(stream) == group:
                    number = connection.exec_driver_sql(_FIRST_BEYOND, (stream, position) * 2).scalar()
                    if number is not None:
                        found.append(number)
        return min(found) - 1

    def passed(self, spans: Iterable[Span], number: int) -> tuple[Span, ...]:
        """What of these was logged up to that number."""
        found: list[Span] = []
        with self.snapshot() as connection:
            for span in spans:
                here = IntervalSet()
                for first, last in span.ranges:
                    bounds = (span.stream, first, last, number, span.stream, first)
                    for low, high in connection.exec_driver_sql(_PASSED, bounds):
                        here.add(max(first, low), min(last, high))
                if here:
                    found.append(Span(span.stream, here.ranges()))
        return tuple(found)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """The store as it is at one moment."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise trouble(self._name, error) from None


def open_pages(database: Database) -> Pages:
    """Of a store that somebody else writes to, or nobody; a `UsageError` if it is none, or of another version."""
    pages = Pages(database)
    try:
        with pages.snapshot() as connection:
            version = version_of(connection, database.name)
        if version is None:
            raise UsageError(f"{database.name} is no store")
        if version < SCHEMA_VERSION:
            raise UsageError(
                f"the store {database.name} has schema {version}: a logger that is started on it updates it"
            )
    except StoreError as error:
        pages.close()
        raise UsageError(f"cannot open the store {error}") from None
    except UsageError:
        pages.close()
        raise
    return pages


def checksum_of(data: bytes) -> int:
    return int.from_bytes(xxh3_64_digest(data), "big", signed=True)


def intact(stream: StreamId, first: int, last: int, checksum: int, data: bytes) -> Packet | None:
    """The packet that a row holds, or None if the disk did not keep it."""
    if checksum_of(data) != checksum:
        return None
    try:
        packet = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
    return packet if (packet.stream, packet.first, packet.last) == (stream, first, last) else None


def _prefix(group: str | None) -> tuple[int, str]:
    """What the ids of a group's streams begin with, and how long that is."""
    prefix = "" if group is None else f"{group}/"
    return len(prefix), prefix
