"""Hypothesis strategies for the vocabulary, derived from the types that the codec itself is given.

`values(annotation)` draws what a type allows and `fits(annotation, value)` tells whether a value is such a one, so a
message class that is added to `messages/wire.py` is drawn, encoded and fuzzed without a line here.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from gossamer.messages import wire
from gossamer.messages.event import INT_MAX, NAME_LENGTH_MAX, Content, Relation
from gossamer.messages.ids import SEQ_MAX, EventId
from gossamer.messages.packet import Packet, pack

INT_BOUND = 2**63  # of what msgpack carries, for types without a bound of their own
SIZE_MAX = 4  # of lists and strings: the interesting sizes are none, one and some


def texts(low: int = 0, high: int | None = None) -> st.SearchStrategy[str]:
    """Strings that may be sent: neither a NUL nor a lone surrogate."""
    alphabet = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
    return st.text(alphabet, min_size=low, max_size=max(low, min(high or SIZE_MAX, 2 * SIZE_MAX)))


def numbers(low: int, high: int) -> st.SearchStrategy[int]:
    """Integers, the bounds among them: where the encodings change their length matters as much as small ones."""
    edges = [edge for edge in (low, high, 127, 128, 2**16, 2**32, 2**62) if low <= edge <= high]
    return st.integers(low, min(high, low + 50)) | st.sampled_from(edges) | st.integers(low, high)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """Ascending ranges that neither touch nor overlap."""
    found = []
    at = draw(numbers(0, SEQ_MAX))
    for gap, length in draw(st.lists(st.tuples(st.integers(2, 9), st.integers(0, 9)), max_size=SIZE_MAX)):
        first = at + gap
        at = first + length
        if at <= SEQ_MAX:
            found.append((first, at))
    return tuple(found)


@st.composite
def stretches(draw: st.DrawFn, fields: dict[str, st.SearchStrategy[Any]]) -> wire.Stretch:
    """Matching ranges within what is covered."""
    drawn = {name: draw(strategy) for name, strategy in fields.items() if name not in ("first", "last", "ranges")}
    first = draw(numbers(0, SEQ_MAX - 100))
    matching = draw(st.sampled_from([(), ((first, first),), ((first + 1, first + 2), (first + 9, first + 20))]))
    return wire.Stretch(first=first, last=first + 20 + draw(st.integers(0, 50)), ranges=matching, **drawn)


@cache
def values(annotation: Any) -> st.SearchStrategy[Any]:
    """What a type of the vocabulary allows; small, and with the bounds among the numbers."""
    if annotation is Packet:
        return packets()
    if annotation == wire.Ranges:
        return ranges()
    return _values(inspect.type_info(annotation))


def _values(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            low = -INT_BOUND if info.ge is None else info.ge
            return numbers(low, INT_BOUND - 1 if info.le is None else info.le)
        case inspect.FloatType():
            return st.floats(info.ge, info.le)
        case inspect.LiteralType():
            return st.sampled_from(info.values)
        case inspect.StrType(pattern=str() as pattern):
            return st.sampled_from(re.findall(r"\w+", re.sub(r"\\.", "", pattern)))
        case inspect.StrType():
            return texts(info.min_length or 0, info.max_length)
        case inspect.BytesType():
            return st.binary(min_size=info.min_length or 0, max_size=(info.min_length or 0) + 4 * SIZE_MAX)
        case inspect.UnionType():
            return st.one_of([_values(kind) for kind in info.types])
        case inspect.TupleType():
            return st.tuples(*map(_values, info.item_types))
        case inspect.VarTupleType():
            return st.lists(_values(info.item_type), max_size=SIZE_MAX).map(tuple)
        case inspect.ListType():
            return st.lists(_values(info.item_type), max_size=SIZE_MAX)
        case inspect.DictType():
            return st.dictionaries(_values(info.key_type), _values(info.value_type), max_size=SIZE_MAX)
        case inspect.NamedTupleType():
            return st.builds(info.cls, *(_values(field.type) for field in info.fields))
        case inspect.StructType():
            if info.cls is Packet:
                return packets()
            fields = {field.name: _values(field.type) for field in info.fields}
            if issubclass(info.cls, wire.Span | wire.Retired):
                fields["ranges"] = ranges()
            if info.cls is wire.Stretch:
                return stretches(fields)
            if info.cls is Relation:  # one order a group and key, or named events and transactions: not both (P4)
                return st.just(Relation(group=True)) | st.builds(Relation, **fields | {"group": st.just(False)})
            return st.builds(info.cls, **fields)
    raise AssertionError(f"no strategy for {info}")


def fits(annotation: Any, value: object) -> bool:
    """Whether a value is within everything its type says, found without the codec's help."""
    return _fits(inspect.type_info(annotation), value)


def _fits(info: inspect.Type, value: Any) -> bool:
    match info:
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return type(value) is bool
        case inspect.IntType() | inspect.FloatType():
            kind = int if isinstance(info, inspect.IntType) else float
            low, high = info.ge, info.le
            return type(value) is kind and (low is None or value >= low) and (high is None or value <= high)
        case inspect.StrType():
            return type(value) is str and _long_enough(info, value) and _matches(info.pattern, value)
        case inspect.BytesType():
            return type(value) is bytes and _long_enough(info, value)
        case inspect.UnionType():
            return any(_fits(kind, value) for kind in info.types)
        case inspect.TupleType():
            if type(value) is not tuple or len(value) != len(info.item_types):
                return False
            return all(_fits(kind, item) for kind, item in zip(info.item_types, value, strict=True))
        case inspect.VarTupleType() | inspect.ListType():
            kind = list if isinstance(info, inspect.ListType) else tuple
            return type(value) is kind and _long_enough(info, value) and all(_fits(info.item_type, i) for i in value)
        case inspect.DictType():
            items = value.items()
            return _long_enough(info, value) and all(
                _fits(info.key_type, key) and _fits(info.value_type, item) for key, item in items
            )
        case inspect.NamedTupleType() | inspect.StructType():
            parts = ((field.type, getattr(value, field.name, None)) for field in info.fields)
            if isinstance(value, wire.Span | wire.Retired) and not _ascend(value.ranges):
                return False
            return type(value) is info.cls and all(_fits(kind, item) for kind, item in parts)
    raise AssertionError(f"no check for {info}")


def _long_enough(info: Any, value: Sequence[object]) -> bool:
    return (info.min_length or 0) <= len(value) and (info.max_length is None or len(value) <= info.max_length)


def _ascend(found: wire.Ranges) -> bool:
    return all(first <= last for first, last in found) and all(a[1] + 1 < b[0] for a, b in pairwise(found))


def _matches(pattern: str | None, value: str) -> bool:
    # The whole string, whatever the pattern's anchors let through (a `$` also matches before a newline).
    return pattern is None or re.fullmatch(re.sub(r"^\^|\$$|\\Z$", "", pattern), value) is not None


def contents() -> st.SearchStrategy[Content]:
    """Events as a publisher may say them."""
    return values(Content).map(_named)


def _named(content: Content) -> Content:
    """With names that attributes may have, which their type does not say."""
    attributes = {(name or "n")[:NAME_LENGTH_MAX]: value for name, value in content.attributes.items()}
    return msgspec.structs.replace(content, attributes=attributes)


def streams() -> st.SearchStrategy[str]:
    return st.sampled_from(["default/a", "default/~b1-1731.42", "$sys/b1", "a/ü"])


@st.composite
def packets(draw: st.DrawFn, count_max: int = 5) -> Packet:
    """A packet of one to some events, some of them purged."""
    packet = pack(
        draw(streams()),
        draw(numbers(0, SEQ_MAX - count_max)),
        draw(st.lists(contents(), min_size=1, max_size=count_max)),
    )
    purged = draw(st.sets(st.integers(packet.first, packet.last), max_size=draw(st.sampled_from([0, packet.count]))))
    before = st.integers(0, packet.first - 1) if packet.first else st.nothing()
    after = st.integers(packet.last + 1, INT_MAX) if packet.last < INT_MAX else st.nothing()
    reason = st.builds(EventId, st.just(packet.stream), before | after) | st.builds(EventId, streams(), after)
    reason = reason.filter(lambda by: by.stream != packet.stream or not packet.first <= by.seq <= packet.last)
    return packet.thin([(seq, draw(reason)) for seq in sorted(purged)], draw(st.booleans()))


MESSAGES: tuple[type[msgspec.Struct], ...] = wire.Message.__args__


def messages() -> st.SearchStrategy[wire.Message]:
    return st.sampled_from(MESSAGES).flatmap(values)
