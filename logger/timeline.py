"""Ages of packets that a jump of the wall clock cannot change.

Packets carry the wall-clock time of logging (`logged_ns`). While a logger runs, the node measures ages with the
monotonic clock. At a start there is only the wall clock, and it may be wrong: a machine without a battery boots in
1970, an operator sets the wrong year. Two comparisons find a jump, and each jump is kept in the store:

- **At a start**: now, against the last clock reading of the life before. A logger is believed to have been down for
  `DOWN_MAX_NS`; the excess is a jump. Forward, it is *unconfirmed*: the logger may have been down for so long.
- **While it runs**: the wall clock, against the monotonic clock. A difference of more than `STEP_NS` is a jump for
  certain.

A jump `(number, ns)` says: the clock moved by `ns` after packet `number` without time passing. The age of a packet is
now - `logged_ns`, minus all jumps after it. An unconfirmed jump is dropped when the clock of another machine agrees
with this one; then the logger was down, and the time counts. A clock that later goes back shows that the jump was an
error; it can no longer be confirmed.
"""

from collections.abc import Iterable

import msgspec

DOWN_MAX_NS = 3_600 * 10**9
"""A logger that starts is believed to have been down for this long."""
STEP_NS = 60 * 10**9
"""Difference between the wall clock and the monotonic clock that counts as a jump."""


class Jump(msgspec.Struct, array_like=True):
    """A movement of the wall clock after a packet, in which no time passed."""

    number: int
    ns: int
    certain: bool


class Timeline:
    """The jumps of a store's clock."""

    def __init__(self, text: str | None = None) -> None:
        """`text`: the jumps as `encoded` wrote them."""
        self._jumps = msgspec.json.decode(text or "[]", type=list[Jump])
        self._skew_ns: int | None = None
        """Wall clock minus monotonic clock, at the last jump."""
        self.changed = False
        """Whether there is a jump that is not in the store."""

    @property
    def unconfirmed_ns(self) -> int:
        """Time that counts for no age until another machine's clock confirms it."""
        return sum(jump.ns for jump in self._jumps if not jump.certain)

    def offset(self, number: int) -> int:
        """Nanoseconds that the clock has jumped since this packet was logged."""
        return sum(jump.ns for jump in self._jumps if jump.number >= number)

    def on_start(self, number: int, last_ns: int, now_ns: int) -> None:
        """Compare the clock with its last reading in the life before, which ended with packet `number`."""
        moved_ns = now_ns - last_ns
        if moved_ns > DOWN_MAX_NS:
            self._add(Jump(number, moved_ns - DOWN_MAX_NS, False))
        elif moved_ns < -DOWN_MAX_NS:
            self._on_back(Jump(number, moved_ns + DOWN_MAX_NS, True))

    def on_time(self, number: int, now_ns: int, steady_ns: int) -> None:
        """Compare the clock with the monotonic clock, before anything after packet `number` is logged."""
        skew_ns = now_ns - steady_ns
        if self._skew_ns is None:
            self._skew_ns = skew_ns
        moved_ns = skew_ns - self._skew_ns
        if abs(moved_ns) > STEP_NS:
            self._skew_ns = skew_ns
            jump = Jump(number, moved_ns, True)
            if moved_ns > 0:
                self._add(jump)
            else:
                self._on_back(jump)

    def confirm(self) -> None:
        """Let the time of unconfirmed jumps count: the clock is right."""
        self.changed = self.changed or self.unconfirmed_ns > 0
        self._jumps = [jump for jump in self._jumps if jump.certain]

    def forget_before(self, number: int) -> None:
        """Drop jumps from before this packet, the oldest that is left."""
        self._jumps = [jump for jump in self._jumps if jump.number >= number]

    def encoded(self) -> str:
        return msgspec.json.encode(self._jumps).decode()

    def _on_back(self, back: Jump) -> None:
        """Take a jump backwards. It shows that as much of the unconfirmed jumps was an error of the clock."""
        left_ns = -back.ns
        kept: Iterable[Jump] = reversed(self._jumps)
        self._jumps = []
        for jump in kept:
            error_ns = 0 if jump.certain else min(left_ns, jump.ns)
            left_ns -= error_ns
            if error_ns:
                self._jumps.append(Jump(jump.number, error_ns, True))
            if error_ns < jump.ns or jump.certain:
                self._jumps.append(Jump(jump.number, jump.ns - error_ns, jump.certain))
        self._jumps.reverse()
        self._add(back)

    def _add(self, jump: Jump) -> None:
        self._jumps.append(jump)
        self.changed = True
