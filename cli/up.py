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
from gossamer.cli.logs import start_logging
from gossamer.sdk.embedded import Embedded, free_or

DATA = Path("gossamer-data")


def up(
    listen: options.Listen = None,
    mesh: options.Mesh = None,
    peer: options.Peer = None,
    data: Annotated[
        Path | None, typer.Option("--data", envvar="GOSSAMER_DATA", help=f"The folder to keep events in. [./{DATA}]")
    ] = None,
    config: options.ConfigFile = None,
    log_format: options.LogFormat = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a broker and a logger. A default port that is taken is replaced by a free one."""
    flags = {
        "listen": listen, "mesh": mesh, "peer": peer, "data": None if data is None else str(data),
        "log_format": log_format,
    }  # fmt: skip
    defaults = {"peer": [], "data": str(DATA), "log_format": "human"}
    found, protocol = options.settle(config, flags, defaults)
    start_logging(found["log_format"])
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
    )
    told = {"role": "up", "node": node.broker.name, "url": node.url, "mesh": node.broker.address, "data": found["data"]}
    if as_json:
        print(json.dumps(told), flush=True)
    else:
        print(f"clients  {told['url']}\nmesh     {told['mesh']}\ndata     {told['data']}", flush=True)
    while not ended.wait(1.0) and node.broker.failure is None and node.logger.failure is None:
        pass
    failure = node.broker.failure or node.logger.failure
    if failure is not None:
        print(f"gossamer: {failure!r}", file=sys.stderr)
        raise typer.Exit(1)
    node.stop()
