"""What a node spends on an event that arrives, on top of decoding it, and how that grows with the number of streams.

A steady state is measured, not a first contact: packets come round-robin over all streams at a fixed rate, rounds run
when they are due, the gossip buffer is full and is collected, the others answer and acknowledge what they got. Each
burst is decoded, handled and opened in turn, as a broker does it, and the three are timed apart.
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from gossamer.bench import measure
from gossamer.bench.measure import Row
from gossamer.messages import codec
from gossamer.messages.event import Content
from gossamer.messages.ids import anonymous_stream
from gossamer.messages.packet import Packet, pack
from gossamer.messages.wire import Data, Echo, Gossip, Member, Position, Positions
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Effect, Persist, Send
from gossamer.protocol.inputs import Persisted, Received, Start, Wake
from gossamer.protocol.node import Node

NAME = "receiving"
EVENTS = 64
BURST = 50
PACKETS_PER_S = 4_000
"""A quarter of a million events a second: what is kept for gclimit rounds is some 11,000 packets, 40 MB."""
PERIOD = PACKETS_PER_S // BURST
"""Members tell their positions once a second, `positions_rounds` rounds of `round_interval_s`. So the burst at one
place of a second has the same work to do as in any other second, and the least of their costs counts."""
BROKERS = tuple(f"b{number}" for number in range(8))
LOGGER = "logger"

_WAKE = Wake()


class Cost(NamedTuple):
    """Processor time in seconds."""

    decode_s: float
    handle_s: float
    events_s: float


class Receiving:
    """A node among eight brokers and a logger, and what reaches it."""

    def __init__(self, streams: int, logger: bool) -> None:
        me = LOGGER if logger else "me"
        roster = tuple(Member(name, "member", 1, name == LOGGER) for name in dict.fromkeys((me, LOGGER, *BROKERS)))
        self.node = Node(me, Config(), random.Random(1), logger=logger, roster=roster)
        self.node.handle(Start(), 0.0)
        self._logger = logger
        self._traffic = _traffic(streams)
        self._packets = 0
        self._versions = count(1)
        self._news: dict[str, int] = {}
        """How far each stream has got, if it has since the others last told their positions."""

    def run(self, bursts: int) -> list[Cost]:
        """Take in so many bursts; returns what each of them cost."""
        costs = []
        for _ in range(bursts):
            frames = [codec.encode(next(self._traffic)) for _ in range(BURST)]
            told = self._told()
            start_s = time.process_time()
            burst = [_decode(frame) for frame in frames]
            decoded_s = time.process_time()
            self._handle(told)
            self._handle([Received(data.origin, data) for data in burst])
            handled_s = time.process_time()
            for data in burst:
                data.packet.events()
            opened_s = time.process_time()
            costs.append(Cost(decoded_s - start_s, handled_s - decoded_s, opened_s - handled_s))
            self._news |= {data.packet.stream: data.packet.last for data in burst}
        return costs

    def _handle(self, received: Sequence[Received]) -> None:
        node = self.node
        for each in received:
            if type(each.message) is Data:
                self._packets += 1
            now = self._packets / PACKETS_PER_S
            while (due := node.next_deadline()) <= now:
                self._answer(node.handle(_WAKE, due), due)
            effects = node.handle(each, now)
            if self._logger:
                for effect in effects:
                    if type(effect) is Persist:
                        node.handle(Persisted(effect.token), now)

    def _answer(self, effects: list[Effect], now: float) -> None:
        """The others are well: they answer gossip, and confirm positions."""
        for effect in effects:
            if type(effect) is Send:
                message = effect.message
                for name in effect.to:
                    if type(message) is Gossip:
                        self.node.handle(Received(name, Echo(message.round)), now)
                    elif type(message) is Positions and message.version:
                        confirmation = Positions(1, 0, message.version, message.members_root, ())
                        self.node.handle(Received(name, confirmation), now)

    def _told(self) -> list[Received]:
        """Now and then the logger tells what is on its disk (to a logger: every broker what it received)."""
        if self._packets % PACKETS_PER_S:
            return []
        vector = tuple(Position(stream, last) for stream, last in self._news.items())
        self._news.clear()
        positions = Positions(1, next(self._versions), 0, self.node.membership.table.root, vector)
        # Through the codec: so that nobody shares a string with what is received later.
        frame = codec.encode(positions)
        return [Received(name, codec.decode(frame)) for name in (BROKERS if self._logger else (LOGGER,))]


def _traffic(streams: int) -> Iterator[Data]:
    """Packets without end, round-robin over the streams; all carry the same quotes."""
    quote = Content(key="IBM", attributes={"type": "quote", "symbol": "IBM", "price": 101.5}, body=b"0123456789abcdef")
    model = pack("default/~model.0", 0, (quote,) * EVENTS)
    origins = [BROKERS[number % len(BROKERS)] for number in range(streams)]
    names = [anonymous_stream("default", f"{origin}-1", number) for number, origin in enumerate(origins)]
    for lap in count():
        for origin, name in zip(origins, names, strict=True):
            yield Data(origin, Packet(name, lap * EVENTS, model.sizes, model.blob))


def _decode(frame: bytes) -> Data:
    data = codec.decode(frame)
    assert isinstance(data, Data)
    return data


def least(seconds: Iterable[Sequence[Cost]]) -> Cost:
    """µs an event, from the costs of the same bursts again and again."""
    bursts = [Cost(*map(min, zip(*same, strict=True))) for same in zip(*seconds, strict=True)]
    return Cost(*(sum(parts) * 1e6 / (len(bursts) * BURST * EVENTS) for parts in zip(*bursts, strict=True)))


def rows(quick: bool = False) -> list[Row]:
    streams = (10, 200) if quick else (10, 1_000, 10_000)
    bursts, warm_up, repetitions = (4, 8, 2) if quick else (PERIOD, 4 * PERIOD, 7)
    cases = {(number, logger): Receiving(number, logger) for logger in (False, True) for number in streams}
    for case in cases.values():  # every stream known, the gossip buffer full, rounds under way
        case.run(warm_up)
    with measure.undisturbed():
        costs = measure.take_turns({which: partial(case.run, bursts) for which, case in cases.items()}, repetitions)
    best = {which: least(each) for which, each in costs.items()}

    few, many = streams[0], streams[-1]
    member, logger = ({number: best[number, role].handle_s for number in streams} for role in (False, True))
    us = "µs an event"
    return [
        Row(NAME, "decode a frame, to compare with", best[few, False].decode_s, us),
        Row(NAME, "open its packet, to compare with", best[few, False].events_s, us),
        *(
            Row(NAME, f"handle, {number:,} streams", member[number], us, 0.5 if number in (few, many) else None)
            for number in streams
        ),
        Row(NAME, f"handle, {many:,} streams against {few}", member[many] / member[few], "×", 1.3),
        Row(NAME, "all of it, likewise", sum(best[many, False]) / sum(best[few, False]), "×"),
        *(Row(NAME, f"handle as a logger, {number:,} streams", logger[number], us) for number in streams),
        Row(NAME, "as a logger, likewise", logger[many] / logger[few], "×"),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
