"""Which events are safe, and what may be forgotten for them (row S5, 000 §4.3)."""

from collections import defaultdict

import pytest

from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Hole, Packet
from gossamer.messages.wire import Data, Position, Positions, Tell
from gossamer.protocol.config import Group
from gossamer.protocol.effects import Acked
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.inputs import Publish, Wake
from gossamer.protocol.safety import Safety
from gossamer.protocol.sender import Sender
from gossamer.protocol.stability import Stability
from gossamer.protocol.thinning import thin
from machines import S, T, context, keyed, membership, node, packet, receive, sent

X5 = EventId(S, 5)
OWN = "default/~me-1.0"
BODY = bytes(1_000)


class Bench:
    """The safety tracking of a node that has nothing itself, unless a test says so."""

    def __init__(self, brokers="abcd", loggers="", faults=2, logger=False, **config):
        self.ctx = context(logger=logger, **config)
        self.stability = Stability()
        for name in loggers:
            self.stability.wait_for(name)
        self.own = defaultdict(lambda: Position(S, -1))
        self.safety = Safety(
            self.ctx, membership(self.ctx, brokers, loggers), self.stability, self.own.__getitem__, lambda: faults
        )

    def logs(self, node, last):
        self.stability.acknowledge(node, (Position(S, last),))

    def holds(self, node, last, start=0):
        self.safety.on_positions(node, (Position(S, last, False, start),))

    def round(self):
        """Who is asked about what."""
        self.safety.on_round()
        effects, self.ctx.effects = self.ctx.effects, []
        return sent(effects)


# Logged --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loggers_min", "logged", "safe"),
    [(1, {}, False), (1, {"L": 4}, False), (1, {"L": 5}, True), (2, {"L": 5}, False), (2, {"L": 5, "K": 9}, True)],
)
def test_what_is_logged_is_safe(loggers_min, logged, safe):
    bench = Bench(loggers="KL", loggers_min=loggers_min)
    for name, last in logged.items():
        bench.logs(name, last)
    assert bench.safety.is_safe(X5) is safe


def test_what_brokers_have_is_not_logged():
    bench = Bench(loggers="L")
    bench.stability.wait_for("a")
    bench.logs("a", 9)
    assert not bench.safety.is_safe(X5)


def test_a_logger_counts_itself():
    bench = Bench(loggers="", logger=True, faults=9)
    assert not bench.safety.is_safe(X5)
    bench.own[S] = Position(S, 5)
    assert bench.safety.is_safe(X5)


# Held by f + 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "holders", "safe"),
    [
        ((0, 5), {}, False),
        ((0, 5), {"a": (0, 5)}, False),
        ((0, 5), {"a": (0, 5), "b": (0, 9)}, True),
        ((0, 4), {"a": (0, 5), "b": (0, 9)}, False),
        ((0, 4), {"a": (0, 5), "b": (0, 9), "c": (5, 5)}, True),
        ((0, 5), {"a": (0, 5), "b": (0, 4)}, False),
        ((0, 5), {"a": (0, 5), "b": (6, 9)}, False),
        ((6, 9), {"a": (0, 5), "b": (0, 5)}, False),
    ],
    ids=["we", "two", "three", "not-we", "three-others", "not-there-yet", "began-later", "we-began-later"],
)
def test_f_plus_1_must_hold_it_and_one_that_began_after_it_does_not(own, holders, safe):
    bench = Bench(faults=2)
    bench.own[S] = Position(S, own[1], False, own[0])
    assert not bench.safety.is_safe(X5)
    bench.round()
    for name, (start, last) in holders.items():
        bench.holds(name, last, start)
    assert bench.safety.is_safe(X5) is safe


def test_a_new_life_holds_nothing():
    bench = Bench(faults=1)
    bench.own[S] = Position(S, 9)
    bench.safety.is_safe(X5)
    bench.round()
    bench.holds("a", 9)
    bench.safety.forget("a")
    assert not bench.safety.is_safe(X5)


# Asking --------------------------------------------------------------------------------------------------------------


def test_nobody_is_asked_while_nothing_is_in_question():
    bench = Bench()
    assert bench.round() == []
    bench.holds("a", 9)
    bench.holds("b", 9)
    bench.own[S] = Position(S, 9)
    assert not bench.safety.is_safe(X5), "what was told unasked is not kept"


def test_what_is_in_question_is_asked_of_f_members_in_the_next_round():
    bench = Bench(faults=2)
    bench.safety.is_safe(X5)
    bench.safety.is_safe(EventId(S, 7))
    bench.safety.is_safe(EventId(T, 0))
    ((to, tell),) = bench.round()
    assert len(to) == 2
    assert tell == Tell((S, T))
    assert bench.round() == [], "it was in question once"


def test_what_is_known_to_be_safe_is_not_asked_about():
    bench = Bench(loggers="L")
    bench.logs("L", 5)
    assert bench.safety.is_safe(X5)
    assert bench.round() == []


def test_a_member_that_is_asked_answers_on_the_spot():
    me, _ = node(brokers="ab")
    receive(me, "a", Data("a", packet(0, 3)))
    ((to, told),) = sent(receive(me, "b", Tell((S, T))), Positions)
    assert to == ("b",)
    assert [(position.stream, position.last) for position in told.vector] == [(S, 3)], "silence about what is unknown"


# Thinning ------------------------------------------------------------------------------------------------------------

HISTORY = [keyed(0, "x", None), keyed(2, "x", "y"), keyed(4, "x"), keyed(0, "x", stream=T)]


@pytest.mark.parametrize(
    ("safe", "left"),
    [
        ([], {}),
        ([2], {0: [(0, 2)]}),
        ([2, 4], {0: [(0, 2)], 2: [(2, 4)]}),
        ([4], {2: [(2, 4)]}),
        ([0, 1, 3], {}),
    ],
)
def test_what_is_obsolete_for_something_safe_goes_and_leaves_a_final_mark(safe, left):
    thinned = thin(HISTORY, lambda _: True, lambda event: event.stream == S and event.seq in safe)
    found = {whole.first: [(hole.first, hole.by) for hole in less.holes] for whole, less in thinned}
    assert found == left
    for whole, less in thinned:
        assert (less.first, less.last) == (whole.first, whole.last)
        assert all(hole.final for hole in less.holes)
        gone = {hole.first for hole in less.holes}
        assert dict(less.encoded()) == {seq: piece for seq, piece in whole.encoded() if seq not in gone}


def test_of_groups_that_do_not_purge_everything_is_kept():
    assert thin(HISTORY, lambda _: False, lambda _: True) == []


def test_rubbish_is_kept_and_obsoletes_nothing():
    rubbish = Packet("default/~x-1.0", 0, b"\3\0\0\0", b"\xc1\xc1\xc1")
    assert thin([rubbish, *HISTORY], lambda _: True, lambda _: True) == thin(HISTORY, lambda _: True, lambda _: True)


def test_a_gossip_buffer_is_thinned_in_place_and_accounts_for_it():
    buffer = GossipBuffer(10**6)
    for round_no, each in enumerate(HISTORY):
        buffer.add(each, round_no)
    before = buffer.bytes
    buffer.purge(lambda _: True, lambda _: False)
    assert buffer.bytes == before
    buffer.purge(lambda _: True, lambda event: event.seq == 4)
    (thinned,) = buffer.find(S, 2, 3)
    assert thinned.holes == (Hole(2, 2, 4, True),)
    assert before - buffer.bytes == len(HISTORY[1].blob) - len(thinned.blob) > 0
    buffer.purge(lambda _: True, lambda event: event.seq == 4)
    assert buffer.find(S, 2, 3) == [thinned], "once is enough"
    buffer.collect(99)
    assert buffer.bytes == 0


# The publisher's own -------------------------------------------------------------------------------------------------


def publisher():
    ctx = context()
    sender = Sender(ctx, membership(ctx, "a", "L"))
    for each in (keyed(0, "x", None), keyed(2, "x", "x"), keyed(4, "x", None)):
        sender.publish(OWN, tuple(each.events()))
    return ctx, sender


def test_a_send_buffer_is_thinned_for_what_is_safe_and_accounts_for_it():
    ctx, sender = publisher()
    before = sender.bytes
    sender.purge(lambda _: True, lambda _: False)
    assert sender.bytes == before
    sender.purge(lambda _: True, lambda event: event.seq <= 3)
    assert [each.holes for each in sender.find(OWN, 0, 5)] == [(Hole(0, 0, 2, True),), (Hole(2, 2, 3, True),), ()]
    assert sender.bytes == sum(len(each.blob) for each in sender.find(OWN, 0, 5)) < before
    ctx.effects = []
    sender.on_positions("L", (Position(OWN, 5),))
    assert ctx.effects == [Acked(OWN, 5, "logged")], "what was purged counts with the rest"
    assert sender.bytes == 0


def test_what_is_sent_again_is_the_thinned_packet():
    ctx, sender = publisher()
    sender.purge(lambda _: True, lambda event: event.seq <= 3)
    ctx.now, ctx.effects = 10.0, []
    sender.on_due()
    assert [message.packet for _, message in sent(ctx.effects, Data)] == sender.find(OWN, 0, 5)


@pytest.mark.parametrize(
    ("config", "gossip", "own"),
    [
        ({}, True, False),
        ({"purge_send_buffer": True}, True, True),
        ({"purge_above_bytes": 10**6, "purge_send_buffer": True}, False, False),
        ({"groups": {"default": Group(purging=False)}, "purge_send_buffer": True}, False, False),
    ],
    ids=["default", "opted-in", "not-too-much", "off"],
)
def test_a_node_thins_what_is_too_much_each_round(config, gossip, own):
    me, _ = node(brokers="a", faults=0, **{"purge_above_bytes": 2_000} | config)
    for content in keyed(0, "x", "x", "x", body=BODY).events():
        me.handle(Publish(OWN, (content,)), 0.0)
    me.handle(Wake(), 1.0)
    assert (me.buffer.bytes < 2_000, me.sender.bytes < 2_000) == (gossip, own)


def test_a_node_thins_nothing_for_what_is_not_safe_but_asks():
    me, _ = node(brokers="ab", faults=1, purge_above_bytes=2_000)
    for seq in range(3):
        receive(me, "a", Data("a", keyed(seq, "x", body=BODY)))
    effects = me.handle(Wake(), 1.0)
    assert me.buffer.bytes > 3_000
    ((to, tell),) = sent(effects, Tell)
    assert tell == Tell((S,))
    told = Positions(1, 0, 0, me.membership.table.root, (Position(S, 2),))
    receive(me, to[0], told, 1.1)
    me.handle(Wake(), 2.0)
    me.handle(Wake(), 3.0)  # a pass in vain is not repeated at once
    assert me.buffer.bytes < 2_000


def test_who_is_not_among_us_holds_nothing():
    bench = Bench(faults=1)
    assert not bench.safety.is_safe(X5)
    bench.round()
    for name in ("gone", "ghost"):
        bench.holds(name, 9)
    assert not bench.safety.is_safe(X5)
    bench.holds("a", 9)
    bench.holds("b", 9)
    assert bench.safety.is_safe(X5)


@pytest.mark.parametrize(
    ("brokers", "faults", "expected"), [("", None, 0), ("a", None, 1), ("abcde", None, 2), ("a", 0, 0)]
)
def test_what_may_be_forgotten_stands_one_crash_at_least_unless_it_was_said_otherwise(brokers, faults, expected):
    me, _ = node(brokers=brokers, faults=faults)
    assert me._faults() == expected


@pytest.mark.parametrize(("waits", "again"), [(False, 1), (True, 0)])
def test_nothing_is_sent_again_to_a_peer_for_which_something_waits(waits, again):
    ctx = context(resend_s=0.5)
    sender = Sender(ctx, membership(ctx, "", "L"), is_saturated=lambda _: waits)
    sender.publish(OWN, (Content(),))
    ctx.now = 0.6
    sender.on_due()
    assert len(sent(ctx.effects, Data)) == again


def test_passes_that_find_nothing_become_rare():
    me, _ = node(brokers="ab", faults=1, purge_above_bytes=0, gclimit_rounds=1_000)
    receive(me, "a", Data("a", keyed(0, "x", body=BODY)))
    passes = []
    for number in range(1, 16):
        me.handle(Wake(), float(number))
        passes.append(me.making_room._at_round)
    assert sorted(set(passes)) == [3, 7, 15, 31], "after rounds 1, 3, 7 and 15"
