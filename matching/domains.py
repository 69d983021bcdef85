"""Domains: the values an attribute may have, as a set one can intersect and compare.

They answer what covering and merging ask, exactly, over the values attributes really have: numbers are floats and
64-bit integers, so `x > 5` and `x >= 5.000000000000001` are the same domain.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from gossamer.matching import tree
from gossamer.matching.predicates import AMONG, EQUAL, EXCEPT, HAS, PREFIX, RANGE, TAG, Term
from gossamer.matching.values import (
    INFINITY,
    LIST,
    NUMBER,
    STRING,
    Number,
    kind_of,
    step_down,
    step_up,
    value_of,
)

LARGEST = 1.7976931348623157e308  # every number is at most this, so a bound at it is none


@dataclass(frozen=True, slots=True)
class Domain:
    """The values, other than null, that an attribute may have.

    Either `only` lists them, or they are all of one kind (of any, if that is None) within the other fields.
    """

    kind: str | None = None
    only: frozenset[Hashable] | None = None
    low: Number = -INFINITY
    high: Number = INFINITY
    prefix: str = ""
    without: frozenset[Hashable] = frozenset()
    items: frozenset[str] = frozenset()

    def allows(self, key: Hashable) -> bool:
        if self.only is not None:
            return key in self.only
        value = value_of(key)
        if key in self.without or (self.kind is not None and self.kind != kind_of(value)):
            return False
        if self.kind is NUMBER:
            return self.low <= value <= self.high  # type: ignore[operator]
        return self.kind is not STRING or str(value).startswith(self.prefix)

    def includes(self, other: "Domain") -> bool:
        """Whether every value of the other domain is in this one."""
        if other.only is not None:
            return all(self.allows(key) for key in other.only)
        if self.only is not None or (self.kind is not None and self.kind != other.kind):
            return False
        return (
            self.low <= other.low
            and other.high <= self.high
            and other.prefix.startswith(self.prefix)
            and self.items <= other.items
            and not any(other.allows(key) for key in self.without)
        )

    def meet(self, other: "Domain") -> "Domain | None":
        """The values in both; None if there are none."""
        if self.only is not None or other.only is not None:
            keys = self.only if self.only is not None else other.only
            assert keys is not None
            common = frozenset(key for key in keys if self.allows(key) and other.allows(key))
            return Domain(only=common) if common else None
        if self.kind is not None and other.kind is not None and self.kind != other.kind:
            return None
        long, short = sorted((self.prefix, other.prefix), key=len, reverse=True)
        if not long.startswith(short):
            return None
        return Domain(
            self.kind or other.kind,
            None,
            max(self.low, other.low),
            min(self.high, other.high),
            long,
            self.without | other.without,
            self.items | other.items,
        ).trimmed()

    def trimmed(self) -> "Domain | None":
        """The same values said in the shortest way: excluded ends of a range moved inwards, one value as itself."""
        if self.kind is not NUMBER:
            return replace(self, without=frozenset(k for k in self.without if str(k).startswith(self.prefix)))
        low, high = self.low, self.high
        while low in self.without:
            low = step_up(low)
        while high in self.without:
            high = step_down(high)
        if low > high:
            return None
        if low == high:
            return Domain(only=frozenset((low,)))
        without = frozenset(key for key in self.without if low < key < high)  # type: ignore[operator]
        low, high = (-INFINITY if low <= -LARGEST else low), (INFINITY if high >= LARGEST else high)
        return replace(self, low=low, high=high, without=without)

    def joined(self, other: "Domain") -> "Domain | None":
        """The values in either, if that is a domain."""
        if self.includes(other):
            return self
        if other.includes(self):
            return other
        if self.only is not None and other.only is not None:
            return Domain(only=self.only | other.only)
        if self.kind is NUMBER and other.kind is NUMBER:
            first, last = sorted((self, other), key=lambda domain: domain.low)
            if last.low <= step_up(first.high):
                without = frozenset(k for k in self.without | other.without if not (self.allows(k) or other.allows(k)))
                return replace(first, high=max(first.high, last.high), without=without)
        return None

    def condition(self, name: str) -> tree.Condition:
        """The condition that an attribute has a value in this domain."""
        if self.only is not None:
            return tree.among(name, sorted(map(value_of, self.only), key=repr))
        attribute = tree.Attribute(name)
        terms: list[tree.Condition] = []
        if self.kind is STRING and (self.prefix or not self.without):
            terms.append(tree.Prefix(name, self.prefix))
        if self.low != -INFINITY:
            terms.append(_bound(attribute, ">", self.low, step_down(self.low)))
        if self.high != INFINITY:
            terms.append(_bound(attribute, "<", self.high, step_up(self.high)))
        terms += [tree.Contains(name, item) for item in sorted(self.items)]
        excluded = sorted(map(value_of, self.without), key=repr)
        terms += [tree.compare("<>", attribute, tree.Literal(value)) for value in excluded]
        if not terms and self.kind is NUMBER:  # any number: nothing shorter says so
            return _bound(attribute, ">", -LARGEST, -LARGEST)
        return tree.both(terms) if terms else tree.has(name)


def _bound(attribute: tree.Attribute, op: str, bound: Number, beyond: Number) -> tree.Condition:
    """A bound as it was probably written: `x > 100`, not `x >= 100.00000000000001`."""
    if len(repr(tree.plain(beyond))) < len(repr(tree.plain(bound))):
        return tree.compare(op, attribute, tree.Literal(beyond))
    return tree.compare(op + "=", attribute, tree.Literal(bound))


def domain_of(term: Term) -> Domain:
    tag = term[0]
    if tag is HAS:
        return Domain()
    if tag is EQUAL:
        return Domain(only=frozenset((term[2],)))
    if tag is AMONG:
        return Domain(only=term[2])
    if tag is RANGE:
        return Domain(NUMBER, low=term[2], high=term[3])
    if tag is PREFIX:
        return Domain(STRING, prefix=term[2])
    if tag is TAG:
        return Domain(LIST, items=frozenset((term[2],)))
    assert tag is EXCEPT
    return Domain(kind_of(value_of(term[2])), without=frozenset((term[2],)))
