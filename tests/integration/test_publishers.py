"""Publishers with a name: one stream across restarts and brokers, and with a spool nothing is lost or doubled."""

import asyncio
import itertools
from pathlib import Path

import pytest

import gossamer
from gossamer.messages.wire import Span
from gossamer.protocol.config import Config
from gossamer.sdk.embedded import Embedded
from gossamer.sdk.outgoing import FLYING_MAX
from gossamer.sdk.spool import Spool
from processes import BRISK, until

SCRIPT = Path(__file__).with_name("named_publisher.py")
PATIENCE_S = 30.0


@pytest.fixture
def node(tmp_path):
    embedded = Embedded.start(data=tmp_path / "data", config=Config(**BRISK, block_seqs=20))
    yield embedded
    embedded.broker.kill()
    embedded.logger.kill()


def run(main):
    async def bounded():
        async with asyncio.timeout(PATIENCE_S):
            return await main()

    return asyncio.run(bounded())


def test_a_named_publisher_goes_on_where_it_was_and_leaves_no_gap(node):
    async def main():
        async with gossamer.connect(node.url) as other:
            sub = await other.subscribe(notices=True)
            for life in range(3):
                async with gossamer.connect(node.url, publisher="feed") as client:
                    assert client.stream == "default/feed"
                    for n in range(50):
                        id = await client.publish({"n": n}, ack="logged" if n == 49 else None)
                        assert id == ("default/feed", 50 * life + n)
            assert [(await anext(sub)).id.seq for _ in range(150)] == list(range(150))

    run(main)


def test_a_second_client_of_a_name_takes_it_over(node):
    async def main():
        first = await gossamer.connect(node.url, publisher="feed")
        await first.publish({"n": 0}, ack="logged")
        sub = await first.subscribe()
        second = await gossamer.connect(node.url, publisher="feed")
        with pytest.raises(gossamer.Superseded):
            await anext(sub)
        with pytest.raises(gossamer.Superseded):
            await first.publish({"n": 1})
        await second.publish({"n": 2}, ack="logged")
        await first.close()
        await second.publish({"n": 3}, ack="logged")
        await second.close()

    run(main)


def test_what_another_client_published_under_the_name_is_obsolete_by_key(node):
    async def main():
        async with gossamer.connect(node.url) as other:
            sub = await other.subscribe("price < 3", notices=True)
            for price in (1, 2, 3):
                async with gossamer.connect(node.url, publisher="feed") as client:
                    await client.publish({"price": price}, key="IBM", ack="logged")
                shown = await anext(sub)
                assert shown == gossamer.Left("IBM", ("default/feed", 1)) if price == 3 else shown.id.seq == price - 1

    run(main)


def test_a_name_is_refused_without_a_logger_and_a_spool_without_a_name(tmp_path):
    with pytest.raises(gossamer.UsageError, match="named publisher"):
        gossamer.connect("tcp://127.0.0.1:1", spool=tmp_path / "spool")
    with pytest.raises(gossamer.UsageError, match="publisher"):
        gossamer.connect("tcp://127.0.0.1:1", publisher="a/b")


def test_a_spool_is_one_publishers_and_one_processs(node, tmp_path):
    async def main():
        spool = tmp_path / "spool"
        async with gossamer.connect(node.url, publisher="feed", spool=spool) as client:
            await client.publish({"n": 0}, ack="sent")
            with pytest.raises(gossamer.UsageError, match="in use"):
                await gossamer.connect(node.url, publisher="feed", spool=spool)
        with pytest.raises(gossamer.UsageError, match="default/feed"):
            await gossamer.connect(node.url, publisher="other", spool=spool)

    run(main)


def test_a_spool_whose_name_was_taken_meanwhile_is_not_sent(node, tmp_path):
    async def main():
        spool = tmp_path / "spool"
        async with gossamer.connect(node.url, publisher="feed", spool=spool) as client:
            await client.publish({"n": 0}, ack="sent")
        async with gossamer.connect(node.url, publisher="feed") as client:
            await client.publish({"n": 1}, ack="logged")
        with pytest.raises(gossamer.Superseded):
            await gossamer.connect(node.url, publisher="feed", spool=spool)

    run(main)


async def fall_silent(client):
    """It ends as if it were killed."""
    client._transport._send = lambda _: None
    await client.close()


def test_a_spool_of_what_this_broker_has_logged_already_is_soon_empty(node, tmp_path, monkeypatch):
    """More packets than may be under way, none of which is news to the broker."""

    async def main():
        spool = tmp_path / "spool"
        first = await gossamer.connect(node.url, publisher="feed", spool=spool)
        monkeypatch.setattr(first._transport._spool, "forget", lambda _: None)
        for n in range(3 * FLYING_MAX):
            await first.publish({"n": n}, ack="logged")
        await fall_silent(first)
        kept = Spool(spool, "default", "feed")
        assert len(kept.unlogged) == 3 * FLYING_MAX
        kept.close()
        async with gossamer.connect(node.url, publisher="feed", spool=spool) as second:
            await second.flush("logged")
            assert await second.publish({"n": -1}, ack="logged") == ("default/feed", 3 * FLYING_MAX)
            assert not second._transport._spool.unlogged

    run(main)


def logged(store, stream):
    """The `n` of every event on disk, in order."""
    stored = store.stored().streams[stream].stored
    return [e.attributes["n"] for part in stored for p in store.load([Span(stream, (part,))]) for e in p.events()]


def told(path, level):
    """The highest `n` of each life that was acknowledged."""
    found: dict[int, int] = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == level and words[1].isdecimal():
            n = int(words[1])
            found[n // 1_000_000] = max(n, found.get(n // 1_000_000, 0))
    return found


@pytest.mark.parametrize("spooled", [True, False], ids=["spool", "no-spool"])
def test_a_publisher_that_is_killed_again_and_again(mesh, tmp_path, spooled):
    """With a spool whatever was sent is logged once, in order; without one, whatever was said to be logged is."""
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    b2, logger = mesh.broker("b2", address).ready(), mesh.logger("L", address).ready()
    path, spool = tmp_path / "told", str(tmp_path / "spool") if spooled else ""
    path.touch()
    for life in range(3):
        urls = f"{b1.url},{b2.url}" if life % 2 else f"{b2.url},{b1.url}"
        publisher = mesh.script(SCRIPT, urls, "feed", spool, str(1_000_000 * life), str(path)).ready()
        until(lambda life=life: told(path, "logged").get(life, 0) > 1_000_000 * life + 500, "some to be logged")
        publisher.kill()

    async def main():
        """The last life has nothing to say, and waits until all is logged that there is."""
        name = {"publisher": "feed", "spool": spool or None}
        async with gossamer.connect([b1.url, b2.url], **name, timeout=PATIENCE_S) as client:
            await client.publish({"n": 9_000_000}, ack="logged")

    run(main)
    logger.terminate()
    with mesh.store("L") as store:
        found = logged(store, "default/feed")
        assert sorted(set(found)) == found, "once, and in order"
        kept = told(path, "sent" if spooled else "logged")
        for life, last in kept.items():
            assert set(range(1_000_000 * life, last + 1)) <= set(found)
        assert found[-1] == 9_000_000


def test_numbers_that_a_killed_publisher_left_unused_are_no_loss(mesh, tmp_path):
    settings = mesh.folder / "gossamer.toml"
    settings.write_text(settings.read_text() + "block_seqs = 5000\nretain_s = 0.1\n")
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    logger = mesh.logger("L", address).ready()
    path = tmp_path / "told"
    path.touch()
    publisher = mesh.script(SCRIPT, b1.url, "feed", "", "0", str(path)).ready()
    until(lambda: told(path, "logged").get(0, 0) > 10, "some to be logged")
    publisher.kill()

    async def main():
        async with gossamer.connect(b1.url, publisher="feed", timeout=PATIENCE_S) as client:
            first = await client.publish({"n": 9_000_000}, ack="logged")
            last = await client.publish({"n": 9_000_001}, ack="logged")
            until(lambda: collected(mesh, "L", "default/feed") >= last.seq, "all to be collected")
            logger.terminate()
            mesh.logger("L", address).ready()
            sub = await client.subscribe("", start={"default/feed": 0}, notices=True, buffer=10_000)
            going_on = asyncio.create_task(publish_on(client, 9_000_002))  # the first of them may be collected, too
            gaps = []
            while not isinstance(said := await anext(sub), gossamer.Event):
                gaps.append(said)
            going_on.cancel()
            return first.seq, gaps, said, sub.stats.lost

    first, gaps, said, lost = run(main)
    assert said.attributes["n"] >= 9_000_002
    assert {gap.reason for gap in gaps} == {"collected"}
    assert lost == sum(gap.last - gap.first + 1 for gap in gaps)
    assert lost < first, "not all numbers before the second life were used"


async def publish_on(client, first):
    for n in itertools.count(first):
        await client.publish({"n": n})
        await asyncio.sleep(0.05)


def collected(mesh, name, stream):
    with mesh.store(name, copy=f"copy-{name}") as store:
        found = store.stored().streams.get(stream)
        return -1 if found is None else found.collected
