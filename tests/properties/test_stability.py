"""Positions agree with the thesis's wait list for each message (rpbcast §5.2, `LoggerGC`)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages.wire import Position
from gossamer.protocol.stability import Stability
from machines import S, T

MEMBERS = st.sampled_from("abc")
STREAMS = st.sampled_from([S, T])


class LoggerGC:
    """As printed, but collecting each stream in order, which is what a log can do."""

    def __init__(self):
        self.current_member = set()
        self.logbuf = {}
        """id: wait list."""
        self.last = {S: -1, T: -1}
        self.collected = {S: -1, T: -1}

    def new_member(self, j):
        self.current_member.add(j)
        for wait in self.logbuf.values():
            wait.add(j)

    def remove_member(self, j):
        self.current_member.discard(j)  # sloppy on purpose: existing wait lists are not shortened

    def add_message(self, stream):
        self.last[stream] += 1
        self.logbuf[stream, self.last[stream]] = set(self.current_member)

    def gc(self, j, stream, last):
        for (name, seq), wait in self.logbuf.items():
            if name == stream and seq <= last:
                wait.discard(j)

    def collect(self):
        for stream in self.collected:
            while self.logbuf.get((stream, self.collected[stream] + 1)) == set():
                self.collected[stream] += 1
                del self.logbuf[stream, self.collected[stream]]
        return self.collected


STEPS = st.lists(
    st.tuples(st.just("add_message"), STREAMS)
    | st.tuples(st.just("new_member"), MEMBERS)
    | st.tuples(st.just("remove_member"), MEMBERS)
    | st.tuples(st.just("gc"), MEMBERS, STREAMS, st.integers(-1, 8))
    | st.tuples(st.just("collect")),
    max_size=60,
)


@settings(max_examples=400)
@given(STEPS)
def test_what_is_stable_is_what_no_wait_list_holds_back(steps):
    stability, naive = Stability(), LoggerGC()
    collected = {S: -1, T: -1}
    for what, *about in steps:
        if what == "gc" and about[2] > naive.last[about[1]]:
            continue  # nobody acknowledges what does not exist
        if what == "remove_member" and about[0] not in naive.current_member:
            continue
        if what != "collect":
            getattr(naive, what)(*about)
        if what == "new_member":  # each life acknowledges anew
            stability.forget(about[0])
            stability.wait_for(about[0])
        elif what == "remove_member":
            stability.release(about[0], dict(naive.last))
        elif what == "gc":
            stability.acknowledge(about[0], (Position(about[1], about[2]),))
        elif what == "collect":
            for stream, upto in collected.items():
                collected[stream] = max(upto, stability.stable(stream, naive.last[stream], upto))
            assert collected == naive.collect()
        for stream, last in naive.last.items():
            assert stability.is_stable(stream, last) == (stability.stable(stream, last) == last)


def test_a_member_that_left_is_waited_for_in_what_was_there_and_not_in_what_came_after():
    stability = Stability()
    stability.wait_for("a")
    stability.acknowledge("a", (Position(S, 2),))
    stability.release("a", {S: 4})
    assert stability.stable(S, 9) == 2
    stability.acknowledge("a", (Position(S, 4),))
    assert stability.stable(S, 9) == 9


def test_who_left_is_not_waited_for_in_what_is_collected_already():
    """It may have come and gone without a word; what came after it is not its business."""
    stability = Stability()
    stability.wait_for("a")
    stability.release("a", {S: 4})
    assert stability.stable(S, 9, collected=3) <= 3
    assert stability.stable(S, 9, collected=4) == 9


def test_nobody_is_waited_for_beyond_what_this_node_has_itself():
    stability = Stability()
    assert stability.stable(S, 3) == 3
    stability.wait_for("a")
    assert stability.stable(S, 3) == -1
    stability.acknowledge("a", (Position(S, 9),))
    assert stability.stable(S, 3) == 3


def test_an_older_acknowledgement_takes_nothing_back_and_a_strangers_counts_for_nothing():
    stability = Stability()
    stability.wait_for("a")
    stability.acknowledge("a", (Position(S, 5),))
    stability.acknowledge("a", (Position(S, 3),))
    stability.acknowledge("b", (Position(S, 1),))
    assert stability.stable(S, 9) == 5
    assert stability.position("b", S) == -1
    assert stability.positions("a") == (Position(S, 5),)


def test_a_new_life_has_acknowledged_nothing():
    stability = Stability()
    stability.wait_for("a")
    stability.acknowledge("a", (Position(S, 5),))
    stability.forget("a")
    assert stability.stable(S, 9) == -1


def test_of_a_retired_stream_nothing_is_kept():
    stability = Stability()
    for member in "ab":
        stability.wait_for(member)
        stability.acknowledge(member, (Position(S, 5), Position(T, 1)))
    stability.release("b", {S: 5, T: 2})
    stability.retire(S)
    assert [stability.positions(member) for member in "ab"] == [(Position(T, 1),)] * 2
    assert stability._until["b"] == {T: 2}, "of one that left, only what it lacks"
