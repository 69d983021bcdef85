"""Links, paths and topologies."""

import pytest

from gossamer.lab.faults import Delay
from gossamer.lab.plain import PlainNode
from gossamer.lab.topology import Link, Topology, hops, star, transit_stub, uniform
from gossamer.lab.world import World
from gossamer.messages import codec
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Busy
from gossamer.protocol.inputs import Received


class Quiet(PlainNode):
    """Says nothing by itself."""

    def handle(self, input, now):
        return []

    def next_deadline(self):
        return float("inf")


def world_of(names, topology, **options):
    world = World(node_factory=Quiet, topology=topology, **options)
    arrivals = []
    arrive = world.network._arrive
    world.network._arrive = lambda to, received: (
        arrivals.append((round(world.now_s, 6), tuple(to))),
        arrive(to, received),
    )
    for name in names:
        world.add(name)
    return world, arrivals


def test_a_link_serialises_queues_and_drops():
    link = Link(0, 1, latency_s=0.5, bandwidth_bps=8_000, queue_packets_max=2)  # 1,000 bytes a second
    assert [link.carry(0.0, 1_000) for _ in range(4)] == [1.5, 2.5, 3.5, None]
    assert link.carry(1.0, 1_000) == 4.5  # the first has left: there is room again
    assert (link.packets, link.bytes, link.busy_s, link.dropped) == (4, 4_000, 4.0, 1)


def test_a_link_without_bandwidth_only_takes_its_latency():
    link = Link(0, 1, 0.5, None, None)
    assert {link.carry(0.0, 10**9) for _ in range(100)} == {0.5}


def test_copies_that_arrive_together_are_one_entry():
    world, arrivals = world_of("abcd", uniform(0.01))
    world.network.send(("b", "c", "d"), Received("a", Busy()))
    world.run(1.0)
    assert arrivals == [(0.01, ("b", "c", "d"))]


def test_late_copies_arrive_on_their_own():
    world, arrivals = world_of("abcd", uniform(0.01))
    world.add_rule(Delay(exp_ms=10))
    world.network.send(("b", "c", "d"), Received("a", Busy()))
    world.run(10.0)
    assert len(arrivals) == 3
    assert all(at_s > 0.01 for at_s, _ in arrivals)


@pytest.mark.parametrize("measure", [False, True])
def test_latency_adds_up_along_the_shortest_path(measure):
    topology = Topology(4, [(0, 1, 0.1), (1, 2, 0.1), (0, 2, 0.5), (2, 3, 0.1)], hosts=[0, 3, 3], local_s=0.001)
    world, arrivals = world_of("abc", topology, measure=measure)
    world.network.send(("b",), Received("a", Busy()))
    world.network.send(("b",), Received("c", Busy()))
    world.run(1.0)
    assert arrivals == [(0.001, ("b",)), (0.3, ("b",))]
    assert hops(topology, 0, 3) == 3
    size_bytes = len(codec.encode(Busy())) if measure else 0
    carried = {(link.source, link.target): link.bytes for link in topology.links if link.bytes}
    assert carried == ({(0, 1): size_bytes, (1, 2): size_bytes, (2, 3): size_bytes} if measure else {})


def test_a_tree_crosses_each_link_once_and_unicast_once_a_copy():
    for tree, on_the_way_out in ((True, 1), (False, 3)):
        topology = star(4)
        world, arrivals = world_of("abcd", topology, measure=True, tree=tree)
        world.network.send(("b", "c", "d"), Received("a", Busy()))
        world.run(1.0)
        assert sorted(to for _, to in arrivals) == [("b",), ("c",), ("d",)]
        packets = {(link.source, link.target): link.packets for link in topology.links}
        assert packets[1, 0] == on_the_way_out
        assert packets[0, 2] == packets[0, 3] == packets[0, 4] == 1


def test_a_full_queue_drops_and_counts():
    topology = star(2, bandwidth_bps=1_000, queue_packets_max=5)
    world, arrivals = world_of("ab", topology)
    for _ in range(10):
        world.network.send(("b",), Received("a", Busy()))
    world.run(100.0)
    assert len(arrivals) == 6
    assert world.network.lost == 4 == sum(link.dropped for link in topology.links)


@pytest.mark.parametrize("seed", range(20))
def test_transit_stub_is_like_the_thesis(seed):
    topology = transit_stub(seed)
    assert len(topology.routes) == 30
    assert len(topology.hosts) == len(set(topology.hosts)) == 18
    assert hops(topology, topology.hosts[0], 0) == 4  # the logger's four links to the hub
    degree = [sum(link.source == router for link in topology.links) for router in range(30)]
    assert all(degree[router] == 1 for router in topology.hosts)
    assert all(link.bandwidth_bps == 100e6 and link.queue_packets_max == 50 for link in topology.links)
    again = transit_stub(seed)
    assert [link.latency_s for link in again.links] == [link.latency_s for link in topology.links]


def test_routes_both_ways_take_equally_long():
    topology = transit_stub(1)
    for one in range(30):
        for other in range(30):
            assert topology.latencies_s[one][other] == pytest.approx(topology.latencies_s[other][one])


def test_a_topology_in_two_parts_is_refused():
    with pytest.raises(UsageError, match="connected"):
        Topology(2, hosts=[0], local_s=0.0)
