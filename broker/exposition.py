"""What `/metrics` answers: the counters, gauges and latencies of the members in this process, as Prometheus reads them.

No keys, clients or selectors are labels: what can grow without bound is in `$sys` (docs/telemetry.md).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gossamer.broker.counters import Counters
from gossamer.broker.runtime import Runtime
from gossamer.broker.telemetry import figures, gossamer_version, links_of

OF = ("node", "role")
KINDS = {"messages_sent": "kind", "events_skipped": "reason", "refusals": "code"}
"""The label of those that are counted by kind."""
TOTALS = (
    "rounds", "pages_read", "pages_failed", "store_commits", "store_damaged", "store_packets", "store_derived_events",
    "store_pages",
)  # fmt: skip
"""Of the other figures, those that only grow."""
ELSEWHERE = ("repaired_", "purged_")
"""Told with labels."""

Family = dict[str, Metric]


def exposition(runtimes: Sequence[Runtime]) -> bytes:
    """All metrics of all of them; `Timeout` if one does not answer."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(runtimes))
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, runtimes: Sequence[Runtime]) -> None:
        self._runtimes = runtimes

    def describe(self) -> Iterator[Metric]:
        return iter(())  # or it would be collected twice

    def collect(self) -> Iterator[Metric]:
        families: Family = {}
        for runtime in self._runtimes:
            runtime.ask(lambda runtime=runtime: _measure(families, runtime))  # type: ignore[misc]
        yield from families.values()


def _measure(families: Family, runtime: Runtime) -> None:
    """In the node's own thread."""
    of = [runtime.name, runtime.role]
    for each in fields(Counters):
        value = getattr(runtime.counters, each.name)
        if isinstance(value, Counter):
            for kind, count in value.items():
                _count(families, each.name, (*OF, KINDS[each.name]), [*of, kind], count)
        else:
            _count(families, each.name, OF, of, value)
    for name, value in figures(runtime).items():
        if name in TOTALS:
            _count(families, name, OF, of, value)
        elif not name.startswith(ELSEWHERE):
            _gauge(families, name, OF, of, value)
    tally = runtime.node.tally
    repaired: Counter[str] = Counter()
    for (way, _), events in tally.repaired.items():
        repaired[way] += events
    for name, events in repaired.items():
        _count(families, "events_repaired", (*OF, "way"), [*of, name], events)
    for (hop, why), events in tally.purged.items():
        _count(families, "events_purged", (*OF, "hop", "reason"), [*of, hop, why], events)
    _count(families, "loop_busy_seconds", OF, of, runtime.busy_s)
    _gauge(families, "member", OF, of, runtime.status == "member")
    _gauge(families, "members", OF, of, sum(member.status == "member" for member in runtime.members))
    _gauge(families, "trouble", OF, of, len(runtime.trouble()))
    _gauge(families, "warnings", OF, of, len(runtime.warnings()))
    _gauge(families, "info", (*OF, "version"), [*of, gossamer_version()], 1)
    for link in links_of(runtime):
        _gauge(families, "link_queued_bytes", (*OF, "peer"), [*of, link["peer"]], link["queued_bytes"])
        if link["rtt_ms"] is not None:
            _gauge(families, "link_round_trip_seconds", (*OF, "peer"), [*of, link["peer"]], link["rtt_ms"] / 1e3)
    for stage, histogram in runtime.latencies.items():
        family = families.get("latency_seconds")
        if family is None:
            text = "From publishing to the stage, of some of the events."
            family = families["latency_seconds"] = HistogramMetricFamily(
                "gossamer_latency_seconds", text, labels=(*OF, "stage")
            )
        assert isinstance(family, HistogramMetricFamily)
        buckets, total = [], 0
        for bound, count in zip((*map(str, histogram.bounds), "+Inf"), list(histogram.counts), strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric([*of, stage], buckets, histogram.sum)


def _count(families: Family, name: str, labels: Sequence[str], values: Sequence[str], count: float) -> None:
    family = families.get(name)
    if family is None:
        family = families[name] = CounterMetricFamily(f"gossamer_{name}", _help(name), labels=labels)
    assert isinstance(family, CounterMetricFamily)
    family.add_metric(values, count)


def _gauge(families: Family, name: str, labels: Sequence[str], values: Sequence[str], value: float) -> None:
    family = families.get(name)
    if family is None:
        family = families[name] = GaugeMetricFamily(f"gossamer_{name}", _help(name), labels=labels)
    assert isinstance(family, GaugeMetricFamily)
    family.add_metric(values, value)


def _help(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()} (docs/telemetry.md)."
