"""What a logger is to have on disk and has not: it was lost, or has just become its to keep.

A row whose checksum is wrong is struck out by the store, and told. What it held counts as lacking: it is not served,
and asked for, of the other loggers in turn and of members that may still have it in memory. What comes is written as if
it were new. When everyone has said that it does not keep it, it is given up and told as gone. Everyone, because a
logger that is about to leave is none any more, and may have what others are to keep. A member says so only of what it
has not in memory either: that word may be here long before what it sends.

What a logger is to keep from now on, because another has left or come (protocol/handover.py), is had in the same way.
Some of that may never have existed for anybody: the logger began the stream late, behind a hole that a dead publisher
left. Such a span is not told as gone on the word of members that never had it, but only if some member had it.

A span that one turn of questions has not found is also sought like any other hole (protocol/seek.py). So everyone may
agree that it is void; and two loggers that both come to keep it, and both lack it, do not wait for each other.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

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


class Wanted(NamedTuple):
    """A span that this logger wants to have on disk."""

    existed: bool
    """Some member had it: it was delivered here, stood on this disk, or was collected by another logger."""
    without: dict[NodeId, None]
    """The members that have said that they do not keep it."""


class Mending:
    """Holes in the log of this logger that were none before."""

    __slots__ = ("_ctx", "_logger", "_lost", "_membership", "_on_unfound", "_touch", "_tries")

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        logger: LoggerRole,
        touch: Callable[[StreamId], None],
        on_unfound: Callable[[StreamId], None] = lambda _: None,
    ) -> None:
        """`touch(stream)` hears that its position has moved, `on_unfound(stream)` that a span of it was asked for
        everywhere, and has not come."""
        self._touch = touch
        self._on_unfound = on_unfound
        self._ctx = ctx
        self._membership = membership
        self._logger = logger
        self._lost: dict[StreamId, dict[Range, Wanted]] = {}
        self._tries = 0

    def __bool__(self) -> bool:
        return bool(self._lost)

    def lacking(self) -> dict[StreamId, int]:
        """How many events of each stream are asked for."""
        return {name: sum(last - first + 1 for first, last in lost) for name, lost in self._lost.items()}

    def on_damaged(self, spans: Iterable[Span]) -> None:
        for span in spans:
            log = self._logger.logs.get(span.stream)
            if log is not None:
                for lost in [lost for part in span.ranges for lost in log.committed.overlap(*part)]:
                    log.committed.remove(*lost)
                    self._lost.setdefault(span.stream, {})[lost] = Wanted(True, {})
        self._tries = 0

    def seek(self, stream: StreamId, parts: Iterable[Range], existed: bool = True) -> None:
        """These are ours to keep from now on; `existed`: some member had them."""
        for part in parts:
            self._lost.setdefault(stream, {})[part] = Wanted(existed, {})
            self._tries = 0

    def forget(self, stream: StreamId) -> None:
        """It is not ours to keep any more."""
        self._lost.pop(stream, None)

    def seeks(self, stream: StreamId, first: int, last: int) -> list[Range]:
        """What of a span we do not have, and wait for."""
        lost = self._lost.get(stream, {})
        return [(max(first, low), min(last, high)) for low, high in lost if low <= last and high >= first]

    def unfound(self, stream: StreamId) -> list[Range]:
        """Spans that were asked for everywhere, and have not come."""
        return sorted(self._lost.get(stream, ())) if self._lost and self._asked_everyone else []

    def settle(self, stream: StreamId, first: int, last: int) -> None:
        """A span was sought, and everyone has agreed on what became of it."""
        self._take(stream, ((first, last),))

    @property
    def _asked_everyone(self) -> bool:
        return self._tries > len(self._membership.active) + 1

    def on_round(self) -> None:
        """Ask again; give up what nobody can have any more."""
        if not self._lost or self._ctx.round % REPEAT_ROUNDS:
            return
        self._tries += 1
        members, loggers = self._membership.active, self._membership.loggers
        if self._asked_everyone:
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

    def on_gone(self, node: NodeId, spans: Iterable[Span], void: bool = False, existed: bool = False) -> None:
        """Another does not keep it, and had it once or not; or it knows that it is void."""
        for span in spans:
            for first, last, wanted in self._take(span.stream, span.ranges):
                if void:
                    self._logger.save(Void(Span(span.stream, ((first, last),))))
                else:
                    without = {**wanted.without, node: None}
                    self._lost.setdefault(span.stream, {})[first, last] = Wanted(wanted.existed or existed, without)

    def _take(self, stream: StreamId, ranges: Iterable[Range]) -> list[tuple[int, int, Wanted]]:
        """Cut some spans out of what is lost."""
        lost = self._lost.get(stream)
        found: list[tuple[int, int, Wanted]] = []
        for low, high in ranges if lost else ():
            assert lost is not None
            for part in list(lost):
                first, last = max(part[0], low), min(part[1], high)
                if first <= last:
                    wanted = lost.pop(part)
                    for rest in ((part[0], first - 1), (last + 1, part[1])):
                        if rest[0] <= rest[1]:
                            lost[rest] = Wanted(wanted.existed, dict(wanted.without))
                    found.append((first, last, wanted))
        if lost is not None and not lost:
            del self._lost[stream]
        return found

    def _give_up(self, everyone: tuple[NodeId, ...]) -> None:
        for name, lost in list(self._lost.items()):
            for part, wanted in list(lost.items()):
                if wanted.existed and all(node in wanted.without for node in everyone):
                    del lost[part]
                    if self._logger.give_up(name, *part):
                        self._touch(name)
            if lost:
                self._on_unfound(name)
            else:
                del self._lost[name]
