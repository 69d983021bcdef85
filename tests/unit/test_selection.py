"""Whom to gossip with: weights by round-trip time, and who does not answer (rpbcast §4.2, §7.5)."""

from collections import Counter

import pytest

from gossamer.protocol.selection import HEADROOM, Selection, weights
from machines import context

DRAWS = 20_000


def selection(rtts_s=(), **config):
    found = Selection(context(**config))
    found.rtt_s.update(rtts_s)
    return found


def share(found, members):
    drawn = Counter(found.choose(members) for _ in range(DRAWS))
    return [drawn[member] / DRAWS for member in members]


@pytest.mark.parametrize(
    ("rtts_s", "power", "expected"),
    [
        ([], 1, []),
        ([None, None], 1, [1.0, 1.0]),
        ([0.0, 0.0], 2, [1.0, 1.0]),
        ([0.1, 0.1], 1, [0.1, 0.1]),
        ([0.0, 0.1], 1, [1.1, 0.1]),
        ([0.05, 0.1], 1, [0.6, 0.1]),
        ([0.05, 0.1], 2, [0.36, 0.01]),
        ([0.05, 0.1, 0.2, None], 1, [0.85, 0.6, 0.1, 0.6]),
        ([0.05, 0.1], 0, [1.0, 1.0]),
    ],
)
def test_weights_fall_with_the_round_trip_time(rtts_s, power, expected):
    assert weights(rtts_s, power) == pytest.approx(expected)


def test_nobody_is_without_a_chance():
    assert min(weights([0.001, 5.0, None], 2)) > 0
    assert HEADROOM > 1


@pytest.mark.parametrize("bias", ["uniform", "linear", "quadratic"])
def test_draws_follow_the_weights(bias):
    rtts_s = {"near": 0.01, "middle": 0.05, "far": 0.1}
    power = {"uniform": 0, "linear": 1, "quadratic": 2}[bias]
    expected = weights(list(rtts_s.values()), power)
    members = tuple(rtts_s)
    assert share(selection(rtts_s, selection=bias), members) == pytest.approx(
        [weight / sum(expected) for weight in expected], abs=0.02
    )


def test_without_measurements_draws_are_uniform():
    assert share(selection(selection="quadratic"), ("a", "b", "c", "d")) == pytest.approx([0.25] * 4, abs=0.02)


def test_there_may_be_nobody():
    assert selection().choose(()) is None


def test_a_silent_member_is_avoided_but_not_starved():
    found = selection()
    found.asked("a", 1)
    found.asked("a", 2)
    (a, *others) = share(found, ("a", "b", "c"))
    assert a == pytest.approx((1 / 3) ** 3, abs=0.01), "only if it is drawn three times in a row"
    assert others == pytest.approx([(1 - a) / 2] * 2, abs=0.02)


def test_who_answers_is_silent_no_more():
    found = selection()
    found.asked("a", 1)
    found.asked("a", 2)
    found.answered("a", 2)
    assert share(found, ("a", "b")) == pytest.approx([0.5, 0.5], abs=0.02)


def test_if_all_are_silent_one_is_asked_all_the_same():
    found = selection()
    for member in "ab":
        found.asked(member, 1)
        found.asked(member, 2)
    assert share(found, ("a", "b")) == pytest.approx([0.5, 0.5], abs=0.02)


def test_round_trips_are_measured_from_gossip_to_echo_and_smoothed():
    found = selection()
    for sent_at, answered_at, expected in ((0.0, 0.08, 0.08), (1.0, 1.16, 0.09)):
        found._ctx.now = sent_at
        found.asked("a", int(sent_at))
        found._ctx.now = answered_at
        found.answered("a", int(sent_at))
        assert found.rtt_s["a"] == pytest.approx(expected)


def test_a_late_echo_of_an_earlier_round_measures_nothing():
    found = selection()
    found.asked("a", 1)
    found.asked("a", 2)
    found.answered("a", 1)
    assert found.rtt_s == {}
    found.answered("b", 7)
    assert found.rtt_s == {}, "nor does one that was never asked for"


def test_new_measurements_change_the_draws():
    found = selection({"a": 0.1, "b": 0.1}, selection="linear")
    members = ("a", "b")
    assert share(found, members) == pytest.approx([0.5, 0.5], abs=0.02)
    for round_no in range(100):
        found.asked("a", round_no)
        found.answered("a", round_no)
    assert share(found, members)[0] > 0.8


def test_a_request_is_in_flight_for_two_round_trips_at_most_a_round():
    found = selection({"near": 0.01, "far": 3.0}, round_interval_s=0.25)
    assert [found.patience_s(node) for node in ("near", "far", "unknown")] == [0.02, 0.25, 0.25]


def test_a_new_life_is_measured_anew():
    found = selection({"a": 0.1})
    found.asked("a", 1)
    found.asked("a", 2)
    found.forget("a")
    assert found.rtt_s == {}
    assert share(found, ("a", "b")) == pytest.approx([0.5, 0.5], abs=0.02)
