"""What the members of a mesh that never was tell of it: subscriptions, consumers, repairs, purges, samples.

Everything is a share of the events so far, so the totals at the end are known. Subscribers are interested in one of a
few clusters of symbols each; besides there are some whose selectors are worth a remark.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.matching import Selector
from gossamer.messages.event import Attributes, Content, Relation
from gossamer.messages.ids import SYSTEM_GROUP, anonymous_stream
from gossamer.messages.packet import Packet, pack

BROKERS = {"b1": 0.5, "b2": 0.3, "b3": 0.2}
"""And the share of the events that is published at each."""
LOGGER = "l1"
SAMPLES = 60
CLUSTERS = 4
CLUSTER_SYMBOLS = 10
CLUSTER_SUBSCRIBERS = 12
ASKED_SYMBOLS = 8
REMOVED = 5
"""Subscribers that leave when half is over."""

REPAIRED = {("late", 0): 2, ("gossip", 1): 70, ("gossip", 2): 20, ("gossip", 3): 8, ("logger", 4): 10}
"""Of 10,000 events that a broker delivers, by way and rounds."""
PURGED = {"link": 30, "queue": 200, "gossip": 50}
"""Of 10,000 events, by hop; obsolete all of them."""
REPAIR_LOAD = {"b1": 6, "b2": 3, "b3": 1, LOGGER: 2}
"""Packets that each member repaired for others, of 10,000 events."""
SLOW_SHARE = 0.25
"""Of its events a slow consumer is spared so many, as obsolete."""
SLOW = 3
PURGED_KEYS = 3

_GROUPED = Relation(group=True)


@dataclass(frozen=True, slots=True)
class Subscriber:
    node: str
    client: str
    selector: str
    kind: str
    """`cluster`, `all`, `never`, `duplicate`, `covered`, `covering`."""
    cluster: int | None
    symbols: tuple[str, ...]
    """That it gets quotes of."""
    removed: bool = False
    slow: bool = False


class MadeMesh:
    def __init__(self, symbols: Sequence[str], random: random.Random) -> None:
        self._symbols = symbols
        self._subscribers = list(_subscribers(symbols, random))
        self._events = 0
        self._seqs: Counter[str] = Counter()
        self._time_ns: Counter[str] = Counter()

    def tick(self, tick: int, ticks: int, end_ns: int, count: int) -> list[Packet]:
        """What is told in a tick in which so many events were published."""
        self._events += count
        told: dict[str, list[tuple[str, Attributes, bool]]] = {node: [] for node in (*BROKERS, LOGGER)}
        for each in self._subscribers:
            if tick == 0:
                told[each.node].append(_subscription(each, "added"))
            elif tick == ticks // 2 and each.removed:
                told[each.node].append(_subscription(each, "removed"))
        interval = max(ticks // SAMPLES, 1)
        if tick % interval == interval - 1 or tick == ticks - 1:
            for node, items in told.items():
                items += self._sampled(node, (tick + 1) / ticks, end_ns)
        return [self._packet(node, items, end_ns) for node, items in told.items() if items]

    def _sampled(self, node: str, share: float, end_ns: int) -> Iterator[tuple[str, Attributes, bool]]:
        events = self._events
        sample: Attributes = {
            "type": "sample", "node": node, "role": "logger" if node == LOGGER else "broker", "status": "member",
            "version": "0.1.0", "mesh": f"tcp://{node}:7401", "interval_s": 5.0, "uptime_s": round(600 * share, 3),
            "members": [*BROKERS, LOGGER], "members_count": len(BROKERS) + 1, "trouble": [], "loop_busy": 0.25,
            "events_published": int(events * BROKERS.get(node, 0)), "events_delivered": events,
            "packets_repaired": events * REPAIR_LOAD[node] // 10_000,
            "latency_delivered_p50_ms": 5.0, "latency_delivered_p99_ms": 50.0,
        }  # fmt: skip
        if node == LOGGER:
            sample |= {"events_stored": events, "latency_logged_p50_ms": 52.0, "latency_logged_p99_ms": 102.0}
            yield f"sample/{node}", sample, False
            return
        for way in ("late", "gossip", "logger"):
            sample[f"repaired_{way}"] = sum(
                events * per // 10_000 for (each, _), per in REPAIRED.items() if each == way
            )
        sample |= {f"purged_{hop}_obsolete": events * per // 10_000 for hop, per in PURGED.items()}
        yield f"sample/{node}", sample, False
        for (way, rounds), per in REPAIRED.items():
            repair: Attributes = {"way": way, "rounds": rounds, "events": events * per // 10_000}
            yield f"repair/{node}/{way}/{rounds}", {"type": "repair", "node": node, **repair}, False
        for place in range(1, PURGED_KEYS + 1):
            purge: Attributes = {
                "place": place, "hop": "queue", "reason": "obsolete", "group": "default",
                "key": self._symbols[place - 1], "events": 10 * (PURGED_KEYS + 1 - place),
            }  # fmt: skip
            yield f"purge/{node}/{place}", {"type": "purge", "node": node, **purge}, False
        for peer in (*BROKERS, LOGGER):
            if peer != node:
                link: Attributes = {
                    "peer": peer, "rtt_ms": 0.8, "queued_bytes": 0, "waiting_events": 0, "in_flight_bytes": 0,
                }  # fmt: skip
                yield f"link/{node}/{peer}", {"type": "link", "node": node, **link}, False
        for each in self._subscribers:
            if each.node == node and not (each.removed and share > 0.5):
                matched = events * len(each.symbols) // len(self._symbols)
                spared = int(matched * SLOW_SHARE) if each.slow else 0
                consumer: Attributes = {
                    "client": each.client, "subscription": 1, "group": "default", "delivered": matched - spared,
                    "obsoleted": spared, "left": 0, "lost": 0, "queued": 500 if each.slow else 0,
                    "queued_bytes": 50_000 if each.slow else 0, "oldest_s": 12.5 if each.slow else 0.0,
                    "behind": each.slow,
                }  # fmt: skip
                yield f"consumer/{node}/{each.client}/1", {"type": "consumer", "node": node, **consumer}, False

    def _packet(self, node: str, items: list[tuple[str, Attributes, bool]], end_ns: int) -> Packet:
        contents = []
        for key, attributes, over in items:
            self._time_ns[node] = max(self._time_ns[node] + 1, end_ns - 1_000_000)
            contents.append(
                Content(key=key, relation=_GROUPED, time_ns=self._time_ns[node], deleted=over, attributes=attributes)
            )
        stream = anonymous_stream(SYSTEM_GROUP, f"{node}-1-telemetry", 0)
        first = self._seqs[node]
        self._seqs[node] += len(contents)
        return pack(stream, first, contents)

    def truth(self, keys: Counter[tuple[str, str]], group: str) -> dict[str, Any]:
        """With how often each symbol came: what each selector matches of the group, and what all of it counts to."""
        events = self._events
        return {
            "telemetry": sum(self._seqs.values()),
            "brokers": dict(BROKERS),
            "repaired": [
                {"way": way, "rounds": rounds, "events": len(BROKERS) * (events * per // 10_000)}
                for (way, rounds), per in REPAIRED.items()
            ],
            "repair_load": {node: events * per // 10_000 for node, per in REPAIR_LOAD.items()},
            "purged": {hop: len(BROKERS) * (events * per // 10_000) for hop, per in PURGED.items()},
            "slow": [each.client for each in self._subscribers if each.slow],
            "subscriptions": [
                {
                    "node": each.node,
                    "client": each.client,
                    "subscription": 1,
                    "selector": each.selector,
                    "kind": each.kind,
                    "cluster": each.cluster,
                    "removed": each.removed,
                    "matches": sum(keys[group, symbol] for symbol in each.symbols),
                }
                for each in self._subscribers
            ],
        }


def _subscribers(symbols: Sequence[str], random: random.Random) -> Iterator[Subscriber]:
    nodes = list(BROKERS)
    found: list[tuple[str, str, int | None, Sequence[str]]] = []
    for cluster in range(CLUSTERS):
        interest = [symbols[CLUSTERS * n + cluster] for n in range(CLUSTER_SYMBOLS)]
        for _ in range(CLUSTER_SUBSCRIBERS):
            asked = sorted(random.sample(interest, ASKED_SYMBOLS))
            found.append((_in(asked), "cluster", cluster, asked))
    expensive = [symbol for symbol in symbols if int(symbol[1:]) >= 100]
    found += [
        ("", "all", None, symbols),
        ("symbol = 'NONE'", "never", None, ()),
        ("symbol IN ('S150', 'S151')", "duplicate", None, ("S150", "S151")),
        ("symbol IN ('S151', 'S150')", "duplicate", None, ("S150", "S151")),
        ("price >= 100", "covering", None, expensive),
        ("price >= 150", "covered", None, [symbol for symbol in expensive if int(symbol[1:]) >= 150]),
    ]
    for number, (text, kind, where, wanted) in enumerate(found):
        yield Subscriber(
            nodes[number % len(nodes)],
            f"client-{number:03}",
            str(Selector(text)),
            kind,
            where,
            tuple(wanted),
            removed=number % 10 == 9 and number // 10 < REMOVED,
            slow=number % 16 == 5 and number // 16 < SLOW,
        )


def _in(symbols: Sequence[str]) -> str:
    return f"symbol IN ({', '.join(repr(symbol) for symbol in symbols)})"


def _subscription(each: Subscriber, action: str) -> tuple[str, Attributes, bool]:
    attributes: Attributes = {
        "type": "subscription", "node": each.node, "action": action, "client": each.client, "subscription": 1,
        "group": "default", "selector": each.selector, "buffer": 1_024, "policy": "eager", "order": "fifo",
        "durable": None,
    }  # fmt: skip
    return f"subscription/{each.node}/{each.client}/1", attributes, action == "removed"
