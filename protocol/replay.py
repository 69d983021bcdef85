"""One subscription's way through a logger's log, until it has come to where its broker is.

A log is read page by page behind a *cursor*, a number that means something to that logger alone. What counts across
loggers is the position in each stream: when a logger is gone the next one is asked for what lies behind the positions.

The order of a log is that in which its logger heard of things, so 7 of a stream may stand before 6, which came by
repair. Here they are put in order again: 7 is held, and the logger is asked for 6. Its answer is one of

    (nothing)    it stands further on in the log, or the logger does not have it yet: wait
    passed       it stands before the place from which this reading began, and so was not wanted
    void, gone   it will never come, because it does not exist, or has been collected

*`last_per_key`.* Who wants the newest event of each key first reads in three phases. `wait`: until the logger has all
that the broker had delivered when the subscription began. `newest`: of what is logged by then the newest event of each
key, if it is from before the beginning. `read`: all that came since the beginning, as for anybody.

*Several loggers.* Where each keeps a part of the streams (protocol/placement.py) their logs are read in turn, a page of
one and then a page of the next, each behind a cursor of its own. A stream comes from the first of its keepers that can
be asked. When that changes all begin again, from the positions.

*Going live.* When the log has no more, the broker begins to keep what it delivers, and notes how far it has delivered
each stream up to there (`until`). Reading goes on until all of that has been read, or will not come. From there the
subscription goes on with what the broker kept, and drops what it has read already: nothing is missing in between, and
nothing comes twice, however far the logger is behind the broker, or ahead of it.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from gossamer.messages.errors import PeerError
from gossamer.messages.ids import SEQ_MAX, NodeId, StreamId
from gossamer.messages.wire import Beginning, Page, Span, Stretch
from gossamer.protocol.placement import ranked

LACKS_MAX = 1_000
"""Streams that a logger is asked about at a time."""
LOOK_BACK = 64


class Missing(NamedTuple):
    """These will not come; `owed`: though the subscription was to have them."""

    stream: StreamId
    first: int
    last: int
    owed: bool


class Track:
    """How far the log of one logger has been read."""

    __slots__ = ("cursor", "end", "floor", "since", "waited")

    def __init__(self) -> None:
        self.cursor: int | None = None
        """Where to read on; None: it has not been asked yet."""
        self.floor = 0
        self.since = 0
        """The cursor of `since_ns`, for who waits."""
        self.waited = False
        """It has all that is waited for."""
        self.end = False
        """It had no more, when it was last asked."""


class Replay:
    """Pages in, in the order of a log; stretches out, each stream in its own."""

    def __init__(
        self,
        positions: Mapping[StreamId, int],
        since_ns: int = 0,
        *,
        published_ns: int = 0,
        last_per_key: bool = False,
        had: Callable[[StreamId], bool] | None = None,
    ) -> None:
        """Behind these positions, which others may share; what has none is read from what was logged then, unless it is
        one of those that it `had`."""
        self._base = positions
        self._had = had
        self.since_ns = since_ns
        self.published_ns = published_ns
        self.last_per_key = last_per_key
        self.phase: Literal["wait", "newest", "read"] = "wait" if last_per_key else "read"
        self._awaited = {name: last for name, last in positions.items() if last >= 0} if last_per_key else {}
        """What the logger has not said that it has."""
        self._default = None if since_ns else -1
        self._read: dict[StreamId, int] = {}
        self._held: dict[StreamId, list[Stretch]] = {}
        self.held_bytes = 0
        self._edges: dict[StreamId, int] = {}
        """Of streams that are not known: what is held, or to be read to, and void before that, begins here."""
        self._until: dict[StreamId, int] | None = None
        self.logger: NodeId | None = None
        """Whose turn it is."""
        self.loggers: tuple[NodeId, ...] = ()
        """Those that are read together; none if one keeps everything."""
        self._tracks: dict[NodeId | None, Track] = {}

    # Asking ---------------------------------------------------------------------------------------------------------

    def position(self, stream: StreamId) -> int | None:
        """The last seq that was read, or need not be; None if nothing is known of the stream, and who reads from a time
        on does not want it from its beginning."""
        found = self._read.get(stream)
        if found is None:
            found = self._base.get(stream)
        if found is None and self._had is not None and self._had(stream):
            return SEQ_MAX
        return self._default if found is None else found

    @property
    def _track(self) -> Track:
        return self._tracks.get(self.logger) or self._tracks.setdefault(self.logger, Track())

    @property
    def cursor(self) -> int | None:
        """Where to read on, at the logger whose turn it is; None: it has not been asked yet."""
        return self._track.cursor

    @property
    def at_end(self) -> bool:
        """Whether there was no more, in any of the logs."""
        return all(track.end for track in self._tracks.values())

    def ends_with(self, logger: NodeId) -> bool:
        """Whether there is no more in any of the logs, if there is none in this one."""
        return all(track.end for name, track in self._tracks.items() if name != logger)

    def turn(self, loggers: tuple[NodeId, ...]) -> bool:
        """Go on with the next of these; whether they are others than before, so that all begin again."""
        anew = loggers != self.loggers
        if anew:
            self.ask_elsewhere()
            self.loggers, self._tracks = loggers, {node: Track() for node in loggers}
        at = loggers.index(self.logger) + 1 if self.logger in loggers else 0
        following = (*loggers[at:], *loggers[:at])
        self.logger = next((node for node in following if not self._is_through(self._tracks[node])), following[0])
        return anew

    def _is_through(self, track: Track) -> bool:
        """Whether others are to be read first."""
        if self.phase == "wait":
            return track.waited
        if self.phase == "newest":
            return track.cursor is not None and track.cursor >= track.floor
        return track.end and not self.at_end

    def _is_read_here(self, stream: StreamId) -> bool:
        return not self.loggers or ranked(stream, self.loggers)[0] == self.logger

    def beginning(self) -> Beginning | None:
        """Where to read from, if there is no cursor."""
        if self.cursor is not None:
            return None
        if self.phase == "wait":
            return Beginning({}, self.since_ns, last_per_key=True)
        return Beginning({**self._base, **self._read}, self.since_ns, had=self._had is not None)

    @property
    def newest_upto(self) -> int:
        return self._track.floor if self.phase == "newest" else 0

    @property
    def fresh(self) -> bool:
        """Whether it begins without any positions, as others may."""
        return self.phase == "wait" or not (self._base or self._read)

    def ask_elsewhere(self) -> None:
        """Whoever is asked next does not know this cursor, and will be told the positions."""
        self.logger = None
        self.loggers = ()
        self._tracks.clear()
        self._held.clear()
        self._edges.clear()
        self.held_bytes = 0
        if self.phase != "read":
            self.phase = "wait"
            self._awaited = {name: last for name, last in self._base.items() if last >= 0}

    def lacks(self) -> tuple[Span, ...]:
        """What to ask for: the gap before what is held, and the rest of the way."""
        spans: list[Span] = []
        for stream, last in self._awaited.items() if self.phase == "wait" else ():
            if len(spans) == LACKS_MAX:
                break
            if self._is_read_here(stream):
                spans.append(Span(stream, ((last, last),)))
        for stream, held in self._held.items():
            if len(spans) == LACKS_MAX:
                break
            if self._is_read_here(stream):
                spans.append(self._lack(stream, held[0].first - 1))
        for stream, last in (self._until or {}).items():
            if len(spans) == LACKS_MAX:
                break
            if stream not in self._held and self._is_read_here(stream):
                spans.append(self._lack(stream, last))
        return tuple(spans)

    def _lack(self, stream: StreamId, last: int) -> Span:
        position = self.position(stream)
        if position is not None:
            return Span(stream, ((position + 1, last),))
        # Of a stream that is not known: has what stands before been passed? Then so has all before that.
        last = min(last, self._edges.get(stream, last + 1) - 1)
        return Span(stream, ((max(0, last - LOOK_BACK), last),))

    # Going live -----------------------------------------------------------------------------------------------------

    def until(self, snapshot: Mapping[StreamId, int] | None) -> None:
        """Read to here; None: there is no end in sight."""
        self._until = None
        if snapshot is not None:
            self._until = {name: last for name, last in snapshot.items() if self._before(name, last)}

    def _before(self, stream: StreamId, last: int) -> bool:
        position = self.position(stream)
        return last >= 0 if position is None else position < last

    @property
    def heading(self) -> bool:
        """Whether it is known how far to read."""
        return self._until is not None

    @property
    def reached(self) -> bool:
        return self._until is not None and not self._until

    # Reading --------------------------------------------------------------------------------------------------------

    def on_page(self, page: Page) -> list[Stretch | Missing]:
        """What can be passed on now, in order."""
        if self.phase == "wait":
            self._wait(page)
            return []
        track = self._track
        if self.phase == "newest":
            found = [early for each in page.stretches if (early := self._early(each)) is not None]
            track.cursor = page.cursor
            if all(map(self._is_through, self._tracks.values())):
                self.phase = "read"
                for other in self._tracks.values():
                    other.cursor = None
            return found
        out: list[Stretch | Missing] = []
        if track.cursor is None:
            track.floor = page.floor
        track.cursor, track.end = page.cursor, page.end
        for spans, owed in ((page.void, False), (page.gone, True), (page.passed, None)):
            for span in spans:
                for first, last in span.ranges:
                    self._settle(span.stream, first, last, owed, out)
        for stretch in page.stretches:
            self._take(stretch, out)
        return out

    def _wait(self, page: Page) -> None:
        for span in (*page.passed, *page.void, *page.gone):
            if span.ranges and span.ranges[-1][1] >= self._awaited.get(span.stream, span.ranges[-1][1] + 1):
                del self._awaited[span.stream]
        if not any(map(self._is_read_here, self._awaited)):
            track = self._track
            track.waited, track.floor, track.since = True, page.floor, page.cursor
            if all(map(self._is_through, self._tracks.values())):
                self.phase = "newest"
                for each in self._tracks.values():
                    each.cursor = 0

    def _early(self, stretch: Stretch) -> Stretch | Missing | None:
        """What of this is from before the beginning."""
        position = self._base.get(stretch.stream)
        if position is None:
            return stretch if stretch.number <= self._track.since else None
        if stretch.first > position:
            return None
        return stretch if stretch.last <= position else upto(stretch, position)

    def _take(self, stretch: Stretch, out: list[Stretch | Missing]) -> None:
        stream = stretch.stream
        position = self.position(stream)
        if position is None:
            if stretch.number <= self._track.floor:
                self._move(stream, stretch.last)
                return
            position = -1 if stretch.first == 0 else -2
        if stretch.last <= position:
            return
        if stretch.first > position + 1:
            self._hold(stretch)
            return
        out.append(beyond(stretch, position))
        self._move(stream, stretch.last)
        self._release(stream, out)

    def _settle(self, stream: StreamId, first: int, last: int, owed: bool | None, out: list[Stretch | Missing]) -> None:
        """These were passed already (None), or will not come."""
        position = self.position(stream)
        if position is None:
            self._settle_before(stream, first, last, owed is False)
        elif first <= position + 1 <= last:
            if owed is not None:
                known = stream in self._read or stream in self._base
                out.append(Missing(stream, position + 1, last, owed and known))
            self._move(stream, last)
        self._release(stream, out)

    def _settle_before(self, stream: StreamId, first: int, last: int, void: bool) -> None:
        """The same, before the first that is known of a stream."""
        held = self._held.get(stream)
        top = (self._until or {}).get(stream, -1) if held is None else held[0].first - 1
        edge = self._edges.get(stream, top + 1)
        if not first < edge <= last + 1:
            return  # not next to it, or no longer asked for
        if void and first > 0:
            self._edges[stream] = first
        else:
            self._move(stream, top)

    def _move(self, stream: StreamId, last: int) -> None:
        self._edges.pop(stream, None)
        self._read[stream] = last
        if self._until and self._until.get(stream, last + 1) <= last:
            del self._until[stream]

    def _hold(self, stretch: Stretch) -> None:
        self._edges.pop(stretch.stream, None)
        held = self._held.setdefault(stretch.stream, [])
        held.append(stretch)
        if len(held) > 1 and held[-2].first > stretch.first:
            held.sort(key=lambda each: each.first)
        self.held_bytes += len(stretch.blob)

    def _release(self, stream: StreamId, out: list[Stretch | Missing]) -> None:
        held = self._held.get(stream)
        if held is None:
            return
        position = self.position(stream)
        while held and position is not None and held[0].first <= position + 1:
            stretch = held.pop(0)
            self.held_bytes -= len(stretch.blob)
            if stretch.last > position:
                out.append(beyond(stretch, position))
                position = stretch.last
                self._move(stream, position)
        if not held:
            del self._held[stream]


def upto(stretch: Stretch, position: int) -> Stretch | Missing:
    try:
        return stretch.upto(position)
    except PeerError:
        return Missing(stretch.stream, stretch.first, position, False)


def beyond(stretch: Stretch, position: int) -> Stretch | Missing:
    try:
        return stretch.beyond(position)
    except PeerError:  # nobody can read it
        return Missing(stretch.stream, position + 1, stretch.last, True)
