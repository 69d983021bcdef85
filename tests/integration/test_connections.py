"""Connections of clients over real sockets, with ZeroMQ's own library at the other end, or one that reads nothing."""

import errno
import fcntl
import os
import socket
import sys
import termios
import threading
import time
from contextlib import contextmanager, suppress

import pytest
import zmq

from gossamer.broker import door as doors
from gossamer.broker.addresses import split
from gossamer.broker.connection import Connection, dial
from gossamer.broker.door import Door
from gossamer.broker.poll import READ, Poll
from gossamer.broker.sessions import Sessions
from gossamer.messages.errors import UsageError
from gossamer.messages.zmtp import Zmtp, header
from processes import until

BYTES_MAX = 2**24
SIZES = (0, 1, 255, 256, 5_000, 3_000_000)


class Open:
    """A door in a loop that a test turns, and what came in."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.door = Door("tcp://127.0.0.1:0", BYTES_MAX, 8, self.complaints.append)
        self.poll = Poll()
        self.door.open(self.poll)
        self.came: list[bytes] = []
        self.gone = 0

    def turn(self) -> None:
        self.poll.wait(0.005)
        for connection, message in self.door.receive(time.monotonic()):
            if message is None:
                self.gone += 1
            else:
                self.came += message
                if not connection.send(message[0]):
                    self.door.look_after(connection)

    def until(self, condition, what="") -> None:
        until(lambda: (self.turn(), condition())[1], what)


@pytest.fixture
def open_door():
    opened = Open()
    yield opened
    opened.door.close(0.0)
    opened.poll.close()


@contextmanager
def library(kind, **options):
    with zmq.Context() as context, context.socket(kind) as made:
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.RCVTIMEO, 10_000)
        for name, value in options.items():
            made.setsockopt(getattr(zmq, name), value)
        yield made


def test_a_dealer_of_the_library_is_served(open_door):
    with library(zmq.DEALER) as dealer:
        dealer.connect(open_door.door.address)
        for size in SIZES:
            dealer.send(b"x" * size)
        echoed = []

        def all_back():
            while dealer.poll(0):
                echoed.append(len(dealer.recv()))
            return len(echoed) == len(SIZES)

        open_door.until(all_back)
        assert echoed == list(SIZES)
    open_door.until(lambda: open_door.gone == 1, "its end to be noticed at once")
    assert open_door.door.connections == {}


def test_a_router_of_the_library_serves_ours():
    with library(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        ours = dial(f"tcp://127.0.0.1:{port}", BYTES_MAX, 5.0)
        came = []
        for size in SIZES:
            ours.send(b"x" * size)  # before the other has said what it is, too: then it waits

        def exchanged():
            ours.flush()
            while router.poll(0):
                router.send_multipart(router.recv_multipart())
            came.extend(len(part) for message in ours.receive() for part in message)
            return len(came) == len(SIZES)

        until(exchanged)
        assert came == list(SIZES)
        ours.close()


def test_heartbeats_of_the_library_are_answered(open_door):
    with library(zmq.DEALER, HEARTBEAT_IVL=20, HEARTBEAT_TIMEOUT=200) as dealer:
        monitor = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        dealer.connect(open_door.door.address)
        dealer.send(b"x")
        open_door.until(lambda: open_door.came == [b"x"])
        began = time.monotonic()
        open_door.until(lambda: time.monotonic() > began + 0.6)  # three times what it would wait for an answer
        assert not monitor.poll(0)
        dealer.disable_monitor()
        monitor.close(linger=0)


PING = b"\x04\x07\x04PING\0\0"


def met() -> tuple[Connection, socket.socket]:
    """A connection, and a bare socket at its other end, that has said what it is and may say anything."""
    listener = socket.create_server(("127.0.0.1", 0))
    stranger = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    listener.close()
    connection = Connection(accepted, "ROUTER", BYTES_MAX, 0.0)
    stranger.sendall(Zmtp("DEALER", BYTES_MAX).opening)
    until(lambda: not connection.receive() and connection._zmtp.ready)
    stranger.setblocking(False)
    return connection, stranger


def test_whoever_pings_and_never_reads_has_nothing_pile_up():
    connection, stranger = met()
    connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    answered = []
    for _ in range(300):
        with suppress(BlockingIOError):
            stranger.send(PING * 7_000)
        connection.receive()
        answered.append(len(connection.waiting))
    assert max(answered) <= 1
    connection.close()
    stranger.close()


class Endless:
    """A socket on which more of the same has always come."""

    def __init__(self, connected: socket.socket, said: bytes) -> None:
        self._connected = connected
        self._said = said
        self.reads = 0

    def recv(self, size):
        self.reads += 1
        assert self.reads < 1_000, "nobody else ever has a turn"
        return (self._said * (size // len(self._said) + 1))[:size]

    def __getattr__(self, name):
        return getattr(self._connected, name)


@pytest.mark.parametrize("said", [PING, b"\x06" + (8_000).to_bytes(8, "big") + b"\x04NEWS" + bytes(7_995)])
def test_whoever_says_commands_without_end_leaves_others_their_turn(said):
    connection, stranger = met()
    connection._socket = endless = Endless(connection._socket, said)
    assert connection.receive() == []
    assert endless.reads < 10
    connection.close()
    stranger.close()


def test_any_other_socket_of_the_library_is_turned_away(open_door):
    with library(zmq.PUSH) as push:
        push.connect(open_door.door.address)
        open_door.until(lambda: open_door.gone, "one of them to end it: the library does not like a ROUTER, either")
        push.setsockopt(zmq.RECONNECT_IVL, -1)
    assert open_door.came == []


def pending(connection: Connection) -> int:
    """How many bytes lie there to be read."""
    return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)


def pair() -> tuple[Connection, Connection]:
    listener = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    listener.close()
    ends = Connection(one, "DEALER", BYTES_MAX, 0.0), Connection(other, "ROUTER", BYTES_MAX, 0.0)
    until(lambda: not any(end.receive() for end in ends) and all(end._zmtp.ready for end in ends))
    return ends


def test_what_the_kernel_does_not_take_waits_and_comes_in_order():
    one, other = pair()
    frames = [bytes([number]) * (100 if number % 3 else 200_000) for number in range(100)]
    sent = [one.send(frame) for frame in frames]
    assert not all(sent)
    assert one.stuck
    came = []

    def all_came():
        one.flush()
        came.extend(part for message in other.receive() for part in message)
        return len(came) >= len(frames)

    until(all_came)
    assert came == frames
    assert not one.waiting
    assert one.waiting_bytes == 0
    one.close()
    other.close()


def test_who_ends_is_heard_to_the_end():
    one, other = pair()
    frames = [bytes([number]) * 300_000 for number in range(20)]
    for frame in frames:
        one.send(frame)
    assert one.stuck
    finishing = threading.Thread(target=one.finish, args=(10.0,))
    finishing.start()
    came = []

    def ended():
        came.extend(part for message in other.receive() for part in message)
        return other.gone

    until(ended)
    assert came == frames
    other.close()
    finishing.join()


def test_one_that_is_closed_is_over_whoever_else_has_a_descriptor_of_it():
    one, other = pair()
    watched = os.dup(one.fileno())
    one.close()
    until(lambda: (other.receive(), other.gone)[1])
    os.close(watched)
    other.close()


@pytest.mark.parametrize(("limit", "most"), [("WAITING_MAX", 50), ("WAITING_BYTES_MAX", 1_000_000)])
def test_who_takes_nothing_is_cut_off_in_the_end(open_door, monkeypatch, limit, most):
    monkeypatch.setattr(doors, limit, most)
    open_door.door._window_bytes = 1_000_000
    deaf = dial(open_door.door.address, BYTES_MAX, 5.0)
    deaf.send(b"x")
    open_door.until(lambda: (deaf.receive(), open_door.came)[1])
    (connection,) = open_door.door.connections
    there, waiting, waiting_bytes = True, 0, 0
    for _ in range(1_000):
        connection.send(b"y" * 100_000)
        waiting, waiting_bytes = len(connection.waiting), connection.waiting_bytes
        assert waiting_bytes == sum(map(len, connection.waiting))
        there = open_door.door.look_after(connection)
        if not there:
            break
    assert not there
    assert waiting in (51, 52) or waiting_bytes > 2_000_000 > waiting_bytes - 100_009, "not before"
    assert open_door.door.connections == {}
    deaf.close()


@pytest.fixture
def publishers(open_door):
    """Some that are met, where no more than 200,000 bytes may be half sent."""
    open_door.door._unfinished_bytes_max = 200_000
    dialled = [dial(open_door.door.address, BYTES_MAX, 5.0) for _ in range(4)]
    for each in dialled:
        each.send(b"met")
    open_door.until(lambda: ([each.receive() for each in dialled], len(open_door.came) == len(dialled))[1])
    open_door.came.clear()
    yield dialled
    for each in dialled:
        each.close()


SIZE, HALF = 120_000, 60_000


def half_send(open_door, publisher) -> None:
    before = open_door.door._unfinished_bytes
    publisher._socket.sendall(header(SIZE) + bytes(HALF))
    open_door.until(lambda: open_door.gone or open_door.door._unfinished_bytes == before + HALF)


def test_when_too_much_is_half_sent_the_one_that_adds_to_it_is_cut_off_and_the_others_come_to_their_end(
    open_door, publishers
):
    *first, last = publishers
    for each in first:
        half_send(open_door, each)
    last._socket.sendall(header(SIZE) + bytes(HALF))
    open_door.until(lambda: (last.receive(), last.gone)[1])
    assert len(open_door.complaints) == open_door.gone == 1
    for each in first:
        each._socket.sendall(bytes(SIZE - HALF))
        open_door.until(lambda: open_door.came.pop() == bytes(SIZE) if open_door.came else False)
    assert (open_door.door._unfinished, open_door.door._unfinished_bytes, open_door.gone) == ({}, 0, 1)


def test_when_too_much_is_half_sent_those_that_take_long_over_it_make_room(open_door, publishers, monkeypatch):
    *slow, quick = publishers
    for each in slow:
        half_send(open_door, each)
    slow[0]._socket.sendall(bytes(SIZE - HALF) + header(SIZE) + bytes(HALF))  # and begins another, as the last of them
    open_door.until(lambda: open_door.came and open_door.door._unfinished_bytes == 3 * HALF)
    monkeypatch.setattr(doors, "UNFINISHED_S", 0.0)
    quick._socket.sendall(header(SIZE) + bytes(HALF))
    open_door.until(lambda: open_door.gone)
    quick._socket.sendall(bytes(SIZE - HALF))
    open_door.until(lambda: len(open_door.came) == 2)
    until(lambda: (slow[1].receive(), slow[1].gone)[1])
    assert [(each.receive(), each.gone)[1] for each in (slow[0], slow[2], quick)] == [False] * 3
    assert (len(open_door.complaints), open_door.gone) == (1, 1)


def test_who_is_gone_has_nothing_half_sent_any_more(open_door, publishers):
    half_send(open_door, publishers[0])
    publishers[0].close()
    open_door.until(lambda: open_door.gone)
    assert (open_door.door._unfinished, open_door.door._unfinished_bytes) == ({}, 0)


def test_without_descriptors_strangers_make_room_first(open_door):
    stranger = dial(open_door.door.address, BYTES_MAX, 5.0)
    open_door.until(lambda: open_door.door.connections)
    door, listener = open_door.door, open_door.door._listener

    class Full:
        def accept(self):
            if door.connections:
                raise OSError(errno.EMFILE, "Too many open files")
            return listener.accept()

        def __getattr__(self, name):
            return getattr(listener, name)

    door._listener = Full()
    another = dial(door.address, BYTES_MAX, 5.0)
    until(lambda: (open_door.turn(), stranger.receive(), stranger.gone)[2])
    door._listener = listener
    another.send(b"x")
    open_door.until(lambda: (another.receive(), open_door.came == [b"x"])[1])
    for each in (stranger, another):
        each.close()


def test_without_descriptors_nobody_is_let_in_for_a_while_and_then_again(open_door):
    def full():
        raise OSError(errno.EMFILE, "Too many open files")

    listener = open_door.door._listener

    class Full:
        accept = staticmethod(full)

        def __getattr__(self, name):
            return getattr(listener, name)

    open_door.door._listener = Full()
    waiting = dial(open_door.door.address, BYTES_MAX, 5.0)
    open_door.until(lambda: open_door.complaints)
    assert open_door.complaints == ["nobody can be let in: Too many open files"]
    for _ in range(3):
        open_door.turn()
    assert len(open_door.complaints) == 1, "it does not try again and again"
    open_door.door._listener = listener
    open_door.door.on_tick(time.monotonic() + doors.FULL_S)
    waiting.send(b"x")
    open_door.until(lambda: (waiting.receive(), b"x" in open_door.came)[1])
    waiting.close()


def test_one_connection_too_many_is_closed_at_once(open_door):
    there = [dial(open_door.door.address, BYTES_MAX, 5.0) for _ in range(8)]
    open_door.until(lambda: len(open_door.door.connections) == 8)
    for connection in open_door.door.connections:
        open_door.door.know(connection)
    there.append(dial(open_door.door.address, BYTES_MAX, 5.0))
    open_door.until(lambda: open_door.complaints)
    assert open_door.complaints == ["8 are connected, and no more are let in"]
    until(lambda: (there[-1].receive(), there[-1].gone)[1])
    there[0].close()
    open_door.until(lambda: open_door.gone == 1)
    another = dial(open_door.door.address, BYTES_MAX, 5.0)
    another.send(b"x")
    open_door.until(lambda: (another.receive(), open_door.came == [b"x"])[1])
    for each in (*there[1:], another):
        each.close()


def test_whoever_sends_all_the_time_leaves_the_others_their_turn(open_door, monkeypatch):
    monkeypatch.setattr(doors, "BURST_BYTES", 50_000)
    busy = [dial(open_door.door.address, BYTES_MAX, 5.0) for _ in range(6)]
    for each in busy:
        each.send(b"met")
    open_door.until(lambda: ([each.receive() for each in busy], len(open_door.came) == len(busy))[1])
    open_door.came.clear()
    for number, each in enumerate(busy):
        for _ in range(10):
            each.send(bytes([number]) * 60_000)
    until(lambda: all(pending(connection) > 60_000 for connection in open_door.door.connections))
    open_door.until(lambda: len(open_door.came) >= 6)
    assert {frame[0] for frame in open_door.came[:6]} == set(range(6)), "each once, before any of them again"
    for each in busy:
        each.close()


def test_who_says_a_thousand_things_at_once_is_heard_to_the_end_and_leaves_the_others_their_turn(open_door):
    chatty, brief = (dial(open_door.door.address, BYTES_MAX, 5.0) for _ in range(2))
    for each in (chatty, brief):
        each.send(b"met")
    open_door.until(lambda: (chatty.receive(), brief.receive(), len(open_door.came) == 2)[2])
    open_door.came.clear()
    framed = b"".join(b"\0\x02%02x" % (number % 256) for number in range(1_000))
    chatty._socket.send(framed)
    brief.send(b"brief")
    until(lambda: all(map(pending, open_door.door.connections)))
    open_door.turn()
    assert b"brief" in open_door.came
    assert len(open_door.came) <= doors.MESSAGES_MAX + 1
    open_door.until(lambda: len(open_door.came) > 1_000)
    assert [frame for frame in open_door.came if frame != b"brief"] == [b"%02x" % (n % 256) for n in range(1_000)]
    assert open_door.door.unread == {}
    chatty.close()
    brief.close()


def test_a_stranger_is_not_listened_to_for_long_whatever_it_says(open_door):
    door = open_door.door
    silent, slow, known = (dial(door.address, BYTES_MAX, 5.0) for _ in range(3))
    open_door.until(lambda: len(door.connections) == 3)
    began = time.monotonic()
    door.know(list(door.connections)[2])
    slow.send(b"x")
    open_door.until(lambda: (slow.receive(), b"x" in open_door.came)[1])
    door.on_tick(began + doors.STRANGER_S - 1.0)
    assert len(door.connections) == 3
    door.on_tick(time.monotonic() + doors.STRANGER_S)
    (left,) = door.connections
    until(lambda: (silent.receive(), slow.receive(), silent.gone and slow.gone)[2])
    door.forget(left, began)
    door.on_tick(began + doors.STRANGER_S + 1.0)
    assert door.connections == {}
    for each in (silent, slow, known):
        each.close()


def test_the_one_that_is_a_stranger_for_longest_makes_room(open_door):
    door = open_door.door
    there = [dial(door.address, BYTES_MAX, 5.0) for _ in range(8)]
    open_door.until(lambda: len(door.connections) == 8)
    door.know(next(iter(door.connections)))
    another = dial(door.address, BYTES_MAX, 5.0)
    until(lambda: (open_door.turn(), there[1].receive(), there[1].gone)[2])
    another.send(b"x")
    open_door.until(lambda: (another.receive(), open_door.came == [b"x"])[1])
    assert [each.gone for each in there] == [False, True] + 6 * [False]
    for each in (*there, another):
        each.close()


def test_what_cannot_be_listened_on_is_the_callers_error(open_door):
    with pytest.raises(UsageError, match=r"cannot listen on .*: Address already in use"):
        Door(open_door.door.address, BYTES_MAX, 8, lambda _: None)


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["[::1]", "[::]"])
def test_clients_come_in_by_either_protocol_of_the_internet(host):
    sessions = Sessions(f"tcp://{host}:0")
    try:
        dial(sessions.address, BYTES_MAX, 5.0).close()  # as it is advertised
        dial(f"tcp://[::1]:{split(sessions.address)[1]}", BYTES_MAX, 5.0).close()
    finally:
        sessions.close()


def test_what_cannot_be_the_name_of_a_host_is_nowhere_to_be_found():
    with pytest.raises(UsageError, match="cannot listen on"):
        Door("tcp://not..a.name:0", BYTES_MAX, 8, lambda _: None)
    with pytest.raises(OSError, match="no name of a host"):
        dial("tcp://not..a.name:7400", BYTES_MAX, 5.0)


def test_who_ends_before_the_handshake_says_nothing_and_waits_without_turning_round():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        ours = dial(f"tcp://127.0.0.1:{mute.getsockname()[1]}", BYTES_MAX, 5.0)
        ours.send(b"hello")
        began_s = time.thread_time()
        ours.finish(0.5)
        assert time.thread_time() - began_s < 0.1


def test_a_message_that_a_send_took_note_of_is_not_slept_over():
    """ZeroMQ's descriptor says nothing of it any more."""
    poll = Poll()
    with library(zmq.DEALER) as here, library(zmq.DEALER) as there:
        port = here.bind_to_random_port("tcp://127.0.0.1")
        there.connect(f"tcp://127.0.0.1:{port}")
        poll.watch(here, zmq.POLLIN)
        there.send(b"x")
        until(lambda: here.getsockopt(zmq.EVENTS) & zmq.POLLIN)  # now it has been noticed
        poll.touched = True  # as whoever uses it says
        began = time.monotonic()
        poll.wait(30.0)
        assert here in poll.readable
        assert time.monotonic() < began + 15.0, "it was slept over"
        assert here.recv() == b"x"
        poll.wait(0.0)
        assert poll.readable == {}
        there.send(b"y")
        poll.wait(30.0)
        assert here in poll.readable
        poll.unwatch(here)
    wakeup, waker = socket.socketpair()
    poll.register(wakeup, READ, "data")
    waker.send(b"\0")
    poll.wait(30.0)
    assert [(key.data, events) for key, events in poll.ready] == [("data", READ)]
    poll.close()
    wakeup.close()
    waker.close()
