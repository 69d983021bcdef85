"""`gossamer lab list` and `gossamer lab run`: what goes to which stream, and the exit codes."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from gossamer.cli import lab_run
from gossamer.cli.main import main
from gossamer.lab import report
from gossamer.lab.experiments import registry
from gossamer.messages.errors import UsageError

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["lab", *arguments])
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return command


def test_json_is_one_object_on_one_line(run: Run) -> None:
    code, out, err = run("run", "convergence", "--members", "5", "--loss", "0.1", "--json")
    assert (code, out.count("\n"), err) == (0, 1, "")
    document = json.loads(out)
    assert [*document] == ["name", "paper", "parameters", "rows", "claims"]
    assert document["paper"] == "004 Fig 4-2"
    assert all([*claim] == ["claim", "paper", "ours", "holds"] for claim in document["claims"])
    assert document["name"] == "convergence"
    assert document["parameters"] == {"members": 5, "error": 1e-6, "loss": 0.1, "self_contact": False, "seeds": 0}
    assert [row["reached"] for row in document["rows"]] == [1, 2, 3, 4, 5]
    assert all([*row] == ["reached", "pull", "push", "pull_markov"] for row in document["rows"])


def test_every_option_reaches_the_experiment(run: Run) -> None:
    options = ["--members", "4", "--error", "0.01", "--loss", "0.5", "--self-contact"]
    _, out, _ = run("run", "convergence", *options, "--json")
    expected = {"members": 4, "error": 0.01, "loss": 0.5, "self_contact": True, "seeds": 0}
    assert json.loads(out)["parameters"] == expected


def test_a_table_shows_the_claim_beside_the_numbers(run: Run) -> None:
    code, out, err = run("run", "convergence")
    assert (code, err) == (0, "")
    assert "Pull converges faster than push" in out
    assert "fewer rounds than push in 99 of 99 cases" in " ".join(out.split())
    assert ["1", "11", "26", "23"] in [line.replace("│", " ").split() for line in out.splitlines()]
    assert "28 of 100 rows" in out


def test_a_short_table_is_shown_whole(run: Run) -> None:
    _, out, _ = run("run", "convergence", "--members", "30")
    assert "rows;" not in out


def test_a_simulation_stands_beside_the_chain_where_it_is_asked_for(run: Run) -> None:
    _, out, _ = run("run", "convergence", "--members", "30", "--seeds", "200", "--json")
    document = json.loads(out)
    assert [row["reached"] for row in document["rows"] if row["pull_mean_simulated"] is not None] == [1, 2, 5, 10, 20]
    assert document["claims"][-1]["claim"] == "simulation agrees with the chain"
    assert document["claims"][-1]["holds"]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_plot_is_drawn_beside_the_answer(run: Run, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"figure.{ending}"
    code, out, err = run("run", "convergence", "--members", "20", "--json", "--plot", str(picture))
    assert (code, out.count("\n"), err) == (0, 1, "")
    assert picture.stat().st_size > 5_000
    if ending == "svg":
        assert "members reached by the multicast" in picture.read_text()


def test_list_names_every_experiment_and_its_claim(run: Run) -> None:
    code, out, err = run("list")
    assert (code, err) == (0, "")
    assert "convergence" in out
    assert "Pull converges faster" in out
    _, out, _ = run("list", "--json")
    assert out.count("\n") == 1
    assert [entry["name"] for entry in json.loads(out)["experiments"]] == registry.names()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "no experiment 'nonsense'"),
        (["convergence", "--nonsense", "1"], "--nonsense"),
        (["convergence", "surplus"], "surplus"),
        (["convergence", "--members"], "--members"),
        (["convergence", "--members", "1"], "members: from 2"),
        (["convergence", "--members", "many"], "--members"),
        (["convergence", "--error", "0"], "error: "),
        (["convergence", "--error", "1"], "error: "),
        (["convergence", "--error", "nan"], "error: "),
        (["convergence", "--loss", "1"], "loss: "),
        (["convergence", "--loss", "-0.1"], "loss: "),
        (["convergence", "--loss", "0.9999"], "more than 10000 rounds"),
        (["convergence", "--seeds", "-1"], "seeds: "),
        (["convergence", "--members", "3", "--plot", "/nowhere/figure.svg"], "cannot write /nowhere/figure.svg"),
        (["convergence", "--members", "3", "--plot", "/tmp/figure.nonsense"], "/tmp/figure.nonsense"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_bad_input_is_one_line_and_exit_code_2(run: Run, arguments: list[str], complaint: str, form: list[str]) -> None:
    code, out, err = run("run", *arguments, *form)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_what_takes_long_says_so_on_stderr_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    started = threading.Event()

    class Status:
        def start(self) -> None:
            calls.append("start")
            started.set()

        def update(self, text: str) -> None:
            calls.append(text)

        def stop(self) -> None:
            calls.append("stop")

    def status(console: Console, text: str) -> Status:
        assert console.stderr
        assert "convergence" in text
        return Status()

    def slow(
        experiment: registry.Experiment, progress: registry.Progress, **parameters: registry.Value
    ) -> registry.Result:
        assert started.wait(timeout=30)
        progress(3, 8)
        return registry.Result(experiment.name, experiment.paper, parameters, [], [])

    monkeypatch.setattr(lab_run, "PATIENCE_S", 0.0)
    monkeypatch.setattr(Console, "status", status)
    monkeypatch.setattr(registry.Experiment, "run", slow)
    code, out, _ = run("run", "convergence", "--json")
    assert (code, out.count("\n"), calls) == (0, 1, ["start", "convergence … 3 of 8", "stop"])


def test_the_installed_command_does_the_same() -> None:
    command = [sys.executable, "-c", "from gossamer.cli.main import main; main()", "lab", "run", "convergence"]
    good = subprocess.run([*command, "--members", "3", "--json"], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["rows"][0] == {"reached": 1, "pull": 5, "push": 12, "pull_markov": 11}
    bad = subprocess.run([*command, "--members", "0"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "gossamer: members: from 2 to 2000, not 0\n"


def test_every_experiment_names_parameters_it_has_and_draws_something() -> None:
    for name in registry.names():
        experiment = registry.find(name)
        assert set(experiment.quick) <= set(experiment.parameters), name
        assert experiment.paper, name
        assert experiment.panels, name
        assert experiment.claim.endswith("."), name


def test_quick_yields_to_what_is_said(run: Run) -> None:
    _, out, _ = run("run", "purging-details", "--quick", "--duration-s", "5", "--delays-ms", "20", "--json")
    parameters = json.loads(out)["parameters"]
    assert (parameters["duration_s"], parameters["seeds"], parameters["delays_ms"]) == (5.0, 1, "20")


def test_a_report_is_one_page_and_goes_on_where_it_was(run: Run, tmp_path: Path) -> None:
    out_dir = tmp_path / "report"
    chosen = ["--experiment", "convergence", "--experiment", "purging-details"]
    code, out, err = run("report", "--out", str(out_dir), "--quick", *chosen)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == str(out_dir / "index.html")
    assert "purging-details (2 of 2): " in out
    assert "3 of 3" in out, "what holds"
    page = (out_dir / "index.html").read_text()
    assert page.count("<svg") == 2
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert 'src="' not in page
    assert "Pull converges faster than push" in page
    times = json.loads((out_dir / "times.json").read_text())
    assert [*times] == ["convergence", "purging-details"]
    assert all(wall_s > 0 and cpu_s > 0 for wall_s, cpu_s in times.values())
    before = json.loads((out_dir / "convergence.json").read_text())
    (out_dir / "convergence.json").write_text(json.dumps({**before, "claims": []}))
    _, out, _ = run("report", "--out", str(out_dir), "--quick", *chosen)
    assert "convergence (1 of 2): not run again" in out
    assert "pull needs fewer rounds" not in (out_dir / "index.html").read_text()
    (out_dir / "convergence.json").write_text(json.dumps({**before, "parameters": {}}))
    _, out, _ = run("report", "--out", str(out_dir), "--quick", *chosen)
    assert re.search(r"convergence \(1 of 2\): \d+ s by the clock", out), (
        "a result of other parameters is not what was asked for"
    )
    assert "purging-details (2 of 2): not run again" in out
    (out_dir / "convergence.json").write_text("{")
    code, out, err = run("report", "--out", str(out_dir), *chosen)
    assert (code, out) == (2, "")
    assert "convergence.json is no result" in err


def test_experiments_run_side_by_side_and_what_each_takes_is_its_own() -> None:
    small = {"messages": 1, "seeds": 1, "members": "2,3"}
    chosen = {"convergence": {"members": 5}, "ordering": {**small, "processes": 2}}
    heard: list[dict[str, tuple[int, int]]] = []
    found = {
        result.name: (result, taken) for result, taken in report.run_all(chosen, lambda told: heard.append({**told}))
    }
    assert {name: result.parameters["members"] for name, (result, _) in found.items()} == {
        "convergence": 5, "ordering": "2,3",
    }  # fmt: skip
    assert all(taken.cpu_s > 0 for _, taken in found.values())
    assert heard, "how far they are is told while they run"
    assert heard[-1] == {}
    assert list(report.run_all({}, heard.append)) == []


def test_a_wrong_parameter_is_said_by_whoever_runs_it() -> None:
    with pytest.raises(UsageError, match="no parameter 'mice'"):
        list(report.run_all({"convergence": {"mice": 1}}, lambda _: None))


def test_the_swarm_of_ordered_groups_says_what_it_found(run: Run) -> None:
    code, out, _ = run("orders", "--runs", "1", "--order", "total", "--json")
    assert (code, out.count("\n")) == (0, 1)
    document = json.loads(out)
    assert (document["runs"], document["violations"], document["seeds"]) == (1, 0, [])
    assert document["events"] > 0
    code, out, err = run("orders", "--runs", "1", "--order", "causal", "--mutant", "as-they-come", "--json")
    assert (code, json.loads(out)["seeds"]) == (1, [1])
    assert "replay: gossamer lab orders --seed 1 --runs 1 --order causal --mutant as-they-come" in err
    assert run("orders", "--mutant", "mule")[0] == 2
