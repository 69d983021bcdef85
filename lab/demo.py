"""The demonstration: a mesh under 10 % loss is cut in two, heals, and ends with everyone having everything.

It runs the production protocol in virtual time and is watched by the same checkers as the swarm.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.lab.checkers import SERIAL, Checker
from gossamer.lab.faults import Delay, Loss, Partition
from gossamer.lab.names import stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.world import World
from gossamer.messages.event import Content
from gossamer.messages.wire import Data, Message, Repair
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Acked, Deliver, Skip

BROKERS = tuple(f"broker-{number}" for number in range(1, 9))
LOGGERS = ("logger-1", "logger-2")
LEFT = (*BROKERS[:5], "logger-1")
RIGHT = (*BROKERS[5:], "logger-2")
PUBLISH_EVERY_S = 0.05
BATCH = 5


@dataclass(frozen=True)
class Scene:
    """What is going on from a point in time."""

    at_s: float
    title: str


SCENES = (
    Scene(0.0, "calm"),
    Scene(2.0, "10 % loss"),
    Scene(4.0, "10 % loss, cut in two: a logger and some brokers on either side"),
    Scene(7.0, "healed, but still 10 % loss"),
    Scene(9.0, "no more publishing, 10 % loss"),
)
END_S = 9.0


class Tally(Observer):
    """Who has how much, and where the repairs came from."""

    def __init__(self) -> None:
        self.published_events = 0
        self.delivered_events: dict[str, int] = {}
        self.skipped_events = 0
        self.logged: dict[str, int] = {}
        self.lost_messages = 0
        self.repaired_by_peers = 0
        self.repaired_by_loggers = 0
        self.sent_again = 0
        self._packets: set[tuple[str, int]] = set()

    def published(self, at_s: float, node: str, stream: str, contents: tuple[Content, ...]) -> None:
        self.published_events += len(contents)

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        self.delivered_events[node] = self.delivered_events.get(node, 0) + deliver.packet.count

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        self.skipped_events += skip.last - skip.first + 1

    def acked(self, at_s: float, node: str, acked: Acked) -> None:
        self.logged[acked.stream] = acked.last + 1

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        if isinstance(message, Repair):
            if node in LOGGERS:
                self.repaired_by_loggers += len(message.packets) * len(to)
            else:
                self.repaired_by_peers += len(message.packets) * len(to)
        elif isinstance(message, Data):
            packet = (message.packet.stream, message.packet.first)
            self.sent_again += packet in self._packets
            self._packets.add(packet)

    def lost(self, at_s: float, node: str, to: str, message: Message) -> None:
        self.lost_messages += 1


class Demo:
    """The mesh of the demonstration; `play` yields after every step of virtual time."""

    def __init__(self, seed: int) -> None:
        config = Config(faults=1)
        self.tally = Tally()
        self.checker = Checker(config.loggers_min, config.retain_s, config.expire_s)
        self.world = World(seed, config=config, wire=True)
        self.world.observe(self.checker)
        self.world.observe(self.tally)
        for name in LOGGERS:
            self.world.add(name, logger=True, peers=LOGGERS)
        for name in BROKERS:
            self.world.add(name, peers=LOGGERS)
        self._serial = 0
        self._start_s = 0.0

    @property
    def at_s(self) -> float:
        return self.world.now_s - self._start_s

    @property
    def scene(self) -> Scene:
        if self.finished:
            return Scene(self.at_s, "everyone has everything")
        return next(scene for scene in reversed(SCENES) if scene.at_s <= self.at_s)

    @property
    def finished(self) -> bool:
        return self.at_s >= END_S and self.checker.owing() is None

    def play(self, step_s: float = 0.1, limit_s: float = 120.0) -> Iterator[None]:
        self.world.run_until(lambda: self.checker.outsider() is None, 30.0)
        self._start_s = start_s = self.world.now_s
        for broker in BROKERS:
            self.world.at(start_s, self._publish, broker)
        self.world.at(start_s + 2.0, self.world.add_rule, Loss(0.1))
        self.world.at(start_s + 2.0, self.world.add_rule, Delay(exp_ms=3.0))
        cut = Partition(LEFT, RIGHT, start_s=start_s + 4.0, stop_s=start_s + 7.0)
        self.world.at(start_s + 4.0, self.world.add_rule, cut)
        while not self.finished and self.at_s < limit_s:
            self.world.run(self.world.now_s + step_s)
            yield

    def _publish(self, broker: str) -> None:
        if self.at_s >= END_S:
            return
        contents = []
        for _ in range(BATCH):
            self._serial += 1
            contents.append(Content(attributes={SERIAL: self._serial}))
        self.world.publish(broker, stream_of(broker, 1), tuple(contents))
        self.world.at(self.world.now_s + PUBLISH_EVERY_S, self._publish, broker)
