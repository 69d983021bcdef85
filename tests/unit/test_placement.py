"""Who keeps which stream: by rendezvous hashing, the same for all who know the same loggers."""

from collections import Counter

import pytest

from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Data, Gone, Member, Position, Positions, Recover, Repair, Span
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Moved, Persist
from gossamer.protocol.inputs import Persisted, Wake
from gossamer.protocol.placement import ranked
from machines import S, node, packet, receive, sent

LOGGERS = [f"L{number}" for number in range(5)]
STREAMS = [f"default/~b-1.{number}" for number in range(2_000)]


def test_each_logger_has_its_share():
    count = Counter(name for stream in STREAMS for name in ranked(stream, LOGGERS)[:2])
    assert all(0.8 * 800 < count[name] < 1.2 * 800 for name in LOGGERS)


def test_who_leaves_moves_only_what_it_kept():
    for stream in STREAMS:
        before = ranked(stream, LOGGERS)
        after = ranked(stream, [name for name in LOGGERS if name != "L3"])
        assert after == [name for name in before if name != "L3"]


def test_an_event_cannot_be_on_more_disks_than_keep_it():
    with pytest.raises(UsageError, match="loggers_min must be <= replicas"):
        Config(loggers_min=2, replicas=1)


def logger(name, other, **config):
    """One of two loggers, of which one keeps each stream."""
    return node(name, "a", [other], logger=True, replicas=1, **config)[0]


KEEPER = ranked(S, ["K", "L"])[0]
OTHER = "L" if KEEPER == "K" else "K"


def records(effects):
    return [record for each in effects if isinstance(each, Persist) for record in each.records]


def test_only_its_keeper_stores_and_acknowledges_a_stream():
    keeper, other = logger(KEEPER, OTHER), logger(OTHER, KEEPER)
    assert records(receive(keeper, "a", Data("a", packet(0, 9)))) == [packet(0, 9)]
    assert records(receive(other, "a", Data("a", packet(0, 9)))) == []
    assert other.receiver.streams[S].next == 10, "it passes it on like any member"
    assert other._position_of(S) == Position(S, 9, passing=True)


def test_what_is_acknowledged_in_passing_is_not_logged():
    publisher, _ = node("a", "b", [KEEPER, OTHER], replicas=1)
    vector = (Position(S, 9, passing=True),)
    receive(publisher, OTHER, Positions(1, 1, 0, publisher.membership.table.root, vector))
    assert publisher.stability.holders((KEEPER, OTHER), S, 9) == 0
    receive(publisher, KEEPER, Positions(1, 1, 0, publisher.membership.table.root, (Position(S, 9),)))
    assert publisher.stability.holders((KEEPER, OTHER), S, 9) == 1


def test_a_logger_says_of_what_is_not_its_own_that_it_does_not_keep_it():
    other = logger(OTHER, KEEPER)
    lacks = (Span(S, ((0, 9),)),)
    assert [each for _, each in sent(receive(other, "a", Recover(lacks))) if isinstance(each, Gone)] == []
    told = [each for _, each in sent(receive(other, KEEPER, Recover(lacks, True))) if isinstance(each, Gone)]
    assert told == [Gone(lacks, False, collected=False)]


def test_who_comes_to_keep_a_stream_has_it_from_who_kept_it_and_that_lets_go_last():
    keeper, _ = node(OTHER, "a", logger=True, replicas=1, round_interval_s=1.0)
    for effect in receive(keeper, "a", Data("a", packet(0, 9))):
        if isinstance(effect, Persist):
            keeper.handle(Persisted(effect.token), 0.0)
    keeper.membership.merge(Member(KEEPER, "member", 1, True))  # it is to keep S from now on
    moved, now = [], 0.0
    for _ in range(4):
        now += 1.0
        moved += records(keeper.handle(Wake(), now))
    assert Moved(S) not in moved, "nobody else has it"
    served = receive(keeper, KEEPER, Recover((Span(S, ((0, 9),)),), True), now)
    assert [each.packets for _, each in sent(served) if isinstance(each, Repair)] == [(packet(0, 9),)]
    receive(keeper, KEEPER, Positions(1, 1, 0, keeper.membership.table.root, (Position(S, 9),)), now)
    for _ in range(4):
        now += 1.0
        effects = keeper.handle(Wake(), now)
        moved += records(effects)
        for effect in effects:
            if isinstance(effect, Persist):
                keeper.handle(Persisted(effect.token), now)
    assert moved.count(Moved(S)) == 1
    assert keeper.logger.on_disk(S) == ()
