"""`gossamer logger`: a member of the mesh that keeps everything on disk."""

from typing import Annotated

import typer

from gossamer.broker.faults import parse_faults
from gossamer.broker.runtime import Runtime
from gossamer.cli import options
from gossamer.cli.logs import start_logging
from gossamer.cli.process import serve

STORE = "sqlite:///gossamer.db"

StoreUrl = Annotated[
    str | None, typer.Option("--store", envvar="GOSSAMER_STORE", help=f"sqlite:///FILE or postgresql://…  [{STORE}]")
]


def logger(
    mesh: options.Mesh = None,
    advertise: options.Advertise = None,
    peer: options.Peer = None,
    store: StoreUrl = None,
    name: options.Name = None,
    config: options.ConfigFile = None,
    faults: options.FaultSpec = None,
    http: options.Http = None,
    telemetry_interval_s: options.TelemetryInterval = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
    json: options.AsJson = False,
) -> None:
    """Run a logger. It has the name that it had on its store before."""
    # Here, because SQLAlchemy takes a third of a second that no other command should spend.
    from gossamer.logger.store import Store
    from gossamer.logger.writer import Writer

    flags = {
        "mesh": mesh, "advertise": advertise, "peer": peer, "store": store, "name": name, "faults": faults,
        "http": http, "telemetry_interval_s": telemetry_interval_s, "log_format": log_format, "log_level": log_level,
    }  # fmt: skip
    found, protocol = options.settle(config, flags, {"mesh": options.MESH, "store": STORE})
    start_logging(found["log_format"], found["log_level"])
    with Store(found["store"]) as opened:
        serve(
            "logger",
            json,
            found["http"],
            Runtime,
            telemetry_interval_s=found["telemetry_interval_s"],
            bind=found["mesh"],
            name=found["name"],
            advertise=found["advertise"],
            peers=tuple(found["peer"]),
            config=protocol,
            faults=parse_faults(found["faults"]) if found["faults"] else None,
            store=Writer(opened),
        )
