"""What a logger's store takes: events logged and acknowledged, each on disk; derived into SQL beside it; read back.

Events have four attributes and are 100 bytes encoded; 64 make a packet, as a busy broker sends them. The clock is the
wall's: what counts here is waiting for a disk. Rates are told as µs an event, since a target is the most it should be.

JetStream and Redis streams are given the same 100 bytes a message where they are installed, each as fast as its own
client goes with many in flight, and told to sync what they acknowledge, as far as their versions can.
"""

import asyncio
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.bench.systems import free_port
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet, pack
from gossamer.protocol.inputs import Input, Persisted

NAME = "logging"
EVENTS = 64
STREAM = "default/~bench-1.0"
PERSIST_PACKETS = 8
IN_FLIGHT = 64
"""Requests that may wait for their acknowledgement."""
PAGE_BYTES = 2**20
IN_FLIGHT_PEERS = 256
START_S = 10.0


def model() -> Packet:
    contents = [
        Content(
            time_ns=1_794_000_000_000_000_000 + number,
            attributes={"type": "quote", "symbol": "IBM", "price": 101.5 + number, "volume": 1_000 + number},
            body=number.to_bytes(36, "big"),
        )
        for number in range(EVENTS)
    ]
    return pack(STREAM, 0, contents)


class Logging:
    """A writer at work, fed as a node would."""

    def __init__(self, url: str) -> None:
        self._model = model()
        self._next = 0
        self._token = 0
        self._room = threading.Semaphore(IN_FLIGHT)
        self._sent: dict[int, float] = {}
        self.latencies_s: list[float] = []
        self.store = Store(url)
        self.writer = Writer(self.store)
        self.writer.start(self._on_answer, "bench")

    @property
    def raw_bytes(self) -> int:
        return self._next // EVENTS * len(self._model.blob)

    def _on_answer(self, answer: Input) -> None:
        assert isinstance(answer, Persisted)
        self.latencies_s.append(time.perf_counter() - self._sent.pop(answer.token))
        self._room.release()

    def _persist(self, packets: tuple[Packet, ...]) -> None:
        self._room.acquire()
        self._token += 1
        self._sent[self._token] = time.perf_counter()
        self.writer.persist(self._token, packets)

    def _packets(self, count: int) -> tuple[Packet, ...]:
        packets = []
        for _ in range(count):
            packets.append(Packet(STREAM, self._next, self._model.sizes, self._model.blob))
            self._next += EVENTS
        return tuple(packets)

    def flat_out(self, events: int) -> tuple[float, float]:
        """Log so many; returns the seconds until all were acknowledged, and how many were derived meanwhile."""
        batches = [self._packets(PERSIST_PACKETS) for _ in range(events // EVENTS // PERSIST_PACKETS)]
        derived = self.writer.keeper.deriving.events
        began = time.perf_counter()
        for batch in batches:
            self._persist(batch)
        for _ in range(IN_FLIGHT):
            self._room.acquire()
        took_s = time.perf_counter() - began
        self._room.release(IN_FLIGHT)
        return took_s, self.writer.keeper.deriving.events - derived

    def at_rate(self, events_per_s: int, seconds: float) -> float:
        """The median latency of acknowledgements at an even rate, in seconds."""
        self.latencies_s.clear()
        packets = int(events_per_s * seconds) // EVENTS
        began = time.perf_counter()
        for number in range(packets):
            due = began + number * EVENTS / events_per_s
            while (left_s := due - time.perf_counter()) > 0:
                time.sleep(left_s)
            self._persist(self._packets(1))
        for _ in range(IN_FLIGHT):
            self._room.acquire()
        self._room.release(IN_FLIGHT)
        return sorted(self.latencies_s)[len(self.latencies_s) // 2]

    def derive(self) -> float:
        """Seconds until everything is derived that was logged."""
        began = time.perf_counter()
        while self.writer.keeper.deriving.events < self._next:
            if self.writer.keeper.trouble is not None:
                raise RuntimeError(self.writer.keeper.trouble)
            time.sleep(0.01)
        return time.perf_counter() - began

    def replay(self) -> float:
        """Seconds to read all of it back, decoded."""
        began = time.perf_counter()
        cursor, end, events = 0, False, 0
        while not end:
            page = self.store.page(cursor, PAGE_BYTES)
            cursor, end = page.last, page.end
            events += sum(len(packet.events()) for _, _, packet in page.rows)
        assert events == self._next, (events, self._next)
        return time.perf_counter() - began

    def close(self) -> None:
        self.writer.close()


def _measured(name: str, url: str, events: int, seconds: float, logged_us: float | None) -> Iterator[Row]:
    logging = Logging(url)
    logging.flat_out(EVENTS * PERSIST_PACKETS * 16)
    began_s = time.process_time()
    took_s, derived = logging.flat_out(events)
    busy_s = time.process_time() - began_s
    yield Row(NAME, f"{name}: log and acknowledge", 1e6 * took_s / events, "µs an event", logged_us)
    limit_us = 1e6 / 60_000 if name == "SQLite" else None
    yield Row(NAME, f"{name}: derive beside it", 1e6 * took_s / max(derived, 1), "µs an event", limit_us)
    yield Row(NAME, f"{name}: both, this process's processor time", 1e6 * busy_s / events, "µs an event")
    began_s = time.process_time()
    logging.derive()
    busy_s = time.process_time() - began_s
    left = max(events - derived, 1)
    yield Row(NAME, f"{name}: derive alone, processor time", 1e6 * busy_s / left, "µs an event")
    limit_ms = 10 if name == "SQLite" else None
    yield Row(
        NAME, f"{name}: acknowledged, 10,000 events/s, median", 1e3 * logging.at_rate(10_000, seconds), "ms", limit_ms
    )
    logging.derive()
    limit_us = 1e6 / 300_000 if name == "SQLite" else None
    yield Row(NAME, f"{name}: replay", 1e6 * logging.replay() / logging._next, "µs an event", limit_us)
    raw_bytes = logging.raw_bytes
    logging.close()
    if name == "SQLite":
        folder = Path(url.removeprefix("sqlite:///")).parent
        size = sum(path.stat().st_size for path in folder.iterdir())
        yield Row(NAME, f"{name}: on disk, of the raw events", size / raw_bytes, "×", 4)


def rows(quick: bool = False) -> Iterator[Row]:
    events, seconds, others = (20_000, 0.3, 2_000) if quick else (2_000_000, 5.0, 100_000)
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir=".") as folder:
        yield from _measured("SQLite", f"sqlite:///{Path(folder).absolute()}/log.db", events, seconds, 1e6 / 300_000)
    with _postgres() as url:
        if url is not None:
            yield from _measured("PostgreSQL", url, events // 2, seconds, 1e6 / 50_000)
    for name, cost_us in (("JetStream", _jetstream(others)), ("Redis streams", _redis(others))):
        if cost_us is not None:
            yield Row(NAME, f"{name}: publish and acknowledge", cost_us, "µs an event")


# Others ---------------------------------------------------------------------------------------------------------------


def _found(program: str) -> str | None:
    return shutil.which(program, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/usr/local/sbin")


@contextmanager
def _served(command: list[str], user: str | None = None, **options: Any) -> Iterator[None]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, **options)
    try:
        yield
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def _postgres() -> Iterator[str | None]:
    """A private server with its defaults, fsync among them."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    initdb = shutil.which("initdb") or (str(binaries[-1] / "initdb") if binaries else None)
    if initdb is None or find_spec("psycopg") is None:
        print("PostgreSQL is not measured: it needs initdb, postgres and psycopg", file=sys.stderr)
        yield None
        return
    import psycopg

    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir="/tmp") as folder:
        user = "nobody" if Path(folder).owner() == "root" else None  # PostgreSQL refuses to be root
        if user is not None:
            shutil.chown(folder, user)
        setup = [initdb, "-D", "data", "-U", "gossamer", "-A", "trust", "-E", "UTF8", "--locale=C"]
        subprocess.run(setup, cwd=folder, user=user, check=True, capture_output=True)
        postgres = shutil.which("postgres") or str(Path(initdb).with_name("postgres"))
        where = f"host={folder} user=gossamer dbname=postgres"
        with _served([postgres, "-D", "data", "-k", folder, "-c", "listen_addresses="], user, cwd=folder):
            _wait_for(lambda: psycopg.connect(where).close())
            yield f"postgresql://gossamer@/postgres?host={folder}"


def _jetstream(count: int) -> float | None:
    server = _found("nats-server")
    if server is None or find_spec("nats") is None:
        print("JetStream is not measured: it needs nats-server and nats-py", file=sys.stderr)
        return None
    nats = import_module("nats")
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir=".") as folder:
        port = free_port()
        # `sync_interval: always` is known from 2.10 on; before that it syncs now and then, and acknowledges before.
        config = Path(folder).absolute() / "nats.conf"
        store = f'jetstream {{ store_dir: "{config.parent}", sync_interval: always }}'
        for text in (store, store.replace(", sync_interval: always", "")):
            config.write_text(f"listen: 127.0.0.1:{port}\n{text}\n")
            if subprocess.run([server, "-c", str(config), "-t"], capture_output=True, check=False).returncode == 0:
                break
        if text != store:
            print("JetStream: this nats-server cannot sync each message; it is measured without", file=sys.stderr)

        async def publish() -> float:
            connection = await nats.connect(f"nats://127.0.0.1:{port}")
            stream = connection.jetstream()
            await stream.add_stream(name="bench", subjects=["bench"])
            room = asyncio.Semaphore(IN_FLIGHT_PEERS)

            async def one() -> None:
                await stream.publish("bench", bytes(100))
                room.release()

            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(count):
                    await room.acquire()
                    tasks.create_task(one())
            took_s = time.perf_counter() - began
            await connection.close()
            return took_s

        with _served([server, "-c", str(config)]):
            _wait_for(lambda: socket.create_connection(("127.0.0.1", port)).close())
            return 1e6 * asyncio.run(publish()) / count


def _redis(count: int) -> float | None:
    server = _found("redis-server")
    if server is None or find_spec("redis") is None:
        print("Redis streams are not measured: they need redis-server and redis-py", file=sys.stderr)
        return None
    redis = import_module("redis")
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir=".") as folder:
        port = free_port()
        settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(Path(folder).absolute())]
        with _served([server, *settings, "--appendonly", "yes", "--appendfsync", "always"]):
            client = redis.Redis(port=port)
            _wait_for(client.ping)
            fields = {"type": "quote", "symbol": "IBM", "price": "101.5", "volume": "1000", "body": bytes(60)}
            began = time.perf_counter()
            for _ in range(count // IN_FLIGHT_PEERS):
                pipeline = client.pipeline(transaction=False)
                for _ in range(IN_FLIGHT_PEERS):
                    pipeline.xadd("bench", fields)
                pipeline.execute()
            took_s = time.perf_counter() - began
            client.close()
            return 1e6 * took_s / (count // IN_FLIGHT_PEERS * IN_FLIGHT_PEERS)


def _wait_for(attempt: Any) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            attempt()
            return
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
