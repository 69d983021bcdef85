"""The `gossamer` command: one file a subcommand, errors as one line, exit code 2 for bad input."""

import sys
from importlib.metadata import version

import typer

from gossamer.cli import lab
from gossamer.cli.broker import broker
from gossamer.cli.clients import pub, sub
from gossamer.cli.demo import demo
from gossamer.cli.logger import logger
from gossamer.cli.match import match
from gossamer.cli.up import up
from gossamer.messages.errors import GossamerError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Content-based publish/subscribe that never stalls.")
app.add_typer(lab.app, name="lab")
app.command()(up)
app.command()(broker)
app.command()(logger)
app.command()(pub)
app.command()(sub)
app.command()(match)
app.command()(demo)


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
    """Run the command; bad input is one clear line on stderr and exit code 2."""
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="gossamer", standalone_mode=False)
    except GossamerError as error:
        sys.exit(complain(str(error)))
    except Exception as error:
        # Typer's own usage errors carry an exit code and a message; anything else is a bug and shows its story.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # empty when no arguments were given: the help was shown
        sys.exit(complain(message) if message else 2)
    sys.exit(code if isinstance(code, int) else 0)


def complain(message: str) -> int:
    print(f"gossamer: {' '.join(message.split())}", file=sys.stderr)
    return 2
