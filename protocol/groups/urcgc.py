"""urcgc: uniform atomic multicast in causal order, from dependencies that are said (001 §4.1.2, Fig. 8).

A message names what it comes after, besides its sender's previous one. It goes to everyone at once, and is *accepted*
where all that it comes after is accepted; elsewhere it waits. Messages that have nothing to do with each other do not
wait for each other. Nobody decides an order, so nothing here is slower than the network:

    a    a:0 ---------------- a:1 (after b:0)
    b         b:0 (after a:0)
    c         b:0 waits for a:0, is accepted with it, and a:1 after both

What the rotating coordinator is for is everything else. It hears how far each member has accepted each other's
messages, and tells everyone:

  - who has most of whose messages, so that whoever lacks some recovers them from there;
  - what all have, so that history may forget it (added up over subruns, so that silence delays it by 2k + f at most);
  - what a majority has: with `uniform=True` only that is delivered, since it cannot be lost any more (members say it
    with their messages, too, so that among busy ones nobody waits for the coordinator); with `uniform=False`, the
    paper's way, delivery is acceptance;
  - for a member that is expelled, the *cut*: the last of its messages that anybody who is in has accepted. Beyond it
    nothing can be recovered; it is discarded, with whatever waits for it.

A cut must be final, so nobody may accept more of an expelled member's messages once it has reported how many it has.
Hence a member that knows of an expulsion takes nothing from the expelled one; it accepts no more of its messages until
the cut is known; a cut is taken only when every active member reports from the same expulsion; and what was recovered
of it counts only in the subrun in which it was asked for, before the next report: else its last holder may answer, and
die, while a lower cut is taken (lab/groups/mutants.py takes these away).
"""

from collections import deque

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import SEQ_MAX, EventId, NodeId
from gossamer.protocol.groups import inputs
from gossamer.protocol.groups.effects import Deliver, Discarded, Effect, Expelled, Left, Send, View
from gossamer.protocol.groups.rotation import NEVER, Rotation, Settings, active, middle
from gossamer.protocol.groups.streams import event_of, stream_of
from gossamer.protocol.groups.wire import (
    Agreed,
    Cast,
    Casts,
    Cleaning,
    Message,
    Recover,
    Report,
    Run,
    Span,
)


class Urcgc:
    """One member of a group that does not change but by expulsion."""

    def __init__(self, group: str, me: NodeId, members: tuple[NodeId, ...], settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self.turn = Rotation(me, members, settings)
        self._uniform = settings.uniform
        self._streams = tuple(stream_of(group, member) for member in members)
        self._places = {stream: place for place, stream in enumerate(self._streams)}
        count = len(members)
        self._effects: list[Effect] = []
        self._out = False
        self._now = 0.0
        # Messages.
        self._history: list[list[Cast]] = [[] for _ in members]
        """The last of each member's messages that are accepted."""
        self._waiting: list[dict[int, Cast]] = [{} for _ in members]
        self._accepted = [-1] * count
        self._undelivered: list[tuple[int, int, tuple[Cast, ...]]] = []
        """Accepted, in an order that respects causality."""
        self._awaited = [(-1, 0.0)] * count
        """A message of each member that others have and we had not, and since when we know."""
        self._outbox: deque[Cast] = deque()
        # What coordinators told.
        self._stable = [-1] * count
        self._safe = [-1] * count
        self._told = [(-1,) * count for _ in members]
        """What each member last said that it has accepted: a state that causality is closed in."""
        self._cuts = (SEQ_MAX,) * count
        self._cleaning = Cleaning((SEQ_MAX,) * count, (False,) * count)
        self._view: tuple[int, ...] = ()
        # This subrun.
        self._reports: dict[int, Report] = {}
        self._decided = self._spoke = True
        """Whether this subrun's coordinator, if that is us, need not be woken for it, and whether it has spoken."""
        self._asked: set[int] = set()
        self._tries = 0
        self._tried_at = -NEVER
        self._patience_s = settings.subrun_s / 4
        """How long subruns that follow each other at once wait for a message that may be on its way."""

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
                self._on_multicast(contents, after)
            case inputs.Start():
                self._show_view(0)
                self._enter(0)
            case inputs.Leave():
                self._leave(Left())
        return effects

    def next_deadline(self) -> float:
        return NEVER if self._out else self.turn.next_deadline(self._decided)

    # Our own messages -----------------------------------------------------------------------------------------------

    def _on_multicast(self, contents: tuple[Content, ...], after: tuple[EventId, ...]) -> None:
        deps: dict[int, int] = {}
        for id in after:
            place = self._places.get(id.stream)
            if place is None or id.seq > self._accepted[place]:
                raise UsageError(f"after= names {id}, which this member has not been delivered")
            deps[place] = max(id.seq, deps.get(place, -1))
        deps.pop(self.turn.place, None)  # our own come in their order anyway
        named = tuple(sorted(deps.items()))
        self._outbox += [Cast(content, named if index == 0 else ()) for index, content in enumerate(contents)]
        self._send_casts()
        if self._uniform:
            self.turn.hurry()

    def _send_casts(self) -> None:
        place, settings = self.turn.place, self.turn.settings
        casts: list[Cast] = []
        first = self._accepted[place] + 1
        while self._outbox and first + len(casts) - self._stable[place] < 64 * settings.batch:
            casts.append(self._outbox.popleft())
        if casts:
            self._accept(place, first, tuple(casts))
        for start in range(0, len(casts), settings.batch):
            run = Run(place, first + start, tuple(casts[start : start + settings.batch]))
            self._send(self.turn.others, Casts((run,), accepted=tuple(self._accepted) if self._uniform else ()))

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
        if not turn.enter(subrun, self._now):
            self._leave(Expelled(f"heard no coordinator for {turn.k} subruns"))
            return
        if self._tries > turn.settings.r(len(turn.members)):
            self._leave(Expelled(f"could not catch up in {self._tries - 1} subruns"))
            return
        self._reports.clear()
        self._asked.clear()
        self._decided = self._spoke = not turn.coordinates
        report = Report(subrun, turn.roll, self._cuts, self._cleaning, tuple(self._accepted))
        if turn.coordinates:
            self._reports[turn.place] = report
            if turn.alone:
                self._send(turn.others, report)
            self._decide_if_complete()
        else:
            self._send(turn.addressees, report)

    # Messages -------------------------------------------------------------------------------------------------------

    def _on_message(self, sender: NodeId, message: Message) -> None:
        if sender not in self.turn.members:
            raise PeerError(f"{sender} is not a member")
        place = self.turn.members.index(sender)
        match message:
            case Casts():
                self._on_casts(place, message)
            case Report():
                self._on_report(place, message)
            case Agreed():
                self._on_agreed(place, message)
            case Recover():
                self._on_recover(sender, message)
            case _:
                raise PeerError(f"urcgc does not speak {type(message).__name__}")

    def _on_casts(self, place: int, casts: Casts) -> None:
        count = len(self._accepted)
        for run in casts.runs:
            if run.origin >= count or any(dep[0] >= count for cast in run.casts if cast.after for dep in cast.after):
                raise PeerError("messages of or after a member that is none")
            if casts.subrun < 0 and run.origin != place:
                raise PeerError(f"messages of member {run.origin} from member {place}")
        if casts.accepted and len(casts.accepted) != count:
            raise PeerError("a report about another group")
        before = list(self._accepted)
        for run in casts.runs:
            if self._may_take(run.origin, place, casts.subrun):
                self._take(run)
        self._accept_waiting()
        if casts.accepted:
            self._on_accepted(place, casts.accepted)
        if casts.subrun >= 0:
            if self._accepted != before:
                self._tries = 0
            self._asked.discard(place)
            self.turn.wait(bool(self._asked))

    def _may_take(self, origin: int, place: int, subrun: int) -> bool:
        """What is of a member that is in, from whoever has it; else what we asked for in this subrun."""
        return self.turn.roll.expelled[origin] < 0 or (subrun == self.turn.subrun and place in self._asked)

    def _take(self, run: Run) -> None:
        """Accept what can be at once, and have the rest wait."""
        origin, first, casts = run.origin, run.first, run.casts
        following = self._accepted[origin] + 1
        if first < following:
            first, casts = following, casts[following - first :]
        if first == following and casts:
            count = self._acceptable(origin, first, casts)
            if count:
                self._accept(origin, first, casts[:count])
                first, casts = first + count, casts[count:]
        waiting = self._waiting[origin]
        for seq, cast in enumerate(casts, first):
            waiting.setdefault(seq, cast)

    def _acceptable(self, origin: int, first: int, casts: tuple[Cast, ...]) -> int:
        """How many of these, which come next, may be accepted."""
        accepted = self._accepted
        most = min(len(casts), self._limit(origin) - first + 1)
        for index, cast in enumerate(casts):
            if cast.after and any(accepted[place] < needed for place, needed in cast.after if place != origin):
                return min(index, most)
        return most

    def _accept_waiting(self) -> None:
        moved = any(self._waiting)
        while moved:
            moved = False
            for origin, waiting in enumerate(self._waiting):
                while (cast := waiting.get(seq := self._accepted[origin] + 1)) is not None:
                    if self._acceptable(origin, seq, (cast,)) < 1:
                        break
                    del waiting[seq]
                    self._accept(origin, seq, (cast,))
                    moved = True

    def _limit(self, origin: int) -> int:
        """How much of a member's messages may be accepted: all, if it is in; else up to its cut, once that is known."""
        if self.turn.roll.expelled[origin] < 0:
            return SEQ_MAX
        cut = self._cuts[origin]
        return self._accepted[origin] if cut == SEQ_MAX else cut

    def _accept(self, origin: int, first: int, casts: tuple[Cast, ...]) -> None:
        self._accepted[origin] = first + len(casts) - 1
        self._history[origin] += casts
        # What they come after is accepted; and delivered, if they may be: what is safe is closed under causality.
        if (rest := self._hand_over(origin, first, casts)) is not None:
            self._undelivered.append(rest)

    def _on_accepted(self, place: int, accepted: tuple[int, ...]) -> None:
        """A member said with its messages what it has: what a majority says so of need not wait for a coordinator."""
        self._told[place], self._told[self.turn.place] = accepted, tuple(self._accepted)
        safe = [middle(column, self.turn.quorum) for column in zip(*self._told, strict=True)]
        safe = list(map(max, self._safe, safe))
        if safe != self._safe:
            self._safe = safe
            self._deliver()

    def _deliver(self) -> None:
        """More is safe: what may be delivered now, in the order of acceptance. What may not yet does not hold up what
        is unrelated."""
        undelivered, self._undelivered = self._undelivered, []
        for each in undelivered:
            if (rest := self._hand_over(*each)) is not None:
                self._undelivered.append(rest)

    def _hand_over(self, origin: int, first: int, casts: tuple[Cast, ...]) -> tuple[int, int, tuple[Cast, ...]] | None:
        """Deliver what may be of a run; the rest, if there is one."""
        count, stream = self._deliverable(origin) - first + 1, self._streams[origin]
        ready = casts if count >= len(casts) else casts[: max(0, count)]
        self._effects += [Deliver(event_of(cast.content, stream, seq)) for seq, cast in enumerate(ready, first)]
        return None if ready is casts else (origin, first + len(ready), casts[len(ready) :])

    def _deliverable(self, origin: int) -> int:
        """Up to where a member's messages may be delivered."""
        # A majority that accepted a message accepted what it comes after, too.
        return self._safe[origin] if self._uniform else SEQ_MAX

    # The coordinator ------------------------------------------------------------------------------------------------

    def _on_report(self, place: int, report: Report) -> None:
        turn = self.turn
        count = len(turn.members)
        cleaning = report.cleaning
        if not turn.check(report.roll, report.cuts, report.accepted, cleaning.lowest) or len(cleaning.counted) != count:
            raise PeerError("a report about another group")
        if not self._follow(report.subrun) or report.subrun != turn.subrun or not turn.coordinates:
            return
        if not self._spoke:
            self._reports[place] = report
            self._decide_if_complete()

    def _follow(self, subrun: int) -> bool:
        """Whoever is ahead takes us along."""
        if self.turn.is_ahead(subrun):
            self._enter(subrun)
        return not self._out

    def _decide_if_complete(self) -> None:
        if self._decided or self.turn.is_complete({place: each.roll for place, each in self._reports.items()}):
            self._decide()

    def _decide(self) -> None:
        turn = self.turn
        self._decided = True
        last = max(self._reports.values(), key=lambda report: report.roll.subrun)
        reports = {place: each for place, each in self._reports.items() if last.roll.expelled[place] < 0}
        if len(reports) < turn.quorum:
            return  # should they come later in this subrun, it is not too late
        self._spoke = True
        places = range(len(turn.members))
        columns = [{place: report.accepted[origin] for place, report in reports.items()} for origin in places]
        holders = tuple(max(column, key=lambda place: (column[place], -place)) for column in columns)
        safe = tuple(middle(column.values(), turn.quorum) for column in columns)
        most = tuple(max(column.values()) for column in columns)
        busy = self._busy(columns, last)
        roll = turn.write([(place, report.roll) for place, report in reports.items()], busy=busy)
        cuts = self._cut(reports, last, most)
        cleaning, stable = self._clean(reports, last, active(roll))
        agreed = Agreed(roll, stable, safe, most, holders, cuts, cleaning)
        told = {*active(last.roll), *self._reports} - {turn.place}
        self._send(tuple(turn.members[place] for place in sorted(told)), agreed)
        self._hear(agreed)

    def _busy(self, columns: list[dict[int, int]], last: Report) -> bool:
        """Somebody lacks something that can be recovered, or does not know yet that everyone has it."""
        return any(
            min(column.values()) < max(column.values()) or (self._uniform and max(column.values()) > self._safe[origin])
            for origin, column in enumerate(columns)
            if last.roll.expelled[origin] < 0 or last.cuts[origin] != SEQ_MAX
        )

    def _cut(self, reports: dict[int, Report], last: Report, most: tuple[int, ...]) -> tuple[int, ...]:
        """The last message of each expelled member that anybody has, once everyone who is in says so knowing of it."""
        complete = all(place in reports for place in active(last.roll))
        cuts = list(last.cuts)
        for place, expelled in enumerate(last.roll.expelled):
            if expelled < 0:
                cuts[place] = SEQ_MAX
            elif complete and all(report.roll.expelled[place] == expelled for report in reports.values()):
                cuts[place] = most[place]
        return tuple(cuts)

    def _clean(self, reports: dict[int, Report], last: Report, counting: list[int]) -> tuple[Cleaning, tuple[int, ...]]:
        """Add to what is known of all; what all have is stable."""
        columns = zip(last.cleaning.lowest, *(report.accepted for report in reports.values()), strict=True)
        lowest = tuple(map(min, columns))
        counted = tuple(was or place in reports for place, was in enumerate(last.cleaning.counted))
        if all(counted[place] for place in counting):
            count = len(counted)
            return Cleaning((SEQ_MAX,) * count, (False,) * count), lowest
        return Cleaning(lowest, counted), (-1,) * len(lowest)

    # Hearing the coordinator ----------------------------------------------------------------------------------------

    def _on_agreed(self, place: int, agreed: Agreed) -> None:
        turn, subrun, count = self.turn, agreed.roll.subrun, len(self._accepted)
        lists = (agreed.stable, agreed.safe, agreed.most, agreed.holders, agreed.cuts, agreed.cleaning.lowest)
        if (
            not turn.check(agreed.roll, *lists)
            or len(agreed.cleaning.counted) != count
            or place != turn.coordinator(subrun)
            or any(holder >= count for holder in agreed.holders)
        ):
            raise PeerError("an agreement of another group, or from who does not coordinate")
        if not self._follow(subrun) or turn.heard_at == subrun:
            return
        if subrun == turn.subrun:
            self._hear(agreed)
        elif turn.hear_late(subrun):
            self._count_attempt()  # too late to be used, but its coordinator is alive

    def _hear(self, agreed: Agreed) -> None:
        turn = self.turn
        if not turn.hear(agreed.roll, self._now):
            self._leave(Expelled("the group has expelled this member"))
            return
        self._cleaning = agreed.cleaning
        for origin, cut in enumerate(agreed.cuts):
            if cut != SEQ_MAX and cut != self._cuts[origin]:
                self._effects.append(Discarded(turn.members[origin], cut))
                self._waiting[origin] = {seq: cast for seq, cast in self._waiting[origin].items() if seq <= cut}
        self._cuts = agreed.cuts
        self._safe = list(map(max, self._safe, agreed.safe, agreed.stable))
        self._stable = list(map(max, self._stable, agreed.stable))
        self._accept_waiting()
        self._deliver()
        for origin, stable in enumerate(self._stable):
            history = self._history[origin]
            del history[: max(0, stable - self._accepted[origin] + len(history))]
        self._recover(agreed)
        self._show_view(agreed.roll.subrun)
        self._send_casts()
        turn.wait(bool(self._asked))
        if self.next_deadline() <= self._now:
            # At once, not when we are woken: what is under way has us report while the application takes what came.
            self._enter(turn.subrun + 1)

    def _recover(self, agreed: Agreed) -> None:
        """Ask whoever has most of a member's messages for those that are not here (001 §4.3). What its sender may still
        have on its way to us is given the time."""
        asked: dict[int, list[Span]] = {}
        lacks = False
        for origin, most in enumerate(agreed.most):
            last = min(most, self._limit(origin))
            first = self._accepted[origin] + 1
            holder = agreed.holders[origin]
            if last < first or holder == self.turn.place:
                continue
            lacks = True
            if self._is_overdue(origin, last):
                last = min(last, first + 4 * self.turn.settings.batch)
                asked.setdefault(holder, []).append(Span(origin, first, last))
        if not lacks:
            self._tries = 0
        elif asked:
            self._count_attempt()
        for place, spans in asked.items():
            self._asked.add(place)
            self._send((self.turn.members[place],), Recover(self.turn.subrun, -1, tuple(spans)))

    def _count_attempt(self) -> None:
        """Count one attempt to catch up, at most one per patience: subruns may follow each other at once."""
        if self._now - self._tried_at >= self._patience_s:
            self._tries, self._tried_at = self._tries + 1, self._now

    def _is_overdue(self, origin: int, last: int) -> bool:
        """Whether something is lost of what a member sent, or of what we asked for: it lacks for longer than its way
        may take. What an expelled member sent is asked for in every subrun, since the answer counts in no other."""
        if self.turn.roll.expelled[origin] >= 0:
            return True
        mark, since = self._awaited[origin]
        overdue = self._accepted[origin] < mark and self._now - since >= self._patience_s
        if overdue or self._accepted[origin] >= mark:
            self._awaited[origin] = last, self._now
        return overdue

    def _on_recover(self, sender: NodeId, recover: Recover) -> None:
        if any(span.origin >= len(self._history) for span in recover.spans):
            raise PeerError("a member that is none")
        runs = []
        for span in recover.spans:
            history = self._history[span.origin]
            oldest = self._accepted[span.origin] - len(history) + 1
            if span.first >= oldest and (casts := history[span.first - oldest : span.last - oldest + 1]):
                runs.append(Run(span.origin, span.first, tuple(casts)))
        if runs:
            self._send((sender,), Casts(tuple(runs), recover.subrun))

    @property
    def history(self) -> int:
        """How many messages are kept for others."""
        return sum(map(len, self._history))

    # Sending --------------------------------------------------------------------------------------------------------

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
