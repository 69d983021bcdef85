"""A primary and its backups under crashes, loss, a slow member and newcomers: linearizable, and no state that never
was."""

import pytest

from gossamer.lab.checkers import Violation
from gossamer.lab.groups import stores
from gossamer.messages.event import Event
from gossamer.protocol.groups.items import Items
from gossamer.protocol.groups.views import Order

SEEDS = range(12)


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_updates_and_reads_at_the_primary_are_linearizable(order: Order) -> None:
    worlds = [stores.run(seed, order) for seed in SEEDS]
    assert sum(len(world.history) for world in worlds) > 50 * len(SEEDS)
    assert sum(world.omitted for world in worlds) > 100  # obsolete events were indeed purged
    assert all(world.states[max(world.states)]["x"] == "end" for world in worlds)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["fifo", "total"])
def test_updates_and_reads_at_the_primary_are_linearizable_in_many_runs(order: Order) -> None:
    assert sum(len(stores.run(seed, order).history) for seed in range(1_000, 1_300)) > 50 * 300


class PrintedObserver(Items):
    """000 Fig. 3.8: the first part of an operation applies what waits of those before it."""

    _number = 0

    def take(self, event: Event) -> bool:
        number = event.attributes.get("operation")
        if isinstance(number, int) and number != self._number:
            self._number = number
            self._apply()
        return super().take(event)


class EveryCommit(Items):
    """Each COMMIT applies what is here, whether something is missing or not."""

    def take(self, event: Event) -> bool:
        complete = super().take(event)
        if not complete and not (event.relation is not None and event.relation.part is not None):
            self._apply()
        return True


@pytest.mark.parametrize("broken", [PrintedObserver, EveryCommit])
def test_a_backup_that_applies_part_of_an_operation_is_caught(broken: type[Items]) -> None:
    def hunt() -> None:
        for seed in SEEDS:
            stores.run(seed, "fifo", broken)

    with pytest.raises(Violation, match="states"):
        hunt()
