"""`gossamer match`: evaluate a selector against attributes, from the shell."""

import json
import sys
from typing import Annotated, NoReturn

import typer

from gossamer.matching import Selector, SelectorError
from gossamer.matching.values import Attributes, check_attributes
from gossamer.messages.errors import UsageError

WORDS = {True: "true", False: "false", None: "unknown"}


def match(
    selector: Annotated[str, typer.Argument(help="for example: \"symbol IN ('IBM', 'MSFT') AND price > 100\"")],
    attributes: Annotated[str, typer.Argument(help="a JSON object, for example: '{\"price\": 101.5}'")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on one line")] = False,
) -> None:
    """Say whether a selector is true, false or unknown for these attributes (exit code 0, 1, 1)."""
    values = read_attributes(attributes)
    try:
        parsed = Selector(selector)
    except SelectorError as error:
        print(f"gossamer: {error}", file=sys.stderr)  # with its caret, which takes a line of its own
        raise typer.Exit(2) from None
    result = parsed.evaluate(values)
    if as_json:
        print(json.dumps({"selector": str(parsed), "result": WORDS[result], "matches": result is True}))
    else:
        print(WORDS[result])
    raise typer.Exit(0 if result else 1)


def read_attributes(text: str) -> Attributes:
    try:
        return check_attributes(json.loads(text, parse_constant=refuse))
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"the attributes are not JSON: {problem}") from None


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
