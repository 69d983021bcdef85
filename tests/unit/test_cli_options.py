"""Flags before environment before file before defaults; and what is wrong in one line."""

import pytest

from gossamer.cli.main import main
from gossamer.cli.options import http_address, settle
from gossamer.messages.errors import UsageError
from gossamer.protocol.config import Group

FLAGS = {"mesh": None, "peer": [], "name": None}
ANYWHERE = ("--listen", "tcp://127.0.0.1:0", "--mesh", "tcp://127.0.0.1:0")
DEFAULTS = {"mesh": "default", "peer": []}


def test_the_file_is_below_the_flags_and_above_the_defaults(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text('mesh = "file"\nname = "file"\npeer = ["a", "b"]\n[protocol]\nround_interval_s = 1\nhops = 3\n')
    found, config = settle(file, FLAGS | {"name": "flag"}, DEFAULTS)
    assert {name: found[name] for name in FLAGS} == {"mesh": "file", "name": "flag", "peer": ["a", "b"]}
    assert (config.round_interval_s, config.hops, config.fanout) == (1, 3, 4)
    found, _ = settle(None, FLAGS, DEFAULTS)
    assert {name: found[name] for name in FLAGS} == {"mesh": "default", "name": None, "peer": []}


def test_the_file_says_what_clients_may_ask_for(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text("telemetry_interval_s = 0\n[clients]\nsubscriptions_max = 7\nsilence_s = 3\n")
    found, _ = settle(file, FLAGS | {"telemetry_interval_s": None}, DEFAULTS)
    assert (found["clients"].subscriptions_max, found["clients"].silence_s) == (7, 3)
    assert found["telemetry_interval_s"] == 0
    found, _ = settle(file, FLAGS | {"telemetry_interval_s": 2.5}, DEFAULTS)
    assert found["telemetry_interval_s"] == 2.5


def test_the_file_says_how_groups_are_to_be_treated(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(
        '[protocol]\nagreed_by = ["b1", "b2"]\n[groups.prices]\norder = "total"\n'
        "[groups.news]\npurging = false\nbackpressure = true\nbackpressure_max_s = 5\n"
    )
    _, config = settle(file, FLAGS, DEFAULTS)
    news = Group(purging=False, backpressure=True, backpressure_max_s=5.0)
    assert config.groups == {"prices": Group(order="total"), "news": news}
    assert config.agreed_by == ("b1", "b2")
    assert settle(None, FLAGS, DEFAULTS)[1].groups == {}


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (None, "tcp://127.0.0.1:7480"),
        ("off", None),
        ("0.0.0.0:80", "tcp://0.0.0.0:80"),
        ("http://a:1/", "tcp://a:1"),
        ("tcp://a:1", "tcp://a:1"),
    ],
)
def test_an_http_address_may_be_written_in_any_way(given, address):
    assert http_address(given) == address


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('port = "x"', "there is no setting 'port'"),
        ("mesh = 7", "mesh is a string"),
        ('peer = "a"', "peer is a list"),
        ("replicas = 1.5", "replicas is a whole number"),
        ("replicas = true", "replicas is a whole number"),
        ("mesh = ", "Invalid value"),
        ("[protocol]\nspeed = 1", r"no setting 'speed' in \[protocol\]"),
        ("[clients]\nspeed = 1", r"no setting 'speed' in \[clients\]"),
        ("[clients]\nsessions_max = 0", "sessions_max must be more than 0"),
        ("[clients]\nmessage_bytes_max = 100000000", "message_bytes_max must be at most 16777216"),
        ("[clients]\nunfinished_bytes_max = 20000000", "unfinished_bytes_max must be at least twice message_bytes_max"),
        ("clients = 3", r"\[clients\] is a table"),
        ('[protocol]\nhops = "x"', "hops = 'x'"),
        ("[protocol]\nhops = 0", "hops must be"),
        ("[protocol]\nhops = true", "hops = True"),
        ("[protocol]\nagreed_by = [1]", "agreed_by ="),
        ("groups = 3", r"\[groups\] has a table"),
        ("[groups]\nprices = 3", r"\[groups.prices\] is a table"),
        ("[groups.prices]\norder = 'backwards'", "order is fifo, causal or total"),
        ("[groups.prices]\npurging = 1", "purging = 1"),
        ("[groups.prices]\nspeed = 1", r"no setting 'speed' in \[groups.prices\]"),
        ("[groups.'a/b']\npurging = true", "a name is"),
        ("[groups.'$sys']\npurging = true", r"begin with \$"),
    ],
)
def test_a_bad_file_is_told_in_one_line(text, told, tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=told):
        settle(file, FLAGS | {"replicas": None}, DEFAULTS)


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["broker", "--mesh", "nowhere"], {}, "'nowhere' is not an address"),
        (["broker"], {"GOSSAMER_MESH": "environment"}, "'environment' is not an address"),
        (["broker", "--mesh", "flag"], {"GOSSAMER_MESH": "environment"}, "'flag' is not an address"),
        (["broker", "--config", "/nonexistent.toml"], {}, "cannot read /nonexistent.toml"),
        (["broker", "--faults", "noise"], {}, "faults: 'noise'"),
        (["broker", "--log-format", "loud"], {}, "--log-format is human or json"),
        (["broker", "--log-level", "loud"], {}, "--log-level is debug, info, warning or error"),
        (["broker", "--http", "nowhere", *ANYWHERE], {}, "is not an address"),
        (["broker", "--telemetry-interval-s", "-1"], {}, "0 or more"),
        (["broker", "--telemetry-interval-s", "nan"], {}, "0 or more"),
        (["top", "--interval", "nan"], {}, "more than 0"),
        (["pub", "--delete", "--key", "k", "--body", "x"], {}, "--delete has neither"),
        (["pub", "--delete", "--key", "k", "--rank", "1"], {}, "--delete has neither"),
        (["pub", "deep:=" + "[" * 100_000], {}, "is not JSON"),
        (["broker", "--name", "a/b", "--mesh", "tcp://127.0.0.1:0"], {}, "a name is"),
        (["broker", "--peer", "tcp://x:0", "--mesh", "tcp://127.0.0.1:0"], {}, "needs a host and a port"),
        (["logger", "--store", "mysql://x"], {}, "mysql"),
        (["logger", "--store", "sqlite:////nonexistent/x.db"], {}, "cannot open the store"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, environment, told, monkeypatch, capsys):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "text", "setting", "value"),
    [
        ("retain", "90s", "retain_s", 90.0),
        ("retain", "1.5h", "retain_s", 5_400.0),
        ("expire", "30d", "expire_s", 30 * 86_400.0),
        ("max_bytes", "20GB", "log_bytes_max", 20 * 10**9),
        ("max_bytes", "512KB", "log_bytes_max", 512_000),
    ],
)
def test_retention_is_written_as_people_write_it(flag, text, setting, value):
    _, protocol = settle(None, {flag: text, "peer": []}, {})
    assert getattr(protocol, setting) == value


@pytest.mark.parametrize(
    ("flag", "text", "told"),
    [
        ("retain", "soon", "24h"),
        ("retain", "24", "24h"),
        ("retain", "-1h", "24h"),
        ("expire", "7w", "7d"),
        ("max_bytes", "much", "20GB"),
        ("max_bytes", "0GB", "20GB"),
        ("retain", "8d", "expire_s"),
    ],
)
def test_retention_that_makes_no_sense_is_refused(flag, text, told):
    with pytest.raises(UsageError, match=told):
        settle(None, {flag: text, "peer": []}, {})
