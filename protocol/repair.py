"""Getting what is missing: from peers first, then from loggers (rpbcast §4.1, §4.3).

    a gap opens ── grace ──> first request, at once ──> one bundled request a round ──> a logger
                                     gossip phase (`gmissing`)                        logger phase (`missing`)

An id moves to the logger phase when a member says that it had it and collected it, or after `gclimit_rounds` rounds
without an answer (its only holder may be dead). That is the whole contract between the phases (rpbcast §4.3): either
may be replaced without touching the other.

`repair_first="logger"` sends a gap to the loggers at once. `"auto"` does so while they are calm, and asks peers while a
logger says it is busy or does not answer (rpbcast §8). Both cost the loggers what peers could do for them.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import RANGES_MAX, Range, Recover, Request, Span
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Reason
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.membership import Membership
from gossamer.protocol.selection import Selection
from gossamer.protocol.stream import Stream

Wanted = Callable[[StreamId, int, int], bool]
Lacks = dict[Stream, IntervalSet]
UNANSWERED_MAX = 2
"""So many requests in a row that loggers did not answer count as one `Busy`."""


AWAITED_ROUNDS = 4
AWAITED_ROUNDS_MAX = 64
"""So long a purged event is not asked for, in the hope for what obsoleted it."""


class Repair:
    """What is missing, in which phase, and of whom it was asked."""

    __slots__ = (
        "_ageing", "_awaited", "_busy_until", "_ctx", "_excuse", "_flights", "_grace", "_keepers", "_late",
        "_membership", "_on_late", "_open", "_selection", "_serial", "_turn", "_unanswered", "_wanted",
        "_worth_asking", "hurry",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        selection: Selection,
        wanted: Wanted | None,
        on_late: Callable[[Stream], bool],
        keepers: Callable[[StreamId], tuple[NodeId, ...]] | None = None,
    ) -> None:
        """`wanted` is the application's word on whether a gap is worth requesting (rpbcast §2.2); `on_late` hears of
        a stream that lacks something for `seek_after_rounds`, and says whether it does something about it;
        `keepers(stream)` are the loggers to ask for it."""
        self._keepers = keepers or (lambda _: membership.loggers)
        self._ctx = ctx
        self._membership = membership
        self._selection = selection
        self._wanted = wanted
        self._on_late = on_late
        self._excuse: Callable[[Stream, int, int, Reason], None] | None = None
        self._worth_asking: Callable[[Stream], list[Range]] = lambda stream: [(stream.next, stream.lastseen)]
        self._open: dict[StreamId, Stream] = {}
        self._grace: deque[tuple[float, Stream, int, int]] = deque()
        self._awaited: list[tuple[float, int, Stream, int, int]] = []
        self._ageing: deque[tuple[int, Stream, int, int]] = deque()
        self._late: deque[tuple[int, Stream, int, int]] = deque()
        self._flights: list[tuple[float, int, Stream, int, int, bool]] = []
        self._serial = 0
        self._busy_until = -1.0
        self._unanswered = 0
        self._turn = ctx.rng.randrange(1_000)
        self.hurry = False
        """A gap has opened since the last round: do not wait for a slow one."""

    def attach(
        self,
        excuse: Callable[[Stream, int, int, Reason], None],
        worth_asking: Callable[[Stream], list[Range]],
    ) -> None:
        """`excuse(stream, first, last, reason)` is how to say that something will not come; `worth_asking(stream)`
        tells where what is missing would be taken in."""
        self._excuse = excuse
        self._worth_asking = worth_asking

    @property
    def quiet(self) -> bool:
        """Nothing is missing."""
        return not any(stream.gaps is not None for stream in self._open.values())

    @property
    def incomplete(self) -> int:
        """How many streams lack something."""
        return sum(stream.gaps is not None for stream in self._open.values())

    def lacking(self, before_round: int) -> dict[StreamId, int]:
        """How many events are missing of each stream whose first gap was found before a round."""
        found = {}
        for name, stream in self._open.items():
            gaps = stream.gaps
            if gaps is not None and gaps.opened and gaps.opened[0][2] < before_round:
                found[name] = gaps.gmissing.count() + gaps.missing.count()
        return found

    def gaping(self) -> Iterator[Stream]:
        """The streams that lack something."""
        return (stream for stream in self._open.values() if stream.gaps is not None)

    def next_deadline(self) -> float:
        return self._grace[0][0] if self._grace else float("inf")

    # What opens and moves a gap -------------------------------------------------------------------------------------

    def on_gap(self, stream: Stream, first: int, last: int) -> None:
        if self._wanted is not None and not self._wanted(stream.id, first, last):
            assert self._excuse is not None
            self._excuse(stream, first, last, "declined")
            return
        gaps = stream.gaps
        assert gaps is not None
        self._open[stream.id] = stream
        self.hurry = True
        gaps.asked.add(first, last)
        self._grace.append((self._ctx.now + self._ctx.config.reorder_grace_s, stream, first, last))
        self._late.append((self._ctx.round + self._ctx.config.seek_after_rounds, stream, first, last))
        if self._asks_loggers_first():
            gaps.gmissing.remove(first, last)
            gaps.missing.add(first, last)
            gaps.early.add(first, last)
        else:
            self._age(stream, first, last)

    def on_awaited(self, stream: Stream, first: int, last: int) -> None:
        """It was purged for something that is to come: do not ask for it while that is likely to be on its way."""
        gaps = stream.gaps
        assert gaps is not None
        for part in gaps.lacks(first, last):
            gaps.awaited.add(*part)
        # Told again, it is deep in somebody's queue: to ask for it each time would fill that queue with marks.
        times = gaps.patience.get((first, last), (0.0, 0))[1]
        rounds = min(AWAITED_ROUNDS * 2**times, AWAITED_ROUNDS_MAX)
        due = self._ctx.now + rounds * self._ctx.config.round_interval_s
        gaps.patience[first, last] = (due, times + 1)
        self._serial += 1
        heapq.heappush(self._awaited, (due, self._serial, stream, first, last))

    def on_collected(self, spans: Iterable[Span]) -> None:
        """A member had these and has collected them: ask a logger from now on."""
        if not self._membership.loggers:
            return
        moved: Lacks = {}
        for span in spans:
            stream = self._open.get(span.stream)
            if stream is not None and stream.gaps is not None:
                for first, last in span.ranges:
                    parts = self._to_logger_phase(stream, first, last)
                    for part in parts:
                        stream.gaps.asked.remove(*part)
                    _extend(moved, stream, [free for part in parts for free in stream.gaps.awaited.gaps(*part)])
        self._recover(moved)

    def on_busy(self) -> None:
        """A logger is congested, or silent: let peers repair what they have not been asked for."""
        self._unanswered = 0
        self._busy_until = self._ctx.now + self._ctx.config.busy_backoff_s
        for stream in self._open.values():
            if stream.gaps is not None:
                for first, last in stream.gaps.early.ranges():
                    stream.gaps.early.remove(first, last)
                    if not stream.gaps.sealed.overlap(first, last):
                        stream.gaps.missing.remove(first, last)
                        stream.gaps.gmissing.add(first, last)
                        self._age(stream, first, last)

    def on_logger_answer(self) -> None:
        self._unanswered = 0

    def seal(self, stream: Stream, first: int, last: int) -> None:
        """We have told a logger that we lack this: only a logger may supply it now (see `Seek`)."""
        self._to_logger_phase(stream, first, last)
        if stream.gaps is not None:
            for part in stream.gaps.missing.overlap(first, last):
                stream.gaps.sealed.add(*part)
                stream.gaps.early.remove(*part)

    # Requests -------------------------------------------------------------------------------------------------------

    def on_grace_over(self) -> None:
        """What is still missing was not just reordered: ask at once, one bundle for each phase."""
        peers: Lacks = {}
        loggers: Lacks = {}
        while self._grace and self._grace[0][0] <= self._ctx.now:
            _, stream, first, last = self._grace.popleft()
            if stream.gaps is not None:
                stream.gaps.asked.remove(first, last)
                _extend(peers, stream, stream.gaps.askable(stream.gaps.gmissing, first, last))
                _extend(loggers, stream, stream.gaps.askable(stream.gaps.missing, first, last))
        if peers and (target := self._selection.choose(self._membership.active)) is not None:
            self._ctx.send(target, Request(self._fly(peers, target, logger=False)))
        self._recover(loggers)

    def on_round(self, target: NodeId | None) -> tuple[Span, ...]:
        """Age, ask loggers for what is in their phase, and return what to ask `target` for (negative gossip)."""
        self.hurry = False
        self._land()
        self._move_aged()
        peers: Lacks = {}
        loggers: Lacks = {}
        names = list(self._open)
        turn = self._ctx.round % len(names) if names else 0
        for name in names[turn:] + names[:turn]:  # each first in its turn: a busy logger answers no more than some
            stream = self._open[name]
            gaps = stream.gaps
            if gaps is None:
                del self._open[name]
                continue
            if not self._membership.loggers and gaps.missing:
                for first, last in gaps.missing.ranges():  # there is no logger to ask (any more)
                    if not gaps.sealed.overlap(first, last):
                        gaps.missing.remove(first, last)
                        gaps.early.remove(first, last)
                        gaps.gmissing.add(first, last)
                        self._age(stream, first, last)  # one may come, or be a logger again
            for first, last in self._worth_asking(stream):
                _extend(peers, stream, gaps.askable(gaps.gmissing, first, last))
                _extend(loggers, stream, gaps.askable(gaps.missing, first, last))
        self._recover(loggers)
        return self._fly(peers, target, logger=False) if target is not None else ()

    def on_repaired(self, sender: NodeId, streams: Iterable[StreamId], full: bool) -> None:
        """An answer brought some of what is missing: ask for the rest at once. One answer a round would be four
        megabytes a second, and a member that was away lacks gigabytes. A logger is asked on; a peer only if its answer
        was `full`, and then another one, so that no peer serves all of it."""
        streams = tuple(streams)
        if self._membership.is_logger(sender) and (lacks := self._rest(streams, logger=True)):
            self._ctx.send(sender, Recover(self._fly(lacks, sender, logger=True)))
        if full and (lacks := self._rest(streams, logger=False)):
            target = self._selection.choose(self._membership.active)
            if target is not None:
                self._ctx.send(target, Request(self._fly(lacks, target, logger=False)))

    def _rest(self, streams: Iterable[StreamId], logger: bool) -> Lacks:
        """Missing parts of some streams in one phase, in flight or not."""
        lacks: Lacks = {}
        for name in streams:
            stream = self._open.get(name)
            if stream is not None and stream.gaps is not None:
                phase = stream.gaps.missing if logger else stream.gaps.gmissing
                for first, last in self._worth_asking(stream):
                    parts = phase.overlap(first, last)
                    for part in parts:
                        stream.gaps.asked.remove(*part)
                    _extend(lacks, stream, [free for part in parts for free in stream.gaps.awaited.gaps(*part)])
        return lacks

    def _recover(self, lacks: Lacks) -> None:
        if not lacks:
            return
        self._turn += 1  # in turn: what one has collected another may have, and all must say so before it is gone
        asked: dict[NodeId, Lacks] = {}
        for stream, intervals in lacks.items():
            loggers = [node for node in self._keepers(stream.id) if node in self._membership.active]
            if loggers:
                asked.setdefault(loggers[self._turn % len(loggers)], {})[stream] = intervals
        for logger, of_it in asked.items():
            self._ctx.send(logger, Recover(self._fly(of_it, logger, logger=True)))

    def _fly(self, lacks: Lacks, to: NodeId, logger: bool) -> tuple[Span, ...]:
        """Mark as in flight: nobody else is asked for it until it is overdue."""
        due = self._ctx.now + self._selection.patience_s(to)
        spans = []
        for stream, intervals in lacks.items():
            assert stream.gaps is not None
            ranges = intervals.ranges()[:RANGES_MAX]
            spans.append(Span(stream.id, ranges))
            for first, last in ranges:
                stream.gaps.asked.add(first, last)
                self._serial += 1
                heapq.heappush(self._flights, (due, self._serial, stream, first, last, logger))
        return tuple(spans)

    def _land(self) -> None:
        """What was asked for and did not come may be asked for again."""
        while self._awaited and self._awaited[0][0] <= self._ctx.now:
            due, _, stream, first, last = heapq.heappop(self._awaited)
            if stream.gaps is not None and stream.gaps.patience.get((first, last), (due, 0))[0] == due:
                stream.gaps.awaited.remove(first, last)
        overdue = False
        landed: dict[StreamId, None] = {}
        while self._flights and self._flights[0][0] <= self._ctx.now:
            _, _, stream, first, last, logger = heapq.heappop(self._flights)
            if stream.gaps is not None:
                overdue |= logger and bool(stream.gaps.asked.overlap(first, last))
                stream.gaps.asked.remove(first, last)
                landed[stream.id] = None
        if landed:  # what was asked of a peer and then, upon its notice, of a logger is in flight from the latter
            for _, _, stream, first, last, _ in self._flights:
                if stream.id in landed and stream.gaps is not None:
                    for part in stream.gaps.lacks(first, last):
                        stream.gaps.asked.add(*part)
        self._unanswered = self._unanswered + 1 if overdue else self._unanswered
        if self._unanswered >= UNANSWERED_MAX and self._ctx.config.repair_first == "auto":
            self.on_busy()

    def _age(self, stream: Stream, first: int, last: int) -> None:
        self._ageing.append((self._ctx.round + self._ctx.config.gclimit_rounds, stream, first, last))

    def _move_aged(self) -> None:
        while self._ageing and self._ageing[0][0] <= self._ctx.round:
            _, stream, first, last = self._ageing.popleft()
            if self._membership.loggers:
                self._to_logger_phase(stream, first, last)
            elif stream.gaps is not None:
                for part in stream.gaps.gmissing.overlap(first, last):
                    self._age(stream, *part)
        late: list[tuple[int, Stream, int, int]] = []
        while self._late and self._late[0][0] <= self._ctx.round:
            _, stream, first, last = self._late.popleft()
            if stream.gaps is not None and stream.gaps.lacks(first, last) and not self._on_late(stream):
                late.append((self._ctx.round + self._ctx.config.seek_after_rounds, stream, first, last))
        self._late.extend(late)

    def _to_logger_phase(self, stream: Stream, first: int, last: int) -> list[Range]:
        gaps = stream.gaps
        if gaps is None:
            return []
        parts = gaps.gmissing.overlap(first, last)
        for part in parts:
            gaps.gmissing.remove(*part)
            gaps.missing.add(*part)
        return parts

    def _asks_loggers_first(self) -> bool:
        first = self._ctx.config.repair_first
        if first == "gossip" or self._ctx.logger or not self._membership.loggers:
            return False
        return first == "logger" or self._ctx.now >= self._busy_until


def _extend(lacks: Lacks, stream: Stream, parts: Iterable[Range]) -> None:
    for part in parts:
        lacks.setdefault(stream, IntervalSet()).add(*part)
