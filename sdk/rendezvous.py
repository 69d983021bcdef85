"""Members of a group that meet through a broker: who is in tells who is not where to ask.

Everyone says hello at the broker until it is in; who is in answers. If nobody answers for a while, the one with the
lowest address among those that said hello founds the group alone, and the others join it. After that the broker is not
needed, but by those who come later.
"""

import asyncio
import time

from gossamer.matching import attr
from gossamer.messages.errors import Timeout
from gossamer.messages.event import Event
from gossamer.sdk.client import Client
from gossamer.sdk.connecting import connect
from gossamer.sdk.subscription import Subscription

MEETING = "gossamer.groups"
HELLO_S = 0.2
ALONE_S = 1.0
"""Without an answer for so long nobody is in."""
PRESENT_S = 1.0
"""Who has not said hello for so long has gone away."""


class Rendezvous:
    """One member at one broker."""

    def __init__(self, client: Client, sub: Subscription, group: str, address: str) -> None:
        self._client, self._sub = client, sub
        self._group, self._address = group, address
        self._inside = False
        self._answering: asyncio.Task[None] | None = None

    @classmethod
    async def at(cls, url: str, group: str, address: str) -> "Rendezvous":
        client = await connect(url, group=MEETING)
        try:
            sub = await client.subscribe(attr.group == group)
        except BaseException:
            await client.close()
            raise
        return cls(client, sub, group, address)

    async def meet(self, timeout: float) -> tuple[str, ...]:
        """The addresses of who is in; none if we are to found the group."""
        began = time.monotonic()
        outside: dict[str, float] = {}
        inside: dict[str, None] = {}
        while not inside:
            now = time.monotonic()
            if now > began + timeout:
                raise Timeout(f"nobody let us into the group {self._group} within {timeout:g} s")
            outside = {address: at for address, at in outside.items() if now - at < PRESENT_S}
            if now > began + ALONE_S and min([self._address, *outside]) == self._address:
                return ()
            await self._say()
            until = now + HELLO_S
            while (left := until - time.monotonic()) > 0 and not inside:
                try:
                    event = await asyncio.wait_for(anext(self._sub), left)
                except TimeoutError:
                    break
                if isinstance(event, Event) and event.attributes.get("address") != self._address:
                    told = str(event.attributes.get("address"))
                    if event.attributes.get("inside"):
                        inside[told] = None
                    else:
                        outside[told] = time.monotonic()
        return tuple(inside)

    def answer(self) -> None:
        """We are in: from now on tell those who ask."""
        self._inside = True
        self._answering = asyncio.create_task(self._answer())

    async def _answer(self) -> None:
        async for event in self._sub:
            if isinstance(event, Event) and not event.attributes.get("inside"):
                await self._say()

    async def _say(self) -> None:
        said = {"group": self._group, "address": self._address, "inside": self._inside}
        await self._client.publish(said)

    async def close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)
        await self._client.close()
