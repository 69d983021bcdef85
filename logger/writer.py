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
from gossamer.protocol.inputs import Aged, Compacted, Damaged, Input, Loaded, Measured, Persisted

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


class _Confirmed(NamedTuple):
    """The clock of this member, which agrees with ours, stands on another machine."""

    node: NodeId


class _Repaired(NamedTuple):
    """The other loggers have confirmed that this store holds all that they hold."""


_Job = Persist | Load | Collect | _Struck | _Swept | _Confirmed | _Repaired

POSITION_S = 1.0
"""How often the last position is written beside the database."""

AGREES_S = 60.0
"""Clocks agree if they differ by no more than this."""


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
        self._clocks_off_s: dict[NodeId, float] = {}
        """Members whose clocks disagree with this one while a jump of it is unconfirmed: the smallest difference."""
        self._confirmed = False
        self._position_due = 0.0

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
        self._tell_jump()
        if self._store.lost is not None:
            told = {"event": "lost", "had": self._store.lost.had, "has": self._store.lost.has}
            _log.error("%s", _lost(self._store), extra={"fields": told})
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

    @property
    def has_lost(self) -> bool:
        """Whether the store lacks packets that it held, and nobody has accepted or repaired that."""
        return self._store.lost is not None

    def on_repaired(self) -> None:
        """Hear that the other loggers have confirmed that this store holds all that they hold."""
        self._jobs.put(_Repaired())

    @property
    def doubts_clock(self) -> bool:
        """Whether the clock has jumped, and no other machine's clock has confirmed it."""
        return self._store.timeline.unconfirmed_ns > 0 and not self._confirmed

    def on_clock(self, node: NodeId, ahead_s: float, own_machine: bool) -> None:
        """Hear how far this clock is ahead of another member's. A member on this machine has the same clock: it can
        only contradict."""
        if abs(ahead_s) > abs(self._clocks_off_s.get(node, ahead_s)):
            return  # a sample that came late
        self._clocks_off_s[node] = ahead_s
        if abs(ahead_s) <= AGREES_S and not own_machine and self.doubts_clock:
            self._confirmed = True
            self._jobs.put(_Confirmed(node))

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
            "clock_doubt_s": self._store.timeline.unconfirmed_ns // 10**9,
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
        found = [reason for reason in (self.trouble, self.keeper.trouble, *self.keeper.findings) if reason is not None]
        if self._store.lost is not None:
            found.append(_lost(self._store))
        off_s = {node: off_s for node, off_s in self._clocks_off_s.items() if abs(off_s) > AGREES_S}
        if self.doubts_clock and off_s:
            node, ahead_s = min(off_s.items(), key=lambda each: abs(each[1]))
            way = "ahead of" if ahead_s > 0 else "behind"
            found.append(
                f"the clock jumped by {_jumped_s(self._store)} s and is {abs(ahead_s):.0f} s {way} that of {node}: "
                "events are kept longer until it is set right"
            )
        return found

    def warnings(self) -> list[str]:
        """Warnings about a store that works."""
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
            with suppress(StoreError):  # then the time since the last packet counts as down
                self._store.note_clock()
                self._store.keep_position()
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
                case _Repaired():
                    if self._store.lost is not None:
                        self._store.forget_loss()
                        _log.warning("%s is repaired: it holds all that the other loggers hold", self._store.path)
                case _Confirmed(node):
                    self._confirm(node)
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

    def _tell_jump(self) -> None:
        if self.doubts_clock:
            _log.warning(
                "the clock is %s s ahead of the newest time in %s, and a logger is believed to be down for an hour: "
                "events are kept longer by that much, until the clock of another machine confirms it",
                _jumped_s(self._store),
                self._store.path,
                extra={"fields": {"event": "clock", "jumped_s": _jumped_s(self._store)}},
            )

    def _confirm(self, node: NodeId) -> None:
        """Count the time of the jump, now that it is certain."""
        jumped_s = _jumped_s(self._store)
        self._store.confirm_clock()
        self._clocks_off_s.clear()
        try:
            self._answer(Aged(self._store.ages()))
        except StoreError as error:
            _log.error("cannot read: %s", error)  # the ages count in full from the next start on
        else:
            _log.warning("%s confirms the clock: the logger was down, and %s s count for all ages", node, jumped_s)

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
        if (now := time.monotonic()) >= self._position_due:
            self._position_due = now + POSITION_S
            self._store.keep_position()
        self.keeper.wake(self._collected)
        self._collected = False
        tokens, self._tokens = self._tokens, []
        for token in tokens:
            self._answer(Persisted(token))


def _lost(store: Store) -> str:
    assert store.lost is not None
    return (
        f"{store.path} has lost packets: it ended with packet {store.lost.had}, and was found to end with packet "
        f"{store.lost.has}; the other loggers repair it, or --accept-loss goes on without them"
    )


def _jumped_s(store: Store) -> int:
    return store.timeline.unconfirmed_ns // 10**9


def _told(span: Span) -> str:
    return " ".join(f"{span.stream}:{first} to {last}" for first, last in span.ranges)
