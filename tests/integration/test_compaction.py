"""`--compact`, with processes: who comes later ends in the right state, and is told why it did not get the rest."""

import asyncio

import gossamer
from gossamer.messages.wire import Span
from processes import until

KEYS, EVENTS = 10, 1_000


def left(mesh, stream):
    """What a store has of a stream, and of how many it says what they are obsolete for."""
    with mesh.store("L", copy="copy-L") as store:
        found = store.load([Span(stream, ((0, 10**6),))])
    events = [event.attributes["n"] for packet in found for event in packet.events()]
    return events, sum(packet.count - packet.present for packet in found)


def test_replay_after_compaction_ends_in_the_right_state(mesh):
    address = mesh.address()
    b1 = mesh.broker("b1", mesh=address).ready()
    mesh.compacting("L", address).ready()

    async def main():
        async with gossamer.connect(b1.url) as client:
            await client.publish({"logger": "met"}, ack="logged")
            away = await client.subscribe("n >= 0", durable="away")
            await away.close()
            publisher = await gossamer.connect(b1.url)
            for n in range(EVENTS):
                await publisher.publish({"n": n, "k": n % KEYS}, key=f"k{n % KEYS}")
            await publisher.flush("logged")
            stream = publisher.stream
            newest = list(range(EVENTS - KEYS, EVENTS))
            compacted = lambda: left(mesh, stream)[0] == newest  # noqa: E731
            await asyncio.to_thread(until, compacted, "all but the newest of each key to be dropped")
            assert left(mesh, stream) == (newest, EVENTS - KEYS), "each of the others has a mark"
            for options in ({"start": "all"}, {"durable": "away"}, {"start": "last_per_key"}):
                async with await client.subscribe("n >= 0", **options) as sub:
                    state = {}
                    while len(state) < KEYS or min(state.values()) < EVENTS - KEYS:
                        event = await anext(sub)
                        state[event.key] = event.attributes["n"]
                    assert state == {f"k{n % KEYS}": n for n in newest}
                    assert sub.stats.lost == 0
                    if "durable" in options:
                        assert sub.stats.delivered == KEYS
            await publisher.close()

    async def bounded():
        async with asyncio.timeout(120):
            await main()

    asyncio.run(bounded())
