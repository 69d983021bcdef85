"""Ages in a store whose wall clock jumps: nothing looks older than it is, and a confirmed absence counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.logger.store import Store
from gossamer.logger.timeline import DOWN_MAX_NS, STEP_NS, Timeline
from gossamer.logger.writer import Writer
from gossamer.protocol.effects import Collect
from gossamer.protocol.inputs import Aged, Start, Wake
from gossamer.protocol.node import Node
from machines import S, T, context, packet
from processes import until

S_NS = 10**9
HOUR_NS = 3_600 * S_NS
DAY_NS = 24 * HOUR_NS


class Clocks:
    """A wall clock that can be set, beside one that cannot."""

    def __init__(self, url):
        self.url = url
        self.true_ns, self.off_ns = 10**18, 0

    def pass_(self, ns):
        self.true_ns += ns

    def open(self):
        return Store(self.url, clock_ns=lambda: self.true_ns + self.off_ns, steady_ns=lambda: self.true_ns - 10**18)

    def log(self, *packets):
        with self.open() as store:
            store.apply(packets)
            store.commit()

    def ages_h(self):
        """Ages that a logger starting now is told, in hours."""
        with self.open() as store:
            return {name: [round(age / 3_600, 1) for age, _ in steps] for name, steps in store.stored().ages.items()}


@pytest.fixture
def clocks(store_url):
    return Clocks(store_url)


def test_a_start_with_a_clock_eight_days_ahead_ages_nothing_by_more_than_an_hour(clocks):
    clocks.log(packet(0, 4))
    clocks.off_ns = 8 * DAY_NS
    assert clocks.ages_h() == {S: [1.0]}
    clocks.log(packet(5, 9))
    assert clocks.ages_h() == {S: [1.0, 0.0]}, "the jump is remembered though the newest packet is from after it"


def test_a_clock_that_is_set_right_again_leaves_the_ages_right(clocks):
    clocks.log(packet(0, 4))
    clocks.off_ns = 8 * DAY_NS
    clocks.log(packet(5, 9))
    clocks.off_ns = 0
    clocks.pass_(2 * HOUR_NS)
    clocks.log(packet(10, 14))
    (ages,) = clocks.ages_h().values()
    assert all(age <= 3.0 for age in ages), ages
    with clocks.open() as store:
        left_ns = store.timeline.unconfirmed_ns
        assert left_ns <= 2 * HOUR_NS, "the clock itself has shown that the jump was an error, but for the absence"
        store.confirm_clock()
        assert all(age <= 5 * 3_600 for age, _ in store.ages()[S])


def test_a_jump_while_the_logger_runs_ages_nothing(clocks):
    with clocks.open() as store:
        for first in (0, 5):
            store.apply([packet(first, first + 4)])
            store.commit()
            clocks.pass_(10 * S_NS)
            clocks.off_ns += 8 * DAY_NS
        store.note_clock()
    assert set(clocks.ages_h()[S]) == {0.0}


def test_events_logged_under_a_clock_in_the_past_are_not_old_when_it_is_set_right(clocks):
    clocks.log(packet(0, 4))
    clocks.off_ns = -2_000 * DAY_NS
    with clocks.open() as store:
        store.apply([packet(5, 9)])
        store.commit()
        clocks.off_ns = 0
        store.apply([packet(10, 14)])
        store.commit()
        store.confirm_clock()
        assert all(age <= 3_600 for age, _ in store.ages()[S])
    assert all(age <= 1 for age in clocks.ages_h()[S])


def test_a_confirmed_absence_counts_in_full(clocks):
    clocks.log(packet(0, 4))
    clocks.pass_(2 * DAY_NS)
    assert clocks.ages_h() == {S: [1.0]}
    with clocks.open() as store:
        store.confirm_clock()
        store.commit()
        assert store.timeline.unconfirmed_ns == 0
    assert clocks.ages_h() == {S: [48.0]}


def test_a_quiet_time_before_an_orderly_end_is_no_jump(clocks):
    with clocks.open() as store:
        store.apply([packet(0, 4)])
        store.commit()
        clocks.pass_(2 * DAY_NS)
        store.note_clock()
    assert clocks.ages_h() == {S: [48.0]}
    with clocks.open() as store:
        assert store.timeline.unconfirmed_ns == 0


def test_a_jump_is_forgotten_with_the_packets_before_it(clocks):
    clocks.log(packet(0, 4))
    clocks.off_ns = 8 * DAY_NS
    clocks.log(packet(0, 4, stream=T))
    with clocks.open() as store:
        assert store.timeline.unconfirmed_ns > 0
        with store._engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM packets WHERE stream = ?", (S,))
    with clocks.open() as store:
        assert store.timeline.unconfirmed_ns == 0


moves = st.lists(
    st.tuples(
        st.sampled_from(["jump", "pass", "start", "log"]),
        st.integers(-3_000 * DAY_NS, 3_000 * DAY_NS) | st.integers(-2 * HOUR_NS, 2 * HOUR_NS),
    ),
    max_size=30,
)


@given(moves)
def test_no_packet_is_ever_older_than_it_is_but_for_an_hour_a_start(steps):
    timeline, true_ns, off_ns, starts = Timeline(), 10**18, 0, 0
    logged: list[tuple[int, int, int]] = []  # number, by the wall clock, truly
    timeline.on_time(0, true_ns, true_ns)
    for what, ns in steps:
        number = len(logged)
        match what:
            case "jump":
                off_ns += ns
            case "pass":
                true_ns += abs(ns)
            case "start":
                timeline.on_time(number, true_ns + off_ns, true_ns)
                read_ns = true_ns + off_ns
                off_ns += ns
                timeline = Timeline(timeline.encoded())
                timeline.on_start(number, read_ns, true_ns + off_ns)
                timeline.on_time(number, true_ns + off_ns, true_ns)
                starts += 1
            case _:
                timeline.on_time(number, true_ns + off_ns, true_ns)
                logged.append((number + 1, true_ns + off_ns, true_ns))
    timeline.on_time(len(logged), true_ns + off_ns, true_ns)
    for number, wall_ns, logged_ns in logged:
        age_ns = true_ns + off_ns - wall_ns - timeline.offset(number)
        assert age_ns <= true_ns - logged_ns + starts * DOWN_MAX_NS + STEP_NS


# The writer and the node ----------------------------------------------------------------------------------------------


def test_another_machine_confirms_and_a_member_on_this_one_cannot(clocks, caplog):
    clocks.log(packet(0, 4))
    clocks.pass_(2 * DAY_NS)
    answers = []
    writer = Writer(clocks.open())
    writer.start(answers.append, "L")
    try:
        assert "the clock is 169200 s ahead of the newest time" in caplog.text
        assert writer.figures()["clock_doubt_s"] == 169_200
        writer.on_clock("near", 0.1, own_machine=True)
        assert writer.doubts_clock
        assert writer.troubles() == []
        writer.on_clock("far", 2.0, own_machine=False)
        assert not writer.doubts_clock
        aged = until(lambda: [given for given in answers if isinstance(given, Aged)], "the ages in full")
        assert [round(age) for age, _ in aged[0].ages[S]] == [2 * 86_400]
    finally:
        writer.close()
    assert clocks.ages_h() == {S: [48.0]}


def test_a_clock_that_others_contradict_is_trouble(clocks):
    clocks.log(packet(0, 4))
    clocks.off_ns = 8 * DAY_NS
    writer = Writer(clocks.open())
    writer.start(lambda _: None, "L")
    try:
        writer.on_clock("b1", 691_200.0, own_machine=True)
        writer.on_clock("b1", 700_000.0, own_machine=True)  # a sample that came late
        (text,) = writer.troubles()
        assert "691200 s ahead of that of b1" in text
    finally:
        writer.close()


def test_a_logger_collects_by_the_corrected_ages():
    stored_url = "sqlite://"
    with Store(stored_url) as store:
        store.apply([packet(0, 4)])
        store.commit()
        stored = store.stored()
    ctx = context(retain_s=10.0, expire_s=100.0)
    me = Node("L", ctx.config, ctx.rng, logger=True, incarnation=1, stored=stored)
    me.handle(Start(), 0.0)
    effects = me.handle(Wake(), 1.0)
    effects += me.handle(Aged({S: ((150.0, 4),)}), 2.0)
    for at in range(3, 10):
        effects += me.handle(Wake(), float(at))
    assert Collect(S, 4) in effects
