"""What a logger has on disk: packets and the few records around them, each id once.

Which seqs of which stream are stored is known here in intervals, so nothing has to be looked up before a write: what
is new of a packet is cut out of it, and goes down in one statement for all packets of a group. Changes are *staged* by
`apply` and `collect` and become durable with `commit`, which may be tried again as often as it takes: a disk that is
full for an hour delays acknowledgements for an hour, and nothing is acknowledged meanwhile.

A store belongs to one process (a lock says so) and to one logger, whose name it remembers. One thread writes; the log
can be read along by others (logger/pages.py).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from types import TracebackType
from typing import Self

import msgspec
from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from gossamer.logger import schema
from gossamer.logger.databases import StoreError, database, reason, trouble
from gossamer.logger.migrations import described
from gossamer.logger.pages import Page, Pages, checksum_of, intact
from gossamer.logger.position import Loss, Position, read_position, write_position
from gossamer.logger.rows import ids_of
from gossamer.logger.timeline import Timeline
from gossamer.messages.errors import GossamerError, StoreUnusable, UsageError
from gossamer.messages.ids import NodeId, StreamId, issued_by
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Member, Retired, Span
from gossamer.protocol.effects import Covered, Marked, Moved, Over, Promise, Record, Stored, StoredStream, Void
from gossamer.protocol.intervals import IntervalSet

AGE_STEPS = 256
_encoder = msgspec.msgpack.Encoder()

_PACKET_COLUMNS = ("number", "stream", "first", "last", "checksum", "bytes", "logged_ns", "highest_ns")
_FROM_NUMBER = "SELECT number, stream, first, last, checksum FROM packets WHERE number >= ?"
_ROWS_WITHIN = "SELECT number, first, last, checksum, bytes FROM packets WHERE stream = ? AND first <= ? AND last >= ?"
_STRIKE = "DELETE FROM packets WHERE number = ?"
_NUMBERS_OF = "SELECT number FROM packets WHERE stream = ?"
_STRIKE_DERIVED = "DELETE FROM {} WHERE id BETWEEN ? AND ?"
_ADD_STREAMS = (
    'INSERT INTO streams (stream, number, "group", publisher, issuer) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING'
)
_DROP_STREAMS = "DELETE FROM streams WHERE stream = ?"
_FIND_PACKETS = """
    SELECT first, last, checksum, bytes FROM packets
    WHERE stream = ? AND last >= ? AND first <= ?
      AND first >= COALESCE((SELECT MAX(first) FROM packets WHERE stream = ? AND first <= ?), 0)
    ORDER BY first
"""
_KEEP_COLLECTED = (
    "INSERT INTO collected (stream, last) VALUES (?, ?) ON CONFLICT (stream) DO UPDATE SET last = excluded.last"
)
_DROP_COLLECTED = "DELETE FROM collected WHERE stream = ?"
_DROP_VOIDS = "DELETE FROM voids WHERE stream = ?"
_ADD_VOIDS = "INSERT INTO voids (stream, first, last) VALUES (?, ?, ?)"
_KEEP_PROMISE = """
    INSERT INTO promises (stream, epoch, holder, last, floor) VALUES (?, ?, ?, ?, ?) ON CONFLICT (stream)
    DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder, last = excluded.last, floor = excluded.floor
"""
_KEEP_RETIRED = (
    "INSERT INTO retired (issuer, ranges) VALUES (?, ?) ON CONFLICT (issuer) DO UPDATE SET ranges = excluded.ranges"
)
_KEEP_MEMBER = """
    INSERT INTO members (node, status, freshness, logger, address) VALUES (?, ?, ?, ?, ?) ON CONFLICT (node)
    DO UPDATE SET status = excluded.status, freshness = excluded.freshness, logger = excluded.logger,
                  address = excluded.address
"""
_KEEP_BOOKMARK = """
    INSERT INTO bookmarks (name, stream, last) VALUES (?, ?, ?) ON CONFLICT (name, stream)
    DO UPDATE SET last = excluded.last
"""
_DROP_BOOKMARK = "DELETE FROM bookmarks WHERE name = ?"
_DROP_IN_BOOKMARKS = "DELETE FROM bookmarks WHERE stream = ?"
_CLOCK = "SELECT name, value FROM meta WHERE name IN ('jumps', 'clock')"
_LOGGED = "SELECT stream, number, last, logged_ns FROM packets ORDER BY stream, first"
_KEEP_META = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


_PacketRow = tuple[int, StreamId, int, int, int, bytes]
"""Number, stream, first, last, checksum, bytes."""


@dataclass(slots=True)
class _Stream:
    stored: IntervalSet = field(default_factory=IntervalSet)
    void: IntervalSet = field(default_factory=IntervalSet)
    collected: int = -1
    promise: Promise | None = None


@dataclass(slots=True)
class _Staged:
    """What the next commit writes; of records that replace each other, the last."""

    packets: list[_PacketRow] = field(default_factory=list)
    streams: dict[StreamId, int] = field(default_factory=dict)
    voids: dict[StreamId, None] = field(default_factory=dict)
    collected: dict[StreamId, None] = field(default_factory=dict)
    forgotten: dict[StreamId, None] = field(default_factory=dict)
    over: dict[StreamId, None] = field(default_factory=dict)
    """To be left out of bookmarks."""
    promises: dict[StreamId, Promise] = field(default_factory=dict)
    issuers: dict[str, None] = field(default_factory=dict)
    members: dict[NodeId, Member] = field(default_factory=dict)
    bookmarks: dict[tuple[NodeId, StreamId], int] = field(default_factory=dict)
    unmarked: dict[NodeId, None] = field(default_factory=dict)
    struck: dict[int, None] = field(default_factory=dict)
    moved: dict[StreamId, int] = field(default_factory=dict)
    """Streams of which nothing is kept that has a number up to there."""
    covered: bool = False
    """Whether the list of covered loggers has changed."""

    def __bool__(self) -> bool:
        return bool(
            self.packets
            or self.voids
            or self.collected
            or self.forgotten
            or self.promises
            or self.issuers
            or self.members
            or self.bookmarks
            or self.unmarked
            or self.struck
            or self.moved
            or self.covered
        )


class Store:
    """Everything a logger keeps, in one database; used by one thread at a time, but for what reads the log."""

    def __init__(
        self,
        url: str,
        clock_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
        accept_loss: bool = False,
    ) -> None:
        """`clock_ns` is the wall clock, `steady_ns` the monotonic clock that it is compared with. `accept_loss`: begin
        with what is there, though the store has held more."""
        self.database = database(url)
        self.path = self.database.name
        self.database.lock()
        try:
            self._engine = self._opened()
        except UsageError:
            self.database.close()
            raise
        self._pages = Pages(self.database)
        self._clock_ns, self._steady_ns = clock_ns, steady_ns
        self.timeline = Timeline()
        self.damaged = 0
        """Packets whose checksum was wrong when they were read; they were not handed out."""
        self.refused = 0
        """Records of names that no publisher or member can have; they were not stored."""
        self._streams: dict[StreamId, _Stream] = {}
        self._fading: dict[StreamId, int] = {}
        """Streams that are over and collected, but not swept, and how far they were collected."""
        self._retired: dict[str, IntervalSet] = {}
        self._members: dict[NodeId, Member] = {}
        self._bookmarks: dict[NodeId, dict[StreamId, int]] = {}
        self._covered: dict[NodeId, None] = {}
        """Loggers whose finished streams are all here."""
        self._staged = _Staged()
        self.in_doubt = False
        """A commit failed: it may be on disk all the same."""
        self._number = 0
        """Of the packet that was staged last."""
        self._highest_ns = 0
        self._id: str | None = None
        self._committed = 0
        """Number of the last packet on disk."""
        self._position_at: int | None = None
        """Number in the position file."""
        self.lost: Loss | None = None
        """Packets that this store has held and does not hold, unless they were repaired or accepted."""
        self.node: NodeId | None = None
        """The logger that it belongs to."""
        try:
            with self._engine.connect() as connection:
                self._read(connection)
            if not accept_loss:
                self._compare_position()
        except (DBAPIError, msgspec.MsgspecError, ValueError) as error:
            self.close()
            raise _unusable(self.path, error) from None

    # Reading --------------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Of the packet that was logged last, among all that ever were."""
        return self._number

    def stored(self) -> Stored:
        """What a node that starts on this store finds."""
        try:
            ages = self.ages()
        except StoreError as error:
            raise StoreUnusable(f"cannot open the store {error}") from None
        return Stored(
            {
                name: StoredStream(stream.stored.ranges(), stream.void.ranges(), stream.collected, stream.promise)
                for name, stream in self._streams.items()
            },
            tuple(self._members.values()),
            tuple(Retired(issuer, numbers.ranges()) for issuer, numbers in self._retired.items()),
            {name: dict(vector) for name, vector in self._bookmarks.items()},
            ages,
            tuple(self._covered),
        )

    def load(self, spans: Iterable[Span]) -> tuple[Packet, ...]:
        """What there is of these on disk, cut to what was asked for; nothing of what is damaged."""
        found: list[Packet] = []
        try:
            with self._pages.snapshot() as connection:
                for span in spans:
                    if span.stream in self._streams:
                        for first, last in span.ranges:
                            found += self._find(connection, span.stream, first, last)
        except DBAPIError as error:
            raise trouble(self.path, error) from None
        return tuple(found)

    def bytes(self) -> int:
        """What the packets on disk come to."""
        try:
            with self._pages.snapshot() as connection:
                return int(connection.exec_driver_sql("SELECT SUM(LENGTH(bytes)) FROM packets").scalar() or 0)
        except DBAPIError as error:
            raise trouble(self.path, error) from None

    def strike(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Take out what of these is not as it was written; returns what that was. It is gone with the next commit."""
        struck: list[Span] = []
        try:
            with self._pages.snapshot() as connection:
                for span in spans:
                    found = IntervalSet()
                    for first, last in span.ranges if span.stream in self._streams else ():
                        rows = connection.exec_driver_sql(_ROWS_WITHIN, (span.stream, last, first))
                        for number, low, high, checksum, data in rows:
                            if intact(span.stream, low, high, checksum, data) is None:
                                self._staged.struck[number] = None
                                found.add(low, high)
                    for part in found.ranges():
                        self._streams[span.stream].stored.remove(*part)
                    if found:
                        struck.append(Span(span.stream, found.ranges()))
        except DBAPIError as error:
            raise trouble(self.path, error) from None
        return tuple(struck)

    def page(self, after: int, bytes_max: int, group: str | None = None, *, collected: bool = False) -> Page:
        """What was logged after that number; in any thread, like the rest of what reads the log."""
        return self._pages.page(after, bytes_max, group, collected=collected)

    def newest(self, group: str, after: int, upto: int, bytes_max: int) -> Page:
        """Of what was logged after one number and up to another, the newest event of each key."""
        return self._pages.newest(group, after, upto, bytes_max)

    def derived(self) -> int:
        """Up to this number it is known what is newest."""
        return self._pages.derived()

    def number_at(self, time_ns: int) -> int:
        """A cursor: everything logged at or after that time has a higher number."""
        return self._pages.number_at(time_ns)

    def number_after(
        self, positions: Mapping[StreamId, int], group: str | None = None, others: int = 0, *, over: bool = True
    ) -> int:
        """A cursor: nothing beyond these positions has a lower number, or that one."""
        return self._pages.number_after(positions, group, others, over=over)

    def passed(self, spans: Iterable[Span], number: int) -> tuple[Span, ...]:
        """What of these was logged up to that number."""
        return self._pages.passed(spans, number)

    def _find(self, connection: Connection, name: StreamId, first: int, last: int) -> list[Packet]:
        first = max(first, self._streams[name].collected + 1)
        if first > last:
            return []
        rows = connection.exec_driver_sql(_FIND_PACKETS, (name, first, last, name, first))
        packets = []
        for low, high, checksum, data in rows:
            packet = intact(name, low, high, checksum, data)
            if packet is None:
                self.damaged += 1
            else:
                packets.append(packet.cut(max(first, low), min(last, high)))
        return packets

    def _read(self, connection: Connection) -> None:
        self.node = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "node")).scalar()
        self._id = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "store")).scalar()
        kept = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "number")).scalar()
        newest = connection.exec_driver_sql(
            "SELECT number, highest_ns, logged_ns FROM packets ORDER BY number DESC LIMIT 1"
        )
        last, self._highest_ns, last_ns = newest.one_or_none() or (0, 0, 0)
        self._number = self._committed = max(last, int(kept or 0))
        self._read_clock(connection, last, last_ns)
        swept = []
        for name, last, upto in connection.exec_driver_sql("SELECT stream, last, swept FROM collected ORDER BY stream"):
            self._stream(name).collected = last
            if upto >= last:
                swept.append((name, last))
        for name, first, last in connection.exec_driver_sql(
            "SELECT stream, first, last FROM packets ORDER BY stream, first"
        ):
            stream = self._stream(name)
            if last > stream.collected:
                stream.stored.add(max(first, stream.collected + 1), last)
        for name, first, last in connection.exec_driver_sql("SELECT stream, first, last FROM voids"):
            self._stream(name).void.add(first, last)
        for name, *promise in connection.exec_driver_sql("SELECT stream, epoch, holder, last, floor FROM promises"):
            self._stream(name).promise = Promise(name, *promise)
        for issuer, ranges in connection.exec_driver_sql("SELECT issuer, ranges FROM retired ORDER BY issuer"):
            self._retired[issuer] = IntervalSet(msgspec.json.decode(ranges, type=list[tuple[int, int]]))
        for node, status, freshness, logger, address in connection.exec_driver_sql(
            "SELECT node, status, freshness, logger, address FROM members ORDER BY node"
        ):
            self._members[node] = Member(node, status, freshness, bool(logger), address)
        covered = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "covered")).scalar()
        self._covered = dict.fromkeys(msgspec.json.decode(covered or "[]", type=list[str]))
        for name, stream_id, last in connection.exec_driver_sql("SELECT name, stream, last FROM bookmarks"):
            self._bookmarks.setdefault(name, {})[stream_id] = last
        for name in list(self._streams):
            self._forget_if_over(name)
        for name, last in swept:
            self.on_swept(name, last)

    def _read_clock(self, connection: Connection, last: int, last_ns: int) -> None:
        """Compare the clock with its last reading; the newest packet, `last`, was logged at `last_ns`."""
        found = dict(tuple(row) for row in connection.exec_driver_sql(_CLOCK))
        self.timeline = Timeline(found.get("jumps"))
        if not last:
            return
        self.timeline.forget_before(connection.exec_driver_sql("SELECT MIN(number) FROM packets").scalar_one())
        number, read_ns = msgspec.json.decode(found.get("clock", "[0,0]"), type=tuple[int, int])
        if number != self._number:  # packets were logged after it
            read_ns = last_ns + self.timeline.offset(last)
        now_ns = self._clock_ns()
        self.timeline.on_start(self._number, read_ns, now_ns)
        self.timeline.on_time(self._number, now_ns, self._steady_ns())

    def _compare_position(self) -> None:
        """See whether the store is behind its position file."""
        path = self.database.position
        position = read_position(path) if path is not None else None
        if position is None:
            return
        self.lost = position.lost
        if self._number < position.number or self._id not in (None, position.store):
            self.lost = Loss(position.number, self._number)
        if self.lost is not None:  # the confirmations of other loggers were about packets that are gone
            self._covered.clear()
            self._staged.covered = True
        if self.node is None:
            self.node = position.node

    def ages(self) -> dict[StreamId, tuple[tuple[float, int], ...]]:
        """How many seconds ago each stream was logged up to where, in steps, without the jumps of the clock."""
        if not self._number:
            return {}
        now_ns = self._clock_ns()
        found: dict[StreamId, list[tuple[int, int]]] = {}
        try:
            with self._pages.snapshot() as connection:
                for name, number, last, logged_ns in connection.exec_driver_sql(_LOGGED):
                    stream = self._streams.get(name)
                    if stream is not None and last > stream.collected:
                        _grow(found.setdefault(name, []), logged_ns + self.timeline.offset(number), last, now_ns)
        except DBAPIError as error:
            raise trouble(self.path, error) from None
        return {name: _told_ago(ages, now_ns) for name, ages in found.items()}

    # Writing --------------------------------------------------------------------------------------------------------

    def confirm_clock(self) -> None:
        """Let the time of unconfirmed jumps count: another machine's clock agrees. Durable with the next commit."""
        self.timeline.confirm()

    def note_clock(self) -> None:
        """Record the time at which this life ends, so that a quiet time before it does not count as down."""
        now_ns = self._clock_ns()
        self.timeline.on_time(self._number, now_ns, self._steady_ns())
        try:
            with self.database.turn, self._engine.begin() as connection:
                self._keep_clock(connection, now_ns)
        except DBAPIError as error:
            raise trouble(self.path, error) from None

    def _keep_clock(self, connection: Connection, now_ns: int) -> None:
        read = msgspec.json.encode((self._number, now_ns)).decode()
        connection.exec_driver_sql(_KEEP_META, [("jumps", self.timeline.encoded()), ("clock", read)])

    def claim(self, node: NodeId) -> None:
        """This store is that logger's."""
        if self.node not in (None, node):
            raise UsageError(f"the store {self.path} belongs to the logger {self.node}, not to {node}")
        self._id = self._id or token_hex(8)
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(_KEEP_META, [("node", node), ("store", self._id)])
        except DBAPIError as error:
            raise _unusable(self.path, error) from None
        self.node = node
        self.keep_position()

    def keep_position(self) -> None:
        """Write the last position beside the database. A disk that fails is told by the next commit."""
        path = self.database.position
        if path is None or self._id is None or self.node is None or self._position_at == self._committed:
            return
        with suppress(OSError):
            write_position(path, Position(self._id, self.node, self._committed, self.lost))
            self._position_at = self._committed

    def forget_loss(self) -> None:
        """Take the store for whole: the other loggers have confirmed that it holds all that they hold."""
        self.lost, self._position_at = None, None
        self.keep_position()

    def apply(self, records: Iterable[Record]) -> None:
        """These are on disk after the next commit."""
        staged = self._staged
        for record in records:
            if not _is_fit(record):
                self.refused += 1
                continue
            match record:
                case Packet():
                    self._add(record)
                case Void(span):
                    stream = self._stream(span.stream)
                    for first, last in span.ranges:
                        stream.void.add(first, last)
                    staged.voids[span.stream] = None
                    self._forget_if_over(span.stream)
                case Over(name):
                    self._retire(name)
                case Promise():
                    self._stream(record.stream).promise = staged.promises[record.stream] = record
                case Member():
                    self._members[record.node] = staged.members[record.node] = record
                case Marked():
                    self._mark(record)
                case Moved(name):
                    self._move(name)
                case Covered(node, covered):
                    self._covered.pop(node, None)
                    if covered:
                        self._covered[node] = None
                    staged.covered = True

    def _move(self, name: StreamId) -> None:
        """Other loggers keep it: whatever of it is on disk goes with the next commit, and may come again after it."""
        stream = self._streams.pop(name, None)
        self._fading.pop(name, None)
        if stream is not None and stream.promise is not None:
            self._stream(name).promise = stream.promise
        staged = self._staged
        staged.packets = [row for row in staged.packets if row[1] != name]
        staged.streams.pop(name, None)
        staged.moved[name] = self._number

    def _mark(self, record: Marked) -> None:
        staged = self._staged
        if record.vector is None:
            for stream in self._bookmarks.pop(record.name, {}):
                staged.bookmarks.pop((record.name, stream), None)
            staged.unmarked[record.name] = None
            return
        for position in record.vector:
            known = self._bookmarks.setdefault(record.name, {})
            if position.last > known.get(position.stream, -1):
                known[position.stream] = staged.bookmarks[record.name, position.stream] = position.last

    def collect(self, name: StreamId, last: int) -> None:
        """Forget the stream up to `last`, and remember that."""
        if last <= self._collected(name):
            return
        stream = self._stream(name)
        stream.collected = last
        stream.stored.remove(0, last)
        self._staged.collected[name] = None  # its voids stay known: readers must not take them for collected events
        self._forget_if_over(name)

    def commit(self) -> None:
        """Write what is staged and wait for the disk; after a `StoreError` it is still staged."""
        if not self._staged and not self.timeline.changed:
            return
        try:
            with self.database.turn, self._engine.begin() as connection:
                self._write(connection, self._staged)
        except (DBAPIError, GossamerError) as error:
            self._engine.dispose()  # a connection that saw a bad disk may never see a good one
            self.in_doubt = True
            raise trouble(self.path, error) if isinstance(error, DBAPIError) else StoreError(str(error)) from None
        self.in_doubt = self.timeline.changed = False
        self._committed = self._number
        self._staged = _Staged()

    def _add(self, packet: Packet) -> None:
        """Stage those seqs of a packet that are new."""
        name = packet.stream
        first, last = max(packet.first, self._collected(name) + 1), packet.last
        if first > last:
            return
        stream = self._stream(name)
        for low, high in stream.stored.gaps(first, last):
            data = _encoder.encode(packet.cut(low, high))
            self._number += 1
            self._staged.packets.append((self._number, name, low, high, checksum_of(data), data))
            if not stream.stored:
                self._staged.streams.setdefault(name, self._number)
        stream.stored.add(first, last)

    def _retire(self, name: StreamId) -> None:
        issued = issued_by(name)
        if issued is not None:  # the stream of a named publisher never ends
            self._retired.setdefault(issued.issuer, IntervalSet()).add(issued.number, issued.number)
            self._staged.issuers[issued.issuer] = None
            self._forget_if_over(name)

    def _forget_if_over(self, name: StreamId) -> None:
        """Of a retired stream nothing is left when its last packet has gone: there may be a million of them."""
        issued = issued_by(name)
        stream = self._streams.get(name)
        if issued is None or stream is None or stream.stored:
            return
        if issued.issuer in self._retired and issued.number in self._retired[issued.issuer]:
            del self._streams[name]
            for bookmark, vector in self._bookmarks.items():
                if vector.pop(name, None) is not None:
                    self._staged.bookmarks.pop((bookmark, name), None)
                    self._staged.over[name] = None
            if stream.collected < 0:
                self._staged.forgotten[name] = None
            else:
                self._fading[name] = stream.collected
                self._staged.collected[name] = self._staged.voids[name] = None

    def on_swept(self, name: StreamId, last: int) -> None:
        """Nothing is left on disk of a stream up to `last`; if it was over, nothing need be remembered of it either."""
        if self._fading.get(name, last + 1) <= last:
            del self._fading[name]
            self._staged.forgotten[name] = None

    def _collected(self, name: StreamId) -> int:
        stream = self._streams.get(name)
        return self._fading.get(name, -1) if stream is None else stream.collected

    def _write(self, connection: Connection, staged: _Staged) -> None:
        def run(statement: str, rows: Sequence[tuple[object, ...]]) -> None:
            if rows:
                connection.exec_driver_sql(statement, list(rows))

        streams = self._streams
        # What is collected is swept by another thread, in its own time: it may have to be archived first.
        collected = [
            (name, self._collected(name)) for name in staged.collected if name in streams or name in self._fading
        ]
        for statement in (_DROP_STREAMS, _DROP_COLLECTED, _DROP_VOIDS):
            run(statement, [(name,) for name in staged.forgotten])
        logged_ns = self._clock_ns()
        # A commit in doubt may have written its packets before the jump.
        before = staged.packets[0][0] - 1 if staged.packets and not self.in_doubt else self._number
        self.timeline.on_time(before, logged_ns, self._steady_ns())
        if self.timeline.changed:
            self._keep_clock(connection, logged_ns)
        self._highest_ns = max(self._highest_ns, logged_ns)
        for name, upto in staged.moved.items():
            for statement in (_DROP_STREAMS, _DROP_COLLECTED, _DROP_VOIDS):
                run(statement, [(name,)])
            found = connection.exec_driver_sql(_NUMBERS_OF, (name,))
            staged.struck |= {row[0]: None for row in found if row[0] <= upto}
        run(_STRIKE, [(number,) for number in staged.struck])
        for table in schema.DERIVED if staged.struck else ():
            run(_STRIKE_DERIVED.format(table.name), [ids_of(number, number) for number in staged.struck])
        if packets := self._absent(connection, staged.packets) if self.in_doubt else staged.packets:
            rows = [(*packet, logged_ns, self._highest_ns) for packet in packets]
            self.database.copy(connection, "packets", _PACKET_COLUMNS, rows)
        run(_ADD_STREAMS, [(name, number, *described(name)) for name, number in staged.streams.items()])
        if (
            staged.collected or staged.forgotten or staged.moved or staged.struck
        ):  # perhaps the packet with the highest number, which is not given twice
            run(_KEEP_META, [("number", str(self._number))])
        run(_KEEP_COLLECTED, collected)
        run(_DROP_VOIDS, [(name,) for name in staged.voids])
        run(
            _ADD_VOIDS,
            [(name, *part) for name in staged.voids if name in streams for part in streams[name].void.ranges()],
        )
        run(_KEEP_PROMISE, [(p.stream, p.epoch, p.holder, p.last, p.floor) for p in staged.promises.values()])
        run(
            _KEEP_RETIRED,
            [(issuer, msgspec.json.encode(self._retired[issuer].ranges()).decode()) for issuer in staged.issuers],
        )
        run(_DROP_BOOKMARK, [(name,) for name in staged.unmarked])
        run(_DROP_IN_BOOKMARKS, [(name,) for name in staged.over])
        run(_KEEP_BOOKMARK, [(*key, last) for key, last in staged.bookmarks.items()])
        run(_KEEP_MEMBER, [(m.node, m.status, m.freshness, m.logger, m.address) for m in staged.members.values()])
        if staged.covered:
            run(_KEEP_META, [("covered", msgspec.json.encode(list(self._covered)).decode())])

    def _absent(self, connection: Connection, packets: list[_PacketRow]) -> list[_PacketRow]:
        """Which of these a commit that failed has not written all the same; and that nobody else has written."""
        found = connection.exec_driver_sql(_FROM_NUMBER, (packets[0][0] if packets else self._number + 1,))
        there = {row[0]: tuple(row) for row in found}
        if not there.items() <= {packet[0]: packet[:5] for packet in packets}.items():
            raise UsageError(f"the store {self.path} was written to by another logger meanwhile")
        return [packet for packet in packets if packet[0] not in there]

    # The database ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._pages.close()
        self._engine.dispose()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _stream(self, name: StreamId) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            # One that was over, and is not: what was collected of it may still be on disk.
            stream = self._streams[name] = _Stream(collected=self._fading.pop(name, -1))
        return stream

    def _opened(self) -> Engine:
        """The connection that writes: the tables are there, and of our version."""
        engine = self.database.writer()
        try:
            with engine.begin() as connection:
                schema.prepare(connection, self.path)
        except DBAPIError as error:
            engine.dispose()
            raise _unusable(self.path, error) from None
        except UsageError:
            engine.dispose()
            raise
        return engine


def _unusable(path: str, error: Exception) -> StoreUnusable:
    text = reason(error) if isinstance(error, DBAPIError) else f"a value in it is damaged: {error}"
    return StoreUnusable(f"cannot open the store {path}: {text}")


def _grow(ages: list[tuple[int, int]], logged_ns: int, last: int, now_ns: int) -> None:
    """Steps are the coarser the longer ago they are; each is as old as the youngest in it."""
    if ages:
        logged_ns = max(logged_ns, ages[-1][0])
        if logged_ns - ages[-1][0] <= max(0, now_ns - logged_ns) // AGE_STEPS:
            ages[-1] = (logged_ns, last)
            return
    ages.append((logged_ns, last))


def _told_ago(ages: list[tuple[int, int]], now_ns: int) -> tuple[tuple[float, int], ...]:
    return tuple((max(0, now_ns - logged_ns) / 1e9, last) for logged_ns, last in ages)


def _is_fit(record: Record) -> bool:
    """Whether its names can be text: PostgreSQL has no NUL in it, and names have none (messages/ids.py) but what a
    member that misbehaves makes up."""
    match record:
        case Packet() | Promise() | Over() | Moved():
            name = record.stream
        case Void(span):
            name = span.stream
        case Member():
            name = f"{record.node}{record.address}"
        case Covered():
            name = record.node
        case Marked():
            name = "".join((record.name, *(position.stream for position in record.vector or ())))
    return "\0" not in name
