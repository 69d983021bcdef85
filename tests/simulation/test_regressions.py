"""Stories that once went wrong, each in a few sentences."""

from dataclasses import replace

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.lab.observer import Observer
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Refused
from gossamer.protocol.placement import ranked

QUICK = Config(retain_s=0.5, expire_s=1e6, seek_after_rounds=4, block_seqs=10, positions_rounds=1)


class Refusals(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def refused(self, at_s: float, node: str, refused: Refused) -> None:
        self.told.append((node, refused.reason))


def test_a_logger_writes_down_every_member_it_learns_of() -> None:
    mesh = Mesh("ab")
    mesh.add("L", logger=True)
    assert mesh.run_until(lambda: len(mesh.world.hosts["L"].storage.stored().members) >= 2, 30.0)
    assert {member.node for member in mesh.world.hosts["L"].storage.stored().members} >= {"a", "b"}


def test_one_publisher_opened_at_two_nodes_never_gives_a_number_twice() -> None:
    refusals = Refusals()
    mesh = Mesh("ab", "L", config=QUICK, observers=(refusals,))
    for node in "ab":
        mesh.open(node, "feed")
        mesh.publish(node, publisher="feed", by=node)
    mesh.run(20.0)
    delivered = mesh.delivered("L")
    assert len(delivered) == len(set(delivered)) > 0
    assert [node for node, reason in refusals.told if "superseded" in reason] != [], "one of them has to know"


def test_a_publisher_may_move_to_a_node_of_a_lower_incarnation() -> None:
    mesh = Mesh("ab", "L", config=QUICK)
    mesh.crash("a")
    mesh.restart("a")
    assert mesh.run_until(lambda: mesh.status("a") == "member")
    mesh.open("a", "feed")
    mesh.publish("a", publisher="feed")
    mesh.run(3.0)
    mesh.crash("a")
    mesh.open("b", "feed")
    mesh.publish("b", publisher="feed")
    mesh.restart("a")
    assert mesh.run_until(lambda: "feed:10" in mesh.delivered("L"), 60.0)
    assert mesh.delivered("L") == ["feed:0", "feed:10"]


def test_a_member_that_is_away_does_not_stall_a_publisher_that_restarts() -> None:
    mesh = Mesh("abc", "L", config=QUICK)
    mesh.open("a", "feed")
    mesh.publish("a", publisher="feed")
    mesh.run(2.0)
    mesh.disconnect("c")
    assert mesh.run_until(lambda: mesh.status("c") == "disconnected")
    mesh.crash("a")
    mesh.restart("a")
    assert mesh.run_until(lambda: mesh.status("a") == "member")
    mesh.open("a", "feed")
    mesh.publish("a", publisher="feed")
    assert mesh.run_until(lambda: "feed:10" in mesh.delivered("b"), 60.0)
    assert mesh.run_until(lambda: mesh.acked("a", "feed") == 10, 60.0)


def test_what_was_collected_is_not_void_for_a_logger_that_comes_late() -> None:
    mesh = Mesh("ab", "K", config=QUICK)
    mesh.publish("a", 5)
    mesh.run(10.0)
    assert mesh.stored("K") == [], "collected: everyone has it"
    mesh.drop("K->J", "Gone", times=None)
    mesh.add("J", logger=True)
    mesh.run(30.0)
    assert [line for line in mesh.skipped("J") if "void" in line] == []


def test_a_publisher_that_was_expelled_alive_is_told_that_its_stream_is_closed() -> None:
    refusals = Refusals()
    mesh = Mesh("ab", "L", config=QUICK, observers=(refusals,))
    mesh.publish("b", 2)
    mesh.run(2.0)
    mesh.isolate("b")
    mesh.expel("b", by="L")
    mesh.run(20.0)
    mesh.heal()
    assert mesh.run_until(lambda: bool(refusals.told), 60.0)
    assert refusals.told[0] == ("b", "the stream was closed, because this node was taken for dead")


def test_who_leaves_goes_when_fewer_are_enough() -> None:
    mesh = Mesh("abc", config=Config(faults=None))
    mesh.isolate("a")
    mesh.publish("a")
    mesh.leave("a")
    mesh.run(2.0)
    assert mesh.status("a") == "member", "what only it has stays with it"
    mesh.heal()
    assert mesh.run_until(lambda: mesh.status("a") == "outside", 60.0)


def test_a_new_logger_that_is_cut_off_founds_no_second_mesh() -> None:
    mesh = Mesh("a", "K", config=QUICK)
    mesh.partition("aK", "Jb")
    mesh.add("J", logger=True)
    mesh.add("b")
    mesh.run(20.0)
    assert mesh.status("b") == "joining"
    mesh.heal()
    assert mesh.run_until(lambda: mesh.status("b") == "member", 60.0)
    mesh.publish("a", 3)
    assert mesh.settle(60.0)
    assert mesh.delivered("b") == ["a:0", "a:1", "a:2"]


def test_the_first_logger_gets_over_what_was_let_go_of_before_it_came() -> None:
    mesh = Mesh("ab", config=Config(seek_after_rounds=4))
    for _ in range(10):
        mesh.publish("a")
        mesh.run(1.0)
    mesh.run(30.0)
    mesh.add("L", logger=True)
    for _ in range(10):
        mesh.publish("a")
        mesh.run(1.0)
    assert mesh.run_until(lambda: "a:19" in mesh.delivered("L"), 60.0), "though its publisher lives on"
    assert mesh.delivered("b") == [f"a:{seq}" for seq in range(20)]


def test_who_wants_to_leave_is_not_kept_by_what_others_go_on_publishing() -> None:
    mesh = Mesh("abc", "L")
    for step in range(500):
        mesh.publish("a")
        mesh.run(0.02)
        if step == 10:
            mesh.leave("c")
    assert mesh.status("c") == "outside"
    assert mesh.settle()


def test_a_new_logger_that_knows_nobody_yet_collects_nothing() -> None:
    """Others know it, and send it what is published; but nobody has told it whom to wait for."""
    mesh = Mesh("ab", "K", config=Config(retain_s=0.2, round_interval_max_s=0.25, positions_rounds=1))
    for way in ("K->J", "a->J", "b->J"):
        for kind in ("Sponsor", "Roster"):
            mesh.drop(way, kind, None)
    mesh.add("J", logger=True)
    mesh.run(2.0)
    mesh.isolate("b")
    mesh.publish("a", 3)
    mesh.run(5.0)
    assert mesh.stored("J") == ["a:0-2"]


KEPT = replace(QUICK, retain_s=1e6)


def test_a_logger_that_leaves_goes_when_others_have_what_it_alone_acknowledged() -> None:
    mesh = Mesh("ab", "KL", config=KEPT)
    leaving = mesh.world.hosts["L"].node
    mesh.isolate("K")
    mesh.publish("a", 3)
    mesh.run(20.0)
    assert (mesh.acked("a"), mesh.stored("K")) == (2, []), "logged, and at hand nowhere else any more"
    mesh.leave("L")
    mesh.run(20.0)
    assert mesh.status("L") == "member"
    assert leaving.waits_for == "K to keep what is only here"
    mesh.heal()
    assert mesh.run_until(lambda: mesh.status("L") == "outside", 60.0)
    assert mesh.stored("K") == ["a:0-2"]
    assert mesh.skipped("K") == []


def test_a_logger_that_leaves_hands_over_streams_that_are_over() -> None:
    mesh = Mesh("ab", "L", config=KEPT)
    mesh.publish("a", 3)
    mesh.close("a")
    assert mesh.run_until(lambda: mesh.stream("a") in mesh.world.hosts["L"].node.receiver.retired, 60.0)
    mesh.add("K", logger=True)
    assert mesh.stored("K") == [], "it has just come"
    mesh.leave("L")
    assert mesh.run_until(lambda: mesh.status("L") == "outside", 60.0)
    assert mesh.stored("K") == ["a:0-2"]


@pytest.mark.parametrize("replicas", [None, 1])
def test_what_a_logger_collected_before_it_resigned_is_not_waited_for(replicas: int | None) -> None:
    """A publisher with a name is gone, and may be back with what is not logged. What was collected was logged, but only
    the logger that leaves can say so, and it is none any more when the new one asks."""
    config = replace(QUICK, retain_s=3.0, gclimit_rounds=2, round_interval_max_s=0.25, replicas=replicas)
    mesh = Mesh("ab", "L", config=config)
    mesh.open("a", "feed")
    mesh.publish("a", 3, publisher="feed")
    mesh.run(8.0)
    assert mesh.stored("L") == [], "collected, and at hand nowhere else"
    mesh.publish("a", 2, publisher="feed")
    mesh.run(0.5)
    mesh.leave("a")
    mesh.leave("L")
    leaving = mesh.world.hosts["L"].node
    unheard = mesh.drop("L->K", "Gone", None)
    mesh.add("K", logger=True)
    assert mesh.run_until(lambda: not leaving.membership.own.logger, 5.0)
    mesh.world.remove_rule(unheard)
    assert mesh.run_until(lambda: mesh.status("L") == "outside", 60.0), leaving.waits_for
    assert mesh.skipped("K") == ["feed:0-2 collected"]
    assert mesh.delivered("K") == ["feed:3", "feed:4"]


@pytest.mark.parametrize("replicas", [None, 2])
def test_a_logger_that_is_stopped_while_it_waits_to_leave_is_one_again(replicas: int | None) -> None:
    mesh = Mesh("ab", "KL", config=replace(KEPT, replicas=replicas))
    mesh.isolate("K")
    mesh.publish("a", 3)
    mesh.run(20.0)
    mesh.leave("L")
    mesh.run(5.0)
    mesh.disconnect("L")
    assert mesh.run_until(lambda: mesh.status("L") == "disconnected", 60.0)
    mesh.heal()
    mesh.run(60.0)
    assert mesh.skipped("K") == [], "it is on the disk of a logger that may come back"
    mesh.reconnect("L")
    assert mesh.run_until(lambda: mesh.stored("K") == ["a:0-2"], 60.0)
    mesh.publish("a", 3)
    assert mesh.run_until(lambda: mesh.stored("L") == mesh.stored("K") == ["a:0-5"], 60.0)


@pytest.mark.parametrize("replicas", [None, 1])
def test_the_last_logger_stays_until_there_is_another(replicas: int | None) -> None:
    mesh = Mesh("ab", "L", config=replace(KEPT, replicas=replicas))
    leaving = mesh.world.hosts["L"].node
    mesh.publish("a", 3)
    mesh.run(5.0)
    mesh.leave("L")
    mesh.run(20.0)
    assert mesh.status("L") == "member"
    assert leaving.membership.own.logger, "until then it goes on as it was"
    assert leaving.waits_for == "more loggers: 0 would be left, and each event is to be on 1"
    mesh.publish("a", 3)
    mesh.run(5.0)
    assert mesh.acked("a") == 5
    mesh.add("K", logger=True)
    assert mesh.run_until(lambda: mesh.status("L") == "outside", 60.0)
    assert mesh.stored("K") == ["a:0-5"]


@pytest.mark.parametrize("replicas", [None, 1, 2])
@pytest.mark.parametrize("apart", [False, True], ids=["at once", "unheard by each other"])
def test_of_two_loggers_that_leave_at_once_the_first_by_name_stays(replicas: int | None, apart: bool) -> None:
    """Each has the other to count on until it hears that that one has resigned as well."""
    mesh = Mesh("ab", "KL", config=replace(KEPT, replicas=replicas))
    mesh.publish("a", 3)
    mesh.publish("b", 3)
    mesh.run(5.0)
    if apart:
        mesh.partition("K", "L")
    mesh.leave("L")
    mesh.leave("K")
    mesh.run(10.0)
    mesh.heal()
    mesh.publish("a", 3)
    assert mesh.run_until(lambda: mesh.status("L") == "outside", 60.0), mesh.world.hosts["L"].node.waits_for
    mesh.run(10.0)
    staying = mesh.world.hosts["K"].node
    assert (mesh.status("K"), staying.membership.own.logger) == ("member", True)
    assert staying.waits_for == "more loggers: 0 would be left, and each event is to be on 1"
    assert sorted(mesh.stored("K")) == ["a:0-5", "b:0-2"]
    mesh.publish("b", 3)
    mesh.run(5.0)
    assert (mesh.acked("b"), sorted(mesh.stored("K"))) == (5, ["a:0-5", "b:0-5"])
    mesh.add("M", logger=True)
    assert mesh.run_until(lambda: mesh.status("K") == "outside", 60.0), staying.waits_for
    assert sorted(mesh.stored("M")) == ["a:0-5", "b:0-5"]


def test_a_logger_that_has_resigned_is_one_again_when_the_other_is_gone_for_good() -> None:
    mesh = Mesh("ab", "KL", config=KEPT)
    mesh.isolate("K")
    mesh.publish("a", 3)
    mesh.run(20.0)
    mesh.leave("L")
    mesh.run(5.0)
    leaving = mesh.world.hosts["L"].node
    assert not leaving.membership.own.logger
    mesh.crash("K")
    mesh.expel("K", by="L")
    mesh.run(5.0)
    assert leaving.membership.own.logger
    mesh.publish("a", 3)
    assert mesh.run_until(lambda: mesh.stored("L") == ["a:0-5"], 20.0)


KEPT_BY_ONE = replace(QUICK, replicas=1)


def a_third_logger(mesh: Mesh, stream: str) -> str:
    """One that comes now, does not keep the stream, and does not lead."""
    name = next(name for name in "MNOPQRSTU" if ranked(stream, ("K", "L", name))[0] != name)
    mesh.add(name, logger=True)
    return name


def test_a_logger_that_comes_late_is_told_that_a_stream_that_it_does_not_keep_is_over() -> None:
    """It hears of it from one that has not heard that it is over, and lacks nothing of it that it would ask for."""
    mesh = Mesh("ab", "KL", config=KEPT_BY_ONE)
    stream = mesh.stream("a")
    mesh.publish("a", 3)
    mesh.drop("*->b", "Retire", None)
    mesh.drop("b->*", "Beats", None)
    mesh.close("a")
    mesh.run(10.0)
    nodes = {name: host.node for name, host in mesh.world.hosts.items()}
    assert [name for name, node in nodes.items() if stream in node.receiver.streams] == ["b"]
    late = a_third_logger(mesh, stream)
    node = mesh.world.hosts[late].node
    assert mesh.run_until(lambda: stream in node.receiver.streams, 10.0)
    for name in nodes:
        mesh.drop(f"{name}->{late}", "Retire")  # whoever is told of it once more says so once more
    assert mesh.run_until(lambda: stream in node.receiver.retired, 30.0)
    assert stream not in node.receiver.streams
    told = {name: host.node.stability.positions(late) for name, host in mesh.world.hosts.items()}
    assert [name for name, vector in told.items() if any(each.stream == stream for each in vector)] == ["b"]


def test_a_logger_that_comes_late_does_not_keep_what_is_old_in_the_logs_of_others() -> None:
    """Nobody publishes any more, so nothing but its word says that it is not to be waited for."""
    mesh = Mesh("ab", "KL", config=replace(KEPT_BY_ONE, retain_s=10.0))
    mesh.publish("a", 3)
    mesh.run(3.0)
    a_third_logger(mesh, mesh.stream("a"))
    mesh.run(30.0)
    assert mesh.stored("K") + mesh.stored("L") == []


def test_a_stream_whose_publisher_died_ends_where_anybody_knows_it_to_end() -> None:
    """L keeps the stream, and has said how far it knows it when it hears of the last event, which a alone has; K leads,
    and is to have it from L."""
    mesh = Mesh("ab", "KL", config=replace(KEPT_BY_ONE, gclimit_rounds=16, idle_after_s=60.0))
    stream = mesh.stream("b")
    assert ranked(stream, "KL")[0] == "L"
    mesh.publish("b")
    mesh.run(2.0)
    mesh.partition("a", "L")
    mesh.drop("a->K", "Repair", None)
    mesh.drop("b->K", "Data", None)
    mesh.drop("b->L", "Data", None)
    mesh.publish("b")
    mesh.run(0.05)
    mesh.crash("b")
    mesh.expel("b", by="K")
    keeper = mesh.world.hosts["L"].node
    assert mesh.run_until(lambda: keeper.receiver.streams[stream].limit is not None, 30.0)
    assert keeper.receiver.streams[stream].limit == 0
    mesh.heal()
    mesh.drop("a->K", "Repair", None)
    assert mesh.run_until(lambda: all(stream in mesh.world.hosts[name].node.receiver.retired for name in "aKL"), 60.0)
    assert mesh.delivered("K") == mesh.delivered("L") == mesh.delivered("a") == ["b:0", "b:1"]
