"""A broker and a logger in this process: what `gossamer.connect()` without a url and `gossamer up` start.

They are the same as those of `gossamer broker` and `gossamer logger`, two members of a mesh that talk over loopback, so
whatever is true of a mesh is true of this one, and others may join it.
"""

import atexit
import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from gossamer.broker import serving
from gossamer.broker.addresses import split
from gossamer.broker.faults import Faults
from gossamer.broker.runtime import Runtime
from gossamer.broker.session import ClientLimits
from gossamer.messages.errors import GossamerError, Timeout, UsageError
from gossamer.messages.session import Interest
from gossamer.protocol.config import Config

READY_S = 10.0
ANYWHERE = "tcp://127.0.0.1:0"


class Embedded:
    """Both, running."""

    def __init__(self, broker: Runtime, logger: Runtime, folder: str | None, data: Path) -> None:
        """`folder` is to be removed at the end."""
        self.broker = broker
        self.logger = logger
        self.data = data
        """The folder that events are kept in."""
        self._finalizer = weakref.finalize(self, _stop_aside, broker, logger, folder)
        self._finalizer.atexit = False
        _running.add(self)

    @classmethod
    def start(
        cls,
        *,
        data: str | Path | None = None,
        listen: str | None = None,
        mesh: str | None = None,
        peers: tuple[str, ...] = (),
        config: Config | None = None,
        faults: Faults | None = None,
        limits: ClientLimits | None = None,
        telemetry_interval_s: float = 0.0,
        interests: tuple[Interest, ...] = (),
        accept_loss: bool = False,
    ) -> "Embedded":
        """Start them, and wait until they are members."""
        # Here, because SQLAlchemy takes a third of a second that no plain client should spend.
        from gossamer.logger.store import Store
        from gossamer.logger.writer import Writer

        folder = None
        if data is None:
            data = folder = tempfile.mkdtemp(prefix="gossamer-")
        try:
            Path(data).mkdir(parents=True, exist_ok=True)
        except (OSError, TypeError) as error:
            raise UsageError(f"data: {data!r} is no folder to keep events in: {error}") from error
        started: list[Runtime] = []
        try:
            store = Store(f"sqlite:///{Path(data) / 'gossamer.db'}", accept_loss=accept_loss)
            logger = Runtime(
                ANYWHERE,
                peers=peers,
                config=config,
                store=Writer(store, compact=config is not None and config.compact),
                telemetry_interval_s=telemetry_interval_s,
            )
            started.append(logger.start())
            _await(logger)
            broker = serving.broker(
                listen or ANYWHERE,
                bind=mesh or ANYWHERE,
                peers=(logger.address, *peers),
                config=config,
                faults=faults,
                limits=limits,
                interests=interests,
                telemetry_interval_s=telemetry_interval_s,
            )
            started.append(broker.start())
            _await(broker)
        except BaseException:
            for runtime in started:
                runtime.kill()
            _remove(folder)
            raise
        return cls(broker, logger, folder, Path(data))

    @property
    def url(self) -> str:
        assert self.broker.clients is not None
        return self.broker.clients.address

    def stop(self) -> None:
        """Leave the mesh, and end; once. One that is forgotten does it by itself."""
        if (found := self._finalizer.detach()) is not None:
            _stop(*found[2])


_running: "weakref.WeakSet[Embedded]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for embedded in list(_running):
        embedded.stop()


def _on_forked() -> None:
    """In a child process none of it runs, and the folder is the parent's."""
    for embedded in list(_running):
        embedded._finalizer.detach()
    _running.clear()


os.register_at_fork(after_in_child=_on_forked)


def _stop(broker: Runtime, logger: Runtime, folder: str | None) -> None:
    """The broker first: what only it has is to be logged."""
    broker.stop()
    logger.stop()
    _remove(folder)


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _stop_aside(*arguments: Any) -> None:
    """Not here: a collector of garbage interrupts anybody. A process that ends waits for it."""
    threading.Thread(target=_stop, args=arguments, name="gossamer stops").start()


def _await(runtime: Runtime) -> None:
    until = time.monotonic() + READY_S
    while runtime.status != "member":
        if isinstance(runtime.failure, GossamerError):
            raise runtime.failure
        if runtime.failure is not None:
            raise GossamerError(f"{runtime.name} failed: {runtime.failure!r}") from runtime.failure
        if time.monotonic() > until:
            raise Timeout(f"{runtime.name} is no member after {READY_S:g} s, but {runtime.status}")
        time.sleep(0.002)


def free_or(url: str) -> str:
    """This address if its port is free, or the same host with one that is."""
    host, port = split(url)
    if port:
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("" if host == "*" else host.strip("[]"), port))
            except OSError:
                return f"tcp://{host}:0"
    return url
