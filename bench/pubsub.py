"""`gossamer bench`: one publisher → broker → one subscriber, each a process of its own, and others' systems beside it.

Throughput is at full speed, from the first publish call to the last event in the subscriber's hands; latency is at
1,000 events a second, from before the publish call to the subscriber's hands. All that are compared are up at the same
time, since the machine is shared and noisy: its pace changes from one second to the next. So everybody has several
short turns, and the median of them counts; of the processor's time the least, since noise only adds to that. What is
lost is counted over all.

Beside the plain way there are ways of Gossamer's own: to one who looks at the attributes, to 100 subscribers, through a
second broker, with a logger, and beside a consumer that is far too slow.
"""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from gossamer.bench.systems import BODY_BYTES, SYSTEMS, Gossamer, free_port
from gossamer.messages.errors import GossamerError, UsageError

PEERS = tuple(name for name in SYSTEMS if not name.startswith("gossamer"))
WAYS = ("attributes", "fanout", "second_broker", "logging", "slow_consumer")
ROUNDS, PACES = 6, 10
"""Turns at full speed, and at 1,000 events a second; they share the seconds that are given to each."""
RATE = 1_000
WARM = 2_000
COUNT_MAX = 1_000_000
PATIENCE_S = 2.0
READY_S = 20.0
FANOUT_PROCESSES, FANOUT_CLIENTS = 2, 50

Figures = dict[str, Any]
Tell = Callable[[str], None]


class Worker:
    """A process that obeys (bench/worker.py)."""

    def __init__(self, stack: ExitStack, role: str, system: str, url: str, clients: int = 1) -> None:
        command = [sys.executable, "-m", "gossamer.bench.worker", role, system, url, str(clients)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._what = f"the {role} of {system}"
        stack.callback(_end, self._process)
        self.hear(READY_S)

    def tell(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, patience_s: float = 120.0) -> Any:
        """Its answer; one at a time, so nothing of the next can be in the buffer."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], patience_s)[0]:
            raise GossamerError(f"{self._what} says nothing")
        line = self._process.stdout.readline()
        if not line:
            raise GossamerError(f"{self._what} has ended")
        return json.loads(line)


@dataclass
class Setup:
    """One way from a publisher to its subscribers, up and running."""

    publisher: Worker
    subscribers: list[Worker]
    servers: list[subprocess.Popen[bytes]]
    clients: int = 1
    logged: bool = False
    paced: bool = True
    count: int = WARM
    published: int = 0
    received: int = 0
    rates: list[float] = field(default_factory=list)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    costs: list[dict[str, float]] = field(default_factory=list)

    def warm(self, seconds: float) -> None:
        """A first run, which counts for nothing but to find out how many are a run."""
        for share in (0.25, 1.0):
            self._run(self.count, 0)
            self.count = max(200, min(COUNT_MAX, int(self.rates[-1] / self.clients * share * seconds)))
        self.published = self.received = 0
        self.rates.clear()
        self.costs.clear()

    def hurry(self) -> None:
        """One run at full speed."""
        self._run(self.count, 0)

    def pace(self, seconds: float) -> None:
        """One run at a rate that troubles nobody."""
        latencies_ns = self._run(max(20, int(RATE * seconds)), RATE)
        if latencies_ns:
            self.latencies.append((_quantile(latencies_ns, 0.5) / 1e3, _quantile(latencies_ns, 0.99) / 1e3))

    def figures(self) -> Figures:
        throughput = median(self.rates)
        p50_us, p99_us = map(median, zip(*self.latencies, strict=True)) if self.latencies else (None, None)
        found: Figures = {
            "throughput": round(throughput),
            "mb_per_s": round(throughput * BODY_BYTES / 1e6, 1),
            "p50_us": None if p50_us is None else round(p50_us),
            "p99_us": None if p99_us is None else round(p99_us),
            "lost": self.published - self.received,
        }
        cheapest = min(self.costs, key=lambda each: sum(each.values()), default={})
        found["cpu_us"] = {what: round(cost, 2) for what, cost in cheapest.items()}
        return found

    def _run(self, count: int, rate: int) -> list[int]:
        each = count * self.clients // len(self.subscribers)
        for subscriber in self.subscribers:
            subscriber.tell(expect=each, stamped=bool(rate))
            subscriber.hear()
        server_s = sum(map(_cpu_s, self.servers))
        self.publisher.tell(count=count, rate=rate, logged=self.logged)
        published = self.publisher.hear()
        for subscriber in self.subscribers:
            subscriber.tell(patience_s=PATIENCE_S)
        received = [subscriber.hear() for subscriber in self.subscribers]
        server_s = sum(map(_cpu_s, self.servers)) - server_s
        came = sum(answer["received"] for answer in received)
        self.published += count * self.clients
        self.received += came
        if not rate:
            ended = max(published["ended"] if self.logged else 0.0, *(answer["ended"] for answer in received))
            self.rates.append(came / (ended - published["began"]))
            costs = published["cpu_s"], server_s, sum(answer["cpu_s"] for answer in received)
            names = ("publisher", "server", "subscriber")
            self.costs.append({name: 1e6 * cost / count for name, cost in zip(names, costs, strict=True)})
        return [latency for answer in received for latency in answer["latencies_ns"]]


# What there is to set up ----------------------------------------------------------------------------------------------


def peer(stack: ExitStack, name: str) -> Setup:
    """The plain way, through one server."""
    url, server = _serve(stack, SYSTEMS[name].server)
    return _setup(stack, name, url, url, [server])


def attributes(stack: ExitStack) -> Setup:
    url, server = _serve(stack, Gossamer().server)
    return _setup(stack, "gossamer, attributes", url, url, [server])


def fanout(stack: ExitStack) -> Setup:
    url, server = _serve(stack, Gossamer().server)
    found = _setup(stack, "gossamer", url, url, [server], FANOUT_PROCESSES, FANOUT_CLIENTS)
    found.paced = False
    return found


def second_broker(stack: ExitStack) -> Setup:
    mesh = f"tcp://127.0.0.1:{free_port()}"
    first, one = _serve(stack, lambda port, _: [*Gossamer().broker(port), "--mesh", mesh])
    second, two = _serve(stack, lambda port, _: [*Gossamer().broker(port), "--mesh", ANYWHERE, "--peer", mesh])
    return _setup(stack, "gossamer", first, second, [one, two])


def logging(stack: ExitStack) -> Setup:
    mesh = f"tcp://127.0.0.1:{free_port()}"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-bench-")))
    store = f"sqlite:///{folder / 'bench.db'}"
    url, broker = _serve(stack, lambda port, _: [*Gossamer().broker(port), "--mesh", mesh])
    command = [*Gossamer().command, "logger", "--mesh", ANYWHERE, "--peer", mesh, "--store", store, "--json"]
    logger = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stack.callback(_end, logger)
    assert logger.stdout is not None
    logger.stdout.readline()  # it is a member now
    found = _setup(stack, "gossamer", url, url, [broker, logger])
    found.logged = True
    return found


def slow_consumer(stack: ExitStack) -> Setup:
    url, server = _serve(stack, Gossamer().server)
    Worker(stack, "slow", "gossamer", url)
    return _setup(stack, "gossamer", url, url, [server])


ANYWHERE = "tcp://127.0.0.1:0"
MAKERS: dict[str, Callable[[ExitStack], Setup]] = {
    "attributes": attributes,
    "fanout": fanout,
    "second_broker": second_broker,
    "logging": logging,
    "slow_consumer": slow_consumer,
}


def _setup(
    stack: ExitStack,
    system: str,
    publish_url: str,
    subscribe_url: str,
    servers: list[subprocess.Popen[bytes]],
    processes: int = 1,
    clients: int = 1,
) -> Setup:
    subscribers = [Worker(stack, "subscriber", system, subscribe_url, clients) for _ in range(processes)]
    return Setup(Worker(stack, "publisher", system, publish_url), subscribers, servers, processes * clients)


def _serve(stack: ExitStack, command: Callable[[int, Path], list[str]]) -> tuple[str, subprocess.Popen[bytes]]:
    """A server on a free port, ended with the bench."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-bench-")))
    port = free_port()
    server = subprocess.Popen(command(port, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(_end, server)
    until = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                raise GossamerError(f"it does not serve: {' '.join(command(port, folder))}") from None
            time.sleep(0.02)
        else:
            return f"tcp://127.0.0.1:{port}", server


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    """What a process has used so far, where Linux tells it."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _quantile(values: list[int], share: float) -> float:
    return float(sorted(values)[min(len(values) - 1, int(share * len(values)))])


# The run --------------------------------------------------------------------------------------------------------------


def run(peers: Sequence[str], ways: Sequence[str], seconds: float, tell: Tell) -> dict[str, Figures]:
    """Measure Gossamer and those of the peers that are installed; what is not there is told."""
    for known, asked, what in ((PEERS, peers, "peer"), (WAYS, ways, "way")):
        if unknown := [name for name in asked if name not in known]:
            raise UsageError(f"there is no {what} {unknown[0]!r}, only {', '.join(known)}")
    with ExitStack() as stack:
        setups: dict[str, Setup] = {}
        for name in ("gossamer", *peers):
            if (lacking := SYSTEMS[name].lacks()) is not None:
                tell(f"{name} is not installed: {lacking}")
            else:
                tell(f"{name}: starting")
                setups[name] = peer(stack, name)
        for way in ways:
            tell(f"gossamer, {way.replace('_', ' ')}: starting")
            setups[way] = MAKERS[way](stack)
        for setup in setups.values():
            setup.warm(2 * seconds / ROUNDS)
        for number in range(ROUNDS):
            for name in list(setups)[:: -1 if number % 2 else 1]:
                tell(f"round {number + 1} of {ROUNDS}: {name}")
                setups[name].hurry()
        paced = [setup for setup in setups.values() if setup.paced]
        for number in range(PACES):
            tell(f"latency, turn {number + 1} of {PACES}")
            for setup in paced[:: -1 if number % 2 else 1]:
                setup.pace(2 * seconds / PACES)
        figures = {name: setup.figures() for name, setup in setups.items()}
    return _told(figures, ways)


def _told(figures: dict[str, Figures], ways: Sequence[str]) -> dict[str, Figures]:
    """By system, with the ways of Gossamer's own inside, and what each costs of the plain one."""
    own = figures["gossamer"]
    for way in ways:
        found = own[way] = figures.pop(way)
        if way == "fanout":
            found["subscribers"] = FANOUT_PROCESSES * FANOUT_CLIENTS
        else:
            found["throughput_cost"] = round(1 - found["throughput"] / own["throughput"], 3)
            found["p50_cost"] = round(found["p50_us"] / own["p50_us"] - 1, 3)
    own["ratios"] = {
        name: {
            "throughput": round(own["throughput"] / other["throughput"], 2),
            "p50": round(own["p50_us"] / other["p50_us"], 2),
            "cpu": round(sum(own["cpu_us"].values()) / sum(other["cpu_us"].values()), 2),
        }
        for name, other in figures.items()
        if name != "gossamer" and other["throughput"] and other["p50_us"]
    }
    return figures
