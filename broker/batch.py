"""What came at once, as a broker matches it and keeps it for those that are behind."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from gossamer.matching import Selector
from gossamer.messages.event import Attributes, Event
from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet
from gossamer.protocol.delivery import Arrival, arrival_of
from gossamer.protocol.shown import Slot

ANSWERS_MAX = 16
_key, _attributes = attrgetter("key"), attrgetter("attributes")


class Batch:
    """A packet of plain events, or arrivals of any kind."""

    __slots__ = (
        "_arrivals", "_asked", "_events", "_identified", "_sizes", "_slots",
        "came_at", "count", "first", "loose", "packet", "size", "stream",
    )  # fmt: skip

    def __init__(
        self,
        packet: Packet | None,
        events: list[Event] | None,
        arrivals: list[Arrival] | None = None,
        *,
        vetted: bool = False,
    ) -> None:
        """Events that were `vetted` have no ids yet: they get them when somebody looks at them. Those of a packet that
        are None are without keys and complete, and not decoded so far."""
        self.packet = packet
        self.came_at = 0.0
        """When it was put into a log."""
        self._events: list[Event] | None = events
        self._identified = not vetted
        if packet is not None and events is None:
            self.count = len(packet.sizes) // 4
        else:
            self.count = len(events or arrivals or ())
        self._arrivals = arrivals
        self._sizes: list[int] | None = None
        self._slots: list[Slot | None] | None = None
        self._asked: dict[str, Sequence[int]] = {}
        self.stream, self.first = (packet.stream, packet.first) if packet is not None else self.arrivals[0].id
        self.loose = packet is not None and (events is None or list(map(_key, events)).count(None) == len(events))
        """Nothing in it replaces anything: there is nothing to purge, and no notice to give."""
        self.size = sum(arrival.size for arrival in arrivals or ()) if packet is None else len(packet.blob)

    @property
    def attributes(self) -> list[Attributes]:
        """Of all events, for a selector to be asked about."""
        events = self.packet.events() if self._events is None and self.packet is not None else self._events
        assert events is not None
        return list(map(_attributes, events))

    def rest(self) -> None:
        """It is only kept from now on: what was decoded takes five times the room of its packet, and can be again."""
        if self.packet is not None:
            self._events = self._arrivals = self._slots = None

    @property
    def events(self) -> list[Event]:
        if self._events is None:
            assert self.packet is not None
            self._events = self.packet.events()
        elif not self._identified:
            assert self.packet is not None
            self.packet.identify(self._events)
        self._identified = True
        return self._events

    @property
    def arrivals(self) -> list[Arrival]:
        if self._arrivals is None:
            assert self.packet is not None
            self._arrivals = _arrivals_of(self.packet, self.events)
        return self._arrivals

    def places(self, selector: Selector) -> Sequence[int]:
        """Where a selector matches. Many read with the same one: the last answers are kept."""
        places = self._asked.get(str(selector))
        if places is None:
            hits = selector.matches_each(self.attributes)
            places = [place for place, hit in enumerate(hits) if hit]
            self.answer(selector, places)
        return places

    def answer(self, selector: Selector, places: Sequence[int]) -> None:
        """That is where it matches; kept for those who read this later, and would have to decode it all again."""
        if len(self._asked) >= ANSWERS_MAX:
            self._asked.clear()
        self._asked[str(selector)] = places

    def answers(self, selector: Selector) -> bool:
        return str(selector) in self._asked

    def arrival(self, place: int) -> Arrival:
        """One of them, for who needs few."""
        if self._arrivals is not None:
            return self._arrivals[place]
        return arrival_of(self.events[place], self.sizes[place])

    @property
    def sizes(self) -> list[int]:
        """Bytes of each event of a packet."""
        if self._sizes is None:
            assert self.packet is not None
            self._sizes = _sizes_of(self.packet)
        return self._sizes

    @property
    def seqs(self) -> Sequence[int]:
        """The seq of each event of a packet."""
        assert self.packet is not None
        return self.packet.seqs()

    @property
    def slots(self) -> list[Slot | None]:
        """Of each event of a packet its stream and key."""
        if self._slots is None:
            keys = map(_key, self.events if self._events is None else self._events)
            self._slots = [None if key is None else (self.stream, key) for key in keys]
        return self._slots

    def taken(self, position: int) -> int:
        """How many of its places one has had who has had its stream up to there."""
        if position < self.first:
            return 0
        if self.packet is None:
            return bisect_right(self.arrivals, position, key=lambda arrival: arrival.id.seq)
        return bisect_right(self.events, position, key=lambda event: event.id.seq)  # type: ignore[union-attr]

    def missed(self, selector: Selector, place: int) -> Iterator[tuple[StreamId, int, int, int]]:
        """What matches from a place on: of each stream the first and the last seq, and how many they are."""
        if self.packet is not None:
            places = self.places(selector)
            start = bisect_left(places, place)
            if start < len(places):
                seqs = self.packet.seqs()
                yield self.stream, seqs[places[start]], seqs[places[-1]], len(places) - start
            return
        found: dict[StreamId, list[int]] = {}
        for arrival in self.arrivals[place:]:
            if selector.matches(arrival.event.attributes):
                found.setdefault(arrival.id.stream, []).append(arrival.id.seq)
        for stream, seqs in found.items():
            yield stream, seqs[0], seqs[-1], len(seqs)

    def newest(self, places: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
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
