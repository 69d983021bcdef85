"""`gossamer status` and `gossamer top`, of a mesh of real processes."""

import json
import subprocess

from processes import GOSSAMER, Processes, until


def gossamer(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*GOSSAMER, *arguments], capture_output=True, text=True, timeout=40)


def test_any_member_shows_the_mesh_and_whether_it_is_healthy(mesh: Processes):
    brisk = {"telemetry-interval-s": "0.3", "http": "127.0.0.1:0"}
    b1 = mesh.broker("b1", **brisk).ready()
    b2 = mesh.broker("b2", b1.address, **brisk).ready()
    logger = mesh.logger("L", b1.address, **brisk).ready()
    until(lambda: gossamer("status", "--http", logger.http).returncode == 0, "the logger to know everyone")

    found = json.loads(gossamer("status", "--http", b1.http, "--json").stdout)
    members = {member["node"]: member for member in found["members"]}
    assert [members[name]["role"] for name in ("L", "b1", "b2")] == ["logger", "broker", "broker"]
    assert members["b2"]["url"] == b2.url
    assert found["healthy"] is True

    as_client = gossamer("status", "--url", b2.url, "--json")
    assert as_client.returncode == 0, as_client.stderr
    assert {member["node"] for member in json.loads(as_client.stdout)["members"]} == {"L", "b1", "b2"}

    shown = gossamer("top", "--once", "--http", b1.http)
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in ("healthy", "b1", "b2", "logger"))

    b2.kill()
    until(lambda: gossamer("status", "--http", b1.http).returncode == 1, "b2 to be missed")
    told = gossamer("status", "--http", b1.http)
    assert "b2: has not been heard for" in told.stdout


def test_nobody_there_is_one_line_and_exit_code_1():
    told = gossamer("status", "--http", "127.0.0.1:1")
    assert (told.returncode, told.stderr.count("\n"), "does not answer" in told.stderr) == (1, 1, True)
    told = gossamer("top", "--interval", "0")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
