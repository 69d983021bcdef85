"""`Selector`: a condition on attributes, however it was written."""

from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.matching import tree
from gossamer.matching.compiled import Test, TestEach, compile_batch, compile_terms, opaque
from gossamer.matching.evaluation import evaluate
from gossamer.matching.parser import parse
from gossamer.matching.policy import policy_tree
from gossamer.matching.predicates import Terms
from gossamer.matching.text import text_of
from gossamer.matching.values import Attributes


class Selector:
    """What a subscriber wants: `Selector("symbol IN ('IBM', 'MSFT') AND price > 100")`.

    Two selectors are equal when their canonical texts are: the order of AND, OR and IN does not count, nor does the
    way a number, a keyword or a BETWEEN is written.
    """

    __slots__ = ("tree", "_text", "_test", "_test_each")

    def __init__(self, text: str = "") -> None:
        self._set(parse(text))

    @classmethod
    def of(cls, condition: tree.Condition) -> "Selector":
        """The selector with this tree."""
        selector = cls.__new__(cls)
        selector._set(condition)
        return selector

    @classmethod
    def from_policy(cls, policy: Mapping[str, object]) -> "Selector":
        """From a filter policy as AWS SNS writes it: `{"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]}`."""
        return cls(text_of(policy_tree(policy)))  # through the parser, whose caps then hold for policies too

    def _set(self, condition: tree.Condition) -> None:
        self.tree = condition
        self._text: str | None = None
        self._test: tuple[Test, Terms] | None = None
        self._test_each: tuple[TestEach, tuple[Any, ...]] | None = None

    def evaluate(self, attributes: Attributes) -> bool | None:
        """True, False, or None for unknown."""
        return evaluate(self.tree, attributes.get)

    def matches(self, attributes: Attributes) -> bool:
        """Whether the selector is true; false and unknown both do not match."""
        if self._test is None:
            made: Terms = (opaque(self.tree),)
            self._test = compile_terms(made), made
        test, terms = self._test
        return bool(test(attributes.get, terms))

    def matches_each(self, batch: Iterable[Attributes]) -> list[bool]:
        """What `matches` says of each of these, at half the cost."""
        if self._test_each is None:
            _, source, constants = opaque(self.tree)
            self._test_each = compile_batch(source), constants
        test_each, constants = self._test_each
        return test_each(batch, constants)

    def __str__(self) -> str:
        if self._text is None:
            self._text = text_of(self.tree)
        return self._text

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __and__(self, other: "Selector") -> "Selector":
        return Selector.of(tree.both([self.tree, other.tree])) if isinstance(other, Selector) else NotImplemented

    def __or__(self, other: "Selector") -> "Selector":
        return Selector.of(tree.either([self.tree, other.tree])) if isinstance(other, Selector) else NotImplemented

    def __invert__(self) -> "Selector":
        return Selector.of(tree.negate(self.tree))

    def is_null(self) -> "Selector":
        """The selector that matches where this one is unknown: `(…) IS NULL`."""
        return Selector.of(tree.is_null(self.tree))

    def __bool__(self) -> bool:
        # `a and b`, `not a` and `1 < x < 5` would silently drop half of what was meant.
        raise TypeError("a selector is neither true nor false; join selectors with &, | and ~, and use .between()")
