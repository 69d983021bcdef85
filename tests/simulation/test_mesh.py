"""rpbcast in the simulated mesh, in sentences."""

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.lab.topology import transit_stub

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
