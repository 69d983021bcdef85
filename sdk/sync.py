"""The SDK without asyncio, usable from any thread.

    with gossamer.sync.connect("tcp://127.0.0.1:7400") as client:
        sub = client.subscribe("price > 100")
        client.publish({"price": 101.5}, key="IBM")
        for event in sub:
            print(event.attributes)
            break

An event loop in a thread of its own does what the asynchronous client does; a call here waits for it. Publishing
without an acknowledgement does not go through the loop: it numbers the event and hands it over under a lock, so that
threads may publish side by side.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from gossamer.matching import Selector
from gossamer.matching.routing import Routes
from gossamer.messages.errors import BufferFull, ConnectionLost, GossamerError, Timeout
from gossamer.messages.event import Attributes, Event
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.session import Policy
from gossamer.protocol.annotator import Scope
from gossamer.sdk.client import Ack, check_ack
from gossamer.sdk.client import Transaction as AsyncTransaction
from gossamer.sdk.cloudevents import CloudEvent
from gossamer.sdk.connecting import Connecting
from gossamer.sdk.connecting import connect as connect_asynchronously
from gossamer.sdk.subscription import Commit, Said, Stats
from gossamer.sdk.subscription import Subscription as AsyncSubscription
from gossamer.sdk.track import Beginning

T = TypeVar("T")


class Subscription:
    """An iterator over the events that match a selector; `for event in subscription`."""

    def __init__(self, client: "Client", subscription: AsyncSubscription) -> None:
        self._client = client
        self._subscription = subscription

    def __iter__(self) -> Iterator[Said]:
        return self

    def __next__(self) -> Said:
        return self.get()

    def get(self, timeout: float | None = None) -> Said:
        """The next one; `Timeout` if there is none in time, and nothing is lost by that. `StopIteration` at the end.

        event = sub.get(timeout=5)
        """
        taken = self._take(1, timeout)
        if not taken:
            raise StopIteration
        return taken[0]

    def batches(self) -> Iterator[list[Said]]:
        """What is there, several events at a time: less work for each.

        for batch in sub.batches():
            print(len(batch), batch[0].attributes)
            break
        """
        while batch := self._take(None, None):
            yield batch

    def _take(self, count: int | None, timeout: float | None) -> list[Said]:
        """So many, or all that there are; none at the end."""
        taken: list[Said] = []
        try:
            self._client._wait(_take(self._subscription, count, timeout, taken))
        except ConnectionLost:
            if self._subscription._closed:
                return []
            raise
        except GossamerError:
            raise
        except BaseException:  # interrupted, maybe when it had been taken already: then the next one is to have it
            self._client._soon(self._subscription._put_back, taken)
            raise
        return taken

    @property
    def stats(self) -> Stats:
        """What became of what matched, so far."""
        return self._subscription.stats

    @property
    def position(self) -> dict[StreamId, int]:
        """The last seq of each stream that has come."""
        return self._subscription.position

    def update(self, selector: str | Selector) -> None:
        """From now on another selector counts.

        sub.update("price > 200")
        """
        self._client._wait(self._subscription.update(selector))

    def ack(self, event: Event | Commit) -> None:
        """With `ack="manual"`: the application is done with this event.

        sub = client.subscribe("price > 100", durable="audit", ack="manual")
        sub.ack(sub.get())
        """
        self._client._wait(self._subscription.ack(event))

    def close(self, *, forget: bool = False) -> None:
        """Nothing more is wanted; see `gossamer.Subscription.close`.

        sub.close()
        """
        if not self._subscription._closed:
            self._client._wait(self._subscription.close(forget=forget))

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transaction(AsyncTransaction):
    """What is published in it is applied as one."""

    def __init__(self, client: "Client", ack: Ack | None, timeout: float | None) -> None:
        super().__init__(client._client, ack, timeout)
        self._sync = client

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or not self._parts:
            return  # nothing of it is published
        wait = self._sync._wait
        wait(self._client._wait_for_room(self._timeout))
        with self._sync._lock:
            self.id = self._commit()
        if self._ack is not None:
            wait(self._client._wait_for(self.id.seq, self._ack, self._timeout))


class Client:
    """A connection to the mesh; use `connect`."""

    def __init__(self, connecting: Connecting) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="gossamer sync", daemon=True)
        self._thread.start()
        try:
            self._client = self._wait(connecting._connect())
        except BaseException:
            self._end_loop()
            raise
        _clients.add(self)
        weakref.finalize(self, _abandon, self._client._finalizer, self._loop).atexit = False

    def publish(
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
        """Publish an event, and return its id; see `gossamer.Client.publish`.

        id = client.publish({"type": "quote", "price": 101.5}, key="IBM", ack="sent")
        """
        if ack is not None:
            check_ack(ack)
        while True:
            try:
                id = self.publish_nowait(
                    attributes, body, key=key, rank=rank, scope=scope, obsoletes=obsoletes, after=after
                )
                break
            except BufferFull:
                self._wait(self._client._wait_for_room(timeout))
        if ack is not None:
            self._wait(self._client._wait_for(id.seq, ack, timeout))
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

        client.publish_nowait({"type": "quote", "price": 101.5}, key="IBM")
        """
        with self._lock:
            return self._client.publish_nowait(
                attributes, body, key=key, rank=rank, scope=scope, obsoletes=obsoletes, after=after
            )

    def delete(
        self,
        key: str,
        attributes: Attributes | None = None,
        *,
        scope: Scope = "publisher",
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> EventId:
        """Publish a tombstone: the key has no value any more.

        client.delete("IBM")
        """
        if ack is not None:
            check_ack(ack)
        self._wait(self._client._wait_for_room(timeout))
        with self._lock:
            id = self._client._delete(key, attributes, scope)
        if ack is not None:
            self._wait(self._client._wait_for(id.seq, ack, timeout))
        return id

    def transaction(self, *, ack: Ack | None = None, timeout: float | None = None) -> "Transaction":
        """Several events that are applied as one, or not at all.

        with client.transaction() as tx:
            tx.publish({"account": "a", "balance": 90}, key="a")
            tx.publish({"account": "b", "balance": 110}, key="b")
        """
        if ack is not None:
            check_ack(ack)
        return Transaction(self, ack, timeout)

    def flush(self, ack: Ack = "sent", timeout: float | None = None) -> None:
        """Wait until everything that was published so far is acknowledged.

        client.flush("logged", timeout=5)
        """
        self._wait(self._client.flush(ack, timeout))

    def subscribe(
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
        """Subscribe to what matches a selector; see `gossamer.Client.subscribe`.

        with client.subscribe("price > 100") as sub:
            print(next(sub).attributes)
        """
        subscribing = self._client.subscribe(
            selector, durable=durable, ack=ack, start=start, order=order, buffer=buffer, policy=policy, notices=notices
        )
        return Subscription(self, self._wait(subscribing))

    def seen(self, what: Event | Selector | str) -> tuple[EventId, ...]:
        """Take note of an event, or name those that match; see `gossamer.Client.seen`.

        client.seen(sub.get())
        client.publish({"type": "summary"}, obsoletes=client.seen("symbol = 'IBM'"))
        """
        with self._lock:
            return self._client.seen(what)

    @property
    def pending(self) -> int:
        """How many events are published and not logged yet."""
        return self._client.pending

    @property
    def blocked_by(self) -> str | None:
        """In a group with back-pressure: the subscription without room for this client's next event."""
        return self._client.blocked_by

    @property
    def stream(self) -> StreamId:
        """The id of this client's stream."""
        return self._client.stream

    @property
    def node(self) -> str | None:
        """The broker that this client is with."""
        return self._client.node

    @property
    def routes(self) -> Routes:
        """The groups by interest that the broker was told: where to publish, and where to listen."""
        return self._client.routes

    @property
    def url(self) -> str:
        """Where that broker is."""
        return self._client.url

    def close(self) -> None:
        """Send what is not sent, say goodbye, and end all subscriptions.

        client.close()
        """
        with suppress(ConnectionLost):  # it is closed already
            self._wait(self._client.close())
            self._end_loop()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def _wait(self, doing: "Coroutine[Any, Any, T]") -> T:
        with self._lock:
            if self._over:
                doing.close()
                raise self._client._transport.failure or ConnectionLost("the client is closed")
            future = asyncio.run_coroutine_threadsafe(doing, self._loop)
        try:
            return future.result()
        except CancelledError:  # another thread has closed the client
            raise ConnectionLost("the client is closed") from None
        except BaseException:
            future.cancel()  # interrupted
            raise

    def _soon(self, call: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _end_loop(self) -> None:
        with self._lock:  # whoever waits began before this, and is told by `_run`
            self._over = True
            self._soon(self._loop.stop)
        self._thread.join()


_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _on_forked() -> None:
    """In a child process there is no thread that would do anything."""
    for client in list(_clients):
        client._over = True
        client._lock = threading.Lock()


os.register_at_fork(after_in_child=_on_forked)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel(asyncio.all_tasks(loop)))
    finally:
        loop.close()


async def _cancel(tasks: "set[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _abandon(abandon: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
    """A client that is forgotten without having been closed; `abandon` does nothing if it was."""
    abandon()
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(loop.stop)


async def _take(sub: AsyncSubscription, count: int | None, timeout: float | None, taken: list[Said]) -> None:
    """Into `taken`, which whoever asked looks at: what a future brings is lost if its reader has just given up."""
    try:
        async with asyncio.timeout(timeout):  # in the loop: here it is either in time or not taken
            if count is None:
                async for batch in sub.batches():
                    taken += batch
                    return
            elif (said := await anext(sub, None)) is not None:
                taken.append(said)
    except TimeoutError:
        raise Timeout(f"nothing within {timeout:g} s") from None


def connect(
    url: str | Sequence[str] | None = None,
    *,
    group: str = "default",
    publisher: str | None = None,
    spool: str | Path | None = None,
    timeout: float = 10,
    data: str | None = None,
    listen: str | None = None,
    peers: Sequence[str] = (),
) -> Client:
    """Connect as `gossamer.connect` does, and wait until that is done.

    client = gossamer.sync.connect("tcp://127.0.0.1:7400")
    client.close()
    """
    return Client(
        connect_asynchronously(
            url, group=group, publisher=publisher, spool=spool, timeout=timeout, data=data, listen=listen, peers=peers
        )
    )
