"""What is printed reads back as the same, what is compiled agrees with the tree, and no text does harm."""

import string

from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.matching import Selector, SelectorError
from gossamer.matching.like import Pattern, split_pattern
from gossamer.matching.tokens import RESERVED
from gossamer.matching.values import INT_MAX, INT_MIN, step_down, step_up
from properties.selectors import attributes, examples, selectors

WORDS = [*RESERVED, "HAS", "PREFIX", "price", "a.b", "'x'", "'%a_'", '"q"', "1", "0x1F", "1.5e3", "017", ".", "é", "\n"]
pieces = st.sampled_from(
    [*WORDS, "=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "(", ")", ",", "'", '"', "!", " "]
)


@given(selectors, attributes)
@examples(250)
def test_the_canonical_text_reads_back_as_the_same_selector(selector: Selector, event: dict) -> None:
    again = Selector(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)
    assert again.evaluate(event) is selector.evaluate(event)


@given(selectors, attributes)
@examples(250)
def test_compiled_code_agrees_with_the_tree(selector: Selector, event: dict) -> None:
    assert selector.matches(event) is (selector.evaluate(event) is True)
    assert (~selector).matches(event) is (selector.evaluate(event) is False)


@given(selectors, st.lists(attributes, max_size=5))
@examples(250)
def test_many_are_asked_as_one_is(selector: Selector, events: list[dict]) -> None:
    assert selector.matches_each(events) == [selector.matches(event) for event in events]


@given(st.text(max_size=60) | st.lists(pieces, max_size=14).map(" ".join) | st.text(string.printable, max_size=40))
@example("")
@examples(600)
def test_the_parser_raises_nothing_but_selector_errors(text: str) -> None:
    selector, error = attempt(text)
    if error is not None:
        assert 0 <= error.position <= len(text)
        assert str(error).startswith(error.message)
    else:
        assert Selector(str(selector)) == selector
        assert selector.matches({}) is (selector.evaluate({}) is True)


def attempt(text: str) -> tuple[Selector, SelectorError | None]:
    try:
        return Selector(text), None
    except SelectorError as error:
        return Selector(), error


def like_by_definition(pattern: str, value: str) -> bool:
    """The textbook recursion: exponential, and obviously right."""
    if not pattern:
        return not value
    if pattern[0] == "%":
        return like_by_definition(pattern[1:], value) or (bool(value) and like_by_definition(pattern, value[1:]))
    return bool(value) and pattern[0] in ("_", value[0]) and like_by_definition(pattern[1:], value[1:])


@given(st.text("a%_b", max_size=6), st.text("ab", max_size=5))
@examples(600)
def test_like_agrees_with_its_definition(pattern: str, value: str) -> None:
    assert Pattern(split_pattern(pattern)).matches(value) is like_by_definition(pattern, value)


numbers = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(INT_MIN, INT_MAX)
    | st.integers(2**53 - 3, 2**53 + 3)
    | st.sampled_from([0, -0.0, 2.0**53, -(2.0**53), 2.0**63, -(2.0**63), INT_MAX, INT_MIN, 2.0**62])
)


@given(numbers, numbers)
@examples(1000)
def test_a_step_is_the_next_value_there_is(bound: float, value: float) -> None:
    assert (value > bound) is (value >= step_up(bound))
    assert (value < bound) is (value <= step_down(bound))
