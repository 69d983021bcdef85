"""The evidence by which a link tells that its peer is lost: refused connections, and probes without an answer."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
import zmq

from gossamer.broker.counters import Counters
from gossamer.broker.framing import Header, decode_header, encode_header
from gossamer.broker.link import MISSED_PROBES, SETTLE_S, Limits, Link
from gossamer.broker.sockets import receive_routed
from processes import until

PROBE_S = Limits().probe_s


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    with zmq.Context() as context:
        yield context


@pytest.fixture
def router(context: "zmq.Context[zmq.Socket[bytes]]") -> Iterator["zmq.Socket[bytes]"]:
    with context.socket(zmq.ROUTER) as router:
        router.bind("tcp://127.0.0.1:*")
        yield router


@contextlib.contextmanager
def link_to(context: "zmq.Context[zmq.Socket[bytes]]", address: str) -> Iterator[Link]:
    link = Link(context, Header("a", 1, "tcp://127.0.0.1:1", 0), address, "b", Limits(), Counters())
    link.open(0.0)
    try:
        yield link
    finally:
        link.close(0.0)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"


def answer(router: "zmq.Socket[bytes]", link: Link, now: float) -> None:
    """Answer a mark of the link's session, as the peer's mesh does, and have the link take it."""
    epoch = 0
    while epoch != link.epoch:
        until(lambda: router.poll(0))
        sender, data, mark = receive_routed(router)
        epoch = decode_header(data).epoch
    router.send_multipart((sender, encode_header(Header("b", 1, "tcp://127.0.0.1:2", epoch)), mark))
    until(lambda: link.socket.poll(0))
    link.on_readable(now)


def address_of(router: "zmq.Socket[bytes]") -> str:
    return router.getsockopt_string(zmq.LAST_ENDPOINT)


def test_peer_whose_address_refuses_connections_is_gone_after_a_moment(context):
    with link_to(context, free_address()) as link:
        until(lambda: link._note_connection(1.0) or link._refused_at == 1.0, "the connection to be refused")
        assert link.lost(0.0, 1.0) is None, "messages it sent before may still come"
        assert link.lost(0.0, 1.0 + SETTLE_S) == "gone"
        assert link.lost(0.9 + SETTLE_S, 1.0 + SETTLE_S) == "gone"
        assert link.lost(1.1 + SETTLE_S, 2.0 + SETTLE_S) is None, "it was heard since then"


def test_peer_that_is_killed_and_started_again_is_gone_meanwhile(context):
    with context.socket(zmq.ROUTER) as first:
        first.bind("tcp://127.0.0.1:*")
        address = address_of(first)
        with link_to(context, address) as link:
            answer(first, link, 0.0)
            assert link.lost(0.0, 5.0) is None
            first.unbind(address)
            first.close(linger=0)
            until(lambda: link.lost(0.0, 10.0) or link.lost(0.0, 10.0 + SETTLE_S) == "gone", "the peer to be gone")
            with context.socket(zmq.ROUTER) as second:
                second.bind(address)
                until(lambda: link.lost(0.0, 20.0) is None, "the peer to be back")


def test_peer_that_answers_no_probe_is_silent(context, router):
    with link_to(context, address_of(router)) as link:
        answer(router, link, 0.0)
        times = [PROBE_S * (1 + count) for count in range(MISSED_PROBES + 1)]
        found = []
        for now in times:
            link.on_tick(now)
            found.append(link.lost(0.0, now))
        assert found == [None] * MISSED_PROBES + ["silent"]
        assert times[-1] <= 8.0, "within 10 s of the last sign of life"
        assert link.lost(times[-1] - 1.0, times[-1]) is None, "a message of its own counts as well"
        answer(router, link, times[-1])
        assert link.lost(0.0, times[-1]) is None


def test_watcher_that_was_suspended_itself_takes_nobody_for_silent(context, router):
    with link_to(context, address_of(router)) as link:
        answer(router, link, 0.0)
        link.on_tick(PROBE_S)
        link.on_tick(1_000.0)
        assert link.lost(0.0, 1_000.0) is None


def test_idle_link_is_probed(context, router):
    with link_to(context, address_of(router)) as link:
        answer(router, link, 0.0)
        for count in range(1, 6):
            link.on_tick(count * PROBE_S)
            answer(router, link, count * PROBE_S)
            assert link.lost(0.0, count * PROBE_S) is None
