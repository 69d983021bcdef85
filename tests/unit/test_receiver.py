"""The receiver: a packet in, deliveries out (rpbcast §3.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.wire import Position
from gossamer.protocol.effects import Deliver, Skip
from gossamer.protocol.receiver import Receiver
from machines import S, context, packet


class Bench:
    """A receiver, what it told of gaps, and the effects of the last step."""

    def __init__(self, **config):
        self.ctx = context(**config)
        self.found = []
        self.receiver = Receiver(self.ctx, lambda _, first, last: self.found.append((first, last)))

    @property
    def stream(self):
        return self.receiver.streams[S]

    def _did(self):
        for stream in self.receiver.streams.values():
            stream.check()
        effects, self.ctx.effects = self.ctx.effects, []
        return effects

    def accept(self, given, from_logger=False):
        self.fresh = self.receiver.accept(given, from_logger)
        return self._did()

    def learn(self, last):
        self.receiver.learn(S, last)
        return self._did()

    def excuse(self, first, last, reason="void"):
        self.receiver.excuse(self.stream, first, last, reason)
        return self._did()


@pytest.fixture
def bench():
    return Bench()


def test_what_comes_in_order_is_delivered_at_once(bench):
    assert bench.accept(packet(0, 1)) == [Deliver(packet(0, 1))]
    assert bench.accept(packet(2)) == [Deliver(packet(2))]
    assert bench.found == []


def test_a_duplicate_is_delivered_once(bench):
    bench.accept(packet(0, 2))
    assert bench.accept(packet(0, 2)) == []
    assert bench.fresh == ()


def test_what_is_behind_a_gap_waits_for_it(bench):
    assert bench.accept(packet(2)) == []
    assert bench.fresh == (packet(2),)
    assert bench.found == [(0, 1)]
    assert bench.accept(packet(1)) == []
    assert bench.accept(packet(0)) == [Deliver(packet(0)), Deliver(packet(1)), Deliver(packet(2))]
    assert bench.stream.gaps is None


def test_of_a_packet_known_in_part_the_rest_is_taken(bench):
    bench.accept(packet(0, 1))
    assert bench.accept(packet(0, 3)) == [Deliver(packet(0, 3).cut(2, 3))]
    bench.accept(packet(6))
    assert bench.accept(packet(3, 7)) == [
        Deliver(packet(3, 7).cut(4, 5)),
        Deliver(packet(6)),
        Deliver(packet(3, 7).cut(7, 7)),
    ]


def test_a_heartbeat_finds_the_last_event_missing(bench):
    bench.accept(packet(0))
    assert bench.learn(2) == []
    assert bench.found == [(1, 2)]
    bench.learn(1)
    assert bench.found == [(1, 2)], "an older heartbeat tells nothing new"


def test_an_excuse_is_told_in_its_turn(bench):
    bench.accept(packet(3))
    assert bench.excuse(1, 2) == []
    assert bench.accept(packet(0)) == [Deliver(packet(0)), Skip(S, 1, 2, "void"), Deliver(packet(3))]


def test_an_excuse_takes_back_nothing_that_is_here(bench):
    bench.accept(packet(1))
    assert bench.excuse(0, 9) == [Skip(S, 0, 0, "void"), Deliver(packet(1))]
    assert bench.accept(packet(0)) == [], "void is final"
    assert bench.accept(packet(2)) == [Deliver(packet(2))], "nobody can excuse what is not known to exist"


def test_what_is_before_t_join_is_not_ours(bench):
    bench.receiver.begin((Position(S, 4),))
    assert bench.accept(packet(3, 4)) == []
    assert bench.accept(packet(4, 6)) == [Deliver(packet(4, 6).cut(5, 6))]
    assert bench.found == []


def test_t_join_does_not_move_a_stream_that_has_begun(bench):
    bench.accept(packet(0))
    bench.receiver.begin((Position(S, 4),))
    assert bench.accept(packet(1)) == [Deliver(packet(1))]


def test_a_retired_stream_does_not_come_back_to_life(bench):
    bench.accept(packet(0))
    assert bench.receiver.retire(S)
    assert bench.accept(packet(1)) == []
    assert bench.learn(5) == []
    assert S not in bench.receiver.streams


def test_a_stream_with_a_gap_is_not_retired(bench):
    bench.learn(0)
    assert not bench.receiver.retire(S)


def test_without_room_to_hold_it_back_a_packet_is_left_to_be_repaired():
    bench = Bench(hold_bytes_max=len(packet(1).blob))
    bench.accept(packet(1))
    assert bench.accept(packet(2)) == []
    assert bench.fresh == ()
    assert bench.stream.gaps.gmissing.ranges() == ((0, 0), (2, 2))
    assert bench.accept(packet(0)) == [Deliver(packet(0)), Deliver(packet(1))], "what fills the gap is always taken"
    assert bench.accept(packet(2)) == [Deliver(packet(2))]


def test_room_is_given_back_when_what_was_held_is_delivered():
    bench = Bench(hold_bytes_max=len(packet(1).blob))
    for first in range(0, 20, 2):
        assert bench.accept(packet(first + 1)) == []
        assert bench.accept(packet(first)) == [Deliver(packet(first)), Deliver(packet(first + 1))]


def test_what_a_logger_was_told_to_be_lacking_is_taken_from_a_logger_only(bench):
    bench.accept(packet(1))
    gaps = bench.stream.gaps
    gaps.gmissing.remove(0, 0)
    gaps.missing.add(0, 0)
    gaps.sealed.add(0, 0)
    assert bench.accept(packet(0)) == []
    assert bench.fresh == ()
    assert bench.accept(packet(0), from_logger=True) == [Deliver(packet(0)), Deliver(packet(1))]


# Property 3.5, against sets ------------------------------------------------------------------------------------------

SEQ = st.integers(0, 14)
STEPS = st.lists(
    st.tuples(st.just("accept"), SEQ, st.integers(0, 4), st.booleans())
    | st.tuples(st.just("learn"), SEQ)
    | st.tuples(st.sampled_from(["excuse", "collected", "seal"]), SEQ, st.integers(0, 4)),
    max_size=40,
)


class Naive:
    """The receiver as sets of seqs."""

    def __init__(self, start):
        self.start = self.next = start
        self.lastseen = start - 1
        self.here, self.excused, self.sealed = set(), set(), set()

    def missing(self):
        return set(range(self.start, self.lastseen + 1)) - self.here - self.excused

    def accept(self, first, last, from_logger):
        seen = max(self.lastseen, last)
        known = range(self.start, max(self.start, self.next))
        new = {seq for seq in range(first, last + 1) if seq >= self.start and seq not in known}
        new -= self.here | self.excused
        if not from_logger:
            new -= self.sealed
        self.lastseen = seen if last >= self.next else self.lastseen
        self.here |= new
        self.sealed -= new
        return new

    def release(self):
        told = []
        while self.next in self.here or self.next in self.excused:
            told.append(("deliver" if self.next in self.here else "skip", self.next))
            self.next += 1
        return told


def told(effects):
    for effect in effects:
        if isinstance(effect, Deliver):
            yield from (("deliver", event.id.seq) for event in effect.packet.events())
        else:
            yield from (("skip", seq) for seq in range(effect.first, effect.last + 1))


@given(st.integers(0, 6), STEPS)
def test_every_seq_is_exactly_one_of_delivered_held_missing_and_excused(start, steps):
    bench, naive = Bench(), Naive(start)
    bench.receiver.begin((Position(S, start - 1),))
    for what, first, *more in steps:
        stream = bench.stream
        if what == "accept":
            last, from_logger = first + more[0], more[1]
            effects = bench.accept(packet(first, last), from_logger)
            fresh = {event.id.seq for part in bench.fresh for event in part.events()}
            assert fresh == naive.accept(first, last, from_logger)
        elif what == "learn":
            effects = bench.learn(first)
            naive.lastseen = max(naive.lastseen, first)
        elif what == "excuse":
            last = first + more[0]
            effects = bench.excuse(first, last)
            now_excused = naive.missing() & set(range(first, last + 1))
            naive.excused |= now_excused
            naive.sealed -= now_excused
        else:
            # The phases of repair: they must not change what is missing.
            effects = []
            for part in stream.gaps.gmissing.overlap(first, first + more[0]) if stream.gaps else ():
                stream.gaps.gmissing.remove(*part)
                stream.gaps.missing.add(*part)
            for part in stream.gaps.missing.overlap(first, first + more[0]) if stream.gaps and what == "seal" else ():
                stream.gaps.sealed.add(*part)
                naive.sealed |= set(range(part[0], part[1] + 1))
        stream.check()
        assert list(told(effects)) == naive.release(), "FIFO, at most once, and nothing waits without need"
        assert (stream.next, stream.lastseen) == (naive.next, naive.lastseen)
        missing = set()
        for first_lacking, last_lacking in stream.gaps.lacks(0, 99) if stream.gaps else ():
            missing |= set(range(first_lacking, last_lacking + 1))
        assert missing == naive.missing()
        had = {seq for part in stream.had(0, 30) for seq in range(part[0], part[1] + 1)}
        assert had == naive.here
