"""Groups by interest, for an application that does not want to think of them (docs/decisions/interest-groups.md).

    async with routed("tcp://127.0.0.1:7400") as client:
        sub = await client.subscribe("symbol = 'IBM'")          in every group where such an event may be
        await client.publish({"symbol": "IBM", "price": 101.5})  in the group that it belongs to

The table is the one that the broker was told (`gossamer broker --groups`). A client is opened for each group that is
needed, when it is. Order and obsolescence hold within a group, as always.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from gossamer.matching.selector import Selector
from gossamer.messages.event import Attributes
from gossamer.messages.ids import EventId
from gossamer.sdk.client import Client
from gossamer.sdk.connecting import connect
from gossamer.sdk.subscription import Said, Subscription


class Routed:
    """As many clients as there are groups in use; use `routed`."""

    def __init__(self, url: str | Sequence[str], group: str, **options: Any) -> None:
        self._url = url
        self._group = group
        self._options = options
        self._opened = AsyncExitStack()
        self._clients: dict[str, Client] = {}
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> "Routed":
        self.routes = (await self.client(self._group)).routes
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._opened.__aexit__(*error)

    async def client(self, group: str) -> Client:
        """The one for that group."""
        async with self._opening:
            found = self._clients.get(group)
            if found is None:
                connecting = connect(self._url, group=group, **self._options)
                found = self._clients[group] = await self._opened.enter_async_context(connecting)
            return found

    async def publish(self, attributes: Attributes, body: bytes = b"", **options: Any) -> EventId:
        """As `Client.publish`, in the group of the first interest that the attributes match."""
        client = await self.client(self.routes.group_of(attributes))
        return await client.publish(attributes, body, **options)

    async def subscribe(self, selector: str | Selector = "", **options: Any) -> "Heard":
        """As `Client.subscribe`, in every group in which something may be published that matches."""
        clients = [await self.client(group) for group in self.routes.groups_of(selector)]
        return Heard([await client.subscribe(selector, **options) for client in clients])


class Heard:
    """Several subscriptions as one: what comes to any of them, as it comes. Cancelling a wait loses nothing."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self.subscriptions = tuple(subscriptions)
        self._waits: dict[asyncio.Task[Said], Subscription] = {}
        self._idle = list(subscriptions)

    def __aiter__(self) -> "Heard":
        return self

    async def __anext__(self) -> Said:
        while self._idle or self._waits:
            for subscription in self._idle:
                self._waits[asyncio.ensure_future(anext(subscription))] = subscription
            self._idle.clear()
            done, _ = await asyncio.wait(self._waits, return_when=asyncio.FIRST_COMPLETED)
            # One at a time: the others that are done stay where they are until they are asked for.
            first = next(task for task in self._waits if task in done)
            subscription = self._waits.pop(first)
            try:
                found = first.result()
            except StopAsyncIteration:  # this one is closed, and the others go on
                continue
            self._idle.append(subscription)
            return found
        raise StopAsyncIteration

    async def close(self) -> None:
        for task in self._waits:
            task.cancel()
        await asyncio.gather(*self._waits, return_exceptions=True)
        self._waits.clear()
        self._idle.clear()
        for subscription in self.subscriptions:
            await subscription.close()


def routed(url: str | Sequence[str], *, group: str = "default", **options: Any) -> Routed:
    """Connect to a broker, and publish and subscribe in groups by interest; `options` are those of `connect`."""
    return Routed(url, group, **options)
