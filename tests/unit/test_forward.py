"""Streams that clients number themselves: forwarded once, kept until logged, moved, ended when nobody's."""

from gossamer.messages.ids import named_stream
from gossamer.messages.wire import (
    Abandoned,
    Beat,
    Data,
    Idle,
    Member,
    Ownership,
    Position,
    Positions,
    Repair,
    Roster,
    WhoOwns,
)
from gossamer.protocol.effects import Acked, Deliver, Refused
from gossamer.protocol.inputs import Abandon, Adopt, Close, Forward, Leave, Wake
from machines import S, node, only, packet, receive, sent


def adopted(following=0, **options):
    me, _ = node(brokers="", loggers="l", **options)
    assert me.handle(Adopt(S, following), 0.0) == []
    return me


def positions(me, last):
    record = me.membership.table.get("l")
    return Positions(record.freshness, 0, 0, me.membership.table.root, (Position(S, last),))


def test_a_packet_is_delivered_sent_to_the_others_and_kept_until_logged():
    me = adopted()
    effects = me.handle(Forward(packet(0, 3)), 1.0)
    assert only(effects, Deliver) == [Deliver(packet(0, 3))]
    assert sent(effects, Data) == [(("l",), Data("me", packet(0, 3)))]
    assert me.sender.find(S, 0, 3) == [packet(0, 3)]
    assert only(receive(me, "l", positions(me, 3)), Acked) == [Acked(S, 3, "logged")]
    assert me.sender.bytes == 0


def test_what_is_sent_again_doubles_nothing():
    me = adopted()
    me.handle(Forward(packet(0, 3)), 1.0)
    assert me.handle(Forward(packet(0, 3)), 1.0) == []
    effects = me.handle(Forward(packet(2, 5)), 1.0)
    assert only(effects, Deliver) == [Deliver(packet(4, 5))]


def test_what_comes_behind_one_that_was_refused_is_out_of_turn():
    me = adopted(send_buffer_bytes_max=1)
    assert only(me.handle(Forward(packet(0)), 1.0), Deliver)
    (refused,) = me.handle(Forward(packet(1)), 1.0)
    assert (refused.stream, refused.count, "full" in refused.reason) == (S, 1, True)
    receive(me, "l", positions(me, 0))
    (refused,) = me.handle(Forward(packet(2)), 1.0)
    assert "out of turn: 1 comes next" in refused.reason
    assert only(me.handle(Forward(packet(1)), 1.0), Deliver)


def test_a_client_that_moves_goes_on_where_it_was_and_what_it_sends_again_is_known_by_its_number():
    me = adopted(following=2)
    receive(me, "b", Data("b", packet(0, 3)))  # what its old broker had sent on
    effects = me.handle(Forward(packet(2, 4)), 1.0)
    assert only(effects, Deliver) == [Deliver(packet(4))]
    assert me.sender.find(S, 2, 4) == [packet(2, 4)]


def test_only_an_adopted_stream_is_forwarded_and_a_named_one_cannot_be():
    me, _ = node()
    assert only(me.handle(Forward(packet(0)), 1.0), Refused)
    assert only(me.handle(Adopt(named_stream("default", "feed"), 0), 1.0), Refused)
    assert not me.sender.streams


def test_alone_and_without_loggers_nobodys_word_is_needed():
    me, _ = node(brokers="")
    me.handle(Adopt(S, 0), 0.0)
    assert only(me.handle(Forward(packet(0, 1)), 1.0), Acked) == [Acked(S, 1, "safe")]


def test_what_was_safe_before_there_was_a_logger_is_acknowledged_again_when_it_is_logged():
    me, _ = node(brokers="")
    me.handle(Adopt(S, 0), 0.0)
    assert only(me.handle(Forward(packet(0, 1)), 1.0), Acked) == [Acked(S, 1, "safe")]
    receive(me, "l", Roster((), (Member("l", "member", 1, True),), False), 2.0)
    assert only(receive(me, "l", positions(me, 0), 2.0), Acked) == []
    assert only(receive(me, "l", positions(me, 1), 2.0), Acked) == [Acked(S, 1, "logged")]
    assert only(receive(me, "l", positions(me, 1), 2.0), Acked) == []


def test_an_abandoned_stream_is_let_go_once_it_is_logged_and_the_others_are_told():
    me = adopted()
    me.handle(Forward(packet(0)), 1.0)
    assert me.handle(Abandon(S), 1.0) == []
    receive(me, "l", positions(me, 0))
    assert sent(me.handle(Abandon(S), 1.0), Abandoned) == [(("l",), Abandoned((S,)))]
    assert S not in me.sender.streams
    assert me.handle(Adopt(S, 1), 2.0) == []  # it came back after all
    assert only(me.handle(Forward(packet(1)), 2.0), Deliver)


def test_the_leader_asks_whose_an_abandoned_stream_is():
    leader, _ = node("a", brokers="bc", round_interval_s=0.1)
    receive(leader, "b", Data("b", packet(0)))
    for name in "bc":
        leader.orphans.on_ownership(name, Ownership(leader.membership.table.root, 1, False, (S,), ()))
    assert not leader.orphans
    receive(leader, "b", Abandoned((S,)))
    asked = []
    for now in range(1, 20):
        asked += sent(leader.handle(Wake(), float(now)), WhoOwns)
    assert {to for (to,), message in asked if S in message.streams} == {"b", "c"}
    receive(leader, "c", Ownership(leader.membership.table.root, 1, False, (S,), ()), 20.0)
    assert not leader.orphans


def test_a_new_life_has_not_said_how_far_it_knows_an_orphaned_stream():
    leader, _ = node("a", brokers="bc", round_interval_s=0.1)
    receive(leader, "b", Data("b", packet(0)))
    receive(leader, "b", Abandoned((S,)))

    def answer(name, closing, freshness=1):
        others = (Position(S, 0),)
        receive(leader, name, Ownership(leader.membership.table.root, freshness, closing, (), others), 1.0)

    def ended(first, last):
        effects = [each for now in range(first, last) for each in leader.handle(Wake(), float(now))]
        return [beat for _, message in sent(effects, Idle) for beat in message.beats]

    for name in "bc":
        answer(name, False)
    assert ended(2, 4) == []
    answer("c", True)
    receive(leader, "c", Roster((), (Member("c", "member", 2),), False), 4.0)
    answer("b", True)
    assert ended(5, 15) == [], "c takes whatever comes to it"
    answer("c", True, 2)
    assert ended(15, 20) == [Beat(S, 0, True)]


def test_a_closed_stream_ends_and_is_not_adopted_again():
    me = adopted()
    me.handle(Forward(packet(0)), 1.0)
    receive(me, "l", positions(me, 0))
    me.handle(Close(S), 2.0)
    assert only(me.handle(Adopt(S, 1), 3.0), Refused)


def test_a_node_that_leaves_does_not_end_what_a_client_may_go_on_with_elsewhere():
    me, _ = node(brokers="b")
    me.handle(Adopt(S, 0), 0.0)
    me.handle(Forward(packet(0)), 1.0)
    record = me.membership.table.get("b")
    receive(me, "b", Positions(record.freshness, 0, 0, me.membership.table.root, (Position(S, 0),)))
    effects = me.handle(Leave(), 2.0)
    assert sent(effects, Abandoned) == [(("b",), Abandoned((S,)))]
    assert sent(effects, Idle) == []


def test_a_straggler_does_not_turn_the_question_back_to_who_has_answered():
    """Its node has said that the stream is not its own; a packet of its last life, come late, says otherwise."""
    leader, _ = node("L", brokers="ab", logger=True, round_interval_max_s=0.25)
    receive(leader, "b", Repair((packet(0),)))
    not_mine = (Position(S, 0),)
    receive(leader, "a", Ownership(leader.membership.table.root, 1, False, (), not_mine))
    receive(leader, "b", Data("a", packet(1)))
    asked = [to for now in range(1, 9) for to, _ in sent(leader.handle(Wake(), float(now)), WhoOwns)]
    assert ("b",) in asked
