"""One way to one peer: a DEALER of its own, so that who is slow is slow alone.

ZeroMQ would take megabytes for a peer that takes nothing, hidden where nobody can purge, count or bound them. Events
are held back before they come here, by the core's own window, which is smaller (protocol/links.py: there they can be
purged). This one is for everything: no more than so many bytes are put on the socket, and what is beyond waits in a
bounded queue that drops its oldest. How much is used is told by marks, which the peer sends back when it has taken all
before them.

A *session* is one life of the socket. It begins with a mark; nothing else is sent before that comes back, and so we
know who is there. A mark that stays away for `silence_s` ends it, and whatever lay in its pipes goes with it: the next
begins with an empty window.

    waiting   -- the first mark is back -->     open
    waiting   -- retry_s, doubling -->          waiting, in a new session
    open      -- a mark stays away -->          waiting, in a new session
    open      -- somebody else is there -->     waiting, after a while

A link also tells whether its peer is lost. Two kinds of evidence count, and neither depends on how busy a machine is:

    gone      the kernel refuses connections to its address: no process listens there
    silent    several probes in a row (marks, one every `probe_s`) came back from nobody

A message that the peer sends by its own link is evidence to the contrary.
"""

import struct
from collections import deque
from dataclasses import dataclass
from typing import Literal

import zmq

from gossamer.broker.addresses import speak_ipv6, split
from gossamer.broker.counters import Counters
from gossamer.broker.framing import Header, decode_header, decode_mark, encode_header, encode_mark
from gossamer.broker.sockets import NOBLOCK, SNDMORE, receive_parts
from gossamer.messages.errors import PeerError
from gossamer.messages.ids import NodeId

NEVER = float("inf")
SETTLE_S = 0.5
"""A peer is gone after its address has refused connections for so long: messages sent before are read by then."""
MISSED_PROBES = 3
"""A peer is silent after so many probes in a row without an answer. Counted in probes, not in seconds: a process that
was suspended itself has sent none."""
CONNECTED = int(zmq.EVENT_CONNECTED)
CONNECTIONS = CONNECTED | int(zmq.EVENT_CLOSED) | int(zmq.EVENT_DISCONNECTED)
COPY_BYTES_MAX = 64 * 1024
"""Larger frames are lent to ZeroMQ and not copied, once for all links."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a link, each with its trade-off."""

    window_bytes: int = 4 * 2**20
    """On the socket and not yet taken by the peer, whatever it is; well over `Config.link_window_bytes`."""
    queue_bytes_max: int = 8 * 2**20
    """Waiting here. What is over is dropped, and repaired by gossip."""
    hwm: int = 64
    """Messages in each of ZeroMQ's own pipes."""
    buffer_bytes: int = 256 * 1024
    """Of the kernel, for each direction."""
    silence_s: float = 3.0
    """A mark that is away so long is lost, and the session with it."""
    probe_s: float = 2.0
    """How often a peer is asked for a sign of life. Less finds a machine without power sooner, and sends more."""
    retry_s: float = 0.5
    retry_max_s: float = 8.0
    stale_s: float = 1.0
    """What had to wait longer for a session to open is not sent any more: who comes back wants news."""
    idle_s: float = 60.0
    """A link that was not used for so long is closed, and opened again on demand."""
    linger_s: float = 0.5
    """How long a clean stop waits for what lies on the sockets."""


class Link:
    __slots__ = (
        "_answered", "_backoff_s", "_context", "_counters", "_header", "_limits", "_marked_at", "_missed", "_monitor",
        "_own", "_probe_at", "_queue", "_refused_at", "_retry_at", "address", "answered_at", "echoed", "epoch",
        "marked", "node", "peer", "queued_bytes", "sent", "socket", "stuck", "used_at",
    )  # fmt: skip

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        own: Header,
        address: str,
        node: NodeId | None,
        limits: Limits,
        counters: Counters,
    ) -> None:
        """`node` is whom we expect at the address; None: whoever is there."""
        self._context = context
        self._own = own
        self._limits = limits
        self._counters = counters
        self._queue: deque[tuple[float, bytes]] = deque()
        self._backoff_s = limits.retry_s
        self._retry_at = NEVER
        self._header = b""
        self._marked_at = NEVER
        self._monitor: zmq.Socket[bytes] | None = None
        """Tells when the kernel's connection to the peer is made, refused or broken."""
        self._refused_at = NEVER
        """Since when there is no connection; NEVER while there is one, or none was tried."""
        self._probe_at = 0.0
        self._missed = 0
        self._answered = True
        """Whether a mark came back since the last probe."""
        self.address = address
        self.node = node
        self.socket: zmq.Socket[bytes] | None = None
        self.peer: Header | None = None
        """Who answered; None until somebody has."""
        self.epoch = 0
        self.sent = 0
        self.marked = 0
        self.echoed = 0
        """Bytes of this session: put on the socket, marked, and known to be taken."""
        self.queued_bytes = 0
        self.stuck = False
        """The socket takes no more: to be told when it does."""
        self.used_at = 0.0
        self.answered_at = -NEVER
        """When the last mark came back."""

    # Sessions -------------------------------------------------------------------------------------------------------

    def open(self, now: float) -> None:
        """Begin a session, the next one if there was one."""
        self.close(0.0)
        limits = self._limits
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.SNDHWM, limits.hwm)
        socket.setsockopt(zmq.RCVHWM, limits.hwm)
        socket.setsockopt(zmq.SNDBUF, limits.buffer_bytes)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        socket.setsockopt(zmq.MAXMSGSIZE, 4_096)  # nothing but marks comes back
        socket.setsockopt(zmq.LINGER, 0)
        speak_ipv6(socket, split(self.address)[0])
        self._monitor = socket.get_monitor_socket(CONNECTIONS)
        socket.connect(self.address)
        self.socket = socket
        self.epoch += 1
        self._header = encode_header(
            Header(self._own.node, self._own.incarnation, self._own.address, self.epoch),
        )
        self.peer = None
        self.sent = self.marked = self.echoed = 0
        self.stuck = False
        self._marked_at = NEVER
        self._counters.link_sessions += 1
        self._retry_at = now + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, self._limits.retry_max_s)
        self._mark(now)

    def move(self, address: str, now: float) -> None:
        """The peer is to be found elsewhere."""
        self.address = address
        self._backoff_s = self._limits.retry_s
        self._refused_at = NEVER
        self.open(now)

    def close(self, linger_s: float) -> None:
        if self._monitor is not None and self.socket is not None:
            self.socket.disable_monitor()
            self._monitor.close(linger=0)
            self._monitor = None
        if self.socket is not None:
            self.socket.close(linger=round(1_000 * linger_s))
            self.socket = None

    # Sending --------------------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        return self.sent - self.echoed

    def send(self, frame: bytes, now: float) -> None:
        """Put it on the socket, or keep it until there is room."""
        self.used_at = now
        if self._queue or self.peer is None or not self._transmit(frame, now):
            self._queue.append((now, frame))
            self.queued_bytes += len(frame)
            while self.queued_bytes > self._limits.queue_bytes_max and len(self._queue) > 1:
                self._drop_oldest()

    def flush(self, now: float) -> None:
        """Send what waits, as far as there is room."""
        self.stuck = False
        if self.sent - self.marked >= self._limits.window_bytes // 4:
            self._mark(now)
        queue = self._queue
        while queue and self.peer is not None and self._transmit(queue[0][1], now):
            self.queued_bytes -= len(queue.popleft()[1])

    def _transmit(self, frame: bytes, now: float) -> bool:
        window_bytes = self._limits.window_bytes
        if self.stuck or self.sent - self.echoed >= window_bytes or not self._put(frame):
            return False
        self.sent += len(frame)
        self._counters.frames_sent += 1
        self._counters.bytes_sent += len(frame)
        if self.sent - self.marked >= window_bytes // 4:
            self._mark(now)
        return True

    def _put(self, body: bytes) -> bool:
        assert self.socket is not None
        try:
            self.socket.send(self._header, SNDMORE)
        except zmq.Again:
            self.stuck = True
            return False
        self.socket.send(body, NOBLOCK, copy=len(body) <= COPY_BYTES_MAX)
        return True

    def _mark(self, now: float) -> None:
        if self._put(encode_mark(self.sent)):
            self.marked = self.sent
            self._marked_at = min(self._marked_at, now)

    def _drop_oldest(self) -> None:
        self.queued_bytes -= len(self._queue.popleft()[1])
        self._counters.frames_dropped += 1

    # What comes back ------------------------------------------------------------------------------------------------

    def on_readable(self, now: float) -> Header | None:
        """Take the marks that came back; who is there, if a session has begun with it."""
        assert self.socket is not None
        news: Header | None = None
        while True:
            try:
                parts = receive_parts(self.socket)
            except zmq.Again:
                break
            try:
                header, position = _answer(parts)
                if header.epoch == self.epoch:
                    news = self._on_mark(header, position, now) or news
            except PeerError:
                self._counters.peer_errors += 1
        self.flush(now)
        return news

    def _on_mark(self, header: Header, position: int, now: float) -> Header | None:
        if self.node not in (None, header.node):
            self.peer = None
            self._retry_at = now + self._backoff_s
            raise PeerError(f"{header.node} answers at the address of {self.node}")
        if position > self.sent:
            raise PeerError(f"{header.node} has taken more than it was sent")
        self.echoed = max(self.echoed, position)
        self._answered = True
        self.answered_at = now
        self._missed = 0
        self._marked_at = NEVER if self.echoed == self.marked else now
        known, self.peer = self.peer, header
        if known is None:
            self._backoff_s = self._limits.retry_s
            while self._queue and self._queue[0][0] < now - self._limits.stale_s:
                self._drop_oldest()
        same = known is not None and (known.node, known.incarnation) == (header.node, header.incarnation)
        return None if same else header

    # Time -----------------------------------------------------------------------------------------------------------

    @property
    def expectant(self) -> bool:
        """Whether there is something to look after soon."""
        return self.peer is None or self.echoed < self.sent or bool(self._queue)

    def on_tick(self, now: float) -> None:
        """Mark what has not been marked, and begin anew where nobody answers."""
        self._note_connection(now)
        if now >= self._probe_at:
            self._probe(now)
        if self.peer is None:
            if now >= self._retry_at:
                self.open(now)
        elif now >= self._marked_at + self._limits.silence_s:
            self.open(now)
        elif self.marked < self.sent and self._marked_at == NEVER:
            self._mark(now)

    def _probe(self, now: float) -> None:
        """Count the last probe if it was in vain, and send the next unless a mark is out already."""
        self._probe_at = now + self._limits.probe_s
        if not self._answered:
            self._missed += 1
        self._answered = False
        if self._marked_at == NEVER and self.peer is not None:
            self._mark(now)

    def _note_connection(self, now: float) -> None:
        """Take from the monitor what became of the connection."""
        while self._monitor is not None:
            try:
                event, _ = receive_parts(self._monitor)
            except zmq.Again:
                return
            (kind,) = struct.unpack_from("=H", event)
            if kind == CONNECTED:
                self._refused_at = NEVER
            elif self._refused_at == NEVER:
                self._refused_at = now

    def untaken_s(self, now: float) -> float:
        """For how long the peer has not answered a mark; 0 if none is out."""
        return max(0.0, now - self._marked_at)

    def lost(self, heard_at: float, now: float) -> Literal["gone", "silent"] | None:
        """Whether the peer is lost, if its last message came at `heard_at`."""
        self._note_connection(now)
        settled_at = self._refused_at + SETTLE_S
        if now >= settled_at > heard_at:
            return "gone"
        silent = self._missed >= MISSED_PROBES and heard_at < now - MISSED_PROBES * self._limits.probe_s
        return "silent" if silent else None


def _answer(parts: list[bytes]) -> tuple[Header, int]:
    if len(parts) != 2:
        raise PeerError(f"an answer of {len(parts)} parts")
    return decode_header(parts[0]), decode_mark(parts[1])
