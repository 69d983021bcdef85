"""A broker that is cut off from its mesh sends its clients elsewhere; those that know no other broker stay."""

import asyncio
import os
import signal
from contextlib import contextmanager

import pytest

import gossamer
from clients import run
from processes import until


@contextmanager
def suspended(process):
    """For all that others can see, the network to this process is gone."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.fixture
def brokers(mesh):
    """A broker, the only other member of its mesh, and a broker in a mesh of its own."""
    b1 = mesh.broker("b1", mesh=mesh.address()).ready()
    logger = mesh.logger("L", b1.address).ready()
    return b1, logger, mesh.broker("elsewhere", mesh=mesh.address()).ready()


async def at(client, *nodes):
    while client._transport.node not in nodes or not client._transport._welcomed:
        await asyncio.sleep(0.01)


def test_clients_of_a_broker_that_is_cut_off_go_to_another_one(brokers):
    b1, logger, elsewhere = brokers

    async def main():
        async with gossamer.connect([b1.url, elsewhere.url]) as client, gossamer.connect(b1.url) as faithful:
            sub = await faithful.subscribe("")
            with suspended(logger):
                await at(client, "elsewhere")
                async with gossamer.connect([b1.url, elsewhere.url]) as late:
                    await at(late, "elsewhere")
                await faithful.publish({"n": 1}, ack="sent")
                assert (await anext(sub)).attributes == {"n": 1}
            await faithful.flush("logged")
            assert (faithful._transport.node, faithful._transport.reconnects) == ("b1", 0)
            until(lambda: "other members answer again" in b1.errors(), "the broker to find its mesh again")
            async with gossamer.connect([b1.url, elsewhere.url]) as later:
                await later.publish({"n": 2}, ack="logged")
                assert (later._transport.node, later._transport.reconnects) == ("b1", 0)

    run(main)


def test_a_client_that_finds_no_other_broker_comes_back_and_stays(brokers):
    b1, logger, elsewhere = brokers
    elsewhere.kill()

    async def main():
        async with gossamer.connect([b1.url, elsewhere.url]) as client:
            with suspended(logger):
                while client._transport.reconnects < 1 or not client._transport._welcomed:
                    await asyncio.sleep(0.01)
                await client.publish({"n": 1}, ack="sent")
            await client.flush("logged")
            assert (client._transport.node, client._transport.reconnects) == ("b1", 1)

    run(main)
