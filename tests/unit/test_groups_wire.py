"""What group members say to each other: through bytes and back, and nothing else gets in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import SEQ_MAX, EventId
from gossamer.protocol.groups.effects import Deliver, Expelled, Send
from gossamer.protocol.groups.inputs import Multicast, Received, Start, Wake
from gossamer.protocol.groups.rotation import Settings, middle
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.wire import (
    Agreed,
    Cast,
    Casts,
    Cleaning,
    Decision,
    Excluded,
    Log,
    Message,
    Ordered,
    Recover,
    Report,
    Request,
    Roll,
    Run,
    Span,
    decode,
    encode,
)

ROLL = Roll(4, (0, 0, 1), (-1, -1, 3))
MESSAGES: list[Message] = [
    Casts((Run(1, 7, (Cast(Content(key="x"), ((0, 3),)),)),)),
    Casts((Run(1, 7, (Cast(Content(key="x")),)),), accepted=(3, 7, -1)),
    Request(5, ROLL, Log(4, 2, (Decision((Span(0, 0, 2),)),), (2, -1, -1)), 2, 3, (2, 7, -1), 2),
    Ordered(ROLL, 2, 3, (2, 7, -1), (0, 1, 0), 1),
    Recover(5, -1, (Span(1, 3, 4),)),
    Excluded(3),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_through_bytes_and_back(message: Message) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=60))
def test_noise_is_a_peer_error(noise: bytes) -> None:
    with pytest.raises(PeerError):
        decode(b"\x07" + noise)
    for frame in (noise, b"\x01" + noise):
        try:
            decode(frame)
        except PeerError:
            continue


@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_what_does_not_fit_the_group_is_refused_and_changes_nothing(kind: type[Urgc] | type[Urcgc]) -> None:
    machine = kind("g", "b", ("a", "b", "c"))
    machine.handle(Start(), 0.0)
    bad: list[tuple[str, Message]] = [
        ("stranger", Excluded(1)),
        ("a", Excluded(1)),
        ("a", Casts((Run(2, 0, (Cast(Content()),)),))),  # c's messages, from a
        ("a", Casts((Run(9, 0, (Cast(Content()),)),))),
        ("a", Ordered(Roll(0, (0,), (-1,)), 0, -1, (), (), 0)),
        ("c", Ordered(Roll(0, (0, 0, 0), (-1, -1, -1)), 0, -1, (-1, -1, -1), (0, 0, 0), 0)),  # c does not coordinate 0
        ("a", Request(10**9, ROLL, Log(cursors=(-1, -1, -1)), 0, -1, (-1, -1, -1), 0)),
    ]
    if kind is Urcgc:
        bad.append(("a", Casts((), accepted=(0, 0))))  # what it has of two members, and there are three
    for sender, message in bad:
        with pytest.raises(PeerError):
            machine.handle(Received(sender, message), 0.0)
    assert machine.turn.subrun == 0


def test_a_late_decision_is_none() -> None:
    """Whoever told the next coordinator that it had not heard the last one does not listen to it any more."""
    members = ("a", "b", "c")
    b = Urgc("g", "b", members, Settings(subrun_s=0.1, uniform=False))
    b.handle(Start(), 0.0)
    b.handle(Received("c", Casts((Run(2, 0, (Cast(Content()),)),))), 0.0)
    decision = Ordered(
        Roll(0, (0, 0, 0), (-1, -1, -1)), 0, -1, (-1, -1, 0), (0, 0, 2), 0,
        Log(0, 0, (Decision((Span(2, 0, 0),)),), (-1, -1, 0)),
    )  # fmt: skip
    on_time = Urgc("g", "b", members, Settings(subrun_s=0.1, uniform=False))
    on_time.handle(Start(), 0.0)
    on_time.handle(Received("c", Casts((Run(2, 0, (Cast(Content()),)),))), 0.0)
    delivered = [e for e in on_time.handle(Received("a", decision), 0.05) if isinstance(e, Deliver)]
    assert [each.event.id for each in delivered] == [EventId("g/~c.0", 0)]
    b.handle(Wake(), 0.1)
    assert b.turn.subrun == 1
    assert not [e for e in b.handle(Received("a", decision), 0.11) if isinstance(e, Deliver)]


SEVEN = tuple("abcdefg")


def answer_of(kind: type[Urgc] | type[Urcgc], subrun: int) -> Ordered | Agreed:
    """What the coordinator of a subrun says to seven members while nobody multicasts."""
    roll, none, places = Roll(subrun, (0,) * 7, (-1,) * 7), (-1,) * 7, (0,) * 7
    if kind is Urgc:
        return Ordered(roll, 0, -1, none, places, 0)
    return Agreed(roll, none, none, none, places, (SEQ_MAX,) * 7, Cleaning((SEQ_MAX,) * 7, (False,) * 7))


def hear_late(kind: type[Urgc] | type[Urcgc], settings: Settings, late: list[int]) -> list[str]:
    """Why g leaves, if it does. In each subrun before its own turn, g hears one answer, which is late."""
    machine = kind("g", "g", SEVEN, settings)
    effects = machine.handle(Start(), 0.0)
    for subrun, answered in enumerate(late):
        now = (subrun + 1) * settings.subrun_s
        effects += machine.handle(Wake(), now)
        effects += machine.handle(Received(SEVEN[answered], answer_of(kind, answered)), now)
    reports = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Request | Report)]
    assert {report.roll.subrun for report in reports} == {-1}, "a late answer was taken for one in time"
    return [effect.reason for effect in effects if isinstance(effect, Expelled)]


@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_late_coordinator_is_not_a_silent_one(kind: type[Urgc] | type[Urcgc]) -> None:
    settings = Settings(silence=3)
    assert hear_late(kind, settings, [0, 1, 2, 3, 4, 5]) == []
    # Copies of one late answer, and answers to subruns before it, prove nothing about later coordinators.
    assert hear_late(kind, settings, [0, 0, 0, 0, 0, 0]) == ["heard no coordinator for 3 subruns"]
    assert hear_late(kind, settings, [0, 1, 1, 0, 0, 0]) == ["heard no coordinator for 3 subruns"]


@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_member_that_hears_coordinators_only_late_leaves_after_r_subruns(kind: type[Urgc] | type[Urcgc]) -> None:
    assert hear_late(kind, Settings(silence=3, attempts=4), [0, 1, 2, 3, 4, 5]) == ["could not catch up in 4 subruns"]
    assert hear_late(kind, Settings(silence=3, attempts=5), [0, 1, 2, 3, 4]) == []


def test_after_names_what_was_delivered() -> None:
    machine = Urcgc("g", "a", ("a", "b"))
    machine.handle(Start(), 0.0)
    with pytest.raises(UsageError, match="has not been delivered"):
        machine.handle(Multicast((Content(),), (EventId("g/~b.0", 0),)), 0.0)


def test_who_hears_nobody_leaves() -> None:
    machine = Urgc("g", "a", ("a", "b", "c"), Settings(subrun_s=0.1, silence=3))
    effects = machine.handle(Start(), 0.0)
    now = 0.0
    while not any(isinstance(effect, Expelled) for effect in effects):
        now += 0.05
        assert now < 2.0
        effects = machine.handle(Wake(), now)
    assert machine.next_deadline() == float("inf")
    assert machine.handle(Multicast((Content(),)), now) == []


def test_a_member_alone_delivers_to_itself() -> None:
    machine = Urgc("g", "a", ("a",))
    machine.handle(Start(), 0.0)
    machine.handle(Multicast((Content(), Content())), 0.0)
    delivered, now = 0, 0.0
    while delivered < 2 and now < 1.0:
        now = max(now, machine.next_deadline())
        effects = machine.handle(Wake(), now)
        assert not any(isinstance(effect, Send) for effect in effects)
        delivered += sum(isinstance(effect, Deliver) for effect in effects)
    assert delivered == 2


def test_the_middle_is_what_a_quorum_reaches() -> None:
    assert middle([5, 3, 9], 2) == 5
    assert middle([5], 2) == -1
