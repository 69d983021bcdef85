"""Larger worlds, with every kind of fault at once."""

import pytest

from gossamer.lab.faults import BurstLoss, Crash, Delay, Duplicate, Loss, Partition
from gossamer.lab.observer import Journal, Observer
from gossamer.lab.plain import PlainNode
from gossamer.lab.topology import star, transit_stub, uniform
from gossamer.lab.world import World
from gossamer.messages.event import Content

STREAM = "default/~n0-1.0"


def turbulent(seed, topology, **options):
    """Eighteen members, two of them loggers, thirty seconds of everything."""
    world = World(seed, node_factory=PlainNode, topology=topology, **options)
    journal = Journal()
    world.observe(journal)
    names = [f"n{number}" for number in range(18)]
    for place, name in enumerate(names):
        world.add(name, logger=place < 2, peers=tuple(names[:place]))
    for rule in (
        Loss(0.05),
        BurstLoss(0.01, 0.3),
        Duplicate(0.05),
        Delay(exp_ms=5),
        Partition(names[:9], names[9:], start_s=3, stop_s=6),
    ):
        world.add_rule(rule)
    for place, name in enumerate(names[1:6]):
        world.schedule(Crash(name, at_s=2.0 + place, back_s=4.0 + place))
    for number in range(200):
        world.at(0.5 + 0.05 * number, world.publish, "n0", STREAM, (Content(body=b"%d" % number),))
    world.run(20.0)
    world.heal()
    world.run(30.0)
    return world, journal


@pytest.mark.parametrize(
    "topology", [uniform, lambda: star(18), lambda: transit_stub(1)], ids=["uniform", "star", "ts"]
)
def test_turbulence_replays_exactly_and_through_the_codec(topology):
    _, one = turbulent(7, topology())
    _, again = turbulent(7, topology())
    _, wired = turbulent(7, topology(), wire=True)
    assert len(one.entries) > 5_000
    assert one.entries == again.entries == wired.entries


def test_plain_nodes_keep_their_modest_promises_under_turbulence():
    world, journal = turbulent(8, transit_stub(2), tree=True)
    expected: dict[str, int] = {}
    for what, _, node, *rest in journal.entries:
        if what == "started":
            expected[node] = 0
        elif what == "delivered":
            (deliver,) = rest
            assert deliver.packet.first == expected[node]
            expected[node] = deliver.packet.last + 1
        elif what == "skipped":
            (skip,) = rest
            assert skip.first == expected[node]
            expected[node] = skip.last + 1
    for name in ("n0", "n1"):  # a disk has what was synced before a crash and after it, nothing twice
        stored = world.hosts[name].storage.stored().streams[STREAM].stored
        assert stored[0][0] == 0
        assert stored[-1][1] == 199
    assert sum(link.packets for link in world.network.topology.links) > 10_000


def test_a_thousand_copies_are_one_entry_and_a_percent_is_lost():
    class Deliveries(Observer):
        count = 0

        def delivered(self, at_s, node, deliver):
            self.count += 1

    world = World(1, node_factory=PlainNode)
    names = [f"n{number}" for number in range(1_000)]
    for name in names[1:]:
        world.add(name)
    world.add("n0", peers=tuple(names))
    deliveries = Deliveries()
    world.observe(deliveries)
    world.add_rule(Loss(0.01))
    before = len(world.agenda._heap)
    for _ in range(20):
        world.publish("n0", STREAM, (Content(),))
    assert len(world.agenda._heap) == before + 20
    world.run(0.1)
    assert deliveries.count == pytest.approx(20 * 999 * 0.99, rel=0.01)
