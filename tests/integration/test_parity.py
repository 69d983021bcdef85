"""One workload through the simulator and through real sockets: the same deliveries, in the same order a stream.

What differs between the two is when things happen, and so how the streams interleave; design §5 promises nothing there.
"""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import gossamer
from clients import Broker, run
from gossamer.broker.faults import Faults, parse_faults
from gossamer.lab.mesh import Mesh
from gossamer.lab.subscriber import Subscriber, Subscriptions
from gossamer.messages.event import Content, Event
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.reception import Step
from gossamer.protocol.shown import Left
from processes import until

NODES = "abc"
SELECTORS = ("", "n > 50 OR end", "n <= 50 OR side = 'sell' OR end")
Said = tuple[Any, ...]
Heard = dict[tuple[str, str], dict[str, list[Said]]]
"""Of each node and selector, what came of each publisher, in order."""


class Script:
    """The workload, said to anybody who can publish, delete and commit."""

    def __init__(self, who: str) -> None:
        self.who = who

    def steps(self, phase: int) -> list[tuple[str, Any]]:
        base = 17 * phase + 31 * NODES.index(self.who)
        steps: list[tuple[str, Any]] = []
        for at in range(40):
            n = (base + 37 * at) % 101
            side = "buy" if at % 3 else "sell"
            match at % 8:
                case 3:
                    steps.append(("delete", (f"k{n % 5}", {"n": n, "side": side})))
                case 6:
                    parts = [({"n": (n + place) % 101, "side": side}, f"k{place}") for place in range(3)]
                    steps.append(("commit", parts))
                case _:
                    steps.append(("publish", ({"n": n, "side": side}, f"k{n % 5}" if at % 2 else None)))
        return steps


END = {"end": True}


def told(said: Event | Left | gossamer.Left) -> Said:
    """Something that came, without what differs by its nature: ids of streams, and times."""
    if isinstance(said, Event):
        assert said.id is not None
        return "event", said.id.seq, said.key, said.deleted, tuple(said.attributes.items())
    if isinstance(said, Left):
        return "left", said.id.seq, said.key
    return "left", said.event.seq, said.key


def stream_of(said: Event | Left | gossamer.Left) -> str:
    id = said.event if isinstance(said, gossamer.Left) else said.id
    assert id is not None
    return id.stream


def in_the_lab() -> Heard:
    mesh = Mesh(brokers=NODES, loggers="L", seed=5)
    whose = {mesh.stream(node): node for node in NODES}
    heard: Heard = defaultdict(lambda: defaultdict(list))
    for node in NODES:
        subscriptions = Subscriptions(mesh.world, node)
        for selector in SELECTORS:

            def on_step(_: Subscriber, step: Step, to: tuple[str, str] = (node, selector)) -> None:
                for said in step.said:
                    heard[to][whose[stream_of(said)]].append(told(said))

            subscriptions.add(selector, selector, Subscriber(mesh.world, semantic="off", on_step=on_step))
    annotators = {node: Annotator(mesh.stream(node)) for node in NODES}

    def publish(phase: int) -> None:
        for node in NODES:
            annotator, contents = annotators[node], list[Content]()
            for kind, said in Script(node).steps(phase):
                match kind:
                    case "publish":
                        contents.append(annotator.event(said[0], key=said[1]))
                    case "delete":
                        contents.append(annotator.delete(*said))
                    case _:
                        contents += annotator.transaction([Part(attributes, key=key) for attributes, key in said])
            mesh.world.publish(node, mesh.stream(node), tuple(contents))

    publish(0)
    mesh.lose(0.2)
    publish(1)
    mesh.run(0.5)
    mesh.heal()
    mesh.partition("aL", "bc")
    publish(2)
    mesh.run(2.0)
    mesh.heal()
    publish(3)
    for node in NODES:
        mesh.world.publish(node, mesh.stream(node), (annotators[node].event(END),))
    assert mesh.settle()
    mesh.run(1.0)
    return heard


def over_sockets(brokers: dict[str, Broker]) -> Heard:
    heard: Heard = defaultdict(lambda: defaultdict(list))

    def set_faults(text: str) -> None:
        for broker in brokers.values():
            broker.runtime.faulty.faults = parse_faults(text) if text else Faults()

    async def publish(client: gossamer.Client, node: str, phase: int) -> None:
        for kind, said in Script(node).steps(phase):
            match kind:
                case "publish":
                    await client.publish(said[0], key=said[1])
                case "delete":
                    await client.delete(*said)
                case _:
                    async with client.transaction() as transaction:
                        for attributes, key in said:
                            transaction.publish(attributes, key=key)

    async def read(sub: gossamer.Subscription, to: tuple[str, str], whose: dict[str, str]) -> None:
        ended = 0
        async for said in sub:
            if not isinstance(said, gossamer.Commit):
                assert not isinstance(said, gossamer.Gap)
                heard[to][whose[stream_of(said)]].append(told(said))
                ended += isinstance(said, Event) and said.attributes == END
            if ended == len(NODES):
                return

    async def main() -> None:
        async with AsyncExitStack() as stack:
            clients = {node: await stack.enter_async_context(gossamer.connect(brokers[node].url)) for node in NODES}
            whose = {client.stream: node for node, client in clients.items()}
            reading = [
                asyncio.create_task(
                    read(await client.subscribe(selector, policy="none", notices=True), (node, selector), whose)
                )
                for node, client in clients.items()
                for selector in SELECTORS
            ]

            async def all_publish(phase: int) -> None:
                await asyncio.gather(*(publish(client, node, phase) for node, client in clients.items()))
                for client in clients.values():
                    await client.flush("sent")

            await all_publish(0)
            set_faults("loss=0.2")
            await all_publish(1)
            set_faults("partition=a|b,c")
            await all_publish(2)
            set_faults("")
            await all_publish(3)
            for client in clients.values():
                await client.publish(END)
            await asyncio.gather(*reading)

    run(main, patience_s=60)
    return heard


def test_the_simulator_and_real_sockets_deliver_the_same(brokers):
    started: dict[str, Broker] = {}
    for node in NODES:
        started[node] = brokers(*(broker.address for broker in started.values()), name=node, faults="")
    for broker in started.values():
        until(lambda broker=broker: len(broker.runtime.members) == len(NODES))
    lab, sockets = in_the_lab(), over_sockets(started)
    assert lab.keys() == sockets.keys()
    for to, by_publisher in lab.items():
        assert by_publisher == sockets[to], to
    kinds = {said[0] for by_publisher in lab.values() for came in by_publisher.values() for said in came}
    assert kinds == {"event", "left"}
