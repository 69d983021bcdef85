"""CloudEvents: their attributes as event attributes, and their filters as selectors.

Every context attribute of CloudEvents 1.0 keeps its name. Of its types, Boolean, Integer and String are ours as they
are; a Timestamp becomes its RFC 3339 text, Binary its base64 text, a URI its text. The data is a body, not attributes.
"""

import base64
import datetime
from collections.abc import Mapping
from typing import cast

from gossamer.matching import tree
from gossamer.matching.errors import SelectorError
from gossamer.matching.parser import DEPTH_MAX
from gossamer.matching.selector import Selector
from gossamer.matching.text import text_of
from gossamer.matching.values import Attributes, Value, check_attributes
from gossamer.messages.errors import UsageError

REQUIRED = ("id", "source", "specversion", "type")
DATA = ("data", "data_base64")


def attributes_of(event: Mapping[str, object]) -> Attributes:
    """The attributes of a CloudEvent given as a mapping (its JSON form, or what an SDK's event converts to)."""
    missing = [name for name in REQUIRED if not event.get(name)]
    if missing:
        raise UsageError(f"a CloudEvent needs {', '.join(missing)}")
    return check_attributes({name: _value(value) for name, value in event.items() if name not in DATA})


def selector_of(filters: Mapping[str, object] | list[Mapping[str, object]]) -> Selector:
    """A selector from CloudEvents Subscriptions filters: `exact`, `prefix`, `suffix`, `all`, `any`, `not`.

    A list is what a subscription holds: all of its filters must be true. A filter never is unknown: an attribute
    that is missing makes it false.
    """
    listed = filters if isinstance(filters, list) else [filters]
    return Selector(text_of(tree.both(_filter(one, 0) for one in listed)))  # the parser's caps hold here too


def _value(value: object) -> Value:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return cast(Value, value)  # checked once all are converted


def _filter(dialects: object, depth: int) -> tree.Condition:
    if not isinstance(dialects, Mapping) or not dialects:
        raise SelectorError("a CloudEvents filter is an object with a dialect such as exact, prefix or all")
    if depth > DEPTH_MAX:
        raise SelectorError(f"the filter is nested deeper than {DEPTH_MAX}")
    return tree.both(_dialect(name, operand, depth + 1) for name, operand in dialects.items())


def _dialect(name: str, operand: object, depth: int) -> tree.Condition:
    if name in ("all", "any"):
        if not isinstance(operand, list) or not operand:
            raise SelectorError(f"{name!r} takes a list of filters")
        parts = [_filter(part, depth) for part in operand]
        return tree.both(parts) if name == "all" else tree.either(parts)
    if name == "not":
        return tree.negate(_filter(operand, depth))
    if name not in ("exact", "prefix", "suffix"):
        raise SelectorError(f"unknown CloudEvents filter dialect {name!r}")
    if not isinstance(operand, Mapping) or not operand:
        raise SelectorError(f"{name!r} takes an object of attribute names and texts")
    return tree.both(_text_test(name, attribute, text) for attribute, text in operand.items())


def _text_test(dialect: str, name: str, text: object) -> tree.Condition:
    if not isinstance(text, str) or not text:
        raise SelectorError(f"{dialect!r} for {name!r} is a text that is not empty")
    # Present and so: `not` then makes a missing attribute true, as CloudEvents has it, instead of unknown.
    if dialect == "exact":
        test = tree.compare("=", tree.Attribute(name), tree.Literal(text))
    elif dialect == "prefix":
        test = tree.Prefix(name, text)
    else:
        test = tree.ends_with(name, text)
    return tree.both([tree.has(name), test])
