"""What a member tells of itself: ordinary events in the group `$sys`, from a stream of its own.

    sample         how it is: every `interval_s`, the newest in place of the last
    session        a client has come or gone                      } soon after it happened,
    subscription   added, changed or removed, with its selector   } with a tombstone at the end
    consumer       how far a subscription is, of those that most need a look
    wait           a publisher that waits for a subscription (back-pressure), with a tombstone at the end
    link           round trip and queue of the links that most need a look
    repair         how many events were repaired, by way and rounds
    purge          which keys were purged most

docs/telemetry.md has every attribute. Each has a key in the scope of the group, so that the newest of every thing is
what `start="last_per_key"` shows, whichever life of which member it is from. What is told never depends on how much is
told: events of `$sys` are counted apart, and there are so many an interval at most, so telemetry does not feed on
itself.
"""

import platform
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_hexdigest

from gossamer.broker.journal import Change, Journal
from gossamer.messages.event import KEY_LENGTH_MAX, Attributes, Content, Relation
from gossamer.messages.ids import SYSTEM_GROUP, StreamId, anonymous_stream
from gossamer.protocol.config import Config
from gossamer.protocol.inputs import Publish

if TYPE_CHECKING:
    from gossamer.broker.runtime import Runtime

INTERVAL_S = 5.0
TELL_S = 1.0
"""So soon a change is told, at the latest."""
CHANGES_MAX = 512
"""So many at a time; the rest the next."""
CONSUMERS_MAX = 64
WAITS_MAX = 64
LINKS_MAX = 32
KEYS_MAX = 16
NAMES_MAX = 200
TEXT_MAX = 500
RATES = (
    "events_published", "events_delivered", "events_matched", "bytes_published", "bytes_sent", "bytes_received",
    "bytes_delivered",
)  # fmt: skip
NEVER = float("inf")

_GROUPED = Relation(group=True)


def _clock_id() -> str:
    """A name of this machine's wall clock: containers on one machine have it in common, and so share its errors."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        boot = platform.node()
    return xxh3_64_hexdigest(boot.encode())


CLOCK = _clock_id()


def gossamer_version() -> str:
    try:
        return version("gossamer")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"


class Telemetry:
    """One member's; everything runs in the node's thread."""

    def __init__(self, runtime: "Runtime", incarnation: int, interval_s: float) -> None:
        self.interval_s = interval_s
        self.journal = Journal() if interval_s > 0 else Journal(0)
        self.due = NEVER
        """When there is something to tell; never, if it is switched off."""
        self._runtime = runtime
        self._issuer = f"{runtime.name[:150]}-{incarnation}-telemetry"
        self._number = 0
        self.stream: StreamId = anonymous_stream(SYSTEM_GROUP, self._issuer, 0)
        self._started_at = time.monotonic()
        self._sampled_at = NEVER
        self._sample_at = NEVER
        self._before: dict[str, int] = {}
        self._latencies: dict[str, list[int]] = {}
        self._busy_s = 0.0
        self._told: dict[str, Attributes] = {}
        """What is there to be said at the end: things of which the newest is not a tombstone."""
        self._consumers: dict[int, tuple[int, ...]] = {}
        self._waits: dict[str, Attributes] = {}
        """Publishers that waited at the last sample."""
        self._repairs: dict[tuple[str, int], int] = {}
        self._lost: list[str] = []
        """The members that the last sample named as lost."""
        self._time_ns = 0

    def start(self, now: float) -> None:
        if self.interval_s > 0:
            self._sampled_at = self._started_at
            self.due = self._sample_at = now

    def on_member(self, now: float) -> None:
        """Somebody has come, who has not heard of us: it hears of us soon, and not after an interval."""
        if self._sample_at < NEVER:
            self._sample_at = min(self._sample_at, max(now, self._sampled_at + TELL_S))
            self.due = min(self.due, self._sample_at)

    # Telling --------------------------------------------------------------------------------------------------------

    def on_due(self, now: float) -> Iterator[Publish]:
        """What is to be published now."""
        self.due = min(now + TELL_S, max(self._sample_at, now))
        node = self._runtime.node
        if node.membership.status != "member" or node.sender.bytes >= node._ctx.config.send_buffer_bytes_max:
            self.due = now + TELL_S
            return
        contents = self._changed(CHANGES_MAX)
        lost = sorted(self._runtime.lost())[:NAMES_MAX]
        if now >= self._sample_at or lost != self._lost:
            self._lost = lost
            self._sample_at = now + self.interval_s
            contents += [self._content(key, attributes) for key, attributes in self._sampled(now)]
            contents += self._waits_sampled()
            self._sampled_at = now
        self.due = min(now + TELL_S, self._sample_at)
        if contents:
            yield Publish(self.stream, tuple(contents))

    def on_refused(self, open: bool) -> None:
        """There was no room; or the others took us for dead and have closed our stream: then begin another."""
        if open:
            return
        self._number += 1
        self.stream = anonymous_stream(SYSTEM_GROUP, self._issuer, self._number)

    def farewell(self) -> Iterator[Publish]:
        """All that was said of things here is over."""
        if self.interval_s > 0 and self._runtime.node.membership.status == "member":
            self.due = NEVER
            for key, change in self.journal.take(len(self.journal)).items():
                self._told[key] = change.attributes
            told = list(self._told.items())
            for at in range(0, len(told), CHANGES_MAX):
                chunk = [(key, Change(attributes, True)) for key, attributes in told[at : at + CHANGES_MAX]]
                yield Publish(self.stream, tuple(self._content(key, *change) for key, change in chunk))
            self._told.clear()

    def _changed(self, count: int) -> list[Content]:
        contents: list[Content] = []
        for key, change in self.journal.take(count).items():
            contents.append(self._content(key, *change))
            consumer = key.replace("subscription", "consumer", 1)
            if change.over and consumer in self._told:
                contents.append(self._content(consumer, self._told[consumer], True))
        return contents

    def _content(self, key: str, attributes: Attributes, over: bool = False) -> Content:
        if over:
            self._told.pop(key, None)
            attributes = {**attributes, "action": attributes.get("action", "gone")}
        else:
            self._told[key] = attributes
        self._time_ns = max(self._time_ns + 1, time.time_ns())
        return Content(
            key=key[:KEY_LENGTH_MAX], relation=_GROUPED, time_ns=self._time_ns, deleted=over, attributes=attributes
        )

    # Samples --------------------------------------------------------------------------------------------------------

    def _sampled(self, now: float) -> Iterator[tuple[str, Attributes]]:
        name = self._runtime.name
        yield f"sample/{name}", self.sample(now)
        yield from self._consumers_sampled()
        yield from self._links_sampled()
        yield from self._tallied()

    def sample(self, now: float) -> Attributes:
        """How this member is, since the last one."""
        runtime = self._runtime
        totals = {**runtime.counters.flat(), **figures(runtime)}
        elapsed_s = max(now - self._sampled_at, 1e-3)
        known = [member.node for member in runtime.members if member.status == "member"]
        attributes: Attributes = {
            "type": "sample",
            "node": runtime.name,
            "role": runtime.role,
            "status": runtime.status,
            "version": gossamer_version(),
            "mesh": runtime.address,
            "url": None if runtime.clients is None else runtime.clients.address,
            "http": runtime.http,
            "interval_s": self.interval_s,
            "clock": CLOCK,
            "orders": orders_of(runtime.node._ctx.config),
            "uptime_s": round(now - self._started_at, 3),
            "members": sorted(known)[:NAMES_MAX],
            "members_count": len(known),
            "members_lost": self._lost,
            "trouble": [reason[:TEXT_MAX] for reason in runtime.trouble()],
            "warnings": [reason[:TEXT_MAX] for reason in runtime.warnings()],
            "changes_untold": self.journal.untold,
            "loop_busy": round(min(1.0, (runtime.busy_s - self._busy_s) / elapsed_s), 4),
        }
        if runtime.store is not None:
            attributes["store"] = runtime.store.url
        self._busy_s = runtime.busy_s
        attributes |= totals
        if runtime.clients is not None and (interests := runtime.clients.interests):
            attributes["interests"] = [interest.name for interest in interests][:NAMES_MAX]
            attributes["interests_hash"] = xxh3_64_hexdigest(repr(interests).encode())
        for each in RATES:
            attributes[f"{each}_per_s"] = round((totals[each] - self._before.get(each, 0)) / elapsed_s, 3)
        for each, histogram in runtime.latencies.items():
            before = self._latencies.get(each)
            for share in (50, 99):
                bound = histogram.quantile(share / 100, before)
                if bound is not None:
                    attributes[f"latency_{each}_p{share}_ms"] = 1e3 * min(bound, 2 * histogram.bounds[-1])
            self._latencies[each] = list(histogram.counts)
        self._before = totals
        return attributes

    def _consumers_sampled(self) -> list[tuple[str, Attributes]]:
        """Of the subscriptions that had something to do, those that need a look first."""
        clients = self._runtime.clients
        if clients is None:
            return []
        found: list[tuple[tuple[bool, int, int], str, Attributes]] = []
        seen: dict[int, tuple[int, ...]] = {}
        for each in clients.consumers():
            figures = (each["delivered"], each["obsoleted"], each["lost"], each["queued"], each["blocking"])
            seen[each["number"]] = figures
            before = self._consumers.get(each["number"], (0, 0, 0, 0, False))
            if figures != before:
                attributes: Attributes = {"type": "consumer", "node": self._runtime.name, **each}
                del attributes["number"]
                slow = each["behind"] or each["blocking"]
                need = (slow, each["queued"], figures[1] + figures[2] - before[1] - before[2])
                found.append((need, f"consumer/{_thing(attributes)}", attributes))
        self._consumers = seen
        found.sort(key=lambda each: each[0], reverse=True)
        return [(key, attributes) for _, key, attributes in found[:CONSUMERS_MAX]]

    def _waits_sampled(self) -> list[Content]:
        """Publishers that wait for a subscription, the longest wait first, and tombstones of waits that are over."""
        clients, name = self._runtime.clients, self._runtime.name
        waits = sorted(clients.waits() if clients is not None else (), key=lambda wait: -wait["waited_s"])
        now: dict[str, Attributes] = {
            f"wait/{name}/{wait['client']}": {"type": "wait", "node": name, **wait} for wait in waits[:WAITS_MAX]
        }
        over = {key: attributes for key, attributes in self._waits.items() if key not in now}
        self._waits = now
        return [self._content(*each) for each in now.items()] + [self._content(*each, True) for each in over.items()]

    def _links_sampled(self) -> list[tuple[str, Attributes]]:
        links = sorted(links_of(self._runtime), key=lambda link: (link["queued_bytes"], link["rtt_ms"] or 0.0))
        name = self._runtime.name
        return [(f"link/{name}/{link['peer']}", {"type": "link", "node": name, **link}) for link in links[-LINKS_MAX:]]

    def _tallied(self) -> Iterator[tuple[str, Attributes]]:
        name, tally = self._runtime.name, self._runtime.node.tally
        if self._runtime.clients is not None:
            self._runtime.clients.name_obsolete()
        for (way, rounds), events in tally.repaired.items():
            if self._repairs.get((way, rounds)) != events:
                self._repairs[way, rounds] = events
                told = {"way": way, "rounds": rounds, "events": events}
                yield f"repair/{name}/{way}/{rounds}", {"type": "repair", "node": name, **told}
        for place, ((hop, group, key), events) in enumerate(tally.purged_keys.most_common(KEYS_MAX), 1):
            of: Attributes = {"hop": hop, "reason": "obsolete", "group": group, "key": key, "events": events}
            yield f"purge/{name}/{place}", {"type": "purge", "node": name, "place": place, **of}
        tally.purged_keys.clear()


def _thing(attributes: Attributes) -> str:
    return f"{attributes['node']}/{attributes['client']}/{attributes['subscription']}"


def figures(runtime: "Runtime") -> dict[str, int]:
    """What is counted or kept elsewhere than in the counters, by the names it has in samples."""
    node = runtime.node
    waiting = node.links.waiting().values()
    found = {
        "streams": len(node.receiver.streams),
        "streams_published": len(node.sender.streams),
        "streams_incomplete": node.repair.incomplete,
        "held_bytes": node.receiver.held_bytes,
        "gossip_buffer_bytes": node.buffer.bytes,
        "send_buffer_bytes": node.sender.bytes,
        "unlogged_oldest_ms": int(1e3 * node.sender.oldest_s(time.monotonic())),
        "links_queued_bytes": runtime.queued_bytes,
        "links_waiting_events": sum(events for events, _ in waiting),
        "links_waiting_bytes": sum(size for _, size in waiting),
        "backlog": runtime.backlog,
        "rounds": node._ctx.round,
    }
    for way in ("late", "gossip", "logger"):
        found[f"repaired_{way}"] = 0
    for (way, _), events in node.tally.repaired.items():
        found[f"repaired_{way}"] += events
    for (hop, why), events in node.tally.purged.items():
        found[f"purged_{hop}_{why}"] = events
    if runtime.order is not None:
        found |= runtime.order.figures()
    if runtime.clients is not None:
        found |= runtime.clients.figures()
    if runtime.store is not None:
        lacking = node.lacking()
        found |= {"streams_behind": len(lacking), "events_lacking": sum(lacking.values())}
        found |= {f"store_{name}": value for name, value in runtime.store.figures().items()}
    return found


def orders_of(config: Config) -> list[str]:
    """The groups that have an order, and who agrees on it: what all members should have been told alike."""
    orders = [f"{name}={group.order}" for name, group in sorted(config.groups.items()) if group.order != "fifo"]
    if any(group.order == "total" for group in config.groups.values()):
        orders.append(f"agreed by {', '.join(sorted(config.agreed_by)) or 'nobody'}")
    return orders


def links_of(runtime: "Runtime") -> Iterable[dict[str, Any]]:
    """Each link that is in use: to whom, how far away that is, and what waits."""
    rtts, waiting = runtime.node.selection.rtt_s, runtime.node.links.waiting()
    for peer, queued_bytes, in_flight_bytes in runtime.links():
        events, size = waiting.get(peer, (0, 0))
        rtt_s = rtts.get(peer)
        yield {
            "peer": peer,
            "rtt_ms": None if rtt_s is None else round(1e3 * rtt_s, 3),
            "queued_bytes": queued_bytes + size,
            "waiting_events": events,
            "in_flight_bytes": in_flight_bytes,
        }
