"""`gossamer.join` over real sockets, and with real processes that are killed."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gossamer
from gossamer.sdk.embedded import Embedded
from gossamer.sdk.member import Member

SCRIPT = Path(__file__).parent / "group_member.py"


def addresses(count: int) -> list[str]:
    """Some that are free."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


async def founders(count: int, **options: Any) -> list[Member]:
    """A group of so many, in this process."""
    names = addresses(count)
    joining = [
        gossamer.join("g", listen=name, peers=[other for other in names if other != name], **options) for name in names
    ]
    return list(await asyncio.gather(*(each._join() for each in joining)))


async def take(member: Member, count: int) -> list[Any]:
    """The next so many events, without the views."""
    found: list[Any] = []
    while len(found) < count:
        item = await asyncio.wait_for(member.__anext__(), 20)
        if isinstance(item, gossamer.Event):
            found.append((item.id, item.attributes.get("n")))
    return found


async def close(members: list[Member]) -> None:
    await asyncio.gather(*(member.close() for member in members))


PROTOCOLS = [
    {"order": "total"},
    {"order": "fifo", "agreement": "plain"},
    {"order": "total", "protocol": "urgc"},
    {"order": "causal"},
]


@pytest.mark.parametrize("options", PROTOCOLS, ids=lambda options: "-".join(options.values()))
def test_three_members_deliver_the_same(options: dict[str, str]) -> None:
    async def main() -> None:
        members = await founders(3, **options)
        await asyncio.gather(*(m.multicast({"n": n}, timeout=20) for m in members for n in range(20)))
        seen = [await take(member, 60) for member in members]
        if options["order"] == "total":
            assert seen[0] == seen[1] == seen[2]
        for each in seen:
            assert len(set(each)) == 60
            for member in members:
                assert [n for id, n in each if id.stream == member.stream] == list(range(20))
        await close(members)

    asyncio.run(main())


def test_after_is_respected() -> None:
    async def main() -> None:
        a, b, c = await founders(3, order="causal")
        first = await a.multicast({"n": 1}, timeout=20)
        assert await take(b, 1) == [(first, 1)]
        await b.multicast({"n": 2}, after=[first], timeout=20)
        assert [n for _, n in await take(c, 2)] == [1, 2]
        with pytest.raises(gossamer.UsageError, match="after="):
            (await founders(1))[0].multicast_nowait({}, after=[first])
        await close([a, b, c])

    asyncio.run(main())


def test_a_newcomer_begins_with_the_state_and_a_view() -> None:
    async def main() -> None:
        log: list[Any] = []
        names = addresses(3)
        first = await gossamer.join("g", listen=names[0], state=lambda: json.dumps(log).encode())

        async def apply() -> None:
            async for item in first:
                if isinstance(item, gossamer.Event):
                    log.append(item.attributes["n"])  # noqa: PERF401 (each as it comes)

        applying = asyncio.create_task(apply())
        for n in range(10):
            await first.multicast({"n": n}, timeout=20)
        second = await gossamer.join("g", listen=names[1], peers=names[:1])
        assert json.loads(second.state) == list(range(10))
        view = await asyncio.wait_for(second.__anext__(), 20)
        assert isinstance(view, gossamer.View)
        assert view.members == (first.id, second.id)
        assert view.joined == (second.id,)
        await first.multicast({"n": 10}, timeout=20)
        assert [n for _, n in await take(second, 1)] == [10]
        await second.close()
        await first.multicast({"n": 11}, timeout=20)  # the group goes on
        assert second.failure is not None
        with pytest.raises(gossamer.ConnectionLost):
            await second.multicast({})
        await first.close()
        await applying

    asyncio.run(main())


def test_members_meet_through_a_broker() -> None:
    async def main() -> None:
        broker = await asyncio.to_thread(Embedded.start)
        try:
            members = list(await asyncio.gather(*(gossamer.join("g", broker.url)._join() for _ in range(3))))
            await asyncio.gather(*(member.multicast({"n": n}, timeout=20) for n, member in enumerate(members)))
            late = await gossamer.join("g", broker.url)
            view = late.view or await asyncio.wait_for(anext(late), 20)
            assert isinstance(view, gossamer.View)
            assert set(view.members) == {*(member.id for member in members), late.id}
            await late.multicast({"n": 3}, timeout=20)
            await close([*members, late])
        finally:
            await asyncio.to_thread(broker.stop)

    asyncio.run(main())


def test_a_slow_application_skips_what_is_obsolete_within_a_view() -> None:
    async def main() -> None:
        (member,) = await founders(1, order="fifo")
        for n in range(100):
            await member.multicast({"n": n}, key="xy"[n % 2], timeout=20)
        assert [n for _, n in await take(member, 2)] == [98, 99]
        await member.close()

    asyncio.run(main())


def test_bad_arguments_are_the_callers_fault() -> None:
    for options in (
        {"order": "sorted"}, {"agreement": "some"}, {"protocol": "urgc", "order": "fifo"}, {"peers": ["nowhere"]},
        {"url": "tcp://127.0.0.1:1", "order": "causal"},
    ):  # fmt: skip
        with pytest.raises(gossamer.UsageError):
            gossamer.join("g", **options)  # type: ignore[arg-type]
    with pytest.raises(gossamer.UsageError):
        gossamer.join("g/h")


def test_nobody_comes() -> None:
    async def main() -> None:
        with pytest.raises(gossamer.Timeout):
            await gossamer.join("g", peers=addresses(1), timeout=0.3)

    asyncio.run(main())


# Processes that are killed ------------------------------------------------------------------------------------------


class Process:
    """tests/integration/group_member.py: it multicasts at a rate, and prints what it is delivered."""

    def __init__(self, folder: Path, listen: str, peers: list[str], rate: int, options: dict[str, str]) -> None:
        self.path = folder / f"{listen.rpartition(':')[2]}.log"
        command = [sys.executable, str(SCRIPT), listen, ",".join(peers), str(rate), json.dumps(options), str(self.path)]
        self._errors = (folder / f"{listen.rpartition(':')[2]}.err").open("w+")
        self._popen = subprocess.Popen(command, stderr=self._errors, stdin=subprocess.PIPE)

    def lines(self) -> list[str]:
        """Whole lines of what it was delivered."""
        return self.path.read_text().rpartition("\n")[0].splitlines() if self.path.exists() else []

    def events(self) -> list[str]:
        return [line for line in self.lines() if not line.startswith("view")]

    def kill(self) -> None:
        self._popen.send_signal(signal.SIGKILL)
        self._popen.wait()

    def quiet(self) -> None:
        """Multicast no more."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()

    def errors(self) -> str:
        return Path(self._errors.name).read_text()

    def close(self) -> None:
        if self._popen.poll() is None:
            self.kill()
        if self._popen.stdin is not None and not self._popen.stdin.closed:
            self._popen.stdin.close()
        self._errors.close()


def until(condition: Any, what: str, patience_s: float = 40.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what}"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("count", "kills", "options"),
    [
        (3, 1, {"order": "total"}),
        (3, 1, {"order": "causal"}),
        (3, 1, {"order": "total", "protocol": "urgc"}),
        pytest.param(5, 2, {"order": "total"}, marks=pytest.mark.slow),
    ],
)
def test_survivors_of_kill_9_agree_exactly_and_go_on(
    tmp_path: Path, count: int, kills: int, options: dict[str, str]
) -> None:
    names = addresses(count)
    members = [
        Process(tmp_path, name, [other for other in names if other != name], 1_000 // count, options) for name in names
    ]
    try:
        until(lambda: all(len(m.events()) > 200 for m in members), "traffic")
        for member in members[:kills]:  # the first is the one that coordinates consensus
            member.kill()
        survivors = members[kills:]
        had = max(len(m.events()) for m in members)
        until(lambda: all(len(m.events()) > had + 200 for m in survivors), "the group to go on")
        for member in survivors:
            member.quiet()

        until(lambda: _still(survivors), "quiet")
        logs = [m.events() for m in survivors]

        if options["order"] == "total":
            assert all(log == logs[0] for log in logs)
            for dead in members[
                :kills
            ]:  # and uniformly: whatever the dead ones delivered, the others did, in that order
                assert dead.events() == logs[0][: len(dead.events())]
        else:
            assert all(sorted(log) == sorted(logs[0]) for log in logs)
            for dead in members[:kills]:
                assert set(dead.events()) <= set(logs[0])
    finally:
        for member in members:
            member.close()


def _still(members: list[Process]) -> bool:
    """Whether nothing has come anywhere for a while, and all have as much."""
    before = [len(m.events()) for m in members]
    time.sleep(0.5)
    return before == [len(m.events()) for m in members] and len(set(before)) == 1
