"""Transactions at the receiver: all of one, or nothing of it (000 §3.4.3).

A transaction is a run of parts with a commit behind it. Parts are held until a commit is *delivered*; until then nobody
knows that the transaction will be whole. Purging makes this harder than it looks. Three transactions of one stream, and
what obsoletes what:

    1: x   2: y   3: commit      4: y   5: commit      6: z   7: commit
                  3 ⊏ 5, 7       2 ⊏ 5  5 ⊏ 7

    came           applied
    1 3 4 5        at 3 nothing: x without y was never a state of the publisher, since 2 is out because of 5; at 5 both
    1 2 4 6 7      at 7 all of it: the commits 3 and 5 are out because of a later one, which stands for them
    1 2 4          nothing: no commit came, and whether 4 is all of its transaction is not known

The observer printed in Fig. 3.8 applies what it has when the next transaction begins, and so a part of one whose other
part it never got. It also applies 1 at 3 in the first case.

A commit is a *cut* if no event before it is out because of a commit behind it; at a cut the observer has what the
publisher had there. Whether a hole is a part or a plain event its mark does not say, but what obsoleted it will: only a
commit obsoletes parts and commits. So an undecided commit waits for the obsoleters of the holes before it, which come,
since that is what makes a purge lawful. If one proves to be a commit, the one before it is no cut, and gives way to it.
Marks without a `by` are taken on trust: then a transaction is still whole or absent, but 1 alone is applied at 3.

What is lost, void or collected, unlike what is obsolete, comes in no other form: a transaction that lacks such a part,
or whose commit is such a one, is discarded whole. Plain events pass at once, unless something of their stream is held:
then they wait behind it, or a part applied late would undo what they said. The same holds for a notice that something
of the stream has left (protocol/shown.py): applied before what it speaks of, it would be in vain.
"""

from typing import Literal, NamedTuple

from gossamer.messages.event import Event
from gossamer.messages.ids import EventId, StreamId
from gossamer.protocol.shown import Left

HELD_MAX = 65_536


class Applied(NamedTuple):
    """To be applied as one: an event by itself, or what a commit stands for, in order; `commit` is that commit."""

    events: tuple[Event | Left, ...]
    commit: Event | None = None


class Discarded(NamedTuple):
    """A transaction of which nothing was or will be applied: its first part, and its commit or the last seq known."""

    stream: StreamId
    first: int
    last: int
    reason: Literal["lost", "overflow"]


Outcome = Applied | Discarded


class _Span(NamedTuple):
    """Where a transaction stands: its first part, and its commit."""

    first: int
    commit: int


class _Held(NamedTuple):
    seq: int
    event: Event | Left
    span: _Span | None = None
    """Of the transaction whose part or commit it is."""
    is_commit: bool = False


class _Stream:
    """What is held of one stream, and why; forgotten when nothing is, so that most streams leave no trace."""

    __slots__ = ("dead", "gone", "held", "id", "last", "open", "outs")

    def __init__(self, stream: StreamId, last: int) -> None:
        self.id = stream
        self.last = last
        """The last seq that was told of."""
        self.gone = last
        """The last seq that is lost; what was before our time is as good as lost."""
        self.open: _Span | None = None
        """The transaction whose part came last."""
        self.dead = -1
        """The commit of the last transaction that was discarded."""
        self.held: list[_Held] = []
        self.outs: dict[int, list[tuple[int, int]]] = {}
        """Obsoleters that are still to come, each with the runs that are out because of it."""


class Assembler:
    """Events and omissions of any number of streams, each in its order, in; what may be applied, out.

    With `filtered` a seq of which nothing is told was left out by a selector; otherwise it counts as lost.
    """

    def __init__(self, *, filtered: bool = False, held_max: int = HELD_MAX) -> None:
        self.filtered = filtered
        self.held_max = held_max
        self.held = 0
        """How many events and marks are held, of all streams."""
        self.dropped: list[Event] = []
        """Parts that came and were discarded; the caller clears it."""
        self._streams: dict[StreamId, _Stream] = {}

    def __contains__(self, stream: StreamId) -> bool:
        """Whether anything is remembered of a stream; if not, all but parts and commits of it pass at once."""
        return stream in self._streams

    def on_event(self, event: Event) -> list[Outcome]:
        """A delivered event, the next of its stream."""
        assert event.id is not None, event
        name, seq = event.id
        relation = event.relation
        part = None if relation is None else relation.part
        commit = None if relation is None else relation.commit
        stream = self._streams.get(name)
        if stream is None:
            if part is None and commit is None:
                return [Applied((event,))]  # a stream without transactions leaves no trace
            stream = self._stream(name, seq)
        outcomes: list[Outcome] = []
        self._advance(stream, seq, outcomes)
        settled = bool(stream.outs) and self._arrived(stream, seq, commit is not None)
        if part is not None:
            self._part(stream, event, *part, outcomes)
            if not settled and self.held <= self.held_max:
                return outcomes  # a part by itself decides nothing
        elif commit is not None:
            self._commit(stream, event, commit.parts, outcomes)
        else:
            if stream.open is not None and stream.open.commit == seq:  # it should have been a commit: a peer's fault
                self._discard(stream, {stream.open}, outcomes)
            self._hold(stream, _Held(seq, event))
        self._release(stream, outcomes)
        if not stream.held and not stream.outs and stream.dead <= seq:
            del self._streams[name]  # between transactions, and nothing is waited for: as if it were new
        return outcomes

    def waiting(self) -> list[EventId]:
        """The first of each stream that is held."""
        return [EventId(name, stream.held[0].seq) for name, stream in self._streams.items() if stream.held]

    def on_left(self, left: Left) -> list[Outcome]:
        """A notice about something of a stream, behind whatever came of that."""
        stream = self._streams.get(left.id.stream)
        if stream is None or not stream.held:
            return [Applied((left,))]
        self._hold(stream, _Held(stream.last, left))
        return self._release(stream, [])

    def on_omitted(
        self, stream: StreamId, first: int, last: int, obsoleted: bool, by: int | EventId | None = None
    ) -> list[Outcome]:
        """These will not come: obsolete (`by` as in `Hole.by`), or else lost, void or collected."""
        at = self._stream(stream, first)
        outcomes: list[Outcome] = []
        self._advance(at, first, outcomes)
        at.last = last
        if not obsoleted:
            self._lose(at, first, last, outcomes)
        else:
            for seq in [seq for seq in at.outs if first <= seq <= last]:
                runs = at.outs.pop(seq)
                self.held -= len(runs)
                if isinstance(by, int):
                    self._out(at, by, runs)
            if isinstance(by, int) and by > last:
                self._out(at, by, [(first, last)])
        return self._release(at, outcomes)

    def on_retired(self, stream: StreamId) -> list[Outcome]:
        """Nothing more comes of this stream: what is uncommitted stays so."""
        at = self._streams.get(stream)
        if at is None:
            return []
        outcomes: list[Outcome] = []
        self._give_up(at, "lost", outcomes)
        del self._streams[stream]
        return outcomes

    def _stream(self, name: StreamId, seq: int) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream(name, -1 if self.filtered else seq - 1)
        return stream

    def _advance(self, stream: _Stream, seq: int, outcomes: list[Outcome]) -> None:
        assert seq > stream.last, f"{stream.id}: {seq} after {stream.last}"
        untold, stream.last = stream.last + 1, seq
        if untold < seq and not self.filtered:
            self._lose(stream, untold, seq - 1, outcomes)

    def _part(self, stream: _Stream, event: Event, index: int, count: int, outcomes: list[Outcome]) -> None:
        seq = stream.last
        span = _Span(seq - index, seq - index + count)
        if stream.dead >= seq:
            self.dropped.append(event)
            return
        if span.first <= stream.gone or span.commit <= seq:
            stream.dead = span.commit
            self.dropped.append(event)
            outcomes.append(Discarded(stream.id, span.first, span.commit, "lost"))
            return
        stream.open = span
        self._hold(stream, _Held(seq, event, span))

    def _commit(self, stream: _Stream, event: Event, parts: int, outcomes: list[Outcome]) -> None:
        seq = stream.last
        if stream.dead != seq:
            if seq - parts > stream.gone:
                self._hold(stream, _Held(seq, event, _Span(seq - parts, seq), is_commit=True))
                return
            outcomes.append(Discarded(stream.id, seq - parts, seq, "lost"))
        if stream.held:  # its own parts are discarded, and yet it stands for the commits before it
            self._hold(stream, _Held(seq, event, _Span(seq, seq), is_commit=True))

    def _out(self, stream: _Stream, by: int, runs: list[tuple[int, int]]) -> None:
        stream.outs.setdefault(by, []).extend(runs)
        self.held += len(runs)

    def _arrived(self, stream: _Stream, seq: int, is_commit: bool) -> bool:
        """What some were left out for is here, or was passed over by the selector; whether there was such a one."""
        settled = [by for by in stream.outs if by <= seq]
        for by in settled:
            runs = stream.outs.pop(by)
            self.held -= len(runs)
            if by == seq and is_commit:  # so what was out may have been a part, and no commit since was a cut
                first = min(run[0] for run in runs)
                self._keep(stream, [one for one in stream.held if not (one.is_commit and one.seq > first)])
        return bool(settled)

    def _lose(self, stream: _Stream, first: int, last: int, outcomes: list[Outcome]) -> None:
        stream.gone = last
        spans: set[_Span] = set()
        if stream.open is not None and stream.open.commit >= first:
            spans.add(stream.open)
        for by in [by for by in stream.outs if first <= by <= last]:
            # What was to stand for these is lost, and so are they.
            runs = stream.outs.pop(by)
            self.held -= len(runs)
            spans |= {
                one.span
                for one in stream.held
                if one.span is not None and any(run[0] < one.span.commit and one.span.first <= run[1] for run in runs)
            }
        self._discard(stream, spans, outcomes)

    def _discard(self, stream: _Stream, spans: set[_Span], outcomes: list[Outcome]) -> None:
        for span in sorted(spans & {one.span for one in stream.held}):
            stream.dead = max(stream.dead, span.commit)
            self._drop([one for one in stream.held if one.span == span])
            self._keep(stream, [one for one in stream.held if one.span != span])
            outcomes.append(Discarded(stream.id, span.first, span.commit, "lost"))

    def _release(self, stream: _Stream, outcomes: list[Outcome]) -> list[Outcome]:
        """Whatever stands before a cut, cut by cut, and the plain events behind that."""
        held, start = stream.held, 0
        undecided = min((run[0] for runs in stream.outs.values() for run in runs), default=stream.last + 1)
        for at, one in enumerate(held):
            if one.is_commit and one.seq < undecided:
                assert isinstance(one.event, Event)
                outcomes.append(Applied(tuple(each.event for each in held[start:at]), one.event))
                start = at + 1
            elif one.span is None and start == at:
                outcomes.append(Applied((one.event,)))
                start = at + 1
        if start:
            self._keep(stream, held[start:])
        if self.held > self.held_max:
            self._give_up(stream, "overflow", outcomes)
        return outcomes

    def _give_up(self, stream: _Stream, reason: Literal["lost", "overflow"], outcomes: list[Outcome]) -> None:
        """Too much is held, or no commit can come: no transaction that is held is applied; plain events pass."""
        spans = sorted({one.span for one in stream.held if one.span is not None})
        outcomes.extend(Discarded(stream.id, span.first, span.commit, reason) for span in spans)
        outcomes.extend(Applied((one.event,)) for one in stream.held if one.span is None)
        self._drop([one for one in stream.held if one.span is not None])
        if spans:
            stream.dead = spans[-1].commit
        self.held -= sum(map(len, stream.outs.values()))
        stream.outs.clear()
        self._keep(stream, [])

    def _drop(self, parts: list[_Held]) -> None:
        self.dropped += [one.event for one in parts if isinstance(one.event, Event) and not one.is_commit]

    def _hold(self, stream: _Stream, one: _Held) -> None:
        stream.held.append(one)
        self.held += 1

    def _keep(self, stream: _Stream, held: list[_Held]) -> None:
        self.held -= len(stream.held) - len(held)
        stream.held = held
