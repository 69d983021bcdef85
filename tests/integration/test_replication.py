"""Services over a group: linearizable by Wing and Gong on real histories, and a takeover that loses nothing."""

import asyncio
import json
import random
import socket
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

import gossamer
from gossamer.lab.groups.linearizability import Operation, linearizable
from gossamer.messages.event import Attributes


class Registers(gossamer.ReplicatedState):
    """Named values: set blindly, or read."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Any] = {}
        self.applied = 0

    def apply(self, command: Attributes) -> Any:
        self.applied += 1
        name = str(command["name"])
        if command["op"] == "set":
            self.values[name] = command["value"]
            return None
        if command["op"] == "fail":
            raise ValueError("no such operation")
        return self.values.get(name)

    def writes(self, command: Attributes) -> list[str]:
        return [str(command["name"])] if command["op"] == "set" else []

    def reads(self, command: Attributes) -> list[str]:
        return [str(command["name"])] if command["op"] == "get" else []

    def snapshot(self) -> bytes:
        return json.dumps(self.values).encode()

    def restore(self, state: bytes) -> None:
        self.values = json.loads(state)


def addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


async def found(stack: AsyncExitStack, replicas: list[Any], names: list[str]) -> None:
    await asyncio.gather(
        *(
            stack.enter_async_context(replica.join("g", listen=name, peers=[n for n in names if n != name]))
            for replica, name in zip(replicas, names, strict=True)
        )
    )


async def client(replica: Registers, rng: random.Random, count: int, history: list[Operation], tag: str) -> None:
    for number in range(count):
        key = rng.choice("xy")
        called = time.monotonic()
        if rng.random() < 0.5:
            value = f"{tag}{number}"
            try:
                await replica.submit({"op": "set", "name": key, "value": value}, timeout=20)
            except gossamer.GossamerError:
                history.append(Operation("write", key, value, called))
                return
            history.append(Operation("write", key, value, called, time.monotonic()))
        else:
            try:
                read = await replica.submit({"op": "get", "name": key}, timeout=20)
            except gossamer.GossamerError:
                return
            history.append(Operation("read", key, read, called, time.monotonic()))


def test_what_clients_see_is_linearizable_though_a_replica_dies() -> None:
    async def main() -> None:
        replicas = [Registers() for _ in range(3)]
        history: list[Operation] = []
        async with AsyncExitStack() as stack:
            await found(stack, replicas, addresses(3))
            clients = [
                asyncio.create_task(client(replicas[at % 3], random.Random(at), 30, history, "abcdef"[at]))
                for at in range(6)
            ]
            await asyncio.sleep(0.05)
            replicas[0].member.kill()
            await asyncio.gather(*clients)
            assert len(history) > 100
            assert linearizable(history)
            for replica in replicas[1:]:  # whoever has applied this has applied all before it
                await replica.submit({"op": "get", "name": "x"}, timeout=20)
            assert replicas[1].values == replicas[2].values
            stale = [*history, Operation("read", "x", "never written", time.monotonic(), time.monotonic() + 1)]
            assert not linearizable(stale)

    asyncio.run(main())


def test_a_command_that_fails_fails_at_its_submitter_and_everywhere_the_same() -> None:
    async def main() -> None:
        a, b = Registers(), Registers()
        async with AsyncExitStack() as stack:
            await found(stack, [a, b], addresses(2))
            with pytest.raises(ValueError, match="no such operation"):
                await a.submit({"op": "fail", "name": "x"}, timeout=20)
            await b.submit({"op": "set", "name": "x", "value": 1}, timeout=20)
            assert await a.submit({"op": "get", "name": "x"}, timeout=20) == 1

    asyncio.run(main())


def test_what_was_overwritten_unread_is_obsolete_and_what_was_read_is_not() -> None:
    state = Registers()
    ids = [gossamer.EventId("g/~a.0", seq) for seq in range(6)]
    script = [("set", "x"), ("set", "x"), ("get", "x"), ("set", "x"), ("set", "x")]
    for id, (op, name) in zip(ids, script, strict=False):
        state._note(id, {"op": op, "name": name})
    assert state._obsolete == [ids[0], ids[3]]  # 1 was read by 2


def test_the_next_in_the_view_takes_over_with_what_was_committed() -> None:
    async def main() -> None:
        taken: list[str] = []
        stores = [gossamer.PrimaryBackup(took_over=lambda at=at: taken.append("abc"[at])) for at in range(3)]
        names = sorted(addresses(3))
        async with AsyncExitStack() as stack:
            await found(stack, stores, names)
            primary, second, third = stores
            assert primary.is_primary
            with pytest.raises(gossamer.UsageError, match="only the primary"):
                await second.update({"a": 1})
            await primary.update({"a": 1}, timeout=20)
            await primary.update({"a": 2, "b": 2}, timeout=20)
            for number in range(50):
                await primary.update({"b": number, "c": number}, timeout=20)
            # A part without its commit: the primary dies in the middle of an update.
            primary.member.multicast_nowait({"item": "a", "operation": 99}, b"666")
            await primary.member.settled(
                gossamer.EventId(primary.member.stream, primary.member._annotator.next - 1), 20
            )
            primary.member.kill()
            deadline = time.monotonic() + 30
            while not second.is_primary:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert taken == ["b"]
            await second.update({"d": 4}, timeout=20)
            expected = {"a": 2, "b": 49, "c": 49, "d": 4}
            while third.items != expected:
                assert time.monotonic() < deadline, third.items
                await asyncio.sleep(0.02)
            assert second.items == expected

    asyncio.run(main())
