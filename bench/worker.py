"""A publisher or a subscriber as a process: `python -m gossamer.bench.worker publisher|subscriber SYSTEM URL`.

It says `ready`, and then answers each line of JSON on its standard input with one on its standard output:

    publisher    {"count": 1000, "rate": 0}       → {"began": …, "cpu_s": …}       once they are on their way
    subscriber   {"expect": 1000, "stamped": 0}   → {}                             they will now be counted
                 {"patience_s": 2}                → {"received": …, "ended": …}    when all came, or nothing more does

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


class Meter:
    """What a subscriber has received of one run."""

    def __init__(self) -> None:
        self._begin(0, False)

    def _begin(self, expected: int, stamped: bool) -> None:
        self.count = 0
        self.expected = expected
        self.stamped = stamped
        self.latencies_ns: list[int] = []
        self.ended = 0.0
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
            before = self.count
        cpu_s = time.process_time() - self.cpu_s
        ended = self.ended or time.monotonic() - order["patience_s"]
        return {"received": self.count, "ended": ended, "cpu_s": cpu_s, "latencies_ns": self.latencies_ns}


async def publish(system: str, url: str) -> None:
    publisher = await SYSTEMS[system].publisher(url)
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        count, rate = order["count"], order["rate"]
        cpu_s, began = time.process_time(), time.monotonic()
        if rate:
            for number in range(count):
                due = began + number / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await publisher.one(time.monotonic_ns().to_bytes(STAMP_BYTES, "big").ljust(BODY_BYTES))
        else:
            await publisher.burst(count)
        say({"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu_s})


def receive(system: str, url: str, take: Callable[[bytes], None]) -> None:
    try:
        asyncio.run(SYSTEMS[system].subscribe(url, take, lambda: say("ready")))
    except BaseException as error:
        print(f"{system}: {error!r}", file=sys.stderr)
    os._exit(1)  # nothing is received any more


def obey(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for line in sys.stdin:
        say(answer(json.loads(line)))


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    role, system, url = sys.argv[1:]
    gc.freeze()
    if role == "publisher":
        asyncio.run(publish(system, url))
    else:
        meter = Meter()
        threading.Thread(target=receive, args=(system, url, meter.take), daemon=True).start()
        obey(meter.answer)


if __name__ == "__main__":
    main()
