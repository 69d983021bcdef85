"""`gossamer status`, `top` and `expel`, of a mesh of real processes."""

import functools
import json
import os
import signal
import socket
import subprocess
import threading
import urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gossamer import sync
from gossamer.broker import runtime as runtime_module
from gossamer.messages.errors import UsageError
from processes import GOSSAMER, Processes, until


def gossamer(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*GOSSAMER, *arguments], capture_output=True, text=True, timeout=40)


def seen_by(http: str) -> dict:
    with urllib.request.urlopen(f"{http}/mesh", timeout=10) as answer:
        return json.load(answer)


def healthy(http: str, *names: str) -> bool:
    """Whether that member sees no trouble, and all of these (it may be without trouble since it has not met them)."""
    found = seen_by(http)
    return found["healthy"] and {member["node"] for member in found["members"]} == set(names)


def test_any_member_shows_the_mesh_and_whether_it_is_healthy(mesh: Processes):
    brisk = {"telemetry-interval-s": "0.3", "http": "127.0.0.1:0"}
    b1 = mesh.broker("b1", **brisk).ready()
    b2 = mesh.broker("b2", b1.address, **brisk)
    logger = mesh.logger("L", b1.address, **brisk).ready()
    b2.ready()
    until(lambda: healthy(logger.http, "L", "b1", "b2"), "the logger to know everyone")

    found = json.loads(gossamer("status", "--http", logger.http, "--json").stdout)
    members = {member["node"]: member for member in found["members"]}
    assert [members[name]["role"] for name in ("L", "b1", "b2")] == ["logger", "broker", "broker"]
    assert members["b2"]["url"] == b2.url
    assert (found["healthy"], found["trouble"]) == (True, [])

    as_client = gossamer("status", "--url", b2.url, "--json")
    assert as_client.returncode == 0, as_client.stderr
    assert {member["node"] for member in json.loads(as_client.stdout)["members"]} == {"L", "b1", "b2"}

    shown = gossamer("top", "--once", "--http", b1.http)
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in ("healthy", "b1", "b2", "logger"))

    b2.kill()
    until(lambda: any(each.startswith("b2: is gone") for each in seen_by(b1.http)["trouble"]), "b2 to be missed")
    told = gossamer("status", "--http", b1.http)
    assert (told.returncode, f"b2: is gone: nothing listens at {b2.address}" in told.stdout) == (1, True)
    told = gossamer("expel", "L", "--http", b1.http)
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "L was heard" in told.stderr


@pytest.mark.parametrize("role", ["broker", "logger"])
def test_killed_member_is_trouble_within_two_telemetry_intervals_and_can_be_expelled(mesh: Processes, role: str):
    """Counted in samples of the survivor, with the default interval: its second sample names the lost member."""
    b1 = mesh.broker("b1", http="127.0.0.1:0").ready()
    mesh.logger("K", b1.address, http="off").ready()
    victim = (mesh.broker if role == "broker" else mesh.logger)("victim", b1.address, http="off").ready()
    until(lambda: healthy(b1.http, "b1", "K", "victim"), "b1 to know everyone")
    with sync.connect(b1.url, group="$sys") as client:
        samples = client.subscribe("type = 'sample' AND node = 'b1'")
        victim.kill()
        after = [samples.get(timeout=30).attributes["members_lost"]]
        while not after[-1]:
            after.append(samples.get(timeout=30).attributes["members_lost"])
    assert after[-1] == ["victim"]
    assert len(after) <= 2, "at most one sample between the kill and the one that tells of it"

    for code, *command in (
        (1, "status", "--http", b1.http),
        (1, "status", "--url", b1.url),
        (0, "top", "--once", "--http", b1.http),
    ):
        told = gossamer(*command)
        assert (told.returncode, "in trouble" in told.stdout, "victim: is " in told.stdout) == (code, True, True), told
    totals = seen_by(b1.http)["totals"]
    assert (totals["brokers"], totals["loggers"]) == (1, 1)

    told = gossamer("expel", "victim", "--http", b1.http)
    assert (told.returncode, told.stderr) == (0, "")
    until(lambda: healthy(b1.http, "b1", "K"), "b1 to be without trouble")


def test_clients_of_a_killed_broker_are_not_counted_there_any_more(mesh: Processes):
    brisk = {"telemetry-interval-s": "0.3", "http": "127.0.0.1:0"}
    b1 = mesh.broker("b1", **brisk).ready()
    b2 = mesh.broker("b2", b1.address, **brisk).ready()
    until(lambda: healthy(b1.http, "b1", "b2"), "b1 to know b2")
    with sync.connect([b2.url, b1.url]):
        until(lambda: seen_by(b1.http)["totals"]["clients"] == 1, "b2 to have a client")
        b2.kill()
        until(lambda: seen_by(b1.http)["trouble"], "b2 to be missed")
        until(lambda: {m["node"]: m.get("clients") for m in seen_by(b1.http)["members"]} == {"b1": 1, "b2": None})
        assert seen_by(b1.http)["totals"]["clients"] == 1


@pytest.mark.slow
def test_stopped_process_is_silent_and_well_again_when_it_goes_on(mesh: Processes):
    """Its kernel still takes connections, as that of a busy machine does: only unanswered probes tell."""
    b1 = mesh.broker("b1", http="127.0.0.1:0").ready()
    b2 = mesh.broker("b2", b1.address, http="off").ready()
    until(lambda: healthy(b1.http, "b1", "b2"), "b1 to know b2")
    os.kill(b2.pid, signal.SIGSTOP)
    try:
        (trouble,) = until(lambda: seen_by(b1.http)["trouble"], "b2 to be missed")
        assert trouble.startswith("b2: is silent: not heard for")
        assert {member["node"]: member["status"] for member in seen_by(b1.http)["members"]}["b2"] == "silent"
    finally:
        os.kill(b2.pid, signal.SIGCONT)
    until(lambda: healthy(b1.http, "b1", "b2"), "b2 to be well again")


def test_top_goes_on_with_another_member_when_the_one_it_asks_is_killed(mesh: Processes):
    brisk = {"telemetry-interval-s": "0.3", "http": "127.0.0.1:0"}
    b1 = mesh.broker("b1", **brisk).ready()
    b2 = mesh.broker("b2", b1.address, **brisk).ready()
    until(lambda: healthy(b1.http, "b1", "b2"), "b1 to know b2")
    command = [*GOSSAMER, "top", "--json", "--interval", "0.1", "--http", b1.http]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top:
        assert json.loads(top.stdout.readline())["node"] == "b1"
        b1.kill()
        for line in top.stdout:
            found = json.loads(line)
            if found["trouble"]:
                break
        top.terminate()
    assert found["node"] == b2.name
    assert found["trouble"][0].startswith("b1: is gone: nothing listens at")


def test_member_whose_peers_do_not_answer_says_so(mesh: Processes):
    nobody = mesh.address()
    broker, logger = mesh.broker("b1", nobody), mesh.logger("L", nobody).ready()
    for process, name in ((broker, "b1"), (logger, "L")):
        until(lambda process=process: "waits" in process.errors(), f"{name} to say that it waits")
        assert f"{name} waits: no member answers at {nobody}" in process.errors()


def test_member_whose_peer_answers_does_not_say_that_it_waits(mesh: Processes):
    b1 = mesh.broker("b1", **{"telemetry-interval-s": "0.2", "http": "127.0.0.1:0"}).ready()
    b2 = mesh.broker("b2", b1.address).ready()
    until(lambda: seen_by(b1.http)["members"][0].get("uptime_s", 0) > 1.5, "b1 to be up for a while")
    assert "waits" not in b1.errors() + b2.errors()


def test_mesh_without_telemetry_is_not_called_in_trouble(mesh: Processes):
    b1 = mesh.broker("b1", **{"telemetry-interval-s": "0", "http": "127.0.0.1:0"}).ready()
    for option, address in (("--http", b1.http), ("--url", b1.url)):
        told = gossamer("status", option, address, "--timeout", "1")
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1), told
        assert "telemetry is switched off" in told.stderr


def test_http_server_of_something_else_is_one_line(tmp_path):
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        try:
            for command in (["status"], ["expel", "b2"], ["top", "--once"]):
                told = gossamer(*command, "--http", f"127.0.0.1:{other.server_port}")
                assert (told.returncode, told.stderr.count("\n")) == (1, 1), told.stderr
                assert "not a member's --http address" in told.stderr
        finally:
            other.shutdown()
            serving.join()


def test_who_has_just_come_is_told_of_the_others_before_their_next_interval(mesh: Processes):
    """A newcomer's first look is at a mesh that is up, and not at one in trouble."""
    rare = {"telemetry-interval-s": "3600", "http": "127.0.0.1:0"}
    b1 = mesh.broker("b1", **rare).ready()
    until(lambda: healthy(b1.http, "b1"), "b1 to have told of itself")
    logger = mesh.logger("L", b1.address, **rare).ready()
    until(lambda: len(seen_by(logger.http)["members"]) == 2, "L to know b1")
    told = gossamer("status", "--http", logger.http)
    assert (told.returncode, "healthy" in told.stdout) == (0, True), told.stdout
    assert "…" not in told.stdout, "what is piped is not cut off"


def test_who_is_silent_can_be_expelled_and_nobody_else(mesh: Processes, monkeypatch):
    monkeypatch.setattr(runtime_module, "EXPEL_S", 0.5)
    a = mesh.member("a", telemetry_interval_s=0.1)
    b = mesh.member("b", a.address, telemetry_interval_s=0.1)
    until(lambda: a.knows("a", "b"))
    for name, why in (("a", "that was asked"), ("b", "was heard"), ("c", "not a member")):
        with pytest.raises(UsageError, match=why):
            a.runtime.expel(name)
    b.runtime.kill()

    def expelled() -> bool:
        try:
            a.runtime.expel("b")
        except UsageError:
            return False
        return True

    until(expelled, "b to be silent for long enough")
    until(lambda: a.knows("a"))


def test_nobody_there_is_one_line_and_exit_code_1():
    told = gossamer("status", "--http", "127.0.0.1:1")
    assert (told.returncode, told.stderr.count("\n"), "does not answer" in told.stderr) == (1, 1, True)
    with socket.create_server(("127.0.0.1", 0)) as other:  # as a broker's port for clients would

        def answer() -> None:
            with other.accept()[0] as asked:
                asked.sendall(b"\xff\x00 NULL\n")
                asked.recv(4_096)

        answering = threading.Thread(target=answer)
        answering.start()
        told = gossamer("status", "--http", f"127.0.0.1:{other.getsockname()[1]}")
        assert (told.returncode, told.stderr.count("\n"), "does not speak http" in told.stderr) == (1, 1, True)
        answering.join()
    told = gossamer("top", "--interval", "0")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
