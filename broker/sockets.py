"""ZeroMQ sockets, used in the way that takes least: its enums, its errors, and its calls for messages of any number of
parts, take longer than what they are for."""

import zmq
from zmq.backend import zmq_poll

NOBLOCK = int(zmq.NOBLOCK)
SNDMORE = int(zmq.NOBLOCK | zmq.SNDMORE)
POLLIN = int(zmq.POLLIN)


def receive_parts(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """The next message, all its parts; `zmq.Again` if there is none."""
    frame = socket.recv(NOBLOCK, copy=False)
    parts = [frame.bytes]
    while frame.more:
        frame = socket.recv(NOBLOCK, copy=False)
        parts.append(frame.bytes)
    return parts


def receive_routed(router: "zmq.Socket[bytes]") -> list[bytes]:
    """The same of a ROUTER, where the first part is who it is from, and another always follows."""
    parts = [router.recv(NOBLOCK)]
    while True:
        frame = router.recv(NOBLOCK, copy=False)
        parts.append(frame.bytes)
        if not frame.more:
            return parts


def is_readable(socket: "zmq.Socket[bytes]") -> bool:
    """Whether there is a message. An error that says there is none takes five times as long to be raised."""
    return bool(zmq_poll([(socket, POLLIN)], 0))
