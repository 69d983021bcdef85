"""What is known of one stream, and that `check` sees when it cannot be."""

import pytest

from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.stream import Gaps, Held, Stream
from machines import S, packet


def broken_stream(next=0, lastseen=9, gmissing=(), missing=(), held=(), **more):
    stream = Stream(S)
    stream.next, stream.lastseen = next, lastseen
    stream.gaps = Gaps()
    stream.gaps.gmissing, stream.gaps.missing = IntervalSet(gmissing), IntervalSet(missing)
    for first, last in held:
        stream.gaps.hold(Held(first, last, packet(first, last)))
    for name, ranges in more.items():
        setattr(stream.gaps, name, IntervalSet(ranges))
    return stream


def test_a_new_stream_is_in_order_from_its_start():
    stream = Stream(S, start=5)
    stream.check()
    assert (stream.next, stream.lastseen) == (5, 4)
    assert stream.lacks(3, 7) == [(5, 7)], "nothing before t_join is lacking"


def test_what_is_lacking_comes_from_both_phases_in_order_and_from_beyond():
    stream = broken_stream(gmissing=[(0, 1), (6, 6)], missing=[(3, 3)], held=[(2, 2), (4, 5), (7, 9)])
    stream.check()
    assert stream.lacks(1, 12) == [(1, 1), (3, 3), (6, 6), (10, 12)]


def test_what_was_had_is_neither_lacking_nor_excused_nor_before_t_join():
    stream = broken_stream(next=4, gmissing=[(4, 4)], held=[(5, 9)])
    stream.start = 2
    stream.excused = IntervalSet([(3, 3), (7, 7)])
    assert stream.had(0, 12) == [(2, 2), (5, 6), (8, 9)]


def test_what_is_resolved_is_nowhere_lacking_any_more():
    gaps = broken_stream(gmissing=[(0, 2)], missing=[(3, 9)], asked=[(0, 9)], early=[(3, 9)], sealed=[(4, 9)]).gaps
    gaps.resolve(2, 5)
    left = [each.ranges() for each in (gaps.gmissing, gaps.missing, gaps.asked, gaps.early, gaps.sealed)]
    assert left == [((0, 1),), ((6, 9),), ((0, 1), (6, 9)), ((6, 9),), ((6, 9),)]


def test_what_is_held_is_held_in_order():
    gaps = Gaps()
    for first in (5, 1, 3):
        gaps.hold(Held(first, first, "void"))
    assert [held.first for held in gaps.held] == [1, 3, 5]


@pytest.mark.parametrize(
    ("complaint", "broken"),
    [
        ("in two places or in none", {"gmissing": [(0, 3)], "missing": [(3, 9)]}),
        ("in two places or in none", {"gmissing": [(0, 3)], "held": [(3, 9)]}),
        ("in two places or in none", {"gmissing": [(0, 3)], "held": [(5, 9)]}),
        ("lastseen=9", {"gmissing": [(0, 8)]}),
        ("no gap, yet not in order", {"held": [(0, 9)]}),
        ("asked for, awaited or sealed, but not missing", {"gmissing": [(0, 3)], "held": [(4, 9)], "asked": [(3, 4)]}),
        ("sealed, but not a logger's", {"gmissing": [(0, 9)], "sealed": [(1, 1)]}),
    ],
)
def test_check_tells_the_story_of_what_cannot_be(complaint, broken):
    with pytest.raises(AssertionError, match=complaint):
        broken_stream(**broken).check()


def test_without_gaps_everything_seen_is_delivered():
    stream = Stream(S)
    stream.lastseen = 3
    with pytest.raises(AssertionError, match="next=0 lastseen=3"):
        stream.check()
