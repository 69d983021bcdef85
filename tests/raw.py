"""A client that is a bare socket: it says what the SDK would not."""

import zmq

from gossamer.messages.packet import Packet
from gossamer.messages.session import (
    Hello,
    Publish,
    Refusal,
    Welcome,
    decode_from_broker,
    encode,
)

PATIENCE_MS = 15_000


class Raw:
    """A client without manners."""

    def __init__(self, url: str, name: str = "raw", group: str = "default") -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        self._socket.connect(url)
        self._hello = Hello(name, 1, group)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._context.term()

    def enter(self) -> "Raw":
        self.say(self._hello)
        self.stream = self.hear(Welcome).stream
        return self

    def say(self, message) -> None:
        self.send(encode(message))

    def send(self, *parts: bytes) -> None:
        self._socket.send_multipart(parts)

    def hear(self, kind):
        """The next message of a kind; those of other kinds are passed over."""
        while not isinstance(said := decode_from_broker(self._socket.recv()), kind):
            assert not isinstance(said, Refusal), said
        return said

    def publish(self, packet: Packet) -> None:
        self.say(Publish(packet))
