"""Groups over real sockets: a group of processes on loopback, how fast it delivers, and how soon it goes on without
two.

Every member is a process of its own, and multicasts its share; what is counted is what the last member has delivered.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from gossamer.bench.measure import Row
from gossamer.messages.errors import Timeout
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.groups import inputs
from gossamer.protocol.groups.effects import Deliver, Effect, Send
from gossamer.protocol.groups.rotation import Settings
from gossamer.protocol.groups.seat import Machine
from gossamer.protocol.groups.streams import stream_of
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.views import Views
from gossamer.protocol.groups.wire import decode, encode
from gossamer.sdk.member import Member, View, join

NAME = "groups"
MEMBERS = 5
HOP_S = 0.0005
HURRY = 2_000
"""Messages that a member may have under way when it multicasts as fast as it can."""
TIMED = 16
"""Of so many one is timed then: to look at the clock for each would be a tenth of all."""


def rows(quick: bool) -> Iterator[Row]:
    """Five members; quickly, three of them for a second."""
    members, seconds = (3, 1.0) if quick else (MEMBERS, 5.0)
    for order in ("total", "causal", "fifo"):
        name = f"{order}, {members} machines in one process: processor time a delivery"
        yield Row(NAME, name, machines_us(order, members, seconds / 50), "µs", None)
    calm = measure("total", members, 1_000, seconds)
    yield Row(NAME, f"total order, {members} members, 1,000/s: median latency", calm.p50_ms, "ms", 10.0)
    for order, target in (("total", 50.0), ("causal", 20.0), ("fifo", None)):
        most = measure(order, members, 0, seconds)
        yield Row(
            NAME, f"{order}, {members} members, all they can: a message", 1e6 / most.delivered_per_s, "µs", target
        )
    if not quick:
        yield Row(NAME, f"kill -9 of 2 in {members} at 1,000/s: the pause", measure_takeover(members), "s", 2.0)


@dataclass(frozen=True)
class Measured:
    order: str
    members: int
    rate: int
    """Messages a second that all members together were to multicast; 0: as many as they could."""
    delivered_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Processor time of one member for each message that it delivered, its own among them: what a busy machine does not
    change."""


def measure(order: str, members: int = MEMBERS, rate: int = 0, seconds: float = 4.0) -> Measured:
    """Run a group for some seconds; the figures are those of its slowest member."""
    told = _run(order, members, rate, seconds, kill=0)
    return Measured(
        order,
        members,
        rate,
        min(each["delivered_per_s"] for each in told),
        max(each["p50_ms"] for each in told),
        max(each["p99_ms"] for each in told),
        sum(each["cpu_us"] for each in told) / len(told),
    )


def machines_us(order: str, members: int = MEMBERS, seconds: float = 0.1) -> float:
    """Processor time a delivery of the machines alone, with their frames encoded and decoded, for some simulated
    seconds in which each multicasts as much as it may have under way: a figure that a busy machine does not change."""
    names = tuple(f"m{number}" for number in range(members))
    machines = {name: _machine(order, name, names) for name in names}
    under_way: deque[tuple[float, str, str, bytes]] = deque()
    pending, delivered, now = dict.fromkeys(names, 0), 0, 0.0

    def perform(name: str, made: list[Effect]) -> None:
        nonlocal delivered
        for effect in made:
            if isinstance(effect, Send):
                frame = encode(effect.message)
                under_way.extend((now + HOP_S, to, name, frame) for to in effect.to)
            elif isinstance(effect, Deliver) and effect.event.id is not None:
                delivered += 1
                pending[name] -= effect.event.id.stream == stream_of(NAME, name)

    for name, machine in machines.items():
        perform(name, machine.handle(inputs.Start(), now))
    began = time.process_time()
    while now < seconds:
        for name, machine in machines.items():
            count = min(100, HURRY - pending[name])
            contents = tuple(Content(attributes={"n": number}, body=b"x" * 100) for number in range(count))
            pending[name] += count
            perform(name, machine.handle(inputs.Multicast(contents), now))
        now += 2 * HOP_S
        while under_way and under_way[0][0] <= now:
            _, to, sender, frame = under_way.popleft()
            perform(to, machines[to].handle(inputs.Received(sender, decode(frame)), now))
        for name, machine in machines.items():
            if machine.next_deadline() <= now:
                perform(name, machine.handle(inputs.Wake(), now))
    return 1e6 * (time.process_time() - began) / max(1, delivered)


def _machine(order: str, name: str, names: tuple[str, ...]) -> Machine:
    if order == "causal":
        return Urcgc(NAME, name, names, Settings(subrun_s=0.25, silence=8))
    return Views(NAME, name, names, order="total" if order == "total" else "fifo")


def measure_takeover(members: int = MEMBERS, kill: int = 2, rate: int = 1_000, seconds: float = 8.0) -> float:
    """The longest pause, in seconds, that a survivor saw when so many members were killed at once."""
    told = _run("total", members, rate, seconds, kill)
    return max(each["pause_s"] for each in told)


def _run(order: str, members: int, rate: int, seconds: float, kill: int) -> list[dict[str, float]]:
    addresses = _free(members)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "gossamer.bench.groups", order, own, ",".join(addresses), str(rate / members),
             str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for own in addresses
    ]  # fmt: skip
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it is in
        if kill:
            time.sleep(seconds / 3)
            for process in processes[:kill]:
                os.kill(process.pid, signal.SIGKILL)
        return [json.loads(process.communicate(timeout=seconds + 60)[0]) for process in processes[kill:]]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _free(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


async def _member(order: str, own: str, addresses: list[str], rate: float, seconds: float) -> dict[str, float]:
    peers = [address for address in addresses if address != own]
    async with join("bench", listen=own, peers=peers, order=order) as member:  # type: ignore[arg-type]
        print("in", flush=True)
        began = time.monotonic()
        reading = asyncio.create_task(_read(member, began + seconds, 1 if rate else TIMED))
        await _talk(member, rate, began + seconds)
        return await reading


async def _talk(member: Member, rate: float, until: float) -> None:
    began, number = time.monotonic(), 0
    while (now := time.monotonic()) < until:
        due = int((now - began) * rate) if rate else number + HURRY - member.pending
        for each in range(number, due):
            member.multicast_nowait({"n": each}, b"x" * 100)
        number = due
        if rate:
            await asyncio.sleep(began + (number + 1) / rate - time.monotonic())
            continue
        with suppress(Timeout):  # the others ended before us
            await member.settled(EventId(member.stream, number - HURRY // 2), until - now)


async def _read(member: Member, until: float, timed: int) -> dict[str, float]:
    """Take what comes; one in `timed` is looked at by the clock."""
    latencies_ms: list[float] = []
    began = last = time.monotonic()
    cpu_s = time.process_time()
    pause_s, count = 0.0, 0
    with suppress(TimeoutError):
        async with asyncio.timeout(until - began):
            async for item in member:
                if isinstance(item, View):
                    continue
                count += 1
                if count % timed == 0:
                    now = time.monotonic()
                    pause_s, last = max(pause_s, now - last), now
                    latencies_ms.append((time.time_ns() - item.time_ns) / 1e6)
                if count % 256 == 0:
                    await asyncio.sleep(0)
    latencies_ms.sort()
    return {
        "delivered_per_s": max(1, count) / (time.monotonic() - began),
        "p50_ms": latencies_ms[len(latencies_ms) // 2] if latencies_ms else 0.0,
        "p99_ms": latencies_ms[len(latencies_ms) * 99 // 100] if latencies_ms else 0.0,
        "pause_s": pause_s,
        "cpu_us": 1e6 * (time.process_time() - cpu_s) / max(1, count),
    }


if __name__ == "__main__":
    order, own, addresses, rate, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(_member(order, own, addresses.split(","), float(rate), float(seconds)))))
