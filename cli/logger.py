"""`gossamer logger`: a member of the mesh that keeps everything on disk."""

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from gossamer.broker.faults import parse_faults
from gossamer.broker.runtime import Runtime
from gossamer.cli import options
from gossamer.cli.logs import start_logging
from gossamer.cli.process import serve
from gossamer.cli.stores import STORE, find_store
from gossamer.messages.errors import StoreUnusable

StoreUrl = Annotated[
    str | None, typer.Option("--store", envvar="GOSSAMER_STORE", help=f"sqlite:///FILE or postgresql://…  [{STORE}]")
]
ArchiveFolder = Annotated[
    Path | None,
    typer.Option(
        "--archive", envvar="GOSSAMER_ARCHIVE", help="Also keep it here, as Parquet by group and hour, for good."
    ),
]


def logger(
    mesh: options.Mesh = None,
    advertise: options.Advertise = None,
    peer: options.Peer = None,
    store: StoreUrl = None,
    archive: ArchiveFolder = None,
    retain: options.Retain = None,
    expire: options.Expire = None,
    max_bytes: options.MaxBytes = None,
    replicas: options.Replicas = None,
    compact: options.Compact = None,
    name: options.Name = None,
    config: options.ConfigFile = None,
    faults: options.FaultSpec = None,
    http: options.Http = None,
    telemetry_interval_s: options.TelemetryInterval = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the store, and say what is wrong.")] = False,
    leave: Annotated[
        bool, typer.Option("--leave", help="Hand over what only this one keeps, leave the mesh for good, and end.")
    ] = False,
    accept_loss: options.AcceptLoss = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Derive all events anew from the log.")] = False,
    json: options.AsJson = False,
) -> None:
    """Run a logger. It has the name that it had on its store before."""
    # Here, because SQLAlchemy takes a third of a second that no other command should spend.
    from gossamer.logger.archive import Archive
    from gossamer.logger.databases import StoreError
    from gossamer.logger.store import Store
    from gossamer.logger.writer import Writer

    flags = {
        "mesh": mesh, "advertise": advertise, "peer": peer, "store": store, "archive": archive and str(archive),
        "name": name, "faults": faults, "retain": retain, "expire": expire, "max_bytes": max_bytes,
        "replicas": replicas, "compact": compact,
        "http": http, "telemetry_interval_s": telemetry_interval_s, "log_format": log_format, "log_level": log_level,
    }  # fmt: skip
    found, protocol = options.settle(config, flags, {"mesh": options.MESH, "store": None if check else STORE})
    start_logging(found["log_format"], found["log_level"])
    if check:
        raise typer.Exit(check_store(find_store(found["store"]), json))
    kept = None if found["archive"] is None else Archive(Path(found["archive"]))
    with Store(found["store"], accept_loss=accept_loss) as opened:
        writer = Writer(opened, kept, protocol.compact)
        if rebuild:
            try:
                writer.keeper.deriving.rebuild()
            except StoreError as error:
                raise StoreUnusable(f"cannot rebuild the store {error}") from None
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
            store=writer,
            leave=leave,
        )


def check_store(url: str, as_json: bool) -> int:
    """Say what is wrong with a store: exit code 1 if anything is."""
    from gossamer.logger.checking import Finding, check
    from gossamer.logger.databases import database

    told: list[dict[str, str]] = []

    def tell(finding: Finding) -> None:
        told.append({"kind": finding.kind, "text": finding.text})
        if not as_json:
            print(f"{finding.kind}: {finding.text}")

    checked = check(database(url), tell)
    if as_json:
        figures = {"packets": checked.packets, "events": checked.events, "derived": checked.derived}
        print(dumps({"store": url, "ok": checked.ok, **figures, "findings": checked.findings, "told": told}))
    else:
        wrong = ", ".join(f"{count} {kind}" for kind, count in checked.findings.items()) or "nothing wrong"
        print(
            f"{checked.events} events in {checked.packets} packets, {checked.derived} derived: {wrong}", file=sys.stderr
        )
    return 0 if checked.ok else 1
