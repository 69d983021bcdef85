"""A broker's back-pressure without sockets: how much room its subscriptions leave, and what publishers are told."""

import logging
import random
import time

import pytest

from gossamer.broker.back_pressure import LOOK_S, TELL_S, BackPressure, Publishers
from gossamer.broker.counters import Counters
from gossamer.broker.deliveries import Deliveries
from gossamer.broker.subscriber import Subscriber
from gossamer.messages.event import Content
from gossamer.messages.ids import SEQ_MAX
from gossamer.messages.packet import Packet, pack
from gossamer.messages.session import Allowance, Resend, Start, Subscribe, decode_from_broker
from gossamer.messages.wire import Position, Window
from gossamer.protocol.config import Group
from gossamer.protocol.inputs import Adopt, Forward
from machines import node, receive

GROUP = "orders"
STREAM = f"{GROUP}/~client-1.0"
MAX_S = 5.0


class Outlet:
    """A client that is sent everything there is credit for."""

    def __init__(self) -> None:
        self.open = True

    def deliver(self, _: bytes) -> None: ...


class Bench:
    """One broker's subscriptions, and a publisher."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.deliveries = Deliveries(counters=self.counters)
        groups = {GROUP: Group(backpressure=True, backpressure_max_s=MAX_S)}
        self.pressure = BackPressure(
            groups,
            self.deliveries.audiences,
            self.deliveries.subscribers,
            self.counters,
            lambda each: f"c/{each.sub}",
            self.deliveries.make_room,
        )
        self.room: int | None = None
        """As the node was last told, and less what came since."""
        self.by = ""
        self.now = 0.0
        self.following = 0
        self._subs = 0

    def subscribe(self, selector: str = "", *, credit: int = 0, start: Start | None = None, **options) -> Subscriber:  # type: ignore[no-untyped-def]
        self._subs += 1
        wanted = Subscribe(self._subs, selector, credit=credit, start=start, **options)
        subscriber = self.deliveries.add(Outlet(), GROUP, wanted)
        self.pressure.on_subscribed(subscriber, start, self.deliveries.progress)
        self.look()
        return subscriber

    def publish(self, count: int = 1, keys: int = 0, body: bytes = b"") -> Packet:
        contents = [
            Content(key=f"k{n % keys}" if keys else None, attributes={"n": n}, body=body)
            for n in range(self.following, self.following + count)
        ]
        packet = pack(STREAM, self.following, contents)
        self.following += count
        self.deliveries.on_packet(packet)
        self.pressure.on_packet(packet)
        if self.room is not None:
            self.room = max(0, self.room - count)
        self.look()
        return packet

    def take(self, subscriber: Subscriber, count: int = 1) -> None:
        """Its client has read so many."""
        self.deliveries.grant(subscriber, subscriber.granted + count)
        self.look()

    def close(self, subscriber: Subscriber) -> None:
        self.deliveries.remove(subscriber)
        self.pressure.on_unsubscribed(subscriber)
        self.look()

    def look(self, after_s: float = 0.0) -> None:
        self.now += after_s
        self.deliveries.flush()
        for room in self.pressure.rooms(self.now):
            assert room.group == GROUP
            self.room, self.by = room.events, room.by

    def settle(self) -> None:
        self.look(TELL_S)
        self.look(LOOK_S)


def test_without_subscriptions_there_is_no_limit() -> None:
    bench = Bench()
    bench.publish(10)
    assert bench.room is None


@pytest.mark.parametrize("keys", [0, 1_000], ids=["without keys", "with keys"])
def test_room_is_credit_and_buffer_less_what_waits(keys: int) -> None:
    bench = Bench()
    sub = bench.subscribe(buffer=8, credit=4, policy="none")
    assert (bench.room, bench.by) == (12, "c/1")
    bench.publish(4, keys)
    bench.settle()
    assert bench.room == 8, "its client has these"
    bench.publish(3, keys)
    bench.settle()
    assert bench.room == 5
    bench.publish(5, keys)
    assert bench.room == 0
    bench.take(sub, 3)
    bench.settle()
    assert bench.room == 3


def test_a_packet_that_is_too_large_is_kept_and_paid_back() -> None:
    bench = Bench()
    sub = bench.subscribe(buffer=8, credit=4, policy="none")
    bench.publish(20)
    bench.settle()
    assert bench.room == 0
    bench.take(sub, 8)
    bench.settle()
    assert bench.room == 0
    bench.take(sub, 8)
    bench.settle()
    assert bench.room == 8
    assert (sub.feed.delivered, sub.feed.obsoleted, sub.lost) == (20, 0, 0)


def test_a_quarter_of_the_buffer_is_told_at_once_and_less_after_a_moment() -> None:
    bench = Bench()
    sub = bench.subscribe(buffer=8, policy="none")
    bench.publish(8)
    assert bench.room == 0
    bench.take(sub, 1)
    assert bench.room == 0
    assert bench.pressure.next_deadline() <= bench.now + TELL_S
    bench.look(TELL_S)
    assert bench.room == 1
    bench.take(sub, 2)
    assert bench.room == 3


def test_the_slowest_subscription_counts_and_one_that_is_gone_does_not() -> None:
    bench = Bench()
    bench.subscribe(buffer=100)
    slow = bench.subscribe(buffer=8)
    assert (bench.room, bench.by) == (8, "c/2")
    bench.publish(8)
    assert bench.room == 0
    assert bench.pressure.is_blocking(slow)
    bench.close(slow)
    assert (bench.room, bench.by) == (92, "c/1")


def test_another_subscription_without_room_is_named_when_the_first_has_some() -> None:
    bench = Bench()
    first, _ = [bench.subscribe(buffer=8, policy="none") for _ in range(2)]
    bench.publish(8)
    assert (bench.room, bench.by) == (0, "c/1")
    bench.take(first, 8)
    assert (bench.room, bench.by) == (0, "c/2")


def test_events_that_do_not_match_take_no_room() -> None:
    bench = Bench()
    bench.subscribe("n < 4", buffer=8, policy="none")
    for _ in range(10):
        bench.publish(100)
    bench.settle()
    assert bench.room == 4


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_obsolete_events_take_no_room(policy: str) -> None:
    """Of two keys only the last events wait, though a lazy queue keeps the others until it is full."""
    bench = Bench()
    sub = bench.subscribe(buffer=8, policy=policy)
    for _ in range(20):
        bench.publish(1, keys=2)
    bench.settle()
    assert bench.room is not None
    assert bench.room > 0
    assert not sub.feed.behind
    assert sub.feed.obsoleted > 0


def test_a_subscription_that_throws_events_out_is_not_waited_for() -> None:
    bench = Bench()
    bench.subscribe(buffer=8, policy="random")
    bench.publish(20)
    assert bench.room is None


def test_a_subscription_that_reads_the_past_is_waited_for_once_it_is_live() -> None:
    bench = Bench()
    bench.deliveries.catching_up.has_loggers = lambda: True
    sub = bench.subscribe(buffer=8, start=Start(published_ns=1))
    bench.publish(20)
    assert bench.room is None
    bench.deliveries.catching_up.has_loggers = lambda: False  # they are gone: it has to go on with what comes
    list(bench.deliveries.catching_up.asks(bench.now))
    bench.take(sub, 20)
    bench.settle()
    assert bench.room == 8 + 20


def test_a_client_that_comes_back_is_waited_for_at_once_unless_it_is_far_behind() -> None:
    bench = Bench()
    bench.subscribe(buffer=1_000)
    bench.publish(20)
    sub = bench.subscribe(buffer=8, policy="none", start=Start({STREAM: 3}, since_ns=time.time_ns()))
    assert (bench.room, bench.by) == (0, "c/2")
    bench.take(sub, 16)
    bench.settle()
    assert bench.room == 8
    assert sub.feed.delivered == 16
    bench.close(sub)
    for _ in range(3):
        bench.publish(4_000, keys=2)
    bench.settle()
    room = bench.room
    bench.subscribe(buffer=8, policy="none", start=Start({STREAM: 19}, since_ns=time.time_ns()))
    assert (bench.room, bench.by) == (room, "c/1")


def test_large_events_fill_a_queue_by_their_bytes() -> None:
    bench = Bench()
    bench.subscribe(buffer=1_000, policy="none")
    for _ in range(8):
        bench.publish(1, body=bytes(2**20))
    bench.settle()
    assert bench.room is not None
    assert bench.room <= 8
    for _ in range(8):
        bench.publish(1, body=bytes(2**20))
    assert bench.room == 0


def test_a_subscription_that_takes_nothing_is_excused_once_and_counts_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    sub = bench.subscribe(buffer=8, policy="none")
    bench.publish(8)
    bench.look(MAX_S - 0.1)
    assert bench.room == 0
    assert bench.pressure.next_deadline() <= bench.now + 0.2
    with caplog.at_level(logging.INFO, "gossamer.back_pressure"):
        bench.look(0.1)
        assert bench.room is None
        assert not bench.pressure.is_blocking(sub)
        bench.publish(100)
        bench.look(MAX_S)
        assert bench.room is None
        bench.take(sub, 108)
        bench.settle()
    assert bench.room == 8
    assert [record.getMessage() for record in caplog.records] == [
        "publishers in orders no longer wait for subscription c/1: it has no room, and took nothing for 5 s",
        "publishers in orders wait for subscription c/1 again: it has caught up",
    ]
    assert bench.counters.subscriptions_excused == 1
    assert (sub.feed.delivered, sub.feed.obsoleted, sub.lost) == (108, 0, 0)


def test_a_reader_that_is_slow_and_steady_is_never_excused() -> None:
    bench = Bench()
    sub = bench.subscribe(buffer=8, policy="none")
    bench.publish(100)
    for _ in range(50):
        bench.look(MAX_S / 2)
        bench.take(sub)
    assert bench.counters.subscriptions_excused == 0
    assert bench.room == 0


@pytest.mark.parametrize("seed", range(20))
def test_publishers_that_keep_to_the_room_overrun_no_queue_by_more_than_a_packet(seed: int) -> None:
    """Random subscriptions, packets and readers: nothing is purged without keys, nothing is lost, and it goes on."""
    rng, bench = random.Random(seed), Bench()
    subs = [
        bench.subscribe(rng.choice(["", "n > 50"]), buffer=rng.choice((1, 4, 30)), credit=rng.choice((0, 5)),
                        policy=rng.choice(["none", "eager", "lazy"]))
        for _ in range(rng.randint(1, 4))
    ]  # fmt: skip
    keys = rng.choice((0, 0, 5))
    for _ in range(300):
        if rng.random() < 0.5 and bench.room:
            bench.publish(rng.randint(1, 6), keys)
        else:
            bench.take(rng.choice(subs), rng.randint(1, 4))
        bench.look(rng.choice((0.0, TELL_S / 2)))
        for sub in subs:
            owed = len(sub.feed) - sub.credit
            if sub.feed.behind:
                owed += bench.pressure._backlog(bench.deliveries.audiences[GROUP], sub)[0]
            assert owed < sub.buffer + 6
    for sub in subs:
        bench.take(sub, bench.following)
    bench.settle()
    assert bench.room
    assert all(not len(sub.feed) and not sub.lost and not sub.feed.lost for sub in subs)
    assert keys or all(not sub.feed.obsoleted for sub in subs)


# Publishers -----------------------------------------------------------------------------------------------------------


class Client:
    """A publisher's session, and what its broker told it."""

    def __init__(self) -> None:
        self.stream, self.told = STREAM, []

    def send(self, frame: bytes) -> None:
        self.told.append(decode_from_broker(frame))

    def heard(self) -> list:  # type: ignore[type-arg]
        told, self.told = self.told, []
        return told


def test_a_publisher_is_told_how_far_it_may_go_and_what_to_send_again() -> None:
    me, _ = node(brokers="b", groups={GROUP: Group(backpressure=True)}, window_events=4)
    counters, client = Counters(), Client()
    publishers = Publishers(me, counters)
    me.handle(Adopt(STREAM, 0), 0.0)
    packets = [pack(STREAM, first, [Content(), Content()]) for first in range(0, 10, 2)]
    for packet in packets[:3]:
        me.handle(Forward(packet), 0.0)
    assert publishers.hold(client)  # type: ignore[arg-type]
    assert client.heard() == [Allowance(3, "b")]
    assert publishers.hold(client), "the next packets of the flight"  # type: ignore[arg-type]
    assert client.heard() == []
    assert [(each, by) for each, _, by in publishers.waiting()] == [(client, "b")]
    receive(me, "b", Window((Position(STREAM, 5),), "slow/0"))
    publishers.release(client)  # type: ignore[arg-type]
    assert client.heard() == [Allowance(5, "slow/0 at b"), Resend(4)]
    me.handle(Forward(packets[2]), 0.0)
    assert [by for *_, by in publishers.waiting()] == ["slow/0 at b"]
    receive(me, "b", Window((Position(STREAM, 5),), "slower/0"))
    publishers.refresh()
    assert client.heard() == [Allowance(5, "slower/0 at b")]
    receive(me, "b", Window((Position(STREAM, 7),), "slow/0"))
    publishers.release(client)  # type: ignore[arg-type]
    assert client.heard() == [Allowance(7, "slow/0 at b")], "nothing was refused since"
    receive(me, "b", Window((Position(STREAM, SEQ_MAX),)))
    publishers.release(client)  # type: ignore[arg-type]
    assert client.heard() == [Allowance(SEQ_MAX, "")]
    assert list(publishers.waiting()) == []
    assert not publishers.hold(client), "a refusal for another reason is another's to look after"  # type: ignore[arg-type]


def test_a_publisher_that_has_left_is_forgotten() -> None:
    me, _ = node(brokers="b", groups={GROUP: Group(backpressure=True)}, window_events=1)
    publishers, client = Publishers(me, Counters()), Client()
    me.handle(Adopt(STREAM, 0), 0.0)
    for first in range(2):
        me.handle(Forward(pack(STREAM, first, [Content()])), 0.0)
    assert publishers.hold(client)  # type: ignore[arg-type]
    publishers.forget(client)  # type: ignore[arg-type]
    assert list(publishers.waiting()) == []
    assert me.windows.blocked == {}
