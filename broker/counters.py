"""What a node has done so far, each thing counted in one place: at the mesh what passes, at the runtime what effects
say, at the sessions what clients did, at the deliveries what became of it.

Telemetry, `/metrics` and tests read these and nothing else. What shows in no effect is counted by the machine that does
it (protocol/tally.py).
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, fields

LATENCY_BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
)  # fmt: skip


class Histogram:
    """How many observations lie up to each bound, and how much they come to."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of each bound those up to it and over the one before; the last are over all."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def quantile(self, share: float, before: list[int] | None = None) -> float | None:
        """The bound that this share of the observations lies within, of those since the counts were `before`; None
        without any, infinity beyond the last bound."""
        counts = self.counts if before is None else [now - then for now, then in zip(self.counts, before, strict=True)]
        rest = share * sum(counts)
        if not rest:
            return None
        for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
            rest -= count
            if rest <= 0:
                return bound
        return float("inf")


@dataclass(slots=True)
class Counters:
    """Totals since the start; read from any thread, written by the node's own. Those with a kind to them (a reason, a
    code) are counted by kind."""

    # The mesh -------------------------------------------------------------------------------------------------------
    frames_sent: int = 0
    bytes_sent: int = 0
    frames_received: int = 0
    bytes_received: int = 0
    frames_dropped: int = 0
    """Not sent: a queue was full, or had grown stale, or nobody knows the way. The protocol repairs it."""
    frames_lost: int = 0
    """Lost on purpose (broker/faults.py)."""
    peer_errors: int = 0
    """Frames of peers that were malformed, of another version, or for somebody else."""
    link_sessions: int = 0
    """Links opened or opened anew."""

    # The node: what its effects say. Telemetry itself is not counted among the events. -----------------------------
    messages_sent: Counter[str] = field(default_factory=Counter)
    """By kind; each once, however many it goes to."""
    packets_delivered: int = 0
    events_delivered: int = 0
    """To this node, by the mesh or by its own clients."""
    events_skipped: Counter[str] = field(default_factory=Counter)
    """Will not come, by reason."""
    events_refused: int = 0
    """Not taken from their publisher now; it offers them again."""
    packets_repaired: int = 0
    """Sent to others who lacked them."""
    acknowledgements: int = 0
    telemetry_events: int = 0
    """Delivered in `$sys`."""

    # A logger -------------------------------------------------------------------------------------------------------
    persists: int = 0
    loads: int = 0
    scans: int = 0
    collects: int = 0
    events_stored: int = 0

    # Clients --------------------------------------------------------------------------------------------------------
    client_sessions: int = 0
    client_errors: int = 0
    """Frames that were malformed, or that nobody could have meant."""
    refusals: Counter[str] = field(default_factory=Counter)
    """By code: whoever asked for too much, or for something wrong, has been told."""
    packets_published: int = 0
    events_published: int = 0
    bytes_published: int = 0
    packets_resent: int = 0
    frames_delivered: int = 0
    bytes_delivered: int = 0
    clients_lost: int = 0
    """Sessions that ended without a goodbye: silent, gone, or cut off because they took nothing."""

    # Subscriptions --------------------------------------------------------------------------------------------------
    subscriptions_added: int = 0
    subscriptions_changed: int = 0
    subscriptions_removed: int = 0
    events_matched: int = 0
    """Each as often as there are subscriptions that it matches."""
    events_queued: int = 0
    """Had to wait for their consumer."""
    events_lost: int = 0
    """Matched, or may have, and could not be kept for the subscription."""
    subscriptions_excused: int = 0
    """Times that publishers stopped waiting for a subscription, which took nothing for `backpressure_max_s`."""
    fallen_behind: int = 0
    """Queues that were full of what is not obsolete."""

    def flat(self) -> dict[str, int]:
        """All of them by name; of those with kinds the sum, and each kind under `name_kind`."""
        found: dict[str, int] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Counter):
                found[each.name] = value.total()
                found |= {f"{each.name}_{kind}": count for kind, count in list(value.items())}
            else:
                found[each.name] = value
        return found
