"""A member of the mesh as a process: says once that it is ready, and leaves in order when it is asked to end."""

import gc
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer

from gossamer.broker.http import Monitor
from gossamer.broker.runtime import Runtime
from gossamer.cli.options import http_address
from gossamer.messages.errors import GossamerError
from gossamer.protocol.effects import Status


class Terminated(BaseException):
    """Somebody asked this process to end."""


class Announcement:
    """The line that says that this node is a member now, once."""

    def __init__(self, role: str, as_json: bool, leave: bool = False) -> None:
        """`leave`: it has come to go."""
        self.runtime: Runtime | None = None
        self._leave = leave
        self._role = role
        self._as_json = as_json
        self._made = False

    def on_became(self, status: Status) -> None:
        if status == "member" and not self._made and self.runtime is not None:
            self._made = True
            name, address, clients = self.runtime.name, self.runtime.address, self.runtime.clients
            told = {"role": self._role, "node": name, "mesh": address}
            if clients is not None:
                told["url"] = clients.address
            if self.runtime.http is not None:
                told["http"] = self.runtime.http
            if self._as_json:
                print(json.dumps(told), flush=True)
            else:
                served = "" if clients is None else f"clients {clients.address}, "
                seen = "" if self.runtime.http is None else f", http {self.runtime.http}"
                print(f"{self._role} {name} is ready: {served}mesh {address}{seen}", flush=True)
            if self._leave:
                self.runtime.leave()


def delivery_log(path: Path | None) -> dict[str, Any]:
    """Every delivery as a line of a file, for tests."""
    if path is None:
        return {}
    file = path.open("a", buffering=1)
    return {"on_deliver": lambda packet: print(packet.stream, packet.first, packet.last, file=file) or None}


def monitor(http: str | None, *runtimes: Runtime) -> Monitor | None:
    """Serve the pages of these where it was said, or at the default or any free port; None if switched off."""
    address = http_address(http)
    return None if address is None else Monitor(address, runtimes, or_free=http is None)


def serve(
    role: str, as_json: bool, http: str | None, make: Callable[..., Runtime], leave: bool = False, **options: Any
) -> None:
    """Run until told to end, or (`leave`) until the others can do without it; a second time ends at once."""
    announcement = Announcement(role, as_json, leave)
    runtime = announcement.runtime = make(on_became=announcement.on_became, **options)
    try:
        pages = monitor(http, runtime)
    except GossamerError:
        runtime.kill()
        raise
    # What was imported stays, and events have no cycles: looking for some after every few hundred of them is in vain.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, _terminate)
    try:
        runtime.start()
        runtime.join()
    except Terminated:
        _stop(runtime)
    if pages is not None:
        pages.close()
    if isinstance(runtime.failure, GossamerError):
        raise runtime.failure
    if runtime.failure is not None:
        print(f"gossamer: {runtime.name} failed: {runtime.failure!r}", file=sys.stderr)
        raise typer.Exit(1)


def _stop(runtime: Runtime) -> None:
    try:
        runtime.stop()
    except Terminated:
        runtime.kill()
    except GossamerError:
        pass  # told by the caller


def _terminate(_: int, __: FrameType | None) -> NoReturn:
    raise Terminated
