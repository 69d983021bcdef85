"""`gossamer pub` and `gossamer sub`: the SDK from the shell.

gossamer pub type=quote symbol=IBM price:=101.5 --key IBM --body @file
gossamer sub "price > 100" --json
"""

import asyncio
import json
import os
import re
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import options
from gossamer.cli.logs import start_warnings
from gossamer.matching import Selector, SelectorError
from gossamer.matching.values import check_attributes
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Event
from gossamer.protocol.annotator import Scope
from gossamer.sdk.client import Ack
from gossamer.sdk.connecting import connect
from gossamer.sdk.subscription import Commit, Gap, Left, Said

Url = Annotated[
    list[str] | None,
    typer.Option("--url", envvar="GOSSAMER_URL", help=f"A broker; more are for failover. [{options.LISTEN}]"),
]
Group = Annotated[str, typer.Option("--group", help="The group to speak in.")]
Wait = Annotated[float, typer.Option("--timeout", help="Seconds to wait for a broker, or for the acknowledgement.")]


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def read_rank(text: str) -> int | float:
    """A number as it was typed: a large one would lose its last digits as a float."""
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    raise UsageError(f"--rank is a number, not {text!r}")


def pub(
    attributes: Annotated[list[str] | None, typer.Argument(help="name=text, or name:=JSON for other types.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="What it is the newest value of.")] = None,
    body: Annotated[str, typer.Option("--body", help="Text, @FILE, or @- for stdin.")] = "",
    rank: Annotated[
        str | None,
        typer.Option("--rank", metavar="<number>", help="Of a group's key: the highest is the newest, not the latest."),
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option("--scope", help="Whose key it is: publisher, or group. [group; of a named publisher: publisher]"),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="The key has no value any more.")] = False,
    ack: Annotated[str, typer.Option("--ack", help="sent, logged or safe.")] = "sent",
    publisher: Annotated[str | None, typer.Option("--publisher", help="Publish under this name.")] = None,
    spool: Annotated[Path | None, typer.Option("--spool", help="A file that keeps it until it is logged.")] = None,
    url: Url = None,
    group: Group = "default",
    timeout: Wait = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Publish one event, and print its id."""
    said = dict(map(read_attribute, attributes or []))
    check_attributes(said)
    content, ranked = read_body(body), None if rank is None else read_rank(rank)
    if ack not in ("sent", "logged", "safe"):
        raise UsageError(f"--ack is sent, logged or safe, not {ack!r}")
    if scope not in (None, "publisher", "group"):
        raise UsageError(f"--scope is publisher or group, not {scope!r}")
    if delete and key is None:
        raise UsageError("--delete needs a --key")
    if delete and (content or ranked is not None):
        raise UsageError("--delete has neither --body nor --rank")
    level: Ack = ack  # type: ignore[assignment]
    # Every run without a name is a publisher of its own: that one's keys would never be overwritten.
    named = publisher is not None or key is None
    whose: Scope = scope or ("publisher" if named and ranked is None else "group")  # type: ignore[assignment]

    async def publish() -> None:
        where = url or options.LISTEN
        async with connect(where, group=group, publisher=publisher, spool=spool, timeout=timeout) as client:
            if delete and key is not None:
                id = await client.delete(key, said, scope=whose, ack=level, timeout=timeout)
            else:
                id = await client.publish(said, content, key=key, rank=ranked, scope=whose, ack=level, timeout=timeout)
            print(json.dumps({"stream": id.stream, "seq": id.seq}) if as_json else id)

    start_warnings()
    asyncio.run(publish())  # interrupted, it has not done what it was asked for: that is no 0


def sub(
    selector: Annotated[str, typer.Argument(help="What to match; everything if left out.")] = "",
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many.")] = None,
    notices: Annotated[bool, typer.Option("--notices", help="Also print what has left, gaps and commits.")] = False,
    durable: Annotated[str | None, typer.Option("--durable", help="Go on where this name was left.")] = None,
    start: Annotated[
        str,
        typer.Option("--start", help="new, all, last_per_key, a time like 2026-05-01T12:00, or a position as JSON."),
    ] = "new",
    buffer: Annotated[int, typer.Option("--buffer", help="Events that may wait at the broker.")] = 1_024,
    policy: Annotated[
        str, typer.Option("--policy", help="Which obsolete events to skip: auto, eager, lazy, random or none.")
    ] = "auto",
    url: Url = None,
    group: Group = "default",
    timeout: Wait = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each event.")] = False,
) -> None:
    """Print what matches, until interrupted."""
    begins = read_start(start)
    start_warnings()

    async def subscribe() -> None:
        Selector(selector)  # a mistake in it needs no broker to be told
        async with connect(url or options.LISTEN, group=group, timeout=timeout) as client:
            found = await client.subscribe(
                selector, durable=durable, notices=notices, start=begins, buffer=buffer,
                policy=policy,  # type: ignore[arg-type]
            )  # fmt: skip
            print(f"subscribed at {client.node}", file=sys.stderr, flush=True)
            printed = 0
            async for said in found:
                print(json.dumps(as_dict(said)) if as_json else as_line(said), flush=True)
                printed += 1
                if printed == count:
                    return

    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(subscribe())
    except SelectorError as error:
        print(f"gossamer: {error}", file=sys.stderr)  # with its caret, which takes a line of its own
        raise typer.Exit(2) from None


def read_attribute(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.rstrip(":"):
        raise UsageError(f"{text!r} is not an attribute like symbol=IBM or price:=101.5")
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name[:-1]}: {value[:60]!r} is not JSON: {error}") from None


def read_start(text: str) -> Any:
    """What `subscribe(start=…)` takes; a time without a zone is one of this machine's."""
    if text in ("new", "all", "last_per_key"):
        return text
    try:
        return json.loads(text) if text.startswith("{") else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        expected = "new, all, last_per_key, a time like 2026-05-01T12:00, a position"
        raise UsageError(f"--start: {expected}; not {text!r}") from None


def read_body(text: str) -> bytes:
    if not text.startswith("@"):
        return os.fsencode(text)  # as it was typed, whatever encoding that is
    try:
        return sys.stdin.buffer.read() if text == "@-" else Path(text[1:]).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {text[1:]}: {error.strerror}") from None


def as_dict(said: Said) -> dict[str, Any]:
    """What is printed with --json; a body that is no text as its hexadecimal."""
    match said:
        case Left(key, id):
            return {"left": key, "stream": id.stream, "seq": id.seq}
        case Gap(stream, first, last, reason):
            return {"gap": reason, "stream": stream, "first": first, "last": last}
        case Commit(id):
            return {"commit": True, "stream": id.stream, "seq": id.seq}
    assert said.id is not None
    told: dict[str, Any] = {"stream": said.id.stream, "seq": said.id.seq, "time": said.time.isoformat()}
    told |= {"key": said.key, "deleted": said.deleted, "attributes": said.attributes}
    try:
        return told | {"body": said.body.decode()}
    except UnicodeDecodeError:
        return told | {"body_hex": said.body.hex()}


def as_line(said: Said) -> str:
    if not isinstance(said, Event):
        return repr(said)
    attributes = " ".join(f"{name}={value}" for name, value in said.attributes.items())
    parts = [
        str(said.id),
        "deleted" if said.deleted else "",
        f"[{said.key}]" if said.key is not None else "",
        attributes,
    ]
    body = said.body.decode(errors="replace") if said.body else ""
    # One event is one line, and whoever published it does not speak to this terminal.
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], " ".join(filter(None, [*parts, body])))
