"""Predicates: what the index, covering and compiled residuals work on.

A selector is a disjunction of conjunctions of predicates. A predicate says when something is *true*; false and
unknown are one here, as they are to a subscriber. It is a plain tuple that starts with its tag and, for all but
`TEST`, the attribute's name: small, hashed and compared in C.

    (EQUAL, name, key)         the value is the one behind the key (`key_of`)
    (AMONG, name, keys)        the value is one of those
    (WITHIN, name, keys)       likewise, in a conjunction that has been filed under enough values already
    (RANGE, name, low, high)   a number in the closed interval; open ends are infinite, strict bounds were stepped
    (PREFIX, name, prefix)     a string that starts so
    (TAG, name, item)          a list that holds the item
    (HAS, name)                not null
    (EXCEPT, name, key)        of the key's kind, but another value
    (TEST, source, constants)  anything else, as Python code (`compiled`)
"""

from typing import Any

EQUAL, AMONG, WITHIN, RANGE, PREFIX, TAG, HAS, EXCEPT = "=", "in", "within", "..", "prefix", "tag", "has", "<>"
TEST = "test"

Term = tuple[Any, ...]
Terms = tuple[Term, ...]  # a conjunction


def settled(terms: Terms, values_max: int = 0) -> Terms:
    """The same conjunction, not to be filed under memberships of more values than that."""
    return tuple([(WITHIN, *t[1:]) if t[0] is AMONG and len(t[2]) > values_max else t for t in terms])
