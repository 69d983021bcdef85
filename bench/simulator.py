"""How long the simulator takes for a large mesh: production code on every node, one percent of everything lost.

All know each other from the start (joining is measured by nobody's target), every member publishes in turn, three of
them are loggers, and the run is over when everybody has everything.
"""

import time
from collections.abc import Sequence
from functools import partial

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.lab.faults import Loss
from gossamer.lab.names import stream_of
from gossamer.lab.progress import Progress
from gossamer.lab.world import World
from gossamer.messages.event import Content
from gossamer.messages.wire import Member
from gossamer.protocol.node import Node

NAME = "simulator"
LOGGERS = 3
PACKETS_PER_S = 100
LIMIT_S = 300.0


def rows(quick: bool = False) -> list[Row]:
    members, packets = (40, 40) if quick else (1_000, 1_000)
    names = [f"n{number}" for number in range(members)]
    roster = tuple(Member(name, "member", 1, place < LOGGERS) for place, name in enumerate(names))
    world = World(1, node_factory=partial(Node, roster=roster))
    progress = Progress()
    world.observe(progress)
    world.add_rule(Loss(0.01))

    start_s = time.perf_counter()
    for place, name in enumerate(names):
        world.add(name, logger=place < LOGGERS)
    ready_s = time.perf_counter()
    for number in range(packets):
        name = names[number % members]
        world.at(number / PACKETS_PER_S, world.publish, name, stream_of(name, 1), (Content(body=b"%d" % number),))
    world.run(packets / PACKETS_PER_S)
    converged = world.run_until(progress.settled, LIMIT_S, every_s=0.1)
    assert converged, f"not converged after {LIMIT_S} s: {next(progress.lacking())}"
    done_s = time.perf_counter()

    size = f"{members:,} members × {packets:,} packets"
    return [
        Row(NAME, f"{members:,} members that know each other come up", ready_s - start_s, "s"),
        Row(NAME, f"{size}, 1 % loss, to convergence", done_s - ready_s, "s"),
        Row(NAME, "both, wall time", done_s - start_s, "s", 120),
        Row(NAME, "virtual time", world.now_s, "s"),
        Row(NAME, "copies of messages", world.network.sent, "copies"),
        Row(NAME, "copies simulated a second", world.network.sent / (done_s - ready_s), "copies/s"),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
