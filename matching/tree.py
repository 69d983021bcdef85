"""The selector tree, and the functions that build it.

Two sorts of nodes: operands have a value (an attribute, a literal, arithmetic), conditions are true, false or
unknown. The builders bring what is written in different ways into one form, wherever that is exact in three-valued
logic: literals stand on the right, BETWEEN becomes two comparisons, a LIKE without wildcards an equality, `active`
alone `active = TRUE`, nested ANDs one AND. What they never do is to push NOT through a comparison: `x < 5` is false
for a string x, and so `NOT (x < 5)` is true where `x >= 5` is not.

Nodes are never changed. They are not frozen because that makes them four times as slow to build, and a broker builds
millions.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from gossamer.matching.like import Pattern, literal, split_pattern
from gossamer.matching.operators import calculate, compare_values
from gossamer.matching.values import EXACT, Scalar, key_of


@dataclass(slots=True, eq=False)
class Attribute:
    name: str


@dataclass(slots=True, eq=False)
class Literal:
    value: Scalar


@dataclass(slots=True, eq=False)
class Arithmetic:
    op: str
    left: "Operand"
    right: "Operand"
    height: int


Operand = Attribute | Literal | Arithmetic


@dataclass(slots=True, eq=False)
class Constant:
    value: bool


@dataclass(slots=True, eq=False)
class Compare:
    op: str
    left: Operand
    right: Operand


@dataclass(slots=True, eq=False)
class In:
    """`name IN (values)`: equal to one of them."""

    name: str
    values: tuple[Scalar, ...]


@dataclass(slots=True, eq=False)
class Among:
    """`operand IN (values, others)`: equal to one of them. Every IN list that is not an attribute among literals."""

    operand: Operand
    values: tuple[Scalar, ...]
    others: tuple[Operand, ...]


@dataclass(slots=True, eq=False)
class Contains:
    """`'item' IN name`: the attribute is a list and holds the item."""

    name: str
    item: str


@dataclass(slots=True, eq=False)
class Prefix:
    name: str
    prefix: str


@dataclass(slots=True, eq=False)
class Like:
    name: str
    pattern: Pattern


@dataclass(slots=True, eq=False)
class IsNull:
    name: str


@dataclass(slots=True, eq=False)
class Unknown:
    """`term IS NULL`: arithmetic that has no value, or a condition that is unknown."""

    term: "Arithmetic | Condition"


@dataclass(slots=True, eq=False)
class Not:
    term: "Condition"


@dataclass(slots=True, eq=False)
class And:
    terms: tuple["Condition", ...]


@dataclass(slots=True, eq=False)
class Or:
    terms: tuple["Condition", ...]


Condition = Constant | Compare | In | Among | Contains | Prefix | Like | IsNull | Unknown | Not | And | Or
Node = Operand | Condition

LITERAL_LIKE_MAX = 1_000_000  # characters x characters: a parser that decides LIKE on a literal takes its time

TRUE, FALSE = Constant(True), Constant(False)
FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def compare(op: str, left: Operand, right: Operand) -> Condition:
    if left.__class__ is Literal and right.__class__ is not Literal:
        op, left, right = FLIPPED[op], right, left
    if right.__class__ is Literal:
        value = right.value
        if left.__class__ is Literal:
            return TRUE if compare_values(op, left.value, value) else FALSE
        if left.__class__ is Attribute:
            if value.__class__ is float:
                right = Literal(plain(value))
            elif value.__class__ is bool and op == "<>":
                op, right = "=", Literal(not value)
    return Compare(op, left, right)


def plain(value: Scalar) -> Scalar:
    """One spelling for equal numbers. Only for comparisons: `x * 2` may leave 64 bits, `x * 2.0` never does."""
    if value.__class__ is float and value.is_integer() and -EXACT <= value <= EXACT:
        return int(value)
    return value


def arithmetic(op: str, left: Operand, right: Operand) -> Operand:
    if left.__class__ is Literal and right.__class__ is Literal:
        folded = calculate(op, left.value, right.value)
        if folded is not None:
            return Literal(folded)
    return Arithmetic(op, left, right, 1 + max(height(left), height(right)))


def height(operand: Operand) -> int:
    return operand.height if isinstance(operand, Arithmetic) else 0


def signed(sign: str, operand: Operand) -> Operand:
    """A unary sign: 0 - x or 0 + x, which also asks x to be a number."""
    return arithmetic(sign, Literal(0), operand)


def between(operand: Operand, low: Operand, high: Operand, negated: bool = False) -> Condition:
    """NOT BETWEEN is the negation of BETWEEN, as NOT IN and NOT LIKE are of theirs, and so true for a string."""
    inside = both([compare(">=", operand, low), compare("<=", operand, high)])
    return negate(inside) if negated else inside


def among(name: str, values: Iterable[Scalar]) -> Condition:
    literals = tuple({key_of(value): plain(value) for value in values}.values())
    if len(literals) == 1:
        return compare("=", Attribute(name), Literal(literals[0]))
    return In(name, literals)


def listed(operand: Operand, items: Iterable[Operand]) -> Condition:
    """`operand IN (items)`: its equalities with the items, joined by OR."""
    values: dict[Hashable, Scalar] = {}
    others: list[Operand] = []
    for item in items:
        if item.__class__ is Literal:
            values[key_of(item.value)] = plain(item.value)
        else:
            others.append(item)
    if operand.__class__ is Attribute and not others:
        return among(operand.name, values.values())
    if operand.__class__ is Literal:
        if key_of(operand.value) in values or not others:
            return TRUE if key_of(operand.value) in values else FALSE
        values = {}
    if len(values) + len(others) == 1:
        return compare("=", operand, others[0] if others else Literal(*values.values()))
    return Among(operand, tuple(values.values()), tuple(others))


def equalities(node: Among) -> list[Condition]:
    """The conditions of which an `Among` is the OR, if its operand is an attribute or a literal."""
    found = [compare("=", node.operand, other) for other in node.others]
    return [*found, listed(node.operand, map(Literal, node.values))] if node.values else found


def like(operand: Operand, pattern: str, escape: str | None = None) -> Condition:
    """Raises ValueError when the pattern ends in its escape character, or is too long for a literal."""
    pieces = split_pattern(pattern, escape)
    if operand.__class__ is not Attribute:
        if operand.__class__ is Literal and len(str(operand.value)) * len(pattern) > LITERAL_LIKE_MAX:
            raise ValueError("this pattern is too long to compare with a literal")
        return _text_test(operand, Pattern(pieces).matches)
    name = operand.name
    head = literal(pieces[0])
    if len(pieces) == 1 and head is not None:
        return Compare("=", Attribute(name), Literal(head))
    if len(pieces) == 2 and head is not None and not pieces[1]:
        return Prefix(name, head)
    return Like(name, Pattern(pieces))


def prefix(operand: Operand, start: str) -> Condition:
    if operand.__class__ is Attribute:
        return Prefix(operand.name, start)
    return _text_test(operand, lambda value: value.startswith(start))


def _text_test(operand: Operand, matches: Callable[[str], bool]) -> Condition:
    """LIKE or PREFIX on an operand that is no attribute: a literal decides at once, arithmetic never has a text."""
    if operand.__class__ is Literal:
        return TRUE if isinstance(operand.value, str) and matches(operand.value) else FALSE
    return Compare("=", operand, Literal(""))  # false where the arithmetic has a value, else unknown


def ends_with(name: str, suffix: str) -> Condition:
    return Like(name, Pattern(((), tuple(suffix)))) if suffix else Prefix(name, "")


def has(name: str) -> Condition:
    return Not(IsNull(name))


def is_null(node: Node) -> Condition:
    """`node IS NULL`, which is never unknown itself."""
    match node:
        case Attribute(name) | In(name) | Contains(name) | Prefix(name) | Like(name):
            return IsNull(name)
        case Literal() | Constant() | IsNull() | Unknown():
            return FALSE
        case Compare(_, left, right):
            return either([is_null(left), is_null(right)])
        case Not(term):
            return is_null(term)
        case _:
            return Unknown(node)


def is_set(name: str) -> Condition:
    """An attribute that stands where a condition is expected: false unless it is true or unknown."""
    return Compare("=", Attribute(name), Literal(True))


def negate(term: Condition) -> Condition:
    if isinstance(term, Not):
        return term.term
    if isinstance(term, Constant):
        return FALSE if term.value else TRUE
    return Not(term)


def both(terms: Iterable[Condition]) -> Condition:
    return _join(And, terms, TRUE, FALSE)


def either(terms: Iterable[Condition]) -> Condition:
    return _join(Or, terms, FALSE, TRUE)


def _join(join: type[And] | type[Or], terms: Iterable[Condition], neutral: Constant, decisive: Constant) -> Condition:
    flat: list[Condition] = []
    for term in terms:
        if term.__class__ is Constant:
            if term is decisive:
                return decisive
        elif isinstance(term, join):
            flat.extend(term.terms)
        else:
            flat.append(term)
    if len(flat) > 1:
        return join(tuple(flat))
    return flat[0] if flat else neutral


def names_of(node: Node) -> set[str]:
    """The attributes that it asks for."""
    found: set[str] = set()
    nodes: list[Node] = [node]
    while nodes:
        match nodes.pop():
            case Attribute(name) | In(name) | Contains(name) | Prefix(name) | Like(name) | IsNull(name):
                found.add(name)
            case Arithmetic(_, left, right) | Compare(_, left, right):
                nodes += (left, right)
            case Among(operand, _, others):
                nodes += (operand, *others)
            case And(terms) | Or(terms):
                nodes += terms
            case Not(term) | Unknown(term):
                nodes.append(term)
    return found
