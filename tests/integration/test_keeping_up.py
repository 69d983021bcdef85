"""A subscriber that keeps up sees every matching event; so do replays and durable subscriptions, however slow."""

import asyncio
import json
import subprocess

import pytest

import gossamer
from clients import run, take
from gossamer.broker.runtime import Runtime
from gossamer.broker.session import ClientLimits
from gossamer.broker.sessions import Sessions
from gossamer.protocol.config import Config
from gossamer.sdk.embedded import Embedded
from processes import GOSSAMER, Process, until

EVENTS = 2_000


@pytest.fixture
def node(tmp_path):
    """Patient enough for a machine that is busy with other things."""
    embedded = Embedded.start(data=tmp_path / "data", limits=ClientLimits(purge_patience_s=30.0))
    yield embedded
    embedded.broker.kill()
    embedded.logger.kill()


async def publish(url, events=EVENTS, keys=1):
    """Prices that leave `price > 100` and return to it, under a few keys."""
    async with gossamer.connect(url) as client:
        for n in range(events):
            await client.publish({"n": n, "price": 99 if n % 2 else 101}, key=f"k{n // 2 % keys}")
        await client.flush("logged")


def test_an_idle_reader_sees_every_event_of_a_key_that_leaves_its_selector_and_returns(node):
    async def main():
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe("price > 100")
            publishing = asyncio.create_task(publish(node.url))
            found = await take(sub, EVENTS // 2)
            await publishing
            assert [event.attributes["n"] for event in found] == list(range(0, EVENTS, 2))
            stats = sub.stats
            assert (stats.delivered, stats.obsoleted, stats.lost) == (EVENTS // 2, 0, 0)

    run(main, patience_s=60)


def test_a_replay_delivers_everything_and_eager_opts_into_less(node):
    async def main():
        await publish(node.url, keys=3)
        async with gossamer.connect(node.url) as client:
            everything = await client.subscribe("", start="all", buffer=10)
            assert [event.attributes["n"] for event in await take(everything, EVENTS)] == list(range(EVENTS))
            assert everything.stats.obsoleted == 0
            less = await client.subscribe("", start="all", policy="eager")
            while less.stats.delivered + less.stats.obsoleted < EVENTS:
                last = await anext(less)
            assert last.attributes["n"] == EVENTS - 1
            assert less.stats.obsoleted > 0

    run(main, patience_s=60)


def test_a_durable_subscription_that_was_away_gets_everything(node):
    async def main():
        async with gossamer.connect(node.url) as client:
            await client.subscribe("price > 100", durable="ledger")
        await publish(node.url, 2 * EVENTS)
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe("price > 100", durable="ledger")
            found = await take(sub, EVENTS)
            assert [event.attributes["n"] for event in found] == list(range(0, 2 * EVENTS, 2))
            assert (sub.stats.obsoleted, sub.stats.lost) == (0, 0)

    run(main, patience_s=60)


def test_the_command_line_prints_everything_that_is_logged(tmp_path):
    process = Process(tmp_path, [*GOSSAMER, "up", "--json", "--data", str(tmp_path / "data")]).ready()
    try:
        run(publish, process.url, EVENTS, 3, patience_s=60)
        command = [*GOSSAMER, "sub", "--json", "--start", "all", "--count", str(EVENTS), "--url", process.url]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert [json.loads(line)["attributes"]["n"] for line in told.splitlines()] == list(range(EVENTS))
        newest = [*GOSSAMER, "sub", "n >= 0", "--json", "--start", "last_per_key", "--policy", "eager", "--count", "3"]
        told = subprocess.run(
            [*newest, "--url", process.url], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        assert sorted(json.loads(line)["key"] for line in told.splitlines()) == ["k0", "k1", "k2"]
        wrong = [*GOSSAMER, "sub", "--policy", "greedy", "--url", process.url]
        refused = subprocess.run(wrong, capture_output=True, text=True, timeout=60, check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert 'policy: "auto", "eager", "lazy", "random" or "none", not \'greedy\'' in refused.stderr
        assert process.terminate() == 0
    finally:
        process.close()


def test_policies_of_gossamer_sync(node):
    with gossamer.sync.connect(node.url) as client:
        sub = client.subscribe("price > 100", policy="none")
        for n in range(100):
            client.publish({"n": n, "price": 99 if n % 2 else 101}, key="k")
        assert [sub.get(30).attributes["n"] for _ in range(50)] == list(range(0, 100, 2))
        with pytest.raises(gossamer.UsageError, match="policy"):
            client.subscribe("", policy="greedy")
        with pytest.raises(gossamer.UsageError, match='"last_per_key"'):
            client.subscribe("", start="latest")


def test_what_a_saturated_link_purged_comes_from_a_logger(node):
    """The publisher's broker may have 200 bytes under way to each peer: it purges for brokers, not for the logger."""
    narrow = Config(link_window_bytes=200, link_patience_s=0.0)
    far = Runtime(peers=(node.broker.address,), config=narrow, clients=Sessions()).start()
    until(lambda: far.status == "member", "the broker to be a member")
    assert far.clients is not None
    url = far.clients.address

    async def main():
        async with gossamer.connect(node.url) as client, gossamer.connect(url) as publisher:
            every = await client.subscribe("n >= 0", policy="none")
            some = await client.subscribe("n >= 0")
            for n in range(600):
                await publisher.publish({"n": n}, bytes(50), key=f"k{n % 3}", ack="sent" if n % 3 == 2 else None)
            found = await take(every, 600)
            assert [event.attributes["n"] for event in found] == list(range(600))
            assert (every.stats.obsoleted, every.stats.lost) == (0, 0)
            purged = 600
            while (await anext(some)).attributes["n"] < 599:
                purged -= 1
            assert purged > 1, "the link was not saturated"

    try:
        run(main, patience_s=60)
    finally:
        far.kill()
