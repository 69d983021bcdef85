"""The swarm finds nothing in the protocol, and something in every mutant of it."""

import json

import pytest

from gossamer.cli.main import main
from gossamer.lab import swarm
from gossamer.lab.checkers import Violation
from gossamer.lab.mutants import MUTANTS
from gossamer.lab.observer import Journal
from gossamer.lab.semantic_mutants import SEMANTIC
from gossamer.messages.ids import EventId

ALL = MUTANTS | SEMANTIC


def hunt(first: int, runs: int, node_factory: swarm.NodeFactory | None = None) -> list[str]:
    """What was violated, with the seed that replays it; stops at the first for a mutant."""
    found = []
    for seed in swarm.seeds(first, runs):
        outcome = swarm.run(seed, node_factory)
        if outcome.violation is not None:
            found.append(f"{outcome.violation} (gossamer lab swarm --seed {seed} --runs 1)")
            if node_factory is not None:
                break
    return found


@pytest.mark.parametrize("first", [1, 2, 3])
def test_nothing_is_violated(first: int) -> None:
    assert hunt(first, 40) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 21))
def test_nothing_is_violated_in_many_runs(first: int) -> None:
    assert hunt(first, 200) == []


@pytest.mark.parametrize("name", ALL)
def test_every_mutant_is_caught(name: str) -> None:
    assert hunt(1, 200, ALL[name]) != []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2, 12))
@pytest.mark.parametrize("name", ALL)
def test_every_mutant_is_caught_from_any_seed(name: str, first: int) -> None:
    assert hunt(first, 200, ALL[name]) != []


def test_a_seed_determines_everything() -> None:
    journals = []
    for _ in range(2):
        journal = Journal()
        swarm.run(42, observers=(journal,))
        journals.append(journal.entries)
    assert journals[0] == journals[1]
    assert len(journals[0]) > 100


def test_any_run_can_be_replayed_alone() -> None:
    seeds = list(swarm.seeds(9, 5))
    assert seeds[0] == 9
    assert len(set(seeds)) == 5
    assert next(swarm.seeds(seeds[3], 1)) == seeds[3]


def test_a_violation_tells_the_story_of_its_event(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "swarm", "--seed", "1", "--runs", "1", "--mutant", "deliver-twice"])
    assert stopped.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("seed 1: brokers=")
    assert "no duplication" in told
    assert "publishes" in told
    assert "replay: gossamer lab swarm --seed 1 --runs 1 --mutant deliver-twice" in told


def test_json_is_one_object_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "swarm", "--seed", "5", "--runs", "3", "--json"])
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    document = json.loads(lines[0])
    assert document == {"runs": 3, "violations": 0, "events": document["events"], "seeds": []}
    assert document["events"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--runs", "0"], "--runs must be at least 1"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--mutant", "nonsense"], "no mutant 'nonsense'"),
        (["--runs", "many"], "--runs"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "swarm", *arguments])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert told in err


def test_a_violation_names_its_rule() -> None:
    assert str(Violation("FIFO", "it was not", EventId("default/x", 1))) == "FIFO: it was not"
