"""A byte that the disk has changed: found by its checksum, and had again from the other logger."""

import asyncio
import sqlite3

import gossamer
from gossamer.messages.wire import Span
from processes import until


def flip(path, stream):
    """Change a byte of the row in the middle of a stream; returns its first seq."""
    with sqlite3.connect(path) as store:
        rows = store.execute("SELECT number, first, bytes FROM packets WHERE stream = ?", (stream,)).fetchall()
        number, first, data = rows[len(rows) // 2]
        store.execute("UPDATE packets SET bytes = ? WHERE number = ?", (data[:-1] + bytes([data[-1] ^ 1]), number))
    return first


def test_a_damaged_row_is_repaired_from_the_other_logger(mesh):
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    K, L = mesh.logger("K", address).ready(), mesh.logger("L", address).ready()

    async def publish():
        async with gossamer.connect(b1.url) as client:
            for n in range(50):
                await client.publish({"n": n}, ack="logged")
            return client.stream

    stream = asyncio.run(publish())
    whole = [Span(stream, ((0, 49),))]
    until(lambda: all(_count(mesh.folder / f"{name}.db", stream) == 50 for name in "KL"), "both to have it")
    K.terminate()
    first = flip(mesh.folder / "K.db", stream)
    mesh.logger("K", b1.address, mesh=mesh.address()).ready()
    L.kill()

    async def read(count):
        async with gossamer.connect(b1.url) as client:
            sub = await client.subscribe(start="all")
            return [(await anext(sub)).attributes["n"] for _ in range(count)]

    assert asyncio.run(asyncio.wait_for(read(first), 30)) == list(range(first)), "up to there it can be read"
    mesh.logger("L", b1.address, mesh=mesh.address()).ready()
    assert asyncio.run(asyncio.wait_for(read(50), 30)) == list(range(50)), "and then all of it"
    until(lambda: _intact(mesh, "K", whole), "K to have it again")


def _count(path, stream):
    with sqlite3.connect(path) as store:
        found = store.execute("SELECT SUM(last - first + 1) FROM packets WHERE stream = ?", (stream,)).fetchone()
    return found[0] or 0


def _intact(mesh, name, whole):
    with mesh.store(name, copy=f"copy-{name}") as store:
        return sum(packet.count for packet in store.load(whole)) == 50
