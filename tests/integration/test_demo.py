"""The first things a visitor runs."""

import json
import sys
from array import array
from pathlib import Path

import pytest

from gossamer.cli import demo_story
from gossamer.cli.demo_actors import changed_at, quote
from gossamer.cli.demo_report import report_on
from gossamer.cli.main import main


def test_the_story_is_told_and_every_promise_holds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--short", "--json", "--no-report"])
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (told.err, told.out.count("\n"), len(found["promises"])) == ("", 1, 7)
    broken = [promise for promise, held in found["promises"].items() if not held]
    assert (found["held"], stopped.value.code) == (not broken, int(bool(broken)))
    # How fast it was is for whoever looks on: on a machine that does other things it means nothing.
    assert set(broken) <= {"the slow one did not hold up the publisher"}, found
    assert (found["lost"], found["final_state_equal"]) == (0, True)
    fast, slow, picky, durable = (found["subscribers"][name] for name in ("fast", "slow", "picky", "durable"))
    assert fast["delivered"] == found["published"] > 1_000
    assert slow["obsoleted"] > 10 * slow["delivered"] > 0
    assert 0 < picky["delivered"] < found["published"]
    assert fast["node"] != "broker-1"
    assert durable["delivered"] == found["published"] > found["missed_while_away"] > 1_000


@pytest.mark.slow
def test_it_ends_with_a_report_of_what_happened(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--short", "--json", "--report", str(tmp_path / "report")])
    found = json.loads(capsys.readouterr().out)
    assert found["report"] == str(tmp_path / "report" / "index.html")
    rows = json.loads((tmp_path / "report" / "throughput" / "_throughput.json").read_text())["rows"]
    assert sum(row["events"] for row in rows) == found["published"]


def test_without_spark_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with demo_story.Story(demo_story.SHORT) as story:
        assert "pip install 'gossamer[analytics]'" in report_on(story, None)["missing"]


def test_a_promise_that_is_broken_is_shown_and_is_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(story: demo_story.Story) -> list[None]:
        story.facts = demo_story.Facts(published=2, rate_slow=1.32, rate_fast=2.0)
        account = {"node": "broker-2", "delivered": 1, "obsoleted": 0, "lost": 1, "final_state_equal": False}
        story.facts.accounts = {name: {**account, "exact": False} for name in ("fast", "slow", "picky", "durable")}
        story._judge(*story.facts.accounts.values())
        return []

    monkeypatch.setattr(demo_story.Story, "play", play)
    with pytest.raises(SystemExit) as stopped:
        main(["demo"])
    assert stopped.value.code == 1
    told = capsys.readouterr().out
    assert (told.count("✗"), told.count("✓"), told.count("MISSED")) == (7, 0, 7)
    assert "the slow one did not hold up the publisher: 66% of its rate (80% at least)" in " ".join(told.split())


def test_promise_is_kept_from_its_threshold_on_and_tells_both():
    promise = "the slow one did not hold up the publisher"
    account = {"node": "broker-2", "delivered": 1, "obsoleted": 0, "lost": 0, "final_state_equal": True, "exact": True}
    for share, kept in ((demo_story.RATE_MIN - 0.001, False), (demo_story.RATE_MIN, True)):
        with demo_story.Story(demo_story.SHORT) as story:
            story.facts.rate_fast, story.facts.rate_slow = 1_000.0, 1_000.0 * share
            story._judge(*(dict(account) for _ in range(4)))
            assert story.facts.promises[promise] is kept
            assert story.facts.held is kept
            assert "(80% at least)" in story.facts.measured[promise]
            assert story.facts.promises.keys() == story.facts.as_dict()["measured"].keys()


def test_an_actor_that_ends_too_early_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_story, "BROKERS", ("trader-1",))  # there is no such node
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--short"])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("gossamer: the demonstration's trader-1 ended: ")
    assert told.count("\n") == 1


def test_where_a_selector_changed_is_found_and_what_is_missing_or_too_much_too() -> None:
    old, new, count = "price > 130", "symbol = 'IBM'", 2_000
    prices = [n for n in range(900) if quote(n)["price"] > 130]
    both = [*prices, *(n for n in range(900, count) if quote(n)["symbol"] == "IBM")]
    found = changed_at(array("q", both), count, old, new)
    assert found is not None
    assert found[0] <= 900 <= found[1]
    for place in (0, 10, len(prices), len(both) - 1):
        assert changed_at(array("q", both[:place] + both[place + 1 :]), count, old, new) is None
        assert changed_at(array("q", both[: place + 1] + both[place:]), count, old, new) is None


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
