"""What a process says of itself: one line an event, and not too many of a kind."""

import json
import logging

import pytest

from gossamer.cli import logs


@pytest.fixture
def log():
    yield logging.getLogger("gossamer.test")
    root = logging.getLogger("gossamer")
    root.handlers.clear()
    root.propagate = True
    root.setLevel(logging.NOTSET)


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_json_is_an_object_a_line_with_its_fields(log, capsys):
    logs.start_logging("json")
    log.info("client %s\nis here", "c", extra={"fields": {"event": "client-in", "client": "c"}})
    log.debug("nobody asked")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("trouble")
    told, story = map(json.loads, lines(capsys))
    assert (told["level"], told["from"], told["message"]) == ("info", "gossamer.test", "client c\nis here")
    assert (told["event"], told["client"]) == ("client-in", "c")
    assert "ValueError: why" in story["story"]


def test_for_people_an_event_is_a_line_whatever_is_in_it(log, capsys):
    logs.start_logging("human", "warning")
    log.info("not this")
    log.warning("refused: %s", "a\n12:00:00 INFO fake line")
    (line,) = lines(capsys)
    assert line.endswith("WARNING gossamer.test: refused: a 12:00:00 INFO fake line")


def test_a_flood_is_told_in_part_and_how_much_was_left_out(log, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    logs.start_logging("json")
    for number in range(100):
        log.info("client %d is here", number)
    log.info("something else")
    assert len(lines(capsys)) == logs.BURST + 1
    now[0] += logs.WINDOW_S
    log.info("client %d is here", 100)
    log.info("client %d is here", 101)
    first, second = map(json.loads, lines(capsys))
    assert first["left_out"] == 100 - logs.BURST
    assert "left_out" not in second
