"""Clients in a test, and brokers in its own process for them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import gossamer
from gossamer.broker.faults import parse_faults
from gossamer.broker.runtime import Runtime
from gossamer.broker.session import ClientLimits
from gossamer.broker.sessions import Sessions
from gossamer.protocol.config import Config
from processes import BRISK, Process, until

PATIENCE_S = 15.0


class Broker:
    """A broker in this process."""

    def __init__(self, *peers: str, name: str | None = None, faults: str | None = None, **limits: Any) -> None:
        self.clients = Sessions(limits=ClientLimits(**limits))
        self.runtime = Runtime(
            name=name,
            peers=peers,
            config=Config(**BRISK),
            clients=self.clients,
            faults=None if faults is None else parse_faults(faults),
        ).start()
        until(lambda: self.runtime.status == "member", "the broker to be a member")
        self.url, self.address = self.clients.address, self.runtime.address


def run(main: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, patience_s: float = PATIENCE_S) -> Any:
    """What a test does with clients, within a time."""

    async def bounded() -> Any:
        async with asyncio.timeout(patience_s):
            return await main(*arguments)

    return asyncio.run(bounded())


async def take(sub: gossamer.Subscription, count: int) -> list[Any]:
    return [await anext(sub) for _ in range(count)]


def seqs(events: list[Any]) -> list[Any]:
    return [event.attributes["n"] for event in events]


def wait_for_members(*processes: Process) -> None:
    """Everybody has heard of everybody: what is published now has to be logged."""

    async def main() -> None:
        async with gossamer.connect(processes[0].url) as client:
            await client.publish({}, ack="logged")

    run(main)


@asynccontextmanager
async def two(first: Any, second: Any) -> AsyncIterator[tuple[gossamer.Client, gossamer.Client]]:
    async with gossamer.connect(first) as one, gossamer.connect(second) as other:
        yield one, other
