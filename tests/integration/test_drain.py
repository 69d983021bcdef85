"""SIGTERM: a broker sends its clients elsewhere, gives what it has to the others, leaves, and ends with 0."""

import asyncio
import json

import gossamer
from processes import until


def events(process, name: str) -> list[dict]:
    told = [json.loads(line) for line in process.errors().splitlines()]
    return [line for line in told if line.get("event") == name]


def test_a_broker_that_is_asked_to_end_hands_its_clients_over(mesh):
    logs = {"log-format": "json", "telemetry-interval-s": "0.2"}
    b1 = mesh.broker("b1", **logs).ready()
    b2 = mesh.broker("b2", b1.address, **logs).ready()
    mesh.logger("L", b1.address, **logs).ready()

    async def main():
        async with (
            asyncio.timeout(40),
            gossamer.connect([b1.url, b2.url]) as publisher,
            gossamer.connect([b1.url, b2.url]) as consumer,
        ):
            assert (publisher.node, consumer.node) == ("b1", "b1")
            sub = await consumer.subscribe("n >= 0")
            for n in range(200):
                await publisher.publish({"n": n})
                if n == 100:
                    ended = asyncio.create_task(asyncio.to_thread(b1.terminate))
                await asyncio.sleep(0.001)
            assert await ended == 0
            for n in range(200, 300):
                await publisher.publish({"n": n})
            await publisher.flush("logged", 20)
            assert [(await anext(sub)).attributes["n"] for _ in range(300)] == list(range(300))
            assert (publisher.node, consumer.node) == ("b2", "b2")
            assert sub.stats.lost == 0

    asyncio.run(main())
    assert [line["status"] for line in events(b1, "status")] == ["member", "leaving", "outside"]
    assert len(events(b2, "client-in")) == 2
    until(lambda: len(events(b2, "client-out")) == 2)
    left = [line for line in events(b2, "member") if line["node"] == "b1"]
    assert [line["status"] for line in left] == ["member", "left"]
