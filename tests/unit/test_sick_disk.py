"""A logger on a store that cannot be opened: one line, exit code 1, no traceback."""

import errno
import os
import sqlite3
from contextlib import closing

import pytest

from gossamer.cli.main import main
from gossamer.logger import databases
from gossamer.logger.store import Store
from machines import packet


def a_directory(path):
    path.mkdir()


def no_database(path):
    path.write_text("these are not the pages of a database\n" * 500)


def _store(path):
    with Store(f"sqlite:///{path}") as store:
        for first in range(300):
            store.apply([packet(first, body=bytes(300))])
        store.commit()


def _zero(path, name):
    """Zero the first page of a table or index."""
    with closing(sqlite3.connect(path)) as store:
        page = store.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        size = store.execute("PRAGMA page_size").fetchone()[0]
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))


def a_damaged_table(name):
    def damage(path):
        _store(path)
        _zero(path, name)

    damage.__name__ = f"damaged_{name}"
    return damage


def half_of_it(path):
    _store(path)
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def a_damaged_value(path):
    _store(path)
    with closing(sqlite3.connect(path)) as store:
        store.execute("INSERT INTO meta (name, value) VALUES ('covered', '[[[')")
        store.commit()


def a_lock_that_is_a_directory(path):
    path.with_name(f"{path.name}.lock").mkdir()


SICK = [
    a_directory, no_database, half_of_it, a_damaged_value, a_lock_that_is_a_directory,
    *map(a_damaged_table, ("packets", "packets_by_id", "meta")),
]  # fmt: skip


def complaint(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


@pytest.mark.parametrize("sick", SICK, ids=lambda sick: sick.__name__)
def test_a_sick_store_is_one_line_and_exit_code_1(sick, tmp_path, capsys):
    path = tmp_path / "gossamer.db"
    sick(path)
    told = complaint(["logger", "--store", f"sqlite:///{path}", "--mesh", "tcp://127.0.0.1:0"], capsys)
    assert told.startswith(f"gossamer: cannot open the store {path}: ")
    told = complaint(["up", "--data", str(tmp_path), "--http", "off"], capsys)
    assert told.startswith(f"gossamer: cannot open the store {path}: ")


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_disk_that_fails_is_one_line_and_exit_code_1(number, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(databases, "open", fail, raising=False)
    path = tmp_path / "gossamer.db"
    told = complaint(["logger", "--store", f"sqlite:///{path}", "--mesh", "tcp://127.0.0.1:0"], capsys)
    assert os.strerror(number) in told


def test_a_disk_that_fails_after_opening_is_one_line_and_exit_code_1(tmp_path, capsys, monkeypatch):
    """The name is the first thing that a new logger writes."""
    monkeypatch.setattr("gossamer.logger.store._KEEP_META", "INSERT INTO nowhere VALUES (?, ?)")
    for arguments in (
        ["logger", "--store", f"sqlite:///{tmp_path}/log.db", "--mesh", "tcp://127.0.0.1:0"],
        ["up", "--data", str(tmp_path)],
    ):
        told = complaint([*arguments, "--http", "off"], capsys)
        assert "cannot open the store" in told
