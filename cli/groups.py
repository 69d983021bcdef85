"""`--groups FILE`: the groups that interests are mapped to, as `gossamer report` proposes them (groups.toml).

    [groups.metals]
    selector = "symbol IN ('AU', 'AG')"     # the interest: what is published in this group
    of = "default"                          # the group that it takes its events from
    purging = true                          # and whatever else a group has (protocol.config.Group)

Their order counts: an event belongs to the first group whose selector it matches (docs/decisions/interest-groups.md).
"""

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.matching import SelectorError
from gossamer.matching.selector import Selector
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import DEFAULT_GROUP, named_stream
from gossamer.messages.session import INTERESTS_MAX, Interest
from gossamer.protocol.config import Config, Group

GroupsFile = Annotated[
    Path | None,
    typer.Option("--groups", envvar="GOSSAMER_GROUPS", help="Groups by interest: groups.toml of gossamer report."),
]
OURS = ("selector", "of")
LENGTH_MAX = 2**20
"""Of all selectors together: a client is told them in one message."""


def read_groups(path: Path | None, config: Config) -> tuple[Config, tuple[Interest, ...]]:
    """The protocol's settings with those of the groups in the file, and their interests, in their order."""
    if path is None:
        return config, ()
    try:
        text = path.read_text()
        found = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    file = _File(path, text)
    if set(found) != {"groups"} or not isinstance(found["groups"], dict):
        raise file.error("a file of groups has tables [groups.NAME], and nothing else")
    groups = dict(config.groups)
    interests = []
    for name, table in found["groups"].items():
        interest, settings = _group(file, name, table)
        interests.append(interest)
        if settings:
            if name in groups:
                raise file.error(f"[groups.{name}] is in the file of --config, too", name)
            groups[name] = Group(**settings)
    names = {interest.name for interest in interests}
    for interest in interests:
        if interest.of in names:
            raise file.error(f"{interest.of} is split off itself, and is not split again", interest.name, "of")
    if len(interests) > INTERESTS_MAX or sum(len(each.selector) for each in interests) > LENGTH_MAX:
        raise file.error(f"at most {INTERESTS_MAX:,} groups with {LENGTH_MAX:,} characters of selectors in all")
    return replace(config, groups=groups), tuple(interests)


def _group(file: "_File", name: str, table: object) -> tuple[Interest, dict[str, Any]]:
    if not isinstance(table, dict):
        raise file.error(f"[groups.{name}] is a table")
    of = table.get("of", DEFAULT_GROUP)
    for each in (name, of):
        try:
            if not isinstance(each, str) or each.startswith("$"):
                raise UsageError(f"{each!r} is no name of a group for events of clients")
            named_stream(each, "x")
        except UsageError as error:
            raise file.error(str(error), name, "of" if each is of else None) from None
    selector = table.get("selector")
    if not isinstance(selector, str):
        raise file.error(f"[groups.{name}] has no selector, which tells what is published in it", name)
    try:
        canonical = str(Selector(selector))
    except SelectorError as error:
        raise file.error(str(error).splitlines()[0], name, "selector") from None
    kinds = {each.name: type(each.default) for each in fields(Group)}
    settings = {setting: value for setting, value in table.items() if setting not in OURS}
    for setting, value in settings.items():
        if setting not in kinds:
            there = ", ".join(sorted([*OURS, *kinds]))
            raise file.error(f"there is no setting {setting!r} in [groups.{name}]; there are {there}", name, setting)
        if type(value) is not kinds[setting]:
            raise file.error(f"{setting} = {value!r} is not of the kind of its default", name, setting)
    try:
        Group(**settings)
    except UsageError as error:
        raise file.error(str(error), name, next(iter(settings), None)) from None
    return Interest(name, of, canonical), settings


class _File:
    """Knows on which line something is, which TOML's parser does not tell of what it has read."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def error(self, what: str, group: str | None = None, setting: str | None = None) -> UsageError:
        line = self._line(group, setting)
        return UsageError(f"{self._path}{'' if line is None else f', line {line}'}: {what}")

    def _line(self, group: str | None, setting: str | None) -> int | None:
        if group is None:
            return None
        at = None
        for number, line in enumerate(self._lines, 1):
            if at is None:
                if re.match(r"\s*\[\s*groups\s*\.", line) and group in line:
                    at = number
            elif re.match(r"\s*\[", line):
                break
            elif setting is not None and re.match(rf"\s*[\"']?{re.escape(setting)}[\"']?\s*=", line):
                return number
        return at
