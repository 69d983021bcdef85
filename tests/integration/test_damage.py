"""Damage to a store, of a byte or of all of it: found, told, and repaired from the other logger."""

import asyncio
import json
import sqlite3
import urllib.error
import urllib.request

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


def _look(process):
    try:
        with urllib.request.urlopen(f"{process.http}/healthz", timeout=5) as answer:
            return 200, json.load(answer)["members"][0]["trouble"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["members"][0]["trouble"]


def _delete(path):
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def test_a_deleted_store_is_trouble_until_the_other_logger_has_repaired_it(mesh):
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    K, L = mesh.logger("K", address).ready(), mesh.logger("L", address).ready()

    async def publish():
        async with gossamer.connect(b1.url) as client:
            for n in range(50):
                await client.publish({"n": n}, ack="logged")
            return client.stream

    stream = asyncio.run(publish())
    path = mesh.folder / "K.db"
    until(lambda: all(_count(mesh.folder / f"{name}.db", stream) == 50 for name in "KL"), "both to have it")
    K.terminate()
    L.terminate()
    _delete(path)

    K = mesh.logger("K", b1.address, http="127.0.0.1:0").ready()
    assert "has lost packets" in K.errors()
    code, trouble = _look(K)
    assert code == 503, "nobody can repair it yet"
    assert any("--accept-loss" in text for text in trouble)
    mesh.logger("L", b1.address).ready()
    until(lambda: _look(K) == (200, []), "K to be repaired")
    assert _count(path, stream) == 50
    until(lambda: "is repaired" in K.errors(), "K to say so")


def test_a_logger_alone_that_lost_its_store_goes_on_when_the_loss_is_accepted(mesh):
    K = mesh.logger("K", http="127.0.0.1:0").ready()
    until(lambda: b'"number":0' not in (mesh.folder / "K.db.position").read_bytes(), "K to have logged something")
    K.kill()
    _delete(mesh.folder / "K.db")
    K = mesh.logger("K", http="127.0.0.1:0").ready()
    assert _look(K)[0] == 503
    K.terminate()
    K = mesh.logger("K", None, 0, "--accept-loss", http="127.0.0.1:0").ready()
    assert _look(K) == (200, [])
