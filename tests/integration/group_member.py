"""A member of a group as a process: it multicasts at a rate until its input ends, and writes down what it is
delivered."""

import asyncio
import json
import sys

import gossamer


async def main(listen: str, peers: str, rate: int, options: str, path: str) -> None:
    async with gossamer.join("g", listen=listen, peers=peers.split(","), **json.loads(options)) as member:
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

        async def talk() -> None:
            number = 0
            while not ended.done():
                for _ in range(max(1, rate // 100)):
                    member.multicast_nowait({"n": number})
                    number += 1
                await asyncio.sleep(0.01)

        talking = asyncio.create_task(talk())
        with open(path, "w", buffering=1) as log:
            async for item in member:
                if isinstance(item, gossamer.Event):
                    log.write(f"{item.id}\n")
                else:
                    log.write(f"view {item.number} {len(item.members)}\n")
        await talking


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]))
