"""Subscriptions that read from loggers: who asks whom for which page, and when.

Each has one page under way at most, and asks for the next when there is room for it; a broker has a few of them under
way at a time. Those that are at the same place of the same log share a page: the logger sends what any of their
selectors matches, and each takes what matches its own. A logger that the links show to be lost is not asked while there
is another; a reader that waits for its answer goes on elsewhere at once, from the positions on. So does a reader whose
logger has not even taken the question from its link for `QUIET_S`. Any other logger that does not answer is asked once
more, and then another one. A log that has no more is asked again soon, and then less and less often.
Loggers that keep a part of the streams each are read in turn (protocol/replay.py).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gossamer.matching.stretching import RELATED
from gossamer.messages.event import Attributes, Event
from gossamer.messages.ids import EventId, NodeId, StreamId, group_of
from gossamer.messages.packet import outlines
from gossamer.messages.session import Reached
from gossamer.messages.wire import PAGE_BYTES_MAX, SELECTORS_MAX, Page, Read, Span, Stretch
from gossamer.protocol.delivery import Arrival, Intake, arrival_of, slot_of
from gossamer.protocol.inputs import Consult
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.replay import Missing, Replay
from gossamer.protocol.shown import Shown
from gossamer.protocol.transactions import Assembler

ASKED_MAX = 4
"""Pages under way."""
PAGE_BYTES = 2**20
PAGE_BYTES_MIN = 64 * 1024
PAGES_BYTES = 64 * 2**20
"""What those who read may have before them, all together: the more there are, the smaller are their pages."""
ANSWER_S = 3.0
TRIES_MAX = 2
QUIET_S = 1.0
"""A logger that takes nothing from its link for so long is given up, if another one answers."""
LOOK_S = 0.1
"""How often to look whether a logger that was asked is lost."""
PAUSE_S = 0.01
PAUSE_MAX_S = 0.5
TROUBLE_S = 1.0
SILENT_S = 30.0
UNCOVERED_S = 5.0
"""A logger that may lack finished streams is read only if there is no other; so long, until it is asked again."""
NEW_S = 0.2
"""How often a logger is asked again that has just come and does not know the other loggers yet."""
HELD_BYTES_MAX = 64 * 2**20
NEVER = float("inf")

_log = logging.getLogger("gossamer.sessions")


class Reading:
    """What one subscription has read, and is to be offered."""

    __slots__ = (
        "_base", "_matching", "ahead", "asked", "began", "bytes", "due_at", "group", "intake", "is_warned", "key",
        "moves", "offered", "owed", "pause_s", "pieces", "ready", "replay", "selector", "tries",
    )  # fmt: skip

    def __init__(
        self, key: int, group: str, selector: str, base: Mapping[StreamId, int], replay: Replay | None = None
    ) -> None:
        self.key = key
        self.group = group
        self.selector = selector
        self._base = base
        self.replay = replay
        """None: all that is to be read was at hand."""
        self.offered: dict[StreamId, int] = {}
        """The last seq of each stream that was made ready since then; what comes again is left out."""
        self.owed: dict[StreamId, IntervalSet] = {}
        """Events that a saturated link purged on their way here: the logger has them, or they are lost."""
        self.ahead: dict[StreamId, int] = {}
        """Of the streams that were read further than the broker has delivered them, the last seq."""
        self.began: Reached | None = None
        """With `last_per_key`: where it is when it has had what was newest then."""
        self.pieces: deque[Piece | Missing | Reached] = deque()
        self.ready: deque[tuple[Arrival, bool]] = deque()
        """What is next, and whether it matches."""
        self.bytes = 0
        """What waits in the pieces."""
        self.intake: Intake | None = None
        self._matching: set[EventId] = set()
        """Of what waits in the intake for the rest of its transaction, what matches."""
        self.asked: int | None = None
        """The number of the page that is under way."""
        self.due_at = 0.0
        """When to ask for the next; NEVER: not before there is room."""
        self.pause_s = PAUSE_S
        self.tries = 0
        self.moves = 0
        """How often it had to go on at another logger."""
        self.is_warned = False
        """Whether the subscription was told that finished streams may be missing."""

    def move(self) -> None:
        """Go on at another logger."""
        assert self.replay is not None
        self.replay.ask_elsewhere()
        self.moves += 1
        self.tries = 0

    @property
    def restarted(self) -> bool:
        """What is newest may have been read in part at another logger, or broker."""
        return self.moves > 0

    @property
    def done(self) -> bool:
        """Whether it has been read to where the broker is."""
        return self.replay is None or self.replay.reached

    def position(self, stream: StreamId) -> int:
        """The last seq of a stream that the subscription has had."""
        found = self.offered.get(stream)
        return self._base.get(stream, -1) if found is None else found

    @property
    def pending(self) -> bool:
        """Whether something is to be offered."""
        return bool(self.ready or self.pieces)

    def put(self, piece: "Piece | Missing | Reached", now: float) -> None:
        self.pieces.append(piece)
        if isinstance(piece, Piece):
            piece.came_at = now
            self.bytes += len(piece.stretch.blob)

    def sent(self, piece: "Piece", rest: Stretch | None) -> None:
        """The first piece is done with, but for the rest."""
        self.bytes -= len(piece.stretch.blob)
        if not piece.newest:
            self.offered[piece.stretch.stream] = piece.stretch.last if rest is None else rest.first - 1
        if rest is None:
            self.pieces.popleft()
        else:
            self.bytes += len(rest.blob)
            piece.stretch = rest

    def unpack(self, piece: "Piece", matches: Callable[[Attributes], bool], assemble: bool) -> None:
        """Make the first piece ready to be offered one by one: as far as it can be, if it has to be assembled."""
        stretch, stream = piece.stretch, piece.stretch.stream
        events = piece.events(matches)
        self.pieces.popleft()
        self.bytes -= len(stretch.blob)
        if not assemble:
            self.ready.extend((arrival_of(event, size), matching) for event, size, matching in events)
            if not piece.newest:
                self.offered[stream] = stretch.last
            return
        if self.intake is None:
            self.intake = Intake(assembler=Assembler(filtered=True))
        begun = piece.newest or stream in self.intake.assembler or self.position(stream) >= stretch.first - 1
        if stretch.kind == RELATED and not begun:
            self.intake.on_skip(stream, stretch.first - 1, stretch.first - 1)  # what began there is not whole
        self._matching.update(event.id for event, _, matching in events if matching and event.id is not None)
        sized = [(event, size) for event, size, _ in events]
        self._pass(stream, self.intake.on_run(stream, sized, stretch.holes), None if piece.newest else stretch.last)

    def unpaid(self, stretch: Stretch) -> list[tuple[int, int]]:
        """Take the owed events that the log lacks as well, up to the end of a stretch; each is told once."""
        owed = self.owed.get(stretch.stream)
        if owed is None:
            return []
        found = [part for hole in stretch.holes for part in owed.overlap(hole.first, hole.last)]
        owed.remove(0, stretch.last)
        if not owed:
            del self.owed[stretch.stream]
        return found

    def skip(self, missing: Missing) -> None:
        """The first piece will not come."""
        self.pieces.popleft()
        stream = missing.stream
        if self.intake is not None and stream in self.intake.assembler:
            self._pass(stream, self.intake.on_skip(stream, missing.first, missing.last), missing.last)
        else:
            self.offered[stream] = missing.last

    def _pass(self, stream: StreamId, arrivals: list[Arrival], last: int | None) -> None:
        assert self.intake is not None
        for arrival in arrivals:
            self.ready.append((arrival, arrival.id in self._matching))
            self._matching.discard(arrival.id)
            if last is not None:
                self.offered[stream] = arrival.id.seq
        if last is not None and stream not in self.intake.assembler:
            self.offered[stream] = last  # otherwise something is held, and comes again if it cannot be passed on here
        if not self.intake.assembler.held:
            self._matching.clear()

    def change(self, selector: str) -> None:
        """The subscription has another selector now."""
        self.selector = selector
        for piece in self.pieces:
            if isinstance(piece, Piece):
                piece.sure = False


class Piece:
    """A stretch of a log, on its way to one subscription."""

    __slots__ = ("came_at", "newest", "stretch", "sure")

    def __init__(self, stretch: Stretch, sure: bool, newest: bool = False) -> None:
        self.stretch = stretch
        self.came_at = 0.0
        """When it was read."""
        self.sure = sure
        """Whether all that it has in full matches; otherwise that is to be found out, since others share it."""
        self.newest = newest
        """It has the newest events of some keys, and nothing of what stands between them."""

    def events(self, matches: Callable[[Attributes], bool]) -> list[tuple[Event, int, bool]]:
        """Its events in order, those of which only the heads are there among them: with their sizes, and whether they
        match."""
        stretch, sure = self.stretch, self.sure
        events = stretch.events()
        size = len(stretch.blob) // max(1, len(events))
        found = [(event, size, sure or matches(event.attributes)) for event in events]
        if stretch.heads:
            for seq, head in stretch.heads:
                id = EventId(stretch.stream, seq)
                found.append((Event(head.key, head.rank, head.relation, head.time_ns, id=id), 0, False))
            found.sort(key=lambda each: each[0].id)  # type: ignore[arg-type, return-value]
        return found


class Readings:
    """All that read at one broker."""

    def __init__(self) -> None:
        self.loggers: Callable[[], Sequence[NodeId]] = lambda: ()
        """Those that can be asked now."""
        self.spread: Callable[[], bool] = lambda: False
        """Whether each of them keeps a part only, so that all are to be read."""
        self.is_lost: Callable[[NodeId], bool] = lambda _: False
        """Whether the link to a logger shows that it is gone or silent."""
        self.untaken_s: Callable[[NodeId], float] = lambda _: 0.0
        """For how long a logger has not taken what lies on the link to it."""
        self._readings: dict[int, Reading] = {}
        self._look_at = NEVER
        self._asked: dict[int, tuple[float, NodeId, list[Reading], tuple[str, ...]]] = {}
        """Under way, by number: when it is too late for an answer, of whom, for whom, and their selectors."""
        self._silent: dict[NodeId, float] = {}
        """Loggers that did not answer, and until when they are not asked."""
        self._uncovered: dict[NodeId, float] = {}
        """Loggers that may lack finished streams, and until when others are preferred to them."""
        self._new: dict[NodeId, float] = {}
        """Loggers that have just come, and until when readers wait for them to know the others."""
        self._number = 0
        self.pages = 0
        self.failures = 0

    def __len__(self) -> int:
        return len(self._readings)

    def positions(self, streams: Iterable[StreamId]) -> dict[StreamId, int]:
        """How far the slowest has come in each of these."""
        groups: dict[str, list[StreamId]] = {}
        for stream in streams if self._readings else ():
            groups.setdefault(group_of(stream), []).append(stream)
        found: dict[StreamId, int] = {}
        for reading in self._readings.values():
            if (replay := reading.replay) is None:
                continue
            for stream in groups.get(reading.group, ()):
                position = replay.position(stream)
                if position is not None and position < found.get(stream, position + 1):
                    found[stream] = position
        return found

    def add(self, reading: Reading) -> None:
        self._readings[reading.key] = reading

    def remove(self, key: int) -> None:
        self._readings.pop(key, None)

    @property
    def page_bytes(self) -> int:
        return max(PAGE_BYTES_MIN, min(PAGE_BYTES, PAGES_BYTES // (2 * max(1, len(self._readings)))))

    def next_deadline(self) -> float:
        if not self._readings:
            return NEVER
        overdue = min((until for until, *_ in self._asked.values()), default=NEVER)
        overdue = min(overdue, self._look_at)
        if len(self._asked) >= ASKED_MAX:
            return overdue
        return min((each.due_at for each in self._readings.values() if each.asked is None), default=overdue)

    def asks(self, now: float) -> Iterator[Consult]:
        """What to ask of whom now."""
        if self._asked:
            self._give_up(now)
        if not self._readings or len(self._asked) >= ASKED_MAX:
            return
        loggers = self._reachable()
        if not loggers:
            for reading in self._readings.values():
                if reading.due_at <= now:
                    reading.due_at = now + TROUBLE_S
            return
        if self.spread():  # one that is down would be asked again in its turn: another has what it keeps
            loggers = [node for node in loggers if self._silent.get(node, now) <= now] or loggers
        for together in self._together(now, loggers):
            if len(self._asked) >= ASKED_MAX:
                return
            yield self._ask(together, now)

    def _give_up(self, now: float) -> None:
        """Have readers go on elsewhere that wait in vain for the answer of a logger."""
        look, lost = now >= self._look_at, dict[NodeId, None]()
        if look:
            self._look_at = now + LOOK_S
            lost = {node: None for _, node, *_ in self._asked.values() if self._is_given_up(node, now)}
        for number, (until, logger, readings, _) in list(self._asked.items()):
            if logger in lost:
                del self._asked[number]
                for reading in readings:
                    reading.tries = TRIES_MAX
                self._fail(readings, now, f"{logger} is lost", 0.0)
            elif until <= now:
                del self._asked[number]
                if any(reading.tries + 1 >= TRIES_MAX for reading in readings):
                    self._silent[logger] = now + SILENT_S
                self._fail(readings, now, f"{logger} does not answer")
        if not self._asked:
            self._look_at = NEVER

    def _is_given_up(self, logger: NodeId, now: float) -> bool:
        """Whether another logger should be asked than this one, which owes an answer."""
        others = [node for node in self._reachable() if node != logger]
        if not others:
            return False
        if self.is_lost(logger):
            return True
        # A logger that is busy with a long page still takes messages. If no other one answers, all get their full time.
        answering = any(self._silent.get(node, now) <= now for node in others)
        if answering and self.untaken_s(logger) >= QUIET_S:
            self._silent[logger] = now + SILENT_S
            return True
        return False

    def _reachable(self) -> Sequence[NodeId]:
        """Loggers that no link shows to be lost; all of them if every one is."""
        loggers = self.loggers()
        return [node for node in loggers if not self.is_lost(node)] or loggers

    def _together(self, now: float, loggers: Sequence[NodeId]) -> list[list[Reading]]:
        """Those that are due, by where they are; who has waited longest first."""
        places: dict[tuple[object, ...], list[Reading]] = {}
        spread, together = self.spread(), tuple(sorted(loggers))
        for reading in self._readings.values():
            replay = reading.replay
            if replay is None or replay.reached or reading.asked is not None or reading.due_at > now:
                continue
            if spread:
                begun = bool(replay.loggers)
                reading.moves += replay.turn(together) and begun
            elif replay.loggers or (replay.logger is not None and replay.logger not in loggers):
                reading.move()
            if replay.logger is None:
                preferred = self._preferred(loggers, now)
                replay.logger = preferred[(reading.key + reading.moves) % len(preferred)]
            # Who has no cursor yet is alone with its positions, unless it has none of them either.
            alone = None if replay.cursor is not None or replay.fresh else reading.key
            at = (
                replay.logger,
                reading.group,
                replay.cursor,
                alone,
                replay.published_ns,
                replay.since_ns,
                replay.newest_upto,
            )
            places.setdefault(at, []).append(reading)
        return sorted(places.values(), key=lambda readings: readings[0].due_at)

    def _preferred(self, loggers: Sequence[NodeId], now: float) -> Sequence[NodeId]:
        """Loggers that answer, and hold every finished stream as far as they know; all of them if there is none."""
        answering = [node for node in loggers if self._silent.get(node, now) <= now] or loggers
        return [node for node in answering if self._uncovered.get(node, now) <= now] or answering

    def _ask(self, readings: list[Reading], now: float) -> Consult:
        selectors = tuple(dict.fromkeys(reading.selector for reading in readings))[:SELECTORS_MAX]
        readings = [reading for reading in readings if reading.selector in selectors]
        replay = readings[0].replay
        assert replay is not None
        assert replay.logger is not None
        self._number += 1
        for reading in readings:
            reading.asked = self._number
        self._look_at = min(self._look_at, now + LOOK_S)
        self._asked[self._number] = now + ANSWER_S, replay.logger, readings, selectors
        lacks = replay.lacks() if len(readings) == 1 else _lacks(readings)
        read = Read(
            self._number,
            readings[0].group,
            selectors,
            replay.cursor or 0,
            replay.beginning(),
            min(self.page_bytes, PAGE_BYTES_MAX),
            replay.published_ns,
            replay.newest_upto,
            lacks,
            replay.loggers,
        )
        return Consult(replay.logger, read)

    def on_page(self, logger: NodeId, page: Page, now: float) -> list[tuple[Reading, bool]]:
        """Whom it is for, and whether for nobody with another selector."""
        _, asked, readings, selectors = self._asked.get(page.number, (0.0, "", [], ()))
        if asked != logger:
            return []  # too late, or nobody asked
        del self._asked[page.number]
        self.pages += 1
        if page.refusal:
            self._fail(readings, now, f"{logger}: {page.refusal}")
            return []
        present = [reading for reading in readings if self._readings.get(reading.key) is reading]
        if self._moves_on(logger, page, present, now):
            return []
        for reading in present:
            reading.asked, reading.tries = None, 0
            ended = reading.replay is None or reading.replay.ends_with(logger)
            if page.end and not page.stretches and ended:
                reading.due_at = now + reading.pause_s
                reading.pause_s = min(2 * reading.pause_s, PAUSE_MAX_S)
            else:
                reading.due_at = now
                reading.pause_s = PAUSE_S
        return [(reading, selectors == (reading.selector,)) for reading in present]

    def _moves_on(self, logger: NodeId, page: Page, readings: list[Reading], now: float) -> bool:
        """Whether these readings go on at a logger that holds all finished streams, since this one may lack some."""
        if self.spread():
            return False  # every logger is read, and gives each finished stream that it holds
        if not page.uncovered:
            self._uncovered.pop(logger, None)
            self._new.pop(logger, None)
            return False
        self._uncovered[logger] = now + UNCOVERED_S
        if logger in self._preferred(self._reachable(), now):
            if logger not in page.uncovered or now >= self._new.setdefault(logger, now + UNCOVERED_S):
                return False
            for reading in readings:  # soon it knows which loggers were there before it, and can name them
                reading.asked, reading.due_at = None, now + NEW_S
            return True
        for reading in readings:
            reading.asked, reading.due_at = None, now
            reading.move()
        return True

    def fail(self, reading: Reading, now: float, reason: str) -> None:
        """What it was given makes no sense, or is too much to hold: another logger may do better."""
        reading.tries = TRIES_MAX
        self._fail([reading], now, reason)

    def _fail(self, readings: list[Reading], now: float, reason: str, pause_s: float = TROUBLE_S) -> None:
        self.failures += 1
        if self.failures & (self.failures - 1) == 0:
            _log.warning("reading from a logger, failure %d: %s", self.failures, reason)
        for reading in readings:
            reading.asked = None
            reading.tries += 1
            reading.due_at = now + (pause_s if reading.tries > 1 else 0.0)
            if reading.tries >= TRIES_MAX and reading.replay is not None:
                reading.move()


def _lacks(readings: list[Reading]) -> tuple[Span, ...]:
    return tuple(span for reading in readings if reading.replay is not None for span in reading.replay.lacks())


def shows_it(shown: Shown, arrival: Arrival) -> bool:
    """Whether a key is shown as this event already."""
    slot = slot_of(arrival.id, arrival.head)
    return slot is not None and shown.shown_by(slot) == arrival.id


def shows(shown: Shown, stretch: Stretch, count: int) -> bool:
    """Take note of what a plain stretch shows; False, and nothing is noted, if something in it has left."""
    stream = stretch.stream
    events = outlines(count, stretch.blob)
    if stretch.heads:
        keys = {event.key for event in events}
        if any(key in keys or shown.shows((stream, key)) for _, head in stretch.heads if (key := head.key) is not None):
            return False
    shown.on_run(stream, stretch.ranges, events)
    return True
