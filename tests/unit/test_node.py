"""A node as a whole: inputs in, effects out."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from gossamer.messages import codec
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, named_stream
from gossamer.messages.wire import (
    PACKETS_MAX,
    Beat,
    Collected,
    Data,
    Echo,
    Gone,
    Gossip,
    Idle,
    Join,
    Lacking,
    Member,
    Position,
    Positions,
    Repair,
    Request,
    Retire,
    Roster,
    Seek,
    Span,
    Sponsor,
)
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Acked, Deliver, Load, Persist, Refused, Send, Skip
from gossamer.protocol.inputs import (
    Close,
    Disconnect,
    Hold,
    Leave,
    Loaded,
    Open,
    Persisted,
    Publish,
    Received,
    Reconnect,
    Start,
    Wake,
)
from gossamer.protocol.node import Node
from machines import S, T, marked, node, only, packet, receive, records, sent

NAMED = named_stream("default", "trades")


def contents(count=1):
    return tuple(Content(attributes={"n": number}) for number in range(count))


def span(first, last, stream=S):
    return Span(stream, ((first, last),))


# Publishing ----------------------------------------------------------------------------------------------------------


def test_publishing_delivers_here_and_sends_to_everyone():
    me, _ = node(brokers="ab", loggers="L")
    deliver, send = me.handle(Publish(S, contents(2)), 0.0)
    assert deliver == Deliver(send.message.packet)
    assert send == Send(("a", "b", "L"), Data("me", deliver.packet))


@pytest.mark.parametrize("given", [Leave(), Disconnect()])
def test_who_is_not_a_member_takes_nothing(given):
    me, _ = node()
    me.handle(given, 0.0)
    (refused,) = me.handle(Publish(S, contents(2)), 0.0)
    assert (type(refused), refused.count) == (Refused, 2)


def test_a_named_publisher_does_not_live_on_a_logger():
    me, _ = node("L", logger=True)
    (refused,) = only(me.handle(Open(NAMED), 0.0), Refused)
    assert "logger" in refused.reason


def test_a_logger_acknowledges_what_it_publishes_itself_when_it_is_on_disk():
    me, _ = node("L", logger=True)
    (persist,) = only(me.handle(Publish(S, contents()), 0.0), Persist)
    assert only(me.handle(Persisted(persist.token), 0.0), Acked) == [Acked(S, 0, "logged")]


def test_a_stream_that_ends_is_announced():
    me, _ = node(brokers="a", loggers="L")
    me.handle(Publish(S, contents()), 0.0)
    assert sent(me.handle(Close(S), 0.0)) == []
    ack = Positions(1, 0, 0, me.membership.table.root, (Position(S, 0),))
    assert sent(receive(me, "L", ack), Idle) == [(("a", "L"), Idle((Beat(S, 0, True),)))]


def test_incarnations_are_numbered_from_1():
    with pytest.raises(UsageError, match="incarnation must be"):
        Node("me", Config(), random.Random(1), incarnation=0)


# Strategies of phase 1 -----------------------------------------------------------------------------------------------

MANY = [f"b{number}" for number in range(20)]


def test_gossip_pushes_to_fanout_members():
    me, _ = node(brokers=MANY, strategy="gossip", fanout=4, hops=6)
    ((to, data),) = sent(me.handle(Publish(S, contents()), 0.0))
    assert len(set(to)) == 4
    assert data.hops == 5


def test_gossip_is_relayed_on_first_receipt_and_only_then():
    me, _ = node(brokers=MANY, strategy="gossip", fanout=4)
    data = Data("b1", packet(0), 3)
    ((to, relayed),) = sent(receive(me, "b0", data))
    assert len(set(to)) == 4
    assert relayed == Data("b1", packet(0), 2)
    assert sent(receive(me, "b2", data)) == []


def test_gossip_is_relayed_neither_back_nor_to_where_it_came_from():
    me, _ = node(brokers="abc", strategy="gossip", fanout=4)
    ((to, _),) = sent(receive(me, "a", Data("b", packet(0), 3)))
    assert to == ("c",)


def test_only_what_was_new_is_relayed():
    me, _ = node(brokers=MANY, strategy="gossip")
    receive(me, "b0", Data("b0", packet(0, 1), 3))
    ((_, relayed),) = sent(receive(me, "b2", Data("b0", packet(0, 3), 3)))
    assert relayed.packet == packet(0, 3).cut(2, 3)


def test_the_last_hop_and_a_plain_multicast_are_not_relayed():
    me, _ = node(brokers=MANY, strategy="gossip")
    assert sent(receive(me, "b0", Data("b0", packet(0), 0))) == []


# Answering -----------------------------------------------------------------------------------------------------------


def test_what_is_at_hand_is_sent_and_what_was_had_is_said_to_be_collected():
    me, _ = node(brokers="ab", loggers="L", gclimit_rounds=1, positions_rounds=1000)
    receive(me, "a", Data("a", packet(0)))
    receive(me, "L", Positions(1, 0, 0, 0, (Position(S, 0),)))
    for now in (10.0, 20.0, 30.0):
        me.handle(Wake(), now)
    receive(me, "a", Data("a", packet(1)), 30.0)
    assert sent(receive(me, "b", Request((span(0, 2),)), 30.0)) == [
        (("b",), Repair((packet(1),))),
        (("b",), Collected((span(0, 0),))),
    ], "about a:2, which it lacks itself, it is silent"
    answers = sent(receive(me, "b", Gossip(7, (span(0, 2),), me.heartbeats.table.root, me.membership.table.root), 30.0))
    assert answers == [(("b",), Repair((packet(1),))), (("b",), Echo(7, (span(0, 0),)))]


def test_what_is_not_logged_yet_is_kept_however_old_it_is():
    me, _ = node(brokers="ab", loggers="L", gclimit_rounds=1)
    receive(me, "a", Data("a", packet(0)))
    for now in (10.0, 20.0, 30.0):
        me.handle(Wake(), now)
    assert sent(receive(me, "b", Request((span(0, 0),)), 30.0)) == [(("b",), Repair((packet(0),)))]


def test_what_was_excused_or_lies_before_t_join_was_never_had():
    me, _ = node(brokers="ab", wanted=lambda *_: False)
    me.receiver.begin((Position(T, 4),))
    receive(me, "a", Data("a", packet(2)))
    assert sent(receive(me, "b", Request((span(0, 1), span(0, 4, T))))) == []


def test_one_answer_is_bounded_in_bytes_and_in_packets():
    me, _ = node(brokers="ab", repair_bytes_max=1000)
    for seq in range(10):
        receive(me, "a", Data("a", packet(seq, body=bytes(400))))
    ((_, repair),) = sent(receive(me, "b", Request((span(0, 9),))))
    assert [each.first for each in repair.packets] == [0, 1, 2]
    me, _ = node(brokers="ab")
    for seq in range(PACKETS_MAX + 1):
        me.handle(Received("a", Data("a", packet(seq))), 0.0)
    ((_, repair),) = sent(receive(me, "b", Request((span(0, PACKETS_MAX),))), Repair)
    assert len(repair.packets) == PACKETS_MAX


def test_who_asks_for_a_retired_stream_is_told_that_it_is():
    me, _ = node(brokers="ab")
    receive(me, "a", Data("a", packet(0)))
    receive(me, "a", Retire((S,)))
    assert sent(receive(me, "b", Request((span(0, 0),)))) == [(("b",), Retire((S,)))]


def to_all(effects):
    """Who was sent repairs that are for more than the one who asked."""
    return [to for to, _ in sent(effects, Repair) if len(to) > 1]


def test_what_many_ask_for_within_a_round_is_sent_to_all_once():
    me, _ = node(brokers="abcd", remulticast_requesters=3)
    receive(me, "a", Data("a", packet(0)))
    again = [to_all(receive(me, sender, Request((span(0, 0),)))) for sender in "bbcda"]
    assert again == [[], [], [], [("a", "b", "c", "d")], []]


def test_each_round_counts_its_own_requesters():
    me, _ = node(brokers="abcd", remulticast_requesters=3)
    receive(me, "a", Data("a", packet(0)))
    asked = Request((span(0, 0),))
    assert [to_all(receive(me, sender, asked)) for sender in "bc"] == [[], []]
    me.handle(Wake(), 10.0)
    assert to_all(receive(me, "d", asked, 10.0)) == []


def test_sampling_can_be_switched_off():
    me, _ = node(brokers="abcd", remulticast_requesters=0)
    receive(me, "a", Data("a", packet(0)))
    assert not [sends for sender in "abcd" for sends in to_all(receive(me, sender, Request((span(0, 0),))))]


# Seeking -------------------------------------------------------------------------------------------------------------


def test_who_lacks_what_a_logger_seeks_says_so_and_takes_it_from_a_logger_only():
    me, _ = node(brokers="a", loggers="L")
    assert sent(receive(me, "L", Seek((span(0, 0),)))) == [(("L",), Lacking(me.membership.table.root, (span(0, 0),)))]
    assert only(receive(me, "a", Data("a", packet(0))), Deliver) == []
    assert only(receive(me, "a", Repair((packet(0),))), Deliver) == []
    assert only(receive(me, "L", Repair((packet(0),))), Deliver) == [Deliver(packet(0))]


def test_who_has_what_a_logger_seeks_supplies_it():
    me, _ = node(brokers="a", loggers="L")
    receive(me, "a", Data("a", packet(0)))
    assert sent(receive(me, "L", Seek((span(0, 1),)))) == [
        (("L",), Repair((packet(0),))),
        (("L",), Lacking(me.membership.table.root, (span(1, 1),))),
    ]


def test_a_mark_of_which_the_rest_is_not_at_hand_is_sent_and_supplies_nothing():
    """Who seeks may have the rest. If nobody has, what a void event was to make up for could never be closed."""
    me, _ = node(brokers="a", loggers="L")
    receive(me, "L", Repair((marked(0, 0, EventId(S, 5), final=False), packet(5))))
    me.buffer.forget(S)
    me.buffer.add(marked(0, 0, 5), 0)
    assert sent(receive(me, "L", Seek((span(0, 0),)))) == [
        (("L",), Lacking(me.membership.table.root, (), (span(0, 0),), True, (marked(0, 0, 5),))),
    ]
    me.buffer.add(packet(5), 0)
    assert sent(receive(me, "L", Seek((span(0, 0),)))) == [(("L",), Repair((marked(0, 0, 5),)))]


def test_a_broker_may_not_seek_where_there_are_loggers():
    me, _ = node(brokers="a", loggers="L")
    assert receive(me, "a", Seek((span(0, 0),))) == []


def test_a_logger_reads_at_once_all_that_is_sought():
    """It reads once for each who asks, so of several questions it would answer the first, and always the same one."""
    me, _ = node("L", brokers="a", loggers="K", logger=True)
    for stream in (S, T):
        for each in only(receive(me, "a", Data("a", packet(0, 9, stream=stream))), Persist):
            me.handle(Persisted(each.token), 0.0)
        me.buffer.forget(stream)
    effects = receive(me, "K", Seek((span(0, 3), span(0, 3, T))))
    assert [load.spans for load in only(effects, Load)] == [(span(0, 3), span(0, 3, T))]
    assert sent(effects) == []


def test_of_several_streams_that_are_sought_each_is_asked_for_first_in_its_turn():
    """Who is asked for more than it may answer answers what comes first."""
    me, _ = node("L", brokers="a", logger=True, seek_after_rounds=1, round_interval_max_s=0.25)
    receive(me, "a", Repair((packet(1), packet(1, stream=T))))
    asked = [each for number in range(1, 40) for each in sent(me.handle(Wake(), 1.0 * number), Seek)]
    assert {message.lacks[0].stream for _, message in asked} == {S, T}


def seeking_logger(brokers="ab"):
    """A logger that lacks a:0 for long, and does not know of anybody who publishes that stream."""
    me, _ = node("L", brokers=brokers, logger=True, seek_after_rounds=1, round_interval_max_s=0.25)
    receive(me, "a", Repair((packet(1),)))
    asked = []
    for number in range(1, 5):
        asked += sent(me.handle(Wake(), 1.0 * number), Seek)
    assert {to for to, _ in asked} == {(name,) for name in brokers}
    return me


def test_a_hole_is_closed_when_everyone_lacks_it_and_told_when_that_is_on_disk():
    me = seeking_logger()
    assert receive(me, "a", Lacking(me.membership.table.root, (span(0, 0),)), 5.0) == []
    effects = receive(me, "b", Lacking(me.membership.table.root, (span(0, 0),)), 5.0)
    assert only(effects, Skip, Deliver) == [Skip(S, 0, 0, "void"), Deliver(packet(1))]
    assert sent(effects) == []
    (persist,) = only(effects, Persist)
    gone = sent(me.handle(Persisted(persist.token), 5.0))[-1]
    assert gone[0] == ("a", "b")
    assert gone[1].void


def test_a_member_that_does_not_answer_holds_the_hole_open_and_an_expelled_one_does_not():
    me = seeking_logger()
    assert receive(me, "a", Lacking(me.membership.table.root, (span(0, 0),)), 5.0) == []
    me.membership.expel("b")
    effects = [effect for number in range(6, 8) for effect in me.handle(Wake(), 1.0 * number)]
    assert only(effects, Skip) == [Skip(S, 0, 0, "void")]


def told_of_a_mark():
    """A logger that seeks a:0, which a had as a mark for b:0 and nobody has; b:0 is missing as well."""
    me = seeking_logger()
    receive(me, "b", Data("b", packet(1, stream=T)), 5.0)
    receive(me, "a", Lacking(me.membership.table.root, (), (span(0, 0),), True, (marked(0, 0, EventId(T, 0)),)), 5.0)
    return me, receive(me, "b", Lacking(me.membership.table.root, (span(0, 0),)), 5.0)


def test_what_was_purged_for_something_that_may_come_is_not_given_up_but_obsolete():
    me, effects = told_of_a_mark()
    assert only(effects, Skip, Deliver) == []
    effects = receive(me, "b", Repair((packet(0, stream=T),)), 6.0)
    assert Deliver(marked(0, 0, EventId(T, 0))) in effects
    assert only(effects, Skip) == []


def test_what_was_purged_for_something_that_never_comes_is_given_up():
    me, _ = told_of_a_mark()
    me.closing.on_agreed(me.receiver.streams[T], 0, 0, False)
    effects = [effect for number in range(6, 9) for effect in me.handle(Wake(), 1.0 * number)]
    assert Skip(S, 0, 0, "collected") in effects


def test_a_new_life_has_to_answer_for_itself():
    me = seeking_logger()
    receive(me, "a", Lacking(me.membership.table.root, (span(0, 0),)), 5.0)
    me.membership.merge(Member("a", "member", 2))
    assert only(receive(me, "b", Lacking(me.membership.table.root, (span(0, 0),)), 5.0), Skip) == []


def test_while_the_publisher_lives_everyone_is_asked_and_nobody_has_to_seal():
    me, _ = node("L", brokers="ab", logger=True, seek_after_rounds=1, round_interval_max_s=0.25)
    receive(me, "a", Data("a", packet(1)))
    asked = [each for number in range(1, 12) for each in sent(me.handle(Wake(), 1.0 * number), Seek)]
    assert {(to, message.seal) for to, message in asked} == {(("a",), False), (("b",), False)}
    for name in "ab":  # they lack it now, and may get it yet
        unsealed = Lacking(me.membership.table.root, (span(0, 0),), (), False)
        assert only(receive(me, name, unsealed, 12.0), Skip) == []
    other, _ = node(brokers="a", loggers="L")
    receive(other, "a", Data("a", packet(1)))
    answer = sent(receive(other, "L", Seek((span(0, 0),), False)), Lacking)
    assert answer == [(("L",), Lacking(other.membership.table.root, (span(0, 0),), (), False))]
    assert only(receive(other, "a", Data("a", packet(0))), Deliver) == [Deliver(packet(0)), Deliver(packet(1))]


def test_what_a_living_publisher_has_let_go_of_can_be_closed():
    me, _ = node("L", brokers="ab", logger=True, seek_after_rounds=1, round_interval_max_s=0.25)
    receive(me, "a", Data("a", packet(2)))
    for number in range(1, 12):
        me.handle(Wake(), 1.0 * number)
    root = me.membership.table.root
    receive(me, "b", Lacking(root, (), (span(0, 1),), False), 12.0)
    asked = [each for number in range(13, 25) for each in sent(me.handle(Wake(), 1.0 * number), Seek)]
    assert all(not message.seal for _, message in asked), "who is not its publisher has no say in it"
    receive(me, "a", Lacking(root, (), (span(0, 1),), False), 25.0)
    asked = [each for number in range(26, 29) for each in sent(me.handle(Wake(), 1.0 * number), Seek)]
    assert {(to, message.seal) for to, message in asked} == {(("a",), True), (("b",), True)}
    receive(me, "a", Lacking(root, (), (span(0, 1),)), 30.0)
    effects = receive(me, "b", Lacking(root, (span(0, 1),)), 30.0)
    assert only(effects, Skip, Deliver) == [Skip(S, 0, 1, "collected"), Deliver(packet(2))]


def test_what_was_collected_can_be_closed_though_its_publisher_may_be_back_with_a_spool():
    me, _ = node("L", brokers="ab", logger=True, seek_after_rounds=1, round_interval_max_s=0.25)
    receive(me, "a", Repair((packet(4, stream=NAMED),)))

    def seals(first, last):
        rounds = range(first, last)
        return [message.seal for number in rounds for _, message in sent(me.handle(Wake(), 1.0 * number), Seek)]

    assert not any(seals(1, 12))
    receive(me, "b", Gone((span(0, 3, NAMED),), False, collected=False), 12.0)
    assert not any(seals(13, 25)), "that it does not keep them says nothing of who had them"
    receive(me, "b", Gone((span(2, 3, NAMED),), False), 25.0)
    assert not any(seals(26, 38)), "what is before them may be in the spool"
    receive(me, "b", Gone((span(0, 1, NAMED),), False), 38.0)  # it was a logger once
    assert any(seals(39, 42))
    root = me.membership.table.root
    assert only(receive(me, "b", Lacking(root, (), (span(0, 1, NAMED),)), 43.0), Skip) == [], "a may have it"
    effects = receive(me, "a", Lacking(root, (span(0, 1, NAMED),)), 43.0)
    assert only(effects, Skip) == [Skip(NAMED, 0, 1, "collected")]


def test_without_loggers_what_nobody_has_is_lost():
    me, _ = node(brokers="ab", seek_after_rounds=1)
    receive(me, "a", Data("a", packet(1)))
    for number in range(1, 5):
        me.handle(Wake(), 1.0 * number)
    receive(me, "a", Lacking(me.membership.table.root, (span(0, 0),)), 5.0)
    assert receive(me, "b", Lacking(me.membership.table.root, (span(0, 0),)), 5.0) == [
        Skip(S, 0, 0, "lost"),
        Deliver(packet(1)),
    ]


# The rate of rounds --------------------------------------------------------------------------------------------------


def rounds(me, start, until):
    """The times of gossip rounds; somebody answers each, and confirms what it is told."""
    times = []
    now = start
    while (now := me.next_deadline()) < until:
        effects = me.handle(Wake(), now)
        for (to,), message in sent(effects, Gossip):
            times.append(now)
            me.handle(Received(to, Echo(message.round)), now)
        for (to,), message in sent(effects, Positions):
            root = me.membership.table.root
            me.handle(Received(to, Positions(1, 0, message.version, root, ())), now)
    return times


def test_rounds_slow_down_while_there_is_nothing_to_do_and_a_gap_hurries_them():
    me, _ = node(brokers="a", round_interval_s=0.25, round_interval_max_s=4.0)
    times = rounds(me, 0.0, 60.0)
    pauses = [round(after - before, 3) for before, after in pairwise(times)]
    assert pauses[0] <= 0.5
    assert pauses == sorted(pauses)
    assert pauses[-1] == 4.0
    receive(me, "a", Data("a", packet(1)), 60.0)
    me.handle(Wake(), 60.01)
    assert me.next_deadline() <= 60.0 + 0.25, "the grace is over, and the next round is near"
    me.handle(Received("a", Data("a", packet(0))), 60.0)
    again = rounds(me, 60.0, 120.0)
    assert round(again[-1] - again[-2], 3) == 4.0


def test_a_signature_that_differs_keeps_rounds_fast():
    me, _ = node(brokers="a", round_interval_s=0.25, round_interval_max_s=4.0)
    rounds(me, 0.0, 60.0)
    me.handle(Received("a", Gossip(1, (), 12345, me.membership.table.root)), 60.0)
    times = rounds(me, 60.0, 65.0)
    assert round(times[1] - times[0], 3) == 0.25


def test_who_is_outside_or_disconnected_is_never_due_and_hears_nothing():
    me, _ = node(brokers="a", sponsors=1)
    me.handle(Disconnect(), 0.0)
    receive(me, "a", Sponsor(2, records("a"), ()))
    assert me.next_deadline() == float("inf")
    assert me.handle(Wake(), 5.0) == []
    assert receive(me, "a", Data("a", packet(0))) == []
    me.handle(Reconnect(), 9.0)
    assert me.next_deadline() <= 9.25


# Peers that say anything ---------------------------------------------------------------------------------------------


def a_logger_with_a_past():
    me, _ = node("L", brokers="ab", loggers="K", logger=True)
    receive(me, "a", Data("a", packet(0, 3)))
    receive(me, "a", Data("a", packet(6, 7)))
    return me


def a_broker_with_a_past():
    me, _ = node("me", brokers="ab", loggers="KL")
    receive(me, "a", Data("a", packet(0, 3)))
    receive(me, "a", Data("a", packet(6, 7)))
    me.handle(Open(NAMED), 0.0)
    me.handle(Publish(T, contents(3)), 0.0)
    return me


def a_joiner():
    me = Node("me", Config(), random.Random(1), peers=("a", "L"))
    me.handle(Start(), 0.0)
    return me


def a_mesh_without_loggers():
    me, _ = node("me", brokers="abc")
    receive(me, "a", Data("a", packet(1, 2)))
    return me


def a_leaver():
    me, _ = node("me", brokers="ab", loggers="L")
    me.handle(Leave(), 0.0)
    return me


PASTS = [a_logger_with_a_past, a_broker_with_a_past, a_joiner, a_mesh_without_loggers, a_leaver]
SENDERS = st.sampled_from(["a", "b", "K", "L", "me", "stranger"])
STREAMS = st.sampled_from([S, T, NAMED, "default/x"])
SEQS = st.sampled_from([0, 1, 2, 3, 5, 8, 2**63 - 1])
STATUSES = st.sampled_from(["member", "left", "disconnected"])


def _spans(kind, one, other, name):
    spans = (span(min(one, other), max(one, other), name),)
    return kind(0, spans, spans) if kind is Lacking else kind(spans)


def _packets(kind, first, count, name):
    found = packet(first, first + count, stream=name)
    return Repair((found,)) if kind is Repair else Data("b", found, kind)


NEAR = st.one_of(
    st.builds(_packets, st.sampled_from([0, 2, Repair]), st.integers(0, 9), st.integers(0, 3), STREAMS),
    st.builds(_spans, st.sampled_from([Request, Collected, Seek, Lacking]), SEQS, SEQS, STREAMS),
    st.builds(lambda name, last, ended: Idle((Beat(name, last, ended),)), STREAMS, SEQS, st.booleans()),
    st.builds(lambda name: Retire((name,)), STREAMS),
    st.builds(lambda name, status, freshness: Join(Member(name, status, freshness)), SENDERS, STATUSES, SEQS),
    st.builds(
        lambda name, status, freshness: Roster((), (Member(name, status, freshness),), True), SENDERS, STATUSES, SEQS
    ),
)
"""Messages about what the node has to do with; the others are drawn from all that the codec lets through."""


@settings(max_examples=300)
@given(
    st.sampled_from(PASTS),
    st.lists(st.tuples(SENDERS, NEAR | strategies.messages(), st.sampled_from([0.0, 0.02, 1.0, 5.0])), max_size=12),
)
def test_whatever_a_peer_says_a_node_goes_on_and_says_nothing_malformed(past, said):
    me, now = past(), 0.0
    for sender, message, pause in said:
        now += pause
        effects = me.handle(Received(sender, message), now)
        while effects:
            me.check()
            more = []
            for effect in effects:
                if isinstance(effect, Send):
                    codec.decode(codec.encode(effect.message))
                elif isinstance(effect, Persist):
                    more += me.handle(Persisted(effect.token), now)
                elif isinstance(effect, Load):
                    more += me.handle(Loaded(effect.token, ()), now)
            effects = more
        if me.next_deadline() <= now:
            for effect in me.handle(Wake(), now):
                if isinstance(effect, Send):
                    codec.decode(codec.encode(effect.message))
            me.check()


@given(st.lists(st.tuples(SENDERS, NEAR, st.sampled_from([0.0, 0.02, 1.0])), max_size=12))
def test_whatever_a_peer_says_nothing_is_delivered_twice(said):
    me, now, seen = a_broker_with_a_past(), 0.0, Counter()
    for sender, message, pause in said:
        now += pause
        for effect in me.handle(Received(sender, message), now) + me.handle(Wake(), now):
            if isinstance(effect, Deliver):
                seen.update(event.id for event in effect.packet.events())
    assert not [event for event, times in seen.items() if times > 1]


def test_what_somebody_still_reads_from_a_logger_is_not_acknowledged():
    me, _ = node(brokers="a", loggers="L", positions_rounds=1)
    receive(me, "a", Data("a", packet(0, 9)))
    me.handle(Hold({S: 3}), 0.0)

    def told():
        effects = me.handle(Wake(), me.next_deadline())
        return [position for _, message in sent(effects, Positions) for position in message.vector]

    assert told()[-1] == Position(S, 3)
    me.handle(Hold({S: 6}), 0.0)
    assert told()[-1] == Position(S, 6)
    me.handle(Hold({}), 0.0)
    assert told()[-1] == Position(S, 9)
