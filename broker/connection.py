"""A connection between a client and a broker: a socket that never blocks, and ZeroMQ's protocol on it.

What the kernel does not take at once waits here, in order. Whoever uses it calls `flush` when there is room again
(`stuck`), and bounds what waits by what it sends: a frame is not copied, so a thousand connections may wait with the
same one.
"""

import errno
import math
import select
import socket
import time
from collections import deque
from contextlib import suppress
from itertools import islice

from gossamer.broker.addresses import split
from gossamer.messages.errors import PeerError
from gossamer.messages.zmtp import COMMAND_BYTES_MAX, SHORT_MAX, Kind, Message, Zmtp, header

READ_BYTES = 64 * 1024
LONG_READ_BYTES = 1024 * 1024
JOIN_BYTES_MAX = 4 * 1024
"""A frame that is smaller is copied behind its header: that is less than what the kernel takes for two pieces."""
PIECES_MAX = 64
SHORT_HEADERS = [header(size) for size in range(SHORT_MAX + 1)]
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Who vanished without a word leaves no connection behind: the kernel finds out."""


class Connection:
    """One end of it."""

    __slots__ = (
        "_descriptor", "_socket", "_zmtp", "gone", "heard_at", "moved", "unfinished_bytes", "waiting", "waiting_bytes",
        "watched",
    )  # fmt: skip

    def __init__(self, connected: socket.socket, kind: Kind, bytes_max: int, now: float) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):  # not everywhere
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._socket = connected
        self._descriptor = connected.fileno()
        self._zmtp = Zmtp(kind, bytes_max)
        self.waiting: deque[bytes | memoryview] = deque()
        """What the kernel did not take yet, in pieces: a frame is one or two of them."""
        self.waiting_bytes = 0
        self.gone = False
        """It is over, nothing comes or goes any more, and whoever uses it is to close it."""
        self.heard_at = now
        self.moved = False
        """Something has come, or of what waited something has left, since whoever looks at this has looked."""
        self.unfinished_bytes = 0
        """Kept of a message that is not whole yet."""
        self.watched = False
        """Whether somebody looks for room."""
        with suppress(OSError):  # gone already: that is noticed when it is read
            connected.send(self._zmtp.opening)

    def fileno(self) -> int:
        return self._descriptor

    @property
    def stuck(self) -> bool:
        """Whether something waits that the kernel did not take."""
        return bool(self.waiting) and self._zmtp.ready

    def receive(self) -> list[Message]:
        """What has come: some of it, so that others have their turn, but most of a message if that is there.
        `PeerError` if it is not to be understood; then, and when the other has closed it, the connection is gone."""
        zmtp = self._zmtp
        while True:
            size = READ_BYTES if zmtp.missing < READ_BYTES else min(zmtp.missing, LONG_READ_BYTES)
            try:
                data = self._socket.recv(size)
            except BlockingIOError:
                return []
            except OSError:
                data = b""
            if not data:
                self._fail()
                return []
            self.moved = True
            was_ready = zmtp.ready
            try:
                messages = zmtp.receive(data)
            except PeerError:
                self._fail()
                raise
            self.unfinished_bytes = zmtp.unfinished_bytes
            if zmtp.answers:
                if not self.waiting:  # else it has signs of life to read, and who reads none is not sent any more
                    self.waiting.append(zmtp.answers)
                    self.waiting_bytes = len(zmtp.answers)
                    self.flush()
                zmtp.answers = b""
            elif not was_ready and zmtp.ready:
                self.flush()
            # Only a message is read on: of commands there is no end.
            if messages or len(data) < size or zmtp.missing <= COMMAND_BYTES_MAX:
                return messages

    def send(self, frame: bytes) -> bool:
        """Put a frame on its way, or have it wait behind those that do; whether the kernel has all that there was."""
        size, waiting = len(frame), self.waiting
        if waiting or size > JOIN_BYTES_MAX or not self._zmtp.ready:
            if not self.gone:
                head = header(size)
                waiting += (head, frame)
                self.waiting_bytes += len(head) + size
                if len(waiting) == 2:
                    self.flush()
            return not waiting and not self.gone
        data = (SHORT_HEADERS[size] if size <= SHORT_MAX else header(size)) + frame
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail()
            return False
        if sent < len(data):
            waiting.append(memoryview(data)[sent:])
            self.waiting_bytes = len(data) - sent
        return not waiting

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        waiting = self.waiting
        while waiting and self._zmtp.ready:
            pieces = list(islice(waiting, PIECES_MAX))
            try:
                sent = self._socket.sendmsg(pieces)
            except BlockingIOError:
                return
            except OSError:
                self._fail()
                return
            self.moved = True
            self.waiting_bytes -= sent
            while waiting and sent >= len(waiting[0]):
                sent -= len(waiting.popleft())
            if sent:
                waiting[0] = memoryview(waiting[0])[sent:]
                return

    def _fail(self) -> None:
        self.gone = True
        self.waiting.clear()
        self.waiting_bytes = 0

    def close(self) -> None:
        """Let go of it at once, and have the other know: somebody may hold another descriptor of it."""
        self._fail()
        with suppress(OSError):  # it may be over already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forget(self) -> None:
        """Let go of a copy of it, in a child process: nobody else notices."""
        self._fail()
        self._socket.close()

    def finish(self, patience_s: float) -> None:
        """Let the other have what waits and hear that no more comes, and close when it does the same, or time is up."""
        until = time.monotonic() + patience_s
        poll = select.poll()
        ended = False
        with suppress(OSError):  # it is over already
            while not self.gone and (left_s := until - time.monotonic()) > 0:
                self.flush()
                if not self.stuck and not ended:  # before the handshake nothing can be said
                    self._socket.shutdown(socket.SHUT_WR)
                    ended = True
                poll.register(self._descriptor, select.POLLIN if ended else select.POLLIN | select.POLLOUT)
                poll.poll(math.ceil(1_000 * left_s))
                with suppress(BlockingIOError):
                    if not self._socket.recv(READ_BYTES):
                        break
        self.close()


def dial(url: str, bytes_max: int, timeout_s: float) -> Connection:
    """Connect to a broker; `OSError` if nobody is there."""
    host, port = split(url)
    try:
        connected = socket.create_connection((host.strip("[]"), port), timeout_s)
    except UnicodeError:
        raise OSError(errno.EINVAL, f"{host} is no name of a host") from None
    return Connection(connected, "DEALER", bytes_max, time.monotonic())
