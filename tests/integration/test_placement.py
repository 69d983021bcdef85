"""`--replicas`: each stream is kept by some loggers, and moves as loggers come and go; nothing is lost by it."""

import asyncio

import gossamer
from gossamer.messages.wire import Span
from gossamer.protocol.placement import ranked
from processes import until

EVENTS = 300


def kept(mesh, name, streams):
    """Which of these streams a store has, each whole and once."""
    found = {}
    with mesh.store(name, copy=f"copy-{name}") as store:
        for stream in streams:
            numbers = [e.attributes["n"] for p in store.load([Span(stream, ((0, 10**6),))]) for e in p.events()]
            assert numbers == sorted(set(numbers))
            if len(numbers) == EVENTS:
                found[stream] = None
            elif numbers:
                found[stream] = len(numbers)
    return found


def placed(mesh, loggers, streams, replicas):
    """Whether each stream is on the disks of those that are to keep it, and on no other."""
    wanted = {stream: set(ranked(stream, loggers)[:replicas]) for stream in streams}
    return all(
        kept(mesh, name, streams) == {stream: None for stream in streams if name in wanted[stream]} for name in loggers
    )


async def everything(url, count):
    async with gossamer.connect(url) as client:
        found = []
        async with await client.subscribe("n >= 0", start="all") as sub:
            async for event in sub:
                found.append((event.id.stream, event.attributes["n"]))
                if len(found) == count:
                    break
        return found


def test_streams_move_as_loggers_come_and_go(mesh):
    settings = mesh.folder / "gossamer.toml"
    settings.write_text(settings.read_text() + "loggers_min = 2\n")
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address, replicas="2").ready()
    loggers = {name: mesh.logger(name, address, replicas="2").ready() for name in ("K", "L", "M")}

    async def main():
        clients = [await gossamer.connect(b1.url) for _ in range(6)]
        for client in clients:
            for n in range(EVENTS):
                await client.publish({"n": n})
        for client in clients:
            await client.flush("logged")
        streams = [client.stream for client in clients]
        expected = sorted((stream, n) for stream in streams for n in range(EVENTS))

        def settled(names):
            return asyncio.to_thread(until, lambda: placed(mesh, names, streams, 2), f"two of {names} to have each")

        await settled(["K", "L", "M"])
        assert sorted(await everything(b1.url, len(expected))) == expected
        loggers["K"].kill()  # of each stream there is another
        assert sorted(await everything(b1.url, len(expected))) == expected
        loggers["K"] = mesh.logger("K", address, replicas="2").ready()
        loggers["N"] = mesh.logger("N", address, replicas="2").ready()
        await settled(["K", "L", "M", "N"])
        assert sorted(await everything(b1.url, len(expected))) == expected
        loggers["L"].terminate()
        leaving = mesh.leave("L", address, replicas="2")
        await asyncio.to_thread(until, lambda: not leaving.alive(), "L to have left")
        assert leaving.terminate() == 0, leaving.errors()
        await settled(["K", "M", "N"])
        assert sorted(await everything(b1.url, len(expected))) == expected
        for client in clients:
            await client.close()

    asyncio.run(main())


def test_a_logger_leaves_when_another_has_what_it_alone_acknowledged(mesh):
    """Also where each logger keeps everything."""
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    last = mesh.logger("L", address).ready()

    async def main():
        client = await gossamer.connect(b1.url)
        for n in range(EVENTS):
            await client.publish({"n": n})
        await client.flush("logged")
        last.terminate()
        leaving = mesh.leave("L", address)
        await asyncio.to_thread(until, lambda: "is to leave, and waits for more loggers" in leaving.errors(), "a word")
        assert leaving.alive()
        mesh.logger("K", address).ready()
        await asyncio.to_thread(until, lambda: not leaving.alive(), "L to have left")
        assert leaving.terminate() == 0, leaving.errors()
        assert kept(mesh, "K", [client.stream]) == {client.stream: None}
        assert len(await everything(b1.url, EVENTS)) == EVENTS
        await client.close()

    asyncio.run(main())
