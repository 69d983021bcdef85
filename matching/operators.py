"""What each operator says about two values: true, false, or `None` for unknown.

Two rules carry everything. Null makes a comparison unknown. Values of different kinds, and orders between values
that have none (strings, bools, lists), compare as false: that is an answer, not an error. Arithmetic that has no
value (a null, something that is no number, a division by zero, a result beyond 64 bits or the finite floats) is
unknown. `7 / 2` is 3.5; a quotient of integers that is whole stays an integer, and so exact beyond 2**53.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from gossamer.matching.values import BOOL, INT_MAX, INT_MIN, NUMBER, STRING, Number, kind_of

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def compare_values(op: str, left: object, right: object) -> bool | None:
    if left is None or right is None:
        return None
    kind = kind_of(left)
    if kind != kind_of(right):
        return False
    if kind is NUMBER or ((kind is STRING or kind is BOOL) and (op == "=" or op == "<>")):
        return ORDER[op](left, right)
    return False


def calculate(op: str, left: Any, right: Any) -> Number | None:
    if left.__class__ not in (int, float) or right.__class__ not in (int, float):
        return None
    result: Number
    if op == "+":
        result = left + right
    elif op == "-":
        result = left - right
    elif op == "*":
        result = left * right
    elif right == 0:
        return None
    elif left.__class__ is right.__class__ is int and not left % right:
        result = left // right
    else:
        result = left / right
    if isinstance(result, int):
        return result if INT_MIN <= result <= INT_MAX else None
    return result if math.isfinite(result) else None


def contains(values: object, item: str) -> bool | None:
    if values is None:
        return None
    return isinstance(values, list) and item in values
