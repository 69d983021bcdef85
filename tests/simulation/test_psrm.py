"""PSRM in the core: a saturated link carries what matters, and its purging does not come back as repair (003 §3.1)."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from gossamer.lab.application import Consumer
from gossamer.lab.faults import DropIf
from gossamer.lab.mutants import become
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Journal, Observer
from gossamer.lab.topology import uniform
from gossamer.lab.world import World
from gossamer.messages import codec
from gossamer.messages.event import Content
from gossamer.messages.packet import Reason, pack
from gossamer.messages.wire import Data, Gossip, Message, Recover, Request, Sent, Span, Taken
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Acked
from gossamer.protocol.links import Link, Links
from gossamer.protocol.node import Node

RATE = 100
SECONDS = 15
KEYS = 12
BODY = bytes(100)
THIN = Config(link_bandwidth_bps=80_000)
"""Of what is published, it takes about half."""


def unmarked(*arguments: Any, **options: Any) -> Node:
    """A node that purges on its links, and says nothing of it."""

    class Silent(Links):
        __slots__ = ()

        def _mark(self, link: Link, stream: str, seq: int, reason: Reason) -> None:
            pass

    node = Node(*arguments, **options)
    become(node.links, Silent)
    return node


class Tally(Observer):
    """What goes to one node, by who sends it and kind; and what it asks for."""

    def __init__(self, target: str) -> None:
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.requests = 0
        self._target = target

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        if node == self._target:
            self.requests += isinstance(message, Request | Recover)
            self.requests += isinstance(message, Gossip) and bool(message.lacks)
        if self._target in to:
            self.bytes[node, type(message).__name__] += len(codec.encode(message))

    @property
    def repair_bytes(self) -> int:
        return sum(size for (_, kind), size in self.bytes.items() if kind == "Repair")


class Run:
    """a publishes for a while over a thin link to b (and to the logger); then everything comes to rest."""

    def __init__(self, factory: Callable[..., Node] = Node, keyed: float = 0.9, seed: int = 1) -> None:
        self.world = world = World(seed, config=THIN, topology=uniform(0.001), node_factory=factory)
        self.tally = Tally("b")
        world.observe(self.tally)
        world.add("L", logger=True)
        for name in "ab":
            world.add(name, peers=("L",))
        world.run(3.0)
        self.b = Consumer(world, "b", events_max=100_000)
        self.published: list[Content] = []
        rng = Random(seed)
        begun_s, stream = world.now_s, stream_of("a", 1)
        for number in range(RATE * SECONDS):
            key = f"key-{rng.randrange(KEYS)}" if rng.random() < keyed else None
            self.published.append(Content(key=key, attributes={"number": number}, body=BODY))
            world.at(begun_s + number / RATE, world.publish, "a", stream, (self.published[-1],))
        world.run(begun_s + SECONDS)
        self.behind = len(self.published) - self._done()
        """Events that b has neither got nor been told of when the last is published."""
        self.settled = world.run_until(lambda: self._done() == len(self.published), 120.0, every_s=0.5)
        self.lasted_s = world.now_s - begun_s

    def _done(self) -> int:
        return len(self.b.omitted.keys() | set(self.b.applied))

    def check(self) -> None:
        """b ends in the state that was published, and has every event that nothing obsoletes."""
        assert self.settled
        last = {content.key: content.attributes for content in self.published if content.key is not None}
        assert {key: event.attributes for (_, key), event in self.b.state.items()} == last
        applied = {event.seq for event in self.b.applied}
        assert {number for number, content in enumerate(self.published) if content.key is None} <= applied


@pytest.mark.parametrize("seed", range(1, 4))
def test_purging_on_a_saturated_link_does_not_come_back_as_repair(seed: int) -> None:
    marked, silent = Run(seed=seed), Run(unmarked, seed=seed)
    for run in (marked, silent):
        run.check()
    offered = sum(len(codec.encode(Data("a", pack(stream_of("a", 1), 0, [each])))) for each in marked.published)
    assert marked.tally.bytes["a", "Data"] < 0.7 * offered, "the link is saturated"
    assert marked.tally.repair_bytes < 0.01 * marked.tally.bytes["a", "Data"]
    assert marked.tally.requests <= 30, "a few: positions tell of events that are still on their way"
    assert marked.behind < RATE, "less than a second: what waits on the link, and what is marked for it"
    # Without marks, what was purged is asked for, and comes from whoever has it.
    assert silent.tally.repair_bytes > 20 * max(marked.tally.repair_bytes, 1_000)
    assert silent.tally.requests > 100
    assert silent.behind > 10 * marked.behind


def test_the_link_carries_what_its_bandwidth_admits_and_no_more() -> None:
    run = Run()
    carried = sum(size for (source, _), size in run.tally.bytes.items() if source == "a")
    assert 8 * carried / run.lasted_s == pytest.approx(THIN.link_bandwidth_bps, rel=0.15)


# An idle system -------------------------------------------------------------------------------------------------------


def idle(config: Config) -> list[tuple[Any, ...]]:
    """All that is sent and delivered, and when, in a mesh whose links are wide enough."""
    journal = Journal()
    world = World(5, config=config, topology=uniform(0.001))
    world.observe(journal)
    world.add("L", logger=True)
    for name in "abc":
        world.add(name, peers=("L",))
    world.run(3.0)
    rng = Random(5)
    for number in range(400):
        content = Content(key=f"key-{rng.randrange(3)}", attributes={"number": number}, body=BODY)
        name = rng.choice("ab")
        world.at(3.0 + number / 20 + rng.random() / 100, world.publish, name, stream_of(name, 1), (content,))
    world.run(30.0)
    return [seen for seen in journal.entries if seen[0] in ("sent", "delivered")]


def encoded(seen: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*rest, codec.encode(message)) for what, *rest, message in seen if what == "sent"]


def test_an_idle_system_with_a_bandwidth_sends_byte_for_byte_what_one_without_links_sends() -> None:
    without, within = (idle(Config(link_bandwidth_bps=bps)) for bps in (None, 1e6))
    assert encoded(within) == encoded(without)
    assert within == without


def test_an_idle_system_with_a_window_differs_by_its_probes_only() -> None:
    """They are a message and its answer for each quarter of the window; events go when, and as, they would without."""
    without, within = (idle(Config(link_window_bytes=window)) for window in (None, 64 * 1024))
    probes = [seen for seen in within if seen[0] == "sent" and isinstance(seen[-1], Sent | Taken)]
    assert [seen for seen in within if seen not in probes] == without
    probed, sent = (sum(len(bytes_sent) for *_, bytes_sent in encoded(seen)) for seen in (probes, without))
    assert 0 < probed < 0.05 * sent


def test_a_mesh_with_every_link_saturated_goes_on_delivering() -> None:
    """Twice as much as the links carry, over fifty keys: whoever is behind is so by seconds, not for good."""
    config = Config(link_bandwidth_bps=60_000)
    world = World(1, config=config)
    world.add("L", logger=True)
    for name in "abc":
        world.add(name, peers=("L",))
    world.run(2.0)
    rng, stream, start_s = Random(1), stream_of("a", 1), world.now_s
    consumers = [Consumer(world, name, events_max=100_000) for name in "bc"]
    for number in range(1_500):
        content = Content(key=f"key-{rng.randrange(50)}", attributes={"number": number}, body=bytes(300))
        world.at(start_s + number / 50, world.publish, "a", stream, (content,))
    world.run(start_s + 30.0)
    for consumer in consumers:
        assert len(consumer.applied) + len(consumer.omitted) > 1_200, "while it lasts"
    assert world.run_until(lambda: all(len(c.applied) + len(c.omitted) == 1_500 for c in consumers), 60.0, every_s=1.0)
    states = [{key: event.attributes["number"] for key, event in consumer.state.items()} for consumer in consumers]
    assert states[0] == states[1]
    assert len(states[0]) == 50


def test_what_is_acknowledged_as_logged_survives_every_broker() -> None:
    """A mark is no excuse to a logger, final or not, without what it names: that may be in brokers' memory alone."""
    world = World(3, config=Config(link_window_bytes=60, link_patience_s=0.0))
    world.add("L", logger=True)
    acked: list[int] = []

    class Acks(Observer):
        def acked(self, at_s: float, node: str, acknowledged: Acked) -> None:
            acked.append(acknowledged.last)

    world.observe(Acks())
    for name in "ab":
        world.add(name, peers=("L",))
    world.run(2.0)
    stream = stream_of("a", 1)
    stuck = DropIf(lambda source, to, message: (source, to) == ("L", "a") and isinstance(message, Taken))
    world.add_rule(stuck)
    for number, key in enumerate([None, "x", "y", "x"]):
        world.publish("a", stream, (Content(key=key, attributes={"number": number}),))
        world.run(world.now_s + 0.3)
    world.remove_rule(stuck)
    world.add_rule(DropIf(lambda _, to, message: to == "L" and isinstance(message, Data) and message.packet.last == 3))
    world.run(world.now_s + 1.0)
    for name in "abL":
        world.crash(name)
    on_disk = {
        seq for packet in world.hosts["L"].storage.load((Span(stream, ((0, 3),)),)) for seq, _ in packet.encoded()
    }
    assert set(range(max(acked) + 1)) <= on_disk
