"""How fast a broker that was away gets what it missed, from a logger, while others go on publishing.

The production nodes in the simulator, on links of half a millisecond: what is measured is what the protocol lets
through, and the processor time that it takes at all nodes together. Disks and sockets are not in it.
"""

import time
from collections.abc import Sequence

from gossamer.bench import measure
from gossamer.bench.logging import EVENTS, model
from gossamer.bench.measure import Row
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


def rows(quick: bool = False) -> list[Row]:
    packets = 200 if quick else 15_625  # a million events
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
        Row(NAME, "missed events to one that is back", 1e6 * took_s / recovered, "simulated µs an event", LIMIT_US),
        Row(NAME, "the same, processor time of all nodes", 1e6 * spent_s / (recovered + published), "µs an event"),
        Row(NAME, "live events that wait meanwhile", 1 - share, "of those published", 0.2),
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
