"""One Hypothesis profile for all: a busy machine is no failure, so nothing is judged by the clock."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import postgres as postgres_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("gossamer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gossamer")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the scenario transcripts; then review the diff")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark goes to one of the workers, so that there is one Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    if not postgres_server.available():
        pytest.skip(postgres_server.MISSING)
    server = postgres_server.Server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store, in each database there is."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres").url()
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One Spark for all tests: its start takes seconds. It is set up as a report sets it up for a small store."""
    from gossamer.analytics.session import session

    made = session("local[2]", small=True, config={"spark.driver.memory": "1g"})
    yield made
    made.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not postgres_server.available():
        terminalreporter.section("NOT TESTED", red=True)
        terminalreporter.write_line(postgres_server.MISSING)
