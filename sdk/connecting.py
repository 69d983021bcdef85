"""`gossamer.connect`: to a broker, to the first of several that answers, or to one that is started here."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from gossamer.broker.addresses import check_peer, check_url
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import named_stream
from gossamer.sdk.client import Client
from gossamer.sdk.spool import Spool


def _addresses(urls: str | Sequence[str], check: Callable[[str], str]) -> tuple[str, ...]:
    if not isinstance(urls, str | Sequence):
        raise UsageError(f"{urls!r} is not an address like tcp://127.0.0.1:7400, nor a list of such")
    return tuple(map(check, (urls,) if isinstance(urls, str) else urls))


class Connecting:
    """`async with connect(...) as client`, or `client = await connect(...)`."""

    def __init__(
        self,
        url: str | Sequence[str] | None,
        group: str,
        timeout: float,
        publisher: str | None,
        spool: str | Path | None,
        data: str | None,
        listen: str | None,
        peers: Sequence[str],
    ) -> None:
        self._urls = None if url is None else _addresses(url, check_url)
        if self._urls is not None and not self._urls:
            raise UsageError("connect: a url, several, or None for an embedded node")
        if self._urls is not None and (data is not None or listen is not None or peers):
            raise UsageError("data=, listen= and peers= are the embedded node's: connect() without a url")
        named_stream(group, "anyone" if publisher is None else publisher)
        if publisher is None and spool is not None:
            raise UsageError("spool= is a named publisher's: connect(publisher=..., spool=...)")
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise UsageError(f"timeout: a number of seconds, more than 0, not {timeout!r}")
        self._group = group
        self._publisher, self._spool = publisher, spool
        self._timeout = timeout
        self._node_options = data, listen, _addresses(peers, check_peer)
        self._client: Client | None = None

    async def _connect(self) -> Client:
        embedded = None
        urls = self._urls
        if urls is None:
            data, listen, peers = self._node_options
            from gossamer.sdk.embedded import Embedded  # here: a broker is more than most clients need

            embedded = await asyncio.to_thread(Embedded.start, data=data, listen=listen, peers=peers)
            urls = (embedded.url,)
        try:
            opened = None
            if self._spool is not None and self._publisher is not None:
                opened = await asyncio.to_thread(Spool, self._spool, self._group, self._publisher)
            self._client = Client(
                urls,
                group=self._group,
                timeout=self._timeout,
                publisher=self._publisher,
                spool=opened,
                embedded=embedded,
            )
        except BaseException:
            if embedded is not None:
                await asyncio.to_thread(embedded.stop)
            raise
        await self._client._start()
        return self._client

    def __await__(self):  # type: ignore[no-untyped-def]
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        return await self._connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        assert self._client is not None
        await (self._client.close() if kind is None else self._client._close())


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
) -> Connecting:
    """Connect to a broker, to the first of several that answers, or, without a url, to one that is started here.

        async with gossamer.connect(["tcp://10.0.0.5:7400", "tcp://10.0.0.6:7400"]) as client:
            ...

    When the broker fails the next of the urls takes its place: nothing is lost, and nothing comes twice. `timeout` is
    how long to look for one, in seconds. `data`, `listen` and `peers` are for the embedded node: the folder to keep
    events in (a temporary one if not given), the address to listen on for other clients, and members to join.

    A `publisher` has a name, and one stream under it across restarts; a second client of that name takes it over, and
    the first gets `Superseded`. With `spool`, a file, what is not logged yet outlives a crash, and is sent again by the
    next client with that name and file; without it that is lost, and told as a gap.
    """
    return Connecting(url, group, timeout, publisher, spool, data, listen, peers)
