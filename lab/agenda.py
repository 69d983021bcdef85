"""Virtual time: what is to happen, in order."""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Entry = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class Agenda:
    """A heap of actions by time; those of one instant happen in the order in which they were entered.

    Actions are bound methods with their arguments, never closures: an entry costs one tuple.
    """

    __slots__ = ("now_s", "_heap", "_entered")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[Entry] = []
        self._entered = 0

    def at(self, at_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Enter an action; what should have happened already happens now."""
        self._entered += 1
        heappush(self._heap, (at_s if at_s > self.now_s else self.now_s, self._entered, action, arguments))

    def next_s(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def run(self, until_s: float) -> None:
        """Do everything up to and including `until_s`, and leave the clock there."""
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            self.now_s, _, action, arguments = heappop(heap)
            action(*arguments)
        if self.now_s < until_s < math.inf:
            self.now_s = until_s

    def run_until(self, done: Callable[[], bool], limit_s: float, every_s: float = 0.0) -> bool:
        """Run until `done()`, asked whenever time moved on by `every_s`; False if that took more than `limit_s`."""
        stop_s = self.now_s + limit_s
        while not done():
            if self.next_s() > stop_s:
                self.run(stop_s)
                return done()
            self.run(min(max(self.next_s(), self.now_s + every_s), stop_s))
        return True
