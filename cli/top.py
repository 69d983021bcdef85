"""`gossamer top`: the mesh as it goes on, until interrupted."""

import asyncio
import json
from contextlib import suppress
from typing import Annotated

import typer
from rich.live import Live

from gossamer.cli import view
from gossamer.messages.errors import UsageError


def top(
    http: view.Http = None,
    url: view.Url = None,
    interval: Annotated[float, typer.Option("--interval", help="Seconds from one look to the next.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    timeout: view.Wait = view.PATIENCE_S,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each look.")] = False,
) -> None:
    """Watch all members: rates, queues, slow consumers, trouble."""
    if not 0 < interval < float("inf"):
        raise UsageError(f"--interval is more than 0, not {interval:g}")
    console = view.console()

    async def look() -> None:
        looks = view.pictures(http, url, timeout, interval)
        if once or as_json or not console.is_terminal:
            async for found in looks:
                if as_json:
                    print(json.dumps(found), flush=True)
                else:
                    console.print(view.render(found, console))
                if once:
                    return
        else:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                async for found in looks:
                    live.update(view.render(found, console), refresh=True)

    with suppress(KeyboardInterrupt):
        asyncio.run(look())
