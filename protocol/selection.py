"""Whom to gossip with: uniformly, or biased towards near members by round-trip time (rpbcast §4.2, §7.5)."""

from collections.abc import Sequence
from itertools import accumulate

from gossamer.messages.ids import NodeId
from gossamer.protocol.context import Context

SMOOTHING = 0.125
"""The weight of a new round-trip sample, as in TCP."""
HEADROOM = 1.1
"""The farthest member keeps a small chance: its weight is that of a member a tenth farther than the farthest."""
POWER = {"uniform": 0, "linear": 1, "quadratic": 2}
REDRAWS = 2
"""A member that did not answer last time is drawn again so often before it is taken all the same."""


class Selection:
    """Round-trip times, and draws weighted by them."""

    __slots__ = ("_asked", "_ctx", "_cumulative", "_drawn_from", "_silent", "_stale", "rtt_s")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.rtt_s: dict[NodeId, float] = {}
        self._asked: dict[NodeId, tuple[int, float]] = {}
        self._silent: dict[NodeId, None] = {}
        self._drawn_from: Sequence[NodeId] = ()
        self._cumulative: list[float] | None = None
        self._stale = 0

    def choose(self, members: Sequence[NodeId]) -> NodeId | None:
        """One member, or None if there is none."""
        if not members:
            return None
        chosen = self._draw(members)
        for _ in range(REDRAWS):
            if chosen not in self._silent:
                break
            chosen = self._draw(members)
        return chosen

    def asked(self, node: NodeId, round_no: int) -> None:
        """A gossip of that round went to `node`: whoever has not answered the one before counts as silent."""
        if node in self._asked:
            self._silent[node] = None
        self._asked[node] = (round_no, self._ctx.now)

    def answered(self, node: NodeId, round_no: int) -> None:
        self._silent.pop(node, None)
        asked = self._asked.pop(node, None)
        if asked is not None and asked[0] == round_no:
            sample = self._ctx.now - asked[1]
            known = self.rtt_s.get(node)
            self.rtt_s[node] = sample if known is None else known + SMOOTHING * (sample - known)
            self._stale += 1

    def patience_s(self, node: NodeId) -> float:
        """How long a request to `node` counts as in flight."""
        round_s = self._ctx.config.round_interval_s
        rtt = self.rtt_s.get(node)
        return round_s if rtt is None else min(2 * rtt, round_s)

    def forget(self, node: NodeId) -> None:
        for table in (self.rtt_s, self._asked, self._silent):
            table.pop(node, None)

    def _draw(self, members: Sequence[NodeId]) -> NodeId:
        power = POWER[self._ctx.config.selection]
        if power == 0 or not self.rtt_s:
            return self._ctx.rng.choice(members)
        if members is not self._drawn_from or self._stale > len(members) or self._cumulative is None:
            self._drawn_from, self._stale = members, 0
            self._cumulative = list(accumulate(self.weigh([self.rtt_s.get(node) for node in members], power)))
        return self._ctx.rng.choices(members, cum_weights=self._cumulative)[0]

    def weigh(self, rtts_s: Sequence[float | None], power: int) -> list[float]:
        return weights(rtts_s, power)


def weights(rtts_s: Sequence[float | None], power: int) -> list[float]:
    """A weight for each round-trip time, falling linearly (power 1) or quadratically (2) as it grows; members not
    measured yet count as of middling distance."""
    known = sorted(rtt for rtt in rtts_s if rtt is not None)
    if not known or known[-1] <= 0:
        return [1.0] * len(rtts_s)
    farthest, middling = known[-1], known[len(known) // 2]
    return [(HEADROOM - (middling if rtt is None else rtt) / farthest) ** power for rtt in rtts_s]
