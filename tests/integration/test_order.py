"""Groups with an order, as plain subscribers get it: real brokers, real sockets, and kill -9 of a broker."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

import gossamer
from clients import run
from gossamer.broker.faults import parse_faults
from gossamer.broker.runtime import Runtime
from gossamer.broker.sessions import Sessions
from gossamer.protocol.config import Config, Group
from processes import BRISK, Processes, until

TOTAL = '[protocol]\nagreed_by = ["b1", "b2", "b3"]\n[groups.moves]\norder = "total"\n[groups.talk]\norder = "causal"\n'


def configured(mesh: Processes, text: str = TOTAL) -> str:
    path = mesh.folder / "order.toml"
    path.write_text(text)
    return str(path)


def three(mesh: Processes) -> dict[str, str]:
    """A logger and three brokers: their urls."""
    config, address = configured(mesh), mesh.address()
    mesh.logger("L", config=config, mesh=address).ready()
    mesh.up = {name: mesh.broker(name, address, config=config).ready() for name in ("b1", "b2", "b3")}
    return {name: process.url for name, process in mesh.up.items()}


async def take(sub: gossamer.Subscription, found: list[tuple[str, int]]) -> None:
    async for batch in sub.batches():
        found += [(event.attributes["who"], event.attributes["n"]) for event in batch]


async def publish(url: str | list[str], who: str, count: int, group: str = "moves", pause_s: float = 0.0) -> None:
    async with gossamer.connect(url, group=group, timeout=30) as client:
        for n in range(count):
            await client.publish({"who": who, "n": n})
            await asyncio.sleep(pause_s)
        await client.flush("logged", timeout=30)


def agree(sequences: list[list[tuple[str, int]]]) -> bool:
    """No two saw the same events in different orders, and nobody saw one twice."""
    for one, other in combinations(sequences, 2):
        assert len(set(one)) == len(one)
        both = set(one) & set(other)
        assert [each for each in one if each in both] == [each for each in other if each in both]
    return True


def test_all_subscribers_see_one_order_and_go_on_in_it_when_a_broker_is_killed(mesh):
    """b1 is the one that decides. Its subscribers and publishers go on elsewhere."""
    run(kill_one, mesh, "b1", patience_s=150.0)


async def kill_one(mesh: Processes, killed: str) -> None:
    urls = three(mesh)
    found: dict[str, list[tuple[str, int]]] = {name: [] for name in urls}
    async with asyncio.TaskGroup() as group:
        clients = [
            await gossamer.connect([url, *urls.values()], group="moves", timeout=30).__aenter__()
            for url in urls.values()
        ]
        tasks = []
        for name, client in zip(urls, clients, strict=True):
            sub = await client.subscribe("n >= 0", buffer=10_000)
            tasks.append(group.create_task(take(sub, found[name])))
        publishing = [
            group.create_task(publish([url, *urls.values()], name, 300, pause_s=0.002)) for name, url in urls.items()
        ]
        await asyncio.to_thread(until, lambda: len(found["b2"]) > 200, "a third of it")
        mesh.up[killed].kill()
        await asyncio.wait(publishing)
        await asyncio.to_thread(until, lambda: all(len(each) == 900 for each in found.values()), "everything")
        for task in tasks:
            task.cancel()
        for client in clients:
            await client.close()
    assert agree(list(found.values()))
    assert found["b1"] == found["b2"] == found["b3"]


@pytest.fixture
def brokers() -> Iterator[Callable[[str], str]]:
    """Brokers in this process, with the same configuration; each gives its url."""
    groups = {"moves": Group(order="total"), "talk": Group(order="causal")}
    config = Config(**BRISK, groups=groups, agreed_by=("b1", "b2", "b3"))
    started: list[Runtime] = []

    def start(name: str, faults: str | None = None) -> str:
        clients = Sessions()
        runtime = Runtime(
            name=name,
            peers=tuple(each.address for each in started[:1]),
            config=config,
            clients=clients,
            faults=None if faults is None else parse_faults(faults),
        ).start()
        started.append(runtime)
        until(lambda: runtime.status == "member", f"{name} to be a member")
        return clients.address

    yield start
    for runtime in started:
        runtime.kill()
        assert runtime.failure is None


def test_what_answers_comes_after_what_it_answers(brokers):
    """What b2 hears of is late, and in any order. The answer, which comes from b3, waits there for its question."""
    urls = [brokers("b1"), brokers("b2", "delay=100ms"), brokers("b3")]
    run(answer, urls, patience_s=60.0)


async def answer(urls: list[str]) -> None:
    asking, reading, answering = [gossamer.connect(url, group="talk", timeout=30) for url in urls]
    async with asking as one, reading as other, answering as third:
        slow, fast = await other.subscribe(""), await third.subscribe("what = 'question'")
        for n in range(20):
            await one.publish({"what": "question", "n": n})
            event = await anext(fast)
            await third.publish({"what": "answer", "n": event.attributes["n"]})
        seen = [(event.attributes["n"], event.attributes["what"]) for event in [await anext(slow) for _ in range(40)]]
    for n in range(20):
        assert seen.index((n, "question")) < seen.index((n, "answer"))


def test_a_subscription_waits_until_there_is_an_order(brokers):
    """Of three that are to agree on it one is missing: publishing goes on, and nothing is handed out in another."""
    urls = [brokers("b1"), brokers("b2")]
    run(wait_for_order, urls, brokers, patience_s=60.0)


async def wait_for_order(urls: list[str], brokers: Callable[[str], str]) -> None:
    async with (
        gossamer.connect(urls[0], group="moves", timeout=30) as client,
        gossamer.connect(urls[1], group="moves", timeout=30) as other,
    ):
        waiting = asyncio.create_task(client.subscribe(""))
        await other.publish({"n": 1}, ack="sent", timeout=20)
        assert not waiting.done()
        await asyncio.to_thread(brokers, "b3")
        sub = await waiting
        await other.publish({"n": 2})
        while (event := await anext(sub)).attributes["n"] != 2:
            pass
        assert event.id.stream == other.stream


def test_after_is_refused_where_there_is_no_causal_order(brokers):
    async def main(url: str) -> None:
        async with gossamer.connect(url) as client:
            with pytest.raises(gossamer.UsageError, match="causal order"):
                await client.publish({}, after=[gossamer.EventId("default/x", 1)])

    run(main, brokers("b1"))
