"""Coverage: whether this logger holds every finished stream that the other loggers hold.

Members forget a stream once it has ended and everyone has it (protocol/retired.py). Only the loggers that stored it can
still name it, so a new logger, or one that lost its disk, does not know which finished streams it lacks. The other
loggers offer theirs (protocol/handover.py). This machine asks each of them every few rounds whether that is done:

    Covers(asks=True)       new logger → other logger: do I hold all finished streams that you hold?
    Covers(asks=False)      other logger → new logger: yes. Silence means: not yet.

Until every logger that was there before has answered, the pages of a logger name those that have not
(`Page.uncovered`), and brokers read the past from another logger if there is one. The answer is kept on disk: a logger
that restarts with its disk lacks nothing that it had, and no stream finishes while a logger is only disconnected. A
logger that was expelled learns from the next offer that the answer no longer holds.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import NodeId
from gossamer.messages.wire import Covers
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Covered
from gossamer.protocol.handover import Handover
from gossamer.protocol.membership import Membership
from gossamer.protocol.mending import REPEAT_ROUNDS


class Coverage:
    """The loggers that have confirmed that this logger holds all their finished streams."""

    __slots__ = ("_confirmed", "_ctx", "_handover", "_membership", "_owing", "_save")

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        handover: Handover,
        save: Callable[[Covered], None],
        confirmed: Iterable[NodeId],
    ) -> None:
        """`save(record)` writes a record durably; `confirmed` are the loggers of earlier records."""
        self._ctx = ctx
        self._membership = membership
        self._handover = handover
        self._save = save
        self._confirmed: dict[NodeId, None] = dict.fromkeys(confirmed)
        self._owing: dict[NodeId, None] | None = None
        """Loggers that were there before this one, which have to confirm; None: not known yet. A logger that comes
        later holds no finished stream of before, unless it offers one."""

    def start(self) -> None:
        """Take up the work of an earlier life: the loggers known from it have to confirm, unless they have."""
        if self._membership.is_founder:
            self._owing = dict.fromkeys(self._membership.loggers)

    @property
    def uncovered(self) -> tuple[NodeId, ...]:
        """Loggers that may hold finished streams this logger lacks; this logger itself while it may not know them."""
        if self._owing is None:
            return (self._ctx.node,)
        owing = self._owing
        return tuple(node for node in self._membership.loggers if node in owing and node not in self._confirmed)

    def __bool__(self) -> bool:
        """Whether a logger that can answer has not confirmed yet."""
        return any(node in self._membership.active for node in self.uncovered)

    def on_round(self) -> None:
        """Ask the loggers whose confirmation is missing."""
        if not self._ctx.round % REPEAT_ROUNDS:
            for node in self.uncovered:
                if node in self._membership.active:
                    self._ctx.send(node, Covers(True))

    def on_agreed(self) -> None:
        """Another member has the same table of members: every logger is known here."""
        if self._owing is None:
            self._owing = dict.fromkeys(self._membership.loggers)

    def on_covers(self, sender: NodeId, message: Covers) -> None:
        """Confirm to a logger that asks, or take note of a confirmation."""
        if not self._membership.is_logger(sender):
            return
        if message.asks:
            if self._handover.has_all_offers(sender):
                self._ctx.send(sender, Covers(False))
        elif sender not in self._confirmed:
            self._confirmed[sender] = None
            self._save(Covered(sender))

    def on_lacking(self, sender: NodeId) -> None:
        """Void a confirmation: that logger has just offered a finished stream that this logger lacks."""
        if self._owing is not None:
            self._owing[sender] = None
        if self._confirmed.pop(sender, self) is None:
            self._save(Covered(sender, False))
