"""Quotes in one process: a broker and a logger are started here, and what is above 100 is printed."""

import asyncio

import gossamer


async def main() -> None:
    async with gossamer.connect() as client:
        sub = await client.subscribe("symbol IN ('IBM', 'MSFT') AND price > 100")
        for symbol, price in [("IBM", 101.5), ("SUN", 120.0), ("MSFT", 99.0), ("MSFT", 102.0)]:
            await client.publish({"symbol": symbol, "price": price}, key=symbol)
        for _ in range(2):
            event = await anext(sub)
            print(event.key, event.attributes["price"])
        await client.flush("logged")


asyncio.run(main())
