"""The parts of the order at brokers, one by one: what waits, what is named, what is read from a log."""

import pytest

from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content, Event, Relation
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Page, Stretch
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.arranged import ArrangedReplay
from gossamer.protocol.causal import CausalOrder
from gossamer.protocol.dependent import DependentAnnotator
from gossamer.protocol.effects import Deliver, Skip
from gossamer.protocol.holding import Holding

A, B, C = "g/a", "g/b", "g/c"


def packet(stream: str, first: int, *after: tuple[EventId, ...]) -> Packet:
    return pack(stream, first, [Content(relation=Relation(after=each) if each else None) for each in after])


def shown(effects) -> list[str]:
    spans = [
        (each.packet.stream, each.packet.first, each.packet.last)
        if isinstance(each, Deliver)
        else (each.stream, each.first, each.last)
        for each in effects
    ]
    return [f"{stream[2:]}:{first}-{last}" for stream, first, last in spans]


# Holding ------------------------------------------------------------------------------------------------------------


def test_what_is_held_is_given_out_cut_to_where_it_may_go():
    holding = Holding()
    holding.put(Deliver(packet(A, 0, (), (), ())))
    holding.put(Skip(A, 3, 8, "void"))
    size = holding.bytes
    assert size > 0
    assert shown(holding.release(A, 1)) == ["a:0-1"]
    assert holding.first(A) == 2
    assert 0 < holding.bytes < size
    assert shown(holding.release(A, 4)) == ["a:2-2", "a:3-4"]
    assert shown(holding.release(A, 99)) == ["a:5-8"]
    assert (holding.first(A), holding.bytes, len(holding)) == (None, 0, 0)


# Causal -------------------------------------------------------------------------------------------------------------


class Causal:
    """What a node has delivered, and what is handed out of it."""

    def __init__(self, **options: float) -> None:
        self.positions: dict[str, int] = {}
        self.order = CausalOrder(lambda stream: self.positions.get(stream, -1), **options)

    def deliver(self, *packets: Packet, now: float = 0.0) -> list[str]:
        for each in packets:
            self.positions[each.stream] = each.last
        return shown(self.order.on_delivered([Deliver(each) for each in packets], now))


def test_an_event_waits_for_what_it_names_and_others_do_not():
    causal = Causal()
    assert causal.deliver(packet(B, 0, (EventId(A, 1),), ())) == []
    assert causal.deliver(packet(C, 0, ())) == ["c:0-0"]
    assert causal.deliver(packet(A, 0, ())) == ["a:0-0"]
    assert causal.deliver(packet(A, 1, ())) == ["a:1-1", "b:0-1"]
    assert causal.order.next_deadline() == float("inf")


def test_what_comes_before_in_a_packet_does_not_wait():
    causal = Causal()
    assert causal.deliver(packet(B, 0, (), (EventId(A, 0),), ())) == ["b:0-0"]
    assert causal.deliver(packet(A, 0, ())) == ["a:0-0", "b:1-2"]


def test_a_chain_is_let_go_in_its_order():
    causal = Causal()
    assert causal.deliver(packet(C, 0, (EventId(B, 0),))) == []
    assert causal.deliver(packet(B, 0, (EventId(A, 0),))) == []
    assert causal.deliver(packet(A, 0, ())) == ["a:0-0", "b:0-0", "c:0-0"]


def test_what_is_skipped_or_over_or_of_another_group_is_not_waited_for():
    causal = Causal()
    assert causal.deliver(packet(B, 0, (EventId(A, 3),))) == []
    causal.positions[A] = 5
    assert shown(causal.order.on_delivered([Skip(A, 0, 5, "void")], 0.0)) == ["a:0-5", "b:0-0"]
    causal.positions["g/over"] = 2**63 - 1
    assert causal.deliver(packet(C, 0, (EventId("g/over", 7), EventId("h/x", 7)))) == ["c:0-0"]


def test_what_never_comes_is_waited_for_no_longer_than_patience_or_room_allows():
    causal = Causal(patience_s=30.0)
    assert causal.deliver(packet(B, 0, (EventId(A, 9),), (EventId(A, 9),)), now=1.0) == []
    assert causal.order.next_deadline() == 31.0
    assert causal.order.on_time(30.9) == []
    assert shown(causal.order.on_time(31.0)) == ["b:0-0"]
    assert shown(causal.order.on_time(61.0)) == ["b:1-1"]
    assert causal.order.overdue == 2
    narrow = Causal(bytes_max=50)
    taken = [each for seq in range(20) for each in narrow.deliver(packet(B, seq, (EventId(A, 9),)))]
    assert taken[0] == "b:0-0"
    assert narrow.order.holding.bytes <= 50


# Naming -------------------------------------------------------------------------------------------------------------


def test_an_event_names_what_had_come_since_the_last_one():
    heard = {A: 4, B: 0}
    said = DependentAnnotator(C, heard=lambda: heard)
    assert said.event({}).relation == Relation(after=(EventId(A, 4), EventId(B, 0)))
    assert said.event({}, key="k").relation is None
    heard |= {A: 5, C: 9}
    part, commit = said.transaction((Part({}),))
    assert (part.relation.after, commit.relation.after) == ((EventId(A, 5),), ())
    said.come_after([EventId(B, 7)])
    assert said.event({}).relation.after == (EventId(B, 7),)
    assert said.next == 5


def test_after_is_for_causal_groups():
    with pytest.raises(UsageError, match="causal order"):
        Annotator(A).come_after([EventId(B, 1)])
    with pytest.raises(UsageError):
        DependentAnnotator(A, heard=dict).come_after([("not a stream", "nor a number")])


# Reading ------------------------------------------------------------------------------------------------------------


class Decided:
    """What is remembered of decisions."""

    def __init__(self, base: dict[str, int], *decisions: list[tuple[str, int]], first: int = 0) -> None:
        self._past = first, base, list(decisions)

    def past(self):
        return self._past


def stretch(number: int, stream: str, first: int, last: int) -> Stretch:
    made = pack(stream, first, [Content(attributes={"n": seq}) for seq in range(first, last + 1)])
    return Stretch(number, stream, first, last, 0, ((first, last),), made.blob)


def read(replay: ArrangedReplay, *stretches: Stretch, end: bool = True) -> list[str]:
    out = replay.on_page(Page(0, stretches[-1].number if stretches else 99, end, stretches))
    events: list[Event] = [event for each in out for event in each.events()]
    return [f"{event.id.stream[2:]}{event.id.seq}" for event in events]


def test_what_is_read_comes_in_the_order_that_was_decided():
    order = Decided({}, [(A, 1), (B, 1)], [(A, 4)])
    replay = ArrangedReplay({}, order=order, released=lambda: {A: 4, B: 1})
    assert read(replay, stretch(1, B, 0, 0), stretch(2, A, 0, 3), end=False) == ["a0", "a1", "b0"]
    assert read(replay, stretch(3, B, 1, 1), stretch(4, A, 4, 4)) == ["b1", "a2", "a3", "a4"]


def test_what_is_older_than_the_decisions_remembered_comes_first():
    order = Decided({A: 1, B: 0}, [(B, 1)], [(A, 2)], first=40)
    replay = ArrangedReplay({}, order=order, released=lambda: {A: 2, B: 1})
    assert read(replay, stretch(1, A, 0, 2), end=False) == ["a0", "a1"]
    assert read(replay, stretch(2, B, 0, 1)) == ["b0", "b1", "a2"]


def test_nothing_is_passed_on_that_the_broker_has_not_handed_out():
    released = {A: 1}
    replay = ArrangedReplay({}, order=None, released=lambda: released)
    assert read(replay, stretch(1, A, 0, 3)) == ["a0", "a1"]
    replay.until({A: 1})
    assert replay.reached
    released[A] = 3
    assert read(replay) == ["a2", "a3"]


def test_what_will_not_come_is_not_waited_for():
    order = Decided({}, [("g/gone", 5)], [(A, 1)])
    replay = ArrangedReplay({}, order=order, released=lambda: {A: 1, "g/gone": 5})
    assert read(replay, stretch(1, A, 0, 1)) == []
    replay.until({A: 1})
    assert read(replay) == ["a0", "a1"]


def test_at_another_logger_what_was_held_is_read_again():
    order = Decided({}, [(B, 0)], [(A, 1)])
    replay = ArrangedReplay({}, order=order, released=lambda: {A: 1, B: 0})
    assert read(replay, stretch(1, A, 0, 1), end=False) == []
    replay.ask_elsewhere()
    assert read(replay, stretch(7, B, 0, 0), stretch(8, A, 0, 1)) == ["b0", "a0", "a1"]
