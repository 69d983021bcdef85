"""`gossamer up`, `pub` and `sub`, as somebody would type them."""

import json
import os
import signal
import socket
import subprocess
import threading
from contextlib import suppress

import pytest

from gossamer.cli.clients import as_line, read_attribute, read_body, read_rank
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Event
from gossamer.messages.ids import EventId
from processes import GOSSAMER, Process, until


def gossamer(*arguments, **options):
    return subprocess.run([*GOSSAMER, *arguments], capture_output=True, text=True, timeout=30, **options)


@pytest.fixture
def url(tmp_path):
    process = Process(tmp_path, [*GOSSAMER, "up", "--json", "--data", str(tmp_path / "data")]).ready()
    yield process.url
    assert process.terminate() == 0
    process.close()
    assert (tmp_path / "data" / "gossamer.db").exists()


def test_what_is_published_is_printed(url, tmp_path):
    errors = (tmp_path / "sub.err").open("w+")
    arguments = [*GOSSAMER, "sub", "price > 100", "--url", url, "--count", "1", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as sub:
        until(lambda: "subscribed" in (tmp_path / "sub.err").read_text())
        for price in ("99", "101.5"):
            told = gossamer(
                "pub",
                "symbol=IBM",
                f"price:={price}",
                "--key",
                "IBM",
                "--body",
                "hello",
                "--url",
                url,
                "--ack",
                "logged",
            )
            assert told.returncode == 0, told.stderr
        reader = threading.Timer(20, sub.kill)
        reader.start()
        line = sub.stdout.readline()
        reader.cancel()
        assert sub.wait(10) == 0
    errors.close()
    event = json.loads(line)
    assert (event["attributes"], event["key"], event["body"]) == ({"symbol": "IBM", "price": 101.5}, "IBM", "hello")


def test_each_run_of_pub_writes_the_same_keys(url):
    """Though each is a publisher of its own, which nobody hears of again."""

    def pub(*arguments):
        assert gossamer("pub", *arguments, "--url", url, "--ack", "logged").returncode == 0

    pub("price:=1", "--key", "IBM")
    pub("price:=2", "--key", "IBM")
    pub("price:=5", "--key", "SUN", "--delete")
    pub("price:=3", "--key", "MSFT", "--rank", "7")
    pub("price:=4", "--key", "MSFT", "--rank", "6")
    pub("price:=9", "--key", "last", "--scope", "publisher")
    told = gossamer("sub", "price IS NOT NULL", "--start", "last_per_key", "--count", "3", "--json", "--url", url)
    found = {(event["key"], event["attributes"]["price"]) for event in map(json.loads, told.stdout.splitlines())}
    assert found == {("IBM", 2), ("MSFT", 3), ("last", 9)}


def test_what_is_wrong_is_one_line(url):
    for wrong in (["--scope", "mine"], ["--delete"], ["--ack", "soon"]):
        told = gossamer("pub", "price:=1", *wrong, "--url", url)
        assert (told.returncode, told.stderr.count("\n"), wrong[0] in told.stderr) == (2, 1, True)
    told = gossamer("sub", "price > > 1", "--url", url)
    assert (told.returncode, "^" in told.stderr) == (2, True)
    told = gossamer("pub", "price:=1", "--url", "tcp://127.0.0.1:1", "--timeout", "0.3")
    assert (told.returncode, told.stderr.count("\n"), "no broker" in told.stderr) == (1, 1, True)


@pytest.mark.parametrize("command", [["pub", "price:=101"], ["sub", "--count", "1"]], ids=["pub", "sub"])
def test_client_without_a_broker_says_at_once_for_whom_it_waits_and_goes_on(command, mesh):
    address = mesh.address()
    waiting = subprocess.Popen(
        [*GOSSAMER, *command, "--url", address, "--timeout", "60"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with waiting:
        said = waiting.stderr.readline()
        assert waiting.poll() is None, "it says so while it waits"
        assert said.startswith(f"gossamer: waiting up to 60 s for a broker at {address} (Connection refused)")
        assert "`gossamer up" in said
        mesh.broker("b1", listen=address).ready()
        if command[0] == "sub":
            said = waiting.stderr.readline()
            assert said == "subscribed at b1\n"
            assert gossamer("pub", "price:=101", "--url", address).returncode == 0
        told, more = waiting.communicate(timeout=40)
    assert (waiting.returncode, more, bool(told)) == (0, "", True)


def test_broker_that_turns_a_client_away_is_not_said_to_be_missing(mesh):
    b1 = mesh.broker("b1", http="off").ready()
    told = gossamer("pub", "a=b", "--publisher", "p", "--url", b1.url, "--timeout", "0.9")
    assert told.returncode == 1
    assert told.stderr == (
        f"gossamer: no broker took this client within 0.9 s at {b1.url} "
        "(b1 knows of no logger, and a named publisher needs one)\n"
    )


def test_address_of_something_else_than_a_broker_is_said_so(mesh):
    b1 = mesh.broker("b1", http="off").ready()
    told = gossamer("pub", "a=b", "--url", b1.address, "--timeout", "2.5")
    assert (told.returncode, "does not answer as a broker" in told.stderr) == (1, True), told.stderr
    assert "gossamer status" in told.stderr
    with socket.create_server(("127.0.0.1", 0)) as other:

        def hang_up() -> None:
            with suppress(OSError):  # the test is over
                while True:
                    other.accept()[0].close()

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        told = gossamer("pub", "a=b", "--url", f"tcp://127.0.0.1:{other.getsockname()[1]}", "--timeout", "0.5")
        assert (told.returncode, "hangs up" in told.stderr) == (1, True), told.stderr
        other.shutdown(socket.SHUT_RDWR)
        hanging_up.join()


def test_who_is_interrupted_before_it_has_published_says_so():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # somebody who answers nothing
        at = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        arguments = [*GOSSAMER, "pub", "a=b", "--url", at]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as pub, silent.accept()[0]:
            pub.send_signal(signal.SIGINT)
            assert (pub.wait(10), pub.stderr.read()) == (130, "")


def test_a_body_is_what_was_typed():
    assert read_body(os.fsdecode(b"\xff\x00 \xc3\xa4")) == b"\xff\x00 \xc3\xa4"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a=b", ("a", "b")),
        ("a=b=c", ("a", "b=c")),
        ("a=", ("a", "")),
        ("a:=1.5", ("a", 1.5)),
        ('a:=["x"]', ("a", ["x"])),
        ("a:=null", ("a", None)),
    ],
)
def test_attributes_are_text_or_json(text, read):
    assert read_attribute(text) == read


@pytest.mark.parametrize("text", ["a", "=b", ":=1", "a:=x"])
def test_what_is_no_attribute_is_refused(text):
    with pytest.raises(UsageError):
        read_attribute(text)


def test_an_event_is_one_line_and_does_not_speak_to_the_terminal():
    event = Event(key="k\x9b", attributes={"name": "a\nb\x1b[2J"}, body="ü\r\0".encode(), id=EventId("default/a", 0))
    assert as_line(event) == r"default/a:0 [k\x9b] name=a\nb\x1b[2J ü\r\x00"


def test_a_rank_is_the_number_that_was_typed():
    large = 2**53 + 1
    assert (read_rank(str(large)), read_rank("1.5"), type(read_rank("7"))) == (large, 1.5, int)
    told = gossamer("pub", "a=1", "--key", "k", "--rank", "high", "--url", "tcp://127.0.0.1:1")
    assert (told.returncode, told.stderr) == (2, "gossamer: --rank is a number, not 'high'\n")
