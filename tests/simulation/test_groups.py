"""Group protocols: the swarm finds nothing in them and something in every mutant; the small model holds with any
faults."""

from collections.abc import Callable
from typing import cast

import pytest

from gossamer.lab.checkers import Violation
from gossamer.lab.faults import Copy, Delay, DropIf, Partition, Sending
from gossamer.lab.groups import checkers, swarm
from gossamer.lab.groups.model import Model, explore
from gossamer.lab.groups.mutants import MUTANTS, RARE
from gossamer.lab.groups.world import GROUP, Doom, Machine, World
from gossamer.lab.swarm import seeds
from gossamer.messages.event import Content
from gossamer.protocol.groups import kept
from gossamer.protocol.groups.effects import Stalled
from gossamer.protocol.groups.inputs import Received
from gossamer.protocol.groups.rotation import Settings
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.views import Order, Timing, Views
from gossamer.protocol.groups.wire import Agreed, Casts, Data, Decided, Hello, Message, Ordered, Pred, Recover, Status

Kind = type[Urgc] | type[Urcgc]


def hunt(first: int, runs: int, protocol: swarm.Protocol, make: swarm.Make = swarm.make) -> str | None:
    """The first violation, with the seed that replays it."""
    for seed in seeds(first, runs):
        outcome = swarm.run(seed, protocol, make)
        if outcome.violation is not None:
            return f"{outcome.violation} ({outcome.plan})"
    return None


@pytest.mark.parametrize("protocol", swarm.PROTOCOLS)
def test_the_swarm_finds_nothing(protocol: swarm.Protocol) -> None:
    assert hunt(1, 25, protocol) is None


@pytest.mark.slow
@pytest.mark.parametrize("protocol", swarm.PROTOCOLS)
def test_the_swarm_finds_nothing_in_many_runs(protocol: swarm.Protocol) -> None:
    assert hunt(1_000, 400, protocol) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_swarm_catches_every_mutant(name: str) -> None:
    mutant = MUTANTS[name]
    assert hunt(0, 300, mutant.protocol, mutant.make) is not None


QUICK = ["deliver-causal-before-uniform", "deliver-before-uniform", "ignore-causality"]


@pytest.mark.parametrize("name", QUICK)
def test_the_swarm_catches_some_mutants_quickly(name: str) -> None:
    mutant = MUTANTS[name]
    found = next(seed for seed in range(60) if swarm.run(seed, mutant.protocol, mutant.make).violation)
    assert swarm.run(found, mutant.protocol).violation is None


def test_a_seed_is_a_run() -> None:
    assert swarm.run(7) == swarm.run(7)
    assert swarm.draw(7, "urgc").protocol == "urgc"


def test_a_change_of_view_in_trouble_leaves_the_rest_of_a_plan_as_it_was() -> None:
    """Old seeds keep their meaning: a change is drawn from a generator of its own."""
    assert str(swarm.draw(3, "views")) == (
        "seed 3: protocol=views members=5 uniform=True batch=1 subrun_ms=20.0 silence=8 messages=54 every_ms=1.0 "
        "loss=0.0 duplicate=0.05 delay_ms=0.5 straggle=0.02 silences=2 order=causal joins=0 leaves=0 excludes=0 "
        "crashes=1 crash_copies=(-1,) aim= keys=2 wire=False change=None"
    )
    drawn = [swarm.draw(seed, "views").change for seed in range(100)]
    assert 50 <= sum(change is not None for change in drawn) <= 70
    assert swarm.draw(0, "urgc").change is None


def test_nearly_all_changes_of_view_in_trouble_leave_a_majority() -> None:
    """Otherwise liveness would not be checked."""
    outcomes = [swarm.run(seed, "views") for seed in range(20)]
    assert sum(outcome.stood for outcome in outcomes) >= 19


# The exhaustive small model -----------------------------------------------------------------------------------------

THREE = ("a", "b", "c")


def small_views(order: Order, uniform: bool) -> Model:
    """Three members of a view and three messages; heartbeats are left alone, for the next says the same."""

    def build() -> World:
        world = World()
        timing = Timing(tick_s=0.04, suspect_s=0.1, exclude_s=0.2)
        for name in THREE:
            world.add(name, Views(GROUP, name, THREE, order=order, uniform=uniform, timing=timing))

        def multicast(name: str) -> None:
            if world.lives[name].alive:
                world.multicast(name, implied=tuple(world.lives[name].delivered()[-1:]) if order == "causal" else ())

        for at_s, name in ((0.001, "c"), (0.004, "b"), (0.02, "a")):
            world.at(at_s, multicast, name)
        return world

    def check(world: World) -> None:
        assert not world.peer_errors
        checkers.check_integrity(world)
        checkers.check_no_gap(world)
        checkers.check_views(world)
        checkers.check_fifo_completeness(world)
        if order == "total":
            checkers.check_total_order(world, uniform=True)
        elif order == "causal":
            checkers.check_causal(world)
        checkers.check_agreement(world, uniform, settled=True)
        checkers.check_validity(world)

    return Model(build, 1.2, check, faulty_until=80, counts=lambda message: not isinstance(message, Status))


ORDERS: list[tuple[Order, bool]] = [("total", True), ("fifo", True), ("causal", False)]


@pytest.mark.parametrize(("order", "uniform"), ORDERS)
def test_few_faults_violate_nothing_in_views(order: Order, uniform: bool) -> None:
    runs = list(explore(small_views(order, uniform), 2, runs_max=250))
    assert len(runs) == 250
    assert [found for _, found in runs if found] == []


@pytest.mark.slow
@pytest.mark.parametrize(("order", "uniform"), ORDERS)
def test_any_two_faults_violate_nothing_in_views(order: Order, uniform: bool) -> None:
    for _, found in explore(small_views(order, uniform), 2):
        assert found is None, found


def small(kind: Kind, uniform: bool) -> Model:
    """Three members and three messages, each after what its sender has seen."""
    causal = issubclass(kind, Urcgc)

    def build() -> World:
        world = World()
        for name in THREE:
            world.add(name, kind(GROUP, name, THREE, Settings(subrun_s=0.04, batch=2, uniform=uniform)))

        def multicast(name: str) -> None:
            if world.lives[name].alive:
                world.multicast(name, after=tuple(world.lives[name].delivered()[-1:]) if causal else ())

        for at_s, name in ((0.001, "c"), (0.03, "b"), (0.05, "a")):
            world.at(at_s, multicast, name)
        return world

    def check(world: World) -> None:
        assert not world.peer_errors
        checkers.check_integrity(world)
        checkers.check_no_gap(world)
        if causal:
            checkers.check_causal(world)
            checkers.check_discarded(world)
        else:
            checkers.check_total_order(world, uniform)
        checkers.check_agreement(world, uniform, settled=True)
        checkers.check_validity(world)

    return Model(build, 1.5, check, faulty_until=36)


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_any_one_fault_violates_nothing(kind: Kind, uniform: bool) -> None:
    runs = list(explore(small(kind, uniform), 1))
    assert len(runs) > 90
    assert [found for _, found in runs if found] == []


@pytest.mark.slow
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_any_two_faults_violate_nothing(kind: Kind, uniform: bool) -> None:
    runs = 0
    for _, found in explore(small(kind, uniform), 2):
        assert found is None, found
        runs += 1
    assert runs > 4_000


def test_the_model_finds_a_broken_rule() -> None:
    broken = MUTANTS["ignore-dependencies"].machine
    assert any(found for _, found in explore(small(broken, False), 1))


# Scenarios ----------------------------------------------------------------------------------------------------------


def group(kind: Callable[..., Machine], names: str, settings: Settings) -> World:
    world = World()
    for name in names:
        world.add(name, kind(GROUP, name, tuple(names), settings))
    return world


def printed(kind: Callable[..., Machine]) -> tuple[World, str]:
    """The coordinator orders e's message, tells only one other, and dies; that one delivers it, and is cut off for two
    subruns, while somebody else speaks. Returns who that is."""
    world = group(kind, "abcde", Settings(subrun_s=0.02, uniform=False, silence=9))
    spoke: list[str] = []

    def decides(message: Message) -> bool:
        return isinstance(message, Ordered) and message.log is not None

    def cut_off(told: tuple[str, ...]) -> None:
        for life in world.lives.values():
            life.doom = None
        rest = [life.name for life in world.lives.values() if life.alive and life.name not in told]
        now_s = world.agenda.now_s
        world.rules.append(Partition(told, rest, start_s=now_s + 0.0005, stop_s=now_s + 0.08))
        world.at(now_s + 0.0005, world.multicast, rest[0])
        spoke.append(rest[0])

    for life in world.lives.values():
        life.doom = Doom(decides, 1, then=cut_off)
    world.at(0.1, world.multicast, "e")
    world.run(2.0)
    assert sum(life.crashed for life in world.lives.values()) == 1
    return world, spoke[0]


def orders(world: World) -> set[tuple[str, ...]]:
    return {tuple(map(str, life.delivered())) for life in world.lives.values() if life.alive}


@pytest.mark.parametrize("name", ["printed-figure", "skip-the-nack-check"])
def test_the_printed_figure_orders_differently_at_two_members(name: str) -> None:
    world, _ = printed(MUTANTS[name].machine)
    assert len(orders(world)) > 1
    with pytest.raises(Violation):
        checkers.check_total_order(world, uniform=False)


def test_a_pending_nack_survives_a_hold() -> None:
    world, spoke = printed(Urgc)
    assert orders(world) == {("g/~e.0:0", f"g/~{spoke}.0:0")}


def crashed_sender(kind: Callable[..., Machine], late_s: float, cut_off: bool) -> World:
    """e's message is out to a alone when e crashes, perhaps late; a may be cut off when e is expelled."""
    world = group(kind, "abcde", Settings(subrun_s=0.02, uniform=False, silence=6))

    def then(_: tuple[str, ...]) -> None:
        if cut_off:
            now_s = world.agenda.now_s
            world.rules.append(Partition("a", "bcd", start_s=now_s + late_s, stop_s=now_s + 0.19))

    world.lives["e"].doom = Doom(lambda message: isinstance(message, Casts), 1, late_s, then)
    world.at(0.05, world.multicast, "e")
    world.run(2.0)
    return world


def halves(kind: Kind | type[Views]) -> World:
    """Two of five are cut off for a while, and everyone goes on talking."""
    world, names = World(), tuple("abcde")
    for name in names:
        if issubclass(kind, Views):
            world.add(name, kind(GROUP, name, names, timing=Timing(suspect_s=0.1, exclude_s=0.3)))
        else:
            world.add(name, kind(GROUP, name, names, Settings(subrun_s=0.02, silence=4)))
    world.rules.append(Partition("ab", "cde", start_s=0.05, stop_s=0.4))
    for number in range(60):
        world.at(0.01 * number, _say, world, names[number % 5])
    world.run(3.0)
    return world


def _say(world: World, name: str) -> None:
    if world.lives[name].alive:
        world.multicast(name)


@pytest.mark.parametrize(("kind", "broken"), [(Urgc, "decide-without-quorum"), (Views, "decide-alone")])
def test_nothing_is_decided_without_a_majority(kind: Kind | type[Views], broken: str) -> None:
    world = halves(kind)
    judge_order(world)
    assert [life.name for life in world.lives.values() if life.alive] == ["c", "d", "e"]
    with pytest.raises(Violation):
        judge_order(halves(MUTANTS[broken].machine))


def judge_order(world: World) -> None:
    checkers.check_total_order(world, uniform=True)
    checkers.check_agreement(world, uniform=True, settled=True)


def last_words(kind: Kind | type[Views]) -> World:
    """a's message is out to b alone when a crashes; b crashes when it has it. The others never will."""
    world, names = World(), tuple("abcde")
    for name in names:
        if issubclass(kind, Views):
            world.add(name, kind(GROUP, name, names, order="fifo", timing=Timing(suspect_s=0.1, exclude_s=0.3)))
        else:
            world.add(name, kind(GROUP, name, names, Settings(subrun_s=0.02, silence=6)))

    def then(_: tuple[str, ...]) -> None:
        world.at(world.agenda.now_s + 0.0015, world.crash, "b")

    world.lives["a"].doom = Doom(lambda message: isinstance(message, Casts | Data), 1, then=then)
    world.at(0.1, world.multicast, "a")
    world.run(3.0)
    assert [life.name for life in world.lives.values() if life.crashed] == ["a", "b"]
    return world


@pytest.mark.parametrize(
    ("kind", "broken"), [(Urcgc, "deliver-causal-before-uniform"), (Views, "deliver-before-uniform")]
)
def test_nothing_is_delivered_that_others_may_never_have(kind: Kind | type[Views], broken: str) -> None:
    checkers.check_agreement(last_words(kind), uniform=True, settled=True)
    with pytest.raises(Violation, match="agreement"):
        checkers.check_agreement(last_words(MUTANTS[broken].machine), uniform=True, settled=True)


def last_order(kind: Kind) -> World:
    """The coordinator orders e's message, tells b alone, and both crash; meanwhile c speaks."""
    world = group(kind, "abcde", Settings(subrun_s=0.02, silence=9))

    def then(told: tuple[str, ...]) -> None:
        for life in world.lives.values():
            life.doom = None
        rest = [life.name for life in world.lives.values() if life.alive and life.name not in told]
        world.multicast(rest[0])
        for name in told:
            world.at(world.agenda.now_s + 0.0015, world.crash, name)

    for life in world.lives.values():
        life.doom = Doom(lambda message: isinstance(message, Ordered) and message.log is not None, 1, then=then)
    world.at(0.1, world.multicast, "e")
    world.run(3.0)
    assert sum(life.crashed for life in world.lives.values()) == 2
    return world


def test_no_order_is_delivered_that_others_may_never_hear_of() -> None:
    checkers.check_total_order(last_order(Urgc), uniform=True)
    with pytest.raises(Violation):
        checkers.check_total_order(last_order(MUTANTS["deliver-order-before-uniform"].machine), uniform=True)


def last_view(kind: type[Views]) -> World:
    """a's message reaches c and not b; a crashes, and b is who proposes the next view."""
    world = World()
    for name in THREE:
        timing = Timing(suspect_s=0.1, exclude_s=0.2)
        world.add(name, kind(GROUP, name, THREE, order="fifo", uniform=False, timing=timing))
    world.rules.append(DropIf(lambda sender, to, message: (sender, to) == ("a", "b") and isinstance(message, Data)))
    world.at(0.1, world.multicast, "a")
    world.at(0.12, world.crash, "a")
    world.run(2.0)
    assert [world.lives[name].view for name in "bc"] == [1, 1]
    return world


def test_no_view_is_installed_without_what_was_delivered_before_it() -> None:
    world = last_view(Views)
    checkers.check_views(world)
    assert [len(world.lives[name].delivered()) for name in "bc"] == [1, 1]
    with pytest.raises(Violation):
        checkers.check_views(last_view(MUTANTS["install-without-flush"].machine))


CHECKED: list[tuple[Order, bool]] = [
    (order, uniform) for order in ("fifo", "causal", "total") for uniform in (True, False)
]


def judge_views(world: World, order: Order, uniform: bool) -> None:
    assert not world.peer_errors
    checkers.check_integrity(world)
    checkers.check_fifo(world)
    checkers.check_views(world)
    checkers.check_fifo_completeness(world)
    if order == "total":
        checkers.check_total_order(world, uniform=True)
    checkers.check_agreement(world, uniform, settled=True)
    checkers.check_validity(world)


def three(kind: type[Views], order: Order, uniform: bool) -> World:
    world = World()
    for name in THREE:
        world.add(name, kind(GROUP, name, THREE, order=order, uniform=uniform, timing=Timing()))
    return world


def ask_to_join(world: World, name: str) -> None:
    world.tell(name, Received("d", Hello(("d",))))


def purged_while_blocked(kind: type[Views], order: Order, uniform: bool) -> World:
    """a multicasts x=1, y, x=2. b is slow, and nothing of this reaches it; c is asked to let d in before it gets x=2,
    and a dies. If a or c takes the acknowledgement of c for x=2 into account, x=1 is purged for it, and b gets y
    alone."""
    world = three(kind, order, uniform)

    def stuck(sending: Sending, copies: list[Copy]) -> list[Copy]:
        if not 0.1 <= sending.now_s < 0.5:
            return copies
        slow_s = 0.25 if sending.sender == "b" else 0.0
        return [(to, late_s + slow_s) for to, late_s in copies if (sending.sender, to) != ("a", "b")]

    world.rules.append(stuck)
    world.at(0.11, world.multicast, "a", Content(key="x"))
    world.at(0.11, world.multicast, "a")
    world.at(0.30, ask_to_join, world, "c")
    world.at(0.3005, world.multicast, "a", Content(key="x"))  # before a hears that c has stopped
    world.at(0.42, world.crash, "a")
    world.run(5.0)
    return world


@pytest.mark.parametrize(("order", "uniform"), CHECKED)
def test_nothing_is_purged_for_a_message_that_the_flush_leaves_out(order: Order, uniform: bool) -> None:
    """000 Fig. 4.3, t2. Under total order the members decide on x=2 during the change, so that it makes no difference
    there; the swarm finds runs in which it does."""
    world = purged_while_blocked(Views, order, uniform)
    judge_views(world, order, uniform)
    assert [life.name for life in world.lives.values() if life.alive] == ["b", "c"]
    if order != "total":
        assert [id.seq for id in world.lives["b"].delivered()] == [0, 1]
        for broken in (MUTANTS["acknowledge-beyond-the-pred"], RARE["purge-beyond-the-pred"]):
            with pytest.raises(Violation, match="view synchrony"):
                judge_views(purged_while_blocked(broken.machine, order, uniform), order, uniform)


def delivered_while_blocked(kind: type[Views], order: Order) -> World:
    """c is asked to let d in, and its PRED to a is lost. a multicasts, hears from c that it has the message, delivers
    it, and dies; nothing of it reaches b."""
    world = three(kind, order, True)
    lost: list[float] = []

    def rule(sending: Sending, copies: list[Copy]) -> list[Copy]:
        kept: list[Copy] = []
        for to, late_s in copies:
            if (sending.sender, to) == ("c", "a") and isinstance(sending.message, Pred) and not lost:
                lost.append(sending.now_s)
            elif sending.now_s < 0.112 or (sending.sender, to) != ("a", "b"):
                slow = sending.sender == "b" and 0.112 <= sending.now_s < 0.5
                kept.append((to, late_s + (0.1 if slow else 0.0)))
        return kept

    world.rules.append(rule)
    world.at(0.1115, world.multicast, "a")
    world.at(0.31, ask_to_join, world, "c")
    world.at(0.3105, world.multicast, "a")
    world.at(0.320, world.crash, "a")
    world.run(5.0)
    assert len(lost) == 1
    return world


@pytest.mark.parametrize("order", ["fifo", "causal"])
def test_nothing_is_delivered_that_the_flush_leaves_out(order: Order) -> None:
    """000 §4.5: one lost PRED and a crash; nothing is obsolete."""
    judge_views(delivered_while_blocked(Views, order), order, True)
    with pytest.raises(Violation, match="uniform agreement"):
        judge_views(delivered_while_blocked(MUTANTS["acknowledge-beyond-the-pred"].machine, order), order, True)


def judge(world: World) -> None:
    checkers.check_agreement(world, uniform=False, settled=True)
    checkers.check_discarded(world)


def test_a_cut_waits_for_everyone_who_is_in() -> None:
    world = crashed_sender(Urcgc, 0.1, cut_off=True)
    judge(world)
    assert [len(world.lives[name].delivered()) for name in "abcd"] == [1, 1, 1, 1]
    with pytest.raises(Violation):
        judge(crashed_sender(RARE["cut-without-everyone"].machine, 0.1, cut_off=True))


def test_nothing_is_taken_from_who_is_expelled() -> None:
    world = crashed_sender(Urcgc, 0.4, cut_off=False)
    judge(world)
    assert [len(world.lives[name].delivered()) for name in "abcd"] == [0, 0, 0, 0]
    with pytest.raises(Violation):
        judge(crashed_sender(RARE["take-from-the-expelled"].machine, 0.4, cut_off=False))


def test_members_that_talk_do_not_wait_for_a_coordinator() -> None:
    """What a majority has is said with messages, too; so it is delivered though no coordinator is heard for a while."""
    world = group(Urcgc, "abcde", Settings(subrun_s=0.02, silence=20))
    world.rules.append(DropIf(lambda _, __, message: isinstance(message, Agreed)))
    for number in range(50):
        world.at(0.002 * number, world.multicast, "abcde"[number % 5])
    world.run(0.15)
    assert min(len(life.delivered()) for life in world.lives.values()) >= 40
    checkers.check_causal(world)


def test_what_is_on_its_way_is_not_asked_for() -> None:
    world = group(Urcgc, "abcde", Settings(subrun_s=0.02))
    asked: list[Message] = []
    world.on_copy = lambda _, message: asked.append(message) or "" if isinstance(message, Recover) else ""  # type: ignore[func-returns-value]
    for number in range(500):
        world.at(0.0003 * number, world.multicast, "abcde"[number % 5])
    world.run(1.0)
    assert asked == []
    assert {len(life.delivered()) for life in world.lives.values()} == {500}


def given_up(kind: type[Views]) -> World:
    """a multicasts x=1, y=1, x=2, of which only what is without x comes through, and dies."""
    world = World()
    for name in THREE:
        world.add(
            name, kind(GROUP, name, THREE, order="fifo", uniform=False, timing=Timing(suspect_s=0.1, exclude_s=0.2))
        )

    def lost(sender: str, _: str, message: object) -> bool:
        early = world.agenda.now_s < 0.1
        keyed = isinstance(message, Data) and any(cast and cast.content.key for cast in message.casts)
        return sender == "a" and isinstance(message, Data) and (early or keyed)

    world.rules.append(DropIf(lost))
    world.at(0.01, world.multicast, "a", Content(key="x"))
    world.at(0.02, world.multicast, "a", Content())
    world.at(0.06, world.multicast, "a", Content(key="x"))
    world.at(0.3, world.crash, "a")
    world.run(2.0)
    return world


def test_nothing_is_given_up_for_what_is_not_safe() -> None:
    """000 §4.3.2: who gets y without x would be in a state that never was."""
    checkers.check_fifo_completeness(given_up(Views))
    with pytest.raises(Violation, match="semantic FIFO completeness"):
        checkers.check_fifo_completeness(given_up(RARE["purge-before-safe"].machine))


def test_what_is_safe_takes_the_place_of_what_it_obsoletes() -> None:
    """A member that is cut off for a while gets the last of each key; the others kept no more for it."""
    world = World()
    for name in THREE:
        world.add(name, Views(GROUP, name, THREE, order="fifo", timing=Timing(suspect_s=5.0, exclude_s=5.0)))
    world.rules.append(Partition("c", "ab", stop_s=1.0))
    for number in range(100):
        world.at(number * 0.005, world.multicast, "a", Content(key="xy"[number % 2]))
    world.run(0.9)
    kept = world.lives["a"].machine
    assert isinstance(kept, Views)
    assert sum(map(len, kept._store)) <= 4
    world.run(3.0)
    assert [len(world.lives[name].delivered()) for name in "ab"] == [100, 100]
    assert len(world.lives["c"].delivered()) < 10
    checkers.check_fifo_completeness(world)
    checkers.check_agreement(world, uniform=True, settled=True)


def test_who_takes_nothing_is_excluded_before_the_others_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "STORE_MAX", 50)
    world = World()
    for name in THREE:
        world.add(name, Views(GROUP, name, THREE, timing=Timing(suspect_s=60.0, exclude_s=60.0)))
    world.rules.append(Partition("c", "ab"))
    for number in range(100):
        world.at(number * 0.005, world.multicast, "a")
    world.run(2.0)
    assert [world.lives[name].view for name in THREE] == [1, 1, 0]
    assert [len(world.lives[name].delivered()) for name in "ab"] == [100, 100]


def test_a_minority_of_a_view_stops_says_so_and_is_told_when_it_is_back() -> None:
    world = World()
    names = tuple("abcde")
    for name in names:
        world.add(name, Views(GROUP, name, names, timing=Timing(suspect_s=0.1, exclude_s=0.3)))
    world.rules.append(Partition("ab", "cde", start_s=0.2, stop_s=2.0))
    for number in range(40):
        world.at(0.01 * number, world.multicast, "a")
        world.at(0.01 * number, world.multicast, "d")
    world.run(1.9)
    assert [each for each in world.lives["a"].seen if isinstance(each, Stalled)] == [Stalled(2, 3)]
    assert [world.lives[name].view for name in names] == [0, 0, 1, 1, 1]
    world.run(4.0)
    assert world.lives["a"].out == world.lives["b"].out == "the group went on to view 1 without this member"
    checkers.check_total_order(world, uniform=True)
    checkers.check_views(world)


def test_who_joins_begins_with_the_state_of_the_others() -> None:
    world = World()
    for name in THREE:
        world.add(name, swarm.seated(name, THREE, lambda view, members, starts, name=name: Views(
            GROUP, name, members, view=view, starts=starts
        )))  # fmt: skip
    for number in range(30):
        world.at(0.01 * number, world.multicast, "abc"[number % 3])
    make = lambda view, members, starts: Views(GROUP, "x", members, view=view, starts=starts)  # noqa: E731
    world.at(0.15, lambda: world.add("x", swarm.seated("x", THREE, make)) and None)
    world.at(1.0, lambda: world.multicast("x") and None)
    world.run(2.0)
    states = {tuple(map(str, life.state)) for life in world.lives.values()}
    assert len(states) == 1
    assert len(states.pop()) == 31
    assert 1 < len(world.lives["x"].delivered()) < 31
    assert world.lives["a"].view == 1


@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_history_stays_bounded(kind: Kind) -> None:
    settings = Settings(subrun_s=0.02, batch=4)
    world = group(kind, "abcd", settings)
    for number in range(2_000):
        world.at(number * 0.001, world.multicast, "abcd"[number % 4])
    world.at(1.0, world.crash, "d")
    for step in range(25):
        world.run(0.1 * step)
        bound = 4 * (settings.k(4) + settings.r(4) + 1) if kind is Urgc else 300
        assert all(life.machine.history <= bound for life in world.lives.values() if life.machine)  # type: ignore[attr-defined]
    world.run(5.0)
    assert len(world.lives["a"].delivered()) > 1_700


@pytest.mark.parametrize("kind", [Urgc, Urcgc])
def test_a_minority_stops_and_says_so(kind: Kind) -> None:
    world = group(kind, "abcde", Settings(subrun_s=0.02))
    world.rules.append(Partition("ab", "cde", start_s=0.2))
    for number in range(50):
        world.at(number * 0.01, world.multicast, "c")
    world.run(3.0)
    assert [world.lives[name].out for name in "ab"] == ["heard no coordinator for 5 subruns"] * 2
    assert [len(world.lives[name].delivered()) for name in "cde"] == [50] * 3


def overtaken(kind: Callable[..., Machine], uniform: bool) -> World:
    """The answers of subruns 9 to 13 reach c 4 ms late, after messages of the next subrun; c coordinates 8 and 14."""
    world = group(kind, "abcdef", Settings(uniform=uniform, batch=1))

    def delay(sending: Sending, copies: list[Copy]) -> list[Copy]:
        message = cast(Message, sending.message)
        if not isinstance(message, Ordered | Agreed) or not 9 <= message.roll.subrun <= 13:
            return copies
        return [(to, late_s + (0.004 if to == "c" else 0.0)) for to, late_s in copies]

    world.rules.append(delay)
    for number in range(100):
        world.at(0.002 * number, _say, world, "abdef"[number % 5])
    world.run(3.0)
    return world


OVERTAKEN: list[tuple[Kind, bool, str]] = [
    (Urgc, True, "late-is-silent-total"),
    (Urgc, False, "late-is-silent-total"),
    (Urcgc, True, "late-is-silent-causal"),
]


@pytest.mark.parametrize(("kind", "uniform", "broken"), OVERTAKEN)
def test_member_stays_though_answers_to_it_are_overtaken(kind: Kind, uniform: bool, broken: str) -> None:
    """Found by the swarm: c took five late answers in a row for silence."""
    world = overtaken(kind, uniform)
    assert [life.out for life in world.lives.values()] == [""] * 6
    assert {len(life.delivered()) for life in world.lives.values()} == {100}
    checkers.check_agreement(world, uniform, settled=True)
    assert overtaken(RARE[broken].machine, uniform).lives["c"].out == "heard no coordinator for 5 subruns"


def jittery(kind: Callable[..., Machine], seed: int, delay_ms: float, uniform: bool) -> World:
    """Six members multicast for a second, longer than a run of the swarm, while every copy is late by a random time."""
    world = World(seed)
    for name in "abcdef":
        world.add(name, kind(GROUP, name, tuple("abcdef"), Settings(uniform=uniform)))
    world.rules.append(Delay(delay_ms))
    for number in range(200):
        world.at(0.005 * number, _say, world, "abcdef"[number % 6])
    world.run(2.0)
    return world


@pytest.mark.parametrize(("kind", "uniform", "broken"), OVERTAKEN)
def test_nobody_leaves_under_lasting_jitter(kind: Kind, uniform: bool, broken: str) -> None:
    """A request and its answer take less than half a subrun, 25 ms, so that nobody fails."""
    for seed, delay_ms in ((0, 3.0), (0, 10.0), (1, 3.0), (1, 10.0)):
        world = jittery(kind, seed, delay_ms, uniform)
        assert [life.out for life in world.lives.values()] == [""] * 6
        assert {len(life.delivered()) for life in world.lives.values()} == {200}
        checkers.check_agreement(world, uniform, settled=True)
    worlds = (jittery(RARE[broken].machine, seed, 10.0, uniform) for seed in range(20))
    outs = (life.out for world in worlds for life in world.lives.values())
    assert next(filter(None, outs), "") == "heard no coordinator for 5 subruns"


def test_a_newcomer_does_not_send_away_who_let_it_in() -> None:
    """Found by the swarm: the coordinator tells only the newcomer how the view ended, and dies."""
    world = World()
    timing = Timing(suspect_s=0.2, exclude_s=0.4)

    def founder(name: str) -> Machine:
        return swarm.seated(name, tuple("abcd"), lambda view, members, starts: Views(
            GROUP, name, members, view=view, starts=starts, timing=timing
        ))  # fmt: skip

    for name in "abcdx":
        world.add(name, founder(name))
    world.rules.append(DropIf(lambda sender, _, message: sender == "a" and isinstance(message, Decided | Status)))
    world.agenda.run_until(lambda: world.lives["x"].view == 1, 5.0)
    world.crash("a")
    world.run(5.0)
    assert all(world.lives[name].alive for name in "bcdx")
    assert {world.lives[name].view for name in "bcdx"} == {2}
    checkers.check_views(world)
