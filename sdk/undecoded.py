"""Events that have come and nobody has taken yet: bytes, which are decoded when the first one is looked at.

A process with many subscriptions takes in what has come for all of them before the application reads any of it. What is
decoded then lies in memory, five times as large as it came, and has left the processor's caches when its turn comes;
decoded when it is taken it is there, and so is the memory of the one before.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Event
from gossamer.messages.ids import EventId
from gossamer.messages.session import Run


class Undecoded(Sequence[Event]):
    """The events of a run, as many as it says that they are. Of a malformed one none comes: its broker is at fault."""

    __slots__ = ("_count", "_events", "_run")

    def __init__(self, run: Run) -> None:
        """`PeerError` if they are too many."""
        self._run = run
        self._count = run.count
        self._events: list[Event] | None = None

    @property
    def first(self) -> EventId:
        return EventId(self._run.stream, self._run.ranges[0][0])

    def decoded(self) -> list[Event]:
        if self._events is None:
            try:
                self._events = self._run.events()
            except PeerError:
                self._events = []
        return self._events

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Event]:
        return iter(self.decoded())

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> list[Event]: ...
    def __getitem__(self, at: int | slice) -> Event | list[Event]:
        return self.decoded()[at]
