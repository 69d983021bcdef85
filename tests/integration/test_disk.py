"""Disks that are full, for real: nothing is acknowledged that is not on them, and it goes on when there is room."""

import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from machines import S, packet

WRITE = """
import os, resource, sys, threading, time
from pathlib import Path
from gossamer.logger.checking import check
from gossamer.logger.databases import database
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.messages.wire import Span

folder, how = Path(sys.argv[1]), sys.argv[2]
url, stream = f"sqlite:///{folder}/log.db", "default/~a-1.0"
ballast = folder / "ballast"

def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, (writer.trouble, writer.keeper.trouble, len(acked), sent)
        time.sleep(0.01)

writer, acked, sent = Writer(Store(url)), [], 0
if how == "tmpfs":
    ballast.write_bytes(bytes(7 * 2**20))
writer.start(lambda answer: acked.append(answer.token), "L")
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * 2**20, resource.RLIM_INFINITY))

def persist():
    global sent
    contents = [Content(attributes={"n": n}, body=os.urandom(10_000)) for n in range(4)]
    writer.persist(sent, (pack(stream, sent * 4, contents),))
    sent += 1

while writer.trouble is None and sent < 2_000:
    persist()
    seen = sent
    until(lambda: len(acked) == seen or writer.trouble)
assert writer.trouble, "the disk was never full"
for _ in range(5):
    persist()
done = len(acked)
before = writer.commits
assert done < sent
with_trouble = [int(row[0]) for row in writer._store.page(0, 2**30).rows]
assert len(with_trouble) >= done, "what is on disk can be read meanwhile"
if how == "tmpfs":
    ballast.unlink()
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
until(lambda: len(acked) == sent and writer.trouble is None)
assert acked == list(range(sent)), "in order, each once"
until(lambda: writer._store.derived() == sent and writer.keeper.trouble is None)
writer.close()
with Store(url) as store:
    assert store.stored().streams[stream].stored == ((0, sent * 4 - 1),)
    assert store.load([Span(stream, ((0, sent * 4),))])[-1].last == sent * 4 - 1
checked = check(database(url), print)
assert checked.ok and checked.derived == sent * 4, checked
print("done", done, "of", sent, "before it was full")
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_full_file_system(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=12m none {tmp_path}"
    if run("unshare", "-rm", "sh", "-c", mount).returncode:
        pytest.skip("a full file system is NOT tested: no private mounts here (unshare -rm)")
    (script := tmp_path.parent / f"{tmp_path.name}.py").write_text(WRITE)
    done = run("unshare", "-rm", "sh", "-c", f"{mount} && {sys.executable} {script} {tmp_path} tmpfs")
    assert done.returncode == 0, done.stderr
    assert "before it was full" in done.stdout


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", WRITE, str(tmp_path), "limit")
    assert done.returncode == 0, done.stderr
    assert "before it was full" in done.stdout


def test_space_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    with Store(f"sqlite:///{file}") as store:
        keeper = Keeper(store.database, store.on_swept)
        for first in range(0, 2_000, 100):
            store.apply([packet(first + n, body=bytes(8_000)) for n in range(100)])
            store.commit()
        keeper.work()
        store._engine.dispose()
        full = file.stat().st_size
        assert full > 30 * 10**6
        store.collect(S, 1_900)
        store.commit()
        keeper.sweep()
        keeper.work()
        keeper.close()
    assert file.stat().st_size < full / 3


def test_names_that_nobody_can_have_are_not_stored(store_url: str) -> None:
    with Store(store_url) as store:
        store.apply([packet(0, stream="default/a\0b"), packet(0)])
        store.commit()
        assert store.refused == 1
        assert [row[2] for row in store.page(0, 10**6).rows] == [packet(0)]
