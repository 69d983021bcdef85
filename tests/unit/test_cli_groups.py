"""`--groups FILE`: the groups of interests, and one clear line for whatever is wrong with them."""

from pathlib import Path

import pytest

from gossamer.analytics.jobs.interests import groups_toml
from gossamer.cli.groups import read_groups
from gossamer.cli.options import settle
from gossamer.messages.errors import UsageError
from gossamer.messages.session import Interest
from gossamer.protocol.config import Config, Group


def read(tmp_path: Path, text: str, config: Config | None = None):
    path = tmp_path / "groups.toml"
    path.write_text(text)
    return read_groups(path, config or Config())


def test_interests_are_in_their_order_and_settings_are_the_groups(tmp_path):
    text = """
[groups.metals]
selector = "symbol in ('AU','AG')"
backpressure = true

[groups."big ones"]
of = "trades"
selector = "size > 100"
"""
    config, interests = read(tmp_path, text, Config(hops=3))
    assert interests == (
        Interest("metals", "default", "symbol IN ('AG', 'AU')"), Interest("big ones", "trades", "size > 100"),
    )  # fmt: skip
    assert (config.hops, config.groups) == (3, {"metals": Group(backpressure=True)})
    assert read_groups(None, config) == (config, ())


def test_what_the_report_writes_is_what_brokers_load(tmp_path):
    rows = [
        {"name": "default-1", "of": "default", "selector": "name = 'O''Hara \"é\"' AND path = '\\n\\'"},
        {"name": "default-2", "of": "default", "selector": ""},
    ]
    _, interests = read(tmp_path, groups_toml(rows))
    assert [(each.name, each.of) for each in interests] == [("default-1", "default"), ("default-2", "default")]
    assert interests[0].selector == "name = 'O''Hara \"é\"' AND path = '\\n\\'"
    assert interests[1].selector == "TRUE"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = ", "groups.toml: Invalid value"),
        ("hops = 3", "has tables"),
        ("groups = 3", r"\[groups\] has a table"),
        ("[groups.a]\nselector = 5", "line 2: "),
        ("[groups]\na = 3", r"\[groups.a\] is a table"),
        ("[groups.a]\npurging = true", r"line 1: \[groups.a\] has no selector"),
        ("[groups.a]\n\nselector = 'price >'", "line 3: .*ends here"),
        ("[groups.a]\nselector = 'x = 1'\n[groups.b]\nselector = ''\nspeed = 3", "line 5: there is no setting 'speed'"),
        ("[groups.a]\nselector = 'x = 1'\npurging = 1", "line 3: purging = 1"),
        ("[groups.a]\nselector = ''\nbackpressure_max_s = true", "line 3: backpressure_max_s = True"),
        ("[groups.a]\nselector = ''\nbackpressure_max_s = 0", "backpressure_max_s must be more than 0"),
        ("[groups.'$sys']\nselector = 'x = 1'", r"line 1: .*begin with \$"),
        ("[groups.'a/b']\nselector = 'x = 1'", "line 1: .*a name is"),
        ("[groups.a]\nselector = 'x = 1'\nof = 'b/c'", "line 3: .*a name is"),
        ("[groups.a]\nselector = 'x = 1'\n[groups.b]\nselector = 'x = 2'\nof = 'a'", "line 5: a is split off itself"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(text, told, tmp_path):
    with pytest.raises(UsageError, match=told) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_group_is_set_in_one_file_only(tmp_path):
    with pytest.raises(UsageError, match=r"line 1: \[groups.a\] is in the file of --config, too"):
        read(tmp_path, "[groups.a]\nselector = 'x = 1'\npurging = false", Config(groups={"a": Group()}))
    with pytest.raises(UsageError, match="cannot read"):
        read_groups(tmp_path / "none.toml", Config())


def test_the_file_of_config_may_have_groups_by_interest_too(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("[groups.prices]\npurging = false\n[groups.metals]\nselector = \"symbol = 'AU'\"\n")
    found, config = settle(file, {"mesh": None, "peer": []}, {"mesh": "x"})
    assert config.groups == {"prices": Group(purging=False)}
    assert found["interests"] == (Interest("metals", "default", "symbol = 'AU'"),)
    (tmp_path / "groups.toml").write_text("[groups.big]\nselector = 'size > 3'\n")
    _, both = read_groups(tmp_path / "groups.toml", config, found["interests"])
    assert [each.name for each in both] == ["metals", "big"]
    (tmp_path / "groups.toml").write_text("[groups.metals]\nselector = 'size > 3'\n")
    with pytest.raises(UsageError, match=r"line 1: .*in the file of --config, too"):
        read_groups(tmp_path / "groups.toml", config, found["interests"])
    file.write_text("[groups.a]\nof = 'b'\n")
    with pytest.raises(UsageError, match=r"line 2: .*has no selector"):
        settle(file, {"mesh": None, "peer": []}, {"mesh": "x"})
