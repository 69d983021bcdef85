"""Routing misses nothing: what a subscriber wants is in a group that it listens to."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.matching import Selector
from gossamer.matching.routing import Routes
from properties.selectors import attributes, comparisons, examples, selectors

events = st.lists(attributes, min_size=1, max_size=8)
some = selectors | comparisons


@given(st.lists(some, max_size=4), some, events)
@examples(200)
def test_what_is_wanted_is_in_a_group_that_is_listened_to(
    interests: list[Selector], wanted: Selector, batch: list[dict]
) -> None:
    routes = Routes({f"group-{place}": each for place, each in enumerate(interests)}, "default")
    heard = routes.groups_of(wanted)
    for event in batch:
        if wanted.matches(event):
            assert routes.group_of(event) in heard


def test_an_event_is_in_the_first_group_that_it_matches_and_nobody_listens_in_vain() -> None:
    routes = Routes({"metals": "symbol IN ('AU', 'AG')", "big": "size > 100"}, "default")
    assert routes.group_of({"symbol": "AU", "size": 500}) == "metals"
    assert routes.group_of({"symbol": "CU", "size": 500}) == "big"
    assert routes.group_of({"symbol": "CU", "size": 5}) == "default"
    assert routes.groups_of("symbol = 'AG' AND size < 3") == ["metals"]
    assert routes.groups_of("symbol = 'CU' AND size > 200") == ["big"]
    assert routes.groups_of("symbol = 'AU' OR size > 200") == ["metals", "big"]
    assert routes.groups_of("symbol = 'CU'") == ["big", "default"]
    assert routes.groups_of("") == ["metals", "big", "default"]
    assert routes.groups_of("size < 3 AND symbol = 'CU'") == ["default"]
    assert routes.groups_of("size < 3 AND size > 4") == ["default"], "never true, and still somewhere"
