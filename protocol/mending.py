"""What a logger is to have on disk and has not: it was lost, or has just become its to keep.

A row whose checksum is wrong is struck out by the store, and told. What it held counts as lacking: it is not served,
and asked for, of the other loggers in turn and of members that may still have it in memory. What comes is written as if
it were new. When everyone has said that it does not keep it, it is given up and told as gone. Everyone, because a
logger that is about to leave is none any more, and may have what others are to keep. A member says so only of what it
has not in memory either: that word may be here long before what it sends.

What a logger is to keep from now on, because another has left or come (protocol/handover.py), is had in the same way.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import RANGES_MAX, Range, Recover, Request, Span
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Void
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import LoggerRole
from gossamer.protocol.membership import Membership

REPEAT_ROUNDS = 4
SPANS_MAX = 1_000
"""Streams that are asked for at a time."""


class Mending:
    """Holes in the log of this logger that were none before."""

    __slots__ = ("_ctx", "_logger", "_lost", "_membership", "_touch", "_tries")

    def __init__(
        self, ctx: Context, membership: Membership, logger: LoggerRole, touch: Callable[[StreamId], None]
    ) -> None:
        """`touch(stream)` hears that its position has moved."""
        self._touch = touch
        self._ctx = ctx
        self._membership = membership
        self._logger = logger
        self._lost: dict[StreamId, dict[Range, dict[NodeId, None]]] = {}
        """Each with those that do not keep it."""
        self._tries = 0

    def __bool__(self) -> bool:
        return bool(self._lost)

    def on_damaged(self, spans: Iterable[Span]) -> None:
        for span in spans:
            log = self._logger.logs.get(span.stream)
            if log is not None:
                for lost in [lost for part in span.ranges for lost in log.committed.overlap(*part)]:
                    log.committed.remove(*lost)
                    self._lost.setdefault(span.stream, {})[lost] = {}
        self._tries = 0

    def seek(self, stream: StreamId, parts: Iterable[Range]) -> None:
        """These are ours to keep from now on."""
        for part in parts:
            self._lost.setdefault(stream, {})[part] = {}
            self._tries = 0

    def forget(self, stream: StreamId) -> None:
        """It is not ours to keep any more."""
        self._lost.pop(stream, None)

    def seeks(self, stream: StreamId, first: int, last: int) -> list[Range]:
        """What of a span we do not have, and wait for."""
        lost = self._lost.get(stream, {})
        return [(max(first, low), min(last, high)) for low, high in lost if low <= last and high >= first]

    def on_round(self) -> None:
        """Ask again; give up what nobody can have any more."""
        if not self._lost or self._ctx.round % REPEAT_ROUNDS:
            return
        self._tries += 1
        members, loggers = self._membership.active, self._membership.loggers
        if self._tries > len(members) + 1:
            self._give_up((*members, *loggers))
        active = [node for node in loggers if node in members]
        logger = active[self._tries % len(active)] if active else None
        member = members[self._tries % len(members)] if members else None
        for node in dict.fromkeys((logger, member)):
            if node is not None:
                self.ask(node)
        if member is not None and self._lost:
            self._ctx.send(member, Request(self._spans()))

    def ask(self, node: NodeId) -> None:
        """Ask one that may have it; at once again, if it has sent some and there is more."""
        if self._lost:
            self._ctx.send(node, Recover(self._spans(), True))

    def _spans(self) -> tuple[Span, ...]:
        names = list(self._lost)
        turn = self._ctx.round // REPEAT_ROUNDS % len(names)
        streams = (names[turn:] + names[:turn])[:SPANS_MAX]  # each first in its turn: some may not be answered for long
        return tuple(Span(name, IntervalSet(self._lost[name]).ranges()[:RANGES_MAX]) for name in streams)

    def on_repair(self, packet: Packet, believed: Callable[[Packet], bool]) -> bool:
        """Somebody has sent what may be what was lost; whether it was. Marks instead of events are taken if they are
        `believed`, and not before all loggers were asked: another may have the events."""
        parts: Iterable[Range] = ((packet.first, packet.last),)
        if packet.holes and not (self._tries > len(self._membership.loggers) and believed(packet)):
            parts = IntervalSet((hole.first, hole.last) for hole in packet.holes).gaps(packet.first, packet.last)
        found = self._take(packet.stream, parts)
        for first, last, _ in found:
            self._logger.store((packet.cut(first, last),), None)
        return bool(found)

    def on_gone(self, node: NodeId, spans: Iterable[Span], void: bool = False) -> None:
        """Another does not keep it, or knows that it never existed."""
        for span in spans:
            for first, last, gone in self._take(span.stream, span.ranges):
                if void:
                    self._logger.save(Void(Span(span.stream, ((first, last),))))
                else:
                    self._lost.setdefault(span.stream, {})[first, last] = {**gone, node: None}

    def _take(self, stream: StreamId, ranges: Iterable[Range]) -> list[tuple[int, int, dict[NodeId, None]]]:
        """Cut some spans out of what is lost: what that was, and who does not have it."""
        lost = self._lost.get(stream)
        found: list[tuple[int, int, dict[NodeId, None]]] = []
        for low, high in ranges if lost else ():
            assert lost is not None
            for part in list(lost):
                first, last = max(part[0], low), min(part[1], high)
                if first <= last:
                    gone = lost.pop(part)
                    for rest in ((part[0], first - 1), (last + 1, part[1])):
                        if rest[0] <= rest[1]:
                            lost[rest] = dict(gone)
                    found.append((first, last, gone))
        if lost is not None and not lost:
            del self._lost[stream]
        return found

    def _give_up(self, everyone: tuple[NodeId, ...]) -> None:
        for name, lost in list(self._lost.items()):
            for part, gone in list(lost.items()):
                if all(node in gone for node in everyone):
                    del lost[part]
                    if self._logger.give_up(name, *part):
                        self._touch(name)
            if not lost:
                del self._lost[name]
