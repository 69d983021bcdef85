"""When a client's events leave, as a broker sees it that answers only what the test has it answer."""

import zmq

from gossamer.messages.errors import GossamerError
from gossamer.messages.packet import encode_content
from gossamer.messages.session import Goodbye, Hello, Publish, Welcome, decode_from_client, encode
from gossamer.sdk.transport import SMALL_FLYING_MAX, Transport, Turns

STREAM = "default/~test-1.0"
EVENT = encode_content((None, None, None, 1, False, {"n": 1}, b"body"))
PATIENCE_MS = 10_000


def test_a_small_packet_that_is_under_way_does_not_hold_the_next_up() -> None:
    failures: list[GossamerError] = []
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        transport = Transport(
            (f"tcp://127.0.0.1:{port}",), group="default", timeout_s=10,
            on_welcome=lambda *_: None, on_acks=lambda: None, on_failed=failures.append,
            on_opened=lambda _: None, on_more=lambda: None, turns=Turns(),
        )  # fmt: skip
        transport.start()
        place, frame = router.recv_multipart()
        hello = decode_from_client(frame)
        assert isinstance(hello, Hello)
        router.send_multipart((place, encode(Welcome(hello.epoch, "broker", STREAM, 2**20, 2**20, 20.0))))
        try:
            counts = []
            for _ in range(SMALL_FLYING_MAX + 1):  # none of them is ever acknowledged
                transport.outbox.append(EVENT)
                transport.pump()
                published = decode_from_client(router.recv_multipart()[1])
                assert isinstance(published, Publish)
                counts.append(published.packet.count)
            assert counts == [1] * (SMALL_FLYING_MAX + 1), "each left by itself, without waiting for the others"
        finally:
            transport.close()
        assert isinstance(decode_from_client(router.recv_multipart()[1]), Goodbye)
    assert failures == []
