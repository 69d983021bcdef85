"""The checkers of groups: runs that they let pass, and runs that differ by one event and that they do not."""

import pytest

from gossamer.lab.checkers import Violation
from gossamer.lab.groups import checkers
from gossamer.lab.groups.world import GROUP, Life, Sent, World
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.groups.effects import Deliver, View
from gossamer.protocol.groups.streams import event_of, stream_of


class Told(World):
    """A world in which lives are told rather than run."""

    def multicasts(self, name: str, key: str | None = None, after: tuple[EventId, ...] = ()) -> EventId:
        life = self.lives.setdefault(name, Life(name, None))
        id = EventId(stream_of(GROUP, name), len(life.sent))
        life.sent.append(id)
        self.sent[id] = Sent(Content(key=key), after, 0)
        return id

    def sees(self, name: str, *seen: EventId | View) -> None:
        life = self.lives.setdefault(name, Life(name, None))
        for each in seen:
            if isinstance(each, View):
                life.seen.append(each)
                life.view = each.number
            else:
                life.seen.append(Deliver(event_of(self.sent[each].content, *each)))
                life.state.append(each)


FIRST, SECOND, THIRD = View(0, ("a", "b")), View(1, ("a", "b", "x"), ("x",)), View(2, ("x",))


def test_a_latecomer_may_go_further_than_the_longest_sequence() -> None:
    world = Told()
    one, two, three, last = (world.multicasts("a") for _ in range(4))
    world.sees("a", FIRST, one, two, SECOND, three)
    world.sees("x", SECOND, three, THIRD, last)
    checkers.check_total_order(world, uniform=True)
    world.sees("y", SECOND, three, THIRD, world.multicasts("y"))
    with pytest.raises(Violation, match="total order"):
        checkers.check_total_order(world, uniform=True)


def test_a_latecomer_with_a_gap_is_caught() -> None:
    world = Told()
    one, two, three, last = (world.multicasts("a") for _ in range(4))
    world.sees("a", FIRST, one, SECOND, two, three)
    world.sees("x", SECOND, two, last)
    with pytest.raises(Violation, match="total order"):
        checkers.check_total_order(world, uniform=True)


def test_a_message_before_another_may_be_obsolete_and_its_successor_late() -> None:
    world = Told()
    before = world.multicasts("b", key="x")
    world.sees("a", world.multicasts("a", after=(before,)))
    with pytest.raises(Violation, match="causal order"):
        checkers.check_causal(world, settled=False)  # nothing obsoletes it
    newer = world.multicasts("b", key="x")
    checkers.check_causal(world, settled=False)
    with pytest.raises(Violation, match="causal order"):
        checkers.check_causal(world, settled=True)
    world.sees("a", newer)
    checkers.check_causal(world, settled=True)


def test_an_outsider_waits_only_if_no_founder_is_in() -> None:
    world = Told()
    world.sees("a", FIRST)
    world.multicasts("x")
    with pytest.raises(Violation, match="validity"):
        checkers.check_validity(world)
    world.lives["a"].out = "left"
    checkers.check_validity(world)


def test_a_member_of_a_protocol_without_views_delivers_its_own() -> None:
    world = Told()
    world.multicasts("a")
    with pytest.raises(Violation, match="validity"):
        checkers.check_validity(world)
