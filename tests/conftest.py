"""One Hypothesis profile for all: a busy machine is no failure, so nothing is judged by the clock."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("gossamer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gossamer")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the scenario transcripts; then review the diff")
