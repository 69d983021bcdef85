"""Whatever the credit, the rooms and the order of things: each subscriber ends in the state of a naive one."""

import random
import time

import pytest

from gossamer.broker.deliveries import Deliveries
from gossamer.matching import Selector
from gossamer.messages.event import Content
from gossamer.messages.packet import assemble, pack
from gossamer.messages.quick import COMPILED
from gossamer.messages.session import Counts, Gap, Items, Run, Single, Start, Subscribe, decode_from_broker
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.delivery import Item
from gossamer.protocol.obsolescence import Told
from gossamer.protocol.reception import Reception
from gossamer.protocol.shown import Left

SELECTORS = ["n > 50", "n <= 50", "", "n > 20 AND n < 80", "s = 'a'"]


class Consumer:
    """A client that applies what it is sent, and counts it."""

    def __init__(self) -> None:
        self.open = True
        self.state: dict[str, int] = {}
        self._since: dict[str, int] = {}
        self.events: list[tuple[str, int]] = []
        self.received = 0
        self.obsoleted = self.lost = 0
        self.runs: list[int] = []
        self.gaps: list[tuple[int, int]] = []
        self.reception = Reception()

    def deliver(self, frame: bytes) -> None:
        match decode_from_broker(frame):
            case Run() as run:
                self.runs.append(len(run.events()))
                for event in run.events():
                    self._take(Item(event))
            case Single() as single:
                self.runs.append(1)
                self._take(Item(single.identified()))
            case Items() as items:
                apart = [notice for notice in items.notices if not notice.together]
                together = {notice.place: notice for notice in items.notices if notice.together}
                for place, event in enumerate([*items.events, None]):
                    for notice in [each for each in apart if each.place == place]:
                        lefts = tuple(Left(*each) for each in notice.left)
                        self._take(Item(None, lefts, None if notice.by is None else Told(*notice.by)))
                    if event is not None:
                        left = together[place].left if place in together else ()
                        self._take(Item(event, tuple(Left(*each) for each in left)))
            case Counts() as counts:
                self.obsoleted, self.lost = counts.obsoleted, counts.lost
            case Gap() as gap:
                self.gaps.append((gap.first, gap.last))

    def _take(self, item: Item) -> None:
        self.received += 1
        for step in self.reception.on_item(item):
            for said in step.said:
                if isinstance(said, Left):
                    if said.key in self.state and self._since[said.key] <= said.id.seq:
                        del self.state[said.key]  # and not set anew since
                    continue
                self.events.append(said.id)
                if said.key is not None:
                    if said.deleted:
                        self.state.pop(said.key, None)
                    else:
                        self.state[said.key] = said.attributes["n"]
                        self._since[said.key] = said.id.seq


def expected(selector: str, contents: list[Content]) -> dict[str, int]:
    """What is true of each key in the end, if it matches."""
    last = {content.key: content for content in contents if content.key is not None}
    matches = Selector(selector).matches
    return {
        key: content.attributes["n"]
        for key, content in last.items()
        if not content.deleted and matches(content.attributes)
    }


def said(rng: random.Random, annotator: Annotator, transactions: bool) -> list[Content]:
    attributes = {"n": rng.randrange(100), "s": rng.choice("ab")}
    key = rng.choice([None, *"uvwxyz"])
    if key is not None and rng.random() < 0.1:
        return [annotator.delete(key, attributes)]
    if transactions and rng.random() < 0.1:
        parts = [Part({"n": rng.randrange(100), "s": "a"}, key=rng.choice("uvw")) for _ in range(rng.randrange(1, 3))]
        return list(annotator.transaction(parts))
    return [annotator.event(attributes, key=key)]


@pytest.mark.parametrize("seed", range(150))
def test_each_subscriber_ends_in_the_right_state(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("gossamer.messages.quick.COMPILED", COMPILED and seed % 2 == 0)
    transactions = seed % 3 == 2
    deliveries, stream = Deliveries(), "default/~a-1.0"
    annotator = Annotator(stream)
    keys = []
    for sub, selector in enumerate(SELECTORS):
        outlet = Consumer()
        wanted = Subscribe(sub, selector, rng.randrange(3), rng.choice([1, 4, 50]), rng.choice(["eager", "lazy"]))
        keys.append(deliveries.add(outlet, "default", wanted))
    contents: list[Content] = []
    for _ in range(rng.randrange(1, 60)):
        new: list[Content] = []
        for _ in range(rng.randrange(1, 6)):
            new += said(rng, annotator, transactions)
        deliveries.on_packet(pack(stream, len(contents), new))
        contents += new
        for subscriber in keys:
            subscriber.outlet.open = rng.random() < 0.8
            if rng.random() < 0.4:
                deliveries.grant(subscriber, subscriber.sent + rng.randrange(8))
        deliveries.flush()
    for subscriber in keys:
        subscriber.outlet.open = True
        deliveries.grant(subscriber, 10**6)
    deliveries.flush()
    applied = [content for content in contents if content.relation is None or content.relation.commit is None]
    for subscriber, selector in zip(keys, SELECTORS, strict=True):
        consumer = subscriber.outlet
        assert consumer.state == expected(selector, applied), selector
        assert not len(subscriber.feed)
        assert not subscriber.feed.behind
        assert (consumer.lost, len(set(consumer.events))) == (0, len(consumer.events))
        matching = [c for c in applied if Selector(selector).matches(c.attributes)]
        assert len(consumer.events) + subscriber.feed.obsoleted == len(matching)
        assert consumer.received == subscriber.sent


def test_one_that_comes_from_another_broker_goes_on_where_it_was() -> None:
    deliveries, stream = Deliveries(), "default/~a-1.0"
    deliveries.on_packet(pack(stream, 0, [Content(key="k", attributes={"n": n}) for n in range(60, 70)]))
    outlet = Consumer()
    start = Start({stream: 4}, time.time_ns())
    resumed = deliveries.add(outlet, "default", Subscribe(0, "n > 50", 100, policy="none", start=start))
    deliveries.on_packet(pack(stream, 10, [Content(key="k", attributes={"n": 70})]))
    deliveries.flush()
    assert [seq for _, seq in outlet.events] == [5, 6, 7, 8, 9, 10]
    deliveries.on_packet(pack(stream, 11, [Content(key="k", attributes={"n": 1})]))
    deliveries.flush()
    assert (outlet.state, resumed.feed.behind) == ({}, False)


def test_what_falls_out_of_the_log_is_counted_and_told() -> None:
    deliveries, stream = Deliveries(log_bytes_max=2_000), "default/~a-1.0"
    outlet = Consumer()
    subscriber = deliveries.add(outlet, "default", Subscribe(0, "", 0))
    for n in range(100):
        deliveries.on_packet(pack(stream, n, [Content(attributes={"n": n}, body=bytes(100))]))
    deliveries.flush()
    deliveries.grant(subscriber, 1_000)
    deliveries.flush()
    assert outlet.lost > 50
    assert outlet.lost + len(outlet.events) == 100


def test_who_takes_nothing_is_told_of_its_losses_once_in_a_while() -> None:
    deliveries, stream = Deliveries(log_bytes_max=2_000), "default/~a-1.0"
    outlet = Consumer()
    subscriber = deliveries.add(outlet, "default", Subscribe(0, "n >= 50", 0))
    for n in range(100):
        deliveries.on_packet(pack(stream, 2 * n, [Content(attributes={"n": n}, body=bytes(100)), Content()]))
        deliveries.flush()
    assert (outlet.gaps, outlet.lost) == ([], 0)
    deliveries.reach()
    ((first, last),) = outlet.gaps
    assert (first, outlet.lost) == (100, (last - first) // 2 + 1)
    deliveries.reach()
    deliveries.grant(subscriber, 1_000)
    deliveries.flush()
    assert [seq for _, seq in outlet.events] == list(range(last + 2, 200, 2))
    assert len(outlet.gaps) == 1
    assert outlet.lost + len(outlet.events) == 50


def test_who_is_behind_gets_batches_whole_unless_its_buffer_is_too_small() -> None:
    deliveries, stream = Deliveries(), "default/~a-1.0"
    large, small = Consumer(), Consumer()
    subscribers = [
        deliveries.add(outlet, "default", Subscribe(sub, "", 0, buffer))
        for sub, (outlet, buffer) in enumerate([(large, 100), (small, 10)])
    ]
    for n in range(4):
        deliveries.on_packet(pack(stream, 40 * n, [Content(attributes={"n": n})] * 40))
    for total in range(0, 161, 8):
        for subscriber in subscribers:
            deliveries.grant(subscriber, total)
        deliveries.flush()
    assert large.runs == [40, 40, 40, 40]
    assert small.runs == [8] * 20
    for outlet, subscriber in zip((large, small), subscribers, strict=True):
        assert [seq for _, seq in outlet.events] == list(range(160))
        assert (subscriber.sent, subscriber.feed.delivered, subscriber.feed.behind) == (160, 160, False)


def test_a_packet_of_marks_alone_is_passed_over() -> None:
    """What a link purged comes as packets without an event, as many as it takes."""
    deliveries, consumer = Deliveries(), Consumer()
    deliveries.add(consumer, "default", Subscribe(0, "n >= 0", 100))
    stream = "default/~a-1.0"
    for number in range(3):
        first = 600 * number
        deliveries.on_packet(assemble(stream, [(first + at, (first + 599, False)) for at in range(599)]))
        deliveries.on_packet(pack(stream, first + 599, [Content(key="x", attributes={"n": number})]))
    deliveries.flush()
    assert consumer.received == 3


@pytest.mark.parametrize("quick", [True, False])
def test_who_asks_for_another_attribute_while_a_packet_is_held_back_gets_it_as_well(
    quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.messages.quick.COMPILED", quick and COMPILED)
    deliveries, stream, early, late, never = Deliveries(), "default/~a-1.0", Consumer(), Consumer(), Consumer()
    deliveries.add(early, "default", Subscribe(0, "n >= 0", 100))
    packet = pack(stream, 0, [Content(attributes={"n": n, "s": "a" if n % 2 else "b"}) for n in range(10)])
    deliveries.vet(packet)  # and its group's order has it wait
    deliveries.add(late, "default", Subscribe(0, "s = 'a'", 100))
    deliveries.remove(deliveries.add(never, "default", Subscribe(0, "other = 1", 100)))
    deliveries.on_packet(packet)
    assert [seq for _, seq in early.events] == list(range(10))
    assert [seq for _, seq in late.events] == [1, 3, 5, 7, 9]
    assert not never.events
    assert deliveries._groups["default"].names == {"n", "s"}
