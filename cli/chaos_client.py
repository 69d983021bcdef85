"""A client of `gossamer chaos`, as a process: `python -m gossamer.cli.chaos_client JSON`. SIGTERM ends it in order."""

import asyncio
import contextlib
import logging
import math
import random
import signal
import sys
import time
from collections import deque

import msgspec

from gossamer.lab.chaos.records import (
    Accepted,
    Began,
    Client,
    Counted,
    Delivered,
    Ended,
    Failed,
    Intended,
    Logged,
    Missed,
    Recorder,
    Spec,
    Spooled,
    body_of,
    digest_of,
    key_of,
)
from gossamer.messages.errors import GossamerError
from gossamer.messages.event import Event
from gossamer.sdk.client import Client as Connected
from gossamer.sdk.connecting import connect
from gossamer.sdk.subscription import Gap, Subscription

CONNECT_S = 30.0
ACK_S = 120.0
LIFE = 10_000_000
"""Numbers per life of a publisher: a number is never published twice."""
BURSTS = (1, 1, 2, 4, 16)


def now() -> float:
    return time.monotonic()


async def publish(client: Client, stop: asyncio.Event) -> None:
    """Publish in bursts and wait until each is logged; at the end one event that nothing makes obsolete."""
    spec, recorder = client.spec, Recorder(client.path)
    rng = random.Random(f"{client.seed}/{spec.name}/{client.life}")
    name = spec.name if spec.named else None
    n, ended, urls = client.life * LIFE, False, deque(client.urls)
    while not ended:
        try:
            async with connect(tuple(urls), timeout=CONNECT_S, publisher=name, spool=spec.spool) as connected:
                recorder.write(Began(now(), client.life))
                urls.rotate(-1)
                until = math.inf if spec.stay_s is None else now() + spec.stay_s
                while not ended and now() < until:
                    ended = stop.is_set()
                    began, burst = now(), rng.choice(BURSTS)
                    if ended:
                        n, burst = (n // 4 + 1) * 4, 1
                    await _burst(spec, connected, recorder, range(n, n + burst))
                    n += burst
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), max(0.001, began + burst / spec.rate - now()))
            recorder.write(Ended(now()))
        except GossamerError as error:
            recorder.write(Failed(now(), f"{type(error).__name__}: {error}"))
            n, ended = (n // 100 + 1) * 100, stop.is_set()


async def _burst(spec: Spec, connected: Connected, recorder: Recorder, numbers: range) -> None:
    name = spec.name
    recorder.write(*(Intended(now(), n) for n in numbers))
    for n in numbers:
        event_id = await connected.publish({"p": name, "n": n}, body_of(name, n), key=key_of(name, n))
        recorder.write(Accepted(now(), n, event_id.stream, event_id.seq))
    if spec.spool is not None:
        await connected.flush("sent", timeout=ACK_S)
        recorder.write(*(Spooled(now(), n) for n in numbers))
    await connected.flush("logged", timeout=ACK_S)
    at = now()
    recorder.write(*(Logged(at, n) for n in numbers))


async def subscribe(client: Client, stop: asyncio.Event) -> None:
    """Record every delivery and gap; at the end the counters."""
    spec, recorder = client.spec, Recorder(client.path)
    while not stop.is_set():
        try:
            async with connect(client.urls, timeout=CONNECT_S) as connected:
                sub = await connected.subscribe(
                    "p IS NOT NULL",
                    policy=spec.policy,
                    start=spec.start,
                    durable=spec.durable,
                    notices=True,
                )
                recorder.write(Began(now(), client.life))
                reading = asyncio.create_task(_read(sub, recorder, spec.delay_s))
                stopping = asyncio.create_task(stop.wait())
                await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    stopping.cancel()
                    await reading
                reading.cancel()  # first: later events would be delivered to nobody
                await asyncio.gather(reading, return_exceptions=True)
                stats = sub.stats
                waiting = getattr(stats, "waiting", 0)
                recorder.write(Counted(now(), stats.delivered, stats.obsoleted, stats.lost, waiting))
                await sub.close()
            recorder.write(Ended(now()))
        except GossamerError as error:
            recorder.write(Failed(now(), f"{type(error).__name__}: {error}"))


async def _read(sub: Subscription, recorder: Recorder, delay_s: float) -> None:
    async for said in sub:
        if isinstance(said, Event):
            publisher, n = said.attributes["p"], said.attributes["n"]
            assert isinstance(publisher, str)
            assert isinstance(n, int)
            assert said.id is not None
            digest = digest_of(said.body)
            recorder.write(Delivered(now(), said.id.stream, said.id.seq, publisher, n, said.key, digest))
            if delay_s:
                await asyncio.sleep(delay_s)
        elif isinstance(said, Gap):
            recorder.write(Missed(now(), said.stream, said.first, said.last, said.reason))


async def run(client: Client) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await (publish if client.spec.role == "publisher" else subscribe)(client, stop)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Client)))
