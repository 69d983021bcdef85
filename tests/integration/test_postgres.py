"""A store in PostgreSQL: one logger at a time, and a server that dies and comes back."""

import gc
from contextlib import suppress

import pytest
from sqlalchemy import event

from gossamer.logger.databases import StoreError, database
from gossamer.logger.pages import open_pages
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Span
from gossamer.protocol.inputs import Persisted
from machines import S, packet
from postgres import MISSING, Server, available
from processes import until


@pytest.fixture
def server():
    """One that a test may kill."""
    if not available():
        pytest.skip(MISSING)
    server = Server()
    yield server
    server.close()


def test_a_second_logger_is_refused_while_the_first_is_there(postgres):
    url = postgres.url()
    with Store(url) as store:
        store.claim("L")
        with pytest.raises(UsageError, match="in use by another logger"):
            Store(url)
    with Store(url) as store:
        assert store.node == "L"


def test_a_server_that_dies_stops_acknowledgements_and_nothing_else(server):
    url = server.url()
    answers = []
    writer = Writer(Store(url))
    writer.start(answers.append, "L")
    writer.persist(1, (packet(0, 9),))
    until(lambda: answers == [Persisted(1)])
    server.kill()
    writer.persist(2, (packet(10, 19),))
    until(lambda: writer.trouble)
    writer.persist(3, (packet(20),))
    assert answers == [Persisted(1)]
    server.start()
    until(lambda: answers == [Persisted(1), Persisted(2), Persisted(3)])
    assert writer.trouble is None
    writer.close()
    with Store(url) as store:
        assert store.load([Span(S, ((0, 30),))]) == (packet(0, 9), packet(10, 19), packet(20))


@pytest.mark.parametrize("dies_at", ["MAX(number)", "MIN(number)"])
def test_a_reader_whose_server_dies_leaves_no_cursor_open(server, dies_at):
    url = server.url()
    with Store(url) as store:
        store.claim("L")
        store.apply([packet(0, 9)])
        store.commit()
    pages = open_pages(database(url))

    def die(_connection, _cursor, statement, *_):
        if dies_at in statement:
            server.kill()

    event.listen(pages._engine, "before_cursor_execute", die)
    with pytest.raises(StoreError):
        pages.number_after({}, others=1)
    gc.collect()  # it would complain now
    pages.close()


def test_a_cursor_whose_server_dies_before_it_is_closed_is_closed(server):
    url = server.url()
    with Store(url) as store:
        store.claim("L")
    pages = open_pages(database(url))
    with suppress(StoreError), pages.snapshot() as connection:
        found = connection.exec_driver_sql("SELECT generate_series(1, 10000)")
        assert found.fetchone() == (1,)
        server.kill()
        found.close()
        del found
    gc.collect()  # it would complain now
    pages.close()


def test_a_commit_that_happened_though_it_failed_is_not_made_twice(postgres):
    with Store(postgres.url()) as store:
        store.apply([packet(0, 9)])
        write = store._write

        def write_and_lose_the_answer(connection, staged):
            write(connection, staged)
            connection.commit()
            raise StoreError("the connection is gone")

        store._write = write_and_lose_the_answer
        with pytest.raises(StoreError, match="is gone"):
            store.commit()
        store._write = write
        store.apply([packet(10)])
        store.commit()
        assert [(number, each) for number, _, each in store.page(0, 10**6).rows] == [(1, packet(0, 9)), (2, packet(10))]


def test_who_lost_the_lock_and_finds_another_has_written_stops(postgres):
    url = postgres.url()
    with Store(url) as store:
        store.apply([packet(0)])
        store._engine.dispose()
        with Store(url) as other:
            other.apply([packet(5)])
            other.commit()
            with pytest.raises(StoreError, match="in use by another logger"):
                store.commit()
        with pytest.raises(StoreError, match="written to by another logger"):
            store.commit()


def test_a_server_that_is_not_there_is_said_in_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"cannot open the store postgresql://x:\*\*\*@/nothing") as refused:
        Store(f"postgresql://x:secret@/nothing?host={tmp_path}")
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="a store is sqlite:///FILE or postgresql://"):
        database("mysql://x")
