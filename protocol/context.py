"""What the machines of one node share: its name, settings, time, randomness, the effects so far, and its tally."""

import random

from gossamer.messages.ids import NodeId
from gossamer.messages.wire import Message
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Effect, Send
from gossamer.protocol.tally import Tally


class Context:
    """Handed to every machine of a node; `now` and `effects` are set anew by each `Node.handle`."""

    __slots__ = ("config", "effects", "incarnation", "logger", "node", "now", "rng", "round", "tally")

    def __init__(self, node: NodeId, config: Config, rng: random.Random, incarnation: int, logger: bool) -> None:
        self.node = node
        self.config = config
        self.rng = rng
        self.incarnation = incarnation
        self.logger = logger
        self.now = 0.0
        self.round = 0
        self.effects: list[Effect] = []
        self.tally = Tally()

    def send(self, to: NodeId, message: Message) -> None:
        self.effects.append(Send((to,), message))

    def multicast(self, to: tuple[NodeId, ...], message: Message) -> None:
        if to:
            self.effects.append(Send(to, message))

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)
