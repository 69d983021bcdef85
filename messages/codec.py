"""Messages to bytes and back: a version byte, then msgpack.

Peers' bytes are never trusted: whatever is wrong with a frame, `decode` raises `PeerError` and nothing else
(tests/properties/test_codec.py fuzzes it).
"""

import msgspec

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.wire import Message

VERSION = 1
FRAME_BYTES_MAX = 16 * 2**20

_version = bytes([VERSION])
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One frame; encode once and send the same bytes to everyone."""
    frame = bytearray(_version)
    _encoder.encode_into(message, frame, 1)
    if len(frame) > FRAME_BYTES_MAX:
        raise UsageError(f"a {type(message).__name__} of {len(frame)} bytes is over the limit of {FRAME_BYTES_MAX}")
    return bytes(frame)


def decode(frame: bytes) -> Message:
    """The message in a frame, or `PeerError`."""
    if len(frame) > FRAME_BYTES_MAX:
        raise PeerError(f"a frame of {len(frame)} bytes is over the limit of {FRAME_BYTES_MAX}")
    if not frame:
        raise PeerError("an empty frame")
    if frame[0] != VERSION:
        raise PeerError(f"wire version {frame[0]}, this is {VERSION}")
    try:
        return _decoder.decode(memoryview(frame)[1:])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"malformed frame: {error}") from None
