"""Making room in what is kept for others: once it is too much, what is obsolete for something safe goes (row S5)."""

from collections.abc import Callable

from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.protocol.context import Context
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.sender import Sender

WORTH = 0.1
"""A pass that frees less than this share was not worth it."""
ROUNDS_MAX = 64


class MakingRoom:
    """Thins the gossip buffer, and what waits to be logged, from time to time (protocol/thinning.py)."""

    __slots__ = ("_at_round", "_buffer", "_ctx", "_is_safe", "_rounds", "_sender")

    def __init__(self, ctx: Context, buffer: GossipBuffer, sender: Sender, is_safe: Callable[[EventId], bool]) -> None:
        self._ctx = ctx
        self._buffer = buffer
        self._sender = sender
        self._is_safe = is_safe
        self._at_round = 0
        self._rounds = 1

    def on_round(self) -> None:
        ctx, config = self._ctx, self._ctx.config
        if ctx.round < self._at_round:
            return
        before = self._buffer.bytes + self._sender.bytes
        if self._buffer.bytes > config.purge_above_bytes:
            ctx.tally.purged["gossip", "obsolete"] += self._buffer.purge(self._purges, self._is_safe)
        if config.purge_send_buffer and self._sender.bytes > config.purge_above_bytes:
            ctx.tally.purged["send", "obsolete"] += self._sender.purge(self._purges, self._is_safe)
        # A pass looks at everything that is kept: the less it finds, the longer until the next one.
        worth_it = before - self._buffer.bytes - self._sender.bytes > before * WORTH
        self._rounds = 1 if worth_it else min(2 * self._rounds, ROUNDS_MAX)
        self._at_round = ctx.round + self._rounds

    def _purges(self, name: StreamId) -> bool:
        return self._ctx.config.group(group_of(name)).purging
