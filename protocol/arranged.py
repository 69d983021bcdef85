"""Reading from a logger in a group with an order: pages in the order of a log, stretches out in that of the group.

A log is in the order in which its logger heard of things. Of a group with total order the broker remembers the last
decisions (protocol/total.py), and puts what is read into their order:

    the log          b:0  a:0-3  b:1  a:4          decided    a ≤ 1,  b ≤ 1,  a ≤ 4
    is passed on     a:0-1  b:0-1  a:2-4

What is older than the decisions that are remembered comes first, each publisher's in its own order. And nothing is
passed on that the broker itself has not handed out, since that is what the reader goes on with when it has caught up.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from gossamer.messages.ids import StreamId
from gossamer.messages.wire import Page, Stretch
from gossamer.protocol.replay import Missing, Replay, beyond, upto
from gossamer.protocol.total import TotalOrder

HELD_BYTES_MAX = 32 * 2**20


class ArrangedReplay(Replay):
    """`released()` tells how far each stream has been handed out here; without `order` it is all that counts."""

    def __init__(
        self, *given: Any, order: TotalOrder | None, released: Callable[[], Mapping[StreamId, int]], **more: Any
    ):
        super().__init__(*given, **more)
        self._order = order
        self._released = released
        self._parts: dict[StreamId, deque[Stretch | Missing]] = {}
        """Read, and not passed on."""
        self._bytes = 0
        self._at = -1
        """The decision that comes next, by its number; -1: what is older than those remembered."""
        self._mark = 0
        """Which of its marks."""

    def ask_elsewhere(self) -> None:
        """What was read and not passed on is read again."""
        super().ask_elsewhere()
        for stream, parts in self._parts.items():
            self._read[stream] = parts[0].first - 1
        self._parts.clear()
        self._bytes = 0

    def on_page(self, page: Page) -> list[Stretch | Missing]:
        reads = self.phase == "read"
        found = super().on_page(page)
        if not reads:
            return found
        for part in found:
            self._parts.setdefault(part.stream, deque()).append(part)
            self._bytes += _bytes(part)
        out: list[Stretch | Missing] = []
        self._arrange(out)
        return out

    def _arrange(self, out: list[Stretch | Missing]) -> None:
        released = self._released()
        # When all is read that there is to read, what did not come will not: nothing is waited for.
        waits = not self.reached and self._bytes <= HELD_BYTES_MAX
        if self._order is not None:
            first, base, decisions = self._order.past()
            if self._at < first:
                for stream in list(self._parts):
                    self._pass(stream, min(base.get(stream, -1), released.get(stream, -1)), out)
                if waits and any(
                    not self._has(stream, min(last, released.get(stream, -1))) for stream, last in base.items()
                ):
                    return
                self._at, self._mark = first, 0
            while self._at < first + len(decisions):
                marks = decisions[self._at - first]
                for stream, last in marks[self._mark :]:
                    self._pass(stream, min(last, released.get(stream, -1)), out)
                    if waits and not self._has(stream, last):
                        return
                    self._mark += 1
                self._at, self._mark = self._at + 1, 0
        for stream in list(self._parts):
            self._pass(stream, released.get(stream, -1), out)

    def _has(self, stream: StreamId, last: int) -> bool:
        """Whether a stream has been read, and passed on, up to there."""
        position, parts = self.position(stream), self._parts.get(stream)
        return position is not None and position >= last and (not parts or parts[0].first > last)

    def _pass(self, stream: StreamId, last: int, out: list[Stretch | Missing]) -> None:
        parts = self._parts.get(stream)
        while parts and parts[0].first <= last:
            part = parts.popleft()
            self._bytes -= _bytes(part)
            if part.last > last:
                rest = part._replace(first=last + 1) if isinstance(part, Missing) else beyond(part, last)
                part = part._replace(last=last) if isinstance(part, Missing) else upto(part, last)
                parts.appendleft(rest)
                self._bytes += _bytes(rest)
            out.append(part)
        if parts is not None and not parts:
            del self._parts[stream]


def _bytes(part: Stretch | Missing) -> int:
    return len(part.blob) if isinstance(part, Stretch) else 0
