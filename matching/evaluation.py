"""Three-valued evaluation, straight from the tree: the reference that compiled code and the index must agree with."""

from gossamer.matching.operators import calculate, compare_values, contains
from gossamer.matching.tree import (
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
)
from gossamer.matching.values import Attributes, Value


def evaluate(node: Condition, attributes: Attributes) -> bool | None:
    match node:
        case Constant(constant):
            return constant
        case Compare(op, left, right):
            return compare_values(op, value_in(left, attributes), value_in(right, attributes))
        case In(name, values):
            value = attributes.get(name)
            return None if value is None else any(compare_values("=", value, one) for one in values)
        case Contains(name, item):
            return contains(attributes.get(name), item)
        case Prefix(name, prefix):
            value = attributes.get(name)
            return None if value is None else isinstance(value, str) and value.startswith(prefix)
        case Like(name, pattern):
            value = attributes.get(name)
            return None if value is None else isinstance(value, str) and pattern.matches(value)
        case IsNull(name):
            return attributes.get(name) is None
        case Not(term):
            result = evaluate(term, attributes)
            return None if result is None else not result
        case And(terms):
            return _decided(terms, attributes, False)
        case Or(terms):
            return _decided(terms, attributes, True)


def value_in(node: Operand, attributes: Attributes) -> Value:
    match node:
        case Attribute(name):
            return attributes.get(name)
        case Literal(value):
            return value
        case Arithmetic(op, left, right):
            return calculate(op, value_in(left, attributes), value_in(right, attributes))


def _decided(terms: tuple[Condition, ...], attributes: Attributes, decisive: bool) -> bool | None:
    """One decisive term settles an AND (false) or an OR (true); failing that, one unknown makes it unknown."""
    unknown = False
    for term in terms:
        result = evaluate(term, attributes)
        if result is decisive:
            return decisive
        unknown = unknown or result is None
    return None if unknown else not decisive
