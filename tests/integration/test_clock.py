"""A logger that starts with a wrong wall clock deletes nothing by it, says so, and goes on when the clock is right."""

import asyncio
import json
import sqlite3
import time
import urllib.error
import urllib.request

import gossamer
from gossamer.broker import runtime as runtimes
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from processes import Processes, until

WEEK_S = 7 * 86_400
AHEAD_S = 8 * 86_400


def look(process, page="healthz"):
    try:
        with urllib.request.urlopen(f"{process.http}/{page}", timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def troubles(process):
    return [text for member in look(process)["members"] for text in member["trouble"]]


def knows(process, name):
    return any(member["node"] == name and member["status"] == "member" for member in look(process, "mesh")["members"])


def on_disk(path, stream):
    with sqlite3.connect(path) as store:
        return store.execute("SELECT SUM(last - first + 1) FROM packets WHERE stream = ?", (stream,)).fetchone()[0]


def collected(path, stream):
    with sqlite3.connect(path) as store:
        return store.execute("SELECT last FROM collected WHERE stream = ?", (stream,)).fetchone()


def test_a_logger_with_a_clock_eight_days_ahead_keeps_its_log(mesh: Processes) -> None:
    told = {"telemetry-interval-s": "0.2", "http": "127.0.0.1:0"}
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address, **told).ready()
    K = mesh.logger("K", address, expire=f"{WEEK_S}s", **told).ready()

    async def publish(count):
        async with gossamer.connect(b1.url) as client:
            await (await client.subscribe("n >= 0", durable="owed")).close()
            for n in range(count):
                await client.publish({"n": n})
            await client.flush("logged")
            return client.stream

    until(lambda: knows(b1, "K"), "b1 to know its logger")
    stream = asyncio.run(publish(20))
    path = mesh.folder / "K.db"
    K.kill()

    K = mesh.logger("K", address, expire=f"{WEEK_S}s", clock_ahead_s=AHEAD_S, **told).ready()
    until(lambda: any("ahead of that of b1" in text for text in troubles(K)), "K to say that its clock is wrong")
    # Rounds collect: the events of its new life show that they went on.
    later = asyncio.run(publish(5))
    until(lambda: on_disk(path, later) == 5, "K to log on")
    assert on_disk(path, stream) == 20
    assert collected(path, stream) is None
    assert "the clock is" in K.errors()
    K.kill()

    K = mesh.logger("K", address, expire=f"{WEEK_S}s", **told).ready()
    until(lambda: troubles(K) == [], "K to be healthy")

    async def read():
        async with gossamer.connect(b1.url) as client:
            sub = await client.subscribe("n >= 0", durable="owed")
            return [(await anext(sub)).attributes["n"] for _ in range(25)]

    assert asyncio.run(asyncio.wait_for(read(), 30)) == [*range(20), *range(5)]


def test_a_logger_confirms_its_absence_with_the_clock_of_another_machine(mesh: Processes, monkeypatch) -> None:
    """Its log goes when it is too old by two clocks."""
    short = {"expire_s": 3_600.0, "retain_s": 60.0}

    def opened(ahead_s):
        return Store(mesh.store_url("K"), clock_ns=lambda: time.time_ns() + int(ahead_s * 1e9))

    b1 = mesh.member("b1", telemetry_interval_s=0.2, config=short)
    K = mesh.member("K", b1.address, store=Writer(opened(-86_400.0)), config=short)
    until(lambda: b1.knows("b1", "K"), "b1 to know its logger")
    b1.publish(3)
    until(lambda: b1.acked.get(b1.stream) == 2, "K to log them")
    K.runtime.stop()
    writer = Writer(opened(0.0))
    L = mesh.member("K", b1.address, store=writer, config=short)
    until(lambda: "b1" in writer._clocks_off_s, "a sample of b1")
    assert writer.doubts_clock, "members of one machine have one clock"
    monkeypatch.setattr(runtimes, "CLOCK", "of another machine")
    until(lambda: not writer.doubts_clock, "b1 to confirm the clock")
    until(lambda: L.runtime.node.logger.collected(b1.stream, 0, 2) == [(0, 2)], "the events to go")
