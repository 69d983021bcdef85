"""From each version of the schema to the next; a store is brought up to date when it is opened, in one transaction.

Version 1: packets without a number of their own.
Version 2: promises that do not tell where their epoch began.
"""

import time
from collections.abc import Callable

from sqlalchemy import Connection

from gossamer.messages.ids import StreamId, group_of, issued_by


def described(stream: StreamId) -> tuple[str, str | None, str | None]:
    """What its id tells of a stream: group, publisher, issuer."""
    issued = issued_by(stream)
    return group_of(stream), stream.partition("/")[2] if issued is None else None, issued and issued.issuer


def _number_the_packets(connection: Connection) -> None:
    """1 to 2. When they were logged is not known: not after now, so who asks for a time is given rather too much."""
    for statement in (
        "ALTER TABLE packets RENAME TO packets_1",
        "DROP INDEX packets_by_id",
        """CREATE TABLE packets (
            number INTEGER NOT NULL PRIMARY KEY, stream TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL,
            logged_ns BIGINT NOT NULL, highest_ns BIGINT NOT NULL, checksum BIGINT NOT NULL, bytes BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX packets_by_id ON packets (stream, first, last)",
        """CREATE TABLE streams (
            stream TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL, "group" TEXT NOT NULL, publisher TEXT, issuer TEXT
        )""",
        "ALTER TABLE collected ADD COLUMN swept BIGINT NOT NULL DEFAULT -1",
    ):
        connection.exec_driver_sql(statement)
    now_ns = time.time_ns()
    connection.exec_driver_sql(
        "INSERT INTO packets SELECT rowid, stream, first, last, ?, ?, checksum, bytes FROM packets_1 ORDER BY rowid",
        (now_ns, now_ns),
    )
    found = connection.exec_driver_sql("SELECT stream, MIN(number) FROM packets GROUP BY stream").fetchall()
    if found:
        connection.exec_driver_sql(
            "INSERT INTO streams VALUES (?, ?, ?, ?, ?)", [(*row, *described(row[0])) for row in found]
        )
    connection.exec_driver_sql("DROP TABLE packets_1")


def _give_promises_a_floor(connection: Connection) -> None:
    """2 to 3. Where their epochs began is not known: nothing before that is closed sooner than it would have been."""
    connection.exec_driver_sql("ALTER TABLE promises ADD COLUMN floor BIGINT NOT NULL DEFAULT 0")


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_number_the_packets, _give_promises_a_floor)
