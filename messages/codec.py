"""Messages of the mesh to bytes and back (tests/properties/test_codec.py fuzzes it)."""

from gossamer.messages.frames import Frames
from gossamer.messages.wire import Message

VERSION = 1

_frames: Frames[Message] = Frames("wire", VERSION, Message)
encode, decode = _frames.encode, _frames.decode
