"""Which loggers keep which stream (`replicas`): by rendezvous hashing, so that all agree without a word.

Each logger has a score in each stream, a hash of both names. The `replicas` loggers with the highest scores *keep* the
stream: they store it, acknowledge it, answer for it, and say together what of it is gone. A logger that comes or goes
moves only the streams that it scores high in, a share of 1 / loggers of all.

To a logger that does not keep a stream it is what it is to any member: it receives it and passes it on, and what it
says that it has it has in memory (`Position.passing`). How streams move is in protocol/handover.py.
"""

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

from gossamer.messages.ids import NodeId, StreamId
from gossamer.protocol.context import Context
from gossamer.protocol.membership import Membership

FOUND_MAX = 100_000
"""Streams whose keepers are remembered."""


def ranked(stream: StreamId, loggers: Iterable[NodeId]) -> list[NodeId]:
    """Loggers by their score in a stream, highest first."""
    return sorted(loggers, key=lambda node: (xxh3_64_intdigest(f"{stream}\0{node}".encode()), node), reverse=True)


class Placement:
    """Who keeps what, as far as this node knows the loggers."""

    __slots__ = ("_ctx", "_found", "_membership", "_of", "everyone")

    def __init__(self, ctx: Context, membership: Membership) -> None:
        self._ctx = ctx
        self._membership = membership
        self._found: dict[StreamId, tuple[NodeId, ...]] = {}
        self._of: tuple[NodeId, ...] | None = None
        self.everyone: tuple[NodeId, ...] = ()
        """All loggers, this node among them if it is one."""

    @property
    def spread(self) -> bool:
        """Whether there are loggers that do not keep everything."""
        replicas = self._ctx.config.replicas
        return replicas is not None and len(self._known()) > replicas

    def keepers(self, stream: StreamId) -> tuple[NodeId, ...]:
        """The loggers that keep a stream, this node among them if it does."""
        if not self.spread:
            return self._known()
        found = self._found.get(stream)
        if found is None:
            if len(self._found) >= FOUND_MAX:
                self._found.clear()
            found = self._found[stream] = tuple(ranked(stream, self.everyone)[: self._ctx.config.replicas])
        return found

    def others(self, stream: StreamId) -> tuple[NodeId, ...]:
        """The other loggers that keep a stream."""
        if not self.spread:
            return self._membership.loggers
        return tuple(node for node in self.keepers(stream) if node != self._ctx.node)

    def sources(self, stream: StreamId) -> tuple[NodeId, ...]:
        """Whom to ask for what is missing; a logger asks all others, since what is its own now was theirs."""
        return self._membership.loggers if self._ctx.logger else self.others(stream)

    def is_mine(self, stream: StreamId) -> bool:
        """Whether it is this logger's to keep."""
        if not self._ctx.logger:
            return False
        if self._ctx.config.replicas is None:
            return self._membership.own.logger  # all of it, until it is to leave
        return self._ctx.node in self.keepers(stream)

    def leads(self, stream: StreamId) -> bool:
        """Whether this node speaks for those that keep a stream; where there are no loggers, for the mesh."""
        if not self.spread:
            return self._membership.leads
        return self._ctx.node == min(self.keepers(stream)) and not self._membership.is_lost

    def _known(self) -> tuple[NodeId, ...]:
        loggers = self._membership.loggers
        if loggers is not self._of or self.everyone[:1] != self._own():
            self._of = loggers
            self.everyone = (*self._own(), *loggers)
            self._found.clear()
        return self.everyone

    def _own(self) -> tuple[NodeId, ...]:
        return (self._ctx.node,) if self._membership.own.logger else ()
