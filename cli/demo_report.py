"""How `gossamer demo` ends: with a report (`gossamer report`) made from what has just happened."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gossamer.cli.demo_story import Story
from gossamer.cli.report import check_installed
from gossamer.messages.errors import UsageError

DERIVED_S = 60.0
"""So long the logger has to derive the rows that a report reads from what it has logged."""
STEP_S = 0.1


def report_on(story: Story, out: Path | None) -> dict[str, Any]:
    """What `gossamer report --json` tells; or `{"missing": …}`, a line that says what it would take."""
    try:
        check_installed()
    except UsageError as error:
        return {"missing": str(error)}
    _await_rows(story.store)
    story.curtain()
    folder = out or Path(tempfile.mkdtemp(prefix="gossamer-report-"))
    command = [sys.executable, "-P", "-m", "gossamer.cli.main", "report", "--json"]
    done = subprocess.run(
        [*command, "--store", story.store, "--out", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("gossamer: ")]
        return {"missing": (lines or done.stderr.splitlines() or ["it failed"])[-1].removeprefix("gossamer: ")}
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _await_rows(store: str) -> None:
    from gossamer.analytics.planning import extent_of

    give_up_at = time.monotonic() + DERIVED_S
    while extent_of(store).lag and time.monotonic() < give_up_at:
        time.sleep(STEP_S)
