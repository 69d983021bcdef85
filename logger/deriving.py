"""What SQL can ask about, made from the log: events, the newest of each key, telemetry.

It is made in the order of the log, a piece at a time; how far it has come is written with each piece, so a crash loses
nothing and doubles nothing. All of it can be made again from the packets.

*Newest* is what docs/semantics.md means by it. A key without a scope is its publisher's: the highest seq counts. With
`scope="group"` it is the group's: the highest rank (else publish time), then stream, then seq. The parts of a
transaction count once its commit is there; of the commits of a stream the last stands for all.
"""

import time
from collections.abc import Iterable
from decimal import Decimal
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from gossamer.logger.databases import Database, Unfit, trouble
from gossamer.logger.pages import Pages
from gossamer.logger.rows import COLUMNS, Row, bare, columns, event_id, ids_of, rows
from gossamer.logger.schema import DERIVED
from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content, Event
from gossamer.messages.ids import SYSTEM_GROUP, EventId, StreamId, group_of
from gossamer.messages.packet import Packet
from gossamer.protocol.obsolescence import named

PIECE_BYTES = 256 * 1024
"""Nobody else can write to an SQLite store while a piece is written: some milliseconds."""
BEHIND_BYTES = 2**20
"""A piece when there is more to come: whoever writes that much waits for the disk anyway."""

NEWEST_ROWS = 256
"""Keys in one statement. The driver gives the interpreter away with each statement, and waits to have it back while the
node is at work: 500 keys one by one took seconds."""

_KEEP_NEWEST = """
    INSERT INTO newest (scope, kind, key, "group", place, stream, seq, id, deleted) VALUES {}
    ON CONFLICT (scope, kind, key) DO UPDATE SET place = excluded.place, stream = excluded.stream, seq = excluded.seq,
                                                 id = excluded.id, deleted = excluded.deleted
    WHERE (excluded.place, excluded.stream, excluded.seq) > (newest.place, newest.stream, newest.seq)
"""
_FIND_NEWEST = "SELECT place, stream, seq FROM newest WHERE scope = ? AND kind = ? AND key = ?"
_NOTE = """
    INSERT INTO obsolete (stream, seq, by_stream, by_seq) VALUES (?, ?, ?, ?)
    ON CONFLICT (stream, seq) DO UPDATE SET by_stream = excluded.by_stream, by_seq = excluded.by_seq
"""
_DROP = """
    WITH gone (low, high) AS (VALUES {})
    DELETE FROM {} WHERE id IN (
        SELECT made.id FROM gone CROSS JOIN {} AS made WHERE made.id BETWEEN gone.low AND gone.high
    )
"""
_KEEP_DERIVED = """
    INSERT INTO meta (name, value) VALUES ('derived', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_TELEMETRY = ("id", "type", "node", "key", "published_ns", "logged_ns", "deleted", "attributes")

Logged = tuple[int, int, Packet]
Columns = dict[str, list[Any]]
_Place = tuple[int | float | Decimal, str, int, int, bool]
"""Place, stream, seq, id, deleted: as they are compared."""
_Newest = dict[tuple[str, int, str], _Place]
"""By scope, kind and key."""
_Noted = dict[tuple[str, int], tuple[str, int]]
"""What may be obsolete, and for what."""


class Deriving:
    """How far it has come, and the next piece."""

    def __init__(self, database: Database, engine: Engine, pages: Pages) -> None:
        self._database = database
        self._engine = engine
        self._pages = pages
        self.number: int | None = None
        """Up to here it is done; None: not known, it is read from the database."""
        self._behind = False
        self.late_s = 0.0
        """How long after it was logged the first packet of the last piece was done."""
        self.notes = False
        """Whether it is noted what may be obsolete, to be compacted (logger/compacting.py)."""
        self.events = 0
        self.spoilt = 0
        """Events that could not be made into more than bare rows."""

    def step(self) -> bool:
        """Make the next piece; returns whether there was one."""
        if self.number is None:
            self.number = self._pages.derived()
        page = self._pages.page(self.number, BEHIND_BYTES if self._behind else PIECE_BYTES, collected=True)
        self._behind = not page.end
        if page.last == self.number:
            return False
        self.number = None  # unless all goes well it is read again
        try:
            self._make(page.rows, page.last)
        except Unfit:
            for number, logged_ns, packet in page.rows:  # it is one packet, which must not stop the others
                try:
                    self._make([(number, logged_ns, packet)], number)
                except Unfit:
                    found: Columns = {name: [] for name in COLUMNS}
                    _add(found, bare(number, logged_ns, packet))
                    self._write(found, [], {}, {}, number)
                    self.spoilt += packet.count
            self._write({"id": []}, [], {}, {}, page.last)
        self.number = page.last
        if page.rows:
            self.late_s = max(0.0, (time.time_ns() - page.rows[0][1]) / 1e9)
        return True

    def rebuild(self) -> None:
        """Begin again from the first packet that is left."""
        try:
            with self._database.turn, self._engine.begin() as connection:
                for table in DERIVED:
                    connection.exec_driver_sql(f"DELETE FROM {table.name}")
                connection.exec_driver_sql("DELETE FROM obsolete")
                connection.exec_driver_sql(_KEEP_DERIVED, ("0",))
        except DBAPIError as error:
            raise trouble(self._database.name, error) from None
        self.number = 0

    def drop(self, connection: Connection, ranges: Iterable[tuple[int, int]]) -> None:
        """The packets with these numbers are gone, and so is what was made from them. One statement a table, as above:
        the writer waits meanwhile."""
        gone = ", ".join("({}, {})".format(*ids_of(*each)) for each in ranges)
        for table in DERIVED if gone else ():
            connection.exec_driver_sql(_DROP.format(gone, table.name, table.name))

    def _make(self, packets: Iterable[Logged], last: int) -> None:
        found: Columns = {name: [] for name in COLUMNS}
        told: list[tuple[object, ...]] = []
        newest: _Newest = {}
        noted: _Noted = {}
        for number, logged_ns, packet in packets:
            is_telemetry = group_of(packet.stream) == SYSTEM_GROUP
            table = None if is_telemetry else columns(number, logged_ns, packet)
            if table is not None:
                for name, values in table.values.items():
                    found[name].extend(values)
                seqs, contents = table.seqs, table.contents
            else:
                made, events = rows(number, logged_ns, packet)
                _add(found, made)
                self.spoilt += len(made) - len(events)
                if is_telemetry:
                    told += _telemetry(made, events)
                seqs, contents = [event.id.seq for event in events if event.id is not None], events
            self._take_newest(newest, noted, (number, packet.first), packet.stream, zip(seqs, contents, strict=True))
        self._write(found, told, newest, noted, last)

    def _write(
        self,
        found: Columns,
        told: list[tuple[object, ...]],
        newest: _Newest,
        noted: _Noted,
        last: int,
    ) -> None:
        kept = [(*at, at[0].partition("/")[0], *what) for at, what in newest.items()]
        try:
            with self._database.turn, self._engine.begin() as connection:
                if found["id"]:
                    self._database.fill(connection, "events", found)
                if told:
                    self._database.copy(connection, "telemetry", _TELEMETRY, told)
                if kept:
                    if self.notes:
                        _note_replaced(connection, newest, noted)
                    for at in range(0, len(kept), NEWEST_ROWS):
                        piece = kept[at : at + NEWEST_ROWS]
                        statement = _KEEP_NEWEST.format(", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(piece)))
                        connection.exec_driver_sql(statement, tuple(chain.from_iterable(piece)))
                if self.notes and noted:
                    connection.exec_driver_sql(_NOTE, [(*older, *newer) for older, newer in noted.items()])
                connection.exec_driver_sql(_KEEP_DERIVED, (str(last),))
        except DBAPIError as error:
            raise trouble(self._database.name, error) from None
        self.events += len(found["id"])

    def _take_newest(
        self,
        newest: _Newest,
        noted: _Noted,
        at: tuple[int, int],
        stream: StreamId,
        events: Iterable[tuple[int, Content | Event]],
    ) -> None:
        """`at` is the number of their packet, and its first seq."""
        number, first = at
        for seq, event in events:
            relation, key = event.relation, event.key
            if key is None and relation is None:
                continue
            id = event_id(number, seq - first)
            if self.notes and relation is not None and relation.part is None:
                noted.update((older, (stream, seq)) for older in named(EventId(stream, seq), relation))
            if relation is not None and relation.commit is not None:
                _keep(newest, (stream, 1, ""), (0, stream, seq, id, False))
                self._take_parts(newest, stream, seq - relation.commit.parts, seq - 1)
            elif key is not None and "\0" not in key and (relation is None or relation.part is None):
                scope: str = stream
                place: int | float | Decimal = 0
                if relation is not None and relation.group:
                    scope = group_of(stream)
                    place = event.time_ns if event.rank is None else self._database.exact(event.rank)
                _keep(newest, (scope, 0, key), (place, stream, seq, id, event.deleted), noted)

    def _take_parts(self, newest: _Newest, stream: str, first: int, last: int) -> None:
        """What a transaction has set: its parts, which may stand in packets of their own."""
        for number, start, packet in self._pages.find(stream, max(first, 0), last) if first <= last else ():
            try:
                events = packet.events()
            except PeerError:
                continue
            for event in events:
                if event.key is not None and event.relation is not None and event.relation.part is not None:
                    assert event.id is not None
                    seq = event.id.seq
                    _keep(
                        newest, (stream, 0, event.key), (0, stream, seq, event_id(number, seq - start), event.deleted)
                    )


def _add(found: Columns, made: list[Row]) -> None:
    for name, values in zip(COLUMNS, zip(*made, strict=True), strict=False):
        found[name].extend(values)


def _keep(newest: _Newest, at: tuple[str, int, str], new: _Place, noted: _Noted | None = None) -> None:
    old = newest.get(at)
    if old is None or old < new:
        newest[at] = new
    if old is not None and noted is not None:
        _note(noted, old, new)


def _note(noted: _Noted, one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """Of two events of a key the older may be obsolete."""
    older, newer = (one[:3], other[:3]) if one[:3] < other[:3] else (other[:3], one[:3])
    if older[1:] != newer[1:]:
        noted[older[1], older[2]] = newer[1], newer[2]


def _note_replaced(connection: Connection, newest: _Newest, noted: _Noted) -> None:
    for at, new in newest.items():
        if at[1] == 0:
            old = connection.exec_driver_sql(_FIND_NEWEST, at).one_or_none()
            if old is not None:
                _note(noted, tuple(old), new)


def _telemetry(made: list[Row], events: list[Event]) -> list[tuple[object, ...]]:
    by_seq = {event.id.seq: event for event in events if event.id is not None}
    found: list[tuple[object, ...]] = []
    for row in made:
        event = by_seq.get(row[3])
        if event is not None:
            kind, node = event.attributes.get("type"), event.attributes.get("node")
            found.append((row[0], _plain(kind), _plain(node), row[6], row[4], row[5], row[12], row[9]))
    return found


def _plain(value: object) -> str | None:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else None
