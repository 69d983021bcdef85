"""The two scenarios of 000 App. A.2 in which naive purging goes wrong: ours stands them, and the naive ones do not."""

import pytest

from gossamer.lab.checkers import SERIAL, Checker
from gossamer.lab.faults import Copy, DropIf, Partition, Sending
from gossamer.lab.names import stream_of
from gossamer.lab.semantic_mutants import ARRANGED, SEMANTIC
from gossamer.lab.world import NodeFactory, World
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.wire import Data, Taken
from gossamer.protocol.config import Config

P = stream_of("p", 1)
M1, M2, M3 = EventId(P, 1), EventId(P, 2), EventId(P, 3)


def content(serial: int, key: str | None = None, body: bytes = b"") -> tuple[Content, ...]:
    return (Content(key=key, attributes={SERIAL: serial}, body=body),)


def watched(world: World, config: Config) -> Checker:
    checker = Checker(config.loggers_min, config.retain_s, config.expire_s, config.faults or 0)
    world.observe(checker)
    return checker


# An endless chain ----------------------------------------------------------------------------------------------------


def late(sending: Sending, copies: list[Copy]) -> list[Copy]:
    """q is slow to say what it has taken, so that p's link to it carries a window of 2,000 bytes a second."""
    slow = sending.sender == "q" and isinstance(sending.message, Taken)
    return [(name, late_s + 1.0) for name, late_s in copies] if slow else copies


def endless_chain(factory: NodeFactory | None) -> tuple[World, Checker]:
    """p sends m1, m2 and then m3, m4, … of which each obsoletes m1 and its predecessors, over a link to q that is too
    slow for all of it. What is newest stands last in the link's buffer, where the next one replaces it: none ever
    leaves."""
    config = Config(faults=1)
    world = World(3, config=config, node_factory=factory)
    checker = watched(world, config)
    world.add("L", logger=True)
    world.add(
        "p",
        peers=("L",),
        config=Config(faults=1, link_window_bytes=2_000, link_patience_s=0.0, link_buffer_events_max=100_000),
    )
    for name in "qr":
        world.add(name, peers=("L",))
    world.run(2.0)
    world.add_rule(Partition(["q"], ["r", "L"]))  # q has p alone
    world.add_rule(late)
    start_s = world.now_s
    world.publish("p", P, content(0, body=bytes(4_000)))  # the window to q is closed from now on
    world.publish("p", P, content(1, key="x"))
    world.publish("p", P, content(2))
    for number in range(1_500):
        at_s = start_s + 0.01 + number / 100
        world.at(at_s, world.publish, "p", P, content(3 + 2 * number, key="x"))
        world.at(at_s, world.publish, "p", P, content(4 + 2 * number, body=bytes(400)))
    return world, checker


def test_nobody_waits_for_what_was_purged_for_an_endless_chain() -> None:
    world, checker = endless_chain(None)
    assert world.run_until(lambda: checker.lives["q"].has(M2), 10.0)
    assert checker.lives["q"].omitted[M1].stream == P
    assert not any(checker.lives["q"].has(EventId(P, seq)) for seq in range(3, 1_000, 2))


def test_unless_the_purge_notice_is_forgotten() -> None:
    world, checker = endless_chain(SEMANTIC["forget-the-purge-notice"])
    assert not world.run_until(lambda: checker.lives["q"].has(M2), 10.0)
    assert not checker.lives["q"].covers(M1)


# A sender that crashes -----------------------------------------------------------------------------------------------


def crash_after_purging(factory: NodeFactory | None) -> Checker:
    """p purges m1 for m3 on its link to q, sends m2, and crashes before m3 has reached anybody. r has m1 and m2."""
    config = Config(faults=1)
    world = World(3, config=config, node_factory=factory)
    checker = watched(world, config)
    world.add("r")
    world.add("p", peers=("r",), config=Config(faults=1, link_window_bytes=60, link_patience_s=0.0))
    world.add("q", peers=("r",))
    assert world.run_until(lambda: all(life.status == "member" for life in checker.lives.values()), 10.0)
    stuck = DropIf(lambda source, to, message: (source, to) == ("q", "p") and isinstance(message, Taken))
    world.add_rule(stuck)
    world.add_rule(Partition(["q"], ["r"]))
    world.publish("p", P, content(0))
    world.run(world.now_s + 0.05)  # the window to q is closed, the one to r is open again
    world.publish("p", P, content(1, key="x"))
    world.run(world.now_s + 0.05)
    world.publish("p", P, content(2))
    world.run(world.now_s + 0.05)
    assert checker.lives["r"].has(M2)
    assert not checker.lives["q"].covers(M1)
    world.add_rule(DropIf(lambda _, to, message: to == "r" and isinstance(message, Data)))
    world.publish("p", P, content(3, key="x"))
    world.remove_rule(stuck)  # q's next word opens the window for one packet: m2, and that m1 is not needed
    assert world.run_until(lambda: world.hosts["p"].node.links.waiting().get("q", (0, 0))[0] == 1, 5.0)  # type: ignore
    world.crash("p")
    world.heal()
    world.run(world.now_s + 30.0)
    assert not any(life.has(M3) for life in checker.lives.values())
    return checker


def test_who_crashes_after_purging_takes_nothing_along() -> None:
    checker = crash_after_purging(None)
    assert checker.lives["q"].has(M1)
    assert checker.lives["q"].has(M2)
    assert checker.unreplaced() is None


@pytest.mark.parametrize("mutant", ARRANGED)
def test_unless_what_is_not_safe_counts(mutant: str) -> None:
    checker = crash_after_purging(ARRANGED[mutant])
    assert checker.lives["q"].has(M2)
    assert not checker.lives["q"].has(M1)
    assert checker.unreplaced() == ("q", M1)
