"""A logger that lacks events goes on acknowledging those that reach its disk."""

from gossamer.lab.mesh import Mesh
from gossamer.protocol.config import Config


def behind(**config):
    """L has events 0 to 9 on disk, M has only later ones; L is down."""
    mesh = Mesh(brokers="ab", loggers="LM", config=Config(gclimit_rounds=2, round_interval_max_s=0.5, **config))
    mesh.crash("M")
    for _ in range(10):
        mesh.publish("a")
    assert mesh.run_until(lambda: mesh.acked("a") == 9)
    mesh.run(20.0)  # no broker has them in memory any more
    mesh.crash("L")
    mesh.restart("M")
    return mesh


def test_publisher_goes_on_while_the_only_logger_lacks_earlier_events():
    mesh = behind()
    mesh.publish("a")
    assert mesh.run_until(lambda: mesh.acked("a") == 10, 30.0)
    logger = mesh.world.hosts["M"].node
    assert logger.logger.on_disk(mesh.stream("a")) == ((10, 10),)
    mesh.run(10.0)
    assert logger.lacking() == {mesh.stream("a"): 10}
    mesh.restart("L")
    assert mesh.run_until(lambda: mesh.stored("L") == mesh.stored("M") == ["a:0-10"])
    assert logger.lacking() == {}


def test_acknowledged_event_behind_a_gap_survives_the_publisher_and_the_logger():
    """M acknowledges event 10 behind its gap. Then the publisher's broker dies, M restarts, and L returns."""
    mesh = behind()
    mesh.publish("a")
    assert mesh.run_until(lambda: mesh.acked("a") == 10, 30.0)
    mesh.crash("a")
    mesh.crash("M")
    mesh.run(5.0)
    mesh.restart("M")
    mesh.run(5.0)
    mesh.restart("L")
    mesh.restart("a")
    assert mesh.run_until(lambda: mesh.stored("L") == mesh.stored("M") == ["a:0-10"], 120.0)
    assert mesh.delivered("b") == [f"a:{seq}" for seq in range(11)]


def test_logger_keeps_events_that_another_lacks_though_that_one_acknowledged_later_ones():
    mesh = behind(retain_s=0.0)
    mesh.publish("a")
    assert mesh.run_until(lambda: mesh.acked("a") == 10, 30.0)
    rule = mesh.partition("L", "abM")
    mesh.restart("L")
    mesh.run(5.0)
    assert mesh.stored("L") == ["a:0-9"]
    mesh.world.remove_rule(rule)
    logger = mesh.world.hosts["M"].node
    assert mesh.run_until(lambda: logger.position(mesh.stream("a")) == 10, 120.0)
    assert not mesh.skipped("M"), "L had collected nothing that M lacked"
