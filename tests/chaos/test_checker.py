"""The checker of chaos runs against made-up histories: a clean one, and one for each kind of violation."""

from dataclasses import replace

import msgspec
import pytest

from gossamer.lab.chaos.checker import check, figures, longest_pause, recovery_s
from gossamer.lab.chaos.records import (
    Accepted,
    Began,
    Counted,
    Delivered,
    Failed,
    Fault,
    History,
    Intended,
    Logged,
    Missed,
    Recorder,
    Spec,
    Spooled,
    body_of,
    digest_of,
    key_of,
    read,
)

STREAM = "default/feed"
COUNT = 8
SPECS = (
    Spec("feed", "publisher", named=True, spool="feed.spool"),
    Spec("fast", "subscriber", policy="none"),
    Spec("slow", "subscriber"),
    Spec("durable", "subscriber", durable="d"),
    Spec("replay", "subscriber", start="all"),
)


def delivered(n, at=None, **changed):
    found = Delivered(
        n + 0.6 if at is None else at, STREAM, n, "feed", n, key_of("feed", n), digest_of(body_of("feed", n))
    )
    return msgspec.structs.replace(found, **changed)


def published(n):
    return [Intended(float(n), n), Accepted(n + 0.1, n, STREAM, n), Logged(n + 0.5, n)]


def subscribed(*numbers, obsoleted=0):
    records = [Began(-1.0, 0), *map(delivered, numbers)]
    return [*records, Counted(20.0, len(numbers), obsoleted, 0, 0)]


def history(**changed):
    """Eight events, one a second, delivered to everyone."""
    records = {
        "feed": [Began(-0.5, 0), *(each for n in range(COUNT) for each in published(n))],
        "fast": subscribed(*range(COUNT)),
        "slow": subscribed(*range(COUNT)),
        "durable": subscribed(*range(COUNT)),
        "replay": subscribed(*range(COUNT)),
    }
    return History({spec.name: spec for spec in SPECS}, records | changed, stopped_at=float(COUNT))


def kinds(found):
    return {(each.kind, each.where) for each in check(found)}


def without(name, *lacking):
    return [each for each in history().records[name] if not isinstance(each, Delivered) or each.n not in lacking]


def test_clean_history_has_no_violation():
    assert check(history()) == []


def test_obsolete_event_that_is_counted_is_no_violation():
    count = 14
    assert key_of("feed", 1) == key_of("feed", 13)
    found = history(
        feed=[Began(-0.5, 0), *(each for n in range(count) for each in published(n))],
        **{name: subscribed(*range(count)) for name in ("fast", "durable", "replay")},
        slow=subscribed(*(n for n in range(count) if n != 1), obsoleted=1),
    )
    assert check(replace(found, stopped_at=float(count))) == []


@pytest.mark.parametrize("name", ["fast", "durable", "replay"])
def test_logged_event_that_is_not_delivered_is_lost(name):
    assert ("lost", name) in kinds(history(**{name: without(name, 3)}))


def test_gap_does_not_excuse_the_loss_of_a_logged_event():
    lacking = [*without("durable", 3), Missed(9.0, STREAM, 3, 3, "collected")]
    (found,) = [each for each in check(history(durable=lacking)) if each.kind == "lost"]
    assert "1 of them told as a Gap" in found.text


def test_event_that_was_never_acknowledged_may_be_missing_unless_it_is_in_a_spool():
    last = COUNT - 1
    feed = [each for each in history().records["feed"] if not (isinstance(each, Logged) and each.n == last)]
    others = {name: subscribed(*range(last)) for name in ("fast", "slow", "durable", "replay")}
    assert check(history(feed=feed, **others)) == []
    spooled = history(feed=[*feed, Spooled(last + 0.3, last)], **others)
    assert kinds(spooled) == {("lost", name) for name in ("fast", "durable", "replay")}


def test_events_before_a_subscription_began_are_not_owed():
    late = [Began(3.5, 0), *(delivered(n) for n in range(4, COUNT)), Counted(20.0, 4, 0, 0, 0)]
    assert {each for each in kinds(history(fast=late)) if each[0] != "final"} == set()


def test_same_id_twice_in_a_subscription_is_doubled():
    twice = [*without("fast"), delivered(7, at=9.0)]
    assert ("doubled", "fast") in kinds(history(fast=twice))


def test_durable_subscription_may_repeat_events_after_a_crash():
    again = [*subscribed(*range(5))[:-1], Began(6.0, 1), *map(delivered, range(4, COUNT)), Counted(20.0, 4, 0, 0, 0)]
    assert check(history(durable=again)) == []


def test_one_publication_under_two_ids_is_doubled():
    twice = [*without("fast"), delivered(7, at=9.0, seq=8)]
    assert ("doubled", "fast") in kinds(history(fast=twice))


def test_later_event_before_an_earlier_one_is_reordered():
    assert kinds(history(slow=subscribed(0, 1, 3, 2, 4, 5, 6, 7))) == {("reordered", "slow")}


def test_event_that_nobody_published_is_invented():
    assert ("invented", "slow") in kinds(history(slow=[*without("slow"), delivered(99)]))


def test_event_under_an_id_that_its_publisher_does_not_know_is_invented():
    strange = [delivered(n, stream="default/other") if n == 3 else delivered(n) for n in range(COUNT)]
    assert ("invented", "replay") in kinds(history(replay=[Began(-1.0, 0), *strange]))


@pytest.mark.parametrize("changed", [{"digest": "00"}, {"key": "feed/99"}])
def test_changed_body_or_key_is_torn(changed):
    torn = [delivered(n, **changed) if n == 3 else delivered(n) for n in range(COUNT)]
    assert ("torn", "fast") in kinds(history(fast=[Began(-1.0, 0), *torn]))


@pytest.mark.parametrize("counted", [Counted(20.0, 7, 0, 0, 1), Counted(20.0, 8, 1, 0, 0), Counted(20.0, 8, 0, 1, 0)])
def test_counters_that_do_not_add_up_are_told(counted):
    assert kinds(history(slow=[*without("slow")[:-1], counted])) == {("accounting", "slow")}


def test_waiting_events_count():
    waits = [*without("slow", 7)[:-1], Counted(20.0, 7, 0, 0, 1)]
    assert ("accounting", "slow") not in kinds(history(slow=waits))


def test_purged_event_in_no_counter_is_told():
    assert ("accounting", "slow") in kinds(history(slow=[*without("slow", 4)[:-1], Counted(20.0, 7, 0, 0, 0)]))


def test_key_whose_last_event_did_not_come_is_told():
    assert key_of("feed", 7) is not None
    lacking = [*without("slow", 7)[:-1], Counted(20.0, 7, 1, 0, 0)]
    assert kinds(history(slow=lacking)) == {("final", "slow")}


def stalled(faults=()):
    times = {n: float(n) if n < 4 else n + 20.0 for n in range(COUNT)}
    feed = [Began(-0.5, 0)]
    for n, at in times.items():
        feed += [Intended(at, n), Accepted(at, n, STREAM, n), Logged(at, n)]
    return replace(history(feed=feed), faults=list(faults), stopped_at=28.0)


def fault(kind, target, begun_at=4.0, ended_at=22.0, healthy_at=23.0):
    return Fault(kind, (target,), "", begun_at, ended_at, healthy_at)


def test_long_wait_for_an_acknowledgement_is_a_stall_that_names_the_fault():
    (found,) = [each for each in check(stalled([fault("pause", "l1")])) if each.kind == "stall"]
    assert (found.where, "21.0 s" in found.text, "pause l1" in found.text) == ("feed", True, True)


def test_publisher_that_was_down_itself_does_not_stall():
    found = stalled([fault("kill client", "feed")])
    assert ("stall", "feed") not in kinds(found)
    assert longest_pause(found, "feed", 0.0, 28.0) == (3.0, 3.0)


def test_publisher_that_is_never_acknowledged_stalls():
    feed = [Began(-0.5, 0), Intended(0.0, 0)]
    assert ("stall", "feed") in kinds(replace(history(feed=feed), stopped_at=20.0))


def test_process_that_ends_by_itself_and_member_that_stays_unhealthy_are_told():
    found = replace(history(), deaths=["b1: exit code 1, boom"], faults=[fault("kill", "b2", 1.0, 2.0, None)])
    assert kinds(found) == {("died", "b1"), ("unhealthy", "b2")}


def test_subscriber_that_never_subscribed_is_told():
    assert ("unfinished", "replay") in kinds(history(replay=[Failed(1.0, "ConnectionLost: none")]))


def test_recovery_lasts_until_publishers_have_a_later_event_logged():
    assert recovery_s(stalled(), fault("pause", "l1", 4.0, 22.0, 22.5)) == 2.0  # intended and logged at 24
    assert recovery_s(stalled(), fault("pause", "l1", 4.0, 27.5, 27.6)) is None


def test_figures_have_a_row_for_each_kind_of_fault():
    found = stalled([fault("pause", "l1"), fault("pause", "l2", 25.2, 25.4, 25.5), fault("kill", "b1", 0.1, 0.2, 0.3)])
    told = figures(found, check(found))
    assert [(row["fault"], row["count"], row["violations"]) for row in told["faults"]] == [
        ("kill", 1, 0),
        ("pause", 2, 1),
    ]
    assert told["logged"] == told["replayed"] == COUNT


def test_records_are_read_back_and_a_part_of_a_line_is_left_out(tmp_path):
    written = [Began(0.5, 0), *published(3), delivered(3), Missed(1.0, STREAM, 1, 2, "x"), Counted(2.0, 1, 0, 0, 0)]
    path = tmp_path / "records.jsonl"
    Recorder(str(path)).write(*written)
    with path.open("a") as file:
        file.write('["logged",3.0')
    assert read(path) == written


def test_loss_in_a_replay_is_not_told_as_wrong_accounting_of_others():
    found = kinds(history(replay=subscribed(*range(4, COUNT))))
    assert found == {("lost", "replay"), ("accounting", "replay")}
