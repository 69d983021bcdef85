"""The benchmarks run, at a size that says nothing, and tell what they should. How fast is nobody's test."""

import json

import pytest

from gossamer.bench import measure
from gossamer.bench.__main__ import BENCHMARKS, main
from gossamer.bench.measure import Row


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_tells_its_figures_and_its_targets(name):
    rows = list(BENCHMARKS[name](True))
    assert {row.benchmark for row in rows} == {name}
    assert len({row.what for row in rows}) == len(rows)
    assert any(row.target is not None for row in rows)
    assert all(row.value >= 0 for row in rows if row.unit != "bytes a stream")


def test_json_is_one_document_on_one_line(capsys):
    main(["simulator", "--quick", "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert document["quick"] is True
    assert {row["benchmark"] for row in document["rows"]} == {"simulator"}


def test_the_table_has_the_target_beside_the_figure(capsys):
    measure.run({"one": lambda _: [Row("one", "is", 3.0, "s", 2), Row("one", "was", 1.0, "s", 2)]}, [])
    missed, held = (line for line in capsys.readouterr().out.splitlines() if "≤ 2" in line)
    assert "MISSED" in missed
    assert "holds" in held


@pytest.mark.parametrize("arguments", [["nonesuch"], ["--nonesuch"]])
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gossamer.bench: ")
    assert "nonesuch" in line


def test_cases_take_turns_and_every_other_time_backwards():
    seen = []
    costs = measure.take_turns({name: lambda name=name: seen.append(name) or len(seen) for name in "ab"}, 3)
    assert "".join(seen) == "abbaab"
    assert costs == {"a": [1, 4, 5], "b": [2, 3, 6]}
