"""Quotes in one process: a selector, a slow reader that is never out of date for long, a publisher that never waits.

A broker and a logger are started here. Ten thousand quotes of four symbols are published as fast as they go; one
subscriber wants those above 100, the other takes a millisecond for each quote and is given the newest of each symbol.
"""

import asyncio
import random

import gossamer

SYMBOLS = ("IBM", "MSFT", "SAP", "SUN")
COUNT = 10_000


async def read_slowly(sub: gossamer.Subscription) -> dict[str | None, object]:
    shown: dict[str | None, object] = {}
    async for event in sub:
        if event.key == "close":
            break
        shown[event.key] = event.attributes["price"]
        await asyncio.sleep(0.001)
    return shown


async def main() -> None:
    async with gossamer.connect() as client:
        dear = await client.subscribe("symbol IN ('IBM', 'MSFT') AND price > 100", policy="none")
        slow = await client.subscribe("symbol IS NOT NULL", buffer=16)
        reading = asyncio.create_task(read_slowly(slow))
        walk, last, expected = random.Random(7), dict[str, float](), 0
        for _ in range(COUNT):
            symbol, price = walk.choice(SYMBOLS), round(walk.uniform(90, 110), 2)
            await client.publish({"symbol": symbol, "price": price}, key=symbol)
            last[symbol] = price
            expected += symbol in ("IBM", "MSFT") and price > 100
        await client.publish({"symbol": "all"}, key="close")
        print(f"published {COUNT} quotes; {client.pending} events are not on disk yet")

        for _ in range(expected):
            event = await anext(dear)
        print(f"the fast one has all {expected} above 100; the last was {event.key} at {event.attributes['price']}")

        shown = await reading
        stats = slow.stats
        print(f"the slow one read {stats.delivered} and skipped {stats.obsoleted} that were obsolete: {shown}")
        assert shown == last
        assert (dear.stats.lost, stats.lost, stats.delivered + stats.obsoleted) == (0, 0, COUNT + 1)


asyncio.run(main())
