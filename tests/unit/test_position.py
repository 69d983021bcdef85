"""The position file beside a store: a store behind it has lost packets, and says so until repaired or accepted."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from gossamer.logger.position import Loss, Position, read_position, write_position
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.errors import UsageError
from gossamer.protocol.effects import Covered
from machines import packet
from processes import until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


def logged(path, first, last, **options):
    """Log packets as the logger L; returns the position file's content."""
    with Store(f"sqlite:///{path}", **options) as store:
        store.claim("L")
        for seq in range(first, last + 1):
            store.apply([packet(seq)])
            store.commit()
        store.apply([Covered("M")])
        store.commit()
        store.keep_position()
    return read_position(path.with_name("log.db.position"))


def gone(path):
    path.unlink()


def emptied(path):
    path.write_bytes(b"")


def an_old_copy(path):
    shutil.copy(path.with_name("old.db"), path)


def logged_twice(path):
    logged(path, 0, 4)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(path.with_name("old.db"))) as target:
        source.backup(target)
    return logged(path, 5, 9)


DAMAGE = [(gone, 0), (emptied, 0), (an_old_copy, 5)]


@pytest.mark.parametrize(("damage", "has"), DAMAGE, ids=lambda each: getattr(each, "__name__", None))
def test_a_store_behind_its_position_file_has_lost_packets(path, damage, has):
    assert logged_twice(path).number == 10
    damage(path)
    with Store(f"sqlite:///{path}") as store:
        assert store.lost == Loss(10, has)
        assert store.node == "L", "the name is known from the position file"
        assert store.stored().covered == (), "the other loggers have to confirm again"
        store.claim("L")
    with Store(f"sqlite:///{path}") as store:
        assert store.lost == Loss(10, has), "until it is repaired or accepted"
        store.claim("L")
        store.forget_loss()
    with Store(f"sqlite:///{path}") as store:
        assert store.lost is None


def test_a_database_of_another_store_is_a_loss(path):
    logged(path, 0, 9)
    with Store(f"sqlite:///{path.with_name('other.db')}") as store:
        store.claim("L")
        for seq in range(20):
            store.apply([packet(seq)])
            store.commit()
    shutil.copy(path.with_name("other.db"), path)
    with Store(f"sqlite:///{path}") as store:
        assert store.lost == Loss(10, 20)


def test_a_loss_can_be_accepted(path):
    logged_twice(path)
    gone(path)
    with Store(f"sqlite:///{path}", accept_loss=True) as store:
        assert store.lost is None
        store.claim("new-name")
    with Store(f"sqlite:///{path}") as store:
        assert (store.lost, store.node) == (None, "new-name")


def test_an_intact_store_and_one_without_a_position_file_have_lost_nothing(path):
    logged_twice(path)
    with Store(f"sqlite:///{path}") as store:
        assert store.lost is None
        with pytest.raises(UsageError, match="belongs to the logger L"):
            store.claim("M")
    path.with_name("log.db.position").write_text("not a position")
    with Store(f"sqlite:///{path}") as store:
        assert store.lost is None


def test_a_position_file_that_cannot_be_written_stops_nothing(path):
    path.with_name("log.db.position.new").mkdir()
    assert logged(path, 0, 2) is None
    with pytest.raises(OSError, match="directory"):
        write_position(path.with_name("log.db.position"), Position("a", "L", 1))


def test_the_writer_tells_a_loss_until_it_is_repaired(path, caplog):
    logged_twice(path)
    gone(path)
    writer = Writer(Store(f"sqlite:///{path}"))
    writer.start(lambda _: None, "L")
    try:
        (text,) = writer.troubles()
        assert "has lost packets: it ended with packet 10, and was found to end with packet 0" in text
        assert text in caplog.text
        writer.on_repaired()
        until(lambda: not writer.has_lost, "the loss to be over")
        assert writer.troubles() == []
    finally:
        writer.close()
    with Store(f"sqlite:///{path}") as store:
        assert store.lost is None
