"""The production core with one slow consumer: the third curve of 000 §5.4.1, beside the model and the simulation.

One publisher offers messages of `traffic.overwrites` at a fixed rate; of two members one takes each delivery at once,
and the other needs a fixed delay for it; both have a queue of `buffer` events. Purging and back-pressure are both on
(row S10), so the publisher is refused when the slow one has no room, and waits until it is told to go on.

    publisher ── broker p ──┬── broker f ── queue ── fast consumer
                            ├── broker s ── queue ── slow consumer
                            └── logger L

`tolerated_s` asks for how long the slow one may stop altogether before the publisher feels it (000 §5.4.3).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from gossamer.lab.application import Consumer
from gossamer.lab.mesh import Mesh
from gossamer.lab.observer import Observer
from gossamer.lab.topology import uniform
from gossamer.lab.traffic import overwrites
from gossamer.lab.world import World
from gossamer.messages.event import Content, Event
from gossamer.messages.ids import DEFAULT_GROUP, EventId
from gossamer.protocol.config import Config, Group
from gossamer.protocol.effects import Ready, Refused
from gossamer.protocol.purging import Semantic

LATENCY_S = 0.0002
"""A machine room: the model knows of no way between sender and receiver."""
WARMUP_S = 20.0
"""Not counted, as in the simulation (000 §5.3.3)."""
ROUND_S = 1.0
"""Nothing is lost here, so rounds only keep the mesh together; acknowledgements come by themselves."""

State = dict[tuple[str, str], Event]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one consumer got, when everything had come to rest."""

    applied: list[EventId]
    omitted: dict[EventId, EventId]
    """What was left out, and what for."""
    state: State
    """The last event of each key."""
    applied_s: list[float]
    """When it got each of `applied`."""


Pace = Callable[[Content], float]
"""When a message is to be said, from when the publisher began."""


@dataclass(frozen=True, slots=True)
class Measured:
    rate: float
    """Events a second that the publisher got accepted, after the warm-up."""
    published: list[Content]
    """All that was accepted, in order: the n-th has seq n."""
    published_s: list[float]
    """When each of them was."""
    refusals: int
    fast: Seen
    slow: Seen


def measure_real(
    r: float,
    delay_ms: float,
    *,
    sender_rate: float = 100.0,
    buffer: int = 20,
    diversity: int = 1,
    duration_s: float = 120.0,
    seed: int = 1,
) -> float:
    """Events a second that the publisher got accepted."""
    contents = overwrites(Random(f"{seed}/{r}"), r, diversity)
    return measure(contents, delay_ms, sender_rate=sender_rate, buffer=buffer, duration_s=duration_s, seed=seed).rate


def measure(
    contents: Iterator[Content],
    delay_ms: float,
    *,
    sender_rate: float = 100.0,
    buffer: int = 20,
    duration_s: float = 120.0,
    warmup_s: float = WARMUP_S,
    seed: int = 1,
    purging: bool = True,
    members: int = 3,
    pace: Pace | None = None,
) -> Measured:
    """Let the publisher offer `contents` for the warm-up and `duration_s`; then let everything come to rest. Of the
    `members` one publishes, one is slow, and all others are fast."""
    mesh = _mesh(purging, members, seed)
    semantic: Semantic = "eager" if purging else "off"
    fast, slow = (
        Witness(mesh.world, node, delay_s=delay_s, events_max=buffer, semantic=semantic)
        for node, delay_s in (("f", 0.0), ("s", delay_ms / 1e3))
    )
    publisher = Publisher(mesh.world, "p", mesh.stream("p"), contents, sender_rate, pace)
    mesh.run(warmup_s)
    before, begun_s = len(publisher.accepted), mesh.world.now_s
    mesh.run(duration_s)
    rate = (len(publisher.accepted) - before) / (mesh.world.now_s - begun_s)
    publisher.stop()
    assert mesh.world.run_until(lambda: fast.idle and slow.idle and mesh.progress.settled(), 600.0, every_s=1.0), (
        mesh.lacking()
    )
    seen = [Seen(each.applied, each.omitted, each.state, each.applied_s) for each in (fast, slow)]
    return Measured(rate, publisher.accepted, publisher.accepted_s, publisher.refusals, *seen)


def tolerated_s(
    contents: Iterator[Content],
    stop_s: float,
    *,
    sender_rate: float = 100.0,
    buffer: int = 20,
    limit_s: float = 30.0,
    seed: int = 1,
    purging: bool = True,
    pace: Pace | None = None,
) -> float:
    """The slow consumer, who was fast until then, stops for good: how long until the publisher is refused."""
    mesh = _mesh(purging, 3, seed)
    semantic: Semantic = "eager" if purging else "off"
    slow = Witness(mesh.world, "s", events_max=buffer, semantic=semantic)
    publisher = Publisher(mesh.world, "p", mesh.stream("p"), contents, sender_rate, pace)
    mesh.run(stop_s)
    slow.delay_s = 2 * limit_s
    stopped_s = mesh.world.now_s
    mesh.world.run_until(lambda: publisher.refusals > 0, limit_s)
    return mesh.world.now_s - stopped_s


def _mesh(purging: bool, members: int, seed: int) -> Mesh:
    config = Config(
        groups={DEFAULT_GROUP: Group(purging=purging, backpressure=True)},
        round_interval_s=ROUND_S,
    )
    brokers = ["p", "f", "s", *(f"f{number}" for number in range(3, members))]
    return Mesh(brokers, "L", config=config, seed=seed, topology=uniform(LATENCY_S), wire=False)


class Witness(Consumer):
    """Remembers when it got what."""

    def __init__(
        self, world: World, node: str, *, delay_s: float = 0.0, events_max: int = 1_024, semantic: Semantic = "eager"
    ) -> None:
        self.applied_s: list[float] = []
        super().__init__(
            world,
            node,
            delay_s=delay_s,
            events_max=events_max,
            semantic=semantic,
            on_applied=lambda at_s, _: self.applied_s.append(at_s),
        )


class Publisher(Observer):
    """Says a message, waits until it is accepted, and says the next one a period later (000 §5.1), or when due."""

    def __init__(
        self,
        world: World,
        node: str,
        stream: str,
        contents: Iterator[Content],
        rate: float,
        pace: Pace | None = None,
    ) -> None:
        self.accepted: list[Content] = []
        self.accepted_s: list[float] = []
        self.refusals = 0
        self._world = world
        self._node = node
        self._stream = stream
        self._contents = contents
        self._period_s = 1 / rate
        self._pace = pace
        self._begun_s = world.now_s
        self._saying: Content | None = None
        self._said_s = 0.0
        self._refused = False
        self._stopped = False
        world.observe(self)
        world.at(world.now_s, self._say)

    def stop(self) -> None:
        """Say nothing more; what is refused now stays unsaid."""
        self._stopped = True

    def refused(self, at_s: float, node: str, refused: Refused) -> None:
        if refused.stream == self._stream:
            self._refused = True
            self.refusals += 1

    def ready(self, at_s: float, node: str, ready: Ready) -> None:
        if ready.stream == self._stream and self._refused:
            self._world.at(at_s, self._offer)  # not from within the step that told us

    def _say(self) -> None:
        if self._stopped:
            return
        self._saying = next(self._contents, None)
        if self._saying is None:
            return
        due_s = self._begun_s + self._pace(self._saying) if self._pace is not None else 0.0
        if due_s > self._world.now_s:
            self._world.at(due_s, self._offer)
        else:
            self._offer()

    def _offer(self) -> None:
        if self._saying is None or self._stopped:
            return
        self._refused = False
        self._world.publish(self._node, self._stream, (self._saying,))
        if not self._refused:
            self.accepted.append(self._saying)
            self.accepted_s.append(self._world.now_s)
            self._saying = None
            self._world.at(self._world.now_s + (self._period_s if self._pace is None else 0.0), self._say)
