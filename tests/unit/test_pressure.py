"""Which consumers publishers wait for, and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.protocol.pressure import NEVER, Level, Pressure

MAX_S = 5.0


def test_the_consumer_with_the_least_room_counts() -> None:
    pressure: Pressure[str] = Pressure(MAX_S)
    assert pressure.room([Level("a", 9, 0), Level("b", 4, 0), Level("c", 7, 0)], 0.0) == 4
    assert pressure.tightest == "b"
    assert pressure.blocking == []
    assert pressure.next_deadline() == NEVER


def test_without_consumers_there_is_no_limit() -> None:
    pressure: Pressure[str] = Pressure(MAX_S)
    assert pressure.room([], 0.0) is None
    assert pressure.tightest is None


def test_a_consumer_without_room_is_waited_for_until_it_takes_nothing_for_too_long() -> None:
    pressure: Pressure[str] = Pressure(MAX_S)
    assert pressure.room([Level("a", 0, 7), Level("b", 3, 0)], 1.0) == 0
    assert pressure.blocking == ["a"]
    assert pressure.next_deadline() == 6.0
    assert pressure.room([Level("a", -2, 8), Level("b", 3, 0)], 5.9) == 0, "it took something"
    assert pressure.next_deadline() == 5.9 + MAX_S
    assert pressure.room([Level("a", 0, 8), Level("b", 3, 0)], 10.8) == 0
    assert pressure.room([Level("a", 0, 8), Level("b", 3, 0)], 10.9) == 3
    assert pressure.stopped == ["a"]
    assert pressure.blocking == []
    assert pressure.next_deadline() == NEVER


def test_an_excused_consumer_counts_again_when_it_has_room() -> None:
    pressure: Pressure[str] = Pressure(MAX_S)
    pressure.room([Level("a", 0, 7)], 0.0)
    assert pressure.room([Level("a", 0, 7)], MAX_S) is None
    assert pressure.room([Level("a", 0, 8)], 6.0) is None, "it reads on, and has not caught up"
    assert (pressure.stopped, pressure.resumed) == ([], [])
    assert pressure.room([Level("a", 1, 9)], 7.0) == 1
    assert pressure.resumed == ["a"]
    assert pressure.room([Level("a", 0, 9)], 8.0) == 0
    assert pressure.next_deadline() == 8.0 + MAX_S, "it is waited for as long as any other"


def test_a_consumer_that_is_gone_is_forgotten() -> None:
    pressure: Pressure[str] = Pressure(MAX_S)
    pressure.room([Level("a", 0, 7)], 0.0)
    assert pressure.room([], 1.0) is None
    assert pressure.room([Level("a", 0, 7)], 7.0) == 0, "another life of it, or another consumer of that name"


@given(st.floats(0, 1e6), st.floats(0.01, 100))
def test_a_consumer_is_excused_at_its_deadline_however_that_is_rounded(now: float, max_s: float) -> None:
    """Whoever sleeps until the deadline would wake for nothing, again and again."""
    pressure: Pressure[str] = Pressure(max_s)
    pressure.room([Level("a", 0, 0)], now)
    assert pressure.room([Level("a", 0, 0)], pressure.next_deadline()) is None


steps = st.lists(
    st.tuples(st.floats(0.1, 3.0), st.lists(st.tuples(st.integers(-2, 3), st.booleans()), min_size=3, max_size=3)),
    max_size=40,
)


@given(steps)
def test_nobody_is_waited_for_longer_than_the_bound_without_progress(steps: list) -> None:  # type: ignore[type-arg]
    """Against a plain account of when each consumer last had room or took something."""
    pressure: Pressure[int] = Pressure(MAX_S)
    now, taken, moved_at, excused = 0.0, [0, 0, 0], [0.0, 0.0, 0.0], [False] * 3
    for wait_s, seen in steps:
        now += wait_s
        for key, (room, takes) in enumerate(seen):
            taken[key] += takes
            if room > 0:
                moved_at[key], excused[key] = NEVER, False
            elif takes or moved_at[key] == NEVER or now == wait_s:
                moved_at[key] = now
            excused[key] = excused[key] or (room <= 0 and now >= moved_at[key] + MAX_S)
        levels = [Level(key, room, taken[key]) for key, (room, _) in enumerate(seen)]
        counting = [max(0, level.room) for level in levels if not excused[level.key]]
        assert pressure.room(levels, now) == (min(counting) if counting else None)
        assert list(pressure.excused) == [key for key in range(3) if excused[key]]
