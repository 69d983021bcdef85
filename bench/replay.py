"""Reading from a logger: how fast a subscription that begins with all there is comes to where its broker is.

A store is filled, and a logger, a broker and a subscriber are processes of their own, on loopback; the broker is asked
for what matches, and the logger does the matching. Events have four attributes and 100 bytes, and 64 make a packet. The
wall's time counts, and the processor's time of each of the three tells where it goes.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gossamer
from gossamer.bench.measure import Row
from gossamer.logger.store import Store
from gossamer.messages.event import Attributes, Content
from gossamer.messages.packet import pack

NAME = "replay"
SELECTOR = "price > 0"
EVENTS = 64
COMMIT_EVENTS = 64_000
COMMAND = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]
TARGET_US = 1e6 / 300_000
PATIENCE_S = 300.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
QUIET_S = 0.1


def content(number: int, keyed: bool) -> Content:
    attributes: Attributes = {"type": "quote", "symbol": "IBM", "price": 101.5 + number, "volume": 1_000 + number}
    key = f"k{number % 1_000}" if keyed else None
    return Content(
        key, time_ns=1_794_000_000_000_000_000 + number, attributes=attributes, body=number.to_bytes(36, "big")
    )


def fill(url: str, events: int, keyed: bool) -> None:
    with Store(url) as store:
        for first in range(0, events, EVENTS):
            contents = [content(number, keyed) for number in range(first, first + EVENTS)]
            store.apply([pack("default/~bench-1.0", first, contents)])
            if not first % COMMIT_EVENTS:
                store.commit()
        store.commit()


@contextmanager
def serving(command: str, *flags: str) -> Iterator[tuple[int, dict[str, str]]]:
    """A logger or a broker: its process, and its addresses."""
    served = [*COMMAND, command, "--json", "--mesh", "tcp://127.0.0.1:0", *flags]
    process = subprocess.Popen(served, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


def used_s(pid: int) -> float:
    """The processor's time of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


async def replay(url: str, events: int, pids: tuple[int, int]) -> list[float]:
    """Seconds: by the clock, and of the logger, the broker and this process."""
    async with gossamer.connect(url) as client:
        idle_s = -1.0
        while used_s(pids[0]) - idle_s > QUIET_S:  # it makes a table of what it finds when it starts
            idle_s = used_s(pids[0])
            await asyncio.sleep(1)
        before = [time.perf_counter(), *map(used_s, pids), time.process_time()]
        sub = await client.subscribe(SELECTOR, start="all", policy="none")
        count = 0
        async for batch in sub.batches():
            count += len(batch)
            if count >= events:
                break
        after = [time.perf_counter(), *map(used_s, pids), time.process_time()]
        assert (count, sub.stats.lost) == (events, 0)
    return [end - begin for begin, end in zip(before, after, strict=True)]


def rows(quick: bool) -> Iterator[Row]:
    events = 6_400 if quick else 640_000
    for what, keyed in (("events without keys", False), ("events of 1,000 keys", True)):
        with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as folder:
            store = f"sqlite:///{folder}/log.db"
            fill(store, events, keyed)
            with (
                serving("logger", "--store", store) as (logger, at),
                serving("broker", "--listen", "tcp://127.0.0.1:0", "--peer", at["mesh"]) as (broker, told),
            ):
                measured = asyncio.run(asyncio.wait_for(replay(told["url"], events, (logger, broker)), PATIENCE_S))
        parts = ("by the clock", "of the logger", "of the broker", "of the subscriber")
        for part, seconds, target in zip(parts, measured, (TARGET_US, None, None, None), strict=True):
            yield Row(NAME, f"{what}, {part}", 1e6 * seconds / events, "µs an event", target)
