"""A named publisher that publishes until it is killed, and writes down what it was told: URLS NAME SPOOL FIRST FILE."""

import asyncio
import json
import sys

import gossamer

urls, name, spool, first, path = sys.argv[1:]
told = open(path, "a", buffering=1)  # noqa: SIM115


async def note(client: gossamer.Client, level: str, n: int) -> None:
    await client.flush(level)
    print(level, n, file=told)


async def main() -> None:
    async with gossamer.connect(urls.split(","), publisher=name, spool=spool or None, timeout=60) as client:
        print(json.dumps({"node": name, "mesh": ""}), flush=True)
        n, noting = int(first), []
        while True:
            for _ in range(8):
                await client.publish({"n": n}, key=str(n))
                n += 1
            noting = [task for task in noting if not task.done()]
            noting += [asyncio.create_task(note(client, level, n - 1)) for level in ("sent", "logged")]
            await asyncio.sleep(0 if client.pending < 400 else 0.01)


asyncio.run(main())
