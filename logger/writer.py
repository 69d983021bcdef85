"""The thread between a node that never waits and a disk that makes one wait.

A sync costs the same for one packet as for a thousand, so whatever has come in while the last one was under way goes
down with the next: the slower the disk, the larger the groups. Each `Persist` is answered once its group is on disk, in
order. While the disk fails nothing is answered, so nothing is acknowledged; it is tried again until it works. Reads are
answered meanwhile, if the disk still reads.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from gossamer.logger.archive import Archive
from gossamer.logger.databases import StoreError
from gossamer.logger.keeper import LATE_S, Keeper
from gossamer.logger.reader import Reader
from gossamer.logger.store import Store
from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Read, Span
from gossamer.protocol.effects import Collect, Load, Persist, Record, Scan, Stored
from gossamer.protocol.inputs import Compacted, Damaged, Input, Loaded, Measured, Persisted

GROUP_BYTES_MAX = 16 * 2**20
RETRY_S = 0.1
RETRY_MAX_S = 5.0
MARK_S = 1.0

_log = logging.getLogger("gossamer.logger")


class _Struck(NamedTuple):
    """Somebody has found that these are not as they were written."""

    spans: tuple[Span, ...]


class _Swept(NamedTuple):
    """Nothing is left of this stream up to `last`."""

    stream: StreamId
    last: int


_Job = Persist | Load | Collect | _Struck | _Swept


class Writer:
    """Drives a `Store` for a runtime; every call returns at once."""

    def __init__(self, store: Store, archive: Archive | None = None, compact: bool = False) -> None:
        self._store = store
        self.reader = Reader(store, lambda spans: self._jobs.put(_Struck(spans)))
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.keeper = Keeper(
            store.database, lambda stream, last: self._jobs.put(_Swept(stream, last)), archive, compact
        )
        self.keeper.sound = lambda: not store.in_doubt
        self.keeper.on_compacted = lambda events, size: self._answer(Compacted(events, size))
        self._collected = False
        self._tokens: list[int] = []
        """Staged, and to be answered after the next commit."""
        self._answer: Callable[[Input], None] = lambda _: None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="gossamer writer", daemon=True)
        self.trouble: str | None = None
        """What is wrong with the disk, while something is."""
        self.commits = 0
        self._derived: int | None = None
        """The last packet that was known to be derived."""
        self._marks: deque[tuple[int, float]] = deque()
        """The ages of packets that may not be derived: the last packet of each second, and when that began."""

    @property
    def node(self) -> NodeId | None:
        return self._store.node

    @property
    def url(self) -> str:
        return self._store.database.url

    def stored(self) -> Stored:
        return self._store.stored()

    def start(self, answer: Callable[[Input], None], node: NodeId) -> None:
        """From now on the store is this thread's, and answers go to `answer`."""
        self._store.claim(node)
        self._answer = answer
        self._marks.append((self._store.number, time.monotonic()))
        self._thread.start()
        self.reader.start(answer)
        self.keeper.start(node)

    def persist(self, token: int, records: tuple[Record, ...]) -> None:
        self._jobs.put(Persist(token, records))

    def load(self, token: int, spans: tuple[Span, ...]) -> None:
        self._jobs.put(Load(token, spans))

    def scan(self, token: int, read: Read, lacks: tuple[Span, ...]) -> None:
        self.reader.scan(Scan(token, read, lacks))

    def collect(self, stream: StreamId, last: int) -> None:
        self._jobs.put(Collect(stream, last))

    def compact(self, safe: Mapping[StreamId, int]) -> None:
        """What is obsolete for something up to there may go."""
        self.keeper.compacting.safe.update(safe)
        self.keeper.wake()

    def figures(self) -> dict[str, int]:
        """For telemetry."""
        deriving = self.keeper.deriving
        lag_packets, lag_s = self._lag()
        return {
            "commits": self.commits,
            "waiting": self._jobs.qsize(),
            "damaged": self._store.damaged,
            "packets": self._store.number,
            "lag_packets": lag_packets,
            "lag_ms": int(1e3 * lag_s),
            "derived_events": deriving.events,
            "compacted_events": self.keeper.compacting.events,
            "pages": self.reader.pages,
        }

    def _mark(self) -> None:
        """Note what has been logged, and forget what has been derived."""
        now, derived = time.monotonic(), self.keeper.deriving.number
        while derived is not None and self._marks and self._marks[0][0] <= derived:
            self._marks.popleft()
        if self._marks and now - self._marks[-1][1] < MARK_S:
            now = self._marks.pop()[1]  # as old as the oldest of its second
        self._marks.append((self._store.number, now))

    def troubles(self) -> list[str]:
        """What is wrong with the disk, while something is."""
        return [reason for reason in (self.trouble, self.keeper.trouble) if reason is not None]

    def warnings(self) -> list[str]:
        """What an operator should know of the store, though it works."""
        packets, lag_s = self._lag()
        return [f"the SQL tables are {lag_s:.0f} s behind the log ({packets} packets)"] if lag_s > LATE_S else []

    def _lag(self) -> tuple[int, float]:
        """Packets that are not derived yet, and how long ago the first of them was logged."""
        number = self.keeper.deriving.number
        derived = self._derived = self._derived if number is None else number  # None while a piece is made
        if derived is None:
            return 0, 0.0
        since = next((at for last, at in list(self._marks) if last > derived), None)
        return max(0, self._store.number - derived), 0.0 if since is None else time.monotonic() - since

    def close(self) -> None:
        """Write what was asked for, unless the disk does not let us, and let go of the store."""
        self.reader.close()
        self.keeper.close()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._store.close()

    # The thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.trouble = repr(error)
            _log.exception("the writer stopped working: nothing will be acknowledged any more")

    def _work(self) -> None:
        retry_s = RETRY_S
        with suppress(StoreError):  # then it counts from here on
            if size := self._store.bytes():
                self._answer(Measured(size))
        while not self._closing:
            if self.trouble is None:
                self._gather(None)
            else:
                self._gather(time.monotonic() + retry_s)
            try:
                self._store.commit()
            except StoreError as error:
                retry_s = min(2 * retry_s, RETRY_MAX_S)
                self._on_trouble(str(error))
            else:
                retry_s = RETRY_S
                self._on_committed()

    def _gather(self, until: float | None) -> None:
        """Stage all that has come; wait for something, or, with the disk in trouble, until it is time to try again."""
        job = self._next(until)
        group_bytes = 0
        while job is not None:
            match job:
                case Persist(token, records):
                    self._store.apply(records)
                    self._tokens.append(token)
                    group_bytes += sum(len(record.blob) for record in records if isinstance(record, Packet))
                case Collect(stream, last):
                    self._store.collect(stream, last)
                    self._collected = True
                case _Struck(spans):
                    self._strike(spans)
                case _Swept(stream, last):
                    self._store.on_swept(stream, last)
                case Load(token, spans):
                    self._answer(Loaded(token, self._found(spans)))
            if (self._jobs.empty() and until is None) or group_bytes > GROUP_BYTES_MAX:
                return
            job = self._next(until)

    def _next(self, until: float | None) -> _Job | None:
        try:
            job = self._jobs.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
        except queue.Empty:
            return None
        self._closing = self._closing or job is None
        return job

    def _found(self, spans: tuple[Span, ...]) -> tuple[Packet, ...]:
        damaged = self._store.damaged
        try:
            packets = self._store.load(spans)
        except StoreError as error:
            _log.error("cannot read: %s", error)
            return ()
        if self._store.damaged > damaged:
            self._strike(spans)
        return packets

    def _strike(self, spans: tuple[Span, ...]) -> None:
        """Have no more what is damaged, so that it can be had again from others."""
        try:
            struck = self._store.strike(spans)
        except StoreError as error:
            _log.error("cannot read: %s", error)
            return
        if struck:
            _log.error("%s is damaged, and asks others for: %s", self._store.path, " ".join(map(_told, struck)))
            self._answer(Damaged(struck))

    def _on_trouble(self, text: str) -> None:
        if self.trouble != text:
            _log.error("cannot write, and acknowledge nothing until it works again: %s", text)
        self.trouble = text

    def _on_committed(self) -> None:
        if self.trouble is not None:
            _log.warning("%s can be written again", self._store.path)
            self.trouble = None
        self.commits += 1
        self._mark()
        self.keeper.wake(self._collected)
        self._collected = False
        tokens, self._tokens = self._tokens, []
        for token in tokens:
            self._answer(Persisted(token))


def _told(span: Span) -> str:
    return " ".join(f"{span.stream}:{first} to {last}" for first, last in span.ranges)
