"""Who has what: the wait lists behind garbage collection and retirement (rpbcast §5.2).

An event is *stable* when every member that must have it has acknowledged it. The thesis keeps a wait list with each
message; positions make that one number a member and stream:

    stable(s) = the lowest position in s among all that are waited for

A new member is waited for in everything that is still kept. A member that leaves is waited for no longer in what comes
after, but in what was there before it still is (sloppy on purpose: it may be back). A durable subscription is waited
for in the streams of its group, by its bookmark (protocol/durable.py).
"""

from collections.abc import Iterable, Mapping

from gossamer.messages.ids import SEQ_MAX, NodeId, StreamId, group_of
from gossamer.messages.wire import Position


class Stability:
    """The positions that others have acknowledged."""

    __slots__ = ("_acks", "_bookmarks", "_ended", "_logged", "_until")

    def __init__(self) -> None:
        self._bookmarks: dict[str, dict[NodeId, Mapping[StreamId, int]]] = {}
        self._ended: dict[StreamId, dict[NodeId, int]] = {}
        self._acks: dict[NodeId, dict[StreamId, int]] = {}
        self._logged: dict[NodeId, dict[StreamId, int]] = {}
        """Of loggers, what is on disk, where that is not all that they have acknowledged."""
        self._until: dict[NodeId, dict[StreamId, int] | None] = {}

    def wait_for(self, node: NodeId) -> None:
        """`new_member`: nothing is stable without it from now on, whatever was acknowledged before."""
        self._acks.setdefault(node, {})
        self._until[node] = None

    def release(self, node: NodeId, known: dict[StreamId, int]) -> None:
        """`remove_member`: it is waited for only up to what is `known` to exist now."""
        if node in self._until:
            acks = self._acks[node]
            self._until[node] = {stream: last for stream, last in known.items() if acks.get(stream, -1) < last}
            self._acks[node] = {stream: acks[stream] for stream in self._until[node] or () if stream in acks}

    def wait_for_durable(self, name: NodeId, group: str, bookmark: Mapping[StreamId, int]) -> None:
        """Nothing in its group is stable that is beyond its bookmark, which moves."""
        self._bookmarks.setdefault(group, {})[name] = bookmark

    def release_durable(self, name: NodeId, group: str) -> None:
        self._bookmarks.get(group, {}).pop(name, None)

    def forget(self, node: NodeId) -> None:
        """A new life of a member begins at its own t_join: what it acknowledged before does not count."""
        if node in self._acks:
            self._acks[node] = {}
            self._logged.pop(node, None)
        for nodes in self._ended.values():
            nodes.pop(node, None)

    def acknowledge(self, node: NodeId, vector: tuple[Position, ...]) -> None:
        acks = self._acks.get(node)
        if acks is not None:
            logged = self._logged.get(node)
            for position in vector:
                if position.passing:
                    logged = self._logged.setdefault(node, {})
                    logged.setdefault(position.stream, acks.get(position.stream, -1))
                elif logged and position.last > logged.get(position.stream, position.last):
                    logged[position.stream] = position.last
                if position.last > acks.get(position.stream, -1):
                    acks[position.stream] = position.last
                if position.ended:
                    knowing = self._ended.setdefault(position.stream, {})
                    knowing[node] = max(position.last, knowing.get(node, -1))

    def stable(self, stream: StreamId, own: int, collected: int = -1) -> int:
        """The last seq up to which everyone waited for has it; `own` is this node's position. Who left is not waited
        for in what is `collected` already."""
        lowest = own
        for node, until in self._until.items():
            position = self._acks[node].get(stream, -1)
            if position < lowest and (until is None or max(position, collected) < until.get(stream, -1)):
                lowest = position
        return min(lowest, self._bookmarked(stream, lowest))

    def is_stable(self, stream: StreamId, last: int) -> bool:
        """Whether `stable` is at `last`: who lacks it is found long before everybody has been looked at."""
        for node, until in self._until.items():
            position = self._acks[node].get(stream, -1)
            if position < last and (until is None or position < until.get(stream, -1)):
                return False
        return self._bookmarked(stream, last) == last

    def is_with_all(self, stream: StreamId, last: int) -> bool:
        """Whether every member there is has everything up to `last`: without waiting for those that have left."""
        acks = (self._acks[node] for node, until in self._until.items() if until is None)
        return all(each.get(stream, -1) >= last for each in acks)

    def _bookmarked(self, stream: StreamId, highest: int) -> int:
        """The lowest bookmark in a stream, if it is below `highest`."""
        if self._bookmarks:
            for bookmark in self._bookmarks.get(group_of(stream), {}).values():
                highest = min(highest, bookmark.get(stream, -1))
        return highest

    def holders(self, nodes: Iterable[NodeId], stream: StreamId, last: int) -> int:
        """How many of some loggers are known to have everything up to `last` on disk."""
        having = 0
        for node in nodes:
            acks = self._acks.get(node)
            if acks is not None and acks.get(stream, -1) >= last:
                logged = self._logged.get(node)
                having += logged is None or logged.get(stream, last) >= last
        return having

    def logged(self, nodes: Iterable[NodeId], stream: StreamId, count: int) -> int:
        """Up to where so many of some loggers have everything on disk."""
        if count == 0:
            return SEQ_MAX
        positions = []
        for node in nodes:
            acked = self._acks.get(node, {}).get(stream, -1)
            positions.append(min(acked, self._logged.get(node, {}).get(stream, acked)))
        return sorted(positions, reverse=True)[count - 1] if len(positions) >= count else -1

    def is_over(self, stream: StreamId, last: int) -> bool:
        """Whether every member there is has it all and knows that it has ended. Those that left will not come back for
        it; one that did not know of the end could not be told later, when nobody remembers the stream."""
        knowing = self._ended.get(stream, {})
        knows = all(knowing.get(node, -1) >= last for node, until in self._until.items() if until is None)
        return knows and self._bookmarked(stream, last) == last

    def position(self, node: NodeId, stream: StreamId) -> int:
        """The last seq that one member is known to have everything up to."""
        return self._acks.get(node, {}).get(stream, -1)

    def positions(self, node: NodeId) -> tuple[Position, ...]:
        """All that is known of one member, for one that resumes."""
        return tuple(Position(stream, last) for stream, last in self._acks.get(node, {}).items())

    def retire(self, stream: StreamId) -> None:
        self._ended.pop(stream, None)
        for acks in (*self._acks.values(), *self._logged.values()):
            acks.pop(stream, None)
        for until in self._until.values():
            if until is not None:
                until.pop(stream, None)
