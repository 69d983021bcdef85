"""The items of a primary and its backups: an update is applied as a whole, whatever was purged on the way."""

from typing import Any

import pytest

from gossamer.messages.errors import BufferFull
from gossamer.messages.event import Content, Event
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.groups.items import Items
from gossamer.protocol.groups.streams import event_of


class Primary:
    """Issues updates, and keeps the events and the state after each operation."""

    def __init__(self) -> None:
        self.items = Items()
        self.items.take_over()
        self.annotator = Annotator("g/~a.0")
        self.events: list[Event] = []
        self.states: list[dict[str, Any]] = [{}]

    def update(self, **changes: Any) -> None:
        self.items.issue(changes, self.multicast)
        self.states.append({**self.states[-1], **changes})

    def multicast(self, parts: list[Part]) -> EventId:
        if len(parts) == 1:
            (part,) = parts
            self.add(self.annotator.event(part.attributes, part.body, key=part.key))
        else:
            for content in self.annotator.transaction(parts):
                self.add(content)
        id = self.events[-1].id
        assert id is not None
        return id

    def add(self, content: Content) -> None:
        self.events.append(event_of(content, "g/~a.0", len(self.events)))


def states(backup: Items, events: list[Event], left_out: set[int]) -> list[dict[str, Any]]:
    """The state of a backup after each event that it gets."""
    seen = []
    for event in events:
        if event.id is not None and event.id.seq not in left_out:
            backup.take(event)
            seen.append(dict(backup.values))
    return seen


def test_an_operation_is_applied_at_its_commit() -> None:
    primary = Primary()
    primary.update(x=1, y=1)
    primary.update(z=3)
    assert states(Items(), primary.events, set()) == [{}, {}, {"x": 1, "y": 1}, {"x": 1, "y": 1, "z": 3}]


def test_an_operation_without_its_commit_waits_for_the_next_one() -> None:
    """The observer of 000 Fig. 3.8 applies x alone when y=2 comes."""
    primary = Primary()
    primary.update(x=1, y=1)
    primary.update(y=2, z=2)
    assert states(Items(), primary.events, {1, 2}) == [{}, {}, {}, {"x": 1, "y": 2, "z": 2}]


def test_a_commit_without_one_of_its_parts_applies_nothing() -> None:
    """Nothing applies half of the first operation: neither its COMMIT, nor a single update that comes before y=2."""
    primary = Primary()
    primary.update(x=1, y=1)
    primary.update(w=5)
    primary.update(y=2, z=2)
    after = {"x": 1, "w": 5, "y": 2, "z": 2}
    assert states(Items(), primary.events, {1}) == [{}, {}, {}, {}, {}, after]
    assert states(Items(), primary.events, {0, 1}) == [{}] * 5  # x=1 is not obsolete: this never happens


def test_a_single_update_waits_for_the_one_that_obsoletes_an_earlier_item() -> None:
    primary = Primary()
    primary.update(x=1)
    primary.update(y=1)
    primary.update(x=2)
    assert states(Items(), primary.events, {0}) == [{}, {"x": 2, "y": 1}]


def test_parts_without_a_commit_are_given_up_at_the_end_of_the_view() -> None:
    primary, backup = Primary(), Items()
    primary.update(x=1)
    primary.update(x=2, y=2)
    states(backup, primary.events, {3})
    backup.end_view()
    assert backup.values == {"x": 1}
    heir = Primary()
    heir.items = backup
    backup.take_over()
    heir.update(y=7, z=7)
    assert states(backup, heir.events, set())[-1] == {"x": 1, "y": 7, "z": 7}


def test_a_refused_update_does_not_count() -> None:
    primary = Primary()

    def refuse(_: list[Part]) -> EventId:
        raise BufferFull("65536 messages are under way")

    with pytest.raises(BufferFull):
        primary.items.issue({"x": 1}, refuse)
    primary.update(y=2)
    assert states(Items(), primary.events, set()) == [{"y": 2}]


def test_a_newcomer_goes_on_from_the_snapshot() -> None:
    primary, backup, newcomer = Primary(), Items(), Items()
    primary.update(x=1, y=1)
    primary.update(y=2)
    states(backup, primary.events, set())
    newcomer.restore(backup.snapshot())
    before = len(primary.events)
    primary.update(x=3, z=3)
    assert states(newcomer, primary.events[before:], set())[-1] == {"x": 3, "y": 2, "z": 3}
    assert newcomer.operation == 3
