"""`[groups.NAME]`, in the file of `--config` and in that of `--groups`: how groups are treated, and groups by interest.

    [groups.prices]
    order = "total"                         # whatever a group has (protocol.config.Group)

    [groups.metals]
    selector = "symbol IN ('AU', 'AG')"     # an interest: what is published in this group
    of = "default"                          # the group that it takes its events from

`gossamer report` proposes the second kind, in a file of its own (groups.toml). Their order counts: an event belongs to
the first group whose selector it matches (docs/decisions/interest-groups.md).
"""

import re
import tomllib
from collections.abc import Container
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
Interests = tuple[Interest, ...]
OURS = ("selector", "of")
LENGTH_MAX = 2**20
"""Of all selectors together: a client is told them in one message."""


def read_groups(path: Path | None, config: Config, before: Interests = ()) -> tuple[Config, Interests]:
    """The protocol's settings with those of the groups in the file, and their interests, after those that there are."""
    if path is None:
        return config, before
    try:
        found = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if set(found) != {"groups"}:
        raise UsageError(f"{path}: a file of groups has tables [groups.NAME], and nothing else")
    groups, interests = parse_groups(path, found["groups"], before, known=config.groups, by_interest=True)
    return replace(config, groups={**config.groups, **groups}), (*before, *interests)


def parse_groups(
    path: Path | None, given: object, before: Interests = (), *, known: Container[str] = (), by_interest: bool = False
) -> tuple[dict[str, Group], Interests]:
    """The groups that are not like the default, and the interests; with `by_interest` every one has to have one."""
    file = _File(path)
    if not isinstance(given, dict):
        raise file.error("[groups] has a table for each group")
    groups: dict[str, Group] = {}
    interests: list[Interest] = []
    for name, table in given.items():
        interest, settings = _group(file, name, table)
        if name in known or any(name == each.name for each in before):
            raise file.error(f"[groups.{name}] is in the file of --config, too", name)
        if interest is not None:
            interests.append(interest)
        elif by_interest:
            raise file.error(f"[groups.{name}] has no selector, which tells what is published in it", name)
        if settings:
            groups[name] = Group(**settings)
    every = [*before, *interests]
    names = {interest.name for interest in every}
    for interest in every:
        if interest.of in names:
            raise file.error(f"{interest.of} is split off itself, and is not split again", interest.name, "of")
    if len(every) > INTERESTS_MAX or sum(len(each.selector) for each in every) > LENGTH_MAX:
        raise file.error(f"at most {INTERESTS_MAX:,} groups with {LENGTH_MAX:,} characters of selectors in all")
    return groups, tuple(interests)


def _group(file: "_File", name: str, table: object) -> tuple[Interest | None, dict[str, Any]]:
    if not isinstance(table, dict):
        raise file.error(f"[groups.{name}] is a table")
    of = table.get("of", DEFAULT_GROUP)
    for each in (name, of):
        try:
            if not isinstance(each, str):
                raise UsageError(f"of is the name of a group, not {each!r}")
            if each.startswith("$"):
                raise UsageError(f"{each}: groups that begin with $ are not for events of clients")
            named_stream(each, "x")
        except UsageError as error:
            raise file.error(str(error), name, "of" if each is of else None) from None
    selector = table.get("selector")
    interest = None
    if selector is not None:
        try:
            interest = Interest(name, of, str(Selector(selector)))
        except (SelectorError, UsageError, TypeError) as error:
            raise file.error(str(error).splitlines()[0], name, "selector") from None
    elif "of" in table:
        raise file.error(f"[groups.{name}] has no selector, and so is of no other", name, "of")
    kinds = {each.name: type(each.default) for each in fields(Group)}
    settings = {setting: value for setting, value in table.items() if setting not in OURS}
    for setting, value in settings.items():
        if setting not in kinds:
            there = ", ".join(sorted([*OURS, *kinds]))
            raise file.error(f"there is no setting {setting!r} in [groups.{name}]; there are {there}", name, setting)
        if type(value) is not kinds[setting] and not (kinds[setting] is float and type(value) is int):
            raise file.error(f"{setting} = {value!r} is not of the kind of its default", name, setting)
    try:
        Group(**settings)
    except UsageError as error:
        raise file.error(str(error), name, next(iter(settings), None)) from None
    return interest, settings


class _File:
    """Knows on which line something is, which TOML's parser does not tell of what it has read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines = [] if path is None else path.read_text().splitlines()

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
