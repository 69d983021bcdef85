"""Services over a group: linearizable by Wing and Gong on real histories, and a takeover that loses nothing."""

import asyncio
import json
import math
import random
import socket
import time
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

import gossamer
from gossamer.lab.groups.linearizability import Operation, linearizable
from gossamer.messages.event import Attributes, Event
from gossamer.protocol.annotator import Part
from gossamer.protocol.groups.inputs import Multicast
from gossamer.sdk.member import Member


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
            # Parts without their COMMIT: the primary dies in the middle of an update.
            said: Attributes = {"operation": 53, "total": 10_000}
            parts = [Part({"item": name, **said}, b"666", key=name) for name in "ac"]
            contents = primary.member._annotator.transaction(parts)
            primary.member._runtime.submit(Multicast(contents[:-1]))
            await primary.member.settled(
                gossamer.EventId(primary.member.stream, primary.member._annotator.next - 2), 20
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


class Paused(gossamer.PrimaryBackup):
    """A backup whose application takes nothing before `go`; it counts the events it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.taken = 0
        self.shown: list[dict[str, Any]] = []

    async def _run(self, member: Member) -> None:
        await self.go.wait()
        await super()._run(member)

    def _on_event(self, event: Event) -> None:
        self.taken += 1
        super()._on_event(event)
        self.shown.append(dict(self.items))


def test_a_backup_that_is_behind_skips_obsolete_updates_of_several_items() -> None:
    """000 §6: the primary does not wait for it, and it shows nothing but states that the primary was in."""

    async def main() -> None:
        primary, backup = gossamer.PrimaryBackup(), Paused()
        async with AsyncExitStack() as stack:
            await found(stack, [primary, backup], sorted(addresses(2)))
            history: list[dict[str, Any]] = [{}]
            for number in range(100):
                changes: dict[str, Any] = {"a": number, "bcd"[number % 3]: number}
                await primary.update(changes, timeout=20)
                history.append({**history[-1], **changes})
            backup.go.set()
            await primary.update({"end": True}, timeout=20)
            deadline = time.monotonic() + 30
            while "end" not in backup.items:
                assert time.monotonic() < deadline, backup.items
                await asyncio.sleep(0.02)
            assert backup.items == primary.items
            assert backup.taken < 20  # of 301 events
            assert all(state in history for state in backup.shown[:-1])

    asyncio.run(main())


async def primary_client(
    stores: list[gossamer.PrimaryBackup], rng: random.Random, count: int, history: list[Operation], tag: str
) -> None:
    """Writes x, y or both at once, and reads, at the current primary; what failed may have taken effect."""
    for number in range(count):
        while not (alive := [store for store in stores if store.member.failure is None and store.is_primary]):
            await asyncio.sleep(0.01)
        called, value = time.monotonic(), f"{tag}{number}"
        names = rng.choice((["x"], ["y"], ["x", "y"]))
        if rng.random() < 0.5:
            with suppress(gossamer.GossamerError):
                read = await alive[0].read(names[0], timeout=20)
                history.append(Operation("read", names[0], read, called, time.monotonic()))
            continue
        ended = math.inf
        with suppress(gossamer.GossamerError):
            await alive[0].update(dict.fromkeys(names, value), timeout=20)
            ended = time.monotonic()
        history.extend(Operation("write", name, value, called, ended) for name in names)


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_updates_and_reads_at_the_primary_are_linearizable_though_it_dies(order: str) -> None:
    async def main() -> None:
        stores = [gossamer.PrimaryBackup() for _ in range(3)]
        history: list[Operation] = []
        names = sorted(addresses(3))
        async with AsyncExitStack() as stack:
            await asyncio.gather(
                *(
                    stack.enter_async_context(
                        store.join("g", listen=name, peers=[n for n in names if n != name], order=order)
                    )
                    for store, name in zip(stores, names, strict=True)
                )
            )
            clients = [
                asyncio.create_task(primary_client(stores, random.Random(at), 25, history, "abcd"[at]))
                for at in range(4)
            ]
            while len(history) < 30:
                await asyncio.sleep(0)
            stores[0].member.kill()
            await asyncio.gather(*clients)
            assert stores[1].is_primary
            assert len(history) > 90
            assert linearizable(history)
            assert not linearizable([*history, Operation("read", "x", "a", time.monotonic(), time.monotonic() + 1)])
            last = await stores[1].read("x", timeout=20)
            await stores[1].update({"end": True}, timeout=20)
            deadline = time.monotonic() + 30
            while "end" not in stores[2].items:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert stores[2].items == stores[1].items
            assert stores[2].items.get("x") == last

    asyncio.run(main())


def test_an_update_of_several_items_is_not_cut_by_a_change_of_view() -> None:
    async def main() -> None:
        primary, *others = [gossamer.PrimaryBackup() for _ in range(5)]
        first, second, *later = sorted(addresses(5))
        async with AsyncExitStack() as stack:
            await found(stack, [primary, others[0]], [first, second])

            async def come(store: gossamer.PrimaryBackup, name: str) -> None:
                await stack.enter_async_context(store.join("g", listen=name, peers=[first]))

            joining = [asyncio.create_task(come(*each)) for each in zip(others[1:], later, strict=True)]
            number = 0
            while number < 50 or not all(task.done() for task in joining):
                changes = dict.fromkeys(map(str, range(200)), number)
                await primary.update(changes, timeout=20)
                assert primary.items == changes
                number += 1
            await asyncio.gather(*joining)
            deadline = time.monotonic() + 30
            while any(store.items != primary.items for store in others):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)

    asyncio.run(main())


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_an_update_that_a_later_one_obsoletes_returns_when_that_is_applied(order: str) -> None:
    async def main() -> None:
        primary, backup = gossamer.PrimaryBackup(), gossamer.PrimaryBackup()
        first, second = sorted(addresses(2))
        async with AsyncExitStack() as stack:
            await asyncio.gather(
                stack.enter_async_context(primary.join("g", listen=first, peers=[second], order=order)),
                stack.enter_async_context(backup.join("g", listen=second, peers=[first], order=order)),
            )

            async def update(number: int) -> None:
                await primary.update({"x": number}, timeout=10)
                assert primary.items["x"] >= number

            await asyncio.gather(*map(update, range(100)))

    asyncio.run(main())
