"""Rules map copies to copies."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.lab.faults import BurstLoss, Delay, DropIf, Duplicate, Isolate, Loss, Only, Partition, Sending, picked
from gossamer.lab.plain import PlainNode
from gossamer.lab.world import World
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Busy, Recover

MANY = [(f"n{number}", 0.0) for number in range(10_000)]


def sending(sender="a", message=None, now_s=0.0, seed=1):
    return Sending(now_s, sender, message or Busy(), random.Random(seed))


def names(copies):
    return "".join(name for name, _ in copies)


def copies(text):
    return [(name, 0.0) for name in text]


@given(st.floats(0, 1), st.integers(0, 200), st.integers(0, 2**32))
def test_picked_places_ascend_and_are_in_range(p, count, seed):
    places = picked(p, count, random.Random(seed))
    assert places == sorted(set(places))
    assert all(0 <= place < count for place in places)


@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_loss_loses_its_share(p):
    kept = Loss(p)(sending(), list(MANY))
    assert 1 - len(kept) / len(MANY) == pytest.approx(p, abs=0.02)


def test_every_place_is_lost_equally_often():
    rng = random.Random(2)
    times = [0] * 10
    for _ in range(20_000):
        for place in picked(0.1, 10, rng):
            times[place] += 1
    assert all(1_800 < count < 2_200 for count in times)


def test_bursts_come_in_runs_of_the_mean_length():
    rule, rng = BurstLoss(enter=0.01, leave=0.2), random.Random(3)
    fates = [bool(rule(Sending(0.0, "a", Busy(), rng), [("b", 0.0)])) for _ in range(100_000)]
    bursts = sum(before and not after for before, after in pairwise(fates))
    assert fates.count(False) / bursts == pytest.approx(1 / 0.2, rel=0.1)
    assert fates.count(False) / len(fates) == pytest.approx(0.01 / 0.21, rel=0.2)


def test_duplicates_come_later():
    twice = Duplicate(1.0)(sending(), copies("bc"))
    assert names(twice) == "bcbc"
    assert all(late_s > 0 for _, late_s in twice[2:])


def test_delay_is_exponential():
    late = [late_s for _, late_s in Delay(exp_ms=20)(sending(), list(MANY))]
    assert sum(late) / len(late) == pytest.approx(0.020, rel=0.05)


def test_a_partition_parts_its_sides_while_it_lasts():
    rule = Partition("ab", "cd", start_s=1.0, stop_s=2.0)
    assert names(rule(sending("a", now_s=0.5), copies("bcdx"))) == "bcdx"
    assert names(rule(sending("a", now_s=1.0), copies("bcdx"))) == "bx"
    assert names(rule(sending("x", now_s=1.5), copies("abcd"))) == "abcd"
    assert names(rule(sending("a", now_s=2.0), copies("bcdx"))) == "bcdx"


def test_who_is_isolated_neither_speaks_nor_hears():
    rule = Isolate("c")
    assert names(rule(sending("a"), copies("bc"))) == "b"
    assert names(rule(sending("c"), copies("ab"))) == ""


def test_drop_if_drops_what_is_picked_so_many_times():
    rule = DropIf(lambda sender, to, message: (sender, to) == ("a", "b") and isinstance(message, Busy), times=1)
    assert names(rule(sending("a", Recover(())), copies("bc"))) == "bc"
    assert names(rule(sending("a"), copies("bc"))) == "c"
    assert names(rule(sending("a"), copies("bc"))) == "bc"


def test_only_narrows_another_rule():
    rule = Only(Loss(1.0), lambda _sender, to, _message: to in "cd")
    assert names(rule(sending(), copies("bcde"))) == "be"


def test_a_probability_is_one():
    for rule in (lambda: Loss(1.5), lambda: Duplicate(-0.1), lambda: BurstLoss(0.1, 2.0)):
        with pytest.raises(UsageError, match="between 0 and 1"):
            rule()


def test_rules_come_and_go_while_the_world_runs():
    world = World(node_factory=PlainNode)
    for place, name in enumerate("abc"):
        world.add(name, peers=tuple("abc"[:place]))
    world.run(1.0)
    cut = Isolate("c")
    world.add_rule(cut)
    world.add_rule(Loss(0.0))
    world.run(5.0)
    lost = world.network.lost
    assert lost > 0
    world.remove_rule(cut)
    world.run(10.0)
    assert world.network.lost == lost
    world.heal()
    assert world.network.rules == []
