"""What a subscription gets when what it was shown is no longer true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.event import REACH_MAX, Commit, Head, Outline, Relation
from gossamer.messages.ids import EventId
from gossamer.protocol.shown import DELIVER, NOTHING, Left, Shown, Verdict

A, B = "default/a", "default/b"


def fed(shown, *steps):
    """`a3:x+` is event 3 of A with key x, which matches; `-` does not; `†` deletes; `^2` has scope group and rank 2;
    `<a1,b2` names those; `(0/2)` is a part; `!2x` commits two parts, which set x."""
    found = []
    for step in steps:
        where, _, said = step.partition(":")
        said, _, named = said.partition("<")
        matches, deleted = "+" in said, "†" in said
        said = said.replace("†", "").strip("+-")
        id = EventId(f"default/{where[0]}", int(where[1:]))
        rank, part, commit = None, None, None
        if "^" in said:
            said, _, rank = said.partition("^")
        if "(" in said:
            said, _, part = said.partition("(")
            part = tuple(map(int, part.rstrip(")").split("/")))
        if "!" in said:
            commit, said = Commit(int(said[1]), tuple(said[2:])), ""
        ids = [EventId(f"default/{each[0]}", int(each[1:])) for each in named.split(",") if each]
        near = sum(
            1 << (id.seq - other.seq - 1)
            for other in ids
            if other.stream == id.stream and id.seq - other.seq <= REACH_MAX
        )
        far = tuple(other for other in ids if other.stream != id.stream or id.seq - other.seq > REACH_MAX)
        near = near.to_bytes((near.bit_length() + 7) // 8, "little")
        relation = Relation(group=rank is not None, near=near, ids=far, part=part, commit=commit)
        head = Head(said or None, None if rank is None else int(rank), None if relation == Relation() else relation)
        verdict = shown.on_event(id, head, matches, deleted)
        left = [f"{one.key or ''}@{one.id.stream[-1]}{one.id.seq}" for one in verdict.left]
        found.append(" ".join(["+"] * verdict.deliver + left))
    return found


@pytest.mark.parametrize(
    ("steps", "verdicts"),
    [
        ("a0:x+ a1:x+ a2:x- a3:x- a4:x+", "+|+|x@a1||+"),
        ("a0:x- a1:x-", "|"),
        ("a0:x+ b0:x-", "+|"),
        ("a0:x+ a1:x†-", "+|x@a0"),
        ("a0:x+ a1:x†+ a2:x-", "+|+|"),
        ("a0:x+ a1:y- a2:x-", "+||x@a0"),
        # Scope group.
        ("a0:x^1+ b0:x^2-", "+|x@a0"),
        ("a0:x^2+ b0:x^1- b1:x^1+", "+||"),
        ("a0:x^2+ b0:x^3+ a1:x^4-", "+|+|x@b0"),
        ("a0:x+ b0:x^3- a1:x^4-", "+||"),
        # Without keys.
        ("a0:+ a1:-", "+|"),
        ("a0:+ a1:-<a0 a2:-<a0", "+|@a0|"),
        ("a0:+ a1:+ a2:- a3:-<a0,a1", "+|+||@a1 @a0"),
        ("a0:+ b0:-<a0", "+|@a0"),
        ("a0:+ b0:+<a0 b1:-<a0", "+|+|"),
        ("a0:x+ b0:-<a0 a1:x-", "+|x@a0|"),
        ("a0:x+ a1:-<a0", "+|x@a0"),
        ("a0:x+ a1:+ a2:x-<a1", "+|+|x@a0 @a1"),
        ("a0:+ a256:-<a0", "+|@a0"),
        ("a0:+ a400:+ a401:-<a0", "+|+|@a0"),
        # Transactions.
        ("a0:x(0/1)+ a1:!1x", "+|+"),
        ("a0:x(0/1)- a1:!1x", "|"),
        ("a0:x+ a1:x(0/2)- a2:y(1/2)- a3:!2xy", "+|||x@a0"),
        ("a0:x+ a1:x(0/2)- a2:y(1/2)+ a3:!2xy", "+||+|+ x@a0"),
        ("a0:x+ a1:x(0/1)+ a2:!1x a3:x-", "+|+|+|x@a1"),
        ("a0:x+ a1:x(0/1)+", "+|+"),
        ("a0:x+ a1:x†(0/1)+ a2:!1x a3:x-", "+|+|+|"),
        ("a0:x(0/1)+ a2:y(0/1)- a3:!1y a4:x-", "+||+|x@a0"),
        ("a0:x(0/2)+ a1:x(1/2)- a2:!2x<a0", "+||+ x@a0"),
        ("a0:x(0/2)+ a1:x(1/2)+ a2:!2x<a0 a3:x-", "+|+|+|x@a1"),
        ("a0:x(0/1)+ a2:x- a3:y(0/1)- a4:!1y", "+|||+ x@a0"),
        ("a0:x(0/1)+ a2:x+ a3:y(0/1)- a4:!1y a5:x-", "+|+||+|x@a2"),
        ("a0:x(0/1)+ a2:x- a3:x+ a4:y(0/1)- a5:!1y", "+||+||+"),
        ("a0:x(0/1)+ a2:x†+ a3:y(0/1)- a4:!1y a5:x-", "+|+||+|"),
        ("a0:x(0/1)+ a2:x- a3:x+ a4:y(0/1)- a5:!1y a6:x-", "+||+||+|x@a3"),
        ("a0:x†(0/1)+ a2:x- a3:y(0/1)- a4:!1y", "+|||+ x@a0"),
        ("a0:x(0/1)+ a2:x- a3:x(0/1)+ a4:!1x a5:x-", "+||+|+|x@a3"),
        ("a0:x(0/1)+ a2:x+ a3:x(0/1)- a4:!1x", "+|+||+ x@a2"),
        ("a0:+ a1:(0/1)- a2:!1<a0", "+||@a0"),
        ("a0:(0/1)+ a1:!1 a2:y(0/1)- a3:!1y<a0", "+|+||@a0"),
        # A commit that stands for one so far back that no bit tells what that one obsoleted.
        ("a0:x(0/1)+ a300:x(0/1)- a301:!1x", "+||+ x@a0"),
        ("a0:x+ a1:x(0/1)- a300:y(0/1)- a301:!1y", "+|||x@a0"),
        ("a0:x+ a1:x(0/1)- a300:x(0/1)+ a301:!1x", "+||+|+"),
    ],
)
def test_verdicts(steps, verdicts):
    assert fed(Shown(), *steps.split()) == verdicts.split("|")


def test_the_common_verdicts_are_made_once():
    shown = Shown()
    assert shown.on_event(EventId(A, 0), Head("x"), True, False) is DELIVER
    assert shown.on_event(EventId(A, 1), Head("y"), False, False) is NOTHING
    assert shown.on_event(EventId(A, 2), Head("x"), False, False) == Verdict(False, (Left("x", EventId(A, 0)),))


def test_memory_is_that_of_what_is_shown():
    shown = Shown(far_max=10, streams_max=3)
    for seq in range(500):
        fed(shown, f"a{seq}:k{seq}{'+' if seq < 400 else '-'}")
    assert len(shown._slots) == 400
    assert shown._keyed is None, "nobody has asked for any of them by its id"
    fed(shown, "b0:-<a0")
    assert len(shown._slots) == len(shown._keyed) == 399
    for seq in range(500, 900):
        fed(shown, f"a{seq}:k{seq - 500}-")
    assert shown._slots == shown._keyed == {}
    fed(shown, *(f"a{seq}:+" for seq in range(1_000, 1_600)))
    fed(shown, *(f"{stream}0:+" for stream in "bcdefg"))
    assert len(shown._far) == 10
    assert len(shown._recent) == 3
    assert shown._recent[B[:-1] + "g"] == (0, 1)


outline = st.builds(Outline, key=st.sampled_from([None, "x", "y", "z"]), deleted=st.sampled_from([False] * 9 + [True]))
stretches = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3), st.booleans()))


@given(events=st.lists(outline, min_size=20, max_size=20), stretches=stretches)
def test_a_run_shows_what_its_events_show_one_by_one(events, stretches):
    """Also one that comes again in part, and one after an event that names others, which may be of a run."""
    at_once, one_by_one = Shown(), Shown()
    reached = 0
    for count, back, names in stretches:
        first = max(0, reached - back)
        seqs = range(first, min(first + count, len(events)))
        reached = max(reached, seqs.stop)
        at_once.on_run(A, [(seq, seq) for seq in seqs], [events[seq] for seq in seqs])
        for seq in seqs:
            one_by_one.on_event(EventId(A, seq), Head(events[seq].key), True, events[seq].deleted)
        if names:
            naming = EventId(B, reached), Head(None, None, Relation(ids=(EventId(A, reached - 1),))), False, False
            assert at_once.on_event(*naming) == one_by_one.on_event(*naming)
        assert {id: head.key for id, head in at_once.shown()} == {id: head.key for id, head in one_by_one.shown()}


def test_what_is_beyond_memory_is_not_missed_in_time():
    shown = Shown(far_max=2)
    fed(shown, "a0:+", "a1:+", "a2:+", "a300:+")
    assert fed(shown, "b0:-<a0", "b1:-<a1") == ["", "@a1"]


def test_parts_that_cannot_be_committed_show_nothing():
    shown = Shown()
    fed(shown, "a0:x+", "a1:x(0/2)+")
    shown.on_lost(A, 2, 2)
    assert fed(shown, "a4:y(0/1)-", "a5:!1y", "a6:x-") == ["", "", "x@a0"]


def test_a_loss_elsewhere_is_no_matter():
    shown = Shown()
    fed(shown, "a1:x(0/1)+")
    shown.on_lost(A, 0, 0)
    shown.on_lost(B, 1, 1)
    assert fed(shown, "a2:!1x") == ["+"]


def test_a_retired_stream_is_forgotten_save_for_its_keys():
    shown = Shown()
    fed(shown, "a0:x+", "a1:+", "a2:y(0/1)+")
    shown.forget(A)
    assert fed(shown, "b0:-<a0,a1") == ["x@a0"]
    assert shown._parts == {}


def test_a_late_one_is_remembered_in_its_place():
    assert fed(Shown(), "a5:+", "a3:+", "a6:-<a3") == ["+", "+", "@a3"]
    assert fed(Shown(), "a500:+", "a3:+", "b0:-<a3") == ["+", "+", "@a3"]
    assert fed(Shown(), "a5:x+", "a3:x-") == ["+", ""]
