"""A client that is forgotten, cancelled or left behind by its process leaves nothing behind itself."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

import gossamer
from clients import run, seqs, take
from gossamer.sdk import outgoing
from processes import until


def threads():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("gossamer"))


def descriptors():
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def standing():
    """What there is before a test begins, without what the one before it has forgotten, and with what pyzmq keeps for
    the life of the process once something was sent without a copy."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as push, context.socket(zmq.PULL) as pull:
        pull.bind("inproc://standing")
        push.connect("inproc://standing")
        push.send(bytes(1_000_000), copy=False)
        pull.recv()
    gc.collect()
    until(lambda: "gossamer client" not in threads())
    return threads(), descriptors()


def all_gone(before):
    def gone():
        gc.collect()
        return (threads(), descriptors()) == before

    until(gone, f"{before}, not {threads(), descriptors()}")


def test_a_client_that_is_forgotten_says_goodbye_and_leaves_nothing(broker):
    before = standing()

    async def use():
        client = await gossamer.connect(broker.url)
        sub = await client.subscribe("")
        for n in range(1_000):
            client.publish_nowait({"n": n})
        assert seqs(await take(sub, 10)) == list(range(10))
        return client.stream

    async def main():
        async with gossamer.connect(broker.url) as other:
            sub = await other.subscribe("n >= 0")
            stream = await use()
            gc.collect()
            assert seqs(await take(sub, 1_000)) == list(range(1_000))
            while stream in broker.clients._streams:
                await asyncio.sleep(0.01)
            assert stream not in broker.clients._forsaken  # it did not vanish: it was over
            assert len(broker.clients.deliveries.subscribers) == 1

    run(main)
    all_gone(before)


def test_who_holds_the_subscription_holds_the_client(broker):
    async def main():
        sub = await (await gossamer.connect(broker.url)).subscribe("n > 0")
        gc.collect()
        async with gossamer.connect(broker.url) as client:
            await client.publish({"n": 1})
            assert seqs(await take(sub, 1)) == [1]

    run(main)


def test_a_forgotten_client_takes_its_node_along():
    before = standing()

    async def main():
        client = await gossamer.connect()
        await client.publish({"n": 1}, ack="logged")
        return client._embedded.data

    folder = run(main)
    all_gone(before)
    assert not Path(folder).exists()


def test_a_forgotten_client_of_the_sync_facade_leaves_nothing(broker):
    before = standing()
    client = gossamer.sync.connect(broker.url)
    sub = client.subscribe("")
    client.publish({"n": 1})
    assert sub.get(5).attributes == {"n": 1}
    del client, sub
    all_gone(before)


@pytest.mark.parametrize("way", ["connect", "connect-embedded", "close", "iterate", "publish"])
def test_cancelling_leaves_nothing(broker, way):
    before = standing()

    async def work(started):
        if way.startswith("connect"):
            started.set()
            await gossamer.connect(None if way == "connect-embedded" else "tcp://127.0.0.1:1")
        client = await gossamer.connect(broker.url)
        sub = await client.subscribe("n < 0")
        if way == "publish":
            started.set()
            await client.publish({"n": 1}, ack="logged")  # there is no logger
        if way == "close":
            client.publish_nowait({"n": 1}, bytes(4 * 2**20))
            started.set()
            await client.close()
        async with client:
            started.set()
            async for _ in sub:
                raise AssertionError

    async def main():
        started = asyncio.Event()
        working = asyncio.create_task(work(started))
        await started.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    run(main)
    all_gone(before)


@pytest.mark.parametrize("facade", ["asyncio", "sync", "embedded"])
def test_a_process_that_ends_without_closing_does_not_hang_and_has_sent_everything(broker, facade):
    url = "" if facade == "embedded" else repr(broker.url)
    code = (
        "import asyncio, gossamer\n"
        "kept = []\n"
        "async def main():\n"
        f"    kept.append(await gossamer.connect({url}))\n"
        "    for n in range(1_000):\n"
        "        kept[0].publish_nowait({'n': n})\n"
        "asyncio.run(main())\n"
    )
    if facade == "sync":
        code = (
            "import gossamer\n"
            f"client = gossamer.sync.connect({url})\n"
            "for n in range(1_000):\n"
            "    client.publish_nowait({'n': n})\n"
        )

    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("n >= 0")
            ending = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stderr=subprocess.PIPE)
            _, errors = await ending.communicate()
            assert (ending.returncode, errors) == (0, b"")
            if facade != "embedded":
                assert seqs(await take(sub, 1_000)) == list(range(1_000))

    run(main, patience_s=30)


def test_the_outgoing_buffer_is_bounded_in_bytes_too(broker, monkeypatch):
    monkeypatch.setattr(outgoing, "BYTES_MAX", 10 * 2**20)

    async def main():
        async with gossamer.connect(broker.url) as client:
            with suppress(gossamer.BufferFull):
                while True:
                    client.publish_nowait({}, bytes(2**20))
            assert client._outgoing.pending_bytes < 12 * 2**20
            for _ in range(30):
                await client.publish({}, bytes(2**20))
            await client.flush("safe")
            assert (client.pending, client._outgoing.pending_bytes) == (0, 0)

    run(main)


def test_what_is_too_large_is_the_callers_error_and_nothing_else_suffers(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("")
            with pytest.raises(gossamer.UsageError, match="body"):
                await client.publish({}, bytes(4 * 2**20 + 1))
            with pytest.raises(gossamer.UsageError, match="characters in all"):
                await client.publish({f"a{n}": "x" * 100_000 for n in range(6)})
            with pytest.raises(gossamer.UsageError, match="attributes"):
                await client.publish({f"a{n}": n for n in range(257)})
            transaction = client.transaction()
            for n in range(600):
                transaction.publish({}, key=f"{n:1000}")
            with pytest.raises(gossamer.UsageError, match="transaction's keys"):
                await transaction.__aexit__(None)
            said = {f"a{n}": "é" * 2_000 for n in range(250)}
            large = await client.publish(said, bytes(4 * 2**20), key="k" * 1_024)
            assert large.seq == 0
            assert (await anext(sub)).id == large

    run(main)


class Blind(asyncio.SelectorEventLoop):
    """A loop that cannot watch a descriptor."""

    def add_reader(self, *_):
        raise NotImplementedError

    def remove_reader(self, *_):
        raise NotImplementedError


def test_a_loop_that_cannot_watch_leaves_nothing_open(broker):
    before = standing()

    async def main():
        troubles = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        async with asyncio.timeout(15), gossamer.connect(broker.url) as client:
            sub = await client.subscribe("")
            await client.publish({"n": 1}, ack="sent")
            assert seqs(await take(sub, 1)) == [1]
        assert troubles == []

    with asyncio.Runner(loop_factory=Blind) as runner:
        runner.run(main())
    all_gone(before)


def test_a_client_whose_loop_is_closed_opens_nothing_any_more(brokers):
    first = brokers()
    kept = []

    async def main():
        kept.append(await gossamer.connect(first.url, timeout=15))

    before = standing()
    asyncio.run(main())
    transport, home = kept[0]._transport, kept[0]._home
    open_before = descriptors()
    for session in list(first.clients._sessions.values()):
        session.place._socket.shutdown(2)  # as if the network had gone
    until(lambda: transport.reconnects == 1)
    until(lambda: descriptors() <= open_before, "no more descriptors than before")
    transport.close()
    home.leave()
    kept.clear()
    all_gone(before)


FORKS = """
import os, sys, gossamer
where = sys.argv[1:] or [None]
with gossamer.sync.connect(where[0]) as client:
    sub = client.subscribe("")
    child = os.fork()
    if not child:
        for use in (lambda: client.publish({"n": 0}), client.flush):
            try:
                use()
            except gossamer.ConnectionLost as error:
                assert "fork" in str(error)
            else:
                os._exit(3)
        client.close()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    id = client.publish({"n": 1}, ack="logged" if where[0] is None else "sent", timeout=5)
    assert sub.get(5).id == id
    assert client._client._transport.reconnects == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("embedded", [False, True])
def test_a_child_that_was_forked_leaves_its_parents_client_alone(broker, embedded, tmp_path):
    """Also its node, and the folder of that: the child ends as every process does."""
    arguments = [] if embedded else [broker.url]
    told = subprocess.run(
        [sys.executable, "-c", FORKS, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert told.returncode == 0, told.stderr
    assert list(tmp_path.iterdir()) == []
