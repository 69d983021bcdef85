"""Chaos runs with real processes: the command, its table and JSON, and that nothing is left behind."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from gossamer.cli.main import main
from processes import GOSSAMER, until


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that were started for this run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_text().replace("\0", " ")
        except OSError:
            continue
        if str(folder) in line and str(os.getpid()) != each.parent.name and "gossamer" in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_two_minutes_of_faults_break_no_promise(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [*GOSSAMER, "chaos", "--minutes", "2", "--seed", "42", "--json", "--data", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(ended.stdout)
    assert (found["violations"], ended.returncode, ended.stderr) == ([], 0, "")
    assert found["logged"] > 1_000
    assert sum(row["count"] for row in found["faults"]) >= 5
    assert json.loads((folder / "result.json").read_text()) == found
    assert left_behind(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_run_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    command = [*GOSSAMER, "chaos", "--seed", "3", "--network", "loopback", "--data", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: (folder / "spooled.jsonl").exists(), "the last client", 90)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in told
    until(lambda: not left_behind(folder), "the end of all processes")


def test_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["chaos", "--data", str(tmp_path)])
    assert (ended.value.code, "is not empty" in capsys.readouterr().err) == (2, True)
