"""From what a node delivers to what each client is sent, as fast as the matches allow.

Most groups are *plain*: events with a key or without, and none that names others, is part of a transaction or competes
with other publishers for a key. Then what a subscription was last shown of a key follows from whom the last event of
that key matched, and is the same question for all of them: one table for the group (`_Plain`), one comparison an event,
however many subscriptions there are. A subscription that keeps up is sent slices of the publisher's own bytes, encoded
once for all that get the same; only one that does not has a queue to look after.

The first event that is not plain turns its group over to protocol/delivery.py, which asks these questions for each
subscription by itself, and answers them for every kind of event.

What came lately is kept for clients that come from another broker, and go on where they were with that one.

A queue that is full of what is not obsolete makes its subscription *fall behind*. It is then read to from a log of what
came since, shared by all that are behind, and is live again when it has come to the end. The log is bounded, too: what
falls out of it is counted as lost, and told (design §4.6).
"""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise
from time import monotonic, time
from typing import Any, Protocol

from gossamer.broker.counters import Counters
from gossamer.matching import Index, Selector
from gossamer.messages.errors import PeerError
from gossamer.messages.event import REACH_MAX, Attributes, Event, Head
from gossamer.messages.ids import SYSTEM_GROUP, EventId, StreamId, group_of
from gossamer.messages.packet import Packet
from gossamer.messages.session import Counts, Gap, Had, Items, Notice, Run, Subscribe, encode
from gossamer.protocol.delivery import Arrival, Dispatch, Feed, Intake, Item
from gossamer.protocol.purging import Semantic
from gossamer.protocol.shown import DELIVER, Left, Shown, Verdict
from gossamer.protocol.tally import Tally

FEW = 4
LOG_BYTES_MAX = 64 * 2**20
QUEUE_BYTES_MAX = 16 * 2**20
RECENT_STREAMS_MAX = 4_096
SHOWN_STREAMS_MAX = 100_000
"""Publishers come and go; those not heard for longest are forgotten, and what they had shown stays as it is."""
RECENT_BYTES_MAX = 32 * 2**20
RECENT_S = 60.0
TAKE_EVENTS_MAX = 1_024
TAKE_BYTES_MAX = 1024 * 1024

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
        "at",
        "buffer",
        "feed",
        "granted",
        "group",
        "history",
        "key",
        "lost",
        "outlet",
        "policy",
        "selector",
        "sent",
        "sub",
        "told",
    )

    def __init__(self, key: int, outlet: Outlet, group: str, wanted: Subscribe, tally: Tally) -> None:
        self.key = key
        self.outlet = outlet
        self.group = group
        self.sub = wanted.sub
        self.selector = Selector(wanted.selector)
        self.buffer, self.policy = wanted.buffer, wanted.policy
        semantic: Semantic = "lazy" if wanted.policy == "lazy" else "eager" if wanted.policy == "eager" else "off"
        self.feed = Feed(wanted.buffer, QUEUE_BYTES_MAX, semantic=semantic, tally=tally)
        self.granted = wanted.credit
        self.sent = 0
        self.lost = 0
        self.told = (0, 0)
        self.history: deque[Arrival] = deque()
        """What it is to be read first: what came before it did."""
        self.at = (0, 0)
        """Where in the log it reads on, while it is behind: the batch, and the place in it."""

    def options(self) -> Attributes:
        """What was asked for, for telemetry."""
        return {"selector": str(self.selector), "buffer": self.buffer, "policy": self.policy}

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
            "lost": self.lost,
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
                if known[1] == keys:
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

    def take_over(self, key: int, shown: Shown) -> None:
        """A subscription that has caught up: what it was shown before its time here becomes known to all."""
        for (stream, name), id in shown.shown():
            at = self.shown.setdefault(stream, {})
            known = at.get(name)
            if known is None:
                at[name] = id.seq, [key]
            elif known[0] == id.seq and key not in known[1]:
                at[name] = id.seq, [*known[1], key]


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

    __slots__ = ("_arrivals", "_sizes", "events", "loose", "packet", "size")

    def __init__(self, packet: Packet | None, events: list[Event], arrivals: list[Arrival] | None = None) -> None:
        self.packet = packet
        self.events = events
        self._arrivals = arrivals
        self._sizes: list[int] | None = None
        self.loose = packet is not None and all(event.key is None for event in events)
        """Nothing in it replaces anything: there is nothing to purge, and no notice to give."""
        self.size = sum(arrival.size for arrival in arrivals or ()) if packet is None else len(packet.blob)

    @property
    def arrivals(self) -> list[Arrival]:
        if self._arrivals is None:
            assert self.packet is not None
            self._arrivals = _arrivals(self.packet, self.events)
        return self._arrivals

    def arrival(self, place: int) -> Arrival:
        """One of them, for who needs few."""
        if self._arrivals is not None:
            return self._arrivals[place]
        if self._sizes is None:
            assert self.packet is not None
            self._sizes = _sizes(self.packet)
        return _arrival(self.events[place], self._sizes[place])


class _Group:
    """The subscriptions to one group."""

    __slots__ = ("behind", "counters", "dispatch", "few", "index", "intake", "log", "log_bytes", "log_first", "plain")

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.index: Index[int] = Index()
        self.few: dict[int, Selector] = {}
        """All selectors, while there are so few that asking each is quicker than any index."""
        self.dispatch = _Noting()
        self.intake = Intake()
        self.plain: _Plain | None = _Plain()
        self.behind: dict[int, None] = {}
        self.log: deque[_Batch] = deque()
        """What came since somebody is behind."""
        self.log_first = 0
        self.log_bytes = 0

    def select(self, key: int, selector: Selector | None) -> None:
        """A subscription has this selector now, or (None) is over."""
        if selector is None:
            self.index.remove(key)
            self.few.pop(key, None)
            return
        self.index.add(key, selector)
        if key in self.few or len(self.index) == len(self.few) + 1 <= FEW:
            self.few[key] = selector
        else:
            self.few = {}

    def matched(self, batch: list[Attributes]) -> list[list[int]]:
        """Whom each of these matches."""
        if not self.few:
            return self.index.match_batch(batch)
        if len(self.few) == 1:
            ((key, selector),) = self.few.items()
            hit, miss, matches = [key], list[int](), selector.matches
            return [hit if matches(attributes) else miss for attributes in batch]
        each = [(key, selector.matches) for key, selector in self.few.items()]
        return [[key for key, matches in each if matches(attributes)] for attributes in batch]


class Deliveries:
    """All subscriptions at a broker."""

    def __init__(self, log_bytes_max: int = LOG_BYTES_MAX, counters: Counters | None = None) -> None:
        self.counters = counters or Counters()
        self.tally = Tally()
        self.subscribers: dict[int, Subscriber] = {}
        self._log_bytes_max = log_bytes_max
        self._groups: dict[str, _Group] = {}
        self._keys = 0
        self._recent: deque[tuple[float, Packet]] = deque()
        self._recent_bytes = 0
        self._waiting: dict[int, None] = {}
        """Who may have something to be sent, once there is credit and room."""
        self._vetted: tuple[Packet | None, list[Event]] = (None, [])
        """What was decoded last, so that a client's packet is decoded once, however it is used."""

    # Subscriptions --------------------------------------------------------------------------------------------------

    def add(self, outlet: Outlet, group: str, wanted: Subscribe) -> Subscriber:
        """A new subscription; `SelectorError` if its selector is wrong."""
        self._keys += 1
        subscriber = Subscriber(self._keys, outlet, group, wanted, self.tally)
        at = self._groups.get(group)
        if at is None:  # telemetry does not count itself
            at = self._groups[group] = _Group(Counters() if group == SYSTEM_GROUP else self.counters)
        at.select(subscriber.key, subscriber.selector)
        at.dispatch.add(subscriber.key, subscriber.feed)
        self.subscribers[subscriber.key] = subscriber
        if wanted.had is not None:
            self._resume(at, subscriber, wanted.had)
        return subscriber

    def _resume(self, group: _Group, subscriber: Subscriber, had: Had) -> None:
        """Begin behind, with what came since the client was last sent something elsewhere."""
        since = monotonic() - had.age_s
        for came_at, packet in self._recent:
            if group_of(packet.stream) != subscriber.group:
                continue
            last = had.positions.get(packet.stream)
            if came_at < since if last is None else packet.last <= last:
                continue
            try:
                arrivals = _arrivals(packet, packet.events())
            except PeerError:
                continue  # whoever was here when it came has been told that it is lost
            for arrival in arrivals:
                if last is None or arrival.id.seq > last:
                    subscriber.history.append(arrival)
        if subscriber.history:
            subscriber.feed.behind = True
            group.behind[subscriber.key] = None
            subscriber.at = group.log_first + len(group.log), 0
            self._waiting[subscriber.key] = None

    def update(self, subscriber: Subscriber, selector: str) -> None:
        """From the next event on it is the new selector that counts; what is shown stays so until it is obsolete."""
        subscriber.selector = Selector(selector)
        self._groups[subscriber.group].select(subscriber.key, subscriber.selector)

    def remove(self, subscriber: Subscriber) -> None:
        key, group = subscriber.key, self._groups[subscriber.group]
        group.select(key, None)
        group.dispatch.remove(key)
        group.behind.pop(key, None)
        self._waiting.pop(key, None)
        del self.subscribers[key]
        if not len(group.index):
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
            return
        if group.plain is not None:
            vetted, events = self._vetted
            if vetted is not packet:
                events = packet.events()
            if all(event.relation is None for event in events):
                self._on_plain(group, group.plain, packet, events)
                return
            self._leave_plain(group, group.plain)
        self._on_arrivals(group, group.intake.on_packet(packet))

    def _keep(self, packet: Packet) -> None:
        now, recent = monotonic(), self._recent
        recent.append((now, packet))
        self._recent_bytes += len(packet.blob)
        while recent and (self._recent_bytes > RECENT_BYTES_MAX or recent[0][0] < now - RECENT_S):
            self._recent_bytes -= len(recent.popleft()[1].blob)

    def on_lost(self, stream: StreamId, first: int, last: int, reason: str) -> None:
        """These will not come: who may have matched them is told."""
        group = self._groups.get(group_of(stream))
        if group is None:
            return
        if group.plain is None:
            self._on_arrivals(group, group.intake.on_skip(stream, first, last))
        for key in group.index:
            self._lose(self.subscribers[key], stream, first, last, last - first + 1, reason)

    def _on_plain(self, group: _Group, plain: _Plain, packet: Packet, events: list[Event]) -> None:
        batch = _Batch(packet, events)
        matched = group.matched([event.attributes for event in events])
        leaving = plain.show(packet, events, matched, batch.loose)
        if group.behind:
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
            elif batch.loose:
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
        if not group.behind:
            self._log(group, batch)
        subscriber.feed.behind = True
        self._lag(group, subscriber, len(taken))

    def _lag(self, group: _Group, subscriber: Subscriber, taken: int) -> None:
        group.counters.fallen_behind += 1
        group.behind[subscriber.key] = None
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
            for (_, name), id in self.subscribers[key].feed.shown.shown():
                group.dispatch.preset(key, id, name)

    def _preset(self, group: _Group, key: int, id: EventId | None, name: str | None) -> None:
        subscriber = self.subscribers.get(key)
        assert id is not None
        if subscriber is not None and not subscriber.feed.behind:
            group.dispatch.preset(key, id, name)

    def _on_arrivals(self, group: _Group, arrivals: list[Arrival]) -> None:
        matched = group.matched([arrival.event.attributes for arrival in arrivals])
        group.counters.events_matched += sum(map(len, matched))
        dispatch = group.dispatch
        was_behind = bool(group.behind)
        batch = _Batch(None, [], arrivals)
        if was_behind:
            self._log(group, batch)
        fell = dispatch.on_batch(arrivals, matched)
        if fell and not was_behind:
            self._log(group, batch)
        for key, taken in fell.items():
            self._lag(group, self.subscribers[key], taken)
        self._waiting |= dispatch.touched
        dispatch.touched.clear()

    # The log of those that are behind -------------------------------------------------------------------------------

    def _log(self, group: _Group, batch: _Batch) -> None:
        group.log.append(batch)
        group.log_bytes += batch.size
        while group.log_bytes > self._log_bytes_max and len(group.log) > 1:
            self._drop_oldest(group)

    def _drop_oldest(self, group: _Group) -> None:
        dropped, number = group.log.popleft(), group.log_first
        group.log_first += 1
        group.log_bytes -= dropped.size
        for key in group.behind:
            subscriber = self.subscribers[key]
            if subscriber.at[0] == number:
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

    def _read_on(self, group: _Group, subscriber: Subscriber) -> None:
        """Offer what came since, as far as there is room."""
        feed = subscriber.feed
        number, place = subscriber.at
        while not feed.full:
            if subscriber.history:
                arrival = subscriber.history.popleft()
                self._read(group, subscriber, arrival)
                continue
            if number >= group.log_first + len(group.log):
                self._catch_up(group, subscriber)
                return
            batch = group.log[number - group.log_first]
            if batch.loose and group.plain is not None:
                if len(feed):
                    break  # what is in the queue comes first
                place = _send_on(subscriber, batch, place)
                if place < len(batch.events):
                    break
            if place >= len(batch.arrivals if batch.packet is None else batch.events):
                number, place = number + 1, 0
                continue
            arrival = batch.arrivals[place]
            place += 1
            self._read(group, subscriber, arrival)
        subscriber.at = number, place

    def _read(self, group: _Group, subscriber: Subscriber, arrival: Arrival) -> None:
        matches = subscriber.selector.matches(arrival.event.attributes)
        if group.plain is not None:
            subscriber.feed.offer(arrival, matches)
        else:
            group.dispatch.offer(subscriber.key, group.intake.again(arrival), matches)

    def _catch_up(self, group: _Group, subscriber: Subscriber) -> None:
        subscriber.feed.behind = False
        del group.behind[subscriber.key]
        if group.plain is not None:
            group.plain.take_over(subscriber.key, subscriber.feed.shown)
        oldest = min((self.subscribers[key].at[0] for key in group.behind), default=group.log_first + len(group.log))
        while group.log_first < oldest:
            group.log_bytes -= group.log.popleft().size
            group.log_first += 1

    # What goes out --------------------------------------------------------------------------------------------------

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
        if subscriber.lost != subscriber.told[1]:
            self._tell(subscriber)

    def _tell(self, subscriber: Subscriber) -> None:
        told = subscriber.feed.obsoleted, subscriber.lost
        if told != subscriber.told:
            subscriber.told = told
            subscriber.outlet.deliver(encode(Counts(subscriber.sub, *told)))


def _arrival(event: Event, size: int) -> Arrival:
    return Arrival(event, Head(event.key, event.rank, event.relation, event.time_ns), size)


def _arrivals(packet: Packet, events: list[Event]) -> list[Arrival]:
    return [_arrival(event, size) for event, size in zip(events, _sizes(packet), strict=True)]


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


def _spans(matched: list[list[int]]) -> dict[int, list[tuple[int, int]]]:
    """For each subscription the places that it matches: neighbours are compared once, for all of them."""
    found: dict[int, list[tuple[int, int]]] = {}
    starts = [0, *(place for place, (one, next) in enumerate(pairwise(matched), 1) if one != next), len(matched)]
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
        ranges, blob = _slices(packet, spans)
        frames: dict[tuple[int, ...], bytes] = {}
        subs: dict[Any, list[int]] = {}
        for subscriber in subscribers:
            subs.setdefault(subscriber.outlet, []).append(subscriber.sub)
        for outlet, each in subs.items():
            key = tuple(each)
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = encode(Run(key, packet.stream, ranges, blob))
            outlet.deliver(frame)


def _send_on(subscriber: Subscriber, batch: _Batch, place: int) -> int:
    """Send one subscription what it is to have of a batch, from a place on, as far as its credit goes; up to where."""
    assert batch.packet is not None
    credit, matches = subscriber.granted - subscriber.sent, subscriber.selector.matches
    if not subscriber.ready:
        return place
    spans: list[tuple[int, int]] = []
    stop = len(batch.events)
    for at, event in enumerate(batch.events[place:], place):
        if matches(event.attributes):
            if not credit:
                stop = at
                break
            credit -= 1
            if spans and spans[-1][1] == at:
                spans[-1] = spans[-1][0], at + 1
            else:
                spans.append((at, at + 1))
    if spans:
        subscriber.sent = subscriber.granted - credit
        _send_runs(batch.packet, {tuple(spans): [subscriber]})
    return stop


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
