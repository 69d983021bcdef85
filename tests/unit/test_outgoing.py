"""When a client's events leave, which of them are kept, and what is sent again: without a socket."""

from contextlib import closing
from pathlib import Path

from gossamer.messages.packet import encode_content
from gossamer.messages.session import Acks, Publish, Welcome
from gossamer.sdk.outgoing import (
    BYTES_MAX,
    EVENTS_MAX,
    FLYING_MAX,
    GATHER_NS,
    PACKET_BYTES_MAX,
    PACKET_EVENTS_MAX,
    PATIENT_FLYING_MAX,
    PRESSED_EVENTS_MAX,
    SMALL_BYTES_MAX,
    SMALL_EVENTS_MAX,
    SMALL_FLYING_MAX,
    Outgoing,
)
from gossamer.sdk.spool import Spool

STREAM = "default/~test-1.0"
EVENT = encode_content((None, None, None, 1, False, {"n": 1}, b"body"))


def welcomed() -> Outgoing:
    outgoing = Outgoing()
    welcome(outgoing)
    return outgoing


def welcome(outgoing: Outgoing, last: int = 10**9) -> None:
    outgoing.on_welcome(Welcome(1, "broker", STREAM, 2**20, 2**20, 20.0, last=last))


def post(outgoing: Outgoing, *events: bytes, now_ns: int = 0) -> list[Publish]:
    for event in events:
        outgoing.outbox.append(event)
    return list(outgoing.due(now_ns))


def spans(published: list[Publish]) -> list[tuple[int, int]]:
    return [(each.packet.first, each.packet.last) for each in published]


def sent(outgoing: Outgoing, last: int) -> None:
    """The broker has it, and nobody else."""
    outgoing.on_acks(Acks(last, -1, -1))


def test_events_leave_one_by_one_while_few_are_under_way() -> None:
    outgoing = welcomed()
    assert [spans(post(outgoing, EVENT)) for _ in range(3)] == [[(0, 0)], [(1, 1)], [(2, 2)]]


def test_they_gather_behind_those_that_are_under_way_until_these_have_come_or_for_a_while() -> None:
    outgoing = welcomed()
    for _ in range(SMALL_FLYING_MAX + 1):
        assert post(outgoing, EVENT)
    assert post(outgoing, EVENT) == []
    assert post(outgoing, EVENT) == []
    sent(outgoing, SMALL_FLYING_MAX)
    assert spans(post(outgoing, EVENT)) == [(SMALL_FLYING_MAX + 1, SMALL_FLYING_MAX + 3)]
    for _ in range(SMALL_FLYING_MAX):
        post(outgoing, EVENT)
    assert post(outgoing, EVENT, now_ns=GATHER_NS - 1) == []
    assert len(post(outgoing, EVENT, now_ns=GATHER_NS)) == 1, "nothing has left for so long"


def test_a_full_packet_waits_for_nobody_and_few_of_them_are_under_way() -> None:
    outgoing = welcomed()
    published = post(outgoing, *[EVENT] * PACKET_EVENTS_MAX * (FLYING_MAX + 2))
    assert [each.packet.count for each in published] == [PACKET_EVENTS_MAX] * FLYING_MAX
    sent(outgoing, PACKET_EVENTS_MAX - 1)
    assert spans(post(outgoing)) == [(FLYING_MAX * PACKET_EVENTS_MAX, (FLYING_MAX + 1) * PACKET_EVENTS_MAX - 1)]


def test_large_events_make_packets_of_few() -> None:
    outgoing = welcomed()
    large = encode_content((None, None, None, 1, False, {}, bytes(PACKET_BYTES_MAX // 2)))
    post(outgoing, large, large, large)
    sent(outgoing, 0)
    assert spans(post(outgoing)) == [(1, 1)]
    assert len(outgoing.outbox) == 1


def test_the_first_small_packets_are_patient() -> None:
    outgoing = welcomed()
    patient = [each.patient for _ in range(SMALL_FLYING_MAX + 1) for each in post(outgoing, EVENT)]
    assert patient == [True] * PATIENT_FLYING_MAX + [False] * (SMALL_FLYING_MAX + 1 - PATIENT_FLYING_MAX), (
        "so that no event waits behind an answer that takes its time"
    )
    assert False in patient
    assert not outgoing.owed, "the last of them has all answered"
    sent(outgoing, SMALL_FLYING_MAX)
    assert post(outgoing, EVENT)[0].patient
    assert outgoing.owed


def test_nothing_is_patient_that_is_large_or_that_somebody_waits_for() -> None:
    large = encode_content((None, None, None, 1, False, {}, bytes(SMALL_BYTES_MAX)))
    for events in ([EVENT] * (SMALL_EVENTS_MAX + 1), [large]):
        (publish,) = post(welcomed(), *events)
        assert not publish.patient
    outgoing = welcomed()
    outgoing.waited += 1
    assert not post(outgoing, EVENT)[0].patient
    outgoing.waited -= 1
    assert post(outgoing, EVENT)[0].patient


def test_what_is_not_logged_is_kept_and_sent_to_the_next_broker() -> None:
    outgoing = welcomed()
    post(outgoing, EVENT, EVENT)
    post(outgoing, EVENT)
    outgoing.on_acks(Acks(2, 1, 1))
    assert (outgoing.following, outgoing.acked, outgoing.settled) == (2, 1, True)
    assert outgoing.pending_bytes == len(EVENT)
    welcome(outgoing)
    assert spans(list(outgoing.due(0))) == [(2, 2)]
    outgoing.on_acks(Acks(2, 2, 2))
    assert (outgoing.following, outgoing.pending_bytes) == (3, 0)
    welcome(outgoing)
    assert list(outgoing.due(0)) == []


def test_what_a_broker_did_not_take_is_sent_again() -> None:
    outgoing = welcomed()
    for _ in range(3):
        post(outgoing, EVENT)
    outgoing.on_resend(1)
    assert spans(list(outgoing.due(0))) == [(1, 1), (2, 2)]


def test_late_acknowledgements_take_nothing_back() -> None:
    outgoing = welcomed()
    post(outgoing, EVENT, EVENT)
    outgoing.on_acks(Acks(1, 1, 0))
    outgoing.on_acks(Acks(0, -1, 1))
    assert outgoing.acks == Acks(1, 1, 1)


def test_room_is_what_is_not_logged_and_what_numbers_there_are() -> None:
    outgoing = Outgoing()
    assert outgoing.open_until == -1
    welcome(outgoing, last=99)
    assert outgoing.open_until == 99, "a named publisher's numbers"
    outgoing.on_numbers(10**9)
    assert outgoing.open_until == EVENTS_MAX - 1
    post(outgoing, EVENT)
    outgoing.on_acks(Acks(0, 0, 0))
    assert (outgoing.open_until, outgoing.open_bytes) == (EVENTS_MAX, BYTES_MAX + len(EVENT))
    outgoing.fail()
    assert outgoing.open_until == -1


def test_who_goes_on_with_a_spool_has_the_less_room(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool", "default", "feed")) as spool:
        outgoing = Outgoing(spool)
        welcome(outgoing)
        post(outgoing, EVENT, EVENT)
    with closing(Spool(tmp_path / "spool", "default", "feed")) as spool:
        again = Outgoing(spool)
        assert (again.pending_bytes, again.open_bytes) == (2 * len(EVENT), BYTES_MAX - 2 * len(EVENT))
        welcome(again)
        post(again)
        again.on_acks(Acks(1, 1, 1))
        assert (again.pending_bytes, again.open_bytes) == (0, BYTES_MAX)


# Back-pressure --------------------------------------------------------------------------------------------------------


def test_nothing_leaves_beyond_the_allowance() -> None:
    outgoing = welcomed()
    outgoing.on_allowance(2, "slow/0 at b")
    assert spans(post(outgoing, *[EVENT] * 5)) == [(0, 2)]
    assert outgoing.blocked
    sent(outgoing, 2)
    assert post(outgoing) == []
    outgoing.on_allowance(3, "slow/0 at b")
    assert spans(post(outgoing)) == [(3, 3)]
    outgoing.on_allowance(10**9, "")
    assert not outgoing.blocked
    assert spans(post(outgoing, now_ns=GATHER_NS)) == [(4, 4)]


def test_a_packet_that_was_refused_is_sent_again_as_far_as_there_is_room() -> None:
    outgoing = welcomed()
    (whole,) = post(outgoing, *[EVENT] * 10)
    outgoing.on_allowance(-1, "slow/0 at b")
    outgoing.on_resend(0)
    assert post(outgoing) == []
    assert outgoing.blocked
    outgoing.on_allowance(3, "slow/0 at b")
    outgoing.on_resend(0)
    first = post(outgoing)
    outgoing.on_allowance(20, "slow/0 at b")
    rest = post(outgoing, now_ns=GATHER_NS)
    assert spans(first + rest) == [(0, 3), (4, 9)]
    assert b"".join(each.packet.blob for each in first + rest) == whole.packet.blob
    outgoing.on_acks(Acks(9, 9, 9))
    assert outgoing.pending_bytes == 0


def test_a_new_broker_is_sent_everything_until_it_says_otherwise() -> None:
    outgoing = welcomed()
    outgoing.on_allowance(2, "slow/0 at b")
    post(outgoing, *[EVENT] * 5)
    welcome(outgoing)
    assert not outgoing.blocked
    assert spans(post(outgoing)) == [(0, 2), (3, 4)]


def test_with_back_pressure_fewer_events_wait_for_the_broker() -> None:
    outgoing = Outgoing()
    outgoing.on_welcome(Welcome(1, "broker", STREAM, 2**20, 2**20, 20.0, backpressure=True))
    assert outgoing.open_until == PRESSED_EVENTS_MAX - 1
    outgoing.on_acks(Acks(9, -1, -1))
    assert outgoing.open_until == PRESSED_EVENTS_MAX + 9
    welcome(outgoing)
    assert outgoing.open_until == EVENTS_MAX - 1, "that broker has no back-pressure for this group"
