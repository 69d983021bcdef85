"""Covering and merging, case by case."""

import pytest

from gossamer.matching import Selector, covers, merge


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("x > 5", "x > 6", True),
        ("x > 5", "x > 5", True),
        ("x > 5", "x >= 5", False),
        ("x >= 5", "x > 5", True),
        ("x > 5", "x = 6", True),
        ("x > 5", "x = '6'", False),
        ("x > 5", "x > 6 AND y = 1", True),
        ("x > 5 AND y = 1", "x > 6", False),
        ("x >= 6", "x > 5", False),
        ("x <> 5", "x > 5", True),
        ("x <> 5", "x >= 5", False),
        ("x <> 5", "x >= 5 AND x <> 5", True),
        ("x <> 5", "x <> 5 AND x <> 6", True),
        ("x <> 5", "x = 'a'", False),
        ("x <> 5", "x = TRUE", False),
        ("x = TRUE", "x <> FALSE", True),
        ("x <> 'a'", "x = 'b'", True),
        ("x <> 'a'", "x PREFIX 'b'", True),
        ("x <> 'a'", "x PREFIX 'a'", False),
        ("x PREFIX 'a'", "x PREFIX 'ab'", True),
        ("x PREFIX 'ab'", "x PREFIX 'a'", False),
        ("x PREFIX 'a'", "x = 'abc'", True),
        ("x IN ('a', 'b', 5)", "x = 'b'", True),
        ("x IN ('a', 'b', 5)", "x IN (5, 'a')", True),
        ("x IN ('a', 'b')", "x IN ('a', 'c')", False),
        ("x BETWEEN 1 AND 9", "x BETWEEN 2 AND 3", True),
        ("x BETWEEN 1 AND 9", "x IN (1, 9)", True),
        ("x BETWEEN 1 AND 9", "x BETWEEN 2 AND 10", False),
        ("HAS x", "x > 5", True),
        ("HAS x", "x LIKE 'a%'", True),
        ("HAS x", "y = 1", False),
        ("'a' IN t", "'a' IN t AND 'b' IN t", True),
        ("'a' IN t AND 'b' IN t", "'a' IN t", False),
        ("", "x = 1", True),
        ("x = 1", "", False),
        ("FALSE", "x = 1", False),
        ("x = 1", "FALSE", True),
        ("x = 1", "y = 'a' AND y = 'b'", True),
        ("x = 1", "y > 5 AND y < 5", True),
        ("x = 1", "y >= 5 AND y <= 5 AND y <> 5", True),
        ("x = 1", "y < 'a'", True),
        ("x = 1", "y = 5 AND y = 'a'", True),
        ("x = 1 OR y = 1", "x = 1", True),
        ("x = 1 OR y = 1", "y = 1 OR x = 1 AND z = 2", True),
        ("x = 1", "x = 1 OR y = 1", False),
        ("x + 1 > 5", "x + 1 > 5 AND y = 1", True),
        ("x + 1 > 5", "x > 4", False),
        ("NOT (x < 5)", "x > 6", False),
    ],
)
def test_covers(a: str, b: str, expected: bool) -> None:
    assert covers(a, b) is expected
    assert covers(Selector(a), Selector(b)) is expected


@pytest.mark.parametrize(
    ("many", "few"),
    [
        ([], []),
        (["x > 5", "x > 6"], ["x > 5"]),
        (["x = 'a'", "x = 'b'"], ["x IN ('a', 'b')"]),
        (["x > 5 AND y = 1", "x > 5 AND y = 2"], ["x > 5 AND y IN (1, 2)"]),
        (["x BETWEEN 1 AND 5", "x BETWEEN 3 AND 9"], ["x BETWEEN 1 AND 9"]),
        (["x BETWEEN 1 AND 2", "x BETWEEN 3 AND 9"], ["x BETWEEN 1 AND 2", "x BETWEEN 3 AND 9"]),
        (["x < 3", "x >= 3 AND x < 4"], ["x < 4"]),
        (["x < 3", "x > 3"], ["x < 3", "x > 3"]),
        (["x = 1 AND y = 1", "x = 1 AND y = 2", "x = 2 AND y = 1", "x = 2 AND y = 2"], ["x IN (1, 2) AND y IN (1, 2)"]),
        (["x = 1", "x = 1 AND y > 5", "z LIKE '%a'"], ["x = 1", "z LIKE '%a'"]),
        (["x = 1 AND z LIKE '%a'", "x = 1"], ["x = 1"]),
        (["z LIKE '%a'", "z LIKE '%a' AND x + 1 > 5"], ["z LIKE '%a'"]),
        (["x PREFIX 'a' AND x <> 'ab'", "x PREFIX 'ac'"], ["x PREFIX 'a' AND x <> 'ab'"]),
        (["x = 1", ""], [""]),
        (["FALSE"], []),
    ],
)
def test_merge(many: list[str], few: list[str]) -> None:
    assert sorted(map(str, merge(many))) == sorted(str(Selector(text)) for text in few)
