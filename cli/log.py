"""`gossamer log`: what a store has, in the order in which it was logged; also while a logger writes to it."""

import json
import os
import re
import sys
import time
from datetime import datetime
from typing import Annotated

import typer

from gossamer.cli.clients import as_dict, as_line
from gossamer.cli.stores import find_store
from gossamer.matching import SelectorError
from gossamer.matching.selector import Selector
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Event
from gossamer.messages.ids import group_of

PAGE_BYTES = 2**20
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

Moment = Annotated[str | None, typer.Option(metavar="TIME", help="A time like 2026-05-01T12:00, or 10m, 2h, 1d ago.")]


def log(
    selector: Annotated[str, typer.Argument(help="What to match; everything if left out.")] = "",
    store: Annotated[
        str | None,
        typer.Option("--store", envvar="GOSSAMER_STORE", help="Where a logger keeps it. [the store in this folder]"),
    ] = None,
    since: Moment = None,
    until: Moment = None,
    group: Annotated[str | None, typer.Option("--group", help="One group only.")] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Also print groups whose name begins with $, like $sys (telemetry).")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="End after so many.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each event.")] = False,
) -> None:
    """Print logged events, each with its time. --since and --until compare the time of logging."""
    from gossamer.logger.databases import database
    from gossamer.logger.pages import open_pages

    try:
        matches = Selector(selector).matches
    except SelectorError as error:
        print(f"gossamer: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    now_ns = time.time_ns()
    since_ns = 0 if since is None else read_moment(since, now_ns)
    until_ns = None if until is None else read_moment(until, now_ns)
    pages = open_pages(database(find_store(store)))
    left, unread = limit, 0
    try:
        cursor, end = pages.number_at(since_ns) if since_ns else 0, limit == 0
        while not end:
            page = pages.page(cursor, PAGE_BYTES, group)
            cursor, end = page.last, page.end
            unread += sum(last - first + 1 for span in page.damaged for first, last in span.ranges)
            for _, logged_ns, packet in page.rows:
                if logged_ns < since_ns or (until_ns is not None and logged_ns >= until_ns):
                    continue
                if group is None and not system and group_of(packet.stream).startswith("$"):
                    continue
                try:
                    events = packet.events()
                except PeerError:
                    unread += packet.count
                    continue
                for event in events:
                    if matches(event.attributes):
                        if as_json:
                            told = as_dict(event)
                            logged = datetime.fromtimestamp(logged_ns / 1e9).astimezone()
                            print(json.dumps({**told, "logged": logged.isoformat()}))
                        else:
                            print(f"{local_time(event)} {as_line(event)}")
                        if left is not None:
                            left -= 1
                            if not left:
                                return
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough (`| head`). What is left in the buffer must not be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        pages.close()
        if unread:
            print(f"gossamer: {unread} events cannot be read (gossamer logger --check tells which)", file=sys.stderr)


def local_time(event: Event) -> str:
    """When it was published, in this machine's time zone."""
    return event.time.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def read_moment(text: str, now_ns: int) -> int:
    """In nanoseconds; a time without a zone is one of this machine's."""
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        return max(0, now_ns - int(ago[1]) * SECONDS[ago[2]] * 10**9)
    try:
        return max(0, int(datetime.fromisoformat(text).astimezone().timestamp() * 1e9))
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time like 2026-05-01T12:00, or 10m, 2h, 1d ago") from None
