"""Purge marks: what waits for what, and what a receiver makes of them (rows P2, S6)."""

import pytest

from gossamer.messages.ids import EventId
from gossamer.messages.packet import assemble
from gossamer.messages.wire import Data, Position, Repair, Request, Span
from gossamer.protocol import marks as marks_module
from gossamer.protocol.effects import Deliver
from gossamer.protocol.marks import Marks
from gossamer.protocol.receiver import Receiver
from machines import S, T, context, marked, node, packet, receive, sent

# The marks that wait --------------------------------------------------------------------------------------------------


def test_a_mark_is_released_by_what_it_names_and_by_nothing_else():
    marks = Marks()
    mark = marked(0, 1, 7)
    marks.wait(mark, EventId(S, 7))
    assert marks.release(S, 0, 6) == []
    assert marks.release(T, 7, 7) == []
    assert marks.release(S, 5, 9) == [mark]
    assert not marks.waiting
    assert marks.release(S, 5, 9) == [], "once"


def test_several_may_wait_for_one_and_a_run_releases_several():
    marks = Marks()
    waiting = [marked(0, 0, 7), marked(2, 3, 7), marked(1, 1, 8), marked(4, 4, EventId(T, 7))]
    for mark in waiting:
        marks.wait(mark, mark.obsoleter(mark.holes[0]))
    assert marks.named(S, 0, 9) == [7, 8]
    assert marks.named(S, 8, 9) == [8]
    assert marks.named(T, 0, 9) == [7]
    assert marks.release(S, 7, 8) == waiting[:3]
    assert marks.waiting


def test_a_later_mark_of_the_same_events_takes_the_place_of_the_earlier():
    marks = Marks()
    marks.wait(marked(0, 1, 7), EventId(S, 7))
    marks.wait(marked(0, 1, 9), EventId(S, 9))
    assert marks.release(S, 7, 7) == []
    assert marks.release(S, 9, 9) == [marked(0, 1, 9)]


def test_the_oldest_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(marks_module, "WAITING_MAX", 2)
    marks = Marks()
    for seq in range(3):
        marks.wait(marked(seq, seq, 9), EventId(S, 9))
    assert marks.release(S, 9, 9) == [marked(1, 1, 9), marked(2, 2, 9)]


# The receiver ---------------------------------------------------------------------------------------------------------


class Bench:
    """A receiver, and what it told to be missing and to be awaited."""

    def __init__(self, **config):
        self.ctx = context(**config)
        self.gaps, self.awaited = [], []
        self.receiver = Receiver(
            self.ctx,
            lambda _, first, last: self.gaps.append((first, last)),
            on_awaited=lambda _, first, last: self.awaited.append((first, last)),
        )

    def accept(self, *packets):
        """What is delivered, events and marks, as `stream:seq`, the letter of S or T."""
        delivered = []
        for each in packets:
            self.fresh = self.receiver.accept(each, False)
            for effect in self.ctx.effects:
                assert isinstance(effect, Deliver)
                name = "S" if effect.packet.stream == S else "T"
                delivered += [f"{name}:{seq}" for seq in range(effect.packet.first, effect.packet.last + 1)]
            self.ctx.effects = []
        for stream in self.receiver.streams.values():
            stream.check()
        return delivered

    def missing(self, stream=S):
        gaps = self.receiver.streams[stream].gaps
        return gaps.lacks(0, 99) if gaps else []


@pytest.fixture
def bench():
    return Bench()


def test_what_is_marked_is_skipped_once_what_obsoletes_it_is_here(bench):
    assert bench.accept(packet(0), marked(1, 1, 3)) == ["S:0"]
    assert (bench.gaps, bench.awaited) == ([(1, 1)], [(1, 1)]), "missing, but there is no hurry"
    assert bench.accept(packet(2)) == []
    assert bench.accept(packet(3)) == ["S:1", "S:2", "S:3"]
    assert bench.fresh == (packet(3), marked(1, 1, 3)), "others may want the mark from us"
    assert bench.missing() == []


def test_a_mark_beside_what_it_names_need_not_wait(bench):
    thinned = packet(0, 3).thin([(1, EventId(S, 3)), (2, EventId(S, 3))])
    assert bench.accept(thinned) == ["S:0", "S:1", "S:2", "S:3"]
    assert (bench.gaps, bench.awaited) == ([], []), "it was never missing"


def test_a_final_mark_need_not_wait(bench):
    assert bench.accept(packet(0), marked(1, 2, 9, final=True)) == ["S:0", "S:1", "S:2"]
    assert (bench.gaps, bench.awaited) == ([], [])


def test_a_mark_may_name_an_event_of_another_stream(bench):
    assert bench.accept(marked(0, 0, EventId(T, 1))) == []
    assert bench.accept(packet(1, stream=T)) == ["S:0"], "it is here, though it waits for its own turn"
    assert bench.accept(packet(0, stream=T)) == ["T:0", "T:1"]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_a_chain_of_marks_ends_with_what_is_there_in_the_end(bench, order):
    links = [marked(0, 0, 1), marked(1, 1, EventId(T, 0)), packet(0, stream=T)]
    delivered = [each for at in order for each in bench.accept(links[at])]
    assert sorted(delivered) == ["S:0", "S:1", "T:0"]
    assert not bench.receiver.marks.waiting


def test_a_mark_that_comes_after_what_it_names_is_taken_at_once(bench):
    bench.accept(packet(1))
    assert bench.accept(marked(0, 0, 1)) == ["S:0", "S:1"]
    assert bench.awaited == []


def test_the_event_itself_may_come_after_all(bench):
    bench.accept(marked(0, 0, 2))
    assert bench.accept(packet(0)) == ["S:0"]
    assert bench.accept(packet(1), packet(2)) == ["S:1", "S:2"]
    assert not bench.receiver.marks.waiting


def test_a_mark_of_what_is_here_changes_nothing(bench):
    bench.accept(packet(0))
    assert bench.accept(marked(0, 0, 5)) == []
    assert not bench.receiver.marks.waiting
    assert bench.missing() == []


def test_what_is_before_t_join_or_long_over_counts_as_here(bench):
    """It is not ours to get, so that waiting for it would be for ever."""
    bench.receiver.begin((Position(T, 4),))
    assert bench.accept(marked(0, 0, EventId(T, 3))) == ["S:0"]
    bench.receiver.retire(T)
    assert bench.accept(marked(1, 1, EventId(T, 9))) == ["S:1"]


@pytest.mark.parametrize("reason", ["void", "lost"])
@pytest.mark.parametrize("before", [True, False], ids=["told-before", "told-after"])
def test_what_nobody_will_ever_see_excuses_nothing(bench, reason, before):
    """000 App. A.2, the second scenario: what obsoletes it died with its publisher."""
    if not before:
        bench.accept(marked(0, 0, EventId(T, 0)))
    stream = bench.receiver.learn(T, 0)
    bench.receiver.excuse(stream, 0, 0, reason)
    bench.ctx.effects = []
    if before:
        assert bench.accept(marked(0, 0, EventId(T, 0))) == []
    assert bench.missing() == [(0, 0)]
    assert bench.accept(packet(0)) == ["S:0"]


@pytest.mark.parametrize("reason", ["collected", "declined"])
def test_what_existed_and_does_not_come_to_us_does(bench, reason):
    stream = bench.receiver.learn(T, 0)
    bench.receiver.excuse(stream, 0, 0, reason)
    bench.ctx.effects = []
    assert bench.accept(marked(0, 0, EventId(T, 0))) == ["S:0"]


def test_without_room_only_what_a_mark_waits_for_is_held_back():
    bench = Bench(hold_bytes_max=0)
    bench.accept(marked(0, 0, 3))
    assert bench.accept(packet(1, 4)) == ["S:0"]
    assert bench.missing() == [(1, 2), (4, 4)]
    assert bench.receiver.held_bytes == len(packet(3).blob)
    assert bench.accept(packet(1), packet(2), packet(4)) == ["S:1", "S:2", "S:3", "S:4"]
    assert bench.receiver.held_bytes == 0


def test_a_hole_after_the_last_event_known_tells_that_it_exists(bench):
    bench.accept(assemble(S, [(0, packet(0).blob), (1, (9, False))]))
    assert bench.receiver.streams[S].lastseen == 1
    assert bench.missing() == [(1, 1)]


def test_a_logger_takes_no_mark_for_final():
    """What it acknowledges must be on its disk, or something that makes up for it."""
    for logger, delivered in ((False, [Deliver(marked(0, 0, 2, final=True)), Deliver(packet(1))]), (True, [])):
        ctx = context(logger=logger)
        receiver = Receiver(ctx, lambda *_: None)
        receiver.accept(packet(1), False)
        receiver.accept(marked(0, 0, 2, final=True), False)
        assert ctx.effects == delivered
    receiver.accept(packet(2), False)
    assert [effect.packet.first for effect in ctx.effects] == [0, 1, 2]


def test_a_logger_takes_a_final_mark_of_a_stream_that_it_does_not_keep():
    ctx = context(logger=True)
    receiver = Receiver(ctx, lambda *_: None)
    receiver.keeps = lambda stream: stream != S
    receiver.vouches = lambda _: False
    receiver.accept(packet(1), False)
    receiver.accept(marked(0, 0, 2, final=True), False)
    assert ctx.effects == [Deliver(marked(0, 0, 2, final=True)), Deliver(packet(1))]


def test_told_again_of_a_stream_it_does_not_know_a_receiver_asks_for_that():
    me, _ = node("L", brokers="a", logger=True)
    receive(me, "a", Repair((packet(1),)))
    mark = marked(0, 0, EventId(T, 3))
    receive(me, "a", Repair((mark,)))
    assert T not in me.receiver.streams, "it is likely to be on its way"
    receive(me, "a", Repair((mark,)))
    assert me.receiver.streams[T].lastseen == 3


def test_a_mark_beyond_where_a_stream_is_being_closed_opens_nothing():
    receiver = Receiver(context(), lambda *_: None)
    receiver.accept(packet(0), False)
    receiver.streams[S].limit = 0
    receiver.accept(marked(1, 1, 2), False)
    assert receiver.streams[S].lastseen == 0


def test_logger_gets_no_marks_from_peers_while_the_sender_is_there():
    """Readers count on loggers for purged events, and the sender has them until a logger does."""
    me, _ = node("b", brokers="ac", loggers="L")
    receive(me, "a", Data("a", packet(0)))
    receive(me, "a", Data("a", marked(1, 1, 2)))
    receive(me, "a", Data("a", packet(2)))
    lacks = (Span(S, ((0, 2),)),)
    given = {peer: sent(receive(me, peer, Request(lacks)), Repair) for peer in "cL"}
    firsts = {peer: [packet.first for _, repair in given[peer] for packet in repair.packets] for peer in "cL"}
    assert firsts == {"c": [0, 1, 2], "L": [0, 2]}
