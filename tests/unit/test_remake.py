"""Damaged tables: derived ones are found at the start and made again from the log; the others are told."""

import sqlite3
from contextlib import closing

import pytest

from gossamer.logger.checking import check
from gossamer.logger.databases import database
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from machines import keyed, packet
from processes import until


def zero(path, name, leaf):
    """Zero a page of a table: its root, or the page in its middle that a scan would reach."""
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = store.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        size = store.execute("PRAGMA page_size").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        page = file.read(size)
        at = root
        if leaf:
            assert page[0] in (2, 5), "an interior page"
            at = int.from_bytes(page[8:12])  # its right-most child
        file.seek((at - 1) * size)
        file.write(bytes(size))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


def log(path):
    writer = Writer(Store(f"sqlite:///{path}"))
    writer.start(lambda _: None, "L")
    for seq in range(100):
        writer.persist(seq, (packet(seq, body=bytes(500)),))
    writer.persist(100, (keyed(100, *(f"key {n}" for n in range(200))),))
    until(lambda: writer._store.derived() == writer._store.number > 100, "the events to be derived")
    writer.close()


@pytest.mark.parametrize(
    ("table", "leaf"), [("events", True), ("events", False), ("newest", True), ("telemetry", False)]
)
def test_a_damaged_derived_table_is_made_again(path, table, leaf, caplog):
    log(path)
    zero(path, table, leaf)
    writer = Writer(Store(f"sqlite:///{path}"))
    writer.start(lambda _: None, "L")
    try:
        until(lambda: f"since damaged: {table}" in caplog.text, "the damage to be found")
        until(lambda: not writer.keeper._damaged and writer._store.derived() == 101, "the events to be derived again")
        until(lambda: writer.troubles() == [], "the trouble to be over")
    finally:
        writer.close()
    checked = check(database(f"sqlite:///{path}"), print)
    assert checked.derived == 300
    assert checked.ok, checked.findings


def test_a_damaged_table_of_the_log_is_trouble(path):
    log(path)
    zero(path, "streams", False)
    writer = Writer(Store(f"sqlite:///{path}"))
    writer.start(lambda _: None, "L")
    try:
        until(lambda: any("the table streams is damaged" in text for text in writer.troubles()), "the finding")
    finally:
        writer.close()
