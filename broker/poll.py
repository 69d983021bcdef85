"""What a node's loop sleeps on: descriptors (its clients' connections, and what wakes it), and ZeroMQ's sockets.

A descriptor that is ready is told of until it is dealt with. ZeroMQ's are not like that: the descriptor of a socket
tells that something may have happened since the socket was last used, and each use of it, also to send, takes note of
what happened and says nothing. So whoever has used one says so (`touched`), and before the next sleep they are all
asked. That takes as long as a small packet, and a broker that only serves clients is spared it.
"""

import selectors
from typing import Any

import zmq
from zmq.backend import zmq_poll

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Poll:
    """Used by one thread."""

    __slots__ = ("_asking", "_selector", "_sockets", "ready", "readable", "touched")

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[zmq.Socket[bytes], tuple[int, int]] = {}
        """ZeroMQ's, with the descriptor of each and what is wanted of it."""
        self._asking: list[tuple[zmq.Socket[bytes], int]] = []
        self.touched = True
        """ZeroMQ's sockets were used since they were asked."""
        self.readable: dict[Any, int] = {}
        """Those of them that are ready."""
        self.ready: list[tuple[selectors.SelectorKey, int]] = []
        """Descriptors that are; `data` is whatever they were registered with."""

    def wait(self, timeout_s: float) -> None:
        """Sleep until something is ready, or time is up."""
        if self.touched:
            self._ask()
            if self.readable:
                timeout_s = 0.0
        self.ready = ready = self._selector.select(timeout_s)
        for key, _ in ready:
            if key.data is _SOCKET:
                self._ask()
                break

    def _ask(self) -> None:
        self.readable = dict(zmq_poll(self._asking, 0))
        self.touched = bool(self.readable)  # whoever is told uses them

    # Descriptors ----------------------------------------------------------------------------------------------------

    def register(self, watched: Any, events: int, data: object) -> None:
        self._selector.register(watched, events, data)

    def modify(self, watched: Any, events: int, data: object) -> None:
        self._selector.modify(watched, events, data)

    def unregister(self, watched: Any) -> None:
        self._selector.unregister(watched)

    # ZeroMQ's sockets -----------------------------------------------------------------------------------------------

    def watch(self, socket: "zmq.Socket[bytes]", wanted: int) -> None:
        """Also wake when this one has something, or (`zmq.POLLOUT`) takes something."""
        descriptor = int(socket.getsockopt(zmq.FD))
        if socket not in self._sockets:
            self._selector.register(descriptor, READ, _SOCKET)
        self._sockets[socket] = descriptor, wanted
        self._changed()

    def unwatch(self, socket: "zmq.Socket[bytes]") -> None:
        """To be said before it is closed, or after."""
        self._selector.unregister(self._sockets.pop(socket)[0])
        self._changed()

    def _changed(self) -> None:
        self._asking = [(socket, wanted) for socket, (_, wanted) in self._sockets.items()]
        self.touched = True

    def close(self) -> None:
        self._selector.close()


_SOCKET = object()
