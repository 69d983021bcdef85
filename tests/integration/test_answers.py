"""When a broker answers what a client publishes: at once, or, if nobody waits for it, one for several before long."""

import asyncio
from collections.abc import Iterator

import pytest

import gossamer
from gossamer.broker import sessions
from gossamer.broker.runtime import Runtime
from gossamer.broker.serving import broker as make_broker
from gossamer.broker.session import ClientLimits
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.messages.session import Acks, Ping, Pong, Publish
from gossamer.protocol.config import Config
from gossamer.sdk import transport
from processes import BRISK, until
from raw import Raw

NEVER_S = 1e6


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    limits = ClientLimits(silence_s=3_600)  # a client pings often enough for this
    runtime = make_broker(config=Config(**BRISK), limits=limits).start()
    until(lambda: runtime.status == "member")
    yield runtime
    runtime.kill()
    assert runtime.failure is None


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes all the time there is over what nobody waits for, and clients that never ask how it is."""
    monkeypatch.setattr(sessions, "ANSWER_S", NEVER_S)
    monkeypatch.setattr(transport, "PING_S", NEVER_S)
    monkeypatch.setattr(transport, "SILENCE_S", NEVER_S)


def say(raw: Raw, seq: int, patient: bool) -> None:
    raw.say(Publish(pack(raw.stream, seq, [Content()]), patient))


def heard(raw: Raw, number: int) -> list[int]:
    """What was acknowledged up to an answer to a ping."""
    raw.say(Ping(number))
    sent: list[int] = []
    while True:
        said = raw.hear((Acks, Pong))
        if isinstance(said, Pong):
            return sent
        sent.append(said.sent)


def test_what_nobody_waits_for_is_answered_before_long(runtime: Runtime) -> None:
    with Raw(runtime.clients.address) as raw:
        raw.enter()
        say(raw, 0, patient=True)
        while raw.hear(Acks).sent != 0:
            pass


@pytest.mark.usefixtures("unhurried")
def test_one_answer_is_for_all_that_were_patient(runtime: Runtime) -> None:
    with Raw(runtime.clients.address) as raw:
        raw.enter()
        assert raw.hear(Acks).sent == -1, "the session has begun"
        for seq in range(3):
            say(raw, seq, patient=True)
        assert heard(raw, 1) == [], "nothing was said of them before the ping"
        assert raw.hear(Acks).sent == 2, "and the ping asked for it"
        say(raw, 3, patient=True)
        say(raw, 4, patient=False)
        sent = raw.hear(Acks).sent
        assert sent in (3, 4), "one that is not patient has all of them answered"
        assert sent == 4 or raw.hear(Acks).sent == 4


@pytest.mark.usefixtures("unhurried")
def test_whoever_waits_for_an_acknowledgement_has_it_at_once(runtime: Runtime) -> None:
    async def main() -> None:
        async with asyncio.timeout(15), gossamer.connect(runtime.clients.address) as client:
            for _ in range(3):
                await client.publish({"n": 1})
                await client.flush("sent")  # of what left without anybody waiting
            await client.publish({"n": 2}, ack="sent")
            await client.delete("key", ack="safe")
            async with client.transaction(ack="sent") as tx:
                tx.publish({"n": 3})
            await client.publish({"n": 4})  # closing waits for it

    asyncio.run(main())


@pytest.mark.usefixtures("unhurried")
def test_a_client_that_is_gone_is_owed_nothing(runtime: Runtime) -> None:
    with Raw(runtime.clients.address, "gone") as gone, Raw(runtime.clients.address, "here") as here:
        gone.enter()
        here.enter()
        say(gone, 0, patient=True)
        assert runtime.clients is not None
        until(lambda: runtime.ask(lambda: len(runtime.clients._owed)) == 1)
        with Raw(runtime.clients.address, "gone") as again:
            again._hello = sessions.Hello("gone", 2, "default")
            again.enter()  # which ends the session before it
            assert runtime.ask(lambda: len(runtime.clients._owed)) == 0
        say(here, 0, patient=False)
        while here.hear(Acks).sent != 0:
            pass
