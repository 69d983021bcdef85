"""One ZeroMQ context for all clients of a process: fifty of them need no fifty threads to look after their sockets."""

import os
import threading

import zmq

_lock = threading.Lock()
_context: "zmq.Context[zmq.Socket[bytes]] | None" = None
_users = 0


def enter() -> "zmq.Context[zmq.Socket[bytes]]":
    """The context, for one more client."""
    global _context, _users
    with _lock:
        if _context is None:
            _context = zmq.Context()
        _users += 1
        return _context


def leave() -> None:
    """One client has closed its sockets. With the last one the context ends, when what they lingered for is sent."""
    global _context, _users
    with _lock:
        _users -= 1
        ended = None if _users else _context
        if ended is not None:
            _context = None
    if ended is not None:
        ended.term()


def _forget() -> None:
    """A fork has the threads of its parent's context as little as its locks."""
    global _context, _users, _lock
    _context, _users, _lock = None, 0, threading.Lock()


os.register_at_fork(after_in_child=_forget)
