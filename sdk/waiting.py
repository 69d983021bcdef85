"""Waiting for what comes, without a turn of the event loop between its coming and its being had.

Whoever awaits a future of asyncio's is resumed in the loop's next turn: for an event that is here already the loop
looks at all its descriptors and at its clock once more. That was a quarter of what a subscriber took for a lone event
(docs/performance.md). But when the loop has just been told that a client's socket can be read it is in nobody's task,
and may as well resume the first that waits for what was read, as soon as all of it is put away.
"""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any


class Turns:
    """When an application's event loop last turned, as far as its clients have seen; and whom this turn resumes."""

    __slots__ = ("_first", "at", "attending")

    def __init__(self) -> None:
        self.at = 0.0
        self.attending = False
        """Whether the loop is taking in what has come, in no task."""
        self._first: Wait | None = None

    def defer(self, wait: "Wait") -> bool:
        """Whether this one is to be resumed when all that has come is taken in."""
        if not self.attending or self._first is not None:
            return False
        self._first = wait
        return True

    def resume(self) -> None:
        """All of it is: to be called with nothing in hand that a task may want."""
        self.attending = False
        if (wait := self._first) is not None:
            self._first = None
            loop = wait.get_loop()
            if asyncio.current_task(loop) is None:
                wait.resume()
            else:  # somebody runs the loop within a task
                loop.call_soon(wait.resume)


class Wait:
    """A future, as far as a task that awaits it can tell."""

    __slots__ = ("_asyncio_future_blocking", "_callback", "_cancelled", "_context", "_done", "_loop", "_turns")

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        self._loop = loop
        self._turns = turns
        self._asyncio_future_blocking = False  # how a task knows that it was yielded by `await`
        self._callback: Callable[[Wait], object] | None = None
        self._context: Context | None = None
        self._done = self._cancelled = False

    def __await__(self) -> Generator[Any, None, None]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def settle(self) -> None:
        """What was waited for is there."""
        if not self._done:
            self._done = True
            if not self._turns.defer(self):
                self._loop.call_soon(self.resume)

    def resume(self) -> None:
        if self._callback is not None:
            assert self._context is not None
            self._context.run(self._callback, self)

    # What a task asks of a future -----------------------------------------------------------------------------------

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[["Wait"], object], *, context: Context) -> None:
        assert self._callback is None, "one task waits for it"
        self._callback, self._context = callback, context

    def done(self) -> bool:
        return self._done

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (as a task calls it)
        if self._done:
            return False
        self._done = self._cancelled = True
        self._loop.call_soon(self.resume)
        return True

    def result(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError
