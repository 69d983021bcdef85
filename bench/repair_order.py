"""Gossip first, logger first and `auto` over real sockets: what `gossamer lab run repair-order` simulates.

Each case is a mesh of processes on loopback: one `gossamer logger` with its disk, and members that lose a share of what
they send (broker/faults.py). Repair latency is the time from a gap's detection to the event's delivery.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.bench.replay import serving, used_s
from gossamer.lab.experiments.repair_order import ORDERS, SETTINGS, quantile

NAME = "repair-order"
MEMBERS = 8
SECONDS = 10.0
SHARE_MAX = 0.5
"""With gossip first the logger sends at most this share of the repairs."""


class Seen(NamedTuple):
    waits_s: list[float]
    logger_packets: float
    """Packets that the logger sent again."""
    logger_cpu_s: float
    mesh_bytes: float
    """Bytes that all members sent to each other."""


def rows(quick: bool = False) -> Iterator[Row]:
    for setting in ("lossy",) if quick else SETTINGS:
        for order in ("gossip",) if quick else ORDERS:
            each = _run(setting, order, 2 if quick else MEMBERS, 0.5 if quick else SECONDS)
            waits_s = sorted(each.waits_s)
            of = f"{setting}, {order} first" if order != "auto" else f"{setting}, auto"
            yield Row(NAME, f"{of}: repairs", len(waits_s), "events")
            for part in (0.5, 0.99):
                yield Row(NAME, f"{of}: repair latency, {part:.0%}", 1e3 * quantile(waits_s, part), "ms")
            yield Row(NAME, f"{of}: sent by the logger", each.logger_packets, "packets")
            share = each.logger_packets / max(1, len(waits_s))
            yield Row(NAME, f"{of}: share of the repairs", share, "", SHARE_MAX if order == "gossip" else None)
            yield Row(NAME, f"{of}: processor time of the logger", each.logger_cpu_s, "s")
            yield Row(NAME, f"{of}: sent by all members", each.mesh_bytes / 1e3, "KB")


def _run(setting: str, order: str, members: int, seconds: float) -> Seen:
    traffic = SETTINGS[setting]
    packets = max(2, round(traffic.rate * seconds / members))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir="."))
        flags = ["--store", f"sqlite:///{folder}/log.db", "--faults", f"loss={traffic.loss}"]
        pid, at = stack.enter_context(serving("logger", *flags, "--http", "tcp://127.0.0.1:0"))
        started = [_start(stack, f"m{number}", at["mesh"], order, traffic.loss) for number in range(members)]
        for member in started:
            _hear(member)
        before_s = used_s(pid)
        for member in started:
            _tell(member, publish=packets, per_s=traffic.rate / members)
        for member in started:
            _hear(member)
            _tell(member, events=packets * (members - 1))
        answers = [_hear(member) for member in started]
        told = _metrics(at["http"])
        return Seen(
            [wait_s for answer in answers for wait_s in answer["waits_s"]],
            told["gossamer_packets_repaired_total"],
            used_s(pid) - before_s,
            sum(answer["bytes"] for answer in answers) + told["gossamer_bytes_sent_total"],
        )


def _start(stack: ExitStack, name: str, peer: str, order: str, loss: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "gossamer.bench.lossy_member", name, peer, order, str(loss)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(process.communicate)
    stack.callback(process.kill)
    return process


def _tell(process: "subprocess.Popen[str]", **order: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()


def _hear(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"a member ended with {process.wait()}"
    found: dict[str, Any] = json.loads(line)
    return found


def _metrics(address: str) -> dict[str, float]:
    """A member's metrics by name, without labels."""
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
