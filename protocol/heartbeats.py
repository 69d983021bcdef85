"""Heartbeats of idle streams as one signature (rpbcast §5.1).

A stream's owner announces, once, that it is idle at seq s: that is what tells a receiver that it lacks the last event.
The announcement puts the stream into everyone's table; any seq beyond s takes it out again; never a local timer, or
two members with different clocks would differ for ever. Rounds compare the tables' roots, and members that differ
find the entries in question and merge both ways.

Ended streams stay in the table until the leader sees that every member has them in full, and retires them.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import Active, Beat, Beats, Idle, Position, Retire
from gossamer.protocol.context import Context
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.signature import SignedTable
from gossamer.protocol.stream import Stream


class Heartbeats:
    """The table of idle streams."""

    __slots__ = ("_ctx", "_on_retired", "_receiver", "ended", "table")

    def __init__(self, ctx: Context, receiver: Receiver, on_retired: Callable[[StreamId], None]) -> None:
        self._ctx = ctx
        self._receiver = receiver
        self._on_retired = on_retired
        self.table: SignedTable[StreamId, Beat] = SignedTable(str.encode, lambda _, beat: _digest(beat))
        self.ended: dict[StreamId, int] = {}
        """Ended streams that are not retired yet, with their last seq."""

    def announce(self, beats: tuple[Beat, ...], to: tuple[NodeId, ...]) -> None:
        """Our own streams have gone idle (or ended): one multicast; signatures correct what it misses."""
        for beat in beats:
            self.on_beat(beat)
        self._ctx.multicast(to, Idle(beats))

    def on_beat(self, beat: Beat) -> None:
        known = self._receiver.streams.get(beat.stream)
        if known is not None and known.limit is not None and not beat.ended and beat.last > known.limit:
            return  # its publisher is dead: only the leader says where it ends
        stream = self._receiver.learn(beat.stream, beat.last)
        if stream is None or beat.last < stream.lastseen:
            return
        if stream.beat is not None and stream.beat.last == beat.last and stream.beat.ended >= beat.ended:
            return
        stream.beat = beat
        self.table.set(beat.stream, beat)
        if beat.ended:
            self.ended[beat.stream] = beat.last
            if stream.limit is not None:
                stream.limit = max(stream.limit, beat.last)

    def on_active(self, stream: Stream) -> None:
        """Something beyond its announced last seq exists: it is not idle any more."""
        if stream.beat is not None and stream.lastseen > stream.beat.last:
            stream.beat = None
            self.table.discard(stream.id)
            self.ended.pop(stream.id, None)

    def on_beats(self, sender: NodeId, message: Beats) -> None:
        """Merge the entries of the buckets that differ, and answer with what the sender lacks."""
        retired, later = [], []
        streams = self._receiver.streams
        for beat in message.beats:
            stream = streams.get(beat.stream)
            if stream is not None and stream.beat == beat and stream.lastseen == beat.last:
                continue  # most of a bucket that differs does not
            self.on_beat(beat)
            stream = streams.get(beat.stream)
            if stream is None:
                retired.append(beat.stream)
            elif stream.lastseen > beat.last:
                later.append(Position(beat.stream, stream.lastseen))
        if retired:
            self._ctx.send(sender, Retire(tuple(retired)))
        if later:
            self._ctx.send(sender, Active(tuple(later)))
        if message.answer:
            theirs = {beat.stream: beat for beat in message.beats}
            ours = [beat for beat in self.table.within(message.buckets) if theirs.get(beat.stream) != beat]
            if ours:
                self._ctx.send(sender, Beats(message.buckets, tuple(ours), False))

    def on_retire(self, streams: Iterable[StreamId]) -> tuple[StreamId, ...]:
        """Everyone has these in full, and they are over: forget them. Returns those that we could."""
        over = tuple(name for name in streams if self._receiver.retire(name))
        for name in over:
            self.table.discard(name)
            self.ended.pop(name, None)
            self._on_retired(name)
        return over


def _digest(beat: Beat) -> bytes:
    return b"%s\0%d\0%d" % (beat.stream.encode(), beat.last, beat.ended)
