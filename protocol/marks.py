"""Purge marks on their way: "these were obsoleted by X" says that they need not come *if X does* (row P2, S6).

Whoever purges an event from a link, or is asked for one that it purged, sends a mark in its place: a hole of a packet.
A receiver skips what is marked once it has X itself, because it will then deliver X (or, in turn, what obsoletes X).
Until then the event is still missing, but there is no hurry to ask for it: X is on its way, or will be asked for.
Skipping at once would be wrong: X may die with its publisher, and the receiver would have gone on without either
(000 App. A.2, the second scenario). A *final* mark needs no waiting: its sender knows X to be safe.
"""

from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet

WAITING_MAX = 100_000
"""Marks that wait for their X; beyond that the oldest are forgotten, and what they covered is asked for again."""

_Key = tuple[StreamId, int, int]


class Marks:
    """Marks that wait for what they name, as packets of one hole each."""

    __slots__ = ("_by_obsoleter", "waiting")

    def __init__(self) -> None:
        self._by_obsoleter: dict[StreamId, dict[int, dict[_Key, Packet]]] = {}
        self.waiting: dict[_Key, EventId] = {}
        """Marks, and what each waits for."""

    def wait(self, mark: Packet, by: EventId) -> None:
        """Keep a mark until what it names is here; a later mark of the same events takes its place."""
        key = (mark.stream, mark.first, mark.last)
        self._forget(key)
        self.waiting[key] = by
        self._by_obsoleter.setdefault(by.stream, {}).setdefault(by.seq, {})[key] = mark
        if len(self.waiting) > WAITING_MAX:
            self._forget(next(iter(self.waiting)))

    def named(self, stream: StreamId, first: int, last: int) -> list[int]:
        """Which of these events some mark waits for."""
        return [seq for seq in sorted(self._by_obsoleter.get(stream, ())) if first <= seq <= last]

    def of(self, stream: StreamId, first: int, last: int) -> list[tuple[int, int, EventId]]:
        """The marks of a span that wait: for which events, and for what."""
        return [
            (low, high, by) for (name, low, high), by in self.waiting.items()
            if name == stream and low <= last and high >= first
        ]  # fmt: skip

    def release(self, stream: StreamId, first: int, last: int) -> list[Packet]:
        """These events are here, or covered: the marks that waited for them."""
        waited_for = self._by_obsoleter.get(stream)
        if waited_for is None:
            return []
        fewer = range(first, last + 1) if last - first < len(waited_for) else sorted(waited_for)
        marks = [mark for seq in fewer if first <= seq <= last for mark in waited_for.get(seq, {}).values()]
        for mark in marks:
            self._forget((mark.stream, mark.first, mark.last))
        return marks

    def _forget(self, key: _Key) -> None:
        by = self.waiting.pop(key, None)
        if by is not None:
            waited_for = self._by_obsoleter[by.stream]
            del waited_for[by.seq][key]
            if not waited_for[by.seq]:
                del waited_for[by.seq]
            if not waited_for:
                del self._by_obsoleter[by.stream]
