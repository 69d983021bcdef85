"""Covering: does one selector match everything another does? And merging: the same with fewer selectors.

Both selectors are taken as alternatives, each a conjunction. A conjunction says of each attribute which values it may
have, its *domain*; b's conjunction is covered when some conjunction of a allows, for every attribute, all that b's
does. For conjunctions of comparisons with literals this is exact. For anything else it is sound: what cannot be told
(`x < 5 OR x >= 5` against `x > 0`, where only two alternatives together cover) is answered with no.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gossamer.matching import tree
from gossamer.matching.domains import Domain, domain_of
from gossamer.matching.normal import alternatives
from gossamer.matching.predicates import TEST, Term, Terms
from gossamer.matching.selector import Selector


@dataclass(frozen=True, slots=True)
class Conjunction:
    """A domain for each attribute that has one, and the tests that are beyond domains."""

    domains: dict[str, Domain]
    tests: frozenset[Term]

    def includes(self, other: "Conjunction") -> bool:
        if not self.tests <= other.tests:
            return False
        for name, domain in self.domains.items():
            theirs = other.domains.get(name)
            if theirs is None or not domain.includes(theirs):
                return False
        return True

    def meets(self, other: "Conjunction") -> bool:
        """Whether every attribute that both speak of can have a value that suits both."""
        shared = self.domains.keys() & other.domains.keys()
        return all(self.domains[name].meet(other.domains[name]) is not None for name in shared)


def covers(a: Selector | str, b: Selector | str) -> bool:
    """Whether `a` matches everything that `b` matches. True is certain; False may mean that it cannot be told."""
    ours, theirs = conjunctions(a), conjunctions(b)
    return all(any(one.includes(other) for one in ours) for other in theirs)


def conjunctions(selector: Selector | str) -> list[Conjunction]:
    """A selector's alternatives that some event may make true."""
    condition = (Selector(selector) if isinstance(selector, str) else selector).tree
    return [found for terms in alternatives(condition) if (found := _conjunction(terms)) is not None]


def _conjunction(terms: Terms) -> Conjunction | None:
    """None when no event can make all the terms true."""
    domains: dict[str, Domain] = {}
    for term in terms:
        if term[0] is TEST:
            continue
        name = term[1]
        known, new = domains.get(name), domain_of(term)
        domain = new.trimmed() if known is None and new.only is None else new if known is None else known.meet(new)
        if domain is None:
            return None
        domains[name] = domain
    return Conjunction(domains, frozenset(term for term in terms if term[0] is TEST))


def merge(selectors: Iterable[Selector | str]) -> list[Selector]:
    """As few selectors as can be found that together match exactly what these match.

    A selector that another covers is left out, and two that differ in one attribute become one if that attribute's
    values together are a domain: `symbol = 'A'` and `symbol = 'B'`, or ranges that touch.
    """
    kept: list[Selector] = []
    pool: list[Conjunction] = []
    for selector in selectors:
        given = Selector(selector) if isinstance(selector, str) else selector
        found = conjunctions(given)
        if any(one.tests for one in found):
            kept.append(given)  # beyond domains: can be covered, but not joined
        else:
            pool += found
    pool = _uncovered(_joined(pool))
    merged = [Selector.of(tree.both(d.condition(name) for name, d in sorted(one.domains.items()))) for one in pool]
    for one in kept:
        if not any(covers(wide, one) for wide in merged):
            merged = [narrow for narrow in merged if not covers(one, narrow)] + [one]
    return merged


def _joined(pool: list[Conjunction]) -> list[Conjunction]:
    """Join conjunctions that differ in one attribute until none do."""
    again = True
    while again:
        again = False
        for name in sorted({name for one in pool for name in one.domains}):
            alike: dict[frozenset[tuple[str, Domain]], list[Domain]] = {}
            result: list[Conjunction] = []
            for one in pool:
                if name in one.domains:
                    others = frozenset((other, d) for other, d in one.domains.items() if other != name)
                    alike.setdefault(others, []).append(one.domains[name])
                else:
                    result.append(one)
            for others, domains in alike.items():
                result += [Conjunction({**dict(others), name: d}, frozenset()) for d in _union(domains)]
            again = again or len(result) < len(pool)
            pool = result
    return pool


def _union(domains: list[Domain]) -> list[Domain]:
    """The fewest domains with the same values. Sorted by lower bound, what can be joined is next to each other."""
    union: list[Domain] = []
    for domain in sorted(domains, key=lambda d: (d.kind or "", d.only is None, d.low, d.prefix)):
        together = union[-1].joined(domain) if union else None
        if together is None:
            union.append(domain)
        else:
            union[-1] = together
    return union


def _uncovered(pool: list[Conjunction]) -> list[Conjunction]:
    kept: list[Conjunction] = []
    # The fewer attributes a conjunction names the more it covers: first those, so that little is kept in vain.
    for one in sorted(pool, key=lambda one: len(one.domains)):
        if not any(wide.includes(one) for wide in kept):
            kept = [narrow for narrow in kept if not one.includes(narrow)] + [one]
    return kept
