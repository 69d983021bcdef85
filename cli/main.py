"""The `gossamer` command: one file a subcommand, errors as one line, exit code 2 for bad input, 1 for what failed."""

import sys
from importlib.metadata import version

import typer

from gossamer.cli import lab
from gossamer.cli.bench import bench
from gossamer.cli.broker import broker
from gossamer.cli.clients import pub, sub
from gossamer.cli.demo import demo
from gossamer.cli.expel import expel
from gossamer.cli.log import log
from gossamer.cli.logger import logger
from gossamer.cli.match import match
from gossamer.cli.status import status
from gossamer.cli.top import top
from gossamer.cli.up import up
from gossamer.messages.errors import (
    BufferFull,
    ConnectionLost,
    GossamerError,
    NotAuthorized,
    Superseded,
    Timeout,
)

FAILURES = (ConnectionLost, Timeout, BufferFull, NotAuthorized, Superseded)
"""What went wrong though it was asked for rightly: exit code 1."""

app = typer.Typer(no_args_is_help=True, help="Content-based publish/subscribe that never stalls.")
app.add_typer(lab.app, name="lab")
app.command()(up)
app.command()(broker)
app.command()(logger)
app.command()(log)
app.command()(pub)
app.command()(sub)
app.command()(match)
app.command()(status)
app.command()(top)
app.command()(expel)
app.command()(demo)
app.command()(bench)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"gossamer {version('gossamer')}")
        raise typer.Exit


@app.callback()
def root(
    _: bool = typer.Option(False, "--version", help="Show the version and exit.", callback=show_version, is_eager=True),
) -> None:
    """Content-based publish/subscribe that never stalls."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; whatever is wrong is one clear line on stderr."""
    command = typer.main.get_command(app)
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


def complain(message: str, code: int = 2) -> int:
    print(f"gossamer: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
