"""Phase 1 alone: multicast and no repair. The baseline of the others, and the smallest node to try the world with."""

import random

from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Data, Gossip, Join, Member, Position, Positions
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Acked, Became, Deliver, Effect, Persist, Send, Skip, Stored
from gossamer.protocol.inputs import Input, Persisted, Publish, Received, Start, Wake


class PlainNode:
    """Drives like `protocol.node.Node`: FIFO and at most once, but what is lost or overtaken is skipped as lost.

    Loggers store what they see and acknowledge it. A round is an empty gossip to one random member.
    """

    def __init__(
        self,
        node_id: str,
        config: Config,
        rng: random.Random,
        *,
        peers: tuple[str, ...] = (),
        logger: bool = False,
        incarnation: int = 1,
        stored: Stored | None = None,
        resume: bool = False,
    ) -> None:
        del stored, resume  # it forgets
        self._id = node_id
        self._round_s = config.round_interval_s
        self._rng = rng
        self._others = tuple(peer for peer in peers if peer != node_id)
        self._logger = logger
        self._incarnation = incarnation
        self._next: dict[str, int] = {}
        """The seq that each stream goes on with."""
        self._unsynced: dict[int, tuple[str, Packet]] = {}
        self._tokens = 0
        self._rounds = 0
        self._due_s = 0.0

    def next_deadline(self) -> float:
        return self._due_s

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(sender, message):
                match message:
                    case Data():
                        return self._on_data(message)
                    case Join():
                        if sender not in self._others:
                            self._others += (sender,)
                    case Positions():
                        return [Acked(entry.stream, entry.last, "logged") for entry in message.vector]
            case Publish(stream, contents):
                data = Data(self._id, pack(stream, self._next.get(stream, 0), contents))
                return [*self._on_data(data), Send(self._others, data)]
            case Persisted(token):
                origin, packet = self._unsynced.pop(token)
                vector = (Position(packet.stream, packet.last),)
                return [Send((origin,), Positions(self._incarnation, token, 0, 0, vector))]
            case Wake():
                self._due_s = now + self._round_s
                self._rounds += 1
                if self._others:
                    return [Send((self._rng.choice(self._others),), Gossip(self._rounds, (), 0, 0))]
            case Start():
                self._due_s = now + self._rng.random() * self._round_s
                me = Member(self._id, "member", self._incarnation, self._logger)
                return [Send(self._others, Join(me)), Became("member")]
        return []

    def _on_data(self, data: Data) -> list[Effect]:
        packet = data.packet
        expected = self._next.get(packet.stream, 0)
        if packet.first < expected:
            return []
        self._next[packet.stream] = packet.last + 1
        effects: list[Effect] = []
        if packet.first > expected:
            effects.append(Skip(packet.stream, expected, packet.first - 1, "lost"))
        effects.append(Deliver(packet))
        if self._logger:
            self._tokens += 1
            self._unsynced[self._tokens] = (data.origin, packet)
            effects.append(Persist(self._tokens, (packet,)))
        return effects
