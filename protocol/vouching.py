"""Whether an event of another logger's stream outlives this logger, so that a purge mark may count here (`replicas`).

A logger's word that it has an event is believed by all. If it has a mark instead ("obsolete for X"), X must not depend
on this logger's memory: X is in a stream of its own, or safe (protocol/safety.py), or on the disks of enough of the
loggers that keep it.

Positions do not tell that: each is where a logger's first hole is, and X may be behind one. Two streams whose first
events are obsolete for each other's last would wait for each other for ever: each of two loggers has one X on disk
behind a hole that waits for the other. So the loggers that keep X are asked whether X itself is on disk (`Vouch`).
"""

from collections.abc import Callable

from gossamer.messages.ids import EventId, NodeId, StreamId
from gossamer.messages.wire import RANGES_MAX, Span, Vouch
from gossamer.protocol.context import Context
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import LoggerRole
from gossamer.protocol.placement import Placement

ASKED_MAX = 1_000
"""So many events are asked about in a round."""
MEMORY_ROUNDS = 100


class Vouching:
    """Events of other loggers' streams that marks here wait for."""

    __slots__ = ("_asked_round", "_ctx", "_found", "_is_safe", "_logger", "_placement", "_wanted")

    def __init__(
        self, ctx: Context, placement: Placement, logger: LoggerRole, is_safe: Callable[[EventId], bool]
    ) -> None:
        self._ctx = ctx
        self._placement = placement
        self._logger = logger
        self._is_safe = is_safe
        self._wanted: dict[EventId, None] = {}
        self._found: dict[NodeId, dict[StreamId, IntervalSet]] = {}
        """Events that other loggers have said are on their disks."""
        self._asked_round = 0

    def vouches(self, event: EventId) -> bool:
        """Whether an event outlives this logger; if it is not known to, its keepers are asked in the next round."""
        if self._placement.is_mine(event.stream) or self._is_safe(event):
            return True
        keepers = self._placement.others(event.stream)
        if sum(self._is_found(node, event) for node in keepers) >= self._ctx.config.loggers_min:
            return True
        if len(self._wanted) < ASKED_MAX:
            self._wanted[event] = None
        return False

    def on_round(self) -> None:
        if self._wanted:
            self._asked_round = self._ctx.round
            asked: dict[NodeId, dict[StreamId, IntervalSet]] = {}
            for event in self._wanted:
                for node in self._placement.others(event.stream):
                    if not self._is_found(node, event):
                        asked.setdefault(node, {}).setdefault(event.stream, IntervalSet()).add(event.seq, event.seq)
            for node, streams in asked.items():
                spans = tuple(Span(name, found.ranges()[:RANGES_MAX]) for name, found in streams.items())
                self._ctx.send(node, Vouch(spans, True))
            self._wanted = {}
        elif self._found and self._ctx.round > self._asked_round + MEMORY_ROUNDS:
            self._found.clear()

    def on_vouch(self, sender: NodeId, message: Vouch) -> None:
        """Another logger asks what is on this disk, or answers what is on its own."""
        if not message.asks:
            found = self._found.setdefault(sender, {})
            for span in message.spans:
                for part in span.ranges:
                    found.setdefault(span.stream, IntervalSet()).add(*part)
            return
        have = []
        for span in message.spans:
            here = IntervalSet(self._logger.on_disk(span.stream))
            if parts := [part for each in span.ranges for part in here.overlap(*each)]:
                have.append(Span(span.stream, tuple(parts[:RANGES_MAX])))
        if have:
            self._ctx.send(sender, Vouch(tuple(have)))

    def forget(self, node: NodeId) -> None:
        """A new life of a logger may have lost its disk."""
        self._found.pop(node, None)

    def _is_found(self, node: NodeId, event: EventId) -> bool:
        found = self._found.get(node, {}).get(event.stream)
        return found is not None and event.seq in found
