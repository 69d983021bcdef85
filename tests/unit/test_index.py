"""What the index promises beyond being right: what it does not look at, what it shares, what it forgets."""

from collections import Counter

import pytest

from gossamer.matching import Index, Selector, SelectorError, cluster, compiled
from gossamer.matching.cluster import CROWD, PATIENCE


class Counting(dict):
    """Attributes that count how often each is asked for: every residual asks once for each it names."""

    def __init__(self, **values: object) -> None:
        super().__init__(values)
        self.asked: Counter[str] = Counter()

    def get(self, name: str, default: object = None) -> object:
        self.asked[name] += 1
        return super().get(name, default)


def filled(selectors: list[str]) -> Index[int]:
    index: Index[int] = Index()
    for key, selector in enumerate(selectors):
        index.add(key, selector)
    return index


def test_keys_come_and_go() -> None:
    index: Index[str] = Index()
    index.add("a", "symbol = 'IBM'")
    index.add("b", Selector("symbol IN ('IBM', 'MSFT') AND price > 100"))
    assert sorted(index.match({"symbol": "IBM", "price": 101.5})) == ["a", "b"]
    assert index.match({"symbol": "MSFT", "price": 101.5}) == ["b"]
    assert (len(index), "a" in index, "c" in index, sorted(index)) == (2, True, False, ["a", "b"])
    index.remove("a")
    assert index.match({"symbol": "IBM", "price": 101.5}) == ["b"]
    with pytest.raises(KeyError):
        index.remove("a")


def test_adding_a_key_again_replaces_its_selector() -> None:
    index = filled(["x = 1"])
    index.add(0, "x = 2")
    assert (index.match({"x": 1}), index.match({"x": 2}), len(index)) == ([], [0], 1)


def test_a_selector_that_does_not_parse_leaves_the_old_one() -> None:
    index = filled(["x = 1"])
    with pytest.raises(SelectorError, match="expected a value"):
        index.add(0, "x = ")
    assert index.match({"x": 1}) == [0]


def test_values_python_finds_equal_are_kept_apart() -> None:
    index = filled(["x = TRUE", "x = 1", "x = 1.0", "x = '1'", "x IN (TRUE, 'a')", "x IN (1, 'a')"])
    assert sorted(index.match({"x": True})) == [0, 4]
    assert sorted(index.match({"x": 1})) == [1, 2, 5]
    assert sorted(index.match({"x": 1.0})) == [1, 2, 5]
    assert sorted(index.match({"x": "1"})) == [3]


def test_an_integer_and_its_float_do_not_share_a_residual() -> None:
    index = filled(["x * 2 > 2", "x * 2.0 > 2", "y = 1 AND x * 2 > 2"])
    assert index.match({"x": 2**62, "y": 1}) == [1]


def test_a_selector_with_alternatives_is_found_once() -> None:
    index = filled(["x = 1 OR y = 1", "x > 0 OR x < 5 OR y = 1", "x IN (1, 2) AND y = 1 OR x = 1 AND y = 1"])
    assert sorted(index.match({"x": 1, "y": 1})) == [0, 1, 2]


def test_alternatives_that_come_to_the_same_are_filed_once() -> None:
    index = filled(["x IN (1, 2) AND note <> 'a' OR x = 1 AND note <> 'a'"])
    assert index.match({"x": 1, "note": "b"}) == [0]
    index.remove(0)
    assert index.match({"x": 1, "note": "b"}) == []


def test_a_value_shorter_than_a_prefix_is_not_taken_for_it() -> None:
    index = filled(["x PREFIX 'ab'", "x PREFIX 'abcd'", "x PREFIX ''"])
    assert index.match({"x": "ab"}) == [0, 2]
    assert sorted(index.match({"x": "abcde"})) == [0, 1, 2]


def test_an_item_that_is_in_a_list_twice_matches_once() -> None:
    assert filled(["'a' IN tags"]).match({"tags": ["a", "b", "a"]}) == [0]


def test_what_has_no_positive_predicate_is_found_too() -> None:
    index = filled(["NOT (x < 5)", "x IS NULL", "x * 2 > 9", "x <> 3", "", "FALSE", "NOT x IS NULL"])
    assert sorted(index.match({"x": 5})) == [0, 2, 3, 4, 6]
    assert sorted(index.match({"x": "a"})) == [0, 4, 6]
    assert sorted(index.match({})) == [1, 4]


def test_not_a_number_is_in_no_range() -> None:
    index = filled([f"x >= {i}" for i in range(20)] + [f"x <= {i}" for i in range(20)])
    assert index.match({"x": float("nan")}) == []


def test_a_batch_is_matched_event_by_event() -> None:
    assert filled(["x > 1", "x > 2"]).match_batch([{"x": 3}, {}, {"x": 2}]) == [[0, 1], [], [0]]


@pytest.mark.parametrize("count", [100, 10_000])
def test_other_symbols_are_not_looked_at(count: int) -> None:
    index = filled([f"symbol = 'S{i}' AND note LIKE '%x%'" for i in range(count)])
    event = Counting(symbol="S7", note="x", price=1)
    assert index.match(event) == [7]
    assert event.asked["note"] == 1


def test_a_crowded_cluster_is_indexed_again() -> None:
    """A thousand on one symbol that differ in a bound: the price is asked for once, and bisected."""
    index = filled([f"symbol = 'HOT' AND price > {i}" for i in range(1_000)])
    event = Counting(symbol="HOT", price=3.5)
    assert sorted(index.match(event)) == [0, 1, 2, 3]
    assert event.asked["price"] == 1


def test_a_crowded_membership_is_indexed_again() -> None:
    index = filled([f"type = 'quote' AND symbol IN ('S{i}', 'T{i}')" for i in range(1_000)])
    event = Counting(type="quote", symbol="T7")
    assert index.match(event) == [7]
    assert event.asked["symbol"] <= CROWD + 2


@pytest.mark.parametrize("selector", ["symbol = 'HOT' AND {}", "symbol = 'HOT' AND price > {i} AND {}", "{}"])
def test_a_hot_key_tests_each_distinct_residual_once(selector: str) -> None:
    """10,000 subscriptions, a hundred distinct residuals that no index can help with."""
    index = filled([selector.format(f"note <> 'n{i % 100}'", i=i / 10_000) for i in range(10_000)])
    event = Counting(symbol="HOT", price=3.5, note="n7")
    assert len(index.match(event)) == 9_900
    assert event.asked["note"] == 100


def test_residuals_of_one_shape_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_shapes", {})
    index = filled([f"symbol = 'S{i}' AND note <> 'n{i}'" for i in range(1_000)])
    for i in range(1_000):
        assert index.match({"symbol": f"S{i}", "note": "x"}) == [i]
    assert len(compiled._shapes) == 1


def test_the_number_of_compiled_shapes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_shapes", {})
    monkeypatch.setattr(compiled, "SHAPES_MAX", 10)
    for i in range(100):
        assert Selector(f"a{i} = 1").matches({f"a{i}": 1})
    assert len(compiled._shapes) <= 10


def test_the_access_predicate_is_the_most_selective_one() -> None:
    """Every event is a quote, few are of one symbol: subscriptions belong under their symbol, whatever comes first."""
    index = filled([f"a_type = 'quote' AND symbol = 'S{i % 50}' AND note <> 'n{i}'" for i in range(300)])
    event = Counting(a_type="quote", symbol="S7", note="x")
    assert len(index.match(event)) == 6
    assert event.asked["note"] <= 6 + CROWD


def test_the_access_predicate_is_chosen_again_when_the_workload_drifts() -> None:
    """Filed under the region while regions varied; then all events come from one, and it is the user that varies."""
    index: Index[int] = Index()
    for i in range(CROWD):
        index.add(i, f"region = 'R{i}' AND user = 'U{i}' AND note <> 'n'")
    for i in range(40):
        index.add(100 + i, f"region = 'R{CROWD + i}' AND note = 'other'")
    for i in range(CROWD, 2 * CROWD - 1):
        index.add(i, f"region = 'R0' AND user = 'U{i}' AND note <> 'n{i}'")
        index.add(200 + i, f"user = 'U{i}' AND note = 'other'")
    calm = Counting(region="R0", user="nobody", note="x")
    for _ in range(2 * PATIENCE):
        assert index.match(calm) == []
    event = Counting(region="R0", user="nobody", note="x")
    assert index.match(event) == []
    assert event.asked["user"] <= 2, "nothing is left to test under the region"
    assert index.match({"region": "R0", "user": f"U{CROWD}", "note": "x"}) == [CROWD]
    for key in list(index):
        index.remove(key)
    assert (index._single.size, index._single.branches) == (0, {})


def test_removing_leaves_nothing_behind() -> None:
    selectors = [f"a = {i % 7} AND b > {i} AND c PREFIX 'p{i % 30}' AND 'x{i}' IN t OR HAS d{i}" for i in range(500)]
    index = filled(selectors + [f"b BETWEEN {i} AND {i + 3} AND c <> 'x'" for i in range(500)])
    for i in range(50):
        index.match({"a": i % 7, "b": i + 0.5, "c": f"p{i}q", "t": [f"x{i}"], f"d{i}": 1})
    for key in list(index):
        index.remove(key)
    assert len(index) == 0
    for root in (index._single, index._several):
        assert (root.size, root.groups, root.branches) == (0, {}, {})


def test_a_patient_cluster_is_reviewed_less_and_less() -> None:
    index = filled(["x = 1 AND note <> 'a'"])
    for _ in range(5 * PATIENCE):
        index.match({"x": 1, "note": "b"})
    assert index._single.branches is not None
    child = index._single.branches["x"].clusters[1]
    assert child.patience == 4 * cluster.PATIENCE


def test_a_selector_with_many_memberships_is_not_filed_under_every_combination() -> None:
    index: Index[int] = Index()
    lists = " AND ".join(f"a{i} IN (1, 2, 3, 4)" for i in range(5))
    for key in range(40):
        index.add(key, f"{lists} AND z > {key}")
    assert max(len(places) for places in index._places.values()) <= 4
    event = {f"a{i}": 2 for i in range(5)}
    assert sorted(index.match({**event, "z": 20})) == list(range(20))
    assert index.match({**event, "a4": 5, "z": 20}) == []


def test_alternatives_share_what_a_membership_may_be_filed_under() -> None:
    index: Index[str] = Index()
    values = ", ".join(map(str, range(4_000)))
    index.add("wide", f"a IN ({values}) AND ({' OR '.join(f'b{i} > {i}' for i in range(60))})")
    assert len(index._places["wide"]) <= 4_096
    assert index.match({"a": 7, "b3": 4}) == ["wide"]
    assert index.match({"a": 4_000, "b3": 4}) == []
