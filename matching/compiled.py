"""Predicates as Python code.

`compile_terms(terms)` gives a function `test(get, terms)` that is truthy where the conjunction is true. The code
depends on the *shape* of the terms only, their constants are read from the `terms` it is handed: a million selectors
`price > …` share one compiled function, and a distinct residual costs no compilation.

Three-valued logic needs no third value here. For every condition there are two expressions, one that is truthy where
the condition is true and one where it is false; NOT swaps them, and where neither holds it is unknown. Each is built
from one of its parts' two, so the code is as long as the selector.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gossamer.matching import tree
from gossamer.matching.evaluation import evaluate
from gossamer.matching.operators import calculate, compare_values
from gossamer.matching.predicates import AMONG, EQUAL, EXCEPT, HAS, PREFIX, RANGE, TAG, TEST, WITHIN, Term, Terms
from gossamer.matching.text import text_of
from gossamer.matching.values import INFINITY, LIST, key_of, kind_of

Get = Callable[[str], Any]
Test = Callable[[Get, Terms], Any]
TestEach = Callable[[Iterable[Mapping[str, Any]], tuple[Any, ...]], list[bool]]

CONSTANTS = "\0"  # stands for the tuple of a TEST's constants in its source; repr() never lets a NUL through
SHAPES_MAX = 4_096  # compiled shapes kept; a workload has dozens, so only a hostile one ever starts over
SHAPE_MAX = 4_096  # characters of source; longer ones are rarely met twice

_shapes: dict[str, Callable[..., Any]] = {}


def compile_terms(terms: Terms) -> Test:
    test: Test = _compiled(f"lambda get, t: {_source(terms)}")
    return test


def compile_batch(source: str) -> TestEach:
    """`test_each(batch, constants)` for an opaque predicate: many events in one call, which is a third of the work."""
    source = source.replace(CONSTANTS, "c")
    test_each: TestEach = _compiled(f"lambda batch, c: [{source} for get in [each.get for each in batch]]")
    return test_each


def _source(terms: Terms) -> str:
    return " and ".join([_term_source(term, f"t[{i}]") for i, term in enumerate(terms)]) or "True"


def _compiled(code: str) -> Any:
    function = _shapes.get(code)
    if function is None:
        function = eval(code, dict(_NAMES))
        if len(_shapes) >= SHAPES_MAX:
            _shapes.clear()
        if len(code) <= SHAPE_MAX:
            _shapes[code] = function
    return function


def opaque(condition: tree.Condition, wanted: bool = True) -> Term:
    """The predicate that holds where a condition is true (or, if that is wanted, false)."""
    writer = _Writer()
    source = writer.condition(condition, wanted)
    return (TEST, source, tuple(writer.constants))


def among(value: Any, keys: frozenset[Any]) -> bool:
    return kind_of(value) not in (LIST, None) and key_of(value) in keys


def equals_any(value: Any, keys: frozenset[Any], others: Iterable[object]) -> bool | None:
    """`value = …` for the value behind each key and for each of the others, joined by OR."""
    if value is None:
        return None
    if among(value, keys):
        return True
    found: bool | None = False
    for other in others:
        equal = compare_values("=", value, other)
        if equal:
            return True
        if equal is None:
            found = None
    return found


_NAMES: dict[str, object] = {
    "among": among, "calculate": calculate, "compare": compare_values, "equals_any": equals_any,
}  # fmt: skip


class Evaluated:
    """A condition that compiled code evaluates from its tree, where it needs to tell unknown from false.

    Code for both answers would double with each IS NULL in another. Equal by text, as predicates are compared.
    """

    __slots__ = ("node", "text")

    def __init__(self, node: tree.Condition) -> None:
        self.node = node
        self.text = text_of(node)

    def __call__(self, get: Get) -> bool | None:
        return evaluate(self.node, get)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evaluated) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _number(name: str) -> str:
    return f"((k := (v := get({name!r})).__class__) is float or k is int)"


def _term_source(term: Term, at: str) -> str:
    tag = term[0]
    if tag is TEST:
        return f"({term[1].replace(CONSTANTS, f'{at}[2]')})"
    name: str = term[1]
    constant = f"{at}[2]"
    if tag is EQUAL or tag is EXCEPT:
        return _equality(name, term[2], constant, "==" if tag is EQUAL else "!=")
    if tag is RANGE:
        low, high = term[2] != -INFINITY, term[3] != INFINITY
        bounds = f"{constant} <= v <= {at}[3]" if low and high else f"v >= {constant}" if low else f"v <= {at}[3]"
        return f"{_number(name)} and {bounds}"
    if tag is AMONG or tag is WITHIN:
        return f"among(get({name!r}), {constant})"
    if tag is PREFIX:
        return f"(v := get({name!r})).__class__ is str and v.startswith({constant})"
    if tag is TAG:
        return f"(v := get({name!r})).__class__ is list and {constant} in v"
    assert tag is HAS
    return f"get({name!r}) is not None"


def _equality(name: str, key: object, constant: str, operator: str) -> str:
    """Equality within a kind: 1 = 1.0, but TRUE is not 1, and a string <> 5 is false."""
    if isinstance(key, str):
        if operator == "==":
            return f"get({name!r}) == {constant}"
        return f"(v := get({name!r})).__class__ is str and v != {constant}"
    if isinstance(key, tuple):
        assert operator == "=="  # `<> TRUE` is written `= FALSE`
        return f"get({name!r}) is {constant}[0]"
    return f"{_number(name)} and v {operator} {constant}"


class _Writer:
    """Writes a condition as a Python expression, lifting its literals out as constants."""

    def __init__(self) -> None:
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        self.constants.append(value)
        return f"{CONSTANTS}[{len(self.constants) - 1}]"

    def condition(self, node: tree.Condition, wanted: bool) -> str:
        match node:
            case tree.Constant(value):
                return str(value is wanted)
            case tree.Not(term):
                return self.condition(term, not wanted)
            case tree.And(terms):
                return self.joined(terms, "and" if wanted else "or", wanted)
            case tree.Or(terms):
                return self.joined(terms, "or" if wanted else "and", wanted)
            case tree.IsNull(name):
                return f"get({name!r}) is {'None' if wanted else 'not None'}"
            case tree.Unknown(tested):
                if isinstance(tested, tree.Arithmetic):
                    source = self.operand(tested)
                else:
                    source = f"{self.constant(Evaluated(tested))}(get)"
                return f"{source} is {'None' if wanted else 'not None'}"
            case tree.Compare(op, left, right):
                return self.comparison(op, left, right, wanted)
            case tree.In(name, values):
                keys = self.constant(frozenset(map(key_of, values)))
                return self.leaf(name, f"among(v, {keys})", wanted)
            case tree.Among(operand, values, others):
                keys = self.constant(frozenset(map(key_of, values)))
                items = "".join(f"{self.operand(other)}, " for other in others)
                return f"equals_any({self.operand(operand)}, {keys}, ({items})) is {wanted}"
            case tree.Contains(name, item):
                return self.leaf(name, f"v.__class__ is list and {self.constant(item)} in v", wanted)
            case tree.Prefix(name, prefix):
                return self.leaf(name, f"v.__class__ is str and v.startswith({self.constant(prefix)})", wanted)
            case tree.Like(name, pattern):
                return self.leaf(name, f"v.__class__ is str and {self.constant(pattern)}.matches(v)", wanted)

    def joined(self, terms: tuple[tree.Condition, ...], word: str, wanted: bool) -> str:
        return "(" + f" {word} ".join(self.condition(term, wanted) for term in terms) + ")"

    def leaf(self, name: str, test: str, wanted: bool) -> str:
        """A test on one attribute v, which is unknown when v is null."""
        fetch = f"(v := get({name!r})) is not None"
        return f"({fetch} and {test})" if wanted else f"({fetch} and not ({test}))"

    def comparison(self, op: str, left: tree.Operand, right: tree.Operand, wanted: bool) -> str:
        if isinstance(left, tree.Attribute) and isinstance(right, tree.Literal):
            if wanted and isinstance(right.value, str) and op == "=":  # only a string equals one
                return f"get({left.name!r}) == {self.constant(right.value)}"
            if wanted and not isinstance(right.value, str | bool):  # a number is not null
                operator = {"=": "==", "<>": "!="}.get(op, op)
                return f"({_number(left.name)} and v {operator} {self.constant(right.value)})"
            return self.leaf(left.name, self.against(op, right.value), wanted)
        return f"compare({op!r}, {self.operand(left)}, {self.operand(right)}) is {wanted}"

    def against(self, op: str, value: object) -> str:
        """`v op value` for a literal value and a v that is not null."""
        operator = {"=": "==", "<>": "!="}.get(op, op)
        if value.__class__ is bool:
            return f"v is {value}" if op == "=" else "False"
        if value.__class__ is str:
            return f"v.__class__ is str and v {operator} {self.constant(value)}" if op in ("=", "<>") else "False"
        return f"((k := v.__class__) is float or k is int) and v {operator} {self.constant(value)}"

    def operand(self, node: tree.Operand) -> str:
        match node:
            case tree.Attribute(name):
                return f"get({name!r})"
            case tree.Literal(value):
                # An integer leaves 64 bits where the float that equals it does not, and Python would find tests that
                # differ only in this equal and share them: so a float is spelt in another way.
                spelt = repr(value) if isinstance(value, bool) else self.constant(value)
                return f"({spelt})" if isinstance(value, float) else spelt
            case tree.Arithmetic(op, left, right):
                return f"calculate({op!r}, {self.operand(left)}, {self.operand(right)})"
