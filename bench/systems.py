"""How one publishes and subscribes with each of the systems that are compared, as its own documentation shows.

Every message has a body of 100 bytes. Gossamer's have four attributes besides, and its broker matches a selector; the
others carry the body alone, and match the name of a subject.
"""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

BODY_BYTES = 100
BODY = bytes(range(BODY_BYTES))
SUBJECT = "quotes"
SELECTOR = "type = 'quote' AND price > 50"
SYMBOLS = ("IBM", "MSFT", "AAPL", "NVDA")
PIPELINE = 128

Take = Callable[[bytes], None]
"""What a subscriber does with each message."""


class System(Protocol):
    """One that is measured; each side is a process of its own, and so is the server."""

    def lacks(self) -> str | None:
        """What has to be installed, if it is not there."""

    def server(self, port: int, folder: Path) -> list[str]:
        """The command that serves on this port."""

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        """Take whatever comes, for ever."""

    async def publisher(self, url: str) -> "Publisher": ...


class Publisher(Protocol):
    async def burst(self, count: int, logged: bool = False) -> None:
        """As many as fast as it goes; returns when they are on their way, or on a disk."""

    async def one(self, body: bytes) -> None: ...


def free_port() -> int:
    """One that is free, and so is the next."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server, suppress(OSError):
            port: int = server.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)):
                return port


def _missing(module: str, package: str, program: str | None = None) -> str | None:
    lacking = [] if find_spec(module) else [f"pip install {package}"]
    if program is not None and shutil.which(program, path=_path()) is None:
        lacking.append(f"the program {program}")
    return " and ".join(lacking) or None


def _path() -> str:
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin"


def _program(name: str) -> str:
    return shutil.which(name, path=_path()) or name


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# Gossamer -------------------------------------------------------------------------------------------------------------


class Gossamer:
    command = _python("from gossamer.cli.main import main; main()")

    def __init__(self, attributes: bool = False) -> None:
        """Whether its subscriber looks at the attributes, too, which are decoded only then."""
        self._attributes = attributes

    def lacks(self) -> None:
        return None

    def broker(self, port: int) -> list[str]:
        return [*self.command, "broker", "--listen", f"tcp://127.0.0.1:{port}"]

    def server(self, port: int, folder: Path) -> list[str]:  # noqa: ARG002
        return [*self.broker(port), "--mesh", "tcp://127.0.0.1:0"]

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        import gossamer

        async with gossamer.connect(url) as client:
            sub = await client.subscribe(SELECTOR)
            ready()
            if self._attributes:
                async for event in sub:
                    _ = event.attributes  # type: ignore[union-attr]  # there are no notices unless one asks for them
                    take(event.body)  # type: ignore[union-attr]
            async for event in sub:
                take(event.body)  # type: ignore[union-attr]

    async def publisher(self, url: str) -> "GossamerPublisher":
        import gossamer

        return GossamerPublisher(await gossamer.connect(url))


class GossamerPublisher:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def burst(self, count: int, logged: bool = False) -> None:
        import gossamer

        publish_nowait, publish = self._client.publish_nowait, self._client.publish
        for number in range(count):
            attributes = {
                "type": "quote",
                "symbol": SYMBOLS[number & 3],
                "price": 100.0 + (number & 63),
                "volume": number,
            }
            try:
                publish_nowait(attributes, BODY)
            except gossamer.BufferFull:
                await publish(attributes, BODY)
        await self._client.flush("logged" if logged else "sent")

    async def one(self, body: bytes) -> None:
        await self._client.publish({"type": "quote", "symbol": "IBM", "price": 101.5, "volume": 300}, body)


# NATS -----------------------------------------------------------------------------------------------------------------


class Nats:
    def lacks(self) -> str | None:
        return _missing("nats", "nats-py", "nats-server")

    def server(self, port: int, folder: Path) -> list[str]:  # noqa: ARG002
        return [_program("nats-server"), "-a", "127.0.0.1", "-p", str(port)]

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        nats = import_module("nats")
        connection = await nats.connect(url.replace("tcp", "nats"))

        async def on_message(message: Any) -> None:
            take(message.data)

        await connection.subscribe(SUBJECT, cb=on_message, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await connection.flush()
        ready()
        await asyncio.Event().wait()

    async def publisher(self, url: str) -> "NatsPublisher":
        nats = import_module("nats")
        return NatsPublisher(await nats.connect(url.replace("tcp", "nats")))


class NatsPublisher:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def burst(self, count: int, __: bool = False) -> None:
        publish = self._connection.publish
        for _ in range(count):
            await publish(SUBJECT, BODY)
        await self._connection.flush(60)

    async def one(self, body: bytes) -> None:
        await self._connection.publish(SUBJECT, body)


# Redis ----------------------------------------------------------------------------------------------------------------


class Redis:
    def lacks(self) -> str | None:
        return _missing("redis", "redis", "redis-server")

    def server(self, port: int, folder: Path) -> list[str]:
        limit = ["--client-output-buffer-limit", "pubsub 0 0 0"]
        return [
            _program("redis-server"), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no",
            "--dir", str(folder), *limit,
        ]  # fmt: skip

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        redis = import_module("redis")
        subscription = redis.Redis.from_url(url.replace("tcp", "redis")).pubsub(ignore_subscribe_messages=True)
        subscription.subscribe(SUBJECT)
        ready()
        for message in subscription.listen():
            take(message["data"])

    async def publisher(self, url: str) -> "RedisPublisher":
        redis = import_module("redis")
        return RedisPublisher(redis.Redis.from_url(url.replace("tcp", "redis")))


class RedisPublisher:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def burst(self, count: int, __: bool = False) -> None:
        for at in range(0, count, PIPELINE):  # one at a time each would wait for its answer
            pipeline = self._client.pipeline(transaction=False)
            for _ in range(min(PIPELINE, count - at)):
                pipeline.publish(SUBJECT, BODY)
            pipeline.execute()

    async def one(self, body: bytes) -> None:
        self._client.publish(SUBJECT, body)


# MQTT -----------------------------------------------------------------------------------------------------------------


class Mqtt:
    def lacks(self) -> str | None:
        return _missing("paho", "paho-mqtt", "mosquitto")

    def server(self, port: int, folder: Path) -> list[str]:
        config = folder / "mosquitto.conf"
        config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        return [_program("mosquitto"), "-c", str(config)]

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        client = _mqtt(url)
        client.on_message = lambda _, __, message: take(message.payload)
        client.on_subscribe = lambda *_: ready()
        client.subscribe(SUBJECT)
        client.loop_forever()

    async def publisher(self, url: str) -> "MqttPublisher":
        client = _mqtt(url)
        client.loop_start()
        return MqttPublisher(client)


def _mqtt(url: str) -> Any:
    mqtt = import_module("paho.mqtt.client")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    host, port = url.removeprefix("tcp://").split(":")
    client.connect(host, int(port))
    return client


class MqttPublisher:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def burst(self, count: int, __: bool = False) -> None:
        published = None
        for _ in range(count):
            published = self._client.publish(SUBJECT, BODY)
        if published is not None:
            published.wait_for_publish(60)

    async def one(self, body: bytes) -> None:
        self._client.publish(SUBJECT, body)


# Zenoh ----------------------------------------------------------------------------------------------------------------


class Zenoh:
    def lacks(self) -> str | None:
        return _missing("zenoh", "eclipse-zenoh")

    def server(self, port: int, folder: Path) -> list[str]:  # noqa: ARG002
        return _python(
            "import threading\n"
            "from gossamer.bench.systems import zenoh_session\n"
            f"session = zenoh_session('router', 'listen', 'tcp/127.0.0.1:{port}')\n"
            "threading.Event().wait()\n"
        )

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        session = zenoh_session("client", "connect", url.replace("://", "/"))
        subscriber = session.declare_subscriber(SUBJECT, lambda sample: take(sample.payload.to_bytes()))
        ready()
        await asyncio.Event().wait()
        subscriber.undeclare()

    async def publisher(self, url: str) -> "ZenohPublisher":
        zenoh = import_module("zenoh")
        session = zenoh_session("client", "connect", url.replace("://", "/"))
        control = zenoh.CongestionControl.BLOCK
        return ZenohPublisher(session, session.declare_publisher(SUBJECT, congestion_control=control))


def zenoh_session(mode: str, role: str, endpoint: str) -> Any:
    zenoh = import_module("zenoh")
    config = zenoh.Config()
    config.insert_json5("mode", f'"{mode}"')
    config.insert_json5(f"{role}/endpoints", f'["{endpoint}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    if mode == "client":
        config.insert_json5("listen/endpoints", "[]")
    return zenoh.open(config)


class ZenohPublisher:
    def __init__(self, session: Any, publisher: Any) -> None:
        self._session, self._publisher = session, publisher

    async def burst(self, count: int, __: bool = False) -> None:
        put = self._publisher.put
        for _ in range(count):
            put(BODY)

    async def one(self, body: bytes) -> None:
        self._publisher.put(body)


# ZeroMQ ---------------------------------------------------------------------------------------------------------------


class Zmq:
    """pyzmq by itself: sockets, and a relay in C between them."""

    def lacks(self) -> None:
        return None

    def server(self, port: int, folder: Path) -> list[str]:  # noqa: ARG002
        return _python(
            "import zmq\n"
            "context = zmq.Context()\n"
            "front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)\n"
            "back.setsockopt(zmq.XPUB_NODROP, 1)\n"
            f"front.bind('tcp://127.0.0.1:{port}')\n"
            f"back.bind('tcp://127.0.0.1:{port + 1}')\n"
            "zmq.proxy(front, back)\n"
        )

    async def subscribe(self, url: str, take: Take, ready: Callable[[], None]) -> None:
        zmq = import_module("zmq")
        host, port = url.rsplit(":", 1)
        subscriber = zmq.Context.instance().socket(zmq.SUB)
        subscriber.connect(f"{host}:{int(port) + 1}")
        subscriber.setsockopt(zmq.SUBSCRIBE, b"")
        ready()
        while True:
            take(subscriber.recv())

    async def publisher(self, url: str) -> "ZmqPublisher":
        zmq = import_module("zmq")
        publisher = zmq.Context.instance().socket(zmq.PUB)
        publisher.setsockopt(zmq.XPUB_NODROP, 1)
        publisher.connect(url)
        return ZmqPublisher(publisher)


class ZmqPublisher:
    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher

    async def burst(self, count: int, __: bool = False) -> None:
        send = self._publisher.send
        for _ in range(count):
            send(BODY)

    async def one(self, body: bytes) -> None:
        self._publisher.send(body)


SYSTEMS: dict[str, System] = {
    "gossamer": Gossamer(),
    "gossamer, attributes": Gossamer(attributes=True),
    "nats": Nats(),
    "redis": Redis(),
    "mqtt": Mqtt(),
    "zenoh": Zenoh(),
    "zmq": Zmq(),
}
