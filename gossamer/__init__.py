"""Content-based publish/subscribe that never stalls."""

from pathlib import Path

# In a clone the folders stand beside this one, and Python, started there, finds this one before what is installed.
if not (Path(__file__).parent / "messages").exists():
    __path__.append(str(Path(__file__).parents[1]))

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.matching import Selector, SelectorError, attr
    from gossamer.messages.errors import (
        BufferFull,
        ConnectionLost,
        GossamerError,
        NotAuthorized,
        Superseded,
        Timeout,
        UsageError,
    )
    from gossamer.messages.event import Event
    from gossamer.messages.ids import EventId
    from gossamer.sdk import sync
    from gossamer.sdk.client import Client
    from gossamer.sdk.connecting import connect
    from gossamer.sdk.member import Member, View, join
    from gossamer.sdk.replication import PrimaryBackup, ReplicatedState
    from gossamer.sdk.subscription import Commit, Gap, Left, Subscription

__all__ = [
    "BufferFull",
    "Client",
    "Commit",
    "ConnectionLost",
    "Event",
    "EventId",
    "Gap",
    "GossamerError",
    "Left",
    "Member",
    "NotAuthorized",
    "PrimaryBackup",
    "ReplicatedState",
    "Selector",
    "SelectorError",
    "Subscription",
    "Superseded",
    "Timeout",
    "UsageError",
    "View",
    "attr",
    "connect",
    "join",
    "sync",
]

_HOMES = {
    "Selector": "gossamer.matching",
    "SelectorError": "gossamer.matching",
    "attr": "gossamer.matching",
    "BufferFull": "gossamer.messages.errors",
    "ConnectionLost": "gossamer.messages.errors",
    "GossamerError": "gossamer.messages.errors",
    "NotAuthorized": "gossamer.messages.errors",
    "Superseded": "gossamer.messages.errors",
    "Timeout": "gossamer.messages.errors",
    "UsageError": "gossamer.messages.errors",
    "Event": "gossamer.messages.event",
    "EventId": "gossamer.messages.ids",
    "sync": "gossamer.sdk",
    "Client": "gossamer.sdk.client",
    "connect": "gossamer.sdk.connecting",
    "Member": "gossamer.sdk.member",
    "View": "gossamer.sdk.member",
    "join": "gossamer.sdk.member",
    "PrimaryBackup": "gossamer.sdk.replication",
    "ReplicatedState": "gossamer.sdk.replication",
    "Commit": "gossamer.sdk.subscription",
    "Gap": "gossamer.sdk.subscription",
    "Left": "gossamer.sdk.subscription",
    "Subscription": "gossamer.sdk.subscription",
}
"""What is imported when it is asked for: ZeroMQ and the SDK take longer than `gossamer match`."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gossamer' has no attribute {name!r}")
    found = globals()[name] = import_module(f"{home}.sync") if name == "sync" else getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return __all__
