"""`--compact`: what is obsolete for something safe goes, and says so; nothing else does."""

import pytest

from gossamer.lab.storage import Storage
from gossamer.logger.checking import check
from gossamer.logger.databases import database
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.ids import EventId
from gossamer.messages.packet import pack
from gossamer.messages.wire import Data, Position, Positions, Span
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.effects import Compact, Persist
from gossamer.protocol.inputs import Compacted, Persisted, Wake
from machines import S, T, node, packet, receive


class Log:
    def __init__(self, url):
        self.url = url
        self.store = Store(url)
        self.keeper = Keeper(self.store.database, self.store.on_swept, compact=True)
        self.annotators = {name: Annotator(name) for name in (S, T)}
        self.model = Storage()

    def add(self, stream, *said):
        """Keys, or (key, rank) of the group's, or what else is to be obsolete."""
        annotator = self.annotators[stream]
        first, contents = annotator.next, []
        for each in said:
            if isinstance(each, Part):
                contents += annotator.transaction([each])
            elif isinstance(each, tuple):
                contents.append(annotator.event({"n": 1}, key=each[0], rank=each[1], scope="group"))
            elif isinstance(each, list):
                contents.append(annotator.event({"n": 1}, obsoletes=each))
            else:
                contents.append(annotator.event({"n": 1, "pad": 100 * "x"}, key=each))
        whole = pack(stream, first, contents)
        self.store.apply([whole])
        self.store.commit()
        self.model.apply([whole])

    def compact(self, **safe):
        safe = {S: safe.get("s", 10**6), T: safe.get("t", 10**6)}
        self.keeper.work()
        self.keeper.compacting.safe = safe
        self.keeper.compact()
        self.model.compact(safe)

    def left(self, log=None):
        spans = [Span(stream, ((0, 10**6),)) for stream in (S, T)]
        found = (log or self.store).load(spans)
        return sorted(event.id for each in found for event in each.events())

    def derived(self):
        with self.keeper._engine.connect() as connection:
            found = connection.exec_driver_sql("SELECT stream, seq FROM events ORDER BY stream, seq").fetchall()
        return [EventId(*row) for row in found]

    def close(self):
        self.keeper.close()
        self.store.close()


@pytest.fixture
def log(store_url):
    found = Log(store_url)
    yield found
    found.close()


def test_only_the_newest_of_a_key_is_left_and_the_rest_is_marked(log):
    log.add(S, "x", "y", None, "x")
    log.add(S, "x", "y")
    log.add(T, "x")
    log.compact()
    assert log.left() == [(S, 2), (S, 4), (S, 5), (T, 0)]
    assert log.left() == log.left(log.model) == log.derived()
    first, second = log.store.load([Span(S, ((0, 10),))])
    holes = {(hole.first, hole.last): (first.obsoleter(hole), hole.final) for hole in first.holes}
    assert holes == {(0, 0): ((S, 3), True), (1, 1): ((S, 5), True), (3, 3): ((S, 4), True)}
    assert not second.holes


def test_what_is_not_safe_makes_nothing_go(log):
    log.add(S, "x", "x", "x")
    log.compact(s=1)
    assert log.left() == [(S, 0), (S, 1), (S, 2)] or log.left() == [(S, 1), (S, 2)]
    log.compact(s=2)
    assert log.left() == [(S, 2)] == log.derived()


def test_a_key_of_the_group_goes_by_rank_whoever_published_it(log):
    log.add(S, ("bid", 5), ("bid", 7))
    log.add(T, ("bid", 6), ("bid", 9))
    log.compact()
    assert log.left() == [(T, 1)] == log.derived()


def test_what_another_names_goes(log):
    log.add(S, None, None, None)
    log.add(T, None)
    log.add(S, [EventId(S, 1), EventId(T, 0)])
    log.compact()
    assert log.left() == [(S, 0), (S, 2), (S, 3)] == log.left(log.model) == log.derived()


def test_what_was_noted_for_something_that_has_gone_goes_for_what_that_went_for(log):
    log.add(T, ("bid", 1))
    log.add(S, ("bid", 2), ("bid", 3))
    log.keeper.work()
    log.keeper.compacting.safe = {S: 1, T: 0}
    with log.keeper._engine.begin() as connection:  # as it is when the one was dropped in a turn before
        connection.exec_driver_sql("UPDATE obsolete SET by_stream = ?, by_seq = 0 WHERE stream = ?", (S, T))
        other = connection.exec_driver_sql("SELECT * FROM obsolete WHERE stream = ?", (T,)).one()
        connection.exec_driver_sql("DELETE FROM obsolete WHERE stream = ?", (T,))
    log.keeper.compact()
    with log.keeper._engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO obsolete VALUES (?, ?, ?, ?)", tuple(other))
    log.keeper.compact()
    assert log.left() == [(S, 1)] == log.derived()


def test_a_transaction_stays_whole(log):
    log.add(S, "x", Part({"n": 1}, key="x"), "x")
    log.compact()
    kept = [seq for _, seq in log.left()]
    assert {1, 2, 3} <= set(kept), "a part and its commit belong together"


def test_it_is_still_a_sound_store_and_smaller(log):
    for _ in range(50):
        log.add(S, *(f"k{n}" for n in range(20)))
    before = log.store.bytes()
    log.compact()
    assert len(log.left()) == 20
    assert log.store.bytes() < before / 5
    assert log.keeper.compacting.events == 980
    assert check(database(log.url), print).ok
    log.keeper.deriving.rebuild()
    log.keeper.work()
    assert log.left() == log.derived()


def test_notes_are_taken_of_what_was_there_before_it_was_asked_for(tmp_path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    log = Log(url)
    log.keeper.deriving.notes = False
    log.add(S, "x", "x")
    log.keeper.work()
    log.close()
    log = Log(url)
    log.compact()
    assert log.left() == [(S, 1)]
    log.close()


def test_a_logger_tells_its_store_what_is_on_enough_disks():
    me, _ = node("L", "a", "K", logger=True, compact=True, loggers_min=2, round_interval_s=1.0, positions_rounds=1)
    for effect in receive(me, "a", Data("a", packet(0, 9))):
        if isinstance(effect, Persist):
            me.handle(Persisted(effect.token), 0.0)

    def told(now):
        return [each.safe for each in me.handle(Wake(), now) if isinstance(each, Compact)]

    assert told(1.0) == []
    receive(me, "K", Positions(1, 1, 0, me.membership.table.root, (Position(S, 4),)), 1.0)
    assert told(2.0) == [{S: 4}]
    assert told(3.0) == []
    me.handle(Compacted(3, 100), 3.0)
    assert me.tally.collected["obsolete"] == 3
