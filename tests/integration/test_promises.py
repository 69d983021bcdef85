"""What design §5 promises to publishers and subscribers, where it is hard: under loss, partition, kills and crowds."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import gossamer
from clients import run, seqs, take, two, wait_for_members
from gossamer.broker.deliveries import Deliveries
from gossamer.broker.faults import Faults, parse_faults
from gossamer.messages.wire import Span
from processes import until

CLIENT = Path(__file__).with_name("client.py")
BAD = "loss=0.2,delay=5ms,duplicate=0.05"


def members(*brokers):
    names = {broker.runtime.name for broker in brokers}
    for broker in brokers:
        known = broker.runtime
        until(lambda known=known: {each.node for each in known.members if each.status == "member"} >= names)


def test_a_mesh_that_loses_a_fifth_delivers_everything_once_and_in_order(mesh):
    b1 = mesh.broker("b1", faults=f"{BAD},seed=1").ready()
    b2 = mesh.broker("b2", b1.address, faults=f"{BAD},seed=2").ready()
    b3 = mesh.broker("b3", b1.address, faults=f"{BAD},seed=3").ready()
    mesh.logger("L", b1.address, faults=f"{BAD},seed=4").ready()
    wait_for_members(b1)
    count = 3_000

    async def main():
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(gossamer.connect(each.url)) for each in (b1, b2, b3)]
            subs = [await client.subscribe("n >= 0", policy="none") for client in clients]

            async def publish(client):
                for n in range(count):
                    await client.publish({"n": n})
                    if not n % 20:
                        await asyncio.sleep(0.001)  # many packets, of which every fifth is lost

            publishing = [asyncio.create_task(publish(client)) for client in clients]
            for sub in subs:
                found = await take(sub, 3 * count)
                for client in clients:
                    assert [event.id.seq for event in found if event.id.stream == client.stream] == list(range(count))
                assert (sub.stats.lost, sub.stats.obsoleted) == (0, 0)
            await asyncio.gather(*publishing)
            for client in clients:
                await client.flush("logged")

    run(main, patience_s=60)


# Who is slow, or gone -------------------------------------------------------------------------------------------------


def test_one_that_stands_still_costs_the_others_nothing_and_the_broker_no_more_than_its_bounds(brokers, mesh):
    broker = brokers(window_bytes=200_000)
    broker.clients.deliveries.catching_up.log_bytes_max = bound = 1_000_000
    still = mesh.script(CLIENT, broker.url, "n >= 0").ready()
    os.kill(still.pid, signal.SIGSTOP)  # it keeps its connection, and takes nothing
    count, body = 6_000, bytes(1_000)
    try:

        async def main():
            async with two(broker.url, broker.url) as (publisher, other):
                sub = await other.subscribe("n >= 0 AND \"from\" = 'test'", policy="none")
                for first in range(0, count, 200):
                    for n in range(first, first + 200):  # half of it can be left out, half of it has to be kept
                        await publisher.publish({"from": "test", "n": n}, body, key=f"k{n % 10}" if n % 2 else None)
                    assert seqs(await take(sub, 200)) == list(range(first, first + 200))
                assert (sub.stats.lost, sub.stats.obsoleted) == (0, 0)

        run(main, patience_s=30)
        deliveries: Deliveries = broker.clients.deliveries
        until(lambda: len(deliveries.subscribers) == 1, "the broker to take the others' leave")
        (left,) = deliveries.subscribers.values()
        assert left.outlet.sent_bytes - left.outlet.taken_bytes < 2 * 200_000
        assert len(left.feed) <= 1_024 + 1
        assert deliveries._groups["default"].log_bytes <= bound
    finally:
        os.kill(still.pid, signal.SIGCONT)


def test_a_client_that_is_killed_leaves_nothing_behind(brokers, mesh):
    broker = brokers(silence_s=1.0, return_s=1.0)
    child = mesh.script(CLIENT, broker.url, "n > 0").ready()
    stream = child.address

    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("\"from\" = 'child'")
            await take(sub, 100)
            assert len(broker.clients.deliveries.subscribers) == 2
            child.kill()
            while len(broker.clients.deliveries.subscribers) > 1:
                await asyncio.sleep(0.01)
            while stream in broker.runtime.node.sender.streams or stream in broker.clients._forsaken:
                await asyncio.sleep(0.01)
            await client.publish({"from": "child", "n": -1})
            while (await anext(sub)).attributes["n"] != -1:
                pass

    run(main)


def test_a_client_that_ends_without_a_word_leaves_nothing_behind(brokers, mesh):
    broker = brokers(silence_s=1.0, return_s=1.0)
    script = mesh.folder / "rude.py"
    script.write_text(
        "import asyncio, json, sys, gossamer\n"
        "async def main():\n"
        "    client = await gossamer.connect(sys.argv[1])\n"
        "    await client.subscribe('')\n"
        "    await client.publish({'n': 1}, ack='sent')\n"
        "    print(json.dumps({'node': '', 'mesh': ''}), flush=True)\n"
        "asyncio.run(main())\n"
    )
    child = mesh.script(script, broker.url).ready()
    until(lambda: not child.alive(), "a process that did not close its client to end")
    assert child.errors() == ""
    until(lambda: not broker.clients.deliveries.subscribers, "its subscription to be gone")


# Partitions -----------------------------------------------------------------------------------------------------------


def test_both_sides_of_a_partition_go_on_and_have_everything_when_it_heals(brokers):
    first = brokers(name="b1", faults="")
    second = brokers(first.address, name="b2", faults="")
    third = brokers(first.address, name="b3", faults="")
    members(first, second, third)
    every = (first, second, third)

    async def main():
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(gossamer.connect(each.url)) for each in every]
            subs = [await client.subscribe("n >= 0") for client in clients]
            for client in clients:
                await client.publish({"n": 0}, ack="sent")
            assert [seqs(await take(sub, 3)) for sub in subs] == [[0] * 3] * 3
            for broker in every:
                broker.runtime.faulty.faults = parse_faults("partition=b1|b2,b3")
            for n in range(1, 101):
                for client in clients:
                    await client.publish({"n": n}, ack="sent")
            here, there, yonder = clients
            alone = await take(subs[0], 100)
            assert {event.id.stream for event in alone} == {here.stream}
            for sub in subs[1:]:
                found = await take(sub, 200)
                assert {event.id.stream for event in found} == {there.stream, yonder.stream}
            for broker in every:
                broker.runtime.faulty.faults = Faults()
            for sub, missed in zip(subs, ((there, yonder), (here,), (here,)), strict=True):
                found = await take(sub, 100 * len(missed))
                for client in missed:
                    own = [event for event in found if event.id.stream == client.stream]
                    assert seqs(own) == list(range(1, 101))
            for client in clients:
                await client.publish({"n": 101})
            assert [sorted(seqs(await take(sub, 3))) for sub in subs] == [[101] * 3] * 3
            assert [sub.stats.lost for sub in subs] == [0, 0, 0]

    run(main, patience_s=60)


# Many, and large ------------------------------------------------------------------------------------------------------


def test_two_hundred_clients_on_one_broker(broker):
    count = 200

    async def main():
        async with AsyncExitStack() as stack:
            connecting = (stack.enter_async_context(gossamer.connect(broker.url, timeout=30)) for _ in range(count))
            clients = await asyncio.gather(*connecting)
            subs = await asyncio.gather(
                *(client.subscribe(f"odd = {n % 2}" if n % 4 else "") for n, client in enumerate(clients))
            )
            for n, client in enumerate(clients):
                await client.publish({"n": n, "odd": n % 2})
            for n, sub in enumerate(subs):
                wanted = [each for each in range(count) if not n % 4 or each % 2 == n % 2]
                assert sorted(seqs(await take(sub, len(wanted)))) == wanted
            assert len(broker.clients._sessions) == count
        until(lambda: not broker.clients._sessions, "all of them to have said goodbye")

    run(main, patience_s=60)


def test_large_bodies_cross_the_mesh_and_are_on_disk(mesh):
    b1 = mesh.broker("b1").ready()
    b2 = mesh.broker("b2", b1.address).ready()
    mesh.logger("L", b1.address).ready()
    wait_for_members(b1)
    wait_for_members(b2)
    bodies = [os.urandom(size) for size in [64 * 1024] * 50 + [4 * 2**20] * 3 + [0, 1]]

    async def main():
        async with two(b1.url, b2.url) as (publisher, subscriber):
            sub = await subscriber.subscribe("n >= 0")
            for n, body in enumerate(bodies):
                await publisher.publish({"n": n}, body)
            assert [event.body for event in await take(sub, len(bodies))] == bodies
            await publisher.flush("logged")
            assert publisher.pending == 0
            return publisher.stream

    stream = run(main, patience_s=60)
    with mesh.store("L", copy="L2") as store:
        packets = store.load([Span(stream, ((0, len(bodies) - 1),))])
        assert [event.body for packet in packets for event in packet.events()] == bodies
