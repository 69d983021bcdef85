"""When a client's events leave, as a broker sees it that answers only what the test has it answer."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest
import zmq

from gossamer.broker.connection import Connection
from gossamer.messages.errors import GossamerError
from gossamer.messages.packet import encode_content
from gossamer.messages.session import (
    Acks,
    Goodbye,
    Hello,
    Ping,
    Publish,
    Refusal,
    Subscribe,
    Subscribed,
    Welcome,
    decode_from_client,
    encode,
)
from gossamer.messages.zmtp import header
from gossamer.sdk import transport as transports
from gossamer.sdk.outgoing import (
    FLYING_MAX,
    PACKET_EVENTS_MAX,
    SMALL_FLYING_MAX,
)
from gossamer.sdk.transport import Transport
from gossamer.sdk.waiting import Turns
from processes import until

STREAM = "default/~test-1.0"
EVENT = encode_content((None, None, None, 1, False, {"n": 1}, b"body"))
PATIENCE_MS = 10_000


class Deaf:
    """A broker that says nothing by itself."""

    def __init__(self, router: "zmq.Socket[bytes]") -> None:
        self._router = router
        self._place = b""

    def welcome(self) -> None:
        """Answer a hello, if there is one: on a busy machine that may be too late, and then there is another."""
        if self._router.poll(0):
            self._place, frame = self._router.recv_multipart()
            hello = decode_from_client(frame)
            assert isinstance(hello, Hello)
            self.say(Welcome(hello.epoch, "broker", STREAM, 2**20, 2**20, 20.0))

    def say(self, message: Welcome | Acks) -> None:
        self._router.send_multipart((self._place, encode(message)))

    def published(self) -> Publish:
        published = decode_from_client(self._router.recv_multipart()[1])
        assert isinstance(published, Publish)
        return published

    def packet(self) -> int:
        """How many events the next packet has."""
        return self.published().packet.count

    def ping(self) -> None:
        assert isinstance(decode_from_client(self._router.recv_multipart()[1]), Ping)

    def goodbye(self) -> None:
        assert isinstance(decode_from_client(self._router.recv_multipart()[1]), Goodbye)


def to(host: str, port: int, failures: list[GossamerError]) -> Transport:
    return Transport(
        (f"tcp://{host}:{port}",), group="default", timeout_s=10,
        on_welcome=lambda *_: None, on_acks=lambda: None, on_failed=failures.append,
        on_opened=lambda _: None, turns=Turns(),
    )  # fmt: skip


@contextmanager
def connected(host: str = "127.0.0.1") -> Iterator[tuple[Transport, Deaf]]:
    failures: list[GossamerError] = []
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        transport = to(host, port, failures)
        transport.start()
        broker = Deaf(router)
        until(lambda: (broker.welcome(), transport.node)[1])
        try:
            yield transport, broker
        finally:
            transport.close()
        broker.goodbye()
    assert failures == []


def test_a_small_packet_that_is_under_way_does_not_hold_the_next_up() -> None:
    with connected() as (transport, broker):
        counts = []
        for _ in range(SMALL_FLYING_MAX + 1):  # none of them is ever acknowledged
            transport.outgoing.outbox.append(EVENT)
            transport.pump()
            counts.append(broker.packet())
        assert counts == [1] * (SMALL_FLYING_MAX + 1), "each left by itself, without waiting for the others"


def test_a_publisher_that_may_send_nothing_does_not_look_again_for_every_event() -> None:
    with connected() as (transport, broker):
        for _ in range(FLYING_MAX):
            for _ in range(PACKET_EVENTS_MAX):
                transport.outgoing.outbox.append(EVENT)
            transport.pump()
            assert broker.packet() == PACKET_EVENTS_MAX
        transport.outgoing.outbox.append(EVENT)
        transport.outgoing.patient_until_ns = 1  # those that are under way take long
        began_ns = time.time_ns()

        def looks_later() -> bool:
            transport.pump()
            return transport.outgoing.patient_until_ns > began_ns

        until(looks_later, "a time before which publish_nowait does not look again")  # two may be at the socket
        broker.say(Acks(FLYING_MAX * PACKET_EVENTS_MAX - 1, -1, -1))
        assert broker.packet() == 1, "and what had to wait leaves, though nothing more is published"
        broker.say(Acks(FLYING_MAX * PACKET_EVENTS_MAX, -1, -1))


def test_who_begins_to_wait_asks_for_what_is_owed_once() -> None:
    with connected() as (transport, broker):
        transport.hurry()  # nothing is owed
        transport.outgoing.outbox.append(EVENT)
        transport.pump()
        assert broker.published().patient
        transport.hurry()
        transport.hurry()
        broker.ping()
        broker.say(Acks(0, -1, -1))
        until(lambda: not transport.outgoing.flying)


def test_a_name_whose_first_address_does_not_answer_is_found_at_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "HELLO_S", 0.5)
    resolve = socket.getaddrinfo
    with ExitStack() as stack:
        mute = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # its queue is full: whoever comes now is not answered
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(mute.getsockname())

        def addresses(host: str, port: int, *others: Any) -> list[Any]:
            if host != "two.addresses.example":  # somebody else in this process
                return list(resolve(host, port, *others))
            tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
            return [(*tcp, mute.getsockname()), (*tcp, ("127.0.0.1", port))]

        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        with connected("two.addresses.example") as (transport, _):
            assert transport.node == "broker"


@contextmanager
def by_hand() -> Iterator[tuple[Transport, socket.socket]]:
    """A transport that was welcomed, and the bare socket of its broker."""
    failures: list[GossamerError] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transport = to(*listener.getsockname(), failures)
        transport.start()
        accepted, _ = listener.accept()
        broker = Connection(accepted, "ROUTER", 2**24, 0.0)
        until(lambda: broker.receive())
        broker.send(encode(Welcome(1, "broker", STREAM, 2**20, 2**20, 20.0)))
        until(lambda: transport.node == "broker")
        try:
            yield transport, accepted
        finally:
            broker.close()
            listener.close()
            transport.close()
    assert failures == []


def silence(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(transports, "SILENCE_S", 0.7)
    monkeypatch.setattr(transports, "PING_S", 0.1)
    return time.monotonic() + 2.0


def test_a_message_that_takes_long_to_come_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    done_at = silence(monkeypatch)
    with by_hand() as (transport, accepted):
        accepted.send(header(10_000_000))

        def comes() -> bool:
            accepted.send(bytes(100))
            return time.monotonic() > done_at

        until(comes)
        assert (transport.reconnects, transport._epoch) == (0, 1)


def test_a_message_that_takes_long_to_leave_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    done_at = silence(monkeypatch)
    with by_hand() as (transport, accepted):
        connection = transport._connection
        assert connection is not None
        connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        for _ in range(FLYING_MAX):
            transport.outgoing.outbox.append(encode_content((None, None, None, 1, False, {}, bytes(7_000_000))))
            transport.pump()

        def leaves() -> bool:
            accepted.recv(40_000)
            return time.monotonic() > done_at

        until(leaves)
        assert (transport.reconnects, transport._epoch) == (0, 1)
        assert connection.stuck, "this would have tested nothing"


def test_a_broker_that_says_nothing_at_all_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    silence(monkeypatch)
    with by_hand() as (transport, _):
        until(lambda: transport._epoch > 1)


def test_who_is_told_to_come_later_waits_longer_every_time_it_has_asked_all() -> None:
    assert [transports.retry_s(count, 1) for count in range(8)] == [0.05, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert [transports.retry_s(count, 3) for count in range(8)] == [0.05, 0.05, 0.05, 0.05, 0.1, 0.1, 0.1, 0.2]
    assert transports.retry_s(10**6, 1) == 1.0


def test_a_broker_that_takes_nobody_in_is_asked_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "RETRY_S", 0.01)
    failures: list[GossamerError] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transport = to(*listener.getsockname(), failures)
        transport.start()
        asked_at = []
        while not transport.node:
            accepted, _ = listener.accept()
            broker = Connection(accepted, "ROUTER", 2**24, 0.0)
            until(broker.receive)
            asked_at.append(time.monotonic())
            if len(asked_at) == 7:
                broker.send(encode(Welcome(7, "broker", STREAM, 2**20, 2**20, 20.0)))
                until(lambda: transport.node)
            else:
                broker.send(encode(Refusal("closed", "later")))
                until(lambda here=broker: (here.receive(), here.gone)[1])
                broker.close()
        waited_s = [after - before for before, after in pairwise(asked_at)]
        assert all(each >= 0.01 * 2**count for count, each in enumerate(waited_s)), waited_s
        assert transport._turned_away == 0, "and from then on as if nothing had been"
        transport.close()
        broker.close()
    assert failures == []


class Subscribing:
    """A subscription that notes how it is answered."""

    number = 1

    def __init__(self) -> None:
        self.answers: list[str] = []

    def asked(self, purge_patience_s: float) -> Subscribe:
        return Subscribe(1, "", 8)

    def on_subscribed(self) -> None:
        self.answers.append("subscribed")

    def on_refused(self, _: GossamerError) -> bool:
        self.answers.append("refused")
        return False

    def on_ended(self) -> None:
        self.answers.append("ended")

    def taken(self) -> None:
        return None

    def on_failed(self, _: GossamerError) -> None: ...


def test_answers_are_taken_in_their_order_by_the_applications_loop_too() -> None:
    """Which of its questions each belongs to is known by that."""
    with by_hand() as (transport, accepted):
        receiver = Subscribing()
        transport._receivers[1] = receiver  # type: ignore[assignment]
        said = [encode(Refusal("limit", "too long", 1)), encode(Subscribed(1))]
        with transport._at_socket:  # the thread has to wait
            accepted.send(b"".join(header(len(frame)) + frame for frame in said))
            connection = transport._connection
            assert connection is not None
            until(lambda: (transport._receive(connection, transport._take_here), receiver.answers)[1])
            assert receiver.answers == ["refused", "subscribed"]


def test_who_waits_for_the_end_of_a_subscription_does_not_wait_for_a_broker_that_is_gone() -> None:
    with by_hand() as (transport, accepted):
        receiver = Subscribing()
        transport.subscribe(receiver)  # type: ignore[arg-type]
        until(lambda: 1 in transport._receivers)
        transport.unsubscribe(receiver)  # type: ignore[arg-type]
        until(lambda: 1 in transport._ending)
        accepted.shutdown(socket.SHUT_RDWR)
        until(lambda: receiver.answers == ["ended"])
        assert transport._ending == {}
