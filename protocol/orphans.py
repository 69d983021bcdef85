"""Streams whose publisher died without ending them: found, closed by agreement, and so retired like any other.

A stream that nobody will ever continue would stay in everyone's tables for ever. The leader therefore asks the origin
of every stream it comes to know, once, whether it is its own. When that says no, or a node has died (a new life of it
appears, or it is expelled), it asks everyone, in two steps:

    whose is it?    an owner says so, and that is that: a publisher may have moved to another node;
    how far?        nobody's: everyone tells how far it knows the stream, and from then on takes nothing beyond.

The highest answer is where the stream ends. The leader announces that as its heartbeat, holes are closed as usual
(protocol/seek.py), and once everyone has it all it is retired. Without the second step a straggler could be delivered
by one member after the others have forgotten the stream. It is announced as soon as all have answered, whatever the
leader itself lacks of it: who is to supply that may have known less, and takes nothing more before.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import NodeId, StreamId, issued_by
from gossamer.messages.wire import ENTRIES_MAX, Beat, Ownership, Position, WhoOwns
from gossamer.protocol.context import Context
from gossamer.protocol.membership import Membership
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.sender import Sender
from gossamer.protocol.stream import Stream

REPEAT_ROUNDS = 4


class Orphan:
    """A stream under question: who has answered, in which step."""

    __slots__ = ("answered", "closing", "origin")

    def __init__(self, origin: NodeId | None = None) -> None:
        self.closing = False
        self.origin = origin
        """The only one to be asked, as long as it may well be the owner."""
        self.answered: dict[NodeId, None] = {}


class Orphans:
    """The streams that may have lost their publisher."""

    __slots__ = ("_announce", "_ctx", "_membership", "_receiver", "_sender", "_suspects")

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        receiver: Receiver,
        sender: Sender,
        announce: Callable[[tuple[Beat, ...]], None],
    ) -> None:
        self._ctx = ctx
        self._membership = membership
        self._receiver = receiver
        self._sender = sender
        self._announce = announce
        self._suspects: dict[StreamId, Orphan | None] = {}
        """None until it is of interest: any member may come to lead, and almost none does."""

    def __bool__(self) -> bool:
        return bool(self._suspects) and self._membership.leads

    def on_opened(self, stream: Stream) -> None:
        """A stream that we had not heard of: until its owner says so it may be anybody's, or nobody's."""
        if self._may_lead and issued_by(stream.id) is not None and stream.id not in self._sender.streams:
            self._suspects[stream.id] = None

    def on_origin(self, stream: Stream, origin: NodeId) -> None:
        """It comes from there; or came, in an earlier life of that node: it is asked first, unless it has answered."""
        stream.origin = origin
        orphan = self._suspects.get(stream.id)
        if orphan is not None and not orphan.closing and origin not in orphan.answered:
            orphan.origin = origin

    def is_owned(self, stream: Stream) -> bool:
        """Whether the publisher of an anonymous stream is known to live: it keeps, and sends, what is not logged."""
        if issued_by(stream.id) is None or stream.origin is None or stream.limit is not None:
            return False
        orphan = self._suspects.get(stream.id)
        alive = orphan is None or (orphan.origin == stream.origin and not orphan.closing)
        return alive and (stream.origin == self._ctx.node or stream.origin in self._membership.active)

    def on_death(self, node: NodeId) -> None:
        """A node has left, or has begun a new life: what it published may be orphaned, and what it said of others'
        streams does not bind it any more."""
        for orphan in self._suspects.values():
            if orphan is not None:
                orphan.answered.pop(node, None)
        if self._may_lead:
            for name, stream in self._receiver.streams.items():
                if stream.origin in (node, None) and issued_by(name) is not None and name not in self._sender.streams:
                    self._suspect(name).origin = None

    def on_abandoned(self, streams: Iterable[StreamId]) -> None:
        """Their client has vanished from its node: it may have moved to another, or be no more."""
        if self._may_lead:
            for name in streams:
                if name in self._receiver.streams and issued_by(name) is not None and name not in self._sender.streams:
                    self._suspect(name).origin = None

    def _suspect(self, name: StreamId) -> Orphan:
        orphan = self._suspects.get(name)
        if orphan is None:
            stream = self._receiver.streams.get(name)
            orphan = self._suspects[name] = Orphan(None if stream is None else stream.origin)
        return orphan

    @property
    def _may_lead(self) -> bool:
        return self._ctx.logger or not self._membership.has_loggers

    def forget(self, stream: StreamId) -> None:
        self._suspects.pop(stream, None)

    def on_round(self) -> None:
        """As the leader: ask on, and end what is agreed to be nobody's."""
        if not self._suspects or not self._membership.leads:
            return
        self._end()
        if self._ctx.round % REPEAT_ROUNDS == 0:
            suspects = {name: self._suspect(name) for name in self._suspects}
            for orphan in suspects.values():
                if orphan.origin is not None and orphan.origin not in self._membership.active:
                    orphan.origin = None  # a straggler of one that is gone
            for closing in (False, True):
                for node in self._membership.active:
                    asked = tuple(
                        name
                        for name, orphan in suspects.items()
                        if orphan.closing == closing and node not in orphan.answered and orphan.origin in (None, node)
                    )
                    if asked:
                        self._ctx.send(node, WhoOwns(asked[:ENTRIES_MAX], closing))

    def on_who_owns(self, sender: NodeId, message: WhoOwns) -> None:
        mine = tuple(name for name in message.streams if name in self._sender.streams)
        others = []
        for name in message.streams:
            stream = self._receiver.streams.get(name)
            if name not in self._sender.streams:
                if message.closing and stream is None:
                    stream = self._receiver.open(name)
                others.append(Position(name, -1 if stream is None else stream.lastseen))
                if stream is not None and message.closing and stream.limit is None:
                    stream.limit = stream.lastseen
        root, own = self._membership.table.root, self._membership.own
        self._ctx.send(sender, Ownership(root, own.freshness, message.closing, mine, tuple(others)))

    def on_ownership(self, sender: NodeId, message: Ownership) -> None:
        record = self._membership.table.get(sender)
        if record is None or record.status == "left" or record.freshness != message.freshness:
            return  # what it said in another life, or before it left, does not count
        for name in message.mine:
            self._suspects.pop(name, None)
        for position in message.others:
            orphan = self._suspect(position.stream) if position.stream in self._suspects else None
            if orphan is not None and orphan.closing == message.closing:
                orphan.answered[sender] = None
                orphan.origin = None  # not its origin's: then everyone is asked

    def _end(self) -> None:
        others = self._membership.others
        beats = []
        for name in list(self._suspects):
            orphan, stream = self._suspect(name), self._receiver.streams.get(name)
            if stream is None or (stream.beat is not None and stream.beat.ended and not orphan.closing):
                del self._suspects[name]  # it is over, by its owner's word
            elif all(node in orphan.answered for node in others):
                if not orphan.closing:
                    orphan.closing = True
                    orphan.answered.clear()
                    stream.limit = None  # what others know beyond it must come to the leader
                elif stream.beat is None or not stream.beat.ended:
                    stream.limit = stream.lastseen
                    beats.append(Beat(name, stream.lastseen, True))
        self._announce(tuple(beats))
