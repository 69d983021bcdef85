"""Final words about what is missing: that it is gone, or will never exist (rpbcast §4.3, §6.2).

Only loggers speak them. *Collected*: a logger had it and may not have it any more; it is gone when all that keep the
stream say so, since until then another may have it. *Void*: nobody has it and nobody will, by everyone's
word (protocol/seek.py).
"""

from collections.abc import Callable

from gossamer.messages.ids import NodeId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import PACKETS_MAX, RANGES_MAX, Gone, Lacking, Range, Repair, Seek, Span
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Reason, Void
from gossamer.protocol.gossip import Answers
from gossamer.protocol.gossip_buffer import fitting
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import LoggerRole
from gossamer.protocol.membership import Membership
from gossamer.protocol.placement import Placement
from gossamer.protocol.repair import Repair as RepairMachine
from gossamer.protocol.stream import Stream


class Closing:
    """Answers those who seek, and closes what nobody can supply."""

    __slots__ = ("_answers", "_ctx", "_excuse", "_logger", "_membership", "_placement", "_repair", "_stream")

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        placement: Placement,
        repair: RepairMachine,
        answers: Answers,
        logger: LoggerRole | None,
        stream: Callable[[Span], Stream | None],
        excuse: Callable[[Stream, int, int, Reason], None],
    ) -> None:
        """`stream` finds the stream of a span, and learns that it exists; `excuse` tells the application."""
        self._ctx = ctx
        self._membership = membership
        self._placement = placement
        self._repair = repair
        self._answers = answers
        self._logger = logger
        self._stream = stream
        self._excuse = excuse

    def on_gone(self, logger: NodeId, message: Gone) -> None:
        for span in message.spans:
            stream = self._stream(span) if span.ranges else None
            if stream is not None:
                for first, last in span.ranges:
                    if message.void:
                        self._void(stream, first, last)
                    else:
                        self._vote(stream, logger, first, last)

    def on_seek(self, sender: NodeId, message: Seek) -> None:
        """Supply what is at hand. Of the rest tell what was had, with marks if there are any, and promise to take the
        others from a logger only."""
        lacking: list[Span] = []
        had: list[Span] = []
        packets: list[Packet] = []
        marks: list[Packet] = []
        sought: list[Span] = []
        for span in message.lacks:
            stream = self._stream(span) if span.ranges else None
            if stream is None:
                had.append(span)  # retired: everyone had it
                continue
            found = [packet for part in span.ranges for packet in self._answers.find(span.stream, *part)]
            absent = IntervalSet(span.ranges)
            for packet in found:
                if self._is_of_use(packet):
                    packets.append(packet)
                    absent.remove(packet.first, packet.last)
                elif len(marks) < PACKETS_MAX:
                    marks.append(packet)  # who asks may have what it names, or get it yet
                else:
                    absent.remove(packet.first, packet.last)  # when it is asked again
            if self._logger is not None:
                if absent:
                    sought.append(Span(span.stream, absent.ranges()))
                for part in self._logger.on_disk(span.stream):
                    absent.remove(*part)
            gone = IntervalSet(part for each in absent.ranges() for part in self._had(stream, *each))
            for part in gone.ranges():
                absent.remove(*part)
            if gone:
                had.append(Span(span.stream, gone.ranges()[:RANGES_MAX]))
            if absent:
                lacking.append(Span(span.stream, absent.ranges()[:RANGES_MAX]))
                if self._membership.is_logger(sender) and message.seal:
                    for part in absent.ranges():
                        self._repair.seal(stream, *part)
        if self._logger is not None and sought:
            self._logger.on_recover(sender, sought)  # all at once: it reads once for each who asks
        if chosen := fitting(packets, self._ctx.config.repair_bytes_max):
            self._ctx.send(sender, Repair(chosen))
        if lacking or had:
            root = self._membership.table.root
            self._ctx.send(sender, Lacking(root, tuple(lacking), tuple(had), message.seal, tuple(marks)))

    def closed(self, stream: Stream, position: int) -> tuple[Range, ...]:
        """What beyond its position one that resumes is to take from a logger only: it is void, or may be declared so by
        what an earlier life has said. Whatever that was asked for we were asked for, too; but of what is from before
        our time, and not on this disk, we do not know."""
        if self._logger is None:
            return ()
        closed = IntervalSet(self._logger.void(stream.id))
        for known in (stream.never, stream.gaps.sealed if stream.gaps is not None else None):
            for part in known.ranges() if known is not None else ():
                closed.add(*part)
        if (first := self._logger.prefix(stream.id) + 1) < stream.start:
            closed.add(first, stream.start - 1)
        if position >= 0:
            closed.remove(0, position)
        return closed.ranges()[:RANGES_MAX]

    def seal(self, span: Span) -> None:
        """An earlier life may have said that it lacks this: what it promised holds for us."""
        stream = self._stream(span) if span.ranges else None
        if stream is not None:
            for part in span.ranges:
                self._repair.seal(stream, *part)

    def _is_of_use(self, packet: Packet) -> bool:
        """Whether it supplies something: marks alone do so only if they are final, or what they name is at hand."""
        return bool(packet.blob) or any(
            hole.final or self._answers.find(*(by := packet.obsoleter(hole)), by.seq) for hole in packet.holes
        )

    def on_agreed(self, stream: Stream, first: int, last: int, existed: bool) -> None:
        """Everyone has said that it cannot supply this; `existed`: somebody had it once."""
        if self._logger is None:
            self._excuse(stream, first, last, "lost")
        elif existed:
            self._logger.give_up(stream.id, first, last)
            self._excuse(stream, first, last, "collected")
        else:
            self._excuse(stream, first, last, "void")
            span = Span(stream.id, ((first, last),))
            self._logger.save(Void(span), lambda: self._ctx.multicast(self._membership.active, Gone((span,), True)))

    def _vote(self, stream: Stream, logger: NodeId, first: int, last: int) -> None:
        keepers = self._placement.others(stream.id)
        if stream.gaps is None or logger not in keepers:
            return
        votes = stream.gaps.votes
        votes.setdefault(logger, IntervalSet()).add(first, last)
        agreed = IntervalSet(stream.gaps.lacks(first, last))
        for node in keepers:
            said = votes.get(node, IntervalSet())
            for part in agreed.ranges():
                for unsaid in said.gaps(*part):
                    agreed.remove(*unsaid)
        for part in agreed.ranges():
            if self._placement.is_mine(stream.id) and self._logger is not None:
                self._logger.give_up(stream.id, *part)
            self._excuse(stream, *part, "collected")

    def _void(self, stream: Stream, first: int, last: int) -> None:
        """These will never exist; a logger writes that down as well."""
        if stream.gaps is None:
            return
        if self._placement.is_mine(stream.id) and self._logger is not None:
            for part in stream.gaps.lacks(first, last):
                self._logger.save(Void(Span(stream.id, (part,))))
        self._excuse(stream, first, last, "void")

    def _had(self, stream: Stream, first: int, last: int) -> list[Range]:
        """What of a span existed and is at hand no more: delivered here, or collected by this logger."""
        parts = stream.had(first, last)
        return parts if self._logger is None else parts + self._logger.collected(stream.id, first, last)
