"""Where a setting comes from: a flag, else the environment (`GOSSAMER_…`), else the file of `--config`, else a default.

The file is TOML. It takes what the flags take, by the same names, and the protocol's own settings (protocol/config.py):

    mesh = "tcp://0.0.0.0:7401"
    peer = ["tcp://10.0.0.5:7401"]

    [protocol]
    round_interval_s = 0.1
"""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.messages.errors import UsageError
from gossamer.protocol.config import Config

LISTEN = "tcp://127.0.0.1:7400"
MESH = "tcp://127.0.0.1:7401"

Listen = Annotated[
    str | None,
    typer.Option("--listen", envvar="GOSSAMER_LISTEN", help=f"Where clients connect; port 0 is a free one. [{LISTEN}]"),
]

Mesh = Annotated[
    str | None, typer.Option("--mesh", envvar="GOSSAMER_MESH", help=f"Where to listen; port 0 is a free one. [{MESH}]")
]
Advertise = Annotated[
    str | None, typer.Option("--advertise", envvar="GOSSAMER_ADVERTISE", help="What others dial, if not that.")
]
Peer = Annotated[
    list[str] | None,
    typer.Option("--peer", envvar="GOSSAMER_PEER", help="A member to join by, repeatable; one that is up is enough."),
]
Name = Annotated[
    str | None, typer.Option("--name", envvar="GOSSAMER_NAME", help="The node's name; keep it across restarts.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", envvar="GOSSAMER_CONFIG", help="A TOML file with these settings.")
]
FaultSpec = Annotated[
    str | None,
    typer.Option("--faults", envvar="GOSSAMER_FAULTS", help="A bad network, for tests: loss=0.2,delay=20ms,…"),
]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", envvar="GOSSAMER_LOG_FORMAT", help="human or json. [human]")
]
AsJson = Annotated[bool, typer.Option("--json", help="When ready, one JSON object on one line.")]
Deliveries = Annotated[Path | None, typer.Option("--deliveries", hidden=True, help="Append what is delivered.")]

LISTS = ("peer",)


def settle(path: Path | None, flags: dict[str, Any], defaults: dict[str, Any]) -> tuple[dict[str, Any], Config]:
    """The settings by name, and the protocol's. `flags` has all names that may be set, None where not given."""
    found = _read(path) if path is not None else {}
    protocol = found.pop("protocol", {})
    for name, value in found.items():
        if name not in flags:
            raise UsageError(f"{path}: there is no setting {name!r}; there are {', '.join(sorted(flags))}, [protocol]")
        _check_kind(path, name, value)
    given = {name: value for name, value in flags.items() if value not in (None, [])}
    return {**dict.fromkeys(flags), **defaults, **found, **given}, _protocol(path, protocol)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _check_kind(path: Path | None, name: str, value: object) -> None:
    if name in LISTS:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(f"{path}: {name} is a list of strings, not {value!r}")
    elif not isinstance(value, str):
        raise UsageError(f"{path}: {name} is a string, not {value!r}")


def _protocol(path: Path | None, given: object) -> Config:
    if not isinstance(given, dict):
        raise UsageError(f"{path}: [protocol] is a table")
    kinds = {each.name: type(each.default) for each in fields(Config)}
    for name, value in given.items():
        if name not in kinds:
            raise UsageError(f"{path}: the protocol has no setting {name!r}")
        fits = (int, float) if kinds[name] is float else int if name == "faults" else kinds[name]
        if isinstance(value, bool) or not isinstance(value, fits):
            raise UsageError(f"{path}: {name} = {value!r} is not of the kind of its default")
    return Config(**given)
