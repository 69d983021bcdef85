"""Content-based publish/subscribe that never stalls."""

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
from gossamer.sdk.client import Client, connect
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
