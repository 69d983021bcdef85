"""Two ways to replicate a service over a group, ready to use (000 §2.3, §3.4; docs/groups.md).

`ReplicatedState`: every replica applies every command, in one total order; any of them answers. `PrimaryBackup`: one
replica does the work and multicasts what changed; when it fails, the next in the view takes over with all of it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

from gossamer.messages.errors import ConnectionLost, GossamerError, Timeout, UsageError
from gossamer.messages.event import Attributes, Event
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Part
from gossamer.protocol.groups.items import Items
from gossamer.sdk.member import Member, View, join


class _Replica(ABC):
    """A member and the task that applies what it is delivered."""

    def __init__(self) -> None:
        self._member: Member | None = None
        self._results: dict[EventId, asyncio.Future[Any]] = {}

    @asynccontextmanager
    async def _joined(self, group: str, **options: Any) -> AsyncIterator[Self]:
        async with join(group, state=self.snapshot, **options) as member:
            self._member = member
            if member.state:
                self.restore(member.state)
            member.on_omitted = self._on_omitted
            if isinstance(first := await anext(member), View):
                self._on_view(first)
            task = asyncio.create_task(self._run(member))
            try:
                yield self
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                self._end(ConnectionLost("this replica has left the group"))

    @abstractmethod
    def snapshot(self) -> bytes:
        """The whole state, for who joins."""

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Begin with a state that another replica gave."""

    @property
    def member(self) -> Member:
        if self._member is None:
            raise UsageError("this replica is not in a group yet: async with replica.join(...)")
        return self._member

    async def _run(self, member: Member) -> None:
        try:
            async for item in member:
                if isinstance(item, View):
                    self._on_view(item)
                else:
                    self._on_event(item)
        except GossamerError as error:
            self._end(error)

    async def _applied(self, id: EventId, timeout: float | None) -> Any:
        """Wait until something of ours is applied here, and return what came of it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._results[id] = future
        try:
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise Timeout(f"not applied within {timeout:g} s") from None
        finally:
            self._results.pop(id, None)

    def _answer(self, id: EventId | None, result: Any = None, failure: Exception | None = None) -> None:
        future = self._results.get(id) if id is not None else None
        if future is not None and not future.done():
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _on_view(self, view: View) -> None:  # noqa: B027 (not everyone needs it)
        """The group has changed."""

    @abstractmethod
    def _on_event(self, event: Event) -> None: ...

    def _on_omitted(self, id: EventId) -> None:
        """It was left out of the queue, for one that obsoletes it: it only overwrote, and is overwritten."""
        self._answer(id)

    def _end(self, error: GossamerError) -> None:
        """Nothing more will be applied."""
        for id in list(self._results):
            self._answer(id, failure=error)


class ReplicatedState(_Replica):
    """A replicated state machine: say what a command does, and it is done once, everywhere, in one order.

        class Registers(gossamer.ReplicatedState):
            def __init__(self): super().__init__(); self.values = {}
            def apply(self, command):
                if command["op"] == "set":
                    self.values[command["name"]] = command["value"]
                return self.values.get(command["name"])
            def snapshot(self): return json.dumps(self.values).encode()
            def restore(self, state): self.values = json.loads(state)

        async with Registers().join("registers", listen=..., peers=[...]) as registers:
            await registers.submit({"op": "set", "name": "x", "value": 1})

    What is submitted is linearizable. A replica that is slow need not apply everything: a command that only overwrites,
    and was overwritten before anybody read it, is obsolete (000 §3.4.4). For that, say what a command `writes` blindly
    and what it `reads`; whatever is read is protected, and the default is that nothing is ever obsolete.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, EventId] = {}
        """The last blind update of each item that nobody has read since."""
        self._standing: dict[EventId, set[str]] = {}
        """Of each such update, the items that are not overwritten."""
        self._obsolete: list[EventId] = []

    @abstractmethod
    def apply(self, command: Attributes) -> Any:
        """Do it, the same way everywhere; what it returns is what `submit` returns."""

    def writes(self, command: Attributes) -> Iterable[str]:  # noqa: ARG002 (for who overrides it)
        """The items that a command sets without looking at anything, if that is all it does."""
        return ()

    def reads(self, command: Attributes) -> Iterable[str]:  # noqa: ARG002 (for who overrides it)
        """The items whose value a command tells, or uses."""
        return ()

    def join(self, group: str, **options: Any) -> Any:
        """`async with state.join("name", listen=..., peers=[...]) as state`; the options are those of
        `gossamer.join`."""
        if options.setdefault("order", "total") != "total" or options.setdefault("agreement", "uniform") != "uniform":
            raise UsageError("a replicated state needs total order and uniform agreement")
        return self._joined(group, **options)

    async def submit(self, command: Attributes, timeout: float | None = None) -> Any:
        """Have a command applied by all, and return what `apply` returned here."""
        obsoletes, self._obsolete = self._obsolete, []
        id = self.member.multicast_nowait(command, obsoletes=obsoletes[-256:])
        return await self._applied(id, timeout)

    def _on_event(self, event: Event) -> None:
        assert event.id is not None
        result: Any = None
        failure: Exception | None = None
        try:
            result = self.apply(event.attributes)
        except Exception as error:  # the same everywhere: it is the submitter's to know
            failure = error
        self._note(event.id, event.attributes)
        self._answer(event.id, result, failure)

    def _note(self, id: EventId, command: Attributes) -> None:
        """What is read stands for ever; what is overwritten unread may go, once all of it is."""
        for item in self.reads(command):
            if (read := self._last.pop(item, None)) is not None:
                self._standing.pop(read, None)
        items = set(self.writes(command))
        for item in items:
            before = self._last.get(item)
            if before is not None and (standing := self._standing.get(before)) is not None:
                standing.discard(item)
                if not standing:
                    del self._standing[before]
                    self._obsolete.append(before)
            self._last[item] = id
        if items:
            self._standing[id] = items


class PrimaryBackup(_Replica):
    """Items that one replica, the primary, changes, and the others follow.

        async with gossamer.PrimaryBackup().join("config", listen=..., peers=[...]) as store:
            if store.is_primary:
                await store.update({"host": "a", "port": 1})       # both, or neither
            store.items["host"]

    The first member of the view is the primary. When it fails the view changes, and since everyone who is in the new
    one has delivered the same, the next one takes over with exactly what the others have: `took_over` is called. An
    update of several items is applied by all or (when the primary died before its COMMIT) by none. An update obsoletes
    earlier ones of its items, so that a backup that is behind skips them; each state that it shows is one that the
    primary was in (protocol/groups/items.py). With uniform agreement, the default, updates and `read()` are
    linearizable; `items` of a backup may be behind.
    """

    def __init__(self, took_over: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._items = Items()
        self._took_over = took_over
        self._was_primary = False

    @property
    def items(self) -> dict[str, Any]:
        """The items as of the last operation that is applied here."""
        return self._items.values

    def join(self, group: str, **options: Any) -> Any:
        """`async with store.join("name", listen=..., peers=[...]) as store`; the options are those of
        `gossamer.join`."""
        if options.setdefault("order", "fifo") == "causal":
            raise UsageError('a primary and its backups need views: order="fifo" or "total"')
        return self._joined(group, **options)

    @property
    def is_primary(self) -> bool:
        view = self.member.view
        return view is not None and view.members[0] == self.member.id

    async def update(self, items: dict[str, Any], timeout: float | None = None) -> None:
        """Change items, all or none, and return when the change cannot be lost.

        Raises:
            UsageError: this replica is not the primary.
            Timeout: the change was not applied in time; it may still be.
        """
        self._check_primary("update")
        if not items:
            return
        await self._applied(self._items.issue(items, self._multicast), timeout)

    async def read(self, name: str, timeout: float | None = None) -> Any:
        """Return an item's value, None if it was never set, once a majority confirms that this replica is the primary.

        Raises:
            UsageError: this replica is not the primary.
            Timeout: no majority answered in time.
        """
        self._check_primary("read")
        await self._applied(self.member.multicast_nowait(self._items.question()), timeout)
        return self.items.get(name)

    def _multicast(self, parts: list[Part]) -> EventId:
        if len(parts) > 1:
            return self.member.transaction_nowait(parts)
        (part,) = parts
        return self.member.multicast_nowait(part.attributes, part.body, key=part.key)

    def _check_primary(self, verb: str) -> None:
        if not self.is_primary:
            raise UsageError(f"only the primary, the first member of the view, may {verb}")

    def _on_event(self, event: Event) -> None:
        if self._items.take(event) and event.id is not None and event.id.stream == self.member.stream:
            for id in [id for id in self._results if id.seq <= event.id.seq]:
                self._answer(id)

    def _on_omitted(self, id: EventId) -> None:
        """Wait on: an obsolete update is answered when the event that obsoletes it is applied."""

    def _on_view(self, view: View) -> None:
        self._items.end_view()
        if self.is_primary and not self._was_primary:
            self._was_primary = True
            self._items.take_over()
            if view.number > 0 and self._took_over is not None:
                self._took_over()

    def snapshot(self) -> bytes:
        return self._items.snapshot()

    def restore(self, state: bytes) -> None:
        self._items.restore(state)
