"""`gossamer logger --check` finds what is wrong with a store, each thing that can be; `gossamer log` reads one."""

import json
from contextlib import contextmanager
from datetime import datetime

import pytest

from gossamer.cli.log import read_moment
from gossamer.cli.main import main
from gossamer.logger.checking import check
from gossamer.logger.databases import database
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.messages.wire import Span
from gossamer.protocol.effects import Void
from machines import S, T, packet


@contextmanager
def filled(url):
    with Store(url) as store:
        keeper = Keeper(store.database, store.on_swept)
        store.apply([packet(0, 4), packet(0, 4, stream=T), packet(5, 9)])
        store.commit()
        keeper.work()
        store.apply([packet(10, 14), Void(Span(T, ((5, 6),)))])
        store.commit()
        yield store
        keeper.close()


def sql(store, statement):
    with store._engine.begin() as connection:
        connection.exec_driver_sql(statement)


def kinds(url):
    found = []
    checked = check(database(url), found.append)
    assert sum(checked.findings.values()) == len(found)
    return sorted(checked.findings)


def test_a_good_store_has_nothing_wrong_also_while_it_is_written(store_url):
    with filled(store_url):
        found = []
        checked = check(database(store_url), found.append)
        assert found == []
        assert (checked.packets, checked.events, checked.derived) == (4, 20, 15)


AGAIN = """
    INSERT INTO packets SELECT 5, stream, first, last, logged_ns, (SELECT MAX(highest_ns) FROM packets), checksum, bytes
    FROM packets WHERE number = 3
"""
STRAY = """
    INSERT INTO events SELECT id + 40960, "group", stream, seq, published_ns, logged_ns, key, rank, annotation,
    attributes, body, size, deleted FROM events WHERE seq = 3
"""
WRONG = [
    (["UPDATE packets SET checksum = checksum + 1 WHERE number = 1"], ["damaged"]),
    (["UPDATE packets SET first = 6 WHERE number = 3"], ["damaged", "gap"]),
    (["UPDATE packets SET number = 9 WHERE number = 3"], ["events", "order"]),
    (["DELETE FROM packets WHERE number = 3"], ["events", "gap"]),
    (["DROP INDEX packets_by_id", AGAIN], ["doubled"]),
    (["UPDATE packets SET highest_ns = 5 WHERE number = 2"], ["order"]),
    (["DELETE FROM streams"], ["stream"]),
    (["UPDATE streams SET number = 3"], ["stream"]),
    (["DELETE FROM events WHERE seq = 3"], ["events"]),
    ([STRAY], ["events"]),
    (["INSERT INTO voids VALUES ('default/~a-1.0', 3, 5)"], ["void"]),
]


@pytest.mark.parametrize(("statements", "expected"), WRONG)
def test_what_is_wrong_is_found(store_url, statements, expected):
    with filled(store_url) as store:
        for statement in statements:
            sql(store, statement)
        assert kinds(store_url) == expected


def test_what_was_collected_is_no_gap(store_url):
    with filled(store_url) as store:
        store.collect(S, 7)
        store.commit()
        assert kinds(store_url) == []
        store.apply([packet(20)])
        store.commit()
        assert kinds(store_url) == ["gap"]


def test_bad_pages_are_found(tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with filled(url) as store:
        sql(store, "DELETE FROM meta WHERE name = 'none'")
        store.apply([packet(15 + 5 * n, 19 + 5 * n, body=bytes(5_000)) for n in range(40)])
        store.commit()
    data = bytearray((tmp_path / "log.db").read_bytes())
    for at in range(8 * 4096, len(data), 3 * 4096):
        data[at : at + 64] = b"\xff" * 64
    (tmp_path / "log.db").write_bytes(data)
    assert "database" in kinds(url) or "damaged" in kinds(url)


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as done:
        main([*arguments])
    out, err = capfd.readouterr()
    return done.value.code, out, err


def test_the_command_says_it_and_its_exit_code_too(store_url, capfd):
    with filled(store_url) as store:
        code, out, err = run(capfd, "logger", "--store", store_url, "--check")
        assert (code, out) == (0, "")
        assert "20 events in 4 packets, 15 derived: nothing wrong" in err
        sql(store, "DELETE FROM packets WHERE number = 3")
        code, out, err = run(capfd, "logger", "--store", store_url, "--check")
        assert code == 1
        assert f"gap: {S}:5 to 9: missing" in out
        code, out, _ = run(capfd, "logger", "--store", store_url, "--check", "--json")
        told = json.loads(out)
        assert (code, told["ok"], told["findings"]) == (1, False, {"events": 1, "gap": 1})


def test_no_store_and_other_versions_are_said_in_a_line(tmp_path, capfd):
    nothing = f"sqlite:///{tmp_path / 'nothing.db'}"
    for command in (["logger", "--check"], ["log"]):
        code, _, err = run(capfd, *command, "--store", nothing)
        assert code == 2
        assert "there is no such file" in err
        assert not (tmp_path / "nothing.db").exists()
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with filled(url) as store:
        sql(store, "UPDATE meta SET value = '1' WHERE name = 'schema'")
        assert "has schema 1" in run(capfd, "log", "--store", url)[2]
        sql(store, "UPDATE meta SET value = '99' WHERE name = 'schema'")
        assert "has schema 99" in run(capfd, "log", "--store", url)[2]


ZERO = datetime.fromtimestamp(0).strftime("%Y-%m-%d %H:%M:%S.000")
"""When these events were published, as this machine's clock tells it."""


def test_the_log_is_read_back_while_it_is_written(store_url, capfd):
    times = iter([10 * 10**9, 20 * 10**9, 30 * 10**9])
    with Store(store_url, clock_ns=lambda: next(times)) as store:
        for seq in range(3):
            store.apply(
                [
                    pack(S, seq, [Content(key="k", attributes={"n": seq, "s": "ü"}, body=b"b")]),
                    packet(seq, stream="o/x"),
                ]
            )
            store.commit()
        code, out, _ = run(capfd, "log", "n >= 1", "--store", store_url, "--json")
        lines = [json.loads(line) for line in out.splitlines()]
        assert (code, [line["seq"] for line in lines]) == (0, [1, 2])
        assert lines[0]["attributes"] == {"n": 1, "s": "ü"}
        assert lines[0]["logged"].startswith("1970-01-01T")
        assert run(capfd, "log", "--store", store_url, "--group", "default", "--limit", "2")[1] == (
            f"{ZERO} {S}:0 [k] n=0 s=ü b\n{ZERO} {S}:1 [k] n=1 s=ü b\n"
        )
        bounds = ["--since", "1970-01-01T00:00:20+00:00", "--until", "1970-01-01T00:00:30+00:00"]
        second = run(capfd, "log", "--store", store_url, "--group", "default", *bounds)[1]
        assert second == f"{ZERO} {S}:1 [k] n=1 s=ü b\n"
        assert run(capfd, "log", "--store", store_url, "--since", "1d")[1] == ""
        assert run(capfd, "log", "--store", store_url, "--limit", "0")[1] == ""
        sql(store, "UPDATE packets SET checksum = 0 WHERE number = 1")
        assert "1 events cannot be read" in run(capfd, "log", "--store", store_url)[2]
        assert run(capfd, "log", "n >", "--store", store_url)[0] == 2


def test_moments():
    assert read_moment("10m", 10**12) == 10**12 - 600 * 10**9
    assert read_moment("2026-05-01T12:00:00+02:00", 0) == 1777629600 * 10**9
    for wrong in ("yesterday", "10", "-1h", "1w", ""):
        with pytest.raises(UsageError, match="is not a time"):
            read_moment(wrong, 0)
