"""The logger role: on disk first, then everything else (rpbcast §3.2, §5.2, §6.2)."""

from itertools import pairwise

import pytest

from gossamer.lab.storage import Storage
from gossamer.messages.ids import named_stream
from gossamer.messages.wire import (
    PACKETS_MAX,
    Busy,
    CheckedOut,
    Checkout,
    Data,
    Gone,
    Page,
    Position,
    Positions,
    Read,
    Recover,
    Repair,
    Return,
    Span,
)
from gossamer.protocol.effects import Collect, Deliver, Load, Persist, Promise, Scan, Send, Stored, StoredStream, Void
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.inputs import Loaded, Persisted, Wake
from gossamer.protocol.logger import READS_MAX, LoggerRole
from gossamer.protocol.membership import Membership
from gossamer.protocol.placement import Placement
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.stability import Stability
from machines import S, T, context, node, packet, receive, sent

NAMED = named_stream("default", "trades")


class Bench:
    def __init__(self, stored=None, **config):
        config = {"retain_s": 0.0, "expire_s": 1000.0, **config}
        self.ctx = context("L", logger=True, **config)
        self.buffer = GossipBuffer(10**6)
        self.stability = Stability()
        self.retired = RetiredStreams()
        self.acknowledged = []
        self.logger = LoggerRole(
            self.ctx,
            self.buffer,
            self.stability,
            self.retired,
            Placement(self.ctx, Membership(self.ctx, (), False, None, None, None)),
            lambda origin, streams: self.acknowledged.extend((origin, name) for name in streams),
            stored,
        )

    def did(self):
        self.logger.flush()
        effects, self.ctx.effects = self.ctx.effects, []
        return effects

    def store(self, *packets, origin="a"):
        self.logger.store(packets, origin)
        return self.did()

    def stored(self, *packets):
        """These are on disk."""
        for persist in self.store(*packets):
            self.logger.on_persisted(persist.token)

    def recover(self, *spans, sender="c"):
        self.logger.on_recover(sender, spans)
        return self.did()

    def collect(self, now):
        self.ctx.now = now
        self.logger.collect()
        return self.did()


def span(first, last, stream=S):
    return Span(stream, ((first, last),))


# Storing -------------------------------------------------------------------------------------------------------------


def test_nothing_is_acknowledged_before_it_is_on_disk():
    bench = Bench()
    (persist,) = bench.store(packet(0, 2))
    assert persist == Persist(1, (packet(0, 2),))
    assert bench.acknowledged == []
    assert bench.logger.prefix(S) == -1
    assert bench.logger.on_persisted(1) == [S]
    assert bench.acknowledged == [("a", S)]
    assert bench.logger.prefix(S) == 2


def test_one_input_is_one_write():
    bench = Bench()
    bench.logger.store([packet(0), packet(1)], "a")
    bench.logger.save(Void(Span(T, ((0, 3),))), lambda: None)
    assert bench.did() == [Persist(1, (packet(0), packet(1), Void(span(0, 3, T))))]
    assert bench.did() == []


def test_a_token_counts_once_and_a_strange_one_not_at_all():
    bench = Bench()
    bench.store(packet(0))
    bench.logger.on_persisted(1)
    assert bench.logger.on_persisted(1) == []
    assert bench.logger.on_persisted(99) == []
    assert bench.acknowledged == [("a", S)]


def test_what_lies_beyond_a_hole_is_on_disk_but_not_acknowledged():
    bench = Bench()
    bench.stored(packet(0))
    bench.stored(packet(2))
    assert bench.logger.prefix(S) == 0
    bench.stored(packet(1))
    assert bench.logger.prefix(S) == 2


def test_what_is_void_is_told_once_that_is_on_disk():
    bench = Bench()
    told = []
    bench.logger.save(Void(Span(S, ((0, 3),))), lambda: told.append("void"))
    (persist,) = bench.did()
    assert (told, bench.logger.prefix(S)) == ([], -1)
    bench.logger.on_persisted(persist.token)
    assert (told, bench.logger.prefix(S)) == (["void"], 3)


def test_a_packet_that_comes_again_is_not_stored_again_but_acknowledged_again():
    me, _ = node("L", brokers="a", logger=True)
    (persist,) = [e for e in receive(me, "a", Data("a", packet(0))) if isinstance(e, Persist)]
    assert receive(me, "a", Data("a", packet(0))) == [], "not yet: it is on its way to the disk"
    (first,) = sent(me.handle(Persisted(persist.token), 0.0), Positions)
    (again,) = sent(receive(me, "a", Data("a", packet(0))))
    for to, message in (first, again):
        assert (to, message.vector) == (("a",), (Position(S, 0),))


def test_logger_that_lacks_events_acknowledges_the_ranges_on_its_disk():
    me, _ = node("L", brokers="a", logger=True)
    (persist,) = [e for e in receive(me, "a", Data("a", packet(3, 4))) if isinstance(e, Persist)]
    me.handle(Persisted(persist.token), 0.0)
    ((to, again),) = sent(receive(me, "a", Data("a", packet(3, 4))), Positions)
    assert (to, again.vector, again.beyond) == (("a",), (Position(S, -1),), (Span(S, ((3, 4),)),))
    (persist,) = [e for e in receive(me, "a", Data("a", packet(0, 2))) if isinstance(e, Persist)]
    ((_, whole),) = sent(me.handle(Persisted(persist.token), 0.0), Positions)
    assert (whole.vector, whole.beyond) == ((Position(S, 4),), ())


def test_ranges_behind_a_gap_are_told_to_every_member():
    """An acknowledged event must become known to all, even if its publisher dies."""
    me, _ = node("L", brokers="ab", logger=True)
    (persist,) = [e for e in receive(me, "a", Data("a", packet(3))) if isinstance(e, Persist)]
    me.handle(Persisted(persist.token), 0.0)
    told = [each for at in range(1, 20) for each in sent(me.handle(Wake(), float(at)), Positions)]
    assert {name for to, message in told for name in to if message.beyond} >= {"b"}


def test_restarted_logger_knows_at_once_of_events_on_its_disk_behind_a_gap():
    stored = Stored(streams={S: StoredStream(((0, 1), (4, 6)))})
    me, _ = node("L", brokers="a", logger=True, stored=stored)
    assert me.receiver.streams[S].lastseen == 6
    assert me.position(S) == 1


def test_range_behind_a_gap_makes_nothing_stable():
    me, _ = node("L", brokers="a", loggers="M", logger=True)
    root = me.membership.table.root
    receive(me, "M", Positions(1, 0, 0, root, (Position(S, 1),), (Span(S, ((4, 6),)),)))
    assert me.stability.position("M", S) == 1
    assert me.receiver.streams[S].lastseen == 6


def test_logger_counts_the_events_it_lacks():
    me, _ = node("L", brokers="a", logger=True)
    receive(me, "a", Data("a", packet(3)))
    assert me.lacking() == {}, "a gap that may close by itself"
    for at in range(1, 40):
        me.handle(Wake(), float(at))
    assert me.lacking() == {S: 3}


def test_live_traffic_does_not_wait_for_the_disk():
    me, _ = node("L", brokers="a", logger=True)
    effects = receive(me, "a", Data("a", packet(0)))
    assert [type(effect) for effect in effects] == [Deliver, Persist]


# Starting ------------------------------------------------------------------------------------------------------------


def test_a_logger_takes_up_what_is_on_its_disk():
    found = StoredStream(((3, 5), (8, 9)), ((6, 6),), 2, None)
    bench = Bench(stored=Stored({S: found}))
    assert bench.logger.start() == [(S, 6)], "3 to 5 are stored, 6 is void, 7 is lacking"
    (load,) = bench.did()
    assert load.spans == (span(8, 9),), "what lies beyond the hole is read again"
    assert bench.logger.on_loaded(load.token, (packet(8, 9),)) == (packet(8, 9),)


def test_a_restarted_logger_delivers_nothing_it_had_acknowledged():
    me, effects = node("L", logger=True, stored=Stored({S: StoredStream(((0, 3), (5, 5)))}))
    (load,) = [effect for effect in effects if isinstance(effect, Load)]
    effects = me.handle(Loaded(load.token, (packet(5),)), 0.0)
    assert not [effect for effect in effects if isinstance(effect, Deliver)]
    assert [e.packet for e in receive(me, "a", Data("a", packet(4))) if isinstance(e, Deliver)] == [
        packet(4),
        packet(5),
    ]


# Answering -----------------------------------------------------------------------------------------------------------


def test_what_is_at_hand_is_sent_and_the_rest_is_read():
    bench = Bench()
    bench.stored(packet(0, 1), packet(2, 3))
    bench.buffer.add(packet(2, 3), 0)
    assert bench.recover(span(1, 2)) == [
        Send(("c",), Repair((packet(2, 3).cut(2, 2),))),
        Load(2, (span(1, 1),)),
    ]
    bench.logger.on_loaded(2, (packet(0, 1).cut(1, 1),))
    assert bench.did() == [Send(("c",), Repair((packet(0, 1).cut(1, 1),)))]


def test_about_what_may_still_come_it_is_silent():
    bench = Bench()
    assert bench.recover(span(0, 3)) == []
    bench.stored(packet(0))
    bench.store(packet(1))
    bench.buffer.add(packet(1), 0)
    assert bench.recover(span(1, 3)) == [], "not even what is on its way to the disk"


def test_only_what_was_collected_is_gone_and_what_is_void_is_told_as_such():
    bench = Bench()
    bench.stored(packet(0, 2), packet(4, 5))
    bench.logger.save(Void(Span(S, ((3, 3),))), lambda: None)
    bench.logger.on_persisted(bench.did()[0].token)
    assert bench.collect(1.0) == [Collect(S, 5)]
    assert bench.recover(span(1, 9)) == [
        Send(("c",), Gone((Span(S, ((1, 2), (4, 5))),), False)),
        Send(("c",), Gone((span(3, 3),), True)),
    ]


def test_void_numbers_are_told_as_void_after_collection_and_a_restart():
    storage = Storage()
    storage.apply([packet(0, 2), Void(span(3, 9_999)), packet(10_000, 10_001)])
    storage.collect(S, 10_001)
    bench = Bench(storage.stored())
    bench.logger.start()
    assert bench.recover(span(1, 10_005)) == [
        Send(("c",), Gone((Span(S, ((1, 2), (10_000, 10_001))),), False)),
        Send(("c",), Gone((span(3, 9_999),), True)),
    ]


def test_what_every_other_logger_has_collected_is_gone_here_too():
    bench = Bench()
    assert bench.logger.give_up(S, 0, 4)
    assert bench.logger.prefix(S) == 4
    assert bench.recover(span(2, 6)) == [Send(("c",), Gone((span(2, 4),), False))]


def test_one_answer_is_bounded_in_bytes():
    big = [packet(seq, body=bytes(400)) for seq in range(10)]
    bench = Bench(repair_bytes_max=1000)
    bench.stored(*big)
    for each in big:
        bench.buffer.add(each, 0)
    ((_, repair),) = sent(bench.recover(span(0, 9)))
    assert [each.first for each in repair.packets] == [0, 1, 2]


def test_one_answer_is_bounded_in_packets():
    """A message takes no more; a longer one would be refused by its receiver, each time anew."""
    small = [packet(seq) for seq in range(PACKETS_MAX + 10)]
    bench = Bench(service_limit_per_s=10**6)
    bench.stored(*small)
    (load,) = bench.recover(span(0, PACKETS_MAX + 9))
    bench.logger.on_loaded(load.token, tuple(small))
    ((_, repair),) = sent(bench.did())
    assert len(repair.packets) == PACKETS_MAX


def test_over_its_limit_it_says_so_instead_of_answering():
    bench = Bench(service_limit_per_s=40.0)
    bench.stored(*(packet(seq) for seq in range(30)))
    for seq in range(30):
        bench.buffer.add(packet(seq), 0)
    kinds = [type(sent(bench.recover(span(seq, seq)))[0][1]) for seq in range(15)]
    assert kinds == [Repair] * 10 + [Busy] * 5, "a quarter of a second's answers at once"
    bench.ctx.now += 0.1
    kinds = [type(sent(bench.recover(span(seq, seq)))[0][1]) for seq in range(6)]
    assert kinds == [Repair] * 4 + [Busy] * 2, "and forty a second"


def test_a_request_that_cannot_be_answered_costs_nothing():
    bench = Bench(service_limit_per_s=40.0)
    bench.stored(packet(0))
    bench.buffer.add(packet(0), 0)
    for _ in range(1000):
        assert bench.recover(span(1, 9)) == []
    assert sent(bench.recover(span(0, 0)))[0][1] == Repair((packet(0),))


def test_a_node_that_is_no_logger_does_not_recover():
    me, _ = node()
    assert receive(me, "a", Recover((span(0, 3),))) == []


# Being read ----------------------------------------------------------------------------------------------------------


def read(number, *lacks):
    return Read(number, "default", ("",), lacks=lacks)


def page(scan):
    return Page(scan.read.number, 1, True)


def test_brokers_that_read_take_turns():
    bench = Bench()
    for number in range(3):
        bench.logger.on_read("b", read(number))
    bench.logger.on_read("c", read(7))
    answered = []
    (scan,) = bench.did()
    for _ in range(4):
        assert isinstance(scan, Scan)
        bench.logger.on_scanned(scan.token, page(scan))
        (answer, *more) = bench.did()
        answered.append((answer.to, answer.message.number))
        scan = more[0] if more else None
    assert answered == [(("b",), 0), (("b",), 1), (("c",), 7), (("b",), 2)], (
        "one at a time, and nobody waits for all of b's"
    )
    assert scan is None


def test_one_that_asks_without_end_is_not_answered_without_end():
    bench = Bench()
    for number in range(3 * READS_MAX):
        bench.logger.on_read("b", read(number))
    count, (scan, *_) = 0, bench.did()
    while scan is not None:
        bench.logger.on_scanned(scan.token, page(scan))
        count, (_, *more) = count + 1, bench.did()
        scan = more[0] if more else None
    assert count == READS_MAX + 1


def test_who_reads_is_told_what_it_need_not_wait_for():
    bench = Bench(Stored({S: StoredStream(((4, 6), (9, 9)), ((7, 7),), 2)}))
    bench.logger.start()
    bench.did()
    bench.logger.on_read("b", read(0, span(0, 9), span(0, 3, T)))
    (scan,) = bench.did()
    assert scan.lacks == (Span(S, ((4, 6), (9, 9))),), "of what is on disk the disk knows whether it has been passed"
    bench.logger.on_scanned(scan.token, Page(0, 5, True, passed=(span(4, 6),)))
    (answer,) = bench.did()
    assert answer.message == Page(0, 5, True, passed=(span(4, 6),), void=(span(7, 7),), gone=(span(0, 2),))


# Collecting ----------------------------------------------------------------------------------------------------------


def test_what_is_stable_is_collected():
    bench = Bench()
    bench.stability.wait_for("a")
    bench.stored(packet(0, 1), packet(2, 3))
    assert bench.collect(1.0) == []
    bench.stability.acknowledge("a", (Position(S, 2),))
    assert bench.collect(2.0) == [Collect(S, 2)]
    assert bench.collect(3.0) == []
    bench.stability.acknowledge("a", (Position(S, 3),))
    assert bench.collect(4.0) == [Collect(S, 3)]


def test_what_is_stable_is_retained_for_a_while():
    bench = Bench(retain_s=10.0)
    bench.stored(packet(0))
    bench.ctx.now = 5.0
    bench.stored(packet(1))
    assert bench.collect(9.9) == []
    assert bench.collect(10.0) == [Collect(S, 0)]
    assert bench.collect(14.9) == []
    assert bench.collect(15.0) == [Collect(S, 1)]


def test_what_has_expired_is_collected_whoever_lacks_it():
    bench = Bench(retain_s=10.0, expire_s=20.0)
    bench.stability.wait_for("a")
    bench.stored(packet(0))
    assert bench.collect(19.9) == []
    assert bench.collect(20.0) == [Collect(S, 0)]


def test_what_lies_beyond_a_hole_is_not_collected():
    bench = Bench()
    bench.stored(packet(0))
    bench.stored(packet(2))
    assert bench.collect(1.0) == [Collect(S, 0)]
    bench.buffer.add(packet(2), 0)
    assert sent(bench.recover(span(2, 2)))[0][1] == Repair((packet(2),))


def test_a_new_member_is_waited_for_in_all_that_is_kept():
    bench = Bench(retain_s=10.0)
    bench.stored(packet(0))
    bench.stability.wait_for("new")
    assert bench.collect(10.0) == []


def test_a_retired_stream_is_stable():
    """Everyone had it in full, and the acknowledgements that said so are forgotten with it."""
    bench = Bench(retain_s=10.0)
    bench.stability.wait_for("a")
    bench.stored(packet(0, 3))
    bench.stability.acknowledge("a", (Position(S, 3),))
    retire(bench)
    assert bench.collect(9.9) == []
    assert bench.collect(10.0) == [Collect(S, 3)]
    assert S not in bench.logger.logs


def test_of_a_stream_retired_after_it_was_collected_nothing_is_kept():
    bench = Bench()
    bench.stored(packet(0, 3))
    bench.collect(1.0)
    retire(bench)
    assert bench.logger.logs == {}


def test_who_asks_for_a_retired_stream_is_told_that_it_is_gone():
    """A member that was expelled, and returns: silence would keep it asking for ever."""
    bench = Bench()
    bench.stored(packet(0, 3))
    bench.collect(1.0)
    retire(bench)
    assert bench.recover(span(1, 3)) == [Send(("c",), Gone((span(1, 3),), False))]


def retire(bench, stream=S):
    bench.retired.add(stream)
    bench.stability.retire(stream)
    bench.logger.retire(stream)


# Promises ------------------------------------------------------------------------------------------------------------


def checkout(bench, epoch, first, last, node="a"):
    """What is answered, a grant once it is written."""
    bench.logger.on_checkout(node, Checkout(NAMED, epoch, first, last, f"{node}-1"))
    bench.logger.flush()
    effects = bench.did()
    for persist in [effect for effect in effects if isinstance(effect, Persist)]:
        assert sent(effects) == [], "nothing is promised before it is on disk"
        (promise,) = persist.records
        assert (promise.epoch, promise.holder, promise.last) == (epoch, f"{node}-1", last)
        bench.logger.on_persisted(persist.token)
        effects = bench.did()
    ((to, answer),) = sent(effects)
    assert to == (node,)
    return answer


def granted(*asked, **by):
    return checkout(*asked, **by).granted


def test_a_promise_is_written_before_it_is_given():
    assert checkout(Bench(), 1, 0, 9) == CheckedOut(NAMED, 1, 9, True, 1, 9, "a-1", 0)


def test_reading_promises_nothing():
    bench = Bench()
    assert checkout(bench, 0, -1, -1) == CheckedOut(NAMED, 0, -1, False, 0, -1)
    checkout(bench, 1, 0, 9)
    assert checkout(bench, 0, -1, -1, node="b") == CheckedOut(NAMED, 0, -1, False, 1, 9, "a-1", 0)
    assert granted(bench, 1, 10, 19), "the holder goes on"


def test_no_number_is_promised_to_two():
    bench = Bench()
    assert granted(bench, 1, 0, 9, node="a")
    assert not granted(bench, 1, 0, 9, node="b")
    assert not granted(bench, 2, 0, 9, node="b"), "nor to a higher epoch"
    assert not granted(bench, 1, 10, 19, node="b"), "nor is an epoch shared"
    assert granted(bench, 2, 10, 19, node="b")
    assert not granted(bench, 1, 20, 29, node="a"), "whoever was taken over gets no more"


def test_a_grant_that_was_lost_is_given_again():
    bench = Bench()
    assert granted(bench, 1, 0, 9)
    assert granted(bench, 1, 0, 9)


def test_a_promise_survives_a_restart():
    bench = Bench(stored=Stored({NAMED: StoredStream(promise=Promise(NAMED, 3, "a-1", 29, 20))}))
    assert checkout(bench, 2, 30, 39, node="b") == CheckedOut(NAMED, 2, 39, False, 3, 29, "a-1", 20)


def test_an_epoch_keeps_its_floor():
    bench = Bench()
    checkout(bench, 1, 0, 9)
    checkout(bench, 2, 10, 19, node="b")
    assert checkout(bench, 2, 20, 29, node="b").floor == 10


def test_what_a_holder_gives_back_is_the_next_ones_and_nobody_elses_is_given_back():
    bench = Bench()
    checkout(bench, 1, 0, 9)
    for returned in (Return(NAMED, 1, "b-1", 3), Return(NAMED, 2, "a-1", 3), Return(NAMED, 1, "a-1", 12)):
        bench.logger.on_return(returned)
    assert checkout(bench, 0, -1, -1).promised_last == 9
    bench.logger.on_return(Return(NAMED, 1, "a-1", 3))
    bench.logger.flush()
    bench.did()
    assert checkout(bench, 2, 4, 13, node="b").floor == 4


def test_ages_are_kept_in_steps_and_not_for_every_packet():
    bench = Bench(retain_s=256.0)
    for number in range(100):
        bench.logger.log(S).committed.add(number, number)
        bench.logger.log(S).advance(number * 0.1, 1.0)
    ages = bench.logger.log(S).logged_at
    assert len(ages) <= 11
    assert ages[-1][1] == 99


# Gone, by all --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("void", [False, True])
def test_collected_takes_the_word_of_every_logger_and_void_that_of_one(void):
    me, _ = node(brokers="a", loggers="KL", repair_first="logger")
    receive(me, "a", Data("a", packet(1)))
    gone = Gone((span(0, 0),), void)
    assert receive(me, "a", gone) == [], "a peer may not say so"
    first = receive(me, "K", gone)
    if void:
        assert [effect.reason for effect in first[:1]] == ["void"]
    else:
        assert first == []
        assert receive(me, "K", gone) == [], "twice the same logger is one"
        assert [effect.reason for effect in receive(me, "L", gone)[:1]] == ["collected"]


# A crowd -------------------------------------------------------------------------------------------------------------


def test_one_who_asks_for_much_does_not_keep_others_from_being_answered():
    bench = Bench(service_limit_per_s=80.0)
    bench.stored(*(packet(seq) for seq in range(100)))
    for seq in range(100):
        bench.buffer.add(packet(seq), 0)

    def answered(sender, seq):
        return any(isinstance(effect.message, Repair) for effect in bench.recover(span(seq, seq), sender=sender))

    served = {"greedy": 0, "modest": 0}
    for step in range(40):
        bench.ctx.now = step * 0.05
        for seq in range(10):
            served["greedy"] += answered("greedy", seq)
        served["modest"] += answered("modest", step)
    assert served["modest"] >= 30
    assert served["greedy"] >= 60, "and what is left is its"


@pytest.mark.parametrize("period_s", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("ranges", [1, 3, 10])
def test_whoever_keeps_asking_is_answered_though_others_ask_whenever_there_is_a_token(ranges, period_s):
    """Eight that ask five times a second, for more than there are answers, and one that asks in between."""
    bench = Bench(service_limit_per_s=20.0)
    bench.stored(*(packet(seq) for seq in range(20)))
    for seq in range(20):
        bench.buffer.add(packet(seq), 0)
    much = Span(S, tuple((2 * number, 2 * number) for number in range(ranges)))
    asked = [(0.2 * turn + 0.025 * number, f"b{number}") for turn in range(200) for number in range(8)]
    asked += [(period_s * turn + 0.01, "late") for turn in range(int(40 / period_s))]
    answered: dict[str, list[float]] = {}
    for bench.ctx.now, sender in sorted(asked):
        effects = bench.recover(span(0, 0) if sender == "late" else much, sender=sender)
        if any(isinstance(message, Repair) for _, message in sent(effects)):
            answered.setdefault(sender, []).append(bench.ctx.now)
    assert len(answered) == 9
    for times in answered.values():
        waits = [later - earlier for earlier, later in pairwise([0.0, *times, 40.0])]
        assert max(waits) < 8 * ranges / 20 + 2 * period_s + 1.0, "no longer than it takes to answer everyone once"
    spent = ranges * sum(map(len, answered.values())) - (ranges - 1) * len(answered["late"])
    assert spent <= 20 * 40 + 20 + 20, "and the limit is kept, but for the answers of a second on credit"


def test_reads_for_repairs_are_few_at_a_time_and_one_for_each_who_asks():
    bench = Bench(service_limit_per_s=10**6)
    bench.stored(*(packet(seq) for seq in range(100)))
    asked = [bench.recover(span(0, 50), sender=f"c{number % 20}") for number in range(40)]
    loads = [effect for effects in asked for effect in effects if isinstance(effect, Load)]
    busy = [effect for effects in asked for effect in effects if isinstance(effect, Send) and effect.message == Busy()]
    assert (len(loads), len(busy)) == (8, 32)
    bench.logger.on_loaded(loads[0].token, (packet(0),))
    assert any(isinstance(effect, Load) for effect in bench.recover(span(0, 50), sender="c30"))


# Too much ------------------------------------------------------------------------------------------------------------


def full(*streams, **config):
    """A logger with ten packets of 100 bytes and more of each stream, one a second and in turn."""
    bench = Bench(retain_s=100.0, expire_s=2_000.0, **config)
    for second in range(10):
        for stream in streams:
            bench.ctx.now = float(second)
            bench.stored(packet(second, stream=stream, body=b"x" * 100))
    return bench


def collected(bench):
    bench.did()
    return {effect.stream: effect.last for effect in bench.collect(bench.ctx.now) if isinstance(effect, Collect)}


def test_what_is_too_much_goes_oldest_first_and_what_everyone_has_before_the_rest():
    bench = full(S, T, log_bytes_max=1_000)
    assert 2_000 < bench.logger.bytes < 3_000
    bench.stability.wait_for("b")
    bench.stability.acknowledge("b", (Position(S, 3), Position(T, 6)))
    found = collected(bench)
    assert bench.logger.bytes <= 1_000
    assert bench.ctx.tally.collected["shed"] == 11, "all that b has"
    assert bench.ctx.tally.collected["shed unseen"] > 0
    assert found[S] > 3


def test_what_is_stable_is_enough_if_it_is():
    bench = full(S, T, log_bytes_max=2_000)
    bench.stability.wait_for("b")
    bench.stability.acknowledge("b", (Position(T, 9),))
    found = collected(bench)
    assert list(found) == [T]
    assert bench.ctx.tally.collected["shed unseen"] == 0
    assert bench.logger.bytes <= 2_000


def test_what_is_on_disk_at_the_start_counts():
    stored = Stored({S: StoredStream(stored=((0, 9),))})
    bench = Bench(stored=stored, retain_s=1_000.0, expire_s=2_000.0, log_bytes_max=500)
    bench.logger.start()
    bench.logger.bytes += 1_000
    assert collected(bench) == {S: 9}, "it was logged in one step of time, as far as is known"
    assert bench.logger.bytes == 0


def test_what_expires_unseen_is_counted_as_that():
    bench = Bench(retain_s=1.0, expire_s=5.0)
    bench.stored(packet(0, 9))
    bench.stability.wait_for("b")
    bench.stability.acknowledge("b", (Position(S, 3),))
    bench.ctx.now = 2.0
    assert collected(bench) == {S: 3}
    bench.ctx.now = 10.0
    assert collected(bench) == {S: 9}
    assert bench.ctx.tally.collected == {"stable": 4, "expired": 6}


def test_ages_count_from_when_it_was_logged_also_across_restarts():
    stored = Stored({S: StoredStream(((0, 9),))}, ages={S: ((100.0, 4), (10.0, 9))})
    bench = Bench(stored, retain_s=50.0)
    bench.ctx.now = 5.0
    bench.logger.start()
    assert Collect(S, 4) in bench.collect(6.0), "that was logged a hundred seconds ago"
    assert Collect(S, 9) not in bench.collect(44.0)
    assert Collect(S, 9) in bench.collect(46.0)
