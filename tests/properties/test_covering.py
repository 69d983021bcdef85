"""Covering is sound for all selectors, and exact for conjunctions of comparisons; merging loses and adds nothing."""

from hypothesis import assume, given
from hypothesis import strategies as st

from gossamer.matching import Selector, covers, merge
from gossamer.matching.values import step_down, step_up
from properties.selectors import NAMES, NUMBERS, STRINGS, attributes, comparisons, examples, selectors

events = st.lists(attributes, min_size=1, max_size=8)


@given(selectors, selectors, events)
@examples(120)
def test_what_is_covered_matches_no_more(a: Selector, b: Selector, batch: list[dict]) -> None:
    for wide, narrow in ((a, b), (a | b, a), (a, a & b)):
        if covers(wide, narrow):
            assert all(wide.matches(event) for event in batch if narrow.matches(event))


@given(selectors)
@examples(150)
def test_a_selector_covers_itself(a: Selector) -> None:
    assert covers(a, a)
    assert covers("", a)


def witnesses(a: Selector, b: Selector) -> list[object]:
    """Where two conjunctions of comparisons can differ: every literal, its neighbours, one of each kind."""
    found: dict[tuple[type, object], object] = {}
    for value in [None, True, False, "zz", *STRINGS, *NUMBERS, -7.25, 1e308, ["a"]]:
        found[type(value), repr(value)] = value
        if type(value) in (int, float):
            for near in (step_up(value), step_down(value)):
                found[type(near), repr(near)] = near
    for selector in (a, b):
        for term in getattr(selector.tree, "terms", (selector.tree,)):
            if hasattr(term, "right"):
                value = term.right.value
                found[type(value), repr(value)] = value
                if type(value) in (int, float):
                    for near in (step_up(value), step_down(value), step_up(step_up(value))):
                        found[type(near), repr(near)] = near
    return list(found.values())


@given(comparisons, comparisons)
@examples(400)
def test_covering_is_exact_for_conjunctions_of_comparisons(a: Selector, b: Selector) -> None:
    """If a does not cover b there is an event to show it. Attributes are independent: one for each, found by itself."""
    assume(not covers(a, b))
    values = witnesses(a, b)
    b_terms, a_terms = (list(getattr(s.tree, "terms", (s.tree,))) for s in (b, a))
    event: dict[str, object] = {}
    refuted = False
    for name in NAMES:
        wanted = [Selector.of(t) for t in b_terms if t.left.name == name]
        fitting = [v for v in values if all(s.matches({name: v}) for s in wanted)]
        assert fitting, f"{b} can never be true, so anything covers it"
        ours = [Selector.of(t) for t in a_terms if t.left.name == name]
        against = [v for v in fitting if not all(s.matches({name: v}) for s in ours)]
        refuted = refuted or bool(against)
        event[name] = (against or fitting)[0]
    assert refuted
    assert b.matches(event)
    assert not a.matches(event)


@given(st.lists(selectors | comparisons, max_size=6), events)
@examples(150)
def test_merged_selectors_match_what_the_many_did(some: list[Selector], batch: list[dict]) -> None:
    merged = merge(some)
    for event in batch:
        assert any(s.matches(event) for s in merged) is any(s.matches(event) for s in some)
