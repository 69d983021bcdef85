"""Back-pressure: what is granted, to whom, and who is waited for (row S10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.ids import SEQ_MAX
from gossamer.messages.wire import Data, Echo, Position, Window
from gossamer.protocol.config import Group
from gossamer.protocol.effects import Ready, Refused
from gossamer.protocol.flow import Rooms, Windows
from gossamer.protocol.inputs import Publish, Room, Wake
from gossamer.protocol.receiver import Receiver
from machines import S, T, context, keyed, membership, node, only, packet, receive, sent

GROUP = "default"
U = "default/~c-1.0"
OWN = "default/~me-1.0"
BOTH_ON = {GROUP: Group(purging=True, backpressure=True)}


class Rooming:
    """The receiving side. `told` is how far each stream's publisher was last told that it may go."""

    def __init__(self, **config):
        self.ctx = context(groups=BOTH_ON, **config)
        self.receiver = Receiver(self.ctx, lambda *_: None)
        self.rooms = Rooms(self.ctx, self.receiver)
        self.told = {}

    def accept(self, *packets):
        for each in packets:
            self.receiver.accept(each, False)
            stream = self.receiver.streams[each.stream]
            stream.origin = f"publisher of {each.stream}"
            self.rooms.on_opened(each.stream)
        return self._did()

    def room(self, events):
        self.rooms.on_room(GROUP, events)
        return self._did()

    def round(self):
        self.rooms.on_round()
        return self._did()

    def _did(self):
        told = {}
        for to, message in sent(self.ctx.effects, Window):
            for position in message.vector:
                assert to == (f"publisher of {position.stream}",)
                told[position.stream] = position.last
        self.ctx.effects = []
        self.told |= told
        return told

    def outstanding(self):
        """What may still come."""
        streams = self.receiver.streams
        return sum(max(0, last - streams[name].next + 1) for name, last in self.told.items())


def test_room_is_granted_to_the_only_stream():
    bench = Rooming()
    bench.room(5)
    assert bench.accept(packet(0)) == {S: 4}, "one of the five has come, and the application has not said more"
    assert bench.room(4) == {}
    assert bench.room(5) == {S: 5}, "it has taken one"
    assert bench.accept(packet(1)) == {}
    assert bench.room(5) == {S: 6}, "the one that came has purged another: as much room as before"


def test_several_streams_share_and_the_odd_one_goes_to_who_has_least():
    bench = Rooming()
    bench.room(0)
    bench.accept(packet(0), packet(0, stream=T), packet(0, stream=U))
    assert bench.room(3) == {S: 1, T: 1, U: 1}
    assert bench.room(4) == {S: 2}
    assert bench.room(6) == {T: 2, U: 2}


def test_a_stream_that_is_new_gets_what_nobody_has():
    bench = Rooming()
    bench.room(6)
    assert bench.accept(packet(0)) == {S: 5}
    assert bench.accept(packet(0, stream=T)) == {T: 1}, "nothing is left, but one it gets, or it could not begin"
    assert bench.round() == {S: 5, T: 1}
    assert bench.room(10) == {T: 3, S: 7}, "of what is new, all get a share, and who has least the larger one"


def test_what_a_stream_does_not_use_is_taken_back():
    bench = Rooming()
    bench.room(0)
    bench.accept(packet(0), packet(0, stream=T))
    assert bench.room(9) == {S: 5, T: 4}
    bench.round()
    bench.accept(packet(1))
    bench.room(8)
    assert bench.round() == {S: 8, T: 1}, "T has rested for a round, S has not"


def test_of_a_stream_that_came_by_repair_alone_everyone_is_told():
    bench = Rooming()
    bench.room(3)
    bench.accept(packet(0))
    bench.rooms._everyone = lambda: ("a", "b")
    bench.receiver.streams[S].origin = None
    bench.rooms.on_round()
    assert [to for to, _ in sent(bench.ctx.effects, Window)] == [("a",), ("b",)]


def test_without_a_word_of_the_application_there_is_no_limit():
    bench = Rooming()
    assert bench.accept(packet(0)) == {S: SEQ_MAX}
    assert bench.room(3) == {S: 3}, "now there is"
    assert bench.room(None) == {S: SEQ_MAX}


def test_a_window_that_was_lost_is_told_again_at_a_round():
    bench = Rooming()
    bench.room(5)
    told = bench.accept(packet(0))
    assert bench.round() == told
    assert bench.round() == told


def test_a_round_grants_no_more_than_there_is():
    """What was delivered since the application last told its room is in there."""
    bench = Rooming()
    bench.room(5)
    bench.accept(packet(0), packet(1), packet(2))
    assert bench.round() == {S: 4}


def test_what_was_overrun_is_paid_back():
    bench = Rooming()
    bench.accept(packet(0))
    bench.room(0)
    bench.accept(packet(1, 7))
    assert bench.room(0) == {}
    assert bench.room(1) == {S: 8}


def test_a_stream_that_is_over_gives_its_share_back():
    bench = Rooming()
    bench.room(4)
    bench.accept(packet(0), packet(0, stream=T))
    bench.receiver.retire(S)
    bench.rooms.forget(S)
    assert bench.room(4) == {T: 4}


@given(
    st.integers(3, 9),
    st.lists(
        st.tuples(st.sampled_from(["publish", "purge"]), st.sampled_from([S, T, U]))
        | st.tuples(st.sampled_from(["consume", "round"]), st.none()),
        max_size=80,
    ),
)
def test_grants_never_exceed_the_room(events_max, steps):
    """Publishers that keep to what they were told never overfill the queue, however the steps mix."""
    bench, queued = Rooming(), 0
    bench.room(events_max)
    following = {}
    for step, stream in steps:
        if step in ("publish", "purge"):
            seq = following.get(stream, 0)
            if seq == 0 and queued + bench.outstanding() >= events_max:
                continue  # the first of a stream comes unasked: that is what `window_events` risks
            if seq > bench.told.get(stream, SEQ_MAX):
                continue
            following[stream] = seq + 1
            bench.accept(packet(seq, stream=stream))
            queued += step == "publish" or queued == 0
            bench.room(events_max - queued)
        elif step == "consume" and queued:
            queued -= 1
            bench.room(events_max - queued)
        elif step == "round":
            bench.round()
        assert queued <= events_max
        assert bench.outstanding() <= events_max - queued
    while queued:
        queued -= 1
        bench.room(events_max - queued)
    assert bench.outstanding() == (events_max if following else 0), "all room is somebody's in the end"


# The publisher's side -------------------------------------------------------------------------------------------------


class Sending:
    def __init__(self, brokers="ab", **config):
        config = {"window_events": 3, "window_patience_s": 5.0, "groups": BOTH_ON, **config}
        self.ctx = context(**config)
        self.heard = dict.fromkeys(brokers, 0.0)
        self.rooms = Rooms(self.ctx, Receiver(self.ctx, lambda *_: None))
        self.windows = Windows(self.ctx, membership(self.ctx, brokers), self.rooms, self.heard.__getitem__)

    def may(self, following):
        return self.windows.may_send(S, following)

    def window(self, node, last):
        """Which streams may go on."""
        self.windows.on_window(node, (Position(S, last),))
        return self._ready()

    def at(self, now):
        self.ctx.now = now
        self.windows.recheck()
        return self._ready()

    def _ready(self):
        effects, self.ctx.effects = self.ctx.effects, []
        assert all(isinstance(effect, Ready) for effect in effects)
        return [effect.stream for effect in effects]


def test_before_a_member_has_told_its_room_a_few_may_be_sent():
    bench = Sending()
    assert [bench.may(seq) for seq in range(5)] == [True, True, True, False, False]


def test_the_lowest_window_counts():
    bench = Sending()
    assert bench.may(0)
    assert not bench.may(3)
    assert bench.window("a", 9) == []
    assert bench.window("b", 3) == [S]
    assert bench.may(3)
    assert not bench.may(4)


def test_ready_is_told_once():
    bench = Sending("a")
    assert bench.may(0)
    assert not bench.may(3)
    assert not bench.may(3), "asked twice"
    assert bench.window("a", 5) == [S]
    assert bench.window("a", 6) == []
    assert bench.at(1.0) == []


def test_a_window_told_before_anything_was_refused_makes_nobody_ready():
    bench = Sending("a")
    assert bench.may(0)
    assert bench.window("a", 9) == []


def test_a_member_that_is_not_heard_of_holds_up_nobody_after_a_while():
    bench = Sending()
    bench.may(0)
    bench.window("a", 20)
    bench.window("b", 2)
    assert not bench.may(3)
    bench.heard["a"] = 5.5
    assert bench.at(5.0) == []
    assert bench.at(5.6) == [S]
    assert bench.may(20)
    bench.heard["b"] = 6.0
    assert not bench.may(4), "it is back, and what it told last counts"


def test_a_window_may_move_back():
    """The application has less room than it had: a new life, or another subscription."""
    bench = Sending("a")
    bench.may(0)
    bench.window("a", 20)
    bench.window("a", 4)
    assert not bench.may(5)


def test_a_group_without_back_pressure_is_never_held_up():
    bench = Sending(groups={})
    assert bench.may(1_000)
    assert bench.window("a", 0) == []


def test_a_stream_that_is_over_is_forgotten():
    bench = Sending("a")
    assert bench.may(0)
    assert not bench.may(3)
    bench.windows.forget(S)
    assert bench.window("a", 9) == []


# In a node ------------------------------------------------------------------------------------------------------------


def publish(me, count=1, now=0.0):
    return me.handle(Publish(OWN, tuple(keyed(0, *["x"] * count).events())), now)


def test_a_publisher_is_refused_and_told_when_to_go_on():
    me, _ = node(brokers="b", groups=BOTH_ON, window_events=2)
    assert [len(only(publish(me), Refused)) for _ in range(3)] == [0, 0, 1]
    assert only(receive(me, "b", Window((Position(OWN, 1),))), Ready) == []
    assert only(receive(me, "b", Window((Position(OWN, 2),))), Ready) == [Ready(OWN)]
    assert only(receive(me, "b", Window((Position(OWN, 3),))), Ready) == []
    assert only(publish(me), Refused) == []


def test_a_batch_that_begins_within_the_window_is_taken_whole():
    me, _ = node(brokers="b", groups=BOTH_ON, window_events=2)
    assert only(publish(me, 5), Refused) == []
    assert len(only(publish(me), Refused)) == 1


def test_the_publishers_own_application_holds_it_up_as_well():
    me, _ = node(brokers="", groups=BOTH_ON)
    me.handle(Room(GROUP, 2), 0.0)
    assert [len(only(publish(me), Refused)) for _ in range(3)] == [0, 0, 1]
    assert only(me.handle(Room(GROUP, 1), 0.0), Ready) == [Ready(OWN)]


def test_a_member_tells_a_publishers_node_when_something_comes_and_at_every_round():
    me, _ = node(brokers="a", groups=BOTH_ON)
    me.handle(Room(GROUP, 5), 0.0)
    told = sent(receive(me, "a", Data("a", packet(0))), Window)
    assert told == [(("a",), Window((Position(S, 4),)))], "everyone is told until it is known whose it is"
    assert [message.vector for _, message in sent(me.handle(Wake(), 1.0), Window)] == [(Position(S, 4),)]
    assert sent(me.handle(Room(GROUP, 5), 1.0), Window) == [(("a",), Window((Position(S, 5),)))]


def test_silence_is_noticed_at_a_round():
    me, _ = node(brokers="ab", groups=BOTH_ON, window_events=1, window_patience_s=5.0)
    publish(me)
    receive(me, "a", Window((Position(OWN, 99),)), 0.0)
    assert len(only(publish(me), Refused)) == 1
    ready = []
    for now in range(1, 10):
        receive(me, "a", Echo(0), float(now))
        ready += only(me.handle(Wake(), float(now)), Ready)
    assert ready == [Ready(OWN)]
    assert only(publish(me, now=9.0), Refused) == []


@pytest.mark.parametrize("groups", [{}, {GROUP: Group(purging=True, backpressure=False)}])
def test_without_back_pressure_nobody_tells_windows(groups):
    me, _ = node(brokers="a", groups=groups)
    effects = [*receive(me, "a", Data("a", packet(0))), *me.handle(Wake(), 1.0)]
    assert sent(effects, Window) == []


def test_a_node_that_takes_a_stream_over_is_told_the_window():
    """A client has gone to another broker, which knows no windows; so old an event as it sends again brings them."""
    me, _ = node(brokers="ab", groups=BOTH_ON)
    me.handle(Room(GROUP, 5, "slow/0"), 0.0)
    receive(me, "a", Data("a", packet(0)))
    told = sent(receive(me, "b", Data("b", packet(0))), Window)
    assert told == [((peer,), Window((Position(S, 4),), "slow/0")) for peer in "ab"], "either may publish it now"
    told = sent(me.handle(Room(GROUP, 9, "slow/0"), 0.0), Window)
    assert told == [((peer,), Window((Position(S, 9),), "slow/0")) for peer in "ab"]


def test_the_blocking_member_and_its_consumer_are_named():
    bench = Sending()
    bench.may(0)
    bench.windows.on_window("a", (Position(S, 9),), "fast/0")
    bench.windows.on_window("b", (Position(S, 3),), "slow/1")
    assert not bench.may(4)
    assert bench.windows.blocker(S) == ("b", "slow/1")
    bench.rooms._granted[GROUP] = {S: 1}
    bench.rooms._by[GROUP] = "own/2"
    assert bench.windows.blocker(S) == (bench.ctx.node, "own/2")


def test_a_publisher_may_ask_how_far_it_may_go_and_is_told_when_that_moves():
    bench = Sending("a")
    bench.may(0)
    bench.window("a", 20)
    assert bench.windows.wait(S, 5) == 20
    assert bench.window("a", 20) == []
    assert bench.window("a", 21) == [S]
    assert bench.window("a", 30) == [], "until it asks again"


def test_a_member_that_never_tells_a_window_does_not_stop_publishers_for_good():
    """It was not told of the group's back-pressure."""
    bench = Sending("ab", window_patience_s=5.0)
    bench.may(0)
    bench.window("a", 99)
    assert not bench.may(3), "b has not told its room"
    bench.heard |= {"a": 9.0, "b": 9.0}
    assert bench.at(4.9) == []
    assert bench.at(5.1) == [S]
    assert bench.window("b", 3) == []
    assert not bench.may(4), "now it has"


def test_member_that_tells_windows_of_other_streams_only_does_not_stop_a_publisher_for_good():
    """It takes a stream that has moved here for that of a node which is dead."""
    bench = Sending("ab", window_patience_s=5.0)
    bench.may(0)
    bench.window("a", 99)
    bench.window("b", 99)
    bench.windows.may_send(T, 0)
    bench.windows.on_window("a", (Position(T, 99),))
    assert not bench.windows.may_send(T, 3), "b has told no window of this stream"
    bench.heard |= {"a": 9.0, "b": 9.0}
    assert bench.at(4.9) == []
    assert bench.at(5.1) == [T]


def test_a_member_tells_its_window_of_streams_that_it_begins_behind():
    """It joined when all that the publisher could send without its window had been sent: nothing more would come."""
    me, _ = node(brokers="ab", groups=BOTH_ON)
    me.handle(Room(GROUP, 5), 0.0)
    me._ctx.effects = []
    me.receiver.begin((Position(S, 10),))
    assert sent(me._ctx.effects, Window) == [((peer,), Window((Position(S, 15),))) for peer in "ab"]
