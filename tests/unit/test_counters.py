"""Totals, latencies, the journal, and the picture that telemetry gives."""

import pytest

from gossamer.broker.counters import Counters, Histogram
from gossamer.broker.journal import Change, Journal
from gossamer.broker.picture import SLACK_S, Picture
from gossamer.messages.event import Event
from gossamer.messages.ids import EventId
from gossamer.messages.wire import Member


def test_counters_are_flat_with_each_kind_by_name():
    counters = Counters()
    counters.refusals["limit"] += 2
    counters.refusals["usage"] += 1
    counters.bytes_sent = 5
    flat = counters.flat()
    assert (flat["refusals"], flat["refusals_limit"], flat["refusals_usage"], flat["bytes_sent"]) == (3, 2, 1, 5)
    assert all(isinstance(value, int) for value in flat.values())


@pytest.mark.parametrize(
    ("values", "share", "bound"),
    [
        ([], 0.5, None),
        ([1.0], 0.5, 1.0),
        ([0.5, 0.5, 3.0], 0.5, 1.0),
        ([0.5, 0.5, 3.0], 0.99, 5.0),
        ([9.0], 0.5, float("inf")),
    ],
)
def test_a_quantile_is_the_bound_that_holds_so_many(values, share, bound):
    histogram = Histogram((1.0, 5.0))
    for value in values:
        histogram.observe(value)
    assert histogram.quantile(share) == bound


def test_a_quantile_may_be_that_of_the_last_while():
    histogram = Histogram((1.0, 5.0))
    histogram.observe(4.0)
    before = list(histogram.counts)
    assert histogram.quantile(0.5, before) is None
    histogram.observe(0.1)
    assert histogram.quantile(0.99, before) == 1.0


def test_a_journal_keeps_the_newest_of_each_thing_and_no_more_than_it_may():
    journal = Journal(2)
    for key, n in (("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        journal.note(key, {"n": n})
    journal.note("b", {"n": 2}, over=True)
    assert journal.untold == 1
    assert journal.take(1) == {"a": Change({"n": 2}, False)}
    assert journal.take(9) == {"b": Change({"n": 2}, True)}
    assert len(journal) == 0


def sample(node: str, at_s: float, **attributes: object) -> Event:
    told = {"type": "sample", "node": node, "role": "broker", "status": "member", "interval_s": 5.0}
    told |= {"members": [], "trouble": [], **attributes}
    return Event(key=f"sample/{node}", time_ns=int(at_s * 1e9), attributes=told)


def seen(now_s: float, *events: Event, known: tuple[Member, ...] = ()) -> dict[str, list[str]]:
    picture = Picture()
    for event in events:
        picture.on_event(event)
    return {member["node"]: member["trouble"] for member in picture.members(int(now_s * 1e9), known)}


def test_the_newest_counts_whatever_comes_last():
    assert seen(10, sample("a", 9, trouble=[]), sample("a", 8, trouble=["late"])) == {"a": []}


def test_who_is_listed_by_others_and_silent_itself_is_missed():
    assert seen(10, sample("a", 9, members=["a", "b"])) == {"a": [], "b": ["has not told of itself"]}


def test_who_was_not_heard_for_three_intervals_is_silent():
    assert seen(9 + 15 + SLACK_S, sample("a", 9)) == {"a": []}
    assert seen(9 + 16 + SLACK_S, sample("a", 9)) == {"a": ["has not been heard for 18 s"]}


def test_records_say_who_is_still_in():
    known = (Member("a", "member", 1), Member("b", "left", 1), Member("c", "disconnected", 1, True))
    events = [sample(name, 9) for name in "abcd"]
    assert seen(10, *events, known=known) == {"a": [], "c": ["is disconnected"]}
    assert seen(10, sample("a", 9), known=known) == {"a": [], "c": ["is disconnected"]}


def test_a_tombstone_ends_a_thing():
    gone = Event(key="sample/a", time_ns=10, deleted=True, attributes={"type": "sample", "node": "a"})
    assert seen(10, sample("a", 0), gone) == {}


def test_brokers_that_were_told_of_different_orders_of_groups_are_in_trouble():
    others = [sample(name, 9, orders=["moves=total"], members=["d"]) for name in "ab"]
    told = seen(10, *others, sample("c", 9, orders=[]), known=tuple(Member(name, "member", 1) for name in "abcd"))
    assert told["c"] == ["was told of other orders of groups than the rest: none, not moves=total"]
    assert told["d"] == ["has not told of itself"]
    assert told["a"] == told["b"] == []


def test_a_picture_of_nobody_is_not_healthy():
    assert Picture().as_dict(0)["healthy"] is False


@pytest.mark.parametrize(
    "attributes",
    [{"type": "sample"}, {"type": "sample", "node": 3}, {"type": "consumer", "node": "a"}, {"type": "other"}, {}],
)
def test_what_is_not_sound_makes_no_picture(attributes):
    picture = Picture()
    picture.on_event(Event(key="x", time_ns=1, attributes=attributes))
    assert picture.as_dict(0)["members"] == []


def test_consumers_of_an_earlier_life_are_over():
    told = {"type": "consumer", "node": "a", "client": "c", "subscription": 0, "group": "default"}
    told |= dict.fromkeys(("delivered", "obsoleted", "lost", "queued", "oldest_s"), 1) | {"behind": False}
    picture = Picture()
    picture.on_event(Event(key="consumer/a/c/0", time_ns=1, attributes=told, id=EventId("$sys/~a-1-telemetry.0", 5)))
    lives = {1: "$sys/~a-1-telemetry.1", 2: "$sys/~a-2-telemetry.0"}
    shown = []
    for at_s, stream in lives.items():
        found = sample("a", at_s)
        picture.on_event(
            Event(key=found.key, time_ns=found.time_ns, attributes=found.attributes, id=EventId(stream, 0))
        )
        shown.append(len(picture.as_dict(found.time_ns)["consumers"]))
    assert shown == [1, 0]
