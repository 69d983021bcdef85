"""`gossamer lab run purging-model`: the columns, the parameters, the figures' variations."""

import json
from collections.abc import Callable

import pytest

from gossamer.cli.main import main
from gossamer.lab.experiments import purging_model, registry

Run = Callable[..., tuple[int, str, str]]
QUICK = ["--duration-s", "10", "--processes", "1"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["lab", "run", "purging-model", *arguments])
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return command


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third column takes long, and is tested in tests/simulation/test_slow_consumer.py."""
    monkeypatch.setattr(purging_model, "measure_real", lambda *_, **__: 50.0)


def rows_of(**parameters: registry.Value) -> dict[tuple[registry.Value, registry.Value], registry.Row]:
    rows = registry.find("purging-model").run(processes=1, **parameters).rows
    return {(row["r"], row["delay_ms"]): row for row in rows}


def test_figure_5_3_by_default(run: Run) -> None:
    code, out, _ = run("--json", *QUICK)
    document = json.loads(out)
    assert (code, out.count("\n")) == (0, 1)
    assert [*document] == ["name", "paper", "parameters", "rows", "claims"]
    assert document["name"] == "purging-model"
    assert document["parameters"] == {
        "sender_rate": 100,
        "buffer": 20,
        "diversity": 1,
        "ratios": "0,0.25,0.5,0.75",
        "delays_ms": "5,10,15,20,25,30,35,40",
        "duration_s": 10,
        "policy": "eager",
        "split": 0,
        "safety_delay_ms": 0,
        "reach": 0,
        "seed": 1,
        "seeds": 1,
        "processes": 1,
    }
    rows = document["rows"]
    assert [(row["r"], row["delay_ms"]) for row in rows] == [
        (r, delay_ms) for r in (0, 0.25, 0.5, 0.75) for delay_ms in range(5, 45, 5)
    ]
    assert all([*row] == ["r", "delay_ms", "analytical", "simulation", "real"] for row in rows)
    assert [row["analytical"] for row in rows[:8]] == [100, 100, 66.67, 50, 40, 33.33, 28.57, 25]
    # In 10 s there is more chance in it than in 120: four standard deviations of the share of overwrites.
    assert all(row["simulation"] == pytest.approx(row["analytical"], rel=0.25) for row in rows)


def test_the_columns_are_compared_with_the_model(run: Run) -> None:
    _, out, _ = run("--json", "--ratios", "0", "--delays-ms", "20", *QUICK)
    assert json.loads(out)["rows"] == [{"r": 0, "delay_ms": 20, "analytical": 50, "simulation": 50, "real": 50}]
    _, out, _ = run("--ratios", "0", "--delays-ms", "20", *QUICK)
    assert ["0.0", "20.0", "50.0", "50.0", "50.0"] in [line.replace("│", " ").split() for line in out.splitlines()]
    told = " ".join(out.split())
    assert "simulation is within 5% of the model in 1 of 1 points, at worst +0.0% (r 0.0, 20.0 ms)" in told
    assert "A sender is undisturbed" in told


def test_what_is_measured_is_what_was_asked_for_and_five_times_as_long_near_critical_load(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, object]] = []

    def measure(r: float, delay_ms: float, **how: object) -> float:
        seen.append({"r": r, "delay_ms": delay_ms, **how})
        return 40.0 if delay_ms == 20 else 99.0

    monkeypatch.setattr(purging_model, "measure_real", measure)
    _, out, _ = run("--ratios", "0", "--delays-ms", "10,20", "--buffer", "7", "--seed", "3", *QUICK)
    assert "real is within 5% of the model in 1 of 2 points, at worst -20.0% (r 0.0, 20.0 ms)" in " ".join(out.split())
    assert seen[0] == {
        "r": 0,
        "delay_ms": 10,
        "sender_rate": 100,
        "buffer": 7,
        "diversity": 1,
        "duration_s": 50,
        "seed": 3,
    }
    assert seen[1]["duration_s"] == 10


def test_a_whole_figure_fits_the_table(run: Run) -> None:
    _, out, _ = run(*QUICK)
    assert "rows;" not in out


def test_the_seed_decides(run: Run) -> None:
    first, again, other = (run("--json", "--ratios", "0.5", "--seed", seed, *QUICK)[1] for seed in ("1", "1", "2"))
    assert first == again
    assert json.loads(first)["rows"] != json.loads(other)["rows"]


def test_the_other_figures_by_their_parameters() -> None:
    # 5.8: the split buffer is worth less than one of its size.
    whole, halves = (rows_of(ratios="1", diversity=20, delays_ms="30", duration_s=30, split=split) for split in (0, 10))
    assert halves[1, 30]["simulation"] < 0.95 * whole[1, 30]["simulation"]
    # 5.9: and so is one that has to wait.
    at_once, later = (
        rows_of(ratios="0.5", diversity=5, delays_ms="20", duration_s=30, safety_delay_ms=delay) for delay in (0, 200)
    )
    assert later[0.5, 20]["simulation"] < 0.9 * at_once[0.5, 20]["simulation"]
    # 5.7: near critical load, lazy purging is late.
    eager, lazy = (
        rows_of(ratios="0.5", diversity=5, delays_ms="18", duration_s=60, policy=policy) for policy in ("eager", "lazy")
    )
    assert lazy[0.5, 18]["simulation"] < eager[0.5, 18]["simulation"]
    # 5.6(c): k limits model and simulation alike.
    far, near = (rows_of(ratios="1", diversity=5, delays_ms="40", duration_s=30, reach=reach) for reach in (0, 2))
    for column in ("analytical", "simulation"):
        assert near[1, 40][column] < 0.6 * far[1, 40][column]


def test_a_point_is_the_mean_of_its_seeds() -> None:
    how: dict[str, registry.Value] = {"ratios": "0.5", "delays_ms": "20", "duration_s": 5.0}
    one, two = (float(rows_of(seed=seed, **how)[0.5, 20]["simulation"]) for seed in (1, 2))
    assert one != two
    assert rows_of(seeds=2, **how)[0.5, 20]["simulation"] == pytest.approx((one + two) / 2, abs=0.01)


def test_progress_is_told_and_is_no_parameter() -> None:
    told: list[tuple[int, int]] = []
    result = registry.find("purging-model").run(
        lambda done, total: told.append((done, total)), ratios="0", delays_ms="5,10,20", duration_s=1.0, processes=1
    )
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert "progress" not in result.parameters
    assert "progress" not in registry.find("purging-model").parameters


def test_several_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    how: dict[str, registry.Value] = {"ratios": "0.5", "delays_ms": "40", "duration_s": 1.0}
    one, two = (registry.find("purging-model").run(processes=processes, **how).rows for processes in (1, 2))
    assert one == two


def test_names_have_dashes() -> None:
    assert "purging-model" in registry.names()
    assert not any("_" in name for name in registry.names())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--ratios", "0,x"], "ratios: numbers"),
        (["--ratios", ""], "ratios: numbers"),
        (["--ratios", "nan"], "ratios: numbers"),
        (["--ratios", "1.5"], "ratios: shares"),
        (["--delays-ms", "0"], "delays_ms: positive"),
        (["--delays-ms", "5;10"], "delays_ms: numbers"),
        (["--sender-rate", "0"], "sender_rate: positive"),
        (["--sender-rate", "inf"], "sender_rate: positive"),
        (["--sender-rate", "1e12"], "sender_rate: at most"),
        (["--buffer", "0"], "buffer: positive"),
        (["--diversity", "0"], "diversity: positive"),
        (["--duration-s", "nan"], "duration_s: positive"),
        (["--policy", "idle"], "policy"),
        (["--split", "20"], "split: from 0"),
        (["--split", "-1"], "split: not negative"),
        (["--safety-delay-ms", "-1"], "safety_delay_ms: not negative"),
        (["--reach", "-1"], "reach: not negative"),
        (["--processes", "0"], "processes: positive"),
        (["--progress", "1"], "--progress"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Run, arguments: list[str], complaint: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_an_unknown_policy_is_refused_without_the_command_line_as_well() -> None:
    with pytest.raises(registry.UsageError, match="policy: eager or lazy"):
        registry.find("purging-model").run(policy="idle")
