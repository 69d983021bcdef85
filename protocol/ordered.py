"""A node whose groups may have more than FIFO order: what stands between a node and its application.

It is driven like a node, and hands what comes through. What is delivered in a group with `order="causal"` or
`order="total"` waits here for its turn (protocol/causal.py, protocol/total.py); all other effects pass at once.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gossamer.messages.ids import SEQ_MAX, NodeId, StreamId, group_of
from gossamer.messages.wire import Agree, Holds
from gossamer.protocol import inputs
from gossamer.protocol.arranged import ArrangedReplay
from gossamer.protocol.causal import CausalOrder
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Became, Deliver, Effect, Refused, Skip
from gossamer.protocol.holding import Item
from gossamer.protocol.node import Node
from gossamer.protocol.replay import Replay
from gossamer.protocol.total import TotalOrder

NEVER = float("inf")
FULL = "what waits for its turn in the total order is too much"


class Ordered:
    """One life of one member, and the order of its groups."""

    TOTAL, CAUSAL = TotalOrder, CausalOrder
    """The laboratory tries others."""

    def __init__(self, node: Node, name: NodeId, config: Config, incarnation: int, logger: bool = False) -> None:
        """A logger takes events as they come; it may be one of those who agree on the total order."""
        self.node = node
        self._config = config
        self._orders = {group: each.order for group, each in config.groups.items()}
        self._witness = logger
        orders = {each.order for each in config.groups.values()}
        self.total: TotalOrder | None = None
        self.causal: CausalOrder | None = None
        if "total" in orders and (not logger or name in config.agreed_by):
            self.total = self.TOTAL(name, incarnation, config.agreed_by, self._position, witness=logger)
        if "causal" in orders and not logger:
            self.causal = self.CAUSAL(self._position, config.hold_bytes_max)

    def handle(self, given: inputs.Input, now: float) -> list[Effect]:
        total = self.total
        if total is not None:
            if type(given) is inputs.Received and type(given.message) in (Agree, Holds):
                return self._on_agreement(total, given, now)
            if (refused := self._refuse(given)) is not None:
                return [refused]
        effects = self._sort(self.node.handle(given, now), now)
        if total is not None and isinstance(given, inputs.Leave | inputs.Disconnect):
            effects += total.leave(now)
        if total is not None and total.next_deadline() <= now:
            effects += total.on_time(now)
        if self.causal is not None and self.causal.next_deadline() <= now:
            effects += self.causal.on_time(now)
        return effects

    def next_deadline(self) -> float:
        deadline = self.node.next_deadline()
        if self.total is not None:
            deadline = min(deadline, self.total.next_deadline())
        if self.causal is not None:
            deadline = min(deadline, self.causal.next_deadline())
        return deadline

    def ready(self, group: str) -> bool:
        """Whether a group's events are handed out in its order; else a subscription has to wait."""
        return self.total is None or self._orders.get(group) != "total" or self.total.ready

    def replay(self, group: str, released: Callable[[], Mapping[StreamId, int]]) -> Callable[..., Replay]:
        """What reads a group from a logger, of which so much has been handed out here."""
        order = self._orders.get(group, "fifo")
        if order == "fifo":
            return Replay
        return partial(ArrangedReplay, order=self.total if order == "total" else None, released=released)

    @property
    def full(self) -> bool:
        """Whether so much waits for its turn in the total order that publishers have to, too."""
        return self.total is not None and self.total.holding.bytes >= self._config.hold_bytes_max

    def trouble(self) -> list[str]:
        return [] if self.total is None else self.total.trouble()

    def figures(self) -> dict[str, int]:
        """What waits for its turn, for telemetry."""
        total, causal = self.total, self.causal
        return {
            "order_held_bytes": sum(each.holding.bytes for each in (total, causal) if each is not None),
            "order_held_streams": sum(len(each.holding) for each in (total, causal) if each is not None),
            "order_overdue": 0 if causal is None else causal.overdue,
            "order_lapses": 0 if total is None else total.lapses,
        }

    def _on_agreement(self, total: TotalOrder, given: inputs.Received, now: float) -> list[Effect]:
        if self.node.membership.status != "member":
            return []
        if isinstance(given.message, Agree):
            return total.on_agree(given.sender, given.message, now)
        assert isinstance(given.message, Holds)
        return total.on_holds(given.sender, given.message, now)

    def _refuse(self, given: inputs.Input) -> Refused | None:
        """Those who agree are stalled, or slow: publishers wait, as they do for loggers."""
        if not self.full:
            return None
        if isinstance(given, inputs.Forward):
            stream, count = given.packet.stream, given.packet.count
        elif isinstance(given, inputs.Publish):
            stream, count = given.stream, len(given.contents)
        else:
            return None
        return Refused(stream, count, FULL) if self._orders.get(group_of(stream)) == "total" else None

    def _sort(self, effects: list[Effect], now: float) -> list[Effect]:
        """What has to wait for its turn does, and what it lets go comes after the rest."""
        out: list[Effect] = []
        waits: dict[str, list[Item]] = {"total": [], "causal": []}
        became = False
        for effect in effects:
            if isinstance(effect, Deliver | Skip):
                stream = effect.packet.stream if isinstance(effect, Deliver) else effect.stream
                order = self._orders.get(group_of(stream), "fifo")
                if order != "fifo":
                    waits[order].append(effect)
                    if not self._witness:
                        continue
            elif isinstance(effect, Became):
                became = became or effect.status == "member"
            out.append(effect)
        if self.total is not None:
            if became:
                out += self.total.start(now)
            if waits["total"] or self.total.waits:  # what is decided may have come, or be of a stream that is over
                out += self.total.on_delivered(waits["total"], now)
        if waits["causal"] and self.causal is not None:
            out += self.causal.on_delivered(waits["causal"], now)
        return out

    def _position(self, stream: StreamId) -> int:
        """The last seq that the node has delivered of a stream; beyond all, if that is over."""
        known = self.node.receiver.streams.get(stream)
        if known is not None:
            return known.next - 1
        return SEQ_MAX if stream in self.node.receiver.retired else -1


def make_node(node: NodeId, config: Config, rng: random.Random, **options: Any) -> Node | Ordered:
    """A node for this configuration, with what orders its groups if it has any that need it."""
    made = Node(node, config, rng, **options)
    return order(made, node, config, options.get("incarnation", 1), options.get("logger", False)) or made


def order(node: Node, name: NodeId, config: Config, incarnation: int, logger: bool) -> Ordered | None:
    """What orders the groups of a node, if any is to be."""
    if all(each.order == "fifo" for each in config.groups.values()):
        return None
    return Ordered(node, name, config, incarnation, logger)
