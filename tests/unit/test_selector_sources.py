"""Selectors that were not written as text: in Python, as a JSON policy, as CloudEvents filters."""

import copy
import datetime

import pytest

import gossamer
from gossamer.matching import Selector, SelectorError, attr, cloudevents
from gossamer.matching.tree import names_of
from gossamer.matching.values import check_attributes
from gossamer.messages.errors import UsageError


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (attr.price > 100, "price > 100"),
        (attr.price >= 100.5, "price >= 100.5"),
        (attr.price < 1, "price < 1"),
        (attr.price <= 1, "price <= 1"),
        (attr.symbol == "IBM", "symbol = 'IBM'"),
        (attr.symbol != "IBM", "symbol <> 'IBM'"),
        (attr.active == True, "active"),  # noqa: E712 - this is how it is written in the DSL
        (attr.price.between(attr.low, 5), "price BETWEEN low AND 5"),
        ((attr.symbol == "IBM") & (attr.price > 100), "symbol = 'IBM' AND price > 100"),
        ((attr.a == 1) | (attr.b == 2) & ~(attr.c == 3), "a = 1 OR b = 2 AND NOT c = 3"),
        (attr.symbol.in_(["IBM", "MSFT"]), "symbol IN ('IBM', 'MSFT')"),
        (~attr.symbol.in_(["IBM", 5]), "symbol NOT IN ('IBM', 5)"),
        (attr.name.like("a_%"), "name LIKE 'a_%'"),
        (attr.name.like("a!_%", escape="!"), "name LIKE 'a!_%' ESCAPE '!'"),
        (attr.name.prefix("ab"), "name PREFIX 'ab'"),
        (attr.price.between(1, 5), "price BETWEEN 1 AND 5"),
        (attr.x.is_null(), "x IS NULL"),
        (attr.x.is_not_null(), "HAS x"),
        ((attr.x + 1).is_null(), "x + 1 IS NULL"),
        ((attr.x / attr.y).is_not_null(), "x / y IS NOT NULL"),
        (((attr.x == 1) | (attr.y == 2)).is_null(), "(x = 1 OR y = 2) IS NULL"),
        ((attr.x + 1).in_([2, attr.y, "a"]), "x + 1 IN (2, y, 'a')"),
        (attr.x.in_([attr.y]), "x = y"),
        ((attr.x + 1).like("a%"), "x + 1 LIKE 'a%'"),
        ((attr.x + 1).prefix("a"), "x + 1 PREFIX 'a'"),
        (~attr.x.between(1, 2), "x NOT BETWEEN 1 AND 2"),
        (attr.tags.contains("x"), "'x' IN tags"),
        (attr["order.id"] == 5, "order.id = 5"),
        (attr["odd name"] == 5, '"odd name" = 5'),
        ((attr.a + 1) * 2 - attr.b / 3 > -attr.c, "(a + 1) * 2 - b / 3 > -c"),
        (1 + attr.a > 2 - attr.b, "1 + a > 2 - b"),
        (2 * attr.a < 6 / +attr.b, "2 * a < 6 / +b"),
        (attr.a == attr.b, "a = b"),
    ],
)
def test_python_builds_the_same_tree(built: Selector, text: str) -> None:
    assert built == Selector(text)


def test_the_dsl_is_there_from_the_top() -> None:
    assert gossamer.attr is attr
    assert gossamer.Selector is Selector
    assert gossamer.SelectorError is SelectorError


@pytest.mark.parametrize(
    "build",
    [
        lambda: attr.x == None,  # noqa: E711 - the mistake
        lambda: attr.x == [1],
        lambda: attr.x > float("nan"),
        lambda: attr.x > 2**63,
        lambda: attr.x.in_([]),
        lambda: attr.x.in_([None]),
        lambda: attr.x.like(5),
        lambda: attr.x.like("a", escape="ab"),
        lambda: attr.x.like("a!", escape="!"),
        lambda: attr[""],
        lambda: sum((attr.x for _ in range(100)), start=attr.x) > 5,
    ],
)
def test_python_mistakes_are_selector_errors(build) -> None:
    with pytest.raises(SelectorError):
        build()


@pytest.mark.parametrize("build", [lambda: 1 < attr.x < 5, lambda: (attr.x > 1) and (attr.y > 2), lambda: not attr.x])
def test_what_python_would_silently_drop_is_refused(build) -> None:
    with pytest.raises(TypeError):
        build()


def test_attributes_can_be_copied() -> None:
    assert (copy.deepcopy(attr.price) > 5) == Selector("price > 5")


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"symbol": ["IBM"]}, "symbol = 'IBM'"),
        ({"symbol": ["IBM", "MSFT"]}, "symbol IN ('IBM', 'MSFT')"),
        ({"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]}, "symbol = 'IBM' AND price > 100"),
        ({"price": [{"numeric": [">=", 1, "<", 5]}]}, "price >= 1 AND price < 5"),
        ({"price": [{"numeric": ["=", 1]}, 7]}, "price = 7 OR price = 1"),
        ({"x": [True, None]}, "x = TRUE OR x IS NULL"),
        ({"x": [{"exists": True}]}, "HAS x"),
        ({"x": [{"exists": False}]}, "x IS NULL"),
        ({"x": [{"prefix": "a%"}]}, "x PREFIX 'a%'"),
        ({"x": [{"suffix": "_b"}]}, "x LIKE '%!_b' ESCAPE '!'"),
        ({"x": [{"anything-but": ["a", "b"]}]}, "x NOT IN ('a', 'b')"),
        ({"x": [{"anything-but": "a"}]}, "NOT x = 'a'"),
        ({"x": [{"anything-but": {"prefix": "a"}}]}, "x NOT PREFIX 'a'"),
        ({"order": {"customer": {"id": [5]}}}, "order.customer.id = 5"),
        ({"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}, "(a = 1 OR b = 2) AND c = 3"),
    ],
)
def test_policies(policy: dict, text: str) -> None:
    assert Selector.from_policy(policy) == Selector(text)


@pytest.mark.parametrize(
    "policy",
    [
        {},
        [],
        {"x": []},
        {"x": "a"},
        {"x": [["a"]]},
        {"x": [float("inf")]},
        {"x": [2**70]},
        {"x": [{}]},
        {"x": [{"prefix": 5}]},
        {"x": [{"prefix": "a", "suffix": "b"}]},
        {"x": [{"like": "a"}]},
        {"x": [{"exists": 1}]},
        {"x": [{"numeric": [">"]}]},
        {"x": [{"numeric": ["!", 5]}]},
        {"x": [{"numeric": [">", "5"]}]},
        {"x": [{"numeric": [[], 5]}]},
        {"$or": {"a": [1]}},
        {"x": [{"anything-but": []}]},
        {"x": [{"anything-but": {"anything-but": ["a"]}}]},
        {f"x{i}": [1] for i in range(2_000)},
    ],
    ids=lambda policy: str(policy)[:40],
)
def test_bad_policies_are_selector_errors(policy: object) -> None:
    with pytest.raises(SelectorError):
        Selector.from_policy(policy)  # type: ignore[arg-type]


def test_a_policy_cannot_nest_without_end() -> None:
    policy: dict = {"x": [1]}
    for _ in range(100):
        policy = {"a": policy}
    with pytest.raises(SelectorError, match="nested deeper"):
        Selector.from_policy(policy)


EVENT = {"specversion": "1.0", "id": "7", "source": "/exchange", "type": "com.example.quote"}


def test_cloudevents_attributes_keep_their_names() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    given = {**EVENT, "time": at, "retries": 3, "replay": False, "digest": b"\x00\x01", "data": {"price": 5}}
    assert cloudevents.attributes_of(given) == {
        **EVENT,
        "time": "2026-01-02T03:04:05Z",
        "retries": 3,
        "replay": False,
        "digest": "AAE=",
    }


def test_a_cloudevent_without_its_required_attributes_is_refused() -> None:
    with pytest.raises(UsageError, match="id, source"):
        cloudevents.attributes_of({"type": "x", "specversion": "1.0"})
    with pytest.raises(UsageError, match="'nested'"):
        cloudevents.attributes_of({**EVENT, "nested": {"a": 1}})


@pytest.mark.parametrize(
    ("filters", "matches"),
    [
        ({"exact": {"type": "com.example.quote"}}, True),
        ({"exact": {"type": "com.example.quote", "source": "/other"}}, False),
        ({"prefix": {"type": "com.example."}}, True),
        ({"suffix": {"type": ".quote"}}, True),
        ({"suffix": {"type": ".order"}}, False),
        ({"all": [{"exact": {"id": "7"}}, {"prefix": {"source": "/"}}]}, True),
        ({"any": [{"exact": {"id": "8"}}, {"prefix": {"source": "/"}}]}, True),
        ({"not": {"exact": {"id": "8"}}}, True),
        ({"not": {"exact": {"missing": "8"}}}, True),
        ([{"exact": {"id": "7"}}, {"exact": {"subject": "x"}}], False),
        ([], True),
    ],
)
def test_cloudevents_filters(filters: object, matches: bool) -> None:
    selector = cloudevents.selector_of(filters)  # type: ignore[arg-type]
    assert selector.matches(cloudevents.attributes_of(EVENT)) is matches
    assert selector.evaluate(EVENT) is matches


@pytest.mark.parametrize(
    "filters", [{}, {"exact": {}}, {"exact": {"a": 5}}, {"sql": "x"}, {"all": []}, {"not": []}, [5]]
)
def test_bad_cloudevents_filters_are_selector_errors(filters: object) -> None:
    with pytest.raises(SelectorError):
        cloudevents.selector_of(filters)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ([], "must be an object"),
        ({5: 1}, "name 5"),
        ({"x": 2**63}, "64 bits"),
        ({"x": float("inf")}, "finite"),
        ({"x": "a\0"}, "NUL"),
        ({"x": {"y": 1}}, "is a dict"),
        ({"x": ["a", 1]}, "list"),
        ({"x": b"a"}, "is a bytes"),
    ],
)
def test_attributes_that_no_event_can_carry(attributes: object, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_attributes(attributes)


def test_attributes_that_an_event_can_carry() -> None:
    event = {"a": True, "b": -(2**63), "c": 1.5, "d": "x", "e": None, "f": ["a"], "g": []}
    assert check_attributes(event) is event


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("a = 1 AND NOT (b > c + d * 2)", {"a", "b", "c", "d"}),
        ("a IN (b, 'x', c / d) AND e + 1 IS NULL AND (f = 1 OR g = h) IS NOT NULL", set("abcdefgh")),
        ("e IN ('x', 'y') OR 'z' IN f OR g LIKE 'h%' OR i LIKE '%j_' OR k IS NULL", {"e", "f", "g", "i", "k"}),
    ],
)
def test_the_attributes_that_a_selector_asks_for(text: str, names: set[str]) -> None:
    assert names_of(Selector(text).tree) == names
