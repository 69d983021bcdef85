"""A publisher in a group with causal order: its events name what it had been delivered (protocol/causal.py reads it).

An event names, of each other stream, the last that had come to this client since its own last one; what came before
that it comes after as well, being behind its publisher's earlier events. So what is named is short, however much comes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gossamer.messages.event import IDS_MAX, Content, Relation, check_content
from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.protocol.annotator import Annotator, Part


class DependentAnnotator(Annotator):
    """`heard()` tells how far each stream has come to this client."""

    def __init__(self, stream: StreamId, *, first: int = 0, heard: Callable[[], Mapping[StreamId, int]]) -> None:
        super().__init__(stream, first=first)
        self.dependent = True
        self._heard = heard
        self._named: dict[StreamId, int] = {}
        self._after: tuple[EventId, ...] = ()

    def come_after(self, ids: Iterable[EventId]) -> None:
        after = tuple(ids)
        check_content(Content(relation=Relation(after=after)))
        self._after = tuple(EventId(*id) for id in after if group_of(id[0]) == group_of(self.stream))

    def event(self, *said: Any, **more: Any) -> Content:
        try:
            return self._dependent(super().event(*said, **more))
        finally:
            self._after = ()

    def transaction(self, parts: Sequence[Part], *, time_ns: int = 0) -> tuple[Content, ...]:
        contents = super().transaction(parts, time_ns=time_ns)
        return (self._dependent(contents[0]), *contents[1:]) if contents else ()

    def _dependent(self, content: Content) -> Content:
        named, news = self._named, dict[StreamId, int]()
        for stream, last in self._heard().items():
            if last > named.get(stream, -1) and stream != self.stream:
                news[stream] = last
        for stream, seq in self._after:
            if stream != self.stream:
                news[stream] = max(seq, news.get(stream, -1))
        if not news:
            return content
        news = dict(list(news.items())[-IDS_MAX:])  # what is too much for one event goes with the next
        named |= news
        after = tuple(EventId(stream, seq) for stream, seq in news.items())
        return replace(content, relation=replace(content.relation or Relation(), after=after))
