"""Consumers of a namespace that publishers wait for, and the room that the slowest of them leaves (002 §5.3).

    consumer   room   took something      counts
    a          900    just now            yes
    b          0      2 s ago             yes: publishers wait
    c          0      `max_s` ago         no: excused, until it has room again

In the papers every receiver blocks the sender, and a receiver that stops for good leaves the group by a view change
(000 §4.4). A subscription has no views, so time takes their place. A consumer without room that took nothing for
`max_s` is *excused*: publishers go on, and it falls behind as in a namespace without back-pressure. It counts again
once it has room: it has read on, and has caught up with the log.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

NEVER = float("inf")

Key = TypeVar("Key", bound=Hashable)


class Level(NamedTuple, Generic[Key]):
    """One consumer's queue now."""

    key: Key
    room: int
    """Events that the queue still takes; 0 or less if it is full."""
    taken: int
    """Grows whenever the consumer takes something."""


class Pressure(Generic[Key]):
    """The consumers of one namespace at one member."""

    __slots__ = ("_full", "excused", "max_s", "resumed", "stopped", "tightest")

    def __init__(self, max_s: float) -> None:
        self.max_s = max_s
        self._full: dict[Key, tuple[int, float]] = {}
        """Consumers without room: what they had taken when they last took something, and when that was seen."""
        self.excused: dict[Key, None] = {}
        self.stopped: list[Key] = []
        """Excused by the last call of `room`."""
        self.resumed: list[Key] = []
        """Excused before the last call of `room`, and counted again by it."""
        self.tightest: Key | None = None
        """The consumer with the least room, of those that count."""

    @property
    def blocking(self) -> list[Key]:
        """Consumers without room that publishers wait for."""
        return [key for key in self._full if key not in self.excused]

    def room(self, levels: Iterable[Level[Key]], now: float) -> int | None:
        """How many events all that count still take; None without any that count. `levels` are all consumers that may
        count: those that are not named any more are forgotten."""
        full, excused = self._full, self.excused
        self._full, self.excused = {}, {}
        self.stopped, self.resumed = [], []
        least: int | None = None
        self.tightest = None
        for key, room, taken in levels:
            if room > 0:
                if key in excused:
                    self.resumed.append(key)
            else:
                before, since = full.get(key, (taken, now))
                self._full[key] = before, since = (taken, now) if taken != before else (before, since)
                if key in excused or now >= since + self.max_s:
                    self.excused[key] = None
                    if key not in excused:
                        self.stopped.append(key)
                    continue
            if least is None or room < least:
                least, self.tightest = max(0, room), key
        return least

    def next_deadline(self) -> float:
        """When the next consumer is to be excused, unless it takes something before."""
        waiting = (since for key, (_, since) in self._full.items() if key not in self.excused)
        return min(waiting, default=NEVER) + self.max_s
