"""Meshes of real processes; whatever a test leaves running ends with it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clients import Broker
from processes import Processes


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.close()


@pytest.fixture
def brokers() -> Iterator[Callable[..., Broker]]:
    """Starts brokers in this process."""
    started: list[Broker] = []

    def start(*peers: str, **options: Any) -> Broker:
        started.append(Broker(*peers, **options))
        return started[-1]

    yield start
    for broker in started:
        broker.runtime.kill()
        assert broker.runtime.failure is None


@pytest.fixture
def broker(brokers: Callable[..., Broker]) -> Broker:
    return brokers()
