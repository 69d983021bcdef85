"""Fast equals slow: the index agrees with asking every selector in turn."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gossamer.matching import Index, Selector, cluster
from gossamer.matching import intervals as intervals_module
from gossamer.matching.blocks import SortedBlocks
from gossamer.matching.intervals import Intervals
from gossamer.matching.values import INFINITY
from properties.selectors import attributes, examples, numbers, selectors

batches = st.lists(attributes, min_size=1, max_size=6)


def scan(held: dict[int, Selector], event: dict) -> list[int]:
    return sorted(key for key, selector in held.items() if selector.evaluate(event) is True)


class IndexAgainstScan(RuleBasedStateMachine):
    """Adds, replacements and removals between matches. Small crowds and little patience take every path."""

    @initialize(
        crowd=st.sampled_from([0, 1, 16]), patience=st.sampled_from([0, 5, 1024]), few=st.sampled_from([0, 2, 16])
    )
    def start(self, crowd: int, patience: int, few: int) -> None:
        self.before = cluster.CROWD, cluster.PATIENCE, intervals_module.FEW, intervals_module.CELL_FEW
        cluster.CROWD, cluster.PATIENCE = crowd, patience
        intervals_module.FEW = intervals_module.CELL_FEW = few
        self.index: Index[int] = Index()
        self.held: dict[int, Selector] = {}

    def teardown(self) -> None:
        if hasattr(self, "before"):
            cluster.CROWD, cluster.PATIENCE, intervals_module.FEW, intervals_module.CELL_FEW = self.before
            for key in list(self.held):
                self.index.remove(key)
            for root in (self.index._single, self.index._several):
                assert not root.size
                assert not root.groups
                assert not root.branches

    @rule(key=st.integers(0, 20), selector=selectors)
    def add(self, key: int, selector: Selector) -> None:
        self.index.add(key, selector)
        self.held[key] = selector

    @rule(some=st.lists(selectors, min_size=4, max_size=12))
    def add_many(self, some: list[Selector]) -> None:
        for selector in some:
            self.add(len(self.held) + 100, selector)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.held:
            key = data.draw(st.sampled_from(sorted(self.held)))
            self.index.remove(key)
            del self.held[key]

    @rule(batch=batches)
    def match(self, batch: list[dict]) -> None:
        found = self.index.match_batch(batch)
        assert [sorted(keys) for keys in found] == [scan(self.held, event) for event in batch]

    @invariant()
    def holds_what_was_added(self) -> None:
        if hasattr(self, "index"):
            assert sorted(self.index) == sorted(self.held)


TestIndexAgainstScan = IndexAgainstScan.TestCase
TestIndexAgainstScan.settings = settings(examples(30), stateful_step_count=16)


@pytest.mark.slow
class TestIndexAgainstScanAtLength(IndexAgainstScan.TestCase):
    settings = settings(examples(2_000), stateful_step_count=40)


@given(st.lists(selectors, min_size=1, max_size=40), batches)
@examples(60)
def test_the_index_agrees_with_a_linear_scan(some: list[Selector], batch: list[dict]) -> None:
    index: Index[int] = Index()
    held = dict(enumerate(some))
    for key, selector in held.items():
        index.add(key, selector)
    for event in batch:
        assert sorted(index.match(event)) == scan(held, event)


bounds = numbers | st.just(INFINITY) | st.just(-INFINITY)


@given(
    st.lists(st.tuples(bounds, bounds), max_size=30), st.lists(numbers, max_size=10), st.randoms(use_true_random=False)
)
@examples(120)
def test_intervals_list_exactly_those_that_hold_a_number(pairs: list, queries: list, random) -> None:
    ends = {i: (min(pair), max(pair)) for i, pair in enumerate(pairs)}
    ends = {i: (low, high) for i, (low, high) in ends.items() if low < INFINITY and high > -INFINITY}
    intervals: Intervals[int] = Intervals()
    for i, (low, high) in ends.items():
        intervals.add(low, high, i)
    for i in random.sample(sorted(ends), len(ends) // 2):
        intervals.remove(*ends.pop(i), i)
    for x in [*queries, *(low for low, _ in ends.values()), *(high for _, high in ends.values())]:
        out: list[int] = []
        intervals.holding(x, out)
        assert sorted(out) == [i for i, (low, high) in ends.items() if low <= x <= high]
    for i, (low, high) in ends.items():
        intervals.remove(low, high, i)
    assert not intervals


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6000), st.integers(-1, 31))
@examples(30)
def test_blocks_stay_sorted_through_additions_and_removals(steps: list, bound: int) -> None:
    blocks: SortedBlocks[int] = SortedBlocks()
    held: list[tuple[int, int]] = []
    for item, (at, adds) in enumerate([*((i % 31, True) for i in range(3000)), *steps]):
        if adds or not held:
            blocks.add(at, item)
            held.append((at, item))
        else:
            blocks.remove(*held.pop(at % len(held)))
    low: list[int] = []
    high: list[int] = []
    blocks.up_to(bound, low)
    blocks.from_on(bound, high)
    assert sorted(low) == sorted(item for at, item in held if at <= bound)
    assert sorted(high) == sorted(item for at, item in held if at >= bound)
