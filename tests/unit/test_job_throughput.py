"""What flowed, against tables that can be counted by hand."""

from typing import TYPE_CHECKING

import pytest

from gossamer.analytics.jobs import throughput
from gossamer.analytics.jobs.throughput import OTHERS, advise
from gossamer.analytics.jobs.timeline import width_s
from tables import event, inputs, rows, samples, second

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_events_and_bytes_by_window_group_and_publisher(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "BUSIEST", 2)
    told = [event("g/a", seq, at_s=seq / 4) for seq in range(8)]  # 4 a second in the first two seconds
    told += [event("g/~far-node-17.0", 0, at_s=0.5), event("g/~far-node-17.1", 0, at_s=299.5)]  # two of one issuer
    told += [event("g/rare", 0, at_s=0.9, size=7), event("h/a", 0, at_s=299.9)]
    told += [event("h/unread", 0, published_ns=0, at_s=10.0)]  # it has the time at which it was logged
    found = inputs(spark, told)
    tables = throughput.run(found)

    assert width_s(found) == 2  # 300 seconds
    assert [(second(row[0]), *row[1:]) for row in rows(tables["throughput"], *tables["throughput"].columns)] == [
        (0, 2, "g", OTHERS, None, 1, 7, 0.5, 3.5),
        (0, 2, "g", "a", None, 8, 800, 4.0, 400.0),
        (0, 2, "g", "g/~far-node-17", "far-node", 1, 100, 0.5, 50.0),
        (10, 2, "h", "unread", None, 1, 100, 0.5, 50.0),
        (298, 2, "g", "g/~far-node-17", "far-node", 1, 100, 0.5, 50.0),
        (298, 2, "h", "a", None, 1, 100, 0.5, 50.0),
    ]
    groups = rows(tables["groups"], "group", "events", "bytes", "peak_per_s", "peak_at", "idle_share")
    assert [(*row[:4], second(row[4]), row[5]) for row in groups] == [
        ("g", 11, 1007, 6, 0.0, round(1 - 3 / 300, 6)),
        ("h", 2, 200, 1, 10.0, round(1 - 2 / 300, 6)),
    ]
    assert rows(tables["publishers"], "publisher", "events")[:2] == [("a", 8), ("g/~far-node-17", 2)]


def test_brokers_rates_are_of_what_their_totals_grew_by(spark: "SparkSession") -> None:
    lives = samples("b", *({"events_published": n, "bytes_sent": 10 * n, "loop_busy": n / 100} for n in (0, 40, 90)))
    lives += samples("b", {"begin_s": 60.0, "events_published": 5, "loop_busy": 0.9}, {"events_published": 25})
    tables = throughput.run(inputs(spark, (), lives))

    told = rows(tables["brokers"], "window_start", "node", "events_published_per_s", "bytes_sent_per_s", "loop_busy")
    assert [(second(row[0]), *row[1:]) for row in told] == [
        (0, "b", 0.0, 0.0, 0.0),
        (5, "b", 40.0, 400.0, 0.4),
        (10, "b", 50.0, 500.0, 0.9),
        (60, "b", 5.0, 0.0, 0.9),  # begun again: what it tells is since then
        (65, "b", 20.0, 0.0, None),
    ]
    (advice,) = advise(tables)
    assert advice.title.startswith("b is at its limit")
    assert "90%" in advice.why
