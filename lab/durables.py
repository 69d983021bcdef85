"""The client of a durable subscription, in the simulator: it reads, tells what it has taken, moves, and comes back.

It does not care how what it reads gets to it. What it checks is that there is something to read: whatever it has not
taken was delivered where it is while it was there, or is in some log; and that it is never taken up beyond what it has
taken.
"""

import random

from gossamer.lab.checkers import Violation
from gossamer.lab.observer import Observer
from gossamer.lab.world import World
from gossamer.messages.ids import DEFAULT_GROUP, EventId, StreamId, group_of
from gossamer.protocol.durable import durable_id
from gossamer.protocol.effects import Attached, Detached
from gossamer.protocol.inputs import Attach, Detach, Mark
from gossamer.protocol.node import Node

STEP_S = 0.1
PATIENCE_S = 8.0
"""A broker that has not answered for so long is left for another."""


class Reader(Observer):
    def __init__(self, world: World, name: str, brokers: list[str], rng: random.Random) -> None:
        self.id = durable_id(DEFAULT_GROUP, name)
        self.taken: dict[StreamId, int] | None = None
        """What it has read, of each stream up to there; None before it was ever attached."""
        self.settling = False
        """Nothing goes wrong any more: it stays, and reads all there is."""
        self.attached_count = 0
        self._world = world
        self._brokers = brokers
        self._rng = rng
        self._node: str | None = None
        self._epoch = 0
        self._base: dict[StreamId, int] = {}
        self._asked_s = -PATIENCE_S
        world.observe(self)
        world.at(world.now_s + rng.random(), self._step)

    @property
    def done(self) -> bool:
        """Whether it has taken everything that its node has, and the loggers know that."""
        node = self._member()
        if node is None or self.taken is None:
            return False
        held = node.durables.held.get(self.id)
        everything = all(self.taken.get(name, -1) >= last for name, last in self._delivered(node).items())
        return (
            everything
            and held is not None
            and all(
                version >= held.version for version in (held.confirmed.get(name, 0) for name in node.membership.loggers)
            )
        )

    # What happens to it ---------------------------------------------------------------------------------------------

    def crashed(self, at_s: float, node: str) -> None:
        if node == self._node:
            self._node = None

    def attached(self, at_s: float, node: str, attached: Attached) -> None:
        if attached.name != self.id or node != self._node:
            return
        self.attached_count += 1
        self._epoch = attached.epoch
        member = self._of(node)
        assert member is not None
        self._base = self._delivered(member)
        if self.taken is None:
            self.taken = dict(attached.vector)
            return
        for stream, last in attached.vector.items():
            if last > self.taken.get(stream, -1) and not self._is_over(stream):
                what = f"{self.id} is taken up behind {last} of {stream}, and has {self.taken.get(stream, -1)}"
                raise Violation("no durable event skipped", what, EventId(stream, last))

    def detached(self, at_s: float, node: str, detached: Detached) -> None:
        if detached.name == self.id and node == self._node and detached.epoch in (0, self._epoch):
            self._node, self._epoch = None, 0

    # What it does ---------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        world, rng = self._world, self._rng
        world.at(world.now_s + STEP_S * (0.5 + rng.random()), self._step)
        node = self._member()
        if node is None or (not self._epoch and self._asked_s + PATIENCE_S < world.now_s):
            self._move()
        elif self._epoch:
            self._read(node)
            if not self.settling and rng.random() < 0.06:
                if rng.random() < 0.5:
                    world.tell(self._node or "", Detach(self.id, self._epoch))
                self._node, self._epoch = None, 0  # or it just vanishes

    def _move(self) -> None:
        up = [name for name in self._brokers if self._is_member(name)]
        if up:
            self._node, self._epoch = self._rng.choice(up), 0
            self._asked_s = self._world.now_s
            self._world.tell(self._node, Attach(self.id))

    def _read(self, node: Node) -> None:
        assert self.taken is not None
        for stream, last in self._delivered(node).items():
            known = self.taken.get(stream, -1)
            if last > known and (self.settling or self._rng.random() < 0.3):
                upto = last if self.settling else self._rng.randint(known, last)
                for seq in range(known + 1, min(upto, self._base.get(stream, -1)) + 1):
                    self._must_be_there(stream, seq)
                self.taken[stream] = max(known, upto)
        if self.settling or self._rng.random() < 0.3:
            self._world.tell(self._node or "", Mark(self.id, self._epoch, dict(self.taken)))

    def _must_be_there(self, stream: StreamId, seq: int) -> None:
        """It came before we did: some log must have it, unless it is not in any yet."""
        collected = False
        for host in self._world.hosts.values():
            if host.logger:
                found = host.storage.stored().streams.get(stream)
                if found is not None and any(first <= seq <= last for first, last in (*found.stored, *found.void)):
                    return
                collected |= found is not None and found.collected >= seq
        if collected:
            event = EventId(stream, seq)
            raise Violation("collected unseen", f"{event} is gone, and {self.id} has not taken it", event)

    # Where it is ----------------------------------------------------------------------------------------------------

    def _member(self) -> Node | None:
        return self._of(self._node) if self._node is not None and self._is_member(self._node) else None

    def _is_member(self, name: str) -> bool:
        node = self._of(name)
        return node is not None and node.membership.status == "member"

    def _of(self, name: str) -> Node | None:
        node = self._world.hosts[name].node
        return node if isinstance(node, Node) else None

    def _is_over(self, stream: StreamId) -> bool:
        """Whether any node has retired a stream: then everyone had all of it, and it is named no more."""
        nodes = (self._of(name) for name in self._world.hosts)
        return any(node is not None and stream in node.receiver.retired for node in nodes)

    def _delivered(self, node: Node) -> dict[StreamId, int]:
        streams = node.receiver.streams.items()
        return {name: stream.next - 1 for name, stream in streams if group_of(name) == DEFAULT_GROUP}
