"""The SDK without asyncio: the same, from threads."""

import asyncio
import logging
import threading
from contextlib import suppress

import pytest

import gossamer
from gossamer.broker.runtime import Runtime
from gossamer.broker.sessions import Sessions
from gossamer.protocol.config import Config
from processes import BRISK, until


@pytest.fixture
def url():
    clients = Sessions()
    runtime = Runtime(config=Config(**BRISK), clients=clients).start()
    until(lambda: runtime.status == "member")
    yield clients.address
    runtime.kill()


def test_it_publishes_subscribes_updates_and_ends(url):
    with gossamer.sync.connect(url) as client:
        sub = client.subscribe("n > 1")
        for n in range(4):
            client.publish({"n": n})
        client.flush()
        assert [sub.get(5).attributes["n"] for _ in range(2)] == [2, 3]
        with pytest.raises(gossamer.Timeout):
            sub.get(0.05)
        sub.update("n < 0")
        id = client.publish({"n": -1}, ack="sent")
        assert next(sub).id == id
        sub.close()
        assert list(sub) == []


def test_a_timeout_loses_nothing_however_close_it_is(url):
    with gossamer.sync.connect(url) as client, gossamer.sync.connect(url) as other:
        sub = client.subscribe("")
        threads = [threading.Thread(target=lambda: [other.publish({}, ack="sent") for _ in range(300)])]
        threads[0].start()
        found = []
        while len(found) < 300 and (threads[0].is_alive() or sub.stats.delivered < 300):
            with suppress(gossamer.Timeout):
                found.append(sub.get(0.0005).id.seq)
        threads[0].join()
        assert found == list(range(300))


def test_what_came_when_somebody_was_interrupted_is_for_the_next_one(url, monkeypatch):
    with gossamer.sync.connect(url) as client:
        sub = client.subscribe("", policy="none")
        begin = asyncio.run_coroutine_threadsafe

        def interrupted(doing, loop):
            future = begin(doing, loop)
            result = future.result

            def after_it_was_done():
                result()
                raise KeyboardInterrupt

            future.result = after_it_was_done
            return future

        for n in range(3):
            client.publish({"n": n}, ack="sent")
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sub.get(5)
        with pytest.raises(KeyboardInterrupt):
            next(sub.batches())
        monkeypatch.undo()
        assert [sub.get(5).attributes["n"] for _ in range(3)] == [0, 1, 2]
        assert sub.stats.delivered == 3


def test_batches_hand_out_what_is_there(url):
    with gossamer.sync.connect(url) as client:
        sub = client.subscribe("")
        for n in range(100):
            client.publish({"n": n})
        found = []
        for batch in sub.batches():
            found += [event.attributes["n"] for event in batch]
            if len(found) == 100:
                sub.close()
        assert found == list(range(100))


def test_a_client_that_is_closed_says_so(url):
    client = gossamer.sync.connect(url)
    sub = client.subscribe("")
    threads = [threading.Thread(target=lambda: list(sub))]
    threads[0].start()
    client.close()
    threads[0].join()
    for use in (client.flush, client.subscribe, lambda: client.publish({}), lambda: sub.update("a = 1")):
        with pytest.raises(gossamer.ConnectionLost, match="the client is closed"):
            use()
    assert list(sub) == []
    sub.close()
    client.close()


def test_an_ack_that_there_is_not_publishes_nothing(url):
    with gossamer.sync.connect(url) as client:
        for use in (
            lambda: client.publish({}, ack="soon"),
            lambda: client.delete("k", ack="soon"),
            lambda: client.transaction(ack="soon"),
        ):
            with pytest.raises(gossamer.UsageError, match="soon"):
                use()
        assert client.publish({}, ack="sent").seq == 0


def test_threads_publish_side_by_side(url):
    with gossamer.sync.connect(url) as client:
        sub = client.subscribe("")

        def publish(who):
            for n in range(500):
                client.publish({"who": who, "n": n})

        threads = [threading.Thread(target=publish, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        found = [sub.get(10) for _ in range(2_000)]
        for thread in threads:
            thread.join()
        for who in range(4):
            assert [event.attributes["n"] for event in found if event.attributes["who"] == who] == list(range(500))
        assert [event.id.seq for event in found] == list(range(2_000))


def test_threads_publish_delete_and_commit_side_by_side(url):
    with gossamer.sync.connect(url) as client:
        sub = client.subscribe("", notices=True, policy="none")

        def work(who):
            for n in range(100):
                client.publish({"who": who, "n": n}, key=f"{who}-{n}")
                client.delete(f"{who}-{n}", {"who": who, "n": n})
                with client.transaction() as tx:
                    tx.publish({"who": who, "n": n, "part": 1}, key=f"{who} a")
                    tx.publish({"who": who, "n": n, "part": 2}, key=f"{who} b")

        threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        found = [sub.get(10) for _ in range(3 * 100 * 5)]
        for thread in threads:
            thread.join()
        for at, said in enumerate(found):
            if isinstance(said, gossamer.Commit):
                one, two = found[at - 2 : at]
                assert (one.attributes["part"], two.attributes["part"]) == (1, 2)
                assert one.attributes["who"] == two.attributes["who"]
        for who in range(3):
            mine = [said for said in found if isinstance(said, gossamer.Event) and said.attributes["who"] == who]
            assert [said.attributes["n"] for said in mine] == [n for n in range(100) for _ in range(4)]
        assert client.pending == 0 or client.flush("safe") is None


def test_a_transaction_that_fails_publishes_nothing(url):
    with gossamer.sync.connect(url) as client:
        sub = client.subscribe("")
        with suppress(ZeroDivisionError), client.transaction() as tx:
            tx.publish({"n": 1})
            raise ZeroDivisionError
        client.publish({"n": 2})
        assert sub.get(5).attributes == {"n": 2}


def test_errors_are_those_of_the_caller(url):
    with pytest.raises(gossamer.ConnectionLost):
        gossamer.sync.connect("tcp://127.0.0.1:1", timeout=0.2)
    with gossamer.sync.connect(url) as client, pytest.raises(gossamer.SelectorError):
        client.subscribe("price >")


@pytest.fixture
def warnings():
    """What clients warn of."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Kept(logging.WARNING)
    logger = logging.getLogger("gossamer.client")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def test_client_without_a_broker_warns_once_for_whom_it_waits_and_goes_on(mesh, warnings):
    address = mesh.address()
    connected = []

    def connect() -> None:
        with gossamer.sync.connect(address, timeout=60) as client:
            connected.append(client.publish({"n": 1}, ack="sent"))

    thread = threading.Thread(target=connect)
    thread.start()
    until(lambda: warnings, "a warning")
    assert thread.is_alive()
    assert not connected
    mesh.broker("b1", listen=address).ready()
    thread.join(30)
    assert connected
    command = f"gossamer up --listen {address}"
    assert warnings == [f"waiting up to 60 s for a broker at {address} (Connection refused): `{command}` starts one"]


def test_client_whose_broker_is_killed_warns_for_whom_it_waits(mesh, warnings):
    b1 = mesh.broker("b1").ready()
    with gossamer.sync.connect(b1.url, timeout=60) as client:
        client.publish({"n": 1}, ack="sent")
        assert warnings == []
        b1.kill()
        until(lambda: warnings, "a warning")
        mesh.broker("b2", listen=b1.url).ready()
        client.publish({"n": 2}, ack="sent")
    assert len(warnings) == 1
    assert warnings[0].startswith(f"waiting up to 60 s for a broker at {b1.url} (Connection refused)")


def test_error_after_the_timeout_names_the_broker_and_what_starts_one():
    with pytest.raises(gossamer.ConnectionLost) as error:
        gossamer.sync.connect(["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"], timeout=0.2)
    assert str(error.value) == (
        "no broker within 0.2 s at tcp://127.0.0.1:1, tcp://127.0.0.1:2 (Connection refused): "
        "`gossamer up --listen tcp://127.0.0.1:1` starts one"
    )
