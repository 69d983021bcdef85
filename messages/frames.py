"""What every protocol of ours has on the wire: frames of a version byte, then msgpack.

Peers' bytes are never trusted: whatever is wrong with a frame, `decode` raises `PeerError` and nothing else.
"""

from typing import Any, Generic, TypeVar

import msgspec

from gossamer.messages.errors import PeerError, UsageError

FRAME_BYTES_MAX = 16 * 2**20

M = TypeVar("M")


class Frames(Generic[M]):
    """The frames of one protocol, which is `named` like that."""

    __slots__ = ("_decoder", "_encoder", "_named", "_version")

    def __init__(self, named: str, version: int, messages: Any) -> None:
        self._named = named
        self._version = bytes([version])
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(messages)

    def encode(self, message: M) -> bytes:
        """One frame; encode once and send the same bytes to everyone."""
        frame = bytearray(self._version)
        self._encoder.encode_into(message, frame, 1)
        if len(frame) > FRAME_BYTES_MAX:
            raise UsageError(f"a {type(message).__name__} of {len(frame)} bytes is over the limit of {FRAME_BYTES_MAX}")
        return bytes(frame)

    def decode(self, frame: bytes) -> M:
        """The message in a frame, or `PeerError`."""
        if len(frame) > FRAME_BYTES_MAX:
            raise PeerError(f"a frame of {len(frame)} bytes is over the limit of {FRAME_BYTES_MAX}")
        if not frame:
            raise PeerError("an empty frame")
        if frame[0] != self._version[0]:
            raise PeerError(f"{self._named} version {frame[0]}, this is {self._version[0]}")
        try:
            return self._decoder.decode(memoryview(frame)[1:])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise PeerError(f"malformed frame: {error}") from None
