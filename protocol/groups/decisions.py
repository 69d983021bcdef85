"""The decisions of one view at one member, in their order, and what becomes of a view that has ended.

A decision is kept until it is applied here and everyone has heard of it. The last view is kept for whoever has not left
it yet: it is told how that view ended, and gets what it lacks of it.
"""

from collections.abc import Iterator

from gossamer.messages.ids import NodeId
from gossamer.protocol.groups.wire import Cast, Data, Decided, Lack, Message, Span, Status, Value

DATA_MAX = 1_024
"""Messages in one `Data`."""


class Decisions:
    """They are numbered from 0."""

    __slots__ = ("_first", "_heard", "_told", "_values", "applied")

    def __init__(self, others: list[int]) -> None:
        self._first = 0
        self._values: list[Value] = []
        self._heard = dict.fromkeys(others, 0)
        self._told = 0
        """What was decided by the last tick: whoever does not know it by now has not heard it."""
        self.applied = 0

    @property
    def count(self) -> int:
        """How many there are; the number of the next one."""
        return self._first + len(self._values)

    @property
    def last(self) -> Value | None:
        return self._values[-1] if self._values else None

    def add(self, value: Value) -> None:
        self._values.append(value)

    def at(self, number: int) -> Value | None:
        return self._values[number - self._first] if self._first <= number < self.count else None

    def since(self, number: int) -> Iterator[tuple[int, Value]]:
        """From this one on."""
        first = max(number, self._first)
        return enumerate(self._values[first - self._first :], first)

    def tick(self) -> None:
        self._told = self.count

    def hear(self, place: int, count: int) -> list[tuple[int, Value]]:
        """A member has heard of so many; those that it should have heard of besides."""
        if count > self._heard.get(place, count):
            self._heard[place] = count
        return [(number, value) for number, value in self.since(count) if number < self._told]

    def forget(self) -> None:
        """What is applied here and known to all."""
        if self._values:
            keep = min([self.applied, *self._heard.values()])
            del self._values[: max(0, keep - self._first)]
            self._first = max(self._first, keep)


class Past:
    """A view that has ended."""

    __slots__ = ("_decisions", "_store", "members", "number")

    def __init__(
        self, number: int, members: tuple[NodeId, ...], decisions: Decisions, store: list[dict[int, Cast]]
    ) -> None:
        self.number, self.members = number, members
        self._decisions, self._store = decisions, store

    def answer(self, message: Status | Lack) -> list[Message]:
        """To a member that is still in it."""
        told: list[Message] = []
        if isinstance(message, Status):
            told += [Decided(self.number, number, value) for number, value in self._decisions.since(message.decided)]
            last = self._decisions.last
            assert last is not None, "a view ends with a decision"
            marks = zip(message.held, last.marks)  # noqa: B905
            spans = [Span(place, had + 1, mark) for place, (had, mark) in enumerate(marks) if had < mark]
        else:
            spans = [span for span in message.spans if span.origin < len(self.members)]
        for span in spans:
            last_seq = min(span.last, span.first + DATA_MAX - 1)
            casts = tuple(map(self._store[span.origin].get, range(span.first, last_seq + 1)))
            told.append(Data(self.number, span.origin, span.first, casts))
        return told
