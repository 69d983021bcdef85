"""The decisions of a view: kept until they are applied here and everyone has heard of them."""

from gossamer.messages.event import Content
from gossamer.protocol.groups.decisions import Decisions, Past
from gossamer.protocol.groups.wire import Cast, Data, Decided, Lack, Span, Status, Value

ONE, TWO, LAST = Value((0, 0)), Value((1, 0)), Value((1, 1), ("a", "b"))


def made(*values: Value) -> Decisions:
    decisions = Decisions([1])
    for value in values:
        decisions.add(value)
    return decisions


def test_what_was_decided_since_the_last_tick_is_not_said_again() -> None:
    decisions = made(ONE)
    decisions.tick()
    decisions.add(TWO)
    assert decisions.hear(1, 0) == [(0, ONE)]
    assert decisions.hear(1, 1) == []


def test_a_decision_is_forgotten_when_it_is_applied_and_all_have_heard_of_it() -> None:
    decisions = made(ONE, TWO)
    decisions.applied = 2
    decisions.forget()
    assert decisions.at(0) == ONE
    decisions.hear(1, 1)
    decisions.forget()
    assert (decisions.at(0), decisions.at(1), decisions.at(2)) == (None, TWO, None)
    assert (decisions.count, decisions.last, list(decisions.since(0))) == (2, TWO, [(1, TWO)])


def test_whoever_is_still_in_a_view_is_told_how_it_ended_and_what_it_lacks() -> None:
    cast = Cast(Content(key="x"))
    past = Past(4, ("a", "b"), made(ONE, LAST), [{1: cast}, {}])
    assert past.answer(Status(4, (0, 1), 1)) == [Decided(4, 1, LAST), Data(4, 0, 1, (cast,))]
    assert past.answer(Lack(4, (Span(0, 0, 1), Span(7, 0, 0)))) == [Data(4, 0, 0, (None, cast))]
