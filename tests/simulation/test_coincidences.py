"""Coincidences that long random runs found, arranged: the protocol stands them, and its mutants do not."""

from dataclasses import replace
from typing import Any

import pytest

from gossamer.lab.faults import DropIf
from gossamer.lab.mesh import Mesh
from gossamer.lab.mutants import RARE
from gossamer.lab.names import stream_of
from gossamer.lab.world import NodeFactory
from gossamer.messages.event import Content
from gossamer.messages.ids import DEFAULT_GROUP, StreamId, named_stream
from gossamer.messages.wire import Bookmark, Data, Message, Position
from gossamer.protocol.annotator import Annotator
from gossamer.protocol.config import Config
from gossamer.protocol.durable import durable_id
from gossamer.protocol.inputs import Received
from gossamer.protocol.node import Node
from gossamer.protocol.placement import ranked

QUICK = Config(retain_s=1e6, expire_s=1e6, seek_after_rounds=4, block_seqs=10, positions_rounds=1)
KEPT_BY_ONE = replace(QUICK, replicas=1)


def kept_by(logger: str, names: list[str], stream: dict[str, StreamId]) -> str:
    """One whose stream this logger keeps, of K and L."""
    return next(name for name in names if ranked(stream[name], "KL")[0] == logger)


def leave_with_void_numbers(factory: NodeFactory | None, late: bool) -> Mesh:
    """A named publisher dies with most of its block of numbers, and goes on behind them: the rest is void. L, which
    keeps its stream, leaves; K was there and heard that they are void, or comes `late`."""
    names = [f"feed{number}" for number in range(9)]
    feed = kept_by("L", names, {name: named_stream(DEFAULT_GROUP, name) for name in names})
    mesh = Mesh("ab", "L" if late else "KL", config=KEPT_BY_ONE, node_factory=factory)
    mesh.open("a", feed)
    mesh.publish("a", 3, publisher=feed)
    mesh.run(3.0)
    mesh.crash("a")
    mesh.restart("a")
    assert mesh.run_until(lambda: mesh.status("a") == "member", 20.0)
    mesh.open("a", feed)
    mesh.publish("a", 3, publisher=feed)
    assert mesh.run_until(lambda: f"{feed}:10" in mesh.delivered("b"), 60.0)
    if late:
        mesh.add("K", logger=True)
        assert mesh.run_until(lambda: mesh.status("K") == "member", 20.0)
    mesh.crash("a")
    mesh.expel("a", by="L")
    mesh.leave("L")
    mesh.run(60.0)
    assert mesh.skipped("b") == [f"{feed}:3-9 void"]
    return mesh


@pytest.mark.parametrize("late", [False, True], ids=["there all along", "come late"])
def test_a_logger_that_leaves_hands_over_void_numbers(late: bool) -> None:
    mesh = leave_with_void_numbers(None, late)
    assert mesh.status("L") == "outside", mesh.world.hosts["L"].node.waits_for
    (log,) = mesh.world.hosts["K"].node.logger.logs.values()
    assert (log.committed.ranges(), log.void.ranges()) == (((0, 2), (10, 12)), ((3, 9),))


def test_unless_only_loggers_are_believed_that_numbers_are_void() -> None:
    mesh = leave_with_void_numbers(RARE["believe-void-of-loggers-only"], late=True)
    assert mesh.world.hosts["L"].node.waits_for == "K to keep what is only here"


def leave_with_void_numbers_that_one_missed(factory: NodeFactory | None) -> Mesh:
    """As before, where each logger keeps everything. K hears neither of the publisher's new block nor that the rest of
    the old one is void, before L has resigned; and then there is no logger left to ask."""
    mesh = Mesh("ab", "KL", config=QUICK, node_factory=factory)
    mesh.open("a", "feed")
    mesh.publish("a", 3, publisher="feed")
    mesh.run(3.0)
    mesh.crash("a")
    mesh.expel("a", by="L")
    mesh.crash("K")
    mesh.expel("K", by="L")
    mesh.open("b", "feed")
    mesh.publish("b", 3, publisher="feed")
    assert mesh.run_until(lambda: "feed:10" in mesh.delivered("L"), 60.0)
    deaf = [mesh.drop("L->K", "Gone", None), mesh.drop("b->K", "GapNotice", None)]
    mesh.restart("K")
    assert mesh.run_until(lambda: "feed:12" in [f"feed:{part[1]}" for part in committed(mesh, "K", "feed")], 20.0)
    mesh.crash("b")
    mesh.expel("b", by="L")
    mesh.leave("L")
    mesh.run(5.0)
    assert not mesh.world.hosts["L"].node.membership.own.logger
    for rule in deaf:
        mesh.world.remove_rule(rule)
    mesh.add("c")
    mesh.run(60.0)
    return mesh


def committed(mesh: Mesh, logger: str, publisher: str) -> tuple[tuple[int, int], ...]:
    return mesh.world.hosts[logger].node.logger.on_disk(named_stream(DEFAULT_GROUP, publisher))


def test_a_logger_that_has_resigned_says_what_is_void() -> None:
    mesh = leave_with_void_numbers_that_one_missed(None)
    assert mesh.status("L") == "outside", mesh.world.hosts["L"].node.waits_for
    assert mesh.skipped("K") == ["feed:3-9 void"]


def test_unless_it_is_not_believed() -> None:
    mesh = leave_with_void_numbers_that_one_missed(RARE["believe-void-of-loggers-only"])
    assert mesh.world.hosts["L"].node.waits_for == "K to keep what is only here"


def never_seen_before_the_keeper_left(factory: NodeFactory | None) -> list[str]:
    """A publisher dies with events that reached nobody; w, which joined through it, knows how far its stream went. L
    keeps the stream and leaves before it has closed the hole. K, to which that was another's, has begun behind it."""
    name = kept_by("L", list("adefgh"), {name: stream_of(name, 1) for name in "adefgh"})
    config = replace(KEPT_BY_ONE, seek_after_rounds=60, sponsors=1, gclimit_rounds=2)
    mesh = Mesh([name, "b"], "KL", config=config, node_factory=factory)
    for kind in ("Data", "Idle", "Positions", "Gossip", "Digest", "Beats", "Active"):
        mesh.drop(f"{name}->*", kind, None)
    mesh.publish(name, 4)
    mesh.partition("w", "KLb")
    mesh.add("w")
    assert mesh.run_until(lambda: mesh.status("w") == "member", 20.0)
    mesh.crash(name)
    mesh.heal()
    mesh.run(1.0)
    mesh.expel(name, by="K")
    mesh.leave("L")
    assert mesh.run_until(lambda: mesh.skipped("b") != [], 120.0)
    assert mesh.run_until(lambda: mesh.status("L") == "outside", 60.0)
    return [line.removeprefix(f"{name}:") for line in mesh.skipped("b")]


def test_events_that_nobody_had_are_void_for_a_keeper_that_began_behind_them() -> None:
    assert never_seen_before_the_keeper_left(None) == ["0-3 void"]


def test_unless_it_takes_them_for_collected() -> None:
    assert never_seen_before_the_keeper_left(RARE["take-the-unheard-for-collected"]) == ["0-3 collected"]


def two_new_keepers(factory: NodeFactory | None) -> dict[str, int]:
    """L and M keep a stream, and have collected its first events. K, which has begun behind them, and N, which has come
    as a keeper and misses them, keep it after L and M have resigned. Returns how far K and N have got."""
    names = "adefghijop"
    publisher = next(
        name for name in names
        if set(ranked(stream_of(name, 1), "KLM")[:2]) == {"L", "M"} and "N" in ranked(stream_of(name, 1), "KLMN")[:2]
    )  # fmt: skip
    config = replace(QUICK, retain_s=0.5, replicas=2, gclimit_rounds=2, round_interval_max_s=0.25)
    mesh = Mesh([publisher, "b"], "KLM", config=config, node_factory=factory)
    mesh.publish(publisher, 5)
    mesh.run(10.0)
    assert mesh.stored("L") == mesh.stored("M") == []
    for name in "LM":
        mesh.drop(f"{name}->N", "Gone", None)
    mesh.add("N", logger=True)
    mesh.publish(publisher)
    mesh.run(3.0)
    for name in "LM":
        mesh.leave(name)
    mesh.run(60.0)
    return {name: mesh.world.hosts[name].node.logger.prefix(mesh.stream(publisher)) for name in "KN"}


def test_two_new_keepers_do_not_wait_for_each_other() -> None:
    assert two_new_keepers(None) == {"K": 5, "N": 5}


def test_unless_neither_seeks_what_it_asked_for_in_vain() -> None:
    assert two_new_keepers(RARE["ask-and-never-seek"]) == {"K": -1, "N": -1}


def test_events_that_died_with_their_only_logger_are_gone_for_one_that_comes_late() -> None:
    """Brokers had them, and let go of them when they were logged. Their publisher has a name, and may be back."""
    names = [f"feed{number}" for number in range(9)]
    feed = kept_by("L", names, {name: named_stream(DEFAULT_GROUP, name) for name in names})
    mesh = Mesh("abc", "L", config=replace(KEPT_BY_ONE, gclimit_rounds=2))
    mesh.open("a", feed)
    mesh.publish("a", 3, publisher=feed)
    mesh.run(10.0)
    mesh.add("K", logger=True)
    mesh.run(5.0)
    mesh.crash("a")
    mesh.crash("L")
    for name in "aL":
        mesh.expel(name, by="K")
    late = mesh.world.hosts["K"].node
    assert mesh.run_until(lambda: late.logger.prefix(named_stream(DEFAULT_GROUP, feed)) == 2, 60.0)
    (log,) = late.logger.logs.values()
    assert (log.gone.ranges(), log.void.ranges()) == (((0, 2),), ())


def publish_while_waiting_to_go(factory: NodeFactory | None) -> Mesh:
    """No loggers, and none may crash: an event is safe with its publisher alone. a waits to disconnect until the others
    have its first event, and publishes a second one meanwhile, which nobody else gets."""
    mesh = Mesh("abc", config=Config(faults=0, seek_after_rounds=4), node_factory=factory)
    mesh.isolate("a")
    mesh.publish("a")
    mesh.disconnect("a")
    mesh.run(2.0)
    mesh.publish("a")
    mesh.heal()

    def is_second(sender: str, _: str, message: Message) -> bool:
        packets = (message.packet,) if isinstance(message, Data) else getattr(message, "packets", ())
        return sender == "a" and any(packet.last == 1 for packet in packets)

    mesh.world.add_rule(DropIf(is_second))
    mesh.run(20.0)
    mesh.heal()
    mesh.run(20.0)
    return mesh


def test_who_waits_to_go_waits_for_what_it_publishes_meanwhile() -> None:
    mesh = publish_while_waiting_to_go(None)
    assert mesh.delivered("b") == mesh.delivered("c") == ["a:0", "a:1"]
    assert mesh.status("a") == "disconnected"


def test_unless_it_goes_with_it() -> None:
    mesh = publish_while_waiting_to_go(RARE["go-with-what-was-published-since"])
    assert (mesh.acked("a"), mesh.skipped("b")) == (1, ["a:1 lost"])


def leave_with_what_a_dead_publisher_sent(factory: NodeFactory | None, loggers: str, way: str) -> Mesh:
    """The only event of a publisher reaches c alone, which is told to go; then the publisher dies."""
    mesh = Mesh("abc", loggers, config=QUICK, node_factory=factory)
    mesh.drop("a->*", "Idle", None)
    for name in ("b", *loggers):
        mesh.drop(f"a->{name}", "Data", None)
    mesh.publish("a")
    assert mesh.run_until(lambda: mesh.delivered("c") == ["a:0"], 1.0)
    getattr(mesh, way)("c")
    mesh.crash("a")
    mesh.heal()
    mesh.expel("a", by=loggers or "b")
    mesh.run(60.0)
    return mesh


@pytest.mark.parametrize("loggers", ["L", ""], ids=["a logger", "no loggers"])
@pytest.mark.parametrize("way", ["leave", "disconnect"])
def test_who_waits_to_go_tells_of_what_holds_it(loggers: str, way: str) -> None:
    mesh = leave_with_what_a_dead_publisher_sent(None, loggers, way)
    assert mesh.delivered("b") == ["a:0"]
    assert mesh.status("c") == ("outside" if way == "leave" else "disconnected")


@pytest.mark.parametrize("loggers", ["L", ""], ids=["a logger", "no loggers"])
def test_unless_it_waits_in_silence(loggers: str) -> None:
    mesh = leave_with_what_a_dead_publisher_sent(RARE["wait-to-go-in-silence"], loggers, "leave")
    assert (mesh.delivered("b"), mesh.status("c")) == ([], "member")


def test_unless_it_waits_for_the_dead_publisher() -> None:
    mesh = leave_with_what_a_dead_publisher_sent(RARE["wait-for-those-that-left"], "", "leave")
    assert (mesh.delivered("b"), mesh.status("c")) == (["a:0"], "member")


def purged_for_each_other(factory: NodeFactory | None, faults: int) -> Mesh:
    """Two streams of a, kept by one logger each, and the first event of each is obsolete for the last of the other. All
    are published out of reach of the loggers, and are safe with a, or with a and b; so only marks of the first two are
    left to send. Where one member may crash, a does."""
    config = replace(KEPT_BY_ONE, faults=faults, purge_above_bytes=0, purge_send_buffer=True)
    mesh = Mesh("ab", "KL", config=config, node_factory=factory)
    streams = [stream_of("a", 1, number) for number in range(16)]
    first, second = (next(each for each in streams if ranked(each, "KL")[0] == logger) for logger in "KL")
    says = {stream: Annotator(stream) for stream in (first, second)}

    def publish(stream: StreamId, key: str, rank: int) -> None:
        said: Content = says[stream].event({"rank": rank}, key=key, rank=rank, scope="group", time_ns=rank)
        mesh.world.publish("a", stream, (said,))

    mesh.partition("ab" if faults else "a", "KL" if faults else "bKL")
    publish(first, "x", 1)
    publish(second, "y", 1)
    publish(second, "x", 2)
    publish(first, "y", 2)
    mesh.run(20.0)
    mesh.heal()
    if faults:
        mesh.crash("a")
        mesh.expel("a", by="K")
    mesh.run(60.0)
    return mesh


@pytest.mark.parametrize("faults", [0, 1])
def test_marks_of_two_streams_do_not_wait_for_each_other(faults: int) -> None:
    mesh = purged_for_each_other(None, faults)
    assert [line.partition(":")[2] for name in "KL" for line in mesh.stored(name)] == ["0-1", "0-1"]


@pytest.mark.parametrize("faults", [0, 1])
def test_unless_only_positions_tell_what_is_on_disk(faults: int) -> None:
    mesh = purged_for_each_other(RARE["vouch-by-positions-only"], faults)
    assert [line.partition(":")[2] for name in "KL" for line in mesh.stored(name)] == ["1", "1"]


def expelled_by_one_that_was_down(factory: NodeFactory | None) -> Mesh:
    """L is down while b disconnects and comes back, and so does not know b's last record when it is told that b, which
    has died, will not return."""
    mesh = Mesh("abc", "L", config=QUICK, node_factory=factory)
    mesh.crash("L")
    mesh.disconnect("b")
    assert mesh.run_until(lambda: mesh.status("b") == "disconnected", 20.0)
    mesh.reconnect("b")
    mesh.run(5.0)
    mesh.crash("b")
    mesh.restart("L")
    mesh.expel("b", by="L")
    mesh.run(20.0)
    return mesh


def knows(mesh: Mesh, names: str) -> dict[str, str]:
    return {name: mesh.world.hosts[name].node.membership.table.get("b").status for name in names}


def test_who_is_expelled_by_a_logger_that_was_down_is_out() -> None:
    mesh = expelled_by_one_that_was_down(None)
    assert knows(mesh, "Lac") == {"L": "left", "a": "left", "c": "left"}
    mesh.restart("b")
    assert mesh.run_until(lambda: mesh.status("b") == "member", 20.0)
    mesh.run(10.0)
    assert knows(mesh, "Lac") == {"L": "member", "a": "member", "c": "member"}, "it has spoken itself"


def test_a_new_life_of_one_that_was_expelled_may_join_through_another() -> None:
    mesh = expelled_by_one_that_was_down(None)
    mesh.partition("b", "L")
    mesh.restart("b")
    assert mesh.run_until(lambda: mesh.status("b") == "member", 20.0)
    record = mesh.world.hosts["b"].node.membership.own
    mesh.run(10.0)
    assert mesh.world.hosts["L"].node.membership.table.get("b") == record, "it need not come back from its expulsion"


def test_unless_a_fresher_record_of_it_undoes_that() -> None:
    mesh = expelled_by_one_that_was_down(RARE["expel-what-is-known-only"])
    assert knows(mesh, "Lac") == {"L": "member", "a": "member", "c": "member"}


ORDERS = durable_id(DEFAULT_GROUP, "orders")


def attached_after_one_that_died(factory: NodeFactory | None) -> Mesh:
    """a enters a new durable subscription, and dies before its bookmark has come to the logger; b takes it up. What was
    published before is collected: the subscription was not waited for in it."""
    mesh = Mesh("abc", "L", config=replace(QUICK, retain_s=0.5), node_factory=factory)
    mesh.publish("c", 5)
    mesh.run(10.0)
    assert mesh.stored("L") == []
    mesh.drop("a->L", "Bookmark", None)
    mesh.attach("a", "orders")
    mesh.run(5.0)
    assert mesh.world.hosts["L"].node.membership.table.get(ORDERS) is not None
    mesh.crash("a")
    mesh.attach("b", "orders")
    assert mesh.run_until(lambda: ("b", ORDERS) in mesh.applications.epochs, 60.0)
    return mesh


def test_a_durable_subscription_that_never_began_begins_with_the_next_broker() -> None:
    mesh = attached_after_one_that_died(None)
    held = mesh.world.hosts["b"].node.durables.held[ORDERS]
    assert (held.new, held.vector) == (True, {mesh.stream("c"): 4})
    mesh.run(5.0)
    assert mesh.world.hosts["L"].node.membership.table.get(ORDERS).status == "durable"


def test_unless_it_counts_as_begun_without_a_bookmark() -> None:
    held = attached_after_one_that_died(RARE["take-up-what-never-began"]).world.hosts["b"].node.durables.held[ORDERS]
    assert (held.new, held.vector) == (False, {}), "it is owed what is gone"


def test_a_durable_subscription_that_began_before_any_stream_is_known_to_a_logger_that_restarts() -> None:
    """Its bookmark names nothing, and the logger dies before anybody tells it that the subscription has begun."""
    mesh = Mesh("abc", "L", config=QUICK)
    mesh.attach("a", "orders")
    assert mesh.run_until(lambda: ("a", ORDERS) in mesh.applications.epochs, 60.0)
    mesh.crash("L")
    mesh.publish("c", 3)
    mesh.run(5.0)
    mesh.crash("a")
    mesh.restart("L")
    mesh.attach("b", "orders")
    assert mesh.run_until(lambda: ("b", ORDERS) in mesh.applications.epochs, 60.0)
    held = mesh.world.hosts["b"].node.durables.held[ORDERS]
    assert (held.new, held.vector) == (False, {}), "it is owed what was published since"


def test_a_bookmark_that_comes_after_a_stream_is_retired_does_not_name_it() -> None:
    mesh = Mesh("abc", "L", config=QUICK)
    stream = mesh.stream("c")
    mesh.publish("c", 5)
    mesh.run(2.0)
    mesh.attach("a", "orders")
    mesh.run(2.0)
    logger = mesh.world.hosts["L"].node
    late = Bookmark(ORDERS, mesh.applications.epochs["a", ORDERS], 9, (Position(stream, 4),))
    mesh.mark("a", "orders", {"c": 4})
    mesh.close("c")
    assert mesh.run_until(lambda: stream in logger.receiver.retired, 60.0)
    mesh.world.tell("L", Received("a", late))
    mesh.run(1.0)
    assert logger.bookmarks.positions[ORDERS] == {}


def restarted_without_room(factory: NodeFactory | None) -> Mesh:
    """L has all but the first event on disk when it dies, and has no room to hold them back in its next life. Then it
    gets the first event, so that all are logged, and nobody else keeps them; c has been out of reach."""

    def make(*arguments: Any, **keywords: Any) -> Node:
        if keywords["stored"] is not None and keywords["stored"].streams:
            arguments = (arguments[0], replace(arguments[1], hold_bytes_max=1), *arguments[2:])
        return (factory or Node)(*arguments, **keywords)

    config = replace(QUICK, gclimit_rounds=2, round_interval_max_s=0.25)
    mesh = Mesh("abc", "L", config=config, node_factory=make)

    def of_a(message: Message) -> list[int]:
        packets = (message.packet,) if isinstance(message, Data) else getattr(message, "packets", ())
        return [packet.first for packet in packets]

    apart = mesh.isolate("c")
    first = DropIf(lambda _, to, message: to == "L" and 0 in of_a(message))
    mesh.world.add_rule(first)
    mesh.publish("a", 3)
    assert mesh.run_until(lambda: mesh.stored("L") == ["a:1-2"], 20.0)
    mesh.crash("L")
    mesh.world.remove_rule(first)
    mesh.world.add_rule(DropIf(lambda _, to, message: to == "L" and max(of_a(message), default=0) > 0))
    mesh.restart("L")
    assert mesh.run_until(lambda: mesh.acked("a") == 2, 20.0)
    mesh.run(10.0)
    mesh.world.remove_rule(apart)
    mesh.run(30.0)
    return mesh


def test_a_logger_reads_what_it_misses_from_its_own_disk() -> None:
    mesh = restarted_without_room(None)
    assert mesh.delivered("c") == ["a:0", "a:1", "a:2"]
    assert mesh.skipped("L") == []


def test_unless_it_gives_up_what_is_on_its_disk() -> None:
    mesh = restarted_without_room(RARE["give-up-what-is-on-disk"])
    assert mesh.skipped("L") == ["a:1-2 collected"]
