"""Meshes of real processes; whatever a test leaves running ends with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import Processes


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.close()
