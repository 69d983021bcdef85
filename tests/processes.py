"""A mesh of real processes on loopback, and members in the test's own process, all ended when the test is."""

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from gossamer.broker.faults import parse_faults
from gossamer.broker.runtime import Runtime
from gossamer.logger.store import Store
from gossamer.messages.event import Content
from gossamer.messages.ids import anonymous_stream
from gossamer.messages.packet import Packet
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Acked, Refused, Skip
from gossamer.protocol.inputs import Publish

PATIENCE_S = 20.0
GOSSAMER = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]
BRISK = {"round_interval_s": 0.05, "round_interval_max_s": 0.2, "resend_s": 0.2, "idle_after_s": 0.2}
"""Rounds that a test can wait for."""


def until(condition: Callable[[], Any], what: str = "", patience_s: float = PATIENCE_S) -> Any:
    """Wait until something is so; fail if it takes too long."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what or condition}"
        time.sleep(0.01)
    return found


class Member:
    """A runtime in this process, and all that it was told."""

    def __init__(self, **options: Any) -> None:
        self.delivered: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self.acked: dict[str, int] = {}
        """Up to where each stream is said to be logged."""
        self.skipped: list[Skip] = []
        self.refused: list[Refused] = []
        self._published: dict[str, int] = defaultdict(int)
        faults = options.pop("faults", None)
        self.runtime = Runtime(
            config=Config(**{**BRISK, **options.pop("config", {})}),
            faults=parse_faults(faults) if faults is not None else None,
            on_deliver=self._on_deliver,
            on_acked=self._on_acked,
            on_skip=self.skipped.append,
            on_refused=self.refused.append,
            **options,
        )
        self.stream = anonymous_stream("default", f"{self.runtime.name}-{time.time_ns()}", 0)

    @property
    def address(self) -> str:
        return self.runtime.address

    def start(self) -> "Member":
        self.runtime.start()
        until(lambda: self.runtime.status == "member", f"{self.runtime.name} to be a member")
        return self

    def publish(self, packets: int, events: int = 1) -> None:
        """Events that say which they are."""
        for _ in range(packets):
            first = self._published[self.stream]
            contents = tuple(Content(body=b"%d" % (first + place)) for place in range(events))
            self._published[self.stream] += events
            self.runtime.submit(Publish(self.stream, contents))

    @property
    def published(self) -> int:
        return self._published[self.stream]

    def has(self, stream: str, count: int) -> bool:
        """Whether exactly the first `count` events are here: each once, in order, and itself."""
        found = list(self.delivered[stream])
        assert found == [(seq, b"%d" % seq) for seq in range(len(found))], found[-5:]
        return len(found) >= count

    def knows(self, *names: str) -> bool:
        """Whether these, and no others, are members."""
        return {member.node for member in self.runtime.members if member.status == "member"} == set(names)

    def _on_deliver(self, packet: Packet) -> None:
        self.delivered[packet.stream] += [(event.id.seq, event.body) for event in packet.events()]

    def _on_acked(self, acked: Acked) -> None:
        if acked.level == "logged":
            self.acked[acked.stream] = acked.last


class Process:
    """`gossamer broker` or `gossamer logger`, ready."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._errors = (folder / f"{time.time_ns()}.err").open("w+")
        self._popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        self.pid = self._popen.pid
        self._line = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        self._line = self._popen.stdout.readline()

    def ready(self) -> "Process":
        self._reader.join(PATIENCE_S)
        assert self._line, f"not ready: {self.errors()}"
        told = json.loads(self._line)
        self.name: str = told["node"]
        self.address: str = told["mesh"]
        self.url: str = told.get("url", "")
        self.http: str = told.get("http", "")
        return self

    def kill(self) -> None:
        """Like a power cut, for the process."""
        self._popen.kill()
        self._popen.wait()

    def terminate(self) -> int:
        self._popen.terminate()
        return self._popen.wait(PATIENCE_S)

    def alive(self) -> bool:
        return self._popen.poll() is None

    def errors(self) -> str:
        self._errors.flush()
        return Path(self._errors.name).read_text()

    def close(self) -> None:
        if self.alive():
            self.kill()
        self._reader.join()
        assert self._popen.stdout is not None
        self._popen.stdout.close()
        self._errors.close()


class Processes:
    """Everything that a test has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[Process] = []
        self._members: list[Member] = []
        self._config = folder / "gossamer.toml"
        settings = "".join(f"{name} = {value}\n" for name, value in BRISK.items())
        self._config.write_text(f"[protocol]\n{settings}")

    def address(self) -> str:
        """One that is free, for a process that others are to know before it is up."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            return f"tcp://127.0.0.1:{server.getsockname()[1]}"

    def broker(self, name: str, peer: str | None = None, **options: str) -> Process:
        options = {"listen": "tcp://127.0.0.1:0", **options}
        return self._start("broker", name=name, peer=peer, deliveries=str(self.folder / name), **options)

    def logger(
        self, name: str, peer: str | None = None, clock_ahead_s: int = 0, *switches: str, **options: str
    ) -> Process:
        """`clock_ahead_s`: its wall clock is wrong by so much."""
        store = self.store_url(name)
        return self._start(
            "logger", *switches, name=name, peer=peer, store=store, clock_ahead_s=clock_ahead_s, **options
        )

    def leave(self, name: str, peer: str, **options: str) -> Process:
        """A logger that hands over what it keeps, and leaves."""
        return self._start("logger", "--leave", name=name, peer=peer, store=self.store_url(name), **options)

    def compacting(self, name: str, peer: str) -> Process:
        """A logger that drops what is obsolete."""
        return self._start("logger", "--compact", name=name, peer=peer, store=self.store_url(name))

    def member(self, name: str, *peers: str, **options: Any) -> Member:
        member = Member(name=name, peers=peers, **options)
        self._members.append(member)
        return member.start()

    def script(self, path: Path, *arguments: str) -> Process:
        process = Process(self.folder, [sys.executable, str(path), *arguments])
        self._processes.append(process)
        return process

    def store_url(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.db"

    def store(self, name: str, copy: str | None = None) -> Store:
        """Open what a logger has left; with `copy`, what it has committed at this moment. By SQLite's own backup: of
        files that are copied one by one, one may be from before a checkpoint and the other from after it."""
        if copy is not None:
            paths = (self.folder / f"{each}.db" for each in (name, copy))
            with closing(sqlite3.connect(next(paths))) as source, closing(sqlite3.connect(next(paths))) as target:
                source.backup(target)
        return Store(self.store_url(copy or name))

    def delivered(self, name: str, stream: str) -> int:
        """How many events of a stream a broker has delivered: each once and in order, or the test fails."""
        path, following = self.folder / name, 0
        for line in path.read_text().splitlines() if path.exists() else ():
            of, _, rest = line.partition(" ")
            if of == stream and rest.count(" ") == 1:
                first, last = map(int, rest.split())
                assert first == following, f"{name} delivered {first} of {stream}, {following} was due"
                following = last + 1
        return following

    def close(self) -> None:
        for member in self._members:
            member.runtime.kill()
        for process in self._processes:
            process.close()
        for member in self._members:
            assert member.runtime.failure is None

    def _start(self, command: str, *switches: str, clock_ahead_s: int = 0, **options: str | None) -> Process:
        options = {"mesh": "tcp://127.0.0.1:0", "config": str(self._config), **options}
        flags = [part for name, value in options.items() if value is not None for part in (f"--{name}", value)]
        code = f"import time; now = time.time_ns; time.time_ns = lambda: now() + {clock_ahead_s} * 10**9; "
        program = [*GOSSAMER[:2], code + GOSSAMER[2]] if clock_ahead_s else GOSSAMER
        process = Process(self.folder, [*program, command, "--json", *switches, *flags])
        self._processes.append(process)
        return process
