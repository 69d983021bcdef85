"""Streams that are over and that everyone had in full.

Nothing may be kept for each of them (a million short-lived publishers must leave memory flat), yet a late duplicate
must not bring one back to life. Issuers number their anonymous streams, so what is retired is a few intervals.
"""

from gossamer.messages.ids import StreamId, issued_by
from gossamer.messages.wire import Retired
from gossamer.protocol.intervals import IntervalSet


class RetiredStreams:
    """Which anonymous streams are retired."""

    __slots__ = ("_issuers",)

    def __init__(self) -> None:
        self._issuers: dict[str, IntervalSet] = {}

    def __contains__(self, stream: StreamId) -> bool:
        issued = issued_by(stream)
        return issued is not None and issued.issuer in self._issuers and issued.number in self._issuers[issued.issuer]

    def add(self, stream: StreamId) -> bool:
        """Retire one; False if it is a named publisher's, whose stream never ends."""
        issued = issued_by(stream)
        if issued is None:
            return False
        self._issuers.setdefault(issued.issuer, IntervalSet()).add(issued.number, issued.number)
        return True

    def merge(self, retired: tuple[Retired, ...]) -> None:
        for entry in retired:
            numbers = self._issuers.setdefault(entry.issuer, IntervalSet())
            for first, last in entry.ranges:
                numbers.add(first, last)

    def told(self) -> tuple[Retired, ...]:
        """All of it, for a member that joins."""
        return tuple(Retired(issuer, numbers.ranges()) for issuer, numbers in self._issuers.items())
