"""A run: start the mesh and its clients, inject faults until time is up, let everyone catch up, and collect records."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from gossamer.lab.chaos.network import CLIENTS, Pair, network
from gossamer.lab.chaos.plan import BROKERS, KINDS, MEMBERS, NAMESPACES, SHIM, Draw, draw
from gossamer.lab.chaos.records import Client, Delivered, Fault, History, Logged, Record, Spec, read
from gossamer.lab.chaos.shim import ERRORS, Page, compile_shim
from gossamer.messages.errors import GossamerError

HEALTHY_S = 45.0
"""For all members to be healthy after a fault."""
CATCH_UP_S = 90.0
STOP_S = 45.0
STEP_S = 0.1
PR_SET_PDEATHSIG = 1

CLIENT_SPECS = (
    Spec("fast", "subscriber", policy="none"),
    Spec("slow", "subscriber", delay_s=0.02),
    Spec("durable", "subscriber", durable="chaos"),
    Spec("anonymous", "publisher"),
    Spec("roaming", "publisher", stay_s=4.0),
    Spec("named", "publisher", named=True),
    Spec("spooled", "publisher", named=True, spool="spooled.spool"),
)
REPLAY = Spec("replay", "subscriber", start="all")
"""Reads the whole log at the end."""


class ChaosFailed(GossamerError):
    """The run could not be made; promises are another matter."""


class Process:
    """A member or client that was started here, and its output in files."""

    def __init__(self, name: str, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.down = False
        """Ended on purpose."""
        self._errors = folder / f"{name}.err"
        with (folder / f"{name}.out").open("ab") as out, self._errors.open("ab") as errors:
            self._popen = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, **environment},
                start_new_session=True,  # ^C is for us
                preexec_fn=_die_with_parent if sys.platform.startswith("linux") else None,
            )

    @property
    def code(self) -> int | None:
        return self._popen.poll()

    def send(self, number: signal.Signals) -> None:
        if self.code is None:
            self._popen.send_signal(number)

    def kill(self) -> None:
        self.down = True
        self.send(signal.SIGKILL)
        self._popen.wait()

    def stop(self, patience_s: float = STOP_S) -> bool:
        """Whether it ended in order, in time."""
        self.down = True
        self.send(signal.SIGTERM)
        try:
            self._popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"{self.name}: exit code {self.code}, {lines[-1] if lines else 'silent'}"


def _die_with_parent() -> None:
    """Even a run that is killed leaves no process behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Chaos:
    """One run in `folder`; `with Chaos(…) as chaos: history = chaos.play()`."""

    def __init__(self, folder: Path, seed: int, seconds: float, kind: str = "auto") -> None:
        self.folder = folder
        self.seed = seed
        self.seconds = seconds
        self.skipped: dict[str, str] = {}
        """Kinds of faults that this machine does not allow, with the reason."""
        self._tell: Callable[[str], None] = lambda _: None
        self._processes: dict[str, Process] = {}
        self._lives: dict[str, int] = {}
        self._faults: list[Fault] = []
        self._deaths: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ChaosFailed(f"{folder} is not empty: a run needs a folder of its own")
        found = compile_shim(folder)
        self._shim = found if isinstance(found, Path) else None
        if isinstance(found, str):
            self.skipped |= dict.fromkeys(SHIM, found)
        self._pages = {member: Page(folder / f"{member}.page") for member in MEMBERS} if self._shim else {}
        self._network, reason = network(kind, folder, MEMBERS)
        self.network = self._network.name
        if self.network == "loopback":
            self.skipped |= dict.fromkeys(NAMESPACES, reason or "loopback was asked for")
        self.kinds = tuple(kind for kind in KINDS if kind not in self.skipped)

    def __enter__(self) -> "Chaos":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def play(self, tell: Callable[[str], None] = lambda _: None) -> History:
        """Run to the end; `tell` is called with a line about each step."""
        self._tell = tell
        self._tell("starting the mesh")
        for member in MEMBERS:
            self._start_member(member)
            if not self._await_healthy((member,)):
                self._give_up(member)
        for spec in CLIENT_SPECS:
            self._start_client(spec)
            self._await_began(spec)
        until = time.monotonic() + self.seconds
        for drawn in draw(self.seed, self.kinds):
            self._sleep(min(drawn.calm_s, until - time.monotonic()))
            if time.monotonic() >= until:
                break
            self._inject(drawn)
        self._tell("publishers stop")
        stopped_at = time.monotonic()
        for spec in CLIENT_SPECS:
            if spec.role == "publisher":
                self._stop(spec.name)
        self._tell("subscribers catch up")
        self._start_client(REPLAY)
        deadline = time.monotonic() + CATCH_UP_S
        while not caught_up(history := self.history(stopped_at)) and time.monotonic() < deadline:
            self._sleep(1.0)
        for name in history.subscribers:
            self._processes[name].stop()
        return self.history(stopped_at)

    def history(self, stopped_at: float) -> History:
        specs = {spec.name: spec for spec in (*CLIENT_SPECS, REPLAY)}
        records: dict[str, list[Record]] = {name: read(self._records(name)) for name in specs}
        return History(specs, records, self._faults, self._deaths, stopped_at)

    def close(self) -> None:
        """End every process of this run and remove its namespaces."""
        for process in self._processes.values():
            process.kill()
        for page in self._pages.values():
            page.close()
        self._network.close()

    # Processes ------------------------------------------------------------------------------------------------------

    def _start_member(self, member: str) -> None:
        role = "broker" if member in BROKERS else "logger"
        address = self._network.address
        options = ["--name", member, "--mesh", f"tcp://{address(member, 'mesh')}", "--http", address(member, "http")]
        options += ["--json", *self._network.options()]
        if role == "broker":
            options += ["--listen", f"tcp://{address(member, 'listen')}"]
        else:
            options += ["--store", f"sqlite:///{self.folder / member}.db"]
        if self._processes:  # the very first begins the mesh
            options += [part for other in MEMBERS if other != member for part in _peer(address(other, "mesh"))]
        environment = self._pages[member].environment(self._shim) if self._shim else {}
        self._start(member, member, [*_gossamer(), role, *options], environment)

    def _start_client(self, spec: Spec) -> None:
        life = self._lives.get(spec.name, 0)
        first = [*(each.name for each in CLIENT_SPECS), REPLAY.name].index(spec.name)
        brokers = (BROKERS[(first + number) % len(BROKERS)] for number in range(len(BROKERS)))  # each has some clients
        urls = tuple(f"tcp://{self._network.address(broker, 'listen')}" for broker in brokers)
        client = Client(spec, urls, str(self._records(spec.name)), life, self.seed)
        argument = msgspec.json.encode(client).decode()
        self._start(spec.name, CLIENTS, [sys.executable, "-P", "-m", "gossamer.cli.chaos_client", argument], {})

    def _start(self, name: str, place: str, command: list[str], environment: dict[str, str]) -> None:
        self._lives[name] = self._lives.get(name, 0) + 1
        self._processes[name] = Process(name, [*self._network.prefix(place), *command], self.folder, environment)

    def _stop(self, name: str) -> None:
        if not self._processes[name].stop():
            self._deaths.append(f"{name}: did not end within {STOP_S} s")

    def _restart(self, name: str) -> None:
        if name in MEMBERS:
            self._start_member(name)
        else:
            self._start_client(next(spec for spec in CLIENT_SPECS if spec.name == name))

    def _records(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    # Waiting --------------------------------------------------------------------------------------------------------

    def _sleep(self, seconds: float) -> None:
        """Wait, and notice processes that end by themselves; members among them are started again."""
        until = time.monotonic() + seconds
        while True:
            for name, process in list(self._processes.items()):
                if process.code is not None and not process.down:
                    self._deaths.append(process.last_words())
                    self._restart(name)
            left_s = until - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(STEP_S, left_s))

    def _await_healthy(self, members: tuple[str, ...] = MEMBERS) -> bool:
        deadline = time.monotonic() + HEALTHY_S
        while not all(self._network.healthy(member) for member in members):
            if time.monotonic() > deadline:
                return False
            self._sleep(STEP_S)
        return True

    def _await_began(self, spec: Spec) -> None:
        deadline = time.monotonic() + HEALTHY_S
        while not read(self._records(spec.name)):
            if time.monotonic() > deadline:
                self._give_up(spec.name)
            self._sleep(STEP_S)

    def _give_up(self, name: str) -> None:
        raise ChaosFailed(f"the mesh did not start: {self._processes[name].last_words()}; see {self.folder}")

    # Faults ---------------------------------------------------------------------------------------------------------

    def _inject(self, drawn: Draw) -> None:
        self._tell(f"{drawn.kind} {' '.join(drawn.targets)} {drawn.detail}")
        begun_at = time.monotonic()
        getattr(self, f"_{drawn.kind.replace(' ', '_')}")(drawn)
        ended_at = time.monotonic()
        healthy_at = time.monotonic() if self._await_healthy() else None
        fault = Fault(drawn.kind, drawn.targets, drawn.detail, begun_at, ended_at, healthy_at)
        self._faults.append(fault)
        with (self.folder / "faults.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(fault) + b"\n")

    def _kill(self, drawn: Draw) -> None:
        (target,) = drawn.targets
        self._processes[target].kill()
        self._sleep(drawn.length_s)
        self._restart(target)

    _kill_client = _kill

    def _pause(self, drawn: Draw) -> None:
        (target,) = drawn.targets
        self._processes[target].send(signal.SIGSTOP)
        self._sleep(drawn.length_s)
        self._processes[target].send(signal.SIGCONT)

    def _partition(self, drawn: Draw) -> None:
        there = self._others(drawn)
        self._cut_for(
            drawn, [(one, other) for here in drawn.targets for each in there for one, other in _both(here, each)]
        )

    def _one_way(self, drawn: Draw) -> None:
        pairs = [(here, each) for here in drawn.targets for each in self._others(drawn)]
        self._cut_for(drawn, pairs if drawn.value else [(other, one) for one, other in pairs])

    def _cut_off(self, drawn: Draw) -> None:
        there = (*self._others(drawn), CLIENTS)
        self._cut_for(
            drawn, [(one, other) for here in drawn.targets for each in there for one, other in _both(here, each)]
        )

    def _cut_for(self, drawn: Draw, pairs: list[Pair]) -> None:
        self._network.cut(pairs)
        self._sleep(drawn.length_s)
        self._network.heal()

    def _others(self, drawn: Draw) -> list[str]:
        return [member for member in MEMBERS if member not in drawn.targets]

    def _disk(self, drawn: Draw) -> None:
        (target,) = drawn.targets
        self._pages[target].set(error=ERRORS.get(drawn.kind, 0), delay_us=drawn.value)
        self._sleep(drawn.length_s)
        self._pages[target].set()

    _disk_slow = _disk_full = _disk_error = _disk

    def _clock(self, drawn: Draw) -> None:
        (target,) = drawn.targets
        self._pages[target].set(clock_s=drawn.value)
        self._sleep(drawn.length_s)
        self._pages[target].set()

    def _clock_restart(self, drawn: Draw) -> None:
        """A member starts with a wrong clock, which is set right while it runs."""
        (target,) = drawn.targets
        self._processes[target].kill()
        self._pages[target].set(clock_s=drawn.value)
        self._restart(target)
        self._sleep(drawn.length_s)
        self._pages[target].set()

    def _rolling_restart(self, drawn: Draw) -> None:
        for target in drawn.targets:
            self._stop(target)
            self._restart(target)
            self._await_healthy()


def _both(one: str, other: str) -> tuple[Pair, Pair]:
    return (one, other), (other, one)


def _peer(address: str) -> tuple[str, str]:
    return "--peer", f"tcp://{address}"


def _gossamer() -> list[str]:
    """The installed command, beside this Python; else its module."""
    command = shutil.which("gossamer", path=str(Path(sys.executable).parent))
    return [command] if command else [sys.executable, "-P", "-m", "gossamer.cli.main"]


def caught_up(history: History) -> bool:
    """Whether every subscriber has the last event that each publisher was told to be logged; it is never obsolete."""
    last = {
        name: max((each.n for each in history.records[name] if isinstance(each, Logged)), default=None)
        for name in history.publishers
    }
    wanted = {(name, n) for name, n in last.items() if n is not None}
    return all(
        wanted <= {(each.publisher, each.n) for each in history.records[name] if isinstance(each, Delivered)}
        for name in history.subscribers
    )


def document(chaos: Chaos, figures: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a run: its options first."""
    options = {"seed": chaos.seed, "minutes": chaos.seconds / 60, "network": chaos.network, "skipped": chaos.skipped}
    return {**options, "data": str(chaos.folder), **figures}
