"""The obsolescence relation over all events of a run, by its definition: what checkers compare with."""

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId, group_of
from gossamer.protocol.obsolescence import Told, obsoletes


class History:
    """Every event there was, and what obsoletes what, transitively."""

    def __init__(self) -> None:
        self._events: dict[EventId, Told] = {}
        self._streams: dict[str, list[Told]] = {}
        self._groups: dict[tuple[str, str | None], list[Told]] = {}
        self._namers: dict[EventId, list[Told]] = {}
        self._closures: dict[EventId, tuple[int, frozenset[EventId]]] = {}

    def add(self, event: Event) -> None:
        assert event.id is not None
        told = self._events[event.id] = Told(event.id, Head(event.key, event.rank, event.relation, event.time_ns))
        self._streams.setdefault(event.id.stream, []).append(told)
        if event.relation is not None:
            if event.relation.group:
                self._groups.setdefault((group_of(event.id.stream), event.key), []).append(told)
            for named in event.relation.ids:
                self._namers.setdefault(named, []).append(told)

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
        return self.is_named_by(event, by) or by in self.obsoleters(event)

    def is_named_by(self, event: EventId, by: EventId) -> bool:
        """Whether `by` itself says that it obsoletes the event."""
        older, newer = self._events.get(event), self._events.get(by)
        return older is not None and newer is not None and obsoletes(newer, older)

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
                direct = [by.id for by in self._candidates(older) if by.id not in found and obsoletes(by, older)]
                found.update(dict.fromkeys(direct))
                ahead += direct
        return frozenset(found)

    def _candidates(self, older: Told) -> list[Told]:
        """Those that could obsolete an event: of its stream, of its group and key, and whoever names it."""
        relation = older.head.relation
        grouped = relation is not None and relation.group
        rivals = self._groups.get((group_of(older.id.stream), older.head.key), []) if grouped else []
        return [*self._streams.get(older.id.stream, []), *rivals, *self._namers.get(older.id, [])]
