"""The hybrid clock: strictly increasing, never behind the wall, past what was seen, and not dragged far."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.protocol.clock import DRIFT_MAX_NS, HybridClock


@pytest.mark.parametrize(
    ("steps", "times"),
    [
        ([("tick", 5), ("tick", 9)], [5, 9]),
        ([("tick", 5), ("tick", 5), ("tick", 5)], [5, 6, 7]),
        ([("tick", 5), ("tick", 3), ("tick", 8)], [5, 6, 8]),
        ([("observe", 20, 5), ("tick", 6), ("tick", 30)], [21, 30]),
        ([("observe", 2, 5), ("tick", 6)], [6]),
        ([("observe", 10**18, 5), ("tick", 6)], [106]),
        ([("observe", 10**18, 5), ("observe", 10**18, 50), ("tick", 51)], [151]),
        ([("tick", 0)], [0]),
    ],
    ids=["wall", "still", "back", "past what was seen", "seen is old", "dragged", "dragged twice", "from zero"],
)
def test_the_clock(steps, times):
    clock = HybridClock(drift_max_ns=100)
    said = [clock.tick(*step[1:]) if step[0] == "tick" else clock.observe(*step[1:]) for step in steps]
    assert [time for time in said if time is not None] == times


def test_a_clock_is_dragged_a_minute_at_most():
    clock = HybridClock()
    clock.observe(2**62, 1)
    assert clock.tick(2) == 60 * 10**9 + 2
    assert DRIFT_MAX_NS == 60 * 10**9


STEPS = st.tuples(st.sampled_from(["tick", "observe"]), st.integers(0, 500), st.integers(0, 500))


@given(st.lists(STEPS, max_size=40))
def test_times_increase_and_are_not_behind(steps):
    clock = HybridClock(drift_max_ns=50)
    last = -1
    for kind, now, time in steps:
        if kind == "observe":
            clock.observe(time, now)
            last = max(last, min(time, now + 50))
        else:
            said = clock.tick(now)
            assert said > last
            assert said >= now
            assert said == max(now, last + 1), "and not dragged further than it must be"
            last = said
