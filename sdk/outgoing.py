"""What a client has published, from the call until it need not be kept any more; without a socket or a clock.

The application puts events into `outbox`. Whoever is at the socket (sdk/transport.py) makes packets of them, keeps each
until it is logged, and sends again to a new broker what was not acknowledged.

Events leave at once when nothing is under way but a few small packets, or nothing has left for `GATHER_NS`; else they
gather, and leave when that has been taken, or when they fill a packet. So at low rates a packet is one event, and at
high rates it is large. The first small ones that are under way are *patient*: unless somebody waits for their
acknowledgement, one for all of them will do.

In a group with back-pressure the broker may say how far the stream may go (`Allowance`). Nothing beyond that leaves,
and far fewer events are kept here, so that `publish` soon waits as well.
"""

from collections import deque
from collections.abc import Iterator

from gossamer.messages.ids import SEQ_MAX, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.quick import Outbox
from gossamer.messages.session import Acks, Publish, Welcome
from gossamer.sdk.spool import Spool

PACKET_EVENTS_MAX = 1_024
PACKET_BYTES_MAX = 512 * 1024
"""A packet is filled up to here; one event may be larger."""
EVENTS_MAX, BYTES_MAX = 65_536, 64 * 2**20
"""Published, and not logged yet."""
PRESSED_EVENTS_MAX = 4 * PACKET_EVENTS_MAX
"""With back-pressure: published, and not yet taken by the broker."""
FLYING_MAX = 4
"""Packets that are on their way and not yet with the broker. With more a publisher outruns its broker, and subscribers
that would keep up read seconds behind (docs/performance.md)."""
GATHER_NS = 2_000_000
LOOK_NS = 200_000
"""How often a publisher that may send nothing looks whether it may: to look takes a poll and a lock."""
SMALL_EVENTS_MAX, SMALL_BYTES_MAX, SMALL_FLYING_MAX = 4, 8 * 1024, 2
"""So many packets of so few events are followed by the next at once."""
PATIENT_FLYING_MAX = 2
"""And so many of those may be answered later: the next leaves at once, too, and is not patient, so that nothing ever
gathers behind an answer that takes its time."""


class Outgoing:
    """One client's stream, as far as it is not logged."""

    def __init__(self, spool: Spool | None = None) -> None:
        self._spool = spool
        self.stream: StreamId | None = None
        self.outbox = Outbox()
        """Published and encoded, and not yet packed."""
        self.next = 0
        self._unacked: deque[Packet] = deque()
        self.unsent = 0
        """How many of the last of these were not sent in this session."""
        self._released_bytes = 0
        """What of all that was put in need not be kept any more; only who is at the socket counts it."""
        self.open_bytes = BYTES_MAX
        """All that there is room for now."""
        self.acks = Acks(-1, -1, -1)
        self.acked = -1
        """Up to here the stream need not be kept any more."""
        self._limit = SEQ_MAX
        """The last number that may be used at all."""
        self._pressed = False
        """Whether publishers of the group wait for its slowest subscription."""
        self.allowed = SEQ_MAX
        """The last number that subscriptions have room for."""
        self.blocked_by = ""
        """The subscription that has no room beyond that."""
        self.blocked = False
        """Whether something waits here because of that."""
        self.open_until = -1
        """The last number that there is room for now."""
        self.flying: deque[int] = deque()
        """The last seqs of packets that are on their way to the broker."""
        self.patient_until_ns = 0
        """Until then a packet that is not full waits for those; 0 if there are none."""
        self.waited = 0
        """How many wait for an acknowledgement, or for room; only the application counts them."""
        self.owed = False
        """Whether the broker may take its time over an acknowledgement."""
        if spool is not None and spool.next is not None:
            self._take_up(spool, spool.next)

    def _take_up(self, spool: Spool, following: int) -> None:
        """Go on where an earlier life stopped."""
        self.stream, self.next = spool.stream, following
        self._unacked.extend(spool.unlogged)
        self._released_bytes = -sum(len(packet.blob) for packet in self._unacked)
        self.open_bytes += self._released_bytes
        self._begin_behind((self._unacked[0].first if self._unacked else following) - 1)

    def _begin_behind(self, last: int) -> None:
        self.acked = last
        self.acks = Acks(last, last, last)

    @property
    def pending_bytes(self) -> int:
        """Published, and not logged yet."""
        return self.outbox.posted_bytes - self._released_bytes

    @property
    def following(self) -> int:
        """The first number that a new broker may be sent."""
        return self._unacked[0].first if self._unacked else self.next

    @property
    def settled(self) -> bool:
        """Whether the broker has everything."""
        return self.acks.sent >= self.next - 1 and not self.outbox

    # Leaving --------------------------------------------------------------------------------------------------------

    def due(self, now_ns: int) -> Iterator[Publish]:
        """What is to be sent now; each of it before the next is asked for."""
        flying, outbox = self.flying, self.outbox
        if not outbox and not self.unsent:
            return
        urgent = now_ns >= self.patient_until_ns
        while len(flying) < FLYING_MAX:
            if self._following_unsent > self.allowed:
                self.blocked = True
                break
            if self.unsent:
                packet = self._next_unsent()
            elif len(outbox) >= PACKET_EVENTS_MAX or (urgent and outbox):
                packet = self._pack()
                urgent = False
            else:
                return
            last = packet.first + len(packet.sizes) // 4 - 1
            flying.append(last)
            small = last - packet.first < SMALL_EVENTS_MAX and len(packet.blob) <= SMALL_BYTES_MAX
            self.owed = small and not self.waited and len(flying) <= PATIENT_FLYING_MAX
            # A few small ones do not hold the next up: it may well be the last for a while, too.
            self.patient_until_ns = 0 if small and len(flying) <= SMALL_FLYING_MAX else now_ns + GATHER_NS
            yield Publish(packet, self.owed)
        if urgent:
            self.patient_until_ns = now_ns + LOOK_NS

    @property
    def _following_unsent(self) -> int:
        """The first number that was not sent in this session."""
        return self._unacked[-self.unsent].first if self.unsent else self.next

    def _next_unsent(self) -> Packet:
        """The first packet that was not sent in this session: as much of it as there is room for."""
        place = len(self._unacked) - self.unsent
        packet = self._unacked[place]
        if packet.last > self.allowed:
            self._unacked[place] = packet.cut(self.allowed + 1, packet.last)
            packet = packet.cut(packet.first, self.allowed)
            self._unacked.insert(place, packet)
        else:
            self.unsent -= 1
        return packet

    def _pack(self) -> Packet:
        assert self.stream is not None
        count = min(PACKET_EVENTS_MAX, self.allowed - self.next + 1)
        packet = Packet(self.stream, self.next, *self.outbox.take(count, PACKET_BYTES_MAX))
        if self._spool is not None:
            self._spool.keep(packet)
        self.next += packet.count
        self._unacked.append(packet)
        return packet

    # What the broker says -------------------------------------------------------------------------------------------

    def on_welcome(self, welcome: Welcome) -> None:
        """A new session: what the last broker did not acknowledge is sent to this one."""
        self._again(len(self._unacked))
        self._limit = welcome.last
        self._pressed = welcome.backpressure
        self.on_allowance(SEQ_MAX, "")  # this broker says so if there is no room
        if self.stream is None:
            self.stream = welcome.stream
            self.next = welcome.first
            self._begin_behind(welcome.first - 1)
            if self._spool is not None:
                self._spool.begin(welcome.first)
        self._make_room()

    def on_acks(self, acks: Acks) -> None:
        known = self.acks
        self.acks = Acks(max(acks.sent, known.sent), max(acks.logged, known.logged), max(acks.safe, known.safe))
        flying, unacked = self.flying, self._unacked
        while flying and flying[0] <= acks.sent:
            flying.popleft()
        if not flying:
            self.patient_until_ns = 0
        self.acked = max(self.acks.safe, self.acks.logged)
        self._make_room()
        while unacked and unacked[0].last <= self.acked:
            self._released_bytes += len(unacked.popleft().blob)
        self.open_bytes = self._released_bytes + BYTES_MAX
        self.unsent = min(self.unsent, len(unacked))
        if self._spool is not None:
            self._spool.forget(self.acked)

    def on_numbers(self, last: int) -> None:
        """A named publisher may use more of them."""
        self._limit = max(self._limit, last)
        self._make_room()

    def on_allowance(self, last: int, by: str) -> None:
        """Subscriptions have room up to `last`; the one named has no room for more."""
        self.allowed, self.blocked_by = last, by
        self.blocked = self.next - 1 > last  # what is not packed yet is looked at when it is due
        if not self.flying:
            self.patient_until_ns = 0

    def on_resend(self, first: int) -> None:
        self._again(sum(packet.last >= first for packet in self._unacked))

    def _again(self, unsent: int) -> None:
        self.flying.clear()
        self.patient_until_ns = 0
        self.owed = False
        self.unsent = unsent

    def _make_room(self) -> None:
        self.open_until = min(self.acked + EVENTS_MAX, self._limit)
        if self._pressed:
            taken = max(self.acks.sent, self.acked)
            self.open_until = min(self.open_until, taken + PRESSED_EVENTS_MAX)

    def fail(self) -> None:
        """Nothing more can be published."""
        self.open_until = -1
