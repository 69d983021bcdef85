"""The thread that reads the log for brokers, beside the one that writes it.

Reading a page takes as long as decoding and matching it does. The node asks for one at a time (protocol/logger.py), so
here is nothing to choose: a page that cannot be read is answered all the same, empty, and will be asked for again.
"""

import logging
import queue
import threading
from collections.abc import Callable

from gossamer.matching.stretching import Log, scan
from gossamer.messages.errors import GossamerError
from gossamer.messages.wire import Page, Span
from gossamer.protocol.effects import Scan
from gossamer.protocol.inputs import Input, Scanned

_log = logging.getLogger("gossamer.logger")


class Reader:
    """Answers `Scan`s; every call returns at once."""

    def __init__(self, log: Log, on_damaged: Callable[[tuple[Span, ...]], None] = lambda _: None) -> None:
        self._pages = log
        self._on_damaged = on_damaged
        self._jobs: queue.SimpleQueue[Scan | None] = queue.SimpleQueue()
        self._answer: Callable[[Input], None] = lambda _: None
        self._thread = threading.Thread(target=self._run, name="gossamer reader", daemon=True)
        self.pages = 0
        self.refused = 0
        """Requests that made no sense, or came to a disk that does not read."""

    def start(self, answer: Callable[[Input], None]) -> None:
        self._answer = answer
        self._thread.start()

    def scan(self, job: Scan) -> None:
        self._jobs.put(job)

    def close(self) -> None:
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._answer(Scanned(job.token, self._page(job)))

    def _page(self, job: Scan) -> Page:
        read = job.read
        try:
            page = scan(self._pages, read, job.lacks, self._on_damaged)
        except Exception as error:  # a packet that was never valid must not end the thread that all others read by
            if not isinstance(error, GossamerError):
                _log.exception("cannot read a page")
            page = Page(read.number, read.after, True, refusal=f"{error}"[:1_000] or repr(error)[:1_000])
        self.pages += 1
        if page.refusal:
            self.refused += 1
            if self.refused & (self.refused - 1) == 0:  # a flood of them is told now and then
                _log.warning("page %d was not read: %s", self.refused, page.refusal)
        return page
