"""`gossamer expel`: a member that died will not return."""

import json
import urllib.parse
from typing import Annotated

import typer

from gossamer.cli import view


def expel(
    node: Annotated[str, typer.Argument(help="The member, as status names it.")],
    http: view.Http = None,
    timeout: view.Wait = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Say that a member that is gone or silent will never return, so that nobody keeps anything for it."""
    view.fetch(view.http_url(http), f"/expel?{urllib.parse.urlencode({'node': node})}", timeout, "POST")
    print(json.dumps({"expelled": node}) if as_json else f"{node} is expelled")
