"""What a user is told when a selector is wrong; and that a hostile one is refused, or does no harm."""

import pickle
import time

import pytest

from gossamer.matching import Selector, SelectorError
from gossamer.matching.parser import DEPTH_MAX, IN_LIST_MAX, TERMS_MAX, TEXT_MAX
from gossamer.messages.errors import UsageError


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("price BETWEN 1 AND 5", 6, "did you mean BETWEEN?"),
        ("a = 1 ADN b = 2", 6, "did you mean AND?"),
        ("a LIK 'x%'", 2, "did you mean LIKE?"),
        ("a IS NUL", 5, "did you mean NULL?"),
        ("a PREFX 'x'", 2, "did you mean PREFIX?"),
        ("a = 1 b = 2", 6, "expected an operator, found 'b'"),
        ("a == 1", 2, "did you mean =?"),
        ("a != 1", 2, "did you mean <>?"),
        ("a = NULL", 4, "did you mean IS NULL?"),
        ("a = ", 4, "expected a value, but the selector ends here"),
        ("NOT", 3, "expected a value"),
        ("a = 1 AND", 9, "expected a value"),
        ("(a = 1", 0, "never closed"),
        ("a = 1)", 5, "closes nothing"),
        ("a = (1 2)", 7, "expected an operator or ')'"),
        ("a = 'x", 4, "string is never closed"),
        ('"a = 1', 0, "name is never closed"),
        ('"" = 1', 0, "cannot be empty"),
        ("a = 1 # b", 6, "unexpected character '#'"),
        ("a < b < c", 6, "do not chain"),
        ("a = 1 = b", 6, "do not chain"),
        ("5", 0, "a condition is expected"),
        ("a + 1", 0, "a condition is expected"),
        ("a = 1 AND 'x'", 10, "a condition is expected"),
        ("NOT 5", 4, "a condition is expected"),
        ("(a = 1) + 2 = 3", 0, "a value is expected"),
        ("a = (b = 1)", 4, "a value is expected"),
        ("a IN ()", 6, "expected a value, found ')'"),
        ("a IN ('x' 'y')", 10, "expected ',' or ')'"),
        ("a IN (b = 1)", 8, "expected ',' or ')'"),
        ("a IN ((b = 1))", 6, "a value is expected"),
        ("a IN (1, b, )", 12, "expected a value, found ')'"),
        ("a IN (NULL)", 6, "did you mean IS NULL?"),
        ("(a = 1) IN (TRUE)", 0, "a value is expected here, not a condition"),
        ("(a = 1) LIKE 'x'", 0, "a value is expected here, not a condition"),
        ("(a = 1) BETWEEN 1 AND 2", 0, "a value is expected here, not a condition"),
        ("a = 1 IS NULL", 6, "do not chain"),
        ("5 IN tags", 0, "only a string"),
        ("a IN tags", 0, "only a string"),
        ("a LIKE b", 7, "a string in single quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", 18, "exactly one character"),
        ("a LIKE 'x!' ESCAPE '!'", 7, "ends in its escape"),
        ("a BETWEEN 1", 11, "expected AND"),
        ("a NOT = 1", 6, "expected BETWEEN, IN, LIKE or PREFIX"),
        ("a IS 5", 5, "expected NULL"),
        ("a = 9223372036854775808", 4, "64 bits"),
        ("a = 0xFFFFFFFFFFFFFFFFF", 4, "64 bits"),
        ("a = -0x8000000000000000", 5, "64 bits"),
        ("a = 1e999", 4, "largest float"),
        ("a = 0x1p9999", 4, "largest float"),
        ("a = 0x1p", 4, "malformed number"),
        ("a = 0x.p1", 4, "malformed number"),
        ("a = 08", 4, "octal"),
        ("a = 1x", 4, "malformed number"),
        ("a = 1.2.3", 4, "malformed number"),
        ("a = 1e", 4, "malformed number"),
        ("a = .", 4, "malformed number"),
        ("a = ٣", 4, "unexpected character"),
        ("AND", 0, "expected a value, found 'AND'"),
        ("a\n  = 1 AND\n  b == 2", 16, "did you mean =?"),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        Selector(text)
    error = caught.value
    assert message in error.message
    assert (error.text, error.position) == (text, position)
    assert isinstance(error, UsageError)


def test_the_caret_stands_under_the_place() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector("a = 1 AND\nprice BETWEN 1 AND 5")
    assert str(caught.value).splitlines()[1:] == ["  price BETWEN 1 AND 5", "        ^"]


def test_the_caret_is_found_in_a_very_long_line() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector("a = 1 OR " * 500 + "\tb ! 2" + " OR a = 1" * 500)
    _, line, caret = str(caught.value).splitlines()
    assert len(line) < 120
    assert line[caret.index("^")] == "!"


def test_errors_survive_pickling() -> None:
    error = SelectorError("wrong", "a = ", 4)
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.text, again.position, str(again)) == ("wrong", "a = ", 4, "wrong\n  a = \n      ^")


def test_only_a_text_is_a_selector() -> None:
    with pytest.raises(SelectorError, match="not NoneType"):
        Selector(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1" + " " * TEXT_MAX, "longer than"),
        ("(" * (DEPTH_MAX + 1) + "a = 1" + ")" * (DEPTH_MAX + 1), "nested deeper"),
        ("(" * 30_000, "nested deeper"),
        ("NOT " * 15_000 + "a = 1", "nested deeper"),
        ("a = " + "-" * 60_000 + "b", "nested deeper"),
        ("a = " + "b + " * 15_000 + "1", "nested deeper"),
        ("a IN (" + ",".join("1" for _ in range(IN_LIST_MAX + 1)) + ")", "IN list"),
        ("a IN (" + ",".join("b" for _ in range(TERMS_MAX)) + ")", "terms"),
        (f"'{'a' * 30_000}' LIKE '%{'_' * 15_000}b%'", "too long to compare with a literal"),
        ("a IN (" * 5_000, "expected ',' or"),
        ("a IN (" + "(" * 5_000, "nested deeper"),
        (" OR ".join("a" for _ in range(TERMS_MAX + 1)), "terms"),
        (" OR ".join("a BETWEEN 1 AND 2" for _ in range(TERMS_MAX // 2 + 1)), "terms"),
        (" OR ".join("a>1" for _ in range(TERMS_MAX + 1)), "terms"),
        ("a = " + "9" * 60_000, "64 bits"),
        ("a = 0x" + "F" * 60_000, "64 bits"),
        ("a = '" + "x" * 60_000, "never closed"),
    ],
    ids=lambda value: value[:20],
)
def test_hostile_selectors_are_refused(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        Selector(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * DEPTH_MAX + "a = 1" + ")" * DEPTH_MAX,
        "NOT (a OR " * (DEPTH_MAX // 2) + "a" + ")" * (DEPTH_MAX // 2),
        "b = " + "a - (" * (DEPTH_MAX - 1) + "a" + ")" * (DEPTH_MAX - 1),
        "b = a" + " + a" * DEPTH_MAX,
        " OR ".join(f"a = {i}" for i in range(TERMS_MAX)),
        " AND ".join(f"a <> {i}" for i in range(TERMS_MAX)),
        " OR ".join(f"a BETWEEN {i} AND {i}" for i in range(TERMS_MAX // 2)),
        "(" + ") AND (".join(f"a = {i} OR b = {i}" for i in range(TERMS_MAX // 2)) + ")",
        "a IN (" + ",".join(str(i) for i in range(IN_LIST_MAX)) + ")",
        "a + b IN (" + ",".join(str(i) for i in range(IN_LIST_MAX)) + ")",
        "a IN (" + ",".join(f"b - {i}" for i in range(TERMS_MAX - 1)) + ")",
        "(NOT (c OR " * (DEPTH_MAX // 3) + "a + 0 IN (b" + " + a" * DEPTH_MAX + ", 1)" + "))" * (DEPTH_MAX // 3),
        "(c OR " * DEPTH_MAX + "a + 0 IN (b" + " + a" * DEPTH_MAX + ", 1)" + ") IS NULL" * DEPTH_MAX,
    ],
    ids=lambda text: text[:20],
)
def test_the_largest_selectors_work(text: str) -> None:
    selector = Selector(text)
    event = {"a": 1, "b": 2}
    assert selector.matches(event) is (selector.evaluate(event) is True)
    assert Selector(str(selector)) == selector


@pytest.mark.parametrize("pattern", ["%a%a%a%a%b", "%a_%a_%a_%b", "%" + "a%" * 500 + "b", "%_a" * 50 + "%b"])
def test_like_does_not_backtrack(pattern: str) -> None:
    """Anything worse than length x length would not come back."""
    assert Selector(f"x LIKE '{pattern}'").matches({"x": "a" * 1_000_000}) is False


def test_white_space_takes_time_in_proportion() -> None:
    def seconds(length: int) -> float:
        start = time.process_time()
        assert str(Selector(" " * length)) == "TRUE"
        assert str(Selector("a = 1" + "\n" * length)) == "a = 1"
        return time.process_time() - start

    assert seconds(50_000) < 100 * max(min(seconds(1_000) for _ in range(5)), 1e-4)
