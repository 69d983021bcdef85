"""The mesh on real sockets: who is slow, gone, somebody else, or talks rubbish, harms nobody but itself."""

import random
import socket
import time

import pytest
import zmq

from gossamer.broker.addresses import split
from gossamer.broker.framing import Header, encode_header, encode_mark
from gossamer.broker.link import Limits
from gossamer.broker.mesh import Mesh
from gossamer.messages.codec import encode
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Busy, Join
from gossamer.messages.wire import Member as Record
from gossamer.protocol.inputs import Met, Received
from processes import until

BUSY = encode(Busy())
QUICK = Limits(silence_s=0.3, retry_s=0.1, retry_max_s=0.2, stale_s=60.0)


class Nodes:
    """Meshes without nodes: what comes in is kept."""

    def __init__(self):
        self._meshes = {}
        self.taken = {}
        self._context = zmq.Context()
        self._sockets = []

    def add(self, name, bind="tcp://127.0.0.1:0", incarnation=1, limits=QUICK):
        mesh = self._meshes[name] = Mesh(bind, name=name, incarnation=incarnation, limits=limits)
        self.taken[name] = []
        return mesh

    def remove(self, name):
        self._meshes.pop(name).close(0.0)

    def turn(self):
        for name, mesh in self._meshes.items():
            mesh.poll.wait(0.002)
            now = time.monotonic()
            self.taken[name] += mesh.receive(now)
            mesh.on_time(now)

    def until(self, condition, what=""):
        until(lambda: (self.turn(), condition())[1], what)

    def raw(self, kind):
        """A socket on which anything can be said."""
        self._sockets.append(self._context.socket(kind))
        return self._sockets[-1]

    def close(self):
        for name in list(self._meshes):
            self.remove(name)
        for raw in self._sockets:
            raw.close(linger=0)
        self._context.term()


@pytest.fixture
def nodes():
    nodes = Nodes()
    yield nodes
    nodes.close()


def send(mesh, to, count=1, frame=BUSY):
    for _ in range(count):
        mesh.send((to,), frame, time.monotonic())


def test_who_is_called_by_its_address_is_met_first_and_can_answer(nodes):
    a, b = nodes.add("a"), nodes.add("b")
    send(a, b.own.address)
    nodes.until(lambda: nodes.taken["b"])
    assert nodes.taken["a"] == [Met("b")]
    assert nodes.taken["b"] == [Received("a", Busy())]
    send(b, "a")
    nodes.until(lambda: Received("b", Busy()) in nodes.taken["a"])
    send(b, "nobody")
    assert b.counters.frames_dropped == 1


def test_members_meet_over_ipv6(nodes):
    try:
        a, b = nodes.add("a", "tcp://[::1]:0"), nodes.add("b", "tcp://[::1]:0")
    except UsageError:
        pytest.skip("there is no IPv6 here")
    send(a, b.own.address)
    nodes.until(lambda: nodes.taken["b"])
    send(b, "a")
    nodes.until(lambda: Received("b", Busy()) in nodes.taken["a"])


def test_who_is_not_there_yet_is_waited_for(nodes):
    a, b = nodes.add("a"), nodes.add("b")
    address = b.own.address
    nodes.remove("b")
    send(a, address)
    nodes.until(lambda: a.counters.link_sessions >= 3, "some sessions in vain")
    nodes.add("b", bind=address)
    nodes.until(lambda: nodes.taken["b"] == [Received("a", Busy())])


def test_what_waited_too_long_for_a_session_is_not_sent_any_more(nodes):
    limits = Limits(retry_s=0.1, retry_max_s=0.2, stale_s=0.2)
    a, b = nodes.add("a", limits=limits), nodes.add("b")
    address = b.own.address
    nodes.remove("b")
    send(a, address, 5)
    began = time.monotonic()
    nodes.until(lambda: time.monotonic() > began + 0.3, "it to be stale")
    nodes.add("b", bind=address)
    news = encode(Join(Record("x", "member", 1)))

    def has_come():
        send(a, address, frame=news)  # again and again: on a busy machine it may become stale as well
        return nodes.taken["b"]

    nodes.until(has_come)
    assert {type(given.message) for given in nodes.taken["b"]} == {Join}
    assert a.counters.frames_dropped >= 5


def test_a_session_ends_when_a_mark_stays_away(nodes):
    a = nodes.add("a")
    peer = nodes.raw(zmq.ROUTER)
    port = peer.bind_to_random_port("tcp://127.0.0.1")
    address = f"tcp://127.0.0.1:{port}"
    a.learn("b", address, time.monotonic())
    send(a, "b")
    until(lambda: (nodes.turn(), peer.poll(0))[1])
    sender, _, mark = peer.recv_multipart()
    peer.send_multipart([sender, encode_header(Header("b", 1, address, 1)), mark])
    link = a._links["b"]
    nodes.until(lambda: link.sent == len(BUSY) and link.marked == link.sent, "the message to be marked")
    nodes.until(lambda: link.epoch == 2, "a new session")
    assert link.in_flight == 0


def test_a_peer_that_restarts_is_found_again_and_its_window_is_free(nodes):
    a, b = nodes.add("a"), nodes.add("b")
    address = b.own.address
    a.learn("b", address, time.monotonic())
    send(a, "b")
    nodes.until(lambda: nodes.taken["b"])
    nodes.remove("b")
    big = encode(Join(Record("x", "member", 1, False, "x" * 500)))
    send(a, "b", 6_000, big)
    link = a._links["b"]
    assert link.in_flight < QUICK.window_bytes + len(big)
    nodes.add("b", bind=address, incarnation=2)
    nodes.until(lambda: nodes.taken["b"] and link.in_flight == 0 and not link.queued_bytes, "the window to be free")
    send(a, "b")
    nodes.until(lambda: Received("a", Busy()) in nodes.taken["b"])


def test_a_peer_that_moves_is_followed(nodes):
    a, b = nodes.add("a"), nodes.add("b")
    a.learn("b", b.own.address, time.monotonic())
    send(a, "b")
    nodes.until(lambda: nodes.taken["b"])
    nodes.remove("b")
    b = nodes.add("b", incarnation=2)
    send(b, a.own.address)  # it says where it is by speaking
    nodes.until(lambda: Received("b", Busy()) in nodes.taken["a"])
    send(a, "b")
    nodes.until(lambda: Received("a", Busy()) in nodes.taken["b"])


def test_somebody_else_at_an_address_gets_nothing(nodes):
    a, c = nodes.add("a"), nodes.add("c")
    a.learn("b", c.own.address, time.monotonic())
    send(a, "b")
    nodes.until(lambda: a.counters.peer_errors > 1, "c to be found there again and again")
    assert nodes.taken["c"] == []


def test_our_own_address_leads_nowhere(nodes):
    a = nodes.add("a")
    send(a, a.own.address)
    nodes.until(lambda: nodes.taken["a"])
    assert nodes.taken["a"] == [Met("a")]
    nodes.until(lambda: a.settled)
    assert nodes.taken["a"] == [Met("a")]


def test_a_second_node_of_our_name_is_not_taken_for_us(nodes):
    a = nodes.add("a")
    other = Mesh("tcp://127.0.0.1:0", name="a", incarnation=2, limits=QUICK)
    try:
        other.send((a.own.address,), BUSY, time.monotonic())
        nodes.until(lambda: a.counters.peer_errors)
        assert nodes.taken["a"] == []
    finally:
        other.close(0.0)


def test_a_peer_that_takes_nothing_costs_a_bounded_queue_and_nobody_else_anything(nodes):
    limits = Limits(window_bytes=100_000, queue_bytes_max=300_000)
    a, b = nodes.add("a", limits=limits), nodes.add("b")
    stuck = nodes.raw(zmq.ROUTER)  # it lets us in, and then reads nothing
    stuck.setsockopt(zmq.RCVHWM, 1)
    port = stuck.bind_to_random_port("tcp://127.0.0.1")
    a.learn("b", b.own.address, time.monotonic())
    a.learn("stuck", f"tcp://127.0.0.1:{port}", time.monotonic())
    frame = encode(Join(Record("x", "member", 1, False, "x" * 500)))
    send(a, "stuck")
    until(lambda: (nodes.turn(), stuck.poll(0))[1])
    sender, _, mark = stuck.recv_multipart()
    own = Header("stuck", 1, f"tcp://127.0.0.1:{port}", 1)
    stuck.send_multipart([sender, encode_header(own), mark])
    nodes.until(lambda: a._links["stuck"].peer is not None)
    for _ in range(100):
        a.send(("stuck", "b"), frame, time.monotonic())
        for _ in range(20):
            a.send(("stuck",), frame, time.monotonic())
    nodes.until(lambda: len(nodes.taken["b"]) == 100)
    link = a._links["stuck"]
    assert link.in_flight <= limits.window_bytes + len(frame)
    assert link.queued_bytes <= limits.queue_bytes_max
    assert a.counters.frames_dropped > 0
    assert a.queued_bytes == link.queued_bytes


def test_a_socket_that_takes_little_at_a_time_takes_everything(nodes):
    a, b = nodes.add("a", limits=Limits(hwm=1, buffer_bytes=4_096)), nodes.add("b", limits=Limits(hwm=1))
    a.learn("b", b.own.address, time.monotonic())
    send(a, "b")
    nodes.until(lambda: nodes.taken["b"] and a.settled)
    nodes.taken["b"].clear()
    send(a, "b", 2_000, encode(Join(Record("x", "member", 1, False, "x" * 500))))
    link = a._links["b"]
    assert link.stuck
    assert a._watched[link][1] & zmq.POLLOUT, "room is told at once"
    deadline = time.monotonic() + 20.0  # without a pause: little at a time is many turns
    while len(nodes.taken["b"]) < 2_000:
        assert time.monotonic() < deadline
        nodes.turn()


def test_an_answer_to_an_earlier_session_or_to_more_than_was_sent_means_nothing(nodes):
    a = nodes.add("a", limits=Limits(silence_s=60.0, retry_s=60.0, retry_max_s=60.0))
    peer = nodes.raw(zmq.ROUTER)
    port = peer.bind_to_random_port("tcp://127.0.0.1")
    address = f"tcp://127.0.0.1:{port}"
    a.learn("b", address, time.monotonic())
    send(a, "b")
    until(lambda: (nodes.turn(), peer.poll(0))[1])
    sender, _, mark = peer.recv_multipart()
    link = a._links["b"]
    for header, body in (
        (encode_header(Header("b", 1, address, link.epoch - 1)), mark),
        (encode_header(Header("b", 1, address, link.epoch)), encode_mark(10**6)),
        (b"rubbish", mark),
        (encode_header(Header("b", 1, address, link.epoch)), BUSY),
    ):
        peer.send_multipart([sender, header, body])
    peer.send_multipart([sender, mark])
    nodes.until(lambda: a.counters.peer_errors == 4)
    assert link.peer is None
    peer.send_multipart([sender, encode_header(Header("b", 1, address, link.epoch)), mark])
    nodes.until(lambda: link.peer is not None)


def test_a_link_without_use_is_closed_and_opened_on_demand(nodes):
    a, b = nodes.add("a", limits=Limits(idle_s=0.05)), nodes.add("b")
    a.learn("b", b.own.address, time.monotonic())
    send(a, "b")
    nodes.until(lambda: nodes.taken["b"])
    a._tick_at = 0.0
    nodes.until(lambda: (setattr(a, "_tick_at", 0.0), not a._links)[1])
    send(a, "b")
    nodes.until(lambda: len(nodes.taken["b"]) == 2)


def test_rubbish_is_counted_and_survived(nodes):
    a, b = nodes.add("a"), nodes.add("b")
    rng = random.Random(7)
    host, port = split(a.own.address)
    with socket.create_connection((host, port)) as raw:  # not even ZeroMQ
        raw.sendall(rng.randbytes(4_096))
    dealer = nodes.raw(zmq.DEALER)
    dealer.connect(a.own.address)
    good = encode_header(Header("x", 1, "tcp://127.0.0.1:1", 1))
    rubbish = [
        [b""],
        [good],
        [good, b""],
        [good, b"", b""],
        [good, b"\x00short"],
        [good, b"\x02" + BUSY[1:]],
        [good, BUSY[:-1]],
        [b"G\x02" + good[2:], BUSY],
        [b"H" + good[1:], BUSY],
        [encode_header(Header("y", 1, "tcp://*:0", 1))[:-1], BUSY],
        *([good, rng.randbytes(rng.randrange(1, 200))] for _ in range(100)),
        *([rng.randbytes(rng.randrange(1, 60)), BUSY] for _ in range(100)),
    ]
    for parts in rubbish:
        dealer.send_multipart(parts)
    dealer.send_multipart([good, BUSY])
    nodes.until(lambda: Received("x", Busy()) in nodes.taken["a"])
    assert a.counters.peer_errors >= len(rubbish) - 100
    assert len([given for given in nodes.taken["a"] if given != Received("x", Busy())]) == 0
    send(b, a.own.address)
    nodes.until(lambda: Received("b", Busy()) in nodes.taken["a"])


def test_a_runtime_survives_rubbish_too(mesh):
    p = mesh.member("p")
    q = mesh.member("q", p.address)
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(p.address)
    stranger = encode_header(Header("stranger", 1, "tcp://127.0.0.1:1", 1))
    rng = random.Random(7)
    for _ in range(500):
        dealer.send_multipart([stranger, b"\x01" + rng.randbytes(rng.randrange(1, 100))])
    until(lambda: p.runtime.counters.peer_errors >= 400)
    dealer.close(linger=0)
    context.term()
    q.publish(3)
    until(lambda: p.has(q.stream, 3))


def test_an_address_in_use_is_refused_in_one_line(nodes):
    a = nodes.add("a")
    with pytest.raises(Exception, match="cannot listen on"):
        nodes.add("b", bind=a.own.address)


def test_a_slow_reader_is_never_taken_for_dead_by_heartbeats(nodes):
    """They end connections whose input is held up, and libzmq aborts the process then (broker/addresses.py)."""
    router = nodes.add("a")._router
    assert router.getsockopt(zmq.HEARTBEAT_IVL) == 0
    assert router.getsockopt(zmq.TCP_KEEPALIVE) == 1
