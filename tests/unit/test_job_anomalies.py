"""Gaps, silence, hot keys, skew and clocks, against tables that can be counted by hand."""

from typing import TYPE_CHECKING

import pytest

from gossamer.analytics.jobs import anomalies
from tables import event, inputs, rows, second, tells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_kind_and_nothing_else(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anomalies, "BLOCK_BITS", 3)  # so that gaps are within blocks, and between them
    told = [event("g/whole", seq, at_s=seq, key=f"k{seq % 20}") for seq in range(100)]
    told += [
        event("g/holed", seq, at_s=seq) for seq in range(100) if seq not in (9, 10, 55, 56) and not 20 <= seq <= 39
    ]
    told += [event("g/done", seq, at_s=seq) for seq in range(20)]  # its client said goodbye
    told += [event("g/gone", seq, at_s=2 * seq) for seq in range(10)]  # this one did not
    told += [event("g/ahead", seq, at_s=seq + 30, took_s=-30.0) for seq in range(100)]
    told += [event("g/behind", seq, at_s=seq - 5, took_s=5.001) for seq in range(100)]
    told += [event("h/a", seq, at_s=seq / 10, key="hot" if seq % 2 else f"k{seq}") for seq in range(900)]
    told += [event(f"h/{name}", 0, at_s=1.0) for name in "bcdefghi"]
    closed = tells("session", "b1", 20.0, True, action="closed", client="c", group="g", stream="g/done")
    tables = anomalies.run(inputs(spark, told, [closed]))

    found = rows(tables["anomalies"], "kind", "group", "subject", "at", "amount")
    assert [(*row[:3], None if row[3] is None else second(row[3]), row[4]) for row in found] == [
        ("gap", "g", "g/holed", 40.0, 20.0),
        ("gap", "g", "g/holed", 11.0, 2.0),
        ("gap", "g", "g/holed", 57.0, 2.0),
        ("silent", "g", "g/gone", 18.0, 82.0),
        ("hot_key", "h", "hot", None, round(450 / 908, 6)),
        ("skew", "h", "a", None, round(900 / 908, 6)),
        ("clock", "g", "g/ahead", 0.0, 30.0),
        ("clock", "g", "g/behind", None, -5.001),
    ]
    why = {row[0]: row[1] for row in rows(tables["anomalies"], "kind", "why")}
    assert why["gap"].startswith("55 to 56 are not in the log")
    assert why["clock"].startswith("the quickest of its 100 events took 5.001 s")
    assert rows(tables["kinds"], "kind", "anomalies") == [
        ("clock", 2), ("gap", 3), ("hot_key", 1), ("silent", 1), ("skew", 1),
    ]  # fmt: skip
    assert rows(tables["clocks"], "stream", "early", "offset_ms")[0] == ("g/ahead", 100, -30_000.0)
    clock, gap, *others = anomalies.advise(tables)
    assert "by up to 30.000 s" in clock.why
    assert "20 to 39 are not in the log" in gap.why
    assert len(others) == 3
