"""Subscriptions and events to match: a neutral form that is written out for Gossamer and for each peer."""

from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

# A subscription is a conjunction of (attribute, operator, value): comparisons, "prefix" and "like".
Clause = tuple[str, str, float | str]
Subscription = list[Clause]
Event = dict[str, float | str]

SYMBOLS = 10_000
HOT_RESIDUALS = 10_000
MATCHES_MAX = 10

Literal = Callable[[str, float | str], str]  # how an operator's value is written


def as_selector(subscription: Subscription) -> str:
    return _written(subscription, " AND ", {"prefix": "{} PREFIX {}", "like": "{} LIKE {}"}, _in_single_quotes)


def as_rule(subscription: Subscription) -> str:
    """For rule-engine, whose regular expressions match from the start to the end."""
    forms = {"=": "{} == {}", "prefix": "{}.starts_with({})", "like": "{} =~ {}"}
    return _written(subscription, " and ", forms, _in_double_quotes)


def as_cel(subscription: Subscription) -> str:
    forms = {"=": "{} == {}", "prefix": "{}.startsWith({})", "like": "{}.matches({})"}
    return _written(subscription, " && ", forms, _in_double_quotes)


def _written(subscription: Subscription, joint: str, forms: dict[str, str], literal: Literal) -> str:
    return joint.join(
        forms.get(op, f"{{}} {op} {{}}").format(name, literal(op, value)) for name, op, value in subscription
    )


def _in_single_quotes(_op: str, value: float | str) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)


def _in_double_quotes(op: str, value: float | str) -> str:
    if not isinstance(value, str):
        return repr(value)
    return '"{}"'.format(value.replace("%", ".*") if op == "like" else value)


@dataclass
class Workload:
    """`subscriptions(count)` comes first, as `events(count)` may depend on what was subscribed to."""

    name: str
    says: str
    subscribe: Callable[["Workload", int], Subscription]
    publish: Callable[["Workload"], Event]
    draw: Random = field(default_factory=lambda: Random(7))
    lowest: dict[str, list[float]] = field(default_factory=dict)  # of the bounds on each symbol

    def subscriptions(self, count: int) -> Iterator[Subscription]:
        for i in range(count):
            yield self.subscribe(self, i)

    def events(self, count: int) -> list[Event]:
        return [self.publish(self) for _ in range(count)]


_symbols = [f"S{i:05d}" for i in range(SYMBOLS)]
_zipf = list(accumulate(1 / (rank + 1) for rank in range(SYMBOLS)))


def _symbol(workload: Workload) -> str:
    return workload.draw.choices(_symbols, cum_weights=_zipf)[0]


def _alert(workload: Workload, _i: int) -> Subscription:
    symbol, bound = _symbol(workload), round(workload.draw.uniform(100, 200), 4)
    lowest = workload.lowest.setdefault(symbol, [])
    insort(lowest, bound)
    del lowest[MATCHES_MAX:]
    return [("symbol", "=", symbol), ("price", ">", bound)]


def _quote(workload: Workload) -> Event:
    """A price that is above none to ten of its symbol's alerts."""
    symbol = _symbol(workload)
    bounds = workload.lowest.get(symbol, [100.0])
    price = workload.draw.choice(bounds) + 1e-5 if workload.draw.random() < 0.8 else 99.0
    return {"type": "quote", "symbol": symbol, "price": price, "volume": float(workload.draw.randrange(1_000))}


def _threshold(workload: Workload, _i: int) -> Subscription:
    return [("price", ">", workload.draw.uniform(0, 100))]


def _band(workload: Workload, _i: int) -> Subscription:
    low = workload.draw.uniform(0, 100)
    return [("price", ">=", low), ("price", "<=", low + workload.draw.uniform(0.5, 1.5))]


def _low_price(workload: Workload) -> Event:
    return {"price": workload.draw.uniform(0.5, 1.5), "symbol": "S"}  # one in a hundred thresholds is lower


def _any_price(workload: Workload) -> Event:
    return {"price": workload.draw.uniform(2, 99), "symbol": "S"}  # one in a hundred bands is around it


def _path(workload: Workload) -> str:
    numbers = workload.draw
    return f"/site{numbers.randrange(50)}/line{numbers.randrange(50)}/device{numbers.randrange(400)}"


def _folder(workload: Workload, _i: int) -> Subscription:
    return [("path", "prefix", _path(workload) + "/")]


def _reading(workload: Workload) -> Event:
    return {"path": f"{_path(workload)}/temperature", "value": workload.draw.random()}


def _mixed(workload: Workload, _i: int) -> Subscription:
    """Two to four of ten attributes: four texts, four numbers, two paths."""
    chosen: Subscription = []
    for number in sorted(workload.draw.sample(range(10), workload.draw.randint(2, 4))):
        if number < 4:
            chosen.append((f"text{number}", "=", f"v{workload.draw.randrange(20 * 10**number)}"))
        elif number < 8:
            low = workload.draw.uniform(0, 100)
            chosen += [(f"number{number}", ">=", low), (f"number{number}", "<=", low + 1)]
        else:
            chosen.append((f"path{number}", "prefix", _path(workload)[: workload.draw.randint(8, 20)]))
    return chosen


def _ten_attributes(workload: Workload) -> Event:
    texts: Event = {f"text{n}": f"v{workload.draw.randrange(20 * 10**n)}" for n in range(4)}
    numbers: Event = {f"number{n}": workload.draw.uniform(0, 100) for n in range(4, 8)}
    return {**texts, **numbers, **{f"path{n}": _path(workload) for n in (8, 9)}}


def _hot(_workload: Workload, i: int) -> Subscription:
    return [("symbol", "=", "HOT"), ("note", "like", f"%n{i % HOT_RESIDUALS}z%")]


def _hot_event(workload: Workload) -> Event:
    return {"symbol": "HOT", "note": f"a note on n{workload.draw.randrange(HOT_RESIDUALS)}z and more"}


def workloads() -> list[Workload]:
    return [
        Workload("selective", "symbol = … AND price > …, Zipf symbols, at most 10 match", _alert, _quote),
        Workload("range", "price > …, 1 % match", _threshold, _low_price),
        Workload("band", "price BETWEEN … AND …, 1 % match", _band, _any_price),
        Workload("prefix", "path PREFIX …, a million paths", _folder, _reading),
        Workload("mixed", "2 to 4 of 10 attributes: texts, bands, prefixes", _mixed, _ten_attributes),
        Workload("hot", f"one symbol, up to {HOT_RESIDUALS:,} distinct LIKE residuals", _hot, _hot_event),
    ]
