"""Subscriptions that begin in the past, fall far behind or lose their broker read from loggers, and lose nothing."""

import json
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import gossamer
from clients import Broker, run, seqs, take, two, wait_for_members
from processes import GOSSAMER, Processes, until


def test_a_subscription_begins_where_it_is_told_to():
    async def main():
        async with gossamer.connect() as client:
            for n in range(100):
                await client.publish({"n": n})
            await client.flush("logged")
            then = datetime.now(UTC)
            for n in range(100, 200):
                await client.publish({"n": n})
            everything = await client.subscribe("", start="all")
            assert seqs(await take(everything, 50)) == list(range(50))
            position = json.loads(json.dumps(everything.position))
            some = await client.subscribe("n >= 90 AND n < 110", start="all")
            late = await client.subscribe("", start=then)
            again = await client.subscribe("", start=position)
            bare = await client.subscribe("", start={client.stream: 149})
            assert seqs(await take(everything, 150)) == list(range(50, 200))
            assert seqs(await take(some, 20)) == list(range(90, 110))
            assert seqs(await take(late, 100)) == list(range(100, 200))
            assert seqs(await take(again, 150)) == list(range(50, 200))
            assert seqs(await take(bare, 50)) == list(range(150, 200))
            await client.publish({"n": 200})
            for sub in (everything, late, again, bare):
                assert seqs(await take(sub, 1)) == [200]
                assert sub.stats.lost == 0

    run(main)


def test_the_latest_is_the_newest_of_each_key():
    async def main():
        async with gossamer.connect() as client:
            for n in range(300):
                await client.publish({"n": n}, key=f"k{n % 3}")
                await client.publish({"n": -n})
            await client.delete("k1")
            await client.publish({"n": 7}, key="shared", scope="group", rank=7)
            await client.publish({"n": 5}, key="shared", scope="group", rank=5)
            async with client.transaction() as tx:
                tx.publish({"n": 1_000}, key="t")
                tx.publish({"n": 1_001}, key="k2")
            await client.flush("sent")
            sub = await client.subscribe("", start="last_per_key")
            few = await client.subscribe("n < 1000", start="last_per_key", notices=True)
            await client.publish({"n": 2_000})
            shown = await take(sub, 5)
            assert {event.key: event.attributes["n"] for event in shown} == {
                "k0": 297, "k2": 1_001, "t": 1_000, "shared": 7, None: 2_000,
            }  # fmt: skip
            assert {event.key for event in await take(few, 2)} == {"k0", "shared"}
            await client.publish({"n": 2_001}, key="k0")
            assert seqs(await take(sub, 1)) == [2_001]
            assert (await anext(few)).key == "k0"
            assert few.stats.left == 1

    run(main)


def test_wrong_beginnings_are_the_callers_error(broker: Broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            naive = datetime.now()
            for wrong in ("yesterday", None, 7, naive, {"default/x": -2}, {"default/x": "1"}, {"other/x": 1}):
                with pytest.raises(gossamer.UsageError, match="start"):
                    await client.subscribe("", start=wrong)
            with pytest.raises(gossamer.UsageError, match="no logger"):
                await client.subscribe("", start="all")
            sub = await client.subscribe("")
            await client.publish({"n": 1})
            assert seqs(await take(sub, 1)) == [1]

    run(main)


def test_replay_goes_over_to_live_under_full_load(mesh: Processes):
    broker = mesh.broker("b1").ready()
    logger = mesh.logger("L", broker.address).ready()
    wait_for_members(broker, logger)
    count = 40_000

    def publish() -> None:
        with gossamer.sync.connect(broker.url, group="load") as client:
            for n in range(count):
                client.publish({"n": n}, key=f"k{n % 100}" if n % 2 else None)
            client.flush("logged", 30)

    publisher = threading.Thread(target=publish)
    publisher.start()

    async def main() -> None:
        async with gossamer.connect(broker.url, group="load") as client:
            subs = [await client.subscribe(text, start="all", policy="none") for text in ("", "n >= 0", "n < 20000")]
            for sub, expected in zip(subs, (count, count, 20_000), strict=True):
                assert seqs(await take(sub, expected)) == list(range(expected))
                assert (sub.stats.lost, sub.stats.obsoleted) == (0, 0)

    run(main, patience_s=60)
    publisher.join()


def test_who_falls_out_of_the_brokers_log_goes_on_from_a_logger(mesh: Processes, brokers: Callable[..., Broker]):
    broker = brokers(log_bytes_max=20_000)
    logger = mesh.logger("L", broker.address).ready()
    until(lambda: len(broker.runtime.members) == 2)
    assert logger.alive()
    count = 5_000

    async def main() -> None:
        async with two(broker.url, broker.url) as (publisher, client):
            slow = await client.subscribe("n >= 0", buffer=10, notices=True)
            keyed = await client.subscribe("n >= 0", buffer=10)
            for n in range(count):
                await publisher.publish({"n": n}, bytes(50), key=None if n % 2 else f"k{n % 20}")
            await publisher.flush("logged")
            said = [each for each in await take(slow, count // 2 + 10) if isinstance(each, gossamer.Event)]
            unkeyed = [each.attributes["n"] for each in said if each.key is None]
            assert unkeyed == list(range(1, count, 2))[: len(unkeyed)]
            state: dict[str | None, int] = {}
            odd = 0
            async for event in keyed:
                state[event.key] = event.attributes["n"]
                odd += event.key is None
                if odd == count // 2:
                    break
            assert {key: n for key, n in state.items() if key} == {f"k{n}": count - 20 + n for n in range(0, 20, 2)}, (
                "the newest of each key"
            )
            assert (slow.stats.lost, keyed.stats.lost) == (0, 0)
            assert keyed.stats.delivered + keyed.stats.obsoleted == count

    run(main, patience_s=60)
    assert broker.clients.deliveries.catching_up.readings.pages > 0


def test_a_client_goes_on_at_a_broker_that_was_not_there_before(mesh: Processes):
    first = mesh.broker("b1").ready()
    logger = mesh.logger("L", first.address).ready()
    wait_for_members(first, logger)
    url = mesh.address()
    count = 3_000

    async def main() -> None:
        async with two(first.url, [first.url, url]) as (publisher, client):
            sub = await client.subscribe("n >= 0", buffer=10, notices=True)
            for n in range(10):
                await publisher.publish({"n": n}, key=f"k{n}")
            assert seqs(await take(sub, 10)) == list(range(10))
            for n in range(10, count):
                await publisher.publish({"n": n})
            await publisher.publish({"n": -1}, key="k3")
            await publisher.flush("logged")
            first.kill()
            mesh.broker("b2", logger.address, listen=url)
            said = await take(sub, count - 10 + 1)
            assert [each.attributes["n"] for each in said[:-1]] == list(range(10, count))
            assert said[-1] == gossamer.Left("k3", said[-1].event), "another broker has shown it"
            assert said[-1].event.seq == 3
            assert (sub.stats.lost, client.node) == (0, "b2")

    run(main, patience_s=60)


def test_the_command_line_takes_beginnings(mesh: Processes):
    broker = mesh.broker("b1").ready()
    logger = mesh.logger("L", broker.address).ready()
    wait_for_members(broker, logger)

    async def main() -> str:
        async with gossamer.connect(broker.url) as client:
            for n in range(5):
                await client.publish({"n": n}, key="k", ack="logged")
            return client.stream

    stream = run(main)

    def sub(start: str, count: int) -> list[int]:
        command = [*GOSSAMER, "sub", "n >= 0", "--json", "--url", broker.url, "--start", start, "--count", str(count)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return [json.loads(line)["attributes"]["n"] for line in told.splitlines()]

    assert sub("last_per_key", 1) == [4]
    assert sub((datetime.now(UTC) - timedelta(hours=1)).isoformat(), 5) == [0, 1, 2, 3, 4]
    assert sub(json.dumps({stream: 2}), 2) == [3, 4]
    wrong = subprocess.run(
        [*GOSSAMER, "sub", "--start", "noon"], capture_output=True, text=True, timeout=30, check=False
    )
    assert wrong.returncode == 2
    assert "--start: new, all, last_per_key" in wrong.stderr
