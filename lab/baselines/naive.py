"""The naive composition of gossip and purging (003 §2.3, §4.3): purging in the gossip protocol's own buffer.

Messages wait in one buffer until the next gossip period, when all of it goes to `fanout` random members; what a newer
message obsoletes is purged while it waits. There is something to purge only if the period is long, so purging is paid
for by latency, and happens whether the network is busy or not.
"""

import random
from typing import Any

from gossamer.messages.packet import pack
from gossamer.messages.wire import Data
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Became, Deliver, Effect, Send
from gossamer.protocol.inputs import Input, Publish, Received, Start, Wake


class NaivePsrm:
    def __init__(self, node: str, config: Config, rng: random.Random, *, peers: tuple[str, ...] = (), **_: Any) -> None:
        self._id = node
        self._config = config
        self._rng = rng
        self._others = [peer for peer in peers if peer != node]
        self._seen: set[tuple[str, int]] = set()
        self._next: dict[str, int] = {}
        self._buffer: dict[tuple[str, int], Data] = {}
        self._newest: dict[tuple[str, str], int] = {}
        """The newest seq of each stream and key: older ones are obsolete."""
        self._due_s = 0.0

    def next_deadline(self) -> float:
        return self._due_s

    def handle(self, given: Input, now: float, /) -> list[Effect]:
        match given:
            case Received(_, Data() as data):
                return self._take(data)
            case Publish(stream, contents):
                packet = pack(stream, self._next.get(stream, 0), contents)
                self._next[stream] = packet.last + 1
                return self._take(Data(self._id, packet, self._config.hops))
            case Wake():
                self._due_s = now + self._config.round_interval_s
                return self._gossip()
            case Start():
                self._due_s = now + self._rng.random() * self._config.round_interval_s
                return [Became("member")]
        return []

    def _take(self, data: Data) -> list[Effect]:
        packet = data.packet
        message = (packet.stream, packet.first)
        if message in self._seen:
            return []
        self._seen.add(message)
        if not self._purge(packet.stream, packet.first, packet.heads()[0][1].key) and data.hops:
            self._buffer[message] = Data(data.origin, packet, data.hops - 1)
        return [Deliver(packet)]

    def _purge(self, stream: str, seq: int, key: str | None) -> bool:
        """Take out what this message obsoletes; whether it is obsolete itself."""
        if key is None:
            return False
        newest = self._newest.get((stream, key), -1)
        if newest > seq:
            return True
        self._newest[stream, key] = seq
        self._buffer.pop((stream, newest), None)
        return False

    def _gossip(self) -> list[Effect]:
        targets = tuple(self._rng.sample(self._others, min(len(self._others), self._config.fanout)))
        sends: list[Effect] = [Send(targets, data) for data in self._buffer.values()]
        self._buffer.clear()
        return sends
