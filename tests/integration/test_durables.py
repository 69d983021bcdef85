"""Durable subscriptions: complete across disconnection, crash and broker change."""

import asyncio
from datetime import UTC, datetime

import pytest

import gossamer
from gossamer.protocol.config import Config
from gossamer.sdk.embedded import Embedded
from processes import BRISK

PATIENCE_S = 40.0


@pytest.fixture
def node(tmp_path):
    embedded = Embedded.start(data=tmp_path / "data", config=Config(**BRISK))
    yield embedded
    embedded.broker.kill()
    embedded.logger.kill()


def run(main):
    async def bounded():
        async with asyncio.timeout(PATIENCE_S):
            return await main()

    return asyncio.run(bounded())


async def take(sub, count):
    return [(await anext(sub)).attributes["n"] for _ in range(count)]


async def publish(url, first, last, **options):
    async with gossamer.connect(url) as client:
        for n in range(first, last):
            await client.publish({"n": n}, **options)
        await client.flush("logged")


def test_who_was_away_goes_on_where_it_was(node):
    async def main():
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe("n >= 0", durable="orders")
            await publish(node.url, 0, 10)
            assert await take(sub, 5) == [0, 1, 2, 3, 4]
        await publish(node.url, 10, 20)
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe("n >= 0", durable="orders")
            assert await take(sub, 10) == list(range(5, 15))
            await publish(node.url, 20, 25)
            assert await take(sub, 10) == list(range(15, 25))
            assert sub.stats.lost == 0

    run(main)


def test_what_it_fails_at_comes_again_and_what_it_was_done_with_does_not(node):
    async def fail_at(n):
        async with gossamer.connect(node.url) as client:
            async for event in await client.subscribe(durable="orders"):
                1 // (n - event.attributes["n"])

    async def main():
        async with gossamer.connect(node.url) as client:
            await client.subscribe(durable="orders")
        await publish(node.url, 0, 5)
        with pytest.raises(ZeroDivisionError):
            await fail_at(2)
        async with gossamer.connect(node.url) as client:
            assert await take(await client.subscribe(durable="orders"), 3) == [2, 3, 4]

    run(main)


def test_with_manual_acknowledgement_the_first_that_is_not_done_holds_the_position(node):
    async def main():
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe(durable="orders", ack="manual")
            await publish(node.url, 0, 6)
            events = [await anext(sub) for _ in range(6)]
            for n in (0, 1, 3, 4):
                await sub.ack(events[n])
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe(durable="orders", ack="manual")
            assert await take(sub, 4) == [2, 3, 4, 5]

    run(main)


def test_it_moves_over_what_does_not_match(node):
    """Nothing would ever be stable otherwise."""

    async def main():
        async with gossamer.connect(node.url) as client:
            await client.subscribe("n < 0", durable="orders")
            async with gossamer.connect(node.url) as publisher:
                for n in range(10):
                    await publisher.publish({"n": n}, ack="logged")
                bookmarks = node.logger.node.bookmarks.positions["~default/orders"]
                while bookmarks.get(publisher.stream) != 9:
                    await asyncio.sleep(0.05)

    run(main)


def test_a_second_client_takes_it_over(node):
    async def main():
        async with gossamer.connect(node.url) as first, gossamer.connect(node.url) as second:
            sub = await first.subscribe(durable="orders", ack="manual")
            await publish(node.url, 0, 3)
            assert await take(sub, 3) == [0, 1, 2]
            other = await second.subscribe(durable="orders")
            with pytest.raises(gossamer.Superseded):
                await anext(sub)
            await first.publish({"n": 3}, ack="logged")  # all else goes on
            assert await take(other, 4) == [0, 1, 2, 3]

    run(main)


def test_one_that_is_forgotten_begins_anew(node):
    async def main():
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe(durable="orders")
            await publish(node.url, 0, 5)
            await take(sub, 1)
            await sub.close(forget=True)
            again = await client.subscribe(durable="orders")
            await publish(node.url, 5, 7)
            assert await take(again, 2) == [5, 6]

    run(main)


def test_the_start_counts_the_first_time(node):
    async def main():
        await publish(node.url, 0, 5)
        for expected in ([0, 1], [2, 3, 4]):
            async with gossamer.connect(node.url) as client:
                sub = await client.subscribe(durable="orders", start="all")
                assert await take(sub, len(expected)) == expected

    run(main)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"durable": "a/b"}, "a name is"),
        ({"durable": "x" * 199}, "characters"),
        ({"ack": "manual"}, "durable"),
        ({"durable": "a", "ack": "never"}, "auto"),
    ],
)
def test_what_cannot_be_is_refused_at_the_caller(node, options, told):
    async def main():
        async with gossamer.connect(node.url) as client:
            with pytest.raises(gossamer.UsageError, match=told):
                await client.subscribe(**options)
            sub = await client.subscribe()
            with pytest.raises(gossamer.UsageError, match="manual"):
                await sub.ack(None)

    run(main)


def test_who_stays_away_for_too_long_is_told_what_is_gone(tmp_path):
    config = Config(**{**BRISK, "retain_s": 0.1, "expire_s": 1.0})
    node = Embedded.start(data=tmp_path / "data", config=config)

    async def main():
        async with gossamer.connect(node.url) as client:
            await client.subscribe(durable="orders")
        async with gossamer.connect(node.url) as publisher:
            for n in range(10):
                await publisher.publish({"n": n}, ack="logged")
            logs = node.logger.node.logger.logs
            while logs[publisher.stream].collected < 9:
                await asyncio.sleep(0.05)
            async with gossamer.connect(node.url) as client:
                sub = await client.subscribe(durable="orders", notices=True)
                await publisher.publish({"n": 10})
                gap = await anext(sub)
                assert isinstance(gap, gossamer.Gap)
                assert (gap.stream, gap.first, gap.last) == (publisher.stream, 0, 9)
                assert (await anext(sub)).attributes["n"] == 10
                while sub.stats.lost < 10:  # told beside the events
                    await asyncio.sleep(0.01)
                assert sub.stats.lost == 10

    # Whether the events expire or the subscription, which was silent before they came, depends on whose round is first
    # (how each is counted: test_what_expires_unseen_is_counted_as_that); it is told the same.
    try:
        run(main)
    finally:
        node.broker.kill()
        node.logger.kill()


async def over(node, stream):
    """A publisher that has left is forgotten when everyone has all of it; the log still has it."""
    while stream not in node.broker.node.receiver.retired or stream not in node.logger.node.receiver.retired:
        await asyncio.sleep(0.05)


async def left_behind(node, first, last):
    """By a publisher that has ended, and is forgotten."""
    async with gossamer.connect(node.url) as client:
        for n in range(first, last):
            await client.publish({"n": n}, ack="logged")
        stream = client.stream
    await over(node, stream)


async def some(node, count, **options):
    async with gossamer.connect(node.url) as client:
        sub = await client.subscribe("n >= 0", **options)
        return await take(sub, count)


def test_streams_that_are_over_are_had_or_owed_as_any_other(node):
    async def main():
        await left_behind(node, 0, 4)
        assert await some(node, 2, durable="all", start="all") == [0, 1]
        assert await some(node, 1, durable="all", start="all") == [2]
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe("n >= 0", durable="new")
            await publish(node.url, 4, 6)
            assert await take(sub, 2) == [4, 5], "and nothing of what was over before it began"
        assert await some(node, 3, durable="all") == [3, 4, 5]
        for stream in [each for each in node.broker.node.receiver.streams if each.startswith("default/")]:
            await over(node, stream)
        await publish(node.url, 6, 7)
        assert await some(node, 1, durable="new") == [6]
        assert await some(node, 1, durable="all") == [6]

    run(main)


def test_one_that_began_at_a_time_comes_back_to_what_was_over_before_it_began(node):
    async def main():
        async with gossamer.connect(node.url) as early:
            await early.publish({"n": -1}, ack="logged")
            await early.publish({"n": 0}, ack="logged")
            await left_behind(node, 1, 3)
            since = datetime.now(UTC)
            await left_behind(node, 3, 6)
            await left_behind(node, 6, 8)
            await early.publish({"n": 8}, ack="logged")
            assert await some(node, 1, durable="since", start=since) == [3]
            assert sorted(await some(node, 3, durable="since")) == [4, 5, 6], "cut off, and nothing is left out"
            assert sorted(await some(node, 2, durable="since")) == [7, 8], "and nothing comes that was published before"
            await early.publish({"n": 9}, ack="logged")
            assert await some(node, 1, durable="since") == [9]

    run(main)


def test_one_that_began_at_a_saved_position_comes_back_to_what_was_over_before_it_began(node):
    async def main():
        await left_behind(node, 0, 3)
        async with gossamer.connect(node.url) as client:
            sub = await client.subscribe("n >= 0", start="all")
            assert await take(sub, 3) == [0, 1, 2]
            while not sub.position["time_ns"]:
                await asyncio.sleep(0.05)
            position = sub.position
        await left_behind(node, 3, 6)
        await left_behind(node, 6, 8)
        assert await some(node, 1, durable="saved", start=position) == [3]
        assert sorted(await some(node, 3, durable="saved")) == [4, 5, 6], "cut off, and nothing is left out"
        assert sorted(await some(node, 1, durable="saved")) == [7], "and nothing comes that was before"

    run(main)


def test_one_that_began_with_the_latest_comes_back_to_what_was_over_before_it_began(node):
    options = {"durable": "newest", "start": "last_per_key"}

    async def main():
        async with gossamer.connect(node.url) as client:
            for n, key in enumerate("abca"):
                await client.publish({"n": n}, key=key, ack="logged")
            stream = client.stream
        await over(node, stream)
        async with gossamer.connect(node.url) as early:
            for n, key in ((4, "d"), (5, "d"), (6, None)):
                await early.publish({"n": n}, key=key, ack="logged")
            assert await some(node, 2, **options) == [1, 2]
            await early.publish({"n": 7}, ack="logged")
            await publish(node.url, 8, 9, key="e")  # a stream that began while it was away
            async with gossamer.connect(node.url) as client:
                sub = await client.subscribe("n >= 0", **options)
                came = await take(sub, 6)
                assert sorted(came[:4]) == [1, 2, 3, 5], "the newest of each key, as it was when it began"
                assert came[4:] == [7, 8], "and all that came since"
                while "last_per_key" in sub.position:  # until it is told that it has come to where its broker is
                    await asyncio.sleep(0.05)
            for n in (9, 10):
                await early.publish({"n": n}, ack="logged")
                assert await some(node, 1, **options) == [n], "and then it is one like any other"

    run(main)
