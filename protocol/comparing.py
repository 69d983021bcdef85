"""Comparing tables by signature: roots differ, so find out where, level by level, and exchange what is there.

The tables are those of heartbeats (rpbcast §5.1) and of members (§5.3), and between loggers that of bookmarks
(protocol/bookmark_exchange.py); what a signature is: protocol/signature.py.
"""

from typing import TYPE_CHECKING, Any

from gossamer.messages.ids import NodeId
from gossamer.messages.wire import Beats, Digest, Roster
from gossamer.protocol.context import Context
from gossamer.protocol.signature import DEPTH, SMALL, SignedTable

if TYPE_CHECKING:
    from gossamer.protocol.bookmark_exchange import BookmarkExchange

BUCKETS_A_MESSAGE = 256


class Comparing:
    """Finds out how the tables of this node differ from another's."""

    __slots__ = ("_beats", "_bookmarks", "_ctx", "_members", "agreed")

    def __init__(
        self,
        ctx: Context,
        beats: SignedTable[Any, Any],
        members: SignedTable[Any, Any],
        bookmarks: "BookmarkExchange | None" = None,
    ) -> None:
        """`bookmarks` are there on loggers only."""
        self._ctx = ctx
        self._bookmarks = bookmarks
        self._beats = beats
        self._members = members
        self.agreed = False
        """Nothing has differed since the last round."""

    @property
    def roots(self) -> tuple[int, int]:
        return self._beats.root, self._members.root

    def on_roots(self, sender: NodeId, beats_root: int, members_root: int) -> None:
        if members_root != self._members.root:
            self._compare("members", sender)
        if beats_root != self._beats.root:
            self._compare("beats", sender)

    def agrees(self, sender: NodeId, members_root: int) -> bool:
        """Whether we know every member that the sender knows; if not, find out."""
        agrees = members_root == self._members.root
        if not agrees:
            self._compare("members", sender)
        return agrees

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        if message.table == "bookmarks":
            if self._bookmarks is None:
                return
            self._bookmarks.refresh()
        mine = self._table(message.table)
        if message.level == 0:
            if any(total != mine.root for _, total in message.sums):
                self._compare(message.table, sender)
            return
        self.agreed = False
        if message.level > DEPTH:
            return
        differing = mine.differing(message.level, message.sums)
        if message.level < DEPTH and differing:
            self._ctx.send(sender, Digest(message.table, message.level + 1, mine.sums(message.level + 1, differing)))
        else:
            for at in range(0, len(differing), BUCKETS_A_MESSAGE):
                self._send_entries(message.table, sender, differing[at : at + BUCKETS_A_MESSAGE])

    def _compare(self, table: str, to: NodeId) -> None:
        """From the top, or at once if the table is small."""
        self.agreed = False
        mine = self._table(table)
        if len(mine) <= SMALL:
            self._send_entries(table, to, ())
        else:
            self._ctx.send(to, Digest(table, 1, mine.sums(1, (0,))))

    def _send_entries(self, table: str, to: NodeId, buckets: tuple[int, ...]) -> None:
        if table == "bookmarks":
            assert self._bookmarks is not None
            self._bookmarks.send(to, buckets)
            return
        entries = tuple(self._table(table).within(buckets))
        self._ctx.send(to, Beats(buckets, entries, True) if table == "beats" else Roster(buckets, entries, True))

    def _table(self, name: str) -> SignedTable[Any, Any]:
        if name == "bookmarks":
            assert self._bookmarks is not None
            return self._bookmarks.table
        return self._beats if name == "beats" else self._members
