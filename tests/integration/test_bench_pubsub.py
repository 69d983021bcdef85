"""`gossamer bench` measures what it says, at a size that says nothing. How fast is nobody's test."""

import json

import pytest

from gossamer.bench import stages
from gossamer.bench.systems import SYSTEMS
from gossamer.cli.main import main


def bench(*arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--seconds", "0.05", "--json", *arguments])
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err


def test_one_line_of_json_with_a_figure_for_each(capsys):
    code, out, err = bench("--peers", "zmq", "--ways", "second_broker,attributes", capsys=capsys)
    assert code == 0, err
    (line,) = out.splitlines()
    document = json.loads(line)
    assert set(document) == {"gossamer", "zmq"}
    for figures in document.values():
        assert {"throughput", "p50_us", "p99_us", "lost"} <= set(figures)
        assert figures["throughput"] > 0
        assert 0 < figures["p50_us"] <= figures["p99_us"]
    own = document["gossamer"]
    assert own["lost"] == own["second_broker"]["lost"] == own["attributes"]["lost"] == 0
    assert set(own["ratios"]) == {"zmq"}


@pytest.mark.parametrize("arguments", [("--peers", "nonesuch"), ("--ways", "nonesuch")])
def test_what_there_is_not_is_one_line_and_exit_code_2(arguments, capsys):
    code, out, err = bench(*arguments, capsys=capsys)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_a_peer_that_is_not_installed_is_told_and_left_out(capsys, monkeypatch):
    monkeypatch.setattr(type(SYSTEMS["nats"]), "lacks", lambda _: "pip install nats-py")
    code, out, err = bench("--peers", "nats", "--ways", "", capsys=capsys)
    assert code == 0
    assert "nats is not installed: pip install nats-py" in err.splitlines()
    assert set(json.loads(out)) == {"gossamer"}


def test_the_stages_and_what_is_left_come_to_what_was_measured():
    cpu_us = {"publisher": 500.0, "server": 500.0, "subscriber": 500.0}
    found = stages.measure(cpu_us)
    assert all(cost >= 0 for cost in found.values())
    assert sum(found.values()) == pytest.approx(sum(cpu_us.values()), rel=0.01)
