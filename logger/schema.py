"""The tables of a store, and how its file is opened.

Packets are kept as the bytes they are, with a checksum: an event is never encoded twice, and one row of 64 events costs
a fraction of 64 rows. What can be asked of them in SQL is derived from here and can be made again.

`synchronous=FULL` makes every commit wait for the disk, which is what an acknowledgement promises; WAL makes that one
sync instead of two.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    inspect,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.pool import QueuePool

from gossamer.logger.migrations import MIGRATIONS
from gossamer.messages.errors import UsageError

SCHEMA_VERSION = len(MIGRATIONS) + 1

READERS = 4

metadata = MetaData()

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

packets = Table(
    "packets",
    metadata,
    # The order of this log: ascending with the commits, never given twice. For SQLite it is the row id.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("stream", Text, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("logged_ns", BigInteger, nullable=False),
    Column("highest_ns", BigInteger, nullable=False),  # of all `logged_ns` up to here: ascends though a clock may not
    Column("checksum", BigInteger, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    # Covering: what there is of each stream is read at the start without touching the packets.
    Index("packets_by_id", "stream", "first", "last", unique=True),
)

streams = Table(
    "streams",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of its first packet; no packet of it has a lower one
)

voids = Table(
    "voids",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

promises = Table(
    "promises",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("last", BigInteger, nullable=False),
)

retired = Table(
    "retired",
    metadata,
    Column("issuer", Text, primary_key=True),
    Column("ranges", Text, nullable=False),  # JSON: a few intervals stand for a million streams
)

members = Table(
    "members",
    metadata,
    Column("node", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("freshness", BigInteger, nullable=False),
    Column("logger", Boolean, nullable=False),
    Column("address", Text, nullable=False),
)

collected = Table(
    "collected",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
)


def parse_url(text: str) -> URL:
    """The address of a store, or what is wrong with it."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise UsageError(f"{text!r} is not the url of a store, like sqlite:///gossamer.db") from None
    if url.get_backend_name() != "sqlite":
        raise UsageError(f"{text!r}: only sqlite:///FILE can be a store so far")
    return url


def open_engine(url: URL) -> Engine:
    """The connection that writes: the tables are there, and of our version."""
    # One connection: there is one writer, and it reads for itself with the same one.
    engine = _engine(url, 1, "BEGIN IMMEDIATE")
    try:
        with engine.begin() as connection:
            _prepare(connection, url)
    except DatabaseError as error:
        engine.dispose()
        raise UsageError(f"cannot open the store {url.database}: {error.orig}") from None
    except UsageError:
        engine.dispose()
        raise
    return engine


def open_readers(url: URL) -> Engine:
    """Connections that only read, beside the one that writes and whenever they like: WAL lets them."""
    engine = _engine(url, READERS, "BEGIN")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=ON"))
    return engine


def _engine(url: URL, connections: int, begin: str) -> Engine:
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=connections, max_overflow=0, connect_args={"check_same_thread": False}
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _prepare(connection: Connection, url: URL) -> None:
    """Make the tables, or bring those of an older version up to ours."""
    version = SCHEMA_VERSION
    if inspect(connection).has_table(meta.name):
        found = connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'schema'").scalar()
        version = int(found) if found is not None and found.isdecimal() else 0
        if not 0 < version <= SCHEMA_VERSION:
            raise UsageError(f"the store {url.database} has schema {found}, this is {SCHEMA_VERSION}: a newer one?")
        for migrate in MIGRATIONS[version - 1 :]:
            migrate(connection)
    metadata.create_all(connection)
    connection.exec_driver_sql(
        "INSERT INTO meta (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(SCHEMA_VERSION),),
    )


def _configure(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin when we say so, also those that only read
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
