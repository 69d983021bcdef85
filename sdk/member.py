"""`gossamer.join`: a member of a group, with total or causal order, uniform agreement and views (docs/groups.md).

    async with gossamer.join("bank", listen="tcp://127.0.0.1:7501", peers=["tcp://127.0.0.1:7502"]) as member:
        await member.multicast({"account": "a", "amount": 10})
        async for item in member:
            match item:
                case gossamer.View(members=members):
                    print("we are", members)
                case event:
                    print(event.attributes)

Members talk to each other directly, without a broker. All that is hard is done by the machines of protocol/groups/, in
a thread of its own (sdk/group_runtime.py); what stands here runs in the application's event loop.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal

from gossamer.broker.addresses import check_peer
from gossamer.messages.errors import BufferFull, ConnectionLost, GossamerError, Timeout, UsageError
from gossamer.messages.event import Attributes, Content, Event, Head, check_sizes, is_plain
from gossamer.messages.ids import EventId, NodeId
from gossamer.protocol.annotator import Annotator, Part, Scope
from gossamer.protocol.groups.effects import (
    Deliver,
    Discarded,
    Effect,
    Expelled,
    Joined,
    Left,
    Omit,
    Stalled,
    View,
)
from gossamer.protocol.groups.inputs import Exclude, Input, Leave, Multicast, Snapshot
from gossamer.protocol.groups.rotation import Settings
from gossamer.protocol.groups.seat import Machine, Make, Seat
from gossamer.protocol.groups.streams import stream_of
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.views import Views
from gossamer.protocol.purging import PurgingBuffer
from gossamer.sdk.group_runtime import GroupRuntime, address_of
from gossamer.sdk.rendezvous import Rendezvous

__all__ = ["Member", "View", "join"]

Order = Literal["fifo", "causal", "total"]
Agreement = Literal["plain", "uniform"]
Protocol = Literal["views", "urgc", "urcgc"]
ORDERS: dict[str, tuple[Order, ...]] = {"views": ("fifo", "causal", "total"), "urgc": ("total",), "urcgc": ("causal",)}
PENDING_MAX = 65_536
LEAVE_S = 5.0
JOIN_S = 30.0
SUBRUN_S, SILENCE = 0.25, 8
"""Of urgc and urcgc: a member is expelled after two seconds; processes on a busy machine get no time for long."""
ANYWHERE = "tcp://127.0.0.1:0"
QUEUE_MAX = 2**30

_log = logging.getLogger("gossamer.group")


class Member:
    """A member of a group; use `join`. Iterating over it yields events and views, in the order that was chosen."""

    def __init__(
        self, group: str, runtime: GroupRuntime, *, causal: bool, views: bool, state: Callable[[], bytes] | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._runtime = runtime
        self.group = group
        self.id = runtime.me
        self.stream = stream_of(group, runtime.me)
        self._causal = causal
        self._views = views
        self._snapshot = state
        self.state = b""
        """What the application is to begin with: the state that the others had when this member joined."""
        self.view: View | None = None
        """The view of the last `View` that was handed out."""
        self.stalled = False
        """Too few members can be reached: nothing can be decided, and what is multicast waits."""
        self.on_omitted: Callable[[EventId], None] | None = None
        """Called with what is left out of the queue of a slow application, for something that obsoletes it."""
        self.failure: GossamerError | None = None
        self._left = False
        self._annotator = Annotator(self.stream)
        self._queue: deque[PurgingBuffer | deque[Event] | View] = deque()
        """What waits for the application: in each view, events that concern no other, and others, in turns."""
        self._ready: asyncio.Future[None] | None = None
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._settled = -1
        self.joined: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._rendezvous: Rendezvous | None = None

    # Multicasting ---------------------------------------------------------------------------------------------------

    async def multicast(
        self,
        attributes: Attributes,
        body: bytes = b"",
        *,
        key: str | None = None,
        rank: int | float | None = None,
        scope: Scope = "publisher",
        obsoletes: Iterable[EventId] = (),
        after: Iterable[EventId] = (),
        timeout: float | None = None,
    ) -> EventId:
        """Multicast to the group, and return when the chosen guarantee holds: it is delivered here, and so (with
        uniform agreement) will be everywhere.

            id = await member.multicast({"account": "a", "amount": 10}, timeout=5)
        """
        id = self.multicast_nowait(attributes, body, key=key, rank=rank, scope=scope, obsoletes=obsoletes, after=after)
        await self.settled(id, timeout)
        return id

    def multicast_nowait(
        self,
        attributes: Attributes,
        body: bytes = b"",
        *,
        key: str | None = None,
        rank: int | float | None = None,
        scope: Scope = "publisher",
        obsoletes: Iterable[EventId] = (),
        after: Iterable[EventId] = (),
    ) -> EventId:
        """The same without waiting; `settled(id)` waits for it. `BufferFull` if too much is under way."""
        self._check()
        seq = self._annotator.next
        if self.pending >= PENDING_MAX:
            raise BufferFull(f"{self.pending} messages are under way")
        names = tuple(after)
        if names and not self._causal:
            raise UsageError('after= is for order="causal"; in total order a message comes after all before it')
        plain = rank is None and scope == "publisher" and not obsoletes and is_plain(key, attributes, body)
        if plain:
            check_sizes(attributes, body)
        if plain and self._annotator.count(key):
            content = Content(key, None, None, time.time_ns(), False, attributes, body)
        else:
            content = self._annotator.event(
                attributes, body, key=key, rank=rank, scope=scope, obsoletes=obsoletes, time_ns=time.time_ns()
            )
        self._runtime.submit(Multicast((content,), names))
        return EventId(self.stream, seq)

    def transaction_nowait(self, parts: Sequence[Part]) -> EventId:
        """Multicast parts and their COMMIT, all in one view, and return the id of the COMMIT (000 §3.4.3).

        The COMMIT obsoletes earlier ones, and earlier events of its parts' keys; nothing obsoletes a part before that.
        """
        self._check()
        if self.pending + len(parts) >= PENDING_MAX:
            raise BufferFull(f"{self.pending} messages are under way")
        contents = self._annotator.transaction(parts, time_ns=time.time_ns())
        self._runtime.submit(Multicast(contents))
        return EventId(self.stream, self._annotator.next - 1)

    @property
    def pending(self) -> int:
        """How many of our messages are under way: not delivered here yet."""
        return self._annotator.next - 1 - self._settled

    async def settled(self, id: EventId, timeout: float | None = None) -> None:
        """Wait until a message of ours is delivered here (or left out, for one that obsoletes it)."""
        self._check()
        if id.seq <= self._settled:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append((id.seq, future))
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise Timeout(f"not delivered within {timeout:g} s") from None

    def exclude(self, node: NodeId) -> None:
        """Have the group go on without a member."""
        self._check()
        self._runtime.submit(Exclude(node))

    # Receiving ------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> "Member":
        return self

    async def __anext__(self) -> Event | View:
        while True:
            item = self.next_nowait()
            if item is not None:
                return item
            if self._left:
                raise StopAsyncIteration
            if self.failure is not None:
                raise self.failure
            self._ready = self._loop.create_future()
            await self._ready

    def next_nowait(self) -> Event | View | None:
        """The next item, if one is here."""
        queue = self._queue
        while queue:
            first = queue[0]
            if isinstance(first, deque):
                if first:
                    return first.popleft()
                queue.popleft()
                continue
            if isinstance(first, View):
                queue.popleft()
                self.view = first
                if first.joined and self.id not in first.joined and self._snapshot is not None:
                    # All before the view is applied, and nothing after it: this is the state that newcomers begin with.
                    self._runtime.submit(Snapshot(first.number, self._snapshot()))
                if self._views:
                    return first
                continue
            assert isinstance(first, PurgingBuffer)
            taken = first.take(1)
            if taken:
                event: Event = taken[0].payload
                return event
            queue.popleft()
        return None

    # From the thread of the runtime -----------------------------------------------------------------------------------

    def _report(self, effects: list[Effect]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._on_effects, effects)

    def _on_effects(self, effects: list[Effect]) -> None:
        if self._runtime.failure is not None:
            self._fail(GossamerError(f"the member failed: {self._runtime.failure!r}"))
        for effect in effects:
            if type(effect) is Deliver:  # almost all are
                event = effect.event
                self._put(event)
                if event.id is not None and event.id[0] == self.stream:
                    self._settle(event.id)
                continue
            match effect:
                case Omit(id):
                    self._settle(id)
                case View():
                    self._queue.append(effect)
                    if self._snapshot is None:  # there is nothing to give, so nobody need wait for it
                        self._runtime.submit(Snapshot(effect.number, b""))
                    if not self.joined.done():
                        self.joined.set_result(None)
                case Joined(state):
                    self.state = state
                case Stalled(reached, needed):
                    self.stalled = reached < needed
                    _log.warning("%s reaches %d of the %d members it needs", self.id, reached, needed)
                case Discarded(node, last):
                    _log.warning("%s: what %s sent after %d is lost with it", self.id, node, last)
                case Expelled(reason):
                    self._fail(ConnectionLost(reason))
                case Left():
                    self._left = True
                    if not self._gone.done():
                        self._gone.set_result(None)
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _put(self, event: Event) -> None:
        """Behind what waits already; what it obsoletes of that, within the view, is left out."""
        assert event.id is not None
        queue = self._queue
        loose = event.key is None and event.relation is None
        if loose and not (queue and isinstance(queue[-1], PurgingBuffer) and len(queue[-1])):
            # Nothing that waits could be obsolete by it, nor it by anything.
            last = queue[-1] if queue else None
            if not isinstance(last, deque):
                last = deque()
                queue.append(last)
            last.append(event)
            return
        if not queue or not isinstance(queue[-1], PurgingBuffer):
            queue.append(PurgingBuffer(QUEUE_MAX, QUEUE_MAX, overflow="drop-new"))
        buffer = queue[-1]
        assert isinstance(buffer, PurgingBuffer)
        head = None if loose else Head(event.key, event.rank, event.relation, event.time_ns)
        for omitted in buffer.append(event.id.stream, event.id.seq, head, 1, event):
            if self.on_omitted is not None:
                self.on_omitted(omitted.entry.id)

    def _settle(self, id: EventId | None) -> None:
        if id is None or id.stream != self.stream:
            return
        self._settled = max(self._settled, id.seq)
        waiters = self._waiters
        while waiters and waiters[0][0] <= self._settled:
            future = waiters.popleft()[1]
            if not future.done():
                future.set_result(None)

    def _fail(self, error: GossamerError) -> None:
        if self.failure is None:
            self.failure = error
        for future in (self.joined, self._gone, *(future for _, future in self._waiters)):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits for it gets it; nobody has to
        self._waiters.clear()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._left:
            raise ConnectionLost("this member has left the group")

    def _tell(self, given: Input) -> None:
        self._runtime.submit(given)

    # The life of a member -------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Stop at once, without a word to anybody: what a crash looks like to the others."""
        self._runtime.stop()
        self._fail(ConnectionLost("this member was killed"))
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def close(self) -> None:
        """Leave in order: the others go on without a pause."""
        if not self._left and self.failure is None and self.joined.done():
            with suppress(GossamerError):  # what could not be delivered is nobody's
                await self.settled(EventId(self.stream, self._annotator.next - 1), LEAVE_S)
            self._tell(Leave())
            with suppress(TimeoutError, GossamerError):
                await asyncio.wait_for(asyncio.shield(self._gone), LEAVE_S)
        self._left = True
        if self._rendezvous is not None:
            await self._rendezvous.close()
        await asyncio.to_thread(self._runtime.stop, 0.2)
        self._fail(ConnectionLost("this member has left the group"))


class Joining:
    """`async with join(...) as member`, or `member = await join(...)`."""

    def __init__(
        self,
        group: str,
        url: str | None,
        peers: tuple[str, ...],
        listen: str,
        order: Order,
        uniform: bool,
        views: bool,
        protocol: Protocol,
        timeout: float,
        state: Callable[[], bytes] | None,
    ) -> None:
        self._group, self._url, self._peers, self._listen = group, url, peers, listen
        self._order, self._uniform, self._protocol = order, uniform, protocol
        self._views = views
        self._timeout = timeout
        self._state = state
        self._member: Member | None = None

    async def _join(self) -> Member:
        effects: list[Effect] = []
        runtime = GroupRuntime(self._listen, effects.extend)
        try:
            member = Member(
                self._group, runtime, causal=self._protocol == "urcgc", views=self._views, state=self._state
            )
        except BaseException:
            runtime.stop()
            raise
        self._member = member
        runtime._report = member._report
        try:
            peers = self._peers
            if self._url is not None:
                member._rendezvous = await Rendezvous.at(self._url, self._group, runtime.address)
                peers = await member._rendezvous.meet(self._timeout)
        except BaseException:
            await member.close()
            raise
        seat = Seat(
            runtime.me,
            runtime.address,
            peers,
            self._make(runtime.me),
            joins=self._protocol == "views",
            address_of=address_of,
        )
        runtime.start(seat)
        try:
            await asyncio.wait_for(asyncio.shield(member.joined), self._timeout)
        except TimeoutError:
            await member.close()
            raise Timeout(f"not in the group {self._group} within {self._timeout:g} s") from None
        except BaseException:
            await member.close()
            raise
        if member._rendezvous is not None:
            member._rendezvous.answer()
        return member

    def _make(self, me: NodeId) -> Make:
        group, uniform = self._group, self._uniform

        def make(view: int, members: tuple[NodeId, ...], starts: tuple[int, ...]) -> Machine:
            match self._protocol:
                case "urgc":
                    return Urgc(group, me, members, Settings(subrun_s=SUBRUN_S, silence=SILENCE, uniform=uniform))
                case "urcgc":
                    return Urcgc(group, me, members, Settings(subrun_s=SUBRUN_S, silence=SILENCE, uniform=uniform))
                case _:
                    return Views(group, me, members, view=view, starts=starts, order=self._order, uniform=uniform)

        return make

    def __await__(self):  # type: ignore[no-untyped-def]
        return self._join().__await__()

    async def __aenter__(self) -> Member:
        return await self._join()

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        assert self._member is not None
        await self._member.close()


def join(
    group: str,
    url: str | None = None,
    *,
    peers: Iterable[str] = (),
    listen: str | None = None,
    order: Order = "total",
    agreement: Agreement = "uniform",
    views: bool = True,
    protocol: Protocol | None = None,
    timeout: float = JOIN_S,
    state: Callable[[], bytes] | None = None,
) -> Joining:
    """Become a member of a group.

        async with gossamer.join("bank", listen="tcp://10.0.0.5:7501", peers=["tcp://10.0.0.6:7501"]) as member:
            await member.multicast({"account": "a", "amount": 10})

    Without `peers` the group begins here. The members that found a group name each other as peers, and it begins when
    all of them are there; a later one names any of them. With the `url` of a broker they meet there, and whoever is
    first begins. Who comes later is let in with the state that `state()` gives there (`member.state` here).

    `order` is "fifo", "causal" or "total"; `agreement` "uniform" (what one member delivers, all that do not crash
    deliver) or "plain"; with `views=False` only events are yielded. `protocol` is "views" unless order is "causal",
    which is served by "urcgc"; "urgc" is another way to total order. Their groups are founded once, and nobody joins
    later.
    """
    if url is not None and peers:
        raise UsageError("either peers, or the url of a broker at which to meet them")
    if order not in ("fifo", "causal", "total"):
        raise UsageError(f'order: "fifo", "causal" or "total", not {order!r}')
    if agreement not in ("plain", "uniform"):
        raise UsageError(f'agreement: "plain" or "uniform", not {agreement!r}')
    chosen: Protocol = protocol or ("urcgc" if order == "causal" else "views")
    if chosen not in ORDERS or order not in ORDERS[chosen]:
        raise UsageError(f"protocol={protocol!r} does not serve order={order!r}")
    if url is not None and chosen != "views":
        raise UsageError(f"a group of {chosen} is fixed from the start: its members are named with peers=")
    stream_of(group, "name")  # it has to be fit for the ids of streams
    addresses = tuple(map(check_peer, peers))
    return Joining(
        group, url, addresses, listen or ANYWHERE, order, agreement == "uniform", views, chosen, timeout, state
    )
