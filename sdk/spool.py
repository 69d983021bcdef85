"""A named publisher's memory on its own disk: what is published and not logged yet outlives a kill -9.

A packet is appended and synced before it leaves, so whatever anybody may have got of this publisher is either logged or
here, under its number. The next life finds it, goes on with the numbers where this one stopped, and sends it again;
whoever has it already takes no notice. So each event is logged once.

The file is a sequence of records, each with its length and a checksum. A record that is torn is the last one that was
being written, and never left. What is logged is forgotten: now and then the file is written anew without it, beside the
old one, and takes its place at once.
"""

import errno
import fcntl
import os
from collections import deque
from pathlib import Path
from typing import IO, BinaryIO

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_digest

from gossamer.messages.errors import GossamerError, UsageError
from gossamer.messages.ids import StreamId, named_stream
from gossamer.messages.packet import Packet

MAGIC = b"gossamer spool 1\n"
COMPACT_BYTES = 2**20
"""A file is written anew when it has at least so many bytes, and four times of what it needs."""


class _Owner(Struct, frozen=True, array_like=True, tag=1):
    """Whose it is: the first record."""

    stream: StreamId
    holder: str


class _Begun(Struct, frozen=True, array_like=True, tag=2):
    """The publisher is ours, and its next number is this."""

    next: int


class _Kept(Struct, frozen=True, array_like=True, tag=3):
    packet: Packet


class _Logged(Struct, frozen=True, array_like=True, tag=4):
    """What is up to here need not be sent again; it does no harm if this record is lost."""

    last: int


_Record = _Owner | _Begun | _Kept | _Logged
_encoder = msgspec.msgpack.Encoder()
_decoder: "msgspec.msgpack.Decoder[_Record]" = msgspec.msgpack.Decoder(_Record)


class Spool:
    """The file of one publisher; used by one process at a time."""

    def __init__(self, path: str | Path, group: str, publisher: str) -> None:
        self.path = Path(path)
        self.stream = named_stream(group, publisher)
        self.holder = os.urandom(12).hex()
        self.next: int | None = None
        """The next number; None if the publisher has never been ours."""
        self.unlogged: deque[Packet] = deque()
        self._live_bytes = 0
        self._lock = _locked(self.path)
        try:
            self._file = self._opened()
        except OSError as error:
            self._lock.close()
            raise UsageError(f"cannot open the spool {self.path}: {error.strerror}") from None
        except BaseException:
            self._lock.close()
            raise

    def begin(self, following: int) -> None:
        """The publisher is ours from this number on."""
        self.next = following
        self._append(_Begun(following))

    def keep(self, packet: Packet) -> None:
        """It is on disk when this returns."""
        self._append(_Kept(packet))
        self.unlogged.append(packet)
        self._live_bytes += len(packet.blob)
        self.next = packet.last + 1

    def forget(self, last: int) -> None:
        """What is up to here is logged."""
        if not self._drop(last):
            return
        self._append(_Logged(last), sync=False)
        if self._file.tell() > max(COMPACT_BYTES, 4 * self._live_bytes):
            self._file.close()
            self._rewrite()
            self._file = self._at_its_end()

    def _drop(self, last: int) -> bool:
        before = len(self.unlogged)
        while self.unlogged and self.unlogged[0].last <= last:
            self._live_bytes -= len(self.unlogged.popleft().blob)
        return len(self.unlogged) < before

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    # The file -------------------------------------------------------------------------------------------------------

    def _opened(self) -> BinaryIO:
        if not self.path.exists():
            self._rewrite()
        else:
            self._read(self.path.read_bytes())
        return self._at_its_end()

    def _at_its_end(self) -> BinaryIO:
        file = self.path.open("r+b", buffering=0)
        file.seek(0, os.SEEK_END)
        return file

    def _read(self, found: bytes) -> None:
        """Take up what there is, and cut off what is torn."""
        if not found.startswith(MAGIC):
            raise UsageError(f"{self.path} is not a spool")
        at = len(MAGIC)
        while (record := _decoded(found, at)) is not None:
            match record[0]:
                case _Owner(stream, holder):
                    if stream != self.stream:
                        raise UsageError(f"the spool {self.path} is that of {stream}, not of {self.stream}")
                    self.holder = holder
                case _Begun(following):
                    self.next = following
                case _Kept(packet):
                    self.unlogged.append(packet)
                    self._live_bytes += len(packet.blob)
                    self.next = packet.last + 1
                case _Logged(last):
                    self._drop(last)
            at = record[1]
        if at < len(found):
            os.truncate(self.path, at)

    def _append(self, record: _Record, sync: bool = True) -> None:
        try:
            data = _encoded(record)
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise GossamerError(f"cannot write the spool {self.path}: {error.strerror}") from None

    def _rewrite(self) -> None:
        """Only what is needed, in a new file that takes the place of the old one when it is whole."""
        records: list[_Record] = [_Owner(self.stream, self.holder)]
        if self.next is not None:
            records.append(_Begun(self.unlogged[0].first if self.unlogged else self.next))
        records += map(_Kept, self.unlogged)
        new = self.path.with_name(f"{self.path.name}.new")
        with new.open("wb") as file:
            file.write(MAGIC + b"".join(map(_encoded, records)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _encoded(record: _Record) -> bytes:
    data = _encoder.encode(record)
    return len(data).to_bytes(4, "big") + xxh3_64_digest(data) + data


def _decoded(found: bytes, at: int) -> tuple[_Record, int] | None:
    """The record at a place and the place after it; None if it is not whole."""
    start, size = at + 12, int.from_bytes(found[at : at + 4], "big")
    data = found[start : start + size]
    if not size or len(data) < size or xxh3_64_digest(data) != found[at + 4 : start]:
        return None
    return _decoder.decode(data), start + size


def _locked(path: Path) -> IO[str]:
    """A lock that the system lets go of when this process ends, however it does."""
    try:
        lock = open(f"{path}.lock", "a+")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"cannot open the spool {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise UsageError(f"the spool {path} is in use by another client") from None
    return lock
