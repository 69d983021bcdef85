"""What commands print is complete and true: defaults in help texts, tables at 80 columns, one line for a mistake."""

import io
import re

import pytest
import typer
from rich.console import Console

from gossamer.broker.picture import Lost, Picture
from gossamer.cli import main as main_module
from gossamer.cli import view
from gossamer.messages.event import Event
from gossamer.messages.wire import Member

FIGURES = {name: 123_456 for name, _ in view.COLUMNS}


def picture(*names: str, lost: dict[str, Lost] | None = None, **told: object) -> dict:
    seen = Picture()
    for name in names:
        attributes = {"type": "sample", "node": name, "role": "broker", "status": "member", "interval_s": 5.0}
        attributes |= {"members": list(names), "trouble": [], **FIGURES, **told}
        seen.on_event(Event(key=f"sample/{name}", time_ns=10**9, attributes=attributes))
    known = tuple(Member(name, "member", 1) for name in names)
    return {"node": names[0], **seen.as_dict(2 * 10**9, known, lost)}


def printed(found: dict, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(view.render(found, console))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 240])
def test_no_column_of_a_table_is_cut_off(width):
    told = printed(picture("broker-1", "broker-2", "a-logger-with-a-name"), width)
    assert "…" not in told
    assert all(title in told for title in ("status", "heard", "lost"))
    assert (width < 240) == ("p50 ms" not in told)


def test_lost_member_is_named_and_its_old_figures_are_not_shown_as_new():
    found = picture("a", "b", lost={"b": Lost("gone", 3.0, "tcp://h:1")})
    a, b = found["members"]
    assert (found["healthy"], b["status"], b["age_s"]) == (False, "gone", 3.0)
    assert found["trouble"] == ["b: is gone: nothing listens at tcp://h:1, not heard for 3 s"]
    assert not FIGURES.keys() & b.keys()
    assert found["totals"]["clients"] == a["clients"]
    assert found["totals"]["brokers"] == 1


def test_member_that_others_cannot_reach_is_trouble_unless_they_are_lost_themselves():
    found = picture("a", "b", members_lost=["b"])
    assert found["trouble"] == ["b: is lost: a, b cannot reach it"]
    found = picture("a", "b", members_lost=["b"], lost={"a": Lost("silent", 9.0, "tcp://h:1")})
    assert [reason.partition(":")[0] for reason in found["trouble"]] == ["a", "b"]
    assert "b: is lost: b cannot reach it" in found["trouble"]


@pytest.mark.parametrize("name", [name for name in main_module.COMMANDS if name != "lab"])
def test_help_shows_the_defaults_that_its_texts_name(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    command = typer.main.get_command(main_module._app([name])).commands[name]
    texts = [each.help for each in command.params if getattr(each, "help", "")]
    assert texts
    with pytest.raises(SystemExit):
        main_module.main([name, "--help"])
    told = re.sub(r"[\s│]+", "", capsys.readouterr().out)
    for text in texts:
        for bracket in re.findall(r"\[.*\]", text):
            assert re.sub(r"\s+", "", bracket) in told


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["status", "--timeout", "-1"], "--timeout"),
        (["expel", "b", "--timeout", "nan"], "--timeout"),
        (["status", "--http", "foo:bar"], "--http 'foo:bar'"),
        (["status", "--http", "a b"], "--http 'a b'"),
        (["broker", "--http", "127.0.0.1:999999", "--mesh", "tcp://127.0.0.1:0"], "--http '127.0.0.1:999999'"),
        (["pub", "a=b", "--url", "foo"], "'foo' is not an address like tcp://127.0.0.1:7400"),
    ],
)
def test_mistake_is_one_line_that_names_it(arguments, named, capsys):
    with pytest.raises(SystemExit) as ended:
        main_module.main(arguments)
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n"), named in told) == (2, 1, True), told


def test_mistake_in_a_selector_is_told_without_a_broker(capsys):
    with pytest.raises(SystemExit) as ended:
        main_module.main(["sub", "a >", "--url", "tcp://127.0.0.1:1", "--timeout", "0.2"])
    assert (ended.value.code, "^" in capsys.readouterr().err) == (2, True)
