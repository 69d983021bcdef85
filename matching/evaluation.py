"""Three-valued evaluation, straight from the tree: the reference that compiled code and the index must agree with."""

from collections.abc import Callable

from gossamer.matching.operators import calculate, compare_values, contains
from gossamer.matching.tree import (
    Among,
    And,
    Arithmetic,
    Attribute,
    Compare,
    Condition,
    Constant,
    Contains,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operand,
    Or,
    Prefix,
    Unknown,
)
from gossamer.matching.values import Value

Get = Callable[[str], Value]


def evaluate(node: Condition, get: Get) -> bool | None:
    """True, False, or None for unknown; `get` returns the value of an attribute, None if there is none."""
    match node:
        case Constant(constant):
            return constant
        case Compare(op, left, right):
            return compare_values(op, value_in(left, get), value_in(right, get))
        case In(name, values):
            value = get(name)
            return None if value is None else any(compare_values("=", value, one) for one in values)
        case Among(operand, values, others):
            value = value_in(operand, get)
            items = [*values, *(value_in(other, get) for other in others)]
            found = [compare_values("=", value, item) for item in items]
            return True if True in found else None if None in found else False
        case Contains(name, item):
            return contains(get(name), item)
        case Prefix(name, prefix):
            value = get(name)
            return None if value is None else isinstance(value, str) and value.startswith(prefix)
        case Like(name, pattern):
            value = get(name)
            return None if value is None else isinstance(value, str) and pattern.matches(value)
        case IsNull(name):
            return get(name) is None
        case Unknown(tested):
            return (value_in(tested, get) if isinstance(tested, Arithmetic) else evaluate(tested, get)) is None
        case Not(term):
            result = evaluate(term, get)
            return None if result is None else not result
        case And(terms):
            return _decided(terms, get, False)
        case Or(terms):
            return _decided(terms, get, True)


def value_in(node: Operand, get: Get) -> Value:
    match node:
        case Attribute(name):
            return get(name)
        case Literal(value):
            return value
        case Arithmetic(op, left, right):
            return calculate(op, value_in(left, get), value_in(right, get))


def _decided(terms: tuple[Condition, ...], get: Get, decisive: bool) -> bool | None:
    """One decisive term settles an AND (false) or an OR (true); failing that, one unknown makes it unknown."""
    unknown = False
    for term in terms:
        result = evaluate(term, get)
        if result is decisive:
            return decisive
        unknown = unknown or result is None
    return None if unknown else not decisive
