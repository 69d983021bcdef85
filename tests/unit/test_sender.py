"""The sender: numbers, keeps, sends again, announces (rpbcast §3.1, §6.2)."""

from itertools import pairwise

import pytest

from gossamer.messages.event import Content
from gossamer.messages.ids import named_stream
from gossamer.messages.packet import BLOB_BYTES_MAX, EVENTS_MAX
from gossamer.messages.wire import Beat, CheckedOut, Checkout, Data, GapNotice, Position, Return, Span
from gossamer.protocol.effects import Acked, Numbers, Refused, Send
from gossamer.protocol.sender import BACKOFF_MAX, Sender
from machines import S, T, context, membership, packet, sent

NAMED = named_stream("default", "trades")


def contents(count=1, body=b""):
    return tuple(Content(attributes={"n": number}, body=body) for number in range(count))


class Bench:
    def __init__(self, brokers="ab", loggers="L", incarnation=1, logger=False, **config):
        config = {"resend_s": 1.0, "idle_after_s": 0.5, "block_seqs": 10, **config}
        self.ctx = context(incarnation=incarnation, logger=logger, **config)
        self.members = membership(self.ctx, brokers, loggers)
        self.sender = Sender(self.ctx, self.members)

    def did(self):
        effects, self.ctx.effects = self.ctx.effects, []
        return effects

    def publish(self, count=1, stream=S, body=b""):
        """The seqs of the packets to disseminate."""
        return [(p.first, p.last) for p in self.sender.publish(stream, contents(count, body))]

    def ack(self, last, node="L", stream=S, start=0):
        beats = self.sender.on_positions(node, (Position(stream, last, False, start),))
        return self.did(), beats

    def at(self, now):
        """What is sent, and which streams went idle."""
        self.ctx.now = now
        beats = self.sender.on_due() if self.sender.next_deadline() <= now else ()
        return sent(self.did()), beats

    def read(self, node="L", epoch=0, last=-1):
        """A logger says what it has promised."""
        return self._answered(node, CheckedOut(NAMED, 0, -1, False, epoch, last))

    def granted(self, epoch, last, node="L"):
        return self._answered(node, CheckedOut(NAMED, epoch, last, True, epoch, last))

    def refused(self, epoch, last, promised, node="L"):
        return self._answered(node, CheckedOut(NAMED, epoch, last, False, *promised))

    def _answered(self, node, answer):
        found = self.sender.on_checked_out(node, answer)
        return self.did(), [(p.first, p.last) for p in found]


def data(first, last=None):
    return first, first if last is None else last


def resent(sends):
    return [(to, data(m.packet.first, m.packet.last)) for to, m in sends if isinstance(m, Data)]


# Numbering and acknowledging -----------------------------------------------------------------------------------------


def test_events_are_numbered_from_0_without_a_gap():
    bench = Bench()
    assert bench.publish(2) == [(0, 1)]
    assert bench.publish(1) == [(2, 2)]
    assert bench.publish(1, stream=T) == [(0, 0)]


def test_what_is_too_much_for_one_packet_becomes_several():
    bench = Bench()
    assert bench.publish(EVENTS_MAX + 1) == [(0, EVENTS_MAX - 1), (EVENTS_MAX, EVENTS_MAX)]


def test_bytes_too_many_for_one_packet_become_several():
    bench = Bench()
    packets = bench.publish(5, body=bytes(BLOB_BYTES_MAX // 2 - 100))
    assert [first for first, _ in packets] == [0, *(last + 1 for _, last in packets[:-1])]
    assert packets[-1][1] == 4


def test_an_event_that_fits_no_packet_is_refused_and_the_next_one_is_not():
    bench = Bench()
    huge = Content(attributes={"text": "x" * (BLOB_BYTES_MAX + 1)})
    assert bench.sender.publish(S, (huge,)) == []
    (refused,) = bench.did()
    assert (refused.stream, refused.count) == (S, 1)
    assert bench.publish(1) == [(0, 0)]


def test_an_event_is_kept_until_it_is_logged():
    bench = Bench()
    bench.publish(2)
    bench.publish(1)
    assert bench.ack(0) == ([], ()), "half a packet is not logged"
    assert bench.ack(1) == ([Acked(S, 1, "logged")], ())
    assert [p.first for p in bench.sender.find(S, 0, 9)] == [2]
    assert bench.ack(1) == ([], ())
    assert bench.ack(2) == ([Acked(S, 2, "logged")], ())
    assert bench.sender.bytes == 0


def test_what_a_broker_says_is_not_logged():
    bench = Bench()
    bench.publish()
    assert bench.ack(0, node="a") == ([], ())
    assert bench.ack(0, node="stranger") == ([], ())


def test_it_takes_as_many_disks_as_are_wanted():
    bench = Bench(loggers="KL", loggers_min=2)
    bench.publish()
    assert bench.ack(0, node="L") == ([], ())
    assert bench.ack(0, node="K") == ([Acked(S, 0, "logged")], ())


def test_a_new_life_of_a_logger_has_acknowledged_nothing():
    bench = Bench(loggers="KL", loggers_min=2)
    bench.publish()
    bench.ack(0, node="L")
    bench.sender.on_new_life("L")
    assert bench.ack(0, node="K") == ([], ())


def test_without_loggers_f_others_make_it_safe():
    bench = Bench(brokers="abcd", loggers="", faults=2)
    bench.publish()
    assert bench.ack(0, node="a") == ([], ())
    assert bench.ack(0, node="b") == ([Acked(S, 0, "safe")], ())


def test_without_loggers_a_minority_of_all_is_the_default():
    bench = Bench(brokers="abcd", loggers="", faults=None)
    assert bench.members.faults == 2


def test_who_came_later_need_not_have_what_was_before():
    bench = Bench(brokers="ab", loggers="", faults=1)
    bench.publish()
    assert bench.ack(0, node="b", start=1) == ([], ()), "its position is t_join"
    bench.publish()
    assert bench.ack(1, node="b", start=1) == ([], ()), "in order"
    assert bench.ack(1, node="a") == ([Acked(S, 1, "safe")], ())


# Sending again -------------------------------------------------------------------------------------------------------


def test_what_is_not_acknowledged_goes_to_the_loggers_again_with_growing_pauses():
    bench = Bench(idle_after_s=0.5)
    bench.publish()
    times = []
    while bench.ctx.now < 100:
        sends, _ = bench.at(bench.sender.next_deadline())
        if resent(sends):
            assert resent(sends) == [(("L",), data(0))]
            times.append(bench.ctx.now)
    pauses = [after - before for before, after in pairwise(times)]
    assert times[0] <= 2.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == BACKOFF_MAX * 1.0


def test_what_is_acknowledged_is_not_sent_again_and_nothing_is_due():
    bench = Bench()
    bench.publish()
    bench.ack(0)
    bench.at(0.5)
    assert bench.sender.next_deadline() == float("inf")


def test_only_the_logger_that_lacks_it_is_sent_it_again():
    bench = Bench(loggers="KL", loggers_min=2)
    bench.publish()
    bench.publish()
    bench.ack(0, node="K")
    bench.at(0.5)
    sends, _ = bench.at(1.5)
    assert resent(sends) == [(("L",), data(0)), (("K", "L"), data(1))] or resent(sends) == [
        (("L",), data(0)),
        (("L", "K"), data(1)),
    ]


def test_a_logger_that_comes_back_need_not_wait_out_the_pause():
    bench = Bench()
    bench.publish()
    while bench.ctx.now < 50:
        bench.at(bench.sender.next_deadline())
    bench.sender.hurry()
    assert bench.sender.next_deadline() <= bench.ctx.now + 1.0


def test_without_loggers_some_members_are_sent_it_again():
    bench = Bench(brokers="abcd", loggers="", faults=2)
    bench.publish()
    bench.at(0.5)
    ((to, again),) = resent(bench.at(1.5)[0])
    assert again == data(0)
    assert len(to) == 2


# Idle ----------------------------------------------------------------------------------------------------------------


def test_a_stream_that_goes_idle_announces_it_once():
    bench = Bench()
    bench.publish(3)
    bench.ack(2)
    assert bench.at(0.4) == ([], ())
    assert bench.at(0.5) == ([], (Beat(S, 2),))
    assert bench.at(100.0) == ([], ())
    bench.publish()
    bench.ack(3)
    assert bench.at(100.5) == ([], (Beat(S, 3),))


def test_a_stream_that_goes_on_is_not_idle():
    bench = Bench()
    beats = ()
    for tenth in range(20):
        beats += bench.at(tenth / 10)[1]
        bench.publish()
    assert beats == ()


def test_a_stream_without_events_has_nothing_to_announce():
    bench = Bench()
    assert bench.publish(0) == []
    assert bench.sender.next_deadline() == float("inf")


# Full, closed --------------------------------------------------------------------------------------------------------


def test_a_full_buffer_refuses_until_something_is_logged():
    bench = Bench(send_buffer_bytes_max=100)
    bench.publish(1, body=bytes(200))
    assert bench.publish() == []
    assert bench.did() == [Refused(S, 1, "the send buffer is full")]
    bench.ack(0)
    assert bench.publish() == [(1, 1)]


def test_a_closed_stream_ends_once_everything_is_logged():
    bench = Bench()
    bench.publish(2)
    assert bench.sender.close(S) == ()
    assert bench.publish() == []
    assert bench.did() == [Refused(S, 1, "the stream is closed")]
    assert bench.ack(1) == ([Acked(S, 1, "logged")], (Beat(S, 1, True),))
    assert S not in bench.sender.streams


def test_what_is_logged_already_ends_at_once():
    bench = Bench()
    bench.publish()
    bench.ack(0)
    assert bench.sender.close(S) == (Beat(S, 0, True),)
    assert bench.sender.close(S) == ()


def test_a_stream_that_has_ended_takes_nothing_more():
    """Or its numbers would be used a second time, and everyone would take the new events for duplicates."""
    bench = Bench()
    bench.publish()
    bench.ack(0)
    bench.sender.close(S)
    assert bench.publish() == []
    assert bench.did() == [Refused(S, 1, "the stream is closed")]


def test_a_stream_that_never_was_ends_without_a_word():
    assert Bench().sender.close(S) == ()


# Named publishers ----------------------------------------------------------------------------------------------------


def opened(**options):
    bench = Bench(**options)
    bench.sender.open(NAMED)
    return bench


READING = Checkout(NAMED, 0, -1, -1, "me-1")


def test_a_named_publisher_reads_then_claims_then_publishes():
    bench = opened()
    assert sent(bench.did()) == [(("L",), READING)]
    assert bench.publish(1, stream=NAMED) == [], "no number before a block is checked out"
    assert bench.read() == ([Send(("L",), Checkout(NAMED, 1, 0, 9, "me-1"))], [])
    assert bench.granted(1, 9) == ([], [(0, 0)])


def test_what_was_promised_before_is_never_used_again():
    bench = opened()
    bench.publish(1, stream=NAMED)
    bench.did()
    assert bench.read(epoch=4, last=29) == ([Send(("L",), Checkout(NAMED, 5, 30, 39, "me-1"))], [])
    effects, packets = bench.granted(5, 39)
    assert packets == [(30, 30)]
    assert sent(effects) == [(("a", "b", "L"), GapNotice(NAMED, 29, 5))]


@pytest.mark.parametrize(("loggers", "needed"), [("K", 1), ("KL", 2), ("KLM", 2), ("KLMN", 3)])
def test_it_takes_a_majority_of_the_loggers(loggers, needed):
    bench = opened(loggers=loggers)
    bench.did()
    assert [bool(bench.read(node)[0]) for node in loggers[:needed]] == [False] * (needed - 1) + [True]


def test_a_logger_counts_once_and_a_broker_not_at_all():
    bench = opened(loggers="KLM")
    bench.did()
    assert [bench.read(node) for node in ("K", "K", "a", "stranger")] == [([], [])] * 4


@pytest.mark.parametrize(("loggers", "needed"), [("L", 1), ("LM", 1), ("LMN", 2), ("LMNO", 2), ("LMNOP", 3)])
def test_holder_extends_its_block_with_half_of_the_loggers(loggers, needed):
    bench = Bench(loggers=loggers)
    bench.sender.open(NAMED)
    for node in loggers:
        bench.read(node)
    for node in loggers:
        bench.granted(1, 9, node)
    bench.publish(6, NAMED)  # half of the block: it asks for the next one
    numbers = bench.sender.streams[NAMED].numbers
    for count, node in enumerate(loggers, 1):
        bench.granted(1, 19, node)
        assert (numbers.last == 19) == (count >= needed)


def test_the_highest_promise_of_the_majority_counts():
    bench = opened(loggers="KLM")
    bench.did()
    bench.read("K", epoch=1, last=19)
    effects, _ = bench.read("M", epoch=3, last=4)
    assert [message for _, message in sent(effects)] == [Checkout(NAMED, 4, 20, 29, "me-1")]


def test_a_late_answer_to_an_earlier_question_does_not_count():
    bench = opened()
    bench.publish(1, stream=NAMED)
    bench.did()
    bench.read()
    assert bench.read() == ([], [])
    assert bench.granted(2, 9) == ([], [])


def test_who_comes_second_reads_again_and_takes_the_publisher_over():
    bench = opened()
    bench.did()
    bench.read()
    assert bench.refused(1, 9, promised=(1, 9)) == ([Send(("L",), READING)], [])
    assert bench.read(epoch=1, last=9) == ([Send(("L",), Checkout(NAMED, 2, 10, 19, "me-1"))], [])


def test_a_holder_that_is_refused_its_next_block_is_superseded():
    bench = opened()
    bench.did()
    bench.read()
    bench.granted(1, 9)
    bench.publish(12, stream=NAMED)
    bench.did()
    effects, _ = bench.refused(1, 19, promised=(2, 19))
    assert effects == [Refused(NAMED, 2, "superseded: published from elsewhere")]
    assert bench.publish(1, stream=NAMED) == [], "and does not begin again at 0"


def test_the_next_block_is_checked_out_before_this_one_is_used_up():
    bench = opened()
    bench.read()
    bench.granted(1, 9)
    bench.did()
    assert bench.publish(4, stream=NAMED) == [(0, 3)]
    assert sent(bench.did()) == [], "half of it is left"
    assert bench.publish(1, stream=NAMED) == [(4, 4)]
    assert sent(bench.did()) == [(("L",), Checkout(NAMED, 1, 10, 19, "me-1"))]
    assert bench.publish(7, stream=NAMED) == [(5, 9)], "and not one number beyond it is used"
    assert bench.granted(1, 19) == ([], [(10, 11)]), "and no gap is told of: there is none"


def test_a_checkout_that_is_not_answered_is_repeated():
    bench = opened()
    bench.did()
    assert bench.at(1.0)[0] == [(("L",), READING)]
    assert bench.at(2.0)[0] == [(("L",), READING)]


def test_a_stream_is_due_once_however_often_it_is_hurried():
    bench = Bench()
    bench.publish(1)
    for _ in range(10):
        bench.sender.hurry()
    bench.ctx.now = 60.0
    bench.sender.on_due()
    assert len(bench.sender._due) == 1


def test_a_stream_whose_others_closed_it_tells_its_publisher():
    bench = Bench()
    bench.publish(3)
    bench.did()
    bench.sender.on_lost(S)
    assert bench.did() == [Refused(S, 0, "the stream was closed, because this node was taken for dead")]
    assert bench.sender.bytes == 0
    assert bench.publish(1) == []


def test_a_named_publisher_that_was_not_opened_is_refused():
    """Its numbers could be another incarnation's."""
    bench = Bench()
    assert bench.publish(2, stream=NAMED) == []
    assert bench.did() == [Refused(NAMED, 2, "the publisher is not open")]


# Named clients -------------------------------------------------------------------------------------------------------


def claimed(held=False, following=0, holder="me-1", **options):
    bench = Bench(**options)
    bench.sender.claim(NAMED, holder, held, following)
    return bench


def numbers(effects):
    return [(each.floor, each.last) for each in effects if isinstance(each, Numbers)]


def test_a_client_that_claims_a_name_is_told_its_numbers():
    bench = claimed()
    bench.read(epoch=4, last=29)
    effects, _ = bench.granted(5, 39)
    assert numbers(effects) == [(30, 39)]
    assert sent(effects, GapNotice) == [(("a", "b", "L"), GapNotice(NAMED, 29, 5))]
    assert bench.sender.forward(packet(30, 34, stream=NAMED)) == [packet(30, 34, stream=NAMED)]


def test_a_client_goes_on_at_another_broker_with_the_numbers_that_it_has():
    bench = claimed(held=True, following=34)
    effects, _ = bench._answered("L", CheckedOut(NAMED, 0, -1, False, 5, 39, "me-1", 30))
    assert numbers(effects) == [(30, 39)]
    assert bench.sender.forward(packet(33, stream=NAMED)) == [], "others have that"
    assert bench.sender.forward(packet(34, 39, stream=NAMED)) == [packet(34, 39, stream=NAMED)]
    bench.did()
    assert numbers(bench.granted(5, 49)[0]) == [(30, 49)]


def test_a_client_that_was_taken_over_does_not_go_on():
    bench = claimed(held=True, following=34)
    effects, _ = bench._answered("L", CheckedOut(NAMED, 0, -1, False, 6, 49, "other", 40))
    assert [type(effect) for effect in effects if not isinstance(effect, Send)] == [Refused]
    assert NAMED not in bench.sender.streams


def test_a_second_claim_at_the_same_broker_leaves_what_is_not_logged_to_be_logged():
    bench = claimed()
    bench.read()
    bench.granted(1, 9)
    bench.sender.forward(packet(0, 3, stream=NAMED))
    bench.sender.claim(NAMED, "second", False, 0)
    bench._answered("L", CheckedOut(NAMED, 0, -1, False, 1, 9, "me-1", 0))
    effects, _ = bench._answered("L", CheckedOut(NAMED, 2, 19, True, 2, 19, "second", 10))
    assert numbers(effects) == [(10, 19)]
    assert resent(bench.at(10.0)[0]) == [(("L",), (0, 3))]


def test_a_gap_notice_is_repeated_until_every_logger_has_closed_the_gap():
    bench = claimed(loggers="KL")
    for node in "KL":
        bench.read(node, epoch=1, last=9)
    for node in "KL":
        bench.granted(2, 19, node)
    bench.ack(9, "L", NAMED)
    assert bench.at(5.0)[0] == [(("K",), GapNotice(NAMED, 9, 2))]
    bench.ack(9, "K", NAMED)
    assert bench.at(50.0)[0] == []


def test_what_was_logged_while_it_was_published_elsewhere_is_logged_when_it_comes_again():
    bench = Bench()
    bench.sender.adopt(S, 0)
    bench.sender.forward(packet(0, 3))
    bench.ack(9)
    bench.sender.forward(packet(4, 9))
    assert Acked(S, 9, "logged") in bench.did()


def test_a_client_that_is_back_hears_what_was_acknowledged_meanwhile():
    bench = Bench()
    bench.sender.adopt(S, 0)
    bench.sender.forward(packet(0, 3))
    bench.ack(3)
    bench.did()
    bench.sender.adopt(S, 2)
    assert bench.did() == [Acked(S, 3, "logged")]


def test_a_client_that_claims_its_name_again_hears_what_was_acknowledged_meanwhile():
    bench = claimed()
    bench.read()
    bench.granted(1, 9)
    bench.sender.forward(packet(0, 3, stream=NAMED))
    bench.ack(3, "L", NAMED)
    bench.did()
    bench.sender.claim(NAMED, "me-1", True, 0)
    assert Acked(NAMED, 3, "logged") in bench.did()


def test_a_client_that_is_back_hears_of_nothing_logged_where_nobody_logs():
    bench = Bench(brokers="a", loggers="", faults=1)
    bench.sender.adopt(S, 0)
    bench.sender.forward(packet(0, 3))
    bench.ack(3, "a")
    bench.did()
    bench.sender.adopt(S, 0)
    assert bench.did() == [Acked(S, 3, "safe")]


def test_a_client_that_is_done_gives_its_numbers_back():
    bench = claimed()
    bench.read()
    bench.granted(1, 9)
    bench.sender.forward(packet(0, 3, stream=NAMED))
    assert bench.sender.close(NAMED) == ()
    bench.did()
    effects, beats = bench.ack(3, "L", NAMED)
    assert sent(effects) == [(("L",), Return(NAMED, 1, "me-1", 3))]
    assert beats == (Beat(NAMED, 3, False),), "a name may come back"


def test_opening_twice_is_opening_once():
    bench = opened()
    bench.did()
    bench.sender.open(NAMED)
    assert bench.did() == []


def test_alone_in_the_world_nothing_is_kept():
    bench = Bench(brokers="", loggers="")
    bench.publish(3)
    assert (bench.did(), bench.sender.bytes) == ([Acked(S, 2, "safe")], 0)


# Loggers that lack earlier events ------------------------------------------------------------------------------------


def beyond(bench, *ranges, node="L"):
    """A logger lacks the first events, and tells which later ones are on its disk."""
    bench.sender.on_positions(node, (Position(S, -1),), (Span(S, ranges),))
    return bench.did()


def test_events_on_disk_behind_a_gap_are_acknowledged():
    bench = Bench(loggers="LM")
    bench.publish(5)
    bench.ack(4, node="M")
    bench.sender.on_new_life("M")
    bench.publish(3)
    bench.did()
    assert beyond(bench, (6, 7)) == [], "event 5 is not in the range"
    assert beyond(bench, (5, 7)) == [Acked(S, 7, "logged")]
    assert (bench.sender.bytes, bench.sender.overdue(99.0)) == (0, (0, ()))


def test_events_before_a_range_are_not_acknowledged_by_it():
    bench = Bench()
    bench.publish(1)
    bench.publish(1)
    bench.did()
    assert beyond(bench, (1, 1)) == []
    sent_again, _ = bench.at(1.0)
    assert [message.packet.first for _, message in sent_again] == [0], "the logger has event 1"
    assert bench.ack(1)[0] == [Acked(S, 1, "logged")]


def test_range_of_an_earlier_life_does_not_count():
    bench = Bench()
    bench.publish(1)
    bench.publish(1)
    bench.did()
    beyond(bench, (1, 1))
    bench.sender.on_new_life("L")
    assert bench.ack(0)[0] == [Acked(S, 0, "logged")]


def test_each_logger_counts_once_whether_by_prefix_or_by_range():
    bench = Bench(loggers="LM", loggers_min=2)
    bench.publish(2)
    bench.ack(1, node="L")
    assert beyond(bench, (0, 1)) == [], "the same logger, once more"
    assert beyond(bench, (0, 1), node="M") == [Acked(S, 1, "logged")]


def test_overdue_names_the_loggers_that_lack_the_oldest_event():
    bench = Bench(loggers="LM", loggers_min=2)
    bench.publish(1)
    bench.ack(0, node="M")
    bench.ctx.now = 7.0
    assert bench.sender.oldest_s(7.0) == 7.0
    assert bench.sender.overdue(2.0) == (1, ("L",))
    assert bench.sender.overdue(0.0) == (0, ())
