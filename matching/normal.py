"""Disjunctive normal form: a selector as alternatives, each a conjunction of predicates.

Only what makes a selector *true* is kept, so an alternative that can never be true is dropped. NOT moves inwards
through AND and OR, which three-valued logic allows, and stops at the comparison, which it must. A selector that would
fall into too many alternatives keeps the part that does it as one opaque test.
"""

from collections.abc import Iterable

from gossamer.matching import tree
from gossamer.matching.compiled import opaque
from gossamer.matching.predicates import AMONG, EQUAL, EXCEPT, HAS, PREFIX, RANGE, TAG, Term, Terms
from gossamer.matching.values import INFINITY, Scalar, key_of, step_down, step_up

ALTERNATIVES_MAX = 64


def alternatives(condition: tree.Condition) -> list[Terms]:
    """The conjunctions under which a condition is true; none if it never is."""
    return [tidy for terms in _alternatives(condition, True) if (tidy := tidied(terms)) is not None]


def _alternatives(node: tree.Condition, wanted: bool) -> list[Terms]:
    """The conjunctions under which a condition is true, or false."""
    if isinstance(node, (tree.And, tree.Or)):
        return _product(node.terms, wanted) if isinstance(node, tree.And) is wanted else _sum(node, node.terms, wanted)
    if isinstance(node, tree.Not):
        return _alternatives(node.term, not wanted)
    if isinstance(node, tree.Constant):
        return [()] if node.value is wanted else []
    if node.__class__ is tree.Among and wanted and not isinstance(node.operand, tree.Arithmetic):
        return _sum(node, tree.equalities(node), True)
    predicate = _predicate(node, wanted)
    return [] if predicate is None else [(predicate,)]


def _product(nodes: Iterable[tree.Condition], wanted: bool) -> list[Terms]:
    common: list[Term] = []
    product: list[Terms] = [()]
    for node in nodes:
        if wanted and node.__class__ is tree.Compare:  # nearly all of them: straight to the predicate
            predicate = _predicate(node, True)
            if predicate is None:
                return []
            common.append(predicate)
            continue
        parts = _alternatives(node, wanted)
        if len(parts) == 1:
            common += parts[0]
        elif len(product) * len(parts) > ALTERNATIVES_MAX:
            common.append(opaque(node, wanted))
        else:
            product = [terms + part for terms in product for part in parts]
    return [(*common, *terms) for terms in product]


def _sum(node: tree.Condition, parts: Iterable[tree.Condition], wanted: bool) -> list[Terms]:
    """Alternatives side by side; equalities of one attribute become one membership. `node` is the OR of its parts."""
    others: list[Terms] = []
    keys: dict[str, list[object]] = {}
    for part in parts:
        for terms in _alternatives(part, wanted):
            if len(terms) == 1 and terms[0][0] is EQUAL:
                keys.setdefault(terms[0][1], []).append(terms[0][2])
            elif len(terms) == 1 and terms[0][0] is AMONG:
                keys.setdefault(terms[0][1], []).extend(terms[0][2])
            else:
                others.append(terms)
    together = [(membership(name, found),) for name, found in keys.items()] + others
    return together if len(together) <= ALTERNATIVES_MAX else [(opaque(node, wanted),)]


def membership(name: str, keys: Iterable[object]) -> Term:
    distinct = frozenset(keys)
    return (AMONG, name, distinct) if len(distinct) > 1 else (EQUAL, name, next(iter(distinct)))


def _predicate(node: tree.Condition, wanted: bool) -> Term | None:
    """The predicate of a condition that is no AND, OR or NOT; None if it never holds."""
    if not wanted:
        return (HAS, node.name) if isinstance(node, tree.IsNull) else opaque(node, False)
    if isinstance(node, tree.Compare):
        left, right = node.left, node.right
        if isinstance(left, tree.Attribute) and isinstance(right, tree.Literal):
            return _comparison(node.op, left.name, right.value)
        return opaque(node)
    match node:
        case tree.In(name, values):
            return membership(name, map(key_of, values))
        case tree.Prefix(name, prefix):
            return (PREFIX, name, prefix)
        case tree.Contains(name, item):
            return (TAG, name, item)
        case _:
            return opaque(node)


def _comparison(op: str, name: str, value: Scalar) -> Term | None:
    if op == "=":
        return (EQUAL, name, key_of(value))
    if op == "<>":
        return (EXCEPT, name, key_of(value))
    if value.__class__ is str or value.__class__ is bool:
        return None  # strings and bools have no order
    assert not isinstance(value, str)
    if op == ">":
        return (RANGE, name, step_up(value), INFINITY)
    if op == ">=":
        return (RANGE, name, value, INFINITY)
    if op == "<":
        return (RANGE, name, -INFINITY, step_down(value))
    return (RANGE, name, -INFINITY, value)


def tidied(terms: Terms) -> Terms | None:
    """The conjunction in a fixed order, with one range an attribute; None when a range is empty."""
    ranges: dict[str, Term] = {}
    tidy: list[Term] = []
    for term in terms:
        if term[0] is RANGE:
            known = ranges.get(term[1])
            if known is not None:
                term = (RANGE, term[1], max(known[2], term[2]), min(known[3], term[3]))
            if term[2] > term[3]:
                return None
            ranges[term[1]] = term
        else:
            tidy.append(term)
    tidy += [(EQUAL, term[1], term[2]) if term[2] == term[3] else term for term in ranges.values()]
    if len(tidy) > 1:
        tidy.sort(key=_order)
    return tuple(tidy)


def _order(term: Term) -> tuple[str, str]:
    return term[0], term[1]
