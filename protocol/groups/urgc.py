"""urgc: uniform atomic multicast in one total order, with a rotating coordinator (001 §4.1.1, Fig. 7).

Three members; member 0 coordinates subrun 3. Messages go to everyone at once; what the coordinator adds is the order:

    round 1    1, 2 -> 0   Request: what I hold of everyone's messages, and the decisions I have
    round 2    0 -> 1, 2   Ordered: the next decision (up to h messages), or a Hold: "keep what you have"

A decision orders only what a majority holds, so no message can be ordered and lost. The difficulty is a coordinator
that crashes while it sends its decision. Some have it then, and others never will; if the next coordinator heard only
the others, it would give the same place in the order to another message. So:

  - Who did not hear the coordinator of subrun s says so with its next request (in the paper a NACK; here its roll is
    not that of s), and from then on discards whatever may still come from s.
  - A coordinator decides if a majority has heard everything. Otherwise the unheard subrun is *pending*, the coordinator
    sends Hold, and so does each that follows, until one hears every member that is still in: then whatever anybody
    delivered is known. Who died is expelled after k subruns, so that this ends.
  - A Hold does not clear it. In Fig. 7 as printed it does: a member that missed the decision of s and heard the Hold of
    s + 1 counts as having heard everything, and two members order differently (lab/groups/mutants.py: printed-figure).

With `uniform=False`, the paper's way, a decision is delivered when it is heard. A coordinator may then deliver and
crash, and nobody else ever knows: total order holds among the members that are not expelled. With `uniform=True` it is
delivered once a majority is known to have accepted it, which the next requests tell. The numbers of subruns are then
the ballots of Paxos (a request is the promise to accept nothing older, the freshest log of a majority is what to go on
from), so that even members that are wrongly expelled, or slow beyond any assumption, never deliver in another order.

History (001 §4.3): of what is delivered, the last k + r decisions and their messages are kept for who has missed them.
A decision is made at most once a subrun, and who cannot recover within r subruns leaves; so nobody who is in needs
more. Subruns whose decision came too late count among the r."""

from itertools import islice

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content
from gossamer.messages.ids import NodeId
from gossamer.protocol.groups import inputs
from gossamer.protocol.groups.effects import Deliver, Effect, Expelled, Left, Send, View
from gossamer.protocol.groups.rotation import NEVER, Rotation, Settings, active, middle
from gossamer.protocol.groups.streams import event_of, stream_of
from gossamer.protocol.groups.wire import (
    Cast,
    Casts,
    Decision,
    Log,
    Message,
    Ordered,
    Recover,
    Recovered,
    Request,
    Roll,
    Run,
    Span,
)


class Urgc:
    """One member of a group that does not change but by expulsion."""

    def __init__(self, group: str, me: NodeId, members: tuple[NodeId, ...], settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self.turn = Rotation(me, members, settings)
        self._uniform = settings.uniform
        self._history = settings.k(len(members)) + settings.r(len(members))
        self._streams = tuple(stream_of(group, member) for member in members)
        count = len(members)
        self._effects: list[Effect] = []
        self._out = False
        self._now = 0.0
        # Messages.
        self._bodies: list[dict[int, Content]] = [{} for _ in members]
        self._held = [-1] * count
        self._taken = [-1] * count
        self._outbox: list[Content] = []
        self._sent = self._sent_before = -1
        self._marks = (-1,) * count
        # Decisions.
        self._decisions: dict[int, Decision] = {}
        self._log = Log(cursors=(-1,) * count)
        self._safe, self._safe_ballot = 0, -1
        self._known = 0
        """So many decisions are told to be safe; ours may be fewer."""
        self._delivered = 0
        self._view: tuple[int, ...] = ()
        # This subrun.
        self._requests: dict[int, Request] = {}
        self._decided = self._spoke = True
        """Whether this subrun's coordinator, if that is us, need not be woken for it, and whether it has spoken."""
        self._tries = 0

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
            case inputs.Multicast(contents=contents):
                self._outbox += contents
                self._send_casts()
                self.turn.hurry()
            case inputs.Start():
                self._show_view(0)
                self._enter(0)
            case inputs.Leave():
                self._leave(Left())
        return effects

    def next_deadline(self) -> float:
        return NEVER if self._out else self.turn.next_deadline(self._decided)

    # Subruns --------------------------------------------------------------------------------------------------------

    def _on_wake(self) -> None:
        if self.next_deadline() > self._now:
            return
        if self.turn.coordinates and not self._decided:
            self._decide()
        else:
            self._enter(self.turn.subrun + 1)

    def _enter(self, subrun: int) -> None:
        """A new subrun: tell its coordinator what is here."""
        turn = self.turn
        in_time = turn.heard_at == turn.subrun
        if not turn.enter(subrun, self._now):
            self._leave(Expelled(f"heard no coordinator for {turn.k} subruns"))
            return
        if self._tries > turn.settings.r(len(turn.members)):
            self._leave(Expelled(f"could not catch up in {self._tries - 1} subruns"))
            return
        self._requests.clear()
        self._decided = self._spoke = not turn.coordinates
        if in_time and not self._outstanding():
            self._tries = 0
        self._send_casts(again=True)
        request = Request(
            subrun, turn.roll, self._reported(), self._safe, self._safe_ballot, tuple(self._held), self._delivered
        )
        if turn.coordinates:
            self._requests[turn.place] = request
            if turn.alone:
                self._send(turn.others, request)
            self._decide_if_complete()
        else:
            self._send(turn.addressees, request)

    def _reported(self) -> Log:
        """The accepted log, from where it is not known to be safe."""
        log = self._log
        base = min(max(self._safe, log.base), log.total)
        return Log(log.ballot, base, log.tail[base - log.base :], log.cursors)

    # Messages -------------------------------------------------------------------------------------------------------

    def _on_message(self, sender: NodeId, message: Message) -> None:
        if sender not in self.turn.members:
            raise PeerError(f"{sender} is not a member")
        place = self.turn.members.index(sender)
        match message:
            case Casts():
                self._on_casts(place, message)
            case Request():
                self._on_request(place, message)
            case Ordered():
                self._on_ordered(place, message)
            case Recover():
                self._on_recover(sender, message)
            case Recovered():
                self._on_recovered(message)
            case _:
                raise PeerError(f"urgc does not speak {type(message).__name__}")

    def _on_casts(self, place: int, casts: Casts) -> None:
        for run in casts.runs:
            if run.origin >= len(self._bodies) or (casts.subrun < 0 and run.origin != place):
                raise PeerError(f"messages of member {run.origin} from member {place}")
        for run in casts.runs:
            bodies, held = self._bodies[run.origin], self._held[run.origin]
            for seq, cast in enumerate(run.casts, run.first):
                if seq > self._taken[run.origin]:
                    bodies.setdefault(seq, cast.content)
            while held + 1 in bodies:
                held += 1
            self._held[run.origin] = held
        self._deliver()

    def _on_request(self, place: int, request: Request) -> None:
        turn = self.turn
        if not turn.check(request.roll, request.held, request.log.cursors) or request.log.ballot >= request.subrun:
            raise PeerError("a request about another group")
        if not self._follow(request.subrun) or request.subrun != turn.subrun or not turn.coordinates:
            return
        if not self._spoke:
            self._requests[place] = request
            self._decide_if_complete()

    def _follow(self, subrun: int) -> bool:
        """Whoever is ahead takes us along."""
        if self.turn.is_ahead(subrun):
            self._enter(subrun)
        return not self._out

    # Deciding -------------------------------------------------------------------------------------------------------

    def _decide_if_complete(self) -> None:
        if self._decided or self.turn.is_complete({place: each.roll for place, each in self._requests.items()}):
            self._decide()

    def _decide(self) -> None:
        """The end of round 1 for the coordinator: order what can be ordered, and tell everyone."""
        turn = self.turn
        self._decided = True
        last = max((request.roll for request in self._requests.values()), key=lambda roll: roll.subrun)
        requests = {place: each for place, each in self._requests.items() if last.expelled[place] < 0}
        if len(requests) < turn.quorum:
            return  # should they come later in this subrun, it is not too late
        self._spoke = True
        known = self._knows_all(requests, last)
        pending = -1 if known else self._unheard(last)
        log = max((request.log for request in requests.values()), key=lambda each: each.ballot)
        safe, safe_ballot = max((request.safe, request.safe_ballot) for request in requests.values())
        if log.ballot >= 0 and sum(each.log.ballot == log.ballot for each in requests.values()) >= turn.quorum:
            safe, safe_ballot = max((safe, safe_ballot), (log.total, log.ballot))
        marks = tuple(
            middle((request.held[origin] for request in requests.values()), turn.quorum)
            for origin in range(len(turn.members))
        )
        holders = tuple(
            max(requests, key=lambda place: (requests[place].held[origin], -place))
            for origin in range(len(turn.members))
        )
        best = max(requests, key=lambda place: (requests[place].done, -place))
        decided = None
        if known:
            spans = self._next(marks, log)
            if spans or log.total > safe:
                decided = self._extended(log, spans)
        total = log.total if decided is None else decided.total
        busy = any(
            request.done < total or any(map(int.__gt__, request.held, log.cursors)) for request in requests.values()
        )
        roll = turn.write([(place, request.roll) for place, request in requests.items()], pending, busy)
        ordered = Ordered(roll, safe, safe_ballot, marks, holders, best, decided)
        told = {*active(last), *self._requests} - {turn.place}
        self._send(tuple(turn.members[place] for place in sorted(told)), ordered)
        self._accept(ordered)

    def _knows_all(self, requests: dict[int, Request], last: Roll) -> bool:
        """Whether no decision can be unknown: a majority has heard every coordinator, or everyone who is in is here."""
        heard = sum(
            request.roll.subrun == self.turn.subrun - 1 and request.roll.pending < 0 for request in requests.values()
        )
        return heard >= self.turn.quorum or all(place in requests for place in active(last))

    def _unheard(self, _: Roll) -> int:
        """The subrun whose decision some may lack. Even if we heard its coordinator ourselves: others did not, and a
        Hold does not tell them what it decided."""
        return self.turn.subrun - 1

    def _next(self, marks: tuple[int, ...], log: Log) -> tuple[Span, ...]:
        """Up to h messages that a majority holds and that have no order yet: of each member some, so that nobody waits
        for another."""
        behind = [(origin, log.cursors[origin]) for origin in range(len(marks)) if marks[origin] > log.cursors[origin]]
        left = self.turn.settings.batch
        spans = []
        for turn, (origin, cursor) in enumerate(behind):
            share = max(1, left // (len(behind) - turn))
            last = min(marks[origin], cursor + share)
            if left > 0:
                spans.append(Span(origin, cursor + 1, last))
                left -= last - cursor
        return tuple(spans)

    def _extended(self, log: Log, spans: tuple[Span, ...]) -> Log:
        cursors = list(log.cursors)
        for span in spans:
            cursors[span.origin] = span.last
        tail = (*log.tail, Decision(spans)) if spans else log.tail
        return Log(self.turn.subrun, log.base, tail, tuple(cursors))

    # Hearing the coordinator ----------------------------------------------------------------------------------------

    def _on_ordered(self, place: int, ordered: Ordered) -> None:
        turn, subrun, count = self.turn, ordered.roll.subrun, len(self._bodies)
        log = ordered.log
        if (
            not turn.check(ordered.roll, ordered.marks, ordered.holders, *([log.cursors] if log else []))
            or place != turn.coordinator(subrun)
            or any(each >= count for each in (*ordered.holders, ordered.best))
            or (log is not None and any(span.origin >= count for each in log.tail for span in each.spans))
        ):
            raise PeerError("an order for another group, or from who does not coordinate")
        if not self._follow(subrun) or turn.heard_at == subrun:
            return
        if subrun == turn.subrun:
            self._accept(ordered)
        elif turn.hear_late(subrun):
            # A late decision is no decision: we said that we had not heard it. Its coordinator is alive, though.
            # Each one uses up an attempt, so that a member accepts one or leaves within k + r subruns.
            self._tries += 1

    def _accept(self, ordered: Ordered) -> None:
        turn = self.turn
        if not turn.hear(ordered.roll, self._now):
            self._leave(Expelled("the group has expelled this member"))
            return
        self._marks = ordered.marks
        log = ordered.log
        # What we have of the safe decisions is right if we accepted a log from when they were safe, or later.
        agrees = self._log.ballot >= ordered.safe_ballot
        if log is not None:
            if not agrees:
                for number in range(self._safe, log.base):
                    self._decisions.pop(number, None)
            for number in range(log.base, max(self._log.total, log.total)):
                self._decisions.pop(number, None)
            self._decisions.update(enumerate(log.tail, log.base))
            self._log = log
            agrees = True
        self._known = max(self._known, ordered.safe)
        if agrees and ordered.safe > self._safe:
            self._safe, self._safe_ballot = ordered.safe, ordered.safe_ballot
        self._show_view(ordered.roll.subrun)
        self._deliver()
        self._recover(ordered)
        turn.wait(self._tries > 0)

    def _recover(self, ordered: Ordered) -> None:
        """Ask the most updated for what is decided and not here (001 §4.3)."""
        here = range(self._delivered, max(self._safe, self._log.total))
        missing = next((number for number in here if number not in self._decisions), None)
        if missing is None and self._known > self._safe:
            missing = self._safe
        asked: dict[int, list[Span]] = {}
        for number in here if missing is None else range(self._delivered, missing):
            for span in self._decisions[number].spans:
                bodies = self._bodies[span.origin]
                lacking = [seq for seq in range(span.first, span.last + 1) if seq not in bodies]
                if lacking:
                    asked.setdefault(ordered.holders[span.origin], []).append(
                        Span(span.origin, lacking[0], lacking[-1])
                    )
        if missing is not None:
            asked.setdefault(ordered.best, [])
        self._tries = self._tries + 1 if asked else 0
        for place, spans in asked.items():
            if place != self.turn.place:
                first = missing if missing is not None and place == ordered.best else -1
                self._send((self.turn.members[place],), Recover(self.turn.subrun, first, tuple(spans)))

    def _limit_known(self) -> int:
        return max(self._known, self._log.total)

    def _outstanding(self) -> bool:
        return self._delivered < self._limit_known() or bool(self._outbox)

    def _on_recover(self, sender: NodeId, recover: Recover) -> None:
        if any(span.origin >= len(self._bodies) for span in recover.spans):
            raise PeerError("a member that is none")
        spans = list(recover.spans)
        if recover.first >= 0:
            decisions = []
            for number in range(recover.first, self._safe):
                if number not in self._decisions:
                    break
                decisions.append(self._decisions[number])
            if decisions:
                self._send((sender,), Recovered(recover.first, tuple(decisions)))
                spans += [span for decision in decisions for span in decision.spans]
        runs = [run for span in spans for run in self._runs(span)]
        if runs:
            self._send((sender,), Casts(tuple(runs), recover.subrun))

    def _on_recovered(self, recovered: Recovered) -> None:
        """What is safe stays so, whenever the answer comes."""
        count = len(self._bodies)
        if any(span.origin >= count for each in recovered.decisions for span in each.spans):
            raise PeerError("a member that is none")
        for number, decision in enumerate(recovered.decisions, recovered.first):
            if number == self._safe:
                if number >= self._delivered:
                    self._decisions[number] = decision
                self._safe += 1
            elif self._delivered <= number < self._safe:
                self._decisions.setdefault(number, decision)
        self._deliver()

    def _runs(self, span: Span) -> list[Run]:
        """What is here of a span, in runs without gaps."""
        bodies = self._bodies[span.origin]
        runs: list[Run] = []
        casts: list[Cast] = []
        for seq in range(span.first, min(span.last, span.first + 65_535) + 2):
            body = bodies.get(seq) if seq <= span.last else None
            if body is not None:
                casts.append(Cast(body))
            elif casts:
                runs.append(Run(span.origin, seq - len(casts), tuple(casts)))
                casts = []
        return runs

    # Delivering -----------------------------------------------------------------------------------------------------

    def _limit(self) -> int:
        """How many decisions may be delivered."""
        return self._safe if self._uniform else max(self._safe, self._log.total)

    def _deliver(self) -> None:
        while self._delivered < self._limit():
            decision = self._decisions.get(self._delivered)
            if decision is None:
                return
            ids = [(span.origin, seq) for span in decision.spans for seq in range(span.first, span.last + 1)]
            if any(seq not in self._bodies[origin] for origin, seq in ids):
                return
            for origin, seq in ids:
                self._effects.append(Deliver(event_of(self._bodies[origin][seq], self._streams[origin], seq)))
                self._taken[origin] = seq
            self._delivered += 1
            self._forget(self._delivered - 1 - self._history)

    def _forget(self, number: int) -> None:
        """The history is a circular buffer of h (k + r) messages."""
        decision = self._decisions.pop(number, None)
        for span in decision.spans if decision is not None else ():
            for seq in range(span.first, span.last + 1):
                self._bodies[span.origin].pop(seq, None)

    @property
    def history(self) -> int:
        """How many delivered messages are kept for others."""
        return sum(
            span.last - span.first + 1
            for number, decision in self._decisions.items()
            if number < self._delivered
            for span in decision.spans
        )

    # Sending --------------------------------------------------------------------------------------------------------

    def _send_casts(self, again: bool = False) -> None:
        """Our own messages: new ones as far as the window allows, and those that too few have, once more."""
        turn = self.turn
        place, bodies = turn.place, self._bodies[turn.place]
        # What was recovered is ordered too, though the log that we accepted may not know.
        ordered = max(self._log.cursors[place], self._taken[place])
        room = 4 * turn.settings.batch - (self._sent - ordered)
        first = self._sent + 1
        taken = list(islice(self._outbox, max(0, room)))
        del self._outbox[: len(taken)]
        for content in taken:
            self._sent += 1
            bodies[self._sent] = content
        self._held[place] = self._sent
        self._send_runs(first, self._sent)
        if again:
            # What has been on its way for a whole subrun and is not with a majority is taken for lost.
            self._send_runs(max(self._marks[place], ordered) + 1, self._sent_before)
            self._sent_before = self._sent

    def _send_runs(self, first: int, last: int) -> None:
        batch = self.turn.settings.batch
        for start in range(first, last + 1, batch):
            span = Span(self.turn.place, start, min(last, start + batch - 1))
            self._send(self.turn.others, Casts(tuple(self._runs(span))))

    def _send(self, to: tuple[NodeId, ...], message: Message) -> None:
        if to:
            self._effects.append(Send(to, message))

    def _show_view(self, number: int) -> None:
        members = tuple(self.turn.active)
        if members != self._view:
            self._view = members
            self._effects.append(View(number, tuple(self.turn.members[place] for place in members)))

    def _leave(self, effect: Expelled | Left) -> None:
        self._out = True
        self._effects.append(effect)
