"""Errors by whose fault they are.

The caller's fault is a `UsageError`; a peer's is a `PeerError`, which is counted and dropped and never reaches a
user; our own is an `assert`. Everything a user may catch derives from `GossamerError`.
"""


class GossamerError(Exception):
    """The root of every error Gossamer raises on purpose."""


class UsageError(GossamerError):
    """The caller asked for something that cannot be: a bad argument, option or value."""


class StoreUnusable(UsageError):
    """A logger's store cannot be opened: its disk fails or is full, or the file is damaged or no store."""


class PeerError(GossamerError):
    """Bytes from a peer that are malformed, truncated, oversized, of another version or out of range."""


class ConnectionLost(GossamerError):
    """No broker could be reached in time, or the session ended while something waited for it."""


class BufferFull(GossamerError):
    """The outgoing buffer has no room: the broker or the loggers are slower than what is published."""


class Superseded(GossamerError):
    """Another client has taken over the name that this one had."""


class NotAuthorized(GossamerError):
    """The broker does not let this client do that."""


class Timeout(GossamerError):
    """What was waited for did not happen in the time that was given."""
