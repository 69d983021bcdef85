"""A subscription of one client, as its broker keeps it: what was asked for, how far it is, and what waits for it."""

import random
from time import time
from typing import Protocol

from gossamer.broker.reading import Reading
from gossamer.matching import Selector
from gossamer.messages.event import Attributes
from gossamer.messages.ids import StreamId
from gossamer.messages.session import Gap, Policy, Subscribe
from gossamer.protocol.account import Account, Totals
from gossamer.protocol.delivery import Feed, Purging
from gossamer.protocol.tally import Tally

QUEUE_BYTES_MAX = 16 * 2**20
PURGING: dict[Policy, Purging] = {
    "auto": "patient", "eager": "eager", "lazy": "lazy", "random": "off", "none": "off",
}  # fmt: skip

Unseen = tuple[StreamId, int, int]
"""A stream, and the first and the last seq of events that a link purged before this broker saw them."""


class Outlet(Protocol):
    """A client's session, as far as deliveries are concerned."""

    @property
    def open(self) -> bool:
        """Whether there is room on the way to it."""

    def deliver(self, frame: bytes) -> None: ...


class Subscriber:
    """One subscription of one client."""

    __slots__ = (
        "_asked",
        "_lazy",
        "at",
        "begins",
        "buffer",
        "feed",
        "gaps",
        "granted",
        "group",
        "key",
        "lost",
        "outlet",
        "reading",
        "selector",
        "sent",
        "strict",
        "sub",
        "told",
        "unseen",
        "unseen_upto",
        "untold",
    )

    def __init__(
        self, key: int, outlet: Outlet, group: str, wanted: Subscribe, tally: Tally, patience_s: float = 0.0
    ) -> None:
        self.key = key
        self.outlet = outlet
        self.group = group
        self.sub = wanted.sub
        self.selector = Selector(wanted.selector)
        self._asked: Attributes = {
            "buffer": wanted.buffer, "policy": wanted.policy, "order": wanted.order, "durable": wanted.durable,
        }  # fmt: skip
        self.buffer = wanted.buffer
        self._lazy = wanted.policy == "lazy"
        self.strict = wanted.policy == "none"
        """It is owed every event, those that a saturated link purged included."""
        rng = random.Random(key) if wanted.policy == "random" else None
        semantic = PURGING[wanted.policy]
        self.feed = Feed(
            wanted.buffer,
            QUEUE_BYTES_MAX,
            semantic=semantic,
            patience_s=patience_s,
            rng=rng,
            tally=tally,
            accounts=True,
        )
        self.granted = wanted.credit
        self.sent = 0
        self.lost = 0
        self.told = Totals()
        """The totals that its client knows."""
        self.unseen_upto = 0
        """How many entries of its audience's list of unseen events it has taken into account."""
        self.unseen: list[Unseen] = []
        """Events purged on links that came while it read from a logger, which may have them."""
        self.gaps: dict[StreamId, Gap] = {}
        """What fell out of the log before it was read, of each stream, and it has not been told."""
        self.begins = wanted.start is not None
        """It has never been live, so its client does not know yet that it has come so far."""
        self.untold = False
        """It is live again, and has not been told so."""
        self.reading: Reading | None = None
        """What it reads first, if it is behind further than the log reaches."""
        self.at: tuple[int, int] | None = None
        """Where in the log it reads on, while it is behind: the batch, and the place in it."""

    @property
    def account(self) -> Account:
        """The events that its client was not sent, up to the position of its client."""
        assert self.feed.account is not None
        return self.feed.account

    def options(self) -> Attributes:
        """What was asked for, for telemetry."""
        return {"selector": str(self.selector), **self._asked}

    def figures(self) -> dict[str, int | float | bool]:
        """How far it is, for telemetry."""
        feed = self.feed
        came_ns = feed.oldest_ns
        return {
            "number": self.key,
            "delivered": feed.delivered,
            "obsoleted": feed.obsoleted,
            "left": feed.left,
            "lost": self.lost + feed.lost,
            "queued": len(feed),
            "queued_bytes": feed.bytes,
            "oldest_s": round(max(0.0, time() - came_ns / 1e9), 3) if came_ns else 0.0,
            "behind": feed.behind,
        }

    @property
    def purges(self) -> bool:
        """Whether obsolete events of a log are left out for it now."""
        return self.feed.eager or self._lazy

    @property
    def credit(self) -> int:
        """How many more its client takes."""
        return self.granted - self.sent

    @property
    def ready(self) -> bool:
        """Whether something that waits could go out now."""
        return self.granted > self.sent and self.outlet.open
