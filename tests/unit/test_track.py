"""How far a subscription has come: for the next broker, and for the application to keep."""

import json
from datetime import UTC, datetime

import pytest

from gossamer.messages.errors import UsageError
from gossamer.messages.event import INT_MAX, Event, Head, Relation
from gossamer.messages.ids import EventId
from gossamer.messages.session import Start, Subscribe, encode
from gossamer.sdk.track import Track, start_of

S, T = "default/~a-1.0", "default/~a-1.1"


def quote(seq: int, key: str | None = None, *, deleted: bool = False, group: bool = False) -> Event:
    return Event(key, None, Relation(group=True) if group else None, seq, deleted, id=EventId(S, seq))


def test_a_position_is_behind_what_was_taken():
    track = Track(None, filtered=True)
    assert track.start() is None
    track.reached(1_000, {T: 3})
    track.moved(S, 9)
    position = json.loads(json.dumps(track.position([EventId(S, 7), EventId(S, 8)])))
    assert position == {"time_ns": 1_000, T: 3, S: 6}
    assert start_of(position, "default") == Start({T: 3, S: 6}, 1_000)


def test_another_broker_is_told_what_has_come_and_what_is_shown():
    track = Track(None, filtered=True)
    track.start()
    track.reached(1_000, {})
    track.came(S, range(1, 6), [quote(1, "x"), quote(2, "y"), quote(3, "z"), quote(4, "z", deleted=True), quote(5)])
    track.came_one(quote(6, "w", group=True))
    track.left([("x", EventId(S, 1), False)])
    track.moved(S, 6)
    assert track.start() == Start(
        {S: 6}, 1_000, shown=((EventId(S, 2), Head("y")), (EventId(S, 6), Head("w", None, Relation(group=True), 6)))
    )
    assert (track.had(S), track.had(T)) == (6, -1)
    track.moved(S, 9)
    assert track.had(S) == 6, "what had come when the session began may come again"


def test_who_has_not_come_to_the_end_begins_again_where_it_is():
    track = Track(Start(since_ns=5, published_ns=7), filtered=False)
    assert track.start() == Start(since_ns=5, published_ns=7)
    track.moved(S, 3)
    assert track.start() == Start({S: 3}, 5, 7)
    track.reached(1_000, {})
    assert track.start() == Start({S: 3}, 1_000)
    latest = Track(Start(last_per_key=True), filtered=True)
    latest.start()
    latest.came(S, [1], [quote(1, "x")])
    latest.moved(S, 1)
    latest.began(500, {S: 3, T: 2})
    assert latest.start() == Start({S: 3, T: 2}, 500, last_per_key=True, shown=((EventId(S, 1), Head("x")),))
    assert latest.had(S) == -1, "what is newest comes in the order of a log"
    assert latest.position([]) == {"last_per_key": 1}
    assert latest.taken([]) == {}, "it may have more to read"
    latest.reached(1_000, {T: 4})
    assert latest.position([]) == {"time_ns": 1_000, S: 1, T: 4}
    latest.moved(T, 5)
    assert latest.taken([EventId(S, 1), EventId(T, 5)]) == {}, "one of the newest is not taken"
    assert latest.taken([EventId(T, 5)]) == {"time_ns": 1_000, S: 1, T: 4}
    assert latest.taken([EventId(S, 1)]) == {"time_ns": 1_000, S: 0, T: 5}, "it is one like any other"


def test_a_time_that_no_clock_reaches_is_one_like_any_other():
    start = start_of(datetime.max.replace(tzinfo=UTC), "default")
    assert start is not None
    assert start.published_ns == INT_MAX
    encode(Subscribe(0, "", 1, 1, "eager", "fifo", start, None, 0, False))


@pytest.mark.parametrize("last", [-2, INT_MAX + 1, 1.5, "1", None, True])
def test_what_is_no_position_is_the_callers_error(last):
    with pytest.raises(UsageError, match="not a stream and the last of its numbers"):
        start_of({S: last}, "default")
