"""Bimodal multicast (Birman et al. 1999), as 004 §7 compares it with rpbcast: push gossip, and no logger.

After the multicast, every member tells one other each round what it has: a digest of its buffer, as intervals. Who
lacks some of it asks for it, and gets it from the one that told. A packet is collected after so many rounds; who has
not been told of it by then never gets it.

In the words of the wire, a digest is a `Gossip` whose spans are what there is to have. Members are drawn by the
distances given to the constructor, with the bias of protocol/selection.py: nothing is measured.
"""

import random
from collections import deque
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from gossamer.lab.baselines.lbrm import Service
from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Data, Gossip, Repair, Request, Span
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Became, Deliver, Effect, Send
from gossamer.protocol.inputs import Input, Publish, Received, Start, Wake
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.selection import POWER, weights


class Pbcast:
    def __init__(
        self,
        node: str,
        config: Config,
        rng: random.Random,
        *,
        peers: tuple[str, ...] = (),
        rtt_s: Mapping[str, float] | None = None,
        **_: Any,
    ) -> None:
        self._id = node
        self._config = config
        self._rng = rng
        self._others = tuple(peer for peer in peers if peer != node)
        distances = [(rtt_s or {}).get(peer) for peer in self._others]
        self._weights = list(accumulate(weights(distances, POWER[config.selection])))
        self._service = Service(config.service_limit_per_s)
        self._next: dict[str, int] = {}
        self._has: dict[str, IntervalSet] = {}
        self._buffer: dict[str, dict[int, Packet]] = {}
        self._held: dict[str, IntervalSet] = {}
        """What is in the buffer, as it is told."""
        self._ages: deque[tuple[int, str, int]] = deque()
        """In which round each packet of the buffer came."""
        self._round = 0
        self._due_s = 0.0

    def next_deadline(self) -> float:
        return self._due_s

    def handle(self, given: Input, now: float, /) -> list[Effect]:
        match given:
            case Received(sender, message):
                match message:
                    case Data(packet=packet):
                        return self._take(packet)
                    case Repair():
                        return [effect for packet in message.packets for effect in self._take(packet)]
                    case Gossip():
                        return self._on_digest(sender, message)
                    case Request():
                        return self._on_request(sender, message, now)
            case Publish(stream, contents):
                packet = pack(stream, self._next.get(stream, 0), contents)
                self._next[stream] = packet.last + 1
                return [*self._take(packet), Send(self._others, Data(self._id, packet))]
            case Wake():
                self._due_s = now + self._config.round_interval_s
                return self._on_round()
            case Start():
                self._due_s = now + self._rng.random() * self._config.round_interval_s
                return [Became("member")]
        return []

    def _take(self, packet: Packet) -> list[Effect]:
        stream, seq = packet.stream, packet.first
        has = self._has.setdefault(stream, IntervalSet())
        if seq in has:
            return []
        has.add(seq, seq)
        self._buffer.setdefault(stream, {})[seq] = packet
        self._held.setdefault(stream, IntervalSet()).add(seq, seq)
        self._ages.append((self._round, stream, seq))
        return [Deliver(packet)]

    def _on_round(self) -> list[Effect]:
        self._round += 1
        while self._ages and self._ages[0][0] < self._round - self._config.gclimit_rounds:
            _, stream, seq = self._ages.popleft()
            del self._buffer[stream][seq]
            self._held[stream].remove(seq, seq)
        if not self._others:
            return []
        (target,) = self._rng.choices(self._others, cum_weights=self._weights)
        digest = tuple(Span(stream, held.ranges()) for stream, held in self._held.items() if held)
        return [Send((target,), Gossip(self._round, digest, 0, 0))]

    def _on_digest(self, sender: str, digest: Gossip) -> list[Effect]:
        lacks = []
        for span in digest.lacks:
            has = self._has.setdefault(span.stream, IntervalSet())
            ranges = tuple(gap for first, last in span.ranges for gap in has.gaps(first, last))
            if ranges:
                lacks.append(Span(span.stream, ranges))
        return [Send((sender,), Request(tuple(lacks)))] if lacks else []

    def _on_request(self, sender: str, request: Request, now: float) -> list[Effect]:
        return [
            Send((sender,), Repair((packets[seq],)))
            for span in request.lacks
            for packets in (self._buffer.get(span.stream, {}),)
            for first, last in span.ranges
            for seq in range(first, last + 1)
            if seq in packets and self._service.takes(now)
        ]
