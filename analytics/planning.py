"""What is decided where the driver is: which store a url means, how far it has come, and how it is cut into slices.

Rows are numbered by their packets (docs/store.md), so slices are ranges of packets. Only what had been derived from the
log at that moment is read; how many packets were not yet is told.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import make_url

from gossamer.analytics.reading import Condition, Place, Slice
from gossamer.logger.databases import Sqlite, StoreError, database
from gossamer.logger.pages import Pages, open_pages
from gossamer.logger.rows import ids_of, number_of
from gossamer.messages.errors import UsageError

PARTITIONS = 16
FEW = 50_000
"""Rows of a store that is small."""
PACKETS_MIN = 2_048
"""Of a slice: a few rows are not worth a task."""


@dataclass(frozen=True)
class Extent:
    """How far a store reaches, in packets."""

    first: int
    last: int
    """Up to here it is derived."""
    lag: int
    """Packets beyond that."""


def place_of(url: str) -> Place:
    """The store that a url names, as executors open it."""
    found = database(url)
    try:
        if isinstance(found, Sqlite):
            if not Path(found.path).is_file():
                raise UsageError(f"cannot open the store {url}: there is no such file")
            return Place("sqlite", str(Path(found.path).absolute()), found.url)
        secret = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        return Place("postgresql", secret, found.url)
    finally:
        found.close()


def extent_of(url: str, table: str = "events", since: datetime | None = None) -> Extent:
    """What there is to read; `UsageError` if this is no store, or not of a version that we know."""
    with _pages(url) as pages, pages.snapshot() as connection:
        derived = Pages.derived_in(connection)
        # By the key of the table, which is the order of the log: both ends are found at once.
        lowest, highest = connection.exec_driver_sql(f"SELECT MIN(id), MAX(id) FROM {table}").one()
        logged = connection.exec_driver_sql("SELECT COUNT(*) FROM packets WHERE number > ?", (derived,)).scalar_one()
        first = derived + 1 if lowest is None else number_of(lowest)
        if since is not None:
            first = max(first, pages.number_at(nanoseconds(since)) + 1)
        last = derived if highest is None else min(derived, number_of(highest))
        return Extent(first, last, int(logged))


def has_few(url: str) -> bool:
    """Whether the store is small (`session.SMALL`); it is not counted to its end."""
    with _pages(url) as pages, pages.snapshot() as connection:
        some = f"SELECT COUNT(*) FROM (SELECT 1 FROM events LIMIT {FEW + 1}) AS some"
        return int(connection.exec_driver_sql(some).scalar_one()) <= FEW


@dataclass(frozen=True)
class Reached:
    """How far a logger's log is derived."""

    logger: str
    number: int


def reached(url: str) -> Reached:
    with _pages(url) as pages, pages.snapshot() as connection:
        logger = connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'node'").scalar()
        return Reached(str(logger or ""), Pages.derived_in(connection))


def number_at(url: str, time: datetime) -> int:
    """A cursor: everything logged at that time or later has a higher number."""
    with _pages(url) as pages:
        return pages.number_at(nanoseconds(time))


def slices(place: Place, first: int, last: int, count: int) -> list[Slice]:
    """The packets `first` to `last`, in at most `count` ranges of about the same length."""
    step = max(-(-(last - first + 1) // count), PACKETS_MIN)
    return [Slice(place, *ids_of(start, min(start + step - 1, last))) for start in range(first, last + 1, step)]


def logged_within(since: datetime | None, until: datetime | None) -> list[Condition]:
    found = []
    if since is not None:
        found.append(Condition("logged_ns >= ?", (nanoseconds(since),)))
    if until is not None:
        found.append(Condition("logged_ns < ?", (nanoseconds(until),)))
    return found


def nanoseconds(time: datetime) -> int:
    """Nanoseconds since 1970, cut to 64 bits: a time after 2262 is as late as a store can hold."""
    elapsed = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    found = (elapsed.days * 86_400 + elapsed.seconds) * 10**9 + elapsed.microseconds * 1_000
    return min(max(found, -(2**63)), 2**63 - 1)


@contextmanager
def _pages(url: str) -> Iterator[Pages]:
    place_of(url)
    try:
        pages = open_pages(database(url))
    except StoreError as error:
        raise UsageError(f"cannot read the store: {error}") from None
    try:
        yield pages
    finally:
        pages.close()
