"""A member of a view while the view changes: what it acknowledges, purges, repeats, asks for and proposes."""

from typing import TypeVar

import pytest

from gossamer.messages.event import Content
from gossamer.protocol.groups.effects import Deliver, Effect, Send, View
from gossamer.protocol.groups.inputs import Exclude, Input, Multicast, Received, Start, Wake
from gossamer.protocol.groups.views import Order, Timing, Views
from gossamer.protocol.groups.wire import (
    Cast,
    Data,
    Decided,
    Hello,
    Lack,
    Message,
    Pred,
    Span,
    Status,
    Value,
)

M = TypeVar("M", bound=Message)
MEMBERS = ("a", "b", "c")
PLAIN = Cast(Content())
X = Cast(Content(key="x"))


class Driven:
    """One member, its clock, and everything it did since the last step."""

    def __init__(
        self, me: str, members: tuple[str, ...] = MEMBERS, *, order: Order = "fifo", uniform: bool = True
    ) -> None:
        self.machine = Views("g", me, members, order=order, uniform=uniform, timing=Timing())
        self.now = 0.0
        self.effects: list[Effect] = []
        self.give(Start())

    def give(self, given: Input) -> None:
        self.effects = self.machine.handle(given, self.now)

    def hear(self, sender: str, message: Message) -> None:
        self.give(Received(sender, message))

    def tick(self) -> None:
        """Let one heartbeat pass."""
        self.effects = []
        end = self.now + self.machine.timing.tick_s
        while (due := self.machine.next_deadline()) <= end:
            self.now = due
            self.effects += self.machine.handle(Wake(), due)
        self.now = end

    def sent(self, kind: type[M], to: str | None = None) -> list[M]:
        return [
            effect.message
            for effect in self.effects
            if isinstance(effect, Send) and isinstance(effect.message, kind) and (to is None or to in effect.to)
        ]

    def delivered(self) -> list[str]:
        return [str(effect.event.id).removeprefix("g/~") for effect in self.effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("order", ["fifo", "causal", "total"])
@pytest.mark.parametrize("uniform", [True, False])
def test_a_blocked_member_acknowledges_its_pred_and_nothing_beyond(order: Order, uniform: bool) -> None:
    member = Driven("c", order=order, uniform=uniform)
    member.hear("a", Data(0, 0, 0, (PLAIN,)))
    member.tick()
    assert member.sent(Status)[-1].held == (0, -1, -1)
    member.hear("d", Hello(("d",)))
    assert {pred.held for pred in member.sent(Pred)} == {(0, -1, -1)}
    member.hear("a", Data(0, 0, 1, (PLAIN,)))
    member.tick()
    assert {status.held for status in member.sent(Status)} == {(0, -1, -1)}
    assert {pred.held for pred in member.sent(Pred)} == {(0, -1, -1)}
    assert member.machine._held == [1, -1, -1]  # the flush may need it


def test_a_blocked_member_answers_a_later_view_with_its_frozen_acknowledgement() -> None:
    member = Driven("c")
    member.hear("b", Pred(0, (-1, -1, -1)))
    member.hear("a", Data(0, 0, 0, (PLAIN,)))
    member.hear("a", Status(1, (0, -1, -1), 0))
    assert member.sent(Status, "a") == [Status(0, (-1, -1, -1), 0)]


def test_acknowledgements_go_on_in_the_next_view() -> None:
    member = Driven("c")
    member.hear("d", Hello(("d",)))
    member.hear("a", Decided(0, 0, Value((-1, -1, -1), ("a", "b", "c", "d"), ("d",))))
    assert [effect.number for effect in member.effects if isinstance(effect, View)] == [1]
    member.hear("a", Data(1, 0, 0, (PLAIN,)))
    member.tick()
    assert member.sent(Status)[-1].held == (0, -1, -1, -1)


def test_a_message_beyond_the_pred_purges_nothing() -> None:
    """c and b hold the second x, neither in its PRED: if a dies, the flush leaves it out, and the first must stay."""
    member = Driven("c", uniform=False)
    member.hear("a", Data(0, 0, 0, (X, PLAIN)))
    assert member.delivered() == ["a.0:0", "a.0:1"]
    member.hear("b", Pred(0, (-1, -1, -1)))
    member.hear("a", Data(0, 0, 2, (X,)))
    member.hear("a", Status(0, (2, -1, -1), 0))
    member.hear("b", Lack(0, (Span(0, 0, 2),)))
    assert member.sent(Data, "b") == [Data(0, 0, 0, (X, PLAIN, X))]


def test_a_message_in_the_preds_of_a_majority_purges_during_the_change() -> None:
    """a and c flush the second x, so that every decision delivers it: the first may go."""
    member = Driven("c", uniform=False)
    member.hear("a", Data(0, 0, 0, (X, PLAIN, X)))
    member.hear("a", Pred(0, (2, -1, -1)))
    member.tick()
    member.hear("b", Lack(0, (Span(0, 0, 2),)))
    assert member.sent(Data, "b") == [Data(0, 0, 0, (None, PLAIN, X))]


def test_a_sender_does_not_repeat_data_while_the_view_changes() -> None:
    """A frozen acknowledgement says nothing about loss; blocked members ask for the messages they need."""
    member = Driven("a")
    member.give(Multicast((Content(),)))
    for _ in range(3):
        member.tick()
    member.hear("b", Status(0, (-1, -1, -1), 0))
    assert member.sent(Data, "b") == [Data(0, 0, 0, (PLAIN,))]
    member.hear("b", Pred(0, (-1, -1, -1)))
    member.hear("b", Status(0, (-1, -1, -1), 0))
    assert member.sent(Data) == []
    member.hear("b", Lack(0, (Span(0, 0, 0),)))
    assert member.sent(Data, "b") == [Data(0, 0, 0, (PLAIN,))]


def test_without_a_known_holder_a_blocked_member_asks_everyone() -> None:
    """The decision was adopted by members that got the message after they froze their PREDs: nobody tells so."""
    members = ("a", "b", "c", "d", "e")
    member = Driven("e", members)
    none = (-1,) * 5
    for other in "bcd":
        member.hear(other, Pred(0, none))
    member.hear("d", Decided(0, 0, Value((0, -1, -1, -1, -1), ("b", "c", "d", "e"))))
    member.tick()
    assert all(member.sent(Lack, other) for other in "bcd")


def test_an_exclusion_freezes_the_acknowledgement_too() -> None:
    member = Driven("a")
    member.give(Exclude("c"))
    member.hear("b", Data(0, 1, 0, (PLAIN,)))
    member.tick()
    assert {status.held for status in member.sent(Status)} == {(-1, -1, -1)}
