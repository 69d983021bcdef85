"""The network of a run: a namespace per member where root and iproute2 allow it, else loopback.

In namespaces a cut drops frames silently: the sender has a wrong hardware address for the receiver. TCP notices by
itself, as behind a dead switch, and each direction is cut alone. On loopback the members' link-fault layer drops the
mesh's messages (broker/faults.py), and clients' sessions are never cut.
"""

import contextlib
import ctypes
import http.client
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

CLIENTS = "clients"
"""The place where all clients run."""
PORTS = {"listen": 7400, "mesh": 7401, "http": 7480}
NOBODY = "02:00:00:00:00:00"
CLONE_NEWNET = 0x40000000
HTTP_S = 2.0

Pair = tuple[str, str]
"""Nothing passes from the first to the second."""


class Network(Protocol):
    name: str

    def address(self, member: str, port: str) -> str:
        """`host:port` of a member, for one of `PORTS`."""

    def prefix(self, place: str) -> list[str]:
        """The beginning of a command that runs at a member, or at `CLIENTS`."""

    def options(self) -> list[str]:
        """Further options of `gossamer broker` and `gossamer logger`."""

    def cut(self, pairs: Iterable[Pair]) -> None: ...
    def heal(self) -> None: ...
    def healthy(self, member: str) -> bool: ...
    def close(self) -> None: ...


def network(kind: str, folder: Path, members: tuple[str, ...]) -> tuple[Network, str | None]:
    """The network, and the reason why it is not in namespaces if that was wanted."""
    if kind == "loopback":
        return Loopback(folder, members), None
    reason = (
        "namespaces are for Linux"
        if not sys.platform.startswith("linux")
        else "not root"
        if os.geteuid() != 0
        else "no iproute2"
        if shutil.which("ip") is None
        else None
    )
    if reason is None:
        try:
            return Namespaces(members), None
        except (OSError, subprocess.CalledProcessError) as error:
            reason = str(getattr(error, "stderr", "") or error).strip()
    return Loopback(folder, members), reason


class Loopback:
    name = "loopback"

    def __init__(self, folder: Path, members: tuple[str, ...]) -> None:
        self._faults = folder / "faults"
        self._faults.write_text("")
        free = iter(_free_ports(len(members) * len(PORTS)))
        self._ports = {(member, port): next(free) for member in members for port in PORTS}

    def address(self, member: str, port: str) -> str:
        return f"127.0.0.1:{self._ports[member, port]}"

    def prefix(self, place: str) -> list[str]:
        return []

    def options(self) -> list[str]:
        return ["--faults", f"file={self._faults}"]

    def cut(self, pairs: Iterable[Pair]) -> None:
        self._write(",".join(f"oneway={one}>{other}" for one, other in pairs if CLIENTS not in (one, other)))

    def heal(self) -> None:
        self._write("")

    def healthy(self, member: str) -> bool:
        return _healthy(self.address(member, "http"))

    def close(self) -> None: ...

    def _write(self, text: str) -> None:
        new = self._faults.with_suffix(".new")
        new.write_text(text)
        new.replace(self._faults)


class Namespaces:
    name = "namespaces"

    def __init__(self, members: tuple[str, ...]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._tag = f"gchaos{os.getpid()}"
        self._hosts = {place: f"10.77.0.{number}" for number, place in enumerate((*members, CLIENTS), 11)}
        self._made: list[str] = []
        self._cuts: list[Pair] = []
        try:
            hub = self._namespace("hub")
            self._ip("-n", hub, "link", "add", "br0", "type", "bridge")
            self._ip("-n", hub, "link", "set", "br0", "up")
            for number, (place, host) in enumerate(self._hosts.items()):
                space = self._namespace(place)
                self._ip("-n", space, "link", "set", "lo", "up")
                self._ip(*f"-n {space} link add eth0 type veth peer name v{number} netns {hub}".split())
                self._ip("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
                self._ip("-n", space, "link", "set", "eth0", "up")
                self._ip("-n", hub, "link", "set", f"v{number}", "master", "br0")
                self._ip("-n", hub, "link", "set", f"v{number}", "up")
            self.healthy(members[0])  # entering one may not be allowed even if making one is
        except BaseException:
            self.close()
            raise

    def address(self, member: str, port: str) -> str:
        return f"{self._hosts[member]}:{PORTS[port]}"

    def prefix(self, place: str) -> list[str]:
        return ["ip", "netns", "exec", self._space(place)]

    def options(self) -> list[str]:
        return []

    def cut(self, pairs: Iterable[Pair]) -> None:
        for one, other in pairs:
            wrong = f"-n {self._space(one)} neigh replace {self._hosts[other]} lladdr {NOBODY} dev eth0 nud permanent"
            self._ip(*wrong.split())
            self._cuts.append((one, other))

    def heal(self) -> None:
        for one, other in self._cuts:
            self._ip("-n", self._space(one), "neigh", "del", self._hosts[other], "dev", "eth0")
        self._cuts.clear()

    def healthy(self, member: str) -> bool:
        with self._inside(member):
            return _healthy(self.address(member, "http"))

    def close(self) -> None:
        for space in self._made:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
        self._made.clear()

    def _space(self, place: str) -> str:
        return f"{self._tag}-{place}"

    def _namespace(self, place: str) -> str:
        space = self._space(place)
        self._ip("netns", "add", space)
        self._made.append(space)
        return space

    @contextlib.contextmanager
    def _inside(self, place: str) -> Iterator[None]:
        """Sockets that are opened meanwhile, by this thread, are in that namespace."""
        with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{self._space(place)}") as space:
            if self._libc.setns(space.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                self._libc.setns(own.fileno(), CLONE_NEWNET)

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


def _healthy(address: str) -> bool:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=HTTP_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
