"""`gossamer log` in the folder in which `gossamer up` or `gossamer logger` was run."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from gossamer import sync
from gossamer.cli.main import main
from processes import GOSSAMER, Process


class Shell:
    """The command, run in a folder."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return ended.value.code, *self._capfd.readouterr()


@pytest.fixture
def gossamer(capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capfd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where `gossamer up` has run: two events of an application, and the telemetry of two members."""
    folder = tmp_path_factory.mktemp("up")
    script = f"import os; os.chdir({str(folder)!r}); from gossamer.cli.main import main; main()"
    anywhere = ["--listen", "tcp://127.0.0.1:0", "--mesh", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"]
    command = [*GOSSAMER[:2], script, "up", "--json", "--telemetry-interval-s", "0.2", *anywhere]
    up = Process(folder, command).ready()
    try:
        with sync.connect(up.url, group="$sys") as client:
            client.subscribe("type = 'sample'", start="all").get(timeout=20)
        with sync.connect(up.url) as client:
            for price in (101, 99):
                client.publish({"price": price}, ack="logged")
        yield folder
    finally:
        up.close()


def test_log_finds_the_store_of_up_and_prints_the_time_of_each_event(folder: Path, gossamer: Shell, monkeypatch):
    monkeypatch.chdir(folder)
    code, told, errors = gossamer("log")
    assert (code, errors) == (0, "")
    lines = told.splitlines()
    assert [line.split()[-1] for line in lines] == ["price=101", "price=99"]
    times = [re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} default/", line) for line in lines]
    assert all(times)
    published = [json.loads(line)["time"] for line in gossamer("log", "--json")[1].splitlines()]
    seen = [datetime.fromisoformat(found[0].rpartition(" ")[0]).astimezone() for found in times]
    assert [at.timestamp() for at in seen] == pytest.approx(
        [datetime.fromisoformat(at).timestamp() for at in published], abs=0.001
    )


def test_log_leaves_system_groups_out_unless_asked(folder: Path, gossamer: Shell, monkeypatch):
    monkeypatch.chdir(folder)

    def groups(*options: str) -> set[str]:
        told = gossamer("log", "--json", *options)[1]
        return {json.loads(line)["stream"].partition("/")[0] for line in told.splitlines()}

    assert groups() == {"default"}
    assert groups("--system") == {"default", "$sys"}
    assert groups("--group", "$sys") == {"$sys"}
    assert groups("--limit", "1") == {"default"}, "the limit counts what is printed"


def test_check_finds_the_store_of_up_as_well(folder: Path, gossamer: Shell, monkeypatch):
    monkeypatch.chdir(folder)
    assert json.loads(gossamer("logger", "--check", "--json")[1])["store"] == "sqlite:///gossamer-data/gossamer.db"


def test_data_folder_of_the_environment_is_where_up_keeps_its_store(
    folder: Path, tmp_path: Path, gossamer: Shell, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOSSAMER_DATA", str(folder / "gossamer-data"))
    code, told, _ = gossamer("log")
    assert (code, told.count("price=")) == (0, 2)


def test_folder_without_a_store_or_with_two_is_one_line(tmp_path: Path, gossamer: Shell, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["log"], ["logger", "--check"], ["report", "--out", "r"]):
        code, _, errors = gossamer(*command)
        assert (code, errors.count("\n")) == (2, 1), errors
        assert all(text in errors for text in ("gossamer up", "gossamer logger", "--store", str(tmp_path)))
    (tmp_path / "gossamer-data").mkdir()
    for file in ("gossamer.db", "gossamer-data/gossamer.db"):
        (tmp_path / file).touch()
    code, _, errors = gossamer("log")
    assert (code, errors.count("\n"), "two stores" in errors) == (2, 1, True)
