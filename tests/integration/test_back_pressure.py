"""Back-pressure end to end: real brokers, a logger, and publishers that wait for subscriptions (row S10, 002 §5.3)."""

import asyncio
import io
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

import gossamer
from clients import run, take
from gossamer.cli import view
from gossamer.sdk.subscription import WINDOW_MAX
from processes import Process, Processes, until

BUFFER = 64
PACKET = 1_024
"""A packet that begins where there is room is taken whole, once at each broker."""
AHEAD = BUFFER + WINDOW_MAX * BUFFER + 4_096 + PACKET
"""No publisher is further ahead of a reader: the broker's queue, the reader's window, the publisher's own buffer, and a
packet."""
RETURNED = 8_192
"""So far behind a subscription may be, besides, that is waited for as soon as it comes to another broker."""
FOREVER = 3_600
GROUPS = f"""
[groups.orders]
purging = false
backpressure = true
backpressure_max_s = {FOREVER}

[groups.closing]
backpressure = true
backpressure_max_s = {FOREVER}

[groups.prices]
backpressure = true
backpressure_max_s = {FOREVER}

[groups.bounded]
purging = false
backpressure = true
backpressure_max_s = 0.5
"""

Start = Callable[..., Process]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Process]]:
    """Two brokers and a logger for all tests that leave them as they were."""
    mesh = Processes(tmp_path_factory.mktemp("mesh"))
    yield three(mesh)
    mesh.close()


def three(mesh: Processes, *more: str) -> Any:
    config = mesh.folder / "gossamer.toml"
    config.write_text(config.read_text() + GROUPS)
    options = {"telemetry-interval-s": "0.2", "http": "127.0.0.1:0"}
    first = mesh.broker("a", **options).ready()
    others = [mesh.broker(name, first.address, **options) for name in ("b", *more)]
    logger = mesh.logger("L", first.address)
    brokers = [first, *(other.ready() for other in others)]
    logger.ready()

    async def settle() -> None:
        for broker in brokers:
            async with gossamer.connect(broker.url) as client:
                await client.publish({}, ack="logged")

    run(settle)
    return tuple(brokers)


async def until_blocked(client: gossamer.Client, broker: str = "b") -> str:
    """The subscription at b that this client waits for. For a moment it may wait for another, or for b's first word."""
    while not (blocked_by := client.blocked_by or "").endswith(f"/0 at {broker}"):
        await asyncio.sleep(0.01)
    return blocked_by


class Publishing:
    """Publishes numbered events as fast as it may; `count` of them so far."""

    def __init__(self, client: gossamer.Client, events: int, keys: int = 10) -> None:
        self.count = 0
        self._client, self._events, self._keys = client, events, keys
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        for n in range(self._events):
            await self._client.publish({"n": n}, key=f"k{n % self._keys}")
            self.count = n + 1
        await self._client.flush("logged")


async def read_all(sub: gossamer.Subscription, publishing: Publishing, events: int, ahead: int = AHEAD) -> None:
    """Take one event after the other: each is there, in order, and the publisher is never far ahead."""
    for n in range(events):
        event = await anext(sub)
        assert event.attributes["n"] == n
        assert publishing.count - n <= ahead
    await publishing.task
    assert (sub.stats.delivered, sub.stats.obsoleted, sub.stats.lost) == (events, 0, 0)


def looked_at(process: Process) -> dict[str, Any]:
    address = process.http.replace("tcp://", "http://")
    with urllib.request.urlopen(f"{address}/mesh", timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def blocking(process: Process) -> list[str]:
    """Subscriptions that publishers wait for, as they are told of."""
    consumers = looked_at(process)["consumers"]
    return [f"{each['client']}/{each['subscription']} at {each['node']}" for each in consumers if each["blocking"]]


@pytest.mark.parametrize("home", [0, 1], ids=["at another broker", "at the same broker"])
def test_a_publisher_goes_at_the_pace_of_the_slowest_reader_and_nothing_is_left_out(
    shared: tuple[Process, Process], home: int
) -> None:
    """Of 20,000 events with ten keys, a reader that was stuck sees every one, and a fast one beside it as well."""
    a, b = shared
    events = 20_000

    async def main() -> None:
        async with (
            gossamer.connect(shared[home].url, group="orders") as publisher,
            gossamer.connect(b.url, group="orders") as slow,
            gossamer.connect(a.url, group="orders") as fast,
        ):
            slow_sub, fast_sub = [await each.subscribe("", buffer=BUFFER) for each in (slow, fast)]
            publishing = Publishing(publisher, events)
            quick = asyncio.create_task(take(fast_sub, events))
            await until_blocked(publisher)
            assert publishing.count <= AHEAD
            await read_all(slow_sub, publishing, events)
            assert [event.attributes["n"] for event in await quick] == list(range(events))
            assert publisher.blocked_by is None

    run(main, patience_s=30.0)


def test_waiting_respects_timeouts_and_says_for_whom(shared: tuple[Process, Process]) -> None:
    a, b = shared

    async def main() -> None:
        async with (
            gossamer.connect(a.url, group="orders") as publisher,
            gossamer.connect(b.url, group="orders") as slow,
        ):
            sub = await slow.subscribe("", buffer=BUFFER)
            publishing = Publishing(publisher, 10_000)
            blocked_by = await until_blocked(publisher)
            with pytest.raises(gossamer.Timeout, match=f"no room at {blocked_by}"):
                await publisher.flush("sent", timeout=0.1)
            while publishing.count < 4_096:
                await asyncio.sleep(0.01)
            with pytest.raises(gossamer.Timeout, match=f"no room at {blocked_by}"):
                await publisher.publish({"n": -1}, timeout=0.1)
            with pytest.raises(gossamer.BufferFull, match=f"no room at {blocked_by}"):
                publisher.publish_nowait({"n": -1})
            pending = publisher.pending
            assert pending >= 4_096
            shown = await asyncio.to_thread(until, lambda: looked_at(a)["waits"], "the wait to be told")
            assert [(each["node"], each["stream"], each["blocked_by"]) for each in shown] == [
                ("a", publisher.stream, blocked_by)
            ]
            await asyncio.to_thread(until, lambda: blocking(a) == [blocked_by], "b to tell which subscription blocks")
            found = await asyncio.to_thread(looked_at, a)
            assert found["healthy"], "waiting is what was asked for"
            shown = io.StringIO()
            console = Console(file=shown, width=240)
            console.print(view.render(found, console))
            waiting = next(line for line in shown.getvalue().splitlines() if line.rstrip().endswith(blocked_by))
            assert waiting.startswith(found["waits"][0]["client"])
            await read_all(sub, publishing, 10_000)
            await asyncio.to_thread(until, lambda: not looked_at(a)["waits"], "the wait to be over")

    run(main, patience_s=30.0)


def test_a_namespace_without_back_pressure_is_not_slowed(shared: tuple[Process, Process]) -> None:
    """Its publisher has all of its events logged while a publisher beside it waits, and its reader reads nothing."""
    a, b = shared

    async def main() -> None:
        async with (
            gossamer.connect(a.url, group="orders") as waiting,
            gossamer.connect(b.url, group="orders") as slow,
            gossamer.connect(a.url) as free,
            gossamer.connect(b.url) as slow_too,
        ):
            sub = await slow.subscribe("", buffer=BUFFER)
            await slow_too.subscribe("", buffer=BUFFER)
            publishing = Publishing(waiting, 10_000)
            blocked_by = await until_blocked(waiting)
            await Publishing(free, 20_000).task
            assert free.blocked_by is None
            assert waiting.blocked_by == blocked_by
            await read_all(sub, publishing, 10_000)

    run(main, patience_s=30.0)


def test_a_subscription_that_is_gone_is_not_waited_for(shared: tuple[Process, Process]) -> None:
    a, b = shared

    async def main() -> None:
        async with gossamer.connect(a.url, group="closing") as publisher:
            async with gossamer.connect(b.url, group="closing") as slow:
                await slow.subscribe("", buffer=BUFFER)
                publishing = Publishing(publisher, 10_000, keys=10_000)
                await until_blocked(publisher)
            await publishing.task
            assert publishing.count == 10_000
            assert publisher.pending == 0

    run(main, patience_s=30.0)


def test_purging_makes_room_before_publishers_wait(shared: tuple[Process, Process]) -> None:
    """Ten keys fit into a buffer of 64: a reader that reads nothing holds up nobody, and ends in the right state. With
    more keys than room it does."""
    a, b = shared

    async def main() -> None:
        async with (
            gossamer.connect(a.url, group="prices") as publisher,
            gossamer.connect(b.url, group="prices") as slow,
        ):
            sub = await slow.subscribe("", buffer=BUFFER)
            await Publishing(publisher, 20_000).task
            state: dict[str, int] = {}
            while len(state) < 10 or min(state.values()) < 20_000 - 10:
                event = await anext(sub)
                state[event.key] = event.attributes["n"]
            assert state == {f"k{n % 10}": n for n in range(20_000 - 10, 20_000)}
            assert sub.stats.obsoleted > 0
            publishing = Publishing(publisher, 10_000, keys=10_000)
            await until_blocked(publisher)
            assert publishing.count <= AHEAD
            assert [event.attributes["n"] for event in await take(sub, 10_000)] == list(range(10_000))
            await publishing.task

    run(main, patience_s=30.0)


def test_publishers_wait_no_longer_than_the_bound_for_a_reader_that_is_stuck(shared: tuple[Process, Process]) -> None:
    """After that the reader falls behind, catches up from the log when it reads, misses nothing, and counts again."""
    a, b = shared
    events = 20_000

    async def main() -> None:
        async with (
            gossamer.connect(a.url, group="bounded") as publisher,
            gossamer.connect(b.url, group="bounded") as slow,
        ):
            sub = await slow.subscribe("", buffer=BUFFER)
            for round in (1, 2):  # it counts again once it has caught up, and is waited for again
                publishing = Publishing(publisher, events)
                blocked_by = await until_blocked(publisher)
                await publishing.task
                name = blocked_by.removesuffix(" at b")
                line = f"publishers in bounded no longer wait for subscription {name}"
                assert b.errors().count(line) == round
                assert [event.attributes["n"] for event in await take(sub, events)] == list(range(events))
                again = f"publishers in bounded wait for subscription {name} again"
                await asyncio.to_thread(until, lambda: b.errors().count(again) == round, again)  # noqa: B023
            assert (sub.stats.obsoleted, sub.stats.lost) == (0, 0)
            members = (await asyncio.to_thread(looked_at, a))["members"]
            assert {each["node"]: each.get("subscriptions_excused") for each in members}["b"] == 2

    run(main, patience_s=30.0)


def test_publishers_and_subscriptions_that_move_to_another_broker_wait_and_are_waited_for(mesh: Processes) -> None:
    """The publisher's broker is killed while it waits, and then the subscriber's: nothing is lost or doubled."""
    a, b, c = three(mesh, "c")
    events = 20_000

    async def main() -> None:
        async with (
            gossamer.connect([c.url, a.url], group="orders") as publisher,
            gossamer.connect([b.url, a.url], group="orders") as slow,
        ):
            sub = await slow.subscribe("", buffer=BUFFER)
            publishing = Publishing(publisher, events)
            blocked_by = await until_blocked(publisher)
            assert publisher.node == "c"
            c.kill()
            while publisher.node != "a":
                await asyncio.sleep(0.01)
            assert await until_blocked(publisher) == blocked_by
            assert publishing.count <= AHEAD + PACKET
            b.kill()
            await until_blocked(publisher, "a")
            await read_all(sub, publishing, events, AHEAD + PACKET + RETURNED)

    run(main, patience_s=60.0)
