"""Those that are behind: the log that they are read to from, and what loggers read for them.

A queue that is full of what is not obsolete makes its subscription *fall behind*. It is then read to from a log of what
came since, shared by all that are behind, and is live again when it has come to the end. The log is bounded, too: who
falls out of it goes on from a logger (broker/reading.py), and comes back to the log when it has read up to there. So
does whoever begins in the past, or comes from another broker; for those what came lately is kept, and often enough.
Only in a mesh without loggers is what falls out of the log lost, which is counted, and told (design §4.6).

A subscription that is owed every event (`policy="none"`) reads from a logger as well when a saturated link has purged
events on their way to this broker: a logger has them, since nothing is purged on the links to loggers.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from time import monotonic

from gossamer.broker.audience import Audience
from gossamer.broker.batch import Batch
from gossamer.broker.frames import Frames, joined
from gossamer.broker.plain import Plain
from gossamer.broker.reading import HELD_BYTES_MAX, NEVER, Piece, Reading, Readings, shows, shows_it
from gossamer.broker.recent import Progress
from gossamer.broker.subscriber import Subscriber
from gossamer.matching.stretching import KEYED, LOOSE, RELATED
from gossamer.messages.errors import PeerError
from gossamer.messages.ids import NodeId, StreamId, finished_streams
from gossamer.messages.packet import Packet
from gossamer.messages.session import Gap, Reached, Run, encode
from gossamer.messages.wire import Page, Stretch
from gossamer.protocol.delivery import Arrival
from gossamer.protocol.inputs import Consult
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.replay import Missing, Replay

LOG_BYTES_MAX = 64 * 2**20
PURGED = "purged on a saturated link, and not logged"

Lose = Callable[[Subscriber, StreamId, int, int, int, str], None]
Pass = Callable[[Subscriber, StreamId, int], None]


class CatchingUp:
    """All subscriptions at a broker that are behind."""

    def __init__(
        self,
        log_bytes_max: int,
        subscribers: dict[int, Subscriber],
        groups: dict[str, Audience],
        waiting: dict[int, None],
        progress: Progress,
        lose: Lose,
        on_pass: Pass,
        leave_plain: Callable[[Audience, Plain], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """The subscriptions, their groups, and who of them waits to be sent something, are those of
        broker/deliveries.py; `lose` tells one that some will not come, `on_pass` that the next frame moves its
        position, `leave_plain` that a group's events are not
        plain from here on."""
        self.log_bytes_max = log_bytes_max
        self._subscribers = subscribers
        self._groups = groups
        self._waiting = waiting
        self._progress = progress
        self._lose = lose
        self._pass = on_pass
        self._leave_plain = leave_plain
        self._clock = clock
        self._frames = Frames()
        self.readings = Readings()
        self.has_loggers: Callable[[], bool] = lambda: False
        self.replays: Callable[[str, Callable[[], Mapping[StreamId, int]]], Callable[..., Replay]] = lambda *_: Replay
        """What reads a group from a logger, given how far each stream has been passed on here."""

    # The log --------------------------------------------------------------------------------------------------------

    def lag(self, group: Audience, subscriber: Subscriber, taken: int) -> None:
        """A subscription reads on from here, where it has taken so many of the last batch."""
        group.counters.fallen_behind += 1
        group.behind[subscriber.key] = group.attached[subscriber.key] = None
        subscriber.at = group.log_first + len(group.log) - 1, taken

    def log(self, group: Audience, batch: Batch) -> None:
        """Keep what has just come."""
        if group.log:
            group.log[-1].rest()
        batch.came_at = self._clock()
        group.log.append(batch)
        group.log_bytes += batch.size
        while group.log_bytes > self.log_bytes_max and len(group.log) > 1:
            self._drop_oldest(group)

    def _drop_oldest(self, group: Audience) -> None:
        number = group.log_first
        outrun = [each for key in group.attached if (each := self._subscribers[key]).at == (number, each.at[1])]  # type: ignore[index]
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
            subscriber.account.lose(stream, first, last, count)
            group.counters.events_lost += count
            known = subscriber.gaps.get(stream)
            subscriber.gaps[stream] = Gap(
                subscriber.sub, stream, first if known is None else known.first, last, "the broker's log was full"
            )

    def attach(self, group: Audience, subscriber: Subscriber) -> None:
        """Keep what comes from now on, for one who is reading towards it."""
        group.attached[subscriber.key] = None
        subscriber.at = group.log_first + len(group.log), 0

    def detach(self, group: Audience, subscriber: Subscriber) -> None:
        """The log need not be kept for this one; what is kept for nobody goes."""
        subscriber.at = None
        if group.attached.pop(subscriber.key, 0) is None:
            places = [at[0] for key in group.attached if (at := self._subscribers[key].at) is not None]
            oldest = min(places, default=group.log_first + len(group.log))
            while group.log_first < oldest:
                group.log_bytes -= group.log.popleft().size
                group.log_first += 1

    def read_on(self, group: Audience, subscriber: Subscriber) -> None:
        """Offer what was read, and what came since, as far as there is room."""
        feed, reading = subscriber.feed, subscriber.reading
        now = self._clock()
        if reading is not None:
            while reading.pending and not feed.full:
                if not self._offer(group, subscriber, reading, now):
                    break
            if reading.due_at == NEVER and reading.bytes < self.readings.page_bytes:
                reading.due_at = 0.0
            if reading.pending or not reading.done:
                return
        self.see(group, subscriber)
        assert subscriber.at is not None
        number, place = subscriber.at
        while not feed.full:
            if number >= group.log_first + len(group.log):
                if reading is None or not self._is_ahead(reading):
                    self._catch_up(group, subscriber)
                    return
                break
            batch = group.log[number - group.log_first]
            if feed.patience_s is not None and now - batch.came_at > feed.patience_s:
                feed.purge()
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

    def on_progress(self, group: Audience) -> None:
        """Something came. Purge for the patient whose next event in the log has waited too long: they are live again
        at once, unless their queue is full of what is not obsolete."""
        now = self._clock()
        for key in list(group.attached):
            subscriber = self._subscribers[key]
            feed, reading = subscriber.feed, subscriber.reading
            if reading is not None and reading.ahead:
                self._waiting[key] = None
            if feed.patience_s is None or feed.eager or (reading is not None and (reading.pending or not reading.done)):
                continue
            assert subscriber.at is not None
            at = subscriber.at[0] - group.log_first
            if at < len(group.log) and now - group.log[at].came_at > feed.patience_s:
                feed.purge()
                self._waiting[key] = None
                if not feed.full:
                    self.read_on(group, subscriber)

    def _is_ahead(self, reading: Reading) -> bool:
        """Whether a logger has given events that this broker has still to deliver: live, they would come twice."""
        if not reading.ahead:
            passed = self._progress.of(reading.group)
            reading.ahead = {name: last for name, last in reading.offered.items() if passed.get(name, last) < last}
        else:
            at = self._progress.at
            reading.ahead = {name: last for name, last in reading.ahead.items() if (at(name) or -1) < last}
        return bool(reading.ahead)

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
            if subscriber.account.pending:
                self._pass(subscriber, batch.stream, batch.seqs[places[start + count - 1]])
            frame = self._frames.run(batch.packet, joined(places[start : start + count]), subscriber.sub)
            subscriber.sent += count
            subscriber.feed.delivered += count
            subscriber.outlet.deliver(frame)
        return places[start + count] if count < left else batch.count

    def _offer_one(self, group: Audience, subscriber: Subscriber, arrival: Arrival, matches: bool) -> None:
        if group.plain is None:
            # What was passed on since makes it obsolete only for a subscription that purges. For others what they have
            # read counts: their reading may have been ahead of this broker.
            intake = group.intake if subscriber.purges else subscriber.reading and subscriber.reading.intake
            if arrival.by is None and intake:
                arrival = intake.again(arrival)
            group.dispatch.offer(subscriber.key, arrival, matches)
        else:
            by = group.plain.newer(arrival) if subscriber.purges else None
            subscriber.feed.offer(arrival if by is None else arrival._replace(by=by), matches)

    def _catch_up(self, group: Audience, subscriber: Subscriber) -> None:
        subscriber.feed.behind = False
        subscriber.untold = subscriber.reading is not None
        subscriber.reading = None
        del group.behind[subscriber.key]
        self.detach(group, subscriber)
        self.readings.remove(subscriber.key)
        if group.plain is not None:
            group.plain.take_over(subscriber.key, subscriber.feed.shown)

    # Reading from loggers -------------------------------------------------------------------------------------------

    def recover(self, group: Audience, packet: Packet) -> None:
        """A link purged events of this packet, which is next: those that are owed them read them from a logger."""
        if not self.has_loggers():
            for key in group.strict:
                for hole in packet.holes:
                    count = hole.last - hole.first + 1
                    self._lose(self._subscribers[key], packet.stream, hole.first, hole.last, count, PURGED)
            return
        owed = [self._subscribers[key] for key in group.strict]
        for subscriber in owed:
            feed = subscriber.feed
            if not feed.behind:
                if group.plain is not None:
                    feed.shown = group.plain.shown_now(subscriber.key)
                feed.behind = True
                group.behind[subscriber.key] = None
                self.attach(group, subscriber)
        self._read_from_loggers(group, [each for each in owed if each.at is not None])
        for subscriber in owed:
            assert subscriber.reading is not None
            for hole in packet.holes:
                subscriber.reading.owed.setdefault(packet.stream, IntervalSet()).add(hole.first, hole.last)

    def see(self, group: Audience, subscriber: Subscriber) -> None:
        """Take events into account that links purged: unless a logger gives them to this subscription."""
        entries = group.unseen[subscriber.unseen_upto :]
        subscriber.unseen_upto = len(group.unseen)
        if subscriber.strict or not (entries or subscriber.unseen):
            return
        reading = subscriber.reading
        if reading is not None and (reading.pending or not reading.done):
            subscriber.unseen += entries
            return
        for stream, first, last in (*subscriber.unseen, *entries):
            had = -1 if reading is None else reading.position(stream)
            subscriber.account.skip(stream, max(first, had + 1), last)
        subscriber.unseen.clear()

    def _read_from_loggers(self, group: Audience, subscribers: list[Subscriber]) -> None:
        """These cannot go on from where they are in the log."""
        known: dict[int, dict[StreamId, int]] = {}
        for subscriber in subscribers:
            reading = subscriber.reading
            if reading is not None and reading.replay is not None and (reading.pending or not reading.done):
                reading.replay.until(None)  # it had not come to the log yet, and will try again
            else:
                assert subscriber.at is not None
                number, taken = subscriber.at
                before = known.get(number)
                if before is None:
                    before = known[number] = self._before(group, subscriber.group, number)
                batch = group.log[number - group.log_first] if taken else None
                positions = _positions(before, batch, taken, reading)
                if reading is None or not reading.pending:
                    selector = str(subscriber.selector)
                    reading = subscriber.reading = Reading(subscriber.key, subscriber.group, selector, positions)
                subscriber.account.drop_unseen(positions)  # the logger has these events
                released = partial(self._progress.of, subscriber.group)
                reading.replay = self.replays(subscriber.group, released)(positions)
            self.readings.add(reading)
            self.detach(group, subscriber)

    def _before(self, group: Audience, name: str, number: int) -> dict[StreamId, int]:
        """How far each stream had been passed on before a batch of the log."""
        positions = self._progress.of(name)
        for batch in reversed(list(islice(group.log, number - group.log_first, None))):
            positions[batch.stream] = batch.first - 1
        return positions

    def asks(self, now: float) -> Iterator[Consult]:
        """What loggers are to be asked now."""
        if len(self.readings) and not self.has_loggers():
            for subscriber in list(self._subscribers.values()):
                if subscriber.reading is not None and not subscriber.reading.done:
                    self._give_up(subscriber, subscriber.reading)
        return self.readings.asks(now)

    def on_page(self, logger: NodeId, page: Page, now: float) -> None:
        """A logger's answer."""
        for reading, sure in self.readings.on_page(logger, page, now):
            replay, subscriber = reading.replay, self._subscribers[reading.key]
            assert replay is not None
            before, phase = replay.cursor or 0, replay.phase
            for each in replay.on_page(page):
                if isinstance(each, Stretch):
                    newest = phase == "newest"
                    # What was held may be of a page that was shared.
                    reading.put(Piece(each, sure and each.number > before, newest), self._clock())
                else:
                    reading.put(each, now)
            if replay.held_bytes > HELD_BYTES_MAX:
                self.readings.fail(reading, now, f"{logger} lacks what comes before {HELD_BYTES_MAX} bytes")
            elif replay.phase != phase:
                reading.due_at = now
                if phase == "newest" and reading.began is not None:
                    reading.put(reading.began, now)
            elif replay.at_end and phase == "read" and not replay.heading:
                self.attach(self._groups[reading.group], subscriber)
                replay.until(self._progress.of(reading.group))
                if page.uncovered and not reading.is_warned:
                    reading.is_warned = True
                    self._warn(subscriber, page.uncovered)
            if reading.bytes >= self.readings.page_bytes:
                reading.due_at = NEVER
            self._waiting[reading.key] = None

    def _warn(self, subscriber: Subscriber, uncovered: Sequence[NodeId]) -> None:
        """Tell a subscription which loggers may hold finished streams that could not be read."""
        reason = f"finished streams of {', '.join(uncovered)} may be missing: not copied yet, and not reachable"
        self._lose(subscriber, finished_streams(subscriber.group), 0, 0, 0, reason[:200])

    def _give_up(self, subscriber: Subscriber, reading: Reading) -> None:
        """The loggers are gone for good: what they alone had is lost."""
        assert reading.replay is not None
        group = self._groups[subscriber.group]
        if subscriber.at is None:
            self.attach(group, subscriber)
        for stream, last in self._progress.of(subscriber.group).items():
            position = reading.replay.position(stream)
            if position is not None and position < last:
                self._lose(subscriber, stream, position + 1, last, last - position, "there is no logger any more")
        reading.replay = None
        self.readings.remove(subscriber.key)

    def _offer(self, group: Audience, subscriber: Subscriber, reading: Reading, now: float) -> bool:
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
            for stream in list(subscriber.account.pending):
                self._pass(subscriber, stream, piece.positions.get(stream, -1))
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
        feed = subscriber.feed
        for first, last in reading.unpaid(piece.stretch) if reading.owed else ():
            self._lose(subscriber, piece.stretch.stream, first, last, last - first + 1, PURGED)
        if feed.patience_s is not None and now - piece.came_at > feed.patience_s:
            feed.purge()
        try:
            if group.plain is not None and piece.sure and (piece.stretch.kind == LOOSE or not feed.eager):
                if len(feed) or not subscriber.ready:
                    return False  # what is in the queue comes first
                if self._send_piece(subscriber, reading, piece):
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
            if subscriber.account.pending:
                self._pass(subscriber, stretch.stream, stretch.ranges[-1][1])
            frame = encode(Run((subscriber.sub,), stretch.stream, stretch.ranges, stretch.blob, loose))
            subscriber.outlet.deliver(frame)
        reading.sent(piece, rest)
        return True


def _positions(
    before: dict[StreamId, int], batch: Batch | None, taken: int, reading: Reading | None
) -> dict[StreamId, int]:
    """How far a subscription has come that has taken so much of a batch of a log, and has read before."""
    positions = before
    if batch is not None:
        positions = {**positions, batch.stream: batch.arrivals[taken - 1].id.seq}
    if reading is not None:
        ahead = {name: last for name, last in reading.offered.items() if last > positions.get(name, -1)}
        positions = {**positions, **ahead}
    return positions
