"""Causal order at a broker, for groups with `order="causal"` (docs/decisions/order-at-brokers.md).

An event names what its publisher had been delivered since its last one (`Relation.after`): what came before that it
comes after too, since its publisher's events are in order. A broker hands an event out when it has handed out all
that the event names, or knows that it will not come: skipped, obsolete, or of a stream that is over. Events that name
nothing wait for nothing but their own publisher's.

    a   m1
    b        m2 after m1          m2 came first: it waits, and with it all that b says next
    c             m3              m3 does not

What does not exist can be named by who lies; so nothing waits for longer than `patience_s`, or than there is room. That
is counted.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.errors import PeerError
from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.protocol.effects import Deliver, Effect
from gossamer.protocol.holding import Holding, Item

PATIENCE_S = 30.0
NEVER = float("inf")


class CausalOrder:
    def __init__(
        self, position: Callable[[StreamId], int], bytes_max: int = 64 * 2**20, patience_s: float = PATIENCE_S
    ) -> None:
        """`position(stream)` is the last seq that the node has delivered of a stream; beyond all, if that is over."""
        self._position = position
        self._bytes_max = bytes_max
        self._patience_s = patience_s
        self.holding = Holding()
        self._named: dict[StreamId, list[tuple[int, tuple[EventId, ...]]]] = {}
        """Of what is held, the events that name others, with what they name."""
        self._waiting: dict[StreamId, float] = {}
        """Streams whose next event waits, and since when."""
        self._awaited: dict[StreamId, dict[StreamId, None]] = {}
        """Which streams wait for one."""
        self.overdue = 0
        """Events that were handed out though something that they name had not come."""

    def on_delivered(self, items: Iterable[Item], now: float) -> list[Effect]:
        """What the node has delivered, in its order; returns what can be handed out."""
        moved: dict[StreamId, None] = {}
        for item in items:
            stream = item.packet.stream if isinstance(item, Deliver) else item.stream
            self.holding.put(item)
            moved[stream] = None
            if isinstance(item, Deliver) and (named := _named(item)):
                self._named.setdefault(stream, []).extend(named)
        out: list[Effect] = []
        self._advance(moved, now, out)
        while self.holding.bytes > self._bytes_max and self._waiting:
            self._give_in(next(iter(self._waiting)), now, out)
        return out

    def on_time(self, now: float) -> list[Effect]:
        out: list[Effect] = []
        for stream, since in list(self._waiting.items()):
            if since + self._patience_s <= now and self._waiting.get(stream) == since:
                self._give_in(stream, now, out)
        return out

    def next_deadline(self) -> float:
        return min(self._waiting.values()) + self._patience_s if self._waiting else NEVER

    def _give_in(self, stream: StreamId, now: float, out: list[Effect]) -> None:
        """The next event of a stream has waited for long enough."""
        self.overdue += 1
        seq, _ = self._named[stream].pop(0)
        self._named[stream].insert(0, (seq, ()))
        del self._waiting[stream]
        self._advance({stream: None}, now, out)

    def _advance(self, moved: dict[StreamId, None], now: float, out: list[Effect]) -> None:
        while moved:
            stream = next(iter(moved))
            del moved[stream]
            released = self._release(stream, now)
            if released:
                out += released
                moved.update(self._awaited.pop(stream, {}))

    def _release(self, stream: StreamId, now: float) -> list[Item]:
        """Hand out what can be of one stream."""
        named = self._named.get(stream, [])
        last, count = 2**63 - 1, 0
        for seq, after in named:
            lacking = next((id for id in after if not self._is_out(stream, id)), None)
            if lacking is not None:
                last = seq - 1
                self._waiting.setdefault(stream, now)
                self._awaited.setdefault(lacking.stream, {})[stream] = None
                break
            count += 1
        del named[:count]
        if not named:
            self._named.pop(stream, None)
            self._waiting.pop(stream, None)
        elif count:
            self._waiting[stream] = now
        return self.holding.release(stream, last)

    def _is_out(self, of: StreamId, id: EventId) -> bool:
        """Whether an event has been handed out, or never will be."""
        if id.stream == of or group_of(id.stream) != group_of(of):
            return True  # its own stream's are in order; another group's are nothing to this one
        first = self.holding.first(id.stream)
        return (self._position(id.stream) if first is None else first - 1) >= id.seq


def _named(item: Deliver) -> list[tuple[int, tuple[EventId, ...]]]:
    try:
        heads = item.packet.heads()
    except PeerError:
        return []  # whoever hands it out will see
    return [(seq, head.relation.after) for seq, head in heads if head.relation is not None and head.relation.after]
