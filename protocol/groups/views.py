"""S-VSM: views, and what is delivered in them: FIFO, causal or total order, plain or uniform (000 §4.4–4.6).

A view is the group as all its members agree it to be, numbered. Whoever goes from one view to the next has delivered in
the first what everyone else that does so delivered, or something that obsoletes it. So an application that sees a view
knows that all members of it are in the same state, which is what a takeover needs.

    a   view 0: a b c   m1 m2 ............. m3   view 1: a c
    b   view 0: a b c   m1 m2 (crash)
    c   view 0: a b c      m1 ......... m2 m3    view 1: a c

Messages go to everyone at once, numbered by their sender. What each holds travels with heartbeats, so that senders
repeat what was lost, and everyone knows what is *safe* (held by a majority) and *stable* (held by all).

    order     fifo     as they come, in their sender's order
              causal   and after what its sender had been delivered
              total    by a sequence of decisions (consensus): each a mark for every member, up to which to deliver
    uniform   fifo and causal deliver what is safe; total always does, since who decides holds what is decided

To change the view (someone is silent for too long, asks to join, leaves, or is to be excluded) a member stops sending
and delivering, and tells everyone what it holds (`Pred`); who hears that does the same. With that of a majority, and of
all that it does not suspect, a member proposes to consensus: deliver up to these marks, then install that view. The
marks are the highest of those that will be in it. So the flush and the view are one decision, and a view is installed
only by who has delivered what belongs before it. Without a majority nothing is decided: a minority stops, and says so.

A `Pred` is frozen. 000 Fig. 4.3 (t2) has a blocked member accept nothing. Here it accepts the messages that the flush
may need, since `Pred` carries marks and not messages, but it acknowledges none of them: until the next view its
heartbeats say what its `Pred` says. So whatever a majority acknowledged is in a `Pred` of every majority, and in the
marks. Without that, a message could be safe, be delivered or take the place of another, and yet be left out by the
flush.

Purging. What is held for others may be given up for something that obsoletes it once that is safe, and not before: of
m1 m2 m3 with m1 ⊏ m3, a sender that gave up m1 for m3, sent m2 and died would leave its receivers with m2 alone, a
state that never was (000 §4.3.2). And it is done within a view, since each view ends complete. Under total order, what
a decision names and another message of the same decision obsoletes is left out by everyone alike.

Whoever joins is in the view that lets it in; the others take a snapshot of the application when they deliver that view,
and the newcomer begins with it.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, NodeId
from gossamer.protocol.groups import inputs
from gossamer.protocol.groups.consensus import Instance
from gossamer.protocol.groups.decisions import DATA_MAX, Decisions, Past
from gossamer.protocol.groups.detector import NEVER, Detector
from gossamer.protocol.groups.effects import Deliver, Effect, Expelled, Left, Omit, Send, Stalled, View
from gossamer.protocol.groups.kept import Kept
from gossamer.protocol.groups.rotation import middle
from gossamer.protocol.groups.streams import event_of, stream_of
from gossamer.protocol.groups.wire import (
    Answer,
    Cast,
    Data,
    Decided,
    Estimate,
    Excluded,
    Hello,
    Lack,
    Message,
    Pred,
    Propose,
    Span,
    Status,
    Value,
    Welcome,
)

Order = Literal["fifo", "causal", "total"]
Spoken = Status | Data | Lack | Pred | Estimate | Propose | Answer | Decided


@dataclass(frozen=True, slots=True)
class Timing:
    """Of views, each with its trade-off."""

    tick_s: float = 0.05
    """Heartbeats, and how soon what was lost is said again."""
    suspect_s: float = 0.4
    """Silence after which consensus does not wait for a member."""
    exclude_s: float = 1.0
    """Silence after which the view goes on without it."""
    ack_s: float = 0.002
    """Under uniform order, how long to wait for more before telling what is held; under total order, how soon after one
    decision to begin the next: the first message after a pause waits for nothing, and many share one."""


class Views:
    """One member of a group whose members come and go."""

    def __init__(
        self,
        group: str,
        me: NodeId,
        members: tuple[NodeId, ...],
        *,
        view: int = 0,
        starts: tuple[int, ...] = (),
        order: Order = "total",
        uniform: bool = True,
        timing: Timing | None = None,
    ) -> None:
        """It begins in a view: the first, of all founders, or the one that let it in, with where everyone goes on."""
        if me not in members or len(set(members)) != len(members):
            raise UsageError(f"{me} is not once among the members {', '.join(members)}")
        self.timing = timing or Timing()
        self._group, self.me = group, me
        self._order, self._uniform = order, uniform
        self._effects: list[Effect] = []
        self._out = False
        self._now = 0.0
        self._detector = Detector(self.timing.suspect_s)
        self._outbox: deque[Content] = deque()
        self._sent = -1
        self._sent_before = (-1, -1)
        """What was sent by the last tick, and by the one before: older than that, it was lost if it is not there."""
        self._past: Past | None = None
        self._stalled = False
        self._leaving = False
        self._snapshots: dict[int, bytes] = {}
        self._hungry: dict[NodeId, None] = {}
        """Who said hello and is in the view already: its welcome was lost."""
        self._tick_at = NEVER
        self._ack_at = NEVER
        self._begun_at = -NEVER
        self._begin_at = NEVER
        """When the last decision was begun here, and when the next one is due."""
        self._install(view, members, tuple(start - 1 for start in starts) or (-1,) * len(members))

    def _install(self, number: int, members: tuple[NodeId, ...], marks: tuple[int, ...]) -> None:
        count = len(members)
        self.view, self.members = number, members
        self._place = members.index(self.me)
        self._quorum = count // 2 + 1
        self._streams = tuple(stream_of(self._group, member) for member in members)
        self._kept = kept = Kept(self._streams, self._place, marks)
        self._store, self._held, self._known = kept.store, kept.held, kept.known
        self._gone, self._delivered = kept.gone, kept.delivered
        self._began = marks
        self._decisions = Decisions([place for place in range(count) if place != self._place])
        self._instance: Instance | None = None
        self._early: list[tuple[int, Message]] = []
        self._blocked = False
        self._preds: dict[int, Pred] = {}
        self._leave: dict[NodeId, None] = {}
        self._join: dict[NodeId, None] = {}
        self._asked_at = -NEVER
        self._here: dict[NodeId, None] = {self.me: None}
        """Who was heard in this view."""

    # The two calls --------------------------------------------------------------------------------------------------

    def handle(self, given: inputs.Input, now: float) -> list[Effect]:
        effects: list[Effect] = []
        self._effects, self._now = effects, now
        if self._out:
            return effects
        match given:
            case inputs.Received(sender, message):
                self._on_message(sender, message)
            case inputs.Wake():
                self._on_wake()
            case inputs.Multicast(contents, after):
                if after:
                    raise UsageError("after= is for urcgc: here a message comes after all that was delivered before it")
                self._outbox += contents
                self._send_casts()
            case inputs.Exclude(node):
                if node in self.members:
                    self._leave[node] = None
                    self._block()
            case inputs.Leave():
                if len(self.members) == 1:
                    self._leave_group(Left())
                    return effects
                self._leaving = True
                self._leave[self.me] = None
                self._block()
            case inputs.Snapshot(view, state):
                self._snapshots = {view: state}
                self._welcome()
            case inputs.Start():
                self._detector.watch(self._others(), now)
                self._tick_at = now
                self._effects.append(View(self.view, self.members, (self.me,) if self.view > 0 else ()))
                self._on_tick()
        if not self._out:
            self._go_on()
        return effects

    def next_deadline(self) -> float:
        if self._out:
            return NEVER
        deadline = min(self._tick_at, self._ack_at, self._begin_at)
        return min(deadline, self._instance.deadline) if self._instance is not None else deadline

    # Sending --------------------------------------------------------------------------------------------------------

    def _send_casts(self) -> None:
        """What waits, unless the view is changing: it is delivered in the view in which it is sent."""
        if self._blocked or not self._outbox:
            return
        casts = []
        for content in self._outbox:
            after: tuple[tuple[int, int], ...] = ()
            if self._order == "causal":
                after = tuple((p, seq) for p, seq in enumerate(self._delivered) if p != self._place and seq >= 0)
            casts.append(Cast(content, after))
        self._outbox.clear()
        first, self._sent = self._sent + 1, self._sent + len(casts)
        self._kept.add(casts)
        for start in range(0, len(casts), DATA_MAX):
            run = tuple(casts[start : start + DATA_MAX])
            self._send(self._others(), Data(self.view, self._place, first + start, run))
        self._received()

    def _others(self) -> tuple[NodeId, ...]:
        return tuple(member for member in self.members if member != self.me)

    def tell(self, places: list[int], message: Message) -> None:
        self._send(tuple(self.members[place] for place in places), message)

    def _send(self, to: tuple[NodeId, ...], message: Message) -> None:
        if to:
            self._effects.append(Send(to, message))

    # Time -----------------------------------------------------------------------------------------------------------

    def _on_wake(self) -> None:
        if self._begin_at <= self._now:
            self._begin_at = NEVER
        if self._tick_at <= self._now:
            self._on_tick()
        elif self._ack_at <= self._now:
            self._send_status()
        if self._instance is not None:
            self._instance.step(self._now)

    def _on_tick(self) -> None:
        self._tick_at = self._now + self.timing.tick_s
        self._detector.look(self._now)
        self._send_status()
        if self._blocked:
            self._send_pred()
        if self._instance is not None:
            self._instance.tick(self._now)
        self._ask()
        self._track()
        self._sent_before = (self._sent_before[1], self._sent)
        self._decisions.tick()
        gone = [node for node in self._others() if self._detector.silent_s(node, self._now) >= self.timing.exclude_s]
        if gone and not self._blocked:
            self._block()
        if self._kept.full and not self._blocked:
            self._exclude_slowest()
        reached = sum(not self._detector.suspects(node) for node in self._others()) + 1
        if (reached < self._quorum) != self._stalled:
            self._stalled = not self._stalled
            self._effects.append(Stalled(reached, self._quorum))

    def _exclude_slowest(self) -> None:
        """Somebody does not take what everyone else has, and the rest cannot keep it for ever."""
        behind = min(range(len(self.members)), key=lambda place: sum(self._known[place]))
        if behind != self._place:
            self._leave[self.members[behind]] = None
            self._block()

    def _send_status(self) -> None:
        self._ack_at = NEVER
        self._send(self._others(), self._status())

    def _status(self) -> Status:
        return Status(self.view, self._kept.acknowledged, self._decisions.count)

    # Messages -------------------------------------------------------------------------------------------------------

    def _on_message(self, sender: NodeId, message: Message) -> None:
        match message:
            case Hello():
                self._on_hello(sender)
                return
            case Excluded(view):
                if view > self.view:
                    reason = f"the group went on to view {view} without this member"
                    self._leave_group(Left() if self._leaving else Expelled(reason))
                return
            case Welcome():
                return
            case Status() | Data() | Lack() | Pred() | Estimate() | Propose() | Answer() | Decided():
                pass
            case _:
                raise PeerError(f"views do not speak {type(message).__name__}")
        self._detector.hear(sender, self._now)
        if message.view < self.view:
            self._on_past(sender, message)
        elif message.view > self.view:
            # We have not heard how this view ended; whoever has, tells us when it hears where we are.
            self._send((sender,), self._status())
        elif sender in self.members:
            self._here[sender] = None
            self._on_current(self.members.index(sender), message)

    def _on_current(self, place: int, message: Spoken) -> None:
        count = len(self.members)
        match message:
            case Status(_, held, decided):
                self._check_marks(held)
                self._on_status(place, held, decided)
            case Data(_, origin, first, casts):
                if origin >= count or any(p >= count for cast in casts if cast and cast.after for p, _ in cast.after):
                    raise PeerError("messages of or after a member that is none")
                self._on_data(origin, first, casts)
            case Lack(_, spans):
                self._on_lack(place, spans)
            case Pred(_, held, leave, join):
                self._check_marks(held)
                self._on_pred(place, message, leave, join)
            case Decided(_, instance, value):
                self._check_value(value)
                self._on_decided(instance, value)
            case _:
                if isinstance(message, Estimate | Propose):
                    self._check_value(message.value)
                self._on_consensus(place, message)

    def _check_marks(self, marks: tuple[int, ...]) -> None:
        if len(marks) != len(self.members):
            raise PeerError(f"{len(marks)} marks for {len(self.members)} members")

    def _check_value(self, value: Value) -> None:
        self._check_marks(value.marks)
        if value.next is not None and (len(set(value.next)) != len(value.next) or not value.next):
            raise PeerError("a view without members, or with one twice")

    # Messages of the view: receiving, repeating, forgetting -----------------------------------------------------------

    def _on_data(self, origin: int, first: int, casts: tuple[Cast | None, ...]) -> None:
        if self._kept.take(origin, first, casts):
            if self._uniform and self._order != "total":
                self._ack_at = min(self._ack_at, self._now + self.timing.ack_s)
            self._received()

    def _received(self) -> None:
        if self._instance is not None:
            self._instance.step(self._now)

    def _on_status(self, place: int, held: tuple[int, ...], decided: int) -> None:
        self._kept.hear(place, held)
        # What was sent two ticks ago and is not there is lost. While the view changes, members ask for what they need:
        # an acknowledgement is frozen then, and does not tell what is there.
        first, last = self._known[place][self._place] + 1, self._sent_before[0]
        if first <= last and not self._blocked:
            self._send_data(place, Span(self._place, first, min(last, first + DATA_MAX - 1)))
        for number, value in self._decisions.hear(place, decided):
            self._send((self.members[place],), Decided(self.view, number, value))
        self._track()

    def _send_data(self, place: int, span: Span) -> None:
        data = Data(self.view, span.origin, span.first, self._kept.casts(span))
        self._send((self.members[place],), data)

    def _on_lack(self, place: int, spans: tuple[Span, ...]) -> None:
        for span in spans:
            if span.origin >= len(self.members):
                raise PeerError("a member that is none")
            last = min(span.last, self._held[span.origin], span.first + DATA_MAX - 1)
            # Whoever asks for what everyone had before is told nothing: it is not ours to give any more.
            first = max(span.first, self._gone[span.origin] + 1)
            if first <= last:
                self._send_data(place, Span(span.origin, first, last))

    def _track(self) -> None:
        self._kept.track(self._purgeable)

    def _purgeable(self, column: list[int]) -> int:
        """Up to where messages are safe: they may take the place of what they obsolete."""
        return middle(column, self._quorum)

    # Delivering -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Everything that may have become possible."""
        while True:
            before = self.view
            self._apply()
            if self._out:
                return
            if self.view == before:
                break
        if self._order != "total" and not self._blocked:
            self._deliver_ready()
        self._start_instance()

    def _deliver_ready(self) -> None:
        """FIFO and causal order: whatever may be delivered now."""
        moved = True
        while moved:
            moved = False
            for origin in range(len(self.members)):
                limit = self._limit(origin)
                if self._order == "fifo":
                    self._hand_over_up_to(origin, limit)
                    continue
                while self._delivered[origin] < limit:
                    seq = self._delivered[origin] + 1
                    cast = self._store[origin].get(seq)
                    if cast is not None and any(self._delivered[p] < needed for p, needed in cast.after):
                        break
                    self._hand_over(origin, seq, cast)
                    moved = True

    def _limit(self, origin: int) -> int:
        if not self._uniform:
            return self._held[origin]
        return min(self._held[origin], middle((known[origin] for known in self._known), self._quorum))

    def _hand_over(self, origin: int, seq: int, cast: Cast | None) -> None:
        self._delivered[origin] = seq
        self._kept.moved = True
        if cast is None:
            self._effects.append(Omit(EventId(self._streams[origin], seq)))
        else:
            self._effects.append(Deliver(event_of(cast.content, self._streams[origin], seq)))

    def _hand_over_up_to(self, origin: int, last: int) -> None:
        """All that is next of one member, to which nothing is obsolete."""
        first, store, stream = self._delivered[origin] + 1, self._store[origin], self._streams[origin]
        if first > last:
            return
        self._delivered[origin] = last
        self._kept.moved = True
        self._effects += [
            Omit(EventId(stream, seq))
            if (cast := store.get(seq)) is None
            else Deliver(event_of(cast.content, stream, seq))
            for seq in range(first, last + 1)
        ]

    # Decisions ------------------------------------------------------------------------------------------------------

    def _apply(self) -> None:
        """Deliver what is decided, in its order, as far as it is here."""
        while (value := self._decisions.at(self._decisions.applied)) is not None:
            if not self.holds(value):
                return
            self._decisions.applied += 1
            self._deliver_up_to(value.marks)
            if value.next is not None:
                self._change(value)
                return
        self._decisions.forget()

    def _deliver_up_to(self, marks: tuple[int, ...]) -> None:
        if self._order == "causal":
            self._deliver_causally(marks)
            return
        if not self._kept.relates or self._order == "fifo":
            for origin, mark in enumerate(marks):
                self._hand_over_up_to(origin, mark)
            return
        batch = [
            (origin, seq, self._store[origin].get(seq))
            for origin, mark in enumerate(marks)
            for seq in range(self._delivered[origin] + 1, mark + 1)
        ]
        obsolete = self._kept.obsolete(batch)
        for origin, seq, cast in batch:
            self._hand_over(origin, seq, None if (origin, seq) in obsolete else cast)

    def _deliver_causally(self, marks: tuple[int, ...]) -> None:
        moved = True
        while moved:
            moved = False
            for origin, mark in enumerate(marks):
                while self._delivered[origin] < mark:
                    seq = self._delivered[origin] + 1
                    cast = self._store[origin].get(seq)
                    if cast is not None and any(self._delivered[p] < needed for p, needed in cast.after):
                        break
                    self._hand_over(origin, seq, cast)
                    moved = True

    def _on_decided(self, number: int, value: Value) -> None:
        if number == self._decisions.count:
            self._decisions.add(value)
            self._instance = None
            self._take_early()

    # Consensus ------------------------------------------------------------------------------------------------------

    def _on_consensus(self, place: int, message: Estimate | Propose | Answer) -> None:
        number = self._decisions.count
        if message.instance < number:
            # Who adopted it is told already, or again when it says that it has not heard.
            value = self._decisions.at(message.instance)
            if value is not None and not (isinstance(message, Answer) and message.adopted):
                self._send((self.members[place],), Decided(self.view, message.instance, value))
            return
        if message.instance > number:
            if len(self._early) < 4 * len(self.members):
                self._early.append((place, message))
            return
        if self._changing():
            return  # the view is over
        instance = self._instance or self._open()
        match message:
            case Estimate():
                instance.on_estimate(place, message, self._now)
            case Propose():
                instance.on_propose(place, message, self._now)
            case Answer():
                instance.on_answer(place, message, self._now)
        self._settle()
        if self._instance is not None and self._instance.wanted is not None:
            self._ask()

    def _take_early(self) -> None:
        early, self._early = self._early, []
        for place, message in early:
            if isinstance(message, Estimate | Propose | Answer):
                self._on_consensus(place, message)

    def _open(self) -> Instance:
        self._instance = Instance(
            self.view, self._decisions.count, self._place, len(self.members), self, self._now, self.timing.suspect_s
        )
        return self._instance

    def _settle(self) -> None:
        if self._instance is not None and self._instance.decision is not None:
            value, self._instance = self._instance.decision, None
            self._decisions.add(value)
            self._take_early()

    def _start_instance(self) -> None:
        """Begin to decide, if there is something to decide and it is ours to begin, or its coordinator is suspected."""
        if self._instance is not None:
            self._instance.step(self._now)
            self._settle_and_apply()
        while self._instance is None and self._may_begin() and not self._changing() and self._has_work():
            if not self._blocked and self._now < self._begun_at + self.timing.ack_s:
                self._begin_at = self._begun_at + self.timing.ack_s
                return
            self._begun_at, self._begin_at = self._now, NEVER
            self._open().step(self._now)
            if not self._settle_and_apply():
                return

    def _settle_and_apply(self) -> bool:
        if self._instance is None or self._instance.decision is None:
            return False
        self._settle()
        self._apply()
        return not self._out

    def _has_work(self) -> bool:
        if self._blocked:
            return self._proposal() is not None
        return self._order == "total" and any(map(int.__gt__, self._held, self._cursor()))

    def _may_begin(self) -> bool:
        return self._blocked or self._place == 0 or self._detector.suspects(self.members[0])

    def _cursor(self) -> list[int]:
        """How far all decisions so far go."""
        last = self._decisions.last
        return self._delivered if last is None else list(last.marks)

    def _changing(self) -> bool:
        last = self._decisions.last
        return last is not None and last.next is not None

    def suspects(self, place: int) -> bool:
        return self._detector.suspects(self.members[place])

    def holds(self, value: Value) -> bool:
        return all(map(int.__ge__, self._held, value.marks))

    def initial(self) -> Value:
        """What we would decide."""
        if self._blocked and (proposal := self._proposal()) is not None:
            return proposal
        if self._order == "total":
            return Value(tuple(self._held))
        return Value(tuple(self._delivered))

    def _ask(self) -> None:
        """Ask for messages that a decision, a proposal or the flush needs."""
        wanted = [value.marks for _, value in self._decisions.since(self._decisions.applied)]
        if self._instance is not None and self._instance.wanted is not None:
            wanted.append(self._instance.wanted.marks)
        if self._blocked:
            wanted += [pred.held for place, pred in self._preds.items() if not self.suspects(place)]
        if not wanted or self._now - self._asked_at < self.timing.tick_s / 4:
            return
        asked: dict[int, list[Span]] = {}
        for origin, marks in enumerate(zip(*wanted, strict=True)):
            first, last = self._held[origin] + 1, max(marks)
            if first <= last:
                # Of those that are not suspected, who has most; the sender itself, if it is one of them.
                able = [p for p in range(len(self.members)) if p != self._place and not self.suspects(p)]
                best = max(able, key=lambda place: (min(self._known[place][origin], last), place == origin), default=0)
                # Frozen acknowledgements do not tell who got the messages since: without a known holder, ask all.
                known = not self._blocked or self._known[best][origin] >= last
                for place in [best] if able and known else able:
                    asked.setdefault(place, []).append(Span(origin, first, last))
        for place, spans in asked.items():
            self._asked_at = self._now
            self._send((self.members[place],), Lack(self.view, tuple(spans)))

    # Changing the view ----------------------------------------------------------------------------------------------

    def _block(self) -> None:
        """Stop, and tell everyone what is here."""
        if not self._blocked:
            self._blocked = True
            self._kept.freeze()
            self._ask()
        self._preds[self._place] = self._own_pred()
        self._send_pred()

    def _own_pred(self) -> Pred:
        return Pred(self.view, self._kept.acknowledged, tuple(self._leave), tuple(self._join))

    def _send_pred(self) -> None:
        self._send(self._others(), self._preds[self._place])

    def _on_pred(self, place: int, pred: Pred, leave: tuple[NodeId, ...], join: tuple[NodeId, ...]) -> None:
        news = [node for node in leave if node in self.members and node not in self._leave]
        more = [node for node in join if node not in self.members and node not in self._join]
        self._leave.update(dict.fromkeys(news))
        self._join.update(dict.fromkeys(more))
        self._preds[place] = pred
        for origin, mark in enumerate(pred.held):
            self._known[place][origin] = max(self._known[place][origin], mark)
        self._kept.moved = True
        if not self._blocked or news or more:
            self._block()
        self._ask()

    def _proposal(self) -> Value | None:
        """The next view, and up to where to deliver before it; None as long as too few have told what they hold."""
        present = [place for place in sorted(self._preds) if not self.suspects(place)]
        # Who is to go need not say what it has: it will not be in the next view.
        waited = [
            place
            for place, member in enumerate(self.members)
            if place not in self._preds and not self.suspects(place) and member not in self._leave
        ]
        if waited or len(present) < self._quorum:
            return None
        marks = tuple(map(max, self._delivered, *(self._preds[place].held for place in present)))
        if any(map(int.__lt__, self._held, marks)):
            return None  # first it must be here: what we propose we can give to others
        stay = [self.members[place] for place in present if self.members[place] not in self._leave]
        joining = [node for node in self._join if node not in self.members]
        if not stay:
            return None
        return Value(marks, (*stay, *joining), tuple(joining))

    def _change(self, value: Value) -> None:
        """Everything of this view is delivered: go to the next."""
        assert value.next is not None
        number, members = self.view + 1, value.next
        if self.me not in members:
            self._send(self._others(), Decided(self.view, self._decisions.applied - 1, value))
            self._leave_group(Left() if self._leaving else Expelled(f"view {number} is without this member"))
            return
        marks = dict(zip(self.members, value.marks, strict=True))
        self._past = Past(self.view, self.members, self._decisions, self._store)
        self._install(number, members, tuple(marks.get(member, -1) for member in members))
        self._detector.watch(self._others(), self._now)
        self._sent_before = (self._sent, self._sent)
        self._snapshots = {}
        self._hungry = dict.fromkeys(value.joined if self._place == 0 else ())
        self._effects.append(View(number, members, tuple(node for node in value.joined if node in members)))
        self._send_status()
        self._send_casts()

    def _on_past(self, sender: NodeId, message: Message) -> None:
        """Somebody is in an earlier view: in the last one and still one of us, it is told how that ended."""
        past = self._past
        if sender not in self.members:
            self._send((sender,), Excluded(self.view))
            return
        if past is None or past.number != self.view - 1 or sender not in past.members:
            return  # we came later, and cannot tell; it will find out, being one of those who decided it
        if isinstance(message, Status | Lack) and message.view == past.number:
            for told in past.answer(message):
                self._send((sender,), told)

    def _leave_group(self, effect: Expelled | Left) -> None:
        self._out = True
        self._effects.append(effect)

    # Joining --------------------------------------------------------------------------------------------------------

    def _on_hello(self, sender: NodeId) -> None:
        if sender in self.members:
            self._hungry[sender] = None
            self._welcome()
        elif sender not in self._join:
            self._join[sender] = None
            self._block()

    def _welcome(self) -> None:
        """Newcomers, once the application has given its state at the beginning of the view they are in."""
        state = self._snapshots.get(self.view)
        if state is None:
            return
        starts = tuple(gone + 1 for gone in self._began)
        for node in [node for node in self._hungry if node in self.members]:
            self._send((node,), Welcome(self.view, self.members, starts, state))
        self._hungry.clear()
