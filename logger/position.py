"""The last position of a store, in a small file beside the database (`FILE.position`).

A database file that was emptied, cut, deleted or replaced by an old copy looks like a healthy store with fewer
packets. The position file says how far the store was: its random id, its logger and the number of its last packet. It
is written after commits, once a second at most, so it never names a packet that was not on disk. A store that is
behind its position file has lost packets.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec


class Loss(msgspec.Struct, frozen=True):
    """A store that ended with packet `had` was found to end with packet `has`."""

    had: int
    has: int


class Position(msgspec.Struct, frozen=True):
    """The content of a position file."""

    store: str
    """Random id of the database, as in its table `meta`."""
    node: str
    number: int
    """Of the last packet on disk."""
    lost: Loss | None = None
    """A loss that is neither repaired from other loggers nor accepted."""


def read_position(path: Path) -> Position | None:
    """The position in a file; None if there is none, or it is damaged itself."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Position)
    except (OSError, msgspec.MsgspecError):
        return None


def write_position(path: Path, position: Position) -> None:
    """Replace the file in one step, durably; `OSError` if the disk fails."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(msgspec.json.encode(position) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
