"""A client: the door for an application, once `gossamer.connect` has opened it (sdk/connecting.py).

    async with gossamer.connect("tcp://127.0.0.1:7400") as client:
        sub = await client.subscribe("symbol IN ('IBM', 'MSFT') AND price > 100")
        await client.publish({"symbol": "IBM", "price": 101.5}, key="IBM")
        async for event in sub:
            print(event.attributes["price"])
            break

A client numbers its events as they are published, and keeps them until they are logged; so an event has its id at once,
and no broker is waited for, unless the outgoing buffer is full or an acknowledgement was asked for. Everything that
takes time is done by the thread of sdk/transport.py; what stands here runs in the application's event loop.
"""

import asyncio
import heapq
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from gossamer.matching import Selector
from gossamer.matching.routing import Routes
from gossamer.messages.errors import BufferFull, ConnectionLost, GossamerError, Timeout, UsageError
from gossamer.messages.event import IDS_MAX, Attributes, Content, Event, known_names
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import encode_content
from gossamer.messages.quick import pair
from gossamer.messages.session import Policy
from gossamer.protocol.annotator import Annotator, Part, Scope
from gossamer.protocol.clock import HybridClock
from gossamer.protocol.dependent import DependentAnnotator
from gossamer.protocol.durable import durable_id
from gossamer.protocol.obsolescence import named
from gossamer.sdk.cloudevents import CloudEvent, taken_apart
from gossamer.sdk.outgoing import PACKET_EVENTS_MAX
from gossamer.sdk.spool import Spool
from gossamer.sdk.subscription import Subscription, check_options
from gossamer.sdk.track import Beginning, start_of
from gossamer.sdk.transport import REFUSED_S, UNANSWERED_S, Transport
from gossamer.sdk.waiting import Turns

if TYPE_CHECKING:
    from gossamer.sdk.embedded import Embedded

Ack = Literal["sent", "logged", "safe"]
ACKS = ("sent", "logged", "safe")
YIELD_EVENTS = 256
_time_ns = time.time_ns


class Home:
    """The application's event loop, as the transport sees it. It does not know the client, which the application may
    forget at any time: then whatever is here is let go of."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._watched: int | None = None
        self.turns = _turns.setdefault(self._loop, Turns())
        self.attend: Callable[[], None] = lambda: None

    def call(self, call: Callable[..., None], *arguments: object) -> None:
        """Call something in the loop's thread, soon or now."""
        if threading.get_ident() == self._thread:
            call(*arguments)
            return
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(call, *arguments)

    def watch(self, watched: int | None) -> None:
        """A session has begun, or (None) is over: what comes is taken here, while the loop turns."""
        if self._watched is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._watched)
            os.close(self._watched)
        self._watched = watched
        if watched is not None:
            try:
                self._loop.add_reader(watched, self.attend)
            except NotImplementedError:  # there are such loops: the transport's thread does it all then
                self._watched = None
                os.close(watched)

    def on_opened(self, watched: int | None) -> None:
        """The same from any thread; a loop that is closed watches nothing any more."""
        if threading.get_ident() == self._thread:
            self.watch(watched)
            return
        try:
            self._loop.call_soon_threadsafe(self.watch, watched)
        except RuntimeError:
            if watched is not None:
                os.close(watched)

    def leave(self) -> None:
        """Nothing is watched any more; from any thread, and also when the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self.watch, None)
        except RuntimeError:
            self.watch(None)


_turns: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = weakref.WeakKeyDictionary()


def _abandon(transport: Transport, home: Home) -> None:
    transport.abandon()
    home.leave()


class Client:
    """A connection to the mesh; use `connect`."""

    def __init__(
        self,
        urls: tuple[str, ...],
        *,
        group: str,
        timeout: float,
        publisher: str | None = None,
        spool: Spool | None = None,
        embedded: "Embedded | None" = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._spooled = [] if spool is None else list(spool.unlogged)
        self._timeout = timeout
        self._group = group
        self._embedded = embedded
        self._annotator: Annotator | None = None
        self._clock = HybridClock()
        self._noted: dict[EventId, Event] = {}
        self._noted_keys: dict[tuple[StreamId, str], EventId] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._numbered = 0
        self._waiters: dict[str, list[tuple[int, int, asyncio.Future[None]]]] = {ack: [] for ack in ACKS}
        self._room: list[asyncio.Future[None]] = []
        self._waiting = 0
        self._welcomed: asyncio.Future[None] = self._loop.create_future()
        self._closed = False
        # The transport's thread must not keep alive what the application has forgotten.
        self._home = home = Home()
        self._transport = Transport(
            urls,
            group=group,
            timeout_s=timeout,
            publisher=publisher,
            spool=spool,
            on_welcome=_weakly(self._on_welcome, home.call),
            on_acks=_weakly(self._on_acks_from_thread),
            on_failed=_weakly(self._on_failed, home.call),
            on_opened=home.on_opened,
            turns=home.turns,
            tells_waiting=embedded is None,
        )
        self._outgoing = self._transport.outgoing
        home.attend = self._transport.attend
        self._finalizer = weakref.finalize(self, _abandon, self._transport, home)
        self._finalizer.atexit = False  # sdk/transport.py sees to that

    # Publishing -----------------------------------------------------------------------------------------------------

    async def publish(
        self,
        attributes: Attributes | CloudEvent,
        body: bytes = b"",
        *,
        key: str | None = None,
        rank: int | float | None = None,
        scope: Scope = "publisher",
        obsoletes: Iterable[EventId] = (),
        after: Iterable[EventId] = (),
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> EventId:
        """Publish an event, and return its id.

        It waits for room in the outgoing buffer; in a group with back-pressure that is for the slowest subscription
        (`blocked_by`), else never for a consumer. With `ack` it also waits until the broker has the event ("sent"),
        until enough loggers have it on disk ("logged"), or until enough members hold it ("safe").

            await client.publish({"type": "quote", "price": 101.5}, key="IBM", ack="logged")

        In place of attributes and body it takes a CloudEvent: a dict in its JSON shape, or an object like those of the
        `cloudevents` package.
        """
        if ack is not None:
            check_ack(ack)
            self._outgoing.waited += 1  # the broker is told with the event
        try:
            while True:
                try:
                    id = self.publish_nowait(
                        attributes, body, key=key, rank=rank, scope=scope, obsoletes=obsoletes, after=after
                    )
                    break
                except BufferFull:
                    await self._wait_for_room(timeout)
        finally:
            if ack is not None:
                self._outgoing.waited -= 1
        if ack is not None:
            await self._wait_for(id.seq, ack, timeout)
        elif not id.seq % YIELD_EVENTS:
            await asyncio.sleep(0)
        return id

    def publish_nowait(
        self,
        attributes: Attributes | CloudEvent,
        body: bytes = b"",
        *,
        key: str | None = None,
        rank: int | float | None = None,
        scope: Scope = "publisher",
        obsoletes: Iterable[EventId] = (),
        after: Iterable[EventId] = (),
    ) -> EventId:
        """The same without waiting for anything: `BufferFull` if there is no room.

        for price in (101.5, 101.7, 101.6):
            client.publish_nowait({"type": "quote", "price": price}, key="IBM")
        await client.flush()
        """
        # What is done for each event stands here in full: a call takes as long as three of these lines.
        annotator, outgoing, clock = self._annotator, self._outgoing, self._clock
        if annotator is None or self._closed or (seq := annotator.next) > outgoing.open_until:
            raise self._no_room()
        outbox = outgoing.outbox
        if outbox.posted_bytes >= outgoing.open_bytes:
            raise self._no_room()
        time_ns = _time_ns()
        if time_ns <= clock.last_ns:
            time_ns = clock.last_ns + 1
        clock.last_ns = time_ns
        if (
            rank is None
            and not obsoletes
            and not after
            and scope == "publisher"
            and not annotator.carrying
            and not annotator.dependent
            and outbox.post(known_names, key, time_ns, attributes, body)  # type: ignore[arg-type]
        ):
            if key is not None:
                annotator.plain.append((seq, key))
            annotator.next = seq + 1
        else:
            attributes, body, key = taken_apart(attributes, body, key)
            if after:
                annotator.come_after(after)
            content = annotator.event(
                attributes, body, key=key, rank=rank, scope=scope, obsoletes=obsoletes, time_ns=time_ns
            )
            outbox.append(encode_content(content))
        if time_ns >= outgoing.patient_until_ns or not seq % PACKET_EVENTS_MAX:
            self._transport.pump()
        return pair(EventId, annotator.stream, seq)

    def _no_room(self) -> GossamerError:
        self._open()
        return BufferFull(f"{self.pending} events are published and not logged yet{self._why_blocked()}")

    def _why_blocked(self) -> str:
        blocked_by = self.blocked_by
        return "" if blocked_by is None else f"; back-pressure: no room at {blocked_by}"

    async def delete(
        self,
        key: str,
        attributes: Attributes | None = None,
        *,
        scope: Scope = "publisher",
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> EventId:
        """Publish a tombstone: the key has no value any more.

        await client.delete("IBM", {"type": "quote", "reason": "delisted"})
        """
        if ack is not None:
            check_ack(ack)
        await self._wait_for_room(timeout)
        id = self._delete(key, attributes, scope)
        if ack is not None:
            await self._wait_for(id.seq, ack, timeout)
        return id

    def _delete(self, key: str, attributes: Attributes | None, scope: Scope) -> EventId:
        time_ns = self._clock.tick(_time_ns())
        return self._post((self._open().delete(key, attributes, scope=scope, time_ns=time_ns),))

    def transaction(self, *, ack: Ack | None = None, timeout: float | None = None) -> "Transaction":
        """Several events that are applied as one, or not at all.

        async with client.transaction() as tx:
            tx.publish({"account": "a", "balance": 90}, key="a")
            tx.publish({"account": "b", "balance": 110}, key="b")
        """
        if ack is not None:
            check_ack(ack)
        return Transaction(self, ack, timeout)

    async def flush(self, ack: Ack = "sent", timeout: float | None = None) -> None:
        """Wait until everything that was published so far is acknowledged.

        await client.flush("logged", timeout=5)
        """
        check_ack(ack)
        last = self._open().next - 1
        if last >= 0:
            await self._wait_for(last, ack, timeout)

    @property
    def pending(self) -> int:
        """How many events are published and not logged yet (in a mesh without loggers: not safe)."""
        return 0 if self._annotator is None else self._annotator.next - 1 - self._outgoing.acked

    @property
    def blocked_by(self) -> str | None:
        """In a group with back-pressure: the subscription without room for this client's next event, as
        `client/subscription at broker`; the broker alone until it has named one; None if there is room.

            if client.blocked_by is not None:
                print(client.pending, "events wait for", client.blocked_by)
        """
        return self._outgoing.blocked_by if self._outgoing.blocked else None

    @property
    def stream(self) -> StreamId:
        """The id of this client's stream."""
        return self._open().stream

    @property
    def node(self) -> str | None:
        """The broker that this client is with."""
        return self._transport.node

    @property
    def routes(self) -> Routes:
        """The groups by interest that the broker was told (`gossamer broker --groups`): where an event of this client's
        group is to be published, and where to listen to for a selector. Without any, all is in that group."""
        of = [each for each in self._transport.interests if each.of == self._group]
        return Routes({each.name: each.selector for each in of}, self._group)

    @property
    def url(self) -> str:
        """Where that broker is: other clients may connect there, too, also to one that is embedded here."""
        return self._transport.url

    def seen(self, what: Event | Selector | str) -> tuple[EventId, ...]:
        """Take note of an event, so that what is published from here on comes after it, and who obsoletes it obsoletes
        what it did; or name those, of the last 1,024 that were noted, that match a selector and still hold.

            client.seen(await anext(sub))
            await client.publish({"type": "summary"}, obsoletes=client.seen("symbol = 'IBM'"))
        """
        annotator = self._open()
        if not isinstance(what, Event):
            matches = (what if isinstance(what, Selector) else Selector(what)).matches
            return tuple(id for id, noted in self._noted.items() if matches(noted.attributes))
        if what.id is None:
            raise UsageError("seen: an event that was delivered, and so has an id")
        annotator.seen(what)
        self._clock.observe(what.time_ns, time.time_ns())
        if what.relation is None or not (what.relation.group or what.relation.part or what.relation.commit):
            self._note(what.id, what)
        return (what.id,)

    # Subscribing ----------------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        selector: str | Selector = "",
        *,
        durable: str | None = None,
        ack: Literal["auto", "manual"] = "auto",
        start: Beginning = "new",
        order: Literal["fifo", "none"] = "fifo",
        buffer: int = 1_024,
        policy: Policy = "auto",
        notices: bool = False,
    ) -> Subscription:
        """Subscribe to what matches a selector; once this returns, whatever is published comes.

        A `durable` subscription has a name, and goes on where it was left, by this client or another one, however long
        ago: the loggers keep what it has not had. A second client of that name takes it over, and the first gets
        `Superseded`. What was handed out counts as had when more is asked for; with `ack="manual"` when
        `await sub.ack(event)` says so. After a crash what had not been had comes again. `start` counts the first time.

        `start` may be "all" that the loggers have, "last_per_key" (the newest event of each key), a time with its
        zone (events published then or later), or the `position` of an earlier subscription; live events follow
        without a gap.

            sub = await client.subscribe("price > 100 AND symbol LIKE 'I%'")
            async for event in sub:
                print(event.key, event.attributes["price"])
                break
        """
        self._open()
        check_options(buffer, policy, order)
        if not self._transport.purging and policy != "random":
            policy = "none"  # every event of this group matters
        begins = start_of(start, self._group)
        if durable is not None:
            durable_id(self._group, durable)
        if ack not in ("auto", "manual"):
            raise UsageError(f'ack: "auto" or "manual", not {ack!r}')
        if policy == "random" and (begins is not None or durable is not None):
            raise UsageError('policy="random" loses events: not with durable=, nor with another start than "new"')
        if ack == "manual" and durable is None:
            raise UsageError('ack="manual" is for durable subscriptions')
        text = str(selector if isinstance(selector, Selector) else Selector(selector))
        number, self._numbered = self._numbered, self._numbered + 1
        subscription = Subscription(
            number, text, buffer=buffer, policy=policy, order=order, notices=notices, start=begins, durable=durable,
            manual=ack == "manual", loop=self._loop, turns=self._home.turns, credit=self._transport.credit,
            call=self._home.call,
        )  # fmt: skip
        subscription._close = self._unsubscribe
        subscription._say = self._transport.subscribe
        self._subscriptions[number] = subscription
        try:
            await asyncio.wait_for(subscription._settle(), self._timeout)
        except TimeoutError:
            self._unsubscribe(subscription)
            raise Timeout(f"not subscribed within {self._timeout:g} s") from None
        except BaseException:
            self._unsubscribe(subscription)
            raise
        return subscription

    # The life of a client -------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._transport.start()
        try:
            if self._embedded is None:
                await self._tell_if_waiting()
            await self._welcomed
        except BaseException:
            await self.close()
            raise

    async def _tell_if_waiting(self) -> None:
        """Not by the transport's own thread, which an address that swallows packets may hold up for seconds."""
        await asyncio.wait((self._welcomed,), timeout=REFUSED_S)
        if not self._transport.refused:
            await asyncio.wait((self._welcomed,), timeout=UNANSWERED_S - REFUSED_S)
        if not self._welcomed.done():
            self._transport.tell_waiting()

    async def close(self) -> None:
        """Send what is not sent, say goodbye, and end all subscriptions.

        client = await gossamer.connect("tcp://127.0.0.1:7400")
        await client.publish({"type": "quote", "price": 101.5})
        await client.close()
        """
        for subscription in self._subscriptions.values():
            subscription._in_hand = []
        await self._close()

    async def _close(self) -> None:
        """Like that, but what a durable subscription has just handed out is not done."""
        if self._closed:
            return
        try:
            if self._transport.failure is None and self._annotator is not None:
                with suppress(GossamerError):  # what could not be sent is nobody's
                    await self.flush("sent", self._timeout)
            self._closed = True
            await asyncio.gather(*(subscription._end() for subscription in list(self._subscriptions.values())))
        finally:  # also if it is cancelled: then nobody waits for the rest
            self._closed = True
            self._fail_waiters(ConnectionLost("the client is closed"))
            self._finalizer()
            embedded, self._embedded = self._embedded, None
            await asyncio.shield(asyncio.to_thread(_end, self._transport, embedded))

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await (self.close() if kind is None else self._close())

    # Inside ---------------------------------------------------------------------------------------------------------

    def _open(self) -> Annotator:
        if self._transport.failure is not None:
            raise self._transport.failure.with_traceback(None)  # or it would grow with each that is raised
        if self._closed or self._annotator is None:
            raise ConnectionLost("the client is closed")
        return self._annotator

    @property
    def _has_room(self) -> bool:
        annotator, outgoing = self._annotator, self._outgoing
        if annotator is None or annotator.next > outgoing.open_until:
            return False
        return outgoing.outbox.posted_bytes < outgoing.open_bytes

    def _post(self, contents: Sequence[Content]) -> EventId:
        """Hand over what the annotator has just numbered; the id is that of the last."""
        annotator, outgoing = self._annotator, self._outgoing
        assert annotator is not None
        for encoded in list(map(encode_content, contents)):  # all of them, or none
            outgoing.outbox.append(encoded)
        self._transport.pump()
        return EventId(annotator.stream, annotator.next - 1)

    async def _wait_for_room(self, timeout: float | None) -> None:
        self._open()
        while not self._has_room:
            future: asyncio.Future[None] = self._loop.create_future()
            self._room.append(future)
            try:
                await self._wait(future, timeout, "no room in the outgoing buffer")
            finally:
                if future in self._room:
                    self._room.remove(future)

    async def _wait_for(self, seq: int, ack: Ack, timeout: float | None) -> None:
        check_ack(ack)
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting += 1
        heapq.heappush(self._waiters[ack], (seq, self._waiting, future))
        self._on_acks()
        await self._wait(future, timeout, f"not {ack}")

    async def _wait(self, future: "asyncio.Future[None]", timeout: float | None, what: str) -> None:
        self._outgoing.waited += 1
        try:
            if not future.done():
                self._transport.hurry()
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise Timeout(f"{what} within {timeout:g} s{self._why_blocked()}") from None
        finally:
            self._outgoing.waited -= 1

    def _note(self, id: EventId, event: Event) -> None:
        """Keep what `seen` may name: not the body, nor what a newer one of its key has made obsolete."""
        gone = [] if event.key is None else [self._noted_keys.get((id.stream, event.key))]
        gone += named(id, event.relation)
        if len(self._noted) >= IDS_MAX:
            gone.append(next(iter(self._noted)))
        for each in gone:
            if each is not None and (noted := self._noted.pop(each, None)) is not None and noted.key is not None:
                self._noted_keys.pop((each.stream, noted.key), None)
        self._noted[id] = Event(event.key, attributes=event.attributes, id=id)
        if event.key is not None:
            self._noted_keys[id.stream, event.key] = id

    def _unsubscribe(self, subscription: Subscription, forget: bool = False) -> None:
        self._subscriptions.pop(subscription.number, None)
        self._transport.unsubscribe(subscription, forget)

    def _on_acks_from_thread(self) -> None:
        if self._room or any(self._waiters.values()):
            self._home.call(self._on_acks)

    def _on_acks(self) -> None:
        acks = self._outgoing.acks
        for ack, reached in (("sent", acks.sent), ("logged", acks.logged), ("safe", max(acks.safe, acks.logged))):
            waiters = self._waiters[ack]
            while waiters and waiters[0][0] <= reached:
                future = heapq.heappop(waiters)[2]
                if not future.done():
                    future.set_result(None)
        if self._room and self._has_room:
            room, self._room = self._room, []
            for future in room:
                if not future.done():
                    future.set_result(None)

    def _on_welcome(self, stream: StreamId, following: int) -> None:
        self._annotator = Annotator(stream, first=following)
        if self._transport.order == "causal":
            self._annotator = DependentAnnotator(stream, first=following, heard=self._heard)
        for event in (event for packet in self._spooled for event in packet.events()):
            self._annotator.seen(event)  # who names one of them names what it obsoletes
        self._spooled.clear()
        if not self._welcomed.done():
            self._welcomed.set_result(None)

    def _heard(self) -> dict[StreamId, int]:
        """How far each stream has come to this client."""
        heard: dict[StreamId, int] = {}
        for subscription in self._subscriptions.values():
            for stream, last in subscription._heard().items():
                heard[stream] = max(last, heard.get(stream, -1))
        return heard

    def _on_failed(self, error: GossamerError) -> None:
        if not self._welcomed.done():
            self._welcomed.set_exception(error)
        self._fail_waiters(error)

    def _fail_waiters(self, error: GossamerError) -> None:
        futures = [future for waiters in self._waiters.values() for _, _, future in waiters] + self._room
        for waiters in self._waiters.values():
            waiters.clear()
        self._room = []
        for future in futures:
            if not future.done():
                future.set_exception(error)


def _weakly(method: Callable[..., None], call: Callable[..., None] | None = None) -> Callable[..., None]:
    """A client's method, called (by `call`) if the client is still there by then."""
    weak = weakref.WeakMethod(method)

    def called(*arguments: object) -> None:
        if (method := weak()) is not None:
            if call is None:
                method(*arguments)
            else:
                call(method, *arguments)

    return called


def _end(transport: Transport, embedded: "Embedded | None") -> None:
    transport.close()
    if embedded is not None:
        embedded.stop()


def check_ack(ack: object) -> None:
    """At the caller, before anything is published."""
    if ack not in ACKS:
        raise UsageError(f'ack: "sent", "logged" or "safe", not {ack!r}')


class Transaction:
    """What is published in it is applied as one."""

    def __init__(self, client: Client, ack: Ack | None, timeout: float | None) -> None:
        self._client = client
        self._ack = ack
        self._timeout = timeout
        self._parts: list[Part] = []
        self.id: EventId | None = None
        """The id of its commit, once there is one."""

    def publish(
        self,
        attributes: Attributes | CloudEvent,
        body: bytes = b"",
        *,
        key: str | None = None,
        rank: int | float | None = None,
        obsoletes: Iterable[EventId] = (),
    ) -> None:
        """One more event of this transaction.

        async with client.transaction() as tx:
            tx.publish({"account": "a", "balance": 90}, key="a")
        print(tx.id)
        """
        attributes, body, key = taken_apart(attributes, body, key)
        self._parts.append(Part(attributes, body, key, rank, tuple(obsoletes)))

    def delete(self, key: str, attributes: Attributes | None = None) -> None:
        """A tombstone, as one of its events.

        async with client.transaction() as tx:
            tx.delete("a")
            tx.publish({"account": "b", "balance": 200}, key="b")
        """
        self._parts.append(Part(attributes or {}, key=key, deleted=True))

    async def __aenter__(self) -> "Transaction":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or not self._parts:
            return  # nothing of it is published
        await self._client._wait_for_room(self._timeout)
        self.id = self._commit()
        if self._ack is not None:
            await self._client._wait_for(self.id.seq, self._ack, self._timeout)

    def _commit(self) -> EventId:
        client = self._client
        contents = client._open().transaction(self._parts, time_ns=client._clock.tick(time.time_ns()))
        return client._post(contents)
