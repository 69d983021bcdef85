"""An `IntervalSet` is a set of integers: every operation agrees with a plain `set[int]`."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from gossamer.protocol.intervals import IntervalSet

LOW, HIGH = -3, 60  # narrow, so that spans meet, touch and cover each other all the time
numbers = st.integers(LOW, HIGH)
spans = st.tuples(numbers, st.integers(0, 12)).map(lambda span: (span[0], min(span[0] + span[1], HIGH)))
span_lists = st.lists(spans, max_size=20)


def integers(ranges: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def maximal(ranges: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> bool:
    """Ascending, none empty, and with at least one integer between neighbours."""
    return all(first <= last for first, last in ranges) and all(a[1] + 1 < b[0] for a, b in pairwise(ranges))


def check_equal(intervals: IntervalSet, model: set[int]) -> None:
    assert maximal(intervals.ranges())
    assert integers(intervals.ranges()) == model
    assert len(intervals) == len(intervals.ranges())
    assert intervals.count() == len(model)
    assert bool(intervals) == bool(model)
    assert [number for number in range(LOW - 2, HIGH + 3) if number in intervals] == sorted(model)
    if model:
        assert (intervals.first(), intervals.last()) == (min(model), max(model))


class AgainstPlainSets(RuleBasedStateMachine):
    """Any history of adds, removes and copies."""

    sets = Bundle("sets")

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[IntervalSet, set[int]]] = []

    def keep(self, intervals: IntervalSet, model: set[int]) -> int:
        self.pairs.append((intervals, model))
        return len(self.pairs) - 1

    @rule(target=sets, ranges=span_lists)
    def construct(self, ranges: list[tuple[int, int]]) -> int:
        return self.keep(IntervalSet(ranges), integers(ranges))

    @rule(which=sets, span=spans)
    def add(self, which: int, span: tuple[int, int]) -> None:
        intervals, model = self.pairs[which]
        intervals.add(*span)
        model |= integers([span])

    @rule(which=sets, span=spans)
    def remove(self, which: int, span: tuple[int, int]) -> None:
        intervals, model = self.pairs[which]
        intervals.remove(*span)
        model -= integers([span])

    @rule(which=sets, length=st.integers(1, 5))
    def append(self, which: int, length: int) -> None:
        """The common case: the next run of a stream."""
        intervals, model = self.pairs[which]
        first = max(model, default=LOW) + 1
        if first + length <= HIGH:
            intervals.add(first, first + length)
            model |= integers([(first, first + length)])

    @rule(target=sets, which=sets)
    def copy(self, which: int) -> object:
        if len(self.pairs) >= 8:
            return multiple()
        intervals, model = self.pairs[which]
        return self.keep(intervals.copy(), set(model))

    @invariant()
    def every_set_is_its_model(self) -> None:
        # All of them after each step: a change to one must not show in a copy.
        for intervals, model in self.pairs:
            check_equal(intervals, model)


AgainstPlainSets.TestCase.settings = settings(max_examples=80, stateful_step_count=25)
TestAgainstPlainSets = AgainstPlainSets.TestCase


@given(span_lists, spans)
def test_overlap_and_gaps_part_the_span(ranges: list[tuple[int, int]], span: tuple[int, int]) -> None:
    intervals = IntervalSet(ranges)
    inside, outside = intervals.overlap(*span), intervals.gaps(*span)
    assert maximal(inside)
    assert maximal(outside)
    assert integers(inside) == integers(ranges) & integers([span])
    assert integers(outside) == integers([span]) - integers(ranges)
    assert intervals == IntervalSet(ranges)  # asking changes nothing


@given(span_lists, span_lists)
def test_equal_means_the_same_integers(ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> None:
    assert (IntervalSet(ours) == IntervalSet(theirs)) == (integers(ours) == integers(theirs))
    assert IntervalSet(ours) == IntervalSet(reversed(ours))


@given(span_lists)
def test_ranges_make_the_same_set_again(ranges: list[tuple[int, int]]) -> None:
    intervals = IntervalSet(ranges)
    assert IntervalSet(intervals.ranges()) == intervals == intervals.copy()
    assert eval(repr(intervals)) == intervals


@given(span_lists, spans)
def test_remove_undoes_add_where_nothing_was(ranges: list[tuple[int, int]], span: tuple[int, int]) -> None:
    intervals = IntervalSet(ranges)
    gaps = intervals.gaps(*span)
    before = intervals.copy()
    intervals.add(*span)
    for gap in gaps:
        intervals.remove(*gap)
    assert intervals == before


def test_an_empty_set_has_no_first_and_no_last() -> None:
    empty = IntervalSet()
    assert not empty
    assert empty != ()
    for end in (empty.first, empty.last):
        with pytest.raises(ValueError, match="empty"):
            end()


def test_a_backward_span_is_a_bug_of_ours() -> None:
    for operation in ("add", "remove", "overlap", "gaps"):
        with pytest.raises(AssertionError):
            getattr(IntervalSet([(1, 5)]), operation)(3, 2)


def test_a_set_is_not_a_key() -> None:
    with pytest.raises(TypeError):
        hash(IntervalSet())
