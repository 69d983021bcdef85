"""What is shown to whom in a group of plain events: one table for all its subscriptions.

What a subscription was last shown of a key follows from whom the last event of that key matched: one comparison an
event, however many subscriptions there are.
"""

from collections import deque

from gossamer.broker.batch import Batch
from gossamer.messages.event import REACH_MAX, Event, Head
from gossamer.messages.ids import EventId, StreamId
from gossamer.protocol.delivery import Arrival
from gossamer.protocol.shown import Left, Shown

RECENT_STREAMS_MAX = 4_096
SHOWN_STREAMS_MAX = 100_000
"""Publishers come and go; those not heard for longest are forgotten, and what they had shown stays as it is."""


class Plain:
    """What is shown to whom."""

    __slots__ = ("before", "recent", "shown")

    def __init__(self) -> None:
        self.shown: dict[StreamId, dict[str, tuple[int, list[int]]]] = {}
        """Of each stream and key, the last seq and whom it matched."""
        self.before: dict[str, tuple[int, list[int]] | None] = {}
        """The same, of the keys that the last packet set, as it was before that packet."""
        self.recent: dict[StreamId, deque[tuple[Batch, list[list[int]]]]] = {}
        """Of each stream, whom its last events matched, as far back as an event may name others by a bit."""

    def show(self, batch: Batch, last: int, matched: list[list[int]]) -> dict[int, list[tuple[int, Left]]]:
        """Remember whom these match, of a stream up to `last`; returns who is to be told at which place that something
        has left. None is if they are loose, without keys."""
        stream = batch.stream
        recent = self.recent[stream] = self.recent.pop(stream, deque())  # last: it goes last
        recent.append((batch, matched))
        if len(self.recent) > RECENT_STREAMS_MAX:
            del self.recent[next(iter(self.recent))]
        while len(recent) > 1 and recent[1][0].first <= last - REACH_MAX:
            recent.popleft()
        leaving: dict[int, list[tuple[int, Left]]] = {}
        if batch.loose:
            self.before = {}
            return leaving
        shown = self.shown[stream] = self.shown.pop(stream, {})
        if len(self.shown) > SHOWN_STREAMS_MAX:
            del self.shown[next(iter(self.shown))]
        before = self.before = {}
        for place, event in enumerate(batch.events):
            key = event.key
            if key is None:
                continue
            keys = matched[place]
            known = shown.get(key)
            before.setdefault(key, known)
            if known is not None:
                if known[1] is keys or known[1] == keys:
                    keys = known[1]
                else:
                    left = Left(key, EventId(stream, known[0]))
                    for gone in set(known[1]).difference(keys):
                        leaving.setdefault(gone, []).append((place, left))
            if keys and not event.deleted:
                shown[key] = event.id[1], keys  # type: ignore[index]
            elif known is not None:
                del shown[key]
        return leaving

    def shown_to(self, key: int, stream: StreamId, events: list[Event], matched: list[list[int]]) -> dict[EventId, str]:
        """All that one subscription was shown, by key, when it had seen so many events of the last packet."""
        found = {
            EventId(each, seq): name
            for each, shown in self.shown.items()
            for name, (seq, keys) in shown.items()
            if key in keys and (each != stream or name not in self.before)
        }
        of_packet = {name: known[0] for name, known in self.before.items() if known is not None and key in known[1]}
        for event, keys in zip(events, matched, strict=False):
            if event.key is not None and event.id is not None:
                of_packet.pop(event.key, None)
                if key in keys and not event.deleted:
                    of_packet[event.key] = event.id.seq
        return found | {EventId(stream, seq): name for name, seq in of_packet.items()}

    def shown_now(self, key: int) -> Shown:
        """All that one subscription was shown, by key."""
        found = Shown()
        for stream, shown in self.shown.items():
            for name, (seq, keys) in shown.items():
                if key in keys:
                    found.on_event(EventId(stream, seq), Head(name), True, False)
        return found

    def newer(self, arrival: Arrival) -> EventId | None:
        """An event of the same key that came meanwhile."""
        if arrival.head.key is None:
            return None
        known = self.shown.get(arrival.id.stream, {}).get(arrival.head.key)
        return None if known is None or known[0] <= arrival.id.seq else EventId(arrival.id.stream, known[0])

    def take_over(self, key: int, shown: Shown) -> None:
        """A subscription that has caught up: what it was shown before its time here becomes known to all."""
        for id, head in shown.shown():
            if head.key is None or head.relation is not None:
                continue
            at = self.shown.setdefault(id.stream, {})
            known = at.get(head.key)
            if known is None:
                at[head.key] = id.seq, [key]
            elif known[0] == id.seq and key not in known[1]:
                at[head.key] = id.seq, [*known[1], key]
