"""What came at once, as a broker matches it and keeps it for those that are behind."""

from bisect import bisect_right

from gossamer.matching import Selector
from gossamer.messages.event import Event
from gossamer.messages.packet import Packet
from gossamer.protocol.delivery import Arrival, arrival_of


class Batch:
    """A packet of plain events, or arrivals of any kind."""

    __slots__ = ("_arrivals", "_asked", "_events", "_sizes", "count", "first", "loose", "packet", "size", "stream")

    def __init__(self, packet: Packet | None, events: list[Event], arrivals: list[Arrival] | None = None) -> None:
        self.packet = packet
        self._events: list[Event] | None = events
        self.count = len(events if packet is not None else arrivals or ())
        self._arrivals = arrivals
        self._sizes: list[int] | None = None
        self._asked: tuple[str, list[int]] | None = None
        self.stream, self.first = (packet.stream, packet.first) if packet is not None else self.arrivals[0].id
        self.loose = packet is not None and all(event.key is None for event in events)
        """Nothing in it replaces anything: there is nothing to purge, and no notice to give."""
        self.size = sum(arrival.size for arrival in arrivals or ()) if packet is None else len(packet.blob)

    def rest(self) -> None:
        """It is only kept from now on: what was decoded takes five times the room of its packet, and can be again."""
        if self.packet is not None:
            self._events = self._arrivals = None

    @property
    def events(self) -> list[Event]:
        if self._events is None:
            assert self.packet is not None
            self._events = self.packet.events()
        return self._events

    @property
    def arrivals(self) -> list[Arrival]:
        if self._arrivals is None:
            assert self.packet is not None
            self._arrivals = _arrivals_of(self.packet, self.events)
        return self._arrivals

    def places(self, selector: Selector) -> list[int]:
        """Where a selector matches. Many read with the same one: the last answer is kept."""
        if self._asked is None or self._asked[0] != str(selector):
            resting = self._events is None
            hits = selector.matches_each([event.attributes for event in self.events])
            if resting:
                self.rest()
            self._asked = str(selector), [place for place, hit in enumerate(hits) if hit]
        return self._asked[1]

    def arrival(self, place: int) -> Arrival:
        """One of them, for who needs few."""
        if self._arrivals is not None:
            return self._arrivals[place]
        if self._sizes is None:
            assert self.packet is not None
            self._sizes = _sizes_of(self.packet)
        return arrival_of(self.events[place], self._sizes[place])

    def taken(self, position: int) -> int:
        """How many of its places one has had who has had its stream up to there."""
        if position < self.first:
            return 0
        if self.packet is None:
            return bisect_right(self.arrivals, position, key=lambda arrival: arrival.id.seq)
        return bisect_right(self.events, position, key=lambda event: event.id.seq)  # type: ignore[union-attr]

    def newest(self, places: list[int]) -> tuple[list[int], list[int]]:
        """Which of these are the last of their key, or have none; and the others, which an eager queue would take in
        and drop again at once, at a price."""
        events = self.events
        last = {events[place].key: place for place in places}
        if None in last or len(last) < len(places):
            kept = [place for place in places if (key := events[place].key) is None or last[key] == place]
            gone = set(places).difference(kept)
            return kept, sorted(gone)
        return places, []


def _arrivals_of(packet: Packet, events: list[Event]) -> list[Arrival]:
    return [arrival_of(event, size) for event, size in zip(events, _sizes_of(packet), strict=True)]


def _sizes_of(packet: Packet) -> list[int]:
    return [size for size in packet.table() if size]
