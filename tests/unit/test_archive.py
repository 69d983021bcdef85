"""The archive: every row once, whatever dies when; before anything is swept."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pyarrow.parquet
import pytest

from gossamer.logger.archive import Archive, hour_of
from gossamer.logger.databases import StoreError
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from machines import S, T, packet
from processes import until

HOUR_NS = 3_600 * 10**9


@contextmanager
def opened(url, folder, node="L", **options):
    with Store(url, **options) as store:
        keeper = Keeper(store.database, store.on_swept, Archive(folder))
        keeper._node = node
        yield store, keeper
        keeper.close()


def write(store, *packets):
    store.apply(packets)
    store.commit()


def archived(folder):
    """All rows, and that it is read like any partitioned folder."""
    return pyarrow.parquet.read_table(folder).to_pylist()


def test_the_columns_of_events_by_group_and_hour(store_url, tmp_path):
    times = iter([5 * HOUR_NS, 6 * HOUR_NS + 1])
    folder = tmp_path / "archive"
    with opened(store_url, folder, clock_ns=lambda: next(times)) as (store, keeper):
        content = Content(key="k", rank=2, time_ns=9, attributes={"a": [], "b": "ü"}, body=b"\0")
        write(store, pack("a b/x", 0, [content]), pack("$sys/n", 0, [Content(deleted=True)]))
        write(store, packet(0, 1))
        keeper.run_archive()
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))
        assert files == [
            f"group=$sys/hour=1970-01-01-05/L-{1:019}-{3:019}.parquet",
            f"group=a%20b/hour=1970-01-01-05/L-{1:019}-{3:019}.parquet",
            f"group=default/hour=1970-01-01-06/L-{1:019}-{3:019}.parquet",
        ]
        rows = {(row["stream"], row["seq"]): row for row in archived(folder)}
        row = rows["a b/x", 0]
        assert json.loads(row.pop("attributes")) == content.attributes
        assert row == {
            "id": 4096, "stream": "a b/x", "seq": 0, "published_ns": 9, "logged_ns": 5 * HOUR_NS, "key": "k",
            "rank": 2.0, "annotation": None, "body": b"\0", "size": row["size"], "deleted": False, "group": "a b",
            "hour": "1970-01-01-05",
        }  # fmt: skip
        assert rows["$sys/n", 0]["deleted"]
        assert len(rows) == 4


def test_what_is_collected_is_archived_before_it_goes(store_url, tmp_path):
    with opened(store_url, tmp_path / "archive") as (store, keeper):
        write(store, packet(0, 4), packet(5, 9), packet(0, 4, stream=T))
        store.collect(S, 6)
        store.commit()
        keeper.work()
        assert sorted((row["stream"], row["seq"]) for row in archived(tmp_path / "archive")) == [
            *((S, seq) for seq in range(10)),
            *((T, seq) for seq in range(5)),
        ]
        assert [row[2] for row in store.page(0, 10**6).rows] == [packet(5, 9).cut(7, 9), packet(0, 4, stream=T)]
        write(store, packet(5, stream=T))
        keeper.run_archive()
        keeper.run_archive()
        assert len(archived(tmp_path / "archive")) == 16


def test_an_hour_is_archived_when_it_is_over(tmp_path):
    now_ns = time.time_ns()
    with opened("sqlite://", tmp_path / "archive", clock_ns=lambda: now_ns) as (store, keeper):
        write(store, packet(0))
        if hour_of(now_ns) == hour_of(time.time_ns()):
            assert not keeper._is_hour_over()
        now_ns -= HOUR_NS
        write(store, packet(1))
        keeper._archived = 1
        assert keeper._is_hour_over()


def test_what_a_run_that_died_has_left_is_made_again(store_url, tmp_path):
    folder = tmp_path / "archive"
    with opened(store_url, folder) as (store, keeper):
        write(store, packet(0))
        keeper.run_archive()
        write(store, packet(1))
        keeper._on_archived = lambda _: (_ for _ in ()).throw(StoreError("it dies"))
        with pytest.raises(StoreError):
            keeper.run_archive()
        assert len(archived(folder)) == 2
        half = next(folder.rglob("*.parquet")).with_name(f".L-{9:019}-{9:019}.parquet")
        half.write_bytes(b"half of it")
        other = half.with_name(f"M-{9:019}-{9:019}.parquet")
    other.write_bytes(b"not ours")
    with opened(store_url, folder) as (store, keeper):
        write(store, packet(2))
        keeper.run_archive()
        assert not half.exists()
        other.unlink()
        assert sorted(row["seq"] for row in archived(folder)) == [0, 1, 2]


def test_a_folder_that_fails_keeps_what_is_not_archived(tmp_path):
    folder = tmp_path / "archive"
    with opened("sqlite://", folder) as (store, keeper):
        write(store, packet(0))
        keeper.archive._write = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        store.collect(S, 0)
        store.commit()
        with pytest.raises(StoreError, match="No space left"):
            keeper.work()
        assert len(store.page(0, 10**6, collected=True).rows) == 1
        del keeper.archive._write
        keeper._swept_at = 0
        keeper.work()
        assert len(store.page(0, 10**6, collected=True).rows) == 0
        assert len(archived(folder)) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the archive"):
        Archive(tmp_path / "file" / "x")


def test_long_and_odd_names_are_paths_all_the_same(tmp_path):
    groups = ["ü" * 200, "ü" * 199 + "v", "..", "a%2Fb", "x=y"]
    with opened("sqlite://", tmp_path / "archive", node="ü" * 200) as (store, keeper):
        write(store, *(packet(0, stream=f"{group}/x") for group in groups))
        keeper.run_archive()
    assert sorted(row["stream"] for row in archived(tmp_path / "archive")) == sorted(f"{group}/x" for group in groups)


def test_every_row_once_through_kill_9(tmp_path):
    """A process that logs, archives, collects and sweeps is killed again and again."""
    url, folder = f"sqlite:///{tmp_path / 'log.db'}", tmp_path / "archive"
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from test_archive_child import run
run({url!r}, {str(folder)!r})
"""
    (tmp_path / "test_archive_child.py").write_text(CHILD)
    draw = random.Random(7)
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}"}
        )
        until(lambda: (tmp_path / "alive").exists())
        time.sleep(draw.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        child.wait(30)
        (tmp_path / "alive").unlink()
    with opened(url, folder) as (store, keeper):
        keeper.run_archive()
        last = store.stored().streams[S].stored[-1][1]
        assert last > 0
        assert sorted(row["seq"] for row in archived(folder)) == [*range(last + 1)]


CHILD = """
from pathlib import Path
from gossamer.logger.archive import Archive
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.event import Content
from gossamer.messages.packet import pack

def run(url, folder):
    store = Store(url)
    keeper = Keeper(store.database, store.on_swept, Archive(Path(folder)))
    keeper._node = "L"
    stream = "default/~a-1.0"
    found = store.stored().streams.get(stream)
    at = found.stored[-1][1] + 1 if found and found.stored else (found.collected + 1 if found else 0)
    Path("alive").touch()
    while True:
        store.apply([pack(stream, at, [Content(attributes={"n": at + k}) for k in range(3)])])
        at += 3
        store.collect(stream, at - 10) if at > 10 else None
        store.commit()
        keeper.work()
        keeper.sweep()
"""
