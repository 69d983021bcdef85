"""A log that was never published, with known answers: what every analysis of a log can be tested against.

Publishers and symbols are Zipf's: the n-th of them has a share of 1/n^s. Each publisher chooses the symbol of its next
event independently of those before, and the symbol is the event's key; so with p the shares of the symbols, the next
event of the same key comes x events later with probability

    f(x) = Σ p² (1 - p)^(x - 1)

(the distances of 000 §5.1), and how many there were of each distance is counted as they are made.

Into that are planted: a gap, a publisher that falls silent, one whose clock is ahead, a key that has a large share of a
group, the interests of subscribers in clusters, and a few selectors that are worth a remark. Members tell of themselves
as they do in `$sys` (docs/telemetry.md); what they count is made up, and told in the truth as well.

Time goes in ticks. All that is published in one is logged by one commit, `LOGGED_NS` after its last event.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from gossamer.lab.made_mesh import MadeMesh
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import StreamId, anonymous_stream, named_stream
from gossamer.messages.packet import EVENTS_MAX, Packet, encode_content, pack_encoded

BEGIN_NS = 1_794_873_600 * 10**9
"""2026-11-17, midnight."""
LOGGED_NS = 2_000_000
SPREAD_NS = 100_000_000
"""The events of a tick are published within this time, or the tick if that is shorter."""
SECONDS = 600
TICK_EVENTS = 2_000
TICKS_MIN, TICKS_MAX = 120, 5_000
PUBLISHERS = 24
SYMBOLS = 200
ZIPF = 1.1
DISTANCES_MAX = 1_024
"""What is further apart is counted as that."""
UNKEYED_EVERY = 10
"""Of the events of the group `audit`, which nothing makes obsolete."""

QUOTES, ORDERS, AUDIT = "default", "orders", "audit"
HOT_KEY, HOT_SHARE = "ORD-HOT", 0.5
ORDER_KEYS = 100
SILENT_AT, GAP_AT = 0.6, 0.4
GAP_EVENTS = 7
AHEAD_NS = 30 * 10**9


@dataclass(slots=True)
class Publisher:
    stream: StreamId
    name: str
    """As analytics calls it: the name of a named one, else its issuer."""
    group: str
    share: float
    ahead_ns: int = 0
    silent_at: float = 2.0
    gap: bool = False
    next: int = 0
    events: int = 0
    bytes: int = 0
    last_ns: int = 0
    newest: dict[str, int] = field(default_factory=dict)


class MadeLog:
    """Iterated once: `(logged_ns, packets)` a tick; then `truth()` tells what is in it."""

    def __init__(self, events: int, seed: int = 0, seconds: float = SECONDS) -> None:
        if events < 1 or seconds <= 0:
            raise UsageError("a log has at least one event, and takes some time")
        self.events = events
        self._random = random.Random(f"made log {seed}")
        self.seed = seed
        self.ticks = max(TICKS_MIN, min(TICKS_MAX, events // TICK_EVENTS))
        self.tick_ns = int(seconds * 1e9) // self.ticks
        self._publishers = _publishers()
        self._symbols = [f"S{number:03}" for number in range(SYMBOLS)]
        self._orders = [HOT_KEY, *(f"ORD-{number:03}" for number in range(1, ORDER_KEYS))]
        self._symbol_weights = list(accumulate(_zipf(SYMBOLS)))
        self._order_weights = list(accumulate([HOT_SHARE, *[(1 - HOT_SHARE) / (ORDER_KEYS - 1)] * (ORDER_KEYS - 1)]))
        self.keys: Counter[tuple[str, str]] = Counter()
        self.distances: Counter[int] = Counter()
        self.made = 0
        self.missing = 0
        self._gaps: list[dict[str, Any]] = []
        self.mesh = MadeMesh(self._symbols, self._random)

    def __iter__(self) -> Iterator[tuple[int, list[Packet]]]:
        weights = list(accumulate(each.share for each in self._publishers))
        for tick in range(self.ticks):
            share = tick / self.ticks
            end_ns = BEGIN_NS + (tick + 1) * self.tick_ns
            count = self.events * (tick + 1) // self.ticks - self.made
            chosen = Counter(self._random.choices(range(len(weights)), cum_weights=weights, k=count))
            packets: list[Packet] = []
            for index, several in sorted(chosen.items()):
                publisher = self._publishers[index]
                if share >= publisher.silent_at:  # what it would have said is said by the first
                    publisher = self._publishers[0]
                if publisher.gap and share >= GAP_AT and not any(g["stream"] == publisher.stream for g in self._gaps):
                    gap = {"stream": publisher.stream, "first": publisher.next, "last": publisher.next + GAP_EVENTS - 1}
                    self._gaps.append({**gap, "publisher": publisher.name, "group": publisher.group})
                    publisher.next += GAP_EVENTS
                packets += [
                    self._packet(publisher, min(EVENTS_MAX, several - at), end_ns)
                    for at in range(0, several, EVENTS_MAX)
                ]
            self.made += count
            packets += self.mesh.tick(tick, self.ticks, end_ns, count)
            yield end_ns, packets

    def _packet(self, publisher: Publisher, count: int, end_ns: int) -> Packet:
        width_ns = min(SPREAD_NS, self.tick_ns - LOGGED_NS)
        last_ns = end_ns - LOGGED_NS + publisher.ahead_ns
        begin_ns = max(last_ns - width_ns, publisher.last_ns + 1)
        step_ns = max((last_ns - begin_ns) // count, 1)
        first = publisher.next
        encoded = list(self._events(publisher, count, begin_ns + step_ns, step_ns))
        publisher.last_ns = begin_ns + step_ns * count
        publisher.next += count
        publisher.events += count
        publisher.bytes += sum(map(len, encoded))
        return pack_encoded(publisher.stream, first, encoded)

    def _events(self, publisher: Publisher, count: int, time_ns: int, step_ns: int) -> Iterator[bytes]:
        """Encoded, each `step_ns` after the one before."""
        seq = publisher.next
        if publisher.group == AUDIT:
            for at in range(count):
                told = {"type": "audit", "user": f"u{(seq + at) % 17}", "ok": (seq + at) % UNKEYED_EVERY > 0}
                yield encode_content((None, None, None, time_ns + at * step_ns, False, told, b""))
            return
        orders = publisher.group == ORDERS
        keys, weights = (self._orders, self._order_weights) if orders else (self._symbols, self._symbol_weights)
        chosen = self._random.choices(keys, cum_weights=weights, k=count)
        for key, times in Counter(chosen).items():
            self.keys[publisher.group, key] += times
        newest, distances = publisher.newest, self.distances
        for at, key in enumerate(chosen, seq):
            if key in newest:
                distances[min(at - newest[key], DISTANCES_MAX)] += 1
            newest[key] = at
            if orders:
                told = {"type": "order", "order": key, "quantity": 1 + at % 50}
            else:
                told = {
                    "type": "quote",
                    "symbol": key,
                    "price": int(key[1:]) + at % 100 / 100,
                    "volume": 100 + at % 900,
                }
            yield encode_content((key, None, None, time_ns, False, told, b""))
            time_ns += step_ns

    def truth(self) -> dict[str, Any]:
        """What is in the log, now that it is made."""
        assert self.made == self.events, "the log has not been made yet"
        publishers = [each for each in self._publishers if each.events]
        groups = {
            group: {
                "events": sum(each.events for each in publishers if each.group == group),
                "bytes": sum(each.bytes for each in publishers if each.group == group),
            }
            for group in (QUOTES, ORDERS, AUDIT)
        }
        related = sum(self.distances.values())
        # Only the quotes are of the model: of the orders one key has a share of its own.
        return {
            "events": self.made,
            "bytes": sum(each.bytes for each in publishers),
            "seed": self.seed,
            "begin_ns": BEGIN_NS,
            "end_ns": BEGIN_NS + self.ticks * self.tick_ns,
            "tick_ns": self.tick_ns,
            "logged_after_ns": {"min": LOGGED_NS, "max": LOGGED_NS + min(SPREAD_NS, self.tick_ns - LOGGED_NS)},
            "groups": groups,
            "publishers": {
                each.name: {"stream": each.stream, "group": each.group, "events": each.events, "bytes": each.bytes}
                for each in publishers
            },
            "keys": [
                {"group": group, "key": key, "events": events} for (group, key), events in self.keys.most_common(20)
            ],
            "distances": {
                "related": related,
                "keyed": sum(self.keys.values()),
                "counts": {str(x): self.distances[x] for x in sorted(self.distances)},
                "max": DISTANCES_MAX,
                "quotes_model": [quotes_model(x) for x in range(1, 65)],
            },
            "anomalies": {
                "gaps": self._gaps,
                "silent": [
                    {"publisher": each.name, "stream": each.stream, "group": each.group, "last_ns": each.last_ns}
                    for each in publishers
                    if each.silent_at < 1
                ],
                "hot_keys": [{"group": ORDERS, "key": HOT_KEY, "share": HOT_SHARE}],
                "skew": {"publisher": publishers[0].name, "share": publishers[0].events / self.made},
                "clock_offset": [
                    {"publisher": each.name, "stream": each.stream, "ahead_ns": each.ahead_ns}
                    for each in publishers
                    if each.ahead_ns
                ],
            },
            **self.mesh.truth(self.keys, QUOTES),
        }


def quotes_model(x: int) -> float:
    """f(x) of the events of one publisher of quotes."""
    return sum(p * p * (1 - p) ** (x - 1) for p in _zipf(SYMBOLS))


def _zipf(count: int) -> list[float]:
    weights = [rank**-ZIPF for rank in range(1, count + 1)]
    return [weight / sum(weights) for weight in weights]


def _publishers() -> list[Publisher]:
    """By share; two in three publish quotes, and a third of all have no name."""
    found = []
    for number, share in enumerate(_zipf(PUBLISHERS)):
        group = (QUOTES, QUOTES, ORDERS)[number % 3] if number != 10 else AUDIT
        if number % 3 == 1:
            stream = anonymous_stream(group, f"b{number % 2 + 1}-{number}", 0)
            name = stream.rpartition(".")[0]
        else:
            name = f"feed-{number:02}"
            stream = named_stream(group, name)
        found.append(Publisher(stream, name, group, share))
    found[3].gap = True
    found[6].silent_at = SILENT_AT
    found[9].ahead_ns = AHEAD_NS
    return found
