"""CloudEvents in and out: nothing is lost on the way, whoever began."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.cloudevents import to_cloudevent
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Event, Value
from gossamer.messages.ids import EventId
from gossamer.sdk.cloudevents import is_cloudevent, read
from strategies import texts, values

ID = EventId("default/~b1-1731.0", 7)
QUOTE = {"specversion": "1.0", "id": "A-1", "source": "/exchange", "type": "com.example.quote"}


class Object:
    """As the `cloudevents` package has them, both generations."""

    def __init__(self, attributes: dict, data: object) -> None:
        self._attributes, self._data = attributes, data

    def get_attributes(self) -> dict:
        return self._attributes

    def get_data(self) -> object:
        return self._data


def delivered(cloudevent: object) -> Event:
    said, body, key = read(cloudevent)
    return Event(key, attributes=said, body=body, id=ID)


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ({}, b""),
        ({"datacontenttype": "application/json", "data": {"price": 101.5}}, b'{"price":101.5}'),
        ({"datacontenttype": "application/json", "data": "text"}, b'"text"'),
        ({"datacontenttype": "application/cloudevents+json; charset=utf-8", "data": [1, None]}, b"[1,null]"),
        ({"datacontenttype": "text/xml", "data": "<é/>"}, "<é/>".encode()),
        ({"datacontenttype": "image/png", "data_base64": "AAEC"}, b"\0\1\2"),
        ({"data_base64": "AAEC"}, b"\0\1\2"),
        ({"subject": "IBM", "time": "2026-01-02T03:04:05Z", "partitionkey": "IBM", "retries": 3, "replay": False}, b""),
        ({"dataschema": "https://example.com/quote"}, b""),
    ],
)
def test_a_cloudevent_comes_back_as_it_was(more: dict, body: bytes) -> None:
    cloudevent = {**QUOTE, **more}
    event = delivered(cloudevent)
    assert (event.body, event.key) == (body, more.get("partitionkey"))
    assert event.attributes["type"] == "com.example.quote"
    back = to_cloudevent(event)
    assert {name: value for name, value in back.items() if name != "time"} == {
        name: value for name, value in cloudevent.items() if name != "time"
    }
    assert back["time"] == more.get("time", "1970-01-01T00:00:00Z")


def test_data_without_a_type_is_json() -> None:
    event = delivered({**QUOTE, "data": {"a": 1}})
    assert event.attributes["datacontenttype"] == "application/json"
    assert to_cloudevent(event)["data"] == {"a": 1}


@pytest.mark.parametrize(
    ("data", "media_type", "body"),
    [({"a": 1}, None, b'{"a":1}'), (b"\0", None, b"\0"), ("<a/>", "text/xml", b"<a/>"), (None, None, b"")],
)
def test_objects_are_asked_for_their_attributes_and_data(data: object, media_type: str | None, body: bytes) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    context = {**QUOTE, "time": at, "partitionkey": "k", "subject": None}
    if media_type is not None:
        context["datacontenttype"] = media_type
    assert is_cloudevent(Object(context, data))
    said, found, key = read(Object(context, data))
    assert (said["time"], found, key) == ("2026-01-02T03:04:05Z", body, "k")
    assert "subject" not in said


def test_an_event_becomes_one_with_its_own_id_and_source() -> None:
    event = Event(
        "IBM", attributes={"type": "quote", "price": 101.5, "id": "mine", "venues": ["a"]}, body=b"\xff", id=ID
    )
    found = to_cloudevent(event)
    assert (found["id"], found["source"], found["type"]) == ("7", "/default/~b1-1731.0", "quote")
    assert (found["partitionkey"], found["data_base64"]) == ("IBM", "/w==")
    assert json.loads(found["gossamerattributes"]) == {"price": 101.5, "id": "mine", "venues": ["a"]}
    tombstone = to_cloudevent(Event("IBM", deleted=True, id=ID))
    assert (tombstone["gossamerdeleted"], tombstone["type"]) == (True, "gossamer.event")


NAMES = "specversion id source type subject time data data_base64 partitionkey gossamerattributes a b_c D é".split()  # noqa: SIM905


@given(st.dictionaries(st.sampled_from(NAMES) | texts(1), values(Value)), st.none() | texts(), st.binary())
def test_whatever_an_event_says_survives_the_journey(said: dict, key: str | None, body: bytes) -> None:
    event = Event(key, attributes=said, body=body, id=ID)
    text = json.dumps(to_cloudevent(event))
    assert is_cloudevent(json.loads(text))
    back = delivered(json.loads(text))
    added = {"specversion", "id", "source", "type", "time", "partitionkey"} - said.keys()
    assert {name: value for name, value in back.attributes.items() if name not in added} == said
    assert (back.key, back.body) == (key, body)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"data_base64": "***"}, "base64"),
        ({"data": float("nan")}, "JSON"),
        ({"gossamerattributes": "["}, "JSON object"),
        ({"gossamerattributes": "[]"}, "JSON object"),
        ({"type": ""}, "needs type"),
        ({"nested": {"a": 1}}, "'nested'"),
    ],
)
def test_what_is_wrong_is_the_callers_error(wrong: dict, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read({**QUOTE, **wrong})


def test_what_has_no_id_yet_is_none() -> None:
    with pytest.raises(UsageError, match="delivered"):
        to_cloudevent(Event())
    assert not is_cloudevent({"type": "quote"})
    assert not is_cloudevent({"specversion": "1.0"})
