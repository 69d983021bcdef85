"""The library that members preload: wall-clock jumps and disk faults, switched on and off in a running process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer.lab.chaos.shim import ERRORS, Page, compile_shim

SCRIPT = """
import os, sys, time
for line in sys.stdin:
    answers = []
    for name in ("a.db", "a.txt"):
        try:
            with open(name, "wb", buffering=0) as file:
                file.write(b"x")
                os.fsync(file.fileno())
            answers.append("ok")
        except OSError as error:
            answers.append(str(error.errno))
    print(int(time.time()), int(time.monotonic()), *answers, flush=True)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    found = compile_shim(tmp_path)
    if isinstance(found, str):
        pytest.skip(f"NO SHIM HERE: {found}")
    return found


def test_running_process_sees_jumps_and_errors_while_they_last(tmp_path: Path, library: Path) -> None:
    page = Page(tmp_path / "page")
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **page.environment(library)},
    )

    def ask() -> tuple[int, int, list[str]]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        wall, monotonic, *answers = process.stdout.readline().split()
        return round((int(wall) - time.time()) / 1_000), round((int(monotonic) - time.monotonic()) / 1_000), answers

    with process:
        assert ask() == (0, 0, ["ok", "ok"])
        page.set(clock_s=8 * 86_400)
        assert ask() == (691, 0, ["ok", "ok"])
        for error in ERRORS.values():
            page.set(error=error)
            assert ask() == (0, 0, [str(error), "ok"])
        page.set()
        assert ask() == (0, 0, ["ok", "ok"])
        assert process.stdin is not None
        process.stdin.close()
    page.close()
