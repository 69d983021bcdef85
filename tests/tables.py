"""Small tables for the jobs of analytics, with what every row needs and a test does not care about."""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from gossamer.analytics import local
from gossamer.analytics.inputs import Inputs
from gossamer.analytics.schema import EVENTS, TELEMETRY

BEGIN_S = 1_794_873_600
"""2026-11-17, midnight: where every window begins."""
NS = 10**9


def event(stream: str, seq: int, at_s: float = 0.0, took_s: float = 0.001, **said: Any) -> dict[str, Any]:
    """Published so many seconds after `BEGIN_S`, and logged `took_s` later. `annotation` is what its JSON says."""
    group, _, name = stream.partition("/")
    published_ns = BEGIN_S * NS + round(at_s * NS)
    annotation = said.pop("annotation", None)
    row = {
        "id": seq,
        "group": group,
        "stream": stream,
        "seq": seq,
        "published_ns": published_ns,
        "logged_ns": published_ns + round(took_s * NS),
        "annotation": None if annotation is None else json.dumps(annotation),
        "attributes": "{}",
        "size": 100,
        "deleted": False,
        "store": "test",
        "publisher": f"{group}/{name.rpartition('.')[0]}" if name.startswith("~") else name,
    }
    return {**row, **said}


def tells(kind: str, node: str, at_s: float = 0.0, deleted: bool = False, **attributes: Any) -> dict[str, Any]:
    """What a member tells, so many seconds after `BEGIN_S`."""
    time_ns = BEGIN_S * NS + round(at_s * NS)
    return {
        "id": time_ns, "type": kind, "node": node, "key": f"{kind}/{node}", "published_ns": time_ns,
        "logged_ns": time_ns, "deleted": deleted,
        "attributes": json.dumps({"type": kind, "node": node, **attributes}), "store": "test",
    }  # fmt: skip


def samples(node: str, *totals: dict[str, Any], every_s: float = 5.0, role: str = "broker") -> list[dict[str, Any]]:
    """Of one life, that begins at the `begin_s` of the first."""
    begin_s = totals[0].get("begin_s", 0.0)
    return [
        tells("sample", node, begin_s + every_s * nth, role=role, interval_s=every_s, uptime_s=every_s * nth, **told)
        for nth, told in enumerate(totals)
    ]


def inputs(
    spark: SparkSession, events: Iterable[dict[str, Any]] = (), telemetry: Iterable[dict[str, Any]] = ()
) -> Inputs:
    return Inputs(
        spark,
        local.table(spark, (tuple(row.get(name) for name in EVENTS.names) for row in events), EVENTS),
        local.table(spark, (tuple(row.get(name) for name in TELEMETRY.names) for row in telemetry), TELEMETRY),
    )


def rows(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """In their order; floats to six places."""
    found = table.select(*columns).collect()
    return [tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in found]


def second(timestamp: Any) -> float:
    """Seconds after `BEGIN_S` of a timestamp, which Spark hands out in this machine's own time zone."""
    return float(timestamp.timestamp() - BEGIN_S)
