"""What has been passed on, as far as it makes later arrivals obsolete (000 §4.2, row S4).

A buffer knows what is inside. But when `x=2` has been handed on and an `x=1` comes after it, from another publisher or
by repair to a subscriber without order, nothing inside tells that it is old; passed on, it would undo the newer value.
So whoever passes on remembers, for as long as it can:

    a group and key        the highest in their total order
    an id                  that it is obsolete, if something named it before it came

To a reader of whole streams in order (`fifo`) no stream goes back, so what an event obsoletes in its own stream need
not be remembered. Without order it has to be:

    a stream and key       the highest seq
    a stream               its last commit, and how far back that reaches for each of its keys

Everything is bounded. What is longest not heard of is forgotten first, and counted: then an old event may get through.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from gossamer.messages.event import Head, Relation
from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.protocol.obsolescence import Order

KEYS_MAX = 1_000_000
IDS_MAX = 1_000_000

Item = TypeVar("Item", bound=Hashable)
Value = TypeVar("Value")


class Memory:
    """What obsoletes, of what has been passed on; buffers that serve one reader share it."""

    __slots__ = ("_fifo", "_groups", "_tags", "_commits", "_named")

    def __init__(self, keys_max: int = KEYS_MAX, ids_max: int = IDS_MAX, *, fifo: bool = True) -> None:
        self._fifo = fifo
        self._groups: _Recent[tuple[str, str], Order] = _Recent(keys_max)
        self._tags: _Recent[tuple[StreamId, str], int] = _Recent(keys_max)
        self._commits: _Recent[tuple[StreamId, str | None], tuple[int, int]] = _Recent(keys_max)
        """`(before, seq)`: the commit `seq` obsoletes what set the key before `before`; key None stands for commits."""
        self._named: _Recent[tuple[StreamId, int], EventId] = _Recent(ids_max)

    @property
    def forgotten(self) -> int:
        """How much had to be forgotten, for want of room."""
        return sum(recent.forgotten for recent in (self._groups, self._tags, self._commits, self._named))

    def __len__(self) -> int:
        return sum(len(recent) for recent in (self._groups, self._tags, self._commits, self._named))

    def passed(self, stream: StreamId, seq: int, head: Head) -> None:
        """An event has been passed on."""
        relation, key = head.relation, head.key
        if relation is not None and relation.group:
            if key is not None:
                item = group_of(stream), key
                place = _order(stream, seq, head)
                known = self._groups.get(item)
                self._groups.set(item, place if known is None else max(known, place))
            return
        if not self._fifo:
            self._passed_unordered(stream, seq, key, relation)
        if relation is not None:
            for id in relation.ids:
                if id[0] != stream or (not self._fifo and id[1] < seq):
                    self._named.set(id, EventId(stream, seq))

    def obsoleter(self, stream: StreamId, seq: int, head: Head) -> EventId | None:
        """Something passed on that obsoletes an arrival."""
        relation, key = head.relation, head.key
        if relation is not None and relation.group:
            if key is not None:
                place = self._groups.get((group_of(stream), key))
                if place is not None and place > _order(stream, seq, head):
                    return EventId(place[1], place[2])
        elif not self._fifo and (by := self._later(stream, seq, key, relation)) is not None:
            return EventId(stream, by)
        return self._named.get((stream, seq))

    def _passed_unordered(self, stream: StreamId, seq: int, key: str | None, relation: Relation | None) -> None:
        if relation is not None and relation.commit is not None:
            for committed, before in (
                (None, seq),
                *((each, seq - relation.commit.parts) for each in relation.commit.keys),
            ):
                known = self._commits.get((stream, committed))
                self._commits.set((stream, committed), (before, seq) if known is None else max(known, (before, seq)))
        elif key is not None and (relation is None or relation.part is None):
            self._tags.set((stream, key), max(seq, self._tags.get((stream, key)) or 0))
        if relation is not None and relation.near:
            near = int.from_bytes(relation.near, "little")
            for distance in range(1, near.bit_length() + 1):
                if near >> (distance - 1) & 1:
                    self._named.set((stream, seq - distance), EventId(stream, seq))

    def _later(self, stream: StreamId, seq: int, key: str | None, relation: Relation | None) -> int | None:
        if key is not None:
            if relation is None or relation.part is None:
                tagged = self._tags.get((stream, key))
                if tagged is not None and tagged > seq:
                    return tagged
            commit = self._commits.get((stream, key))
            if commit is not None and commit[0] > seq:
                return commit[1]
        if relation is not None and relation.commit is not None:
            commit = self._commits.get((stream, None))
            if commit is not None and commit[0] > seq:
                return commit[1]
        return None


class _Recent(Generic[Item, Value]):
    """A dictionary of the items set last."""

    __slots__ = ("_items", "_size_max", "forgotten")

    def __init__(self, size_max: int) -> None:
        # Not a plain dict: its first item is found past the gaps of all that were moved to the end.
        self._items: OrderedDict[Item, Value] = OrderedDict()
        self._size_max = size_max
        self.forgotten = 0

    def get(self, item: Item) -> Value | None:
        return self._items.get(item)

    def set(self, item: Item, value: Value) -> None:
        self._items[item] = value
        self._items.move_to_end(item)
        if len(self._items) > self._size_max:
            self._items.popitem(last=False)
            self.forgotten += 1

    def __len__(self) -> int:
        return len(self._items)


def _order(stream: StreamId, seq: int, head: Head) -> Order:
    return (head.time_ns if head.rank is None else head.rank, stream, seq)
