"""ZeroMQ's protocol on the wire, ZMTP 3 without security (rfc.zeromq.org/spec/23), from bytes to messages and back.

ZeroMQ's library hands every message to a thread of its own and back: from a publisher through a broker to a subscriber
that is six threads to be woken, where the sockets themselves would wake two, and it takes three times as long
(docs/decisions/sessions-on-sockets.md). So clients and brokers speak this over sockets of their own. To whoever uses
the library nothing is different: a broker is a ROUTER, and a client is a DEALER.

A connection begins with a greeting of 64 bytes from each side, and a command of each that tells what it is:

    FF ········ 7F  03 00  "NULL" and 16 zeros  32 zeros       signature, version, mechanism, filler
    04 size  05 "READY"  0B "Socket-Type" 00 00 00 06 "DEALER"

After that come frames, each a byte of flags (1: more follow, 2: a size of eight bytes, 4: a command), its size, and its
bytes. What peers send is never trusted: whatever is wrong with it is a `PeerError`, and the end of the connection,
since nobody can tell where the next frame would begin.
"""

from typing import Literal

from gossamer.messages.errors import PeerError

MORE, LONG, COMMAND = 1, 2, 4
SHORT_MAX = 255
PARTS_MAX = 64
COMMAND_BYTES_MAX = 8 * 1024
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_VERSION, _MECHANISM = 10, slice(12, 32)
_PING_TTL_BYTES, _PING_CONTEXT_MAX = 2, 16

Kind = Literal["ROUTER", "DEALER"]
Message = list[bytes]
"""The parts of a message: those of a session have one."""


def header(size: int) -> bytes:
    """What stands before a message of one part, so large."""
    return bytes((0, size)) if size <= SHORT_MAX else bytes((LONG,)) + size.to_bytes(8, "big")


def _command(name: bytes, data: bytes) -> bytes:
    body = bytes((len(name),)) + name + data
    return bytes((COMMAND, len(body))) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


class Zmtp:
    """One end of a connection."""

    __slots__ = (
        "_begun", "_bytes_max", "_flags", "_greeted", "_long", "_parts", "_parts_bytes", "_peer",
        "answers", "missing", "opening", "ready", "unfinished_bytes",
    )  # fmt: skip

    def __init__(self, kind: Kind, bytes_max: int) -> None:
        """Larger messages than `bytes_max` end the connection before they are read."""
        self.opening = GREETING + _command(b"READY", _property(b"Socket-Type", kind.encode()))
        """What is to be said first."""
        self.answers = b""
        """What is to be said next, before anything else: of several pings that came at once the last is answered, as
        they ask for nothing but a sign of life."""
        self.ready = False
        """Whether the other has said what it is: before that it must not be sent messages."""
        self.missing = 0
        """How many bytes of a long frame are yet to come."""
        self.unfinished_bytes = 0
        """How many are kept here of a message that is not whole yet."""
        self._peer = b"DEALER" if kind == "ROUTER" else b"ROUTER"
        self._bytes_max = bytes_max
        self._greeted = False
        self._begun = b""
        """The beginning of a greeting, or of a frame whose size is not known yet."""
        self._long = bytearray()
        self._flags = 0
        self._parts: Message = []
        self._parts_bytes = 0

    def receive(self, data: bytes) -> list[Message]:
        """Take what has come, and return the messages that are whole by that."""
        messages: list[Message] = []
        at = 0
        if self.missing:
            at = min(self.missing, len(data))
            self._long += data if at == len(data) else data[:at]
            self.missing -= at
            self.unfinished_bytes += at
            if self.missing:
                return messages
            self._take(self._flags, bytes(self._long), messages)
            self._long = bytearray()
        elif self._begun:
            data, self._begun = self._begun + data, b""
        if not self._greeted:
            if not self._greet(data):
                return messages
            at = len(GREETING)
        while (left := len(data) - at) >= 2:
            flags, size, start = data[at], data[at + 1], at + 2
            if flags & LONG:
                if left < 9:
                    break
                size, start = int.from_bytes(data[at + 1 : at + 9], "big"), at + 9
            if size > self._bytes_max:
                raise PeerError(f"a message of {size} bytes: at most {self._bytes_max} are read")
            at = start + size
            if at > len(data):
                self._check(flags, size)
                self._flags, self.missing = flags, at - len(data)
                self._long += data[start:]
                self.unfinished_bytes = self._parts_bytes + len(self._long)
                return messages
            if flags & ~LONG or self._parts:
                self._check(flags, size)
                self._take(flags, data[start:at], messages)
            elif self.ready:
                messages.append([data[start:at]])
            else:
                raise PeerError("a message before the handshake")
        self._begun = data[at:]
        return messages

    def _greet(self, data: bytes) -> bool:
        """Whether the greeting is whole."""
        if data[:1] != b"\xff" or (len(data) > 9 and not data[9] & 1):
            raise PeerError("it does not speak ZMTP")
        if len(data) > _VERSION and data[_VERSION] < GREETING[_VERSION]:
            raise PeerError(f"ZMTP version {data[_VERSION]}, this is {GREETING[_VERSION]}")
        if len(data) < len(GREETING):
            self._begun = data
            return False
        if data[_MECHANISM] != GREETING[_MECHANISM]:
            raise PeerError(f"a mechanism of security that is not spoken here: {data[_MECHANISM]!r}")
        self._greeted = True
        return True

    def _check(self, flags: int, size: int) -> None:
        """What is not to be taken is not even read."""
        if flags & COMMAND:
            if flags & ~(COMMAND | LONG) or not 1 < size <= COMMAND_BYTES_MAX:
                raise PeerError(f"a command of {size} bytes with the flags {flags:#x}")
        elif flags & ~(MORE | LONG):
            raise PeerError(f"a frame with the flags {flags:#x}")
        elif not self.ready:
            raise PeerError("a message before the handshake")
        elif self._parts_bytes + size > self._bytes_max or len(self._parts) == PARTS_MAX:
            raise PeerError(f"a message of {len(self._parts)} parts and {self._parts_bytes} bytes, and {size} more")

    def _take(self, flags: int, body: bytes, messages: list[Message]) -> None:
        if flags & COMMAND:
            self._obey(body)
        else:
            self._parts.append(body)
            self._parts_bytes += len(body)
            if not flags & MORE:
                messages.append(self._parts)
                self._parts, self._parts_bytes = [], 0
        self.unfinished_bytes = self._parts_bytes

    def _obey(self, body: bytes) -> None:
        if len(body) <= body[0]:
            raise PeerError(f"a command of {len(body)} bytes with a name of {body[0]}")
        name, data = body[1 : 1 + body[0]], body[1 + body[0] :]
        if name == b"ERROR":
            raise PeerError(f"it ends the handshake: {data[1:]!r}")
        if not self.ready:
            if name != b"READY":
                raise PeerError(f"the command {name!r} before the handshake")
            self._meet(data)
        elif name == b"PING":
            context = data[_PING_TTL_BYTES : _PING_TTL_BYTES + _PING_CONTEXT_MAX]
            self.answers = _command(b"PONG", context)

    def _meet(self, data: bytes) -> None:
        """The other says what it is."""
        at, kind = 0, b""
        while at < len(data):
            name, at = data[at + 1 : at + 1 + data[at]], at + 1 + data[at]
            size, at = int.from_bytes(data[at : at + 4], "big"), at + 4
            if at + size > len(data):
                raise PeerError("a handshake that is cut off")
            if name.lower() == b"socket-type":
                kind = data[at : at + size]
            at += size
        if kind != self._peer:
            raise PeerError(f"a {kind.decode('ascii', 'replace')[:20]}, where a {self._peer.decode()} is expected")
        self.ready = True
