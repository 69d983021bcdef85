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


@pytest.mark.parametrize(("option", "value"), [("--speed", "-1"), ("--seed", "-1")])
def test_bad_input_is_one_line(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "demo", option, value])
    assert stopped.value.code == 2
    assert (
        capsys.readouterr().err
        == f"gossamer: {option} must not be negative, not {float(value) if option == '--speed' else value}\n"
    )
