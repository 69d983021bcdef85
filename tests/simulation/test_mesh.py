"""rpbcast in the simulated mesh, in sentences."""

import pytest

from gossamer.lab.faults import Partition
from gossamer.lab.mesh import Mesh
from gossamer.lab.names import stream_of
from gossamer.lab.topology import transit_stub, uniform
from gossamer.lab.world import World
from gossamer.messages.event import Content
from gossamer.protocol.config import Config

EVERYTHING = ["a:0", "a:1", "a:2"]


def test_who_was_cut_off_gets_everything_when_healed():
    mesh = Mesh(brokers="abc", loggers="L")
    mesh.isolate("c")
    mesh.publish("a", 3)
    mesh.run(0.5)
    assert mesh.delivered("c") == []
    mesh.heal()
    assert mesh.settle(), mesh.lacking()
    assert mesh.delivered("c") == EVERYTHING


def test_what_was_acknowledged_is_on_a_disk():
    mesh = Mesh(brokers="ab", loggers="L")
    mesh.publish("a", 3)
    assert mesh.run_until(lambda: mesh.acked("a") == 2, limit_s=10)
    mesh.crash("L")
    assert mesh.stored("L") == ["a:0-2"]


@pytest.mark.parametrize("seed", range(5))
def test_a_lossy_internet_converges(seed):
    mesh = Mesh([f"b{number}" for number in range(17)], ["L"], seed=seed, topology=transit_stub(seed))
    mesh.lose(0.1)
    for name in ("b0", "b7", "b16"):
        mesh.publish(name, 20)
    assert mesh.settle(), mesh.lacking()
    assert len(mesh.delivered("b3")) == 60


def test_a_member_that_was_cut_off_catches_up_from_peers_within_a_round():
    """What it lacks takes ten full answers: each is followed by the next request, not by a wait for the next round."""
    rate, cut_s, body = 100, 2.0, bytes(50_000)
    world = World(1, topology=uniform(0.0005), config=Config(link_window_bytes=None))
    for name in "Labcde":
        world.add(name, logger=name == "L", peers=("L",))
    world.run(3.0)
    stream = stream_of("a", world.hosts["a"].incarnation, 0)
    for number in range(5 * rate):
        world.at(3.0 + number / rate, world.publish, "a", stream, (Content(body=body),))
    world.run(4.0)
    cut = Partition({"b"}, set("Lacde"))
    world.add_rule(cut)
    world.run(4.0 + cut_s)
    world.remove_rule(cut)

    def behind():
        reached, there = (world.hosts[name].node.receiver.streams[stream].next for name in "bc")
        return there - reached

    assert behind() * len(body) > 9 * world.config.repair_bytes_max
    assert world.run_until(lambda: behind() <= 1, world.config.round_interval_s, every_s=0.001)
