"""Every job against a log whose answers are known, and against one in which there is nothing."""

import importlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from gossamer.broker.session import ClientLimits
from gossamer.cli import options
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill
from tables import inputs, rows, second

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gossamer.analytics.inputs import Inputs

pytestmark = pytest.mark.slow  # what each job says of tables made by hand is in the quick suite: test_job_*.py
NAMES = ("throughput", "latency", "repair", "purging", "obsolescence", "anomalies")
EVENTS = 20_000


def job(name: str) -> ModuleType:
    return importlib.import_module(f"gossamer.analytics.jobs.{name}")


@dataclass
class Made:
    inputs: "Inputs"
    truth: dict[str, Any]
    tables: "dict[str, dict[str, DataFrame]]" = field(default_factory=dict)

    def run(self, name: str) -> "dict[str, DataFrame]":
        """Once for all tests."""
        if name not in self.tables:
            self.tables[name] = job(name).run(self.inputs)
        return self.tables[name]


@pytest.fixture(scope="module")
def made(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    from gossamer.analytics.inputs import load

    url = f"sqlite:///{tmp_path_factory.mktemp('made') / 'log.db'}"
    log = MadeLog(EVENTS)
    fill(url, log)
    loaded = load(spark, [url])
    yield Made(loaded, log.truth())
    loaded.release()


def test_throughput_is_all_that_was_published(made: Made) -> None:
    tables = made.run("throughput")
    found = rows(tables["throughput"], "group", "publisher", "broker", "events", "bytes")
    assert sum(row[3] for row in found) == made.truth["events"]
    totals: dict[str, list[int]] = {}
    for _, publisher, broker, events, size in found:
        assert broker == (publisher.split("~")[1].split("-")[0] if "~" in publisher else None)
        total = totals.setdefault(publisher, [0, 0])
        total[0] += events
        total[1] += size
    assert totals == {name: [each["events"], each["bytes"]] for name, each in made.truth["publishers"].items()}


def test_latency_is_as_it_was_made(made: Made) -> None:
    bounds = made.truth["logged_after_ns"]
    for stage, p50_ms, p99_ms, max_ms in rows(made.run("latency")["overall"], "stage", "p50_ms", "p99_ms", "max_ms"):
        if stage == "delivered":
            assert (p50_ms, p99_ms) == (5.0, 50.0)
        else:  # in steps of 1/64; clocks that are ahead count as 0
            assert 0 <= p50_ms <= p99_ms <= max_ms <= bounds["max"] / 1e6


def test_repairs_are_those_that_were_told(made: Made) -> None:
    tables = made.run("repair")
    assert rows(tables["rounds"], "way", "rounds", "events") == sorted(
        (each["way"], each["rounds"], each["events"]) for each in made.truth["repaired"]
    )
    assert dict(rows(tables["load"], "node", "packets_repaired")) == made.truth["repair_load"]


def test_purges_are_those_that_were_told(made: Made) -> None:
    tables = made.run("purging")
    assert dict(rows(tables["hops"], "hop", "events")) == made.truth["purged"]
    slowest = rows(tables["consumers"].limit(len(made.truth["slow"])), "client", "obsoleted_share", "behind_share")
    assert sorted(client for client, *_ in slowest) == sorted(made.truth["slow"])
    assert all(share == pytest.approx(0.25, abs=0.01) and behind == 1.0 for _, share, behind in slowest)


def test_distances_are_those_that_were_made(made: Made) -> None:
    distances = made.truth["distances"]
    found: dict[int, int] = {}
    for distance, events in rows(made.run("obsolescence")["obsolescence"], "distance", "events"):
        found[distance] = found.get(distance, 0) + events
    counts = {int(distance): events for distance, events in distances["counts"].items()}
    assert {x: found.get(x, 0) for x in range(1, 257)} == {x: counts.get(x, 0) for x in range(1, 257)}
    assert sum(events for x, events in found.items() if x > 256) == sum(n for x, n in counts.items() if x > 256)
    assert found[0] == made.truth["events"] - distances["related"]


def test_anomalies_are_those_that_were_planted(made: Made) -> None:
    planted = made.truth["anomalies"]
    found: dict[str, list[tuple[Any, ...]]] = {}
    for kind, *told in rows(made.run("anomalies")["anomalies"], "kind", "subject", "at", "amount", "why"):
        found.setdefault(kind, []).append(tuple(told))
    (gap,) = found["gap"]
    assert [(gap[0], gap[2])] == [(each["stream"], each["last"] - each["first"] + 1) for each in planted["gaps"]]
    assert gap[3].startswith(f"{planted['gaps'][0]['first']} to {planted['gaps'][0]['last']} ")
    (silent,) = found["silent"]
    assert silent[0] == planted["silent"][0]["stream"]
    assert int(second(silent[1])) == (planted["silent"][0]["last_ns"] - made.truth["begin_ns"]) // 10**9
    assert [(key, round(share, 1)) for key, _, share, _ in found["hot_key"]] == [
        (each["key"], each["share"]) for each in planted["hot_keys"]
    ]
    assert [publisher for publisher, *_ in found["skew"]] == [planted["skew"]["publisher"]]
    (clock,) = found["clock"]
    assert clock[0] == planted["clock_offset"][0]["stream"]
    assert clock[2] == pytest.approx(planted["clock_offset"][0]["ahead_ns"] / 1e9, abs=0.2)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_makes_empty_tables(spark: "SparkSession", name: str) -> None:
    found = job(name)
    tables = found.run(inputs(spark))
    assert name == found.NAME
    assert name in tables
    assert {table: rows(frame, *frame.columns) for table, frame in tables.items()} == {table: [] for table in tables}
    assert found.advise(tables) == []
    for plot in found.PLOTS:
        drawn = {
            plot.x,
            *([plot.y] if isinstance(plot.y, str) else plot.y),
            *([plot.series] if plot.series else []),
        }
        assert drawn <= set(tables[plot.table].columns), plot


@pytest.mark.parametrize("name", NAMES)
def test_what_is_advised_can_be_loaded(made: Made, name: str, tmp_path: Path) -> None:
    tables = made.run(name)
    for number, advice in enumerate(job(name).advise(tables)):
        assert advice.title
        assert advice.why
        path = tmp_path / f"{number}.toml"
        path.write_text(advice.setting)
        settled, _ = options.settle(path, {}, {})
        assert isinstance(settled["clients"], ClientLimits)
        assert tomllib.loads(advice.setting).keys() <= {"protocol", "clients"}
