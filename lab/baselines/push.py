"""Plain push gossip over links that admit what their bandwidth takes (003 §3.1 without its middle tier's semantics).

A message is passed on to `fanout` random members on first receipt, for `hops` hops. A link that is busy queues; a full
queue drops one of its messages at random. There is neither order nor repair.
"""

import random
from heapq import heappop, heappush
from typing import Any

from gossamer.messages.packet import pack
from gossamer.messages.wire import Data
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Became, Deliver, Effect, Send
from gossamer.protocol.inputs import Input, Publish, Received, Start, Wake
from gossamer.protocol.links import cost

NEVER = float("inf")


class PushGossip:
    def __init__(self, node: str, config: Config, rng: random.Random, *, peers: tuple[str, ...] = (), **_: Any) -> None:
        assert config.link_bandwidth_bps is not None
        self._id = node
        self._config = config
        self._rng = rng
        self._others = [peer for peer in peers if peer != node]
        self._bytes_per_s = config.link_bandwidth_bps / 8
        self._seen: set[tuple[str, int]] = set()
        self._next: dict[str, int] = {}
        self._waiting: dict[str, list[Data]] = {peer: [] for peer in self._others}
        self._free_s = dict.fromkeys(self._others, 0.0)
        self._due: list[tuple[float, str]] = []
        """When each link with something waiting is free."""

    def next_deadline(self) -> float:
        return self._due[0][0] if self._due else NEVER

    def handle(self, given: Input, now: float, /) -> list[Effect]:
        match given:
            case Received(sender, Data() as data):
                return self._take(data, now, sender)
            case Publish(stream, contents):
                packet = pack(stream, self._next.get(stream, 0), contents)
                self._next[stream] = packet.last + 1
                return self._take(Data(self._id, packet, self._config.hops), now, self._id)
            case Wake():
                return self._drain(now)
            case Start():
                return [Became("member")]
        return []

    def _take(self, data: Data, now: float, sender: str) -> list[Effect]:
        packet = data.packet
        if (packet.stream, packet.first) in self._seen:
            return []
        self._seen.add((packet.stream, packet.first))
        effects: list[Effect] = [Deliver(packet)]
        if data.hops:
            onward = Data(data.origin, packet, data.hops - 1)
            others = [node for node in self._others if node not in (sender, data.origin)]
            for node in self._rng.sample(others, min(len(others), self._config.fanout)):
                self._offer(node, onward, now, effects)
        return effects

    def _offer(self, node: str, data: Data, now: float, effects: list[Effect]) -> None:
        waiting = self._waiting[node]
        if not waiting and self._free_s[node] <= now:
            self._send(node, data, now, effects)
            return
        if not waiting:
            heappush(self._due, (self._free_s[node], node))
        if len(waiting) >= self._config.link_buffer_events_max:
            del waiting[self._rng.randrange(len(waiting))]
        waiting.append(data)

    def _drain(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._due and self._due[0][0] <= now:
            _, node = heappop(self._due)
            self._send(node, self._waiting[node].pop(0), now, effects)
            if self._waiting[node]:
                heappush(self._due, (self._free_s[node], node))
        return effects

    def _send(self, node: str, data: Data, now: float, effects: list[Effect]) -> None:
        self._free_s[node] = now + cost(data.packet) / self._bytes_per_s
        effects.append(Send((node,), data))
