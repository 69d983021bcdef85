"""What a subscriber is handed is an event, however late it is decoded."""

import copy
import pickle

import msgspec
import pytest

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content, Event, Relation
from gossamer.messages.ids import EventId
from gossamer.messages.packet import decode_run, encode_content, pack
from gossamer.messages.received import Received, decode_received

STREAM = "default/~a-1.0"
CONTENTS = [
    Content("IBM", 3, None, 1_000_000_000, False, {"price": 101.5, "tags": ["a"], "none": None}, b"one"),
    Content(time_ns=5, attributes={}, body=b""),
    Content("", None, None, 0, True, {"n": 1}),
]
RANGES = ((4, 5), (9, 9))
BLOB = b"".join(map(encode_content, CONTENTS))


def received() -> list[Event]:
    return decode_received(STREAM, RANGES, BLOB)


def test_it_says_what_the_event_says():
    for one, other in zip(received(), decode_run(STREAM, RANGES, BLOB), strict=True):
        assert isinstance(one, Event)
        for name in (*Event.__struct_fields__, "time"):
            assert getattr(one, name) == getattr(other, name), name
        assert type(one.id) is EventId
        assert one.to_cloudevent() == other.to_cloudevent()


def test_it_equals_the_event_looked_at_or_not():
    events = decode_run(STREAM, RANGES, BLOB)
    assert received() == events
    assert events == received()
    assert not any(one != other for one, other in zip(received(), events, strict=True))
    assert received()[0] != events[1]
    assert received()[0] == received()[0]
    assert received()[0] != "an event"
    looked_at = received()
    assert looked_at[0].attributes is looked_at[0].attributes
    assert looked_at == received()


def test_its_json_is_the_event_s():
    for number, other in enumerate(decode_run(STREAM, RANGES, BLOB)):
        untouched = received()[number]
        assert msgspec.json.encode(untouched.to_cloudevent()) == msgspec.json.encode(other.to_cloudevent())
        assert msgspec.json.encode(untouched) == msgspec.json.encode(other), "its attributes have been read"


def test_it_is_shown_copied_and_pickled_as_the_event():
    for number, other in enumerate(decode_run(STREAM, RANGES, BLOB)):
        assert repr(received()[number]) == repr(other)
        assert list(received()[number].__rich_repr__()) == list(other.__rich_repr__())
        assert copy.copy(received()[number]) == other
        assert copy.deepcopy(received()[number]) == other
        again = pickle.loads(pickle.dumps(received()[number]))
        assert type(again) is Event
        assert again == other
        assert msgspec.msgpack.encode(received()[number]) == msgspec.msgpack.encode(other)
        assert msgspec.structs.replace(received()[number], body=b"new") == msgspec.structs.replace(other, body=b"new")


def test_it_does_not_change():
    event = received()[0]
    for name in Event.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(event, name, None)
    with pytest.raises(TypeError):
        hash(event)


def test_it_is_matched_by_its_fields():
    match received()[0]:
        case Event(key="IBM", attributes={"price": price}):
            assert price == 101.5
        case _:
            pytest.fail("it is not matched")


def test_what_is_malformed_is_told_where_it_is_seen():
    for attributes in (b"\x01", b"\x81\x01\x01", b"\x81\xa1n\x81\xa1a\xc0", b"\x81\xa1n\xcf" + b"\xff" * 8):
        blob = b"\x97\xc0\xc0\xc0\x00\xc2" + attributes + b"\xc4\x00"
        (event,) = decode_received(STREAM, ((7, 7),), blob)
        assert event.body == b""
        with pytest.raises(PeerError, match=f"event {STREAM}:7"):
            _ = event.attributes
    for blob in (BLOB[:-1], BLOB + b"\x00", b"\x91\x01", encode_content(Content(relation=Relation(group=True)))):
        with pytest.raises(PeerError, match="run of"):
            decode_received(STREAM, ((1, 1),) if len(blob) < 50 else RANGES, blob)
    with pytest.raises(PeerError, match="more than"):
        decode_received(STREAM, ((0, 5_000),), BLOB)


def test_an_id_that_came_along_does_not_count():
    forged = msgspec.msgpack.encode(Event(attributes={"n": 1}, id=EventId(STREAM, 99)))
    (event,) = decode_received(STREAM, ((7, 7),), forged)
    assert event.id == EventId(STREAM, 7)
    assert type(event) is Received
    assert event == pack(STREAM, 7, [Content(attributes={"n": 1})]).events()[0]
