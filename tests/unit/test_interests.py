"""Which clusters become groups: worked out by hand, and never at the price of more traffic than one group has."""

import pytest

pytest.importorskip("pyspark", reason="analytics is NOT tested: pip install 'gossamer[analytics]'")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.analytics.jobs.interests import WORTH, _settle


def deliveries(wants: np.ndarray, weights: np.ndarray, group: list[int]) -> int:
    """What the groups cost, told the slow way: an event is in the first group of which a member wants it."""
    rest = max(group, default=-1) + 1
    interests = [wants[[at for at, each in enumerate(group) if each == place]].any(axis=0) for place in range(rest)]
    place = [next((at for at, each in enumerate(interests) if each[event]), rest) for event in range(wants.shape[1])]
    sizes = np.bincount(place, minlength=rest + 1)
    return sum(
        int(weight) * sum(int(sizes[each]) for each in {place[event] for event in np.flatnonzero(wanted)})
        for wanted, weight in zip(wants, weights, strict=True)
    )


def test_interests_apart_cost_what_is_wanted_and_no_more() -> None:
    wants = np.kron(np.eye(3, dtype=bool), np.ones((4, 30), bool))
    weights = np.arange(1, 13)
    group = _settle(wants, weights, np.repeat([0, 1, 2], 4))
    assert deliveries(wants, weights, group) == 30 * weights.sum()
    assert len(set(group)) == 3, "two groups, and the rest is the third"


def test_clusters_that_want_the_same_are_one_group() -> None:
    wants = np.kron(np.eye(3, dtype=bool), np.ones((4, 30), bool))
    group = _settle(wants, np.ones(12, int), np.repeat([0, 1, 2, 3, 4, 5], 2))
    assert len({each for each in group if each >= 0}) == 2


def test_a_group_that_saves_next_to_nothing_is_not_made() -> None:
    wants = np.zeros((2, 1_000), bool)
    wants[0, :999], wants[1, 999] = True, True
    assert _settle(wants, np.array([1_000, 1]), np.array([0, 1])) == [-1, -1]
    assert _settle(wants, np.ones(2, int), np.array([-1, -1])) == [-1, -1]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 12))
@settings(max_examples=60)
def test_groups_never_cost_more_than_one(seed: int, clusters: int, count: int) -> None:
    random = np.random.default_rng(seed)
    wants = random.random((count, 40)) < random.random((count, 1))
    weights = random.integers(1, 9, count)
    group = _settle(wants, weights, random.integers(-1, clusters, count))
    given_up = clusters * WORTH * weights.sum() * 40
    assert deliveries(wants, weights, group) <= deliveries(wants, weights, [-1] * count) + given_up
