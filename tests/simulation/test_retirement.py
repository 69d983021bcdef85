"""A stream that is over leaves nothing behind, on nobody (rows S5, R9)."""

from string import ascii_uppercase

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.messages.wire import Kept, Span
from gossamer.protocol.config import Config
from gossamer.protocol.inputs import Expel, Leave, Received
from gossamer.protocol.placement import ranked


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


def kept(mesh, streams):
    """Which loggers that are up have all of each stream on disk."""
    up = {name: host.node for name, host in mesh.world.hosts.items() if host.node is not None and host.node.logger}
    whole = ((0, 2),)
    return {stream: {name for name, node in up.items() if node.logger.on_disk(stream) == whole} for stream in streams}


def test_streams_that_are_over_come_to_who_is_to_keep_them():
    """A logger that joins gets its share of them, one that leaves stays until others have what it had, and of one that
    is expelled its other keepers see to it."""
    config = Config(replicas=2, retain_s=1e6, expire_s=1e7, round_interval_max_s=0.5)
    mesh = Mesh(brokers="abcdef", loggers="KLM", config=config)
    streams = [mesh.stream(name) for name in "abcdef"]
    for name in "abcdef":
        for _ in range(3):
            mesh.publish(name)
    assert mesh.settle()
    for name in "abcdef":
        mesh.close(name)
    mesh.run(30.0)
    nodes = [host.node for host in mesh.world.hosts.values()]
    assert all(stream in node.receiver.retired for node in nodes for stream in streams)

    def placed(loggers):
        found = kept(mesh, streams)
        return all(set(ranked(stream, loggers)[:2]) <= found[stream] for stream in streams)

    assert placed("KLM")
    mesh.world.add("N", logger=True, peers=("K",))
    assert not placed("KLMN")
    assert mesh.world.run_until(lambda: placed("KLMN"), 60.0)
    mesh.world.tell("K", Leave())
    assert mesh.world.run_until(lambda: mesh.world.hosts["K"].node.membership.status == "outside", 60.0)
    assert placed("LMN"), "before it has gone"
    mesh.world.crash("L")
    mesh.world.tell("M", Expel("L"))
    assert mesh.world.run_until(lambda: placed("MN"), 60.0)
    assert not mesh.world.hosts["N"].node.mending


def test_a_logger_that_starts_again_takes_what_was_handed_to_it_for_all_there_is():
    """Whoever handed it over had collected its beginning: that is no hole to wait for."""
    config = Config(replicas=1, retain_s=20.0, round_interval_max_s=0.5)
    mesh = Mesh(brokers="a", loggers="K", config=config)
    newcomer = next(name for name in ascii_uppercase[11:] if ranked(mesh.stream("a"), ["K", name])[0] == name)
    mesh.publish("a")
    mesh.run(15.0)
    mesh.publish("a")
    mesh.close("a")
    mesh.run(10.0)
    assert mesh.world.hosts["K"].node.logger.on_disk(mesh.stream("a")) == ((1, 1),)
    mesh.world.add(newcomer, logger=True, peers=("K",))
    host = mesh.world.hosts[newcomer]
    assert mesh.world.run_until(lambda: host.node.logger.on_disk(mesh.stream("a")) == ((1, 1),), 10.0)
    mesh.world.crash(newcomer)
    mesh.world.restart(newcomer)
    mesh.run(60.0)
    assert not host.node.logger.logs, "it is collected like any other"


def test_what_somebody_says_is_over_and_nobody_has_is_given_up():
    mesh = Mesh(brokers="a", loggers="KL", config=Config(replicas=2, round_interval_max_s=0.5))
    mesh.run(5.0)
    made_up = "default/~x-9.0"
    mesh.world.tell("L", Received("a", Kept((Span(made_up, ((3, 9),)),), True)))
    logger = mesh.world.hosts["L"].node
    assert logger.mending, "it asks for it"
    mesh.run(30.0)
    assert not logger.mending
    assert made_up not in logger.logger.logs


def finished(brokers="abc", loggers="L", **config):
    """A mesh whose publishers have finished: three events each, all logged, all streams forgotten by the members."""
    mesh = Mesh(brokers, loggers, config=Config(retain_s=1e6, expire_s=1e7, round_interval_max_s=0.5, **config))
    for name in brokers:
        mesh.publish(name, 3)
    assert mesh.settle()
    for name in brokers:
        mesh.close(name)
    mesh.run(30.0)
    streams = [mesh.stream(name) for name in brokers]
    assert all(stream in mesh.world.hosts[brokers[0]].node.receiver.retired for stream in streams)
    return mesh, streams


def holds_all(mesh, logger, streams):
    node = mesh.world.hosts[logger].node
    return all(node.logger.on_disk(stream) == ((0, 2),) for stream in streams)


def test_new_logger_backfills_finished_streams():
    mesh, streams = finished()
    mesh.world.add("M", logger=True, peers=("L",))
    assert mesh.world.run_until(lambda: holds_all(mesh, "M", streams), 60.0)
    mesh.run(30.0)
    assert not mesh.world.hosts["L"].node.handover._offers, "nothing is offered for ever"
    assert mesh.world.hosts["M"].node.coverage.uncovered == ()


def test_logger_with_a_replaced_disk_backfills_finished_streams():
    mesh, streams = finished(loggers="LM")
    mesh.crash("M")
    mesh.world.hosts["M"].storage = type(mesh.world.hosts["M"].storage)()
    mesh.restart("M")
    assert mesh.world.run_until(lambda: holds_all(mesh, "M", streams), 60.0)


def test_logger_names_the_loggers_it_has_not_copied_from():
    mesh, streams = finished()
    mesh.world.add("M", logger=True, peers=("a",))
    mesh.isolate("L")
    mesh.run(20.0)
    coverage = mesh.world.hosts["M"].node.coverage
    assert coverage.uncovered == ("L",)
    mesh.heal()
    assert mesh.world.run_until(lambda: not coverage.uncovered, 60.0)
    assert holds_all(mesh, "M", streams), "it confirms no more than is there"


def test_restarted_logger_remembers_its_coverage():
    mesh, _ = finished(loggers="LM")
    mesh.world.run_until(lambda: not mesh.world.hosts["M"].node.coverage.uncovered, 60.0)
    mesh.crash("L")
    mesh.crash("M")
    mesh.restart("M")
    mesh.run(20.0)
    assert mesh.world.hosts["M"].node.coverage.uncovered == ()


def test_offer_of_a_stream_the_logger_lacks_voids_the_confirmation():
    mesh, _ = finished(loggers="LM")
    logger = mesh.world.hosts["M"].node
    assert mesh.world.run_until(lambda: not logger.coverage.uncovered, 60.0)
    mesh.world.tell("M", Received("L", Kept((Span("default/~x-9.0", ((0, 4),)),), True)))
    assert logger.coverage.uncovered == ("L",)
