"""The thread that keeps house beside the writer: derives events, archives, sweeps what is collected, gives space back.

Whatever it does can be done later and again, so it never makes an acknowledgement wait for more than a piece of its
work, and when the disk fails it says so and tries again.
"""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from gossamer.logger.archive import HOUR_NS, Archive
from gossamer.logger.compacting import Compacting
from gossamer.logger.databases import Database, StoreError, trouble
from gossamer.logger.deriving import Deriving
from gossamer.logger.pages import Pages
from gossamer.logger.schema import DERIVED, metadata, obsolete
from gossamer.messages.ids import NodeId, StreamId

REST_S = 0.2
"""What comes within this time is made into events together."""
RETRY_S = 1.0
SWEEP_S = 1.0
COMPACT_S = 5.0
LATE_S = 10.0
"""Events that are derived later than this after they were logged are a warning."""
SWEEP_PACKETS = 512
"""Deleted at a time."""

_UNSWEPT = "SELECT stream, last FROM collected WHERE swept < last ORDER BY stream"
_GARBAGE = "SELECT number FROM packets WHERE stream = ? AND first <= ? AND last <= ? ORDER BY number LIMIT ?"
_GARBAGE_MAX = "SELECT MAX(number) FROM packets WHERE stream = ? AND first <= ? AND last <= ?"
_LOGGED_AFTER = "SELECT logged_ns FROM packets WHERE number > ? ORDER BY number LIMIT 1"
_ARCHIVED = "SELECT value FROM meta WHERE name = 'archived'"
_KEEP_ARCHIVED = """
    INSERT INTO meta (name, value) VALUES ('archived', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_DROP_PACKETS = "DELETE FROM packets WHERE number IN ({})"
_KEEP_SWEPT = "UPDATE collected SET swept = ? WHERE stream = ?"

_log = logging.getLogger("gossamer.logger")


class Keeper:
    """Works on the database of a `Store`, with connections of its own. `on_swept(stream, last)` tells the store."""

    def __init__(
        self,
        database: Database,
        on_swept: Callable[[StreamId, int], None],
        archive: Archive | None = None,
        compact: bool = False,
    ) -> None:
        self._database = database
        self.archive = archive
        self._archived: int | None = None
        """Up to here it is archived; None: not known, read it."""
        self._node: NodeId = ""
        self._on_swept = on_swept
        self._engine = database.keeper()
        self._pages = Pages(database)
        self.deriving = Deriving(database, self._engine, self._pages)
        self.compacting = Compacting(database, self._engine, self._pages)
        self.deriving.notes = compact
        self._compacted_at: float | None = None
        self.sound: Callable[[], bool] = lambda: True
        """Whether it is certain what is on disk."""
        self.on_compacted: Callable[[int, int], None] = lambda *_: None
        """Hears how many events, and bytes of them, are gone."""
        self._wanted = threading.Event()
        self._closing = False
        self._collected = True
        """There may be something to sweep."""
        self._swept_at = 0.0
        self._is_late = False
        self._thread = threading.Thread(target=self._run, name="gossamer keeper", daemon=True)
        self._checker = threading.Thread(target=self._check, name="gossamer check", daemon=True)
        self._damaged: list[str] = []
        """Derived tables to be made again."""
        self.findings: list[str] = []
        """Tables of the log that the database found damaged at the start."""
        self.trouble: str | None = None

    def start(self, node: NodeId) -> None:
        self._node = node
        self._thread.start()
        self._checker.start()

    def wake(self, collected: bool = False) -> None:
        """Something was logged, or collected."""
        self._collected = self._collected or collected
        self._wanted.set()

    def close(self) -> None:
        self._closing = True
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._checker.join()
        self._pages.close()
        self._engine.dispose()

    def work(self) -> None:
        """All there is to do now."""
        if self._damaged:
            self._remake()
        if self._compacted_at is None:
            if self.compacting.begin(self.deriving.notes):
                self.deriving.rebuild()  # nothing was noted of what is there
            self._compacted_at = time.monotonic()
        while not self._closing and self.deriving.step():
            self._watch_lag()
            self._sweep_if_due()
            self._database.reclaim(self._engine)
        if self.archive is not None and self._is_hour_over():
            self.run_archive()
        self._sweep_if_due()
        if self.deriving.notes and time.monotonic() - self._compacted_at >= COMPACT_S:
            self.compact()
        self._database.reclaim(self._engine)

    def compact(self) -> None:
        """Drop what is obsolete for something that is safe."""
        compacting = self.compacting
        events, size = compacting.events, compacting.bytes
        upto = self._archived_upto() if self.archive is not None else 2**62
        try:
            compacting.run(upto, self.sound, lambda: self._closing)
        finally:
            self._compacted_at = time.monotonic()
            if compacting.events > events:
                self.on_compacted(compacting.events - events, compacting.bytes - size)

    def run_archive(self) -> None:
        """Archive whatever has not been."""
        if self.archive is not None:
            self._archived = self.archive.run(self._pages, self._archived_upto(), self._on_archived)

    def sweep(self) -> None:
        """Delete the packets that are collected, and what was derived from them."""
        self._collected, self._swept_at = False, time.monotonic()
        try:
            archived = self._archived_upto()
            with self._pages.snapshot() as connection:
                streams = connection.exec_driver_sql(_UNSWEPT).fetchall()
                highest = [
                    connection.exec_driver_sql(_GARBAGE_MAX, (name, last, last)).scalar() for name, last in streams
                ]
            if any(number is not None and number > archived for number in highest):
                self.run_archive()
            for stream, last in streams:
                while self._sweep_some(stream, last) and not self._closing:
                    self._database.reclaim(self._engine)
                if self._closing:
                    self._collected = True
                    return
        except (DBAPIError, StoreError) as error:
            self._collected = True
            raise trouble(self._database.name, error) if isinstance(error, DBAPIError) else error from None

    def check(self) -> None:
        """Have the database look for damage: derived tables are made again, damage to the others is a finding."""
        derived = {table.name for table in (*DERIVED, obsolete)}
        with self._pages.snapshot() as connection:
            found = self._database.damaged(connection, sorted(metadata.tables), lambda: self._closing)
        self.findings = [
            f"the table {table} is damaged ({how}): run `gossamer logger --check`, then replace the store"
            for table, how in found.items()
            if table not in derived
        ]
        for finding in self.findings:
            _log.error("%s: %s", self._database.name, finding)
        self._damaged = [table for table in found if table in derived]
        self.wake()

    def _remake(self) -> None:
        """Replace damaged derived tables by empty ones, and derive all events anew."""
        _log.error("%s: made again from the log, since damaged: %s", self._database.name, ", ".join(self._damaged))
        self._database.remake(self._engine, self._damaged)
        self._engine.dispose()
        with self._database.turn, self._engine.begin() as connection:
            metadata.create_all(connection)
        self.deriving.rebuild()
        self._damaged = []

    def _check(self) -> None:
        try:
            self.check()
        except StoreError as error:
            _log.error("cannot check the store: %s", error)

    # The thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            self._wanted.clear()
            try:
                self.work()
            except Exception as error:
                if self.trouble is None:
                    known = isinstance(error, StoreError)
                    _log.error(
                        "events are not derived, and space is not given back, until it works again: %s",
                        error,
                        exc_info=None if known else error,
                    )
                self.trouble = str(error)
                self._engine.dispose()
                self._rest(RETRY_S)
            else:
                self.trouble = None
                self._wanted.wait(SWEEP_S)
                self._rest(REST_S)

    def _rest(self, rest_s: float) -> None:
        until = time.monotonic() + rest_s
        while not self._closing and (left_s := until - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.05))

    def _watch_lag(self) -> None:
        """Tell the log when events begin to be derived late, and when they are in time again."""
        late_s = self.deriving.late_s
        if not self._is_late and late_s > LATE_S:
            self._is_late = True
            _log.warning("the SQL tables are %.0f s behind the log: events come faster than they are derived", late_s)
        elif self._is_late and late_s < LATE_S / 2:
            self._is_late = False
            _log.warning("the SQL tables have caught up with the log")

    def _sweep_if_due(self) -> None:
        if self._collected and time.monotonic() - self._swept_at > SWEEP_S:
            self.sweep()

    def _is_hour_over(self) -> bool:
        """Whether something that is not archived was logged in an hour that is over."""
        archived = self._archived_upto()
        with self._pages.snapshot() as connection:
            logged_ns = connection.exec_driver_sql(_LOGGED_AFTER, (archived,)).scalar()
        return logged_ns is not None and logged_ns // HOUR_NS < time.time_ns() // HOUR_NS

    def _archived_upto(self) -> int:
        if self._archived is None and self.archive is not None:
            with self._pages.snapshot() as connection:
                number = int(connection.exec_driver_sql(_ARCHIVED).scalar() or 0)
            self.archive.begin(self._node, number)
            self._archived = number
        return self._archived or 0

    def _on_archived(self, number: int) -> None:
        with self._database.turn, self._engine.begin() as connection:
            connection.exec_driver_sql(_KEEP_ARCHIVED, (str(number),))
        self._archived = number

    def _sweep_some(self, stream: StreamId, last: int) -> bool:
        """Returns whether there may be more."""
        with self._database.turn, self._engine.begin() as connection:
            found = connection.exec_driver_sql(_GARBAGE, (stream, last, last, SWEEP_PACKETS))
            numbers = [row[0] for row in found]
            if numbers:
                self.deriving.drop(connection, _ranges(numbers))
                connection.exec_driver_sql(_DROP_PACKETS.format(", ".join(map(str, numbers))))
            more = len(numbers) == SWEEP_PACKETS
            if not more:
                connection.exec_driver_sql(_KEEP_SWEPT, (last, stream))
        if not more:
            self._on_swept(stream, last)
        return more


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
