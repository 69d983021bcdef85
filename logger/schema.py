"""The tables of a store; docs/store.md tells of each column.

Packets are kept as the bytes they are, with a checksum: an event is never encoded twice, and one row of 64 events costs
a fraction of 64 rows. What can be asked of them in SQL is derived from here and can be made again.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    inspect,
)
from sqlalchemy.dialects.postgresql import JSONB

from gossamer.logger.migrations import MIGRATIONS
from gossamer.messages.errors import UsageError

SCHEMA_VERSION = len(MIGRATIONS) + 1

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
    Column("group", Text, nullable=False),
    Column("publisher", Text),  # a named one's
    Column("issuer", Text),  # an anonymous one's: who numbered it
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
    Column("floor", BigInteger, nullable=False),
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

bookmarks = Table(  # of durable subscriptions
    "bookmarks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

collected = Table(
    "collected",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("swept", BigInteger, nullable=False, server_default="-1"),  # up to here nothing is left of it
)

# Derived from packets, and made again when need be -------------------------------------------------------------------

Id = BigInteger().with_variant(Integer, "sqlite")
Json = Text().with_variant(JSONB, "postgresql")
Exact = Text().with_variant(Text(collation="C"), "postgresql")  # compared as Python compares

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("group", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("published_ns", BigInteger, nullable=False),
    Column("logged_ns", BigInteger, nullable=False),
    Column("key", Text),
    Column("rank", Numeric),
    Column("annotation", Json),
    Column("attributes", Json),
    Column("body", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("deleted", Boolean, nullable=False),
)

newest = Table(
    "newest",
    metadata,
    Column("scope", Exact, primary_key=True),  # a stream, or for keys of the whole group the group
    Column("kind", Integer, primary_key=True, autoincrement=False),  # 0: of a key; 1: the last commit of a stream
    Column("key", Exact, primary_key=True),
    Column("group", Text, nullable=False),
    Column("place", Numeric, nullable=False),
    Column("stream", Exact, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Index("newest_by_id", "id"),
    sqlite_with_rowid=False,
)

telemetry = Table(
    "telemetry",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("type", Text),
    Column("node", Text),
    Column("key", Text),
    Column("published_ns", BigInteger, nullable=False),
    Column("logged_ns", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("attributes", Json),
)
DERIVED = (events, newest, telemetry)

obsolete = Table(  # what may be compacted, noted while events are derived
    "obsolete",
    metadata,
    Column("stream", Exact, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("by_stream", Text, nullable=False),
    Column("by_seq", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

_EXTRACTED = {"sqlite": "json_extract(attributes, '$.{0}')", "postgresql": "attributes ->> '{0}'"}
_ASKED = ("action", "client", "subscription", "group", "selector", "durable")
"""Who asked what, when and where: a view of what brokers tell of their subscriptions."""


def prepare(connection: Connection, name: str) -> None:
    """Make the tables, or bring those of an older version up to ours."""
    version = version_of(connection, name)
    if version is not None:
        for migrate in MIGRATIONS[version - 1 :]:
            migrate(connection)
    metadata.create_all(connection)
    extract = _EXTRACTED[connection.dialect.name]
    columns = ", ".join(f'{extract.format(each)} AS "{each}"' for each in _ASKED)
    connection.exec_driver_sql("DROP VIEW IF EXISTS subscriptions")
    connection.exec_driver_sql(
        f"CREATE VIEW subscriptions AS SELECT id, published_ns, logged_ns, node, {columns}, deleted, attributes "
        "FROM telemetry WHERE type = 'subscription'"
    )
    connection.exec_driver_sql(
        "INSERT INTO meta (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(SCHEMA_VERSION),),
    )


def version_of(connection: Connection, name: str) -> int | None:
    """Which version of the schema is there, if any; a `UsageError` if we do not know it."""
    if not inspect(connection).has_table(meta.name):
        return None
    found = connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'schema'").scalar()
    if found is None or not found.isdecimal() or not 0 < int(found) <= SCHEMA_VERSION:
        raise UsageError(f"the store {name} has schema {found}, and this gossamer knows up to {SCHEMA_VERSION}")
    return int(found)
