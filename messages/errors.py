"""Errors by whose fault they are.

The caller's fault is a `UsageError`; a peer's is a `PeerError`, which is counted and dropped and never reaches a
user; our own is an `assert`. Everything a user may catch derives from `GossamerError`.
"""


class GossamerError(Exception):
    """The root of every error Gossamer raises on purpose."""


class UsageError(GossamerError):
    """The caller asked for something that cannot be: a bad argument, option or value."""


class PeerError(GossamerError):
    """Bytes from a peer that are malformed, truncated, oversized, of another version or out of range."""
