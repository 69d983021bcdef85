"""A publisher or some subscribers as a process: `python -m gossamer.bench.worker ROLE SYSTEM URL N`.

It says `ready`, and then answers each line of JSON on its standard input with one on its standard output:

    publisher    {"count": 1000, "rate": 0, "logged": false}   → {"began": …, "cpu_s": …}     they are on their way
    subscriber   {"expect": 1000, "stamped": false}            → {}                           they will now be counted
                 {"patience_s": 2}                             → {"received": …, "ended": …}  all came, or no more do

N is how many subscribers there are, each with a connection of its own; one whose role is `slow` is busy for 50 ms with
each message.
Times are of the machine's monotonic clock, which its processes share.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from gossamer.bench.systems import BODY_BYTES, SYSTEMS

STAMP_BYTES = 8
SLOW_S = 0.05


class Meter:
    """What the subscribers have received of one run."""

    def __init__(self) -> None:
        self._begin(0, False)

    def _begin(self, expected: int, stamped: bool) -> None:
        self.count = 0
        self.expected = expected
        self.stamped = stamped
        self.latencies_ns: list[int] = []
        self.last_at = self.ended = 0.0
        self.done = threading.Event()
        self.cpu_s = time.process_time()

    def take(self, body: bytes) -> None:
        if self.stamped:
            self.latencies_ns.append(time.monotonic_ns() - int.from_bytes(body[:STAMP_BYTES], "big"))
        self.count += 1
        if self.count == self.expected:
            self.ended = time.monotonic()
            self.done.set()

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        if "expect" in order:
            self._begin(order["expect"], order["stamped"])
            return {}
        before = -1
        while not self.done.wait(order["patience_s"]) and self.count > before:
            before, self.last_at = self.count, time.monotonic()
        cpu_s, ended = time.process_time() - self.cpu_s, self.ended or self.last_at
        return {"received": self.count, "ended": ended, "cpu_s": cpu_s, "latencies_ns": self.latencies_ns}


def nap(_: bytes) -> None:
    time.sleep(SLOW_S)


async def publish(system: str, url: str) -> None:
    publisher = await SYSTEMS[system].publisher(url)
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        count, rate = order["count"], order["rate"]
        cpu_s, began = time.process_time(), time.monotonic()
        if rate:
            for number in range(count):
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                await publisher.one(time.monotonic_ns().to_bytes(STAMP_BYTES, "big").ljust(BODY_BYTES))
        else:
            await publisher.burst(count, order["logged"])
        say({"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu_s})


async def subscribe(system: str, url: str, clients: int, take: Callable[[bytes], None]) -> None:
    """Say that all are ready, and take whatever comes, for ever."""
    waiting = clients

    def ready() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            say("ready")

    await asyncio.gather(*(SYSTEMS[system].subscribe(url, take, ready) for _ in range(clients)))


def receive(system: str, url: str, clients: int, take: Callable[[bytes], None]) -> None:
    try:
        asyncio.run(subscribe(system, url, clients, take))
    except BaseException as error:
        print(f"{system}: {error!r}", file=sys.stderr)
    os._exit(1)  # nothing is received any more


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    role, system, url, clients = sys.argv[1:]
    gc.freeze()
    if role == "publisher":
        asyncio.run(publish(system, url))
    else:
        meter = Meter()
        take = nap if role == "slow" else meter.take
        threading.Thread(target=receive, args=(system, url, int(clients), take), daemon=True).start()
        for line in sys.stdin:
            say(meter.answer(json.loads(line)))


if __name__ == "__main__":
    main()
