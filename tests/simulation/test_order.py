"""Groups of brokers with causal and total order: the swarm, each mutant that it catches, and runs that are arranged."""

import pytest

from gossamer.lab.checkers import Violation
from gossamer.lab.mesh import Mesh
from gossamer.lab.orders import MUTANTS, mutant, swarm
from gossamer.protocol.config import Config, Group

TOTAL = Config(groups={"default": Group(order="total")}, agreed_by=("a", "b", "c"))


def in_turn(mesh: Mesh, names: str, count: int) -> None:
    for number in range(count):
        mesh.publish(names[number % len(names)])
        mesh.run(0.003)


@pytest.mark.parametrize("order", ["total", "causal"])
def test_the_swarm_finds_nothing(order):
    swarm(0, 12, order)


@pytest.mark.slow
def test_the_swarm_finds_nothing_in_many_runs():
    swarm(1_000, 300)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("everyone-decides", "total"),
        ("forget-decisions", "total"),
        ("as-they-come", "causal"),
    ],
)
def test_the_swarm_catches_a_mutant(name, order):
    with pytest.raises(Violation):
        swarm(0, 60, order, mutant(MUTANTS[name]))


def lost_with_the_first(mesh: Mesh) -> None:
    """Only a, the first of the view, has an event of its own when it dies."""
    in_turn(mesh, "abc", 6)
    mesh.run(1.0)
    mesh.drop("a->*", "Data", None)
    mesh.drop("a->*", "Repair", None)
    mesh.publish("a")
    mesh.run(0.03)
    mesh.crash("a")
    mesh.heal()
    in_turn(mesh, "bc", 10)
    mesh.run(5.0)


def test_what_only_one_holds_is_not_ordered_and_its_death_holds_up_nobody():
    mesh = Mesh("abc", "L", config=TOTAL)
    lost_with_the_first(mesh)
    assert len(mesh.delivered("b")) == 16
    assert mesh.delivered("b") == mesh.delivered("c")


def test_the_mutant_that_orders_it_waits_for_ever():
    mesh = Mesh("abc", "L", config=TOTAL, node_factory=mutant(MUTANTS["decide-what-few-hold"]))
    lost_with_the_first(mesh)
    assert len(mesh.delivered("b")) < 16


def unheard_decision(mesh: Mesh) -> None:
    """a hears of c's event before b's, decides so, and dies before anybody hears it; b would decide otherwise."""
    in_turn(mesh, "abc", 6)
    mesh.run(1.0)
    mesh.drop("a->*", "Agree", None)
    mesh.publish("c")
    mesh.publish("b")
    mesh.run(0.05)
    mesh.crash("a")
    mesh.heal()
    mesh.run(5.0)


def test_a_decision_that_few_have_heard_is_nobodys():
    mesh = Mesh("abc", "L", config=TOTAL)
    unheard_decision(mesh)
    assert len(mesh.delivered("a")) == 6
    assert mesh.delivered("b") == mesh.delivered("c")
    assert mesh.delivered("b")[6:] == ["b:2", "c:2"]


def test_the_mutant_that_follows_it_has_seen_what_never_was():
    mesh = Mesh("abc", "L", config=TOTAL, node_factory=mutant(MUTANTS["deliver-before-uniform"]))
    unheard_decision(mesh)
    assert mesh.delivered("a")[6:] == ["c:2", "b:2"]
    assert mesh.delivered("b")[6:] == ["b:2", "c:2"]


def test_a_minority_hands_out_nothing_and_goes_on_in_the_order_of_the_others():
    mesh = Mesh("abc", "L", config=TOTAL)
    in_turn(mesh, "abc", 9)
    mesh.run(1.0)
    rule = mesh.partition("c", "abL")
    before = len(mesh.delivered("c"))
    mesh.publish("c", 5)
    in_turn(mesh, "ab", 20)
    mesh.run(4.0)  # long enough for the others to go on without it
    assert len(mesh.delivered("c")) == before
    assert len(mesh.delivered("a")) == before + 20
    assert mesh.world.hosts["c"].node.trouble() == ["too few of those who agree on the total order can be reached"]
    mesh.world.remove_rule(rule)
    assert mesh.run_until(lambda: len(mesh.delivered("c")) == before + 25)
    mesh.run(2.0)
    assert mesh.delivered("a") == mesh.delivered("b") == mesh.delivered("c")
    assert mesh.world.hosts["c"].node.trouble() == []


def test_who_comes_later_goes_on_in_the_same_order():
    mesh = Mesh("abc", "L", config=TOTAL)
    in_turn(mesh, "abc", 9)
    mesh.add("d")
    assert mesh.run_until(lambda: mesh.status("d") == "member" and mesh.world.hosts["d"].node.ready("default"))
    in_turn(mesh, "abcd", 40)
    assert mesh.run_until(lambda: len(mesh.delivered("a")) == 49)
    mesh.run(2.0)
    assert len(mesh.delivered("d")) >= 40
    assert mesh.delivered("d") == mesh.delivered("a")[-len(mesh.delivered("d")) :]


def test_a_logger_may_be_one_of_those_who_agree():
    """So that two brokers can do without either."""
    agreed = Config(groups={"default": Group(order="total")}, agreed_by=("a", "b", "L"))
    mesh = Mesh("ab", "L", config=agreed)
    in_turn(mesh, "ab", 10)
    mesh.run(1.0)
    assert mesh.delivered("a") == mesh.delivered("b")
    mesh.crash("b")
    mesh.publish("a", 10)
    mesh.run(4.0)
    assert len(mesh.delivered("a")) == 20


def test_when_most_begin_another_life_the_order_begins_anew():
    """More than a minority at once: what comes then is in one order, though nobody may know the last of before."""
    mesh = Mesh("abc", "L", config=TOTAL)
    in_turn(mesh, "abc", 9)
    mesh.run(1.0)
    for name in "bc":
        mesh.restart(name)
    mesh.run(5.0)
    in_turn(mesh, "abc", 30)
    mesh.run(5.0)
    assert mesh.delivered("b")[-30:] == mesh.delivered("c")[-30:] == mesh.delivered("a")[-30:]
    assert len(mesh.delivered("a")) == 39


def test_publishers_wait_when_too_much_waits_for_its_turn():
    """c is missing, so there is no order yet; the buffer takes a little and then no more."""
    small = Config(groups={"default": Group(order="total")}, agreed_by=("a", "b", "z"), hold_bytes_max=200)
    mesh = Mesh("ab", "L", config=small)
    mesh.publish("a", 100)
    mesh.run(1.0)
    assert mesh.delivered("a") == []
    assert 0 < mesh.acked("a") + 1 < 100
