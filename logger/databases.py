"""What differs between the databases that a store can be in: how one connects, locks, and writes many rows at once.

Everything else is one schema (logger/schema.py) and the SQL that both take; statements are written with `?`.
"""

import fcntl
import itertools
import os
import sqlite3
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from gossamer.messages.errors import GossamerError, StoreUnusable, UsageError

READERS = 4
LOCK = 0x676F7373616D6572
"""The advisory lock of a PostgreSQL database's one logger: "gossamer"."""
LOCK_WAIT_S = 2
"""A session whose process was killed may live on for a moment."""

FILL_ROWS = 256
"""Inserted by one statement."""
WAL_BYTES = 16 * 2**20
"""The write-ahead log is moved to its place when it is longer than this."""
WAL_PAGES_MAX = 65_536
"""And by whoever writes when nobody else has done so."""
FREE_PAGES_MIN = 1_024
FREE_SHARE = 0.2
"""Pages are given back when there are many, in all and of all: new events would take their place anyway."""
VACUUM_PAGES = 256
"""So many at a time: nobody can write meanwhile."""
CHECK_STEPS = 100_000
"""A check looks so often whether it is to end, in steps of SQLite's machine."""

Row = Sequence[object]


class StoreError(GossamerError):
    """The disk or the database did not do what it was asked to; it may do so later."""


class Unfit(StoreError):
    """It does not take this row, and never will."""


class Database(ABC):
    """Where a store is."""

    name: str
    """For people; without a password."""
    url: str
    """For others who read it; without a password, too."""
    position: Path | None = None
    """The file that keeps the last position (logger/position.py); None where there is no place beside the database."""
    turn: AbstractContextManager[object]
    """To be held while writing: of those who write here, one waits for the other without being asked again."""

    @abstractmethod
    def lock(self) -> None:
        """Nobody else writes from now on, or `UsageError`."""

    @abstractmethod
    def writer(self) -> Engine:
        """The one connection whose commits are on disk when they return."""

    @abstractmethod
    def keeper(self) -> Engine:
        """A connection for what can be made again: its commits do not wait for the disk."""

    @abstractmethod
    def readers(self) -> Engine:
        """Connections that only read, beside the one that writes; each transaction sees one moment."""

    @abstractmethod
    def copy(self, connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert many rows in the fastest way there is."""

    def fill(self, connection: Connection, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Insert many rows that stand in columns."""
        self.copy(connection, table, tuple(columns), zip(*columns.values(), strict=True))

    def complaints(self, _: Connection) -> list[str]:
        """What the database itself finds wrong with its files."""
        return []

    def damaged(
        self,
        connection: Connection,  # noqa: ARG002
        tables: Iterable[str],  # noqa: ARG002
        ended: Callable[[], bool],  # noqa: ARG002
    ) -> dict[str, str]:
        """Tables that the database finds damaged, and how; it stops when `ended()` says so."""
        return {}

    def remake(self, engine: Engine, tables: Iterable[str]) -> None:  # noqa: B027
        """Take damaged tables out of the schema, so that they can be created anew."""

    def exact(self, number: int | float) -> int | float | Decimal:
        """A number as this database compares it as Python does."""
        return number

    def reclaim(self, engine: Engine) -> None:  # noqa: B027
        """Give back the space of what was deleted, if it is not given back by itself."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the lock."""


class Sqlite(Database):
    """A file. WAL lets readers run beside a writer, and makes one sync of what `synchronous=FULL` has to wait for."""

    def __init__(self, url: URL) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if url.database in (None, "", ":memory:"):
            # Of SQLite's ways to share what is in memory none lets one read while another writes; a file does.
            memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
            self._folder = tempfile.TemporaryDirectory(prefix="gossamer-", dir=memory)
            url = url.set(database=f"{self._folder.name}/memory.db")
        self.name = self.path = str(url.database)
        self.url = url.set(database=os.path.abspath(self.path)).render_as_string()
        self.position = None if self._folder is not None else Path(f"{self.path}.position")
        self.turn = threading.Lock()
        self._url = url
        self._lock: IO[str] | None = None

    def lock(self) -> None:
        """A lock that the system lets go of when this process ends, however it does."""
        try:
            lock = open(f"{self.path}.lock", "a+")  # noqa: SIM115
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(f"cannot open the store {self.name}: {error.strerror}") from None
        except OSError as error:
            raise StoreUnusable(f"cannot open the store {self.name}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "another"
            lock.close()
            raise UsageError(f"the store {self.name} is in use by process {holder}") from None
        with suppress(OSError):  # a full disk: the lock is held, and only its holder's number is not told
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
        self._lock = lock

    def writer(self) -> Engine:
        return self._engine(1, "BEGIN IMMEDIATE", "synchronous=FULL", f"wal_autocheckpoint={WAL_PAGES_MAX}")

    def keeper(self) -> Engine:
        return self._engine(1, "BEGIN IMMEDIATE", "synchronous=NORMAL", "wal_autocheckpoint=0")

    def readers(self) -> Engine:
        if not Path(self.path).exists():
            raise UsageError(f"cannot open the store {self.name}: there is no such file")
        return self._engine(READERS, "BEGIN", "query_only=ON")

    def copy(self, connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        # By the driver's own hand: SQLAlchemy would make a list of the rows and look at each.
        statement = f"INSERT INTO {table} ({_listed(columns)}) VALUES ({', '.join('?' * len(columns))})"
        driver: Any = connection.connection.driver_connection
        with self._fitting():
            driver.executemany(statement, rows)

    def fill(self, connection: Connection, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        # Many rows a statement: for each one the driver lets go of the interpreter, and has to wait for it to come back
        # while another thread is at it, which takes far longer than the row does. And what is the same in all of them
        # is handed over once: more than half of the time went into the same stream, group and absent key each time.
        names, values = tuple(columns), tuple(columns.values())
        driver: Any = connection.connection.driver_connection
        with self._fitting():
            for at in range(0, len(values[0]), FILL_ROWS):
                pieces = [column[at : at + FILL_ROWS] for column in values]
                count = len(pieces[0])
                same = tuple(piece.count(piece[0]) == count for piece in pieces)
                own = [piece for piece, is_same in zip(pieces, same, strict=True) if not is_same]
                given: list[Any] = [None] * (count * len(own))
                for place, piece in enumerate(own):
                    given[place :: len(own)] = piece
                shared = [piece[0] for piece, is_same in zip(pieces, same, strict=True) if is_same]
                driver.execute(_filling(table, names, same, count), shared + given)

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        try:
            yield
        except (
            sqlite3.DataError,
            sqlite3.IntegrityError,
            sqlite3.ProgrammingError,
            ValueError,
            OverflowError,
        ) as error:
            raise Unfit(f"{self.name}: {error}") from None
        except sqlite3.Error as error:
            raise StoreError(f"{self.name}: {error}") from None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._folder is not None:
            self._folder.cleanup()

    def complaints(self, connection: Connection) -> list[str]:
        found = connection.exec_driver_sql("PRAGMA quick_check")
        lines = [line for row in found if row[0] != "ok" for line in row[0].splitlines()]
        # Pages that `remake` has left unused harm nobody.
        return [line for line in lines if not line.startswith("*** in database") and not line.endswith("never used")]

    def damaged(self, connection: Connection, tables: Iterable[str], ended: Callable[[], bool]) -> dict[str, str]:
        found: dict[str, str] = {}
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: int(ended()), CHECK_STEPS)
        try:
            for table in tables:
                try:
                    rows = [row[0] for row in driver.execute(f"PRAGMA quick_check({table})")]
                except sqlite3.OperationalError:
                    if ended():
                        return found
                    raise
                except sqlite3.DatabaseError as error:
                    rows = [str(error)]
                if rows != ["ok"]:
                    found[table] = _last_line(rows[0])
        except sqlite3.Error as error:
            raise StoreError(f"{self.name}: {error}") from None
        finally:
            driver.set_progress_handler(None, 0)
        return found

    def remake(self, engine: Engine, tables: Iterable[str]) -> None:
        """By hand: `DROP TABLE` reads the pages that it frees, and fails on a damaged one. Its pages stay unused."""
        connection: Any = engine.raw_connection()
        try:
            driver = connection.driver_connection
            with self.turn:
                driver.execute("PRAGMA writable_schema=ON")
                for table in tables:
                    driver.execute("DELETE FROM sqlite_master WHERE tbl_name = ?", (table,))
                driver.execute("PRAGMA writable_schema=RESET")
        except sqlite3.Error as error:
            raise StoreError(f"{self.name}: {error}") from None
        finally:
            connection.close()

    def reclaim(self, engine: Engine) -> None:
        """Move what is in the write-ahead log to its place, so that the log begins anew; and give free pages back."""
        wal = Path(f"{self.path}-wal")
        if wal.exists() and wal.stat().st_size > WAL_BYTES:
            self._say(engine, "wal_checkpoint(PASSIVE)")  # most of it, while others write
            with self.turn:
                self._say(engine, "wal_checkpoint(PASSIVE)")
        free, pages = self._say(engine, "freelist_count"), self._say(engine, "page_count")
        if free > FREE_PAGES_MIN and free > pages * FREE_SHARE:
            for _ in range(0, free - FREE_PAGES_MIN, VACUUM_PAGES):
                with self.turn:
                    self._say(engine, f"incremental_vacuum({VACUUM_PAGES})", script=True)

    def _say(self, engine: Engine, pragma: str, script: bool = False) -> int:
        """`script`: to the end. A pragma that returns nothing is given up after its first page by `execute`."""
        connection: Any = engine.raw_connection()
        try:
            driver = connection.driver_connection
            row = (driver.executescript if script else driver.execute)(f"PRAGMA {pragma}").fetchone()
            return 0 if row is None else int(row[0])
        except sqlite3.Error as error:
            raise StoreError(f"{self.name}: {error}") from None
        finally:
            connection.close()

    def _engine(self, connections: int, begin: str, *pragmas: str) -> Engine:
        def configure(connection: Any, _: object) -> None:
            connection.isolation_level = None  # transactions begin when we say so, also those that only read
            for each in (
                "busy_timeout=10000",
                f"journal_size_limit={WAL_BYTES}",
                "auto_vacuum=INCREMENTAL",
                "journal_mode=WAL",
                *pragmas,
            ):
                connection.execute(f"PRAGMA {each}")

        engine = create_engine(
            self._url,
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=0,
            connect_args={"check_same_thread": False},
        )
        event.listen(engine, "connect", configure)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine


class Postgres(Database):
    """A database of a server. Whoever writes holds an advisory lock, in the session that writes: no lock, no write."""

    def __init__(self, url: URL) -> None:
        try:
            import psycopg
        except ImportError:
            raise UsageError("PostgreSQL needs psycopg: pip install 'gossamer[postgres]'") from None
        self._driver = psycopg
        self._url = url.set(drivername="postgresql+psycopg")
        self.name = url.render_as_string(hide_password=True)
        self.url = url._replace(password=None).render_as_string()
        self.turn = nullcontext()

    def writer(self) -> Engine:
        engine = self._engine(1, "READ COMMITTED")
        event.listen(engine, "connect", self._take_over)
        return engine

    def keeper(self) -> Engine:
        engine = self._engine(1, "READ COMMITTED")
        event.listen(engine, "connect", lambda connection, _: _say(connection, "SET synchronous_commit = off"))
        return engine

    def readers(self) -> Engine:
        engine = self._engine(READERS, "REPEATABLE READ")
        event.listen(engine, "connect", self._have_cursors_close)
        event.listen(engine, "handle_error", _close_cursor)
        return engine.execution_options(postgresql_readonly=True, stream_results=True)

    def _have_cursors_close(self, connection: Any, _: object) -> None:
        error = self._driver.Error

        class Cursor(connection.server_cursor_factory):  # type: ignore[misc]
            def close(self) -> None:
                try:
                    super().close()
                except error:  # the server is gone, and has not to be told any more
                    super().close()

        connection.server_cursor_factory = Cursor

    def copy(self, connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        driver: Any = connection.connection.driver_connection
        statement = f"COPY {table} ({_listed(columns)}) FROM STDIN"
        try:
            with driver.cursor() as cursor, cursor.copy(statement) as copy:
                for row in rows:
                    copy.write_row(row)
        except (self._driver.DataError, self._driver.IntegrityError, ValueError, OverflowError) as error:
            raise Unfit(f"{self.name}: {_line(error)}") from None
        except self._driver.Error as error:
            raise StoreError(f"{self.name}: {_line(error)}") from None

    def exact(self, number: int | float) -> int | float | Decimal:
        return Decimal(number)  # it would round a float to 15 digits

    def lock(self) -> None:
        """It is taken by the session that writes."""

    def close(self) -> None:
        """And goes with it."""

    def _take_over(self, connection: Any, _: object) -> None:
        _say(connection, "SET synchronous_commit = on", f"SET lock_timeout = '{LOCK_WAIT_S}s'")
        try:
            _say(connection, f"SELECT pg_advisory_lock({LOCK})", "SET lock_timeout = 0")
        except self._driver.errors.LockNotAvailable:
            raise UsageError(f"the store {self.name} is in use by another logger") from None

    def _engine(self, connections: int, isolation: Any) -> Engine:
        engine = create_engine(
            self._url,
            pool_size=connections,
            max_overflow=0,
            isolation_level=isolation,
            pool_pre_ping=True,  # a server that was away has ended the sessions
            connect_args={"connect_timeout": 10, "tcp_user_timeout": 30_000, "application_name": "gossamer"},
        )
        event.listen(engine, "before_cursor_execute", _with_its_own_marks, retval=True)
        return engine


def database(text: str) -> Database:
    """The database that a url names, or what is wrong with it."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise UsageError(f"{text!r} is not the url of a store, like sqlite:///gossamer.db") from None
    match url.get_backend_name():
        case "sqlite":
            return Sqlite(url)
        case "postgresql" | "postgres":
            return Postgres(url)
    raise UsageError(f"{text!r}: a store is sqlite:///FILE or postgresql://HOST/DATABASE")


def trouble(name: str, error: DBAPIError) -> StoreError:
    unfit = isinstance(error, DataError | IntegrityError)
    return (Unfit if unfit else StoreError)(f"{name}: {reason(error)}")


def reason(error: DBAPIError) -> str:
    """The one line of what a driver has to say that matters."""
    return _line(error.orig)


def _line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


@lru_cache(64)
def _filling(table: str, columns: tuple[str, ...], same: tuple[bool, ...], count: int) -> str:
    """A statement that inserts `count` rows, given first what is the same in all, and then the rest row by row."""
    shared, own = list(itertools.accumulate(map(int, same))), itertools.count(sum(same) + 1)
    rows = []
    for _ in range(count):
        marks = [f"?{at if is_same else next(own)}" for at, is_same in zip(shared, same, strict=True)]
        rows.append(f"({', '.join(marks)})")
    return f"INSERT INTO {table} ({_listed(columns)}) VALUES {', '.join(rows)}"


def _close_cursor(context: ExceptionContext) -> None:
    """SQLAlchemy leaves it as it is when the server is gone, and then whoever collects it complains."""
    if context.execution_context is not None and (cursor := context.execution_context.cursor) is not None:
        with suppress(Exception):  # there is nobody to be told that it is closed
            cursor.close()


def _say(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.commit()


def _with_its_own_marks(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> tuple[str, Any]:
    return statement.replace("?", "%s"), parameters
