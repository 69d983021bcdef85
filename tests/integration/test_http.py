"""The http pages of real processes, and of members in this one."""

import json
import socket
import threading
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from gossamer.broker.http import CONNECTIONS_MAX, Monitor
from gossamer.broker.runtime import Runtime
from gossamer.logger.databases import StoreError
from gossamer.logger.store import Store
from gossamer.logger.writer import Writer
from gossamer.messages.errors import UsageError
from gossamer.protocol.node import Node
from machines import S, T
from processes import GOSSAMER, Process, until


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def sample(metrics: str, name: str, **labels: str) -> float:
    """The one value of a metric with these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    lines = [line for line in metrics.splitlines() if line.startswith(name + "{")]
    (found,) = [line for line in lines if all(label in line for label in wanted)]
    return float(found.rpartition(" ")[2])


@pytest.fixture
def runtime():
    with Runtime(name="n") as found:
        until(lambda: found.status == "member")
        yield found


@pytest.fixture
def pages(runtime):
    monitor = Monitor("tcp://127.0.0.1:0", [runtime])
    yield monitor.url
    monitor.close()


def test_a_broker_and_a_logger_serve_their_pages(mesh):
    broker = mesh.broker("b1", http="127.0.0.1:0").ready()
    logger = mesh.logger("L", broker.address, http="127.0.0.1:0").ready()
    for process, role in ((broker, "broker"), (logger, "logger")):
        code, body = get(f"{process.http}/healthz")
        assert (code, json.loads(body)["status"]) == (200, "ok"), body
        code, body = get(f"{process.http}/metrics")
        assert code == 200
        assert sample(body, "gossamer_member", role=role, node=process.name) == 1
        assert sample(body, "gossamer_bytes_received_total", role=role) > 0
    assert sample(get(f"{broker.http}/metrics")[1], "gossamer_clients") == 0
    code, body = get(broker.http)
    assert (code, json.loads(body)["members"]) == (200, {"b1": "broker"})
    assert get(f"{broker.http}/nothing")[0] == 404
    until(lambda: len(json.loads(get(f"{broker.http}/mesh")[1])["members"]) == 2, "both to have told of themselves")


def test_up_serves_both_at_once(tmp_path):
    process = Process(tmp_path, [*GOSSAMER, "up", "--json", "--data", str(tmp_path / "data")]).ready()
    try:
        code, body = get(f"{process.http}/healthz")
        assert (code, [member["role"] for member in json.loads(body)["members"]]) == (200, ["broker", "logger"])
        code, body = get(f"{process.http}/metrics")
        assert sample(body, "gossamer_member", role="logger") == sample(body, "gossamer_member", role="broker") == 1
        assert process.terminate() == 0
    finally:
        process.close()


def test_without_telemetry_there_is_no_picture_and_it_is_said_why(pages):
    code, body = get(f"{pages}/mesh")
    assert (code, "switched off" in body) == (503, True)


def test_who_is_not_a_member_is_not_healthy(pages, runtime):
    assert get(f"{pages}/healthz")[0] == 200
    runtime.status = "leaving"
    code, body = get(f"{pages}/healthz")
    assert code == 503
    assert json.loads(body)["members"][0]["trouble"] == ["not a member of the mesh, but leaving"]


def test_a_loop_that_is_stuck_is_not_healthy_and_the_pages_go_on(pages, runtime):
    stuck, release = threading.Event(), threading.Event()
    with suppress(Exception):
        runtime.ask(lambda: (stuck.set(), release.wait(30)), 0.01)
    try:
        stuck.wait(10)
        code, body = get(f"{pages}/healthz")
        assert (code, "does not answer" in body) == (503, True)
        assert get(pages)[0] == 200
    finally:
        release.set()
    until(lambda: get(f"{pages}/healthz")[0] == 200)


def test_a_disk_in_trouble_is_not_healthy(tmp_path):
    writer = Writer(Store(f"sqlite:///{tmp_path / 'l.db'}"))
    with Runtime(name="L", store=writer) as logger:
        until(lambda: logger.status == "member")
        monitor = Monitor("tcp://127.0.0.1:0", [logger])
        writer.trouble = "database or disk is full"
        code, body = get(f"{monitor.url}/healthz")
        assert (code, json.loads(body)["members"][0]["trouble"]) == (503, ["disk: database or disk is full"])
        assert sample(get(f"{monitor.url}/metrics")[1], "gossamer_trouble", node="L") == 1
        writer.trouble = None
        assert get(f"{monitor.url}/healthz")[0] == 200
        monitor.close()


def test_a_member_that_has_ended_is_not_healthy(pages, runtime):
    runtime.kill()
    code, body = get(f"{pages}/healthz")
    assert (code, "has ended" in body) == (503, True)
    assert get(f"{pages}/metrics")[0] == 503


def test_those_who_say_nothing_keep_nobody_else_out_for_long(pages):
    host, port = pages.removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS_MAX + 5)]
    try:
        until(lambda: _answers(pages), "the silent ones to be given up")
    finally:
        for each in silent:
            each.close()


def _answers(url: str) -> bool:
    try:
        return get(f"{url}/healthz")[0] == 200
    except OSError:
        return False


def test_a_port_that_is_taken_is_replaced_only_if_nobody_asked_for_it(runtime):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match="cannot listen on"):
            Monitor(address, [runtime])
        monitor = Monitor(address, [runtime], or_free=True)
        assert get(f"{monitor.url}/healthz")[0] == 200
        monitor.close()


def test_broker_is_in_trouble_while_a_logger_does_not_acknowledge(tmp_path, monkeypatch):
    monkeypatch.setattr("gossamer.broker.runtime.OVERDUE_S", 0.1)
    writer = Writer(Store(f"sqlite:///{tmp_path / 'l.db'}"))
    with (
        Runtime(name="L", store=writer, telemetry_interval_s=0.1) as logger,
        Runtime(name="b", peers=(logger.address,), telemetry_interval_s=0.1) as broker,
    ):
        until(lambda: broker.status == "member" and broker.node.membership.has_loggers)
        monitor = Monitor("tcp://127.0.0.1:0", [broker])
        until(lambda: get(f"{monitor.url}/healthz")[0] == 200)

        def full():
            raise StoreError("database or disk is full")

        commit = writer._store.commit
        monkeypatch.setattr(writer._store, "commit", full)
        told = until(lambda: [each for each in trouble(monitor) if "disk is full" in each])
        assert told[0].startswith("publishers wait, the oldest of 1 stream for")
        assert told[0].endswith("not acknowledged by L (disk: database or disk is full)")
        monkeypatch.setattr(writer._store, "commit", commit)
        monkeypatch.setattr("gossamer.broker.runtime.OVERDUE_S", 5.0)
        until(lambda: get(f"{monitor.url}/healthz")[0] == 200)
        monitor.close()


def trouble(monitor: Monitor) -> list[str]:
    code, body = get(f"{monitor.url}/healthz")
    found = [reason for member in json.loads(body)["members"] for reason in member["trouble"]]
    assert code == (503 if found else 200)
    return found


def test_logger_that_is_behind_warns_while_another_logger_may_have_the_events(tmp_path, monkeypatch):
    with Runtime(name="L", store=Writer(Store(f"sqlite:///{tmp_path / 'l.db'}"))) as logger:
        until(lambda: logger.status == "member")
        monitor = Monitor("tcp://127.0.0.1:0", [logger])
        monkeypatch.setattr(Node, "lacking", lambda _: {S: 7, T: 1})
        code, body = get(f"{monitor.url}/healthz")
        (member,) = json.loads(body)["members"]
        reason = "behind: lacks 8 events of 2 streams"
        assert (code, json.loads(body)["status"], member["trouble"]) == (200, "warning", [])
        assert member["warnings"] == [f"{reason}, and asks other members for them"]
        metrics = get(f"{monitor.url}/metrics")[1]
        assert sample(metrics, "gossamer_streams_behind", node="L") == 2
        assert sample(metrics, "gossamer_events_lacking", node="L") == 8
        monkeypatch.setattr(Runtime, "_has_other_logger", lambda _: False)
        code, body = get(f"{monitor.url}/healthz")
        (member,) = json.loads(body)["members"]
        assert (code, member["warnings"]) == (503, [])
        assert member["trouble"] == [f"{reason}, and no other logger is connected"]
        monitor.close()
