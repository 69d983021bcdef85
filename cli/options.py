"""Where a setting comes from: a flag, else the environment (`GOSSAMER_…`), else the file of `--config`, else a default.

The file is TOML. It takes what the flags take, by the same names, the protocol's own settings (protocol/config.py), and
what clients may ask for (`ClientLimits` in broker/sessions.py):

    mesh = "tcp://0.0.0.0:7401"
    peer = ["tcp://10.0.0.5:7401"]
    telemetry_interval_s = 10

    [protocol]
    round_interval_s = 0.1

    [clients]
    subscriptions_max = 100

    [groups.prices]
    order = "total"
"""

import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.broker.addresses import split
from gossamer.broker.session import ClientLimits
from gossamer.broker.telemetry import INTERVAL_S
from gossamer.cli.groups import parse_groups
from gossamer.messages.errors import UsageError
from gossamer.protocol.config import Config

LISTEN = "tcp://127.0.0.1:7400"
MESH = "tcp://127.0.0.1:7401"
HTTP = "tcp://127.0.0.1:7480"

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
LogLevel = Annotated[
    str | None, typer.Option("--log-level", envvar="GOSSAMER_LOG_LEVEL", help="debug, info, warning or error. [info]")
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        envvar="GOSSAMER_HTTP",
        help=f"Where to serve /healthz, /metrics and /mesh, or off. [{HTTP}, or a free port if that is taken]",
    ),
]
TelemetryInterval = Annotated[
    float | None,
    typer.Option(
        "--telemetry-interval-s",
        envvar="GOSSAMER_TELEMETRY_INTERVAL_S",
        help=f"How often to tell of itself in $sys; 0: never. [{INTERVAL_S:g}]",
    ),
]
Retain = Annotated[
    str | None, typer.Option("--retain", envvar="GOSSAMER_RETAIN", help="Keep what everyone has for so long. [24h]")
]
Expire = Annotated[
    str | None, typer.Option("--expire", envvar="GOSSAMER_EXPIRE", help="Keep nothing longer, whoever lacks it. [7d]")
]
MaxBytes = Annotated[
    str | None,
    typer.Option("--max-bytes", envvar="GOSSAMER_MAX_BYTES", help="Beyond that let the oldest go: 500MB, 20GB."),
]
Compact = Annotated[
    bool | None,
    typer.Option("--compact", envvar="GOSSAMER_COMPACT", help="Also drop what is obsolete for something logged."),
]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Go on with a store that lost packets, without the lost ones.")
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas",
        envvar="GOSSAMER_REPLICAS",
        min=1,
        help="So many loggers keep each stream. The same everywhere. [all]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="When ready, one JSON object on one line.")]
Deliveries = Annotated[Path | None, typer.Option("--deliveries", hidden=True, help="Append what is delivered.")]

LISTS = ("peer",)
NUMBERS = ("telemetry_interval_s",)
COUNTS = ("replicas",)
SWITCHES = ("compact",)
COMMON = {"peer": [], "log_format": "human", "log_level": "info", "telemetry_interval_s": INTERVAL_S}
"""Defaults of all that run a member."""


def settle(path: Path | None, flags: dict[str, Any], defaults: dict[str, Any]) -> tuple[dict[str, Any], Config]:
    """The settings by name, and the protocol's. `flags` has all names that may be set, None where not given; `clients`
    among the settings are `ClientLimits`, `interests` the groups by interest."""
    found = _read(path) if path is not None else {}
    protocol = _table(path, "protocol", found.pop("protocol", {}), Config)
    clients = _table(path, "clients", found.pop("clients", {}), ClientLimits)
    protocol["groups"], interests = parse_groups(path, found.pop("groups", {}))
    for name, value in found.items():
        if name not in flags:
            there = f"{', '.join(sorted(flags))}, [protocol], [clients], [groups.NAME]"
            raise UsageError(f"{path}: there is no setting {name!r}; there are {there}")
        _check_kind(path, name, value)
    given = {name: value for name, value in flags.items() if value not in (None, [])}
    settled: dict[str, Any] = {**dict.fromkeys(flags), **COMMON, **defaults, **found, **given}
    settled["clients"] = ClientLimits(**clients)
    settled["interests"] = interests
    if settled.get("compact"):
        protocol["compact"] = True
    if settled.get("replicas") is not None:
        protocol["replicas"] = int(settled["replicas"])
    for name, (setting, read) in RETENTION.items():
        if settled.get(name) is not None:
            protocol[setting] = read(settled[name])
    if not 0 <= settled["telemetry_interval_s"] < float("inf"):
        raise UsageError(f"telemetry_interval_s is 0 or more, not {settled['telemetry_interval_s']}")
    return settled, Config(**protocol)


def read_duration(text: str) -> float:
    """`90s`, `24h`, `7d`, in seconds."""
    return _measure(text, {"s": 1, "m": 60, "h": 3_600, "d": 86_400}, "a time is written 90s, 30m, 24h or 7d")


def read_size(text: str) -> int:
    """`500MB`, `20GB`, in bytes."""
    units = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    return int(_measure(text, units, "a size is written 500MB or 20GB"))


def _measure(text: str, units: dict[str, int], rule: str) -> float:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = units.get(text[len(number) :])
    try:
        value = float(number)
    except ValueError:
        raise UsageError(f"{rule}, not {text!r}") from None
    if unit is None or not 0 < value < float("inf"):
        raise UsageError(f"{rule}, not {text!r}")
    return value * unit


RETENTION: dict[str, tuple[str, Callable[[str], Any]]] = {
    "retain": ("retain_s", read_duration),
    "expire": ("expire_s", read_duration),
    "max_bytes": ("log_bytes_max", read_size),
}
"""Settings of loggers that are the protocol's, as people write them."""


def http_address(given: str | None) -> str | None:
    """As it may be written: host:port, http://host:port, tcp://host:port; None for `off`."""
    text = given or HTTP
    if text == "off":
        return None
    address = f"tcp://{text.removeprefix('http://').removeprefix('tcp://').rstrip('/')}"
    try:
        split(address)
    except UsageError:
        raise UsageError(f"--http {text!r} is not an address like {HTTP.removeprefix('tcp://')}") from None
    return address


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
    elif name in SWITCHES:
        if not isinstance(value, bool):
            raise UsageError(f"{path}: {name} is true or false, not {value!r}")
    elif name in COUNTS:
        if type(value) is not int:
            raise UsageError(f"{path}: {name} is a whole number, not {value!r}")
    elif name in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{path}: {name} is a number, not {value!r}")
    elif not isinstance(value, str):
        raise UsageError(f"{path}: {name} is a string, not {value!r}")


def _table(path: Path | None, table: str, given: object, of: type[Config] | type[ClientLimits]) -> dict[str, Any]:
    """The settings in a table, each of the kind of its default."""
    if not isinstance(given, dict):
        raise UsageError(f"{path}: [{table}] is a table")
    kinds = {each.name: type(each.default) for each in fields(of) if each.name != "groups"}
    found = {}
    for name, value in given.items():
        if name not in kinds:
            raise UsageError(f"{path}: there is no setting {name!r} in [{table}]; there are {', '.join(sorted(kinds))}")
        kind = kinds[name]
        if kind is tuple and isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = tuple(value)
        fits = (int, float) if kind is float else int if kind is type(None) else kind
        if isinstance(value, bool) is not (kind is bool) or not isinstance(value, fits):
            raise UsageError(f"{path}: {name} = {value!r} is not of the kind of its default")
        found[name] = value
    return found
