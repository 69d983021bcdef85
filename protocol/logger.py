"""The logger role: a member that keeps streams on stable storage and is asked last (rpbcast §3.2, §5.2, §6.2).

Which streams those are is said by protocol/placement.py: all, unless there are more loggers than `replicas`.

Nothing is acknowledged, served or promised before it is on disk: `Persist` goes out with a token, and what depends on
it waits for `Persisted(token)`. Live traffic and gossip do not wait.

An event may be collected when it is stable *and* older than `retain_s`, or older than `expire_s` whoever lacks it; a
collected id that is asked for is answered with a final notice, never with silence.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from gossamer.messages.ids import NodeId, StreamId, group_of
from gossamer.messages.packet import EVENTS_MAX, Packet
from gossamer.messages.wire import (
    RANGES_MAX,
    Busy,
    CheckedOut,
    Checkout,
    Gone,
    Page,
    Range,
    Read,
    Repair,
    Return,
    Span,
)
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Collect, Compact, Load, Moved, Persist, Promise, Record, Scan, Stored, Void
from gossamer.protocol.gossip_buffer import GossipBuffer, fitting
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.numbering import READ
from gossamer.protocol.placement import Placement, ranked
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.stability import Stability
from gossamer.protocol.tally import Reason

_Write = tuple[tuple[Record, ...], dict[NodeId, dict[StreamId, None]], list[Callable[[], None]]]
"""Records under way to the disk, whom to acknowledge them to, and what else waits for them."""


SHARE_S = 0.25
PUT_OFF_ROUNDS = 16
"""So long it takes one that was put off to ask again, at most: it asks all loggers in turn, one a round."""
ANSWER_BYTES = 64 * 1024
"""What counts as one answer, of those that a logger gives a second."""
LOADS_MAX = 8
"""Reads for repairs under way, one for each who asks: a thousand of them would keep the disk from writing."""
BEYOND_MAX = 16
"""Newest ranges after the first gap of a stream that one position tells: a sender waits for the newest events."""
READS_MAX = 64
"""Of one broker that wait for their turn; more are not answered, and asked again."""
AGE_STEP = 1 / 256
"""Ages are kept in steps of this share of `retain_s`: a day's log is some hundred steps, however many packets."""


class Log:
    """What this logger has of one stream."""

    __slots__ = (
        "collected", "committed", "gone", "group_at", "logged_at", "prefix", "promise", "retired", "safe", "void",
    )  # fmt: skip

    def __init__(self, retired: bool = False) -> None:
        self.committed = IntervalSet()
        """On disk."""
        self.void = IntervalSet()
        """Will never exist, on disk as such."""
        self.gone = IntervalSet()
        """Collected by every other logger before we could have it."""
        self.collected = -1
        """Up to here it was ours to collect, and we did."""
        self.prefix = -1
        """Up to here everything is committed, void, gone or collected: the position to acknowledge."""
        self.logged_at: deque[tuple[float, int]] = deque()
        """When the prefix reached where: the ages for retention."""
        self.group_at = 0.0
        self.promise: Promise | None = None
        self.safe = -1
        """Up to here the store has been told that it is safe."""
        self.retired = retired
        """It is over, and everyone has it: the acknowledgements that said so are forgotten."""

    def advance(self, now: float, group_s: float) -> bool:
        """Move the prefix over what has been settled; ages are kept for groups of `group_s`, not for packets."""
        start = self.prefix
        moved = True
        while moved:
            moved = False
            at = self.prefix + 1
            if self.collected >= at:
                self.prefix, moved = self.collected, True
                continue
            for settled in (self.committed, self.void, self.gone):
                if at in settled:
                    self.prefix, moved = settled.run(at), True
                    break
        if self.prefix > start:
            if self.logged_at and now - self.group_at < group_s:
                self.logged_at[-1] = (now, self.prefix)  # as old as the youngest of its group
            else:
                self.group_at = now
                self.logged_at.append((now, self.prefix))
        return self.prefix > start

    @property
    def is_behind(self) -> bool:
        """Whether something is on disk after a gap."""
        return bool(self.committed) and self.committed.last() > self.prefix

    def beyond(self) -> list[Range]:
        """The ranges on disk after the first gap."""
        return self.committed.overlap(self.prefix + 1, self.committed.last()) if self.is_behind else []

    def grow_old(self, now: float, ages: Iterable[tuple[float, int]]) -> None:
        """It was logged in an earlier life, so long ago."""
        steps = [(now - age_s, last) for age_s, last in ages if self.collected < last <= self.prefix]
        if steps and self.logged_at:
            self.logged_at = deque(steps + [(at, last) for at, last in self.logged_at if last > steps[-1][1]])


class LoggerRole:
    """Stores, acknowledges, answers, collects."""

    __slots__ = (
        "_acknowledge", "_ages", "_buffer", "_ctx", "_events", "_loads", "_origins", "_pending", "_placement",
        "_put_off", "_reads", "_requesters", "_retired", "_scanning", "_served", "_served_at", "_stability", "_token",
        "_tokens", "_tokens_at", "_unsaved", "_waiting", "bytes", "logs", "on_forgotten", "on_moved", "promises",
        "seeks", "uncovered",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        buffer: GossipBuffer,
        stability: Stability,
        retired: RetiredStreams,
        placement: Placement,
        acknowledge: Callable[[NodeId, Iterable[StreamId]], None],
        stored: Stored | None,
    ) -> None:
        """`acknowledge(origin, streams)` tells a sender on the spot what is on disk."""
        self._retired = retired
        self._placement = placement
        self.seeks: Callable[[StreamId, int, int], list[Range]] = lambda *_: []
        """What of a span is not on disk, and asked for of other loggers (protocol/mending.py)."""
        self.uncovered: Callable[[], tuple[NodeId, ...]] = tuple
        """Loggers whose finished streams may be lacking here (protocol/coverage.py)."""
        self.on_moved: Callable[[StreamId], None] = lambda _: None
        self.promises = True
        """Whether named publishers get numbers from us."""
        self._ctx = ctx
        self._buffer = buffer
        self._stability = stability
        self._acknowledge = acknowledge
        self._token = 0
        self.bytes = 0
        """Of the packets on disk, as far as it is known."""
        self._events = 0
        self._unsaved: list[Record] = []
        self._origins: dict[NodeId, dict[StreamId, None]] = {}
        self._waiting: list[Callable[[], None]] = []
        self._pending: dict[int, _Write] = {}
        self._loads: dict[int, NodeId] = {}
        self._reads: dict[NodeId, deque[Read]] = {}
        """Who waits for pages of the log, in turn."""
        self._scanning: tuple[int, NodeId, Page, tuple[NodeId, ...]] | None = None
        """The one that is read now: its token, whom for, what is known of what is lacking, and who else is read."""
        self._tokens = ctx.config.service_limit_per_s
        self._tokens_at = 0.0
        self._served: dict[NodeId, int] = {}
        """What each that asks has had lately."""
        self._put_off: dict[NodeId, float] = {}
        """Who asked in vain without having had its share, in the order in which they did first, and when last."""
        self._served_at = 0.0
        self._requesters = 1
        self._ages = dict(stored.ages) if stored else {}
        """Of what is on disk from an earlier life."""
        self.on_forgotten: Callable[[StreamId], None] = lambda _: None
        """Hears of streams that are over, and of which nothing is left."""
        self.logs: dict[StreamId, Log] = {}
        for name, found in (stored.streams if stored else {}).items():
            log = self.logs[name] = Log()
            log.committed = IntervalSet(found.stored)
            log.void = IntervalSet(found.void)
            log.collected = found.collected
            log.promise = found.promise
            self._events += log.committed.count()

    def log(self, stream: StreamId) -> Log:
        return self.logs.get(stream) or self.logs.setdefault(stream, Log(stream in self._retired))

    def prefix(self, stream: StreamId) -> int:
        log = self.logs.get(stream)
        return -1 if log is None else log.prefix

    def beyond(self, stream: StreamId) -> tuple[Range, ...]:
        """The newest ranges on disk after the first gap of a stream; almost always none."""
        log = self.logs.get(stream)
        if log is None or not log.is_behind:
            return ()
        # Of thousands of ranges only the newest are looked at: this is asked with every acknowledgement.
        return tuple(part for part in log.committed.newest(BEYOND_MAX) if part[0] > log.prefix)

    def has_on_disk(self, stream: StreamId, first: int, last: int) -> bool:
        """Whether a logger that lacks earlier events has this span on disk."""
        log = self.logs.get(stream)
        return log is not None and first in log.committed and log.committed.run(first) >= last

    @property
    def _group_s(self) -> float:
        return self._ctx.config.retain_s * AGE_STEP

    def start(self) -> list[tuple[StreamId, int]]:
        """Take up what is on disk: returns each stream's position, and reads again what lies beyond a hole."""
        beyond: list[Span] = []
        self.logs = {name: log for name, log in self.logs.items() if log.committed or name not in self._retired}
        for name, log in self.logs.items():
            log.retired = name in self._retired
            for gap in log.committed.gaps(log.collected + 1, log.committed.ranges()[-1][1]) if log.retired else ():
                for part in log.void.gaps(*gap):
                    log.gone.add(*part)  # it is over: whoever gave it to us had no more of it
            log.advance(self._ctx.now, self._group_s)
            log.grow_old(self._ctx.now, self._ages.pop(name, ()))
            _append(beyond, name, tuple(log.beyond()))
        if beyond:
            self._load(self._ctx.node, beyond)
        # Of a stream of which only numbers were promised it is not known here whether it is ours.
        known = self._ctx.config.replicas is None
        return [(name, log.prefix) for name, log in self.logs.items() if known or log.committed or log.prefix >= 0]

    def on_disk(self, stream: StreamId) -> tuple[Range, ...]:
        log = self.logs.get(stream)
        return () if log is None else log.committed.ranges()

    def void(self, stream: StreamId) -> tuple[Range, ...]:
        log = self.logs.get(stream)
        return () if log is None else log.void.ranges()

    def collected(self, stream: StreamId, first: int, last: int) -> list[Range]:
        """What of a span was collected, here or by all others."""
        log = self.logs.get(stream)
        return [] if log is None else _settled(log, first, last)

    # Storing --------------------------------------------------------------------------------------------------------

    def store(self, packets: Iterable[Packet], origin: NodeId | None) -> None:
        """Write these, and acknowledge them to the `origin` that sent them, if it did."""
        for packet in packets:
            self._unsaved.append(packet)
            if origin is not None:
                self._origins.setdefault(origin, {})[packet.stream] = None

    def save(self, record: Record, then: Callable[[], None] | None = None) -> None:
        """Write a record; `then` once it is on disk."""
        self._unsaved.append(record)
        if then is not None:
            self.when_saved(then)

    def when_saved(self, then: Callable[[], None]) -> None:
        """Call back when what was written for this input is on disk."""
        self._waiting.append(then)

    def flush(self) -> None:
        """One write for everything that one input brought."""
        if self._unsaved or self._waiting:
            self._token += 1
            records = tuple(self._unsaved)
            self._pending[self._token] = (records, self._origins, self._waiting)
            self._unsaved, self._origins, self._waiting = [], {}, []
            self._ctx.emit(Persist(self._token, records))

    def on_persisted(self, token: int) -> list[StreamId]:
        """It is on disk: now it counts. Returns the streams of which there is more to acknowledge."""
        records, origins, waiting = self._pending.pop(token, ((), {}, []))
        changed: dict[StreamId, None] = {}
        for record in records:
            if isinstance(record, Packet):
                self.log(record.stream).committed.add(record.first, record.last)
                self.bytes += len(record.blob)
                self._events += record.count
                changed[record.stream] = None
            elif isinstance(record, Void):
                for first, last in record.span.ranges:
                    self.log(record.span.stream).void.add(first, last)
                changed[record.span.stream] = None
            elif isinstance(record, Moved):
                self._move(record.stream)
                changed.pop(record.stream, None)
        moved = []
        for name in changed:
            log = self.log(name)
            if log.advance(self._ctx.now, self._group_s) or log.is_behind:
                moved.append(name)
        for origin, streams in origins.items():
            self._acknowledge(origin, streams)
        for then in waiting:
            then()
        return moved

    def _move(self, stream: StreamId) -> None:
        """Others keep it now, and it is not on this disk any more."""
        log = self.logs.pop(stream, None)
        if log is None:
            return
        self._forget_bytes(log.committed.count(), "moved")
        if log.promise is not None:
            self.log(stream).promise = log.promise
        self.on_moved(stream)

    def give_up(self, stream: StreamId, first: int, last: int) -> bool:
        """Every other logger has collected these: they are not ours to keep any more."""
        log = self.log(stream)
        log.gone.add(first, last)
        moved = log.advance(self._ctx.now, self._group_s)
        if log.retired:
            self.retire(stream)  # nobody is told of it any more
        return moved and not log.retired

    # Answering ------------------------------------------------------------------------------------------------------

    def on_recover(self, sender: NodeId, lacks: Iterable[Span], keeps: bool = False) -> None:
        """Packets from memory or disk; final notices for what is gone; silence for what may still come. To one that
        `keeps` it nothing comes from here that is not ours, or that we look for ourselves."""
        load: list[Span] = []
        gone: list[Span] = []
        unkept: list[Span] = []
        void: list[Span] = []
        packets: list[Packet] = []
        room = EVENTS_MAX
        for span in lacks:
            log = self.logs.get(span.stream)
            foreign = not self._placement.is_mine(span.stream)
            if log is None:
                if keeps and (foreign or span.stream in self._retired):
                    _append(unkept, span.stream, span.ranges)
                elif span.stream in self._retired:
                    _append(gone, span.stream, span.ranges)
                continue
            if not self._may_answer(sender):
                self._ctx.send(sender, Busy())
                break
            from_disk, before = IntervalSet(), len(packets)
            for first, last in span.ranges:
                for part in log.committed.overlap(first, last):
                    at_hand = self._buffer.find(span.stream, *part)
                    packets.extend(at_hand)
                    for low, high in IntervalSet((p.first, p.last) for p in at_hand).gaps(*part):
                        if room > 0:  # no more is read than can be sent; the rest is asked for again
                            high = min(high, low + room - 1)
                            from_disk.add(low, high)
                            room -= high - low + 1
            collected = IntervalSet(part for each in span.ranges for part in _settled(log, *each))
            never = IntervalSet(part for each in span.ranges for part in log.void.overlap(*each))
            absent = IntervalSet()
            for first, last in span.ranges if keeps else ():
                for part in log.committed.gaps(first, last) if foreign else self.seeks(span.stream, first, last):
                    absent.add(*part)
            for part in (*never.ranges(), *collected.ranges()):
                absent.remove(*part)
            _append(load, span.stream, from_disk.ranges())
            _append(gone, span.stream, collected.ranges())
            _append(unkept, span.stream, absent.ranges())
            _append(void, span.stream, never.ranges())
            # What may still come costs nothing: a request that cannot be answered must not starve one that can.
            runs = IntervalSet((packet.first, packet.last) for packet in packets[before:])
            answers = len(runs) + len(from_disk) + len(collected) + len(absent) + len(never)
            self._spend(sender, answers, packets[before:])
        self._send_packets(sender, packets)
        if gone:
            self._ctx.send(sender, Gone(tuple(gone), False))
        if unkept:
            self._ctx.send(sender, Gone(tuple(unkept), False, False))
        if void:
            self._ctx.send(sender, Gone(tuple(void), True))
        if load and (sender in self._loads.values() or len(self._loads) >= LOADS_MAX):
            self._ctx.send(sender, Busy())  # the disk is for writing first
        elif load:
            self._load(sender, load)

    def on_loaded(self, token: int, packets: tuple[Packet, ...]) -> tuple[Packet, ...]:
        """Send what was asked for; returns what this node asked for itself."""
        to = self._loads.pop(token, None)
        if to == self._ctx.node:
            return packets
        if to is not None:
            self._spend(to, 0, packets)
            self._send_packets(to, packets)
        return ()

    def reload(self, lacks: Iterable[tuple[StreamId, list[Range]]]) -> None:
        """Read events of this logger's own disk that its receiver lacks. After a restart there may have been no room to
        hold back what lies behind a hole, and nobody else need have it any more."""
        if self._ctx.node in self._loads.values():
            return
        spans: list[Span] = []
        room = EVENTS_MAX
        for name, ranges in lacks:
            log = self.logs.get(name)
            parts = [part for each in ranges for part in log.committed.overlap(*each)] if log is not None else []
            for first, last in parts if room > 0 else ():
                last = min(last, first + room - 1)
                spans.append(Span(name, ((first, last),)))
                room -= last - first + 1
                if room <= 0:
                    break
        if spans:
            self._load(self._ctx.node, spans)

    def _load(self, to: NodeId, spans: list[Span]) -> None:
        self._token += 1
        self._loads[self._token] = to
        self._ctx.emit(Load(self._token, tuple(spans)))

    def _send_packets(self, to: NodeId, packets: Iterable[Packet]) -> None:
        if chosen := fitting(packets, self._ctx.config.repair_bytes_max):
            self._ctx.send(to, Repair(chosen))

    def _spend(self, sender: NodeId, count: int, packets: Iterable[Packet]) -> None:
        """So many answers, and one for each so many bytes of them."""
        cost = count + sum(len(packet.blob) for packet in packets) // ANSWER_BYTES
        self._tokens -= cost
        self._served[sender] = self._served.get(sender, 0) + cost

    def _may_answer(self, sender: NodeId) -> bool:
        """A token bucket of a quarter of a second's answers: what is over the limit is not answered but said. While
        there are few left, who has had its share is put off for the others. Of those who have not, the first that was
        put off is answered next, on credit if need be: else some that happen to ask whenever there is a token have them
        all, and one that asks in between none, for ever."""
        limit, now = self._ctx.config.service_limit_per_s, self._ctx.now
        self._tokens = min(limit * SHARE_S, self._tokens + (now - self._tokens_at) * limit)
        self._tokens_at = now
        if now - self._served_at >= SHARE_S:
            self._requesters = max(1, len(self._served))
            self._served, self._served_at = {}, now
        had = self._served.setdefault(sender, 0)
        requesters = max(self._requesters, len(self._served))
        has_its_share = had >= limit * SHARE_S / requesters
        scarce = requesters > 1 and self._tokens < limit * SHARE_S / 2
        credit = limit if scarce and sender == self._first_put_off() else 0.0
        if self._tokens > -credit and not (scarce and has_its_share):
            self._put_off.pop(sender, None)
            return True
        if not has_its_share:
            self._put_off[sender] = now
        return False

    def _first_put_off(self) -> NodeId | None:
        """Who waits longest, of those that still ask."""
        while self._put_off:
            first = next(iter(self._put_off))
            if self._ctx.now - self._put_off[first] < PUT_OFF_ROUNDS * self._ctx.config.round_interval_s:
                return first
            del self._put_off[first]
        return None

    # Being read -----------------------------------------------------------------------------------------------------

    def on_read(self, sender: NodeId, read: Read) -> None:
        """One page at a time, by turns: a thousand readers do not keep a logger from storing."""
        waiting = self._reads.setdefault(sender, deque())
        if len(waiting) < READS_MAX:
            waiting.append(read)
        self._scan_next()

    def on_scanned(self, token: int, page: Page) -> None:
        if self._scanning is not None and self._scanning[0] == token:
            _, sender, known, loggers = self._scanning
            self._scanning = None
            answers: dict[str, object] = {"passed": known.passed + page.passed, "void": known.void}
            answers |= {"gone": known.gone + page.gone, "uncovered": self.uncovered()}
            if loggers:
                given = tuple(stretch for stretch in page.stretches if self._gives(stretch.stream, loggers))
                page = replace(page, stretches=given)
            self._ctx.send(sender, replace(page, **answers))
            self._scan_next()

    def _gives(self, stream: StreamId, loggers: tuple[NodeId, ...]) -> bool:
        """Whether one that reads several loggers gets a stream here: of the first that keeps it, and of any that still
        has one that is over."""
        log = self.logs.get(stream)
        return (log is not None and log.retired) or ranked(stream, loggers)[0] == self._ctx.node

    def _scan_next(self) -> None:
        if self._scanning is not None or not self._reads:
            return
        sender = next(iter(self._reads))
        waiting = self._reads.pop(sender)
        read = waiting.popleft()
        if waiting:
            self._reads[sender] = waiting  # behind the others
        passed: list[Span] = []
        gone: list[Span] = []
        void: list[Span] = []
        stored: list[Span] = []
        waits = read.beginning is not None and read.beginning.last_per_key
        for span in read.lacks:
            log = self.logs.get(span.stream)
            if log is None:
                if span.stream in self._retired:
                    _append(gone, span.stream, span.ranges)
            elif waits:  # before all of it is here nobody knows what is newest
                if span.ranges and span.ranges[-1][1] <= log.prefix:
                    passed.append(span)
            else:
                _append(gone, span.stream, _ranges(part for each in span.ranges for part in _settled(log, *each)))
                _append(void, span.stream, _ranges(part for each in span.ranges for part in log.void.overlap(*each)))
                parts = (part for each in span.ranges for part in log.committed.overlap(*each))
                _append(stored, span.stream, _ranges(parts))
        self._token += 1
        known = Page(read.number, read.after, False, passed=tuple(passed), void=tuple(void), gone=tuple(gone))
        self._scanning = self._token, sender, known, read.loggers
        self._ctx.emit(Scan(self._token, read, tuple(stored)))

    # Named publishers -----------------------------------------------------------------------------------------------

    def on_checkout(self, sender: NodeId, message: Checkout) -> None:
        """Promise a block of numbers, durably: to a higher epoch than any before, or the holder's next, and never one
        that reaches back. Who is about to hand over what it has promised promises nothing more."""
        if message.epoch != READ and not self.promises:
            return
        log = self.log(message.stream)
        promise = log.promise or Promise(message.stream, READ, "", -1)
        held = (message.epoch, message.holder) == (promise.epoch, promise.holder)
        granted = message.epoch != READ and (
            (held and message.last == promise.last)
            or ((held or message.epoch > promise.epoch) and promise.last < message.first <= message.last)
        )
        if granted:
            floor = promise.floor if held else message.first
            promise = log.promise = Promise(message.stream, message.epoch, message.holder, message.last, floor)
        answer = CheckedOut(
            message.stream, message.epoch, message.last, granted,
            promise.epoch, promise.last, promise.holder, promise.floor,
        )  # fmt: skip
        if granted:
            self.save(promise, lambda: self._ctx.send(sender, answer))
        else:
            self._ctx.send(sender, answer)

    def promised(self, stream: StreamId, granted: bool) -> CheckedOut:
        """What is promised here, for another logger."""
        promise = self.log(stream).promise or Promise(stream, READ, "", -1)
        known = promise.epoch, promise.last
        return CheckedOut(stream, *known, granted, *known, promise.holder, promise.floor)

    def on_promised(self, told: CheckedOut) -> None:
        """A logger that is about to leave has promised this: from now on we have, too."""
        log = self.log(told.stream)
        known = (log.promise.epoch, log.promise.last) if log.promise is not None else (READ, -1)
        if known < (told.promised_epoch, told.promised_last):
            log.promise = Promise(told.stream, told.promised_epoch, told.holder, told.promised_last, told.floor)
            self.save(log.promise)

    def on_return(self, message: Return) -> None:
        """Its holder will not use the rest of its block: the next one begins there, and leaves no gap."""
        log = self.logs.get(message.stream)
        promise = log.promise if log is not None else None
        if log is None or promise is None or (promise.epoch, promise.holder) != (message.epoch, message.holder):
            return
        if promise.floor - 1 <= message.last < promise.last:
            log.promise = Promise(message.stream, message.epoch, message.holder, message.last, promise.floor)
            self.save(log.promise)

    # Collecting -----------------------------------------------------------------------------------------------------

    def retire(self, stream: StreamId) -> None:
        """Everyone has it in full: it is retained like the rest, and then nothing is left of it."""
        log = self.logs.get(stream)
        if log is not None:
            log.retired = True
            if not log.committed:
                self._forget(stream)

    def _forget(self, stream: StreamId) -> None:
        del self.logs[stream]
        self.on_forgotten(stream)

    def collect(self) -> None:
        """Stability-oriented with a timeout as failsafe (rpbcast §5.2), and retention on top."""
        config = self._ctx.config
        retained, expired = self._ctx.now - config.retain_s, self._ctx.now - config.expire_s
        for name, log in list(self.logs.items()):
            if not log.logged_at or log.logged_at[0][0] > retained:
                continue
            stable: int | None = None
            upto, too_old = log.collected, -1
            while log.logged_at and log.logged_at[0][0] <= retained:
                logged_at, last = log.logged_at[0]
                if logged_at > expired:
                    stable = self._stable(name, log) if stable is None else stable
                    if last > stable:
                        upto = max(upto, stable)
                        break
                else:
                    too_old = last
                upto = max(upto, last)
                log.logged_at.popleft()
            if too_old > log.collected and too_old > (seen := self._stable(name, log)):
                self._let_go(name, log, min(seen, too_old), "stable")
                self._let_go(name, log, too_old, "expired")
            self._let_go(name, log, upto, "stable")
        if config.log_bytes_max is not None and self.bytes > config.log_bytes_max:
            self._shed(config.log_bytes_max)

    def compact(self, loggers: tuple[NodeId, ...]) -> None:
        """Tell the store what more is safe, so that what is obsolete for it may go (`compact`): it is on the disks of
        enough loggers, ours among them."""
        config = self._ctx.config
        more: dict[StreamId, int] = {}
        for name, log in self.logs.items():
            if log.prefix > log.safe and config.group(group_of(name)).purging:
                last = min(log.prefix, self._stability.logged(loggers, name, config.loggers_min - 1))
                if last > log.safe:
                    log.safe = more[name] = last
        if more:
            self._ctx.emit(Compact(more))

    def on_aged(self, ages: Mapping[StreamId, tuple[tuple[float, int], ...]]) -> None:
        """Correct the ages of what is on disk."""
        for name, steps in ages.items():
            if (log := self.logs.get(name)) is not None:
                log.grow_old(self._ctx.now, steps)

    def on_compacted(self, events: int, size: int) -> None:
        self.bytes = max(0, self.bytes - size)
        self._ctx.tally.collected["obsolete"] += events

    def _stable(self, name: StreamId, log: Log) -> int:
        return log.prefix if log.retired else self._stability.stable(name, log.prefix, log.collected)

    def _shed(self, bytes_max: int) -> None:
        """It is too much: let go of the oldest, of what everyone has first."""
        groups = sorted((at, name, last) for name, log in self.logs.items() for at, last in log.logged_at)
        reasons: tuple[tuple[Reason, bool], ...] = (("shed", True), ("shed unseen", False))
        for reason, only_stable in reasons:
            for _, name, last in groups:
                if self.bytes <= bytes_max:
                    return
                log = self.logs.get(name)
                if log is not None:
                    self._let_go(name, log, min(last, self._stable(name, log)) if only_stable else last, reason)

    def _let_go(self, name: StreamId, log: Log, upto: int, reason: Reason) -> None:
        if upto <= log.collected:
            return
        self._forget_bytes(log.committed.count_within(log.collected + 1, upto), reason)
        log.collected = upto
        log.committed.remove(0, upto)
        while log.logged_at and log.logged_at[0][1] <= upto:
            log.logged_at.popleft()
        self._ctx.emit(Collect(name, upto))
        if log.retired and not log.committed:
            self._forget(name)

    def _forget_bytes(self, count: int, reason: Reason) -> None:
        self.bytes -= self.bytes * count // max(self._events, 1)
        self._events -= count
        self._ctx.tally.collected[reason] += count


def _settled(log: Log, first: int, last: int) -> list[Range]:
    """What of a span this logger has collected and never will have again; the void is told as such."""
    upto = min(last, log.collected)
    parts = [(first, upto)] if first <= upto else []
    parts = [gap for part in parts for gap in log.void.gaps(*part)]
    return parts + log.gone.overlap(first, last)


def _ranges(parts: Iterable[Range]) -> tuple[Range, ...]:
    return IntervalSet(parts).ranges()


def _append(spans: list[Span], stream: StreamId, ranges: tuple[Range, ...]) -> None:
    if ranges:
        spans.append(Span(stream, ranges[:RANGES_MAX]))
