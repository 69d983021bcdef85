"""`sub.stats` adds up in real processes: brokers are killed while slow and fast subscribers read."""

import asyncio

import pytest

import gossamer
from clients import run

EVENTS, KEYS = 3_000, 20


@pytest.mark.parametrize("policy", ["auto", "eager", "none"])
def test_stats_add_up_after_a_broker_was_killed(mesh, policy):
    urls = [mesh.address(), mesh.address()]
    addresses = [mesh.address(), mesh.address()]
    first = mesh.broker("b1", mesh=addresses[0], listen=urls[0])
    first.ready()
    mesh.broker("b2", addresses[0], mesh=addresses[1], listen=urls[1]).ready()
    mesh.logger("L", addresses[1]).ready()

    async def read(sub, pause_s):
        async for _ in sub:
            if pause_s:
                await asyncio.sleep(pause_s)

    async def main():
        async with gossamer.connect(urls[1]) as publisher, gossamer.connect(urls) as client:
            subs = [
                await client.subscribe(selector, policy=policy, buffer=buffer)
                for selector in ("", f"n >= {EVENTS // 2}")
                for buffer in (64, 100_000)
            ]
            readers = [asyncio.create_task(read(sub, 0.001 * (number % 2))) for number, sub in enumerate(subs)]
            for n in range(EVENTS):
                await publisher.publish({"n": n}, b"x" * 100, key=f"k{n * 7 % KEYS}")
                if n % 100 == 0:
                    await asyncio.sleep(0)
                if n == EVENTS // 2:
                    first.kill()
            await publisher.flush("logged")

            def accounted(sub):
                stats = sub.stats
                return stats.delivered + stats.obsoleted + stats.lost + stats.unseen

            wanted = [EVENTS, EVENTS, EVENTS // 2, EVENTS // 2]
            while any(accounted(sub) < count for sub, count in zip(subs, wanted, strict=True)):
                await asyncio.sleep(0.05)
            await publisher.publish({"n": EVENTS}, key="last")  # comes behind everything that could come twice
            while any(accounted(sub) <= count for sub, count in zip(subs, wanted, strict=True)):
                await asyncio.sleep(0.05)
            assert [accounted(sub) for sub in subs] == [count + 1 for count in wanted]
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    run(main, patience_s=90)
