"""A client that subscribes, publishes until it is ended, and says how far it is: URL SELECTOR."""

import asyncio
import json
import sys

import gossamer

url, selector = sys.argv[1:]


async def main() -> None:
    async with gossamer.connect(url) as client:
        await client.subscribe(selector)
        print(json.dumps({"node": client.node, "mesh": client.stream}), flush=True)
        n = 0
        while True:
            await client.publish({"from": "child", "n": n}, ack="sent")
            n += 1


asyncio.run(main())
