"""The mesh as it is now, from any one of its members: what `status` and `top` show.

By default it is asked over http (`/mesh`): every member hears what the others tell in `$sys`, and one answer is the
whole picture. With the url of a broker it is a client like any other that reads `$sys`, so it works wherever clients
do. It begins with `last_per_key`; without loggers it has to wait for everybody's next sample.
"""

import asyncio
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.broker.picture import Picture
from gossamer.broker.telemetry import INTERVAL_S
from gossamer.cli import options
from gossamer.cli.logs import start_warnings
from gossamer.messages.errors import ConnectionLost, UsageError
from gossamer.messages.event import Event
from gossamer.sdk.connecting import connect

HTTP = options.HTTP.replace("tcp://", "http://")
HTTP_S = 5.0
STEP_S = 0.25
TIMEOUT_MAX_S = 1e6
PATIENCE_S = 2 * INTERVAL_S
"""For everybody to tell of itself."""
NEW_S = 3.0
"""For those who have just come: who was there tells them of itself within a second or so."""

Http = Annotated[
    str | None, typer.Option("--http", envvar="GOSSAMER_HTTP", help=f"The http address of any member. [{HTTP}]")
]
Url = Annotated[
    list[str] | None, typer.Option("--url", envvar="GOSSAMER_URL", help="A broker to ask instead, as a client.")
]
Wait = Annotated[float, typer.Option("--timeout", help="Seconds to wait for an answer.")]

COLUMNS = (
    ("clients", "clients"), ("subscriptions", "subs"), ("events_published_per_s", "published/s"),
    ("events_matched_per_s", "to clients/s"), ("queued_events", "queued"), ("subscriptions_behind", "behind"),
    ("events_lost", "lost"), ("events_stored", "stored"), ("store_lag_packets", "lag"), ("streams_incomplete", "gaps"),
    ("latency_delivered_p50_ms", "p50 ms"), ("latency_delivered_p99_ms", "p99 ms"), ("loop_busy", "busy"),
)  # fmt: skip


LEAST_FIRST = (
    "p50 ms", "busy", "gaps", "stored", "lag", "p99 ms", "subs", "behind", "to clients/s", "queued", "published/s",
    "clients", "",
)  # fmt: skip
"""The columns that go where there is no room for all, those first; `lost` stays."""
PIPED_WIDTH = 240
SLOW = ("behind", "queued", "obsoleted", "lost")
"""A consumer that has none of these keeps up."""


def pictures(http: str | None, url: list[str] | None, timeout_s: float, interval_s: float) -> AsyncIterator[Any]:
    """The picture now, and again every so often."""
    if http is None and url:
        return _from_broker(url, timeout_s, interval_s)
    return _from_http(http, timeout_s, interval_s)


def check_timeout(timeout_s: float) -> None:
    if not 0 < timeout_s < TIMEOUT_MAX_S:
        raise UsageError(f"--timeout is a number of seconds, more than 0 and less than {TIMEOUT_MAX_S:g}")


def http_url(http: str | None) -> str:
    address = options.http_address(http)
    if address is None:
        raise UsageError("--http off: there is nobody to ask")
    return address.replace("tcp://", "http://")


async def first(found: AsyncIterator[Any]) -> dict[str, Any]:
    async with aclosing(found) as several:  # type: ignore[type-var]
        return dict(await anext(several))


async def _from_http(http: str | None, timeout_s: float, interval_s: float) -> AsyncIterator[dict[str, Any]]:
    address = http_url(http)
    until = time.monotonic() + min(timeout_s, NEW_S)
    others: list[str] = []
    names: set[str] = set()
    while True:
        try:
            found = await asyncio.to_thread(fetch, address, "/mesh", timeout_s)
            if names and found["node"] not in names:  # a loopback address, and the member is on another machine
                raise ConnectionLost(f"{address} belongs to another mesh")
        except ConnectionLost:
            if not others:
                raise
            address = others.pop(0)  # the member that was asked is gone: any other shows the mesh, too
            continue
        if any("age_s" not in member for member in found["members"]) and time.monotonic() < until:
            await asyncio.sleep(STEP_S)
            continue
        names = {member["node"] for member in found["members"]}
        others = [member["http"] for member in found["members"] if member.get("http") not in (None, address)]
        yield found
        await asyncio.sleep(interval_s)


def fetch(address: str, path: str, timeout_s: float, method: str = "GET") -> dict[str, Any]:
    """Return a member's answer over http; `UsageError` if it refuses, `ConnectionLost` if there is no member."""
    check_timeout(timeout_s)
    try:
        request = urllib.request.Request(f"{address}{path}", method=method)
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            code, told = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            code, told = error.code, error.read()
    except http.client.HTTPException:  # a port for clients, or of the mesh
        raise ConnectionLost(f"{address} does not speak http: pass the --http address of a member [{HTTP}]") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or reason
        raise ConnectionLost(
            f"{address} does not answer ({why}): pass --http with the address of a member that is up; "
            "`gossamer up` starts one"
        ) from None
    try:
        found = json.loads(told)
        if code < 400 and ("members" in found or "expelled" in found):
            return dict(found)
        reason = found["error"]
    except (ValueError, TypeError, KeyError):
        raise ConnectionLost(
            f"{address} is not a member's --http address: it answers {path.partition('?')[0]} with {code}"
        ) from None
    raise UsageError(reason) if code == 409 else ConnectionLost(f"{address}: {reason}")


async def _from_broker(url: list[str], timeout_s: float, interval_s: float) -> AsyncIterator[dict[str, Any]]:
    picture = Picture()
    start_warnings()
    async with connect(url, group="$sys", timeout=timeout_s) as client:
        selector = "type IN ('sample', 'consumer', 'wait')"
        try:
            sub = await client.subscribe(selector, start="last_per_key")
        except UsageError:  # there is no logger that would know
            sub = await client.subscribe(selector)

        async def watch() -> None:
            async for event in sub:
                if isinstance(event, Event):
                    picture.on_event(event)

        watching = asyncio.create_task(watch())
        try:
            until = time.monotonic() + timeout_s
            while not picture.complete and time.monotonic() < until and not watching.done():
                await asyncio.sleep(STEP_S)
            if not watching.done() and not picture.complete and not picture.as_dict(0)["members"]:
                raise ConnectionLost(
                    f"no member told of itself within {timeout_s:g} s: telemetry is switched off there, "
                    "or its interval is longer than --timeout"
                )
            while not watching.done():
                yield {"node": client.node, **picture.as_dict(time.time_ns())}
                await asyncio.sleep(interval_s)
            watching.result()
        finally:
            watching.cancel()


# For people -----------------------------------------------------------------------------------------------------------


def console() -> Console:
    """As wide as the terminal; what goes into a file or a pipe is not cut off."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def render(found: dict[str, Any], console: Console, addresses: bool = False) -> RenderableType:
    """Members, where they are if that is wanted, those who are slow, and what is wrong."""
    parts: list[RenderableType] = [_headline(found), _members(found["members"], console)]
    if addresses:
        parts.append(_addresses(found["members"]))
    slow = [each for each in found["consumers"] if any(each[name] for name in SLOW)]
    if slow:
        parts.append(_consumers(slow))
    if found.get("waits"):
        parts.append(_waits(found["waits"]))
    parts += [Text(reason, style="red") for reason in found["trouble"]]
    parts += [Text(reason, style="yellow") for reason in found.get("warnings", ())]
    return Group(*parts)


def _headline(found: dict[str, Any]) -> Text:
    totals = found["totals"]
    state = Text("healthy", style="green") if found["healthy"] else Text("in trouble", style="bold red")
    counts = [(name, totals[name]) for name in ("brokers", "loggers", "clients", "subscriptions")]
    told = ", ".join(f"{count} {name[:-1] if count == 1 else name}" for name, count in counts)
    return Text.assemble("The mesh is ", state, f": {told}; as {found['node']} sees it")


def _members(members: list[dict[str, Any]], console: Console) -> Table:
    """As many columns as fit, the most important ones: a column that is cut off tells nothing."""
    # What is 0 everywhere is not worth a column.
    columns = [each for each in COLUMNS if any(member.get(each[0]) for member in members)]
    for least in LEAST_FIRST:
        table = _member_table(members, columns)
        if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
            break
        columns = [each for each in columns if each[1] != least]
    return _member_table(members, columns)


def _member_table(members: list[dict[str, Any]], columns: list[tuple[str, str]]) -> Table:
    table = _table("member", "role", "status", "heard")
    for _, title in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for member in members:
        table.add_row(
            member["node"],
            member.get("role", ""),
            Text(member["status"], style="red" if member["trouble"] else "green"),
            f"{member['age_s']:.0f} s ago" if "age_s" in member else "never",
            *(_number(member.get(name)) for name, _ in columns),
        )
    return table


def _addresses(members: list[dict[str, Any]]) -> Table:
    table = _table("member", "clients", "mesh", "http")
    for member in members:
        table.add_row(member["node"], *(member.get(name) or "" for name in ("url", "mesh", "http")))
    return table


def _consumers(consumers: list[dict[str, Any]]) -> Table:
    table = _table("slow consumer", "at", "group")
    names = ("queued", "oldest_s", "delivered", "obsoleted", "lost")
    for name in names:
        table.add_column(name.replace("_s", " s"), justify="right")
    table.add_column("")
    for each in consumers:
        who = f"{each['client']}/{each['subscription']}"
        figures = [_number(each[name]) for name in names]
        state = "publishers wait" if each.get("blocking") else "catching up" if each["behind"] else ""
        table.add_row(who, each["node"], each["group"], *figures, state)
    return table


def _waits(waits: list[dict[str, Any]]) -> Table:
    """Publishers under back-pressure."""
    table = _table("waiting publisher", "at", "group")
    table.add_column("for s", justify="right")
    table.add_column("until this subscription has room", no_wrap=True)
    for each in waits:
        table.add_row(each["client"], each["node"], each["group"], _number(each["waited_s"]), each["blocked_by"])
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
