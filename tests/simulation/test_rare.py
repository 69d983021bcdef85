"""Coincidences too rare for random runs, arranged: the protocol stands them, and its mutants do not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gossamer.lab.checkers import SERIAL, Checker, Violation
from gossamer.lab.faults import DropIf, Partition
from gossamer.lab.mesh import Mesh
from gossamer.lab.mutants import RARE
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.transcript import replay
from gossamer.lab.world import NodeFactory, World
from gossamer.messages.event import Content
from gossamer.messages.ids import DEFAULT_GROUP, EventId
from gossamer.messages.wire import Data, Gone, Lacking, Repair
from gossamer.protocol.config import Config
from gossamer.protocol.durable import durable_id
from gossamer.protocol.effects import Skip, Status
from gossamer.protocol.inputs import Disconnect, Received, Reconnect


def content(serial: int) -> tuple[Content, ...]:
    return (Content(attributes={SERIAL: serial}),)


def mesh(factory: NodeFactory | None, config: Config) -> tuple[World, Checker]:
    world = World(7, config=config, node_factory=factory)
    checker = Checker(config.loggers_min, config.retain_s, config.expire_s)
    world.observe(checker)
    world.add("L", logger=True)
    for name in "ab":
        world.add(name, peers=("L",))
    world.run(2.0)
    return world, checker


def join_behind_the_loggers_back(factory: NodeFactory | None) -> None:
    """w joins through a while the logger can hear a and b, but not w, and is not told of w by a's gossip in time."""
    config = Config(retain_s=0.0, expire_s=1e6, sponsors=1, positions_rounds=1, round_interval_max_s=0.25)
    world, checker = mesh(factory, config)
    world.add_rule(Partition(["w"], ["L", "b"]))
    # Only the records are held up: a's acknowledgements reach the logger, and with them the wrong root.
    world.add_rule(
        DropIf(lambda _, to, message: to == "L" and type(message).__name__ in ("Roster", "Digest", "Gossip"))
    )
    world.add("w", peers=("a",))
    world.run(5.0)
    assert checker.lives["w"].status == "member"
    world.add_rule(DropIf(lambda _, to, message: to == "w" and isinstance(message, Data | Repair)))
    world.publish("a", stream_of("a", 1), content(1))
    world.run(20.0)
    world.heal()
    assert world.run_until(lambda: checker.owing() is None, 60.0, every_s=0.5), checker.owing()


def test_nothing_after_t_join_is_collected_unseen() -> None:
    join_behind_the_loggers_back(None)


def test_unless_a_logger_applies_acknowledgements_of_those_who_know_more_members() -> None:
    with pytest.raises(Violation, match="stable before collected: L collected"):
        join_behind_the_loggers_back(RARE["acknowledge-for-the-unknown"])


def b_lacks_what_died_with_a(factory: NodeFactory | None) -> tuple[World, "Told", Data]:
    """a dies with an event that reached nobody, and b says that it lacks it; b's copy is still on its way."""
    config = Config(seek_after_rounds=4, repair_first="gossip", positions_rounds=1)
    world, _ = mesh(factory, config)
    stream = stream_of("a", 1)
    world.publish("a", stream, content(1))
    world.run(3.0)
    late: list[Data] = []

    def hold_up(sender: str, _: str, message: object) -> bool:
        if sender == "a" and isinstance(message, Data) and message.packet.first == 1:
            late.append(message)
            return True
        return False

    world.add_rule(DropIf(hold_up))
    world.publish("a", stream, content(2))
    world.publish("a", stream, content(3))
    world.run(3.005)
    world.crash("a")
    world.heal()
    world.restart("a")
    told = Told()
    world.observe(told)
    assert world.run_until(lambda: told.lacking, 60.0)
    return world, told, late[0]


def straggler_after_the_hole_is_closed(factory: NodeFactory | None) -> None:
    world, told, late = b_lacks_what_died_with_a(factory)
    world.tell("b", Received("a", late))
    assert world.run_until(lambda: told.void, 60.0)
    world.run(world.now_s + 1.0)


def straggler_in_another_life(factory: NodeFactory | None) -> None:
    """The hole is closed while b is down, and b resumes where the logger knows it to be: before the hole."""
    world, told, late = b_lacks_what_died_with_a(factory)
    world.crash("b")
    assert world.run_until(lambda: told.void, 60.0)
    deaf = DropIf(lambda _, to, message: to == "b" and isinstance(message, Gone))
    world.add_rule(deaf)
    world.restart("b", resume=True)
    assert world.run_until(lambda: told.back, 60.0)
    world.tell("b", Received("a", late))
    world.remove_rule(deaf)
    assert world.run_until(lambda: "b" in told.void, 60.0)


class Told(Observer):
    """Whether b has told the logger that it lacks the event, who was told that it is void, and whether b is back."""

    lacking = back = False

    def __init__(self) -> None:
        self.void: dict[str, None] = {}

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: object) -> None:
        self.lacking |= node == "b" and isinstance(message, Lacking)

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        if skip.reason == "void":
            self.void[node] = None

    def became(self, at_s: float, node: str, status: Status) -> None:
        self.back |= (node, status) == ("b", "member")


def test_a_straggler_is_not_delivered_once_its_loss_was_told() -> None:
    straggler_after_the_hole_is_closed(None)


def test_unless_a_member_takes_what_it_has_given_up() -> None:
    with pytest.raises(Violation, match="uniform closing"):
        straggler_after_the_hole_is_closed(RARE["take-what-was-given-up"])


def test_nor_by_a_life_that_does_not_know_what_it_has_told() -> None:
    straggler_in_another_life(None)


def test_unless_it_is_not_told_either() -> None:
    with pytest.raises(Violation, match="void is final"):
        straggler_in_another_life(RARE["forget-what-an-earlier-life-said"])


def beyond(reached: dict[int, str]) -> Callable[[str, str, object], bool]:
    """Whatever a sends to others than those it reaches is lost, and nothing is repaired."""

    def is_lost(sender: str, to: str, message: object) -> bool:
        if sender == "a" and isinstance(message, Data):
            return to not in reached[message.packet.first]
        return isinstance(message, Repair)

    return is_lost


def b_waits_to_go(world: World, stream: str) -> DropIf:
    """b is to disconnect, and waits until its own event is logged: what keeps it."""
    world.publish("a", stream, content(0))
    held_up = DropIf(lambda sender, _, message: sender == "b" and isinstance(message, Data))
    world.add_rule(held_up)
    world.publish("b", stream_of("b", 1), content(9))
    world.run(world.now_s + 1.0)
    world.tell("b", Disconnect())
    world.run(world.now_s + 1.0)
    return held_up


def a_dies_and_b_goes_and_returns(world: World, checker: Checker, stream: str, held_up: DropIf) -> None:
    world.crash("a")
    world.restart("a")
    world.run(world.now_s + 1.0)
    assert checker.lives["b"].status == "member", "its own event is not logged"
    world.remove_rule(held_up)
    assert world.run_until(lambda: checker.lives["b"].status == "disconnected", 30.0)
    assert world.run_until(lambda: 1 in checker.void.get(stream, ()), 30.0)
    world.heal()
    world.tell("b", Reconnect())
    assert world.run_until(lambda: checker.lives["b"].has(EventId(stream, 2)), 30.0)


def gone_with_what_nobody_else_has(factory: NodeFactory | None) -> None:
    """b waits to disconnect until its own event is logged. Meanwhile a dies with m1, which reached b alone, and m2,
    which reached the logger; and b is gone before it could supply m1."""
    world, checker = mesh(factory, Config(seek_after_rounds=4))
    stream, reached = stream_of("a", 1), {0: "Lb", 1: "b", 2: "L"}
    world.add_rule(DropIf(beyond(reached)))
    held_up = b_waits_to_go(world, stream)
    world.publish("a", stream, content(1))
    world.publish("a", stream, content(2))
    world.run(world.now_s + 0.1)
    a_dies_and_b_goes_and_returns(world, checker, stream, held_up)


def test_who_disconnects_takes_nothing_along_that_may_be_declared_void() -> None:
    gone_with_what_nobody_else_has(None)


def test_unless_it_goes_on_taking_what_others_publish() -> None:
    with pytest.raises(Violation, match="uniform closing"):
        gone_with_what_nobody_else_has(RARE["take-while-going"])


def test_what_only_a_stopped_logger_has_is_not_declared_void() -> None:
    """M alone has m1 on its disk, acknowledges it and is stopped in order; then the publisher dies, too."""
    world, checker = mesh(None, Config(seek_after_rounds=4))
    world.add("M", logger=True, peers=("L",))
    assert world.run_until(lambda: checker.lives["M"].status == "member", 20.0)
    stream, reached = stream_of("a", 1), {1: "M", 2: "L"}
    world.publish("a", stream, content(0))
    world.run(world.now_s + 1.0)
    world.add_rule(DropIf(beyond(reached)))
    world.publish("a", stream, content(1))
    assert world.run_until(lambda: checker.lives["a"].acked.get(stream) == 1, 20.0), "logged by M"
    world.tell("M", Disconnect())
    assert world.run_until(lambda: checker.lives["M"].status == "disconnected", 20.0)
    world.publish("a", stream, content(2))
    world.run(world.now_s + 0.1)
    world.crash("a")
    world.restart("a")
    world.run(world.now_s + 10.0)  # the checker sees that nothing is declared void
    world.heal()
    world.tell("M", Reconnect())
    assert world.run_until(lambda: checker.lives["b"].has(EventId(stream, 2)), 60.0)
    assert checker.lives["b"].has(EventId(stream, 1))


def gone_with_what_a_logger_had_in_memory(factory: NodeFactory | None) -> None:
    """b waits to disconnect until its own event is logged. Meanwhile m1 has reached the logger alone, which sends it
    to b and dies before it is on disk. Then a dies with m1, and b is gone before it could supply it."""
    world, checker = mesh(factory, Config(seek_after_rounds=4))
    stream, reached = stream_of("a", 1), {0: "Lb", 1: "L", 2: "L"}

    def is_lost(sender: str, to: str, message: object) -> bool:
        if sender == "a" and isinstance(message, Data):
            return to not in reached[message.packet.first]
        return sender != "L" and isinstance(message, Repair)

    world.add_rule(DropIf(is_lost))
    held_up = b_waits_to_go(world, stream)
    world.sync_s = 60.0
    world.publish("a", stream, content(1))
    world.run(world.now_s + 5.0)
    world.crash("L")
    world.sync_s, reached[1] = 0.002, ""
    world.restart("L")
    world.add_rule(DropIf(lambda _, __, message: isinstance(message, Repair)))
    world.publish("a", stream, content(2))
    world.run(world.now_s + 0.5)
    a_dies_and_b_goes_and_returns(world, checker, stream, held_up)


def test_who_disconnects_believes_a_logger_what_is_on_disk() -> None:
    gone_with_what_a_logger_had_in_memory(None)


def test_unless_it_takes_along_what_a_logger_has_in_memory() -> None:
    with pytest.raises(Violation, match="uniform closing"):
        gone_with_what_a_logger_had_in_memory(RARE["take-along-what-is-in-memory"])


def taken_from_a_logger_that_dies_with_it(factory: NodeFactory | None) -> None:
    """a dies with m1, which reached the logger L alone; b tells K, which seeks it, that it lacks it. Then m1 comes to b
    from L, as it may, and L dies before it is on disk."""
    world, checker = mesh(factory, Config(seek_after_rounds=4))
    world.add("K", logger=True, peers=("L",))
    world.run(world.now_s + 4.0)
    stream, reached = stream_of("a", 1), {0: "KLb", 1: "L", 2: "KLb"}
    late: list[Data] = []

    def is_lost(sender: str, to: str, message: object) -> bool:
        if sender == "a" and isinstance(message, Data):
            late.extend([message] if message.packet.first == 1 else [])
            return to not in reached[message.packet.first]
        return isinstance(message, Repair) or (sender == "L" and isinstance(message, Lacking))

    world.add_rule(DropIf(is_lost))
    world.publish("a", stream, content(0))
    world.run(world.now_s + 1.0)
    world.sync_s = 60.0
    world.publish("a", stream, content(1))
    world.publish("a", stream, content(2))
    world.run(world.now_s + 0.1)
    world.crash("a")
    world.restart("a")
    told = Told()
    world.observe(told)
    assert world.run_until(lambda: told.lacking, 30.0)
    world.run(world.now_s + 1.0)
    world.tell("b", Received("L", Repair((late[0].packet,))))
    assert checker.lives["b"].has(EventId(stream, 2))
    world.crash("L")
    world.sync_s = 0.002
    world.heal()
    world.restart("L")
    assert world.run_until(lambda: all(checker.lives[name].has(EventId(stream, 2)) for name in "KL"), 120.0)


def test_what_came_from_a_logger_that_died_with_it_is_not_declared_void() -> None:
    taken_from_a_logger_that_dies_with_it(None)


def test_unless_those_who_may_have_it_are_not_asked_again() -> None:
    with pytest.raises(Violation, match="uniform closing"):
        taken_from_a_logger_that_dies_with_it(RARE["count-on-those-who-asked-a-dead-logger"])


def compact_what_another_logger_lacks(factory: NodeFactory | None) -> Checker:
    """m1 is on the disks of both loggers, m3, which obsoletes it, only on L's, when w comes for what it missed and gets
    no further than m2. Then L and the publisher are gone for good, and with them m3."""
    config = Config(
        loggers_min=2, compact=True, repair_bytes_max=1, gclimit_rounds=2, positions_rounds=1, round_interval_max_s=0.25
    )
    world, checker = mesh(factory, config)
    world.add("K", logger=True, peers=("L",))
    world.add("w", peers=("L",))
    assert world.run_until(lambda: checker.lives["w"].status == checker.lives["K"].status == "member", 20.0)
    stream = stream_of("a", 1)
    world.add_rule(Partition(["w"], ["L", "K", "a", "b"]))
    for serial, key in enumerate((None, "x", None)):
        world.publish("a", stream, (Content(key=key, attributes={SERIAL: serial}),))
    assert world.run_until(lambda: checker.lives["a"].acked.get(stream) == 2, 20.0), "logged by both"
    world.heal()
    world.add_rule(Partition(["w"], ["K", "a", "b"]))
    world.add_rule(Partition(["K"], ["L", "a", "b"]))
    held = Partition(["w"], ["L"])
    world.add_rule(held)
    world.publish("a", stream, (Content(key="x", attributes={SERIAL: 3}),))
    world.run(world.now_s + 10.0)
    brings_m3 = lambda message: isinstance(message, Repair) and any(packet.last == 3 for packet in message.packets)  # noqa: E731
    world.add_rule(DropIf(lambda _, to, message: to == "w" and brings_m3(message)))
    world.remove_rule(held)
    assert world.run_until(lambda: checker.lives["w"].covers(EventId(stream, 2)), 30.0)
    for name in ("L", "a", "b"):
        world.crash(name)
    world.heal()
    world.run(world.now_s + 10.0)
    return checker


def test_nothing_is_compacted_for_what_is_not_on_enough_disks() -> None:
    checker = compact_what_another_logger_lacks(None)
    assert checker.lives["w"].has(EventId(stream_of("a", 1), 1))
    assert checker.unreplaced() is None


def test_unless_a_logger_takes_its_own_disk_for_enough() -> None:
    checker = compact_what_another_logger_lacks(RARE["compact-before-it-is-safe"])
    assert checker.unreplaced() == ("w", EventId(stream_of("a", 1), 1))


def test_who_left_through_one_that_crashed_is_waited_for_if_no_logger_has_to_know() -> None:
    story = Path(__file__).parent.parent / "scenarios" / "left-through-one-that-crashes.txt"
    assert replay(story.read_text()).splitlines()[-1].strip() == "L stores nothing"
    assert replay(story.read_text(), RARE["leave-through-anybody"]).splitlines()[-1].strip() == "L stores a:0"


KEPT = Config(retain_s=1e6, expire_s=1e7, seek_after_rounds=4, block_seqs=10, positions_rounds=1)


def two_loggers_leave_at_once(factory: NodeFactory | None) -> Mesh:
    mesh = Mesh("ab", "KL", config=KEPT, node_factory=factory)
    mesh.publish("a", 3)
    mesh.run(5.0)
    mesh.leave("L")
    mesh.leave("K")
    mesh.run(60.0)
    return mesh


def test_of_two_loggers_that_leave_at_once_one_stays() -> None:
    mesh = two_loggers_leave_at_once(None)
    assert (mesh.status("K"), mesh.status("L")) == ("member", "outside")


def test_unless_each_counts_on_the_other() -> None:
    mesh = two_loggers_leave_at_once(RARE["count-on-who-goes-as-well"])
    assert (mesh.status("K"), mesh.status("L")) == ("outside", "outside")


def test_unless_neither_is_a_logger_again() -> None:
    mesh = two_loggers_leave_at_once(RARE["resign-for-good"])
    assert (mesh.status("K"), mesh.status("L")) == ("member", "member")
    assert not mesh.world.hosts["K"].node.membership.own.logger


def those_who_promised_numbers_leave(factory: NodeFactory | None) -> Mesh:
    """K and L are enough to promise a block to a publisher at a, while M is cut off. Then a dies, K and L leave one
    after the other, and the publisher begins anew at b, with numbers from M alone."""
    mesh = Mesh("ab", "KLM", config=KEPT, node_factory=factory)
    mesh.isolate("M")
    mesh.open("a", "feed")
    mesh.publish("a", 3, publisher="feed")
    assert mesh.run_until(lambda: mesh.acked("a", "feed") == 2, 20.0)
    mesh.crash("a")
    mesh.restart("a")
    mesh.heal()
    for name in "KL":
        mesh.leave(name)
        assert mesh.run_until(lambda name=name: mesh.status(name) == "outside", 60.0)
    mesh.open("b", "feed")
    mesh.publish("b", publisher="feed")
    mesh.run(10.0)
    return mesh


def test_numbers_that_were_promised_by_loggers_that_have_left_are_not_given_again() -> None:
    assert those_who_promised_numbers_leave(None).acked("b", "feed") == 10


def test_unless_they_take_their_promises_along() -> None:
    assert those_who_promised_numbers_leave(RARE["take-promises-along"]).acked("b", "feed") < 10


def numbers_of_two_publishers(factory: NodeFactory | None) -> list[str]:
    """All loggers leave at once, and K is one again; but L and M do not hear of it, and b of nothing. Then a publisher
    is opened at b, which asks L and M, and at a, which asks K."""
    mesh = Mesh("ab", "KLM", config=KEPT, node_factory=factory)
    mesh.run(2.0)
    mesh.partition("b", "aK")
    for kind in ("Roster", "Digest", "Sponsor", "Join"):
        mesh.drop("*->b", kind, None)
    for name in "KLM":
        mesh.leave(name)
    mesh.run(0.1)
    mesh.partition("aK", "LM")
    mesh.run(3.0)
    office = {name: mesh.world.hosts[name].node.membership.own.logger for name in "KLM"}
    assert office == {"K": True, "L": False, "M": False}
    for name in "ab":
        mesh.open(name, "feed")
        mesh.publish(name, publisher="feed")
    mesh.run(10.0)
    return mesh.delivered("a") + mesh.delivered("b")


def test_a_logger_that_has_resigned_gives_no_numbers() -> None:
    assert numbers_of_two_publishers(None) == ["feed:0"]


def test_unless_it_goes_on_promising() -> None:
    assert numbers_of_two_publishers(RARE["promise-though-resigned"]) == ["feed:0", "feed:0"]


def resigned_before_the_others(factory: NodeFactory | None, meanwhile: Callable[[Mesh], None]) -> Mesh:
    """K has resigned, and waits to be let go. `Meanwhile` L and M promise or confirm something to a, which dies. Then
    they leave, too, both at once; so K is a logger again, and it alone is asked."""
    mesh = Mesh("ab", "KLM", config=KEPT, node_factory=factory)
    mesh.drop("*->K", "Sponsor", None)
    mesh.leave("K")
    mesh.run(5.0)
    staying = mesh.world.hosts["K"].node
    assert (mesh.status("K"), staying.membership.own.logger) == ("member", False)
    meanwhile(mesh)
    mesh.crash("a")
    mesh.restart("a")
    for name in "LM":
        mesh.leave(name)
    mesh.run(5.0)
    mesh.heal()
    assert mesh.run_until(lambda: mesh.status("L") == mesh.status("M") == "outside", 60.0)
    assert staying.membership.own.logger
    return mesh


def number_given_by_one_that_returns(factory: NodeFactory | None) -> int:
    def promise(mesh: Mesh) -> None:
        mesh.open("a", "feed")
        mesh.publish("a", 3, publisher="feed")
        assert mesh.run_until(lambda: mesh.acked("a", "feed") == 2, 20.0)

    mesh = resigned_before_the_others(factory, promise)
    mesh.open("b", "feed")
    mesh.publish("b", publisher="feed")
    mesh.run(10.0)
    return mesh.acked("b", "feed")


def test_who_is_a_logger_again_knows_what_was_promised_meanwhile() -> None:
    assert number_given_by_one_that_returns(None) == 10


def test_unless_those_that_leave_tell_only_loggers_what_they_promised() -> None:
    assert number_given_by_one_that_returns(RARE["forget-who-may-return"]) < 10


ORDERS = durable_id(DEFAULT_GROUP, "orders")


def confirm(mesh: Mesh) -> None:
    """A durable subscription at a has taken what b published, up to 3."""
    mesh.attach("a", "orders")
    assert mesh.run_until(lambda: ("a", ORDERS) in mesh.applications.epochs, 60.0)
    mesh.publish("b", 6)
    mesh.run(5.0)
    mesh.mark("a", "orders", {"b": 3})
    mesh.run(5.0)


def taken_up(mesh: Mesh) -> int | None:
    """Where it goes on at b."""
    mesh.attach("b", "orders")
    assert mesh.run_until(lambda: ("b", ORDERS) in mesh.applications.epochs, 60.0)
    return mesh.world.hosts["b"].node.durables.held[ORDERS].vector.get(mesh.stream("b"))


def where_it_goes_on(factory: NodeFactory | None) -> int | None:
    """K and L know a subscription at a, and how far it is, while M is cut off. Then a dies, K and L leave one after the
    other, and the subscription is taken up at b, where M alone is asked."""
    mesh = Mesh("ab", "KLM", config=KEPT, node_factory=factory)
    mesh.isolate("M")
    confirm(mesh)
    mesh.crash("a")
    mesh.heal()
    for name in "KL":
        mesh.leave(name)
        assert mesh.run_until(lambda name=name: mesh.status(name) == "outside", 60.0)
    return taken_up(mesh)


def test_a_durable_subscription_goes_on_though_the_loggers_that_knew_it_have_left() -> None:
    assert where_it_goes_on(None) == 3


def test_unless_they_take_its_bookmark_along() -> None:
    assert where_it_goes_on(RARE["take-bookmarks-along"]) is None


def bookmark_at_one_that_returns(factory: NodeFactory | None) -> int | None:
    return taken_up(resigned_before_the_others(factory, confirm))


def test_who_is_a_logger_again_knows_what_was_confirmed_meanwhile() -> None:
    assert bookmark_at_one_that_returns(None) == 3


def test_unless_those_that_leave_tell_only_loggers_what_they_confirmed() -> None:
    assert bookmark_at_one_that_returns(RARE["forget-who-may-return"]) is None


def back_when_all_that_it_names_have_left(factory: NodeFactory | None) -> str:
    """a names K, which is replaced by L before a comes back; L takes a for a member, and asks it as one."""
    mesh = Mesh("a", "K", config=KEPT, node_factory=factory)
    mesh.add("L", logger=True)
    mesh.leave("K")
    assert mesh.run_until(lambda: mesh.status("K") == "outside", 60.0)
    mesh.crash("a")
    mesh.world.hosts["a"].peers = ("K",)
    mesh.restart("a")
    mesh.run(60.0)
    return mesh.status("a")


def test_who_comes_back_is_let_in_by_those_that_remember_it() -> None:
    assert back_when_all_that_it_names_have_left(None) == "member"


def test_unless_it_calls_only_those_that_it_names() -> None:
    assert back_when_all_that_it_names_have_left(RARE["call-only-whom-it-names"]) == "joining"


def known_to_a_logger_that_was_down(factory: NodeFactory | None) -> int | None:
    """K is down while the bookmark moves at L. K returns, then L goes, and the subscription goes on from K."""
    mesh = Mesh("ab", "KL", config=KEPT, node_factory=factory)
    mesh.publish("b")
    mesh.run(5.0)
    mesh.attach("a", "orders")
    assert mesh.run_until(lambda: ("a", ORDERS) in mesh.applications.epochs, 60.0)
    mesh.run(5.0)
    mesh.crash("K")
    mesh.publish("b", 5)
    mesh.run(5.0)
    mesh.mark("a", "orders", {"b": 3})
    mesh.run(5.0)
    mesh.crash("a")
    mesh.restart("K")
    mesh.run(30.0)
    mesh.crash("L")
    return taken_up(mesh)


def test_logger_that_was_down_learns_the_bookmarks_it_missed() -> None:
    assert known_to_a_logger_that_was_down(None) == 3


def test_without_anti_entropy_that_logger_knows_an_old_bookmark() -> None:
    assert known_to_a_logger_that_was_down(RARE["compare-no-bookmarks"]) == 0


def finished_stream_at_a_new_logger(factory: NodeFactory | None) -> tuple[tuple[int, int], ...]:
    """a publishes at L and finishes; every member forgets the stream; then the logger M is added."""
    config = Config(retain_s=1e6, expire_s=1e7, round_interval_max_s=0.5)
    mesh = Mesh("ab", "L", config=config, node_factory=factory)
    mesh.publish("a", 3)
    assert mesh.settle()
    mesh.close("a")
    assert mesh.run_until(lambda: mesh.stream("a") in mesh.world.hosts["b"].node.receiver.retired, 60.0)
    mesh.world.add("M", logger=True, peers=("L",))
    mesh.run(30.0)
    return mesh.world.hosts["M"].node.logger.on_disk(mesh.stream("a"))


def test_new_logger_copies_a_finished_stream() -> None:
    assert finished_stream_at_a_new_logger(None) == ((0, 2),)


def test_without_offers_it_does_not_know_the_stream() -> None:
    assert finished_stream_at_a_new_logger(RARE["offer-finished-streams-to-nobody"]) == ()
