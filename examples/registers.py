"""Three replicas of a set of registers: any of them takes commands, all of them apply the same ones in the same order.

One replica dies without a word while the others are written to. They go on as soon as they agree that it is gone, and
end with the same values.
"""

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from typing import Any

import gossamer


class Registers(gossamer.ReplicatedState):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Any] = {}

    def apply(self, command: Any) -> Any:
        if command["op"] == "add":
            self.values[command["name"]] = self.values.get(command["name"], 0) + command["value"]
        return self.values.get(command["name"])

    def snapshot(self) -> bytes:
        return json.dumps(self.values).encode()

    def restore(self, state: bytes) -> None:
        self.values = json.loads(state)


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


async def main() -> None:
    addresses = free_addresses(3)
    replicas = [Registers() for _ in addresses]
    async with AsyncExitStack() as stack:
        await asyncio.gather(
            *(
                stack.enter_async_context(replica.join("registers", listen=own, peers=set(addresses) - {own}))
                for replica, own in zip(replicas, addresses, strict=True)
            )
        )
        await asyncio.gather(
            *(replica.submit({"op": "add", "name": "x", "value": 1}) for replica in replicas for _ in range(10))
        )
        print("thirty additions at three replicas:", await replicas[0].submit({"op": "get", "name": "x"}))
        replicas[0].member.kill()
        print("one dies; another:", await replicas[1].submit({"op": "add", "name": "x", "value": 12}, timeout=30))
        print("and the third:", await replicas[2].submit({"op": "get", "name": "x"}, timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
