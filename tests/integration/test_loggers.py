"""Several loggers: how many make an event logged, and how one that was down comes to have what it missed."""

import asyncio
import os
import signal

import pytest

import gossamer
from gossamer.messages.ids import issued_by
from gossamer.messages.wire import Span
from processes import until


def started(mesh, loggers_min=1):
    settings = mesh.folder / "gossamer.toml"
    settings.write_text(settings.read_text() + f"loggers_min = {loggers_min}\n")
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    return b1, mesh.logger("K", address).ready(), mesh.logger("L", address).ready()


def publish(url, count, ack="logged", timeout=None):
    async def main():
        async with gossamer.connect(url) as client:
            for n in range(count):
                await client.publish({"n": n})
            await client.flush(ack, timeout)
            return client.stream

    return asyncio.run(main())


def stored(mesh, name, stream):
    with mesh.store(name, copy=f"copy-{name}") as store:
        return [e.attributes["n"] for p in store.load([Span(stream, ((0, 10**6),))]) for e in p.events()]


def test_a_logger_that_was_down_catches_up_from_the_other(mesh):
    b1, _, second = started(mesh)
    first = publish(b1.url, 1)
    until(lambda: stored(mesh, "L", first), "L to be known to all")
    second.kill()
    stream = publish(b1.url, 5_000)
    mesh.logger("L", b1.address).ready()
    until(lambda: len(stored(mesh, "L", stream)) == 5_000, "L to have what it missed")
    assert stored(mesh, "L", stream) == list(range(5_000))


def test_what_is_logged_is_on_as_many_disks_as_was_said(mesh):
    b1, _, second = started(mesh, loggers_min=2)
    stream = publish(b1.url, 100)
    assert stored(mesh, "K", stream) == stored(mesh, "L", stream) == list(range(100))
    second.kill()
    with pytest.raises(gossamer.Timeout):
        publish(b1.url, 1, timeout=1.0)


def read_all(url, count):
    """Every event that `start="all"` yields up to a live event published after it, and the gaps told meanwhile."""

    async def main():
        async with gossamer.connect(url) as client:
            sub = await client.subscribe("n >= 0 OR last", start="all", buffer=count + 10, notices=True, policy="none")
            await client.publish({"last": True})
            said = []
            async for each in sub:
                said.append(each)
                if isinstance(each, gossamer.Event) and each.id.stream == client.stream:
                    break
            gaps = [each.reason for each in said if isinstance(each, gossamer.Gap)]
            events = [each.attributes for each in said if isinstance(each, gossamer.Event)]
            return [attributes["n"] for attributes in events if "n" in attributes], gaps

    return asyncio.run(main())


def test_replay_is_complete_after_a_logger_was_added(mesh):
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    mesh.logger("K", address).ready()
    stream = publish(b1.url, 500)
    until(lambda: is_retired(mesh, "K", stream), "the stream to be over")
    mesh.logger("L", address).ready()
    for _ in range(4):  # brokers read their loggers by turns
        found, gaps = read_all(b1.url, 500)
        assert sorted(found) == list(range(500))
        assert gaps == []
    until(lambda: stored(mesh, "L", stream) == list(range(500)), "L to have copied the finished stream")


def test_replay_names_a_dead_logger_whose_streams_were_not_copied(mesh):
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    first = mesh.logger("K", address).ready()
    stream = publish(b1.url, 5)
    until(lambda: is_retired(mesh, "K", stream), "the stream to be over")
    first.kill()
    mesh.logger("L", address).ready()
    found, gaps = read_all(b1.url, 5)
    assert found == []
    assert gaps == ["finished streams of K may be missing: not copied yet, and not reachable"]


def test_replay_does_not_wait_for_a_dead_or_paused_logger(mesh):
    b1, _, second = started(mesh)
    publish(b1.url, 50)
    for end in (lambda: os.kill(second.pid, signal.SIGSTOP), second.kill):
        end()
        for _ in range(4):  # brokers read their loggers by turns
            found, gaps = read_all(b1.url, 50)
            assert (sorted(found), gaps) == (list(range(50)), [])
    assert "does not answer" not in b1.errors()


def is_retired(mesh, name, stream):
    with mesh.store(name, copy=f"copy-{name}") as store:
        return any(entry.issuer == issued_by(stream).issuer for entry in store.stored().retired)


def with_small_blocks(mesh):
    settings = mesh.folder / "gossamer.toml"
    settings.write_text(settings.read_text() + "block_seqs = 20\n")
    return started(mesh)


def test_named_publisher_goes_on_beyond_its_block_while_one_of_two_loggers_is_down(mesh):
    b1, _, second = with_small_blocks(mesh)

    async def main():
        async with asyncio.timeout(30), gossamer.connect(b1.url, publisher="feed") as client:
            await client.publish({"n": 0}, ack="logged")
            second.kill()
            for n in range(1, 200):
                await client.publish({"n": n})
            await client.flush("logged")
            return client.stream

    assert stored(mesh, "K", asyncio.run(main())) == list(range(200))


def test_new_named_publisher_is_told_which_logger_has_not_voted(mesh):
    b1, _, second = with_small_blocks(mesh)
    publish(b1.url, 1)  # both loggers are known
    second.kill()

    async def main():
        async with gossamer.connect(b1.url, publisher="another", timeout=5):
            pass

    with pytest.raises(gossamer.ConnectionLost, match=r"needs the votes of 2 of 2 loggers; no answer from L\)"):
        asyncio.run(main())
