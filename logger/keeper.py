"""The thread that keeps house beside the writer: derives events, sweeps what is collected, gives space back.

Whatever it does can be done later and again, so it never makes an acknowledgement wait for more than a piece of its
work, and when the disk fails it says so and tries again.
"""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from gossamer.logger.databases import Database, StoreError, trouble
from gossamer.logger.deriving import Deriving
from gossamer.logger.pages import Pages
from gossamer.messages.ids import StreamId

REST_S = 0.2
"""What comes within this time is made into events together."""
RETRY_S = 1.0
SWEEP_S = 1.0
SWEEP_PACKETS = 512
"""Deleted at a time."""

_UNSWEPT = "SELECT stream, last FROM collected WHERE swept < last ORDER BY stream"
_GARBAGE = "SELECT number FROM packets WHERE stream = ? AND first <= ? AND last <= ? ORDER BY number LIMIT ?"
_DROP_PACKETS = "DELETE FROM packets WHERE number BETWEEN ? AND ? AND stream = ?"
_KEEP_SWEPT = "UPDATE collected SET swept = ? WHERE stream = ?"

_log = logging.getLogger("gossamer.logger")


class Keeper:
    """Works on the database of a `Store`, with connections of its own. `on_swept(stream, last)` tells the store."""

    def __init__(self, database: Database, on_swept: Callable[[StreamId, int], None]) -> None:
        self._database = database
        self._on_swept = on_swept
        self._engine = database.keeper()
        self._pages = Pages(database)
        self.deriving = Deriving(database, self._engine, self._pages)
        self._wanted = threading.Event()
        self._closing = False
        self._collected = True
        """There may be something to sweep."""
        self._swept_at = 0.0
        self._thread = threading.Thread(target=self._run, name="gossamer keeper", daemon=True)
        self.trouble: str | None = None

    def start(self) -> None:
        self._thread.start()

    def wake(self, collected: bool = False) -> None:
        """Something was logged, or collected."""
        self._collected = self._collected or collected
        self._wanted.set()

    def close(self) -> None:
        self._closing = True
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._pages.close()
        self._engine.dispose()

    def work(self) -> None:
        """All there is to do now."""
        while not self._closing and self.deriving.step():
            self._sweep_if_due()
        self._sweep_if_due()
        self._database.reclaim(self._engine)

    def sweep(self) -> None:
        """Delete the packets that are collected, and what was derived from them."""
        self._collected, self._swept_at = False, time.monotonic()
        try:
            with self._engine.connect() as connection:
                streams = connection.exec_driver_sql(_UNSWEPT).fetchall()
            for stream, last in streams:
                while self._sweep_some(stream, last) and not self._closing:
                    self._database.reclaim(self._engine)
                if self._closing:
                    self._collected = True
                    return
        except DBAPIError as error:
            self._collected = True
            raise trouble(self._database.name, error) from None

    # The thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            self._wanted.clear()
            try:
                self.work()
            except StoreError as error:
                if self.trouble is None:
                    _log.error("events are not derived, and space is not given back, until it works again: %s", error)
                self.trouble = str(error)
                self._engine.dispose()
                self._rest(RETRY_S)
            except Exception as error:
                self.trouble = repr(error)
                _log.exception("no more events are derived, and no space is given back; the log goes on")
                return
            else:
                self.trouble = None
                self._wanted.wait(SWEEP_S)
                self._rest(REST_S)

    def _rest(self, rest_s: float) -> None:
        until = time.monotonic() + rest_s
        while not self._closing and (left_s := until - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.05))

    def _sweep_if_due(self) -> None:
        if self._collected and time.monotonic() - self._swept_at > SWEEP_S:
            self.sweep()

    def _sweep_some(self, stream: StreamId, last: int) -> bool:
        """Returns whether there may be more."""
        with self._database.turn, self._engine.begin() as connection:
            found = connection.exec_driver_sql(_GARBAGE, (stream, last, last, SWEEP_PACKETS))
            numbers = [row[0] for row in found]
            ranges = _ranges(numbers)
            self.deriving.drop(connection, ranges)
            for each in ranges:
                connection.exec_driver_sql(_DROP_PACKETS, (*each, stream))
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
