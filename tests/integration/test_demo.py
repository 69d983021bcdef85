"""The first thing a visitor runs."""

import pytest

from gossamer.cli.main import main


def test_the_demo_ends_with_everyone_having_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "demo", "--speed", "0"])
    assert stopped.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "cut in two" in told
    assert "everyone has everything" in told
    assert "to 10 of 10 members: every event, once" in told


@pytest.mark.parametrize("arguments", [["--speed", "-1"], ["--speed", "nan"], ["--speed", "inf"], ["--seed", "-1"]])
def test_bad_input_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "demo", *arguments])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"gossamer: {arguments[0]} must")
    assert told.count("\n") == 1
