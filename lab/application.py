"""An application behind a node: it takes events from a purging queue, one after the other, at its own speed.

It stands in for a broker's delivery queue with one consumer. Its queue is bounded. What neither fits nor is obsolete
waits in the backlog, as a subscription that is *catching up* reads on from the log (design §4.6); or, in a group
with back-pressure, does not come, because the node has told its publishers how much room there is. A consumer that is
stuck is waited for as long as a broker would wait for a subscription (protocol/pressure.py).
"""

from collections import deque
from collections.abc import Callable, Sequence

from gossamer.lab.world import World
from gossamer.messages.event import Event, Head
from gossamer.messages.ids import DEFAULT_GROUP, EventId, group_of
from gossamer.messages.packet import Packet
from gossamer.protocol.inputs import Room
from gossamer.protocol.memory import Memory
from gossamer.protocol.pressure import NEVER, Level, Pressure
from gossamer.protocol.purging import Omitted, PurgingBuffer, Semantic


class Consumer:
    """Takes `delay_s` for each event; `applied` is what it got, in order."""

    def __init__(
        self,
        world: World,
        node: str,
        *,
        delay_s: float = 0.0,
        events_max: int = 1_024,
        semantic: Semantic = "eager",
        group: str = DEFAULT_GROUP,
        memory: Memory | None = None,
        pressure: type[Pressure[str]] = Pressure,
        on_applied: Callable[[float, Event], None] = lambda *_: None,
    ) -> None:
        self.node = node
        self.delay_s = delay_s
        self.applied: list[EventId] = []
        self.omitted: dict[EventId, EventId] = {}
        """What was left out, here or on the way, and what for."""
        self.state: dict[tuple[str, str], Event] = {}
        """The last event of each key: of its stream, or of its group."""
        self._world = world
        self._group = group
        self._on_applied = on_applied
        self._queue = PurgingBuffer(
            events_max, semantic=semantic, overflow="refuse", memory=Memory() if memory is None else memory
        )
        self._events_max = events_max
        self._backlog: deque[Event] = deque()
        self._busy = False
        self._telling = False
        self._told = -1, -1
        """Events delivered, and room then, as the node was last told."""
        self._delivered = 0
        self._taken = 0
        self._stuck = False
        settings = world.hosts[node].config.group(group)
        self._limits = settings.backpressure
        self._pressure = pressure(settings.backpressure_max_s)
        self._incarnation = world.hosts[node].incarnation
        world.attach(node, self.deliver)
        self._tell_room()

    def stop(self) -> None:
        """Take nothing more, as an application that hangs."""
        self._stuck = True

    def resume(self) -> None:
        self._stuck = False
        self._next()

    @property
    def idle(self) -> bool:
        """Nothing is left to do."""
        return not (self._busy or self._queue or self._backlog)

    def __len__(self) -> int:
        return len(self._queue) + len(self._backlog)

    def deliver(self, packet: Packet) -> None:
        if group_of(packet.stream) != self._group:
            return
        self._delivered += packet.count
        for hole in packet.holes:
            by = packet.obsoleter(hole)
            self.omitted.update({EventId(packet.stream, seq): by for seq in range(hole.first, hole.last + 1)})
        self._backlog.extend(packet.events())
        self._fill()
        self._next()

    def _fill(self) -> None:
        while self._backlog:
            event = self._backlog[0]
            assert event.id is not None
            head = Head(event.key, event.rank, event.relation, event.time_ns)
            omissions = self._queue.append(*event.id, head, len(event.body), event)
            if omissions and omissions[-1].refused:
                break
            self._note(omissions)
            self._backlog.popleft()
        self._tell_room()

    def _note(self, omissions: Sequence[Omitted]) -> None:
        for omitted in omissions:
            assert omitted.by is not None, f"{self.node} drops {omitted.entry.id}, which is not obsolete"
            self.omitted[omitted.entry.id] = omitted.by

    def _next(self) -> None:
        if self._busy or self._stuck:
            return
        for entry in self._queue.take(1):
            self._busy = True
            self._taken += 1
            self._world.at(self._world.now_s + self.delay_s, self._apply, entry.payload)
        self._fill()

    def _apply(self, event: Event) -> None:
        assert event.id is not None
        self._busy = False
        self.applied.append(event.id)
        if event.key is not None:
            grouped = event.relation is not None and event.relation.group
            self.state[self._group if grouped else event.id.stream, event.key] = event
        self._on_applied(self._world.now_s, event)
        self._next()

    def _tell_room(self) -> None:
        """Room was taken, or made; or something came and, by purging, took none: its publisher may go on either way.
        Once for all that happens in an instant."""
        if self._limits and not self._telling and self._told != (self._delivered, self._room):
            self._telling = True
            self._world.at(self._world.now_s, self._tell)

    def _tell(self) -> None:
        self._telling = False
        if self._world.hosts[self.node].incarnation != self._incarnation:
            return  # it ended with its node
        self._told = self._delivered, self._room
        room = self._pressure.room([Level(self.node, self._room, self._taken)], self._world.now_s)
        self._world.offer(self.node, Room(self._group, room))
        if (deadline := self._pressure.next_deadline()) < NEVER:
            self._world.at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        if self._pressure.next_deadline() <= self._world.now_s:
            self._tell()

    @property
    def _room(self) -> int:
        """What waits in the backlog has been granted room that it does not need yet."""
        return max(0, self._events_max - len(self._queue) - len(self._backlog))
