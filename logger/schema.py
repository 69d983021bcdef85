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
    Engine,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.pool import QueuePool

from gossamer.messages.errors import UsageError

SCHEMA_VERSION = 1

metadata = MetaData()

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

packets = Table(
    "packets",
    metadata,
    Column("stream", Text, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    # Covering: what there is of each stream is read at the start without touching the packets.
    Index("packets_by_id", "stream", "first", "last", unique=True),
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
    """The one connection of a store; its tables are there, and of our version."""
    # One connection: there is one writer, it is the only reader too, and a store in memory lives in its connection.
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False}
    )
    event.listen(engine, "connect", _configure)
    try:
        with engine.begin() as connection:
            metadata.create_all(connection)
            version = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar()
            if version is None:
                connection.execute(insert(meta).values(name="schema", value=str(SCHEMA_VERSION)))
    except DatabaseError as error:
        engine.dispose()
        raise UsageError(f"cannot open the store {url.database}: {error.orig}") from None
    if version not in (None, str(SCHEMA_VERSION)):
        engine.dispose()
        raise UsageError(f"the store {url.database} has schema {version}, this is {SCHEMA_VERSION}")
    return engine


def _configure(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
