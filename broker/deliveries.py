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

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from time import time_ns
from typing import Any, NamedTuple

from gossamer.broker.audience import Audience
from gossamer.broker.batch import Batch
from gossamer.broker.counters import Counters
from gossamer.broker.frames import Frames, Spans, items_of, joined, places_of, send_runs, spans_of
from gossamer.broker.plain import Plain
from gossamer.broker.reading import HELD_BYTES_MAX, NEVER, Piece, Reading, Readings, shows, shows_it
from gossamer.broker.recent import SLACK_NS, Progress, Recent
from gossamer.broker.subscriber import Outlet, Subscriber
from gossamer.matching import Selector
from gossamer.matching.stretching import KEYED, LOOSE, RELATED
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Attributes, Event, Head
from gossamer.messages.ids import SYSTEM_GROUP, EventId, NodeId, StreamId, group_of
from gossamer.messages.packet import Packet
from gossamer.messages.quick import everyday
from gossamer.messages.session import POSITIONS_MAX, Began, Counts, Gap, Reached, Run, Start, Subscribe, encode
from gossamer.messages.wire import Page, Stretch
from gossamer.protocol.delivery import Arrival
from gossamer.protocol.inputs import Consult
from gossamer.protocol.replay import Missing, Replay
from gossamer.protocol.shown import DELIVER, Left, Shown, Verdict
from gossamer.protocol.tally import Tally

LOG_BYTES_MAX = 64 * 2**20
STALL_NS = 10**8
"""Who takes nothing for so long is not given all that it is read, but what is not obsolete of it."""
TAKE_EVENTS_MAX = 1_024
TAKE_BYTES_MAX = 1024 * 1024

Had = Callable[[StreamId], bool]

_relation = attrgetter("relation")
_NOTHING: frozenset[str] = frozenset()


class _Vetted(NamedTuple):
    """What was found out about a client's packet as it came, so that it is decoded once, however it is used."""

    packet: Packet | None = None
    events: list[Event] | None = None
    attributes: list[Attributes] | None = None
    """The `wanted` ones, if that is all that had to be decoded."""
    wanted: frozenset[str] = _NOTHING


_NOT_VETTED = _Vetted()


class Deliveries:
    """All subscriptions at a broker."""

    def __init__(self, log_bytes_max: int = LOG_BYTES_MAX, counters: Counters | None = None) -> None:
        self.counters = counters or Counters()
        self.tally = Tally()
        self.subscribers: dict[int, Subscriber] = {}
        self._log_bytes_max = log_bytes_max
        self._groups: dict[str, Audience] = {}
        self._keys = 0
        self._recent = Recent()
        self.progress = Progress()
        self.readings = Readings()
        self.has_loggers: Callable[[], bool] = lambda: False
        self.replays: Callable[[str, Callable[[], Mapping[StreamId, int]]], Callable[..., Replay]] = lambda *_: Replay
        """What reads a group from a logger, given how far each stream has been passed on here."""
        self._waiting: dict[int, None] = {}
        """Who may have something to be sent, once there is credit and room."""
        self._frames = Frames()
        self._vetted = _NOT_VETTED

    # Subscriptions --------------------------------------------------------------------------------------------------

    def add(self, outlet: Outlet, group: str, wanted: Subscribe, had: Had | None = None) -> Subscriber:
        """A new subscription; `SelectorError` if its selector is wrong. `had` tells of streams that its beginning does
        not name whether it has had them."""
        self._keys += 1
        subscriber = Subscriber(self._keys, outlet, group, wanted, self.tally)
        at = self._groups.get(group)
        if at is None:  # telemetry does not count itself
            at = self._groups[group] = Audience(Counters() if group == SYSTEM_GROUP else self.counters)
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
            reached = Reached((wanted.sub,), time_ns(), self.progress.lately(group))
            outlet.deliver(encode(reached))
        return subscriber

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
        subscriber.feed.behind = True
        group.behind[key] = self._waiting[key] = None
        base = {} if start.latest else positions
        subscriber.reading = reading = Reading(key, subscriber.group, str(subscriber.selector), base)
        since_ns = start.since_ns
        if start.latest and not since_ns:
            positions, since_ns = self.now(subscriber.group)
        if start.latest and len(positions) <= POSITIONS_MAX:
            subscriber.outlet.deliver(encode(Began(subscriber.sub, since_ns, positions)))
            reading.began = Reached((subscriber.sub,), since_ns, positions)
        since_ns = max(1, since_ns - SLACK_NS) if since_ns else 0
        if has_loggers and not (
            resumes and self._recent.remembers(positions, since_ns, self.progress.of(subscriber.group))
        ):
            replay = self.replays(subscriber.group, partial(self.progress.of, subscriber.group))
            reading.replay = replay(positions, since_ns, published_ns=start.published_ns, latest=start.latest, had=had)
            reading.moves = int(start.latest and bool(start.shown))
            self.readings.add(reading)
            return
        self._attach(group, subscriber)
        reached = dict(positions)
        for stretch in self._recent.recalled(subscriber.group, subscriber.selector, positions, since_ns):
            position = reached.get(stretch.stream)
            if position is not None and stretch.first > position + 1:
                reading.put(Missing(stretch.stream, position + 1, stretch.first - 1, True))
            reading.put(Piece(stretch if position is None else stretch.beyond(position), True))
            reached[stretch.stream] = stretch.last

    def now(self, group: str) -> tuple[dict[StreamId, int], int]:
        """Where one begins who begins with the latest: how far each stream is, and when others begin."""
        return self.progress.of(group), max(time_ns(), self._recent.born_ns + SLACK_NS)

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
            "queued_bytes": sum(each.feed.bytes for each in waiting),
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
        group = self._groups.get(group_of(packet.stream))
        wanted = _NOTHING if group is None else group.names
        attributes = everyday(packet, wanted)
        self._vetted = _Vetted(packet, packet.vetted() if attributes is None else None, attributes, wanted)

    def on_packet(self, packet: Packet) -> None:
        try:
            self._pass_on(packet)
        finally:  # after it is on its way: nobody waits for this
            self._recent.keep(packet)

    def _pass_on(self, packet: Packet) -> None:
        group = self._groups.get(group_of(packet.stream))
        if group is None:
            self.progress.moved(packet.stream, packet.last)
            return
        if group.plain is not None:
            if self._pass_plain(group, group.plain, packet):
                self.progress.moved(packet.stream, packet.last)
                return
            self._leave_plain(group, group.plain)
        self._on_intake(group, packet.stream, packet.last, group.intake.on_packet(packet))

    def _pass_plain(self, group: Audience, plain: Plain, packet: Packet) -> bool:
        """Whether all of it is plain, and on its way."""
        vetted, self._vetted = self._vetted, _NOT_VETTED
        known = vetted.packet is packet
        attributes, events = vetted.attributes if known else None, vetted.events if known else None
        if events is None and (attributes is None or vetted.wanted is not group.names):
            attributes = everyday(packet, group.names, trusted=True)
        if attributes is not None:
            self._on_plain(group, plain, Batch(packet, None), packet, attributes)
            return True
        if events is None:
            events, known = packet.events(), False
        if any(map(_relation, events)):
            return False
        if events:  # a packet may be marks and nothing else
            batch = Batch(packet, events, vetted=known)
            self._on_plain(group, plain, batch, packet, batch.attributes)
        return True

    def _on_intake(self, group: Audience, stream: StreamId, last: int, arrivals: list[Arrival]) -> None:
        if arrivals:
            self._on_arrivals(group, arrivals)
            self.progress.moved(stream, arrivals[-1].id.seq)
        if stream not in group.intake.assembler:
            self.progress.moved(stream, last)  # otherwise something is held, and is still to be passed on

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
            self.progress.moved(stream, last)

    def _on_plain(
        self, group: Audience, plain: Plain, batch: Batch, packet: Packet, attributes: list[Attributes]
    ) -> None:
        matched = group.matched(attributes)
        leaving = {} if batch.loose else plain.show(batch, packet.last, matched)
        shared: dict[Spans, list[Subscriber]] = {}
        slower: list[tuple[Subscriber, list[tuple[int, int]]]] = []
        matches = spans_of(matched)
        for key, spans in matches.items():
            count = sum([stop - start for start, stop in spans])
            group.counters.events_matched += count
            subscriber = self.subscribers[key]
            feed = subscriber.feed
            if feed.behind:
                continue
            quick = key not in leaving and not len(feed) and subscriber.granted - subscriber.sent >= count
            if quick and subscriber.outlet.open:
                subscriber.sent += count
                feed.delivered += count
                shared.setdefault(tuple(spans), []).append(subscriber)
            else:
                slower.append((subscriber, spans))
        if shared:
            send_runs(packet, shared, batch.loose)
        # Those who keep up have it; what follows is for the others, and for later.
        if batch.loose:
            plain.show(batch, packet.last, matched)
        if group.attached:
            self._log(group, batch)
        for subscriber, spans in slower:
            if batch.loose and not subscriber.feed.lossy:
                self._waiting[subscriber.key] = None
                self._fall(group, subscriber, batch, [])
            else:
                self._queue(group, subscriber, batch, matched, spans, leaving.pop(subscriber.key, []))
        for key, left in leaving.items():
            if key in self.subscribers and not self.subscribers[key].feed.behind:
                self._queue(group, self.subscribers[key], batch, matched, [], left)
        for key in group.attached:
            selector = group.selectors[key]
            if not batch.answers(selector):
                batch.answer(selector, places_of(matches.get(key, ())))
        if batch.loose:
            batch.rest()  # few ever look at it again; and what comes next is decoded where the cache is warm

    def _queue(
        self,
        group: Audience,
        subscriber: Subscriber,
        batch: Batch,
        matched: list[list[int]],
        spans: Sequence[tuple[int, int]],
        leaving: list[tuple[int, Left]],
    ) -> None:
        """Put what one subscription gets of a packet into its queue, in order."""
        self._waiting[subscriber.key] = None
        feed = subscriber.feed
        places = places_of(spans)
        if places and not leaving and feed.conflate(batch, places):
            group.counters.events_queued += len(places)
            return
        overtaken: Sequence[int] = ()
        if feed.eager and not leaving:
            places, overtaken = batch.newest(places)
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

    def _fall(self, group: Audience, subscriber: Subscriber, batch: Batch, taken: list[list[int]]) -> None:
        """A queue is full, or none is needed: from here on the subscription is read to from the log."""
        assert group.plain is not None
        assert batch.packet is not None
        shown = subscriber.feed.shown = Shown()
        events = batch.events if taken else []
        for id, name in group.plain.shown_to(subscriber.key, batch.packet.stream, events, taken).items():
            shown.on_event(id, Head(name), True, False)
        if not group.attached:
            self._log(group, batch)
        subscriber.feed.behind = True
        self._lag(group, subscriber, len(taken))

    def _lag(self, group: Audience, subscriber: Subscriber, taken: int) -> None:
        group.counters.fallen_behind += 1
        group.behind[subscriber.key] = group.attached[subscriber.key] = None
        subscriber.at = group.log_first + len(group.log) - 1, taken

    def _leave_plain(self, group: Audience, plain: Plain) -> None:
        """Not only plain events from here on: tell each subscription's own memory what it was shown."""
        group.plain = None
        for recent in plain.recent.values():
            for batch, matched in recent:
                for event, keys in zip(batch.events, matched, strict=True):
                    for key in keys if event.key is None else ():
                        self._preset(group, key, event.id, None)
        for stream, by_key in plain.shown.items():
            for name, (seq, keys) in by_key.items():
                for key in keys:
                    self._preset(group, key, EventId(stream, seq), name)
        for key in group.behind:
            for id, head in self.subscribers[key].feed.shown.shown():
                group.dispatch.preset(key, id, head)

    def _preset(self, group: Audience, key: int, id: EventId | None, name: str | None) -> None:
        subscriber = self.subscribers.get(key)
        assert id is not None
        if subscriber is not None and not subscriber.feed.behind:
            group.dispatch.preset(key, id, Head(name))

    def _on_arrivals(self, group: Audience, arrivals: list[Arrival]) -> None:
        matched = group.matched([arrival.event.attributes for arrival in arrivals])
        group.counters.events_matched += sum(map(len, matched))
        dispatch = group.dispatch
        batch = Batch(None, [], arrivals)
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

    def _log(self, group: Audience, batch: Batch) -> None:
        if group.log:
            group.log[-1].rest()
        group.log.append(batch)
        group.log_bytes += batch.size
        while group.log_bytes > self._log_bytes_max and len(group.log) > 1:
            self._drop_oldest(group)

    def _drop_oldest(self, group: Audience) -> None:
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
                self._miss(group, subscriber, dropped)
                subscriber.at = group.log_first, 0

    def _miss(self, group: Audience, subscriber: Subscriber, dropped: Batch) -> None:
        """What a subscription could not be kept for. It is told when it takes something, or in a while: one who takes
        nothing is not to be sent a word for each packet."""
        assert subscriber.at is not None
        for stream, first, last, count in dropped.missed(subscriber.selector, subscriber.at[1]):
            subscriber.feed.shown.on_lost(stream, first, last)
            subscriber.lost += count
            group.counters.events_lost += count
            known = subscriber.gaps.get(stream)
            subscriber.gaps[stream] = Gap(
                subscriber.sub, stream, first if known is None else known.first, last, "the broker's log was full"
            )

    def _lose(self, subscriber: Subscriber, stream: StreamId, first: int, last: int, count: int, reason: str) -> None:
        subscriber.lost += count
        self._groups[subscriber.group].counters.events_lost += count
        subscriber.outlet.deliver(encode(Gap(subscriber.sub, stream, first, last, reason)))
        self._waiting[subscriber.key] = None

    def _attach(self, group: Audience, subscriber: Subscriber) -> None:
        """Keep what comes from now on, for one who is reading towards it."""
        group.attached[subscriber.key] = None
        subscriber.at = group.log_first + len(group.log), 0

    def _detach(self, group: Audience, subscriber: Subscriber) -> None:
        """The log need not be kept for this one; what is kept for nobody goes."""
        subscriber.at = None
        if group.attached.pop(subscriber.key, 0) is None:
            places = [at[0] for key in group.attached if (at := self.subscribers[key].at) is not None]
            oldest = min(places, default=group.log_first + len(group.log))
            while group.log_first < oldest:
                group.log_bytes -= group.log.popleft().size
                group.log_first += 1

    def _read_on(self, group: Audience, subscriber: Subscriber) -> None:
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
                place = batch.taken(reading.position(batch.stream))
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

    def _offer_one(self, group: Audience, subscriber: Subscriber, arrival: Arrival, matches: bool) -> None:
        if group.plain is None:
            if arrival.by is None:
                arrival = group.intake.again(arrival)
            group.dispatch.offer(subscriber.key, arrival, matches)
        else:
            by = group.plain.newer(arrival) if subscriber.purges else None
            subscriber.feed.offer(arrival if by is None else arrival._replace(by=by), matches)

    def _catch_up(self, group: Audience, subscriber: Subscriber) -> None:
        subscriber.feed.behind = False
        subscriber.untold = subscriber.reading is not None
        subscriber.reading = None
        del group.behind[subscriber.key]
        self._detach(group, subscriber)
        self.readings.remove(subscriber.key)
        if group.plain is not None:
            group.plain.take_over(subscriber.key, subscriber.feed.shown)

    # Reading from loggers -------------------------------------------------------------------------------------------

    def _read_from_loggers(self, group: Audience, outrun: list[Subscriber]) -> None:
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
                released = partial(self.progress.of, subscriber.group)
                reading.replay = self.replays(subscriber.group, released)(positions)
            self.readings.add(reading)
            self._detach(group, subscriber)

    def _before_log(self, group: Audience, name: str) -> dict[StreamId, int]:
        """How far each stream had been passed on when the log began."""
        positions = self.progress.of(name)
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
                if phase == "newest" and reading.began is not None:
                    reading.put(reading.began)
            elif replay.at_end and phase == "read" and not replay.heading:
                self._attach(self._groups[reading.group], subscriber)
                replay.until(self.progress.of(reading.group))
            if reading.bytes >= self.readings.page_bytes:
                reading.due_at = NEVER
            self._waiting[reading.key] = None

    def _give_up(self, subscriber: Subscriber, reading: Reading) -> None:
        """The loggers are gone for good: what they alone had is lost."""
        assert reading.replay is not None
        group = self._groups[subscriber.group]
        if subscriber.at is None:
            self._attach(group, subscriber)
        for stream, last in self.progress.of(subscriber.group).items():
            position = reading.replay.position(stream)
            if position is not None and position < last:
                self._lose(subscriber, stream, position + 1, last, last - position, "there is no logger any more")
        reading.replay = None
        self.readings.remove(subscriber.key)

    def _offer(self, group: Audience, subscriber: Subscriber, reading: Reading) -> bool:
        """Offer what comes next of what was read; whether there was room for it."""
        if reading.ready:
            arrival, matches = reading.ready.popleft()
            if not (reading.restarted and shows_it(subscriber.feed.shown, arrival)):
                self._offer_one(group, subscriber, arrival, matches)
            return True
        piece = reading.pieces[0]
        if isinstance(piece, Reached):
            if len(subscriber.feed):
                return False  # what is in the queue comes first
            reading.pieces.popleft()
            subscriber.outlet.deliver(encode(piece))
            return True
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
        credit = subscriber.credit
        if stretch.count > credit:
            stretch, rest = stretch.split(credit)
        count = stretch.count
        if stretch.kind == KEYED and (
            (piece.newest and reading.restarted) or not shows(subscriber.feed.shown, stretch, count)
        ):
            return False
        if count:
            if stretch.kind == LOOSE:
                subscriber.feed.shown.on_run(stretch.stream, stretch.ranges)
            subscriber.sent += count
            subscriber.feed.delivered += count
            loose = stretch.kind == LOOSE
            frame = encode(Run((subscriber.sub,), stretch.stream, stretch.ranges, stretch.blob, loose))
            subscriber.outlet.deliver(frame)
        reading.sent(piece, rest)
        return True

    def reach(self) -> None:
        """Tell those that are live how far they have come, so that they need not look at it again elsewhere."""
        now_ns = time_ns()
        positions = self.progress.turn(now_ns)
        for name, group in self._groups.items():
            reached = dict(list(positions.get(name, {}).items())[:POSITIONS_MAX])
            subs: dict[Any, list[int]] = {}
            for key in group.selectors:
                subscriber = self.subscribers[key]
                if subscriber.feed.behind or len(subscriber.feed):
                    self._tell(subscriber, obsoleted=False)
                    continue
                if subscriber.untold:
                    self._tell_reached(subscriber, now_ns)
                elif reached:
                    subs.setdefault(subscriber.outlet, []).append(subscriber.sub)
            for outlet, each in subs.items():
                outlet.deliver(encode(Reached(tuple(each), now_ns, reached)))

    def _tell_reached(self, subscriber: Subscriber, now_ns: int) -> None:
        subscriber.begins = subscriber.untold = False
        every = dict(list(self.progress.of(subscriber.group).items())[:POSITIONS_MAX])
        subscriber.outlet.deliver(encode(Reached((subscriber.sub,), now_ns, every)))

    # What goes out --------------------------------------------------------------------------------------------------

    def _send_on(self, subscriber: Subscriber, batch: Batch, place: int) -> int:
        """Send one subscription what it is to have of a batch, from a place on, as far as its credit goes; up to where.
        What it cannot have as a whole waits for more credit, unless there is enough for half its buffer: then all that
        are behind get the same frames, which are kept for them."""
        assert batch.packet is not None
        places, credit = batch.places(subscriber.selector), subscriber.credit
        start = bisect_left(places, place)
        left = len(places) - start
        if credit < left and (2 * credit < subscriber.buffer or not credit):
            return place
        if not subscriber.outlet.open:
            return place
        count = min(left, credit)
        if count:
            frame = self._frames.run(batch.packet, joined(places[start : start + count]), subscriber.sub)
            subscriber.sent += count
            subscriber.feed.delivered += count
            subscriber.outlet.deliver(frame)
        return places[start + count] if count < left else batch.count

    def flush(self) -> None:
        """Send what waits, as far as credit and room go; what is left waits for more of them."""
        waiting, self._waiting = self._waiting, {}
        for key in waiting:
            subscriber = self.subscribers.get(key)
            if subscriber is not None:
                self._drain(subscriber)

    def _drain(self, subscriber: Subscriber) -> None:
        feed, group = subscriber.feed, self._groups[subscriber.group]
        if subscriber.ready:
            self._tell(subscriber, obsoleted=False)
        while subscriber.ready and (len(feed) or feed.behind):
            items = feed.take(min(TAKE_EVENTS_MAX, subscriber.credit), TAKE_BYTES_MAX) if len(feed) else ()
            if items:
                # What is obsolete has something newer behind it: told before that, it is known when that is read.
                self._tell(subscriber)
                subscriber.sent += len(items)
                subscriber.outlet.deliver(encode(items_of(subscriber.sub, items)))
            if feed.behind and not feed.full:
                self._read_on(group, subscriber)
                if feed.behind and not len(feed):
                    break  # all that was read is sent
        if subscriber.begins and subscriber.untold and not len(feed):
            self._tell_reached(subscriber, time_ns())

    def _tell(self, subscriber: Subscriber, *, obsoleted: bool = True) -> None:
        """Tell what was lost, and (or only with that) how many were obsolete, if that is not known."""
        for gap in subscriber.gaps.values():
            subscriber.outlet.deliver(encode(gap))
        subscriber.gaps.clear()
        told = subscriber.feed.obsoleted, subscriber.lost + subscriber.feed.lost
        if told != subscriber.told and (obsoleted or told[1] != subscriber.told[1]):
            subscriber.told = told
            subscriber.outlet.deliver(encode(Counts(subscriber.sub, *told)))


def _positions(before: dict[StreamId, int], batch: Batch, taken: int, reading: Reading | None) -> dict[StreamId, int]:
    """How far one has come who has taken so much of the first batch of a log, and has read before."""
    positions = before
    if taken:
        positions = {**positions, batch.stream: batch.arrivals[taken - 1].id.seq}
    if reading is not None:
        ahead = {name: last for name, last in reading.offered.items() if last > positions.get(name, -1)}
        positions = {**positions, **ahead}
    return positions
