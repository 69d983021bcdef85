"""What the disk of a logger has lost: it was acknowledged, so it is to be had again from whoever has it.

A row whose checksum is wrong is struck out by the store, and told. What it held counts as lacking: it is not served,
and asked for, of the other loggers in turn and of members that may still have it in memory. What comes is written as if
it were new. When every other logger has collected it, or there is none, it is given up and told as gone.
"""

from collections.abc import Iterable

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import RANGES_MAX, Range, Recover, Request, Span
from gossamer.protocol.context import Context
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import LoggerRole
from gossamer.protocol.membership import Membership

REPEAT_ROUNDS = 4


class Mending:
    """Holes in the log of this logger that were none before."""

    __slots__ = ("_ctx", "_logger", "_lost", "_membership", "_tries")

    def __init__(self, ctx: Context, membership: Membership, logger: LoggerRole) -> None:
        self._ctx = ctx
        self._membership = membership
        self._logger = logger
        self._lost: dict[StreamId, dict[Range, dict[NodeId, None]]] = {}
        """Each with the loggers that have collected it."""
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

    def on_round(self) -> None:
        """Ask again; give up what nobody can have any more."""
        if not self._lost or self._ctx.round % REPEAT_ROUNDS:
            return
        self._tries += 1
        members, loggers = self._membership.active, self._membership.loggers
        if self._tries > len(members) + 1:
            self._give_up(loggers)
        spans = tuple(Span(name, IntervalSet(lost).ranges()[:RANGES_MAX]) for name, lost in self._lost.items())
        active = [node for node in loggers if node in members]
        if spans and active:
            self._ctx.send(active[self._tries % len(active)], Recover(spans))
        if spans and members:
            self._ctx.send(members[self._tries % len(members)], Request(spans))

    def on_repair(self, packet: Packet) -> None:
        """Somebody has sent what may be what was lost."""
        lost = self._lost.get(packet.stream)
        for part in list(lost or ()):
            assert lost is not None
            first, last = max(part[0], packet.first), min(part[1], packet.last)
            if first <= last:
                gone = lost.pop(part)
                for rest in ((part[0], first - 1), (last + 1, part[1])):
                    if rest[0] <= rest[1]:
                        lost[rest] = gone
                self._logger.store((packet.cut(first, last),), None)
                self._forget_if_done(packet.stream)

    def on_gone(self, logger: NodeId, spans: Iterable[Span]) -> None:
        """Another logger has collected some of it."""
        for span in spans:
            for part, gone in self._lost.get(span.stream, {}).items():
                if any(first <= part[0] and part[1] <= last for first, last in span.ranges):
                    gone[logger] = None

    def _give_up(self, loggers: tuple[NodeId, ...]) -> None:
        for name, lost in list(self._lost.items()):
            for part, gone in list(lost.items()):
                if all(node in gone for node in loggers):
                    del lost[part]
                    self._logger.log(name).gone.add(*part)
            self._forget_if_done(name)

    def _forget_if_done(self, stream: StreamId) -> None:
        if not self._lost[stream]:
            del self._lost[stream]
