"""A member's way out: until when it stays, and what it takes in meanwhile.

Who leaves or disconnects is not asked any more for what others miss. So what only it may have stays with it until it is
logged (without loggers: until everyone has it), and a logger that leaves for good goes when others have what it kept
(protocol/handover.py). Others go on publishing meanwhile, and that is theirs to keep: who wants to go takes it from a
logger only, once it is known to be on disk; without loggers, it does not tell that it has it.

Events that its own publishers go on publishing meanwhile are nobody else's to keep, and hold it like those from before.

Nobody may know of the events that hold it: their publisher is dead, they reached this member alone, and a member that
goes tells no positions. So it names those streams itself (`Active`), every few rounds, and is asked for the events.
"""

from collections.abc import Callable

from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import ENTRIES_MAX, Active, Position
from gossamer.protocol.context import Context
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.handover import Handover
from gossamer.protocol.membership import Membership
from gossamer.protocol.sender import Sender

REPEAT_ROUNDS = 4
"""So often, in rounds, a member that waits to go names the streams that hold it."""


class Departure:
    """True while this member is to go."""

    __slots__ = (
        "_begun_round", "_buffer", "_ctx", "_end_streams", "_handover", "_is_sole", "_membership", "_published",
        "_sender", "_step",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        sender: Sender,
        buffer: GossipBuffer,
        handover: Handover | None,
        is_sole: Callable[[Packet], bool],
        end_streams: Callable[[], None],
    ) -> None:
        """`is_sole` tells whether a packet may have to come from here, `end_streams` ends those of our publishers."""
        self._ctx = ctx
        self._membership = membership
        self._sender = sender
        self._buffer = buffer
        self._handover = handover
        self._is_sole = is_sole
        self._end_streams = end_streams
        self._step: Callable[[], None] | None = None
        """The membership's own, to be taken when nothing holds it any more."""
        self._begun_round = 0
        self._published: dict[StreamId, None] = {}
        """The streams of our own publishers that have gone on since then."""

    def __bool__(self) -> bool:
        return self._step is not None

    def begin(self, step: Callable[[], None]) -> None:
        self._step, self._begun_round = step, self._ctx.round
        self._published.clear()

    def on_published(self, stream: StreamId) -> None:
        """One of our own publishers goes on while we wait to go."""
        self._published[stream] = None

    def call_off(self) -> None:
        self._step = None

    @property
    def stays(self) -> bool:
        """Whether what we have may be counted on; what a logger has on disk may, though it goes."""
        return self._step is None or self._ctx.logger

    @property
    def goes(self) -> bool:
        """Whether we are on our way out, from where loggers are."""
        goes = self._step is not None or self._membership.status in ("leaving", "disconnecting")
        return goes and not self._ctx.logger and self._membership.has_loggers

    def may_take_along(self, packet: Packet, from_logger: bool) -> bool:
        """What had just reached us alone, or a logger's memory, would be declared void when we are gone
        (protocol/seek.py)."""
        return from_logger and not self._is_sole(packet)

    @property
    def waits_for(self) -> str:
        """What holds a logger that is to leave for good, in words; nothing if nothing does."""
        return self._handover.waits_for if self._leaves and self._handover is not None else ""

    @property
    def _leaves(self) -> bool:
        return self._step is not None and self._step == self._membership.leave

    def go_when_done(self) -> None:
        """To be asked each round."""
        if self._step is None or self._membership.status != "member":
            return
        leaves, handover = self._leaves, self._handover
        if leaves and handover is not None and not handover.resign():
            return
        if any(out.unlogged or out.queued for out in self._sender.streams.values()):
            return
        if leaves and handover is not None and not handover.done:
            return
        if leaves:
            self._end_streams()
        held: dict[StreamId, int] = {}
        for packet in self._buffer.needed(self._is_sole, self._begun_round, self._published):
            held[packet.stream] = max(packet.last, held.get(packet.stream, -1))
        if not held:
            self._step()
            self._step = None
        elif self._ctx.round % REPEAT_ROUNDS == 0:
            active, loggers = self._membership.active, self._membership.loggers
            named = tuple(Position(name, last) for name, last in held.items())
            asks = tuple(node for node in active if node in loggers) or active
            self._ctx.multicast(asks, Active(named[:ENTRIES_MAX]))
