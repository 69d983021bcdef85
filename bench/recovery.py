"""How fast a broker that was away gets what it missed, from a logger, while others go on publishing.

Twice: with processes, sockets and a disk, by the clock; and with the production nodes in the simulator, on links of
half a millisecond, where what is measured is what the protocol lets through, and the processor time that it takes at
all nodes together.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from gossamer.bench import measure
from gossamer.bench.logging import EVENTS, model
from gossamer.bench.measure import Row
from gossamer.bench.replay import serving
from gossamer.lab.names import stream_of
from gossamer.lab.topology import uniform
from gossamer.lab.world import World
from gossamer.protocol.config import Config
from gossamer.protocol.inputs import Disconnect, Publish, Reconnect
from gossamer.protocol.node import Node

NAME = "recovery"
PACKETS_PER_S = 5_000
LIVE_PACKETS_PER_S = 500
LIMIT_S = 120.0
LIMIT_US = 1e6 / 150_000


def rows(quick: bool = False) -> Iterator[Row]:
    packets = 200 if quick else 15_625  # a million events
    yield from _with_processes(packets, 1.0 if quick else 3.0)
    yield from _simulated(packets)


# With processes -------------------------------------------------------------------------------------------------------


class _Member:
    """bench/returning.py as a process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._hear()

    def tell(self, **order: Any) -> dict[str, float]:
        self.begin(**order)
        return self._hear()

    def begin(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> dict[str, float]:
        assert self._process.stdout is not None
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def member(name: str, peer: str) -> Iterator[_Member]:
    command = [sys.executable, "-m", "gossamer.bench.returning", name, peer]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield _Member(process)
    finally:
        process.kill()
        process.communicate()


def _with_processes(packets: int, before_s: float) -> Iterator[Row]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir="."))
        _, at = stack.enter_context(serving("logger", "--store", f"sqlite:///{folder}/log.db"))
        a, b, c = (stack.enter_context(member(name, at["mesh"])) for name in ("a", "b", "c"))
        b.tell(disconnect=True)
        a.tell(publish=packets)
        a.tell(live=LIVE_PACKETS_PER_S)
        begun = c.tell(count=True)
        time.sleep(before_s)
        middle = c.tell(count=True)
        back = b.tell(reconnect=packets * EVENTS)
        end = c.tell(count=True)
    recovered = packets * EVENTS
    yield Row(NAME, "missed events to one that is back", 1e6 * back["took_s"] / recovered, "µs an event", LIMIT_US)
    yield Row(NAME, "the same, its own processor time", 1e6 * back["cpu_s"] / recovered, "µs an event")
    before, meanwhile = (
        (later["live"] - sooner["live"]) / (later["at"] - sooner["at"])
        for sooner, later in ((begun, middle), (middle, end))
    )
    yield Row(NAME, "live events of another before, of those published", before / (LIVE_PACKETS_PER_S * EVENTS), "")
    yield Row(NAME, "fewer live events meanwhile", max(0.0, 1 - meanwhile / before), "of those before", 0.2)


# In the simulator -----------------------------------------------------------------------------------------------------


def _simulated(packets: int) -> list[Row]:
    contents = tuple(model().contents())
    world = World(1, topology=uniform(0.0005), config=Config(gossip_buffer_bytes_max=4 * 2**20))
    world.add("L", logger=True, peers=("L",))
    for name in ("a", "b", "c"):
        world.add(name, peers=("L",))
    world.run(3.0)
    world.tell("b", Disconnect())
    world.run(world.now_s + 2.0)
    missed, live = (stream_of("a", world.hosts["a"].incarnation, number) for number in (0, 1))
    for number in range(packets):
        world.at(world.now_s + number / PACKETS_PER_S, world.offer, "a", Publish(missed, contents))
    world.run(world.now_s + packets / PACKETS_PER_S + 10.0)
    began_s, spent_s = world.now_s, time.process_time()
    world.tell("b", Reconnect())
    published = 0
    while _has(world, "b", missed) < packets * EVENTS and world.now_s < began_s + LIMIT_S:
        for number in range(LIVE_PACKETS_PER_S // 100):
            world.at(world.now_s + number / LIVE_PACKETS_PER_S, world.offer, "a", Publish(live, contents))
            published += EVENTS
        world.run(world.now_s + 0.01)
    took_s, spent_s = world.now_s - began_s, time.process_time() - spent_s
    recovered = _has(world, "b", missed)
    assert recovered == packets * EVENTS, f"{recovered} of {packets * EVENTS} after {took_s:.0f} s"
    world.run(world.now_s + 0.05)
    share = _has(world, "c", live) / published
    return [
        Row(NAME, "the same in the simulator", 1e6 * took_s / recovered, "simulated µs an event", LIMIT_US),
        Row(
            NAME,
            "in the simulator, processor time of all nodes",
            1e6 * spent_s / (recovered + published),
            "µs an event",
        ),
        Row(NAME, "in the simulator, live events that wait meanwhile", 1 - share, "of those published", 0.2),
    ]


def _has(world: World, name: str, stream: str) -> int:
    node = world.hosts[name].node
    assert isinstance(node, Node)
    found = node.receiver.streams.get(stream)
    return 0 if found is None else found.next


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
