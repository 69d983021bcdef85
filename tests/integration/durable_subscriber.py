"""A durable subscriber that writes down what it gets, until it is killed: URLS NAME FILE."""

import asyncio
import json
import sys

import gossamer

urls, name, path = sys.argv[1:]
got = open(path, "a", buffering=1)  # noqa: SIM115


async def main() -> None:
    async with gossamer.connect(urls.split(","), timeout=60) as client:
        sub = await client.subscribe("n >= 0", durable=name, policy="none")
        print(json.dumps({"node": name, "mesh": ""}), flush=True)
        print("began", file=got)
        async for event in sub:
            print(event.attributes["n"], file=got)


asyncio.run(main())
