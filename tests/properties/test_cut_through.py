"""What is passed on before the node has taken it in is what the node then delivers, whatever came before."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages.ids import anonymous_stream
from gossamer.messages.packet import Hole, Packet
from gossamer.messages.wire import Data, GapNotice, Member, Position, Positions, Roster
from gossamer.protocol.config import Group
from gossamer.protocol.effects import Deliver
from gossamer.protocol.inputs import Abandon, Adopt, Close, Forward, Leave, Received, Wake
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.numbering import Numbering
from machines import node, packet

STREAMS = [anonymous_stream("default", "me-1", number) for number in range(2)]


def marked(stream: str, first: int) -> Packet:
    whole = packet(first, first + 2, stream=stream)
    return whole.thin([(first, whole.events()[2].id)])


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**32), loggers=st.sampled_from(["", "l"]), small=st.booleans(),
    groups=st.sampled_from(["", "default", "other"]),
)  # fmt: skip
def test_a_packet_that_may_be_passed_on_first_is_delivered_as_it_is(seed, loggers, small, groups):
    rng = random.Random(seed)
    options = {"send_buffer_bytes_max": 200} if small else {}
    if groups:
        options["groups"] = {groups: Group(backpressure=True)}
    me, _ = node(brokers="ab", loggers=loggers, **options)
    said = 0
    for step in range(60):
        now, stream = step * 0.05, rng.choice(STREAMS)
        seen = me.receiver.streams.get(stream)
        at = 0 if seen is None else seen.next
        near = max(0, at + rng.choice([0, 0, 0, 0, 0, -1, 1, 3]))
        match rng.randrange(12):
            case 0:
                given = Adopt(stream, near)
            case 1:
                given = Received("a", Data("a", packet(near, near + rng.randrange(3), stream=stream)))
            case 2:
                given = Received("a", Data("a", marked(stream, near)))
            case 3 if rng.random() < 0.3:
                given = rng.choice([Close(stream), Abandon(stream), Leave(), Received("a", GapNotice(stream, 1, near))])
            case 4:
                given = Wake()
            case 5 if loggers:
                record = me.membership.table.get("l")
                vector = (Position(stream, near),)
                given = Received("l", Positions(record.freshness, 0, 0, me.membership.table.root, vector))
            case 6 if rng.random() < 0.2:
                given = Received("a", Roster((), (Member("b", "left", 2),), False))
            case _:
                published = packet(near, near + rng.randrange(3), stream=stream)
                if rng.random() < 0.1:
                    published = marked(stream, near)
                first = me.cut_through.may(published)
                delivered = [each.packet for each in me.handle(Forward(published), now) if isinstance(each, Deliver)]
                if first:
                    said += 1
                    assert delivered, "it was passed on, and never taken in"
                    assert delivered[0] is published
                continue
        me.handle(given, now)
    if groups == "default":
        assert not said, "this group may have an order, or back-pressure"


def test_the_next_of_a_stream_is_passed_on_first_and_nothing_else():
    me, _ = node(brokers="a")
    stream = STREAMS[0]
    assert not me.cut_through.may(packet(0, stream=stream)), "nobody has adopted it"
    me.handle(Adopt(stream, 0), 0.0)
    assert not me.cut_through.may(packet(0, stream=stream)), "the first of a stream takes the long way"
    me.handle(Forward(packet(0, stream=stream)), 0.0)
    assert me.cut_through.may(packet(1, stream=stream))
    assert not me.cut_through.may(packet(0, stream=stream))
    assert not me.cut_through.may(packet(2, stream=stream))
    assert not me.cut_through.may(Packet(stream, 1, bytes(4), b"", (Hole(1, 1, 5),)))
    me.handle(Received("a", Data("a", packet(3, stream=stream))), 0.0)
    assert not me.cut_through.may(packet(1, stream=stream)), "there is a gap"


def test_back_pressure_in_one_group_does_not_take_another_the_long_way():
    me, _ = node(brokers="a", groups={"other": Group(backpressure=True)})
    other = anonymous_stream("other", "me-1", 0)
    for stream in (STREAMS[0], other):
        me.handle(Adopt(stream, 0), 0.0)
        me.handle(Forward(packet(0, stream=stream)), 0.0)
    assert me.cut_through.may(packet(1, stream=STREAMS[0]))
    assert not me.cut_through.may(packet(1, stream=other))


def test_a_stream_that_is_being_closed_or_has_numbers_takes_the_long_way():
    me, _ = node(brokers="a")
    stream, following = STREAMS[0], packet(1, stream=STREAMS[0])
    me.handle(Adopt(stream, 0), 0.0)
    me.handle(Forward(packet(0, stream=stream)), 0.0)
    seen, outgoing = me.receiver.streams[stream], me.sender.streams[stream]
    assert me.cut_through.may(following)
    seen.limit = 0
    assert not me.cut_through.may(following)
    seen.limit, seen.never = None, IntervalSet()
    assert not me.cut_through.may(following)
    seen.never, outgoing.numbers = None, Numbering(stream, "holder", 10)
    assert not me.cut_through.may(following)
