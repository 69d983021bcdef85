"""`gossamer match` as the shell sees it."""

import json

import pytest

from gossamer.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["match", *arguments])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("attributes", "word", "code"),
    [('{"price": 101.5}', "true", 0), ('{"price": 1}', "false", 1), ("{}", "unknown", 1)],
)
def test_true_false_unknown(capsys: pytest.CaptureFixture[str], attributes: str, word: str, code: int) -> None:
    assert run(capsys, "price > 100", attributes) == (code, f"{word}\n", "")
    code_json, out, err = run(capsys, "--json", "price > 100.0", attributes)
    assert (code_json, err, out.count("\n")) == (code, "", 1)
    assert json.loads(out) == {"selector": "price > 100", "result": word, "matches": word == "true"}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_bad_selector_shows_the_caret(capsys: pytest.CaptureFixture[str], options: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *options, "price BETWEN 1 AND 5", "{}")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "gossamer: expected an operator, found 'BETWEN'; did you mean BETWEEN?",
        "  price BETWEN 1 AND 5",
        "        ^",
    ]


@pytest.mark.parametrize(
    "attributes", ["{", "[1]", "5", '{"x": NaN}', '{"x": 1e999}', '{"x": {"y": 1}}', "[" * 100_000]
)
def test_bad_attributes_are_one_clear_line(capsys: pytest.CaptureFixture[str], attributes: str) -> None:
    code, out, err = run(capsys, "x = 1", attributes)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("gossamer: attribute") or err.startswith("gossamer: the attributes are not JSON")
