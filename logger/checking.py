"""Whether a store holds what it says it does: `gossamer logger --check`. It only reads, also beside a logger that runs.

damaged     a packet is not what was written: its checksum is wrong, or its row tells another story than its bytes
malformed   an event that cannot be read, and should not have been let in by its publisher's broker
doubled     an event is there twice
void        an event is there that was declared never to exist
gap         events are missing between others: a logger that runs again asks its peers for them
order       numbers or times of the log do not ascend as they should
stream      a stream's row is missing, or names a packet that is not its first
events      the derived events are not those of the packets (`--rebuild` makes them again)
database    what the database itself finds wrong
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

from msgspec import Struct
from sqlalchemy import Connection

from gossamer.logger.databases import Database, StoreError
from gossamer.logger.pages import Page, Pages, open_pages
from gossamer.logger.rows import number_of
from gossamer.messages.errors import PeerError
from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet
from gossamer.protocol.intervals import IntervalSet

PAGE_BYTES = 4 * 2**20
SHOWN_MAX = 100
"""Findings of a kind that are told one by one."""


class Finding(Struct, frozen=True):
    """Something that is wrong."""

    kind: str
    text: str


class Checked(Struct):
    """What a check has seen."""

    packets: int = 0
    events: int = 0
    bytes: int = 0
    derived: int = 0
    findings: dict[str, int] = {}
    """How many of each kind; not all are told."""

    @property
    def ok(self) -> bool:
        return not self.findings


def check(database: Database, tell: Callable[[Finding], None]) -> Checked:
    """Read all of it, and tell what is wrong as it is found."""
    pages = open_pages(database)
    try:
        return _Check(database, pages, tell).run()
    finally:
        pages.close()


class _Check:
    def __init__(self, database: Database, pages: Pages, tell: Callable[[Finding], None]) -> None:
        self._database = database
        self._pages = pages
        self._tell = tell
        self._found: Counter[str] = Counter()
        self._stored: dict[StreamId, IntervalSet] = {}
        self._first: dict[StreamId, int] = {}
        self._checked = Checked()

    def run(self) -> Checked:
        try:
            with self._pages.snapshot() as connection:
                self._read(connection)
        except StoreError as error:
            self._on("database", f"cannot be read on: {error}")
        self._checked.findings = dict(self._found)
        return self._checked

    def _read(self, connection: Connection) -> None:
        for text in self._database.complaints(connection):
            self._on("database", text)
        derived, rows = self._pages.derived_in(connection), _Rows(connection)
        after, end = 0, False
        while not end:
            page = self._pages.page_in(connection, after, PAGE_BYTES, collected=True)
            self._on_damage(page)
            for number, _, packet in page.rows:
                self._on_packet(number, packet)
                self._on_strays(rows.before(number), page)
                count, present = rows.of(number), sum(1 for size in packet.table() if size)
                self._checked.derived += count
                if count != (present if number <= derived else 0):
                    where = f"packet {number} ({packet.stream}:{packet.first})"
                    self._on("events", f"{where} has {present} events, {count} are derived")
            self._on_strays(rows.before(page.last + 1), page)
            after, end = page.last, page.end
        self._on_strays(rows.before(2**63), None)
        self._check_streams(connection)
        self._check_order(connection)

    def _on(self, kind: str, text: str) -> None:
        self._found[kind] += 1
        if self._found[kind] <= SHOWN_MAX:
            self._tell(Finding(kind, text))

    def _on_damage(self, page: Page) -> None:
        for span in page.damaged:
            for first, last in span.ranges:
                self._on("damaged", f"{span.stream}:{first} to {last}: not as it was written")
                self._stored.setdefault(span.stream, IntervalSet()).add(first, last)  # said once, and not a gap too

    def _on_packet(self, number: int, packet: Packet) -> None:
        self._checked.packets += 1
        self._checked.events += sum(1 for size in packet.table() if size)
        self._checked.bytes += len(packet.blob)
        stored = self._stored.setdefault(packet.stream, IntervalSet())
        for first, last in stored.overlap(packet.first, packet.last):
            self._on("doubled", f"{packet.stream}:{first} to {last}: twice, again in packet {number}")
        stored.add(packet.first, packet.last)
        self._first.setdefault(packet.stream, number)
        try:
            packet.verify()
        except PeerError as error:
            self._on("malformed", str(error))

    def _on_strays(self, strays: Iterator[tuple[int, int]], page: Page | None) -> None:
        for number, count in strays:
            if page is None or not page.damaged:  # what was derived from a packet before it was damaged is right
                self._on("events", f"{count} events of packet {number}, which is not there")

    def _check_streams(self, connection: Connection) -> None:
        collected = _pairs(connection, "SELECT stream, last FROM collected")
        firsts = _pairs(connection, "SELECT stream, number FROM streams")
        voids: dict[StreamId, IntervalSet] = {}
        for stream, first, last in connection.exec_driver_sql("SELECT stream, first, last FROM voids"):
            voids.setdefault(stream, IntervalSet()).add(first, last)
        for stream, stored in self._stored.items():
            never = voids.get(stream, IntervalSet())
            for first, last in never.ranges():
                for low, high in stored.overlap(first, last):
                    self._on("void", f"{stream}:{low} to {high}: there, and declared never to exist")
            here = IntervalSet([*stored.ranges(), *never.ranges()])
            begin = max(stored.first(), collected.get(stream, -1) + 1)
            if begin <= stored.last():
                for first, last in here.gaps(begin, stored.last()):
                    self._on("gap", f"{stream}:{first} to {last}: missing")
            if stream in self._first and firsts.get(stream, 2**63) > self._first[stream]:
                self._on("stream", f"{stream}: its first packet is {self._first[stream]}, not {firsts.get(stream)}")

    def _check_order(self, connection: Connection) -> None:
        found = connection.exec_driver_sql(
            "SELECT COUNT(*) FROM (SELECT highest_ns < logged_ns OR highest_ns < LAG(highest_ns) OVER (ORDER BY number)"
            " AS wrong FROM packets) AS checked WHERE wrong"
        ).scalar_one()
        if found:
            self._on("order", f"{found} packets whose highest time is not")


class _Rows:
    """How many events are derived from which packet, in the order of the log."""

    def __init__(self, connection: Connection) -> None:
        ids = connection.exec_driver_sql("SELECT id FROM events ORDER BY id")
        by_number = groupby(ids, lambda row: number_of(row[0]))
        self._counted = ((number, sum(1 for _ in of_packet)) for number, of_packet in by_number)
        self._next = next(self._counted, None)

    def before(self, number: int) -> Iterator[tuple[int, int]]:
        """Those that nobody has asked for: `(number, count)`."""
        while self._next is not None and self._next[0] < number:
            yield self._next
            self._next = next(self._counted, None)

    def of(self, number: int) -> int:
        found = self._next
        if found is None or found[0] != number:
            return 0
        self._next = next(self._counted, None)
        return found[1]


def _pairs(connection: Connection, statement: str) -> dict[StreamId, int]:
    return {stream: number for stream, number in connection.exec_driver_sql(statement)}  # noqa: C416
