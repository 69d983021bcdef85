"""The kinds of attribute values, and the arithmetic of numeric bounds.

A value is a bool, a 64-bit int, a finite float, a string, null or a list of strings. Ints and floats are one kind,
`number`: 1 and 1.0 are equal. A bool is no number: `True` and 1 are different values of different kinds, although
Python says they are equal, so wherever values become dictionary keys they go through `key_of`.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeGuard

from gossamer.messages.errors import UsageError

Number = int | float
Scalar = bool | int | float | str
Value = bool | int | float | str | list[str] | None
Attributes = Mapping[str, Value]

NUMBER, STRING, BOOL, LIST = "number", "string", "bool", "list"
KINDS: dict[type, str] = {int: NUMBER, float: NUMBER, str: STRING, bool: BOOL, list: LIST}

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
EXACT = 2**53  # up to here every integer is a float
INFINITY = math.inf


def kind_of(value: object) -> str | None:
    """The kind of a value that is not null. Anything Gossamer does not carry has no kind, and so equals nothing."""
    return KINDS.get(value.__class__)


def key_of(value: Scalar) -> Hashable:
    """A dictionary key under which values that are equal in a selector, and only those, meet."""
    return (value,) if value.__class__ is bool else value


def value_of(key: Hashable) -> Scalar:
    """The value behind a key made by `key_of`."""
    value = key[0] if isinstance(key, tuple) else key
    assert isinstance(value, (bool, int, float, str))
    return value


def step_up(bound: Number) -> Number:
    """The least attribute value greater than `bound`: it turns `x > bound` into `x >= step_up(bound)`.

    Attribute values are the floats and the 64-bit integers. Between -2**53 and 2**53 the floats are the denser of
    the two, beyond that the integers are, and beyond 64 bits there are only floats.
    """
    if -EXACT <= bound < EXACT or not INT_MIN <= bound <= INT_MAX:
        return math.nextafter(bound, INFINITY)
    return int(bound) + 1


def step_down(bound: Number) -> Number:
    """The greatest attribute value less than `bound`."""
    return -step_up(-bound)


def check_attributes(attributes: object) -> Attributes:
    """The attributes, if every name and value is one that an event can carry; a `UsageError` naming it otherwise."""
    if not isinstance(attributes, Mapping):
        raise UsageError(f"attributes must be an object of names and values, not {type(attributes).__name__}")
    for name, value in attributes.items():
        if not isinstance(name, str):
            raise UsageError(f"attribute name {name!r} is not a string")
        problem = _problem(value)
        if problem:
            raise UsageError(f"attribute {name!r} {problem}")
    return attributes


def is_literal(value: object) -> TypeGuard[Scalar]:
    """Whether a value can stand in a selector: what an attribute can be, except null and lists."""
    return value is not None and value.__class__ is not list and _problem(value) is None


def _problem(value: object) -> str | None:
    if value is None:
        return None
    kind = kind_of(value)
    if kind is None:
        return f"is a {type(value).__name__}; values are bool, int, float, string, null or a list of strings"
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return "does not fit in 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, str) and "\0" in value:
        return "holds a NUL character"
    if isinstance(value, list) and not all(item.__class__ is str and "\0" not in item for item in value):
        return "is a list of something else than strings without NUL"
    return None
