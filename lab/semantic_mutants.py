"""Deliberately broken semantic reliability: the production node with one rule of docs/semantics.md taken out."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from gossamer.lab.mutants import Mutant, become, mutant
from gossamer.messages.event import Head
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Hole, Packet
from gossamer.protocol.flow import Rooms
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.links import Link, Links
from gossamer.protocol.memory import Memory
from gossamer.protocol.node import Node
from gossamer.protocol.pressure import Pressure
from gossamer.protocol.purging import Omitted
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.safety import Safety

SEMANTIC: dict[str, Mutant] = {}
"""By name, like `MUTANTS`; the swarm catches every one of them."""
ARRANGED: dict[str, Mutant] = {}
"""Those that go wrong only if a sender crashes at the wrong moment: tests/simulation/test_counterexamples.py."""


@mutant(ARRANGED)
def purge_unsafely(node: Node) -> None:
    """What is newer counts as safe because it is here (000 App. A.2, the second scenario)."""

    class Trusting(Safety):
        __slots__ = ()

        def is_safe(self, event: EventId) -> bool:
            return True

    become(node.safety, Trusting)


@mutant(ARRANGED)
def skip_before_it_comes(node: Node) -> None:
    """What is marked is skipped whether or not what obsoletes it is here."""

    class Hasty(Receiver):
        __slots__ = ()

        def _accept_mark(self, packet: Packet, hole: Hole, from_logger: bool) -> tuple[Packet, ...]:
            return self._accept(packet.cut(hole.first, hole.last), from_logger)

    become(node.receiver, Hasty)


@mutant(SEMANTIC)
def request_again_what_was_purged(node: Node) -> None:
    """Marks are not understood: the events are asked for, again and again."""

    class Deaf(Receiver):
        __slots__ = ()

        def _accept_mark(self, packet: Packet, hole: Hole, from_logger: bool) -> tuple[Packet, ...]:
            self.learn(packet.stream, hole.last)
            return ()

    become(node.receiver, Deaf)


@mutant(SEMANTIC)
def lose_transitivity(node: Node) -> None:
    """What was left out for something else excuses nothing in turn."""

    class Literal(Receiver):
        __slots__ = ("left_out",)
        left_out: set[EventId]

        def has(self, event: EventId) -> bool:
            return event not in self.left_out and super().has(event)

        def _accept(self, packet: Packet, from_logger: bool, own: bool = False) -> tuple[Packet, ...]:
            for hole in packet.holes:
                self.left_out.update(EventId(packet.stream, seq) for seq in range(hole.first, hole.last + 1))
            return super()._accept(packet, from_logger, own)

        def _release_marks(self, fresh: tuple[Packet, ...], from_logger: bool) -> list[Packet]:
            return super()._release_marks(tuple(part for part in fresh if not part.holes), from_logger)

    literal = Literal(node._ctx, node.repair.on_gap, node._on_opened, node.repair.on_awaited)
    literal.left_out = set()
    node.receiver = node.rooms._receiver = node.heartbeats._receiver = literal
    node.answers._receiver = node.orphans._receiver = literal
    node.repair.attach(node._excuse, literal.worth_asking)


@mutant(SEMANTIC)
def purge_across_a_transaction(node: Node) -> None:
    """A part of a transaction obsoletes what its key was before, committed or not."""

    class Careless(Links):
        __slots__ = ()

        def _heads(self, packet: Packet) -> list[Head]:
            return [_without_part(head) for head in super()._heads(packet)]

    become(node.links, Careless)


def _without_part(head: Head) -> Head:
    return replace(head, relation=None) if head.relation is not None and head.relation.part is not None else head


@mutant(SEMANTIC)
def forget_the_purge_notice(node: Node) -> None:
    """What is purged from what is kept for others leaves no mark."""

    class Silent(GossipBuffer):
        __slots__ = ()

        def purge(self, purges: Callable[[StreamId], bool], is_safe: Callable[[EventId], bool]) -> int:
            purged = super().purge(purges, is_safe)
            for stream, packets in list(self._streams.items()):
                kept = [packet for packet in packets if packet.blob]
                if len(kept) < len(packets):
                    gone = {packet.first for packet in packets if not packet.blob}
                    self._streams[stream] = kept
                    self._ages = type(self._ages)(age for age in self._ages if age[1] != stream or age[2] not in gone)
                    if not kept:
                        del self._streams[stream]
            return purged

    class Mute(Links):
        __slots__ = ()

        def _mark(self, link: Link, stream: StreamId, seq: int, reason: Any) -> None: ...

    become(node.buffer, Silent)
    become(node.links, Mute)


@mutant(SEMANTIC)
def count_an_overflow_as_obsolete(node: Node) -> None:
    """What a full link drops is marked as if the newest event obsoleted it."""

    class Excusing(Links):
        __slots__ = ()

        def _note(self, link: Link, omissions: Iterable[Omitted]) -> None:
            newest = [entry.id for entry in link.buffer][-1:]
            for omitted in omissions:
                if omitted.by is None and newest and newest[0] != omitted.entry.id:
                    omitted = Omitted(omitted.entry, newest[0])
                super()._note(link, (omitted,))

    become(node.links, Excusing)


@mutant(SEMANTIC)
def purge_though_switched_off(node: Node) -> None:
    """A group that wants every event loses what is obsolete all the same."""

    class Overzealous(Links):
        __slots__ = ()

        def _heads(self, packet: Packet) -> list[Head]:
            return [head for _, head in packet.heads()]

    become(node.links, Overzealous)


class Amnesiac(Memory):
    """Nothing that has been passed on makes what comes later obsolete."""

    __slots__ = ()

    def obsoleter(self, stream: StreamId, seq: int, head: Head) -> EventId | None:
        return None


@mutant(SEMANTIC)
def let_a_late_obsolete_event_through(node: Node) -> None:
    """An application is given an older event of a group's key after a newer one."""


SEMANTIC["let-a-late-obsolete-event-through"].memory = Amnesiac  # type: ignore[attr-defined]


@mutant(SEMANTIC)
def tell_windows_once(node: Node) -> None:
    """A window that was lost is not told again."""

    class Terse(Rooms):
        __slots__ = ()

        def on_round(self) -> None:
            pass

    become(node.rooms, Terse)


@mutant(SEMANTIC)
def wait_for_a_stuck_consumer(node: Node) -> None:
    """Publishers wait for a consumer that takes nothing, however long."""


class Endless(Pressure[str]):
    """Excuses nobody."""

    __slots__ = ()

    def __init__(self, _: float) -> None:
        super().__init__(float("inf"))


SEMANTIC["wait-for-a-stuck-consumer"].pressure = Endless  # type: ignore[attr-defined]
