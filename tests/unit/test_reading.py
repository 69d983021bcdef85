"""Which logger a broker asks for the next page, and when it gives one up."""

import pytest
from msgspec.structs import replace

from gossamer.broker.reading import ANSWER_S, LOOK_S, NEW_S, QUIET_S, UNCOVERED_S, Reading, Readings
from gossamer.messages.wire import Page
from gossamer.protocol.replay import Replay


class Broker:
    """Readings over two loggers, and a clock."""

    def __init__(self, *lost: str) -> None:
        self.lost = set(lost)
        self.untaken: dict[str, float] = {}
        self.now = 0.0
        self.readings = Readings()
        self.readings.loggers = lambda: ["K", "L"]
        self.readings.is_lost = lambda node: node in self.lost
        self.readings.untaken_s = lambda node: self.untaken.get(node, 0.0)

    def read(self, key: int) -> None:
        self.readings.add(Reading(key, "default", "", {}, Replay({})))

    def asked(self, now: float | None = None) -> list[str]:
        """The loggers that are asked now."""
        self.now = self.now if now is None else now
        return [consult.logger for consult in self.readings.asks(self.now)]


@pytest.mark.parametrize("key", [0, 1, 2, 3])
def test_a_lost_logger_is_not_asked(key: int):
    broker = Broker("L")
    broker.read(key)
    assert broker.asked() == ["K"]


def test_every_logger_is_asked_if_all_are_lost():
    broker = Broker("K", "L")
    broker.read(0)
    broker.read(1)
    assert sorted(broker.asked()) == ["K", "L"]


@pytest.mark.parametrize("key", [0, 1])
def test_a_reader_moves_on_at_once_when_its_logger_becomes_lost(key: int):
    broker = Broker()
    broker.read(key)
    (first,) = broker.asked()
    assert broker.readings.next_deadline() == LOOK_S
    assert broker.asked(LOOK_S) == []
    broker.lost.add(first)
    assert broker.asked(2 * LOOK_S) == [{"K": "L", "L": "K"}[first]]
    assert broker.readings.on_page(first, Page(1, 0, True), broker.now) == []  # too late


def test_a_reader_moves_on_when_its_logger_takes_nothing_from_its_link():
    broker = Broker()
    broker.read(0)
    assert broker.asked() == ["K"]
    broker.untaken["K"] = QUIET_S - 0.01
    assert broker.asked(1.0) == []
    broker.untaken["K"] = QUIET_S
    assert broker.asked(1.2) == ["L"]
    broker.read(2)
    assert broker.asked(1.4) == ["L"]


def test_a_reader_moves_on_for_quiet_loggers_only_while_another_one_answers():
    broker = Broker()
    broker.read(0)
    broker.untaken |= {"K": QUIET_S, "L": QUIET_S}
    assert broker.asked() == ["K"]
    assert broker.asked(0.2) == ["L"]
    assert broker.asked(0.4) == []
    assert broker.asked(0.2 + ANSWER_S) == ["L"]


def test_a_logger_that_does_not_know_the_others_yet_is_asked_again_for_a_while():
    broker = Broker("K")
    broker.read(0)
    assert broker.asked() == ["L"]
    unknowing = Page(1, 0, True, uncovered=("L",))
    assert broker.readings.on_page("L", unknowing, 0.0) == []
    assert broker.asked(NEW_S) == ["L"]
    assert broker.readings.on_page("L", replace(unknowing, number=2, uncovered=("K",)), NEW_S)
    assert broker.asked(1.0) == ["L"]
    assert broker.readings.on_page("L", replace(unknowing, number=3), UNCOVERED_S)
