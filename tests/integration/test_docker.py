"""What docker/ says is so, as far as that can be seen without an engine: it is parsed, and its commands are run."""

import json
import re
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
import typer
import yaml

from gossamer.cli.main import COMMANDS, _app
from processes import GOSSAMER, Process, until

DOCKER = Path(__file__).resolve().parents[2] / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "gossamer"}
RUNNING = {name: service for name, service in OURS.items() if "profiles" not in service}


def test_three_brokers_two_loggers_a_report_and_a_scrape():
    kinds = sorted(service["command"][0] for service in OURS.values())
    assert kinds == ["broker", "broker", "broker", "logger", "logger", "report"]
    stores = [
        value for service in OURS.values() for value in service["command"] if "://" in value and "tcp" not in value
    ]
    assert [store.partition(":")[0] for store in stores] == ["sqlite", "postgresql", "postgresql"]
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DOCKER / source).exists()
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "nothing is opened to the world by default"


def test_every_option_exists():
    for name, service in OURS.items():
        command, *arguments = service["command"]
        assert command in COMMANDS, f"{name} runs what is not there"
        found = typer.main.get_command(_app([]))
        known = {option for parameter in found.commands[command].params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= known


def test_everybody_is_scraped():
    config = yaml.safe_load((DOCKER / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    targets = [target for each in job["static_configs"] for target in each["targets"]]
    assert targets == [f"{name}:7480" for name in RUNNING]


def test_the_image_is_made_in_steps_that_are_there():
    known = {"FROM", "COPY", "RUN", "USER", "WORKDIR", "VOLUME", "ENV", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
    lines = [line for line in (DOCKER / "Dockerfile").read_text().replace("\\\n", " ").splitlines() if line.strip()]
    steps = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
    assert {step for step, _ in steps} <= known
    assert [step for step, _ in steps].count("FROM") == 2
    for step, rest in steps:
        if step in ("ENTRYPOINT",) or (step == "HEALTHCHECK" and "CMD" in rest):
            json.loads(rest.partition("CMD")[2] or rest)
    extras = re.search(r"/src\[(.*?)\]", (DOCKER / "Dockerfile").read_text())[1].split(",")
    import tomllib

    project = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text())["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    assert steps[[step for step, _ in steps].index("USER")][1] != "root"


@pytest.fixture
def mesh(tmp_path, postgres):
    """All that compose would run, as processes: names and ports become ones of this machine."""
    import socket

    ports = {}
    for name in RUNNING:
        for port in (7400, 7401, 7480):
            with socket.create_server(("127.0.0.1", 0)) as server:
                ports[name, port] = server.getsockname()[1]
    database = postgres.url()
    processes = {}

    def here(name, argument):
        argument = re.sub(
            r"(tcp://|^)0\.0\.0\.0:(\d+)", lambda m: f"{m[1]}127.0.0.1:{ports[name, int(m[2])]}", argument
        )
        argument = re.sub(r"tcp://(\w+):(7\d+)$", lambda m: f"tcp://127.0.0.1:{ports[m[1], int(m[2])]}", argument)
        argument = re.sub(r"^postgresql://.*", database, argument)
        return argument.replace("/data", str(tmp_path / name))

    commands = {name: [here(name, each) for each in service["command"]] for name, service in RUNNING.items()}
    try:
        for name, command in commands.items():
            (tmp_path / name).mkdir()
            processes[name] = Process(tmp_path, [*GOSSAMER, *command, "--json"])
            processes[name].ready()
        yield processes, commands, tmp_path
    finally:
        for process in processes.values():
            process.close()


def run(*arguments):
    done = subprocess.run([*GOSSAMER, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_make_a_mesh_that_logs_in_both_stores(mesh):
    processes, commands, folder = mesh
    said = json.loads(run("pub", "n:=1", "--ack", "logged", "--json", "--url", processes["broker3"].url))
    for name in ("logger1", "logger2"):
        store = commands[name][commands[name].index("--store") + 1]
        logged = until(lambda store=store: run("log", "n = 1", "--store", store, "--json"), f"{name} to log it")
        assert json.loads(logged)["stream"] == said["stream"]
    for process in processes.values():
        until(lambda process=process: urlopen(f"{process.http}/healthz").status == 200)
        assert b"gossamer" in urlopen(f"{process.http}/metrics").read()
    processes.pop("broker1").close()  # like a power cut
    again = processes["broker1"] = Process(folder, [*GOSSAMER, *commands["broker1"], "--json"])
    run("pub", "n:=2", "--ack", "logged", "--url", again.ready().url)
    for process in processes.values():
        assert process.terminate() == 0
