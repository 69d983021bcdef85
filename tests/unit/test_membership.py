"""Approximate membership: in and out by sponsors, merged by freshness (rpbcast §5.3)."""

import random

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.messages.wire import Join, Member, Position, Retired, Roster, Sponsor
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Became, Persist
from gossamer.protocol.inputs import Disconnect, Leave, Met, Persisted, Received, Reconnect, Start
from gossamer.protocol.membership import PATIENCE_ROUNDS, TRANSITIONS, Membership
from gossamer.protocol.node import Node
from machines import S, T, context, membership, node, receive, records, sent


def test_the_life_of_a_member_is_that_of_figure_5_5_with_disconnection():
    assert {f"{state} -- {event} --> {after}" for (state, event), after in TRANSITIONS.items()} == {
        "outside -- bootstrap --> member",
        "outside -- join --> joining",
        "joining -- sponsored --> member",
        "member -- leave --> leaving",
        "leaving -- sponsored --> outside",
        "member -- disconnect --> disconnecting",
        "disconnecting -- sponsored --> disconnected",
        "disconnected -- reconnect --> member",
        "disconnecting -- reconnect --> member",
    }


# Joining -------------------------------------------------------------------------------------------------------------


class Joiner:
    """A newcomer that calls its peers, and where it was told to begin."""

    def __init__(self, peers="abc", resume=False, **config):
        self.ctx = context("new", incarnation=5, **config)
        self.began = None
        self.members = Membership(self.ctx, tuple(peers), resume, lambda _: ((), (), ()), self._begin, lambda *_: None)
        self.members.start()

    def _begin(self, beginning):
        vector, retired, _ = beginning
        self.began = {position.stream: position.last for position in vector}, retired

    def sponsor(self, sender, vector=(), members=(), logger=False, freshness=5, retired=()):
        known = (Member(sender, "member", 1, logger), Member("new", "member", 5), *members)
        positions = tuple(Position(stream, last) for stream, last in dict(vector).items())
        self.members.on_sponsor(sender, Sponsor(freshness, known, positions, retired))
        return self.members.status


def test_a_newcomer_calls_its_peers_until_it_is_in():
    new = Joiner(sponsors=1)
    call = (("a", "b", "c"), Join(Member("new", "member", 5)))
    assert sent(new.ctx.effects) == [call]
    new.members.call()
    assert sent(new.ctx.effects) == [call] * 2
    assert new.sponsor("a") == "member"
    new.ctx.effects.clear()
    new.members.call()
    assert new.ctx.effects == []


def test_it_takes_k_sponsors():
    new = Joiner(sponsors=3)
    assert [new.sponsor(name) for name in "aab"] == ["joining"] * 3, "each counts once"
    assert new.began is None
    assert new.sponsor("c") == "member"


def test_one_logger_is_enough():
    assert Joiner(sponsors=3).sponsor("L", logger=True) == "member"


def test_if_nobody_else_answers_for_some_rounds_there_are_no_more():
    new = Joiner(sponsors=3)
    new.sponsor("a")
    statuses = []
    for _ in range(PATIENCE_ROUNDS):
        new.ctx.round += 1
        new.members.call()
        statuses.append(new.members.status)
        new.sponsor("a")  # it answers every call, which is nothing new
    assert statuses == ["joining"] * (PATIENCE_ROUNDS - 1) + ["member"]


def test_t_join_is_the_element_wise_maximum_of_the_sponsors_vectors():
    new = Joiner(sponsors=3)
    new.sponsor("a", {S: 7, T: 1})
    new.sponsor("b", {S: 3, T: 4})
    new.sponsor("c", {T: 2})
    assert new.began == ({S: 7, T: 4}, ())


def test_a_sponsor_may_tell_its_vector_in_parts():
    new = Joiner(sponsors=1)
    new.members.on_sponsor("a", Sponsor(5, (), (Position(S, 7),)))
    assert new.members.status == "joining"
    new.sponsor("a", {T: 2}, retired=(Retired("default/~x-1", ((0, 3),)),))
    assert new.began == ({S: 7, T: 2}, (Retired("default/~x-1", ((0, 3),)),))


def test_a_sponsorship_of_another_attempt_does_not_count():
    new = Joiner(sponsors=1)
    assert new.sponsor("a", {S: 9}, freshness=4) == "joining"
    new.members.on_sponsor("a", Sponsor(4, (), (Position(S, 9),)))
    new.sponsor("a", {S: 2})
    assert new.began == ({S: 2}, ())


def test_who_finds_a_fresher_record_of_itself_asks_anew_with_one_fresher_still():
    new = Joiner(sponsors=1)
    assert new.sponsor("a", {S: 9}, members=(Member("new", "left", 8),)) == "joining"
    assert new.members.own == Member("new", "member", 9)
    assert new.sponsor("a", {S: 2}, freshness=9) == "member"
    assert new.began == ({S: 2}, ()), "what the first answer told does not count"


def test_only_a_logger_knows_where_one_resumes():
    new = Joiner(sponsors=1, resume=True)
    assert sent(new.ctx.effects)[0][1].resume
    assert new.sponsor("a", {S: 9}) == "joining"
    assert new.sponsor("L", {S: 2}, logger=True) == "member"


def test_without_loggers_one_who_would_resume_begins_anew_after_a_while():
    mesh = Mesh("abc", seed=3)
    mesh.crash("c")
    mesh.restart("c", resume=True)
    assert mesh.run_until(lambda: mesh.status("c") == "member", 30.0)


def test_a_logger_and_whoever_has_no_peers_are_in_from_the_start():
    for peers, logger in (("ab", True), ("", False)):
        ctx = context("new", logger=logger)
        members = Membership(ctx, tuple(peers), False, lambda _: ((), (), ()), lambda *_: None, lambda *_: None)
        members.start()
        assert members.status == "member"


# Sponsoring ----------------------------------------------------------------------------------------------------------

NEW = Join(Member("new", "member", 5))


def test_a_member_sponsors_with_all_it_knows_to_exist():
    me, _ = node()
    me.receiver.learn(S, 7)
    ((to, message),) = sent(receive(me, "new", NEW), Sponsor)
    assert (to, message.freshness, message.vector) == (("new",), 5, (Position(S, 7),))
    assert Member("new", "member", 5) in message.members
    assert "new" in me.membership.active


def test_a_logger_sponsors_once_the_newcomer_is_on_its_disk():
    me, _ = node("L", logger=True)
    effects = receive(me, "new", NEW)
    assert sent(effects, Sponsor) == []
    (persist,) = [effect for effect in effects if isinstance(effect, Persist)]
    assert persist.records == (NEW.member,)
    assert [to for to, _ in sent(me.handle(Persisted(persist.token), 0.1), Sponsor)] == [("new",)]


@pytest.mark.parametrize("given", [Leave(), Disconnect()])
def test_who_is_on_its_way_out_does_not_sponsor(given):
    me, _ = node()
    me.handle(given, 0.0)
    assert me.membership.status in ("leaving", "disconnecting")
    assert sent(receive(me, "new", NEW), Sponsor) == []


def test_who_is_joining_itself_does_not_sponsor():
    me = Node("me", Config(), random.Random(1), peers=("a",))
    me.handle(Start(), 0.0)
    assert me.handle(Received("new", NEW), 0.0) == []


def test_nobody_joins_in_anothers_name():
    me, _ = node()
    assert sent(receive(me, "mallory", NEW)) == []
    assert "new" not in me.membership.active


def test_who_comes_back_with_an_older_number_than_is_known_of_it_is_told():
    """Its record grew with every disconnection; its new life, a counter, did not. It must not call in vain for ever."""
    me, _ = node()
    me.membership.merge(Member("new", "member", 9))
    effects = receive(me, "new", NEW)
    assert sent(effects, Sponsor) == []
    assert sent(effects, Roster) == [(("new",), Roster((), (Member("new", "member", 9),), False))]


def test_who_was_away_often_and_then_crashed_gets_in_again():
    mesh = Mesh("abc", "L")
    for _ in range(3):
        mesh.disconnect("c")
        mesh.run(1)
        mesh.reconnect("c")
        mesh.run(1)
    mesh.crash("c")
    mesh.restart("c")
    assert mesh.run_until(lambda: mesh.status("c") == "member", limit_s=10)
    mesh.publish("a")
    assert mesh.settle()
    assert mesh.delivered("c") == ["a:0"]


# Leaving, disconnecting ----------------------------------------------------------------------------------------------


def test_leaving_is_asked_for_until_it_is_granted():
    ctx = context(sponsors=2)
    members = membership(ctx, "abc")
    members.leave()
    assert members.status == "leaving"
    assert sent(ctx.effects) == [(("a", "b", "c"), Join(Member("me", "left", 2)))]
    known = (*records("abc"), Member("me", "left", 2))
    members.on_sponsor("a", Sponsor(2, known, ()))
    assert members.status == "leaving"
    members.on_sponsor("b", Sponsor(2, known, ()))
    assert members.status == "outside"


def test_who_leaves_is_not_gone_before_a_logger_knows():
    """A broker may crash before it has told anybody, and then nobody knows: who has left cannot tell it again."""
    ctx = context(sponsors=1)
    members = membership(ctx, "ab", "L")
    members.leave()
    known = (*records("ab", "L"), Member("me", "left", 2))
    for number in range(10):
        ctx.round = number
        members.on_sponsor("a", Sponsor(2, known, ()))
        members.call()
    assert members.status == "leaving"
    members.on_sponsor("L", Sponsor(2, known, ()))
    assert members.status == "outside"


def test_without_loggers_who_leaves_waits_for_those_that_do_not_answer():
    ctx = context(sponsors=3)
    members = membership(ctx, "ab")
    members.leave()
    known = (*records("ab"), Member("me", "left", 2))
    members.on_sponsor("a", Sponsor(2, known, ()))
    for number in range(10):
        ctx.round = number
        members.call()
    assert members.status == "leaving"
    members.on_sponsor("b", Sponsor(2, known, ()))
    assert members.status == "outside"


def test_who_leaves_takes_no_news_of_others_along():
    """b has left, and told only us: whoever lets us go has to know."""
    ctx = context(sponsors=1)
    members = membership(ctx, "ab")
    members.merge(Member("b", "left", 2))
    members.leave()
    ctx.effects = []
    members.on_sponsor("a", Sponsor(2, (*records("ab"), Member("me", "left", 2)), ()))
    assert members.status == "leaving"
    assert sent(ctx.effects) == [(("a",), Roster((), (Member("b", "left", 2),), False))]
    members.on_sponsor("a", Sponsor(2, (*records("a"), Member("b", "left", 2), Member("me", "left", 2)), ()))
    assert members.status == "outside"


@pytest.mark.parametrize("go", [Mesh.leave, Mesh.disconnect])
@pytest.mark.parametrize("loggers", ["", "L"])
def test_all_may_go_at_once(go, loggers):
    mesh = Mesh("abc", loggers)
    for name in (*loggers, *"abc"):
        go(mesh, name)
    mesh.run(10)
    assert {mesh.status(name) for name in (*loggers, *"abc")} <= {"outside", "disconnected"}


def test_who_is_alone_leaves_at_once():
    ctx = context()
    members = membership(ctx)
    members.leave()
    assert ctx.effects == [Became("leaving"), Became("outside")]


def test_who_wants_to_leave_before_it_is_in_leaves_when_it_is():
    mesh = Mesh("abc", "L")
    mesh.isolate("d")
    mesh.add("d")
    mesh.run(1)
    mesh.leave("d")
    mesh.heal()
    assert mesh.run_until(lambda: mesh.status("d") == "outside", limit_s=10), mesh.status("d")


def test_who_is_disconnected_is_not_talked_to_but_still_one_of_us():
    me, _ = node(brokers="ab")
    receive(me, "a", Join(Member("a", "disconnected", 2)))
    assert me.membership.active == ("b",)
    assert set(me.membership.others) == {"a", "b"}
    assert me.stability._until["a"] is None, "and waited for"


def test_coming_back_is_fresher_than_going():
    me, _ = node(brokers="a", sponsors=1)
    me.handle(Disconnect(), 0.0)
    receive(me, "a", Sponsor(2, (Member("a", "member", 1),), ()))
    assert me.membership.status == "disconnected"
    assert me.next_deadline() == float("inf")
    effects = me.handle(Reconnect(), 9.0)
    assert Became("member") in effects
    assert sent(effects, Join) == [(("a",), Join(Member("me", "member", 3)))]


# Merging -------------------------------------------------------------------------------------------------------------

LADDER = [
    Member("x", "member", 1),
    Member("x", "disconnected", 1),
    Member("x", "left", 1),
    Member("x", "member", 2),
    Member("x", "left", 3),
]


@pytest.mark.parametrize("seed", range(5))
def test_of_two_records_the_fresher_counts_and_then_the_graver_in_whatever_order_they_come(seed):
    shuffled = random.Random(seed).sample(LADDER, len(LADDER))
    members = membership(context())
    best = -1
    for record in shuffled:
        members.merge(record)
        best = max(best, LADDER.index(record))
        assert members.table.get("x") == LADDER[best]


def test_a_record_that_could_never_be_overruled_is_not_believed():
    me, _ = node(brokers="ab")
    receive(me, "a", Roster((), (Member("me", "left", 2**63 - 1), Member("b", "left", 2**63 - 1)), False))
    assert me.membership.own == Member("me", "member", 1)
    assert me.membership.active == ("a", "b")


def test_two_rosters_are_merged_both_ways():
    me, _ = node(brokers="ab")
    theirs = (Member("a", "member", 1), Member("b", "left", 1), Member("c", "member", 1))
    ((to, answer),) = sent(receive(me, "a", Roster((), theirs, True)), Roster)
    assert (to, answer.members, answer.answer) == (("a",), (Member("me", "member", 1),), False)
    assert set(me.membership.active) == {"a", "c"}


def test_who_was_expelled_returns_with_a_fresher_record():
    me, _ = node(brokers="ab")
    effects = receive(me, "a", Roster((), (Member("me", "left", 1),), False))
    assert me.membership.own == Member("me", "member", 2)
    assert (("a", "b"), Join(Member("me", "member", 2))) in sent(effects)


def test_who_is_expelled_is_waited_for_only_in_what_there_was():
    me, _ = node("L", brokers="ab", logger=True)
    me.receiver.learn(S, 3)
    me.membership.expel("a")
    assert me.membership.active == ("b",)
    assert me.stability._until["a"] == {S: 3}
    me.membership.expel("L")
    assert me.membership.own.status == "member", "nobody expels itself"


def test_an_expelled_member_that_lives_is_back_when_it_hears_of_it():
    mesh = Mesh("abc", "L")
    mesh.isolate("c")
    mesh.expel("c", by="L")
    mesh.run(2)
    mesh.publish("a")
    mesh.heal()
    mesh.run(20)
    assert mesh.status("c") == "member"
    mesh.publish("a")
    assert mesh.settle()
    assert mesh.delivered("c")[-1] == "a:1"


def test_the_first_logger_by_name_leads_and_without_loggers_the_first_member():
    def leads(name, brokers, loggers, logger=False):
        return membership(context(name, logger=logger), brokers, loggers).leads

    assert leads("a", "bc", "")
    assert not leads("b", "ac", "")
    assert not leads("a", "bc", "L")
    assert leads("K", "abc", "L", logger=True)
    assert not leads("L", "abc", "K", logger=True)


# Peers known by their address ----------------------------------------------------------------------------------------


def test_a_record_says_where_its_member_is_reached_and_still_does_when_it_leaves():
    me = Node("me", Config(), random.Random(1), address="tcp://127.0.0.1:7401")
    me.handle(Start(), 0.0)
    assert me.membership.own == Member("me", "member", 1, False, "tcp://127.0.0.1:7401")
    me.handle(Leave(), 1.0)
    assert me.membership.own == Member("me", "left", 2, False, "tcp://127.0.0.1:7401")


def test_the_address_of_a_peer_stands_for_its_name_until_it_is_met():
    url = "tcp://127.0.0.1:7401"
    logger = Node("L", Config(), random.Random(1), peers=(url,), logger=True)
    (to, message), *_ = sent(logger.handle(Start(), 0.0), Join)
    assert to == (url,)
    logger.handle(Met("a"), 0.1)
    logger.handle(Met("a"), 0.2)
    logger.handle(Met("L"), 0.3)  # an address of our own
    receive(logger, "b", Sponsor(message.member.freshness, (Member("b", "member", 1),), ()), 0.4)
    assert not logger.membership.introduced, "it is a peer that has to answer"
    receive(logger, "a", Sponsor(message.member.freshness, (Member("a", "member", 1),), ()), 0.5)
    assert logger.membership.introduced
