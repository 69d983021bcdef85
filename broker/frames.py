"""What goes out to subscriptions: slices of a publisher's own bytes, encoded once for all that get the same."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Raw

from gossamer.broker.subscriber import Subscriber
from gossamer.messages.event import Event
from gossamer.messages.ids import StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.session import Items, Notice, Run, Single, encode
from gossamer.protocol.delivery import Item

FRAMES_BYTES_MAX = 8 * 2**20

Spans = tuple[tuple[int, int], ...]
"""Places in a packet, `start` to `stop`."""


def spans_of(matched: list[list[int]]) -> dict[int, Spans]:
    """For each subscription the places that it matches: neighbours are compared once, for all of them."""
    if matched.count(matched[0]) == len(matched):  # as most often
        return dict.fromkeys(matched[0], ((0, len(matched)),))
    found: dict[int, list[tuple[int, int]]] = {}
    changes = (place for place, (one, next) in enumerate(pairwise(matched), 1) if one is not next and one != next)
    starts = [0, *changes, len(matched)]
    for start, stop in pairwise(starts):
        span = (start, stop)
        for key in matched[start]:
            spans = found.get(key)
            if spans is None:
                found[key] = [span]
            elif spans[-1][1] == start:
                spans[-1] = (spans[-1][0], stop)
            else:
                spans.append(span)
    return {key: tuple(spans) for key, spans in found.items()}


def places_of(spans: Sequence[tuple[int, int]]) -> Sequence[int]:
    """The places in these spans."""
    if len(spans) == 1:
        return range(*spans[0])
    return [place for start, stop in spans for place in range(start, stop)]


def send_runs(packet: Packet, shared: dict[Spans, list[Subscriber]], loose: bool) -> None:
    for spans, subscribers in shared.items():
        if len(subscribers) == 1:
            (subscriber,) = subscribers
            subscriber.outlet.deliver(run_frame(packet, spans, (subscriber.sub,), loose))
            continue
        frames: dict[tuple[int, ...], bytes] = {}
        subs: dict[Any, list[int]] = {}
        for subscriber in subscribers:
            subs.setdefault(subscriber.outlet, []).append(subscriber.sub)
        for outlet, each in subs.items():
            key = tuple(each)
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = run_frame(packet, spans, key, loose)
            outlet.deliver(frame)


class Frames:
    """The runs without keys that were sent last: others that are behind are sent the same before long."""

    __slots__ = ("_bytes", "_runs")

    def __init__(self) -> None:
        self._runs: dict[tuple[StreamId, int, Spans, int], bytes] = {}
        self._bytes = 0

    def run(self, packet: Packet, spans: Spans, sub: int) -> bytes:
        """These places of a packet, for a client's subscription of that number."""
        which = packet.stream, packet.first, spans, sub
        frame = self._runs.get(which)
        if frame is None:
            frame = self._runs[which] = run_frame(packet, spans, (sub,), True)
            self._bytes += len(frame)
            while self._bytes > FRAMES_BYTES_MAX and len(self._runs) > 1:
                self._bytes -= len(self._runs.pop(next(iter(self._runs))))
        return frame


def run_frame(packet: Packet, spans: Spans, subs: tuple[int, ...], loose: bool) -> bytes:
    if len(spans) == 1 and 4 * (spans[0][1] - spans[0][0]) == len(packet.sizes) and not packet.holes:  # all of it
        first, stop = packet.first, spans[0][1]
        if stop == 1:
            return encode(Single(subs, packet.stream, first, loose, Raw(packet.blob)))  # type: ignore[arg-type]
        return encode(Run(subs, packet.stream, ((first, first + stop - 1),), packet.blob, loose))
    return encode(Run(subs, packet.stream, *_slices(packet, spans), loose))


def joined(places: Sequence[int]) -> Spans:
    """Ascending places as spans."""
    if places[-1] - places[0] == len(places) - 1:
        return ((places[0], places[-1] + 1),)
    breaks = [at for at, (one, next) in enumerate(pairwise(places), 1) if next != one + 1]
    return tuple((places[start], places[stop - 1] + 1) for start, stop in pairwise([0, *breaks, len(places)]))


def _slices(packet: Packet, spans: Spans) -> tuple[tuple[tuple[int, int], ...], bytes]:
    """Seqs and bytes of these places, of the events that are present."""
    first = packet.first
    if not packet.holes:
        ranges = tuple((first + start, first + stop - 1) for start, stop in spans)
        sizes = packet.table()
        at, pieces, before = 0, [], 0
        for start, stop in spans:
            at += sum(sizes[before:start])
            size = sum(sizes[start:stop])
            pieces.append(packet.blob[at : at + size])
            at, before = at + size, stop
        return ranges, b"".join(pieces)
    present = list(packet.encoded())
    chosen = [present[place] for start, stop in spans for place in range(start, stop)]
    return tuple((seq, seq) for seq, _ in chosen), b"".join(piece for _, piece in chosen)


def items_of(sub: int, items: list[Item]) -> Items:
    events: list[Event] = []
    notices: list[Notice] = []
    for item in items:
        if item.lefts or item.replaced:
            together = item.event is not None
            notices.append(Notice(len(events), together, item.lefts, item.by, item.replaced))
        if item.event is not None:
            events.append(item.event)
    return Items(sub, events, tuple(notices))
