"""Who takes part in `gossamer demo`, each a process of its own that ends when the one that started it does.

    python -m gossamer.cli.demo_actors node broker --listen …        a node, as `gossamer broker` would run it
    python -m gossamer.cli.demo_actors publisher URL…                publishes quotes as it is told
    python -m gossamer.cli.demo_actors subscriber '{"urls": …}'      reads them, and keeps account

They are told what to do by lines on stdin, a JSON list each, and tell how they are by lines on stdout, a JSON object
each. Every quote follows from its number (`quote`), so whoever reads them can tell by itself what it should have been
sent; nobody's word is taken for anything.
"""

import asyncio
import json
import math
import os
import signal
import sys
import threading
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

from gossamer.cli.main import main as gossamer
from gossamer.matching import Selector
from gossamer.messages.errors import GossamerError
from gossamer.messages.event import Event
from gossamer.sdk.client import Client
from gossamer.sdk.connecting import connect
from gossamer.sdk.subscription import Subscription

# fmt: off
SYMBOLS = (
    "AAPL", "ABB", "ABBV", "ADBE", "AMD", "AMGN", "AMZN", "ASML", "AXP", "AZN", "BA", "BAC", "BHP", "BP", "CAT", "COST",
    "CRM", "CSCO", "CVX", "DE", "DIS", "GE", "GOOG", "GS", "HD", "HON", "IBM", "INTC", "JNJ", "JPM", "KO", "LIN", "MA",
    "MCD", "META", "MRK", "MSFT", "NKE", "NVDA", "ORCL", "PEP", "PFE", "PG", "QCOM", "SAP", "SHEL", "SONY", "TM",
    "TSLA", "UNH", "V", "VZ", "WMT", "XOM",
)
# fmt: on
LAST = "close"
"""The key of the last event: nothing makes it obsolete, so everybody gets it."""
REPORT_S = 0.1
TICK_S = 0.005

Quote = dict[str, Any]


def quote(n: int) -> Quote:
    """The n-th quote of the day."""
    symbol = n % len(SYMBOLS)
    price = round(100.0 + symbol + 20.0 * math.sin(n / 9_000.0 + symbol), 2)
    return {"type": "quote", "symbol": SYMBOLS[symbol], "price": price, "n": n}


def tell(**told: Any) -> None:
    print(json.dumps(told), flush=True)


# Publishing -----------------------------------------------------------------------------------------------------------


class Publisher:
    """Publishes for a while, at a rate or as fast as it goes, whenever it is told to."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.events = 0
        self.longest_s = 0.0
        """The longest that a `publish()` took."""
        self.state: dict[str, int] = {}
        self._reported_at = 0.0

    async def publish(self, seconds: float, rate: float | None) -> None:
        """From an empty outgoing buffer to an empty one: everything is logged when the time is taken."""
        first, began = self.events, time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if rate is None:
                await self._publish(64)
            else:
                due = int((now - began) * rate) - (self.events - first)
                await self._publish(due)
                await asyncio.sleep(TICK_S)
            self.report(now)
        published_s = time.monotonic() - began
        while self.client.pending:
            await asyncio.sleep(TICK_S)
            self.report(time.monotonic())
        logged_s = time.monotonic() - began
        self.report()
        tell(done={"events": self.events - first, "published_s": published_s, "logged_s": logged_s})

    async def end(self) -> None:
        await self.client.publish({"type": LAST, "n": self.events}, key=LAST, ack="logged")
        tell(done={"events": self.events, "state": self.state, "longest_ms": 1_000 * self.longest_s})

    async def _publish(self, count: int) -> None:
        publish, before = self.client.publish, time.monotonic()
        for n in range(self.events, self.events + count):
            attributes = quote(n)
            self.state[attributes["symbol"]] = n
            await publish(attributes, key=attributes["symbol"])
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before)
            before = now
        self.events += count

    def report(self, now: float = math.inf) -> None:
        if now > self._reported_at + REPORT_S:
            self._reported_at = now if now < math.inf else 0.0
            tell(events=self.events, node=self.client.node, pending=self.client.pending)


async def publisher(*urls: str) -> None:
    async with connect(urls) as client:
        actor = Publisher(client)
        actor.report()
        async for name, *arguments in commands():
            if name == "publish":
                await actor.publish(*arguments)
            else:
                await actor.end()


# Subscribing ----------------------------------------------------------------------------------------------------------


class Subscriber:
    """Reads quotes, takes `delay_s` for each, and keeps account of what came."""

    def __init__(self, client: Client, selector: str, policy: str, durable: str | None) -> None:
        self.client = client
        self.options: dict[str, Any] = {"policy": policy}
        if durable is not None:
            self.options |= {"durable": durable}
        self.selectors = [selector]
        self.delay_s = 0.0
        self.sub: Subscription | None = None
        self.numbers = array("q")
        self.state: dict[str, int] = {}
        self.ended = False
        self.age_ms = 0.0
        self._quiet_since = time.monotonic()
        self.longest_silence_s = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def subscribe(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.numbers, self.state, self.ended = array("q"), {}, False
        self.sub = await self.client.subscribe(self.selectors[0], **self.options)
        before = [last + 1 for stream, last in self.sub.position.items() if "/" in stream]
        self._reading = asyncio.create_task(self._read(self.sub))
        # Its broker may not have all quotes yet: those that were there before are no business of this subscription.
        tell(done={"before": sum(before) if before else None})

    async def update(self, selector: str) -> None:
        assert self.sub is not None
        await self.sub.update(selector)
        self.selectors.append(selector)
        tell(done={})

    async def unsubscribe(self) -> None:
        assert self.sub is not None
        assert self._reading is not None
        self._reading.cancel()  # first: what is handed out after that is not ours any more
        await asyncio.gather(self._reading, return_exceptions=True)
        await self.sub.close()
        tell(done={"exact": self.numbers == array("q", range(len(self.numbers))), **self.account()})

    async def end(self, count: int, first: int = 0) -> None:
        """Wait for the last event, and say what came before it, of so many quotes in all, from a first one on."""
        assert self._reading is not None
        await self._reading
        account = {"state": self.state, **self.account()}
        if len(self.selectors) > 1:
            account["changed_at"] = changed_at(self.numbers, count, *self.selectors)
        elif self.options["policy"] == "none":
            account["exact"] = self.numbers == array("q", range(first, count))
        else:
            account["exact"] = all(one < other for one, other in pairwise(self.numbers))
        tell(done=account)

    def watch(self) -> None:
        """From now on the longest silence counts."""
        self.longest_silence_s, self._quiet_since = 0.0, time.monotonic()
        tell(done={})

    async def _read(self, sub: Subscription) -> None:
        pause = asyncio.sleep if self.delay_s else None
        async for event in sub:
            assert isinstance(event, Event)
            now = time.monotonic()
            self.longest_silence_s = max(self.longest_silence_s, now - self._quiet_since)
            self._quiet_since = now
            if event.key == LAST:
                self.ended = True
                return
            attributes = event.attributes
            n = attributes["n"]
            assert isinstance(n, int)
            self.numbers.append(n)
            self.state[event.key or ""] = n
            age_ms = (time.time_ns() - event.time_ns) / 1e6
            self.age_ms += (age_ms - self.age_ms) / min(len(self.numbers), 200)
            if pause is not None:
                await pause(self.delay_s)

    def account(self) -> dict[str, Any]:
        stats = self.sub.stats if self.sub is not None else None
        return {
            "node": self.client.node,
            "delivered": len(self.numbers),
            "obsoleted": 0 if stats is None else stats.obsoleted,
            "lost": 0 if stats is None else stats.lost,
            "age_ms": self.age_ms,
            "longest_silence_s": self.longest_silence_s,
        }

    async def report(self) -> None:
        while True:
            tell(**self.account())
            await asyncio.sleep(REPORT_S)


async def subscriber(text: str) -> None:
    said = json.loads(text)
    async with connect(said["urls"]) as client:
        actor = Subscriber(client, said["selector"], said["policy"], said.get("durable"))
        reporting = asyncio.create_task(actor.report())
        async for name, *arguments in commands():
            match name:
                case "subscribe":
                    await actor.subscribe(*arguments)
                case "update":
                    await actor.update(*arguments)
                case "unsubscribe":
                    await actor.unsubscribe()
                case "watch":
                    actor.watch()
                case _:
                    await actor.end(*arguments)
        reporting.cancel()


def changed_at(numbers: Sequence[int], count: int, before: str, after: str) -> tuple[int, int] | None:
    """The first and the last quote at which the selector may have changed, if these are exactly those that matched one
    of them up to there, and the other from there on."""
    old, new = Selector(before).matches, Selector(after).matches
    latest, earliest, at = count, 0, 0
    for n in range(count):
        attributes, had = quote(n), at < len(numbers) and numbers[at] == n
        at += had
        if new(attributes) != had:
            earliest = n + 1
        if latest == count and old(attributes) != had:
            latest = n
    return (earliest, latest) if earliest <= latest and at == len(numbers) else None


# A process ------------------------------------------------------------------------------------------------------------


async def commands() -> AsyncIterator[list[Any]]:
    """What we are told, until nobody is there to tell anything."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(queue.put_nowait, line)
        loop.call_soon_threadsafe(queue.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    while line := await queue.get():
        yield json.loads(line)


def node(*arguments: str) -> None:
    """A node that is told to end when stdin does."""

    def watch() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    gossamer(list(arguments))


def main(role: str, *arguments: str) -> None:
    try:
        match role:
            case "node":
                node(*arguments)
            case "publisher":
                asyncio.run(publisher(*arguments))
            case _:
                asyncio.run(subscriber(*arguments))
    except GossamerError as error:
        tell(failed=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
