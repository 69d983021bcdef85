"""Filters that Spark hands to the source, as SQL: those that a store answers exactly as Spark would.

Strings are compared for equality only: what comes before what is a matter of the database's collation.
"""

from collections.abc import Sequence

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from gossamer.analytics.reading import Condition, quoted

_NUMBERS = frozenset({"id", "seq", "published_ns", "logged_ns", "size"})
_TEXTS = frozenset({"group", "stream", "key", "type", "node"})
_ORDERED = {GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}
_VALUES_MAX = 100


def split(filters: Sequence[Filter], columns: Sequence[str]) -> tuple[list[Condition], list[Filter]]:
    """What the store is asked for, and what is left for Spark to do."""
    taken: list[Condition] = []
    left: list[Filter] = []
    for each in filters:
        found = _condition(each, columns)
        if found is None:
            left.append(each)
        else:
            taken.append(found)
    return taken, left


def _condition(filter: Filter, columns: Sequence[str]) -> Condition | None:
    if isinstance(filter, Not):
        inner = _condition(filter.child, columns)
        # Of a null column neither is true: as in Spark.
        return None if inner is None else Condition(f"NOT ({inner.text})", inner.values)
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1 or path[0] not in columns or path[0] not in _NUMBERS | _TEXTS:
        return None
    name, kind = quoted(path[0]), int if path[0] in _NUMBERS else str
    match filter:
        case EqualTo(value=value) if type(value) is kind:
            return Condition(f"{name} = ?", (value,))
        case In(value=values) if 0 < len(values) <= _VALUES_MAX and all(type(each) is kind for each in values):
            return Condition(f"{name} IN ({', '.join('?' * len(values))})", tuple(values))
        case IsNull():
            return Condition(f"{name} IS NULL")
        case IsNotNull():
            return Condition(f"{name} IS NOT NULL")
        case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual() if type(filter.value) is int is kind:
            return Condition(f"{name} {_ORDERED[type(filter)]} ?", (filter.value,))
    return None
