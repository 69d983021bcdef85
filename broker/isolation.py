"""Whether this broker is cut off: it knows other members, and none of them has given a sign of life for a while.

Any message of another member is a sign of life, and so is its answer to a mark on the link to it (broker/link.py: one
goes out every `probe_s`). A broker that knows of no other member is alone and not cut off. Time that passed while
nobody looked does not count: this process may have been suspended itself.
"""

CUT_OFF_S = 3.5
"""No sign of life for so long: the answers to a probe and to the next one are overdue."""
LATE_S = 2.0
"""Looks are further apart than this only if this process was held up."""
NEVER = float("inf")


class Isolation:
    """The judgement of one broker, from look to look."""

    __slots__ = ("_heard_at", "_looked_at", "_reached_at")

    def __init__(self) -> None:
        self._looked_at = -NEVER
        self._reached_at = 0.0
        self._heard_at = -NEVER

    def look(self, now: float, heard_at: float | None) -> bool:
        """Whether this broker is cut off; the last sign of life came at `heard_at`, None without other members."""
        held_up = now > self._looked_at + LATE_S
        if held_up or heard_at is None or heard_at > self._heard_at:
            self._reached_at = now
        if heard_at is not None:
            self._heard_at = heard_at
        self._looked_at = now
        return now >= self._reached_at + CUT_OFF_S
