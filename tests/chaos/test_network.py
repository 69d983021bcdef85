"""Networks of chaos runs: a cut in one direction stops what goes there, and healing lets it pass again."""

import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.broker.faults import parse_faults
from gossamer.lab.chaos.network import CLIENTS, Loopback, Namespaces, network
from processes import until

ECHO = """
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", 9))
own.settimeout(0.2)
for line in sys.stdin:
    command, _, host = line.strip().partition(" ")
    if command == "send":
        own.sendto(b"x", (host, 9))
        print("sent", flush=True)
        continue
    try:
        print(own.recv(1).decode(), flush=True)
    except TimeoutError:
        print("nothing", flush=True)
"""


class Peer:
    """A process in a namespace that sends and receives datagrams."""

    def __init__(self, spaces: Namespaces, place: str) -> None:
        command = [*spaces.prefix(place), sys.executable, "-c", ECHO]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        with self.process:
            self.process.kill()


def test_cut_between_namespaces_is_silent_and_of_one_direction(tmp_path: Path) -> None:
    found, reason = network("auto", tmp_path, ("b1", "b2"))
    if not isinstance(found, Namespaces):
        pytest.skip(f"NO NETWORK NAMESPACES HERE: {reason}")
    peers = {place: Peer(found, place) for place in ("b1", "b2", CLIENTS)}

    def passes(one: str, other: str) -> bool:
        host = found.address(other, "http").partition(":")[0] if other != CLIENTS else "10.77.0.13"
        assert peers[one].ask(f"send {host}") == "sent"
        return peers[other].ask("receive") == "x"

    try:
        until(lambda: passes("b1", "b2") and passes("b2", "b1"), "the links")
        found.cut([("b1", "b2")])
        assert not passes("b1", "b2")
        assert passes("b2", "b1")
        assert passes(CLIENTS, "b2")
        found.heal()
        until(lambda: passes("b1", "b2"), "the healed link")
    finally:
        for peer in peers.values():
            peer.close()
        found.close()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert found.prefix("b1")[-1] not in listed


def test_cut_on_loopback_is_in_the_file_that_members_read(tmp_path: Path) -> None:
    found = Loopback(tmp_path, ("b1", "b2"))
    (_, option) = found.options()
    path = parse_faults(option).file
    assert path is not None
    found.cut([("b1", "b2"), (CLIENTS, "b1")])
    assert parse_faults(path.read_text()).oneways == (("b1", "b2"),)
    found.heal()
    assert parse_faults(path.read_text()).oneways == ()
