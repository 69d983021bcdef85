"""What of a log goes to who reads it: what matches, as it was published, and the heads of what may obsolete that."""

import pytest

from gossamer.lab.storage import Storage
from gossamer.matching import Selector
from gossamer.matching.stretching import KEYED, LOOSE, RELATED, scan, stretches
from gossamer.messages.event import Content, Relation
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Read, Span

S, T = "default/~a-1.0", "default/~a-1.1"


def quotes(first: int, *prices: int, stream: str = S, key: str | None = None) -> Packet:
    return pack(stream, first, [Content(key, time_ns=price, attributes={"price": price}) for price in prices])


def test_packets_that_follow_each_other_are_one_stretch():
    rows = [(1, quotes(0, 1, 2)), (2, quotes(2, 3)), (3, quotes(0, 9, stream=T)), (4, quotes(3, 4))]
    found, spoilt = stretches(rows)
    assert [(each.number, each.stream, each.first, each.last, each.ranges) for each in found] == [
        (2, S, 0, 2, ((0, 2),)),
        (3, T, 0, 0, ((0, 0),)),
        (4, S, 3, 3, ((3, 3),)),
    ]
    assert found[0].blob == quotes(0, 1, 2, 3).blob
    assert not spoilt


def test_what_does_not_match_is_left_out_but_for_what_it_may_obsolete():
    prices = (101, 99, 98, 180, 7)
    (loose,), _ = stretches([(1, quotes(0, *prices))], Selector("price > 100"))
    assert (loose.kind, loose.ranges, loose.heads, loose.last) == (LOOSE, ((0, 0), (3, 3)), (), 4)
    assert [event.attributes["price"] for event in loose.events()] == [101, 180]
    (keyed,), _ = stretches([(1, quotes(0, *prices, key="IBM"))], Selector("price > 100"))
    assert (keyed.kind, [(seq, head.key) for seq, head in keyed.heads]) == (KEYED, [(1, "IBM"), (2, "IBM"), (4, "IBM")])
    namer = pack(S, 5, [Content(relation=Relation(ids=(EventId(T, 1),)), attributes={"price": 1})])
    (both,), _ = stretches([(1, quotes(0, *prices)), (2, namer)], Selector("price > 100"))
    assert (both.kind, [seq for seq, _ in both.heads]) == (RELATED, [5])


def test_what_was_published_too_early_is_not_even_a_shadow():
    (found,), _ = stretches([(1, quotes(0, 101, 102, 103, key="IBM"))], Selector("price <> 103"), published_ns=102)
    assert (found.ranges, [seq for seq, _ in found.heads]) == (((1, 1),), [2])


def test_holes_are_passed_on():
    packet = quotes(0, 1, 2, 3, 4).thin([(1, EventId(S, 2))])
    (found,), _ = stretches([(1, packet)], Selector("price < 4"))
    assert (found.ranges, [(hole.first, hole.by) for hole in found.holes]) == (((0, 0), (2, 2)), [(1, 2)])
    assert [event.attributes["price"] for event in found.events()] == [1, 3]


@pytest.mark.parametrize("selector", [None, Selector("price > 0")])
def test_what_nobody_can_read_is_told_and_in_nobodys_way(selector):
    broken = Packet(S, 2, (3).to_bytes(4, "little"), b"\xc1\xc1\xc1")
    found, spoilt = stretches([(1, quotes(0, 1, 2)), (2, broken), (3, quotes(3, 4))], selector)
    assert [(each.first, each.last) for each in found] == [(0, 1), (3, 3)]
    assert spoilt == [Span(S, ((2, 2),))]


def test_a_stretch_is_cut_where_one_likes():
    (found,), _ = stretches([(1, quotes(0, *range(95, 110), key="IBM"))], Selector("price > 100 AND price <> 105"))
    for cut in range(14):
        parts = [found.upto(cut), found.beyond(cut)]
        assert [event.id for part in parts for event in part.events()] == [event.id for event in found.events()]
        assert tuple(head for part in parts for head in part.heads) == found.heads
    first, rest = found.split(3)
    assert [event.attributes["price"] for event in first.events()] == [101, 102, 103]
    assert (first.last + 1, rest.last) == (rest.first, found.last)


def test_a_selector_that_makes_no_sense_is_refused():
    storage = Storage()
    storage.apply([quotes(0, 1)])

    page = scan(storage, Read(1, "default", ("price >",)), ())
    assert page.refusal
    assert not page.stretches
