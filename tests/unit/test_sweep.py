"""The points of a figure, over seeds and processes: whatever goes first, outcomes come point by point."""

import multiprocessing
import operator

import pytest

from gossamer.lab.experiments.sweep import in_order, sweep


@pytest.mark.parametrize(("processes", "fresh"), [(1, False), (2, False), (1, True)])
def test_outcomes_come_point_by_point_and_progress_with_each(processes: int, fresh: bool) -> None:
    told: list[tuple[int, int]] = []
    found = sweep(
        operator.mul,
        [2, 3, 5],
        seeds=lambda point: 1 if point == 3 else 2,
        processes=processes,
        progress=lambda done, total: told.append((done, total)),
        weight=lambda point: point,
        fresh=fresh,
    )
    assert found == [[2, 4], [3], [5, 10]]
    assert told == [(done, 5) for done in range(6)]


@pytest.mark.parametrize("processes", [1, 2])
def test_what_goes_wrong_in_another_process_is_told(processes: int) -> None:
    with pytest.raises(TypeError):
        sweep(operator.mul, [1, None], seeds=1, processes=processes, progress=lambda *_: None)


@pytest.mark.parametrize("fresh", [False, True])
def test_when_there_are_outcomes_the_processes_have_ended(fresh: bool) -> None:
    """What they took counts for this experiment, and not for the next one."""
    before = set(multiprocessing.active_children())  # those of a pool that failed may take a moment to end
    outcomes = in_order(pow, [(2, n) for n in range(5)], 2, lambda *_: None, fresh)
    assert next(outcomes) == 1
    assert set(multiprocessing.active_children()) <= before
    assert list(outcomes) == [2, 4, 8, 16]
