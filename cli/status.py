"""`gossamer status`: one picture of the mesh, and whether it is healthy."""

import asyncio
import json
from typing import Annotated

import typer

from gossamer.cli import view


def status(
    http: view.Http = None,
    url: view.Url = None,
    timeout: view.Wait = view.PATIENCE_S,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Show all members: who they are, what they do, what is wrong. Exit code 0 if nothing is."""
    found = asyncio.run(view.first(view.pictures(http, url, timeout, 1.0)))
    if as_json:
        print(json.dumps(found))
    else:
        console = view.console()
        console.print(view.render(found, console, addresses=True))
    raise typer.Exit(0 if found["healthy"] else 1)
