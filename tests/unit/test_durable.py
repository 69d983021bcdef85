"""Durable subscriptions, on both sides: who is asked, what counts, and who has it."""

import pytest

from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Bookmark, Bookmarked, Data, Member, Position, Recall, Recalled, Roster
from gossamer.protocol.durable import PATIENCE_ROUNDS, Durables, Held, durable_id, newest, whole
from gossamer.protocol.effects import Attached, Detached, Marked, Persist, Stored
from gossamer.protocol.inputs import Attach, Detach, Leave, Mark, Persisted, Reconnect, Wake
from gossamer.protocol.membership import Membership
from machines import S, T, context, node, only, packet, receive, sent

NAME = durable_id("default", "orders")


def rounds(me, count):
    effects = []
    for _ in range(count):
        effects += me.handle(Wake(), me.next_deadline())
    return effects


def question(me):
    """What the loggers are being asked."""
    return me.durables._attaching[NAME].question


def recalled(me, logger, known, vector, marked=None):
    """A logger answers."""
    marked = known if marked is None else marked
    return receive(me, logger, Recalled(NAME, question(me), known, marked, vector))


def attached(loggers="KL", **vector):
    """A broker that has the subscription, behind what K told."""
    me, _ = node(loggers=loggers)
    me.handle(Attach(NAME), 0.0)
    for logger in loggers:
        told = tuple(Position({"s": S, "t": T}[name], last) for name, last in vector.items())
        recalled(me, logger, True, told)
    effects = []
    for logger in loggers:
        effects = receive(me, logger, Bookmarked(NAME, me.durables.held[NAME].epoch, 1))
    return me, only(effects, Attached)[0]


def test_all_loggers_are_asked_and_the_best_of_each_counts():
    me, _ = node(loggers="KL")
    assert sent(me.handle(Attach(NAME), 0.0)) == [(("K", "L"), Recall(NAME, question(me)))]
    assert recalled(me, "K", True, (Position(S, 3), Position(T, 9))) == []
    effects = recalled(me, "L", True, (Position(S, 5), Position(T, 1)))
    ((_, first), (_, second)) = sent(effects, Bookmark)
    assert first == second
    assert set(first.vector) == {Position(S, 5), Position(T, 9)}
    assert me.membership.table.get(NAME) == Member(NAME, "durable", first.epoch)
    assert receive(me, "K", Bookmarked(NAME, first.epoch, 1)) == [], "not before every logger waits for it"
    assert receive(me, "L", Bookmarked(NAME, first.epoch, 1)) == [Attached(NAME, first.epoch, {S: 5, T: 9}, False)]


def test_an_answer_to_an_earlier_question_does_not_count():
    """It says that nobody knows the subscription, which was begun elsewhere since."""
    me, _ = node(loggers="L")
    me.handle(Attach(NAME), 0.0)
    late = Recalled(NAME, question(me), False, False, ())
    me.handle(Attach(NAME), 1.0)
    assert receive(me, "L", late) == []
    assert NAME not in me.durables.held
    recalled(me, "L", True, (Position(S, 3),))
    assert me.durables.held[NAME].vector == {S: 3}


def test_a_new_one_begins_with_what_comes_after_what_was_delivered():
    me, _ = node(loggers="L")
    receive(me, "a", Data("a", packet(0, 4)))
    receive(me, "a", Data("a", packet(7)))
    me.handle(Attach(NAME), 0.0)
    recalled(me, "L", False, ())
    epoch = me.durables.held[NAME].epoch
    assert receive(me, "L", Bookmarked(NAME, epoch, 1)) == [Attached(NAME, epoch, {S: 4}, True)]


@pytest.mark.parametrize(("known", "enough"), [(True, "J"), (False, "JK")])
def test_a_logger_that_is_silent_is_not_waited_for_for_ever(known, enough):
    """One that knows it is enough to go on; that nobody knows it takes a majority to say, and to keep it another."""
    me, _ = node(loggers="JKL")
    me.handle(Attach(NAME), 0.0)
    asked = [to for to, _ in sent(rounds(me, 2 * PATIENCE_ROUNDS), Recall)]
    assert asked == [("J", "K", "L")] * len(asked)
    for logger in enough:
        assert NAME not in me.durables.held
        recalled(me, logger, known, ())
        rounds(me, PATIENCE_ROUNDS + 2)
    epoch = me.durables.held[NAME].epoch
    found = []
    for logger in enough:
        assert found == []
        effects = receive(me, logger, Bookmarked(NAME, epoch, 1)) + rounds(me, PATIENCE_ROUNDS + 2)
        found = only(effects, Attached)
    assert found == [Attached(NAME, epoch, {}, not known)]


def test_a_logger_that_has_only_heard_of_it_is_not_enough():
    """It was begun while L was cut off, and K, which knows where, is away."""
    me, _ = node(loggers="KL")
    me.handle(Attach(NAME), 0.0)
    recalled(me, "L", True, (), marked=False)
    rounds(me, 2 * PATIENCE_ROUNDS)
    assert NAME not in me.durables.held
    recalled(me, "K", True, (Position(S, 3),))
    assert me.durables.held[NAME].vector == {S: 3}


def test_what_every_logger_has_only_heard_of_begins_with_everything():
    me, _ = node(loggers="KL")
    me.handle(Attach(NAME), 0.0)
    recalled(me, "L", True, (), marked=False)
    recalled(me, "K", True, (), marked=False)
    assert me.durables.held[NAME].vector == {}


def test_without_loggers_there_is_nobody_to_keep_it():
    me, _ = node()
    assert me.handle(Attach(NAME), 0.0) == [Detached(NAME, 0, "there is no logger to keep it")]


def test_what_was_taken_is_told_until_each_logger_has_it():
    me, found = attached(s=3)
    me.handle(Mark(NAME, found.epoch, {S: 5, T: 0}), 1.0)
    me.handle(Mark(NAME, found.epoch, {S: 4}), 1.0)
    me.handle(Mark(NAME, found.epoch - 1, {S: 99}), 1.0)
    told = dict(sent(rounds(me, 8), Bookmark))
    expected = Bookmark(NAME, found.epoch, 2, (Position(S, 5), Position(T, 0)), False, found.epoch)
    assert told == {("K",): expected, ("L",): expected}
    receive(me, "K", Bookmarked(NAME, found.epoch, 2))
    assert {to for to, _ in sent(rounds(me, 8), Bookmark)} == {("L",)}


@pytest.mark.parametrize(("holder", "goes_on"), [(5, True), (6, False)])
def test_who_comes_from_another_broker_goes_on_if_nobody_else_has_had_it(holder, goes_on):
    me, found = attached(s=3)
    elsewhere = node(loggers="K")[0]
    elsewhere.handle(Attach(NAME, holder=holder), 0.0)
    receive(elsewhere, "K", Roster((), (Member(NAME, "durable", found.epoch),), False))
    recalled(elsewhere, "K", True, (Position(S, 3),))
    me.handle(Attach(NAME, holder=5, held=True), 0.0)
    receive(me, "K", Roster((), (elsewhere.membership.table.get(NAME),), False))
    recalled(me, "K", True, (Position(S, 3),))
    effects = recalled(me, "L", True, ())
    assert bool(only(effects, Detached)) is not goes_on
    assert (NAME in me.durables.held) is goes_on


def test_whoever_takes_it_over_takes_it_from_the_one_before():
    me, found = attached()
    record = Member(NAME, "durable", found.epoch + 1)
    effects = receive(me, "K", Roster((), (record,), False))
    assert only(effects, Detached) == [Detached(NAME, found.epoch, "superseded: taken over by another client")]
    me.handle(Mark(NAME, found.epoch, {S: 5}), 1.0)
    assert sent(rounds(me, 8), Bookmark) == []


def test_one_that_is_expelled_while_it_is_here_comes_back():
    me, found = attached(s=3)
    effects = receive(me, "K", Roster((), (Member(NAME, "left", found.epoch),), False))
    epoch = me.durables.held[NAME].epoch
    assert epoch > found.epoch
    assert [message.vector for _, message in sent(effects, Bookmark)] == [(Position(S, 3),)] * 2


def test_a_client_that_goes_leaves_the_last_of_its_bookmark():
    me, found = attached(loggers="L")
    me.handle(Mark(NAME, found.epoch, {S: 5}), 1.0)
    effects = me.handle(Detach(NAME, found.epoch), 1.0)
    assert sent(effects, Bookmark) == [(("L",), Bookmark(NAME, found.epoch, 2, (Position(S, 5),), False, found.epoch))]
    assert NAME in me.durables.held
    effects = receive(me, "L", Bookmarked(NAME, found.epoch, 2))
    assert only(effects, Detached) == [Detached(NAME, found.epoch, "the loggers know where it is")]
    assert NAME not in me.durables.held


def test_a_name_that_is_too_long_is_refused():
    with pytest.raises(UsageError, match="durable"):
        durable_id("g" * 100, "n" * 100)


# Loggers -------------------------------------------------------------------------------------------------------------


def logger(stored=None, **config):
    return node("L", brokers="a", logger=True, stored=stored, **config)[0]


def persist(me, effects):
    for each in only(effects, Persist):
        effects = [*effects, *me.handle(Persisted(each.token), 0.0)]
    return effects


def test_a_bookmark_counts_once_it_is_on_disk():
    me = logger()
    mark = Bookmark(NAME, 7, 1, (Position(S, 3),))
    effects = receive(me, "a", mark)
    assert sent(effects, Bookmarked) == []
    assert me.bookmarks.positions[NAME] == {}
    ((records, token),) = [(each.records, each.token) for each in only(effects, Persist)]
    assert records == (Member(NAME, "beginning", 7), Marked(NAME, (Position(S, 3),)))
    assert sent(me.handle(Persisted(token), 0.0), Bookmarked) == [(("a",), Bookmarked(NAME, 7, 1))]
    answer = Recalled(NAME, 7, True, True, (Position(S, 3),))
    assert sent(receive(me, "a", Recall(NAME, 7)), Recalled) == [(("a",), answer)]


def test_a_logger_tells_of_what_it_has_only_heard_of():
    me = logger()
    persist(me, receive(me, "a", Roster((), (Member(NAME, "durable", 7),), False)))
    assert sent(receive(me, "a", Recall(NAME, 9)), Recalled) == [(("a",), Recalled(NAME, 9, True, False, ()))]


def test_nothing_is_stable_beyond_a_bookmark_and_only_in_its_group():
    me = logger()
    assert me.stability.stable(S, 9) == -1, "a has acknowledged nothing"
    me.stability.acknowledge("a", (Position(S, 9), Position("other/~a-1.0", 9)))
    assert me.stability.stable(S, 9) == 9
    persist(me, receive(me, "a", Bookmark(NAME, 7, 1, (Position(S, 3),))))
    assert me.stability.stable(S, 9) == 3
    assert me.stability.stable(T, 9) == -1
    assert me.stability.stable("other/~a-1.0", 9) == 9
    persist(me, receive(me, "a", Bookmark(NAME, 7, 2, (Position(S, 6), Position(S, 2)))))
    assert me.stability.stable(S, 9) == 6


def test_where_one_begins_is_said_by_who_attaches_it():
    """Somebody attached it before, further on, and died before it could tell its client."""
    me = logger()
    persist(me, receive(me, "b", Bookmark(NAME, 7, 1, (Position(S, 9),), True)))
    persist(me, receive(me, "a", Bookmark(NAME, 8, 1, (Position(S, 3),), True, 7)))
    assert me.bookmarks.positions[NAME] == {S: 3}
    persist(me, receive(me, "a", Bookmark(NAME, 8, 2, (Position(S, 5),))))
    persist(me, receive(me, "a", Bookmark(NAME, 8, 1, (Position(S, 3),), True)))
    assert me.bookmarks.positions[NAME] == {S: 5}, "a copy that comes late says nothing new"


def test_who_did_not_know_of_the_one_that_has_it_comes_too_late():
    """Its word was on its way while it died, and somebody else attached the subscription."""
    me = logger()
    persist(me, receive(me, "a", Bookmark(NAME, 7, 1, (Position(S, 3),), True)))
    persist(me, receive(me, "b", Bookmark(NAME, 8, 1, (Position(S, 9),), True)))
    assert me.bookmarks.positions[NAME] == {S: 3}
    assert me.membership.table.get(NAME) == Member(NAME, "durable", 7)


def test_who_has_it_is_believed_by_loggers_that_another_told_meanwhile():
    """Two brokers took it up from epoch 7, each with other loggers, and neither heard of the other. The higher epoch
    has it, so what its client takes must come to count at the loggers of the other one as well."""
    me, _ = node(loggers="KL")
    me.handle(Attach(NAME), 0.0)
    receive(me, "K", Roster((), (Member(NAME, "durable", 7),), False))
    recalled(me, "K", True, (Position(S, 3),))
    rounds(me, PATIENCE_ROUNDS + 2)
    epoch = me.durables.held[NAME].epoch
    (early,) = {message for to, message in sent(rounds(me, 2), Bookmark) if to == ("L",)}
    other = logger()
    persist(other, receive(other, "b", Bookmark(NAME, epoch - 1, 1, (Position(S, 8),), True, 7)))
    persist(other, receive(other, "a", early))
    assert other.bookmarks.positions[NAME] == {S: 8}, "not before the client has it"
    effects = receive(me, "K", Bookmarked(NAME, epoch, 1)) + rounds(me, PATIENCE_ROUNDS + 2)
    assert only(effects, Attached) == [Attached(NAME, epoch, {S: 3}, False)]
    me.handle(Mark(NAME, epoch, {S: 5}), 1.0)
    told = [message for to, message in sent(rounds(me, 8), Bookmark) if to == ("L",)]
    effects = persist(other, receive(other, "a", told[-1]))
    assert sent(effects, Bookmarked) == [(("a",), Bookmarked(NAME, epoch, 2))]
    assert other.bookmarks.positions[NAME] == {S: 5}


def leaving(epoch=7, **vector):
    """A logger beside K that has a bookmark, and is told to leave."""
    me, _ = node("L", brokers="a", loggers="K", logger=True, round_interval_s=1.0)
    told = tuple(Position({"s": S, "t": T}[name], last) for name, last in vector.items())
    persist(me, receive(me, "a", Bookmark(NAME, epoch, 1, told, True)))
    return me, me.handle(Leave(), 0.0)


def test_a_logger_that_leaves_hands_its_bookmarks_over_before_it_resigns():
    me, effects = leaving(s=3)
    handed = Bookmark(NAME, 7, 1, (Position(S, 3),), True, 7)
    assert sent(effects, Bookmark) == [(("K",), handed)]
    assert (("K",), handed) in sent(rounds(me, 2), Bookmark), "until it is confirmed"
    assert me.membership.own.logger
    receive(me, "K", Bookmarked(NAME, 7, 1))
    assert sent(rounds(me, 2), Bookmark) == []
    assert not me.membership.own.logger


def test_it_confirms_nothing_that_it_does_not_hand_over():
    me, _ = leaving(s=3)
    effects = persist(me, receive(me, "a", Bookmark(NAME, 7, 2, (Position(S, 5),))))
    assert sent(effects, Bookmarked) == []
    me.handle(Reconnect(), 1.0)
    effects = persist(me, receive(me, "a", Bookmark(NAME, 7, 2, (Position(S, 5),))))
    assert sent(effects, Bookmarked) == [(("a",), Bookmarked(NAME, 7, 2))], "it stays"


@pytest.mark.parametrize(
    ("epoch", "found"), [(6, {S: 3, T: 9}), (7, {S: 5, T: 9}), (8, {S: 5})], ids=["earlier", "the same", "later"]
)
def test_what_is_handed_over_counts_by_its_epoch(epoch, found):
    me, _ = node("L", brokers="a", loggers="K", logger=True)
    persist(me, receive(me, "a", Bookmark(NAME, 7, 1, (Position(S, 3), Position(T, 9)), True)))
    receive(me, "K", Roster((), (Member(NAME, "durable", 8),), False))
    effects = receive(me, "K", Bookmark(NAME, epoch, 1, (Position(S, 5),), True, epoch))
    assert sent(effects, Bookmarked) == [], "not before it is on disk"
    assert sent(persist(me, effects), Bookmarked) == [(("K",), Bookmarked(NAME, epoch, 1))]
    assert me.bookmarks.positions[NAME] == found
    assert me.membership.table.get(NAME) == Member(NAME, "durable", 8)


def test_what_is_handed_over_of_a_subscription_that_is_not_known_waits_for_its_record():
    me, _ = node("L", brokers="a", loggers="K", logger=True)
    handed = Bookmark(NAME, 7, 1, (Position(S, 5),), True, 7)
    assert receive(me, "K", handed) == []
    persist(me, receive(me, "K", Roster((), (Member(NAME, "left", 9),), False)))
    assert sent(receive(me, "K", handed)) == [(("K",), Bookmarked(NAME, 7, 1))], (
        "it is forgotten: there is nothing to keep"
    )
    assert NAME not in me.bookmarks.positions


def test_an_epoch_that_is_not_the_latest_counts_no_more():
    me = logger()
    persist(me, receive(me, "a", Bookmark(NAME, 7, 1, (Position(S, 3),))))
    persist(me, receive(me, "b", Bookmark(NAME, 8, 1, (Position(S, 3),))))
    effects = receive(me, "a", Bookmark(NAME, 7, 2, (Position(S, 9),)))
    assert sent(effects) == [(("a",), Roster((), (Member(NAME, "durable", 8),), False))]
    assert me.bookmarks.positions[NAME] == {S: 3}


def test_a_bookmark_survives_a_restart_and_is_waited_for():
    stored = Stored({}, (Member(NAME, "durable", 7),), (), {NAME: {S: 3}})
    me = logger(stored)
    me.stability.acknowledge("a", (Position(S, 9),))
    assert me.stability.stable(S, 9) == 3


def test_one_that_is_expired_is_not_waited_for_but_is_remembered():
    me = logger(expire_s=10.0, retain_s=1.0, round_interval_max_s=1.0, positions_rounds=1)
    persist(me, receive(me, "a", Bookmark(NAME, 7, 1, (Position(S, 3),))))
    while (now := me.next_deadline()) < 12.0:
        me.handle(Wake(), now)
    assert me.membership.table.get(NAME) == Member(NAME, "left", 7)
    assert me.stability._bookmarked(S, 9) == 9
    answer = sent(receive(me, "a", Recall(NAME, 7), 12.0), Recalled)
    assert answer == [(("a",), Recalled(NAME, 7, True, True, (Position(S, 3),)))]


def test_one_that_is_forgotten_leaves_nothing():
    me = logger()
    persist(me, receive(me, "a", Bookmark(NAME, 7, 1, (Position(S, 3),))))
    effects = receive(me, "a", Roster((), (Member(NAME, "left", 9),), False))
    assert Marked(NAME, None) in only(effects, Persist)[0].records
    assert sent(receive(me, "a", Recall(NAME, 7)), Recalled) == [(("a",), Recalled(NAME, 7, False, False, ()))]


def test_a_stream_that_is_over_is_named_no_longer_than_a_log_may_have_it():
    ctx = context("a", retain_s=50.0, expire_s=100.0)
    durables = Durables(ctx, Membership(ctx, (), False, None, None, lambda *_: None), lambda _: {}, lambda _: False)
    name = durable_id("default", "x")
    held = durables.held[name] = Held(1, 0, {whole("default"): 0, S: 9}, True, 0)
    durables.retire(S)
    durables.on_round()
    assert S in held.vector
    ctx.now = 101.0
    durables.on_round()
    assert held.vector == {whole("default"): 0}


def test_who_is_owed_the_newest_has_taken_them_when_it_tells_of_anything():
    """Until then it names where it began, also of streams that are over by now."""
    ctx, over = context("a"), []
    membership = Membership(ctx, (), False, None, None, lambda *_: None)
    durables = Durables(ctx, membership, lambda _: {}, over.__contains__)
    name, other = durable_id("default", "x"), durable_id("default", "y")
    owed = durables.held[name] = Held(1, 0, {newest("default"): 0, S: 9}, True, 0)
    plain = durables.held[other] = Held(1, 0, {S: 9}, True, 0)
    over.append(S)
    durables.retire(S)
    assert (owed.vector, plain.vector) == ({newest("default"): 0, S: 9}, {})
    durables.mark(name, 1, {S: 10, "default/t": 3})
    assert owed.vector == {newest("default"): 1, S: 9, "default/t": 3}
    durables.retire(S)
    assert owed.vector == {newest("default"): 1, "default/t": 3}
