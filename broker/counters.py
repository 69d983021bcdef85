"""What a node has done so far, each counted in one place: at the mesh what passes, at the runtime what was decided."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Totals since the start; read from any thread, written by the node's own."""

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
    sessions: int = 0
    """Links opened or opened anew."""

    # The node -------------------------------------------------------------------------------------------------------
    messages_sent: int = 0
    """Each once, however many it goes to."""
    packets_delivered: int = 0
    events_delivered: int = 0
    events_skipped: int = 0
    events_refused: int = 0
    acknowledgements: int = 0
    persists: int = 0
    loads: int = 0
    collects: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
