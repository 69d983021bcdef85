"""Which events are *safe*: they will be delivered, or replaced, whoever else crashes (row S5, 000 §4.3).

An event is safe when it is logged, or when f + 1 members hold its stream up to it: each of them keeps it until it is
logged or stable, and at most f crash. Only then may what it obsoletes be forgotten for good. Loggers tell their
positions anyway. Whether f + 1 members hold something is asked for (`Tell`) only while something is congested and the
answer would let us purge: an idle mesh tracks no safety at all (row S9).
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import EventId, NodeId, StreamId
from gossamer.messages.wire import Position, Tell
from gossamer.protocol.context import Context
from gossamer.protocol.membership import Membership
from gossamer.protocol.stability import Stability

MEMORY_ROUNDS = 100
STREAMS_MAX = 1_000
"""So many streams are asked about at a time."""


class Safety:
    """Receipts of members, gathered while they are needed."""

    __slots__ = ("_asked", "_ctx", "_faults", "_holders", "_membership", "_own", "_stability", "_wanted")

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        stability: Stability,
        own: Callable[[StreamId], Position],
        faults: Callable[[], int],
    ) -> None:
        """`own(stream)` is this node's position, `faults()` how many may crash."""
        self._ctx = ctx
        self._membership = membership
        self._stability = stability
        self._own = own
        self._faults = faults
        self._wanted: dict[StreamId, None] = {}
        self._asked: dict[StreamId, int] = {}
        """In which round a stream was last asked about."""
        self._holders: dict[StreamId, dict[NodeId, Position]] = {}

    def is_safe(self, event: EventId) -> bool:
        """Whether it is known to be safe; if not, it is asked for in the next round."""
        stream, seq = event
        membership = self._membership
        own = self._own(stream)
        has_it = own.start <= seq <= own.last
        if membership.has_loggers:
            logged = self._stability.holders(membership.loggers, stream, seq)
            logged += self._ctx.logger and has_it and not own.passing
            if logged >= self._ctx.config.loggers_min:
                return True
        held, others = self._holders.get(stream, {}), membership.others
        holders = sum(held[node].start <= seq <= held[node].last for node in held if node in others)
        if holders + has_it > self._faults():
            return True
        if len(self._wanted) < STREAMS_MAX:
            self._wanted[stream] = None
        return False

    def on_round(self) -> None:
        """Ask f members what they hold of the streams in question; what was not for long is forgotten."""
        if self._wanted:
            self._asked.update(dict.fromkeys(self._wanted, self._ctx.round))
            others = self._membership.active
            drawn = self._ctx.rng.sample(others, min(len(others), self._faults()))
            self._ctx.multicast(tuple(drawn), Tell(tuple(self._wanted)))
            self._wanted = {}
        elif self._asked:
            self._asked = {name: at for name, at in self._asked.items() if at > self._ctx.round - MEMORY_ROUNDS}
            self._holders = {name: held for name, held in self._holders.items() if name in self._asked}

    def on_positions(self, node: NodeId, vector: Iterable[Position]) -> None:
        """What a member says it has, of what we asked about."""
        if self._asked:
            for position in vector:
                if position.stream in self._asked:
                    self._holders.setdefault(position.stream, {})[node] = position

    def forget(self, node: NodeId) -> None:
        """A new life of a member holds nothing yet."""
        for held in self._holders.values():
            held.pop(node, None)
