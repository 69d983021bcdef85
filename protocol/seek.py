"""Closing holes: finding what hardly anybody has, or agreeing that nobody has it (rpbcast §6.2).

A publisher may die with an event sent to few, or to none: FIFO receivers would wait for it for ever. After
`seek_after_rounds` a logger asks *everyone*. Whoever has it supplies it. Whoever lacks it says so, and from then on
takes it from a logger only; so when all have answered, nobody can come to deliver it any more, and the logger
declares it void, for good and for all.

A publisher that is alive keeps what is not logged, so it always supplies: only the dead lose events. While it is known
to live, everyone is asked, and nobody seals: its link may just be too slow for all it has to say. Nor is anything
sealed that a named publisher may come back with, from its spool: its holes stay open until it comes back without
(`GapNotice`), or until they are as old as anything that is kept. What a living publisher says it had and has no more
was safe before there was a logger, and is closed like any other hole: the first logger would else wait for ever. So
is what a logger says it has collected: it was logged. Who is to keep the stream after that logger would else wait for a
publisher that need not come back.

Members that do not answer (crashed, cut off) hold a hole open until they return or are expelled; disconnected ones are
not asked, since nobody disconnects with what only it may have: while it waits to go it takes what others publish from a
logger only, and what that has on disk. Loggers do hold it open: one that is stopped has on its disk what it may have
been the only one to acknowledge. What somebody *had* and nobody has any more is told as collected, not as void. Of
several loggers that keep a stream the first asks, and the others take it from that: two that ask each other would wait
for one another for ever.

A logger passes on what it has in memory, and may die with it. So when one has begun a new life, or is gone, everyone is
asked again: what they said that they lack they may have taken from it.

Who had it may have had a mark of it, and let go of what that names, because others keep it. So marks are told whatever
they are worth, and nothing is given up that was purged for something that may yet come: it is not gone, but obsolete.

In a mesh without loggers each member asks for itself, and gives up what nobody has any more.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import SEQ_MAX, NodeId, StreamId
from gossamer.messages.wire import RANGES_MAX, Lacking, Range, Seek, Span
from gossamer.protocol.context import Context
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.membership import Membership
from gossamer.protocol.stream import Stream

REPEAT_ROUNDS = 2
OWNED_REPEATS = 4
"""What a living publisher has is asked for that much less often."""
NOTHING = IntervalSet()
END = SEQ_MAX + 1
"""Beyond every seq."""


class Seeker:
    """The holes that this node is asking everyone about."""

    __slots__ = (
        "_answers", "_awaits", "_closable", "_ctx", "_had", "_holes", "_leads", "_membership", "_on_agreed", "_since",
        "on_disk", "unfound",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        on_agreed: Callable[[Stream, int, int, bool], None],
        closable: Callable[[Stream], int] = lambda _: END,
        leads: Callable[[StreamId], bool] | None = None,
        awaits: Callable[[StreamId, int, int], list[Range]] = lambda *_: [],
    ) -> None:
        """`on_agreed` hears of what nobody can supply, and whether anybody ever had it; `closable(stream)` tells before
        which seq its publisher does not answer for it any more: of the rest there is nothing to agree on;
        `leads(stream)`, whether this logger asks for those that keep it; `awaits(stream, first, last)`, what need not
        come if something else does."""
        self._awaits = awaits
        self.unfound: Callable[[StreamId], list[Range]] = lambda _: []
        """Spans of a stream that are this logger's to keep, and were asked for in vain (protocol/mending.py)."""
        self.on_disk: Callable[[StreamId], Iterable[Range]] = lambda _: ()
        """What of a stream is on this logger's own disk: it is read there, and not given up."""
        self._leads = leads or (lambda _: membership.leads)
        self._closable = closable
        self._ctx = ctx
        self._membership = membership
        self._on_agreed = on_agreed
        self._had: dict[StreamId, IntervalSet] = {}
        self._holes: dict[StreamId, Stream] = {}
        self._answers: dict[StreamId, dict[NodeId, IntervalSet]] = {}
        self._since: dict[StreamId, float] = {}

    def __bool__(self) -> bool:
        return bool(self._holes)

    def asks_for(self, stream: StreamId) -> bool:
        """Whether a repair may be the answer to our own question."""
        return stream in self._holes and self._is_ours(stream)

    def _is_ours(self, stream: StreamId) -> bool:
        return not self._membership.has_loggers or (self._ctx.logger and self._leads(stream))

    def start(self, stream: Stream) -> None:
        """Seek what the stream still lacks."""
        if stream.id not in self._holes:
            self._holes[stream.id] = stream
            self._answers[stream.id] = {}
            self._since[stream.id] = self._ctx.now

    def on_lacking(self, sender: NodeId, message: Lacking) -> None:
        if not message.sealed:
            self._on_released(sender, message)
            return
        for span in message.had:
            if span.stream in self._holes:
                had = self._had.setdefault(span.stream, IntervalSet())
                for first, last in span.ranges:
                    had.add(first, last)
        for span in (*message.spans, *message.had):
            answers = self._answers.get(span.stream)
            if answers is not None and self._is_ours(span.stream):
                lacking = answers.setdefault(sender, IntervalSet())
                for first, last in span.ranges:
                    lacking.add(first, last)
                self._close(self._holes[span.stream])

    def _on_released(self, sender: NodeId, message: Lacking) -> None:
        """What a living publisher had and has let go of was safe in its time, before there was a logger; so it does not
        answer for it any more. It lets go in order, so that is all up to the last."""
        for span in message.had:
            stream = self._holes.get(span.stream)
            if stream is not None and span.ranges and stream.origin == sender:
                stream.floor = max(stream.floor, span.ranges[-1][1] + 1)

    def on_collected(self, spans: Iterable[Span]) -> None:
        """One that kept a stream has collected what is missing first: so it was logged in its time, and its publisher
        does not answer for it any more. Who says so may not keep the stream now, or be no logger any more: it is not
        its word that closes a hole, but everyone's."""
        for span in spans:
            stream = self._holes.get(span.stream)
            told, lacks = IntervalSet(span.ranges), [] if stream is None else self._lacks(stream)
            if stream is not None and lacks and lacks[0][0] in told:
                stream.floor = max(stream.floor, told.run(lacks[0][0]) + 1)

    def on_round(self) -> None:
        for name, stream in list(self._holes.items()):
            if self._is_ours(name):
                self._close(stream)
                continue
            self._answers[name].clear()
            self._had.pop(name, None)
            if not self._lacks(stream):
                del self._holes[name], self._answers[name], self._since[name]
        if self._ctx.round % REPEAT_ROUNDS:
            return
        asked: dict[tuple[NodeId, bool], list[Span]] = {}
        names = list(self._holes)
        turn = self._ctx.round // (REPEAT_ROUNDS * OWNED_REPEATS) % len(names) if names else 0
        for name in names[turn:] + names[:turn]:  # each first in its turn: who is asked for much answers some of it
            stream = self._holes[name]
            if not self._is_ours(name):
                continue
            closable = self._owned_from(stream)
            lacks, owned = IntervalSet(self._lacks(stream)), IntervalSet(self._lacks(stream))
            lacks.remove(closable, END)
            if closable > 0:
                owned.remove(0, closable - 1)
            ask_owned = owned and self._ctx.round % (REPEAT_ROUNDS * OWNED_REPEATS) == 0
            for node in self._membership.active:
                unanswered = IntervalSet(lacks.ranges())
                answered = self._answers[name].get(node)
                if answered:
                    answered.remove(closable, END)  # who lacked it may have got it since
                    for part in answered.ranges():
                        unanswered.remove(*part)
                if unanswered:
                    asked.setdefault((node, True), []).append(Span(name, unanswered.ranges()[:RANGES_MAX]))
                if ask_owned:
                    asked.setdefault((node, False), []).append(Span(name, owned.ranges()[:RANGES_MAX]))
        for (node, seal), spans in asked.items():
            self._ctx.send(node, Seek(tuple(spans), seal))

    def _owned_from(self, stream: Stream) -> int:
        old = self._since[stream.id] + self._ctx.config.expire_s < self._ctx.now
        return END if old else self._closable(stream)

    def forget_node(self, node: NodeId) -> None:
        """A new life of it has not answered yet."""
        for answers in self._answers.values():
            answers.pop(node, None)

    def ask_again(self) -> None:
        """A logger has begun anew, or is gone: what others said that they lack they may have taken from its memory."""
        for answers in self._answers.values():
            answers.clear()

    def _close(self, stream: Stream) -> None:
        """Give up what everyone lacks; stop when nothing is left to seek."""
        agreed = IntervalSet(self._lacks(stream))
        for node in dict.fromkeys((*self._membership.active, *self._membership.loggers)):
            answered = self._answers[stream.id].get(node, NOTHING)
            for part in agreed.ranges():
                for unanswered in answered.gaps(*part):
                    agreed.remove(*unanswered)
        for part in agreed.ranges():
            for awaited in self._awaits(stream.id, *part):
                agreed.remove(*awaited)
        had = self._had.get(stream.id, NOTHING)
        for part in agreed.ranges():
            for existed in had.overlap(*part):
                self._on_agreed(stream, *existed, True)
            for never in had.gaps(*part):
                self._on_agreed(stream, *never, False)
        if not self._lacks(stream):
            del self._holes[stream.id], self._answers[stream.id], self._since[stream.id]
            self._had.pop(stream.id, None)

    def _lacks(self, stream: Stream) -> list[Range]:
        """Ranges that this node misses of a stream, or is to keep and has asked for in vain."""
        missing = [] if stream.gaps is None else stream.gaps.lacks(stream.next, stream.lastseen)
        if missing and (kept := self.on_disk(stream.id)):
            absent = IntervalSet(missing)
            for part in kept:
                absent.remove(*part)
            missing = list(absent.ranges())
        return self.unfound(stream.id) + missing
