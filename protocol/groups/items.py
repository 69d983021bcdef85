"""The items of a `PrimaryBackup`: what the primary multicasts for an update, and when a backup applies it (000 §3.4.3).

An update of one item is one event. An update of several is a transaction: a part for each item, then a COMMIT. Events
name the items as keys, so that a later update obsoletes earlier ones, and a backup that is behind need not get them:

    operation 1        operation 2        what a slow backup may get
    x=1 y=1 COMMIT     y=2 z=2 COMMIT     x=1           y=2 z=2 COMMIT

A backup applies an operation only when it has everything that counts up to it. The observer of 000 Fig. 3.8 applies
x=1 when the first event of the next operation comes: half of operation 1, a state that the primary was never in. Nor is
a COMMIT enough, for a backup may get that of operation 1 and not y=1, which operation 2 obsoletes.

So each event says the *total*: the sum, over all items, of the number of the operation that set the item last. A backup
computes the same sum over what it got. No item at the backup is newer than at the primary's operation, so if the sums
are equal, each item is the same. If they are not, a later event obsoletes what is missing, and comes in the same view:
the backup waits for it. Each state of a backup is therefore one that the primary was in.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from gossamer.messages.event import Event
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Part


class Items:
    """One replica's items."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.operation = 0
        """The number of the last operation that is applied."""
        self._set_by: dict[str, int] = {}
        """For each item, the operation that set it."""
        self._total = 0
        self._waiting: dict[str, tuple[int, Any]] = {}
        """Updates that are not applied yet: by item the last operation, and the value."""
        self._ahead = 0
        """The total, once those that wait are applied, less the total now."""
        self._last_part: tuple[int, int] = (-1, 0)
        """The seq of the last part of a transaction, and the total that it says."""
        self._issued: dict[str, int] = {}
        self._issued_operation = self._issued_total = 0
        """At the primary: as above, with all operations that are on their way."""

    # At the primary -------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Become the primary: go on from what is applied."""
        self._issued = dict(self._set_by)
        self._issued_operation, self._issued_total = self.operation, self._total

    def issue(self, changes: dict[str, Any], multicast: Callable[[list[Part]], EventId]) -> EventId:
        """Multicast one operation: a single event that is its own COMMIT, or the parts of a transaction."""
        operation = self._issued_operation + 1
        total = self._issued_total + sum(operation - self._issued.get(name, 0) for name in changes)
        said = {"operation": operation, "total": total}
        id = multicast(
            [Part({"item": name, **said}, msgspec.json.encode(value), key=name) for name, value in changes.items()]
        )
        # Not before: an operation that is refused must leave no trace in the totals of the next ones.
        self._issued.update(dict.fromkeys(changes, operation))
        self._issued_operation, self._issued_total = operation, total
        return id

    def question(self) -> dict[str, Any]:
        """The attributes of an event that changes nothing, and is applied when everything before it is."""
        return {"total": self._issued_total}

    # Everywhere -----------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> bool:
        """The next event; whether all that counts up to it is applied now."""
        assert event.id is not None
        said, relation = event.attributes, event.relation
        total = said.get("total")
        if "item" in said:
            self._wait(str(said["item"]), int(said["operation"]), msgspec.json.decode(event.body))  # type: ignore[arg-type]
        if relation is not None and relation.part is not None:
            self._last_part = (event.id.seq, int(total))  # type: ignore[arg-type]
            return False
        if relation is not None and relation.commit is not None:
            # Without the part that says the total something is missing: a later COMMIT obsoletes that part.
            seq, total = self._last_part
            if seq != event.id.seq - 1:
                return False
        if total != self._total + self._ahead:
            return False
        self._apply()
        return True

    def _wait(self, name: str, operation: int, value: Any) -> None:
        before = self._waiting[name][0] if name in self._waiting else self._set_by.get(name, 0)
        self._waiting[name] = (operation, value)
        self._ahead += operation - before

    def _apply(self) -> None:
        for name, (operation, value) in self._waiting.items():
            self.values[name], self._set_by[name] = value, operation
            self.operation = max(self.operation, operation)
        self._total += self._ahead
        self._discard()

    def _discard(self) -> None:
        self._waiting.clear()
        self._ahead, self._last_part = 0, (-1, 0)

    def end_view(self) -> None:
        """Give up parts without a COMMIT: their primary died, and no member of the next view has it."""
        self._discard()

    def snapshot(self) -> bytes:
        return msgspec.json.encode((self.values, self._set_by, self.operation))

    def restore(self, state: bytes) -> None:
        self.values, self._set_by, self.operation = msgspec.json.decode(
            state, type=tuple[dict[str, Any], dict[str, int], int]
        )
        self._total = sum(self._set_by.values())
