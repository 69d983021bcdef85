"""Where members sit and what lies between them: routers, links, shortest paths.

A member sits at a router; copies between members of one router take `local_s`. Everything else travels along the
path of least latency. Links count and queue, so a topology belongs to one world.
"""

import random
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from gossamer.messages.errors import UsageError


class Link:
    """One direction of a cable: serialises what it carries, queues what waits, drops what finds the queue full."""

    __slots__ = (
        "source", "target", "latency_s", "bandwidth_bps", "queue_packets_max", "loss",
        "packets", "bytes", "busy_s", "dropped", "_departures_s",
    )  # fmt: skip

    def __init__(
        self, source: int, target: int, latency_s: float, bandwidth_bps: float | None, queue_packets_max: int | None
    ) -> None:
        self.source = source
        self.target = target
        self.latency_s = latency_s
        self.bandwidth_bps = bandwidth_bps
        self.queue_packets_max = queue_packets_max
        self.loss = 0.0
        """How likely it is to lose what it carries: of a multicast, the copies for all that lie beyond it."""
        self.packets = 0
        self.bytes = 0
        self.busy_s = 0.0
        self.dropped = 0
        self._departures_s: deque[float] = deque()
        """When each of those that are queued or on the way out will have left."""

    def carry(self, now_s: float, size_bytes: int) -> float | None:
        """When it arrives at the other end; None if there was no room for it."""
        leaves_s = now_s
        if self.bandwidth_bps is not None:
            departures_s = self._departures_s
            while departures_s and departures_s[0] <= now_s:
                departures_s.popleft()
            # The first of them is on the wire, not in the queue.
            if self.queue_packets_max is not None and len(departures_s) > self.queue_packets_max:
                self.dropped += 1
                return None
            wire_s = 8 * size_bytes / self.bandwidth_bps
            leaves_s = (departures_s[-1] if departures_s else now_s) + wire_s
            departures_s.append(leaves_s)
            self.busy_s += wire_s
        self.packets += 1
        self.bytes += size_bytes
        return leaves_s + self.latency_s


class Topology:
    """Routers 0 to n - 1, the links between them, and those routers that host members."""

    def __init__(
        self,
        routers: int,
        cables: Sequence[tuple[int, int, float]] = (),
        *,
        hosts: Sequence[int],
        local_s: float,
        bandwidth_bps: float | None = None,
        queue_packets_max: int | None = None,
    ) -> None:
        """`cables`: (router, router, latency_s), both ways."""
        self.hosts = tuple(hosts)
        self.local_s = local_s
        self.limited = bandwidth_bps is not None
        self.links = [
            Link(source, target, latency_s, bandwidth_bps, queue_packets_max)
            for one, other, latency_s in cables
            for source, target in ((one, other), (other, one))
        ]
        outgoing: list[list[Link]] = [[] for _ in range(routers)]
        for link in self.links:
            outgoing[link.source].append(link)
        self.routes: list[list[Link | None]] = []
        """`routes[a][b]`: the link to take at a for b; None at b itself."""
        self.latencies_s: list[list[float]] = []
        """`latencies_s[a][b]`: how long an empty network takes between members at a and b."""
        for router in range(routers):
            routes, latencies_s = _shortest(router, outgoing)
            latencies_s[router] = local_s
            self.routes.append(routes)
            self.latencies_s.append(latencies_s)


def uniform(latency_s: float = 0.001) -> Topology:
    """Everybody equally far from everybody."""
    return Topology(1, hosts=[0], local_s=latency_s)


def star(
    arms: int,
    latency_s: float = 0.001,
    *,
    bandwidth_bps: float | None = None,
    queue_packets_max: int | None = None,
    local_s: float = 0.0001,
) -> Topology:
    """A hub in the middle and members at the ends of its arms: two links between any two."""
    return Topology(
        arms + 1,
        [(0, arm, latency_s) for arm in range(1, arms + 1)],
        hosts=range(1, arms + 1),
        local_s=local_s,
        bandwidth_bps=bandwidth_bps,
        queue_packets_max=queue_packets_max,
    )


def full(
    members: int, latency_s: float, *, bandwidth_bps: float | None = None, queue_packets_max: int | None = None
) -> Topology:
    """A connection of its own between any two members (003 §4.2)."""
    return Topology(
        members,
        [(one, other, latency_s) for one in range(members) for other in range(one)],
        hosts=range(members),
        local_s=latency_s,
        bandwidth_bps=bandwidth_bps,
        queue_packets_max=queue_packets_max,
    )


TRANSIT, STUBS, FRINGE = 4, 7, 18


def transit_stub(
    seed: int, *, bandwidth_bps: float | None = 100e6, queue_packets_max: int | None = 50, local_s: float = 0.0001
) -> Topology:
    """Thirty routers after GT-ITM (rpbcast §7.1): a hub with a transit core around it, stubs beyond, eighteen fringe
    routers that host members. Latencies fall from core to fringe. The first host is the farthest from the hub: the
    thesis has its logger there (node 14, four links away)."""
    rng = random.Random(seed)
    hub, transit = 0, range(1, 1 + TRANSIT)
    stubs = range(transit.stop, transit.stop + STUBS)
    fringe = range(stubs.stop, stubs.stop + FRINGE)
    cables = [(hub, router, rng.uniform(0.010, 0.030)) for router in transit]
    cables += [(one, one + 1, rng.uniform(0.010, 0.030)) for one in transit[:-1] if rng.random() < 0.5]
    for place, router in enumerate(stubs):
        # One stub a transit router; the others hang on any of these, so that some fringe is four links from the hub.
        above = transit[place] if place < TRANSIT else rng.choice(stubs[:TRANSIT])
        cables.append((above, router, rng.uniform(0.005, 0.015)))
    for place, router in enumerate(fringe):
        above = stubs[place % STUBS]
        cables.append((above, router, rng.uniform(0.001, 0.005)))
    topology = Topology(
        1 + TRANSIT + STUBS + FRINGE,
        cables,
        hosts=fringe,
        local_s=local_s,
        bandwidth_bps=bandwidth_bps,
        queue_packets_max=queue_packets_max,
    )
    farthest = max(fringe, key=lambda router: (hops(topology, router, hub), router))
    topology.hosts = (farthest, *(router for router in fringe if router != farthest))
    return topology


def hops(topology: Topology, source: int, target: int) -> int:
    """How many links the path from one router to another has."""
    count = 0
    while (link := topology.routes[source][target]) is not None:
        source = link.target
        count += 1
    return count


def _shortest(start: int, outgoing: list[list[Link]]) -> tuple[list[Link | None], list[float]]:
    """Dijkstra: the first link towards each router, and the latency."""
    first: dict[int, Link | None] = {}
    latencies_s = [0.0] * len(outgoing)
    order = 0
    heap: list[tuple[float, int, int, Link | None]] = [(0.0, order, start, None)]
    while heap:
        so_far_s, _, router, way = heappop(heap)
        if router in first:
            continue
        first[router] = way
        latencies_s[router] = so_far_s
        for link in outgoing[router]:
            order += 1
            heappush(heap, (so_far_s + link.latency_s, order, link.target, way or link))
    if len(first) < len(outgoing):
        raise UsageError("a topology must be connected")
    return [first[router] for router in range(len(outgoing))], latencies_s
