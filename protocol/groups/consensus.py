"""Consensus among the members of a view (Chandra and Toueg, with a detector of class ◊S; 000 §4.1).

One instance decides one value, in rounds; member r mod n coordinates round r.

    1  everyone sends the coordinator its estimate, and the round in which it adopted it
    2  the coordinator takes, of a majority of them, the one that was adopted last, and proposes it
    3  whoever hears the proposal adopts it and says so; whoever suspects the coordinator goes to the next round
    4  with a majority that adopted it, the value is decided, and everyone is told

A value that is decided was adopted by a majority, so each later coordinator finds it among its majority of estimates,
adopted later than any other: no other value can be decided. In round 0 nobody has adopted anything, so phase 1 is left
out. Messages may be lost: on every tick a member says again whatever still waits for an answer.

A value here is only marks: the messages up to them are sent apart. So a member adopts a value only if it holds all that
the value names (indirect consensus), and what is decided is held by a majority. One that cannot get hold of it within a
round goes on to the next: if the value was decided, others have the messages and it will be proposed again; if not, it
may be gone with its only holder, and must not keep everyone.
"""

from typing import Protocol

from gossamer.protocol.groups.wire import Answer, Decided, Estimate, Message, Propose, Value


class Context(Protocol):
    """What an instance needs of the view it is in."""

    def suspects(self, place: int) -> bool: ...

    def holds(self, value: Value) -> bool: ...

    def initial(self) -> Value: ...

    def tell(self, places: list[int], message: Message) -> None: ...


class Instance:
    """One decision of one view, at one member."""

    __slots__ = ("_answered", "_answers", "_context", "_entered_at", "_estimates", "_proposals", "_round_s",
                 "adopted", "count", "decision", "estimate", "number", "place", "round", "view")  # fmt: skip

    def __init__(
        self, view: int, number: int, place: int, count: int, context: Context, now: float, round_s: float
    ) -> None:
        self.view, self.number = view, number
        self.place, self.count = place, count
        self.round = 0
        self.estimate: Value | None = None
        self.adopted = -1
        self.decision: Value | None = None
        self._context = context
        self._entered_at = now
        self._round_s = round_s
        self._estimates: dict[int, tuple[int, Value]] = {}
        """For this round, if we coordinate it."""
        self._answers: dict[int, bool] = {}
        self._proposals: dict[int, Value] = {}
        self._answered = -1
        """The last round in which we adopted the proposal."""

    @property
    def quorum(self) -> int:
        return self.count // 2 + 1

    @property
    def coordinator(self) -> int:
        return self.round % self.count

    # What comes in --------------------------------------------------------------------------------------------------

    def on_estimate(self, place: int, message: Estimate, now: float) -> None:
        if message.round > self.round:
            self._enter(message.round, now)
        if message.round == self.round and self.coordinator == self.place:
            self._estimates[place] = (message.adopted, message.value)
        self.step(now)

    def on_propose(self, place: int, message: Propose, now: float) -> None:
        if place != message.round % self.count:
            return
        if message.round > self.round:
            self._enter(message.round, now)
        if message.round == self.round:
            self._proposals[message.round] = message.value
            if self._answered == self.round:  # it did not hear us
                self._say([self.coordinator], Answer(self.view, self.number, self.round, True))
        self.step(now)

    def on_answer(self, place: int, message: Answer, now: float) -> None:
        if message.round == self.round and self.coordinator == self.place:
            self._answers[place] = message.adopted
        self.step(now)

    def on_decided(self, value: Value) -> None:
        if self.decision is None:
            self.decision = value

    # What goes on ---------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        """Go as far as can be gone."""
        while self.decision is None and self._advance(now):
            pass

    def _advance(self, now: float) -> bool:
        """One step; whether anything changed that may allow another."""
        if self.coordinator == self.place:
            self._propose()
            if self._count(True) >= self.quorum:
                self._decide(self._proposals[self.round])
                return False
        proposal = self._proposals.get(self.round)
        if proposal is not None and self._answered < self.round and self._may_adopt(proposal):
            self.estimate, self.adopted = proposal, self.round
            self._answered = self.round
            if self.coordinator == self.place:
                self._answers[self.place] = True
            else:
                self._say([self.coordinator], Answer(self.view, self.number, self.round, True))
            return True
        overdue = now >= self.deadline
        if self.coordinator == self.place:
            refused = any(not adopted for adopted in self._answers.values())
            if refused or overdue:
                self._enter(self.round + 1, now)
                return True
        elif self._context.suspects(self.coordinator) or overdue:
            self._say([self.coordinator], Answer(self.view, self.number, self.round, False))
            self._enter(self.round + 1, now)
            return True
        return False

    def _may_adopt(self, value: Value) -> bool:
        return self._context.holds(value)

    def _propose(self) -> None:
        if self.round in self._proposals:
            return
        if self.round == 0:
            chosen = self._own()
        else:
            self._estimates[self.place] = (self.adopted, self._own())
            if len(self._estimates) < self.quorum:
                return
            chosen = self._latest()
        self._proposals[self.round] = chosen
        self._say(self._others(), Propose(self.view, self.number, self.round, chosen))

    def _latest(self) -> Value:
        """Of the estimates, the one that was adopted last."""
        last = max(adopted for adopted, _ in self._estimates.values())
        # Among those that nobody adopted ours is as good as any, and surely held by somebody who is here.
        own = self._estimates[self.place]
        return own[1] if own[0] == last else next(value for at, value in self._estimates.values() if at == last)

    def _own(self) -> Value:
        if self.estimate is None:
            self.estimate = self._context.initial()
        return self.estimate

    def _count(self, adopted: bool) -> int:
        return sum(answer is adopted for answer in self._answers.values())

    def _decide(self, value: Value) -> None:
        self.decision = value
        self._say(self._others(), Decided(self.view, self.number, value))

    def _enter(self, round: int, now: float) -> None:
        self.round = round
        self._entered_at = now
        self._estimates.clear()
        self._answers.clear()
        self._proposals = {at: value for at, value in self._proposals.items() if at >= round}
        if self.coordinator != self.place:
            self._say([self.coordinator], Estimate(self.view, self.number, round, self.adopted, self._own()))

    def tick(self, now: float) -> None:
        """Say again what waits for an answer."""
        if self.decision is not None:
            return
        if self.coordinator == self.place:
            if (proposal := self._proposals.get(self.round)) is not None:
                silent = [place for place in self._others() if place not in self._answers]
                self._say(silent, Propose(self.view, self.number, self.round, proposal))
        elif self.round > 0 and self.round not in self._proposals:
            self._say([self.coordinator], Estimate(self.view, self.number, self.round, self.adopted, self._own()))
        self.step(now)

    @property
    def wanted(self) -> Value | None:
        """A proposal that could be adopted if more messages were here."""
        proposal = self._proposals.get(self.round)
        return proposal if proposal is not None and self._answered < self.round else None

    @property
    def deadline(self) -> float:
        return self._entered_at + self._round_s * (1 + self.round)

    def _others(self) -> list[int]:
        return [place for place in range(self.count) if place != self.place]

    def _say(self, places: list[int], message: Message) -> None:
        if places:
            self._context.tell(places, message)
