"""A stream that is over leaves nothing behind, on nobody (rows S5, R9)."""

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.protocol.config import Config


@pytest.mark.parametrize("retain_s", [0.0, 5.0], ids=["collected at once", "retained for a while"])
def test_a_retired_stream_is_collected_after_its_retention_and_forgotten(retain_s):
    mesh = Mesh(brokers="abc", loggers="LM", config=Config(retain_s=retain_s, round_interval_max_s=0.5))
    mesh.publish("a", 3)
    assert mesh.settle()
    mesh.close("a")
    mesh.run(retain_s + 20.0)
    for name, host in mesh.world.hosts.items():
        node = host.node
        assert mesh.stream("a") in node.receiver.retired, name
        assert not node.receiver.streams
        assert not node.logger or not node.logger.logs, f"{name} keeps {node.logger.logs}"
    assert mesh.stored("L") == mesh.stored("M") == []
