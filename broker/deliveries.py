"""From what a node delivers to what each client is sent, as fast as the matches allow.

Most groups are *plain*: events with a key or without, and none that names others, is part of a transaction or competes
with other publishers for a key. Then what a subscription was last shown of a key follows from whom the last event of
that key matched, and is the same question for all of them: one table for the group (`_Plain`), one comparison an event,
however many subscriptions there are. A subscription that keeps up is sent slices of the publisher's own bytes, encoded
once for all that get the same; only one that does not has a queue to look after.

The first event that is not plain turns its group over to protocol/delivery.py, which asks these questions for each
subscription by itself, and answers them for every kind of event.

A queue that is full of what is not obsolete makes its subscription *fall behind*. It is then read to from a log of what
came since, shared by all that are behind, and is live again when it has come to the end. The log is bounded, too: who
falls out of it goes on from a logger (broker/reading.py), and comes back to the log when it has read up to there. So
does whoever begins in the past, or comes from another broker; for those what came lately is kept, and often enough.
Only in a mesh without loggers is what falls out of the log lost, which is counted, and told (design §4.6).
"""

import random
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from time import time, time_ns
from typing import Any, Protocol

from gossamer.broker.counters import Counters
from gossamer.broker.reading import HELD_BYTES_MAX, NEVER, Piece, Reading, Readings
from gossamer.matching import Index, Selector
from gossamer.matching.stretching import KEYED, LOOSE, RELATED, stretches
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import REACH_MAX, Attributes, Event, Head
from gossamer.messages.ids import SYSTEM_GROUP, EventId, NodeId, StreamId, group_of
from gossamer.messages.packet import Packet, outlines
from gossamer.messages.session import POSITIONS_MAX, Counts, Gap, Items, Notice, Reached, Run, Start, Subscribe, encode
from gossamer.messages.wire import Page, Stretch
from gossamer.protocol.delivery import Arrival, Dispatch, Feed, Intake, Item, arrival_of, slot_of
from gossamer.protocol.inputs import Consult
from gossamer.protocol.purging import Semantic
from gossamer.protocol.replay import Missing, Replay
from gossamer.protocol.shown import DELIVER, Left, Shown, Verdict
from gossamer.protocol.tally import Tally

FEW = 4
LOG_BYTES_MAX = 64 * 2**20
QUEUE_BYTES_MAX = 16 * 2**20
RECENT_STREAMS_MAX = 4_096
SHOWN_STREAMS_MAX = 100_000
"""Publishers come and go; those not heard for longest are forgotten, and what they had shown stays as it is."""
RECENT_BYTES_MAX = 32 * 2**20
RECENT_NS = 60 * 10**9
STALL_NS = 10**8
"""Who takes nothing for so long is not given all that it is read, but what is not obsolete of it."""
SLACK_NS = 10 * 10**9
"""By so much the clocks of brokers and loggers may differ, or one hear of an event later than the other."""
RUNS_MAX = 16
TAKE_EVENTS_MAX = 1_024
TAKE_BYTES_MAX = 1024 * 1024

Had = Callable[[StreamId], bool]
Spans = tuple[tuple[int, int], ...]
"""Places in a packet, `start` to `stop`."""


class Outlet(Protocol):
    """A client's session, as far as deliveries are concerned."""

    @property
    def open(self) -> bool:
        """Whether there is room on the way to it."""

    def deliver(self, frame: bytes) -> None: ...


class Subscriber:
    """One subscription of one client."""

    __slots__ = (
        "_asked",
        "at",
        "feed",
        "granted",
        "group",
        "key",
        "lost",
        "outlet",
        "purges",
        "reading",
        "selector",
        "sent",
        "sub",
        "told",
        "untold",
    )

    def __init__(self, key: int, outlet: Outlet, group: str, wanted: Subscribe, tally: Tally) -> None:
        self.key = key
        self.outlet = outlet
        self.group = group
        self.sub = wanted.sub
        self.selector = Selector(wanted.selector)
        self._asked: Attributes = {
            "buffer": wanted.buffer, "policy": wanted.policy, "order": wanted.order, "durable": wanted.durable,
        }  # fmt: skip
        semantic: Semantic = "lazy" if wanted.policy == "lazy" else "eager" if wanted.policy == "eager" else "off"
        self.purges = semantic != "off"
        rng = random.Random(key) if wanted.policy == "random" else None
        self.feed = Feed(wanted.buffer, QUEUE_BYTES_MAX, semantic=semantic, rng=rng, tally=tally)
        self.granted = wanted.credit
        self.sent = 0
        self.lost = 0
        self.told = (0, 0)
        self.untold = False
        """It is live again, and has not been told so."""
        self.reading: Reading | None = None
        """What it reads first, if it is behind further than the log reaches."""
        self.at: tuple[int, int] | None = None
        """Where in the log it reads on, while it is behind: the batch, and the place in it."""

    def options(self) -> Attributes:
        """What was asked for, for telemetry."""
        return {"selector": str(self.selector), **self._asked}

    def figures(self) -> dict[str, int | float | bool]:
        """How far it is, for telemetry."""
        feed = self.feed
        oldest = next(iter(feed.queue), None)
        came_ns = 0 if oldest is None or oldest.head is None else oldest.head.time_ns
        return {
            "number": self.key,
            "delivered": feed.delivered,
            "obsoleted": feed.obsoleted,
            "left": feed.left,
            "lost": self.lost + feed.lost,
            "queued": len(feed),
            "queued_bytes": feed.queue.bytes,
            "oldest_s": round(max(0.0, time() - came_ns / 1e9), 3) if came_ns else 0.0,
            "behind": feed.behind,
        }

    @property
    def ready(self) -> bool:
        """Whether something that waits could go out now."""
        return self.granted > self.sent and self.outlet.open


class _Plain:
    """What is shown to whom, in a group of plain events."""

    __slots__ = ("before", "recent", "shown")

    def __init__(self) -> None:
        self.shown: dict[StreamId, dict[str, tuple[int, list[int]]]] = {}
        """Of each stream and key, the last seq and whom it matched."""
        self.before: dict[str, tuple[int, list[int]] | None] = {}
        """The same, of the keys that the last packet set, as it was before that packet."""
        self.recent: dict[StreamId, deque[tuple[list[Event], list[list[int]]]]] = {}
        """Of each stream, whom its last events matched, as far back as an event may name others by a bit."""

    def show(
        self, packet: Packet, events: list[Event], matched: list[list[int]], loose: bool
    ) -> dict[int, list[tuple[int, Left]]]:
        """Remember whom these match; returns who is to be told at which place that something has left. None is if they
        are loose, without keys."""
        stream = packet.stream
        recent = self.recent[stream] = self.recent.pop(stream, deque())  # last: it goes last
        recent.append((events, matched))
        if len(self.recent) > RECENT_STREAMS_MAX:
            del self.recent[next(iter(self.recent))]
        while len(recent) > 1 and recent[1][0][0].id[1] <= packet.last - REACH_MAX:  # type: ignore[index]
            recent.popleft()
        leaving: dict[int, list[tuple[int, Left]]] = {}
        if loose:
            self.before = {}
            return leaving
        shown = self.shown[stream] = self.shown.pop(stream, {})
        if len(self.shown) > SHOWN_STREAMS_MAX:
            del self.shown[next(iter(self.shown))]
        before = self.before = {}
        for place, event in enumerate(events):
            key = event.key
            if key is None:
                continue
            keys = matched[place]
            known = shown.get(key)
            before.setdefault(key, known)
            if known is not None:
                if known[1] is keys or known[1] == keys:
                    keys = known[1]
                else:
                    left = Left(key, EventId(stream, known[0]))
                    for gone in set(known[1]).difference(keys):
                        leaving.setdefault(gone, []).append((place, left))
            if keys and not event.deleted:
                shown[key] = event.id[1], keys  # type: ignore[index]
            elif known is not None:
                del shown[key]
        return leaving

    def shown_to(self, key: int, stream: StreamId, events: list[Event], matched: list[list[int]]) -> dict[EventId, str]:
        """All that one subscription was shown, by key, when it had seen so many events of the last packet."""
        found = {
            EventId(each, seq): name
            for each, shown in self.shown.items()
            for name, (seq, keys) in shown.items()
            if key in keys and (each != stream or name not in self.before)
        }
        of_packet = {name: known[0] for name, known in self.before.items() if known is not None and key in known[1]}
        for event, keys in zip(events, matched, strict=False):
            if event.key is not None and event.id is not None:
                of_packet.pop(event.key, None)
                if key in keys and not event.deleted:
                    of_packet[event.key] = event.id.seq
        return found | {EventId(stream, seq): name for name, seq in of_packet.items()}

    def newer(self, arrival: Arrival) -> EventId | None:
        """An event of the same key that came meanwhile."""
        if arrival.head.key is None:
            return None
        known = self.shown.get(arrival.id.stream, {}).get(arrival.head.key)
        return None if known is None or known[0] <= arrival.id.seq else EventId(arrival.id.stream, known[0])

    def take_over(self, key: int, shown: Shown) -> None:
        """A subscription that has caught up: what it was shown before its time here becomes known to all."""
        for id, head in shown.shown():
            if head.key is None or head.relation is not None:
                continue
            at = self.shown.setdefault(id.stream, {})
            known = at.get(head.key)
            if known is None:
                at[head.key] = id.seq, [key]
            elif known[0] == id.seq and key not in known[1]:
                at[head.key] = id.seq, [*known[1], key]


class _Noting(Dispatch[int]):
    """Notes which feeds were offered something."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[int, None] = {}

    def offer(self, key: int, arrival: Arrival, matches: bool) -> bool:
        self.touched[key] = None
        return super().offer(key, arrival, matches)


class _Batch:
    """What came at once, as it is kept for those that are behind."""

    __slots__ = ("_arrivals", "_asked", "_events", "_sizes", "count", "first", "loose", "packet", "size", "stream")

    def __init__(self, packet: Packet | None, events: list[Event], arrivals: list[Arrival] | None = None) -> None:
        self.packet = packet
        self._events: list[Event] | None = events
        self.count = len(events if packet is not None else arrivals or ())
        self._arrivals = arrivals
        self._sizes: list[int] | None = None
        self._asked: tuple[str, list[int]] | None = None
        self.stream, self.first = (packet.stream, packet.first) if packet is not None else self.arrivals[0].id
        self.loose = packet is not None and all(event.key is None for event in events)
        """Nothing in it replaces anything: there is nothing to purge, and no notice to give."""
        self.size = sum(arrival.size for arrival in arrivals or ()) if packet is None else len(packet.blob)

    def rest(self) -> None:
        """It is only kept from now on: what was decoded takes five times the room of its packet, and can be again."""
        if self.packet is not None:
            self._events = self._arrivals = None

    @property
    def events(self) -> list[Event]:
        if self._events is None:
            assert self.packet is not None
            self._events = self.packet.events()
        return self._events

    @property
    def arrivals(self) -> list[Arrival]:
        if self._arrivals is None:
            assert self.packet is not None
            self._arrivals = _arrivals(self.packet, self.events)
        return self._arrivals

    def places(self, selector: Selector) -> list[int]:
        """Where a selector matches. Many read with the same one: the last answer is kept."""
        if self._asked is None or self._asked[0] != str(selector):
            resting = self._events is None
            hits = selector.matches_each([event.attributes for event in self.events])
            if resting:
                self.rest()
            self._asked = str(selector), [place for place, hit in enumerate(hits) if hit]
        return self._asked[1]

    def arrival(self, place: int) -> Arrival:
        """One of them, for who needs few."""
        if self._arrivals is not None:
            return self._arrivals[place]
        if self._sizes is None:
            assert self.packet is not None
            self._sizes = _sizes(self.packet)
        return arrival_of(self.events[place], self._sizes[place])


class _Group:
    """The subscriptions to one group."""

    __slots__ = (
        "attached", "behind", "counters", "dispatch", "index", "intake", "log", "log_bytes", "log_first", "plain",
        "selectors", "sharing",
    )  # fmt: skip

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.index: Index[str] = Index()
        """For when there are more selectors than it takes to be quicker than asking each."""
        self.selectors: dict[int, Selector] = {}
        self.sharing: dict[str, tuple[Selector, dict[int, None]]] = {}
        """By its text, a selector and who has it: it is asked once for all of them."""
        self.dispatch = _Noting()
        self.intake = Intake()
        self.plain: _Plain | None = _Plain()
        self.behind: dict[int, None] = {}
        self.attached: dict[int, None] = {}
        """Those of them that the log is kept for."""
        self.log: deque[_Batch] = deque()
        """What came since somebody is behind."""
        self.log_first = 0
        self.log_bytes = 0

    def select(self, key: int, selector: Selector | None) -> None:
        """A subscription has this selector now, or (None) is over."""
        old = self.selectors.pop(key, None)
        if old is not None:
            sharers = self.sharing[str(old)][1]
            del sharers[key]
            if not sharers:
                del self.sharing[str(old)]
                self.index.remove(str(old))
        if selector is not None:
            self.selectors[key] = selector
            if str(selector) not in self.sharing:
                self.sharing[str(selector)] = selector, {}
                self.index.add(str(selector), selector)
            self.sharing[str(selector)][1][key] = None

    def matched(self, batch: list[Attributes]) -> list[list[int]]:
        """Whom each of these matches: one list for all that match the same."""
        if len(self.sharing) > FEW:
            texts = list(map(tuple, self.index.match_batch(batch)))
            keys = {each: self._sharers(each) for each in set(texts)}
            return [keys[each] for each in texts]
        rows = list(zip(*(selector.matches_each(batch) for selector, _ in self.sharing.values()), strict=True))
        chosen = {row: self._sharers(compress(self.sharing, row)) for row in set(rows)}
        return [chosen[row] for row in rows]

    def _sharers(self, texts: Iterable[str]) -> list[int]:
        return [key for text in texts for key in self.sharing[text][1]]


class Deliveries:
    """All subscriptions at a broker."""

    def __init__(self, log_bytes_max: int = LOG_BYTES_MAX, counters: Counters | None = None) -> None:
        self.counters = counters or Counters()
        self.tally = Tally()
        self.subscribers: dict[int, Subscriber] = {}
        self._log_bytes_max = log_bytes_max
        self._groups: dict[str, _Group] = {}
        self._keys = 0
        self._delivered: dict[StreamId, int] = {}
        self._moved: dict[StreamId, int] = {}
        """How far each stream has been passed on: as it was some time ago, and what has changed since."""
        self._moves: deque[tuple[int, dict[StreamId, int]]] = deque()
        """What changed lately, and up to when."""
        self._recent: deque[tuple[int, Packet]] = deque()
        self._recent_bytes = 0
        self._born_ns = self._recent_since_ns = time_ns()
        """All that came after this is among what came lately."""
        self.readings = Readings()
        self.known: Callable[[], Iterable[tuple[StreamId, int]]] = lambda: ()
        """All streams of the mesh, and where this broker began to hear each of them."""
        self.has_loggers: Callable[[], bool] = lambda: False
        self._waiting: dict[int, None] = {}
        """Who may have something to be sent, once there is credit and room."""
        self._runs: dict[tuple[StreamId, int, Spans, int], bytes] = {}
        self._vetted: tuple[Packet | None, list[Event]] = (None, [])
        """What was decoded last, so that a client's packet is decoded once, however it is used."""

    # Subscriptions --------------------------------------------------------------------------------------------------

    def add(self, outlet: Outlet, group: str, wanted: Subscribe, had: Had | None = None) -> Subscriber:
        """A new subscription; `SelectorError` if its selector is wrong. `had` tells of streams that its beginning does
        not name whether it has had them."""
        self._keys += 1
        subscriber = Subscriber(self._keys, outlet, group, wanted, self.tally)
        at = self._groups.get(group)
        if at is None:  # telemetry does not count itself
            at = self._groups[group] = _Group(Counters() if group == SYSTEM_GROUP else self.counters)
        at.select(subscriber.key, subscriber.selector)
        at.dispatch.add(subscriber.key, subscriber.feed)
        self.subscribers[subscriber.key] = subscriber
        if wanted.start is not None:
            try:
                self.begin(subscriber, wanted.start, had)
            except UsageError:
                self.remove(subscriber)
                raise
        else:
            reached = Reached((wanted.sub,), time_ns(), self._lately(group))
            outlet.deliver(encode(reached))
        return subscriber

    def _lately(self, group: str) -> dict[StreamId, int]:
        """How far streams are that moved so lately that another broker could think that they moved just now."""
        found: dict[StreamId, int] = {}
        for _, moved in (*self._moves, (0, self._moved)):
            found |= {stream: last for stream, last in moved.items() if stream.startswith(f"{group}/")}
        return dict(list(found.items())[-POSITIONS_MAX:])

    def begin(self, subscriber: Subscriber, start: Start, had: Had | None = None) -> None:
        """A subscription that is new here goes on from there, and not with what comes next."""
        group, key, positions = self._groups[subscriber.group], subscriber.key, start.positions
        resumes = bool(start.since_ns) and not start.published_ns and not start.latest
        has_loggers = self.has_loggers()
        if not resumes and not has_loggers:
            raise UsageError("there is no logger in this mesh, so there is nothing but what comes from now on")
        for id, head in start.shown:  # by another broker
            if group.plain is not None:
                subscriber.feed.shown.on_event(id, head, True, False)
            else:
                group.dispatch.preset(key, id, head)
        since_ns = max(1, start.since_ns - SLACK_NS) if start.since_ns else 0
        subscriber.feed.behind = True
        group.behind[key] = self._waiting[key] = None
        subscriber.reading = reading = Reading(key, subscriber.group, str(subscriber.selector), positions)
        if start.latest:
            positions = self.delivered(subscriber.group)
            since_ns = max(time_ns() - SLACK_NS, self._born_ns)
        if has_loggers and not (resumes and self._remembers(subscriber.group, positions, since_ns)):
            reading.replay = Replay(positions, since_ns, published_ns=start.published_ns, latest=start.latest, had=had)
            reading.moves = int(start.latest and bool(start.shown))
            self.readings.add(reading)
            return
        self._attach(group, subscriber)
        reached = dict(positions)
        for stretch in self._recalled(subscriber, positions, since_ns):
            position = reached.get(stretch.stream)
            if position is not None and stretch.first > position + 1:
                reading.put(Missing(stretch.stream, position + 1, stretch.first - 1, True))
            reading.put(Piece(stretch if position is None else stretch.beyond(position), True))
            reached[stretch.stream] = stretch.last

    def _recalled(self, subscriber: Subscriber, positions: Mapping[StreamId, int], since_ns: int) -> list[Stretch]:
        """What came lately, beyond these positions, and of other streams since then."""
        rows = []
        for came_ns, packet in self._recent:
            if group_of(packet.stream) == subscriber.group:
                last = positions.get(packet.stream)
                if came_ns >= since_ns if last is None else packet.last > last:
                    rows.append((0, packet))
        return stretches(rows, subscriber.selector)[0]

    def _remembers(self, group: str, positions: Mapping[StreamId, int], since_ns: int) -> bool:
        """Whether what came lately is all that one who was there has missed."""
        if since_ns < self._recent_since_ns:
            return False
        firsts: dict[StreamId, int] = {}
        for _, packet in self._recent:
            firsts.setdefault(packet.stream, packet.first)
        delivered = self.delivered(group)
        return all(
            delivered.get(stream, -1) <= last or firsts.get(stream, last + 2) <= last + 1
            for stream, last in positions.items()
        )

    def delivered(self, group: str) -> dict[StreamId, int]:
        """How far each stream of a group has been passed on here; of those that were silent, where they began."""
        prefix = f"{group}/"
        found = {stream: last for stream, last in self.known() if stream.startswith(prefix)}
        for each in (self._delivered, self._moved):
            found |= {stream: last for stream, last in each.items() if stream.startswith(prefix)}
        return found

    def update(self, subscriber: Subscriber, selector: str) -> None:
        """From the next event on it is the new selector that counts; what is shown stays so until it is obsolete."""
        subscriber.selector = Selector(selector)
        if subscriber.reading is not None:
            subscriber.reading.change(str(subscriber.selector))
        self._groups[subscriber.group].select(subscriber.key, subscriber.selector)

    def remove(self, subscriber: Subscriber) -> None:
        key, group = subscriber.key, self._groups[subscriber.group]
        group.select(key, None)
        group.dispatch.remove(key)
        group.behind.pop(key, None)
        self._detach(group, subscriber)
        self.readings.remove(key)
        self._waiting.pop(key, None)
        del self.subscribers[key]
        if not group.selectors:
            del self._groups[subscriber.group]

    def grant(self, subscriber: Subscriber, total: int) -> None:
        """The client takes so many in all; or there is room again."""
        subscriber.granted = max(subscriber.granted, total)
        if len(subscriber.feed) or subscriber.feed.behind:
            self._waiting[subscriber.key] = None

    # Telemetry ------------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, int]:
        waiting = self._queued()
        return {
            "subscriptions_behind": sum(len(group.behind) for group in self._groups.values()),
            "queued_events": sum(len(each.feed) for each in waiting),
            "queued_bytes": sum(each.feed.queue.bytes for each in waiting),
            "behind_log_bytes": sum(group.log_bytes for group in self._groups.values()),
            "subscriptions_reading": len(self.readings),
            "pages_read": self.readings.pages,
            "pages_failed": self.readings.failures,
        }

    def consumers(self, count: int) -> list[Subscriber]:
        """All subscriptions if they are no more than `count`, or those for which something waits."""
        if len(self.subscribers) <= count:
            return list(self.subscribers.values())
        return self._queued()[:count]

    def _queued(self) -> list[Subscriber]:
        return [each for each in self.subscribers.values() if len(each.feed)]

    # What the node delivers -----------------------------------------------------------------------------------------

    def vet(self, packet: Packet) -> None:
        """Refuse, with `PeerError`, a client's packet that would make trouble wherever it gets to."""
        self._vetted = packet, packet.vetted()

    def on_packet(self, packet: Packet) -> None:
        self._keep(packet)
        group = self._groups.get(group_of(packet.stream))
        if group is None:
            self._moved[packet.stream] = packet.last
            return
        if group.plain is not None:
            vetted, events = self._vetted
            if vetted is not packet:
                events = packet.events()
            if all(event.relation is None for event in events):
                if events:  # a packet may be marks and nothing else
                    self._on_plain(group, group.plain, packet, events)
                self._moved[packet.stream] = packet.last
                return
            self._leave_plain(group, group.plain)
        self._on_intake(group, packet.stream, packet.last, group.intake.on_packet(packet))

    def _on_intake(self, group: _Group, stream: StreamId, last: int, arrivals: list[Arrival]) -> None:
        if arrivals:
            self._on_arrivals(group, arrivals)
            self._moved[stream] = arrivals[-1].id.seq
        if stream not in group.intake.assembler:
            self._moved[stream] = last  # otherwise something is held, and is still to be passed on

    def _keep(self, packet: Packet) -> None:
        now, recent = time_ns(), self._recent
        recent.append((now, packet))
        self._recent_bytes += len(packet.blob)
        while recent and (self._recent_bytes > RECENT_BYTES_MAX or recent[0][0] < now - RECENT_NS):
            came_ns, oldest = recent.popleft()
            self._recent_since_ns = max(self._recent_since_ns, came_ns + 1)
            self._recent_bytes -= len(oldest.blob)

    def on_lost(self, stream: StreamId, first: int, last: int, reason: str) -> None:
        """These will not come: who may have matched them is told."""
        group = self._groups.get(group_of(stream))
        self.on_void(stream, first, last)
        for key in group.selectors if group is not None else ():
            subscriber = self.subscribers[key]
            if subscriber.reading is None:  # otherwise a logger may have it still, or says so
                self._lose(subscriber, stream, first, last, last - first + 1, reason)

    def on_void(self, stream: StreamId, first: int, last: int) -> None:
        """These do not exist, and nobody misses them."""
        group = self._groups.get(group_of(stream))
        if group is not None and group.plain is None:
            self._on_intake(group, stream, last, group.intake.on_skip(stream, first, last))
        else:
            self._moved[stream] = last

    def _on_plain(self, group: _Group, plain: _Plain, packet: Packet, events: list[Event]) -> None:
        batch = _Batch(packet, events)
        matched = group.matched([event.attributes for event in events])
        leaving = plain.show(packet, events, matched, batch.loose)
        if group.attached:
            self._log(group, batch)
        shared: dict[Spans, list[Subscriber]] = {}
        for key, spans in _spans(matched).items():
            count = sum(stop - start for start, stop in spans)
            group.counters.events_matched += count
            subscriber = self.subscribers[key]
            if subscriber.feed.behind:
                continue
            quick = key not in leaving and not len(subscriber.feed) and subscriber.outlet.open
            if quick and subscriber.granted - subscriber.sent >= count:
                subscriber.sent += count
                subscriber.feed.delivered += count
                shared.setdefault(tuple(spans), []).append(subscriber)
            elif batch.loose and not subscriber.feed.lossy:
                self._waiting[key] = None
                self._fall(group, subscriber, batch, [])
            else:
                self._queue(group, subscriber, batch, matched, spans, leaving.pop(key, []))
        for key, left in leaving.items():
            if key in self.subscribers and not self.subscribers[key].feed.behind:
                self._queue(group, self.subscribers[key], batch, matched, [], left)
        if shared:
            _send_runs(packet, shared)

    def _queue(
        self,
        group: _Group,
        subscriber: Subscriber,
        batch: _Batch,
        matched: list[list[int]],
        spans: Sequence[tuple[int, int]],
        leaving: list[tuple[int, Left]],
    ) -> None:
        """Put what one subscription gets of a packet into its queue, in order."""
        self._waiting[subscriber.key] = None
        feed = subscriber.feed
        places = [place for start, stop in spans for place in range(start, stop)]
        overtaken: list[int] = []
        if feed.eager and not leaving:
            places, overtaken = _newest(batch.events, places)
        verdicts = dict.fromkeys(places, DELIVER)
        for place, left in leaving:
            verdicts[place] = Verdict(place in verdicts, (left,))
        for place in sorted(verdicts):
            group.counters.events_queued += 1
            if not feed.settle(batch.arrival(place), verdicts[place]):
                self._fall(group, subscriber, batch, matched[: place + 1])
                overtaken = [each for each in overtaken if each < place]  # the others are read from the log
                break
        assert batch.packet is not None
        for name, count in Counter(batch.events[place].key for place in overtaken).items():
            feed.overtake(batch.packet.stream, name, count)

    def _fall(self, group: _Group, subscriber: Subscriber, batch: _Batch, taken: list[list[int]]) -> None:
        """A queue is full, or none is needed: from here on the subscription is read to from the log."""
        assert group.plain is not None
        assert batch.packet is not None
        shown = subscriber.feed.shown = Shown()
        for id, name in group.plain.shown_to(subscriber.key, batch.packet.stream, batch.events, taken).items():
            shown.on_event(id, Head(name), True, False)
        if not group.attached:
            self._log(group, batch)
        subscriber.feed.behind = True
        self._lag(group, subscriber, len(taken))

    def _lag(self, group: _Group, subscriber: Subscriber, taken: int) -> None:
        group.counters.fallen_behind += 1
        group.behind[subscriber.key] = group.attached[subscriber.key] = None
        subscriber.at = group.log_first + len(group.log) - 1, taken

    def _leave_plain(self, group: _Group, plain: _Plain) -> None:
        """Not only plain events from here on: tell each subscription's own memory what it was shown."""
        group.plain = None
        for recent in plain.recent.values():
            for events, matched in recent:
                for event, keys in zip(events, matched, strict=True):
                    for key in keys if event.key is None else ():
                        self._preset(group, key, event.id, None)
        for stream, by_key in plain.shown.items():
            for name, (seq, keys) in by_key.items():
                for key in keys:
                    self._preset(group, key, EventId(stream, seq), name)
        for key in group.behind:
            for id, head in self.subscribers[key].feed.shown.shown():
                group.dispatch.preset(key, id, head)

    def _preset(self, group: _Group, key: int, id: EventId | None, name: str | None) -> None:
        subscriber = self.subscribers.get(key)
        assert id is not None
        if subscriber is not None and not subscriber.feed.behind:
            group.dispatch.preset(key, id, Head(name))

    def _on_arrivals(self, group: _Group, arrivals: list[Arrival]) -> None:
        matched = group.matched([arrival.event.attributes for arrival in arrivals])
        group.counters.events_matched += sum(map(len, matched))
        dispatch = group.dispatch
        batch = _Batch(None, [], arrivals)
        if group.attached:
            self._log(group, batch)
        fell = dispatch.on_batch(arrivals, matched)
        if fell and not group.attached:
            self._log(group, batch)
        for key, taken in fell.items():
            self._lag(group, self.subscribers[key], taken)
        self._waiting |= dispatch.touched
        dispatch.touched.clear()

    # The log of those that are behind -------------------------------------------------------------------------------

    def _log(self, group: _Group, batch: _Batch) -> None:
        if group.log:
            group.log[-1].rest()
        group.log.append(batch)
        group.log_bytes += batch.size
        while group.log_bytes > self._log_bytes_max and len(group.log) > 1:
            self._drop_oldest(group)

    def _drop_oldest(self, group: _Group) -> None:
        number = group.log_first
        outrun = [each for key in group.attached if (each := self.subscribers[key]).at == (number, each.at[1])]  # type: ignore[index]
        if outrun and self.has_loggers():
            self._read_from_loggers(group, outrun)
            outrun = []
        if group.log_first == number and group.log:
            dropped = group.log.popleft()
            group.log_first += 1
            group.log_bytes -= dropped.size
            for subscriber in outrun:
                assert subscriber.at is not None
                self._miss(subscriber, dropped.arrivals[subscriber.at[1] :])
                subscriber.at = group.log_first, 0

    def _miss(self, subscriber: Subscriber, arrivals: list[Arrival]) -> None:
        """What a subscription could not be kept for."""
        missed: dict[StreamId, list[int]] = {}
        for arrival in arrivals:
            if subscriber.selector.matches(arrival.event.attributes):
                missed.setdefault(arrival.id.stream, []).append(arrival.id.seq)
        for stream, seqs in missed.items():
            subscriber.feed.shown.on_lost(stream, seqs[0], seqs[-1])
            self._lose(subscriber, stream, seqs[0], seqs[-1], len(seqs), "the broker's log was full")

    def _lose(self, subscriber: Subscriber, stream: StreamId, first: int, last: int, count: int, reason: str) -> None:
        subscriber.lost += count
        self._groups[subscriber.group].counters.events_lost += count
        subscriber.outlet.deliver(encode(Gap(subscriber.sub, stream, first, last, reason)))
        self._waiting[subscriber.key] = None

    def _attach(self, group: _Group, subscriber: Subscriber) -> None:
        """Keep what comes from now on, for one who is reading towards it."""
        group.attached[subscriber.key] = None
        subscriber.at = group.log_first + len(group.log), 0

    def _detach(self, group: _Group, subscriber: Subscriber) -> None:
        """The log need not be kept for this one; what is kept for nobody goes."""
        subscriber.at = None
        if group.attached.pop(subscriber.key, 0) is None:
            places = [at[0] for key in group.attached if (at := self.subscribers[key].at) is not None]
            oldest = min(places, default=group.log_first + len(group.log))
            while group.log_first < oldest:
                group.log_bytes -= group.log.popleft().size
                group.log_first += 1

    def _read_on(self, group: _Group, subscriber: Subscriber) -> None:
        """Offer what was read, and what came since, as far as there is room."""
        feed, reading = subscriber.feed, subscriber.reading
        if reading is not None:
            while reading.pending and not feed.full:
                if not self._offer(group, subscriber, reading):
                    break
            if reading.due_at == NEVER and reading.bytes < self.readings.page_bytes:
                reading.due_at = 0.0
            if reading.pending or not reading.done:
                return
        assert subscriber.at is not None
        number, place = subscriber.at
        while not feed.full:
            if number >= group.log_first + len(group.log):
                self._catch_up(group, subscriber)
                return
            batch = group.log[number - group.log_first]
            if reading is not None and not place:
                place = _already(batch, reading.position(batch.stream))
            if batch.loose and group.plain is not None:
                if len(feed):
                    break  # what is in the queue comes first
                place = self._send_on(subscriber, batch, place)
                if place < batch.count:
                    break
            if place >= batch.count:
                number, place = number + 1, 0
                continue
            arrival = batch.arrivals[place]
            place += 1
            matches = subscriber.selector.matches(arrival.event.attributes)
            self._offer_one(group, subscriber, arrival, matches)
        subscriber.at = number, place

    def _offer_one(self, group: _Group, subscriber: Subscriber, arrival: Arrival, matches: bool) -> None:
        if group.plain is None:
            if arrival.by is None:
                arrival = group.intake.again(arrival)
            group.dispatch.offer(subscriber.key, arrival, matches)
        else:
            by = group.plain.newer(arrival) if subscriber.purges else None
            subscriber.feed.offer(arrival if by is None else arrival._replace(by=by), matches)

    def _catch_up(self, group: _Group, subscriber: Subscriber) -> None:
        subscriber.feed.behind = False
        subscriber.untold = subscriber.reading is not None
        subscriber.reading = None
        del group.behind[subscriber.key]
        self._detach(group, subscriber)
        self.readings.remove(subscriber.key)
        if group.plain is not None:
            group.plain.take_over(subscriber.key, subscriber.feed.shown)

    # Reading from loggers -------------------------------------------------------------------------------------------

    def _read_from_loggers(self, group: _Group, outrun: list[Subscriber]) -> None:
        """The oldest batch of the log is to go, and these are still at it."""
        before: dict[StreamId, int] | None = None
        for subscriber in outrun:
            reading = subscriber.reading
            if reading is not None and reading.replay is not None and (reading.pending or not reading.done):
                reading.replay.until(None)  # it had not come to the log yet, and will try again
            else:
                assert subscriber.at is not None
                if before is None:
                    before = self._before_log(group, subscriber.group)
                positions = _positions(before, group.log[0], subscriber.at[1], reading)
                if reading is None or not reading.pending:
                    selector = str(subscriber.selector)
                    reading = subscriber.reading = Reading(subscriber.key, subscriber.group, selector, positions)
                reading.replay = Replay(positions)
            self.readings.add(reading)
            self._detach(group, subscriber)

    def _before_log(self, group: _Group, name: str) -> dict[StreamId, int]:
        """How far each stream had been passed on when the log began."""
        positions = self.delivered(name)
        for batch in reversed(group.log):
            positions[batch.stream] = batch.first - 1
        return positions

    def asks(self, now: float) -> Iterator[Consult]:
        """What loggers are to be asked now."""
        if len(self.readings) and not self.has_loggers():
            for subscriber in list(self.subscribers.values()):
                if subscriber.reading is not None and not subscriber.reading.done:
                    self._give_up(subscriber, subscriber.reading)
        return self.readings.asks(now)

    def on_page(self, logger: NodeId, page: Page, now: float) -> None:
        """A logger's answer."""
        for reading, sure in self.readings.on_page(logger, page, now):
            replay, subscriber = reading.replay, self.subscribers[reading.key]
            assert replay is not None
            before, phase = replay.cursor or 0, replay.phase
            for each in replay.on_page(page):
                if isinstance(each, Stretch):
                    newest = phase == "newest"
                    # What was held may be of a page that was shared.
                    reading.put(Piece(each, sure and each.number > before, newest))
                else:
                    reading.put(each)
            if replay.held_bytes > HELD_BYTES_MAX:
                self.readings.fail(reading, now, f"{logger} lacks what comes before {HELD_BYTES_MAX} bytes")
            elif replay.phase != phase:
                reading.due_at = now
            elif page.end and phase == "read" and not replay.heading:
                self._attach(self._groups[reading.group], subscriber)
                replay.until(self.delivered(reading.group))
            if reading.bytes >= self.readings.page_bytes:
                reading.due_at = NEVER
            self._waiting[reading.key] = None

    def _give_up(self, subscriber: Subscriber, reading: Reading) -> None:
        """The loggers are gone for good: what they alone had is lost."""
        assert reading.replay is not None
        group = self._groups[subscriber.group]
        if subscriber.at is None:
            self._attach(group, subscriber)
        for stream, last in self.delivered(subscriber.group).items():
            position = reading.replay.position(stream)
            if position is not None and position < last:
                self._lose(subscriber, stream, position + 1, last, last - position, "there is no logger any more")
        reading.replay = None
        self.readings.remove(subscriber.key)

    def _offer(self, group: _Group, subscriber: Subscriber, reading: Reading) -> bool:
        """Offer what comes next of what was read; whether there was room for it."""
        if reading.ready:
            arrival, matches = reading.ready.popleft()
            if not (reading.restarted and _shows_it(subscriber.feed.shown, arrival)):
                self._offer_one(group, subscriber, arrival, matches)
            return True
        piece = reading.pieces[0]
        if isinstance(piece, Missing):
            reading.skip(piece)
            if piece.owed:
                subscriber.feed.shown.on_lost(piece.stream, piece.first, piece.last)
                count = piece.last - piece.first + 1
                self._lose(subscriber, piece.stream, piece.first, piece.last, count, "collected")
            return True
        if piece.stretch.kind == RELATED and group.plain is not None:
            self._leave_plain(group, group.plain)
        try:
            if group.plain is not None and piece.sure:
                loose = piece.stretch.kind == LOOSE or not subscriber.purges
                if len(subscriber.feed):
                    if loose:
                        return False  # what is in the queue comes first
                elif not subscriber.ready:
                    reading.waits_ns = reading.waits_ns or time_ns()
                    return False
                elif (not reading.waited(STALL_NS) or loose) and self._send_piece(subscriber, reading, piece):
                    return True
            reading.unpack(piece, subscriber.selector.matches, group.plain is None)
        except PeerError:
            stretch = piece.stretch
            self._lose(subscriber, stretch.stream, stretch.first, stretch.last, stretch.count, "malformed")
            reading.sent(piece, None)
        return True

    def _send_piece(self, subscriber: Subscriber, reading: Reading, piece: Piece) -> bool:
        """Send it as it is, as far as the credit goes; False if there is more to it."""
        stretch, rest = piece.stretch, None
        credit = subscriber.granted - subscriber.sent
        if stretch.count > credit:
            stretch, rest = stretch.split(credit)
        count = stretch.count
        if stretch.kind == KEYED and (
            (piece.newest and reading.restarted) or not _shows(subscriber.feed.shown, stretch, count)
        ):
            return False
        if count:
            if stretch.kind == LOOSE:
                subscriber.feed.shown.on_run(stretch.stream, stretch.ranges)
            subscriber.sent += count
            subscriber.feed.delivered += count
            frame = encode(Run((subscriber.sub,), stretch.stream, stretch.ranges, stretch.blob))
            subscriber.outlet.deliver(frame)
        reading.sent(piece, rest)
        return True

    def reach(self) -> None:
        """Tell those that are live how far they have come, so that they need not look at it again elsewhere."""
        moved, self._moved = self._moved, {}
        self._delivered |= moved
        positions: dict[str, dict[StreamId, int]] = {}
        for stream, last in moved.items():
            positions.setdefault(group_of(stream), {})[stream] = last
        now_ns = time_ns()
        self._moves.append((now_ns, moved))
        while self._moves[0][0] < now_ns - 2 * SLACK_NS:
            self._moves.popleft()
        for name, group in self._groups.items():
            reached = dict(list(positions.get(name, {}).items())[:POSITIONS_MAX])
            subs: dict[Any, list[int]] = {}
            for key in group.selectors:
                subscriber = self.subscribers[key]
                if subscriber.feed.behind or len(subscriber.feed):
                    continue
                if subscriber.untold:
                    subscriber.untold = False
                    every = dict(list(self.delivered(name).items())[:POSITIONS_MAX])
                    subscriber.outlet.deliver(encode(Reached((subscriber.sub,), now_ns, every)))
                elif reached:
                    subs.setdefault(subscriber.outlet, []).append(subscriber.sub)
            for outlet, each in subs.items():
                outlet.deliver(encode(Reached(tuple(each), now_ns, reached)))
        if len(self._delivered) > 2 * len(known := dict(self.known())) + 1_000:
            self._delivered = {stream: last for stream, last in self._delivered.items() if stream in known}

    # What goes out --------------------------------------------------------------------------------------------------

    def _send_on(self, subscriber: Subscriber, batch: _Batch, place: int) -> int:
        """Send one subscription what it is to have of a batch, from a place on, as far as its credit goes; up to where.
        Others that are behind get the same next: the last frames are kept for them."""
        assert batch.packet is not None
        if not subscriber.ready:
            return place
        places, credit = batch.places(subscriber.selector), subscriber.granted - subscriber.sent
        start = bisect_left(places, place)
        chosen = places[start : start + credit]
        if chosen:
            spans = _joined(chosen)
            run = (batch.stream, batch.first, spans, subscriber.sub)
            frame = self._runs.get(run)
            if frame is None:
                frame = self._runs[run] = _run(batch.packet, spans, (subscriber.sub,))
                while len(self._runs) > RUNS_MAX:
                    del self._runs[next(iter(self._runs))]
            subscriber.sent += len(chosen)
            subscriber.outlet.deliver(frame)
        return places[start + credit] if start + credit < len(places) else batch.count

    def flush(self) -> None:
        """Send what waits, as far as credit and room go; what is left waits for more of them."""
        waiting, self._waiting = self._waiting, {}
        for key in waiting:
            subscriber = self.subscribers.get(key)
            if subscriber is not None:
                self._drain(subscriber)

    def _drain(self, subscriber: Subscriber) -> None:
        feed, group = subscriber.feed, self._groups[subscriber.group]
        while subscriber.ready and (len(feed) or feed.behind):
            items = feed.take(min(TAKE_EVENTS_MAX, subscriber.granted - subscriber.sent), TAKE_BYTES_MAX)
            if items:
                # What is obsolete has something newer behind it: told before that, it is known when that is read.
                self._tell(subscriber)
                subscriber.sent += len(items)
                subscriber.outlet.deliver(encode(_items(subscriber.sub, items)))
            if feed.behind and not feed.full:
                self._read_on(group, subscriber)
                if feed.behind and not len(feed):
                    break  # all that was read is sent
        if subscriber.lost + feed.lost != subscriber.told[1] and subscriber.outlet.open:
            self._tell(subscriber)

    def _tell(self, subscriber: Subscriber) -> None:
        told = subscriber.feed.obsoleted, subscriber.lost + subscriber.feed.lost
        if told != subscriber.told:
            subscriber.told = told
            subscriber.outlet.deliver(encode(Counts(subscriber.sub, *told)))


def _arrivals(packet: Packet, events: list[Event]) -> list[Arrival]:
    return [arrival_of(event, size) for event, size in zip(events, _sizes(packet), strict=True)]


def _sizes(packet: Packet) -> list[int]:
    return [size for size in packet.table() if size]


def _newest(events: list[Event], places: list[int]) -> tuple[list[int], list[int]]:
    """Which of these are the last of their key, or have none; and the others, which an eager queue would take in and
    drop again at once, at a price."""
    last = {events[place].key: place for place in places}
    if None in last or len(last) < len(places):
        kept = [place for place in places if (key := events[place].key) is None or last[key] == place]
        gone = set(places).difference(kept)
        return kept, sorted(gone)
    return places, []


def _already(batch: _Batch, position: int) -> int:
    """How many places of a batch have been read elsewhere."""
    if position < batch.first:
        return 0
    if batch.packet is None:
        return bisect_right(batch.arrivals, position, key=lambda arrival: arrival.id.seq)
    return bisect_right(batch.events, position, key=lambda event: event.id.seq)  # type: ignore[union-attr]


def _positions(before: dict[StreamId, int], batch: _Batch, taken: int, reading: Reading | None) -> dict[StreamId, int]:
    """How far one has come who has taken so much of the first batch of a log, and has read before."""
    positions = before
    if taken:
        positions = {**positions, batch.stream: batch.arrivals[taken - 1].id.seq}
    if reading is not None:
        ahead = {name: last for name, last in reading.offered.items() if last > positions.get(name, -1)}
        positions = {**positions, **ahead}
    return positions


def _shows_it(shown: Shown, arrival: Arrival) -> bool:
    """Whether a key is shown as this event already."""
    slot = slot_of(arrival.id, arrival.head)
    return slot is not None and shown.shown_by(slot) == arrival.id


def _shows(shown: Shown, stretch: Stretch, count: int) -> bool:
    """Take note of what a plain stretch shows; False, and nothing is noted, if something in it has left."""
    stream = stretch.stream
    events = outlines(count, stretch.blob)
    if stretch.heads:
        keys = {event.key for event in events}
        if any(key in keys or shown.shows((stream, key)) for _, head in stretch.heads if (key := head.key) is not None):
            return False
    shown.on_run(stream, stretch.ranges, events)
    return True


def _spans(matched: list[list[int]]) -> dict[int, list[tuple[int, int]]]:
    """For each subscription the places that it matches: neighbours are compared once, for all of them."""
    found: dict[int, list[tuple[int, int]]] = {}
    changes = (place for place, (one, next) in enumerate(pairwise(matched), 1) if one is not next and one != next)
    starts = [0, *changes, len(matched)]
    for start, stop in pairwise(starts):
        span = (start, stop)
        for key in matched[start]:
            spans = found.get(key)
            if spans is None:
                found[key] = [span]
            elif spans[-1][1] == start:
                spans[-1] = (spans[-1][0], stop)
            else:
                spans.append(span)
    return found


def _send_runs(packet: Packet, shared: dict[Spans, list[Subscriber]]) -> None:
    for spans, subscribers in shared.items():
        frames: dict[tuple[int, ...], bytes] = {}
        subs: dict[Any, list[int]] = {}
        for subscriber in subscribers:
            subs.setdefault(subscriber.outlet, []).append(subscriber.sub)
        for outlet, each in subs.items():
            key = tuple(each)
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = _run(packet, spans, key)
            outlet.deliver(frame)


def _run(packet: Packet, spans: Spans, subs: tuple[int, ...]) -> bytes:
    return encode(Run(subs, packet.stream, *_slices(packet, spans)))


def _joined(places: Sequence[int]) -> Spans:
    """Ascending places as spans."""
    if places[-1] - places[0] == len(places) - 1:
        return ((places[0], places[-1] + 1),)
    breaks = [at for at, (one, next) in enumerate(pairwise(places), 1) if next != one + 1]
    return tuple((places[start], places[stop - 1] + 1) for start, stop in pairwise([0, *breaks, len(places)]))


def _slices(packet: Packet, spans: Spans) -> tuple[tuple[tuple[int, int], ...], bytes]:
    """Seqs and bytes of these places, of the events that are present."""
    first = packet.first
    if not packet.holes:
        ranges = tuple((first + start, first + stop - 1) for start, stop in spans)
        if len(spans) == 1 and spans[0][1] - spans[0][0] == packet.count:
            return ranges, packet.blob
        sizes = packet.table()
        at, pieces, before = 0, [], 0
        for start, stop in spans:
            at += sum(sizes[before:start])
            size = sum(sizes[start:stop])
            pieces.append(packet.blob[at : at + size])
            at, before = at + size, stop
        return ranges, b"".join(pieces)
    present = list(packet.encoded())
    chosen = [present[place] for start, stop in spans for place in range(start, stop)]
    return tuple((seq, seq) for seq, _ in chosen), b"".join(piece for _, piece in chosen)


def _items(sub: int, items: list[Item]) -> Items:
    events: list[Event] = []
    notices: list[Notice] = []
    for item in items:
        if item.lefts or item.replaced:
            together = item.event is not None
            notices.append(Notice(len(events), together, item.lefts, item.by, item.replaced))
        if item.event is not None:
            events.append(item.event)
    return Items(sub, events, tuple(notices))
