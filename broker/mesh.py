"""The mesh over ZeroMQ: one ROUTER on which everyone is heard, and one link (a DEALER) to each peer.

Everything a node says goes out on its own links and comes in on its own ROUTER; on a link nothing comes back but
marks. So each direction of each pair has its own back-pressure, and no peer can make us wait for another.

Nobody is configured beyond the first peers. Where a member is reached is told by the header of whatever it says, and
by its membership record, which gossip spreads; the latest news counts. Links are opened when there is something to
send, and closed when there has been nothing for long. A peer of which only the address is known is sent to by that.

What peers send is never trusted: whatever is wrong with it is a `PeerError`, counted and dropped.
"""

import logging
from typing import Literal

import zmq

from gossamer.broker.addresses import advertised, check_peer, default_name, keep_alive, speak_ipv6, split
from gossamer.broker.counters import Counters
from gossamer.broker.framing import Header, decode_header, decode_mark, encode_header, is_mark
from gossamer.broker.link import NEVER, Limits, Link
from gossamer.broker.poll import Poll
from gossamer.broker.sockets import is_readable, receive_routed
from gossamer.messages.codec import decode
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.frames import FRAME_BYTES_MAX
from gossamer.messages.ids import NodeId
from gossamer.protocol.inputs import Connected, Input, Met, Received

TICK_S = 0.1
IDLE_TICK_S = 0.5
BURST = 256
BURST_BYTES = 4 * 2**20
"""Frames, and their bytes, taken at a time, before anything else is looked after."""
HEADERS_MAX = 4_096

_log = logging.getLogger("gossamer.mesh")


class Mesh:
    """The sockets of one node; used by one thread."""

    def __init__(
        self,
        bind: str,
        *,
        advertise: str | None = None,
        name: str | None = None,
        incarnation: int,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.counters = Counters()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        try:
            address = advertised(self._bind(bind), advertise)
        except UsageError:
            self._router.close(linger=0)
            self._context.term()
            raise
        self.own = Header(name or default_name(address), incarnation, address, 0)
        self._links: dict[str, Link] = {}
        """By node id, or by address where that is all we know."""
        self._watched: dict[Link, tuple[zmq.Socket[bytes], int]] = {}
        self._addresses: dict[NodeId, str] = {}
        self._headers: dict[bytes, tuple[Header, bytes]] = {}
        """Headers seen, and what answers a mark under them: a session's are all the same bytes."""
        self.poll = Poll()
        self.poll.watch(self._router, zmq.POLLIN)
        self._tick_at = 0.0

    def _bind(self, url: str) -> str:
        host, port = split(url)
        router, limits = self._router, self.limits
        router.setsockopt(zmq.RCVHWM, limits.hwm)
        router.setsockopt(zmq.SNDHWM, limits.hwm)
        router.setsockopt(zmq.RCVBUF, limits.buffer_bytes)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # an answer to nobody is an error, not silence
        router.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MAX + 1)
        keep_alive(router)
        speak_ipv6(router, host)
        try:
            router.bind(f"tcp://{host}:{port or '*'}")
        except zmq.ZMQError as error:
            raise UsageError(f"cannot listen on {url}: {error.strerror}") from None
        return router.getsockopt_string(zmq.LAST_ENDPOINT)

    # Sending --------------------------------------------------------------------------------------------------------

    def send(self, to: tuple[str, ...], frame: bytes, now: float) -> None:
        """The same bytes to each of these, as far as there is a way and room on it."""
        self._tick_at = min(self._tick_at, now + TICK_S)
        self.poll.touched = True
        for name in to:
            link = self._links.get(name) or self._open(name, now)
            if link is None:
                self.counters.frames_dropped += 1
            else:
                link.send(frame, now)
                if link.stuck:
                    self._watch(link)

    def learn(self, node: NodeId, address: str, now: float) -> None:
        """A member is reached at this address now."""
        if not address or self._addresses.get(node) == address:
            return
        try:
            check_peer(address)
        except UsageError as error:
            self._complain(f"{node}: {error}")
            return
        self._addresses[node] = address
        link = self._links.get(node)
        if link is not None:
            link.move(address, now)
            self._watch(link)

    def _open(self, name: str, now: float) -> Link | None:
        by_address = name.startswith("tcp://")
        address = name if by_address else self._addresses.get(name)
        if address is None:
            return None
        node = None if by_address else name
        link = self._links[name] = Link(self._context, self.own, address, node, self.limits, self.counters)
        link.open(now)
        self._watch(link)
        return link

    def _watch(self, link: Link) -> None:
        """Poll the link's socket as it is now: for room as well, while it is stuck."""
        wanted = None
        if link.socket is not None:
            wanted = (link.socket, zmq.POLLIN | (zmq.POLLOUT if link.stuck else 0))
        watched = self._watched.pop(link, None)
        if watched is not None and (wanted is None or wanted[0] is not watched[0]):
            self.poll.unwatch(watched[0])
        if wanted is not None:
            self._watched[link] = wanted
            if wanted != watched:
                self.poll.watch(*wanted)

    # Receiving ------------------------------------------------------------------------------------------------------

    def receive(self, now: float) -> list[Input]:
        """What has come in, up to a burst of it."""
        taken: list[Input] = []
        readable = self.poll.readable
        if not readable:
            return taken
        for link in [link for link, (socket, _) in self._watched.items() if socket in readable]:
            news = link.on_readable(now)
            self._watch(link)
            if news is not None:
                told = {"event": "link-up", "peer": news.node, "address": link.address}
                _log.info("link to %s is up", news.node, extra={"fields": told})
                taken.append(Met(news.node) if link.node is None else Connected(news.node))
        if self._router in readable:
            self._drain(taken, now)
        return taken

    def _drain(self, taken: list[Input], now: float) -> None:
        counters = self.counters
        enough = counters.bytes_received + BURST_BYTES
        for _ in range(BURST):
            if counters.bytes_received > enough:
                return
            try:
                parts = receive_routed(self._router)
            except zmq.Again:
                return
            try:
                received = self._take(parts, now)
            except PeerError as error:
                self._complain(str(error))
            else:
                if received is not None:
                    taken.append(received)
            if not is_readable(self._router):
                return

    def _take(self, parts: list[bytes], now: float) -> Received | None:
        if len(parts) != 3:
            raise PeerError(f"a message of {len(parts) - 1} parts")
        sender, data, body = parts
        header, answer = self._headers.get(data) or self._meet(data, now)
        if header.node == self.own.node:
            self._take_own(header, sender, answer, body)
            return None
        if is_mark(body):
            decode_mark(body)
            self._answer(sender, answer, body)
            return None
        self.counters.frames_received += 1
        self.counters.bytes_received += len(body)
        return Received(header.node, decode(body))

    def _meet(self, data: bytes, now: float) -> tuple[Header, bytes]:
        """The first message of a session."""
        header = decode_header(data)
        if len(self._headers) >= HEADERS_MAX:
            self._headers.clear()
        own = Header(self.own.node, self.own.incarnation, self.own.address, header.epoch)
        known = self._headers[data] = header, encode_header(own)
        if header.node != self.own.node:
            self.learn(header.node, header.address, now)
        return known

    def _take_own(self, header: Header, sender: bytes, answer: bytes, body: bytes) -> None:
        """An address we dialled was our own: that is found out once, and then nothing is said there."""
        if header.incarnation != self.own.incarnation:
            raise PeerError(f"somebody else says that it is {header.node}")
        if is_mark(body):
            self._answer(sender, answer, body)

    def _answer(self, sender: bytes, header: bytes, mark: bytes) -> None:
        try:
            self._router.send_multipart((sender, header, mark), zmq.NOBLOCK)
        except zmq.ZMQError:  # it is gone, or takes nothing: it will ask again
            self.counters.frames_dropped += 1

    def _complain(self, text: str) -> None:
        self.counters.peer_errors += 1
        count = self.counters.peer_errors
        if count & (count - 1) == 0:  # a flood of them is told now and then
            _log.warning("peer error %d: %s", count, text)

    # Time -----------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        return self._tick_at if self._links else NEVER

    def on_time(self, now: float) -> None:
        """Look after the links."""
        if now < self._tick_at:
            return
        self.poll.touched = True
        expectant = False
        for name, link in list(self._links.items()):
            if link.used_at + self.limits.idle_s < now:
                link.close(0.0)
                del self._links[name]
            else:
                there = link.peer
                link.on_tick(now)
                if there is not None and link.peer is None:
                    told = {"event": "link-down", "peer": there.node, "address": link.address}
                    _log.warning("link to %s is down: it does not answer", there.node, extra={"fields": told})
                expectant = expectant or link.expectant
            self._watch(link)
        self._tick_at = now + (TICK_S if expectant else IDLE_TICK_S)

    # State ----------------------------------------------------------------------------------------------------------

    def lost(self, node: NodeId, heard_at: float, now: float) -> Literal["gone", "silent"] | None:
        """Whether the link to a member shows that it is lost; None also if there is no link to it."""
        link = self._links.get(node)
        return None if link is None else link.lost(heard_at, now)

    def answered_at(self, node: NodeId) -> float:
        """When a member last answered on the link to it."""
        link = self._links.get(node)
        return -NEVER if link is None else link.answered_at

    def untaken_s(self, node: NodeId, now: float) -> float:
        """For how long a member has taken nothing of what lies on the link to it; 0 if it has all, or has no link."""
        link = self._links.get(node)
        return 0.0 if link is None else link.untaken_s(now)

    def links(self) -> list[tuple[str, int, int]]:
        """To whom there is a link, what waits for room on it, and what is under way."""
        return [(name, link.queued_bytes, link.in_flight) for name, link in self._links.items()]

    @property
    def queued_bytes(self) -> int:
        """What waits for room, on all links; read from any thread."""
        return sum(link.queued_bytes for link in tuple(self._links.values()))

    @property
    def settled(self) -> bool:
        """Whether all that was sent to who is there has been taken."""
        return not any(link.peer is not None and link.expectant for link in self._links.values())

    def close(self, linger_s: float | None = None) -> None:
        """Give what lies on the sockets so long, and let go of everything."""
        linger_s = self.limits.linger_s if linger_s is None else linger_s
        for link in self._links.values():
            link.close(linger_s if link.peer is not None else 0.0)
        self._links.clear()
        self.poll.close()
        self._router.close(linger=0)
        self._context.term()
