"""The writer: answers in order, after the disk; groups what waits; refuses while the disk fails, and recovers."""

import subprocess
import sys
import threading
import time

import pytest

from gossamer.logger.databases import StoreError
from gossamer.logger.deriving import Deriving
from gossamer.logger.schema import SCHEMA_VERSION
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Member, Span
from gossamer.protocol.inputs import Loaded, Persisted
from machines import S, packet
from processes import until


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'log.db'}"


class Open:
    """A writer, and what it answered."""

    def __init__(self, url):
        self.store = Store(url)
        self.writer = Writer(self.store)
        self.answers = []
        self.hold = threading.Event()
        self.hold.set()
        commit = self.store.commit
        self.store.commit = lambda: (self.hold.wait(), commit())
        self.writer.start(self.answers.append, "L")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hold.set()
        self.writer.close()


def sql(store, statement):
    with store._engine.begin() as connection:
        return connection.exec_driver_sql(statement).fetchall()


def test_answers_come_in_order_and_after_the_commit(url):
    with Open(url) as it:
        for token in range(100):
            it.writer.persist(token, (packet(token),) if token % 3 else ())
        until(lambda: len(it.answers) == 100)
        assert it.answers == [Persisted(token) for token in range(100)]
    with Store(url) as store:
        assert store.stored().streams[S].stored == tuple((first, first + 1) for first in range(1, 99, 3))


def test_nothing_is_answered_before_its_commit_and_what_waits_goes_down_together(url):
    with Open(url) as it:
        it.hold.clear()
        it.writer.persist(0, (packet(0),))
        until(lambda: it.writer._jobs.empty())
        for token in range(1, 50):
            it.writer.persist(token, (packet(token),))
        assert it.answers == []
        before = it.writer.commits
        it.hold.set()
        until(lambda: len(it.answers) == 50)
        assert it.writer.commits - before <= 3


def test_what_is_asked_for_is_read_cut_to_it(url):
    with Open(url) as it:
        it.writer.persist(1, (packet(0, 9),))
        it.writer.load(2, (Span(S, ((2, 3), (8, 12))),))
        until(lambda: len(it.answers) == 2)
        it.writer.load(3, (Span(S, ((2, 3), (8, 12))), Span("default/unknown", ((0, 1),))))
        until(lambda: len(it.answers) == 3)
        assert it.answers[-1] == Loaded(3, (packet(0, 9).cut(2, 3), packet(0, 9).cut(8, 9)))


def test_a_full_disk_refuses_acknowledgements_and_recovers_by_itself(url):
    with Open(url) as it:
        it.writer.persist(1, (packet(0, 9),))
        until(lambda: it.answers == [Persisted(1)])
        broken = it.store._write

        def write(connection, staged):
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            broken(connection, staged)

        it.store._write = write
        it.writer.persist(2, (packet(10, 19, body=bytes(50_000)),))
        until(lambda: it.writer.trouble)
        assert "full" in it.writer.trouble
        it.writer.persist(3, (packet(20, 29),))
        it.writer.load(4, (Span(S, ((0, 29),)),))
        until(lambda: len(it.answers) == 2)
        assert it.answers[1] == Loaded(4, (packet(0, 9),)), "what is on disk can still be read"
        it.store._write = broken
        until(lambda: len(it.answers) == 4)
        assert it.answers[2:] == [Persisted(2), Persisted(3)]
        assert it.writer.trouble is None
    with Store(url) as store:
        assert store.stored().streams[S].stored == ((0, 29),)


def test_closing_with_a_disk_that_fails_does_not_wait_for_it(url):
    with Open(url) as it:

        def write(*_):
            raise StoreError("gone")

        it.store.commit = write
        it.writer.persist(1, (packet(0),))
        until(lambda: it.writer.trouble)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert it.answers == []


def test_a_damaged_packet_is_not_handed_out(url):
    with Store(url) as store:
        store.apply([packet(0, 4), packet(5, 9), packet(10, 14)])
        store.commit()
        flipped = "substr(bytes, 1, 50) || x'FF' || substr(bytes, 52)"
        sql(store, f"UPDATE packets SET bytes = CAST({flipped} AS BLOB) WHERE first = 5 RETURNING 1")
        assert store.load([Span(S, ((0, 14),))]) == (packet(0, 4), packet(10, 14))
        assert store.damaged == 1


def test_what_is_written_is_written_once(url):
    with Store(url) as store:
        store.apply([packet(0, 4)])
        store.commit()
        sql(store, "DELETE FROM packets RETURNING 1")
        store.apply([packet(5, 9)])
        store.commit()
        assert sql(store, "SELECT first, last FROM packets") == [(5, 9)]


def test_a_second_process_is_refused_in_one_line(url):
    with Store(url):
        code = (
            f"from gossamer.cli.main import main; main(['logger', '--store', '{url}', '--mesh', 'tcp://127.0.0.1:0'])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "is in use by process" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_store_belongs_to_one_logger_and_one_schema(url, tmp_path):
    with Store(url) as store:
        assert store.node is None
        store.claim("L")
        with pytest.raises(UsageError, match="belongs to the logger L"):
            store.claim("M")
    with Store(url) as store:
        assert store.node == "L"
        sql(store, f"UPDATE meta SET value = '{SCHEMA_VERSION + 1}' WHERE name = 'schema' RETURNING 1")
    with pytest.raises(UsageError, match=f"has schema {SCHEMA_VERSION + 1}"):
        Store(url)
    (tmp_path / "rubbish.db").write_bytes(b"rubbish" * 1_000)
    with pytest.raises(UsageError, match="cannot open the store"):
        Store(f"sqlite:///{tmp_path / 'rubbish.db'}")


def test_a_store_may_be_in_memory_and_syncs_when_it_is_not(url):
    with Store("sqlite://") as store:
        store.apply([packet(0), Member("a", "member", 1, False, "tcp://x:1")])
        store.commit()
        assert store.load([Span(S, ((0, 0),))]) == (packet(0),)
    with Store(url) as store:
        assert sql(store, "PRAGMA journal_mode") == [("wal",)]
        assert sql(store, "PRAGMA synchronous") == [(2,)]


def test_packets_that_are_not_derived_are_counted_and_warned_of(url, monkeypatch):
    derives = threading.Event()
    step = Deriving.step
    monkeypatch.setattr(Deriving, "step", lambda self: derives.is_set() and step(self))
    with Open(url) as it:
        assert it.writer.warnings() == []
        it.writer.keeper.deriving.number = 0
        it.writer.persist(0, (packet(0), packet(1)))
        until(lambda: it.answers)
        assert it.writer.figures()["lag_packets"] == 2
        assert it.writer.warnings() == [], "it is not late yet"
        monkeypatch.setattr("gossamer.logger.writer.LATE_S", 0.0)
        assert it.writer.warnings() == ["the SQL tables are 0 s behind the log (2 packets)"]
        derives.set()
        until(lambda: it.writer.figures()["lag_packets"] == 0)
        assert (it.writer.warnings(), it.writer.figures()["lag_ms"]) == ([], 0)
