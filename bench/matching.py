"""How fast the index matches, against a linear scan and against what else evaluates rules in Python.

    python -m gossamer.bench.matching [--quick] [--json]

Everything is measured in one run, so the ratios hold although the machine does other things meanwhile. Each time is
the best of several passes.
"""

import argparse
import gc
import importlib
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gossamer.bench.matching_workloads import Event, Subscription, Workload, as_cel, as_rule, as_selector, workloads
from gossamer.matching import Index, Selector

SIZES = (1_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
PEERS_SIZE = 1_000  # peers and the scan evaluate one by one: their cost is proportional, there is no curve to show
PASSES = 3
PASS_S = 0.25  # about how long a pass takes, if one event does not take longer
EVENTS_MAX = 10_000

Row = dict[str, Any]
Matcher = Callable[[Event], object]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gossamer.bench.matching", description="Matching: speeds and ratios.")
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(f'{n:,}' for n in QUICK_SIZES)}")
    parser.add_argument("--only", action="append", metavar="WORKLOAD", help="only this workload (repeatable)")
    parser.add_argument("--json", action="store_true", help="one JSON document on one line")
    options, _others = parser.parse_known_args(arguments)  # another bench's options are not ours to refuse
    sizes = QUICK_SIZES if options.quick else SIZES
    chosen = [workload for workload in workloads() if not options.only or workload.name in options.only]
    rows = [apart(workload, size) for workload in chosen for size in sizes]
    peers = [row for workload in chosen for row in against_peers(workload.name)]
    if options.json:
        print(json.dumps({"name": "matching", "rows": rows, "peers": peers}))
    else:
        print(table(rows), table(peers), sep="\n\n")
        print("\nx list, x loop: an event's cost over that of merely listing its keys, in one copy or one by one")
    return 0


def apart(workload: Workload, size: int) -> Row:
    """Measure in a process of its own: memory that another index has left behind would be counted for nothing."""
    print(f"{workload.name} with {size:,} subscriptions: {workload.says}", file=sys.stderr)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (workload.name, size))


def fresh(name: str) -> Workload:
    """A workload from its seed, so that every size and every peer gets the same."""
    return next(workload for workload in workloads() if workload.name == name)


def measure(name: str, size: int) -> Row:
    workload = fresh(name)
    gc.collect()
    before_bytes = resident_bytes()
    index: Index[int] = Index()
    spent = 0.0
    for key, subscription in enumerate(workload.subscriptions(size)):
        text = as_selector(subscription)
        start = time.perf_counter()
        index.add(key, text)
        spent += time.perf_counter() - start
    gc.collect()
    bytes_each = (resident_bytes() - before_bytes) / size
    index.match(workload.events(1)[0])  # what is compiled the first time is not what is measured
    events = enough(index.match, workload)
    event_s = best(index.match, events)
    found = [index.match(event) for event in events]
    keys = sum(map(len, found)) / len(found)
    return {
        "workload": name,
        "subscriptions": size,
        "adds/s": round(size / spent),
        "bytes/sub": round(bytes_each),
        "events/s": round(1 / event_s),
        "us/event": round(event_s * 1e6, 2),
        "keys/event": round(keys, 1),
        "x list": round(event_s / best(list, found), 1),
        "x loop": round(event_s / best(listed, found), 2),
    }


def listed(keys: list[int]) -> list[int]:
    """Merely listing the matches, one by one."""
    return [key for key in keys]  # noqa: C416 - the loop is what is measured


def against_peers(name: str) -> list[Row]:
    """Index, scan and peers on the same subscriptions and events; how many times the index's time each takes."""
    workload = fresh(name)
    subscriptions = list(workload.subscriptions(PEERS_SIZE))
    events = workload.events(200)  # the peers take milliseconds for each
    index: Index[int] = Index()
    for key, subscription in enumerate(subscriptions):
        index.add(key, as_selector(subscription))
    contestants: list[tuple[str, Matcher | None]] = [
        ("index", index.match),
        ("scan", scan(subscriptions)),
        ("rule-engine", rule_engine(subscriptions)),
        ("common-expression-language", common_expression_language(subscriptions)),
    ]
    expected = [sorted(index.match(event)) for event in events[:5]]
    index_s = 0.0
    rows: list[Row] = []
    for contestant, matcher in contestants:
        row: Row = {"workload": name, "subscriptions": PEERS_SIZE, "matcher": contestant}
        rows.append(row)
        if matcher is None:
            row["us/event"], row["x index"] = "not installed: pip install 'gossamer[bench]'", "-"
            continue
        assert [sorted(matcher(event)) for event in events[:5]] == expected, contestant  # type: ignore[call-overload]
        event_s = best(matcher, events if contestant == "index" else events[:5])
        index_s = index_s or event_s
        row["us/event"], row["x index"] = round(event_s * 1e6, 2), round(event_s / index_s)
    return rows


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


def enough(work: Matcher, workload: Workload) -> list[Event]:
    """As many events as fit into a pass, within reason."""
    events = workload.events(20)
    return events + workload.events(min(EVENTS_MAX, int(PASS_S / one_pass(work, events))))


def best(work: Callable[[Any], object], items: Sequence[Any]) -> float:
    """Seconds an item, in the best pass."""
    rounds = max(1, int(PASS_S / (one_pass(work, items) * len(items))))
    return min(one_pass(work, items, rounds) for _ in range(PASSES))


def one_pass(work: Callable[[Any], object], items: Iterable[Any], rounds: int = 1) -> float:
    count = 0
    start = time.perf_counter()
    for _ in range(rounds):
        for item in items:
            work(item)
            count += 1
    return (time.perf_counter() - start) / count


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


def table(rows: list[Row]) -> str:
    if not rows:
        return ""
    cells = [list(rows[0])] + [
        [f"{v:,}" if isinstance(v, (int, float)) else str(v) for v in row.values()] for row in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in cells)


if __name__ == "__main__":
    sys.exit(main())
