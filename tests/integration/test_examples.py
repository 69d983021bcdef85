"""Every example runs as it stands, in a process of its own, and checks its own promise."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TOLD = {
    "auction": "2000 bids; the display showed",
    "game": "gold as ever",
    "mesh_in_a_sentence": "after healing:      b has ['a:0', 'a:1', 'a:2'] and c has ['a:0', 'a:1', 'a:2']",
    "quotes": "the fast one has all 2458 above 100",
    "registers": "one dies; another: 42\nand the third: 42",
    "takeover": "taken over with {'host': 'db99', 'port': 5099}\nand gone on to {'host': 'db-new', 'port': 6000}",
    "telemetry": "times an alarm ended",
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert TOLD[path.stem] in done.stdout
