"""What came lately, for those who come back after a moment; and how far each stream has been passed on."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import time_ns

from gossamer.matching import Selector
from gossamer.matching.stretching import stretches
from gossamer.messages.ids import StreamId, group_of
from gossamer.messages.packet import Packet
from gossamer.messages.session import POSITIONS_MAX
from gossamer.messages.wire import Stretch

RECENT_BYTES_MAX = 32 * 2**20
RECENT_NS = 60 * 10**9
SLACK_NS = 10 * 10**9
"""By so much the clocks of brokers and loggers may differ, or one hear of an event later than the other."""


class Recent:
    """The last packets."""

    __slots__ = ("_bytes", "_packets", "born_ns", "since_ns")

    def __init__(self) -> None:
        self._packets: deque[tuple[int, Packet]] = deque()
        self._bytes = 0
        self.born_ns = self.since_ns = time_ns()
        """All that came after `since_ns` is here."""

    def keep(self, packet: Packet) -> None:
        now, packets = time_ns(), self._packets
        packets.append((now, packet))
        self._bytes += len(packet.blob)
        while packets and (self._bytes > RECENT_BYTES_MAX or packets[0][0] < now - RECENT_NS):
            came_ns, oldest = packets.popleft()
            self.since_ns = max(self.since_ns, came_ns + 1)
            self._bytes -= len(oldest.blob)

    def recalled(
        self, group: str, selector: Selector, positions: Mapping[StreamId, int], since_ns: int
    ) -> list[Stretch]:
        """What came beyond these positions, and of other streams since then."""
        rows = [(0, packet) for packet in self._beyond(group, positions, since_ns)]
        return stretches(rows, selector)[0]

    def holes(self, group: str, positions: Mapping[StreamId, int], since_ns: int) -> list[tuple[StreamId, int, int]]:
        """The streams and seqs of events among those that a link purged."""
        found = []
        for packet in self._beyond(group, positions, since_ns):
            last = positions.get(packet.stream, -1)
            beyond = [hole for hole in packet.holes if hole.last > last]
            found += [(packet.stream, max(last + 1, hole.first), hole.last) for hole in beyond]
        return found

    def _beyond(self, group: str, positions: Mapping[StreamId, int], since_ns: int) -> Iterator[Packet]:
        for came_ns, packet in self._packets:
            if group_of(packet.stream) == group:
                last = positions.get(packet.stream)
                if came_ns >= since_ns if last is None else packet.last > last:
                    yield packet

    def remembers(self, positions: Mapping[StreamId, int], since_ns: int, delivered: Mapping[StreamId, int]) -> bool:
        """Whether this is all that one who was there has missed."""
        if since_ns < self.since_ns:
            return False
        firsts: dict[StreamId, int] = {}
        for _, packet in self._packets:
            firsts.setdefault(packet.stream, packet.first)
        return all(
            delivered.get(stream, -1) <= last or firsts.get(stream, last + 2) <= last + 1
            for stream, last in positions.items()
        )


class Progress:
    """How far each stream has been passed on here."""

    __slots__ = ("_before", "_moved", "_moves", "known")

    def __init__(self) -> None:
        self._before: dict[StreamId, int] = {}
        self._moved: dict[StreamId, int] = {}
        """As it was some time ago, and what has changed since."""
        self._moves: deque[tuple[int, dict[StreamId, int]]] = deque()
        """What changed lately, and up to when."""
        self.known: Callable[[], Iterable[tuple[StreamId, int]]] = lambda: ()
        """All streams of the mesh, and where this broker began to hear each of them."""

    def moved(self, stream: StreamId, last: int) -> None:
        self._moved[stream] = last

    def at(self, stream: StreamId) -> int | None:
        """How far one stream is, if it moved here."""
        found = self._moved.get(stream)
        return self._before.get(stream) if found is None else found

    def of(self, group: str) -> dict[StreamId, int]:
        """How far each stream of a group is; of those that were silent, where they began."""
        prefix = f"{group}/"
        found = {stream: last for stream, last in self.known() if stream.startswith(prefix)}
        for each in (self._before, self._moved):
            found |= {stream: last for stream, last in each.items() if stream.startswith(prefix)}
        return found

    def lately(self, group: str) -> dict[StreamId, int]:
        """How far streams are that moved so lately that another broker could think that they moved just now."""
        found: dict[StreamId, int] = {}
        for _, moved in (*self._moves, (0, self._moved)):
            found |= {stream: last for stream, last in moved.items() if stream.startswith(f"{group}/")}
        return dict(list(found.items())[-POSITIONS_MAX:])

    def turn(self, now_ns: int) -> dict[str, dict[StreamId, int]]:
        """What has moved since this was last asked, by group."""
        moved, self._moved = self._moved, {}
        self._before |= moved
        positions: dict[str, dict[StreamId, int]] = {}
        for stream, last in moved.items():
            positions.setdefault(group_of(stream), {})[stream] = last
        self._moves.append((now_ns, moved))
        while self._moves[0][0] < now_ns - 2 * SLACK_NS:
            self._moves.popleft()
        if len(self._before) > 2 * len(known := dict(self.known())) + 1_000:
            self._before = {stream: last for stream, last in self._before.items() if stream in known}
        return positions
