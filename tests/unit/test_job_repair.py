"""What was repaired, by whom and how, against tables that can be counted by hand."""

from typing import TYPE_CHECKING

from gossamer.analytics.jobs import repair
from tables import inputs, rows, samples, second, tells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def totals(delivered: int, late: int, gossip: int, logger: int, sent: int, **more: float) -> dict[str, float]:
    return {
        "events_delivered": delivered, "repaired_late": late, "repaired_gossip": gossip, "repaired_logger": logger,
        "packets_repaired": sent, **more,
    }  # fmt: skip


def test_who_repaired_what(spark: "SparkSession") -> None:
    told = samples("a", totals(0, 0, 0, 0, 0), totals(100, 1, 10, 0, 300), totals(200, 1, 10, 20, 320))
    # Its second life begins lower; between the two there is nothing to subtract.
    told += samples("a", totals(10, 0, 5, 0, 2, begin_s=100.0), totals(50, 0, 5, 0, 2))
    # Of a life that began long before there is nothing to be known but what it grows by.
    told += [
        tells(
            "sample",
            "b",
            at_s,
            role="broker",
            interval_s=5.0,
            uptime_s=9_000 + at_s,
            **totals(delivered, 0, 7, 9, sent),
        )
        for at_s, delivered, sent in ((0.0, 1_000, 50), (5.0, 1_100, 58))
    ]
    told += samples("c", totals(0, 0, 0, 0, 0)) + samples("l", totals(0, 0, 0, 0, 0), role="logger")
    # What is over repeats what was said last.
    told += [tells("sample", "a", 106.0, True, role="broker", interval_s=5.0, uptime_s=5.0, **totals(50, 0, 5, 0, 2))]
    told += [
        tells("repair", "a", at_s, way=way, rounds=rounds, events=events)
        for at_s, way, rounds, events in (
            (5.0, "gossip", 1, 10), (10.0, "logger", 10, 20), (100.0, "gossip", 1, 5), (105.0, "gossip", 9, 1),
        )
    ]  # fmt: skip
    tables = repair.run(inputs(spark, (), told))

    columns = ("window_start", "node", "delivered", "late", "gossip", "logger", "repaired_share")
    found = [(second(row[0]), *row[1:]) for row in rows(tables["repair"], *columns)]
    assert [row for row in found if row[1] in "ab"] == [
        (0, "a", 0, 0, 0, 0, None),
        (0, "b", 0, 0, 0, 0, None),
        (5, "a", 100, 1, 10, 0, 0.1),
        (5, "b", 100, 0, 0, 0, 0.0),
        (10, "a", 100, 0, 0, 20, 0.2),
        (100, "a", 10, 0, 5, 0, 0.5),
        (105, "a", 40, 0, 0, 0, 0.0),
    ]
    assert rows(tables["shares"], "way", "events", "share", "delivered_share") == [
        ("late", 1, round(1 / 36, 6), round(1 / 350, 6)),
        ("gossip", 15, round(15 / 36, 6), round(15 / 350, 6)),
        ("logger", 20, round(20 / 36, 6), round(20 / 350, 6)),
    ]
    assert rows(tables["rounds"], "way", "rounds", "events", "share") == [
        ("gossip", 1, 15, 0.9375), ("gossip", 9, 1, 1.0), ("logger", 10, 20, 1.0),
    ]  # fmt: skip
    assert rows(tables["load"], "node", "role", "packets_repaired", "fair") == [
        ("a", "broker", 322, round(4 * 322 / 330, 6)), ("b", "broker", 8, round(4 * 8 / 330, 6)),
        ("c", "broker", 0, 0.0), ("l", "logger", 0, 0.0),
    ]  # fmt: skip
    lost, longer, uneven = repair.advise(tables)
    assert "10.0%" in lost.why
    assert "gclimit_rounds = 20" in longer.setting
    assert "a sent 98%" in uneven.why
    assert 'selection = "uniform"' in uneven.setting
