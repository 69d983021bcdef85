"""When a broker takes itself for cut off from the mesh."""

from gossamer.broker.isolation import CUT_OFF_S, LATE_S, Isolation


def looks(heard_at, until_s, isolation=None):
    """The times at which a broker that looks twice a second finds itself cut off; `heard_at(now)` is the last sign."""
    isolation = isolation or Isolation()
    times = [n / 2 for n in range(round(2 * until_s))]
    return [now for now in times if isolation.look(now, heard_at(now))]


def test_a_broker_that_no_member_answers_is_cut_off():
    assert looks(lambda now: min(now, 10.0), 20.0)[0] == 10.0 + CUT_OFF_S


def test_a_broker_that_hears_any_member_is_not_cut_off():
    assert looks(lambda now: now - now % 2.0, 60.0) == []


def test_a_lone_broker_is_not_cut_off():
    assert looks(lambda _: None, 60.0) == []


def test_a_broker_whose_last_peer_has_left_is_not_cut_off():
    assert looks(lambda now: 1.0 if now < 3.0 else None, 60.0) == []


def test_a_broker_is_no_longer_cut_off_when_a_member_answers():
    found = looks(lambda now: 1.0 if now < 20.0 else now, 40.0)
    assert found[-1] == 19.5


def test_time_in_which_the_broker_was_suspended_does_not_count():
    isolation = Isolation()
    assert looks(lambda now: now, 10.0, isolation) == []
    assert not isolation.look(100.0, 9.5)
    assert not isolation.look(100.0 + LATE_S, 9.5)
    assert isolation.look(100.0 + CUT_OFF_S, 9.5)
