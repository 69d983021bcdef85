"""How fast the index matches, against a linear scan and against what else evaluates rules in Python.

Every workload at every size has a process of its own: what another index left behind would count for memory, and for
the collector's time. Adding is measured as it is, with the cyclic collector at work; matching like everything else.
"""

import gc
import importlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.bench import measure
from gossamer.bench.matching_workloads import Event, Subscription, Workload, as_cel, as_rule, as_selector, workloads
from gossamer.bench.measure import Row
from gossamer.matching import Index, Selector

NAME = "matching"
MATCH_US = {("selective", 1_000): 5.0, ("selective", 1_000_000): 10.0}  # 200,000 and 100,000 events a second
BYTES = 1_000
ADDS_S = 60
OVER_LIST = 3
EVENTS_MAX = 10_000
CHUNK = 1_000

Matcher = Callable[[Event], object]


class Scale(NamedTuple):
    sizes: tuple[int, ...]
    peers_size: int  # peers and the scan evaluate one by one: their cost is proportional, there is no curve to show
    peers_events: int
    pass_s: float  # about how long a pass takes, if one event does not take longer
    passes: int


FULL = Scale((1_000, 100_000, 1_000_000), 1_000, 5, 0.25, 7)
QUICK = Scale((100, 1_000), 20, 2, 0.001, 2)


class Figures(NamedTuple):
    """Of one workload at one size; times are the processor's, in seconds."""

    adds_s: float
    adds_wall_s: float
    bytes_each: float
    event_s: float
    copy_s: float  # merely listing an event's keys: one copy of a list
    loop_s: float  # or one by one
    keys: float  # an event


def rows(quick: bool = False) -> Iterator[Row]:
    scale = QUICK if quick else FULL
    for workload in workloads():
        print(f"  {workload.name}: {workload.says}", file=sys.stderr, flush=True)
        figures = {size: apart(workload.name, size, scale) for size in scale.sizes}
        for size, found in figures.items():
            yield from told(workload.name, size, found)
        few, many = scale.sizes[0], scale.sizes[-1]
        growth = figures[many].event_s / figures[few].event_s
        yield Row(NAME, f"{workload.name}: match, {many:,} against {few:,}", growth, "×")
        yield from against_peers(workload.name, scale)


def told(name: str, size: int, found: Figures) -> Iterator[Row]:
    at, many = f"{name}, {size:,}", size == FULL.sizes[-1]
    yield Row(NAME, f"{at}: add all", found.adds_s, "s", ADDS_S if many else None)
    yield Row(NAME, f"{at}: add all, on the clock", found.adds_wall_s, "s")
    yield Row(NAME, f"{at}: memory", found.bytes_each, "bytes a subscription", BYTES if many else None)
    yield Row(NAME, f"{at}: match", found.event_s * 1e6, "µs an event", MATCH_US.get((name, size)))
    yield Row(NAME, f"{at}: matches", found.keys, "keys an event")
    if name in ("range", "band"):
        target = OVER_LIST if size == 100_000 else None
        yield Row(NAME, f"{at}: match, over copying a list", found.event_s / found.copy_s, "×", target)
        yield Row(NAME, f"{at}: match, over a loop", found.event_s / found.loop_s, "×")


def apart(name: str, size: int, scale: Scale) -> Figures:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (name, size, scale))


def fresh(name: str) -> Workload:
    """A workload from its seed, so that every size and every peer gets the same."""
    return next(workload for workload in workloads() if workload.name == name)


def measured(name: str, size: int, scale: Scale) -> Figures:
    workload = fresh(name)
    gc.collect()
    before_bytes = resident_bytes()
    index: Index[int] = Index()
    adds_s = adds_wall_s = 0.0
    subscriptions = enumerate(workload.subscriptions(size))
    while chunk := [(key, as_selector(subscription)) for key, subscription in islice(subscriptions, CHUNK)]:
        start_s, start_wall_s = time.process_time(), time.perf_counter()
        for key, text in chunk:
            index.add(key, text)
        adds_s += time.process_time() - start_s
        adds_wall_s += time.perf_counter() - start_wall_s
    gc.collect()
    bytes_each = max(0, resident_bytes() - before_bytes) / size

    events = workload.events(20)
    one_pass(index.match, events)  # what is compiled the first time is not what is measured
    events += workload.events(min(EVENTS_MAX, int(scale.pass_s / one_pass(index.match, events))))
    found = [index.match(event) for event in events]
    best = best_of({"match": (index.match, events), "copy": (list, found), "loop": (listed, found)}, scale)
    keys = sum(map(len, found)) / len(found)
    return Figures(adds_s, adds_wall_s, bytes_each, best["match"], best["copy"], best["loop"], keys)


def listed(keys: list[int]) -> list[int]:
    """Merely listing the matches, one by one."""
    return [key for key in keys]  # noqa: C416 - the loop is what is measured


def against_peers(name: str, scale: Scale) -> Iterator[Row]:
    """Index, scan and peers on the same subscriptions and events; how many times the index's time each takes."""
    workload = fresh(name)
    subscriptions = list(workload.subscriptions(scale.peers_size))
    events = workload.events(scale.peers_events)  # the peers take milliseconds for each
    index: Index[int] = Index()
    for key, subscription in enumerate(subscriptions):
        index.add(key, as_selector(subscription))
    peers: dict[str, Matcher | None] = {
        "a linear scan": scan(subscriptions),
        "rule-engine": rule_engine(subscriptions),
        "common-expression-language": common_expression_language(subscriptions),
    }
    contestants: dict[str, tuple[Matcher, Sequence[Event]]] = {"index": (index.match, events)}
    expected = [sorted(index.match(event)) for event in events]
    for peer, matcher in peers.items():
        if matcher is None:
            print(f"  {peer} is not installed: pip install 'gossamer[bench]'", file=sys.stderr)
            continue
        assert [sorted(matcher(event)) for event in events] == expected, peer  # type: ignore[call-overload]
        contestants[peer] = matcher, events
    best = best_of(contestants, scale)
    for peer in list(contestants)[1:]:
        what = f"{name}, {scale.peers_size:,}: {peer}, over the index"
        yield Row(NAME, what, best[peer] / best["index"], "×")


def scan(subscriptions: list[Subscription]) -> Matcher:
    tests = [(key, Selector(as_selector(subscription)).matches) for key, subscription in enumerate(subscriptions)]
    return lambda event: [key for key, test in tests if test(event)]


def rule_engine(subscriptions: list[Subscription]) -> Matcher | None:
    library = optional("rule_engine")
    if library is None:
        return None
    rules = [(key, library.Rule(as_rule(subscription))) for key, subscription in enumerate(subscriptions)]
    return lambda event: [key for key, rule in rules if rule.matches(event)]


def common_expression_language(subscriptions: list[Subscription]) -> Matcher | None:
    library = optional("cel")
    if library is None:
        return None
    programs = [(key, library.compile(as_cel(subscription))) for key, subscription in enumerate(subscriptions)]

    def match(event: Event) -> list[int]:
        context = library.Context(variables=event)
        return [key for key, program in programs if program.execute(context)]

    return match


def optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def best_of(cases: dict[str, tuple[Callable[[Any], object], Sequence[Any]]], scale: Scale) -> dict[str, float]:
    """Seconds an item in each case's best pass; the cases take turns."""
    passes = {}
    for case, (work, items) in cases.items():
        rounds = max(1, int(scale.pass_s / (one_pass(work, items) * len(items))))
        passes[case] = partial(one_pass, work, items, rounds)
    with measure.undisturbed():
        costs = measure.take_turns(passes, scale.passes)
    return {case: min(seconds) for case, seconds in costs.items()}


def one_pass(work: Callable[[Any], object], items: Sequence[Any], rounds: int = 1) -> float:
    start_s = time.process_time()
    for _ in range(rounds):
        for item in items:
            work(item)
    return max(time.process_time() - start_s, 1e-9) / (rounds * len(items))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
