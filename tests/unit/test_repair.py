"""Getting what is missing: whom it is asked of, when, and never twice at a time (rpbcast §4.1, §4.3, §8)."""

import pytest

from gossamer.messages.ids import EventId
from gossamer.messages.wire import (
    Beat,
    Busy,
    Collected,
    Data,
    Echo,
    Gossip,
    Idle,
    Member,
    Positions,
    Recover,
    Repair,
    Request,
    Span,
)
from gossamer.protocol.effects import Skip
from gossamer.protocol.inputs import Wake
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.repair import AWAITED_ROUNDS
from gossamer.protocol.repair import Repair as RepairMachine
from gossamer.protocol.selection import Selection
from machines import S, T, context, keyed, marked, membership, node, packet, receive, sent

GRACE_S = 0.01
ROUND_S = 0.25


class Bench:
    """The receiver and the repair machine of a node, without its rounds: a test says when a round is."""

    def __init__(self, brokers="a", loggers="", wanted=None, **config):
        config = {"repair_first": "gossip", "reorder_grace_s": GRACE_S, "round_interval_s": ROUND_S, **config}
        self.ctx = context(**config)
        self.members = membership(self.ctx, brokers, loggers)
        self.late = []
        self.repair = RepairMachine(self.ctx, self.members, Selection(self.ctx), wanted, self.late.append)
        self.receiver = Receiver(self.ctx, self.repair.on_gap, on_awaited=self.repair.on_awaited)
        self.repair.attach(self.receiver.excuse, self.receiver.worth_asking)

    def _did(self):
        for stream in self.receiver.streams.values():
            stream.check()
        effects, self.ctx.effects = self.ctx.effects, []
        return effects

    def at(self, now):
        """Time passes, and what is due is done."""
        self.ctx.now = now
        if self.repair.next_deadline() <= now:
            self.repair.on_grace_over()
        return sent(self._did())

    def round(self, now, target="a"):
        """What was sent, and what the target of the gossip is asked for."""
        self.at(now)
        self.ctx.round += 1
        lacks = self.repair.on_round(target)
        return sent(self._did()), lacks

    def gap(self, first, last, stream=S):
        self.receiver.learn(stream, last)
        return self._did()

    def collected(self, *spans):
        self.repair.on_collected(spans)
        return sent(self._did())

    def gaps(self, stream=S):
        return self.receiver.streams[stream].gaps


def span(first, last, stream=S):
    return Span(stream, ((first, last),))


# The grace -----------------------------------------------------------------------------------------------------------


def test_a_gap_is_asked_for_once_the_grace_is_over():
    bench = Bench()
    bench.gap(0, 2)
    assert bench.repair.next_deadline() == GRACE_S
    assert bench.at(GRACE_S / 2) == []
    assert bench.at(GRACE_S) == [(("a",), Request((span(0, 2),)))]


def test_a_packet_that_was_only_reordered_is_never_asked_for():
    bench = Bench()
    bench.receiver.accept(packet(1), False)
    assert bench.round(GRACE_S / 2) == ([], ()), "not even by a round within the grace"
    bench.receiver.accept(packet(0), False)
    assert bench.at(GRACE_S) == []
    assert bench.round(ROUND_S) == ([], ())
    assert bench.repair.quiet


def test_of_several_gaps_only_what_is_still_missing_is_asked_for_in_one_bundle():
    bench = Bench()
    bench.gap(0, 4)
    bench.gap(0, 1, stream=T)
    bench.receiver.accept(packet(2), False)
    assert bench.at(GRACE_S) == [(("a",), Request((Span(S, ((0, 1), (3, 4))), span(0, 1, T))))]


# In flight -----------------------------------------------------------------------------------------------------------


def test_what_is_in_flight_is_not_asked_for_again_until_it_is_overdue():
    bench = Bench()
    bench.gap(0, 2)
    bench.at(GRACE_S)
    assert bench.round(GRACE_S + ROUND_S / 2) == ([], ())
    assert bench.round(GRACE_S + ROUND_S) == ([], (span(0, 2),))
    assert bench.round(GRACE_S + ROUND_S + 0.1) == ([], ())


def test_a_measured_round_trip_shortens_the_wait():
    bench = Bench()
    bench.repair._selection.rtt_s["a"] = 0.02
    bench.gap(0, 2)
    bench.at(GRACE_S)
    assert bench.round(GRACE_S + 0.03) == ([], ())
    assert bench.round(GRACE_S + 0.05) == ([], (span(0, 2),))


def test_what_came_is_not_asked_for_again():
    bench = Bench()
    bench.gap(0, 2)
    bench.at(GRACE_S)
    bench.receiver.accept(packet(1), False)
    assert bench.round(GRACE_S + ROUND_S) == ([], (Span(S, ((0, 0), (2, 2))),))


def test_what_a_logger_is_asked_for_is_in_flight_though_the_request_to_a_peer_runs_out():
    bench = Bench(loggers="L")
    bench.gap(0, 0)
    assert [to for to, _ in bench.at(GRACE_S)] in ([("a",)], [("L",)])
    bench.ctx.now = GRACE_S + 0.1
    assert bench.collected(span(0, 0)) == [(("L",), Recover((span(0, 0),)))]
    assert bench.round(GRACE_S + ROUND_S) == ([], ()), "the logger has had 0.15 s of its 0.25"
    assert bench.round(GRACE_S + ROUND_S + 0.1) == ([(("L",), Recover((span(0, 0),)))], ())


# Two phases ----------------------------------------------------------------------------------------------------------


def test_a_collected_notice_moves_an_id_to_the_logger_phase_at_once():
    bench = Bench(loggers="L")
    bench.gap(0, 3)
    bench.at(GRACE_S)
    assert bench.collected(span(1, 2)) == [(("L",), Recover((span(1, 2),)))]
    assert bench.gaps().missing.ranges() == ((1, 2),)
    assert bench.gaps().gmissing.ranges() == ((0, 0), (3, 3))


def test_a_collected_notice_about_what_is_not_missing_changes_nothing():
    bench = Bench(loggers="L")
    assert bench.collected(span(0, 3)) == []
    bench.gap(0, 3)
    assert bench.collected(span(4, 9), span(0, 9, T)) == []
    assert bench.gaps().gmissing.ranges() == ((0, 3),)


def test_after_gclimit_rounds_without_an_answer_a_logger_is_asked():
    bench = Bench(loggers="L", gclimit_rounds=3)
    bench.gap(0, 0)
    bench.at(GRACE_S)
    assert [bench.round(1.0 * number) for number in (1, 2)] == [([], (span(0, 0),))] * 2
    assert bench.round(3.0) == ([(("L",), Recover((span(0, 0),)))], ())


def test_without_loggers_gossip_goes_on_for_ever():
    bench = Bench(gclimit_rounds=3)
    bench.gap(0, 0)
    bench.at(GRACE_S)
    assert bench.collected(span(0, 0)) == []
    assert [bench.round(1.0 * number) for number in range(1, 20)] == [([], (span(0, 0),))] * 19


def test_when_the_last_logger_is_gone_peers_are_asked_again():
    bench = Bench(loggers="L", repair_first="logger")
    bench.gap(0, 0)
    assert bench.at(GRACE_S) == [(("L",), Recover((span(0, 0),)))]
    bench.members.expel("L")
    assert bench.round(1.0) == ([], (span(0, 0),))


def test_when_there_is_a_logger_again_it_is_asked_after_gclimit_rounds():
    bench = Bench(loggers="L", repair_first="logger", gclimit_rounds=2)
    bench.gap(0, 0)
    bench.at(GRACE_S)
    bench.members.expel("L")
    bench.round(1.0)
    bench.members.expelled.clear()
    bench.members.merge(Member("L", "member", 10**6, True))
    assert bench.round(2.0) == ([], (span(0, 0),))
    assert bench.round(3.0) == ([(("L",), Recover((span(0, 0),)))], ())


def test_loggers_are_asked_in_turn():
    bench = Bench(loggers="KL", repair_first="logger")
    bench.gap(0, 0)
    bench.at(GRACE_S)
    asked = [to for now in range(1, 5) for to, _ in bench.round(1.0 * now)[0]]
    assert asked in ([("K",), ("L",)] * 2, [("L",), ("K",)] * 2)


def test_what_is_missing_for_long_is_told():
    bench = Bench(seek_after_rounds=2)
    bench.gap(0, 0)
    bench.round(1.0)
    assert bench.late == []
    bench.round(2.0)
    assert bench.late == [bench.receiver.streams[S]]


def test_what_came_in_time_is_not_told_as_late():
    bench = Bench(seek_after_rounds=1)
    bench.gap(0, 0)
    bench.receiver.accept(packet(0), False)
    bench.round(1.0)
    assert bench.late == []


# Loggers first, or peers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repair_first", "busy", "kind"),
    [
        ("gossip", False, Request),
        ("logger", False, Recover),
        ("logger", True, Recover),
        ("auto", False, Recover),
        ("auto", True, Request),
    ],
)
def test_who_is_asked_first(repair_first, busy, kind):
    me, _ = node(brokers="a", loggers="L", repair_first=repair_first, busy_backoff_s=2.0)
    if busy:
        receive(me, "L", Busy())
    receive(me, "a", Data("a", packet(1)))
    effects = me.handle(Wake(), GRACE_S)
    (request,) = sent(effects, Request) + sent(effects, Recover)
    assert type(request[1]) is kind


def test_a_busy_logger_hands_back_what_peers_were_never_asked_for():
    bench = Bench(loggers="L", repair_first="auto")
    bench.gap(0, 3)
    bench.at(GRACE_S)
    bench.repair.on_busy()
    assert bench.gaps().gmissing.ranges() == ((0, 3),)
    assert bench.round(1.0) == ([], (span(0, 3),))


def test_a_busy_logger_keeps_what_peers_have_collected():
    bench = Bench(loggers="L", repair_first="gossip")
    bench.gap(0, 3)
    bench.at(GRACE_S)
    bench.collected(span(0, 3))
    bench.repair.on_busy()
    assert bench.gaps().missing.ranges() == ((0, 3),)


def test_after_a_while_a_logger_that_was_busy_is_asked_first_again():
    bench = Bench(loggers="L", repair_first="auto", busy_backoff_s=2.0)
    bench.repair.on_busy()
    bench.ctx.now = 2.0
    bench.gap(0, 0)
    assert bench.at(2.0 + GRACE_S) == [(("L",), Recover((span(0, 0),)))]


def test_a_logger_that_does_not_answer_twice_counts_as_busy():
    bench = Bench(loggers="L", repair_first="auto")
    bench.gap(0, 0)
    bench.at(GRACE_S)
    assert bench.round(1.0) == ([(("L",), Recover((span(0, 0),)))], ())
    assert bench.round(2.0) == ([], (span(0, 0),))


def test_a_logger_that_answers_in_between_does_not():
    bench = Bench(loggers="L", repair_first="auto")
    bench.gap(0, 0)
    bench.at(GRACE_S)
    bench.round(1.0)
    bench.repair.on_logger_answer()
    assert bench.round(2.0) == ([(("L",), Recover((span(0, 0),)))], ())


def test_what_is_sealed_is_asked_of_loggers_only():
    bench = Bench(loggers="L", repair_first="auto")
    bench.gap(0, 3)
    bench.repair.seal(bench.receiver.streams[S], 1, 2)
    bench.repair.on_busy()
    assert bench.gaps().missing.overlap(1, 2) == [(1, 2)]
    bench.members.expel("L")
    _, lacks = bench.round(1.0)
    assert not any(first <= 2 and last >= 1 for each in lacks for first, last in each.ranges)


def test_peers_are_asked_first_unless_configured_otherwise():
    """rpbcast §2.2: gossip is the primary repair, loggers are the failsafe."""
    me, _ = node(brokers="a", loggers="L")
    receive(me, "a", Data("a", packet(1)))
    effects = me.handle(Wake(), GRACE_S)
    assert [type(message) for _, message in sent(effects)] == [Request]


# Answers that are full ------------------------------------------------------------------------------------------------


def test_a_full_answer_of_a_peer_is_followed_by_the_next_request_at_once():
    me, _ = node(brokers="ab", repair_bytes_max=len(packet(0).blob))
    receive(me, "a", Data("a", packet(3)))
    me.handle(Wake(), GRACE_S)
    for seq in (0, 1):
        ((_, request),) = sent(receive(me, "a", Repair((packet(seq),)), 0.02), Request)
        assert request == Request((span(seq + 1, 2),))
    assert sent(receive(me, "a", Repair((packet(2),)), 0.02), Request) == []


def test_a_peer_that_is_a_logger_is_followed_up_in_the_phase_it_was_asked_in():
    me, _ = node(brokers="", loggers="L", repair_bytes_max=len(packet(0).blob))
    receive(me, "L", Data("a", packet(3)))
    assert sent(me.handle(Wake(), GRACE_S)) == [(("L",), Request((span(0, 2),)))]
    assert sent(receive(me, "L", Repair((packet(0),)), 0.02)) == [(("L",), Request((span(1, 2),)))]


def test_an_answer_that_is_not_full_waits_for_the_round():
    me, _ = node(brokers="ab")
    receive(me, "a", Data("a", packet(3)))
    me.handle(Wake(), GRACE_S)
    assert sent(receive(me, "a", Repair((packet(0),)), 0.02)) == []


def test_a_full_answer_that_brings_nothing_new_is_not_followed_up():
    me, _ = node(brokers="ab", repair_bytes_max=len(packet(0).blob))
    receive(me, "a", Data("a", packet(3)))
    me.handle(Wake(), GRACE_S)
    assert sent(receive(me, "a", Repair((packet(3),)), 0.02)) == []


def test_a_full_answer_names_the_collected_events_of_its_range():
    """Or a member that was away would ask peers, for rounds, for events that only a logger has."""
    size = len(packet(0).blob)
    me, _ = node(brokers="ab", gossip_buffer_bytes_max=2 * size, repair_bytes_max=size)
    for seq in range(4):
        receive(me, "a", Data("a", packet(seq)))
    assert sent(receive(me, "b", Request((span(0, 3),)))) == [
        (("b",), Repair((packet(2),))),
        (("b",), Collected((span(0, 1),))),
    ]


# What the application does not want ----------------------------------------------------------------------------------


def test_what_is_not_wanted_is_declined_in_its_turn_and_never_asked_for():
    bench = Bench(wanted=lambda stream, first, _: not (stream == S and first >= 1))
    bench.receiver.accept(packet(0), False)
    bench._did()
    assert bench.gap(1, 2) == [Skip(S, 1, 2, "declined")]
    bench.gap(0, 0, stream=T)
    assert bench.at(GRACE_S) == [(("a",), Request((span(0, 0, T),)))]


def test_what_was_declined_is_acknowledged():
    """Or the loggers would keep it for this member until it expires."""
    me, _ = node(brokers="", loggers="L", wanted=lambda *_: False, positions_rounds=1)
    assert receive(me, "L", Idle((Beat(S, 3),))) == [Skip(S, 0, 3, "declined")]
    acknowledged = [message.vector for _, message in sent(me.handle(Wake(), 10.0), Positions)]
    assert [[(entry.stream, entry.last) for entry in vector] for vector in acknowledged] == [[(S, 3)]]


# What was purged on the way ------------------------------------------------------------------------------------------

PATIENCE_S = AWAITED_ROUNDS * ROUND_S


def test_what_was_purged_is_not_asked_for_while_what_obsoletes_it_may_be_on_its_way():
    bench = Bench()
    bench.receiver.accept(marked(0, 1, 3), False)
    assert bench.at(GRACE_S) == []
    assert [bench.round(ROUND_S * number) for number in range(1, AWAITED_ROUNDS)] == [([], ())] * (AWAITED_ROUNDS - 1)
    assert bench.round(PATIENCE_S) == ([], (span(0, 1),)), "it may never come, and then these are needed"


def test_what_is_missing_beside_it_is_asked_for():
    bench = Bench()
    bench.receiver.accept(marked(1, 1, 4), False)
    bench.receiver.accept(packet(3), False)
    assert bench.at(GRACE_S) == [(("a",), Request((Span(S, ((0, 0), (2, 2))),)))]


def test_once_what_obsoletes_it_is_here_it_is_never_asked_for():
    bench = Bench()
    bench.receiver.accept(marked(0, 0, 1), False)
    bench.receiver.accept(packet(1), False)
    assert bench.at(GRACE_S) == []
    assert bench.round(PATIENCE_S) == ([], ())
    assert bench.repair.quiet


def test_a_mark_that_comes_late_stops_the_asking():
    bench = Bench()
    bench.gap(0, 0)
    bench.at(GRACE_S)
    bench.receiver.accept(marked(0, 0, 5), False)
    assert bench.round(GRACE_S + ROUND_S) == ([], ())
    assert bench.round(GRACE_S + PATIENCE_S) == ([], (span(0, 0),))


def test_a_logger_is_not_asked_for_it_either():
    bench = Bench(loggers="L")
    bench.receiver.accept(marked(0, 0, 5), False)
    assert bench.collected(span(0, 0)) == []
    assert bench.gaps().missing.ranges() == ((0, 0),)
    assert bench.round(PATIENCE_S) == ([(("L",), Recover((span(0, 0),)))], ())


# Answers to who lacks what was purged --------------------------------------------------------------------------------


def asked(me, first, last=None):
    """What a member answers, as packets."""
    effects = receive(me, "b", Request((span(first, first if last is None else last),)))
    return [each for _, repair in sent(effects, Repair) for each in repair.packets]


def test_an_answer_carries_what_replaced_a_purged_event():
    me, _ = node(brokers="ab", repair_first="gossip")
    thinned = keyed(0, "x", "y", "x").thin([(0, EventId(S, 2))])
    receive(me, "a", Data("a", thinned))
    assert asked(me, 0) == [thinned.cut(0, 0), thinned.cut(2, 2)]
    assert asked(me, 1) == [thinned.cut(1, 1)]
    assert asked(me, 0, 2) == [thinned], "once"


def test_an_answer_carries_what_replaced_it_in_another_stream():
    me, _ = node(brokers="ab", repair_first="gossip")
    receive(me, "b", Data("b", packet(0, stream=T)))
    receive(me, "a", Data("a", marked(0, 0, EventId(T, 0))))
    assert asked(me, 0) == [marked(0, 0, EventId(T, 0)), packet(0, stream=T)]


def test_an_answer_follows_a_chain_of_marks():
    me, _ = node(brokers="ab", repair_first="gossip")
    receive(me, "a", Data("a", marked(0, 0, 1)))
    receive(me, "a", Data("a", marked(1, 1, 2)))
    receive(me, "a", Data("a", packet(2)))
    assert asked(me, 0) == [marked(0, 0, 1), marked(1, 1, 2), packet(2)]


def test_a_final_mark_is_enough_by_itself():
    me, _ = node(brokers="ab", repair_first="gossip")
    receive(me, "a", Data("a", marked(0, 0, 1, final=True)))
    receive(me, "a", Data("a", packet(1)))
    assert asked(me, 0) == [marked(0, 0, 1, final=True)]


def test_who_asked_is_done_with_one_answer():
    me, _ = node(brokers="ab", repair_first="gossip")
    other, _ = node("b", brokers=("a", "me"), repair_first="gossip")
    for each in (marked(0, 0, 1), marked(1, 1, 2), packet(2)):
        receive(me, "a", Data("a", each))
    receive(other, "a", Idle((Beat(S, 2),)))
    ((_, request),) = sent(other.handle(Wake(), GRACE_S), Request)
    ((_, repair),) = sent(receive(me, "b", request), Repair)
    receive(other, "me", repair)
    assert other.repair.quiet


def test_each_time_it_is_told_again_it_is_awaited_twice_as_long():
    """What is named is deep in somebody's queue; to ask each time would fill that queue with marks."""
    bench = Bench()
    bench.receiver.accept(packet(2), False)
    waits, now = [], 0.0
    for _ in range(3):
        bench.receiver.accept(marked(0, 1, 9), False)
        told = now
        while not bench.round(now := now + ROUND_S)[1]:
            assert now - told < 100 * ROUND_S
        waits.append(round((now - told) / ROUND_S))
        bench.gaps().asked.remove(0, 1)  # it was asked for, and the mark is the answer
    assert waits == [4, 8, 16]


# In a node -----------------------------------------------------------------------------------------------------------


def test_a_round_bundles_everything_into_one_gossip():
    me, _ = node(brokers="a", repair_first="gossip")
    receive(me, "a", Data("a", packet(1)))
    receive(me, "a", Data("b", packet(2, stream=T)))
    me.handle(Wake(), GRACE_S)
    (gossip,) = sent(me.handle(Wake(), 1.0), Gossip)
    assert set(gossip[1].lacks) == {span(0, 0), span(0, 1, T)}


def test_an_echo_that_says_collected_is_as_good_as_a_notice():
    for notice in (Collected((span(0, 0),)), Echo(1, (span(0, 0),))):
        me, _ = node(brokers="a", loggers="L", repair_first="gossip")
        receive(me, "a", Data("a", packet(1)))
        me.handle(Wake(), GRACE_S)
        assert sent(receive(me, "a", notice, 0.02), Recover) == [(("L",), Recover((span(0, 0),)))]


def test_a_peers_repair_closes_the_gap():
    me, _ = node(brokers="a", repair_first="gossip")
    receive(me, "a", Data("a", packet(1)))
    effects = receive(me, "a", Repair((packet(0),)))
    assert [effect.packet.first for effect in effects] == [0, 1]
    assert me.repair.quiet


def full():
    """A receiver with one packet held back, and no room for another."""
    bench = Bench(hold_bytes_max=len(packet(3).blob))
    bench.receiver.accept(packet(3), False)
    bench.gap(4, 9)
    bench.receiver.accept(packet(7), False)
    assert bench.gaps().lacks(0, 9) == [(0, 2), (4, 9)], "refused"
    return bench


def test_a_mark_is_taken_in_though_there_is_no_room():
    bench = full()
    bench.receiver.accept(marked(5, 6, 9, final=True), False)
    assert bench.gaps().lacks(0, 9) == [(0, 2), (4, 4), (7, 9)]


def test_with_no_room_only_the_first_gap_and_what_marks_wait_for_are_asked_for():
    bench = full()
    bench.receiver.accept(marked(2, 2, 9), False)
    assert bench.at(GRACE_S) != []
    bench.ctx.now = 100.0
    _, lacks = bench.round(100.0)
    assert lacks == (Span(S, ((0, 2), (9, 9))),)
