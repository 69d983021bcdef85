"""Thinning what is kept for others: an event may go when what obsoletes it is *safe* (000 §4.3, `purge_r`).

A delivery queue drops what is obsolete at once, because what obsoletes it is in the same queue and will be delivered.
What is kept to repair others is different: drop m for m' before m' is safe, and a crash that takes m' leaves others
without either, though they have gone on to what came in between (000 App. A.2). The marks left behind are final.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Head
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet
from gossamer.protocol.purging import PurgingBuffer


def thin(
    packets: Iterable[Packet], purges: Callable[[StreamId], bool], is_safe: Callable[[EventId], bool]
) -> list[tuple[Packet, Packet]]:
    """Those of the packets that can do with less, each with what is left of it. `purges(stream)` tells whether a
    stream's group wants it."""
    looked = [(packet, _heads(packet)) for packet in packets if purges(packet.stream)]
    if not any(head.relation is not None for _, heads in looked for _, head in heads):
        # Then only keys make obsolete, and what has none is not worth looking at.
        looked = [(packet, [each for each in heads if each[1].key is not None]) for packet, heads in looked]
    everything = PurgingBuffer(2**62, 2**62, overflow="refuse")
    purged: dict[tuple[StreamId, int], list[tuple[int, EventId]]] = {}
    holders: dict[tuple[StreamId, int], Packet] = {}
    for packet, heads in looked:
        for seq, head in heads:
            for omitted in everything.append(packet.stream, seq, head, 0, packet):
                entry, by = omitted.entry, omitted.by
                if by is not None and is_safe(by):
                    holder = (entry.stream, entry.payload.first)
                    holders[holder] = entry.payload
                    purged.setdefault(holder, []).append((entry.seq, by))
    return [(packet, packet.thin(purged[at], final=True)) for at, packet in holders.items()]


def _heads(packet: Packet) -> list[tuple[int, Head]]:
    try:
        return packet.heads()
    except PeerError:
        return []  # a peer's rubbish is kept as it is: nobody can tell what it obsoletes
