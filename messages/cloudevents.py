"""An event as a CloudEvent 1.0, in the shape of its JSON format: a dict that `json.dumps` and every SDK take.

Context attributes keep their names, and the body is the data. What CloudEvents cannot say (a float, a list, a name with
an underscore) travels as JSON text in one extension, `gossamerattributes`, so that nothing is lost on the way back:

    Event(key="IBM", attributes={"type": "quote", "price": 101.5}, body=b"…")

    {"specversion": "1.0", "id": "7", "source": "/default/~b1-1731.0", "type": "quote", "time": "2026-01-02T03:04:05Z",
     "partitionkey": "IBM", "gossamerattributes": "{\\"price\\": 101.5}", "data_base64": "4oCm"}

`sdk/cloudevents.py` is the other direction.
"""

import base64
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from gossamer.messages.event import Event

SPECVERSION = "1.0"
TYPE = "gossamer.event"
"""Of an event that says no `type` of its own."""
KEY = "partitionkey"
REST = "gossamerattributes"
DELETED = "gossamerdeleted"
IDENTITY = ("id", "source")
TEXTS = ("type", "subject", "datacontenttype", "dataschema")
RESERVED = ("specversion", "data", "data_base64", KEY, REST, DELETED)
_NAME = re.compile(r"[a-z0-9]+")


def to_cloudevent(event: "Event") -> dict[str, Any]:
    """The event as a dict; its id and source are its own, or those that it had as a CloudEvent."""
    if event.id is None:
        raise UsageError("an event has an id once it is delivered, and a CloudEvent needs one")
    attributes = event.attributes
    born = attributes.get("specversion") == SPECVERSION
    time = event.time.isoformat().replace("+00:00", "Z")
    source = "/" + quote(event.id.stream, safe="/~.-_:@$+=,")
    found: dict[str, Any] = {"specversion": SPECVERSION, "id": str(event.id.seq), "source": source}
    found |= {"type": TYPE, "time": time}
    rest: dict[str, Any] = {}
    for name, value in attributes.items():
        if _fits(name, value, born) or (name == KEY and value == event.key is not None):
            found[name] = value
        elif not (born and name == "specversion"):
            rest[name] = value
    if event.key is not None:
        found[KEY] = event.key
    if event.deleted:
        found[DELETED] = True
    if rest:
        found[REST] = json.dumps(rest)
    if event.body:
        found |= _data(event.body, found.get("datacontenttype"))
    return found


def is_json(media_type: object) -> bool:
    """Whether data of this type is a JSON value, and not text or bytes."""
    if not isinstance(media_type, str):
        return False
    subtype = media_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def _fits(name: str, value: object, born: bool) -> bool:
    """Whether a CloudEvent may have this as a context attribute or an extension."""
    if name in RESERVED or not _NAME.fullmatch(name):
        return False
    if name in IDENTITY:
        return born and isinstance(value, str) and bool(value)
    if name == "time":
        return isinstance(value, str) and _is_time(value)
    if name in TEXTS:
        return isinstance(value, str) and bool(value)
    if isinstance(value, bool):
        return True
    return isinstance(value, str) or (isinstance(value, int) and -(2**31) <= value < 2**31)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _data(body: bytes, media_type: object) -> dict[str, Any]:
    try:
        if is_json(media_type):
            return {"data": json.loads(body)}
        if isinstance(media_type, str) and media_type.startswith("text/"):
            return {"data": body.decode()}
    except ValueError:
        pass  # not what it says it is: as it is
    return {"data_base64": base64.b64encode(body).decode()}
