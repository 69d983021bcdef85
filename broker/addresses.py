"""Where a node listens, and where others are to dial it: not the same behind a wildcard or a container's port map."""

import re
import socket

import zmq

from gossamer.messages.errors import UsageError

_URL = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\*|[0-9]{1,5})")
_WILDCARDS = ("*", "0.0.0.0", "[::]")


def split(url: str, example: str = "tcp://127.0.0.1:7401") -> tuple[str, int]:
    """Host and port of `tcp://host:port`; port 0 stands for one that is free."""
    found = _URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        raise UsageError(f"{url!r} is not an address like {example}")
    host, port = found[1], 0 if found[2] == "*" else int(found[2])
    if port > 65_535:
        raise UsageError(f"{url!r}: a port is at most 65535")
    return host, port


def check_peer(url: str) -> str:
    """The address of a member, if it can be dialled."""
    return _check_dialled(url, "a peer", "tcp://127.0.0.1:7401")


def check_url(url: str) -> str:
    """The address of a broker for clients, if it can be dialled."""
    return _check_dialled(url, "a broker", "tcp://127.0.0.1:7400")


def _check_dialled(url: str, whose: str, example: str) -> str:
    host, port = split(url, example)
    if port == 0 or host == "*":
        raise UsageError(f"{url!r}: {whose}'s address needs a host and a port, like {example}")
    return url


def advertised(bound: str, wanted: str | None) -> str:
    """What others dial: as wanted, with the port that was bound if it leaves that open; else what was bound, a
    wildcard being loopback."""
    host, port = split(bound)
    if wanted is not None:
        host, wanted_port = split(wanted)
        port = wanted_port or port
        if host in _WILDCARDS:
            raise UsageError(f"{wanted!r}: nobody can dial a wildcard")
    return f"tcp://{'127.0.0.1' if host in _WILDCARDS else host}:{port}"


def default_name(address: str) -> str:
    """A name that a node has again when it is restarted in its place."""
    return f"{socket.gethostname()[:100]}-{split(address)[1]}"


def speak_ipv6(socket: "zmq.Socket[bytes]", host: str) -> None:
    """ZeroMQ neither binds nor dials an address of IPv6 unless it is told to."""
    if host.startswith("["):
        socket.setsockopt(zmq.IPV6, 1)


def keep_alive(router: "zmq.Socket[bytes]") -> None:
    """Who vanished without a word leaves no connection behind: the kernel finds out. ZeroMQ's own heartbeats would take
    a peer for dead that only reads slowly, and a connection that they end while its input is held up aborts the process
    (libzmq 4.3.5: "Assertion failed: !_io_error"; zeromq/libzmq#3937, #4767)."""
    router.setsockopt(zmq.TCP_KEEPALIVE, 1)
    router.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 10)
    router.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 5)
    router.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
