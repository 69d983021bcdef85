"""Streams that move between loggers, as loggers come and go (`replicas`; who keeps what: protocol/placement.py).

    comes       A logger that is to keep a stream from now on stores what comes at once, and asks the others for what
                was before (protocol/mending.py). Until it has that, its position is where its log has its first hole:
                it acknowledges nothing that it does not have.
    goes        A logger that is not to keep a stream any more stores no more of it, serves what it has, and forgets
                that only when all that keep it have it on disk.

So there are never fewer copies than there were. Two nodes may know different loggers for a while, and then differ in
who keeps what: a stream is stored by both then, or is asked for of one that says nothing yet, and is asked again. What
is on a disk counts wherever it is, and what is not never does.

A logger that leaves for good says first that it is none any more, and goes when others have all that it kept. Streams
that are over do not move: nobody could tell a new keeper of them. They stay where they are, as long as they are kept.
"""

from collections.abc import Callable

from gossamer.messages.ids import StreamId
from gossamer.protocol.effects import Moved
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import Log, LoggerRole
from gossamer.protocol.mending import Mending
from gossamer.protocol.placement import Placement
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.stability import Stability
from gossamer.protocol.stream import Stream


class Handover:
    """What comes to this logger, and what goes."""

    __slots__ = (
        "_buffer", "_going", "_logger", "_mending", "_mine", "_placement", "_receiver", "_stability", "_touch",
    )  # fmt: skip

    def __init__(
        self,
        placement: Placement,
        logger: LoggerRole,
        mending: Mending,
        receiver: Receiver,
        buffer: GossipBuffer,
        stability: Stability,
        touch: Callable[[StreamId], None],
    ) -> None:
        """`touch(stream)` hears that a position means something else now."""
        self._placement = placement
        self._logger = logger
        self._mending = mending
        self._receiver = receiver
        self._buffer = buffer
        self._stability = stability
        self._touch = touch
        self._mine: dict[StreamId, None] = {}
        """What was ours when we last looked."""
        self._going: dict[StreamId, None] = {}
        """On its way out of the store."""

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

    def on_moved(self, name: StreamId) -> None:
        """Nothing of it is left here; if it has become ours again meanwhile, have it again."""
        self._going.pop(name, None)
        if name in self._mine and name in self._receiver.streams:
            self._take_over(self._receiver.streams[name])

    def forget(self, name: StreamId) -> None:
        """It is over: it stays where it is."""
        self._mine.pop(name, None)
        self._mending.forget(name)

    def on_round(self) -> None:
        """Let go of what others have."""
        for name, log in list(self._logger.logs.items()):
            if name not in self._going and self._may_go(name, log):
                self._going[name] = None
                self._logger.save(Moved(name))

    @property
    def done(self) -> bool:
        """Whether nothing is left that others are to keep."""
        kept = (log.committed and not log.retired for log in self._logger.logs.values())
        return not self._placement.keepers("") or not any(kept)

    def _may_go(self, name: StreamId, log: Log) -> bool:
        if log.retired or not log.committed or self._placement.is_mine(name):
            return False
        keepers = self._placement.others(name)
        last = log.committed.ranges()[-1][1]
        return bool(keepers) and self._stability.holders(keepers, name, last) == len(keepers)

    def _take_over(self, stream: Stream) -> None:
        """Have all that was received while it was not ours, or was there before; what we lack comes as ever."""
        if stream.lastseen < 0:
            return
        log = self._logger.log(stream.id)
        absent = IntervalSet(((0, stream.lastseen),))
        settled = (*log.committed.ranges(), *log.void.ranges(), *log.gone.ranges(), (0, max(0, log.collected)))
        lacks = stream.gaps.lacks(0, stream.lastseen) if stream.gaps is not None else []
        for part in (*(settled if log.collected >= 0 else settled[:-1]), *lacks):
            absent.remove(*part)
        for part in absent.ranges():
            at_hand = [packet for packet in self._buffer.find(stream.id, *part) if not packet.holes]
            self._logger.store(at_hand, None)
            for packet in at_hand:
                absent.remove(packet.first, packet.last)
        self._mending.seek(stream.id, absent.ranges())
