"""What was purged, and who is slow, against tables that can be counted by hand."""

from typing import TYPE_CHECKING, Any

from gossamer.analytics.jobs import purging
from tables import inputs, rows, samples, second, tells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def consumes(client: str, at_s: float, **told: Any) -> dict[str, Any]:
    usual = {"obsoleted": 0, "left": 0, "lost": 0, "queued": 0, "queued_bytes": 0, "oldest_s": 0.0, "behind": False}
    return tells("consumer", "a", at_s, client=client, subscription=1, group="g", **{**usual, **told})


def test_what_was_purged_where_and_for_whom(spark: "SparkSession") -> None:
    told = samples(
        "a",
        {},
        {"purged_queue_obsolete": 100},  # absent until there are any
        {"purged_queue_obsolete": 150, "purged_link_room": 5, "purged_link_obsolete": 2},
    )
    told += [
        tells("purge", "a", at_s, place=1, hop="queue", reason="obsolete", group="g", key=key, events=events)
        for at_s, key, events in ((5.0, "x", 60), (10.0, "x", 20), (10.5, "y", 30))
    ]
    told += [tells("purge", "a", 11.0, True, place=1, hop="queue", reason="obsolete", group="g", key="x", events=20)]
    told += [
        consumes("slow", 5.0, delivered=10, obsoleted=30, queued=7, oldest_s=1.5),
        consumes("slow", 10.0, delivered=60, obsoleted=140, lost=3, queued=7, oldest_s=0.5, behind=True),
        consumes("quick", 5.0, delivered=9),
    ]
    told += [
        tells("subscription", "a", at_s, client="slow", subscription=1, group="g", action=action, selector=selector)
        for at_s, action, selector in ((0.0, "added", "price > 1"), (1.0, "changed", "price > 2"))
    ]
    tables = purging.run(inputs(spark, (), told))

    found = rows(tables["purging"], "window_start", "node", "hop", "reason", "events")
    assert [(second(row[0]), *row[1:]) for row in found] == [
        (5, "a", "queue", "obsolete", 100),
        (10, "a", "link", "obsolete", 2),
        (10, "a", "link", "room", 5),
        (10, "a", "queue", "obsolete", 50),
    ]
    assert rows(tables["keys"], "key", "events") == [("x", 80), ("y", 30)]
    columns = ("client", "subscription", "selector", "delivered", "obsoleted", "lost", "obsoleted_share",
               "delivered_per_s", "queued_most", "oldest_most_s", "behind_share")  # fmt: skip
    assert rows(tables["consumers"], *columns) == [
        ("slow", "1", "price > 2", 60, 140, 3, 0.7, 10.0, 7, 1.5, 0.5),
        ("quick", "1", None, 9, 0, 0, 0.0, 0.0, 0, 0.0, 0.0),
    ]
    ages = rows(tables["ages"], "window_start", "oldest_p50_s", "oldest_p99_s", "oldest_most_s")
    assert [(second(row[0]), *row[1:]) for row in ages] == [(5, 0.0, 1.5, 1.5), (10, 0.5, 0.5, 0.5)]
    room, lost, behind = purging.advise(tables)
    assert "5 of 157 events" in room.why
    assert "1 of 2 subscriptions lost 3 events" in lost.why
    assert behind.setting == ""
