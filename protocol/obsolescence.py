"""The obsolescence relation: m ⊏ m' when m' makes m pointless, so that m may be left out if m' comes (000 §3.2).

Five events of one publisher, of which 1 and 3 set `x`, 2 sets `y`, 4 sets `x` and 5 names 1 and 2:

    1: key x    2: key y    3: key x    4: key x    5: obsoletes=[1, 2]
                            1 ⊏ 3       1, 3 ⊏ 4    1, 2 ⊏ 5

A slow receiver may be given 4 and 5 alone. What an event says about others stands in its `Head`, in one of the three
representations of 000 §3.3, or one that combines them:

    item tag          `key`: obsoletes the earlier events of its stream with that key, however long ago. With
                      `relation.group` those of the whole group, by one total order a group and key (`rank`, else the
                      publisher's hybrid clock; then stream and seq): what is lower in it is obsolete, early or late.
    k-enumeration     `relation.near`: a bit for each of the 256 events before it in its stream.
    enumeration       `relation.ids`: events of any stream, by id.
    commit            `relation.commit` ends a transaction (000 §3.4.3): it obsoletes earlier commits of its stream, and
                      what earlier transactions and events of it set the keys to that this one sets. The parts of a
                      transaction obsolete nothing, and nothing but a commit obsoletes a part: whoever has seen one
                      part must see the others, or something that sets as much.

The relation is meant to be a strict partial order. Tags and commits are transitive by themselves; for what is named,
the publisher adds what the named ones obsolete (protocol/annotator.py), so that m1 ⊏ m3 can be told when the m2 between
them is long gone. Where a representation ends (256 events, 1,024 ids) it tells less than is true: that costs purging,
and no event, since whatever was purged was purged for something that is there.

Why not purge whatever is obsolete, anywhere? Because what obsoletes it may never come: docs/semantics.md.
"""

from typing import NamedTuple

from gossamer.messages.event import REACH_MAX, Head, Relation
from gossamer.messages.ids import EventId, group_of

Order = tuple[float | int, str, int]
"""One total order of all events of a group and key."""


class Told(NamedTuple):
    """An event as far as obsolescence is concerned."""

    id: EventId
    head: Head


def order(event: Told) -> Order:
    """Its place among the events of its group and key (row P4)."""
    (stream, seq), head = event
    return (head.time_ns if head.rank is None else head.rank, stream, seq)


def named(by: EventId, relation: Relation | None) -> list[EventId]:
    """What an event obsoletes by a bit or an id, rather than by its key."""
    if relation is None:
        return []
    near = int.from_bytes(relation.near, "little")
    ids = [EventId(by.stream, by.seq - at) for at in range(1, near.bit_length() + 1) if near >> (at - 1) & 1]
    return [*ids, *relation.ids]


def obsoletes(newer: Told, older: Told) -> bool:
    """Whether `older ⊏ newer`, by what `newer` says: the definition that every index must agree with."""
    (stream, seq), head = older
    (by_stream, by_seq), by = newer
    said, relation = by.relation, head.relation
    if relation is not None and relation.group:
        if said is not None and said.group:
            same = head.key is not None and head.key == by.key and group_of(stream) == group_of(by_stream)
            return same and order(older) < order(newer)
    elif stream == by_stream and seq < by_seq:
        part = relation is not None and relation.part is not None
        if said is None:
            return head.key is not None and head.key == by.key and not part
        if said.commit is not None:
            earlier = relation is not None and relation.commit is not None
            if earlier or (head.key in said.commit.keys and seq < by_seq - said.commit.parts):
                return True
        elif said.part is None and not said.group and head.key is not None and head.key == by.key and not part:
            return True
    if said is None:
        return False
    if stream == by_stream:
        if not by_seq - seq > 0:
            return False
        if by_seq - seq <= REACH_MAX and int.from_bytes(said.near, "little") >> (by_seq - seq - 1) & 1:
            return True
    return older.id in said.ids
