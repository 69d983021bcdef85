"""What of a log goes to those who read it: the matching events as they were published, and the shadows of the others.

A subscription that goes on from a log must be told what has *left* as one that is live is, and must not be shown what
is old. So of an event that does not match, and has a key or names others, the head is sent: enough to tell what it
makes obsolete. Of the rest nothing is.

    the log        IBM 101   IBM 99   (no key) 3   MSFT 180        price > 100
    a stretch      IBM 101   (IBM)                 MSFT 180

Packets that follow each other in their stream go as one stretch, however small they were published.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import accumulate
from operator import or_
from typing import Protocol

from gossamer.matching.errors import SelectorError
from gossamer.matching.selector import Selector
from gossamer.messages.errors import PeerError
from gossamer.messages.event import INT_MAX, Content, Head
from gossamer.messages.ids import StreamId
from gossamer.messages.packet import EVENTS_MAX, Hole, Packet
from gossamer.messages.wire import Page, Range, Read, Span, Stretch

LOOSE, KEYED, RELATED = 0, 1, 2
"""The kinds of stretches: without keys, without relations, and with them."""
STRETCH_BYTES = 256 * 1024
"""A stretch is not made longer beyond this."""


EVERYTHING = Selector("")


class Rows(Protocol):
    """A piece of a log: numbered packets, and where to read on."""

    @property
    def rows(self) -> Sequence[tuple[int, int, Packet]]: ...
    @property
    def last(self) -> int: ...
    @property
    def end(self) -> bool: ...
    @property
    def damaged(self) -> Sequence[Span]: ...


class Log(Protocol):
    """A log as it is read: logger/pages.py says what is meant."""

    def page(self, after: int, bytes_max: int, group: str | None = None) -> Rows: ...
    def number_at(self, time_ns: int) -> int: ...
    def number_after(
        self, positions: Mapping[StreamId, int], group: str | None = None, others: int = 0, *, over: bool = True
    ) -> int: ...
    def passed(self, spans: Iterable[Span], number: int) -> tuple[Span, ...]: ...
    def newest(self, group: str, after: int, upto: int, bytes_max: int) -> Rows: ...
    def derived(self) -> int: ...


def scan(
    log: Log, read: Read, lacks: Sequence[Span], on_damaged: Callable[[tuple[Span, ...]], None] = lambda _: None
) -> Page:
    """A logger's answer: the next page, and what of `lacks` is logged before it. `on_damaged` hears of what is not as
    it was written."""
    try:
        selector = _any_of(read.selectors)
    except SelectorError as error:
        return Page(read.number, read.after, True, refusal=f"{error.message}"[:1_000])
    after, floor = read.after, 0
    if read.beginning is not None:
        beginning = read.beginning
        if beginning.last_per_key:
            last = log.number_at(INT_MAX)
            since = log.number_at(beginning.since_ns)
            return Page(read.number, since, True, (), last, log.passed(lacks, last))
        floor = log.number_at(beginning.since_ns) if beginning.since_ns else 0
        after = log.number_after(beginning.positions, read.group, floor, over=not beginning.had)
    passed = log.passed(lacks, after) if lacks else ()
    if not read.bytes_max:
        return Page(read.number, after, False, (), floor, passed)
    newest = after < read.newest_upto
    if newest and log.derived() < read.newest_upto:
        return Page(read.number, after, True, passed=passed)  # not known yet
    page: Rows
    if newest:
        page = log.newest(read.group, after, read.newest_upto, read.bytes_max)
    else:
        page = log.page(after, read.bytes_max, read.group)
    if page.damaged:  # others may have it, and this log may have it again before long
        on_damaged(tuple(page.damaged))
        return Page(read.number, read.after, True, refusal="a part of the log is damaged")
    found, spoilt = stretches(((number, packet) for number, _, packet in page.rows), selector, read.published_ns)
    end = page.end and not newest
    return Page(read.number, page.last, end, tuple(found), floor, passed, gone=tuple(spoilt))


@lru_cache(1_024)
def _any_of(selectors: tuple[str, ...]) -> Selector | None:
    """What any of these matches; None: everything."""
    parsed = [Selector(text) for text in selectors]
    return None if not parsed or EVERYTHING in parsed else reduce(or_, parsed)


class _Growing:
    """A stretch, packet by packet."""

    def __init__(self, stream: str, first: int) -> None:
        self.stream = stream
        self.first = first
        self.last = first - 1
        self.number = 0
        self.kind = LOOSE
        self.ranges: list[Range] = []
        self.pieces: list[bytes] = []
        self.bytes = 0
        self.heads: list[tuple[int, Head]] = []
        self.holes: list[Hole] = []

    def takes(self, packet: Packet) -> bool:
        return (
            packet.stream == self.stream
            and packet.first == self.last + 1
            and packet.last - self.first < EVENTS_MAX
            and self.bytes < STRETCH_BYTES
        )

    def add(self, number: int, packet: Packet, selector: Selector | None, published_ns: int) -> None:
        """`PeerError`, and nothing is added, if the packet cannot be read."""
        if selector is None and not published_ns:
            said: Sequence[Head | Content] = [head for _, head in packet.heads()]
            chosen = [True] * len(said)
        else:
            contents = said = packet.contents()
            chosen = [True] * len(contents)
            if selector is not None:
                chosen = selector.matches_each([content.attributes for content in contents])
            if published_ns:
                chosen = [
                    each and content.time_ns >= published_ns for each, content in zip(chosen, contents, strict=True)
                ]
        kind = RELATED if any(each.relation is not None for each in said) else LOOSE
        if kind == LOOSE and any(each.key is not None for each in said):
            kind = KEYED
        if all(chosen) and not packet.holes:
            self._extend(packet.first, packet.last)
            self._append(packet.blob)
        else:
            self._choose(packet, said, chosen, kind, published_ns)
        self.kind = max(self.kind, kind)
        self.number, self.last = number, packet.last
        self.holes += packet.holes

    def _choose(
        self, packet: Packet, said: Sequence[Head | Content], chosen: list[bool], kind: int, published_ns: int
    ) -> None:
        seqs = packet.seqs()
        ends = [0, *accumulate(size for size in packet.table() if size)]
        stop = 0
        while (start := _next(chosen, True, stop)) < len(chosen):
            stop = _next(chosen, False, start)
            for first, last in _runs(seqs[start:stop]) if packet.holes else ((seqs[start], seqs[stop - 1]),):
                self._extend(first, last)
            self._append(packet.blob[ends[start] : ends[stop]])
        if kind != LOOSE:
            for seq, each, is_chosen in zip(seqs, said, chosen, strict=True):
                # What was published too early is nobody's: nothing of that time is shown, so nothing can be obsolete.
                if (
                    not is_chosen
                    and (each.key is not None or each.relation is not None)
                    and each.time_ns >= published_ns
                ):
                    self.heads.append((seq, Head(each.key, each.rank, each.relation, each.time_ns)))

    def _extend(self, first: int, last: int) -> None:
        if self.ranges and self.ranges[-1][1] == first - 1:
            self.ranges[-1] = self.ranges[-1][0], last
        else:
            self.ranges.append((first, last))

    def _append(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.bytes += len(piece)

    def stretch(self) -> Stretch:
        return Stretch(
            self.number,
            self.stream,
            self.first,
            self.last,
            self.kind,
            tuple(self.ranges),
            self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces),
            tuple(self.heads),
            tuple(self.holes),
        )


def _next(chosen: list[bool], what: bool, start: int) -> int:
    try:
        return chosen.index(what, start)
    except ValueError:
        return len(chosen)


def _runs(seqs: Sequence[int]) -> list[Range]:
    runs: list[Range] = []
    for seq in seqs:
        if runs and runs[-1][1] == seq - 1:
            runs[-1] = runs[-1][0], seq
        else:
            runs.append((seq, seq))
    return runs


def stretches(
    rows: Iterable[tuple[int, Packet]], selector: Selector | None = None, published_ns: int = 0
) -> tuple[list[Stretch], list[Span]]:
    """Numbered packets as they stand in a log; of their events those that match (None: all of them) and that were not
    published before. Also what nobody can read: its publisher's broker should not have let it pass."""
    found: list[Stretch] = []
    spoilt: list[Span] = []
    growing: _Growing | None = None
    for number, packet in rows:
        if growing is None or not growing.takes(packet):
            if growing is not None and growing.last >= growing.first:
                found.append(growing.stretch())
            growing = _Growing(packet.stream, packet.first)
        try:
            growing.add(number, packet, selector, published_ns)
        except PeerError:
            spoilt.append(Span(packet.stream, ((packet.first, packet.last),)))
    if growing is not None and growing.last >= growing.first:
        found.append(growing.stretch())
    return found, spoilt
