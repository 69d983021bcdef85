"""`gossamer broker`: a member of the mesh that clients talk to."""

from gossamer.broker import serving
from gossamer.broker.faults import parse_faults
from gossamer.cli import options
from gossamer.cli.groups import GroupsFile, read_groups
from gossamer.cli.logs import start_logging
from gossamer.cli.process import delivery_log, serve


def broker(
    listen: options.Listen = None,
    mesh: options.Mesh = None,
    advertise: options.Advertise = None,
    peer: options.Peer = None,
    name: options.Name = None,
    replicas: options.Replicas = None,
    config: options.ConfigFile = None,
    groups: GroupsFile = None,
    faults: options.FaultSpec = None,
    http: options.Http = None,
    telemetry_interval_s: options.TelemetryInterval = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
    json: options.AsJson = False,
    deliveries: options.Deliveries = None,
) -> None:
    """Run a broker. The first of a mesh needs no --peer; every other is told at least one."""
    flags = {
        "listen": listen, "mesh": mesh, "advertise": advertise, "peer": peer, "name": name, "faults": faults,
        "replicas": replicas,
        "http": http, "telemetry_interval_s": telemetry_interval_s, "log_format": log_format, "log_level": log_level,
    }  # fmt: skip
    found, protocol = options.settle(config, flags, {"listen": options.LISTEN, "mesh": options.MESH})
    protocol, interests = read_groups(groups, protocol, found["interests"])
    start_logging(found["log_format"], found["log_level"])
    serve(
        "broker",
        json,
        found["http"],
        serving.broker,
        listen=found["listen"],
        limits=found["clients"],
        interests=interests,
        telemetry_interval_s=found["telemetry_interval_s"],
        bind=found["mesh"],
        name=found["name"],
        advertise=found["advertise"],
        peers=tuple(found["peer"]),
        config=protocol,
        faults=parse_faults(found["faults"]) if found["faults"] else None,
        **delivery_log(deliveries),
    )
