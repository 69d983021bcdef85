"""What a client may ask for, and what becomes of rubbish: told to the one at fault, counted, nobody else's matter.

The clients here are bare sockets, since the SDK would not say such things.
"""

import asyncio
import random
import socket
import struct
import time

import pytest

import gossamer
from gossamer.broker import door as doors
from gossamer.broker.addresses import split
from gossamer.broker.serving import broker as make_broker
from gossamer.broker.session import ClientLimits
from gossamer.messages.event import Content
from gossamer.messages.packet import Hole, Packet, pack
from gossamer.messages.session import (
    FRAME_BYTES_MAX,
    Acks,
    Hello,
    Refusal,
    Single,
    Start,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
    encode,
)
from gossamer.messages.wire import Data, Member
from gossamer.messages.zmtp import GREETING
from gossamer.protocol.config import Config
from gossamer.protocol.inputs import Received
from processes import BRISK, until
from raw import Raw


@pytest.fixture
def start():
    started = []

    def broker(*peers: str, **limits):
        runtime = make_broker(limits=ClientLimits(**limits), config=Config(**BRISK), peers=peers)
        started.append(runtime.start())
        until(lambda: runtime.status == "member")
        return runtime

    yield broker
    for runtime in started:
        runtime.kill()
        assert runtime.failure is None


def serves(runtime) -> None:
    """Others notice nothing."""

    async def main():
        async with asyncio.timeout(15), gossamer.connect(runtime.clients.address) as client:
            sub = await client.subscribe("n = 1")
            await client.publish({"n": 1}, ack="sent")
            assert (await anext(sub)).attributes == {"n": 1}

    asyncio.run(main())


def event(stream: str, first: int = 0) -> Packet:
    return pack(stream, first, [Content(attributes={"n": first})])


# Limits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "asked", "reason"),
    [
        ({"selector_length_max": 10}, Subscribe(1, "price > 100.5", 8), "at most 10 characters, not 13"),
        ({"buffer_events_max": 10}, Subscribe(1, "", 8, buffer=11), "at most 10 events, not 11"),
    ],
)
def test_a_subscription_that_is_too_much_is_refused_and_the_session_goes_on(start, limits, asked, reason):
    runtime = start(**limits)
    with Raw(runtime.clients.address) as raw:
        raw.enter().say(asked)
        refusal = raw.hear(Refusal)
        assert (refusal.code, refusal.sub, reason in refusal.reason) == ("limit", 1, True)
        raw.publish(event(raw.stream))
        while raw.hear(Acks).sent != 0:  # the first may say that nothing has come yet
            pass
    assert runtime.counters.refusals == {"limit": 1}


def test_one_subscription_too_many_is_refused(start):
    runtime = start(subscriptions_max=1)
    with Raw(runtime.clients.address) as raw:
        raw.enter().say(Subscribe(1, "", 8))
        raw.say(Subscribe(2, "", 8))
        raw.say(Subscribe(1, "n = 1", 8))
        assert raw.hear(Subscribed).sub == 1
        refusal = raw.hear(Refusal)
        assert (refusal.code, refusal.sub, "at most 1 subscription" in refusal.reason) == ("limit", 2, True)
        assert raw.hear(Subscribed).sub == 1, "one that is there may be changed"


def test_those_that_are_being_attached_count_as_well(start):
    runtime = start(subscriptions_max=2)
    runtime.ask(lambda: runtime.node.membership.merge(Member("L", "member", 1, logger=True)))  # it is never there
    with Raw(runtime.clients.address) as raw:
        raw.enter()
        for sub in range(5):  # nobody answers, so that none of them begins
            raw.say(Subscribe(sub, "", 8, durable=f"d{sub}", holder=1))
        refused = [raw.hear(Refusal) for _ in range(3)]
        assert [(each.code, each.sub) for each in refused] == [("limit", 2), ("limit", 3), ("limit", 4)]


class Unordered:
    """An order that there is none of yet."""

    is_there = False
    full = False

    def ready(self, _: str) -> bool:
        return self.is_there


def test_those_that_wait_for_an_order_count_as_well(start):
    runtime = start(subscriptions_max=3)
    sessions, order = runtime.clients, Unordered()
    with Raw(sessions.address) as raw, Raw(sessions.address, "another") as another:
        raw.enter().say(Subscribe(0, "", 8))
        raw.hear(Subscribed)
        another.enter()
        runtime.ask(lambda: setattr(sessions, "order", order))
        for sub in range(1, 5):
            raw.say(Subscribe(sub, "", 8))
        refused = [raw.hear(Refusal) for _ in range(2)]
        assert [(each.code, each.sub) for each in refused] == [("limit", 3), ("limit", 4)]
        another.say(Subscribe(1, "", 8))
        until(lambda: runtime.ask(lambda: len(sessions._parked)) == 3)
        another.say(Hello("another", 2, "default"))  # and has none any more
        another.hear(Welcome)
        raw.say(Unsubscribe(2))  # which does not begin, and makes room for another
        raw.say(Subscribe(6, "", 8))
        until(lambda: runtime.ask(lambda: [message.sub for _, message in sessions._parked]) == [1, 6])
        order.is_there = True
        assert [raw.hear(Subscribed).sub for _ in range(2)] == [1, 6]
        raw.say(Subscribe(5, "", 8))
        assert raw.hear(Refusal).sub == 5
        assert runtime.ask(lambda: (sessions._parked, sessions.figures()["subscriptions"])) == ([], 3)


def test_one_session_too_many_is_refused(start):
    runtime = start(sessions_max=1)
    with Raw(runtime.clients.address, "one") as one, Raw(runtime.clients.address, "other") as other:
        one.enter()
        other.say(Hello("other", 1, "default"))
        refusal = other.hear(Refusal)
        assert (refusal.code, refusal.sub, "takes no more" in refusal.reason) == ("limit", None, True)
        one.publish(event(one.stream))
        until(lambda: runtime.counters.events_published == 1)


def test_a_message_that_is_too_large_is_refused_and_ends_the_session(start):
    runtime = start(message_bytes_max=10_000)
    with Raw(runtime.clients.address) as raw:
        raw.enter().send(bytes(10_001))
        refusal = raw.hear(Refusal)
        assert (refusal.code, "at most 10000 bytes, not 10001" in refusal.reason) == ("limit", True)
        raw.publish(event(raw.stream))
        assert raw.hear(Refusal).code == "closed"
    serves(runtime)


def test_a_message_that_is_far_too_large_is_not_even_read(start):
    runtime = start(message_bytes_max=10_000)
    with Raw(runtime.clients.address) as raw:
        raw.enter().send(bytes(10 * FRAME_BYTES_MAX))
        serves(runtime)


# Packets that would make trouble further on ---------------------------------------------------------------------------


def spoilt(stream: str) -> dict[str, Packet]:
    good = pack(stream, 0, [Content(attributes={"n": n}, body=b"x" * 20) for n in range(2)])
    sizes = struct.unpack("<2I", good.sizes)
    moved = struct.pack("<2I", sizes[0] - 3, sizes[1] + 3)
    return {
        "no events at all": Packet(stream, 0, struct.pack("<I", 8), b"\xc1" * 8),
        "an attribute of no known kind": Packet(
            stream, 0, struct.pack("<I", 13), bytes.fromhex("97c0c0c000c281a16e80c400")[:13].ljust(13, b"\0")
        ),
        "a table that cuts through an event": Packet(stream, 0, moved, good.blob),
        "one event too few": Packet(stream, 0, struct.pack("<I", len(good.blob)), good.blob),
        "a hole": Packet(stream, 0, struct.pack("<2I", 0, sizes[1]), good.blob[sizes[0] :], (Hole(0, 0, 1),)),
    }


@pytest.mark.parametrize("what", list(spoilt("default/~x.0")))
def test_a_packet_that_does_not_decode_goes_no_further_than_its_broker(start, what):
    runtime = start()
    other = start(runtime.address)
    with Raw(runtime.clients.address) as raw:
        raw.enter().publish(spoilt(raw.stream)[what])
        assert raw.hear(Refusal).code == "usage"
    assert runtime.counters.refusals == {"usage": 1}
    serves(runtime)
    serves(other)
    assert other.counters.events_delivered == 2


def test_a_packet_of_another_stream_is_dropped(start):
    runtime = start()
    with Raw(runtime.clients.address) as raw:
        raw.enter().publish(event("default/~somebody-1.0"))
        until(lambda: runtime.counters.client_errors == 1)
        raw.say(Subscribe(1, "", 8))
        raw.hear(Subscribed)


def test_a_packet_that_is_sent_again_is_answered_again(start):
    """Its client counts what is under way, and would wait for ever."""
    runtime = start()
    with Raw(runtime.clients.address) as raw:
        raw.enter().publish(event(raw.stream))
        while raw.hear(Acks).safe != 0:  # after that nothing is left to be said of it
            pass
        for _ in range(2):
            raw.publish(event(raw.stream))
            assert raw.hear(Acks).sent == 0


def test_nobody_has_a_name_to_publish_by_in_the_group_of_telemetry(start):
    runtime = start()
    with Raw(runtime.clients.address) as raw:
        raw.say(Hello("raw", 1, "$sys", publisher="feed", holder="me"))
        assert raw.hear(Refusal).code == "authorization"


def test_nobody_publishes_in_the_group_of_telemetry(start):
    runtime = start()
    with Raw(runtime.clients.address, group="$sys") as raw:
        raw.enter().publish(event(raw.stream))
        refusal = raw.hear(Refusal)
        assert (refusal.code, "telemetry" in refusal.reason) == ("authorization", True)
    assert runtime.counters.telemetry_events == 0


# Rubbish --------------------------------------------------------------------------------------------------------------


def test_a_session_survives_rubbish(start):
    runtime = start()
    rng = random.Random(7)
    with Raw(runtime.clients.address) as raw:
        raw.enter()
        good = encode(Subscribe(1, "n > 1", 8))
        for _ in range(300):
            raw.send(rng.randbytes(rng.randrange(200)))
            raw.send(b"\x01" + rng.randbytes(rng.randrange(1, 60)))
            damaged = bytearray(good)
            damaged[rng.randrange(2, len(good))] ^= 1 << rng.randrange(8)
            raw.send(bytes(damaged[: rng.randrange(2, len(good) + 1)]))
        raw.send(b"two", b"parts")
        until(lambda: runtime.counters.client_errors > 600)
        raw.say(Subscribe(77, "n = 5", 8))
        while raw.hear((Subscribed, Refusal)).sub != 77:
            pass
        raw.publish(event(raw.stream, 0))
        raw.publish(pack(raw.stream, 1, [Content(attributes={"n": 5})]))
        while 77 not in (single := raw.hear((Single, Refusal))).subs:
            pass
        assert single.identified().attributes == {"n": 5}
    serves(runtime)


def test_what_another_broker_let_pass_is_told_as_lost(start):
    runtime = start()

    async def main():
        async with asyncio.timeout(15), gossamer.connect(runtime.clients.address) as client:
            sub = await client.subscribe("", notices=True)
            stream = "default/~elsewhere-1.0"
            runtime.submit(Received("elsewhere", Data("elsewhere", spoilt(stream)["no events at all"])))
            runtime.submit(Received("elsewhere", Data("elsewhere", event(stream, 1))))
            gap = await anext(sub)
            assert (gap.first, gap.last, gap.reason) == (0, 0, "malformed")
            assert (await anext(sub)).attributes == {"n": 1}
        # And who comes from another broker, and would be read what came lately, is none the worse for it.
        with Raw(runtime.clients.address) as raw:
            raw.enter().say(Subscribe(1, "", 8, start=Start(since_ns=time.time_ns() - 60 * 10**9)))
            raw.hear(Subscribed)

    asyncio.run(main())


def test_who_says_hello_again_and_again_by_other_names_has_one_session(start):
    runtime = start()
    sessions = runtime.clients
    with Raw(sessions.address) as raw:
        for number in range(5):
            raw.say(Hello(f"client-{number}", 1, "default"))
            raw.hear(Welcome)
            raw.say(Subscribe(1, "", 8))
            raw.hear(Subscribed)
        assert runtime.ask(lambda: sessions.figures()["subscriptions"]) == 1
        assert runtime.ask(lambda: list(sessions._clients)) == ["client-4"]
    until(lambda: runtime.ask(lambda: sessions.figures()["subscriptions"]) == 0, "its end to be noticed")
    assert runtime.ask(lambda: (sessions._clients, sessions._streams)) == ({}, {})


def test_who_is_cut_off_by_a_refusal_has_no_session_any_more(start, monkeypatch):
    monkeypatch.setattr(doors, "WAITING_MAX", -1)
    runtime = start()
    sessions = runtime.clients
    with Raw(sessions.address) as raw:
        raw.enter()

        def refuse():
            (session,) = sessions._sessions.values()
            session.place.waiting.append(b"")  # it does not read
            sessions.refuse(session, "superseded", "another has it", 1)

        runtime.ask(refuse)
        until(lambda: runtime.ask(lambda: sessions.figures()["clients"]) == 0)


# Strangers ------------------------------------------------------------------------------------------------------------


def test_who_says_a_byte_now_and_then_and_never_hello_is_dropped(start, monkeypatch):
    monkeypatch.setattr(doors, "STRANGER_S", 0.3)
    runtime = start()
    with Raw(runtime.clients.address) as raw, socket.create_connection(split(runtime.clients.address)) as stranger:
        raw.enter()
        said = iter(GREETING)

        def dropped():
            try:
                stranger.send(bytes([next(said, 0)]))
            except OSError:
                return True
            return False

        until(dropped)
        raw.publish(event(raw.stream))
        until(lambda: runtime.counters.events_published == 1)
    assert runtime.counters.client_sessions == 1, "whoever has said hello is there as before"
