"""The quick way for everyday events, at the two places that each of them passes: where it is published, and where a
broker takes it in.

An everyday event has names that were used before, no list among its values, only ASCII in its texts, and nothing to say
of other events. Such a one can be checked and put into its packet, or checked and looked at, in one go over it;
whatever is not plainly like that is turned away here, and goes the way of all others, which knows what may be said and
what is wrong with it. So both ways come to the same, and this one may be left out.

Besides it makes ids, one by one where events are published and for a whole run where they are subscribed to.

It is written in C (messages/_quick.c), since it is about bytes. Where there is no compiler when Gossamer is installed
all events go the way of all others; docs/decisions/everyday-events.md tells how much slower that is.
"""

from collections import deque
from collections.abc import Set
from itertools import repeat
from struct import pack
from typing import Any

from gossamer.messages.event import PLAIN_BYTES_MAX, Attributes, check_sizes, is_plain, known_names
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet, encode_content


class PlainOutbox:
    """Events in a row that are to become packets. Some are put in at its end while others are taken from its beginning,
    perhaps by another thread."""

    __slots__ = ("_events", "posted_bytes")

    def __init__(self) -> None:
        self._events: deque[bytes] = deque()
        self.posted_bytes = 0
        """All that was ever put in; only those who put in count it."""

    def __len__(self) -> int:
        return len(self._events)

    def post(self, _: Set[str], key: str | None, time_ns: int, attributes: Attributes, body: bytes) -> bool:
        """Put an event at the end, if it is an everyday one; the names are those that were used before."""
        if not is_plain(key, attributes, body):
            return False
        encoded = encode_content((key, None, None, time_ns, False, attributes, body))
        if len(encoded) > PLAIN_BYTES_MAX:
            check_sizes(attributes, body)
        self.append(encoded)
        return True

    def append(self, encoded: bytes) -> None:
        """Put in one that is encoded already."""
        self._events.append(encoded)
        self.posted_bytes += len(encoded)

    def take(self, events_max: int, bytes_max: int) -> tuple[bytes, bytes]:
        """The sizes and the bytes of those at the beginning that fit, of one at least: what a packet is made of."""
        events = self._events
        taken = [events.popleft()]
        left_bytes = bytes_max - len(taken[0])
        while len(taken) < events_max and events and len(events[0]) <= left_bytes:
            left_bytes -= len(events[0])
            taken.append(events.popleft())
        return pack(f"<{len(taken)}I", *map(len, taken)), b"".join(taken)


def _pair(kind: type[EventId], stream: StreamId, seq: int) -> EventId:
    return tuple.__new__(kind, (stream, seq))


def plain_number(field: Any, events: list[Any], stream: StreamId, seqs: list[int]) -> None:
    """Give each event its id, as a bare pair, in that field of it (a descriptor): as many seqs as events."""
    deque(map(field.__set__, events, zip(repeat(stream), seqs, strict=True)), maxlen=0)


try:
    from gossamer.messages._quick import Outbox as Outbox
    from gossamer.messages._quick import loose
    from gossamer.messages._quick import number as number
    from gossamer.messages._quick import pair as pair
except ImportError:
    COMPILED = False
    Outbox, pair, number = PlainOutbox, _pair, plain_number  # type: ignore[assignment, misc]
else:
    COMPILED = True
"""`pair(EventId, stream, seq)`: an id, in a third of the time of its own constructor."""


def everyday(packet: Packet, wanted: Set[str], trusted: bool = False) -> list[Attributes] | None:
    """The attributes with these names, of each event of a packet, if all of them are good, stand where the table says,
    and have no key: then there is no need to decode any more of them. `trusted`: their names were checked before."""
    return loose(None if trusted else known_names, wanted, packet.sizes, packet.blob) if COMPILED else None
