"""An auction: the highest bid counts, whoever made it, and however late a lower one comes in.

`scope="group"` makes a key everybody's, and `rank` says what "newer" means for it. So a hall display that is far too
slow for the bidding shows the right price of every lot in the end, though each bidder only knows of its own bids.
"""

import asyncio
import random

import gossamer

LOTS = ("violin", "clock", "atlas")
BIDDERS = 5
BIDS = 400


async def bid(url: str, name: str, seed: int) -> dict[str, int]:
    """Bid at random, sometimes below what others have bid already; returns the best bid for each lot."""
    chance, best = random.Random(seed), dict.fromkeys(LOTS, 0)
    async with gossamer.connect(url) as client:
        for number in range(BIDS):
            lot, amount = chance.choice(LOTS), chance.randrange(1, 100 + 10 * number)
            await client.publish({"lot": lot, "bidder": name, "bid": amount}, key=lot, scope="group", rank=amount)
            best[lot] = max(best[lot], amount)
        await client.flush()
    return best


async def show(display: gossamer.Subscription) -> dict[str | None, dict[str, object]]:
    shown: dict[str | None, dict[str, object]] = {}
    async for event in display:
        if "hammer" in event.attributes:
            break
        shown[event.key] = event.attributes
        await asyncio.sleep(0.005)  # it takes its time
    return shown


async def main() -> None:
    async with gossamer.connect() as auctioneer:
        display = await auctioneer.subscribe("bid > 0 OR hammer", buffer=8)
        showing = asyncio.create_task(show(display))
        bests = await asyncio.gather(*(bid(auctioneer.url, f"bidder {number}", number) for number in range(BIDDERS)))
        await auctioneer.publish({"hammer": True})
        shown = await showing
        for lot, winner in sorted(shown.items()):
            print(f"{lot}: {winner['bid']} by {winner['bidder']}")
        stats = display.stats
        print(f"{BIDDERS * BIDS} bids; the display showed {stats.delivered - 1}, the others were outbid by then")
        assert {lot: shown[lot]["bid"] for lot in LOTS} == {lot: max(best[lot] for best in bests) for lot in LOTS}
        assert (stats.lost, stats.delivered + stats.obsoleted) == (0, BIDDERS * BIDS + 1)


asyncio.run(main())
