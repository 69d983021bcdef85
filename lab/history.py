"""The obsolescence relation over all events of a run, by its definition: what checkers compare with."""

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.protocol.obsolescence import Told, obsoletes


class History:
    """Every event there was, and what obsoletes what, transitively."""

    def __init__(self) -> None:
        self._events: dict[EventId, Told] = {}
        self._closures: dict[EventId, tuple[int, frozenset[EventId]]] = {}

    def add(self, event: Event) -> None:
        assert event.id is not None
        self._events[event.id] = Told(event.id, Head(event.key, event.rank, event.relation, event.time_ns))

    def obsoleters(self, event: EventId) -> frozenset[EventId]:
        """All that obsolete an event, or something that does."""
        known, closure = self._closures.get(event, (0, frozenset()))
        if known < len(self._events):
            closure = self._search(event)
            self._closures[event] = (len(self._events), closure)
        return closure

    def _search(self, event: EventId) -> frozenset[EventId]:
        found: dict[EventId, None] = {}
        ahead = [event]
        while ahead:
            older = self._events.get(ahead.pop())
            if older is not None:
                direct = [id for id, newer in self._events.items() if id not in found and obsoletes(newer, older)]
                found.update(dict.fromkeys(direct))
                ahead += direct
        return frozenset(found)
