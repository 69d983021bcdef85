"""The log is read along: by number, in any thread, beside the one who writes; older stores are taken on."""

import sqlite3
import threading

import pytest

from gossamer.logger import pages
from gossamer.logger.store import Store
from gossamer.protocol.effects import Over
from machines import S, T, packet


@pytest.fixture
def file_url(tmp_path):
    return f"sqlite:///{tmp_path / 'log.db'}"


def write(store, *packets):
    store.apply(packets)
    store.commit()


def numbers(page):
    return [number for number, _, _ in page.rows]


def test_a_page_is_as_long_as_it_may_be_and_says_where_to_read_on(store_url):
    with Store(store_url) as store:
        write(store, *(packet(seq, body=bytes(100)) for seq in range(10)))
        first = store.page(0, 400)
        assert (numbers(first), first.last, first.end) == ([1, 2], 2, False)
        assert numbers(store.page(9, 0)) == [10], "one packet, however large"
        rest = store.page(first.last, 10**6)
        assert (numbers(rest), rest.last, rest.end) == ([*range(3, 11)], 10, True)
        assert [row[2] for row in (*first.rows, *rest.rows)] == [packet(seq, body=bytes(100)) for seq in range(10)]
        after = store.page(10, 10**6)
        assert (after.rows, after.last, after.end) == ((), 10, True)


def test_a_page_has_so_many_packets_at_most(store_url, monkeypatch):
    monkeypatch.setattr(pages, "ROWS_MAX", 3)
    with Store(store_url) as store:
        write(store, *(packet(seq) for seq in range(6)))
        first = store.page(0, 10**6)
        assert (numbers(first), first.last, first.end) == ([1, 2, 3], 3, False)
        second = store.page(first.last, 10**6)
        assert (numbers(second), second.last, second.end) == ([4, 5, 6], 6, False)
        assert store.page(second.last, 10**6).end


def test_one_group_is_read_and_the_others_passed_over(store_url):
    with Store(store_url) as store:
        write(store, packet(0), packet(0, stream="other/x"), packet(0, stream="default2/x"), packet(1))
        page = store.page(0, 10**6, "default")
        assert ([row[2] for row in page.rows], page.last) == ([packet(0), packet(1)], 4)
        assert store.page(0, 10**6, "nobody's").last == 4
        assert store.number_after({S: 1}, "default") == 4, "the streams of other groups do not count"
        assert store.number_after({S: 1}) == 1


def test_who_begins_at_a_time_is_sent_back_to_nothing_that_was_before(store_url):
    with Store(store_url) as store:
        write(store, packet(0, stream=T), packet(0))
        write(store, packet(1), packet(0, stream="default/x"))
        assert store.number_after({}, "default", 2) == 2, "what is not known, from then on"
        assert store.number_after({S: 1}, "default", 2) == 3, "and of one of them there is nothing more"
        assert store.number_after({S: 1, "default/x": 0}, "default", 2) == 4


def test_a_damaged_packet_is_left_out_and_named(store_url):
    with Store(store_url) as store:
        write(store, packet(0, 3), packet(4, 7), packet(8))
        with store._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE packets SET checksum = checksum + 1 WHERE first = 4")
        page = store.page(0, 10**6)
        assert [row[2] for row in page.rows] == [packet(0, 3), packet(8)]
        assert [(span.stream, span.ranges) for span in page.damaged] == [(S, ((4, 7),))]


@pytest.mark.parametrize("times", [[1, 2, 3, 4, 5], [5, 9, 1, 2, 3, 9, 12], [3, 3, 1, 8, 7, 6, 5], [9, 1, 2, 3, 4, 5]])
def test_a_time_is_found_whatever_the_clock_did(store_url, times):
    clock = iter(times)
    with Store(store_url, clock_ns=lambda: next(clock)) as store:
        for seq in range(len(times)):
            write(store, packet(seq))
        for time in range(14):
            first = next((at for at, logged in enumerate(times) if logged >= time), len(times))
            assert store.number_at(time) == first


def test_numbers_are_not_given_twice(store_url):
    with Store(store_url) as store:
        write(store, packet(0), packet(1))
        store.collect(S, 1)
        store.commit()
    with Store(store_url) as store:
        assert store.page(0, 10**6).rows == ()
        write(store, packet(2))
        assert numbers(store.page(2, 10**6)) == [3]


def test_one_reads_while_another_writes():
    with Store("sqlite://") as store:  # also when it is nowhere
        seen, wrong = [], []

        def follow():
            cursor = 0
            try:
                while len(seen) < 300:
                    page = store.page(cursor, 1_000)
                    seen.extend(row[2].first for row in page.rows)
                    cursor = page.last
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=follow)]
        for thread in threads:
            thread.start()
        for seq in range(300):
            write(store, packet(seq))
        for thread in threads:
            thread.join(60)
        assert not wrong
        assert seen == [*range(300)]


VERSION_1 = """
    CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE packets (stream TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, checksum BIGINT NOT NULL,
                          bytes BLOB NOT NULL);
    CREATE UNIQUE INDEX packets_by_id ON packets (stream, first, last);
    CREATE TABLE voids (stream TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, PRIMARY KEY (stream, first));
    CREATE TABLE promises (stream TEXT NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, holder TEXT NOT NULL,
                           last BIGINT NOT NULL);
    CREATE TABLE retired (issuer TEXT NOT NULL PRIMARY KEY, ranges TEXT NOT NULL);
    CREATE TABLE members (node TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL, freshness BIGINT NOT NULL,
                          logger BOOLEAN NOT NULL, address TEXT NOT NULL);
    CREATE TABLE collected (stream TEXT NOT NULL PRIMARY KEY, last BIGINT NOT NULL);
    INSERT INTO meta VALUES ('schema', '1'), ('node', 'L');
"""


def test_a_store_of_version_1_is_brought_up_to_date(file_url, tmp_path):
    with Store(f"sqlite:///{tmp_path / 'new.db'}") as store:
        write(store, packet(5, 9), packet(0, 4), packet(0, stream=T))
    with sqlite3.connect(tmp_path / "log.db") as old:
        old.executescript(VERSION_1)
        old.execute("ATTACH ? AS new", (str(tmp_path / "new.db"),))
        old.execute("INSERT INTO packets SELECT stream, first, last, checksum, bytes FROM new.packets ORDER BY number")
    old.close()
    with Store(file_url) as store:
        assert store.node == "L"
        assert [row[2] for row in store.page(0, 10**6).rows] == [packet(5, 9), packet(0, 4), packet(0, stream=T)]
        assert store.stored().streams[S].stored == ((0, 9),)
        write(store, packet(10))
        assert numbers(store.page(3, 10**6)) == [4]
        assert store.number_after({S: 9}) == 2
    with Store(file_url) as store:
        assert len(store.page(0, 10**6).rows) == 4


def test_who_has_had_all_that_is_over_is_not_sent_back_to_it(tmp_path):
    over, lives = "default/~b-1.0", "default/~b-1.1"
    with Store(f"sqlite:///{tmp_path / 'l.db'}") as store:
        store.apply([packet(0, 9, stream=over), packet(0, 9, stream=lives), Over(over)])
        store.commit()
        assert store.number_after({lives: 4}) == 0
        assert store.number_after({lives: 4}, over=False) == 1
        assert store.number_after({}, over=False) == 1


def test_ages_are_told_from_when_it_was_logged(tmp_path):
    now_ns = 10**18
    url = f"sqlite:///{tmp_path / 'l.db'}"
    with Store(url, clock_ns=lambda: now_ns, steady_ns=lambda: now_ns) as store:
        write(store, packet(0, 4))
        now_ns += 100 * 10**9
        write(store, packet(5, 9))
    now_ns += 10 * 10**9
    with Store(url, clock_ns=lambda: now_ns, steady_ns=lambda: now_ns) as store:
        assert store.stored().ages == {S: ((110.0, 4), (10.0, 9))}
