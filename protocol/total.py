"""One order of events at all brokers, for groups with `order="total"` (docs/decisions/order-at-brokers.md).

Events travel as ever, by rpbcast, and once; what is agreed on is marks: *this stream up to there, then that one up to
there, …*. Those who agree are members of a group with views and uniform agreement (protocol/groups/views.py) whose
first member decides:

    b   holds trades:0-7    ──►  a            who has what is told to the first of the view
    c   holds trades:0-7    ──►  a
    a   [trades ≤ 7, quotes ≤ 3]  ──► all     one decision at a time: what a majority holds, in the order it came to a
    all deliver the decision, each the events it names when it has them

A decision is delivered by all or none, in one order, since one member sends them all and views are synchronous: when
the first dies, the next view begins when all have delivered the same of its decisions, and its first goes on from
there. What is decided a majority holds, so the crash of a minority cannot leave a place in the order that nobody can
fill; rpbcast brings it to the rest. And a decision counts only if it comes from the first of the view in which it is
delivered, so that two can never decide at a time.

Whoever is let in gets the marks so far and the last decisions: one who was shut out for a while goes on exactly where
it was. Marks are absolute, so a decision that is applied twice does nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content
from gossamer.messages.ids import Last, NodeId, StreamId
from gossamer.messages.wire import ENTRIES_MAX, Agree, Holds
from gossamer.protocol import effects
from gossamer.protocol.groups import effects as told
from gossamer.protocol.groups import inputs
from gossamer.protocol.groups.rotation import middle
from gossamer.protocol.groups.seat import Seat
from gossamer.protocol.groups.streams import stream_of
from gossamer.protocol.groups.views import Timing, Views
from gossamer.protocol.groups.wire import decode, encode
from gossamer.protocol.holding import Holding, Item

GROUP = "$order"
TIMING = Timing(tick_s=0.1, suspect_s=0.6, exclude_s=1.5, ack_s=0.001)
"""Slower than among members of a group: a broker that is busy for a second should not be shut out."""
REPORT_S = 0.001
"""So long what comes is gathered before it is reported."""
AGAIN_S = 0.2
REJOIN_S = 0.2
MARKS_MAX = 4_096
"""In one decision."""
TAIL_MARKS = 50_000
"""What is remembered of past decisions, for those who were shut out."""
NEVER = float("inf")

Marks = Annotated[list[tuple[StreamId, Last]], Meta(max_length=ENTRIES_MAX)]


class _State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What whoever is let in begins with: the number of decisions, the last of them, and how far those before went."""

    count: int
    base: Annotated[dict[StreamId, Last], Meta(max_length=10 * ENTRIES_MAX)]
    tail: list[Marks]


_marks = msgspec.msgpack.Decoder(Marks)
_state = msgspec.msgpack.Decoder(_State)


class TotalOrder:
    """One member's part in it."""

    VIEWS = Views

    def __init__(
        self,
        me: NodeId,
        incarnation: int,
        agreed_by: tuple[NodeId, ...],
        position: Callable[[StreamId], int],
        *,
        witness: bool = False,
        timing: Timing = TIMING,
    ) -> None:
        """`position(stream)` is the last seq that the node has delivered of a stream; beyond all, if that is over. A
        `witness` agrees with the others, and hands nothing out."""
        self._witness = witness
        self._me = me
        self._incarnation = incarnation
        self._agreed_by = agreed_by
        self._position = position
        self._timing = timing
        self._out: list[effects.Effect] = []
        self._now = 0.0
        self._seat: Seat | None = None
        self._lives = 0
        self._leaving = False
        self._rejoin_at = NEVER
        self._members: tuple[NodeId, ...] = ()
        self._count: int | None = None
        """How many decisions there were; None: we have never been in."""
        self._decided: dict[StreamId, int] = {}
        self._script: deque[tuple[StreamId, int]] = deque()
        """What is decided and not handed out yet, in order."""
        self._base: dict[StreamId, int] = {}
        self._tail: deque[list[tuple[StreamId, int]]] = deque()
        """The last decisions, and how far all before them went."""
        self._tail_marks = 0
        self._fresh: dict[StreamId, int] = {}
        """Held here and not decided on, in the order it came."""
        self._unreported: dict[StreamId, None] = {}
        self._report_at = self._again_at = NEVER
        self._holds: dict[NodeId, dict[StreamId, int]] = {}
        """What others have reported, for who decides."""
        self._deciding = False
        self._ended: dict[NodeId, None] = {}
        """Members of the view whose nodes have begun another life."""
        self.holding = Holding()
        self.stalled = False
        self.lapses = 0
        """How often we were shut out for longer than anybody remembers: what came then was not in the agreed order."""

    # What is told ---------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether what is handed out here is in the agreed order."""
        return self._count is not None

    @property
    def waits(self) -> bool:
        """Whether something is decided that the node did not have when it was last asked."""
        return bool(self._script)

    def past(self) -> tuple[int, Mapping[StreamId, int], Sequence[list[tuple[StreamId, int]]]]:
        """The last decisions: the number of the first of them, how far all before it went, and they."""
        return (self._count or 0) - len(self._tail), self._base, self._tail

    def trouble(self) -> list[str]:
        if not self.ready:
            who = ", ".join(self._agreed_by) or self._me
            return [f"groups with a total order wait for those who agree on it: {who}"]
        found = ["too few of those who agree on the total order can be reached"] if self.stalled else []
        if self.lapses:
            found.append("was shut out of the total order for too long, and has handed out some events in another")
        return found

    # What comes -----------------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[effects.Effect]:
        """The node is a member of the mesh."""
        self._begin(now)
        self._leaving = False
        if self._seat is None:
            self._sit_down()
        return self._end()

    def leave(self, now: float) -> list[effects.Effect]:
        self._begin(now)
        self._leaving, self._rejoin_at = True, NEVER
        self._drive(inputs.Leave())
        return self._end()

    def on_delivered(self, items: Iterable[Item], now: float) -> list[effects.Effect]:
        """What the node has delivered, in its order."""
        self._begin(now)
        for item in items:
            if not self._witness:
                self.holding.put(item)
            packet = item.packet if isinstance(item, effects.Deliver) else item
            if packet.last > self._decided.get(packet.stream, -1):
                self._fresh[packet.stream] = packet.last
                self._unreported[packet.stream] = None
        if self._unreported:
            self._report_at = min(self._report_at, now + REPORT_S)
        return self._end()

    def on_agree(self, sender: NodeId, message: Agree, now: float) -> list[effects.Effect]:
        self._begin(now)
        if _name(message.member) != sender:
            raise PeerError(f"{sender} speaks for {message.member}")
        if not self._is_beyond_help(message.member):
            self._drive(inputs.Received(message.member, decode(message.frame)))
        return self._end()

    def _is_beyond_help(self, speaker: NodeId) -> bool:
        """Whether so many of the view have begun another life that it can never change again: then begin anew with
        whoever is there. That is more than a minority, so the last that was decided may be forgotten."""
        if speaker not in self._members:
            self._ended.update((each, None) for each in self._members if _name(each) == _name(speaker))
        if 2 * len(self._ended) < len(self._members) or not self._members:
            return False
        self._on_out()
        return True

    def on_holds(self, sender: NodeId, message: Holds, now: float) -> list[effects.Effect]:
        self._begin(now)
        if self._decides:
            holds = self._holds.setdefault(sender, {})
            for stream, last in message.marks:
                if last > self._decided.get(stream, -1):
                    holds[stream] = max(last, holds.get(stream, -1))
        return self._end()

    def on_time(self, now: float) -> list[effects.Effect]:
        self._begin(now)
        if self._seat is not None and self._seat.next_deadline() <= now:
            self._drive(inputs.Wake())
        if self._rejoin_at <= now:
            self._rejoin_at = NEVER
            self._sit_down()
        return self._end()

    def next_deadline(self) -> float:
        seat = NEVER if self._seat is None else self._seat.next_deadline()
        return min(seat, self._rejoin_at, self._report_at, self._again_at)

    def _begin(self, now: float) -> None:
        self._now, self._out = now, []

    def _end(self) -> list[effects.Effect]:
        """Report, decide, and hand out what can be."""
        self._report()
        self._decide()
        while self._script:
            stream, last = self._script[0]
            self._out += self.holding.release(stream, last)
            if self._position(stream) < last:
                break
            self._script.popleft()
        return self._out

    # Deciding -------------------------------------------------------------------------------------------------------

    @property
    def _decides(self) -> bool:
        return bool(self._members) and _name(self._members[0]) == self._me and self._seat is not None

    def _report(self) -> None:
        """Tell who decides what is held here: what is new, and now and then all of it, since a report may be lost."""
        if min(self._report_at, self._again_at) > self._now:
            return
        streams = self._fresh if self._again_at <= self._now else self._unreported
        self._report_at = NEVER
        self._again_at = self._now + AGAIN_S if self._fresh else NEVER
        marks = tuple((stream, self._fresh[stream]) for stream in streams if stream in self._fresh)
        self._unreported = {}
        if marks and self._members and not self._decides:
            self._send((self._members[0],), Holds(marks[:ENTRIES_MAX]))

    def _decide(self) -> None:
        """If it is ours to: what a majority holds comes next, in the order in which it came to us."""
        if not self._decides or self._deciding or not self._fresh:
            return
        assert self._seat is not None
        others = [self._holds.get(_name(member), {}) for member in self._members[1:]]
        quorum = self._quorum()
        marks = []
        for stream, last in self._fresh.items():
            held = min(last, middle((last, *(holds.get(stream, -1) for holds in others)), quorum))
            if held > self._decided.get(stream, -1):
                marks.append((stream, held))
                if len(marks) == MARKS_MAX:
                    break
        if marks:
            self._deciding = True
            self._drive(inputs.Multicast((Content(body=msgspec.msgpack.encode(marks)),)))

    def _quorum(self) -> int:
        return len(self._members) // 2 + 1

    def _on_decision(self, event: told.Deliver) -> None:
        assert event.event.id is not None
        sender = event.event.id.stream
        assert self._seat is not None
        if sender == stream_of(GROUP, self._seat.me):
            self._deciding = False
        if not self._counts(sender):
            return
        try:
            marks = _marks.decode(event.event.body)
        except msgspec.MsgspecError:
            marks = []  # so it is for everyone
        self._apply(marks)

    def _counts(self, sender: StreamId) -> bool:
        """Whether it is from the first of the view; else it was that of an earlier one, and could not know."""
        return sender == stream_of(GROUP, self._members[0])

    def _apply(self, marks: list[tuple[StreamId, int]]) -> None:
        self._count = (self._count or 0) + 1
        self._tail.append(marks)
        self._tail_marks += len(marks)
        while self._tail_marks > TAIL_MARKS and len(self._tail) > 1:
            forgotten = self._tail.popleft()
            self._base.update(forgotten)
            self._tail_marks -= len(forgotten)
        self._write(marks)

    def _write(self, marks: Iterable[tuple[StreamId, int]]) -> None:
        for stream, last in marks:
            if last <= self._decided.get(stream, -1):
                continue
            self._decided[stream] = last
            self._script.append((stream, last))
            if self._fresh.get(stream, last + 1) <= last:
                del self._fresh[stream]
            for holds in self._holds.values():
                if holds.get(stream, last + 1) <= last:
                    del holds[stream]

    # Being one of those who agree -----------------------------------------------------------------------------------

    def _sit_down(self) -> None:
        me = f"{self._me}#{self._incarnation}.{self._lives}"
        self._lives += 1
        self._deciding = self.stalled = False

        def make(view: int, members: tuple[NodeId, ...], starts: tuple[int, ...]) -> Views:
            return self.VIEWS(GROUP, me, members, view=view, starts=starts, order="fifo", timing=self._timing)

        peers = tuple(name for name in self._agreed_by if name != self._me)
        self._seat = Seat(me, self._me, peers, make, joins=True, address_of=_name)
        self._drive(inputs.Start())

    def _drive(self, given: inputs.Input) -> None:
        given_next: deque[inputs.Input] = deque([given])
        while given_next and self._seat is not None:
            for effect in self._seat.handle(given_next.popleft(), self._now):
                match effect:
                    case told.Send(to, message):
                        self._send(to, Agree(self._seat.me, encode(message)))
                    case told.Deliver():
                        self._on_decision(effect)
                    case told.Joined(state):
                        self._on_joined(state)
                    case told.View(number, members, joined):
                        self._on_view(members)
                        if joined:
                            given_next.append(inputs.Snapshot(number, self._snapshot()))
                    case told.Stalled(reached, needed):
                        self.stalled = reached < needed
                    case told.Expelled() | told.Left():
                        self._on_out()
                        break

    def _send(self, to: tuple[NodeId, ...], message: Agree | Holds) -> None:
        names = tuple(name for name in map(_name, to) if name != self._me)
        if names:
            self._out.append(effects.Send(names, message))

    def _on_view(self, members: tuple[NodeId, ...]) -> None:
        self._members = members
        self._ended = {}
        names = {_name(member) for member in members}
        self._holds = {name: holds for name, holds in self._holds.items() if name in names and self._decides}
        self._unreported = dict.fromkeys(self._fresh)
        self._report_at = self._now
        known = {stream for stream, _ in self._script} | self._fresh.keys()
        over = [stream for stream in self._decided if stream not in known and self._position(stream) >= OVER]
        for stream in over:
            del self._decided[stream]
            self._base.pop(stream, None)

    def _on_out(self) -> None:
        """Shut out, or gone: as a new member we may come back."""
        self._seat = None
        self._members = ()
        self._ended = {}
        if not self._leaving:
            self._rejoin_at = self._now + REJOIN_S

    def _snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_State(self._count or 0, self._base, list(self._tail)))

    def _on_joined(self, given: bytes) -> None:
        if not given:  # one of the founders
            self._count = 0
            self._tail.clear()
            self._base = dict(self._decided)
            return
        try:
            state = _state.decode(given)
        except msgspec.MsgspecError as error:
            raise PeerError(f"a state that cannot be read: {error}") from None
        first = state.count - len(state.tail)
        if self._count is not None and not first <= self._count <= state.count:
            self.lapses += 1
        self._write(state.base.items())  # what we have had already does nothing
        for marks in state.tail:
            self._write(marks)
        self._count = state.count
        self._base, self._tail = state.base, deque(state.tail)
        self._tail_marks = sum(map(len, state.tail))


OVER = 2**63 - 1
"""The position in a stream that is over: nothing more comes of it."""


def _name(member: NodeId) -> NodeId:
    """Of which node a member is a life."""
    return member.rpartition("#")[0] or member
