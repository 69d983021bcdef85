"""A member's messages as events: each member of a group is a publisher with one stream for its life."""

from gossamer.messages.event import Content, Event
from gossamer.messages.ids import EventId, NodeId, StreamId, anonymous_stream

_tuple = tuple.__new__  # builds an EventId in under half the time of its own constructor


def stream_of(group: str, member: NodeId) -> StreamId:
    return anonymous_stream(group, member, 0)


def event_of(content: Content, stream: StreamId, seq: int) -> Event:
    return Event(
        content.key, content.rank, content.relation, content.time_ns, content.deleted, content.attributes, content.body,
        _tuple(EventId, (stream, seq)),
    )  # fmt: skip
