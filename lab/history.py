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

    def group_key(self, event: EventId) -> str | None:
        """The key of an event of scope "group"."""
        head = self._events[event].head
        return head.key if head.relation is not None and head.relation.group else None

    def is_plain(self, event: EventId) -> bool:
        """Whether anybody may name it: neither of scope "group" nor in a transaction."""
        relation = self._events[event].head.relation
        return relation is None or not (relation.group or relation.part or relation.commit)

    def is_obsolete(self, event: EventId, by: EventId) -> bool:
        """Whether `event ⊏ by`, directly or in turn."""
        older, newer = self._events.get(event), self._events.get(by)
        if older is not None and newer is not None and obsoletes(newer, older):
            return True
        return by in self.obsoleters(event)

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
