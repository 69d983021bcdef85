"""Faults of chaos runs: the seed decides, and no fault takes more than the promises bear."""

import re
from itertools import islice
from pathlib import Path

import pytest

from gossamer.lab.chaos import checker
from gossamer.lab.chaos.plan import BROKERS, KINDS, LOGGERS, SHIM, draw
from gossamer.lab.chaos.run import Chaos


def drawn(seed, count=200, kinds=KINDS):
    return list(islice(draw(seed, kinds), count))


def test_seed_decides_the_faults():
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


def test_each_kind_comes_once_before_any_comes_again():
    for seed in range(20):
        assert {fault.kind for fault in drawn(seed, len(KINDS))} == set(KINDS)


def test_other_faults_are_the_same_on_a_machine_that_cannot_inject_some():
    some = tuple(kind for kind in KINDS if kind not in SHIM)
    assert drawn(5, 50, some) == [fault for fault in drawn(5) if fault.kind in some][:50]


@pytest.mark.parametrize("seed", range(20))
def test_two_brokers_and_a_logger_are_always_up(seed):
    for fault in drawn(seed):
        if fault.kind != "rolling restart":  # one after another
            assert len(set(fault.targets) & set(BROKERS)) <= 1
            assert len(set(fault.targets) & set(LOGGERS)) <= 1
        assert 0 <= fault.length_s <= 20
        assert fault.detail


def test_every_kind_of_fault_has_an_injection():
    assert [kind for kind in KINDS if not hasattr(Chaos, f"_{kind.replace(' ', '_')}")] == []


def test_page_tells_of_every_kind_of_fault_and_of_every_violation():
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    told = {name for row in re.findall(r"^\| ([a-z, ]+) \|", page, re.M) for name in row.split(", ")}
    violations = re.findall(r"^(\w+) {2,}\S", checker.__doc__ or "", re.M)
    assert len(violations) == 11
    assert [name for name in (*KINDS, *violations) if name not in told] == []
