"""The canonical text of a selector: one spelling for what the tree says.

The terms of AND and OR, and the values of IN, are sorted, since their order means nothing.
"""

import re

from gossamer.matching.like import join_pieces
from gossamer.matching.tokens import CONTEXTUAL, IDENTIFIER, RESERVED
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
from gossamer.matching.values import Scalar

_BARE = re.compile(IDENTIFIER)
_WORDS = {*RESERVED, *CONTEXTUAL}


def text_of(node: Condition) -> str:
    match node:
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case Compare(op, left, right):
            return f"{operand_text(left)} {op} {operand_text(right)}"
        case In(name, values):
            return f"{name_text(name)} IN ({', '.join(sorted(map(literal_text, values)))})"
        case Among(operand, values, others):
            items = sorted([*map(literal_text, values), *map(operand_text, others)])
            return f"{operand_text(operand)} IN ({', '.join(items)})"
        case Contains(name, item):
            return f"{literal_text(item)} IN {name_text(name)}"
        case Prefix(name, prefix):
            return f"{name_text(name)} PREFIX {literal_text(prefix)}"
        case Like(name, pattern):
            text, escaped = join_pieces(pattern.pieces)
            return f"{name_text(name)} LIKE {literal_text(text)}" + (" ESCAPE '\\'" if escaped else "")
        case IsNull(name):
            return f"{name_text(name)} IS NULL"
        case Unknown(term):
            return f"{_tested(term)} IS NULL"
        case Not(term):
            return _negated(term)
        case And(terms):
            return " AND ".join(sorted(f"({text_of(t)})" if isinstance(t, Or) else text_of(t) for t in terms))
        case Or(terms):
            return " OR ".join(sorted(text_of(term) for term in terms))


def operand_text(node: Operand) -> str:
    match node:
        case Attribute(name):
            return name_text(name)
        case Literal(value):
            return literal_text(value)
        case Arithmetic(op, left, right):
            weak = ("+", "-")
            left_text, right_text = operand_text(left), operand_text(right)
            if isinstance(left, Arithmetic) and left.op in weak and op not in weak:
                left_text = f"({left_text})"
            if isinstance(right, Arithmetic) and (op not in weak or right.op in weak):
                right_text = f"({right_text})"
            return f"{left_text} {op} {right_text}"


def name_text(name: str) -> str:
    if _BARE.fullmatch(name) and not (name.isascii() and name.upper() in _WORDS):
        return name
    return '"' + name.replace('"', '""') + '"'


def literal_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _tested(term: Arithmetic | Condition) -> str:
    return operand_text(term) if isinstance(term, Arithmetic) else f"({text_of(term)})"


def _negated(term: Condition) -> str:
    match term:
        case IsNull(name):
            return f"{name_text(name)} IS NOT NULL"
        case Unknown(tested):
            return f"{_tested(tested)} IS NOT NULL"
        case And() | Or():
            return f"NOT ({text_of(term)})"
        case _:
            return f"NOT {text_of(term)}"
