"""What a subscriber iterates over, and the queue before it, which leaves out what is obsolete by the time it is read.

An application that keeps up finds what has just come, as it came. One that does not, finds less of what it would have
thrown away: a thousand quotes that were fetched in advance would be a minute old at 50 ms each. So when something comes
and an event has waited longer than the patience, all that waits goes into a purging queue like the one at the broker
(protocol/delivery.py). Events are read from there until the application has to wait for one: then it keeps up again.
How much is taken out at a time follows how long the application was busy with the last that it took.

The broker sends as much as there is room for in the queue. Purging makes room as reading does.
"""

import asyncio
import secrets
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

from gossamer.matching import Selector
from gossamer.messages import session
from gossamer.messages.errors import GossamerError, Superseded, UsageError
from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import seqs_of
from gossamer.messages.session import (
    Began,
    Counts,
    Items,
    Notice,
    Policy,
    Reached,
    Run,
    Single,
    Start,
    Subscribe,
    Taken,
)
from gossamer.protocol.account import Totals
from gossamer.protocol.delivery import Arrival, Feed, Item
from gossamer.protocol.durable import HOLDER_BITS
from gossamer.protocol.obsolescence import Told
from gossamer.protocol.reception import Reception
from gossamer.protocol.shown import DELIVER, Verdict
from gossamer.protocol.shown import Left as Departed
from gossamer.sdk.track import Position, Track
from gossamer.sdk.undecoded import Undecoded
from gossamer.sdk.waiting import Turns, Wait

WINDOW_MAX = 16
CREDIT_S = 1.0
"""How often a slow reader with less than half of its credit left grants less than a quarter of its window, so that its
broker sees it read."""
CHUNK_S = 0.01
"""How long the application should be busy with what it takes at a time."""
CHUNK_MAX = 1_024
GROWTH = 4
"""A full batch of an application that is behind is followed by one so many times as large, if that pays."""
QUEUE_BYTES_MAX = 2**40
END_S = 2.0
"""How long to wait until the loggers know where a durable subscription was left."""
POLICIES = get_args(Policy)
EVERYTHING = str(Selector(""))
YIELD_EVENTS = 256
"""Who takes so many without having to wait lets other tasks run before it takes more."""


class Left(NamedTuple):
    """What this subscription was shown of a key, `event`, is no longer true, and what is does not match its selector.
    An event of that key which is newer than `event`, and came before this, stays."""

    key: str | None
    event: EventId


class Gap(NamedTuple):
    """Some of these may have matched, and will not come."""

    stream: StreamId
    first: int
    last: int
    reason: str


class Commit(NamedTuple):
    """The end of a transaction: what came since the last one, or since the first part, is to be applied as one."""

    id: EventId


Order = Literal["fifo", "none"]
Said = Event | Left | Gap | Commit
Raw = Event | Notice | session.Gap


class Portion(NamedTuple):
    """What came at once."""

    raw: Sequence[Raw]
    plain: bool
    """Events and nothing else, and none that names others, is part of a transaction or competes for a key."""
    came_at: float = 0.0


_portion = partial(tuple.__new__, Portion)  # in a third of the time of its own constructor


@dataclass(slots=True)
class Stats:
    """What became of the events that match."""

    delivered: int = 0
    obsoleted: int = 0
    """Left out, because something newer is or will be delivered in their place."""
    lost: int = 0
    """Matched, or may have, and could not be kept: `Gap` notices say which and why."""
    left: int = 0
    """Keys that ceased to match."""
    unseen: int = 0
    """Purged on a saturated link before the broker saw them, for a newer event. Whether they match is not known."""


class Subscription:
    """An iterator over the events that match a selector; `async for event in subscription`.

    Cancelling a wait loses nothing. Several tasks may share one subscription; each event goes to one of them.
    """

    def __init__(
        self,
        number: int,
        selector: str,
        *,
        buffer: int,
        policy: Policy,
        order: Order,
        notices: bool,
        start: Start | None,
        durable: str | None = None,
        manual: bool = False,
        loop: asyncio.AbstractEventLoop,
        turns: Turns,
        credit: Callable[[int], None],
        call: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`call` does something in the loop, from whichever thread; `turns` is the loop's, for all its clients."""
        self.number = number
        self.selector = selector
        self._buffer = buffer
        self._policy: Policy = "none" if policy == "auto" and is_owed_everything(start, durable) else policy
        self._order = order
        self._notices = notices
        self._loop = loop
        self._turns = turns
        self._credit = credit
        self._from_thread = call
        self._clock = clock
        self._lock = threading.Lock()
        self._inbox: deque[Portion] = deque()
        self._waiting = 0
        """How many there are in it."""
        self._patience_s = 0.0
        """How long an event may wait here before what is obsolete is purged. The broker's setting, for `auto`."""
        self._purges = self._policy in ("auto", "eager")
        self._late = False
        """The application is behind: an event has waited too long, and the application has not waited for one since."""
        self._loose = False
        """Nothing in the inbox replaces anything: there is nothing to purge."""
        self._queue = Feed((WINDOW_MAX + 2) * buffer, QUEUE_BYTES_MAX)
        self._queued = 0
        """How many there are in that; to ask it takes three calls."""
        self._reception = Reception()
        self._track = Track(start, filtered=selector != EVERYTHING)
        self._durable = durable
        self._holder = secrets.randbits(HOLDER_BITS)
        self._held = False
        """A broker has said that it is ours."""
        self._told: dict[StreamId, int] = {}
        """How far the broker knows that it is."""
        self._undone: dict[EventId, None] | None = {} if manual else None
        """Handed out, and not acknowledged."""
        self._in_hand: list[Said] = []
        """What the application is at: it is done with that when it asks for more."""
        self._received = 0
        """In this session."""
        self._granted = 0
        self._window = buffer
        """How many may be on the way or wait. It grows for one who keeps up, which needs more on the way than may wait
        for one who does not."""
        self._current: deque[Said] = deque()
        """What was taken last, and not handed out yet."""
        self._unyielding = 0
        """How many were taken since other tasks could run."""
        self._chunk = 1
        self._batch = (0, 0.0)
        """Size of the last full batch that `batches()` handed out, and the seconds that the application spent on it."""
        self._took_at = self._credited_at = 0.0
        self._passed = 0
        self._delivered = self._left = self._lost = 0
        self._counts = self._counts_before = Totals()
        """Events that the broker of this session did not send, and those of the brokers before."""
        self._next_counts: Counts | None = None
        """Counts from the next frame of events on: so these are told together, or both are not."""
        self._waiters: deque[Wait] = deque()
        self._waking = False
        self._version = 0
        """How often the selector was said or changed."""
        self._saying: deque[tuple[int, str, bool]] = deque()
        """What the broker has not answered: the version, the selector, and whether that is all that it knows of us."""
        self._served = selector
        """The selector that was last answered."""
        self._settling: list[tuple[int, asyncio.Future[None]]] = []
        self._error: GossamerError | None = None
        self._closed = False
        self._ended: asyncio.Future[None] | None = None
        self._close: Callable[[Subscription, bool], None] = lambda *_: None
        self._say: Callable[[Subscription], None] = lambda _: None

    # For the application --------------------------------------------------------------------------------------------

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Said:
        if not self._current:
            await self._fill()
        if self._durable is None:
            return self._current.popleft()
        with self._lock:  # another thread looks at both
            said = self._current.popleft()
            self._in_hand = [said]
        return said

    async def batches(self) -> AsyncIterator[list[Said]]:
        """Hand out waiting events several at a time: less work for each. A batch has at most `buffer` events, or 1,024
        if that is more. Batches grow while more events wait and the application pays for a batch rather than for each
        event in it.

        async for batch in sub.batches():
            print(len(batch), batch[0].attributes)
            break
        """
        while True:
            if not self._current:
                try:
                    await self._fill(self._next_batch)
                except StopAsyncIteration:
                    return
            with self._lock:
                self._in_hand = batch = list(self._current)
                self._current.clear()
            yield batch

    @property
    def stats(self) -> Stats:
        """What became of what matched, so far."""
        with self._lock:
            counts = self._counts_before.plus(self._counts)
            obsoleted = counts.obsoleted + self._queue.obsoleted + self._reception.obsoleted
            lost = counts.lost + self._reception.lost
            untaken = sum(isinstance(each, Event) for each in self._current)
            return Stats(self._delivered - untaken, obsoleted, lost, self._left, counts.unseen)

    @property
    def position(self) -> Position:
        """How far the application has come: keep it, as JSON if you like, and `subscribe(…, start=position)` goes on
        there, at any broker and at any time."""
        with self._lock:
            return self._track.position(self._untaken(self._current.copy()))

    def _untaken(self, current: Iterable[Said]) -> list[EventId]:
        """What has come, and the application does not have; or is at, and it was handed out last."""
        untaken = [each.id for each in current if isinstance(each, Event | Commit)]
        for portion in self._inbox:
            if isinstance(portion.raw, Undecoded):
                untaken.append(portion.raw.first)  # and so all behind it
            else:
                untaken += [each.id for each in portion.raw if isinstance(each, Event)]
        untaken += [entry.id for entry in self._queue.queue]
        untaken += self._reception.waiting()
        return [each for each in untaken if each is not None]

    async def ack(self, event: Event | Commit) -> None:
        """With `ack="manual"`: the application is done with this event. The position moves up to the first that it is
        not done with, and is told to the loggers before long; what comes after that comes again after a crash.

            async with await client.subscribe("price > 100", durable="billing", ack="manual") as sub:
                event = await anext(sub)
                await sub.ack(event)
        """
        if self._undone is None:
            raise UsageError('ack(): for a durable subscription with ack="manual"')
        if event.id is not None:
            with self._lock:
                self._undone.pop(event.id, None)

    async def update(self, selector: str | Selector) -> None:
        """From now on another selector counts; what is on its way may still match the old one.

        await sub.update("price > 200 OR symbol = 'IBM'")
        """
        if self._closed:
            raise UsageError("the subscription is closed")
        self.selector = str(selector if isinstance(selector, Selector) else Selector(selector))
        self._track.filtered = True  # from now on something may leave
        await self._settle()

    async def _settle(self) -> None:
        """Have the broker told of the selector as it is now, and wait for the answer."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        self._version += 1
        settled: asyncio.Future[None] = self._loop.create_future()
        self._settling.append((self._version, settled))
        self._say(self)
        await settled

    async def close(self, *, forget: bool = False) -> None:
        """Nothing more is wanted; an iteration that waits comes to its end. A durable subscription stays where it is,
        behind all that was handed out (or acknowledged); with `forget` it is over for good, and nothing is kept for
        it any more.

        sub = await client.subscribe("price > 100")
        await sub.close()
        print([event async for event in sub])
        """
        self._in_hand = []
        await self._end(forget)

    async def _end(self, forget: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        self._wake()
        if self._durable is not None and self._held and self._error is None:
            self._ended = self._loop.create_future()
        self._close(self, forget)
        if self._ended is not None:
            with suppress(TimeoutError):  # then some of it comes again
                await asyncio.wait_for(self._ended, END_S)

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._in_hand = []
        await self._end()  # what it failed at is not done

    def _put_back(self, said: Sequence[Said]) -> None:
        """What was handed out, and nobody has, comes next."""
        if said:
            with self._lock:
                self._current.extendleft(reversed(said))
                self._in_hand = []
            self._wake()

    async def _fill(self, enlarge: Callable[[int, float], int] | None = None) -> None:
        """Wait until there is something, and take it; `enlarge` may ask for more than the application's pace does."""
        self._in_hand = []
        if self._passed:  # the time that other tasks take is not its own
            busy_s = max(self._clock() - self._took_at, 1e-6)
            chunk = max(1, min(4 * self._chunk, CHUNK_MAX, int(self._passed * CHUNK_S / busy_s)))
            self._chunk = chunk if enlarge is None else max(chunk, enlarge(self._passed, busy_s))
            self._passed = 0
        if self._unyielding >= YIELD_EVENTS:
            self._unyielding = 0
            await asyncio.sleep(0)
        while not self._current and not self._take():  # another task may have taken more than it has handed out
            if self._closed:
                raise StopAsyncIteration
            if self._error is not None:
                raise self._error.with_traceback(None)
            waiter = Wait(self._loop, self._turns)
            self._waiters.append(waiter)
            if self._inbox or self._queued:  # it came between looking and waiting
                waiter.cancel()
                continue
            self._late = False
            self._unyielding = 0
            await waiter

    def _next_batch(self, count: int, busy_s: float) -> int:
        """Size of the next batch, after one of `count` events that kept the application busy for `busy_s`.

        An application may pay for a batch (a commit, a request) as well as for each event in it. If the payment for
        the batch is the larger one, `GROWTH` times as many events take less than twice as long: the next batch is
        larger. Otherwise larger batches would only make events wait in the application's hands, where none is purged.
        """
        if count < self._chunk:
            return self._chunk  # nothing more waited
        before, before_s = self._batch
        self._batch = count, min(busy_s, before_s) if count == before else busy_s
        if not before or (count != before and min(count, before) * GROWTH > max(count, before)):
            pays = True  # too alike to compare
        elif count < before:
            pays = 2 * busy_s > before_s
        else:
            pays = busy_s < 2 * before_s
        return min(GROWTH * count, max(CHUNK_MAX, self._buffer)) if pays else max(1, count // GROWTH)

    def _take(self) -> bool:
        self._took_at = self._clock()
        said: Sequence[Said] = ()
        with self._lock:
            while len(said) < self._chunk and (self._inbox or self._queued):
                next_said = self._applied(*self._taken(self._chunk - len(said)))
                said = [*said, *next_said] if said else next_said
            if self._undone is not None:
                self._undone |= {each.id: None for each in said if isinstance(each, Event | Commit) and each.id}
            self._current.extend(said)
            self._passed = len(said)
            # Here, since a new session may begin to count from nothing meanwhile.
            if 2 * (self._granted - self._received) <= self._window and not self._inbox and not self._queued:
                self._window = min(2 * self._window, WINDOW_MAX * self._buffer)  # nothing is left, and little may come
            room = self._received + self._window - self._waiting - self._queued
            more = room - self._granted >= self._window // 4
            if not more and room > self._granted and 2 * (self._granted - self._received) <= self._window:
                more = self._took_at >= self._credited_at + CREDIT_S
            if more:
                self._granted, self._credited_at = room, self._took_at
        self._unyielding += len(said)
        if more:
            self._credit(self.number)
        return bool(said)

    def _taken(self, count: int) -> tuple[Sequence[Raw | Item], bool]:
        """So many of what is next, and whether all of them are plain."""
        if self._queued:
            items = self._queue.take(count)
            self._queued = len(self._queue)
            return items, False
        inbox = self._inbox
        raw, plain, came_at = inbox.popleft()
        if len(raw) <= count and not inbox:  # as most often
            self._waiting -= len(raw)
            return raw if isinstance(raw, list) else list(raw), plain
        taken = list[Raw]()
        while True:
            left = count - len(taken)
            taken += raw[:left]
            if len(raw) > left and (rest := raw[left:]):
                inbox.appendleft(Portion(rest, plain, came_at))
                self._waiting += len(rest)
            self._waiting -= len(raw)
            if len(taken) >= count or not inbox or inbox[0].plain is not plain:
                return taken, plain
            raw, _, came_at = inbox.popleft()

    def _applied(self, taken: Sequence[Raw | Item], plain: bool) -> Sequence[Said]:
        """What of this is to be handed to the application, in order."""
        if plain and not self._reception.held:
            self._delivered += len(taken)
            return taken  # type: ignore[return-value]
        said: list[Said] = []
        for each in taken:
            if isinstance(each, session.Gap):
                said.append(Gap(each.stream, each.first, each.last, each.reason))
                continue
            for step in self._reception.on_item(_item(each)):
                for one in step.said:
                    if isinstance(one, Departed):
                        self._left += 1
                        said.append(Left(one.key, one.id))
                    else:
                        self._delivered += 1
                        said.append(one)
                if step.commit is not None and step.commit.id is not None:
                    said.append(Commit(step.commit.id))
        return said if self._notices else [each for each in said if isinstance(each, Event)]

    # For the transport's thread -------------------------------------------------------------------------------------

    def asked(self, purge_patience_s: float) -> Subscribe:
        """A new session: what was received in the last one does not count towards the credit of this one."""
        if self._policy == "auto":
            self._patience_s = purge_patience_s
        with self._lock:
            self._received = self._granted = 0
            self._granted = self._room()
            self._counts_before = self._counts_before.plus(self._counts)
            self._counts, self._next_counts = Totals(), None
        self._saying.clear()
        return self._said(self._track.start(), True)

    def changed(self) -> Subscribe:
        """The same session with another selector: all else goes on as it was."""
        return self._said(None, False)

    def _said(self, start: Start | None, first: bool) -> Subscribe:
        version, selector = self._version, self.selector
        self._saying.append((version, selector, first))
        if self._durable is not None and self._held and first:
            start = start or Start(dict(self._track.positions))
            self._told = {}
        return Subscribe(
            self.number, selector, self._granted, self._buffer, self._policy, self._order, start,
            self._durable, self._holder, self._held,
        )  # fmt: skip

    def taken(self) -> Taken | None:
        if self._durable is None or not self._held:
            return None
        with self._lock:
            untaken = self._untaken([*self._in_hand, *self._current])
            position = self._track.taken([*untaken, *(self._undone or ())])
        moved = {name: last for name, last in position.items() if last > self._told.get(name, -1) and "/" in name}
        if not moved:
            return None
        self._told |= moved
        return Taken(self.number, moved)

    def _heard(self) -> dict[str, int]:
        """How far each stream has come, whatever of it matched."""
        with self._lock:
            return dict(self._track.positions)

    def total(self) -> int:
        return self._granted

    def _room(self) -> int:
        return max(self._granted, self._received + self._window - self._waiting - self._queued)

    def on_single(self, single: Single, event: Event) -> None:
        if self._next_counts is not None:
            self._count(self._next_counts)
        self._received += 1
        stream, seq, track = single.stream, single.seq, self._track
        if seq <= track.before.get(stream, -1):
            return  # from the broker before this one
        if not single.loose:
            track.came(stream, [seq], [event])
        self._put([event], True, 1, single.loose, {stream: seq})

    def on_run(self, run: Run, events: Sequence[Event]) -> None:
        if self._next_counts is not None:
            self._count(self._next_counts)
        count = len(events)
        self._received += count
        stream, track = run.stream, self._track
        had = track.before.get(stream, -1)
        if run.ranges[0][0] <= had:  # from the broker before this one
            events = events[bisect_right(seqs_of(run.ranges), had) :]
            count = len(events)
        if not run.loose:
            track.came(stream, seqs_of(run.ranges)[-count:], events)
        self._put(events, True, count, run.loose, {stream: run.ranges[-1][1]})

    def on_items(self, items: Items) -> None:
        if self._next_counts is not None:
            self._count(self._next_counts)
        self._received += len(items.events) + sum(not notice.together for notice in items.notices)
        notices = {notice.place: notice for notice in items.notices if notice.together}
        apart = deque(notice for notice in items.notices if not notice.together)
        raw: list[Raw] = []
        track, moved = self._track, dict[StreamId, int]()
        for place, event in enumerate(items.events):
            while apart and apart[0].place <= place:
                raw.append(apart.popleft())
            assert event.id is not None
            stream, seq = event.id
            if seq <= track.had(stream):
                continue  # from the broker before this one
            moved[stream] = seq
            track.came_one(event)
            if place in notices:
                raw.append(notices[place])
            raw.append(event)
        for notice in items.notices:
            track.left(notice.left)
        plain = not items.notices and all(event.relation is None for event in items.events)
        raw += apart
        self._put(raw, plain, len(raw), False, moved)

    def on_gap(self, gap: session.Gap) -> None:
        # A gap may overtake events that still wait at the broker: the position moves with what follows.
        self._put([gap], False, 1, False, {})

    def on_began(self, began: Began) -> None:
        with self._lock:
            self._track.began(began.time_ns, began.positions)

    def on_reached(self, reached: Reached) -> None:
        if self._next_counts is not None:
            self._count(self._next_counts)
        with self._lock:
            self._track.reached(reached.time_ns, reached.positions)

    def on_counts(self, counts: Counts) -> None:
        if counts.positions is None:
            self._next_counts = counts
            return
        self._count(counts)
        with self._lock:
            for stream, last in counts.positions.items():
                self._track.moved(stream, last)

    def _count(self, counts: Counts) -> None:
        with self._lock:
            self._counts = Totals(counts.obsoleted, counts.lost, counts.unseen)
            self._next_counts = None

    def on_subscribed(self) -> None:
        self._held = True
        if self._saying:
            version, self._served, _ = self._saying.popleft()
            self._from_thread(self._on_settled, version, None)

    def on_refused(self, error: GossamerError) -> bool:
        """Whether the subscription is over; one that only could not be changed goes on as it was."""
        version, selector, first = self._saying.popleft() if self._saying else (self._version, "", True)
        if first or isinstance(error, Superseded):
            self.on_failed(error)
            return True
        if self.selector == selector:
            self.selector = self._served
        self._from_thread(self._on_settled, version, error)
        return False

    def on_ended(self) -> None:
        """The loggers know where it is."""
        if self._ended is not None:
            self._from_thread(lambda ended: ended.done() or ended.set_result(None), self._ended)

    def on_failed(self, error: GossamerError) -> None:
        self._error = error
        self.on_ended()
        self._from_thread(self._on_settled, None, error)
        self._from_thread(self._wake)

    def _put(self, raw: Sequence[Raw], plain: bool, count: int, loose: bool, moved: dict[StreamId, int]) -> None:
        """Let the application have so many; purge if it is late, unless all that waits is `loose`."""
        now = self._clock()
        with self._lock:
            for stream, last in moved.items():
                self._track.moved(stream, last)
            if not count:
                return
            inbox = self._inbox
            self._loose = (self._loose or not inbox) and loose
            if self._purges and not self._loose and not self._late and inbox:
                self._late = inbox[0].came_at + self._patience_s <= now
            if (self._late and not self._loose) or self._queued:
                for each in inbox:
                    self._enqueue(each.raw)
                self._enqueue(raw)
                self._queued = len(self._queue)
                inbox.clear()
                self._waiting = 0
                self._loose = False
                self._window = self._buffer
            else:
                inbox.append(_portion((raw, plain, now)))
                self._waiting += count
        if self._waiters and not self._waking:
            self._waking = True
            self._from_thread(self._wake)

    def _enqueue(self, raw: Sequence[Raw]) -> None:
        together: Notice | None = None
        for each in raw:
            if isinstance(each, session.Gap):
                continue  # counted; where exactly it was has lost its meaning
            if isinstance(each, Notice) and each.together:
                together = each
                continue
            arrival, verdict = _verdict(each, together)
            together = None
            self._queue.settle(arrival, verdict)

    # In the loop ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._waking = False
        while self._waiters:
            self._waiters.popleft().settle()

    def _on_settled(self, version: int | None, error: GossamerError | None) -> None:
        """Answer who waits for this version or an earlier one; with None, everybody."""
        settling, self._settling = self._settling, []
        for each, settled in settling:
            if version is not None and each > version:
                self._settling.append((each, settled))
            elif settled.done():
                pass
            elif error is None:
                settled.set_result(None)
            else:
                settled.set_exception(error)


def _item(raw: Event | Notice | Item) -> Item:
    if isinstance(raw, Item):
        return raw
    if isinstance(raw, Event):
        return Item(raw)
    return Item(None, _departed(raw.left), None if raw.by is None else Told(*raw.by))


def _departed(left: tuple[session.Departure, ...]) -> tuple[Departed, ...]:
    return tuple(Departed(*each) for each in left)


def _verdict(raw: Event | Notice, together: Notice | None) -> tuple[Arrival, Verdict]:
    """What a queue is told of something that a broker has decided on."""
    if isinstance(raw, Event):
        head = Head(raw.key, raw.rank, raw.relation, raw.time_ns)
        arrival = Arrival(raw, head, len(raw.body) + 64)
        if together is None:
            return arrival, DELIVER
        return arrival, Verdict(True, _departed(together.left), _departed(together.replaced))
    departed = _departed(raw.left)
    by = raw.by or (departed[0].id, Head())
    cause = Event(by[1].key, by[1].rank, by[1].relation, by[1].time_ns, id=by[0])
    return Arrival(cause, by[1], 64), Verdict(False, departed)


def is_owed_everything(start: Start | None, durable: str | None) -> bool:
    """Whether `policy="auto"` means that nothing is purged: of a durable subscription, or of a replay."""
    return durable is not None or (start is not None and not start.last_per_key)


def check_options(buffer: int, policy: str, order: str) -> None:
    """Refuse at the caller what no broker would take."""
    if type(buffer) is not int or not 1 <= buffer <= 1_000_000:
        raise UsageError(f"buffer: 1 to 1000000 events, not {buffer!r}")
    if policy not in POLICIES:
        raise UsageError(f'policy: "auto", "eager", "lazy", "random" or "none", not {policy!r}')
    if order not in ("fifo", "none"):
        raise UsageError(f'order: "fifo" or "none", not {order!r}')
