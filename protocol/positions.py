"""Acknowledgements: explicit vectors "I have everything of stream s up to n" (docs/rpbcast.md, `on_positions`).

A vector of all streams each time would grow with idle publishers, so what is sent is what changed since the last
version that the other side confirmed. The same exchange runs both ways between a member and a logger: the member tells
what it has received (from which the logger derives stability), the logger what is on its disk (from which senders
derive that they may forget, and everyone learns of events that nobody announced before their publisher died). Without
loggers every member tells every other, one a round.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import ENTRIES_MAX, Position, Positions, Range, Span
from gossamer.protocol.context import Context
from gossamer.protocol.membership import Membership


class PositionExchange:
    """Which streams changed since whom was told."""

    __slots__ = (
        "_beyond", "_changes", "_confirmed", "_ctx", "_dirty", "_membership", "_oldest", "_position", "_version",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        position: Callable[[StreamId], Position],
        beyond: Callable[[StreamId], tuple[Range, ...]] = lambda _: (),
    ) -> None:
        """`position(stream)` is what to acknowledge of a stream; `beyond(stream)`, the ranges on disk after a gap."""
        self._beyond = beyond
        self._ctx = ctx
        self._membership = membership
        self._position = position
        # Versions of different lives never mix: a confirmation of an earlier life's is below all of ours.
        self._version = self._oldest = ctx.incarnation << 20
        self._changes: dict[StreamId, int] = {}  # by version, since a change moves a stream to the end
        self._dirty: dict[StreamId, None] = {}
        self._confirmed: dict[NodeId, int] = {}

    def touch(self, stream: StreamId) -> None:
        """The position of a stream may have changed."""
        self._dirty[stream] = None

    def forget_stream(self, stream: StreamId) -> None:
        self._dirty.pop(stream, None)
        self._changes.pop(stream, None)

    def forget_node(self, node: NodeId) -> None:
        """It starts anew and knows nothing of us."""
        self._confirmed.pop(node, None)

    def forget_all(self) -> None:
        """We start anew, and everyone forgets what we told: tell all of it, in versions above all that were told, so
        that a late confirmation confirms nothing."""
        self._confirmed.clear()
        self._dirty = dict.fromkeys(self._changes) | self._dirty

    def untold(self, nodes: tuple[NodeId, ...]) -> list[NodeId]:
        """Those of them that have not confirmed everything."""
        self._settle()
        return [node for node in nodes if self._confirmed.get(node, self._oldest) < self._version]

    def tell(self, nodes: Iterable[NodeId]) -> None:
        """Send each what it has not confirmed yet, if anything: one message to all that have confirmed the same."""
        self._settle()
        behind: dict[int, list[NodeId]] = {}
        for node in nodes:
            confirmed = self._confirmed.get(node, self._oldest)
            if confirmed < self._version:
                behind.setdefault(confirmed, []).append(node)
        for confirmed, to in behind.items():
            self._ctx.multicast(tuple(to), self._since(confirmed))

    def acknowledge(self, node: NodeId, streams: Iterable[StreamId]) -> None:
        """Tell the positions of some streams on the spot."""
        vector = tuple(map(self._position, streams))
        self._ctx.send(node, self._message(0, 0, vector))

    def on_positions(self, sender: NodeId, message: Positions, taken: bool) -> None:
        """Confirm a vector that was `taken`. Nothing else: an answer with our own vector would be answered in turn,
        and while traffic flows there is always something new to say."""
        known = self._confirmed.get(sender, self._oldest)
        self._confirmed[sender] = max(min(message.confirm, self._version), known)
        if taken and message.version:
            self._ctx.send(sender, self._message(0, message.version, ()))

    def _since(self, confirmed: int) -> Positions:
        changes = []
        for change in reversed(self._changes.items()):
            if change[1] <= confirmed:
                break
            changes.append(change)
        changes.reverse()
        version = self._version
        if len(changes) > ENTRIES_MAX:  # oldest first, and a version is told whole or not at all
            beyond = changes[ENTRIES_MAX][1]
            changes = [change for change in changes[:ENTRIES_MAX] if change[1] < beyond]
            version = changes[-1][1]
        return self._message(version, 0, tuple(self._position(name) for name, _ in changes))

    def _message(self, version: int, confirm: int, vector: tuple[Position, ...]) -> Positions:
        root, freshness = self._membership.table.root, self._membership.own.freshness
        beyond = ((position.stream, self._beyond(position.stream)) for position in vector)
        spans = tuple(Span(name, ranges) for name, ranges in beyond if ranges)
        return Positions(freshness, version, confirm, root, vector, spans)

    def _settle(self) -> None:
        for number, name in enumerate(self._dirty):
            if number % ENTRIES_MAX == 0:  # a version is what fits into one message
                self._version += 1
            self._changes.pop(name, None)
            self._changes[name] = self._version
        self._dirty.clear()
