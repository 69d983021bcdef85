"""Where the index keeps a key: in a group of a cluster, or as a span under a range."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from gossamer.matching.compiled import Get, Test, compile_terms
from gossamer.matching.intervals import Intervals
from gossamer.matching.predicates import Term, Terms
from gossamer.matching.values import Number

if TYPE_CHECKING:
    from gossamer.matching.cluster import Cluster


class Group:
    """The keys in a cluster that have the same terms left to test."""

    __slots__ = ("home", "terms", "test", "keys")

    def __init__(self, home: "Cluster", terms: Terms, key: Hashable) -> None:
        self.home = home
        self.terms = terms
        self.test: Test | None = None  # compiled when first needed: many groups are filed away before that
        self.keys: tuple[Hashable, ...] | dict[Hashable, None] = (key,)

    def add(self, key: Hashable) -> None:
        if isinstance(self.keys, tuple):
            self.keys = dict.fromkeys(self.keys)
        self.keys[key] = None

    def remove(self, key: Hashable) -> None:
        if isinstance(self.keys, dict):
            del self.keys[key]
        if isinstance(self.keys, tuple) or not self.keys:
            del self.home.groups[self.terms]
        self.home.shrink()


class Residual:
    """What is left to test below a range; one object for all that are equal, so that an event tests it once."""

    __slots__ = ("terms", "test", "users")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.test = compile_terms(terms)
        self.users = 0


Verdicts = dict[Residual, bool]


class Span:
    """A key under a range."""

    __slots__ = ("home", "name", "low", "high", "key", "residual")

    def __init__(self, home: "Cluster", term: Term, key: Hashable, residual: Residual | None) -> None:
        self.home = home
        _, self.name, self.low, self.high = term
        self.key = key
        self.residual = residual

    def remove(self, _key: Hashable) -> None:
        self.home.remove_span(self)


Place = Group | Span


class Ranges:
    """The ranges of one attribute: keys that match at once, and spans that have a residual to test."""

    __slots__ = ("exact", "tested", "residuals")

    def __init__(self) -> None:
        self.exact: Intervals[Any] | None = None
        self.tested: Intervals[Span] | None = None
        self.residuals: dict[Terms, Residual] = {}

    def add(self, home: "Cluster", term: Term, rest: Terms, key: Hashable) -> Span:
        if not rest:
            span = Span(home, term, key, None)
            if self.exact is None:
                self.exact = Intervals()
            self.exact.add(span.low, span.high, key)
            return span
        residual = self.residuals.get(rest)
        if residual is None:
            residual = self.residuals[rest] = Residual(rest)
        residual.users += 1
        span = Span(home, term, key, residual)
        if self.tested is None:
            self.tested = Intervals()
        self.tested.add(span.low, span.high, span)
        return span

    def remove(self, span: Span) -> None:
        residual = span.residual
        if residual is None:
            assert self.exact is not None
            self.exact.remove(span.low, span.high, span.key)
            return
        assert self.tested is not None
        self.tested.remove(span.low, span.high, span)
        residual.users -= 1
        if not residual.users:
            del self.residuals[residual.terms]

    def collect_tested(self, value: Number, get: Get, out: list[Any], verdicts: Verdicts) -> None:
        """List the keys whose range holds the value and whose residual holds too."""
        spans: list[Span] = []
        assert self.tested is not None
        self.tested.holding(value, spans)
        for span in spans:
            residual: Residual = span.residual  # type: ignore[assignment]  # those in `tested` have one
            if residual.users == 1:  # nobody else will ask
                verdict = residual.test(get, residual.terms)
            else:
                verdict = verdicts.get(residual)
                if verdict is None:
                    verdict = verdicts[residual] = bool(residual.test(get, residual.terms))
            if verdict:
                out.append(span.key)
