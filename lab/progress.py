"""Who has what, from observation alone: when is a mesh settled?"""

from collections.abc import Iterator
from typing import NamedTuple

from gossamer.lab.observer import Observer
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet
from gossamer.protocol.effects import Deliver, Record, Refused, Skip, Status


class Lack(NamedTuple):
    """A node that is up and in has a stream only up to `has`, and others have it up to `last`."""

    node: str
    stream: str
    has: int
    last: int


class Progress(Observer):
    """A member is owed what was published after it became one: up to what was offered while the publisher lives, up to
    what anybody who is up has got once it is dead."""

    def __init__(self) -> None:
        self.status: dict[str, Status] = {}
        """Of the nodes that are up."""
        self._before: dict[str, dict[str, int]] = {}
        """How far each stream had got when a node became a member: what it is not owed, wherever that is now."""
        self._ever: dict[str, int] = {}
        """The last seq of a stream that anybody ever had."""
        self.has: dict[str, dict[str, int]] = {}
        """How far each node was delivered each stream (or told what it skips)."""
        self._on_disk: dict[str, dict[str, int]] = {}
        self._highest: dict[str, int] = {}
        """The last seq of a stream that anybody who is up has."""
        self._offered: dict[str, int] = {}
        """The last seq of a stream that its publisher, if alive, must have given by now."""
        self._publisher: dict[str, str] = {}
        self._known_lack: Lack | None = None

    def settled(self) -> bool:
        """Does everybody have everything? Cheap while not: the last lack found is looked at first."""
        lack = self._known_lack
        if lack is None or not self._lacks(lack.node, lack.stream):
            lack = self._known_lack = next(self.lacking(), None)
        return lack is None

    def lacking(self) -> Iterator[Lack]:
        for node in self.status:
            for stream in self._publisher:
                if lack := self._lacks(node, stream):
                    yield lack

    def _lacks(self, node: str, stream: str) -> Lack | None:
        if self.status.get(node) != "member":
            return None
        has = max(self.has[node].get(stream, -1), self._before[node].get(stream, -1))
        last = self._last(stream)
        return Lack(node, stream, has, last) if has < last else None

    def _last(self, stream: str) -> int:
        return max(self._highest.get(stream, -1), self._offered.get(stream, -1))

    # What is observed -----------------------------------------------------------------------------------------------

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        self.status[node] = "outside"
        if not resume:
            self._before.pop(node, None)
            self.has[node] = {}
        self._on_disk.setdefault(node, {})
        self._recount()

    def crashed(self, at_s: float, node: str) -> None:
        del self.status[node]
        for stream, publisher in self._publisher.items():
            if publisher == node:
                self._offered.pop(stream, None)
        self._recount()

    def became(self, at_s: float, node: str, status: Status) -> None:
        self.status[node] = status
        if status == "member":
            self._before.setdefault(node, dict(self._ever))

    def published(self, at_s: float, node: str, stream: str, contents: tuple[Content, ...]) -> None:
        self._publisher[stream] = node
        self._offered[stream] = self._last(stream) + len(contents)

    def refused(self, at_s: float, node: str, refused: Refused) -> None:
        self._offered[refused.stream] -= refused.count

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        packet = deliver.packet
        self._reached(self.has[node], packet.stream, packet.last)

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        self._reached(self.has[node], skip.stream, skip.last)

    def persisted(self, at_s: float, node: str, records: tuple[Record, ...]) -> None:
        for record in records:
            if isinstance(record, Packet):
                self._reached(self._on_disk[node], record.stream, record.last)

    def _reached(self, by: dict[str, int], stream: str, last: int) -> None:
        if last > by.get(stream, -1):
            by[stream] = last
        if last > self._highest.get(stream, -1):
            self._highest[stream] = last
            if last > self._ever.get(stream, -1):
                self._ever[stream] = last

    def _recount(self) -> None:
        """Somebody came or went: what only a dead node has, nobody can be expected to get."""
        self._highest = {}
        for node in self.status:
            for had in (self.has[node], self._on_disk[node]):
                for stream, last in had.items():
                    self._highest[stream] = max(last, self._highest.get(stream, -1))
