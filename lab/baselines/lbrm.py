"""Log-based receiver-reliable multicast (Holbrook, Singhal, Cheriton 1995), as 004 §7 compares it with rpbcast.

Senders multicast, keep what the logger has not acknowledged, send it to the logger again every 0.25 s, and say how far
they are by heartbeats when they are idle: after 0.25 s, then at twice the interval each time, up to 32 s. Who finds
that it lacks something asks the logger at once, and again every 0.25 s. The logger answers so many requests a second
and drops the others. It collects nothing, and membership is somebody else's.
"""

import random
from typing import Any

from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Beat, Data, Idle, Position, Positions, Recover, Repair, Span
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Became, Deliver, Effect, Send
from gossamer.protocol.inputs import Input, Publish, Received, Start, Wake
from gossamer.protocol.intervals import IntervalSet

NEVER = float("inf")
HEARTBEAT_S, HEARTBEAT_MAX_S, BACKOFF = 0.25, 32.0, 2.0
RESEND_S = 0.25

Id = tuple[str, int]
"""A stream and a seq."""


class Service:
    """How many repairs a node makes: so many a second, in bursts of a quarter of a second's (protocol/logger.py)."""

    def __init__(self, limit_per_s: float) -> None:
        self._limit = limit_per_s
        self._tokens = limit_per_s / 4
        self._at_s = 0.0

    def takes(self, now: float) -> bool:
        self._tokens = min(self._limit / 4, self._tokens + (now - self._at_s) * self._limit)
        self._at_s = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Lbrm:
    """A member, or with `logger` the logger, which is a member as well."""

    def __init__(
        self,
        node: str,
        config: Config,
        rng: random.Random,
        *,
        peers: tuple[str, ...] = (),
        logger: bool = False,
        loggers: tuple[str, ...] = (),
        **_: Any,
    ) -> None:
        del rng
        self._id = node
        self._others = tuple(peer for peer in peers if peer != node)
        self._logger = logger
        self._loggers = loggers
        self._service = Service(config.service_limit_per_s)
        self._next: dict[str, int] = {}
        self._unlogged: dict[Id, tuple[float, Packet]] = {}
        """What no logger acknowledged, and when it was sent last; the oldest first, like what is missing."""
        self._has: dict[str, IntervalSet] = {}
        self._last: dict[str, int] = {}
        """How far each stream is known to reach."""
        self._log: dict[Id, Packet] = {}
        self._missing: dict[Id, float] = {}
        """When each was asked for last."""
        self._beat_s = NEVER
        self._beat_interval_s = HEARTBEAT_S

    def next_deadline(self) -> float:
        sent_s = next(iter(self._unlogged.values()))[0] if self._unlogged else NEVER
        asked_s = next(iter(self._missing.values())) if self._missing else NEVER
        return min(sent_s + RESEND_S, asked_s + RESEND_S, self._beat_s)

    def handle(self, given: Input, now: float, /) -> list[Effect]:
        match given:
            case Received(sender, message):
                match message:
                    case Data():
                        return self._on_data(message, now)
                    case Repair():
                        return [effect for packet in message.packets for effect in self._take(packet)]
                    case Idle():
                        return self._request(
                            [gap for beat in message.beats for gap in self._learn(beat.stream, beat.last, now)]
                        )
                    case Recover():
                        return self._on_recover(sender, message, now)
                    case Positions():
                        for position in message.vector:
                            self._unlogged.pop((position.stream, position.last), None)
            case Publish(stream, contents):
                return self._publish(stream, contents, now)
            case Wake():
                return [*self._resend(now), *self._ask_again(now), *self._beat(now)]
            case Start():
                return [Became("member")]
        return []

    # Sender ---------------------------------------------------------------------------------------------------------

    def _publish(self, stream: str, contents: Any, now: float) -> list[Effect]:
        packet = pack(stream, self._next.get(stream, 0), contents)
        self._next[stream] = packet.last + 1
        if not self._logger:
            self._unlogged[stream, packet.first] = now, packet
        self._beat_interval_s = HEARTBEAT_S
        self._beat_s = now + HEARTBEAT_S
        return [*self._take(packet), Send(self._others, Data(self._id, packet))]

    def _resend(self, now: float) -> list[Effect]:
        late = [event for event, (sent_s, _) in self._unlogged.items() if sent_s + RESEND_S <= now]
        effects: list[Effect] = []
        for event in late:
            _, packet = self._unlogged.pop(event)
            self._unlogged[event] = now, packet
            effects.append(Send(self._loggers, Data(self._id, packet)))
        return effects

    def _beat(self, now: float) -> list[Effect]:
        if self._beat_s > now:
            return []
        self._beat_interval_s = min(BACKOFF * self._beat_interval_s, HEARTBEAT_MAX_S)
        self._beat_s = now + self._beat_interval_s
        beats = tuple(Beat(stream, following - 1) for stream, following in self._next.items())
        return [Send(self._others, Idle(beats))]

    # Receiver -------------------------------------------------------------------------------------------------------

    def _on_data(self, data: Data, now: float) -> list[Effect]:
        packet = data.packet
        gaps = self._learn(packet.stream, packet.first - 1, now)
        effects = self._take(packet)
        if self._logger:
            ack = Positions(1, 1, 0, 0, (Position(packet.stream, packet.first),))
            effects.append(Send((data.origin,), ack))
        return [*effects, *self._request(gaps)]

    def _learn(self, stream: str, last: int, now: float) -> list[Id]:
        """A stream reaches so far: what of it was not known to exist is missing. The logger has nobody to ask: senders
        send it what it did not acknowledge."""
        known = self._last.get(stream, -1)
        if last <= known:
            return []
        self._last[stream] = last
        gaps = [] if self._logger else [(stream, seq) for seq in range(known + 1, last + 1)]
        self._missing.update(dict.fromkeys(gaps, now))
        return gaps

    def _take(self, packet: Packet) -> list[Effect]:
        stream, seq = packet.stream, packet.first
        self._last[stream] = max(self._last.get(stream, -1), seq)
        self._missing.pop((stream, seq), None)
        has = self._has.setdefault(stream, IntervalSet())
        if seq in has:
            return []
        has.add(seq, seq)
        if self._logger:
            self._log[stream, seq] = packet
        return [Deliver(packet)]

    def _request(self, gaps: list[Id]) -> list[Effect]:
        return [Send(self._loggers, Recover(_spans(gaps)))] if gaps else []

    def _ask_again(self, now: float) -> list[Effect]:
        late = [event for event, asked_s in self._missing.items() if asked_s + RESEND_S <= now]
        for event in late:
            del self._missing[event]
            self._missing[event] = now
        return self._request(late)

    # Logger ---------------------------------------------------------------------------------------------------------

    def _on_recover(self, sender: str, message: Recover, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for span in message.lacks:
            for first, last in span.ranges:
                for seq in range(first, last + 1):
                    packet = self._log.get((span.stream, seq))
                    if packet is not None and self._service.takes(now):
                        effects.append(Send((sender,), Repair((packet,))))
        return effects


def _spans(events: list[Id]) -> tuple[Span, ...]:
    """In as few ranges as there are."""
    streams: dict[str, IntervalSet] = {}
    for stream, seq in events:
        streams.setdefault(stream, IntervalSet()).add(seq, seq)
    return tuple(Span(stream, seqs.ranges()) for stream, seqs in streams.items())
