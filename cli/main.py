"""The `gossamer` command: one file a subcommand, errors as one line, exit code 2 for bad input, 1 for what failed."""

import ast
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

from gossamer.messages.errors import (
    BufferFull,
    ConnectionLost,
    GossamerError,
    NotAuthorized,
    StoreUnusable,
    Superseded,
    Timeout,
)

FAILURES = (ConnectionLost, Timeout, BufferFull, NotAuthorized, Superseded, StoreUnusable)
"""What went wrong though it was asked for rightly: exit code 1."""

COMMANDS = {
    "lab": "lab",
    "up": "up",
    "broker": "broker",
    "logger": "logger",
    "log": "log",
    "pub": "clients",
    "sub": "clients",
    "match": "match",
    "status": "status",
    "top": "top",
    "expel": "expel",
    "demo": "demo",
    "chaos": "chaos",
    "report": "report",
    "bench": "bench",
}
"""Each with the module that it is in: a broker's and a laboratory's imports take longer than many a command."""


def _app(arguments: list[str]) -> typer.Typer:
    """With the command that is asked for; with all to complete a line; with what each is for, to tell just that."""
    app = typer.Typer(no_args_is_help=True, help="Content-based publish/subscribe that never stalls.")
    app.callback()(root)
    asked = [name for name in arguments[:1] if name in COMMANDS]
    for name in asked or COMMANDS:
        if arguments == ["--help"] and name != "lab":
            app.command(name)(_summary(name))
            continue
        module = import_module(f"gossamer.cli.{COMMANDS[name]}")
        if name == "lab":
            app.add_typer(module.app, name=name)
        else:
            app.command()(getattr(module, name))
    return app


def _summary(name: str) -> Callable[[], None]:
    """A command as far as `--help` tells of it, read and not imported."""
    source = Path(__file__).with_name(f"{COMMANDS[name]}.py").read_text()
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)

    def command() -> None: ...

    command.__doc__ = ast.get_docstring(found)
    return command


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"gossamer {version('gossamer')}")
        raise typer.Exit


def root(
    _: bool = typer.Option(False, "--version", help="Show the version and exit.", callback=show_version, is_eager=True),
) -> None:
    """Content-based publish/subscribe that never stalls."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; whatever is wrong is one clear line on stderr."""
    command = typer.main.get_command(_app(sys.argv[1:] if arguments is None else arguments))
    _show_brackets(command)
    try:
        code = command.main(arguments, prog_name="gossamer", standalone_mode=False)
    except GossamerError as error:
        sys.exit(complain(str(error), 1 if isinstance(error, FAILURES) else 2))
    except Exception as error:
        # Typer's own usage errors carry an exit code and a message; anything else is a bug and shows its story.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # empty when no arguments were given: the help was shown
        sys.exit(complain(message) if message else 2)
    sys.exit(code if isinstance(code, int) else 0)


def _show_brackets(command: Any) -> None:
    """Have `[tcp://…]` in help texts printed: the library takes brackets with a word in them for its own markup."""
    for each in command.params:
        if getattr(each, "help", None):
            each.help = re.sub(r"\[(?=[A-Za-z])", r"\[", each.help)
    for each in getattr(command, "commands", {}).values():
        _show_brackets(each)


def complain(message: str, code: int = 2) -> int:
    print(f"gossamer: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
