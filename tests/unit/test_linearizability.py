"""The checker tells histories that could have been one after the other from those that could not."""

from gossamer.lab.groups.linearizability import Operation as Op
from gossamer.lab.groups.linearizability import linearizable


def test_one_after_the_other() -> None:
    assert linearizable([Op("write", "x", 1, 0, 1), Op("read", "x", 1, 2, 3)])
    assert not linearizable([Op("write", "x", 1, 0, 1), Op("read", "x", None, 2, 3)])


def test_what_overlaps_may_be_in_either_order() -> None:
    write = Op("write", "x", 1, 0, 10)
    assert linearizable([write, Op("read", "x", None, 1, 2), Op("read", "x", 1, 3, 4)])
    assert not linearizable([write, Op("read", "x", 1, 1, 2), Op("read", "x", None, 3, 4)])  # not back again


def test_what_never_returned_may_have_happened_or_not() -> None:
    write = Op("write", "x", 1, 0)
    assert linearizable([write, Op("read", "x", None, 5, 6)])
    assert linearizable([write, Op("read", "x", 1, 5, 6)])
    assert not linearizable([write, Op("read", "x", 1, 5, 6), Op("read", "x", None, 7, 8)])


def test_keys_are_apart_and_a_write_is_not_lost() -> None:
    assert linearizable([Op("write", "x", 1, 0, 1), Op("read", "y", None, 2, 3)])
    two = [Op("write", "x", 1, 0, 1), Op("write", "x", 2, 2, 3)]
    assert linearizable([*two, Op("read", "x", 2, 4, 5)])
    assert not linearizable([*two, Op("read", "x", 1, 4, 5)])
