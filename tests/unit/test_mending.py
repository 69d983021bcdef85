"""A logger whose disk has lost something asks others for it, and gives it up only when nobody can have it."""

import pytest

from gossamer.messages.wire import Data, Gone, Recover, Repair, Request, Span
from gossamer.protocol.effects import Persist
from gossamer.protocol.inputs import Damaged, Persisted, Wake
from machines import S, T, marked, node, only, packet, receive, sent


def damaged(loggers="K", spans=((3, 5),)):
    """A logger that had ten events, and has lost some."""
    me, _ = node("L", brokers="a", loggers=loggers, logger=True, round_interval_max_s=0.25)
    for each in only(receive(me, "a", Data("a", packet(0, 9))), Persist):
        me.handle(Persisted(each.token), 0.0)
    me.handle(Damaged((Span(S, spans),)), 0.0)
    return me


def rounds(me, count):
    effects = []
    for _ in range(count):
        effects += me.handle(Wake(), me.next_deadline())
    return effects


def asked(me):
    """What somebody is answered who asks for it."""
    return sent(receive(me, "a", Recover((Span(S, ((3, 5),)),))))


def persist(me, effects):
    for each in only(effects, Persist):
        me.handle(Persisted(each.token), 0.0)
    return [record for each in only(effects, Persist) for record in each.records]


def test_it_is_asked_for_and_written_again():
    me = damaged()
    assert me.logger.on_disk(S) == ((0, 2), (6, 9))
    effects = rounds(me, 4)
    assert (("K",), Recover((Span(S, ((3, 5),)),), True)) in sent(effects)
    assert [message.lacks for _, message in sent(effects, Request)] == [(Span(S, ((3, 5),)),)]
    assert persist(me, receive(me, "K", Repair((packet(0, 3),)))) == [packet(0, 3).cut(3, 3)]
    assert persist(me, receive(me, "a", Repair((packet(4, 9),)))) == [packet(4, 9).cut(4, 5)]
    assert me.logger.on_disk(S) == ((0, 9),)
    assert sent(rounds(me, 8), Recover) == []


def test_of_several_streams_each_is_asked_for_first_in_its_turn():
    """Who is asked for more than it may answer answers what comes first."""
    me = damaged()
    for each in only(receive(me, "a", Data("a", packet(0, 9, stream=T))), Persist):
        me.handle(Persisted(each.token), 0.0)
    me.handle(Damaged((Span(T, ((3, 5),)),)), 0.0)
    assert {message.lacks[0].stream for _, message in sent(rounds(me, 16), Recover)} == {S, T}


def test_a_member_that_has_purged_it_is_not_believed_and_a_logger_is():
    me = damaged()
    rounds(me, 8)
    assert persist(me, receive(me, "a", Repair((marked(3, 5, by=99),)))) == []
    assert persist(me, receive(me, "K", Repair((marked(3, 5, by=99),)))) == [marked(3, 5, by=99)]


def test_a_member_is_believed_if_what_it_was_purged_for_is_here():
    me = damaged()
    rounds(me, 8)
    assert persist(me, receive(me, "a", Repair((marked(3, 5, by=9),)))) == [marked(3, 5, by=9)]


def test_a_mark_is_not_taken_while_another_logger_may_have_the_event():
    me = damaged()
    assert persist(me, receive(me, "K", Repair((marked(3, 5, by=9),)))) == []
    assert persist(me, receive(me, "K", Repair((packet(3, 5),)))) == [packet(3, 5)]


def test_what_it_lacks_it_does_not_serve():
    assert asked(damaged()) == []


@pytest.mark.parametrize("loggers", ["", "K"])
def test_what_nobody_can_have_is_given_up(loggers):
    me = damaged(loggers)
    if loggers:
        rounds(me, 80)
        assert asked(me) == [], "K may still have it"
        receive(me, "K", Gone((Span(S, ((0, 7),)),), False))
    rounds(me, 80)
    assert asked(me) == [], "a may be a logger that is about to leave"
    receive(me, "a", Gone((Span(S, ((0, 7),)),), False))
    rounds(me, 80)
    gone = Gone((Span(S, ((3, 5),)),), False)
    assert asked(me) == [(("a",), gone)]


def test_a_member_does_not_say_that_it_keeps_nothing_of_what_it_has_in_memory():
    """What it sends may wait for room on the link, and its word would be there first: then it would be given up."""
    me, _ = node(brokers="ab", loggers="L")
    receive(me, "a", Data("a", packet(3, 4)))
    told = sent(receive(me, "L", Recover((Span(S, ((3, 5),)),), True)), Gone)
    assert told == [(("L",), Gone((Span(S, ((5, 5),)),), False, collected=False))]
    assert sent(receive(me, "L", Recover((Span(S, ((3, 4),)),), True))) == []
