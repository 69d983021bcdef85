"""Where clients come in: a socket that listens, and a connection for each of them, none of which is ever waited for.

Whoever has just come is a *stranger*, until it has a session, and again when that is over. Anybody can open thousands
of connections and say nothing, or a byte now and then. So a stranger is not listened to for long; and when there is no
room for one more, the one that has been a stranger for longest makes room.

Who has said hello can still begin a large message on each of its connections, and never end it. What all of them have
half sent is bounded. When it is too much, whoever takes long over its message is cut off, the one that began first; if
nobody does, the one that asks for more: to cut off those that began first would keep everybody from coming to an end.
"""

import errno
import math
import select
import socket
import time
from collections.abc import Callable, Iterator

from gossamer.broker.addresses import split
from gossamer.broker.connection import Connection
from gossamer.broker.poll import READ, WRITE, Poll
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.zmtp import Message

BACKLOG = 1_024
ACCEPTS = 64
"""Taken in at a time."""
BURST_BYTES = 512 * 1024
"""Taken from all of them, before what it led to is sent: about so much, since nobody is stopped within a message."""
MESSAGES_MAX = 256
"""Taken of one of them, before the next has its turn: what is small takes its time, too."""
FULL_S = 0.5
"""How long nobody is taken in when the process has all the descriptors that it may have."""
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
STRANGER_S = 5.0
"""How long one may take to say hello."""
UNFINISHED_BYTES_MAX = 256 * 2**20
"""Of all the messages that are not whole yet."""
UNFINISHED_S = 5.0
"""Whoever takes longer over a message has to make room for others, if there is none."""
WAITING_MAX = 20_000
"""Whoever takes none of so many pieces is cut off."""
WAITING_BYTES_MAX = 64 * 2**20
"""And besides a window of so many bytes. What is large is bounded by the window before that, unless somebody says that
it has taken what it has not; but when there is room in the window, each of its subscriptions is sent something."""


class Door:
    """Used by one thread."""

    def __init__(
        self,
        bind: str,
        bytes_max: int,
        connections_max: int,
        complain: Callable[[str], None],
        *,
        unfinished_bytes_max: int = UNFINISHED_BYTES_MAX,
        window_bytes: int = 0,
    ) -> None:
        """It listens at once. Messages of more than `bytes_max` are not read, and more than `connections_max` are not
        let in; of all those that are not whole `unfinished_bytes_max` are kept; `complain` hears of those whose
        connection had to be ended. `window_bytes` may be under way to each."""
        host, port = split(bind)
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        both = host == "[::]" and socket.has_dualstack_ipv6()  # who listens everywhere is dialled by either
        try:
            self._listener = socket.create_server(
                ("" if host == "*" else host.strip("[]"), port), family=family, backlog=BACKLOG, dualstack_ipv6=both
            )
        except OSError as error:
            raise UsageError(f"cannot listen on {bind}: {error.strerror or error}") from None
        except UnicodeError:
            raise UsageError(f"cannot listen on {bind}: that is no name of a host") from None
        self._listener.setblocking(False)
        bound = self._listener.getsockname()
        self.address = f"tcp://{f'[{bound[0]}]' if family == socket.AF_INET6 else bound[0]}:{bound[1]}"
        self._bytes_max = bytes_max
        self._connections_max = connections_max
        self._unfinished_bytes_max = unfinished_bytes_max
        self._window_bytes = window_bytes
        self._complain = complain
        self._poll: Poll | None = None
        self._accept_at = 0.0
        """When to take clients in again; 0: at any time."""
        self.connections: dict[Connection, None] = {}
        self._strangers: dict[Connection, float] = {}
        """Since when they are, in this order."""
        self._unfinished: dict[Connection, tuple[float, int]] = {}
        """Those with a message that is not whole: since when, in this order, and how much of it is here."""
        self._unfinished_bytes = 0
        self.unread: dict[Connection, list[Message]] = {}
        """What has come and was not taken yet: until it is, no more is read of them."""
        self._passed_over: dict[object, int] = {}
        """Those that were ready in the last turn, and did not have theirs: they have it first, in this order."""

    def open(self, poll: Poll) -> None:
        """Let clients in from now on, in the loop that sleeps on this."""
        self._poll = poll
        poll.register(self._listener, READ, self)

    def receive(self, now: float) -> Iterator[tuple[Connection, Message | None]]:
        """What has come, of each a little; None: it is gone."""
        assert self._poll is not None
        ready, taken_bytes = self._poll.ready, 0
        if self.unread:
            yield from self._receive_unread()
        if self._passed_over:
            last = len(self._passed_over)
            ready.sort(key=lambda each: self._passed_over.get(each[0].data, last))
            self._passed_over = {}
        for place, (key, events) in enumerate(ready):
            connection = key.data
            if taken_bytes > BURST_BYTES:
                self._passed_over = {key.data: order for order, (key, _) in enumerate(ready[place:])}
                return
            if type(connection) is not Connection:
                if connection is self:
                    self._accept(now)
                continue
            if connection.gone:
                continue  # since this began
            if events & WRITE:
                connection.flush()
            if events & READ and connection not in self.unread:
                connection.heard_at = now
                try:
                    messages = connection.receive()
                except PeerError as error:
                    self._complain(str(error))
                    messages = []
                if len(messages) > MESSAGES_MAX:
                    self.unread[connection] = messages[MESSAGES_MAX:]
                    del messages[MESSAGES_MAX:]
                for message in messages:
                    taken_bytes += len(message[-1])
                    yield connection, message
                if connection.unfinished_bytes or self._unfinished:
                    for other in self._bound_unfinished(connection, bool(messages), now):
                        yield other, None
            if (connection.gone or connection.waiting or connection.watched) and not self.look_after(connection):
                yield connection, None

    def _bound_unfinished(self, connection: Connection, anew: bool, now: float) -> Iterator[Connection]:
        """Something of this one was read, with (`anew`) the end of a message. Who else has to be cut off for that."""
        if anew or connection.gone or not connection.unfinished_bytes:
            self._settle(connection)
        if connection.gone or not connection.unfinished_bytes:
            return
        since, before = self._unfinished.get(connection, (now, 0))
        self._unfinished[connection] = since, connection.unfinished_bytes
        self._unfinished_bytes += connection.unfinished_bytes - before
        while self._unfinished_bytes > self._unfinished_bytes_max:
            self._complain(f"messages that are not whole have {self._unfinished_bytes} bytes: one is cut off")
            first, (since, _) = next(iter(self._unfinished.items()))
            if since + UNFINISHED_S > now or first is connection:
                self.drop(connection)
                return
            self.drop(first)
            yield first

    def _settle(self, connection: Connection) -> None:
        self._unfinished_bytes -= self._unfinished.pop(connection, (0.0, 0))[1]

    def _receive_unread(self) -> Iterator[tuple[Connection, Message | None]]:
        for connection, messages in list(self.unread.items()):
            self.unread[connection] = messages[MESSAGES_MAX:]
            for message in messages[:MESSAGES_MAX]:
                yield connection, message
            if not self.look_after(connection):
                yield connection, None
            elif not self.unread[connection]:
                del self.unread[connection]

    def _accept(self, now: float) -> None:
        assert self._poll is not None
        made_room = False
        for _ in range(ACCEPTS):
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in FULL:
                    continue  # it was gone before it was let in
                if not made_room and self._make_room():
                    made_room = True
                    continue
                self._complain(f"nobody can be let in: {error.strerror}")
                self._poll.unregister(self._listener)
                self._accept_at = now + FULL_S
                return
            if len(self.connections) >= self._connections_max and not self._make_room():
                self._complain(f"{self._connections_max} are connected, and no more are let in")
                accepted.close()
                continue
            try:
                connection = Connection(accepted, "ROUTER", self._bytes_max, now)
            except OSError:  # gone already
                accepted.close()
                continue
            self.connections[connection] = None
            self._strangers[connection] = now
            self._poll.register(connection, READ, connection)
            if made_room:
                return  # for one: the kernel has no descriptor to spare before it looks whether somebody is there

    def _make_room(self) -> bool:
        """Whether there was a stranger to be dropped."""
        if not self._strangers:
            return False
        self._complain("too many are connected: one that has not said hello had to make room")
        self.drop(next(iter(self._strangers)))
        return True

    def know(self, connection: Connection) -> None:
        """It is no stranger any more."""
        self._strangers.pop(connection, None)

    def forget(self, connection: Connection, now: float) -> None:
        """It is one again."""
        if connection in self.connections:
            self._strangers[connection] = now

    def on_tick(self, now: float) -> None:
        """Drop those who are strangers for too long; take clients in again, if that was not possible for a while."""
        for connection in [each for each, since in self._strangers.items() if since + STRANGER_S < now]:
            self.drop(connection)
        if self._accept_at and now >= self._accept_at and self._poll is not None:
            self._accept_at = 0.0
            self._poll.register(self._listener, READ, self)

    def look_after(self, connection: Connection) -> bool:
        """Of one that not all was sent to at once: look for room while something waits for it. Whether it is there
        still."""
        too_much = WAITING_BYTES_MAX + self._window_bytes
        if connection.gone or len(connection.waiting) > WAITING_MAX or connection.waiting_bytes > too_much:
            self.drop(connection)
            return False
        if connection.stuck is not connection.watched and self._poll is not None:
            connection.watched = connection.stuck
            self._poll.modify(connection, READ | WRITE if connection.stuck else READ, connection)
        return True

    def drop(self, connection: Connection) -> None:
        """Nothing more is to be had from or said to this one."""
        if connection in self.connections:
            del self.connections[connection]
            self._strangers.pop(connection, None)
            self.unread.pop(connection, None)
            self._settle(connection)
            if self._poll is not None:
                self._poll.unregister(connection)
            connection.close()

    def close(self, linger_s: float) -> None:
        """Let everybody have what waits for them, within a time, and let go of everything."""
        until = time.monotonic() + linger_s
        while (left_s := until - time.monotonic()) > 0 and (stuck := [each for each in self.connections if each.stuck]):
            poll = select.poll()
            for connection in stuck:
                poll.register(connection, select.POLLOUT)
            poll.poll(math.ceil(1_000 * left_s))
            for connection in stuck:
                connection.flush()
        for connection in list(self.connections):
            self.drop(connection)
        self._listener.close()
