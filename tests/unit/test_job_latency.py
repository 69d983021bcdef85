"""How long it took, against tables that can be counted by hand."""

from typing import TYPE_CHECKING

import pytest

from gossamer.analytics.jobs import latency
from tables import event, inputs, rows, second, tells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_percentiles_by_window_stage_and_broker(spark: "SparkSession") -> None:
    told = [event("g/~b1-1.0", seq, at_s=seq / 1_000, took_s=seq / 1_000) for seq in range(101)]  # 0 to 100 ms
    told += [event("g/named", 0, at_s=250.0, took_s=0.3), event("g/named", 1, at_s=250.0, took_s=-5.0)]
    told += [event("g/named", 2, published_ns=0)]  # could not be read: tells no time
    heard = [
        tells("sample", "b2", at_s, latency_delivered_p50_ms=p50, latency_delivered_p99_ms=p99)
        for at_s, p50, p99 in ((1.0, 1.0, 10.0), (1.5, 3.0, 400.0), (1.7, 2.0, 20.0))
    ]
    tables = latency.run(inputs(spark, told, [*heard, tells("sample", "l1", 1.0, latency_logged_p50_ms=1.0)]))

    columns = ("window_start", "window_s", "stage", "broker", "events", "p50_ms", "p90_ms", "p99_ms", "max_ms")
    found = [(second(row[0]), *row[1:]) for row in rows(tables["latency"], *columns)]
    assert [row[:5] for row in found] == [
        (0, 2, "logged", "b1", 101), (0, 2, "delivered", "b2", None), (244, 2, "logged", None, 1),
        (250, 2, "logged", None, 1),
    ]  # fmt: skip
    assert found[0][5:] == pytest.approx((50.0, 90.0, 99.0, 100.0), rel=1 / 64)  # in steps of 1/64 of their size
    assert found[1][5:] == (2.0, None, 400.0, None)
    assert found[2][5:] == (0.0, 0.0, 0.0, 0.0)  # logged before it was published: a clock's fault
    assert found[3][8] == 300.0

    assert rows(tables["overall"], "broker", "stage", "events") == [
        (None, "logged", 2), ("b1", "logged", 101), ("b2", "delivered", None),
    ]  # fmt: skip
    (advice,) = latency.advise(tables)
    assert "b2" in advice.title
    assert "400 ms" in advice.why
    assert "round_interval_s = 0.125" in advice.setting
