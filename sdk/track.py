"""How far a subscription has come: what the next broker has to be told, and what an application may keep.

A position is a dictionary, fit for JSON: the last seq of each stream, and under `"time_ns"` the time up to which
everything of all other streams was had, or was not wanted. It comes from brokers' clocks, which tell from time to time
how far a subscription is (`Reached`); so it moves, though nothing may match for hours.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from operator import attrgetter
from typing import Any, Literal

from gossamer.messages.errors import UsageError
from gossamer.messages.event import INT_MAX, Event, Head, Relation
from gossamer.messages.ids import SEQ_MAX, EventId, StreamId, group_of
from gossamer.messages.session import POSITIONS_MAX, Departure, Start

STREAMS_MAX = 10_000
SHOWN_MAX = 100_000
"""Of each stream; what was shown of other keys, longest ago, is not told to the next broker."""
AHEAD_NS = 60 * 10**9
"""Publishers' clocks may be ahead of the loggers' by this (protocol/clock.py)."""
TIME, LAST_PER_KEY = "time_ns", "last_per_key"

_key, _deleted = attrgetter("key"), attrgetter("deleted")

Position = dict[str, int]
Beginning = Literal["new", "all", "last_per_key"] | datetime | Mapping[str, int]


def start_of(start: object, group: str) -> Start | None:
    """Where an application wants to begin; None: with what comes next."""
    match start:
        case "new":
            return None
        case "all":
            return Start()
        case "last_per_key":
            return Start(last_per_key=True)
        case datetime():
            if start.tzinfo is None:
                raise UsageError(f"start: {start.isoformat()} has no time zone; .astimezone() gives it one")
            published_ns = min(max(0, round(start.timestamp() * 1e6) * 1_000), INT_MAX)  # no clock comes further
            return Start(since_ns=max(0, published_ns - AHEAD_NS), published_ns=published_ns)
        case Mapping():
            return _position(start, group)
    raise UsageError(f'start: "new", "all", "last_per_key", a datetime or a position, not {start!r}'[:200])


def _position(position: Mapping[Any, Any], group: str) -> Start:
    streams = {name: last for name, last in position.items() if name not in (TIME, LAST_PER_KEY)}
    if len(streams) > POSITIONS_MAX:
        raise UsageError(f"start: a position has at most {POSITIONS_MAX} streams, not {len(streams)}")
    for name, last in position.items():
        if not isinstance(name, str) or type(last) is not int or not -1 <= last <= SEQ_MAX:
            raise UsageError(f"start: {name!r}: {last!r} is not a stream and the last of its numbers"[:200])
    for name in streams:
        if group_of(name) != group or len(name) <= len(group) + 1:
            raise UsageError(f"start: {name!r} is not a stream of the group {group!r}"[:200])
    return Start(streams, max(0, position.get(TIME, 0)), last_per_key=bool(position.get(LAST_PER_KEY, 0)))


class Track:
    """One subscription's positions, over all its sessions."""

    __slots__ = (
        "_newest_upto", "_said", "_shown", "_shown_in_group", "_since_ns", "_start", "before", "filtered", "positions",
    )  # fmt: skip

    def __init__(self, start: Start | None, filtered: bool) -> None:
        self._start = start
        """Where it was to begin, until it has come to where its broker is."""
        self.filtered = filtered
        """Whether anything can leave: to one that everything matches nothing does."""
        self.positions: dict[StreamId, int] = {} if start is None else dict(start.positions)
        self.before: dict[StreamId, int] = dict(self.positions)
        """What had come when this session began: that may come again."""
        self._since_ns = 0 if start is None else start.since_ns
        self._newest_upto: dict[StreamId, int] = {}
        """Began with `last_per_key`, and has come to where its broker is: behind this it has taken the newest."""
        self._said = False
        self._shown: dict[StreamId, dict[str, int]] = {}
        self._shown_in_group: dict[str, tuple[EventId, int | float | None, int]] = {}

    # What is told ---------------------------------------------------------------------------------------------------

    def start(self) -> Start | None:
        """For a new session."""
        self.before = dict(self.positions)
        if not self._said or (self._start is None and not self._since_ns):
            self._said = True
            return self._start
        start = self._start or Start()
        shown = tuple(self._showing())[-POSITIONS_MAX:]
        if start.last_per_key:  # of the newest events some may have come, and which is known by what is shown
            self.before = {}
            return Start(start.positions, start.since_ns, last_per_key=True, shown=shown)
        return Start(self.before, self._since_ns, start.published_ns, shown=shown)

    @property
    def _newest_first(self) -> bool:
        """Whether it began with `last_per_key`, and is still there."""
        return self._start is not None and self._start.last_per_key

    def position(self, untaken: Iterable[EventId]) -> Position:
        """For the application, which has not taken these yet."""
        if self._newest_first:
            return {LAST_PER_KEY: 1}
        positions = dict(self.positions)
        for stream, seq in untaken:
            if seq <= positions.get(stream, seq):
                positions[stream] = seq - 1
        return {TIME: self._since_ns, **positions}

    def taken(self, untaken: Iterable[EventId]) -> Position:
        """For the loggers, of a durable one. If it began with the newest event of each key it says nothing before it
        has taken all of those: they stand before the place where its bookmark begins."""
        if self._newest_first:
            return {}
        positions = self.position(untaken)
        if any(positions.get(stream, last) < last for stream, last in self._newest_upto.items()):
            return {}
        self._newest_upto = {}
        return positions

    def _showing(self) -> Iterable[tuple[EventId, Head]]:
        for stream, keys in self._shown.items():
            for key, seq in keys.items():
                if seq >= 0:
                    yield EventId(stream, seq), Head(key)
        for key, (id, rank, time_ns) in self._shown_in_group.items():
            yield id, Head(key, rank, Relation(group=True), time_ns)

    # What is heard --------------------------------------------------------------------------------------------------

    def began(self, time_ns: int, positions: Mapping[StreamId, int]) -> None:
        """What was newest up to here comes first."""
        if self._newest_first:
            self._start = Start(dict(positions), time_ns, last_per_key=True)

    def reached(self, time_ns: int, positions: Mapping[StreamId, int]) -> None:
        latest = self._newest_first
        self._start = None
        self._since_ns = max(self._since_ns, time_ns)
        for stream, last in positions.items():
            self.moved(stream, last)
        if latest:
            self._newest_upto = dict(self.positions)
            if not self.filtered:
                self._shown.clear()
                self._shown_in_group.clear()

    def had(self, stream: StreamId) -> int:
        """Up to where a stream had come before this session."""
        return self.before.get(stream, -1)

    def moved(self, stream: StreamId, last: int) -> None:
        positions = self.positions
        positions[stream] = max(last, positions.pop(stream, -1))  # last: it goes last
        if len(positions) > STREAMS_MAX:
            oldest = next(iter(positions))
            del positions[oldest]
            self._shown.pop(oldest, None)

    def came(self, stream: StreamId, seqs: Sequence[int], events: Sequence[Event]) -> None:
        """Plain events of one stream, and their numbers."""
        if not self.filtered and not self._newest_first:
            return
        newest: dict[str | None, int] = dict(zip(map(_key, events), seqs, strict=False))
        if any(map(_deleted, events)):
            newest = {event.key: -1 if event.deleted else seq for event, seq in zip(events, seqs, strict=False)}
        newest.pop(None, None)
        if newest:
            shown: dict[Any, int] = self._shown.setdefault(stream, {})
            deque(map(shown.pop, newest, repeat(None)), maxlen=0)  # what was shown last goes last
            shown.update(newest)
            while len(shown) > SHOWN_MAX:
                del shown[next(iter(shown))]

    def came_one(self, event: Event) -> None:
        """An event of any kind."""
        relation, key = event.relation, event.key
        assert event.id is not None
        if relation is None or not relation.group:
            self.came(event.id.stream, [event.id.seq], [event])
        elif (self.filtered or self._newest_first) and key is not None:
            self._shown_in_group.pop(key, None)
            if not event.deleted:
                self._shown_in_group[key] = event.id, event.rank, event.time_ns
            if len(self._shown_in_group) > SHOWN_MAX:
                del self._shown_in_group[next(iter(self._shown_in_group))]

    def left(self, departures: Iterable[Departure]) -> None:
        for key, id, in_group in departures:
            if key is None:
                continue
            if in_group:
                if key in self._shown_in_group and self._shown_in_group[key][0] == id:
                    del self._shown_in_group[key]
            elif (shown := self._shown.get(id.stream)) is not None and shown.get(key, id.seq + 1) <= id.seq:
                del shown[key]
