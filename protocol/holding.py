"""What a node has delivered and its application is not handed yet, because the order of its group is not only FIFO."""

from collections import deque

from gossamer.messages.ids import StreamId
from gossamer.protocol.effects import Deliver, Skip

Item = Deliver | Skip


class Holding:
    """Each stream's in its own order; given out as far as it is told."""

    __slots__ = ("_streams", "bytes")

    def __init__(self) -> None:
        self._streams: dict[StreamId, deque[Item]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """How many streams."""
        return len(self._streams)

    def put(self, item: Item) -> None:
        stream = item.packet.stream if isinstance(item, Deliver) else item.stream
        self._streams.setdefault(stream, deque()).append(item)
        self.bytes += _bytes(item)

    def first(self, stream: StreamId) -> int | None:
        """The first seq that is held of a stream."""
        items = self._streams.get(stream)
        return None if items is None else _span(items[0])[0]

    def items(self, stream: StreamId) -> tuple[Item, ...]:
        return tuple(self._streams.get(stream, ()))

    def release(self, stream: StreamId, last: int) -> list[Item]:
        """What is held up to there, cut to that."""
        items, found = self._streams.get(stream), list[Item]()
        while items and (span := _span(items[0]))[0] <= last:
            item = items.popleft()
            self.bytes -= _bytes(item)
            if span[1] > last:
                item, rest = _split(item, last)
                items.appendleft(rest)
                self.bytes += _bytes(rest)
            found.append(item)
        if items is not None and not items:
            del self._streams[stream]
        return found


def _span(item: Item) -> tuple[int, int]:
    return (item.packet.first, item.packet.last) if isinstance(item, Deliver) else (item.first, item.last)


def _bytes(item: Item) -> int:
    return len(item.packet.blob) if isinstance(item, Deliver) else 0


def _split(item: Item, last: int) -> tuple[Item, Item]:
    if isinstance(item, Deliver):
        packet = item.packet
        return Deliver(packet.cut(packet.first, last)), Deliver(packet.cut(last + 1, packet.last))
    stream, first, until, reason = item.stream, item.first, item.last, item.reason
    return Skip(stream, first, last, reason), Skip(stream, last + 1, until, reason)
