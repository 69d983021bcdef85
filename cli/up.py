"""`gossamer up`: one broker and one logger in one process, for a laptop or a single machine."""

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from gossamer.cli import options
from gossamer.cli.groups import GroupsFile, read_groups
from gossamer.cli.logs import start_logging
from gossamer.cli.process import monitor
from gossamer.cli.stores import DATA
from gossamer.messages.errors import GossamerError
from gossamer.sdk.embedded import Embedded, free_or


def up(
    listen: options.Listen = None,
    mesh: options.Mesh = None,
    peer: options.Peer = None,
    data: Annotated[
        Path | None, typer.Option("--data", envvar="GOSSAMER_DATA", help=f"The folder to keep events in. [./{DATA}]")
    ] = None,
    retain: options.Retain = None,
    expire: options.Expire = None,
    max_bytes: options.MaxBytes = None,
    replicas: options.Replicas = None,
    compact: options.Compact = None,
    config: options.ConfigFile = None,
    groups: GroupsFile = None,
    http: options.Http = None,
    telemetry_interval_s: options.TelemetryInterval = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
    accept_loss: options.AcceptLoss = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a broker and a logger. A default port that is taken is replaced by a free one."""
    flags = {
        "listen": listen, "mesh": mesh, "peer": peer, "data": None if data is None else str(data),
        "retain": retain, "expire": expire, "max_bytes": max_bytes, "replicas": replicas, "compact": compact,
        "http": http, "telemetry_interval_s": telemetry_interval_s, "log_format": log_format, "log_level": log_level,
    }  # fmt: skip
    found, protocol = options.settle(config, flags, {"data": str(DATA)})
    protocol, interests = read_groups(groups, protocol, found["interests"])
    start_logging(found["log_format"], found["log_level"])
    ended = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    node = Embedded.start(
        data=found["data"],
        listen=found["listen"] or free_or(options.LISTEN),
        mesh=found["mesh"] or free_or(options.MESH),
        peers=tuple(found["peer"]),
        config=protocol,
        limits=found["clients"],
        interests=interests,
        telemetry_interval_s=found["telemetry_interval_s"],
        accept_loss=accept_loss,
    )
    try:
        pages = monitor(found["http"], node.broker, node.logger)
    except GossamerError:
        node.stop()
        raise
    told = {"role": "up", "node": node.broker.name, "url": node.url, "mesh": node.broker.address, "data": found["data"]}
    if pages is not None:
        told["http"] = pages.url
    if as_json:
        print(json.dumps(told), flush=True)
    else:
        names = {"url": "clients"}
        lines = [f"{names.get(name, name):8} {told[name]}" for name in ("url", "mesh", "http", "data") if name in told]
        print("\n".join(lines), flush=True)
    while not ended.wait(1.0) and node.broker.failure is None and node.logger.failure is None:
        pass
    failure = node.broker.failure or node.logger.failure
    if failure is not None:
        print(f"gossamer: {failure!r}", file=sys.stderr)
        raise typer.Exit(1)
    node.stop()
    if pages is not None:
        pages.close()
