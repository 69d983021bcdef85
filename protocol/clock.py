"""A hybrid logical clock: wall time that never stands still, never goes back, and is never behind what was seen.

Events of scope "group" without a rank are ordered by their publishers' clocks (row P4). Wall clocks alone would not do:
whoever reads a value and then replaces it must come after it in that order, also when its own clock is behind. So a
client's clock moves past every time it is delivered, and `a seen by b` implies `time(a) < time(b)`.

The price is that clocks drag each other along. One peer whose clock is set to next year must not take everybody there,
for nobody could outbid its events until then; so others drag a clock at most `drift_max_ns` ahead of its own wall time.
"""

DRIFT_MAX_NS = 60 * 10**9


class HybridClock:
    """Times for the events of one publisher; `now_ns` is its wall clock, and an argument."""

    __slots__ = ("drift_max_ns", "last_ns")

    def __init__(self, *, drift_max_ns: int = DRIFT_MAX_NS) -> None:
        self.drift_max_ns = drift_max_ns
        self.last_ns = -1
        """The latest time given or observed."""

    def tick(self, now_ns: int) -> int:
        """A time for an event: not before now, and later than every time given or observed."""
        following = self.last_ns + 1
        self.last_ns = time_ns = now_ns if now_ns > following else following
        return time_ns

    def observe(self, time_ns: int, now_ns: int) -> None:
        """An event with this time was delivered: what is said from here on comes after it, within the drift."""
        self.last_ns = max(self.last_ns, min(time_ns, now_ns + self.drift_max_ns))
