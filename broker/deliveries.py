"""From what a node delivers to what each client is sent, as fast as the matches allow.

Most groups are *plain*: events with a key or without, and none that names others, is part of a transaction or competes
with other publishers for a key. Then what a subscription was last shown of a key follows from whom the last event of
that key matched, and is the same question for all of them: one table for the group (`_Plain`), one comparison an event,
however many subscriptions there are. A subscription that keeps up is sent slices of the publisher's own bytes, encoded
once for all that get the same; only one that does not has a queue to look after.

The first event that is not plain turns its group over to protocol/delivery.py, which asks these questions for each
subscription by itself, and answers them for every kind of event.

A queue that is full of what is not obsolete makes its subscription *fall behind*: it is then read to from a log, and
from loggers (broker/catching_up.py), and is live again when it has come to the end.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from time import monotonic, time_ns
from typing import Any, NamedTuple

from gossamer.broker.audience import Audience
from gossamer.broker.batch import Batch
from gossamer.broker.catching_up import LOG_BYTES_MAX, PURGED, CatchingUp
from gossamer.broker.counters import Counters
from gossamer.broker.frames import Spans, items_of, places_of, send_runs, spans_of
from gossamer.broker.plain import Plain
from gossamer.broker.reading import Piece, Reading
from gossamer.broker.recent import SLACK_NS, Progress, Recent
from gossamer.broker.subscriber import Outlet, Subscriber
from gossamer.matching import Selector
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Attributes, Event, Head
from gossamer.messages.ids import SYSTEM_GROUP, EventId, StreamId, group_of
from gossamer.messages.packet import Packet
from gossamer.messages.quick import everyday
from gossamer.messages.session import POSITIONS_MAX, Began, Counts, Gap, Reached, Start, Subscribe, encode
from gossamer.protocol.delivery import Arrival
from gossamer.protocol.replay import Missing
from gossamer.protocol.shown import DELIVER, Left, Shown, Verdict
from gossamer.protocol.tally import Tally

TAKE_EVENTS_MAX = 1_024
TAKE_BYTES_MAX = 1024 * 1024
UNSEEN_MAX = 4_096
UNWHOLE = "its transaction lacks an event"

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
_vetted = partial(tuple.__new__, _Vetted)  # in a third of the time of its own constructor


class Deliveries:
    """All subscriptions at a broker."""

    def __init__(
        self,
        log_bytes_max: int = LOG_BYTES_MAX,
        counters: Counters | None = None,
        *,
        purge_patience_s: float = 0.05,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`purge_patience_s`: how long an event waits for a consumer before `policy="auto"` purges, by this clock."""
        self._patience_s = purge_patience_s
        self._clock = clock
        self.counters = counters or Counters()
        self.tally = Tally()
        self.subscribers: dict[int, Subscriber] = {}
        self._groups: dict[str, Audience] = {}
        self._keys = 0
        self._recent = Recent()
        self.progress = Progress()
        self._waiting: dict[int, None] = {}
        """Who may have something to be sent, once there is credit and room."""
        self.catching_up = CatchingUp(
            log_bytes_max,
            self.subscribers,
            self._groups,
            self._waiting,
            self.progress,
            self._lose,
            self._pass,
            self._leave_plain,
            clock,
        )
        self._vetted = _NOT_VETTED

    # Subscriptions --------------------------------------------------------------------------------------------------

    def add(self, outlet: Outlet, group: str, wanted: Subscribe, had: Had | None = None) -> Subscriber:
        """A new subscription; `SelectorError` if its selector is wrong. `had` tells of streams that its beginning does
        not name whether it has had them."""
        self._keys += 1
        subscriber = Subscriber(self._keys, outlet, group, wanted, self.tally, self._patience_s)
        at = self._groups.get(group)
        if at is None:  # telemetry does not count itself
            at = self._groups[group] = Audience(Counters() if group == SYSTEM_GROUP else self.counters)
        at.select(subscriber.key, subscriber.selector)
        at.dispatch.add(subscriber.key, subscriber.feed)
        subscriber.unseen_upto = len(at.unseen)
        self.subscribers[subscriber.key] = subscriber
        if subscriber.strict:
            at.strict[subscriber.key] = None
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
        resumes = bool(start.since_ns) and not start.published_ns and not start.last_per_key
        has_loggers = self.catching_up.has_loggers()
        if not resumes and not has_loggers:
            raise UsageError("there is no logger in this mesh, so there is nothing but what comes from now on")
        for id, head in start.shown:  # by another broker
            if group.plain is not None:
                subscriber.feed.shown.on_event(id, head, True, False)
            else:
                group.dispatch.preset(key, id, head)
        subscriber.feed.behind = True
        group.behind[key] = self._waiting[key] = None
        base = {} if start.last_per_key else positions
        subscriber.account.begin = base
        subscriber.reading = reading = Reading(key, subscriber.group, str(subscriber.selector), base)
        since_ns = start.since_ns
        if start.last_per_key and not since_ns:
            positions, since_ns = self.now(subscriber.group)
        if start.last_per_key and len(positions) <= POSITIONS_MAX:
            subscriber.outlet.deliver(encode(Began(subscriber.sub, since_ns, positions)))
            reading.began = Reached((subscriber.sub,), since_ns, positions)
        since_ns = max(1, since_ns - SLACK_NS) if since_ns else 0
        purged = self._recent.holes(subscriber.group, positions, since_ns) if resumes else []
        if has_loggers and not (
            resumes
            and self._recent.remembers(positions, since_ns, self.progress.of(subscriber.group))
            and not (purged and subscriber.strict)
        ):
            replay = self.catching_up.replays(subscriber.group, partial(self.progress.of, subscriber.group))
            reading.replay = replay(
                positions, since_ns, published_ns=start.published_ns, last_per_key=start.last_per_key, had=had
            )
            reading.moves = int(start.last_per_key and bool(start.shown))
            self.catching_up.readings.add(reading)
            return
        self.catching_up.attach(group, subscriber)
        for stream, first, last in purged:
            if subscriber.strict:
                self._lose(subscriber, stream, first, last, last - first + 1, PURGED)
            else:
                subscriber.account.skip(stream, first, last)
        reached, now = dict(positions), self._clock()
        for stretch in self._recent.recalled(subscriber.group, subscriber.selector, positions, since_ns):
            position = reached.get(stretch.stream)
            if position is not None and stretch.first > position + 1:
                reading.put(Missing(stretch.stream, position + 1, stretch.first - 1, True), now)
            reading.put(Piece(stretch if position is None else stretch.beyond(position), True), now)
            reached[stretch.stream] = stretch.last

    def now(self, group: str) -> tuple[dict[StreamId, int], int]:
        """Where `last_per_key` begins: how far each stream is, and when others begin."""
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
        group.strict.pop(key, None)
        self.catching_up.detach(group, subscriber)
        self.catching_up.readings.remove(key)
        self._waiting.pop(key, None)
        del self.subscribers[key]
        if not group.selectors:
            del self._groups[subscriber.group]

    def make_room(self, subscriber: Subscriber) -> None:
        """Purge what is obsolete for a consumer that is behind; go on with what waits for it in the log."""
        feed = subscriber.feed
        feed.make_room(self._clock())
        if feed.behind and feed.eager and not feed.full and subscriber.reading is None:
            self.catching_up.read_on(self._groups[subscriber.group], subscriber)

    def grant(self, subscriber: Subscriber, total: int) -> None:
        """The client takes so many in all; or there is room again."""
        subscriber.granted = max(subscriber.granted, total)
        if len(subscriber.feed) or subscriber.feed.behind:
            self._waiting[subscriber.key] = None

    @property
    def audiences(self) -> Mapping[str, Audience]:
        """The subscriptions of each group."""
        return self._groups

    # Telemetry ------------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, int]:
        waiting = self._queued()
        return {
            "subscriptions_behind": sum(len(group.behind) for group in self._groups.values()),
            "queued_events": sum(len(each.feed) for each in waiting),
            "queued_bytes": sum(each.feed.bytes for each in waiting),
            "behind_log_bytes": sum(group.log_bytes for group in self._groups.values()),
            "subscriptions_reading": len(self.catching_up.readings),
            "pages_read": self.catching_up.readings.pages,
            "pages_failed": self.catching_up.readings.failures,
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
        self._vetted = _vetted((packet, packet.vetted() if attributes is None else None, attributes, wanted))

    def on_packet(self, packet: Packet) -> None:
        try:
            group = self._groups.get(group_of(packet.stream))
            plain = None if group is None else group.plain
            if packet.holes and group is not None:
                self._on_holes(group, packet)
            if group is None or (plain is not None and self._pass_plain(group, plain, packet)):
                self.progress.moved(packet.stream, packet.last)
            else:
                if plain is not None:
                    self._leave_plain(group, plain)
                self._on_intake(group, packet.stream, packet.last, group.intake.on_packet(packet))
            if group is not None and group.attached:
                self.catching_up.on_progress(group)
        finally:  # after it is on its way: nobody waits for this
            self._recent.keep(packet)

    def _on_holes(self, group: Audience, packet: Packet) -> None:
        """A link purged events of this packet, which is next."""
        if group.strict:
            self.catching_up.recover(group, packet)
        if len(group.strict) < len(group.selectors):
            if len(group.unseen) >= UNSEEN_MAX:
                self._see_all(group)
            group.unseen += [(packet.stream, hole.first, hole.last) for hole in packet.holes]

    def _see_all(self, group: Audience) -> None:
        for key in group.selectors:
            self.catching_up.see(group, self.subscribers[key])
            self.subscribers[key].unseen_upto = 0
        group.unseen.clear()

    def _pass_plain(self, group: Audience, plain: Plain, packet: Packet) -> bool:
        """Whether all of it is plain, and on its way."""
        vetted, self._vetted = self._vetted, _NOT_VETTED
        known = vetted.packet is packet
        attributes, events = vetted.attributes if known else None, vetted.events if known else None
        if events is None and (attributes is None or vetted.wanted is not group.names):
            attributes = everyday(packet, group.names, trusted=True)
        if attributes is not None:
            self._on_plain(group, plain, None, packet, attributes)
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
        for event in group.intake.dropped:
            assert event.id is not None
            for key in group.matched([event.attributes])[0]:
                if self.subscribers[key].reading is None:  # otherwise a logger may have the whole transaction
                    self._lose(self.subscribers[key], stream, event.id.seq, event.id.seq, 1, UNWHOLE)
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
        if group is not None and group.attached:
            self.catching_up.on_progress(group)

    def _on_plain(
        self, group: Audience, plain: Plain, batch: Batch | None, packet: Packet, attributes: list[Attributes]
    ) -> None:
        """Without a batch it is one without keys, of which nobody has looked at more than these attributes."""
        matched = group.matched(attributes)
        leaving = {} if batch is None or batch.loose else plain.show(batch, packet.last, matched)
        shared: dict[Spans, list[Subscriber]] = {}
        slower: list[tuple[Subscriber, Spans]] = []
        matches = spans_of(matched)
        for key, spans in matches.items():
            count = sum([stop - start for start, stop in spans]) if len(spans) > 1 else spans[0][1] - spans[0][0]
            group.counters.events_matched += count
            subscriber = self.subscribers[key]
            feed = subscriber.feed
            if feed.behind:
                continue
            quick = key not in leaving and subscriber.granted - subscriber.sent >= count and not len(feed)
            if quick and subscriber.outlet.open:
                subscriber.sent += count
                feed.delivered += count
                if group.unseen:
                    self.catching_up.see(group, subscriber)
                if subscriber.account.pending:
                    self._pass(subscriber, packet.stream, packet.seqs()[spans[-1][1] - 1])
                shared.setdefault(spans, []).append(subscriber)
            else:
                slower.append((subscriber, spans))
        if shared:
            send_runs(packet, shared, batch is None or batch.loose)
        # Those who keep up have it; what follows is for the others, and for later.
        if batch is None:
            batch = Batch(packet, None)
        if batch.loose:
            plain.show(batch, packet.last, matched)
        if group.attached:
            self.catching_up.log(group, batch)
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
        feed.on_time(self._clock())
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
        if overtaken:
            seqs, by_key = batch.seqs, dict[str | None, list[int]]()
            for place in overtaken:
                by_key.setdefault(batch.events[place].key, []).append(seqs[place])
            for name, each in by_key.items():
                feed.overtake(batch.packet.stream, name, each)

    def _fall(self, group: Audience, subscriber: Subscriber, batch: Batch, taken: list[list[int]]) -> None:
        """A queue is full, or none is needed: from here on the subscription is read to from the log."""
        assert group.plain is not None
        assert batch.packet is not None
        shown = subscriber.feed.shown = Shown()
        events = batch.events if taken else []
        for id, name in group.plain.shown_to(subscriber.key, batch.packet.stream, events, taken).items():
            shown.on_event(id, Head(name), True, False)
        if not group.attached:
            self.catching_up.log(group, batch)
        subscriber.feed.behind = True
        self.catching_up.lag(group, subscriber, len(taken))

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
            self.catching_up.log(group, batch)
        fell = dispatch.on_batch(arrivals, matched)
        if fell and not group.attached:
            self.catching_up.log(group, batch)
        for key, taken in fell.items():
            self.catching_up.lag(group, self.subscribers[key], taken)
        now = self._clock()
        for key in dispatch.touched:
            if (feed := dispatch.feeds.get(key)) is not None:  # it may have been touched, and be gone since
                feed.on_time(now)
        self._waiting |= dispatch.touched
        dispatch.touched.clear()

    def _lose(self, subscriber: Subscriber, stream: StreamId, first: int, last: int, count: int, reason: str) -> None:
        subscriber.lost += count
        subscriber.account.lose(stream, first, last, count)
        self._groups[subscriber.group].counters.events_lost += count
        subscriber.outlet.deliver(encode(Gap(subscriber.sub, stream, first, last, reason)))
        self._waiting[subscriber.key] = None

    def reach(self) -> None:
        """Tell those that are live how far they have come, so that they need not look at it again elsewhere."""
        now_ns = time_ns()
        positions = self.progress.turn(now_ns)
        for name, group in self._groups.items():
            reached = dict(list(positions.get(name, {}).items())[:POSITIONS_MAX])
            subs: dict[Any, list[int]] = {}
            if group.unseen:
                self._see_all(group)
            for key in group.selectors:
                subscriber = self.subscribers[key]
                if subscriber.feed.behind or len(subscriber.feed):
                    subscriber.feed.on_time(self._clock())
                    self._tell_gaps(subscriber)
                    continue
                self._settle(subscriber)
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

    def flush(self) -> None:
        """Send what waits, as far as credit and room go; what is left waits for more of them."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for key in waiting:
            subscriber = self.subscribers.get(key)
            if subscriber is not None:
                self._drain(subscriber)

    def _drain(self, subscriber: Subscriber) -> None:
        feed, group = subscriber.feed, self._groups[subscriber.group]
        feed.on_time(self._clock())
        if group.unseen:
            self.catching_up.see(group, subscriber)
        if subscriber.ready:
            self._tell_gaps(subscriber)
        while subscriber.ready and (len(feed) or feed.behind):
            items = feed.take(min(TAKE_EVENTS_MAX, subscriber.credit), TAKE_BYTES_MAX) if len(feed) else ()
            if items:
                self._tell_gaps(subscriber)
                self._tell(subscriber)
                subscriber.sent += len(items)
                subscriber.outlet.deliver(encode(items_of(subscriber.sub, items)))
            if feed.behind and not feed.full:
                self.catching_up.read_on(group, subscriber)
                if feed.behind and not len(feed):
                    break  # all that was read is sent
        if not feed.behind and not len(feed):
            feed.relax()
            self._tell_gaps(subscriber)
            self._settle(subscriber)
            if subscriber.begins and subscriber.untold:
                self._tell_reached(subscriber, time_ns())

    def _tell_gaps(self, subscriber: Subscriber) -> None:
        for gap in subscriber.gaps.values():
            subscriber.outlet.deliver(encode(gap))
            if not len(subscriber.feed):  # nothing waits that stands before the gap
                subscriber.account.passed(gap.stream, gap.last)
                self._tell(subscriber, {gap.stream: gap.last})
        subscriber.gaps.clear()

    def _pass(self, subscriber: Subscriber, stream: StreamId, seq: int) -> None:
        """The next frame moves the position of a client to there: tell which events before it were not sent."""
        subscriber.account.passed(stream, seq)
        self._tell(subscriber)

    def _settle(self, subscriber: Subscriber) -> None:
        """A subscription has everything: its position moves behind the events that it was not sent."""
        account = subscriber.account
        ends = list(account.ends().items()) if account.pending else ()
        for start in range(0, len(ends), POSITIONS_MAX):
            positions = {}
            for stream, end in ends[start : start + POSITIONS_MAX]:
                at = self.progress.at(stream)  # behind that, parts of a transaction may wait for their commit
                positions[stream] = end if at is None else min(at, end)
                account.passed(stream, positions[stream])
            self._tell(subscriber, positions)

    def _tell(self, subscriber: Subscriber, positions: dict[StreamId, int] | None = None) -> None:
        """Tell the totals up to the next frame, or up to these positions."""
        totals = subscriber.account.totals
        if totals != subscriber.told:
            subscriber.told = totals
            subscriber.outlet.deliver(encode(Counts(subscriber.sub, *totals, positions)))
