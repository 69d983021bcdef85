"""Acknowledgements: what changed since the last version that was confirmed (`Positions`)."""

import pytest

from gossamer.messages.wire import Member, Position, Positions, Roster
from gossamer.protocol.positions import PositionExchange
from machines import S, T, context, membership, node, receive, sent


class Bench:
    def __init__(self, incarnation=1):
        self.ctx = context(incarnation=incarnation)
        self.members = membership(self.ctx, loggers="KL")
        self.at = {}
        self.exchange = PositionExchange(self.ctx, self.members, lambda stream: self.at.get(stream, -1))

    def move(self, stream, last):
        self.at[stream] = last
        self.exchange.touch(stream)

    def tell(self, node="L"):
        """The one message that goes out, or None."""
        self.exchange.tell((node,))
        effects, self.ctx.effects = self.ctx.effects, []
        messages = [message for _, message in sent(effects)]
        return messages[0] if messages else None

    def confirm(self, message, node="L"):
        self.exchange.on_positions(node, Positions(1, 0, message.version, 0, ()), taken=True)


def told(message):
    return None if message is None else {entry.stream: entry.last for entry in message.vector}


@pytest.fixture
def bench():
    return Bench()


def test_nothing_to_say_is_not_said(bench):
    assert bench.tell() is None
    assert not bench.exchange.untold(("K", "L"))


def test_what_is_confirmed_is_not_told_again(bench):
    bench.move(S, 3)
    first = bench.tell()
    assert told(first) == {S: 3}
    bench.confirm(first)
    assert bench.tell() is None
    bench.move(T, 1)
    assert told(bench.tell()) == {T: 1}


def test_what_is_not_confirmed_is_told_again_as_it_is_now(bench):
    bench.move(S, 3)
    bench.tell()
    bench.move(S, 5)
    bench.move(T, 1)
    assert told(bench.tell()) == {S: 5, T: 1}


def test_a_late_confirmation_confirms_only_what_was_told_then(bench):
    bench.move(S, 3)
    first = bench.tell()
    bench.move(T, 1)
    bench.tell()
    bench.confirm(first)
    assert told(bench.tell()) == {T: 1}
    assert bench.exchange.untold(("L",))


def test_each_is_told_what_it_has_not_confirmed(bench):
    bench.move(S, 3)
    bench.confirm(bench.tell("L"))
    assert bench.tell("L") is None
    assert told(bench.tell("K")) == {S: 3}
    assert bench.exchange.untold(("K", "L"))
    assert not bench.exchange.untold(("L",))


def test_an_old_confirmation_takes_nothing_back(bench):
    bench.move(S, 3)
    first = bench.tell()
    bench.move(T, 1)
    bench.confirm(bench.tell())
    bench.confirm(first)
    assert bench.tell() is None


def test_a_confirmation_from_the_future_confirms_what_there_is_and_no_more(bench):
    bench.move(S, 3)
    bench.tell()
    bench.exchange.on_positions("L", Positions(1, 0, 2**62, 0, ()), taken=True)
    assert bench.tell() is None
    bench.move(T, 1)
    assert told(bench.tell()) == {T: 1}


def test_a_confirmation_of_an_earlier_life_confirms_nothing_of_this_one():
    before = Bench(incarnation=1)
    for last in range(50):
        before.move(S, last)
        late = before.tell()
    now = Bench(incarnation=2)
    now.move(S, 9)
    now.tell()
    now.confirm(late)
    assert told(now.tell()) == {S: 9}


def test_a_new_life_of_the_other_side_is_told_everything(bench):
    bench.move(S, 3)
    bench.confirm(bench.tell())
    bench.exchange.forget_node("L")
    assert told(bench.tell()) == {S: 3}


def test_a_retired_stream_is_not_told(bench):
    bench.move(S, 3)
    bench.tell()
    bench.move(T, 1)
    bench.exchange.forget_stream(T)
    bench.exchange.forget_stream(S)
    assert told(bench.tell()) == {}


def test_that_a_retired_stream_is_not_told_any_more_is_confirmed_as_well(bench):
    """Or it would be said for ever, and rounds would never slow down."""
    bench.move(S, 3)
    bench.exchange.forget_stream(S)
    bench.move(T, 3)
    bench.tell()
    bench.exchange.forget_stream(T)
    bench.exchange.on_positions("L", bench.tell(), taken=True)
    ((_, answer),) = sent(bench.ctx.effects)
    bench.confirm(Positions(1, answer.confirm, 0, 0, ()))
    assert not bench.exchange.untold(("L",))


def test_a_vector_is_confirmed_if_it_was_taken_and_never_answered_with_another(bench):
    bench.move(S, 3)
    theirs = Positions(1, 7, 0, 0, (Position(T, 1),))
    bench.exchange.on_positions("L", theirs, taken=False)
    assert bench.ctx.effects == []
    bench.exchange.on_positions("L", theirs, taken=True)
    ((to, answer),) = sent(bench.ctx.effects)
    assert (to, answer.confirm, answer.vector) == (("L",), 7, ())


def test_an_acknowledgement_on_the_spot_wants_no_confirmation(bench):
    bench.at[S] = 3
    bench.exchange.acknowledge("a", [S])
    ((to, message),) = sent(bench.ctx.effects)
    assert (to, message.version, told(message)) == (("a",), 0, {S: 3})
    bench.ctx.effects.clear()
    bench.exchange.on_positions("a", message, taken=True)
    assert bench.ctx.effects == []


# In a node -----------------------------------------------------------------------------------------------------------


def acknowledging(me, vector, root=None, freshness=1, version=5):
    return Positions(freshness, version, 0, me.membership.table.root if root is None else root, vector)


def test_a_logger_takes_no_acknowledgement_before_it_knows_every_member_that_the_sender_knows():
    """rpbcast §5.3: or what a joiner is owed could be collected."""
    me, _ = node("L", brokers="ab", logger=True)
    vector = (Position(S, 3),)
    effects = receive(me, "a", acknowledging(me, vector, root=12345))
    assert me.stability.position("a", S) == -1
    assert [type(message) for _, message in sent(effects)] == [Roster], "it asks who that is, and confirms nothing"
    effects = receive(me, "a", acknowledging(me, vector))
    assert me.stability.position("a", S) == 3
    assert [message.confirm for _, message in sent(effects, Positions)] == [5]


def test_a_broker_takes_a_loggers_word_at_once():
    me, _ = node(loggers="L")
    receive(me, "L", acknowledging(me, (Position(S, 3),), root=12345))
    assert me.stability.position("L", S) == 3


def test_positions_tell_that_events_exist():
    me, _ = node(loggers="L")
    receive(me, "L", acknowledging(me, (Position(S, 3),)))
    assert me.receiver.streams[S].lastseen == 3
    assert me.position(S) == -1, "to know of them is not to have them"


def test_another_lifes_acknowledgements_do_not_count():
    me, _ = node("L", brokers="a", logger=True)
    receive(me, "a", acknowledging(me, (Position(S, 3),), freshness=9))
    receive(me, "stranger", acknowledging(me, (Position(S, 3),)))
    assert me.stability.position("a", S) == -1
    assert S not in me.receiver.streams


def test_a_new_life_has_acknowledged_nothing():
    me, _ = node("L", brokers="a", logger=True)
    receive(me, "a", acknowledging(me, (Position(S, 3),)))
    me.membership.merge(Member("a", "member", 2))
    assert me.stability.position("a", S) == -1
