"""A bad network by specification: what is lost, late, double or cut off, and what is told of a bad specification."""

import math

import pytest

from gossamer.broker.counters import Counters
from gossamer.broker.faults import Cut, Faults, FaultyMesh, parse_faults
from gossamer.broker.framing import Header
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Busy
from gossamer.protocol.inputs import Met, Received


class Wire:
    """A mesh that only takes note."""

    def __init__(self, name="a"):
        self.own = Header(name, 1, "tcp://127.0.0.1:1", 0)
        self.counters = Counters()
        self.sent = []
        self.incoming = []

    def send(self, to, frame, now):
        self.sent += [(now, name, frame) for name in to]

    def receive(self, now):
        return self.incoming

    def next_deadline(self):
        return math.inf

    def on_time(self, now):
        pass


def names(wire):
    return [name for _, name, _ in wire.sent]


def test_a_specification_is_read():
    assert parse_faults("loss=0.2, delay=20ms,partition=a|b,c@3s-8s,duplicate=0.05,partition=x|y,seed=7") == Faults(
        0.2, 0.05, 0.02, (Cut((frozenset("a"), frozenset("bc")), 3.0, 8.0), Cut((frozenset("x"), frozenset("y")))), 7
    )
    assert parse_faults("") == Faults()


@pytest.mark.parametrize(
    "text", ["loss=2", "loss=x", "delay=20", "partition=a", "partition=a|", "partition=a|b@3", "noise=1", "seed=x", "a"]
)
def test_what_cannot_be_read_is_named(text):
    with pytest.raises(UsageError, match="faults: "):
        parse_faults(text)


def test_a_share_is_lost_and_the_same_share_with_the_same_seed():
    def passed(seed):
        wire = Wire()
        faulty = FaultyMesh(wire, Faults(loss=0.2, seed=seed), 0.0)
        for number in range(1_000):
            faulty.send(("b", "c"), b"%d" % number, 0.0)
        assert wire.counters.frames_lost == 2_000 - len(wire.sent)
        return wire.sent

    assert 1_500 < len(passed(1)) < 1_700
    assert passed(1) == passed(1) != passed(2)


def test_what_is_late_overtakes_and_comes_when_it_is_due():
    wire = Wire()
    faulty = FaultyMesh(wire, Faults(delay_s=0.02, seed=1), 0.0)
    for number in range(200):
        faulty.send(("b",), b"%d" % number, 0.0)
    assert not wire.sent
    while faulty.next_deadline() < math.inf:
        faulty.on_time(faulty.next_deadline())
    frames = [frame for _, _, frame in wire.sent]
    assert sorted(frames) == sorted(b"%d" % number for number in range(200))
    assert frames != sorted(frames)
    assert 0.015 < sum(now for now, _, _ in wire.sent) / 200 < 0.025


def test_some_come_twice():
    wire = Wire()
    faulty = FaultyMesh(wire, Faults(duplicate=0.5), 0.0)
    for _ in range(100):
        faulty.send(("b",), b"", 0.0)
    assert 120 < len(wire.sent) < 180


def test_a_partition_cuts_both_ways_for_its_time():
    wire = Wire()
    faulty = FaultyMesh(wire, parse_faults("partition=a|b,c@3s-8s"), 100.0)
    wire.incoming = [Received("b", Busy()), Received("d", Busy()), Met("b")]
    for now, reached, heard in ((100.0, ["b", "d"], 3), (103.0, ["d"], 1), (107.9, ["d"], 1), (108.0, ["b", "d"], 3)):
        wire.sent.clear()
        faulty.send(("b", "d"), b"", now)
        assert names(wire) == reached
        assert len(faulty.receive(now)) == heard


def test_a_partition_that_is_made_later_holds_for_what_had_come_by_then():
    """A turn of the loop sends what was submitted, by the clock, before it looks at what woke it some time ago."""
    wire = Wire()
    faulty = FaultyMesh(wire, Faults(), 100.0)
    faulty.faults = parse_faults("partition=a|b")
    wire.incoming = [Received("b", Busy())]
    faulty.send(("b",), b"", 105.001)
    assert not wire.sent
    assert faulty.receive(105.0) == []


def test_one_direction_is_dropped_and_the_other_passes():
    faults = parse_faults("oneway=a>b")
    a, b = Wire("a"), Wire("b")
    FaultyMesh(a, faults, 0.0).send(("b", "c"), b"x", 0.0)
    FaultyMesh(b, faults, 0.0).send(("a",), b"x", 0.0)
    assert (names(a), names(b)) == (["c"], ["a"])
    b.incoming = [Received("a", Busy()), Received("c", Busy())]
    a.incoming = [Received("b", Busy())]
    assert FaultyMesh(b, faults, 0.0).receive(0.0) == b.incoming[1:]
    assert FaultyMesh(a, faults, 0.0).receive(0.0) == a.incoming


def test_faults_in_a_file_are_read_again_when_it_changes(tmp_path):
    path, wire = tmp_path / "faults", Wire("a")
    path.write_text("")
    faulty = FaultyMesh(wire, parse_faults(f"file={path}"), 0.0)
    for at_s, text in ((0.0, "oneway=a>b\n"), (1.0, "")):
        new = tmp_path / f"new-{at_s}"
        new.write_text(text)
        new.replace(path)
        faulty.send(("b",), text.encode(), at_s)
    assert [frame for _, _, frame in wire.sent] == [b""]


@pytest.mark.parametrize("text", ["oneway=a", "oneway=>b", "file="])
def test_unreadable_direction_or_file_is_named(text):
    with pytest.raises(UsageError, match="faults: "):
        parse_faults(text)
