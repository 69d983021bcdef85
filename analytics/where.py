"""Option `where` of the source: the rows whose attributes match a selector.

The worker that reads a row tests it with the code that brokers run (gossamer.matching), so a selector gives the answers
that it gives a subscription. A cheap test comes first, in the database or in Arrow: the JSON of a matching event holds
at least one of a few texts, its `needles`. It lets through some rows that do not match, and never stops one that does.

Workers import this module, and msgspec with it, only for a `load()` that has the option.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from gossamer.matching import Selector, SelectorError
from gossamer.matching.normal import alternatives
from gossamer.matching.predicates import AMONG, EQUAL, PREFIX, TAG, TEST, Term, Terms
from gossamer.matching.values import INT_MAX, INT_MIN
from gossamer.messages.errors import UsageError

NEEDLES_MAX = 32
SHOWN_MAX = 40
"""Characters of a wrong selector that an error shows on either side of the place."""
_PLAIN = re.compile(r"[A-Za-z0-9_ .:,;-]+")  # written as they are by every writer of JSON
_LONG = re.compile(r"[0-9]{19}")
_json = msgspec.json.Decoder()


@dataclass(frozen=True)
class Where:
    """A selector, ready to be sent to workers."""

    text: str
    needles: tuple[str, ...]
    """The attributes of every matching event, as JSON, contain one of these. None given: nothing is known."""

    def keeps(self, rows: Sequence[Any]) -> list[bool]:
        """Tell which rows match, by their attributes as JSON. A row that cannot be read matches nothing."""
        read = [_attributes(text) for text in rows]
        matched = iter(_selector(self.text).matches_each([each for each in read if each is not None]))
        return [each is not None and next(matched) for each in read]


def where_of(text: str) -> Where | None:
    """The filter of a selector's text, None for the empty one; `UsageError` tells in one line where it is wrong."""
    try:
        selector = _selector(text)
    except SelectorError as error:
        at = error.position
        shown = " ".join(text[max(0, at - SHOWN_MAX) : at + SHOWN_MAX].split())
        raise UsageError(f"where: {error.message} (character {at + 1}, in: {shown})") from None
    return Where(text, _needles(alternatives(selector.tree))) if text.strip() else None


@lru_cache(maxsize=16)
def _selector(text: str) -> Selector:
    return Selector(text)


def _attributes(text: Any) -> dict[str, Any] | None:
    try:
        read = _json.decode(text)
        has_long = _LONG.search(text if isinstance(text, str) else text.decode())
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(read, dict):
        return None
    # PostgreSQL writes 1e300 as an integer of 301 digits. An attribute's integers have 64 bits, so it was a float.
    return {name: _number(value) for name, value in read.items()} if has_long else read


def _number(value: Any) -> Any:
    return float(value) if value.__class__ is int and not INT_MIN <= value <= INT_MAX else value


# Needles --------------------------------------------------------------------------------------------------------------


def _needles(conjunctions: list[Terms]) -> tuple[str, ...]:
    """One choice of needles for each conjunction; none if some conjunction has none, or if they are too many."""
    found: set[str] = set()
    for terms in conjunctions:
        # Values are rarer than names; and of several values the shortest decides how many rows they let through.
        choices = [each for each in map(_values, terms) if each] or [[each] for each in map(_name, terms) if each]
        if not choices:
            return ()
        found.update(max(choices, key=lambda needles: min(map(len, needles))))
    return tuple(sorted(found)) if len(found) <= NEEDLES_MAX else ()


def _values(term: Term) -> list[str]:
    """Parts of the strings of which a true term has one among the event's values; none if one of them has no such."""
    found: list[str] = []
    if term[0] in (EQUAL, TAG) and isinstance(term[2], str):
        found = [_quoted(term[2])]
    elif term[0] == AMONG and all(isinstance(key, str) for key in term[2]):
        found = [_quoted(key) for key in term[2]]
    elif term[0] == PREFIX:
        found = [_run(term[2])]
    return found if all(found) else []


def _name(term: Term) -> str:
    """The name of the attribute without which a term is not true."""
    return "" if term[0] == TEST else _quoted(term[1])


def _quoted(text: str) -> str:
    return f'"{text}"' if _PLAIN.fullmatch(text) else _run(text)


def _run(text: str) -> str:
    """The longest part of a text that JSON does not escape."""
    return max(_PLAIN.findall(text), key=len, default="")
