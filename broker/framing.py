"""What stands around a message on a link of the mesh: who speaks, from which life, and where it can be answered.

TCP says where bytes come from, but not whose they are: addresses are reused, processes restart, containers move. So
every message has a header in front, and a node needs nothing else to take a message from a stranger and to answer it:

    header   G, version, [node, incarnation, address, epoch]     the same bytes for a whole session of a link
    body     a message (messages/codec.py), or a mark

A *mark* is a zero byte (no codec version) and a number: how many bytes the sender had put on the link before it. The
receiver sends it back. Since a link is first in, first out, what comes back says who is there, that everything before
it has been taken, and how long that took: handshake, flow control and sign of life in one, and the receiver keeps no
state for it (docs/decisions/mesh-framing.md).
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gossamer.messages.errors import PeerError
from gossamer.messages.ids import NodeId
from gossamer.messages.wire import Address, Version

MESH_VERSION = 1
HEADER_BYTES_MAX = 2_048

_PREFIX = b"G" + bytes([MESH_VERSION])
_MARK = b"\0"
_MARK_BYTES = 9


class Header(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who speaks. `epoch` counts the sessions of one link: an answer to an earlier one means nothing any more."""

    node: NodeId
    incarnation: Annotated[int, Meta(gt=0, lt=2**42)]
    address: Address
    epoch: Version


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Header)


def encode_header(header: Header) -> bytes:
    return _PREFIX + _encoder.encode(header)


def decode_header(data: bytes) -> Header:
    """The header, or `PeerError`."""
    if len(data) > HEADER_BYTES_MAX:
        raise PeerError(f"a header of {len(data)} bytes is over the limit of {HEADER_BYTES_MAX}")
    if data[:1] != _PREFIX[:1]:
        raise PeerError("not a header of the mesh")
    if data[:2] != _PREFIX:
        raise PeerError(f"mesh version {data[1:2].hex() or 'none'}, this is {_PREFIX[1:].hex()}")
    try:
        return _decoder.decode(memoryview(data)[2:])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"malformed header: {error}") from None


def encode_mark(position: int) -> bytes:
    return _MARK + position.to_bytes(_MARK_BYTES - 1, "big")


def is_mark(body: bytes) -> bool:
    return body[:1] == _MARK


def decode_mark(body: bytes) -> int:
    """The position that a mark names, or `PeerError`."""
    if len(body) != _MARK_BYTES or not is_mark(body):
        raise PeerError(f"not a mark: {len(body)} bytes")
    return int.from_bytes(body[1:], "big")
