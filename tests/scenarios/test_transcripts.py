"""Each transcript replays to itself. `pytest tests/scenarios --rewrite` rewrites them: review the diff."""

from pathlib import Path

import pytest

from gossamer.lab.transcript import replay

FILES = sorted(Path(__file__).parent.glob("*.txt"))
assert FILES, "no transcripts"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    replayed = replay(text)
    if request.config.getoption("--rewrite"):
        path.write_text(replayed)
    else:
        assert replayed.splitlines() == text.splitlines()
