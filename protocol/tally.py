"""What the machines of a node count because no effect shows it: how gaps were closed, and what was purged where.

One a node, in its `Context`; telemetry reads it.
"""

from collections import Counter
from typing import Literal

from gossamer.messages.ids import StreamId, group_of

KEYS_MAX = 4_096
ROUNDS_MAX = 64
"""So many rounds or more count as this many."""

Hop = Literal["link", "gossip", "send", "queue"]
"""Where: towards a peer, kept for repairs, kept until logged, towards a subscription."""
Why = Literal["obsolete", "room"]
"""Something newer makes up for it; or there was no room, and it is repaired later."""
Reason = Literal["stable", "expired", "shed", "shed unseen", "moved", "obsolete"]
"""Why a logger let go of something: everyone had it; somebody lacked it, and it was too old; it was too much, and
everyone had it or not; other loggers keep it now; or it was obsolete for something that is logged (`compact`)."""
Way = Literal["late", "gossip", "logger"]
"""What closed a gap: the event itself came after all, a member had it, or a logger."""


class Tally:
    """Totals since the start."""

    __slots__ = ("collected", "purged", "purged_keys", "repaired", "way")

    def __init__(self) -> None:
        self.collected: Counter[Reason] = Counter()
        """Events that a logger has let go of."""
        self.repaired: Counter[tuple[Way, int]] = Counter()
        """Events that were missing and came, by the way they came and the rounds it took."""
        self.way: Way = "late"
        """How what is being taken in has come."""
        self.purged: Counter[tuple[Hop, Why]] = Counter()
        self.purged_keys: Counter[tuple[Hop, str, str]] = Counter()
        """By hop, group and key; whoever reports them clears them, and without a report they are so many at most."""

    def repair(self, rounds: int, events: int) -> None:
        self.repaired[self.way, min(rounds, ROUNDS_MAX)] += events

    def purge(self, hop: Hop, why: Why, stream: StreamId, key: str | None, events: int = 1) -> None:
        self.purged[hop, why] += events
        if key is not None and why == "obsolete":
            self.purge_key(hop, group_of(stream), key, events)

    def purge_key(self, hop: Hop, group: str, key: str, events: int) -> None:
        """Of what is counted as obsolete, so many are of this key."""
        found = hop, group, key
        if found in self.purged_keys or len(self.purged_keys) < KEYS_MAX:
            self.purged_keys[found] += events
