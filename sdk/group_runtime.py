"""The loop that makes a group machine real: poll, drain, `handle`, perform the effects, re-arm.

Members talk to each other directly: each has one ROUTER on which it hears everyone, and a DEALER to each of the others.
Whatever a socket has no room for is dropped: the machines repair what is lost, and the senders among them bound what is
under way. A member's id is its address and its process (`127.0.0.1:7501-1731…`), and the envelope of each frame names
whom it is from and for (`sender NUL receiver`), so that a process which takes a dead one's place is not taken for it.
"""

import logging
import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

import msgspec
import zmq

from gossamer.broker.addresses import advertised, check_peer, speak_ipv6, split
from gossamer.broker.sockets import NOBLOCK, SNDMORE, is_readable, receive_parts
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Content
from gossamer.messages.frames import FRAME_BYTES_MAX
from gossamer.messages.ids import NAME_LENGTH_MAX, NodeId
from gossamer.protocol.groups import wire
from gossamer.protocol.groups.effects import Effect, Send
from gossamer.protocol.groups.inputs import Input, Multicast, Received, Start, Wake
from gossamer.protocol.groups.seat import Machine
from gossamer.protocol.groups.wire import Message

BURST = 512
HWM = 4_000
BATCH = 4_096
FORGET_S = 60.0
SENDERS_MAX = 1_024
SCHEME = "tcp://"

_log = logging.getLogger("gossamer.group")
_wake = Wake()
_to = attrgetter("to")


def address_of(node: NodeId) -> str:
    """Where a member is reached."""
    return SCHEME + node.rpartition("-")[0]


class GroupRuntime:
    """A machine in a thread of this process."""

    def __init__(self, listen: str, report: Callable[[list[Effect]], None]) -> None:
        """It listens at once. `report` is called in its thread with what the application is to see."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.RCVHWM, HWM)
        self._router.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MAX + 1)
        host, port = split(listen)
        speak_ipv6(self._router, host)
        try:
            self._router.bind(f"{SCHEME}{host}:{port or '*'}")
        except zmq.ZMQError as error:
            self._router.close(linger=0)
            self._context.term()
            raise UsageError(f"cannot listen on {listen}: {error.strerror}") from None
        self.address = advertised(self._router.getsockopt_string(zmq.LAST_ENDPOINT), None)
        self.me: NodeId = f"{self.address.removeprefix(SCHEME)}-{time.time_ns() // 10**6}"
        self._from = self.me.encode()
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._used_at: dict[str, float] = {}
        self._senders: dict[bytes, NodeId] = {}
        """By envelopes that were found to be good."""
        self._report = report
        self._machine: Machine | None = None
        self._submitted: deque[Input] = deque()
        self._wakeup, self._waker = socket.socketpair()
        self._wakeup.setblocking(False)
        self._waker.setblocking(False)
        self._woken = False
        self._stopping = False
        self._linger_s = 0.0
        self._poller = zmq.Poller()
        self._poller.register(self._router, zmq.POLLIN)
        self._poller.register(self._wakeup, zmq.POLLIN)
        self.peer_errors = 0
        self.dropped = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"gossamer {self.me}", daemon=True)

    # From any thread ------------------------------------------------------------------------------------------------

    def start(self, machine: Machine) -> None:
        self._machine = machine
        self._thread.start()

    def submit(self, given: Input) -> None:
        self._submitted.append(given)
        if not self._woken:
            self._woken = True
            with suppress(OSError):
                self._waker.send(b"\0")

    def stop(self, linger_s: float = 0.0) -> None:
        """End the thread, and let go of the sockets; what lies on them has so long to leave."""
        self._linger_s = linger_s
        self._stopping = True
        with suppress(OSError):
            self._waker.send(b"\0")
        if self._thread.ident is None:
            self._close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    # The loop -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._feed([Start()])
            while not self._stopping:
                self._turn()
        except BaseException as error:
            self.failure = error
            _log.exception("%s stopped working", self.me)
            self._report([])
        finally:
            self._close()

    def _turn(self) -> None:
        assert self._machine is not None
        wait_s = self._machine.next_deadline() - time.monotonic()
        if self._submitted:
            wait_s = 0.0
        self._poller.poll(math.ceil(1_000 * min(max(0.0, wait_s), 60.0)))
        given = self._take_submitted()
        given += self._drain()
        self._feed(given)
        if self._machine.next_deadline() <= time.monotonic():
            self._feed([_wake])

    def _take_submitted(self) -> list[Input]:
        """What was submitted, messages that stand together as one: they travel as one, too."""
        if self._woken:
            with suppress(BlockingIOError):
                self._wakeup.recv(64)
            self._woken = False  # before looking: what comes after wakes again
        taken: list[Input] = []
        contents: list[Content] = []
        for _ in range(min(BATCH, len(self._submitted))):
            each = self._submitted.popleft()
            if isinstance(each, Multicast) and not each.after:
                contents += each.contents
                continue
            if contents:
                taken.append(Multicast(tuple(contents)))
                contents = []
            taken.append(each)
        if contents:
            taken.append(Multicast(tuple(contents)))
        return taken

    def _drain(self) -> list[Input]:
        taken: list[Input] = []
        for _ in range(BURST):
            if not is_readable(self._router):
                break
            _, *parts = receive_parts(self._router)
            try:
                if not parts:
                    raise PeerError("a message without an envelope")
                if node := self._senders.get(parts[0]) or self._open(parts[0]):
                    taken += [Received(node, wire.decode(frame)) for frame in parts[1:]]
            except PeerError as error:
                self._complain(error)
        return taken

    def _open(self, envelope: bytes) -> NodeId:
        """Who it is from; empty if it is not for us."""
        sender, nul, to = envelope.partition(b"\0")
        if not nul or len(sender) > NAME_LENGTH_MAX:
            raise PeerError("an envelope without a sender")
        if to not in (self._from, b"") or sender == self._from:
            return ""  # for who was here before
        try:
            node = sender.decode()
            check_peer(address_of(node))
        except (UnicodeDecodeError, UsageError):
            raise PeerError("a sender without an address") from None
        if len(self._senders) >= SENDERS_MAX:
            self._senders.clear()
        self._senders[envelope] = node
        return node

    def _feed(self, given: list[Input]) -> None:
        assert self._machine is not None
        shown: list[Effect] = []
        for each in given:
            try:
                effects = self._machine.handle(each, time.monotonic())
            except PeerError as error:
                self._complain(error)
                continue
            sends = [effect for effect in effects if type(effect) is Send]
            if len(sends) < len(effects):
                shown += [effect for effect in effects if type(effect) is not Send]
            for to, together in groupby(sends, _to):
                self._send(to, [each.message for each in together])
        if shown:
            self._report(shown)

    def _send(self, to: tuple[NodeId, ...], messages: list[Message]) -> None:
        """What goes to the same members goes as one."""
        try:
            frames = [wire.encode(message) for message in messages]
        except (UsageError, msgspec.MsgspecError) as error:
            _log.warning("not sent: %s", error)
            return
        now = time.monotonic()
        for node in to:
            address = node if node.startswith(SCHEME) else address_of(node)
            dealer = self._dealers.get(address) or self._connect(address)
            self._used_at[address] = now
            envelope = b"%s\0%s" % (self._from, b"" if node is address else node.encode())
            try:
                dealer.send(envelope, SNDMORE)
                for frame in frames[:-1]:
                    dealer.send(frame, SNDMORE)
                dealer.send(frames[-1], NOBLOCK)
            except zmq.Again:
                self.dropped += 1

    def _connect(self, address: str) -> "zmq.Socket[bytes]":
        forgotten = time.monotonic() - FORGET_S
        for gone in [each for each, used_at in self._used_at.items() if used_at < forgotten]:
            self._dealers.pop(gone).close(linger=0)  # a member that left long ago
            del self._used_at[gone]
        dealer = self._context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.SNDHWM, HWM)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.RECONNECT_IVL, 50)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        speak_ipv6(dealer, split(address)[0])
        dealer.connect(address)
        self._dealers[address] = dealer
        return dealer

    def _complain(self, error: PeerError) -> None:
        self.peer_errors += 1
        if self.peer_errors & (self.peer_errors - 1) == 0:  # a flood of them is told now and then
            _log.warning("peer error %d: %s", self.peer_errors, error)

    def _close(self) -> None:
        for dealer in self._dealers.values():
            dealer.close(linger=round(1_000 * self._linger_s))
        self._router.close(linger=0)
        self._wakeup.close()
        self._waker.close()
        self._context.term()
