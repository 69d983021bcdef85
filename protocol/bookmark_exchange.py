"""Anti-entropy between loggers: the bookmarks of durable subscriptions.

A broker tells a bookmark to the loggers that it can reach, and forgets it when the subscription ends there. A logger
that was down then lacks the last bookmark, and a subscription that goes on from that logger gets events twice. So every
few rounds each logger sends the signature of its bookmarks to the next logger. A logger whose own signature differs
answers with its bookmarks, or finds the differing ones first (protocol/comparing.py). The receiver merges them as it
merges the bookmarks of a logger that leaves (`Bookmarks.on_handed`).
"""

from xxhash import xxh3_64_intdigest

from gossamer.messages.ids import NodeId
from gossamer.messages.wire import ENTRIES_MAX, Bookmark, Digest, Position
from gossamer.protocol.context import Context
from gossamer.protocol.durable import Bookmarks
from gossamer.protocol.membership import Membership
from gossamer.protocol.signature import MASK, SignedTable

COMPARE_ROUNDS = 8


class BookmarkExchange:
    """The signature of this logger's bookmarks, and the exchange of those that differ."""

    __slots__ = ("_bookmarks", "_ctx", "_membership", "_turn", "table")

    def __init__(self, ctx: Context, membership: Membership, bookmarks: Bookmarks) -> None:
        self._ctx = ctx
        self._membership = membership
        self._bookmarks = bookmarks
        self._turn = 0
        self.table: SignedTable[NodeId, NodeId] = SignedTable(str.encode, lambda name, _: self._digest(name))
        bookmarks.changed.update(dict.fromkeys(bookmarks.positions))

    def on_round(self) -> None:
        """Send the signature to the next logger."""
        loggers = [node for node in self._membership.loggers if node in self._membership.active]
        if loggers and not self._ctx.round % COMPARE_ROUNDS:
            self.refresh()
            self._turn += 1
            self._ctx.send(loggers[self._turn % len(loggers)], Digest("bookmarks", 0, ((0, self.table.root),)))

    def refresh(self) -> None:
        """Sign the bookmarks that have changed since the last time."""
        for name in self._bookmarks.changed:
            if name in self._bookmarks.marked:
                self.table.set(name, name)
            else:
                self.table.discard(name)
        self._bookmarks.changed.clear()

    def send(self, to: NodeId, buckets: tuple[int, ...]) -> None:
        """Send the bookmarks of some buckets, each whole; of all of them, if none is named."""
        for name in self.table.within(buckets):
            epoch = self._bookmarks.marked[name]
            vector = tuple(Position(*each) for each in self._bookmarks.positions[name].items())
            for at in range(0, max(1, len(vector)), ENTRIES_MAX):
                part = vector[at : at + ENTRIES_MAX]
                self._ctx.send(to, Bookmark(name, epoch, 1, part, whole=not at, after=epoch))

    def _digest(self, name: NodeId) -> bytes:
        total = 0
        for stream, last in self._bookmarks.positions[name].items():
            total += xxh3_64_intdigest(f"{stream}\0{last}".encode())
        return f"{name}\0{self._bookmarks.marked[name]}\0{total & MASK}".encode()
