"""A primary and its backups: the primary changes two items at a time, dies, and the next in line takes over.

Whoever takes over has every update that was committed, whole, and nothing of one that was not.
"""

import asyncio
import socket
from contextlib import AsyncExitStack

import gossamer


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = sorted(f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets)
    for each in sockets:
        each.close()
    return addresses


async def main() -> None:
    addresses = free_addresses(3)
    taken_over = asyncio.Event()
    stores = [gossamer.PrimaryBackup(took_over=taken_over.set) for _ in addresses]
    async with AsyncExitStack() as stack:
        await asyncio.gather(
            *(
                stack.enter_async_context(store.join("config", listen=own, peers=set(addresses) - {own}))
                for store, own in zip(stores, addresses, strict=True)
            )
        )
        primary = next(store for store in stores if store.is_primary)
        for number in range(100):
            await primary.update({"host": f"db{number}", "port": 5_000 + number})
        primary.member.kill()
        await taken_over.wait()
        successor = next(store for store in stores if store is not primary and store.is_primary)
        print("taken over with", successor.items)
        await successor.update({"host": "db-new", "port": 6_000})
        print("and gone on to", successor.items)


if __name__ == "__main__":
    asyncio.run(main())
