"""What is published when somebody publishes a CloudEvent: a dict in the shape of its JSON format, or an object that
gives its attributes and its data when asked, like those of the `cloudevents` package (both its generations)."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

from gossamer.matching.cloudevents import attributes_of
from gossamer.messages.cloudevents import KEY, REST, is_json
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Attributes

JSON = "application/json"


class CloudEventObject(Protocol):
    """As the `cloudevents` package has them."""

    def get_attributes(self) -> Any: ...
    def get_data(self) -> Any: ...


CloudEvent = Mapping[str, Any] | CloudEventObject


def is_cloudevent(given: object) -> TypeGuard[CloudEvent]:
    """Whether this is one, and not plain attributes."""
    if isinstance(given, Mapping):
        return "specversion" in given and "source" in given and "id" in given
    return hasattr(given, "get_attributes") and hasattr(given, "get_data")


def read(given: CloudEvent) -> tuple[Attributes, bytes, str | None]:
    """The attributes, the body and the key that it comes to."""
    if isinstance(given, Mapping):
        context = {name: value for name, value in given.items() if value is not None}  # null is as good as absent
        data, encoded = context.pop("data", None), context.pop("data_base64", None)
        if encoded is not None:
            data = _bytes(encoded)
    else:
        context, data = dict(given.get_attributes()), given.get_data()
        context = {name: value for name, value in context.items() if value is not None}
    rest = _rest(context.pop(REST, None))
    attributes = {**attributes_of(context), **rest}
    if data is not None and not isinstance(data, bytes):
        attributes.setdefault("datacontenttype", JSON)
    key = context.get(KEY)
    return attributes, _body(data, attributes.get("datacontenttype")), key if isinstance(key, str) else None


def taken_apart(given: Attributes | CloudEvent, body: bytes, key: str | None) -> tuple[Attributes, bytes, str | None]:
    """What to publish of what was given to `publish`, if that may be a CloudEvent."""
    if not is_cloudevent(given):
        return given, body, key  # type: ignore[return-value]  # and if it is nothing at all, that is said elsewhere
    if body:
        raise UsageError("a CloudEvent has its own data: publish it without a body")
    attributes, body, own = read(given)
    return attributes, body, own if key is None else key


def _body(data: object, media_type: object) -> bytes:
    if data is None:
        return b""
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if isinstance(data, str) and not is_json(media_type):
        return data.encode()
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"a CloudEvent's data is bytes, text or JSON: {error}") from None


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(f"a CloudEvent's data_base64 is base64: {error}") from None


def _rest(text: object) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        rest = json.loads(text)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise UsageError(f"{REST} is a JSON object: {error}") from None
    if not isinstance(rest, dict):
        raise UsageError(f"{REST} is a JSON object, not {type(rest).__name__}")
    return rest
