"""ZeroMQ sockets, used in the way that takes least: its enums, and its calls for messages of any number of parts, take
longer than what they are for."""

import zmq

NOBLOCK = int(zmq.NOBLOCK)
SNDMORE = int(zmq.NOBLOCK | zmq.SNDMORE)


def receive_parts(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """The next message, all its parts; `zmq.Again` if there is none."""
    frame = socket.recv(NOBLOCK, copy=False)
    parts = [frame.bytes]
    while frame.more:
        frame = socket.recv(NOBLOCK, copy=False)
        parts.append(frame.bytes)
    return parts
