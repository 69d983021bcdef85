"""The world drives any node by `handle` and `next_deadline`; here a plain or a scripted one."""

import math
import random
from typing import ClassVar

import pytest

from gossamer.lab.faults import Crash, Loss
from gossamer.lab.observer import Journal, Observer
from gossamer.lab.plain import PlainNode
from gossamer.lab.topology import star, uniform
from gossamer.lab.world import World
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Busy, Data, Span
from gossamer.protocol.effects import Collect, Load, Persist, Send
from gossamer.protocol.inputs import Close, Leave, Loaded, Open, Persisted, Received, Start, Wake

STREAM = "default/~a-1.0"
ONE = (Content(body=b"x"),)


class Scripted:
    """Writes down what it is told, answers `Open(stream)` with the effects scripted under that name."""

    script: ClassVar[dict[str, list]] = {}

    def __init__(self, node_id, config, rng, *, peers=(), logger=False, incarnation=1, stored=None, resume=False):
        self.node_id, self.incarnation, self.stored, self.resume, self.rng = node_id, incarnation, stored, resume, rng
        self.heard: list = []
        self.due = math.inf

    def handle(self, input, now):
        self.heard.append((now, input))
        if isinstance(input, Wake):
            self.due = math.inf
        return self.script.get(input.stream, []) if isinstance(input, Open) else []

    def next_deadline(self):
        return self.due


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(Scripted, "script", {})
    return World(seed=1, node_factory=Scripted, topology=uniform(0.01), sync_s=0.002, load_s=0.001)


def heard(world, name):
    return [(round(now, 6), input) for now, input in world.hosts[name].node.heard]


def plain_run(seed=3, names="abcL", **options):
    world = World(seed, node_factory=PlainNode, **options)
    journal = Journal()
    world.observe(journal)
    for place, name in enumerate(names):
        world.add(name, logger=name == "L", peers=tuple(names[:place]))
    world.add_rule(Loss(0.2))
    world.schedule(Crash("b", 0.5, 1.0))
    for number in range(30):
        world.at(0.05 * number, world.publish, "a", STREAM, ONE)
    world.run(3.0)
    return world, journal


def test_a_message_arrives_after_the_latency(world):
    world.add("a")
    world.add("b")
    Scripted.script["s/x"] = [Send(("b",), Busy())]
    world.tell("a", Open("s/x"))
    world.run(1.0)
    assert heard(world, "b") == [(0.0, Start()), (0.01, Received("a", Busy()))]
    assert world.now_s == 1.0


def test_a_message_to_nobody_is_lost_and_counted(world):
    world.add("a")
    Scripted.script["s/x"] = [Send(("ghost",), Busy())]
    world.tell("a", Open("s/x"))
    world.run(1.0)
    assert (world.network.sent, world.network.lost) == (1, 1)


def test_a_node_is_woken_at_its_deadline_and_only_then(world):
    world.add("a")
    node = world.hosts["a"].node
    node.due = 2.0
    world.tell("a", Leave())
    node.due = 1.0
    world.tell("a", Leave())
    node.due = 3.0  # moved away: noticed at 1.0, without a wake-up
    world.tell("a", Leave())
    world.run(2.5)
    assert Wake() not in [input for _, input in node.heard]
    world.run(5.0)
    assert [entry for entry in heard(world, "a") if entry[1] == Wake()] == [(3.0, Wake())]


def test_deadlines_that_jump_about_do_not_flood_the_agenda(world):
    world.add("a")
    node = world.hosts["a"].node
    for number in range(1_000):
        node.due = 1.0 + number  # ever further away
        world.tell("a", Leave())
    assert len(world.agenda._heap) == 1


def test_a_node_that_stops_time_is_found_out(world):
    world.add("a")
    node = world.hosts["a"].node
    node.next_deadline = lambda: 0.5
    world.tell("a", Leave())
    with pytest.raises(AssertionError, match=r"a was woken 10000 times at 0\.5 s"):
        world.run(1.0)


def test_what_a_node_raises_carries_the_seed_and_the_time(world):
    world.add("a")
    world.hosts["a"].node.handle = lambda *_: 1 / 0
    world.at(2.0, world.tell, "a", Leave())
    with pytest.raises(ZeroDivisionError) as caught:
        world.run(3.0)
    assert caught.value.__notes__ == ["simulated world: seed 1, at 2.0 s"]


def test_persist_is_answered_when_synced_and_survives_a_crash(world):
    packet = pack(STREAM, 0, ONE)
    Scripted.script["s/x"] = [Persist(7, (packet,))]
    Scripted.script["s/y"] = [Load(8, (Span(STREAM, ((0, 5),)),))]
    world.add("L", logger=True)
    world.tell("L", Open("s/x"))
    world.run(0.1)
    assert (0.002, Persisted(7)) in heard(world, "L")
    world.restart("L")
    node = world.hosts["L"].node
    assert node.stored.streams[STREAM].stored == ((0, 0),)
    world.tell("L", Open("s/y"))
    world.run(0.2)
    assert heard(world, "L")[-1] == (0.101, Loaded(8, (packet,)))
    Scripted.script["s/z"] = [Collect(STREAM, 0)]
    world.tell("L", Open("s/z"))
    assert world.hosts["L"].storage.stored().streams[STREAM].collected == 0


def test_an_unsynced_persist_dies_with_its_node(world):
    Scripted.script["s/x"] = [Persist(7, (pack(STREAM, 0, ONE),))]
    world.add("L", logger=True)
    world.tell("L", Open("s/x"))
    world.run(0.001)
    world.restart("L", resume=True)
    world.run(1.0)
    node = world.hosts["L"].node
    assert (node.incarnation, node.resume, node.stored.streams) == (2 << 8, True, {})
    assert [input for _, input in node.heard] == [Start()]


def test_brokers_are_handed_no_storage(world):
    world.add("a")
    assert world.hosts["a"].node.stored is None


def test_syncs_end_in_the_order_they_began(world):
    Scripted.script["s/x"] = [Persist(1, ())]
    Scripted.script["s/y"] = [Persist(2, ())]
    world.add("L", logger=True)
    world.tell("L", Open("s/x"))
    world.sync_s = 0.0
    world.tell("L", Open("s/y"))
    world.run(1.0)
    assert [input.token for _, input in heard(world, "L") if isinstance(input, Persisted)] == [1, 2]


def test_a_crash_loses_timers_and_what_is_in_flight(world):
    world.add("a")
    world.add("b")
    Scripted.script["s/x"] = [Send(("b",), Busy())]
    world.hosts["b"].node.due = 0.5
    world.tell("b", Leave())
    world.tell("a", Open("s/x"))
    world.crash("b")
    world.run(0.2)
    assert not world.is_up("b")
    assert world.network.lost == 1
    world.restart("b")
    world.run(2.0)
    assert heard(world, "b") == [(0.2, Start())]


def test_adding_a_node_changes_nobody_elses_draws():
    def draws(names):
        world = World(seed=5, node_factory=Scripted)
        for name in names:
            world.add(name)
        return [world.hosts[name].node.rng.random() for name in "ab"]

    assert draws("ab") == draws("axb")


def test_each_incarnation_draws_anew(world):
    world.add("a")
    before = world.hosts["a"].node.rng.random()
    world.restart("a")
    assert world.hosts["a"].node.rng.random() != before


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    _, one = plain_run(seed=3)
    _, again = plain_run(seed=3)
    _, other = plain_run(seed=4)
    assert len(one.entries) > 300
    assert one.entries == again.entries
    assert one.entries != other.entries


@pytest.mark.parametrize("topology", [uniform, lambda: star(4), lambda: star(4, bandwidth_bps=1e6)])
def test_the_codec_changes_nothing(topology):
    _, by_reference = plain_run(topology=topology())
    _, by_wire = plain_run(topology=topology(), wire=True)
    assert by_reference.entries == by_wire.entries


def test_a_journal_sees_everything():
    _, journal = plain_run()
    assert {entry[0] for entry in journal.entries} == {
        "started", "crashed", "published", "delivered", "skipped", "acked", "became", "persisted", "sent", "lost",
    }  # fmt: skip


def test_observers_see_only_what_they_ask_for():
    class Deliveries(Observer):
        def __init__(self):
            self.seen = []

        def delivered(self, at_s, node, deliver):
            self.seen.append((node, deliver.packet.first))

    world = World(node_factory=PlainNode)
    deliveries = Deliveries()
    world.observe(deliveries)
    world.add("a")
    world.add("b", peers=("a",))
    world.run(0.1)
    world.publish("a", STREAM, ONE)
    world.run(0.2)
    assert deliveries.seen == [("a", 0), ("b", 0)]
    assert world.audience.sent == ()


def test_run_until_stops_at_the_first_instant_that_fulfils_it(world):
    world.add("a")
    world.at(1.0, world.crash, "a")
    world.at(2.0, world.restart, "a")
    assert world.run_until(lambda: not world.is_up("a"), limit_s=10.0)
    assert world.now_s == 1.0
    assert not world.run_until(lambda: False, limit_s=10.0)
    assert world.now_s == 11.0


def test_misuse_is_one_clear_line(world):
    world.add("a")
    world.crash("a")
    world.crash("a")
    for misuse, line in (
        (lambda: world.add("a"), "there is a node 'a' already"),
        (lambda: world.crash("z"), "there is no node 'z'"),
        (lambda: world.tell("a", Close("s/x")), "a is down"),
        (lambda: world.publish("a", STREAM, ONE), "a is down"),
    ):
        with pytest.raises(UsageError, match=line):
            misuse()


def test_plain_nodes_skip_what_they_lost():
    node = PlainNode("b", World(node_factory=PlainNode).config, random.Random(1))
    late: Packet = pack(STREAM, 2, ONE)
    effects = node.handle(Received("a", Data("a", late)), 0.0)
    assert [(type(effect).__name__) for effect in effects] == ["Skip", "Deliver"]
    assert node.handle(Received("a", Data("a", late)), 0.0) == []
