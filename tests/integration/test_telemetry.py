"""What members tell of themselves in `$sys`, as a client reads it."""

import asyncio

import pytest

import gossamer
from gossamer.broker.runtime import Runtime
from gossamer.broker.serving import broker as make_broker
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.messages.session import Publish, Subscribe, Subscribed
from gossamer.protocol.config import Config
from processes import BRISK, until
from raw import Raw

INTERVAL_S = 0.1


@pytest.fixture
def start(tmp_path):
    started = []

    def member(name: str, *peers: Runtime, logger: bool = False, interval_s: float = INTERVAL_S, **more):
        options = {
            **more,
            "name": name,
            "config": Config(**BRISK),
            "peers": tuple(peer.address for peer in peers),
            "telemetry_interval_s": interval_s,
        }
        if logger:
            runtime = Runtime(store=Writer(Store(f"sqlite:///{tmp_path / name}.db")), **options)
        else:
            runtime = make_broker(**options)
        started.append(runtime.start())
        until(lambda: runtime.status == "member")
        return runtime

    yield member
    for runtime in started:
        runtime.kill()
        assert runtime.failure is None


def read(runtime: Runtime, selector: str, enough):
    """What comes in `$sys` until it is enough."""
    found = []

    async def main():
        async with asyncio.timeout(15), gossamer.connect(runtime.clients.address, group="$sys") as client:
            async for event in await client.subscribe(selector):
                found.append(event)
                if enough(event):
                    return

    asyncio.run(main())
    return found


class Told:
    """All that is delivered in `$sys`, from the beginning."""

    def __init__(self) -> None:
        self.events = []

    def on_deliver(self, packet) -> None:
        if packet.stream.startswith("$sys/"):
            self.events += packet.events()

    def first(self, kind: str):
        def found():
            return [event.attributes for event in list(self.events) if event.attributes["type"] == kind]

        return until(found, f"a {kind}")[0]


def picture(runtime: Runtime) -> dict:
    return runtime.ask(runtime.mesh)


def test_any_broker_shows_every_member(start):
    b1 = start("b1")
    b2 = start("b2", b1)
    start("L", b1, logger=True)
    seen = set()
    samples = read(b2, "type = 'sample'", lambda event: seen.add(event.attributes["node"]) or len(seen) == 3)
    found = {event.attributes["node"]: event for event in samples}
    assert {name: event.attributes["role"] for name, event in found.items()} == {
        "b1": "broker",
        "b2": "broker",
        "L": "logger",
    }
    assert found["b1"].key == "sample/b1"
    assert found["b1"].attributes["url"] == b1.clients.address
    until(lambda: picture(b1)["healthy"] and len(picture(b1)["members"]) == 3, "b1 to know all three")
    assert picture(b1)["totals"]["loggers"] == 1


def test_a_subscription_is_told_with_its_selector_until_it_is_over(start):
    b1 = start("b1")

    async def main():
        async with (
            asyncio.timeout(15),
            gossamer.connect(b1.clients.address, group="$sys") as watcher,
            gossamer.connect(b1.clients.address) as client,
        ):
            watched = await watcher.subscribe("type = 'subscription' AND group = 'default'")
            sub = await client.subscribe("price > 100")
            added = await anext(watched)
            await sub.update("price > 200")
            changed = await anext(watched)
            await sub.close()
            removed = await anext(watched)
        told = [(event.attributes["action"], event.attributes["selector"]) for event in (added, changed, removed)]
        assert told == [("added", "price > 100"), ("changed", "price > 200"), ("removed", "price > 200")]
        assert added.key == changed.key == removed.key
        assert [added.attributes[name] for name in ("buffer", "policy", "order", "durable")] == [
            1024,
            "auto",
            "fifo",
            None,
        ]
        assert [event.deleted for event in (added, changed, removed)] == [False, False, True]

    asyncio.run(main())


def test_telemetry_does_not_feed_on_itself(start):
    b1 = start("b1")
    samples = []
    read(b1, "type = 'sample'", lambda event: samples.append(event.attributes) or len(samples) == 8)
    grown = samples[-1]["telemetry_events"] - samples[2]["telemetry_events"]
    assert grown == 5, "one sample an interval, although somebody reads them"
    assert (samples[-1]["events_delivered"], samples[-1]["events_matched"]) == (0, 0)


def test_it_can_be_switched_off(start):
    b1 = start("b1", interval_s=0.0)

    async def main():
        async with gossamer.connect(b1.clients.address) as client:
            await client.subscribe("n > 0")
            await client.publish({"n": 1}, ack="sent")

    asyncio.run(main())
    assert b1.counters.events_delivered == 1
    assert b1.counters.telemetry_events == 0
    assert len(b1.telemetry.journal) == 0


def test_who_leaves_is_gone_and_who_is_killed_is_silent(start):
    b1 = start("b1")
    b2, b3 = start("b2", b1), start("b3", b1)
    until(lambda: len(picture(b1)["members"]) == 3 and picture(b1)["healthy"], "all to be there")
    b2.stop()
    until(lambda: {each["node"] for each in picture(b1)["members"]} == {"b1", "b3"}, "b2 to be gone")
    b3.kill()
    until(lambda: not picture(b1)["healthy"], "b3 to be missed")
    (trouble,) = picture(b1)["trouble"]
    assert trouble.startswith("b3: is gone: nothing listens at")


def test_a_slow_consumer_and_what_is_purged_for_it_are_told(start):
    told = Told()
    b1 = start("b1", on_deliver=told.on_deliver)
    with Raw(b1.clients.address, "slow") as slow, Raw(b1.clients.address, "feed") as feed:
        slow.enter().say(Subscribe(1, "n >= 0", 1, policy="eager"))
        slow.hear(Subscribed)
        feed.enter()
        for n in range(20):
            feed.say(Publish(pack(feed.stream, n, [Content(key="IBM", attributes={"n": n})])))
        until(lambda: b1.counters.events_published == 20)
        purge = told.first("purge")
        assert {name: purge[name] for name in ("node", "hop", "group", "key")} == {
            "node": "b1",
            "hop": "queue",
            "group": "default",
            "key": "IBM",
        }
        assert 1 <= purge["events"] <= 18, "one was sent, and one waits"
        consumer = until(lambda: [each for each in picture(b1)["consumers"] if each["obsoleted"] == 18])[0]
        assert (consumer["client"], consumer["obsoleted"], consumer["queued"]) == ("slow", 18, 1)
        (sample,) = read(b1, "type = 'sample'", lambda _: True)
        assert (sample.attributes["purged_queue_obsolete"], sample.attributes["queued_events"]) == (18, 1)


def test_repairs_are_told_by_way_and_rounds(start):
    told = Told()
    b1 = start("b1", on_deliver=told.on_deliver)
    b1.ask(lambda: b1.node.tally.repaired.update({("gossip", 2): 7}))
    repair = told.first("repair")
    assert {name: repair[name] for name in ("node", "way", "rounds", "events")} == {
        "node": "b1",
        "way": "gossip",
        "rounds": 2,
        "events": 7,
    }


def test_a_member_that_was_taken_for_dead_begins_another_stream(start):
    b1 = start("b1")
    first = b1.telemetry.stream
    until(lambda: b1.counters.telemetry_events)
    b1.ask(lambda: b1._perform(_lost(b1)))
    assert b1.telemetry.stream != first
    read(b1, "type = 'sample'", lambda event: event.id.stream == b1.telemetry.stream)


def _lost(runtime: Runtime):
    """As `Sender.on_lost` tells it."""
    runtime.node._ctx.effects = []
    runtime.node.sender.on_lost(runtime.telemetry.stream)
    return runtime.node._ctx.effects


def test_a_client_that_publishes_in_sys_is_told_so(start):
    b1 = start("b1")

    async def main():
        async with asyncio.timeout(15), gossamer.connect(b1.clients.address, group="$sys") as client:
            with pytest.raises(gossamer.NotAuthorized, match="telemetry"):
                await client.publish({"type": "sample", "node": "b1"}, ack="sent")

    asyncio.run(main())


def test_a_logger_tells_how_long_it_takes_to_the_disk(start):
    told = Told()
    b1 = start("b1", on_deliver=told.on_deliver)
    start("L", b1, logger=True)

    async def main():
        async with asyncio.timeout(15), gossamer.connect(b1.clients.address) as client:
            for n in range(20):
                await client.publish({"n": n}, ack="logged")

    asyncio.run(main())

    def measured():
        samples = [event.attributes for event in list(told.events) if event.key == "sample/L"]
        return {"latency_delivered_p50_ms", "latency_logged_p50_ms"} <= {name for each in samples for name in each}

    until(measured, "samples of the logger with both")
