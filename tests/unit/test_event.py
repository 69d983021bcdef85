"""What may be published: exactly what receivers accept."""

import enum
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import (
    ATTRIBUTES_MAX,
    BODY_BYTES_MAX,
    IDS_MAX,
    INT_MAX,
    INT_MIN,
    KEY_LENGTH_MAX,
    NAME_LENGTH_MAX,
    PLAIN_BYTES_MAX,
    REACH_MAX,
    Commit,
    Content,
    Relation,
    check_content,
)
from gossamer.messages.ids import SEQ_MAX, STREAM_LENGTH_MAX, EventId
from gossamer.messages.packet import encode_content, pack
from strategies import contents


class Level(enum.IntEnum):
    HIGH = 3


class Price(float):
    """As NumPy's float is: a subclass that the codec itself does not know."""


class Count(int): ...


class Word(str): ...


class Raw(bytes): ...


A1 = EventId("default/a", 1)
BAD: dict[str, list[Any]] = {
    "key": [7, b"k", "a\0", "\ud800", "k" * (KEY_LENGTH_MAX + 1)],
    "rank": [True, math.nan, math.inf, -math.inf, INT_MAX + 1, INT_MIN - 1, "1", []],
    "relation": [7, (A1,)],
    "deleted": [None, 1, "yes"],
    "time": [-1, INT_MAX + 1, 1.5, None, True],
    "body": ["text", bytearray(b"x"), memoryview(b"x"), None, b"x" * (BODY_BYTES_MAX + 1)],
    "attributes": [None, [], [("a", 1)], dict.fromkeys(map(str, range(ATTRIBUTES_MAX + 1)))],
}
BAD_NAMES: list[Any] = ["", "\0", "a\0b", "\udc00", "n" * (NAME_LENGTH_MAX + 1), 7, None, b"n"]
BAD_VALUES: list[Any] = [math.nan, math.inf, INT_MAX + 1, INT_MIN - 1, "a\0", "\ud800", b"bytes", ("a",), {"a": 1}]
BAD_VALUES += [[1], ["a\0"], ["\udfff"], [["a"]], [None], datetime(2024, 1, 1, tzinfo=UTC), object()]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_a_bad_field_is_one_clear_line(field: str, value: Any) -> None:
    content = Content(**{"time_ns" if field == "time" else field: value})
    with pytest.raises(UsageError, match=field) as refused:
        check_content(content)
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


BAD_IDS: list[Any] = [(A1,) * (IDS_MAX + 1), ("default/a:1",), (A1, None), (["default/a", 1],)]
BAD_IDS += [(EventId(stream, 1),) for stream in ["ab", "a/\0", "a" * (STREAM_LENGTH_MAX + 1)]]
BAD_IDS += [(EventId("default/a", seq),) for seq in [-1, SEQ_MAX + 1, True, 1.0, None]]  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", BAD_IDS)
def test_what_cannot_be_an_id_is_not_obsoleted(ids: Any) -> None:
    with pytest.raises(UsageError, match="obsoletes: "):
        check_content(Content(relation=Relation(ids=ids)))


@pytest.mark.parametrize(
    ("relation", "complaint"),
    [
        (Relation(near=bytes(REACH_MAX // 8 + 1)), "at most its 256"),
        (Relation(group=True, ids=(A1,)), "scope"),
        (Relation(group=True, near=b"\x01"), "scope"),
        (Relation(group=True, part=(0, 1)), "scope"),
        (Relation(commit=Commit(1, ("\0",))), "key: "),
    ],
)
def test_a_relation_that_no_receiver_could_use_is_refused(relation: Relation, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_content(Content(key="k", relation=relation))


def test_too_many_attributes_take_more_bytes_than_a_plain_event_has():
    attributes = {chr(ord("!") + number): None for number in range(ATTRIBUTES_MAX + 1)}
    assert len(encode_content((None, None, None, 0, False, attributes, b""))) > PLAIN_BYTES_MAX


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_attribute_name_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="attribute name"):
        check_content(Content(attributes={"good": 1, name: 1}))


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_bad_attribute_value_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="attribute 'price'"):
        check_content(Content(attributes={"good": 1, "price": value}))


@pytest.mark.parametrize("value", [Price(1.5), Count(7), Word("w"), Level.HIGH, [Word("w")]])
def test_a_subclass_of_a_value_is_sent_as_what_it_is(value: Any) -> None:
    content = check_content(Content(attributes={"a": value}))
    (event,) = pack("default/a", 0, [content]).events()
    assert event.attributes == {"a": value}
    assert type(event.attributes["a"]) in (float, int, str, list)


def test_a_key_a_rank_and_a_body_may_be_subclasses() -> None:
    (event,) = pack("default/a", 0, [check_content(Content(key=Word("k"), rank=Price(2), body=Raw(b"b")))]).events()
    assert (event.key, event.rank, event.body) == ("k", 2.0, b"b")


def test_what_was_not_checked_and_cannot_be_encoded_is_the_callers_fault() -> None:
    with pytest.raises(UsageError, match="cannot be encoded"):
        pack("default/a", 0, [Content(attributes={"a": object()})])  # type: ignore[dict-item]


def test_time_is_the_publishers_clock_in_utc() -> None:
    assert Content(time_ns=1_500_000_000).time == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert Content(time_ns=INT_MAX).time.year == 2262


@given(contents())
def test_what_types_allow_is_accepted(content: Content) -> None:
    assert check_content(content) is content


wild = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=3)
    | st.binary(max_size=3)
    | st.sampled_from([*BAD_VALUES, Price(1), Count(2), Word("w"), Level.HIGH, A1, (A1,), [A1]])
)
wilder = wild | st.lists(wild, max_size=2) | st.dictionaries(st.text(max_size=2), wild, max_size=2)


@settings(max_examples=500)
@given(contents(), st.sampled_from(Content.__struct_fields__), wilder)
def test_what_is_accepted_no_receiver_refuses(content: Content, field: str, value: Any) -> None:
    # Otherwise one bad publish would make a packet that everybody drops and asks for again, for ever.
    content = replace(content, **{field: value})
    try:
        check_content(content)
    except UsageError:
        return
    packet = pack("default/a", 0, [content])
    packet.verify()
    assert len(packet.events()) == 1


@settings(max_examples=300)
@given(contents(), st.sampled_from(Content.__struct_fields__), wilder)
def test_what_receivers_and_loggers_accept_may_be_published(content: Content, field: str, value: Any) -> None:
    content = replace(content, **{field: value})
    try:
        packet = pack("default/a", 0, [content])
        packet.verify()
    except (UsageError, PeerError, UnicodeEncodeError, TypeError, OverflowError):
        return
    assert check_content(packet.events()[0])
