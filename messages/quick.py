"""The quick way for everyday events, at the two places that each of them passes: where it is published, and where a
broker takes it in.

An everyday event has names that were used before, no list among its values, only ASCII in its texts, and nothing to say
of other events. Such a one can be checked and encoded, or checked and looked at, in one go over it; whatever is not
plainly like that gets None here, and goes the way of all others, which knows what may be said and what is wrong
with it. So both ways come to the same, and this one may be left out.

It is written in C (messages/_quick.c), since it is about bytes. Where there is no compiler when Gossamer is installed
all events go the way of all others; docs/performance.md tells how much slower that is.
"""

from collections.abc import Callable, Set

from gossamer.messages.event import PLAIN_BYTES_MAX, Attributes, check_sizes, is_plain, known_names
from gossamer.messages.packet import Packet, encode_content

Encode = Callable[[Set[str], str | None, int, Attributes, bytes], bytes | None]


def _encode_everyday(_: Set[str], key: str | None, time_ns: int, attributes: Attributes, body: bytes) -> bytes | None:
    if not is_plain(key, attributes, body):
        return None
    encoded = encode_content((key, None, None, time_ns, False, attributes, body))
    if len(encoded) > PLAIN_BYTES_MAX:
        check_sizes(attributes, body)
    return encoded


encode_everyday: Encode
try:
    from gossamer.messages import _quick
except ImportError:
    COMPILED, encode_everyday = False, _encode_everyday
else:
    COMPILED, encode_everyday = True, _quick.encode
"""`(known_names, key, time_ns, attributes, body)`: an event's bytes, or None if it is not an everyday one."""


def everyday(packet: Packet, wanted: Set[str], trusted: bool = False) -> list[Attributes] | None:
    """The attributes with these names, of each event of a packet, if all of them are good, stand where the table says,
    and have no key: then there is no need to decode any more of them. `trusted`: their names were checked before."""
    return _quick.loose(None if trusted else known_names, wanted, packet.sizes, packet.blob) if COMPILED else None
