"""What a consumer applies, of what its subscription is sent: whole transactions, and nothing that is old by then.

A queue hands over events and notices in order, but not everything may be applied when it comes. Parts wait for their
commit, and what their publisher said behind them waits with them (protocol/transactions.py). Other publishers do not
wait, and that is where time could go back: 2 of `b` outranks 1 of `a`, which waits behind a part of `a`.

    came                          applied
    a: part of x
    a: key k, group, rank 1       nothing: it waits behind the part
    b: key k, group, rank 2       b's
    a: commit                     x; a's k is obsolete by b's, which is there already

So what obsoletes others is remembered as it is applied (protocol/memory.py), notices included.
"""

from typing import NamedTuple

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.protocol.delivery import Item
from gossamer.protocol.memory import Memory
from gossamer.protocol.shown import Left
from gossamer.protocol.transactions import Applied, Assembler, Outcome


class Step(NamedTuple):
    """To be applied as one, in this order. A notice says that a key has no value that matches any more, unless its own
    stream has set it anew after what left."""

    said: tuple[Event | Left, ...]
    commit: Event | None = None


class Reception:
    """Items in, in order; steps out."""

    def __init__(self) -> None:
        self._assembler = Assembler(filtered=True)
        self._memory = Memory()
        self.obsoleted = 0
        self.lost = 0
        """Parts that came, of transactions that are not whole."""

    @property
    def held(self) -> int:
        return self._assembler.held

    def waiting(self) -> list[EventId]:
        """The first of each stream that waits for its commit."""
        return self._assembler.waiting()

    def on_item(self, item: Item) -> list[Step]:
        event = item.event
        if event is None:
            return [step for left in item.lefts for step in self._on_left(left, item)]
        assert event.id is not None
        outcomes = self._assembler.on_event(event)
        if event.relation is not None and event.relation.commit is not None:
            steps = self._steps(outcomes, item.lefts)
            if item.lefts and not any(step.commit is event for step in steps):
                steps.append(Step(item.lefts))  # its transaction was discarded, and yet these are gone
            return steps
        return self._steps(outcomes) + [step for left in item.lefts for step in self._on_left(left, item)]

    def _on_left(self, left: Left, item: Item) -> list[Step]:
        if left.group:  # by an order of its own, whatever waits in the stream
            if item.by is not None:
                self._memory.passed(*item.by.id, item.by.head)
            return [Step((left,))]
        return self._steps(self._assembler.on_left(left))

    def _steps(self, outcomes: list[Outcome], riders: tuple[Left, ...] = ()) -> list[Step]:
        steps = []
        for outcome in outcomes:
            if isinstance(outcome, Applied):
                said = [passed for each in outcome.events if (passed := self._passed(each)) is not None]
                if outcome.commit is not None:
                    self._passed(outcome.commit)
                    said += riders
                if said or outcome.commit is not None:
                    steps.append(Step(tuple(said), outcome.commit))
        self.lost += len(self._assembler.dropped)
        self._assembler.dropped.clear()
        return steps

    def _passed(self, said: Event | Left) -> Event | Left | None:
        """What is to be applied of it: a late event is not, and yet what it replaced is gone."""
        if isinstance(said, Left):
            return said
        assert said.id is not None
        relation = said.relation
        head = Head(said.key, said.rank, relation, said.time_ns)
        late = self._memory.obsoleter(*said.id, head) is not None
        self._memory.passed(*said.id, head)
        if not late or (relation is not None and (relation.part is not None or relation.commit is not None)):
            return said
        self.obsoleted += 1
        grouped = relation is not None and relation.group
        return None if grouped or said.key is None else Left(said.key, said.id)
