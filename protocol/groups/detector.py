"""Who seems to be alive: heartbeats and patience, a failure detector of class ◊S (000 §2.2.1).

It may be wrong. Whoever was suspected and turns out to be alive is given more time from then on, so that some day the
correct ones are not suspected any more; that is all that consensus needs to end, and nothing it needs to be right.
"""

from collections.abc import Iterable

from gossamer.messages.ids import NodeId

NEVER = float("inf")
GROWTH = 1.5


class Detector:
    __slots__ = ("_forced", "_heard_at", "_patience_s", "_patience_max_s", "_suspected")

    def __init__(self, patience_s: float) -> None:
        self._heard_at: dict[NodeId, float] = {}
        self._patience_s: dict[NodeId, float] = {}
        self._patience_max_s = patience_s
        self._suspected: dict[NodeId, None] = {}
        self._forced: dict[NodeId, None] = {}

    def watch(self, nodes: Iterable[NodeId], now: float) -> None:
        """From now on these; who is new has all its patience before it."""
        self._heard_at = {node: self._heard_at.get(node, now) for node in nodes}
        self._patience_s = {node: self._patience_s.get(node, self._patience_max_s) for node in self._heard_at}
        self._suspected = {node: None for node in self._suspected if node in self._heard_at}
        self._forced = {node: None for node in self._forced if node in self._heard_at}

    def hear(self, node: NodeId, now: float) -> None:
        if node in self._heard_at:
            self._heard_at[node] = now
            if node in self._suspected:
                del self._suspected[node]
                self._patience_s[node] = min(GROWTH * self._patience_s[node], 20 * self._patience_max_s)

    def force(self, node: NodeId) -> None:
        """Suspect it whatever it says."""
        self._forced[node] = None

    def look(self, now: float) -> None:
        """Note who has been silent for too long."""
        for node, heard_at in self._heard_at.items():
            if now - heard_at >= self._patience_s[node]:
                self._suspected[node] = None

    def suspects(self, node: NodeId) -> bool:
        return node in self._suspected or node in self._forced

    def silent_s(self, node: NodeId, now: float) -> float:
        return NEVER if node in self._forced else now - self._heard_at.get(node, now)
