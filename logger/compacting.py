"""Dropping from the log what is obsolete for something that is logged (`--compact`): the operator's wish for less.

Which events those may be is noted while events are derived (logger/deriving.py): what a key's newest event took the
place of, and what others name. Here each is looked at again, by the definition itself (protocol/obsolescence.py), and
left out of its packet when what obsoletes it is *safe*, as the protocol says: on the disks of `loggers_min` loggers.
In its place stays a mark that says what obsoleted it, and is final; so whoever comes for it later is told, and ends in
the right state. Its derived rows go with it.

A packet keeps its number, so nothing else changes for those who read along. With an archive nothing is dropped that is
not archived yet.
"""

from collections.abc import Callable
from contextlib import suppress

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from gossamer.logger.databases import Database, trouble
from gossamer.logger.pages import Pages, checksum_of, intact
from gossamer.logger.rows import event_id
from gossamer.logger.schema import DERIVED
from gossamer.messages.errors import PeerError
from gossamer.messages.event import Head
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet
from gossamer.protocol.obsolescence import Told, obsoletes

NOTED_MAX = 2_048
"""Looked at in one transaction."""
CHAIN_MAX = 16
"""Marks that are followed from one to what it names."""
HEADS_MAX = 64
"""Packets whose heads are at hand."""

_NOTED = """
    SELECT stream, seq, by_stream, by_seq FROM obsolete WHERE stream > ? OR (stream = ? AND seq > ?)
    ORDER BY stream, seq LIMIT ?
"""
_PACKET = """
    SELECT number, first, last, checksum, bytes FROM packets WHERE stream = ? AND first <= ? ORDER BY first DESC LIMIT 1
"""
_REPLACE = "UPDATE packets SET bytes = ?, checksum = ? WHERE number = ?"
_FORGET = "DELETE FROM obsolete WHERE stream = ? AND seq = ?"
_NOTES = "SELECT value FROM meta WHERE name = 'notes'"
_KEEP_NOTES = "INSERT INTO meta (name, value) VALUES ('notes', '1') ON CONFLICT (name) DO NOTHING"
_DROP_NOTES = "DELETE FROM meta WHERE name = 'notes'"

_encoder = msgspec.msgpack.Encoder()


class _Row:
    """A packet of the log, and what goes of it."""

    def __init__(self, number: int, packet: Packet) -> None:
        self.number = number
        self.packet = packet
        self.heads: dict[int, Head] = {}
        self.gone: list[tuple[int, EventId]] = []
        with suppress(PeerError):  # nobody can tell what it obsoletes
            self.heads = dict(packet.heads())


class Compacting:
    """What may go, and goes."""

    def __init__(self, database: Database, engine: Engine, pages: Pages) -> None:
        self._database = database
        self._engine = engine
        self._pages = pages
        self.safe: dict[StreamId, int] = {}
        """Up to here each stream is safe."""
        self.events = 0
        self.bytes = 0
        """What was dropped."""
        self._rows: dict[tuple[StreamId, int], _Row] = {}

    def begin(self, notes: bool) -> bool:
        """Notes are taken from now on, or not; whether there are none of what is derived already."""
        try:
            with self._database.turn, self._engine.begin() as connection:
                known = connection.exec_driver_sql(_NOTES).scalar() is not None
                if notes:
                    connection.exec_driver_sql(_KEEP_NOTES)
                elif known:
                    connection.exec_driver_sql(_DROP_NOTES)
                    connection.exec_driver_sql("DELETE FROM obsolete")
                return notes and not known
        except DBAPIError as error:
            raise trouble(self._database.name, error) from None

    def run(self, upto: int, sound: Callable[[], bool], closing: Callable[[], bool]) -> None:
        """Drop what can be, of packets up to a number; not while it is uncertain what is on disk, or while closing."""
        at: tuple[StreamId, int] | None = ("", -1)
        try:
            while at is not None and sound() and not closing():
                with self._database.turn, self._engine.begin() as connection:
                    at = self._some(connection, at, upto) if sound() else None
        except DBAPIError as error:
            raise trouble(self._database.name, error) from None
        finally:
            self._rows.clear()

    def _some(self, connection: Connection, at: tuple[StreamId, int], upto: int) -> tuple[StreamId, int] | None:
        """Some of it; returns where to go on, if there is more."""
        self._rows.clear()
        found = connection.exec_driver_sql(_NOTED, (at[0], *at, NOTED_MAX)).fetchall()
        done: list[tuple[StreamId, int]] = []
        touched: dict[int, _Row] = {}
        for stream, seq, by_stream, by_seq in found:
            if by_seq > self.safe.get(by_stream, -1):
                continue
            row = self._row(connection, stream, seq)
            if row is not None and row.number > upto:
                continue
            done.append((stream, seq))
            by = self._obsoleter(connection, row, seq, EventId(by_stream, by_seq))
            if row is not None and by is not None:
                row.gone.append((seq, by))
                touched[row.number] = row
        for row in touched.values():
            self._thin(connection, row)
        if done:
            connection.exec_driver_sql(_FORGET, done)
        return (found[-1][0], found[-1][1]) if len(found) == NOTED_MAX else None

    def _obsoleter(self, connection: Connection, row: _Row | None, seq: int, by: EventId) -> EventId | None:
        """What obsoletes an event, if it is there and something does: what was noted, or what that has gone for."""
        if row is None or seq not in row.heads:
            return None
        older = Told(EventId(row.packet.stream, seq), row.heads[seq])
        for _ in range(CHAIN_MAX):
            newer = self._row(connection, *by)
            head = None if newer is None else newer.heads.get(by.seq)
            if head is not None:
                return by if obsoletes(Told(by, head), older) else None
            holes = () if newer is None else newer.packet.holes
            following = next((hole for hole in holes if hole.first <= by.seq <= hole.last), None)
            if newer is None or following is None:
                return None
            by = newer.packet.obsoleter(following)
        return None

    def _row(self, connection: Connection, stream: StreamId, seq: int) -> _Row | None:
        for (of, first), row in self._rows.items():
            if of == stream and first <= seq <= row.packet.last:
                return row
        found = connection.exec_driver_sql(_PACKET, (stream, seq)).one_or_none()
        if found is None or found[2] < seq:
            return None  # collected since
        number, first, last, checksum, data = found
        packet = intact(stream, first, last, checksum, data)
        if packet is None:
            return None
        if len(self._rows) >= HEADS_MAX:
            del self._rows[next(iter(self._rows))]
        row = self._rows[stream, first] = _Row(number, packet)
        return row

    def _thin(self, connection: Connection, row: _Row) -> None:
        thinned = row.packet.thin(row.gone, final=True)
        data = _encoder.encode(thinned)
        connection.exec_driver_sql(_REPLACE, (data, checksum_of(data), row.number))
        ids = [(event_id(row.number, seq - row.packet.first),) for seq, _ in row.gone]
        for table in DERIVED:
            connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE id = ?", ids)
        self.events += len(row.gone)
        self.bytes += len(row.packet.blob) - len(thinned.blob)
