"""Streams that move between loggers, as loggers come and go (`replicas`; who keeps what: protocol/placement.py).

    comes       A logger that is to keep a stream from now on stores what comes at once, and asks the others for what
                was before (protocol/mending.py). Until it has that, its position is where its log has its first hole:
                it acknowledges nothing that it does not have.
    goes        A logger that is not to keep a stream any more stores no more of it, serves what it has, and forgets
                that only when all that keep it have it on disk.

So there are never fewer copies than there were. Two nodes may know different loggers for a while, and then differ in
who keeps what: a stream is stored by both then, or is asked for of one that says nothing yet, and is asked again. What
is on a disk counts wherever it is, and what is not never does.

A logger that leaves for good says first that it is none any more, and goes when others have all that it kept. So it is
without `replicas`, too, where each logger keeps everything: what one alone has on disk may have been acknowledged for
that. Where fewer than `loggers_min` others would be left, it stays what it is until there are more.

Two may resign at the same time, each counting on the other. So what another has on disk counts only if it says so
knowing that this one is no logger any more, and one that has resigned goes when `loggers_min` loggers know of it: who
knows does not resign if it is needed. And when too few are left after all, the first by name of those that have
resigned is a logger again, and stays.

What it has promised to named publishers it tells the others before it resigns, and promises no more: from then on
theirs is the majority that is asked (protocol/numbering.py). So it does with the bookmarks of durable subscriptions, of
which it may be the only one to know the last, or any (protocol/durable.py). It tells all the others, and those that
have resigned and are still there: each of them may be the one that is asked in the end.

    over        Nobody speaks of streams that are over but the loggers that have them. When loggers come or go each
                tells those that are to keep such a stream what it has of it, until they say that they have it, too.
                What is on a disk already stays there until it is collected: somebody may be about to read it.
                So a logger that is new, or whose disk was replaced, backfills the finished streams, with `replicas`
                and without (protocol/coverage.py).
"""

from collections.abc import Callable
from itertools import islice

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import RANGES_MAX, CheckedOut, Kept, Span
from gossamer.protocol.context import Context
from gossamer.protocol.durable import Bookmarks
from gossamer.protocol.effects import Moved, Void
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import Log, LoggerRole
from gossamer.protocol.membership import Membership
from gossamer.protocol.mending import REPEAT_ROUNDS, SPANS_MAX, Mending
from gossamer.protocol.placement import Placement
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.stability import Stability
from gossamer.protocol.stream import Stream

UNKNOWN = (-1, -1)
OFFERS_MAX = 4 * SPANS_MAX
"""Finished streams looked at each time offers are made, so that a million of them do not hold up a round."""


class Handover:
    """What comes to this logger, and what goes."""

    __slots__ = (
        "_bookmarks", "_buffer", "_ctx", "_going", "_informed", "_logger", "_membership", "_mending", "_mine",
        "_offers", "_placement", "_receiver", "_stability", "_touch",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        placement: Placement,
        logger: LoggerRole,
        mending: Mending,
        bookmarks: Bookmarks,
        receiver: Receiver,
        buffer: GossipBuffer,
        stability: Stability,
        touch: Callable[[StreamId], None],
    ) -> None:
        """`touch(stream)` hears that a position means something else now."""
        self._ctx = ctx
        self._membership = membership
        self._placement = placement
        self._logger = logger
        self._mending = mending
        self._bookmarks = bookmarks
        self._receiver = receiver
        self._buffer = buffer
        self._stability = stability
        self._touch = touch
        self._mine: dict[StreamId, None] = {}
        """What was ours when we last looked."""
        self._going: dict[StreamId, None] = {}
        """On its way out of the store."""
        self._offers: dict[StreamId, dict[NodeId, None]] = {}
        """Streams that are over, and which of those that are to keep them have them; until all do."""
        self._informed: dict[StreamId, dict[NodeId, tuple[int, int]]] = {}
        """What others know to be promised to named publishers, by epoch and number."""

    def on_opened(self, stream: Stream) -> None:
        if self._placement.is_mine(stream.id):
            self._mine[stream.id] = None
        else:
            # It begins here with what comes next, so there is no gap to ask for. Only our position says that nobody
            # need keep for us what was before; and whoever knows that the stream is over tells us so.
            self._touch(stream.id)

    def on_loggers(self) -> None:
        """There are others now, or fewer: see what is ours."""
        for name, stream in self._receiver.streams.items():
            if not self._placement.is_mine(name):
                if self._mine.pop(name, self) is None:
                    self._touch(name)
                    self._mending.forget(name)
            elif name not in self._mine:
                self._mine[name] = None
                self._touch(name)
                self._take_over(stream)
        for name, log in self._logger.logs.items():
            if log.retired and log.committed:
                self._offers.setdefault(name, {})

    def on_new_life(self, node: NodeId) -> None:
        """Another logger has started again, perhaps with an empty disk: it has to say again what it holds."""
        for having in self._offers.values():
            having.pop(node, None)

    def has_all_offers(self, node: NodeId) -> bool:
        """Whether a logger holds every finished stream that this one holds and that it is to keep."""
        return all(node in having or node not in self._placement.others(name) for name, having in self._offers.items())

    def on_moved(self, name: StreamId) -> None:
        """Nothing of it is left here; if it has become ours again meanwhile, have it again."""
        self._going.pop(name, None)
        if name in self._mine and name in self._receiver.streams:
            self._take_over(self._receiver.streams[name])

    def forget(self, name: StreamId) -> None:
        """It is over; what of it was on its way out stays, until it is collected."""
        mine = self._mine.pop(name, self) is None
        if mine and self._is_spread:  # or it is known to be over, and what we ask for is what others have
            self._mending.forget(name)
        if self._logger.on_disk(name) and not self._placement.is_mine(name):
            self._offers[name] = {}

    def on_round(self) -> None:
        """Let go of what others have."""
        for name, log in list(self._logger.logs.items()) if self._is_spread else ():
            if name not in self._going and self._may_go(name, log):
                self._going[name] = None
                self._logger.save(Moved(name))
        if self._offers and not self._ctx.round % REPEAT_ROUNDS:
            self._offer()

    def on_kept(self, sender: NodeId, message: Kept) -> bool:
        """Another has these streams, which are over; we are to have them, or want to know that it does. Returns whether
        we lack something of an offer."""
        have, lacking = [], False
        for span in message.spans:
            if not message.asks:
                having, told = self._offers.get(span.stream), IntervalSet(span.ranges)
                if having is not None and not any(told.gaps(*part) for part in self._logger.on_disk(span.stream)):
                    having[sender] = None
            elif span.stream in self._receiver.retired and self._placement.is_mine(span.stream):
                if self._has(span):
                    have.append(span)
                else:
                    lacking = True
        if have:
            self._ctx.send(sender, Kept(tuple(have)))
        return lacking

    def resign(self) -> bool:
        """Whether this logger is none any more, and goes when others have what it has. It is one again if there turn
        out to be too few without it: another has resigned as well, or is gone for good."""
        membership = self._membership
        if not membership.own.logger:
            if not self.may_resign and membership.is_first_to_return:
                self.stay()
            return self.may_resign
        if not self.may_resign:
            self.stay()
            return False
        self._logger.promises = False
        told = self._has_told_promises(), self._has_told_bookmarks()
        if not all(told):
            return False
        for node in membership.loggers:
            self._stability.forget(node)  # it says it all again when it knows
        self._offers.clear()
        membership.resign()
        self.on_loggers()
        return True

    def stay(self) -> None:
        """Be a logger again if it has resigned, and promise numbers and confirm bookmarks as any logger does. None that
        has resigned does so: who knows of that does not ask it, and it does not hand anything over any more."""
        if self._membership.is_resigned:
            self._membership.resume_office()
            self.on_loggers()
        self._logger.promises = True
        self._bookmarks.keep()

    def on_promised(self, sender: NodeId, message: CheckedOut) -> None:
        """Another is about to resign, and this is promised there; or it answers what is promised at its own."""
        stream = message.stream
        if message.granted:
            self._logger.on_promised(message)
            self._logger.when_saved(lambda: self._ctx.send(sender, self._logger.promised(stream, False)))
        elif stream in self._logger.logs:
            self._informed.setdefault(stream, {})[sender] = message.promised_epoch, message.promised_last

    def _has_told_promises(self) -> bool:
        """Whether all that may be asked from now on know what was promised here; those that do not are told. Most of
        them would not be enough: these may resign as well, and count on each other."""
        known = True
        for name, log in self._logger.logs.items():
            if log.promise is not None:
                promised, informed = (log.promise.epoch, log.promise.last), self._informed.get(name, {})
                for node in self._membership.heirs:
                    if informed.get(node, UNKNOWN) < promised:
                        known = False
                        self._ctx.send(node, self._logger.promised(name, True))
        return known or self._is_alone

    def _has_told_bookmarks(self) -> bool:
        return self._bookmarks.hand_over()

    @property
    def may_resign(self) -> bool:
        """Whether there are loggers enough without this one."""
        return len(self._membership.loggers) >= self._ctx.config.loggers_min or self._is_alone

    @property
    def done(self) -> bool:
        """Whether nothing is left that others are to keep, and they know that it is theirs."""
        if not self._membership.is_released and not self._is_alone:
            return False
        return not self._offers and not any(self._is_left(name, log) for name, log in self._logger.logs.items())

    @property
    def waits_for(self) -> str:
        """What holds a logger that is to leave, in words; nothing if it may go."""
        loggers, needed = self._membership.loggers, self._ctx.config.loggers_min
        if not self.may_resign:
            return f"more loggers: {len(loggers)} would be left, and each event is to be on {needed}"
        if self.done:
            return ""
        left = [(name, log) for name, log in self._logger.logs.items() if self._is_left(name, log)]
        lacking = [node for node in loggers if any(not self._is_with(node, *each) for each in left)]
        lacking += [node for node in loggers if any(node not in having for having in self._offers.values())]
        if not lacking:
            return f"{', '.join(loggers)} to know that it goes"
        return f"{', '.join(dict.fromkeys(lacking))} to keep what is only here"

    @property
    def _is_alone(self) -> bool:
        """Whether there is nobody to be a logger for, and nothing to keep."""
        return not self._membership.others and not any(log.committed for log in self._logger.logs.values())

    @property
    def _is_spread(self) -> bool:
        return self._ctx.config.replicas is not None

    def _is_left(self, name: StreamId, log: Log) -> bool:
        """Whether something of it is only here, or (`replicas`) still to be let go of."""
        return bool(log.committed) and not log.retired and (self._is_spread or not self._may_go(name, log))

    def _may_go(self, name: StreamId, log: Log) -> bool:
        if log.retired or not log.committed or self._placement.is_mine(name):
            return False
        keepers = self._placement.others(name)
        return len(keepers) >= self._ctx.config.loggers_min and all(self._is_with(node, name, log) for node in keepers)

    def _is_with(self, node: NodeId, name: StreamId, log: Log) -> bool:
        """Whether another has on disk all of a stream that we have, the void numbers behind its events too: nobody else
        need know that they never existed."""
        last = log.committed.ranges()[-1][1]
        if last + 1 in log.void:
            last = log.void.run(last + 1)
        return bool(self._stability.holders((node,), name, last))

    def _offer(self) -> None:
        """Tell who is to keep what is over what there is of it, until it has it."""
        told: dict[NodeId, list[Span]] = {}
        for name in list(islice(self._offers, OFFERS_MAX)):
            having = self._offers.pop(name)
            kept, keepers = self._logger.on_disk(name), self._placement.others(name)
            lacking = [node for node in keepers if node not in having]
            if not kept or (not lacking and (keepers or self._placement.is_mine(name))):
                continue
            self._offers[name] = having  # behind the others, which have their turn first
            for node in lacking:
                spans = told.setdefault(node, [])
                if len(spans) < SPANS_MAX:
                    spans.append(Span(name, kept[:RANGES_MAX]))
        for node, spans in told.items():
            self._ctx.send(node, Kept(tuple(spans), True))

    def _has(self, span: Span) -> bool:
        """Whether all of it is on this disk, or was; if not, it is asked for."""
        log = self._logger.log(span.stream)
        told, absent = IntervalSet(span.ranges), IntervalSet(span.ranges)
        for part in (*log.committed.ranges(), (0, log.collected)):
            if part[1] >= part[0]:
                absent.remove(*part)
        if not absent:
            return True
        for gap in told.gaps(0, span.ranges[-1][1]):  # nobody has that any more
            for part in log.committed.gaps(*gap):
                log.gone.add(*part)
        for part in absent.ranges():
            log.gone.remove(*part)
            if not self._mending.seeks(span.stream, *part):
                self._mending.seek(span.stream, (part,))
        return False

    def _take_over(self, stream: Stream) -> None:
        """Have all that was received while it was not ours, or was there before; what we lack comes as ever."""
        if stream.lastseen < 0:
            return
        log = self._logger.log(stream.id)
        absent = IntervalSet(((0, stream.lastseen),))
        for part in stream.never.ranges() if stream.never is not None else ():
            absent.remove(*part)  # told to us as void while another kept the stream
            for unsaid in log.void.gaps(*part):
                self._logger.save(Void(Span(stream.id, (unsaid,))))
        settled = (*log.committed.ranges(), *log.void.ranges(), *log.gone.ranges(), (0, max(0, log.collected)))
        lacks = stream.gaps.lacks(0, stream.lastseen) if stream.gaps is not None else []
        for part in (*(settled if log.collected >= 0 else settled[:-1]), *lacks):
            absent.remove(*part)
        for part in absent.ranges():
            at_hand = [packet for packet in self._buffer.find(stream.id, *part) if not packet.holes]
            self._logger.store(at_hand, None)
            for packet in at_hand:
                absent.remove(packet.first, packet.last)
        unheard = IntervalSet(absent.overlap(0, stream.start - 1)) if stream.start else IntervalSet()
        for part in unheard.ranges():
            absent.remove(*part)
        self._mending.seek(stream.id, absent.ranges())
        self._mending.seek(stream.id, unheard.ranges(), existed=False)
