"""What a purging buffer holds, and what it says of that which it does not (protocol/purging.py)."""

from typing import Any, Literal

from msgspec import Struct

from gossamer.messages.event import Head
from gossamer.messages.ids import EventId, StreamId

Reason = Literal["obsoleted", "overflow", "refused"]
_tuple = tuple.__new__  # builds an EventId in under half the time of its own constructor


class Entry(Struct, eq=False, gc=False):
    """One event in a buffer. Without a head it obsoletes nothing and is never obsolete."""

    stream: StreamId
    seq: int
    head: Head | None
    size: int
    payload: Any
    """Whatever the buffer's owner needs to send or deliver it; must not refer to the buffer."""
    place: int = -1
    """Where in the queue it stands; -1 when it is not in."""
    by: EventId | None = None
    """What obsoleted it, if a lazy buffer knows it to be obsolete and has not purged it."""

    @property
    def id(self) -> EventId:
        return _tuple(EventId, (self.stream, self.seq))


class Omitted(Struct, frozen=True, gc=False):
    """An event that a buffer left out: for one that obsoletes it, or because there was no room.

    `refused` is the arrival that a buffer with `overflow="refuse"` had no room for: nothing happened to it, or to what
    it obsoletes. It is always the last of what a call returns.
    """

    entry: Entry
    newer: Entry | EventId | None = None
    """What obsoleted it, as it was at hand: few ask for the id, so it is not built for all."""
    refused: bool = False

    @property
    def by(self) -> EventId | None:
        """What obsoleted it; None if there was no room."""
        return self.newer.id if isinstance(self.newer, Entry) else self.newer

    @property
    def reason(self) -> Reason:
        if self.newer is not None:
            return "obsoleted"
        return "refused" if self.refused else "overflow"
