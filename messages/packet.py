"""A packet: a run of one stream's events, encoded once.

    stream   first   sizes            blob                    holes
    a        7       [30, 0, 41]      event 7 ++ event 9      8 is left out, obsoleted by 9

The table of sizes lets a packet be cut, thinned and joined by slicing bytes: no event is ever encoded twice, however
often it is forwarded, repaired, logged or purged. A thinned event leaves a *hole* that says what replaced it, so that
a receiver neither waits for it nor asks for it again.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Content, Event, Head, Outline, check_content, check_names, plain
from gossamer.messages.ids import SEQ_MAX, EventId, Seq, StreamId

EVENTS_MAX = 4_096
BLOB_BYTES_MAX = 8 * 2**20

encode_content = msgspec.msgpack.Encoder(enc_hook=plain).encode
"""One event, from its `Content` or from a tuple of the same fields, which is quicker made."""
_events = msgspec.msgpack.Decoder(list[Event])
_heads = msgspec.msgpack.Decoder(list[Head])
_head = msgspec.msgpack.Decoder(Head)
_outlines = msgspec.msgpack.Decoder(list[Outline])
_raws = msgspec.msgpack.Decoder(list[msgspec.Raw])
_tuple = tuple.__new__  # builds an EventId in under half the time of its own constructor
_content = msgspec.msgpack.Decoder(Content)
_contents = msgspec.msgpack.Decoder(list[Content])
_attributes = attrgetter("attributes")


class Hole(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Events `first` to `last` were purged: `by` made them obsolete, a seq of the same stream or an id of another.

    A receiver may do without them once it has that one; `final` says that it need not wait for it, because that one is
    safe: whatever happens, it or what obsoletes it comes (docs/semantics.md, "Purge marks").
    """

    first: Seq
    last: Seq
    by: Seq | EventId
    final: bool = False


Reason = tuple[int | EventId, bool]
"""Why an event was left out: what obsoleted it, as `Hole.by` says it, and whether that is final."""


class Packet(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Events `first` to `last` of one stream; immutable, and valid by construction."""

    stream: StreamId
    first: Seq
    sizes: Annotated[bytes, Meta(min_length=4, max_length=4 * EVENTS_MAX)]
    """Bytes of each event as little-endian 32-bit numbers; 0 marks a hole."""
    blob: Annotated[bytes, Meta(max_length=BLOB_BYTES_MAX)]
    holes: Annotated[tuple[Hole, ...], Meta(max_length=EVENTS_MAX)] = ()

    def __post_init__(self) -> None:
        # Also run on decoding, where msgspec reports a ValueError as a validation error.
        size = len(self.blob)
        if 0 < size <= BLOB_BYTES_MAX and self.sizes == size.to_bytes(4, "little") and not self.holes:
            if self.first > SEQ_MAX:
                raise ValueError("seq out of range")
            return  # one event, as most often when they are in no hurry
        if len(self.sizes) % 4:
            raise ValueError("the table of sizes is not a multiple of four bytes")
        if not 0 < self.count <= EVENTS_MAX or len(self.blob) > BLOB_BYTES_MAX:  # a join may come to too much
            raise ValueError(
                f"{self.count} events, {len(self.blob)} bytes: the limits are {EVENTS_MAX}, {BLOB_BYTES_MAX}"
            )
        sizes = self.table()
        if sum(sizes) != len(self.blob):
            raise ValueError("the table of sizes does not add up to the blob")
        if self.first + len(sizes) - 1 > SEQ_MAX:
            raise ValueError("seq out of range")
        if self.holes or not all(sizes):
            marked: list[int] = []
            before = self.first - 1
            for hole in self.holes:
                # Refused one by one: thousands of holes that each cover the whole packet would come to millions.
                if not before < hole.first <= hole.last <= self.last:
                    raise ValueError("holes must ascend within the packet")
                if isinstance(hole.by, int) and hole.first <= hole.by <= hole.last:
                    raise ValueError("no event obsoletes itself")
                marked += range(hole.first, hole.last + 1)
                before = hole.last
            if marked != [seq for seq, size in enumerate(sizes, self.first) if not size]:
                raise ValueError("holes and the table of sizes disagree")

    @property
    def count(self) -> int:
        """How many seqs it covers, holes included."""
        return len(self.sizes) // 4

    @property
    def present(self) -> int:
        """How many events are in it."""
        return self.count - sum(hole.last - hole.first + 1 for hole in self.holes)

    @property
    def last(self) -> int:
        return self.first + len(self.sizes) // 4 - 1

    def obsoleter(self, hole: Hole) -> EventId:
        """What a hole's events were obsoleted by, in full."""
        return hole.by if isinstance(hole.by, tuple) else EventId(self.stream, hole.by)

    def table(self) -> tuple[int, ...]:
        return struct.unpack(f"<{len(self.sizes) // 4}I", self.sizes)

    def events(self) -> list[Event]:
        """Decode the events that are present, in order, with their ids."""
        try:
            return decode_events(self.stream, self.seqs(), self.blob)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PeerError(f"packet {self.stream}:{self.first}: {error}") from None

    def seqs(self) -> Sequence[int]:
        """The seqs of the events that are."""
        if not self.holes:
            return range(self.first, self.last + 1)
        return [seq for seq, size in enumerate(self.table(), self.first) if size]

    def contents(self) -> list[Content]:
        """The events that are present, without their ids."""
        try:
            return _contents.decode(b"\xdd" + len(self.seqs()).to_bytes(4, "big") + self.blob)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PeerError(f"packet {self.stream}:{self.first}: {error}") from None

    def heads(self) -> list[tuple[int, Head]]:
        """What obsoletes and is obsoleted, of each event that is present, at a third of the cost of `events()`."""
        present = self.seqs()
        try:
            heads = _heads.decode(b"\xdd" + len(present).to_bytes(4, "big") + self.blob)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PeerError(f"packet {self.stream}:{self.first}: {error}") from None
        return list(zip(present, heads, strict=True))

    def head(self) -> Head | None:
        """Of the first event, unless that is left out; None as well if it does not decode."""
        size = int.from_bytes(self.sizes[:4], "little")
        try:
            return _head.decode(self.blob[:size]) if size else None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def vetted(self) -> list[Event]:
        """The events, without their ids (`identify`), if the table has each of them where it is: `PeerError` if whoever
        cuts the packet would not find one. No dearer than `events()`, and a third of `verify()`."""
        sizes = [size for size in self.table() if size] if self.holes else list(self.table())
        framed = b"\xdd" + len(sizes).to_bytes(4, "big") + self.blob
        try:
            events = _events.decode(framed)
            check_names(list(map(_attributes, events)))
            found = _raws.decode(framed)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PeerError(f"packet {self.stream}:{self.first}: {error}") from None
        if list(map(len, found)) != sizes:
            raise PeerError(f"packet {self.stream}:{self.first}: its table cuts through an event")
        return events

    def identify(self, events: list[Event]) -> list[Event]:
        """Give these, which are all that it has, their ids."""
        return _identify(self.stream, self.seqs(), events)

    def verify(self) -> None:
        """Decode each event at its own place, and refuse what its publisher should have been refused: a table that cuts
        through an event, or a string with a NUL (which PostgreSQL cannot store), passes `events()` but not this."""
        for seq, encoded in self.encoded():
            try:
                check_content(_content.decode(encoded))
            except (msgspec.MsgspecError, ValueError, RecursionError, UsageError) as error:
                raise PeerError(f"event {self.stream}:{seq}: {error}") from None

    def encoded(self) -> Iterator[tuple[int, bytes]]:
        """Each event that is present as `(seq, bytes)`."""
        at = 0
        for seq, size in enumerate(self.table(), self.first):
            if size:
                yield seq, self.blob[at : at + size]
                at += size

    def cut(self, first: int, last: int) -> "Packet":
        """The part from `first` to `last`, both within the packet."""
        assert self.first <= first <= last <= self.last, (self.stream, self.first, self.last, first, last)
        if first == self.first and last == self.last:
            return self
        low, high = first - self.first, last - self.first + 1
        sizes = self.table()
        start = sum(sizes[:low])
        stop = start + sum(sizes[low:high])
        holes = tuple(
            Hole(max(hole.first, first), min(hole.last, last), hole.by, hole.final)
            for hole in self.holes
            if hole.first <= last and hole.last >= first
        )
        return Packet(self.stream, first, self.sizes[4 * low : 4 * high], self.blob[start:stop], holes)

    def mark(self, hole: Hole) -> "Packet":
        """One of its holes by itself: `cut` to that, without looking at the rest."""
        return Packet(self.stream, hole.first, bytes(4 * (hole.last - hole.first + 1)), b"", (hole,))

    def thin(self, purged: Iterable[tuple[int, EventId]], final: bool = False) -> "Packet":
        """The packet without the events named, each of which leaves a hole that says what obsoleted it."""
        reasons = {seq: (hole.by, hole.final) for hole in self.holes for seq in range(hole.first, hole.last + 1)}
        for seq, by in purged:
            if self.first <= seq <= self.last:
                reasons[seq] = (by.seq if by.stream == self.stream else by, final)
        kept = [(seq, piece) for seq, piece in self.encoded() if seq not in reasons]
        sizes = dict.fromkeys(range(self.first, self.last + 1), 0) | {seq: len(piece) for seq, piece in kept}
        return Packet(
            self.stream,
            self.first,
            struct.pack(f"<{len(sizes)}I", *sizes.values()),
            b"".join(piece for _, piece in kept),
            _holes(sorted(reasons.items())),
        )

    def join(self, after: "Packet") -> "Packet":
        """This packet and the one that follows it without a gap, as one."""
        assert after.stream == self.stream, (self.stream, after.stream)
        assert after.first == self.last + 1, (self.stream, self.last, after.first)
        holes = self.holes + after.holes
        if self.holes and after.holes:
            left, right = self.holes[-1], after.holes[0]
            if left.last + 1 == right.first and (left.by, left.final) == (right.by, right.final):  # undoes cutting
                holes = (*self.holes[:-1], Hole(left.first, right.last, left.by, left.final), *after.holes[1:])
        return Packet(self.stream, self.first, self.sizes + after.sizes, self.blob + after.blob, holes)


def decode_events(stream: StreamId, seqs: Sequence[int], blob: bytes) -> list[Event]:
    """A run of events that stand encoded in a row, with their ids; whatever is wrong with it, msgspec says."""
    # The blob is the body of a msgpack array: give it the header, and decode the whole run in one call.
    return _identify(stream, seqs, _events.decode(b"\xdd" + len(seqs).to_bytes(4, "big") + blob))


def _identify(stream: StreamId, seqs: Sequence[int], events: list[Event]) -> list[Event]:
    # One by one in Python this would take half as long again as the decoding.
    ids = map(_tuple, repeat(EventId), zip(repeat(stream), seqs, strict=False))
    deque(map(force_setattr, events, repeat("id"), ids), maxlen=0)
    return events


def pack(stream: StreamId, first: int, contents: Sequence[Content]) -> Packet:
    """Encode a run of events, once and for all."""
    return pack_encoded(stream, first, list(map(encode_content, contents)))


def pack_encoded(stream: StreamId, first: int, encoded: Sequence[bytes]) -> Packet:
    """A packet of a run of events that are encoded already."""
    if len(encoded) == 1 and 0 < len(encoded[0]) <= BLOB_BYTES_MAX:  # as most often when they are in no hurry
        return Packet(stream, first, len(encoded[0]).to_bytes(4, "little"), encoded[0])
    if not 0 < len(encoded) <= EVENTS_MAX:
        raise UsageError(f"a packet takes 1 to {EVENTS_MAX} events, not {len(encoded)}")
    blob = b"".join(encoded)
    if len(blob) > BLOB_BYTES_MAX:
        raise UsageError(f"a packet takes at most {BLOB_BYTES_MAX} bytes, not {len(blob)}")
    return Packet(stream, first, struct.pack(f"<{len(encoded)}I", *map(len, encoded)), blob)


def decode_run(stream: StreamId, ranges: Iterable[tuple[int, int]], blob: bytes) -> list[Event]:
    """Events of one stream from their bytes in a row, with the ids that these ranges tell."""
    try:
        return decode_events(stream, seqs_of(ranges), blob)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"run of {stream}: {error}") from None


def seqs_of(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """The seqs of a run of events; `PeerError` if they are too many."""
    seqs: list[int] = []
    for first, last in ranges:
        if last - first >= EVENTS_MAX - len(seqs):
            raise PeerError(f"a run of more than {EVENTS_MAX} events")
        seqs += range(first, last + 1)
    return seqs


def pieces(count: int, blob: bytes) -> list[msgspec.Raw]:
    """The bytes of each of so many events in a row."""
    try:
        return _raws.decode(b"\xdd" + count.to_bytes(4, "big") + blob)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"a run of events: {error}") from None


def outlines(count: int, blob: bytes) -> list[Outline]:
    """What each of so many events in a row says of its key."""
    try:
        return _outlines.decode(b"\xdd" + count.to_bytes(4, "big") + blob)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"a run of events: {error}") from None


def assemble(stream: StreamId, pieces: Iterable[tuple[int, bytes | Reason]]) -> Packet:
    """A packet from encoded events and, for those left out, the reasons: `(seq, …)` each, ascending without a gap."""
    sizes, blob, reasons = [], [], []
    first = -1
    for seq, piece in pieces:
        first = seq if first < 0 else first
        if isinstance(piece, bytes):
            sizes.append(len(piece))
            blob.append(piece)
        else:
            sizes.append(0)
            reasons.append((seq, piece))
    return Packet(stream, first, struct.pack(f"<{len(sizes)}I", *sizes), b"".join(blob), _holes(reasons))


def _holes(reasons: Iterable[tuple[int, Reason]]) -> tuple[Hole, ...]:
    holes: list[Hole] = []
    for seq, (by, final) in reasons:
        if holes and holes[-1].last == seq - 1 and (holes[-1].by, holes[-1].final) == (by, final):
            holes[-1] = Hole(holes[-1].first, seq, by, final)
        else:
            holes.append(Hole(seq, seq, by, final))
    return tuple(holes)
