"""A mesh in a sentence, for tests:

mesh = Mesh(brokers="abc", loggers="L")
mesh.isolate("c")
mesh.publish("a", 3)
mesh.heal()
mesh.settle()
assert mesh.delivered("c") == ["a:0", "a:1", "a:2"]
"""

from collections.abc import Callable, Iterable
from itertools import islice

from gossamer.lab.faults import DropIf, Isolate, Loss, Partition, Rule
from gossamer.lab.names import ids, seqs, stream_of
from gossamer.lab.observer import Observer
from gossamer.lab.progress import Progress
from gossamer.lab.topology import Topology
from gossamer.lab.world import NodeFactory, World
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content, Value
from gossamer.messages.ids import DEFAULT_GROUP, named_stream
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Message
from gossamer.protocol.config import Config
from gossamer.protocol.durable import durable_id
from gossamer.protocol.effects import Acked, Attached, Deliver, Skip
from gossamer.protocol.inputs import Attach, Close, Detach, Disconnect, Expel, Leave, Mark, Open, Reconnect

CONTACTS_MAX = 8
"""How many peers a node is configured with: all of a small mesh; in a large one nobody is told of everybody."""


class Mesh:
    def __init__(
        self,
        brokers: Iterable[str] = "abc",
        loggers: Iterable[str] = "",
        *,
        seed: int = 1,
        config: Config | None = None,
        topology: Topology | None = None,
        node_factory: NodeFactory | None = None,
        observers: Iterable[Observer] = (),
        wire: bool = True,
        join_limit_s: float = 60.0,
    ) -> None:
        """A mesh in which everybody is a member already. Brokers and loggers are names, a letter each if in a string;
        the first of all founds it."""
        self.world = World(seed, config=config, topology=topology, node_factory=node_factory, wire=wire)
        self.progress = Progress()
        self.applications = Applications()
        for observer in (self.progress, self.applications, *observers):
            self.world.observe(observer)
        for name in loggers:
            self._add(name, logger=True)
        for name in brokers:
            self._add(name, logger=False)
        self._introduce()
        if not self.world.run_until(self._all_in, join_limit_s):
            raise AssertionError(f"after {join_limit_s} s not all are members: {self.progress.status}")

    # What happens ---------------------------------------------------------------------------------------------------

    def run(self, duration_s: float) -> None:
        self.world.run(self.world.now_s + duration_s)

    def settle(self, limit_s: float = 120.0, every_s: float = 0.0) -> bool:
        """Run until everybody who is up and in has everything (looking every `every_s`); False if the limit came."""
        return self.world.run_until(self.progress.settled, limit_s, every_s)

    def run_until(self, done: Callable[[], bool], limit_s: float = 120.0) -> bool:
        return self.world.run_until(done, limit_s)

    def publish(
        self,
        node: str,
        count: int = 1,
        *,
        batch: int = 1,
        publisher: str | None = None,
        key: str | None = None,
        **attributes: Value,
    ) -> None:
        """`count` packets of `batch` events each, on the node's own stream or that of a named publisher (`open` it)."""
        stream = self.stream(node, publisher)
        for number in range(count):
            numbered: list[dict[str, Value]] = [{"n": number * batch + place, **attributes} for place in range(batch)]
            self.world.publish(node, stream, tuple(Content(key=key, attributes=each) for each in numbered))

    def open(self, node: str, publisher: str) -> None:
        self.world.tell(node, Open(self.stream(node, publisher)))

    def close(self, node: str, publisher: str | None = None) -> None:
        self.world.tell(node, Close(self.stream(node, publisher)))

    def attach(self, node: str, name: str) -> None:
        """A client takes up a durable subscription at a node."""
        self.world.tell(node, Attach(durable_id(DEFAULT_GROUP, name)))

    def mark(self, node: str, name: str, vector: dict[str, int]) -> None:
        """It has taken the streams of these nodes up to there."""
        positions = {self.stream(of): last for of, last in vector.items()}
        id = durable_id(DEFAULT_GROUP, name)
        self.world.tell(node, Mark(id, self.applications.epochs.get((node, id), 0), positions))

    def detach(self, node: str, name: str, forget: bool = False) -> None:
        id = durable_id(DEFAULT_GROUP, name)
        self.world.tell(node, Detach(id, self.applications.epochs.get((node, id), 0), forget))

    def add(self, name: str, *, logger: bool = False) -> None:
        """A newcomer; run or settle to see it join."""
        self._add(name, logger)
        self._introduce()

    def leave(self, node: str) -> None:
        self.world.tell(node, Leave())

    def disconnect(self, node: str) -> None:
        self.world.tell(node, Disconnect())

    def reconnect(self, node: str) -> None:
        self.world.tell(node, Reconnect())

    def expel(self, node: str, by: str) -> None:
        self.world.tell(by, Expel(node))

    def crash(self, node: str) -> None:
        self.world.crash(node)

    def restart(self, node: str, resume: bool = False) -> None:
        self.world.restart(node, resume)

    # Faults ---------------------------------------------------------------------------------------------------------

    def isolate(self, *nodes: str) -> Rule:
        return self._rule(Isolate(*nodes))

    def partition(self, *sides: Iterable[str]) -> Rule:
        return self._rule(Partition(*sides))

    def lose(self, p: float) -> Rule:
        return self._rule(Loss(p))

    def drop(self, way: str, kind: str | None = None, times: int | None = 1) -> Rule:
        """Drop the next `times` messages (None: all) on a way like `a->b`, `a->*` or `*->b`, of one kind if named."""
        sender, arrow, receiver = (part.strip() for part in way.partition("->"))
        if not (sender and arrow and receiver):
            raise UsageError(f"a way is written a->b, not {way!r}")

        def on_the_way(source: str, target: str, message: Message) -> bool:
            return sender in ("*", source) and receiver in ("*", target) and kind in (None, type(message).__name__)

        return self._rule(DropIf(on_the_way, times))

    def heal(self) -> None:
        self.world.heal()

    # What can be seen -----------------------------------------------------------------------------------------------

    def stream(self, node: str, publisher: str | None = None) -> str:
        if publisher is not None:
            return named_stream(DEFAULT_GROUP, publisher)
        return stream_of(node, self.world.hosts[node].incarnation)

    def delivered(self, node: str) -> list[str]:
        """Ids in the order in which the application got them, since it last started without resuming."""
        return [event for packet in self.applications.packets[node] for event in ids(packet)]

    def skipped(self, node: str) -> list[str]:
        """Like `a:1-3 void`: what the application was told will not come, and why."""
        return list(self.applications.skips[node])

    def acked(self, node: str, publisher: str | None = None) -> int:
        """The last seq of the node's stream (or the publisher's) that it may forget; -1 if none."""
        return self.applications.acks.get((node, self.stream(node, publisher)), -1)

    def stored(self, node: str) -> list[str]:
        """What is on a logger's disk, like `a:0-7`."""
        streams = self.world.hosts[node].storage.stored().streams
        return [seqs(name, first, last) for name, stream in streams.items() for first, last in stream.stored]

    def lacking(self) -> list[str]:
        """Who lacks what, like `c lacks a:1-3`."""
        return [f"{lack.node} lacks {seqs(lack.stream, lack.has + 1, lack.last)}" for lack in self.progress.lacking()]

    def status(self, node: str) -> str:
        return self.progress.status.get(node, "down")

    def _add(self, name: str, logger: bool) -> None:
        self.world.add(name, logger=logger, peers=tuple(islice(self.world.hosts, CONTACTS_MAX)))

    def _introduce(self) -> None:
        # Who comes back after a crash has to find the others, the founder too, which had nobody to call at first.
        contacts = tuple(islice(self.world.hosts, CONTACTS_MAX + 1))
        for host in self.world.hosts.values():
            host.peers = tuple(name for name in contacts if name != host.name)

    def _all_in(self) -> bool:
        return all(status == "member" for status in self.progress.status.values())

    def _rule(self, rule: Rule) -> Rule:
        self.world.add_rule(rule)
        return rule


class Applications(Observer):
    """What the application on each node was told."""

    def __init__(self) -> None:
        self.packets: dict[str, list[Packet]] = {}
        self.skips: dict[str, list[str]] = {}
        self.acks: dict[tuple[str, str], int] = {}
        self.epochs: dict[tuple[str, str], int] = {}

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        if not resume:
            self.packets[node], self.skips[node] = [], []

    def attached(self, at_s: float, node: str, attached: Attached) -> None:
        self.epochs[node, attached.name] = attached.epoch

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        self.packets[node].append(deliver.packet)

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        self.skips[node].append(f"{seqs(skip.stream, skip.first, skip.last)} {skip.reason}")

    def acked(self, at_s: float, node: str, acked: Acked) -> None:
        self.acks[node, acked.stream] = acked.last
