"""The way to the broker, which an application that blocks its event loop keeps open as well.

It owns the socket, and the subscriptions as they have to be said again to another broker; sdk/outgoing.py has what is
published, and when it leaves. The application hands over encoded events and commands through deques, whose ends are
atomic, and hears of what comes by callbacks, which must be quick.

Two may be at the socket, one at a time (`_at_socket`). While the application's event loop turns, it takes what comes
and sends what it has by itself (`attend`, `pump`): handing each to another thread and back would take longer than all
the rest. The thread here opens and ends sessions, keeps them alive, and does everything when the loop does not come:
what lies on the socket for a while (`GRACE_MS`) it takes.

When the broker is gone (its connection breaks, it falls silent, or it says farewell) the next of the urls is tried. A
new session tells the new broker what the old one knew, and sends again what was not acknowledged; the numbers in the
packets keep that from being taken twice. After `timeout_s` without any broker the transport gives up, and says so.
"""

import atexit
import errno
import logging
import os
import select
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from gossamer.broker.connection import Connection, dial
from gossamer.messages.errors import (
    ConnectionLost,
    GossamerError,
    NotAuthorized,
    PeerError,
    Superseded,
    UsageError,
)
from gossamer.messages.event import Event
from gossamer.messages.ids import StreamId
from gossamer.messages.session import (
    FRAME_BYTES_MAX,
    Acks,
    Allowance,
    Began,
    Counts,
    Credit,
    Farewell,
    FromBroker,
    FromClient,
    Gap,
    Goodbye,
    Hello,
    Interest,
    Items,
    Numbers,
    Ping,
    Pong,
    Reached,
    Refusal,
    Resend,
    Run,
    Single,
    Subscribe,
    Subscribed,
    Taken,
    Unsubscribe,
    Unsubscribed,
    Welcome,
    decode_from_broker,
    encode,
)
from gossamer.sdk.outgoing import Outgoing
from gossamer.sdk.spool import Spool
from gossamer.sdk.undecoded import Undecoded
from gossamer.sdk.waiting import Turns

PING_S = 2.0
TAKEN_S = 0.5
"""How often it is told how far durable subscriptions are."""
SILENCE_S = 8.0
HELLO_S = 2.0
RETRY_S, RETRY_MAX_S = 0.05, 1.0
GRACE_MS, GRACE_MAX_MS = 20, 400
"""So long the application's loop has the first go at what has come; the longer the more often it was there."""
CLOSE_S, FINISH_S = 1.0, 0.2
"""So long a client that ends may take to send what it has, and its broker to hear the end of it."""
DEFAULT_URL = "tcp://127.0.0.1:7400"
"""Address at which `gossamer up` listens for clients by default."""
REFUSED_S, UNANSWERED_S = 0.3, 0.8
"""So long a client is without a broker before it says so: if its connections are refused, and if nobody answers."""
SOON_S = 1.0
NEVER = float("inf")
SESSIONS = (Welcome, Refusal, Farewell)
"""What makes or breaks a session."""


_log = logging.getLogger("gossamer.client")


class Receiver(Protocol):
    """A subscription, as this thread sees it."""

    number: int

    def asked(self, purge_patience_s: float) -> Subscribe:
        """The request for a broker that does not know the subscription, given the broker's setting."""

    def changed(self) -> Subscribe:
        """What to say to one that does."""

    def total(self) -> int:
        """How many events of this session it takes in all."""

    def on_single(self, single: Single, event: Event) -> None: ...
    def on_run(self, run: Run, events: Sequence[Any]) -> None: ...
    def on_items(self, items: Items) -> None: ...
    def on_gap(self, gap: Gap) -> None: ...
    def on_counts(self, counts: Counts) -> None: ...
    def on_subscribed(self) -> None: ...
    def on_began(self, began: Began) -> None: ...
    def on_reached(self, reached: Reached) -> None: ...
    def taken(self) -> Taken | None:
        """What of a durable subscription the application has done with since this was last asked."""

    def on_refused(self, error: GossamerError) -> bool:
        """Whether it is over by that."""

    def on_ended(self) -> None: ...
    def on_failed(self, error: GossamerError) -> None: ...


class Transport:
    """One client's way to the mesh."""

    def __init__(
        self,
        urls: tuple[str, ...],
        *,
        group: str,
        timeout_s: float,
        publisher: str | None = None,
        spool: Spool | None = None,
        on_welcome: Callable[[StreamId, int], None],
        on_acks: Callable[[], None],
        on_failed: Callable[[GossamerError], None],
        on_opened: Callable[[int | None], None],
        turns: Turns,
        tells_waiting: bool = True,
    ) -> None:
        """`on_welcome` hears, once, which stream is ours and which number comes next; `on_opened` of a descriptor, its
        own to close: when it is readable the application's loop should `attend`. None: there is none any more. `turns`
        is that loop's, for all its clients; `tells_waiting`: whether to warn that no broker is there."""
        self._urls = urls
        self._group = group
        self._publisher = publisher
        self._spool = spool
        self._holder = "" if publisher is None else os.urandom(12).hex() if spool is None else spool.holder
        self._timeout_s = timeout_s
        self._tells_waiting = tells_waiting
        self._on_welcome, self._on_acks, self._on_failed = on_welcome, on_acks, on_failed
        self._on_opened = on_opened
        self._turns = turns
        self._client = os.urandom(12).hex()
        self._epoch = 0
        self.node: str | None = None
        """The broker we are with."""
        self.order = "fifo"
        """Of the group, as the broker told."""
        self.purging = True
        """Whether queues of the group leave out obsolete events, as the broker told."""
        self.interests: tuple[Interest, ...] = ()
        """The groups by interest, as the broker told."""
        self.failure: GossamerError | None = None
        self._refused = ""
        """Why the last broker that was tried did not take us, in brackets."""
        self._told_waiting = False
        self._misled = False
        """Whether the address that was tried last has no such host: no broker could be started there."""
        self._occupied = False
        """Whether something listened at the address that was tried last, and did not answer as a broker."""
        self._turned_away = 0
        """How often we were told to come again later, since there was a session."""

        self.outgoing = Outgoing(spool)
        self._hurried = False
        """Whether the broker is to be told that it may not take its time any more."""

        self._receivers: weakref.WeakValueDictionary[int, Receiver] = weakref.WeakValueDictionary()
        """Held by their client, which this thread must not keep alive."""
        self._ending: dict[int, Receiver] = {}
        self._commands: deque[Callable[[], None]] = deque()
        self._crediting: dict[int, None] = {}
        self._received_bytes = 0
        self._credit_at = 0
        """How many bytes it has when it tells the broker that it has them."""
        self._window_bytes = 2**20
        self._purge_patience_s = 0.0

        self._connection: Connection | None = None
        self._at_socket = threading.Lock()
        self._grace_ms = GRACE_MS
        self._attended = False
        """Whether the application has been here since we looked."""
        self._attentive = False
        """Whether its loop ever was: there are loops that cannot watch a descriptor."""
        self._wakeup, self._waker = socket.socketpair()
        self._wakeup.setblocking(False)
        self._waker.setblocking(False)
        self._doze = select.poll()
        self._doze.register(self._wakeup, select.POLLIN)
        self.woken = False
        self._url = -1
        self._lost_at = self._open_at = 0.0
        self._welcomed = False
        self._heard_at = self._pinged_at = self._hello_at = self._told_at = 0.0
        self._pings = 0
        self._ping_s = PING_S
        self._closing = False
        self._stop_at = NEVER
        self.reconnects = -1
        self._thread = threading.Thread(target=self._run, name="gossamer client", daemon=True)

    @property
    def url(self) -> str:
        """Where the broker is that we are with, or try."""
        return self._urls[self._url]

    @property
    def refused(self) -> bool:
        """Whether a broker that was tried is known not to take us."""
        return bool(self._refused)

    # From the application's thread ----------------------------------------------------------------------------------

    def tell_waiting(self) -> None:
        """Say once that this client waits, for whom, and what to do; unless the end of its patience says so soon."""
        if self._tells_waiting and not self._told_waiting and self._timeout_s > SOON_S:
            self._told_waiting = True
            limit = "" if self._timeout_s == NEVER else f" up to {self._timeout_s:g} s"
            _log.warning("waiting%s for a broker at %s", limit, self._whom())

    def _whom(self) -> str:
        whom = f"{', '.join(self._urls)}{self._refused}"
        if self._misled or self._turned_away:
            return whom
        if self._occupied:
            return f"{whom}: `gossamer status` lists where brokers listen for clients"
        listen = "" if DEFAULT_URL in self._urls else f" --listen {self._urls[0]}"
        return f"{whom}: `gossamer up{listen}` starts one"

    def start(self) -> None:
        _running.add(self)
        self._thread.start()

    def wake(self) -> None:
        if not self.woken:
            self.woken = True
            self._stir()

    def _stir(self) -> None:
        with suppress(OSError):  # full: it will wake; closed: there is nobody to wake
            self._waker.send(b"\0")

    def attend(self) -> None:
        """The application's loop was told that something has come: take it, unless somebody is at it."""
        self._attended = self._attentive = self._welcomed  # of a session that has not begun the loop takes nothing
        self._turns.at = time.monotonic()
        if not self._at_socket.acquire(blocking=False):
            self.wake()
            return
        self._turns.attending = True
        try:
            if (connection := self._connection) is not None and self._welcomed:
                self._receive(connection, self._take_here)
                if self.outgoing.outbox or self.outgoing.unsent or self._received_bytes >= self._credit_at:
                    self._go_on(connection)
                if connection.gone:
                    self._on_opened(None)  # it would be told of that for ever
                if connection.waiting or connection.gone:
                    self.wake()  # that is looked after there
        except GossamerError as error:
            self._command(partial(self._end, error))
        finally:
            self._at_socket.release()
            self._turns.resume()

    def pump(self) -> None:
        """Send what there is, here and now; or have it done, if somebody is at it."""
        self._attended = self._attentive
        if self._spool is not None or not self._at_socket.acquire(blocking=False):  # disks block
            self.wake()
            return
        try:
            if (connection := self._connection) is not None and self._welcomed:
                self._go_on(connection)
                if self.outgoing.outbox:  # it has to wait for what is under way: perhaps no longer
                    self._receive(connection, self._take_here)
                    self._publish(connection)
                if connection.waiting or connection.gone:
                    self.wake()  # that is looked after there
        except GossamerError as error:
            self._command(partial(self._end, error))
        finally:
            self._at_socket.release()

    def hurry(self) -> None:
        """Somebody waits for what the broker may take its time over."""
        if self.outgoing.owed:
            self._hurried = True
            self.pump()

    def subscribe(self, receiver: Receiver) -> None:
        self._command(lambda: self._subscribe(receiver))

    def unsubscribe(self, receiver: Receiver, forget: bool = False) -> None:
        self._command(lambda: self._unsubscribe(receiver, forget))

    def credit(self, number: int) -> None:
        """A subscription takes more than it did."""
        self._crediting[number] = None
        self.pump()

    def close(self) -> None:
        """Say goodbye, and end, within a moment or two."""
        self.abandon()
        if self._thread.ident is not None:
            self._thread.join()

    def abandon(self) -> None:
        """The same without waiting for it: a collector of garbage may call this from anywhere."""
        if not self._closing:
            self._stop_at = time.monotonic() + CLOSE_S
            self._closing = True
            if self._thread.ident is None:
                self._let_go()
            self.wake()

    def on_forked(self) -> None:
        """In a child process: the session, and the numbers of the stream, are the parent's. What is left here is closed
        without a word; and only here: what the loop watches is in the parent's hands, too."""
        self.failure = ConnectionLost("this client is of the process that was forked: connect anew in the child")
        self.outgoing.fail()
        self._closing = True
        self._welcomed = False
        self._at_socket = threading.Lock()  # who had it is not here
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forget()
        self._wakeup.close()
        self._waker.close()
        if self._spool is not None:
            self._spool.close()

    def _command(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        self.wake()

    # The thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._lost_at = time.monotonic()
        try:
            self._open()
            while not self._over:
                self._turn()
            with self._at_socket:
                while self._commands:
                    self._commands.popleft()()
                if self._welcomed:
                    self._send(Goodbye())
        except GossamerError as error:
            self._fail(error)
        except BaseException as error:
            self._fail(ConnectionLost(f"the client's thread failed: {error!r}"))
            raise
        finally:
            self._let_go()

    @property
    def _over(self) -> bool:
        """Whether to end: the broker has everything, or takes too long."""
        if not self._closing:
            return False
        return self.outgoing.settled or time.monotonic() >= self._stop_at

    def _turn(self) -> None:
        came = self._wait()
        if self._attended and not self.woken and came:
            self._attended, looked_at = False, time.monotonic()
            self._doze.poll(self._grace_ms)
            self._drain_wakeup()
            if self._turns.at > looked_at:  # it is busy with other clients, and comes to this one, too
                self._attended = True
            # Who comes every time needs no looking after.
            self._grace_ms = min(2 * self._grace_ms, GRACE_MAX_MS) if self._attended else GRACE_MS
        woken, self.woken = self.woken, False  # before looking: what comes after wakes again
        with self._at_socket:
            while self._commands:
                self._commands.popleft()()
            self._on_time(time.monotonic())
            if (connection := self._connection) is not None:
                if woken or not self._attended:
                    self._receive(connection, self._take)
                if self._welcomed:
                    self._go_on(connection)
                if connection.gone and connection is self._connection:
                    if not self._welcomed:
                        self._refused, self._occupied = " (it hangs up: no broker, or one that is full)", True
                    self._reopen()

    def _wait(self) -> bool:
        """Sleep until there is something to do; whether something has come."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if (connection := self._connection) is not None:
            poll.register(connection, select.POLLIN | select.POLLOUT if connection.stuck else select.POLLIN)
        ready = dict(poll.poll(self._patience_ms()))
        self._drain_wakeup()
        return connection is not None and bool(ready.get(connection.fileno(), 0) & ~select.POLLOUT)

    def _drain_wakeup(self) -> None:
        with suppress(BlockingIOError):
            self._wakeup.recv(64)

    def _go_on(self, connection: Connection) -> None:
        """Send what there is to be sent in a session."""
        if connection.waiting:
            connection.flush()
        if self.outgoing.outbox or self.outgoing.unsent:
            self._publish(connection)
        if self._hurried:
            self._hurried = self.outgoing.owed = False
            self._ping()
        if self._crediting or self._received_bytes >= self._credit_at:
            self._give_credit()

    def _patience_ms(self) -> int:
        now = time.monotonic()
        until = min(self._pinged_at + self._ping_s, self._heard_at + SILENCE_S)
        if self._receivers:
            until = min(until, self._told_at + TAKEN_S)
        if not self._welcomed:
            until = self._open_at if self._connection is None else self._hello_at + HELLO_S
            until = min(until, self._lost_at + self._timeout_s)
        until = min(until, self._stop_at)
        return max(0, min(5_000, round(1_000 * (until - now)) + 1))

    def _on_time(self, now: float) -> None:
        if (connection := self._connection) is not None and connection.moved:
            connection.moved = False  # a large message may take its time, either way
            self._heard_at = now
        if not self._welcomed:
            if now > self._lost_at + self._timeout_s:
                took = " took this client" if self._turned_away else ""
                raise ConnectionLost(f"no broker{took} within {self._timeout_s:g} s at {self._whom()}")
            if self.reconnects >= 0 and now > self._lost_at + UNANSWERED_S:  # the first time `Client._start` sees to it
                self.tell_waiting()
            if self._connection is None:
                if now >= self._open_at:
                    self._open()
            elif now > self._hello_at + HELLO_S:
                self._refused, self._occupied = " (something listens there and does not answer as a broker)", True
                self._reopen()
        elif now > self._heard_at + SILENCE_S:
            self._reopen()
        elif self._receivers and now > self._told_at + TAKEN_S:
            self._told_at = now
            for receiver in self._receivers.values():
                self._tell_taken(receiver)
        elif now > self._pinged_at + self._ping_s:
            self._pinged_at = now
            self._ping()

    def _ping(self) -> None:
        self._pings += 1
        self._send(Ping(self._pings))

    # Sessions -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Say hello to the next of the urls."""
        self._url = (self._url + 1) % len(self._urls)
        self._epoch += 1
        now = time.monotonic()
        patience_s = max(RETRY_S, min(HELLO_S, self._lost_at + self._timeout_s - now, self._stop_at - now))
        try:
            self._connection = dial(self._urls[self._url], 2 * FRAME_BYTES_MAX, patience_s)
        except OSError as error:
            self._refused, self._occupied = f" ({error.strerror or error})", False
            self._misled = isinstance(error, socket.gaierror) or error.errno == errno.EINVAL
            self._open_at = time.monotonic() + RETRY_S
            return
        self._hello_at = time.monotonic()  # of a name's addresses the first may have taken all the time
        self._attended = self._attentive = False  # nobody but this thread is at the new socket
        self._send(
            Hello(
                self._client, self._epoch, self._group, self._publisher,
                self.outgoing.stream, self.outgoing.following, self._holder,
            )
        )  # fmt: skip

    def _reopen(self) -> None:
        """This broker does not answer: leave it, and try the next before long."""
        now = time.monotonic()
        self._open_at = now if self._welcomed else now + retry_s(self._turned_away, len(self._urls))
        if self._welcomed:
            self._lost_at = now
            self._welcomed = self._told_waiting = False
            self._refused = ""
        ending, self._ending = self._ending, {}
        for receiver in ending.values():  # nobody answers that any more
            receiver.on_ended()
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._on_opened(None)
            if self._closing:
                connection.finish(FINISH_S)
            else:
                connection.close()

    def _on_welcomed(self, welcome: Welcome, now: float) -> None:
        if welcome.epoch != self._epoch:
            return
        self._welcomed = True
        self._refused = ""
        self._turned_away = 0
        self.reconnects += 1
        self._heard_at = self._pinged_at = now
        self.node = welcome.node
        self.order = welcome.order
        self.purging = welcome.purging
        self.interests = welcome.interests
        self._window_bytes = welcome.window_bytes
        self._purge_patience_s = welcome.purge_patience_s
        self._ping_s = min(PING_S, welcome.silence_s / 4)
        self._received_bytes = 0
        self._credit_at = self._window_bytes // 4
        self.outgoing.on_welcome(welcome)
        for receiver in self._receivers.values():
            self._send(receiver.asked(welcome.purge_patience_s))
        if self._spool is None and self._connection is not None:
            with suppress(OSError):  # no descriptor is left: then this thread does it all
                self._on_opened(os.dup(self._connection.fileno()))
        if self.reconnects == 0:
            self._on_welcome(welcome.stream, self.outgoing.next)

    def _on_refusal(self, refusal: Refusal) -> None:
        error = _error(refusal)
        if refusal.sub is not None:
            receiver = self._receivers.get(refusal.sub)
            if receiver is not None and receiver.on_refused(error):
                del self._receivers[refusal.sub]
        elif refusal.code == "closed":  # for now: it may be joining, or leaving
            self._refused = f" ({refusal.reason})"
            self._turned_away += 1
            self._reopen()
        else:
            raise error

    def _end(self, error: GossamerError) -> None:
        raise error

    def _fail(self, error: GossamerError) -> None:
        self.failure = error
        self.outgoing.fail()
        self._on_failed(error)
        for receiver in self._receivers.values():
            receiver.on_failed(error)

    def _let_go(self) -> None:
        with self._at_socket:
            self._welcomed = False
            self._drop()
        self._wakeup.close()
        self._waker.close()
        if self._spool is not None:
            self._spool.close()

    # Publishing -----------------------------------------------------------------------------------------------------

    def _publish(self, connection: Connection) -> None:
        for publish in self.outgoing.due(time.time_ns()):
            connection.send(encode(publish))

    # Receiving ------------------------------------------------------------------------------------------------------

    def _receive(self, connection: Connection, take: Callable[[FromBroker, int], None]) -> None:
        """Take what has come, some of it."""
        try:
            messages = connection.receive()
        except PeerError:
            return  # it is no broker, and gone
        for parts in messages:
            for frame in parts:
                try:
                    message = decode_from_broker(frame)
                    if type(message) is Single:  # as most often of those that are waited for
                        self._take_single(message, len(frame))
                    else:
                        take(message, len(frame))
                except PeerError:
                    continue  # its broker is at fault, and that says nothing of the next

    def _take_single(self, single: Single, size: int) -> None:
        self._received_bytes += size
        event = single.identified()
        for sub in single.subs:
            if (receiver := self._receivers.get(sub)) is not None:
                receiver.on_single(single, event)

    def _take_here(self, message: FromBroker, size: int) -> None:
        """In the application's thread: what makes or breaks a session is for ours."""
        if type(message) in SESSIONS and getattr(message, "sub", None) is None:
            self._command(lambda: self._take(message, size))
        else:
            self._take(message, size)

    def _take(self, message: FromBroker, size: int) -> None:
        match message:
            case Run(subs=subs) as run:
                self._received_bytes += size
                events = Undecoded(run)
                for sub in subs:
                    if (receiver := self._receivers.get(sub)) is not None:
                        receiver.on_run(run, events)
            case Single() as single:
                self._take_single(single, size)
            case Items(sub=sub) as items:
                self._received_bytes += size
                if (receiver := self._receivers.get(sub)) is not None:
                    receiver.on_items(items)
            case Acks() as acks:
                self.outgoing.on_acks(acks)
                self._on_acks()
            case Gap(sub=sub) as gap:
                self._received_bytes += size
                if (receiver := self._receivers.get(sub)) is not None:
                    receiver.on_gap(gap)
            case Counts(sub=sub) as counts:
                self._received_bytes += size
                if (receiver := self._receivers.get(sub)) is not None:
                    receiver.on_counts(counts)
            case Began(sub=sub) as began:
                self._received_bytes += size
                if (receiver := self._receivers.get(sub)) is not None:
                    receiver.on_began(began)
            case Reached(subs=subs) as reached:
                self._received_bytes += size
                for sub in subs:
                    if (receiver := self._receivers.get(sub)) is not None:
                        receiver.on_reached(reached)
            case Unsubscribed(sub=sub):
                if (receiver := self._ending.pop(sub, None)) is not None:
                    receiver.on_ended()
            case Subscribed(sub=sub):
                if (receiver := self._receivers.get(sub)) is not None:
                    receiver.on_subscribed()
            case Resend(first=first):
                self.outgoing.on_resend(first)
            case Allowance(last=last, by=by):
                self.outgoing.on_allowance(last, by)
            case Numbers(last=last):
                self.outgoing.on_numbers(last)
                self._on_acks()
            case Welcome() as welcome:
                self._on_welcomed(welcome, time.monotonic())
            case Refusal() as refusal:
                self._on_refusal(refusal)
            case Farewell(stays=stays):
                if not stays or len(self._urls) > 1:
                    self._reopen()
            case Pong():
                pass

    def _give_credit(self) -> None:
        numbers: Iterable[int] = [self._crediting.popitem()[0] for _ in range(len(self._crediting))]
        receivers = [receiver for number in numbers if (receiver := self._receivers.get(number)) is not None]
        grants = tuple((receiver.number, receiver.total()) for receiver in receivers)
        self._credit_at = self._received_bytes + self._window_bytes // 4
        self._send(Credit(self._received_bytes, grants))

    def _subscribe(self, receiver: Receiver) -> None:
        known = receiver.number in self._receivers
        self._receivers[receiver.number] = receiver
        if self._welcomed:
            self._send(receiver.changed() if known else receiver.asked(self._purge_patience_s))

    def _unsubscribe(self, receiver: Receiver, forget: bool) -> None:
        if self._receivers.pop(receiver.number, None) is not None and self._welcomed:
            self._tell_taken(receiver)
            self._send(Unsubscribe(receiver.number, forget))
            self._ending[receiver.number] = receiver
        else:
            receiver.on_ended()

    def _tell_taken(self, receiver: Receiver) -> None:
        taken = receiver.taken()
        if taken is not None:
            self._send(taken)

    def _send(self, message: FromClient) -> None:
        if self._connection is not None:  # without one there is no session
            self._connection.send(encode(message))


def retry_s(turned_away: int, urls: int) -> float:
    """How long to wait for the next: each is asked once without delay, and then half as often every time."""
    return float(min(RETRY_MAX_S, RETRY_S * 2 ** min(16, max(0, turned_away - 1) // urls)))


_running: "weakref.WeakSet[Transport]" = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """A process that ends without closing its clients sends what it has, within a moment, and says goodbye."""
    running = list(_running)
    for transport in running:
        transport.abandon()
    for transport in running:
        transport.close()


def _on_forked() -> None:
    for transport in list(_running):
        transport.on_forked()
    _running.clear()


os.register_at_fork(after_in_child=_on_forked)


def _error(refusal: Refusal) -> GossamerError:
    from gossamer.matching import SelectorError

    match refusal.code:
        case "selector":
            return SelectorError(refusal.reason, "", refusal.position)
        case "superseded":
            return Superseded(refusal.reason)
        case "authorization":
            return NotAuthorized(refusal.reason)
        case "closed" | "stream":
            return ConnectionLost(refusal.reason)
    return UsageError(refusal.reason)
