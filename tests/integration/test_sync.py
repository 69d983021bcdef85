"""The SDK without asyncio: the same, from threads."""

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
