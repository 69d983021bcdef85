"""The middle tier of PSRM: a purging buffer between the protocol and each link (003 §3.1).

    protocol ── events ──> │ purging buffer │ ── as the link admits ──> network

A link admits by a window of bytes that its peer has not taken in yet, by a configured bandwidth, or both. As long as it
admits, nothing waits and nothing is purged, so an unsaturated link costs no latency. When it does not, events wait
here, singly, and what a newer one obsoletes is purged: a newer one that waits, or one that merely passes through this
node, since the peer will hear of it one way or another. A window may be full for a moment only: as long as nothing has
waited for `link_patience_s`, what is obsolete goes as well, if there is room. A large packet of which nothing can ever
be obsolete waits as a whole, since there is nothing to look for in it; but not for a bandwidth, which admits event by
event.

What is purged must not come back as a request for repair. So the next packet on the link carries a mark for it (a hole
that names what obsoleted it: protocol/marks.py), final if that is safe. What is dropped for want of room without being
obsolete carries no mark, and *is* repaired, later.

The window is a count of bytes in a session of the link. `Sent` follows every quarter of it, and comes back as `Taken`
when the peer has handled what was before it; so lost packets leak no credit, and a lost `Sent` is repeated each round.
A new connection, or a new life of the peer, begins a new epoch: counts of the old one mean nothing any more.
"""

from collections.abc import Callable, Iterable
from itertools import groupby, repeat

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Head
from gossamer.messages.ids import EventId, NodeId, StreamId, group_of
from gossamer.messages.packet import EVENTS_MAX, Packet, Reason, assemble
from gossamer.messages.wire import Data, Repair, Sent, Taken
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Effect, Send
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.purging import Entry, Omitted, PurgingBuffer

NEVER = float("inf")
PACKET_BYTES = 48
HOLE_BYTES = 12
"""What a packet and a hole take on the wire besides their events, about."""
CONTROL_BYTES = 64
ROUNDING_BYTES = 1e-3
"""Times are sums of floats: a link that is due may seem to lack a trace of a byte."""
BURST_S = 0.05
"""A link with a bandwidth may be so far ahead of it."""

WHOLE_EVENTS = 16
"""A packet with fewer events is taken apart in any case, and goes on together with its neighbours."""
AWAITED_MAX = 10_000
MARKS_MAX = 100_000
MARKS_A_MESSAGE = 1_000
PATIENCE_ROUNDS = 3
"""What is named in a mark mostly follows it soon; only if it does not, the mark is sent again as final."""
CHAIN_MAX = 64
"""So many steps a chain of marks is followed; a peer's may even be circular."""

_Way = tuple[NodeId | None, int]
"""How an event travels: the origin and hops of its `Data`, or None for a `Repair`."""

_Piece = tuple[int, Head | None, int, tuple[bytes | Packet, _Way, float]]
"""What waits in a link's buffer: seq, head, size; the bytes of an event or a packet of several, its way, since when."""


class Link:
    """What is under way to one peer, and what waits."""

    __slots__ = (
        "awaited", "buffer", "credit", "credit_at", "dropped", "epoch", "marked", "marks", "probed", "sent", "seqs",
        "taken",
    )  # fmt: skip

    def __init__(self, buffer: PurgingBuffer, epoch: int) -> None:
        self.buffer = buffer
        self.seqs: dict[StreamId, IntervalSet] = {}
        """What waits: an event that is asked for again while it waits goes once."""
        self.marks: dict[StreamId, dict[int, Reason]] = {}
        """What was purged and the peer has not been told of yet: by stream and seq."""
        self.marked = 0
        """How many marks that are."""
        self.awaited: dict[EventId, tuple[EventId, EventId, int]] = {}
        """What the peer was told is purged, for something that still waits here, so that it may wait for that for ever:
        what it was purged for, what was named, and in which round."""
        self.epoch = epoch
        self.sent = 0
        self.taken = 0
        self.probed = 0
        """How much was sent at the last `Sent`."""
        self.credit = 0.0
        """Bytes that the bandwidth admits now; below 0 it has to wait."""
        self.credit_at = 0.0
        self.dropped = 0
        """Events lost for want of room, though not obsolete."""

    def waits(self, event: EventId) -> bool:
        return event.seq in self.seqs.get(event.stream, ())

    def lacks(self, stream: StreamId, first: int, last: int) -> list[tuple[int, int]]:
        """What of a span does not wait."""
        seqs = self.seqs.get(stream)
        return [(first, last)] if seqs is None else seqs.gaps(first, last)

    def left(self, entry: Entry) -> None:
        """It does not wait any more."""
        seqs = self.seqs[entry.stream]
        seqs.remove(entry.seq, _last(entry))
        if not seqs:
            del self.seqs[entry.stream]

    def begin(self, epoch: int) -> None:
        """A new session: nothing is under way."""
        self.epoch = epoch
        self.sent = self.taken = self.probed = 0


class Links:
    """All links of a node; without window and bandwidth it does nothing."""

    __slots__ = (
        "_bytes_per_s", "_ctx", "_due", "_epoch", "_is_logger", "_is_safe", "_links", "_movable", "_patience_s",
        "_window", "enabled", "saturated",
    )  # fmt: skip

    def __init__(
        self, ctx: Context, is_safe: Callable[[EventId], bool], is_logger: Callable[[NodeId], bool] = lambda _: False
    ) -> None:
        """To a logger nothing is purged: what is logged should be what was published, and a logger that is too slow is
        one of the two things that publishers do wait for (the other is their own broker)."""
        config = ctx.config
        self._ctx = ctx
        self._is_safe = is_safe
        self._is_logger = is_logger
        self._window = config.link_window_bytes
        self._bytes_per_s = None if config.link_bandwidth_bps is None else config.link_bandwidth_bps / 8
        eager = config.link_policy == "eager" and self._bytes_per_s is None
        self._patience_s = config.link_patience_s if eager else 0.0
        self._links: dict[NodeId, Link] = {}
        self.saturated: dict[NodeId, Link] = {}
        """Those on which anything waits."""
        self._movable: dict[NodeId, Link] = {}
        """Saturated links that may admit something again."""
        self._due = NEVER
        self._epoch = ctx.incarnation << 20
        self.enabled = self._window is not None or self._bytes_per_s is not None

    def is_saturated(self, node: NodeId) -> bool:
        """Whether anything waits for one peer."""
        return node in self.saturated

    def waiting(self) -> dict[NodeId, tuple[int, int]]:
        """Events and bytes that wait for each saturated link."""
        return {node: (len(link.buffer), link.buffer.bytes) for node, link in self.saturated.items()}

    # Out ------------------------------------------------------------------------------------------------------------

    def admit(self, effects: list[Effect]) -> list[Effect]:
        """What of a node's effects may be done now; events for links that do not admit them wait here."""
        if not self._movable and self._due > self._ctx.now and Send not in map(type, effects):
            return effects  # as most often
        admitted: list[Effect] = []
        self._ctx.effects = admitted
        self._drain_movable()  # what waits goes first
        for effect in effects:
            if not isinstance(effect, Send):
                admitted.append(effect)
            elif isinstance(effect.message, Data | Repair):
                self._admit_events(effect.to, effect.message)
            else:
                for node in effect.to if self._bytes_per_s is not None else ():
                    self._link(node).credit -= CONTROL_BYTES  # it counts, and never waits
                admitted.append(effect)
        return admitted

    def _admit_events(self, to: tuple[NodeId, ...], message: Data | Repair) -> None:
        packets = message.packets if isinstance(message, Repair) else (message.packet,)
        size = sum(map(cost, packets))
        at_once = []
        heads: list[list[Head]] = []
        for node in to:
            link = self._link(node)
            if not link.buffer and not link.marks and self._admits(link):
                self._spend(link, size)
                at_once.append((node, link))
            else:
                heads = heads or [self._heads(packet) for packet in packets]
                kept = [[]] * len(packets) if self._is_logger(node) else heads
                self._enqueue(node, link, message, zip(packets, kept, strict=True))
        if at_once:
            self._ctx.effects.append(Send(tuple(node for node, _ in at_once), message))
            for node, link in at_once:
                self._probe(node, link)

    def _enqueue(
        self, node: NodeId, link: Link, message: Data | Repair, packets: Iterable[tuple[Packet, list[Head]]]
    ) -> None:
        way: _Way = (message.origin, message.hops) if isinstance(message, Data) else (None, 0)
        self.saturated[node] = link
        self._arm(link)
        if self._patience_s:
            head = link.buffer.peek()
            late = head is not None and self._ctx.now - head.payload[2] >= self._patience_s
            self._note(link, link.buffer.be_eager(late))
        for packet, heads in packets:
            for hole in packet.holes:
                for seq in range(hole.first, hole.last + 1):
                    self._mark(link, packet.stream, seq, (hole.by, hole.final))
            waiting = self._pieces(link, packet, heads, way)
            if way[0] is not None:
                self._wait(link, packet.stream, waiting)
                continue
            for piece in waiting:
                # A repair throws nothing out: it is asked for oldest first, and would be thrown out in its turn.
                if not link.buffer.full:
                    self._wait(link, packet.stream, [piece])
                else:
                    link.dropped += 1
                    self._ctx.tally.purge("link", "room", packet.stream, None)

    def _pieces(self, link: Link, packet: Packet, heads: list[Head], way: _Way) -> list[_Piece]:
        """What of a packet does not wait yet, as it is to wait."""
        first, last, now = packet.first, packet.last, self._ctx.now
        lacking = link.lacks(packet.stream, first, last)
        if not heads and not packet.holes and packet.count >= WHOLE_EVENTS and self._bytes_per_s is None:
            parts = [packet.cut(*part) for part in lacking]
            return [(part.first, None, len(part.blob), (part, way, now)) for part in parts]
        pieces: list[_Piece] = [
            (seq, head, len(piece), (piece, way, now))
            for (seq, piece), head in zip(packet.encoded(), heads or repeat(None), strict=False)
        ]
        if way[0] is None and packet.stream in link.marks:  # purged here, and the peer is about to be told
            marks = link.marks[packet.stream]
            pieces = [piece for piece in pieces if piece[0] not in marks]
        if lacking == [(first, last)]:
            return pieces
        fresh = IntervalSet(lacking)
        return [piece for piece in pieces if piece[0] in fresh]

    def _wait(self, link: Link, stream: StreamId, pieces: list[_Piece]) -> None:
        if pieces:
            seqs = link.seqs.setdefault(stream, IntervalSet())
            for seq, _, _, (piece, _, _) in pieces:
                seqs.add(seq, piece.last if isinstance(piece, Packet) else seq)
            self._note(link, link.buffer.extend(stream, pieces))

    def passing(self, packet: Packet) -> None:
        """An event has come to this node: what it obsoletes need not wait for any link any more."""
        if not self.saturated or not self._ctx.config.group(group_of(packet.stream)).purging:
            return
        if self._ctx.config.link_policy not in ("eager", "lazy"):
            return
        for (seq, _), head in zip(packet.encoded(), self._heads(packet), strict=False):
            for link in self.saturated.values():
                self._note(link, link.buffer.passing(packet.stream, seq, head))

    def _heads(self, packet: Packet) -> list[Head]:
        """What counts for purging on a link, for each event that is present; nothing if none can be obsolete, or make
        another so."""
        if not self._ctx.config.group(group_of(packet.stream)).purging:
            return []
        try:
            heads = [head for _, head in packet.heads()]
        except PeerError:
            return []  # a peer's rubbish, passed on: nobody can tell what it obsoletes
        if all(head.key is None and head.relation is None for head in heads):
            return []
        return [_on_a_link(head) for head in heads]

    def _note(self, link: Link, omissions: Iterable[Omitted]) -> None:
        for omitted in omissions:
            entry, by = omitted.entry, omitted.by
            link.left(entry)
            key = None if entry.head is None else entry.head.key
            self._ctx.tally.purge("link", "room" if by is None else "obsolete", entry.stream, key)
            if by is None:
                link.dropped += _last(entry) - entry.seq + 1
            else:
                self._mark(link, entry.stream, entry.seq, (_by(entry.stream, by), False))

    def _mark(self, link: Link, stream: StreamId, seq: int, reason: Reason) -> None:
        marks = link.marks.setdefault(stream, {})
        link.marked += seq not in marks
        marks[seq] = reason
        if link.marked > MARKS_MAX:  # its peer may be gone for days; what is not told is asked for
            oldest = next(iter(link.marks))
            link.marked -= len(link.marks.pop(oldest))

    # Admission ------------------------------------------------------------------------------------------------------

    def _has_window(self, link: Link) -> bool:
        return self._window is None or link.sent - link.taken < self._window

    def _arm(self, link: Link) -> None:
        """Wake when the bandwidth admits more; for a window there is nothing to do but to wait for its peer."""
        ready_at = self._ready_at(link)
        if ready_at is not None:
            self._due = min(self._due, ready_at)

    def _ready_at(self, link: Link) -> float | None:
        """When the bandwidth admits more; None if that is not what the link waits for."""
        if self._bytes_per_s is None or link.credit >= 0 or not self._has_window(link):
            return None
        return link.credit_at - link.credit / self._bytes_per_s

    def _admits(self, link: Link) -> bool:
        if not self._has_window(link):
            return False
        if self._bytes_per_s is None:
            return True
        elapsed_s, link.credit_at = self._ctx.now - link.credit_at, self._ctx.now
        link.credit = min(self._bytes_per_s * BURST_S, link.credit + elapsed_s * self._bytes_per_s)
        return link.credit > -ROUNDING_BYTES

    def _spend(self, link: Link, size: int) -> None:
        link.sent += size
        link.credit -= size

    def _probe(self, node: NodeId, link: Link) -> None:
        if self._window is not None and link.sent - link.probed >= self._window // 4:
            link.probed = link.sent
            self._ctx.send(node, Sent(link.epoch, link.sent))

    def on_taken(self, sender: NodeId, message: Taken) -> None:
        link = self._links.get(sender)
        if link is not None and message.epoch == link.epoch and link.taken < message.bytes <= link.sent:
            link.taken = message.bytes
            self._movable[sender] = link

    def on_connected(self, node: NodeId) -> None:
        """A new session with a peer: what was under way is lost, and repaired; what waits may go."""
        link = self._links.get(node)
        if link is not None:
            self._epoch += 1
            link.begin(self._epoch)
            self._movable[node] = link

    def forget(self, node: NodeId) -> None:
        """It has left."""
        for links in (self._links, self.saturated, self._movable):
            links.pop(node, None)

    def on_round(self) -> None:
        """Ask again where nothing has been heard of what was sent; say that it is final where that is known by now."""
        for node, link in self._links.items() if self._window is not None else ():
            if link.taken < link.probed:  # what was not probed yet is less than a quarter, and closes no window
                link.probed = link.sent
                self._ctx.send(node, Sent(link.epoch, link.sent))
        for link in self.saturated.values():
            self._settle(link)

    def _settle(self, link: Link) -> None:
        """Marks that were not final: what they name may have been sent since, or be safe (000 App. A.2: of an endless
        chain of events, each obsoleting the last, none need ever get through)."""
        for event, (nearest, named, told) in list(link.awaited.items()):
            if named in link.awaited:  # purged in its turn
                named = link.awaited[named][1]
                link.awaited[event] = (nearest, named, told)
            if not link.waits(named) and named.seq not in link.marks.get(named.stream, {}):
                del link.awaited[event]  # it was sent
            elif self._ctx.round - told >= PATIENCE_ROUNDS and self._is_safe(nearest):
                del link.awaited[event]
                self._mark(link, event.stream, event.seq, (_by(event.stream, nearest), True))

    def next_deadline(self) -> float:
        return self._due if self.saturated else NEVER

    # Draining -------------------------------------------------------------------------------------------------------

    def _drain_movable(self) -> None:
        movable, self._movable = self._movable, {}
        if self._due <= self._ctx.now:
            movable, self._due = self.saturated, NEVER
        for node, link in list(movable.items()):
            ready_at = self._ready_at(link)
            if ready_at is None or ready_at <= self._ctx.now:
                self._drain(node, link)
            else:  # of many that wait for their bandwidth one is due at a time
                self._due = min(self._due, ready_at)

    def _drain(self, node: NodeId, link: Link) -> None:
        while (link.buffer or link.marks) and self._admits(link):
            for message in self._next(link):
                self._spend(link, sum(map(cost, message.packets if isinstance(message, Repair) else (message.packet,))))
                self._ctx.send(node, message)
            self._probe(node, link)
        if not link.buffer and not link.marks:
            self.saturated.pop(node, None)
        else:
            self._arm(link)

    def _next(self, link: Link) -> list[Data | Repair]:
        """What goes next: as much as the window takes of what waits, with the marks that belong to it."""
        room = EVENTS_MAX if self._bytes_per_s is None else 1
        entries = link.buffer.take(room, (self._window or self._ctx.config.repair_bytes_max) // 4)
        for entry in entries:
            link.left(entry)
        marks = self._due_marks(link, entries)
        self._resolve(link, marks)
        messages: list[Data | Repair] = []
        for (stream, way), run in groupby(entries, key=lambda entry: (entry.stream, entry.payload[1])):
            packets = _joined(stream, list(run), marks.get(stream, {}))
            packets.sort(key=lambda packet: not packet.blob)  # marks alone after what they name: then none has to wait
            messages += [_message(way, packet) for packet in packets]
        left = [packet for stream, reasons in marks.items() for packet in _joined(stream, [], reasons)]
        messages += [Repair(tuple(left[at : at + MARKS_A_MESSAGE])) for at in range(0, len(left), MARKS_A_MESSAGE)]
        return messages

    def _due_marks(self, link: Link, entries: list[Entry]) -> dict[StreamId, dict[int, Reason]]:
        """Marks of what comes before these events in their streams, and of streams of which nothing waits. The others
        are not missed yet, and go with their neighbours: one packet for many."""
        last: dict[StreamId, int] = {}
        for entry in entries:
            last[entry.stream] = max(_last(entry), last.get(entry.stream, -1))
        marks: dict[StreamId, dict[int, Reason]] = {}
        for stream, reasons in list(link.marks.items()):
            if stream not in link.seqs:
                marks[stream] = link.marks.pop(stream)
                link.marked -= len(marks[stream])
            elif stream in last:
                upto = last[stream]
                while upto + 1 in reasons:
                    upto += 1
                marks[stream] = {seq: reasons.pop(seq) for seq in [seq for seq in reasons if seq <= upto]}
                link.marked -= len(marks[stream])
                if not reasons:
                    del link.marks[stream]
        return marks

    def _resolve(self, link: Link, marks: dict[StreamId, dict[int, Reason]]) -> None:
        """Name what is there in the end, not what was purged in turn: fewer names, and fewer to wait for."""
        for stream, reasons in marks.items():
            for seq in sorted(reasons, reverse=True):  # so that what is further on is resolved already, mostly
                by, final = reasons[seq]
                at = nearest = by if isinstance(by, tuple) else EventId(stream, by)
                for _ in range(CHAIN_MAX):
                    further = marks.get(at.stream, {}).get(at.seq) or link.marks.get(at.stream, {}).get(at.seq)
                    if further is None:
                        break
                    name, final = further
                    at = name if isinstance(name, tuple) else EventId(at.stream, name)
                if at != (stream, seq):
                    by = _by(stream, at)
                final = final or self._is_safe(nearest)
                if not final and link.waits(at) and len(link.awaited) < AWAITED_MAX:
                    link.awaited[EventId(stream, seq)] = (nearest, at, self._ctx.round)
                reasons[seq] = (by, final)

    def _link(self, node: NodeId) -> Link:
        link = self._links.get(node)
        if link is None:
            config = self._ctx.config
            policy = config.link_policy
            buffer = PurgingBuffer(
                config.link_buffer_events_max,
                config.link_buffer_bytes_max,
                semantic=policy if policy == "eager" or policy == "lazy" else "off",
                overflow="drop-new" if policy == "drop-new" else "random",
                rng=self._ctx.rng,
            )
            self._epoch += 1
            link = self._links[node] = Link(buffer, self._epoch)
            link.credit_at = self._ctx.now
            link.credit = 0.0 if self._bytes_per_s is None else self._bytes_per_s * BURST_S  # it was idle until now
        return link


def _on_a_link(head: Head) -> Head:
    """A commit obsoletes nothing on a link: what it does is done by its parts, and one of those may get lost."""
    return Head() if head.relation is not None and head.relation.commit is not None else head


def _last(entry: Entry) -> int:
    """The last seq of what an entry stands for."""
    piece = entry.payload[0]
    return piece.last if isinstance(piece, Packet) else entry.seq


def _by(stream: StreamId, event: EventId) -> int | EventId:
    """As a hole of a stream names it."""
    return event.seq if event.stream == stream else event


def cost(packet: Packet) -> int:
    """About how many bytes a packet takes on the wire."""
    return PACKET_BYTES + len(packet.blob) + len(packet.sizes) + HOLE_BYTES * len(packet.holes)


def _message(way: _Way, packet: Packet) -> Data | Repair:
    origin, hops = way
    return Repair((packet,)) if origin is None else Data(origin, packet, hops)


def _joined(stream: StreamId, entries: list[Entry], marks: dict[int, Reason]) -> list[Packet]:
    """Entries of one stream, and the marks next to them, as few packets; the marks used are taken out. Without entries:
    the marks alone."""
    whole = [entry.payload[0] for entry in entries if isinstance(entry.payload[0], Packet)]
    if len(whole) == len(entries) and not marks:
        return whole
    pieces: dict[int, bytes | Reason] = {}
    for entry in entries:
        piece = entry.payload[0]
        pieces.update(piece.encoded() if isinstance(piece, Packet) else ((entry.seq, piece),))
    if not entries:
        pieces = dict(marks)
        marks.clear()
    for seq in list(pieces):
        for step in (-1, 1):
            at = seq + step
            while at not in pieces and (reason := marks.pop(at, None)) is not None:
                pieces[at] = reason
                at += step
    packets: list[Packet] = []
    run: list[tuple[int, bytes | Reason]] = []
    for seq in sorted(pieces):
        if run and (seq != run[-1][0] + 1 or len(run) == EVENTS_MAX):
            packets.append(assemble(stream, run))
            run = []
        run.append((seq, pieces[seq]))
    return [*packets, assemble(stream, run)] if run else packets
