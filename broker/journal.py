"""What has changed at a node and is to be told in `$sys`: of each thing the newest, so many things at most.

A client that subscribes and unsubscribes in a loop costs an entry, and not an event each time.
"""

from typing import NamedTuple

from gossamer.messages.event import Attributes

CHANGES_MAX = 4_096


class Change(NamedTuple):
    attributes: Attributes
    over: bool
    """The thing is no more."""


class Journal:
    __slots__ = ("_changes", "_changes_max", "untold")

    def __init__(self, changes_max: int = CHANGES_MAX) -> None:
        self._changes: dict[str, Change] = {}
        self._changes_max = changes_max
        self.untold = 0
        """Changes there was no room for."""

    @property
    def kept(self) -> bool:
        """Whether anybody will read it."""
        return self._changes_max > 0

    def note(self, key: str, attributes: Attributes, over: bool = False) -> None:
        if key in self._changes or len(self._changes) < self._changes_max:
            self._changes[key] = Change(attributes, over)
        else:
            self.untold += 1

    def take(self, count: int) -> dict[str, Change]:
        """The oldest of them."""
        changes = self._changes
        return {key: changes.pop(key) for key in list(changes)[:count]}

    def __len__(self) -> int:
        return len(self._changes)
