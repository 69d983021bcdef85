"""`gossamer expel`: a member that died will not return."""

import json
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Annotated

import typer

from gossamer.cli import view
from gossamer.messages.errors import ConnectionLost, UsageError


def expel(
    node: Annotated[str, typer.Argument(help="The member, as status names it.")],
    http: view.Http = None,
    timeout: view.Wait = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Say that a member that is silent will never return, so that nobody keeps anything for it."""
    page = f"{view.http_url(http)}/expel?{urllib.parse.urlencode({'node': node})}"
    try:
        with urllib.request.urlopen(urllib.request.Request(page, method="POST"), timeout=timeout) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        with error:
            reason = json.loads(error.read())["error"]
        raise (UsageError if error.code == 409 else ConnectionLost)(reason) from None
    except OSError as error:
        raise ConnectionLost(f"{page} does not answer: {getattr(error, 'reason', error)}") from None
    except HTTPException:
        raise ConnectionLost(f"{page} does not speak http: it is the address of --http that is asked") from None
    print(json.dumps({"expelled": node}) if as_json else f"{node} is expelled")
