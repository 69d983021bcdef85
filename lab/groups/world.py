"""A simulated network of group members: the production machines, virtual time, fault rules, crashes between two
sends."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import msgspec

from gossamer.lab.agenda import Agenda
from gossamer.lab.faults import Copy, Rule, Sending
from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.wire import Message as MeshMessage
from gossamer.protocol.groups import wire
from gossamer.protocol.groups.effects import (
    Deliver,
    Discarded,
    Effect,
    Expelled,
    Joined,
    Left,
    Omit,
    Send,
    Stalled,
    View,
)
from gossamer.protocol.groups.inputs import Input, Multicast, Received, Snapshot, Start, Wake
from gossamer.protocol.groups.streams import stream_of

GROUP = "g"
SERIAL = "serial"
LATE_S = 0.2
SPINS_MAX = 10_000
"""A machine that wants to be woken so often at one instant would stop time."""

Seen = Deliver | Omit | Joined | View | Discarded | Stalled | Expelled | Left


class Machine(Protocol):
    def handle(self, given: Input, now: float, /) -> list[Effect]: ...

    def next_deadline(self) -> float: ...


@dataclass
class Sent:
    """A message as its sender gave it to the group."""

    content: Content
    after: tuple[EventId, ...]
    view: int
    """The view its sender was in."""


@dataclass
class Doom:
    """A member dies in the middle of sending a message of some kind, when so many copies of it are out."""

    picks: Callable[[wire.Message], bool]
    copies: int
    late_s: float = 0.0
    """By how much the copies that are out are late."""
    then: Callable[[tuple[str, ...]], None] = lambda _: None
    """Told who the copies were for."""


@dataclass
class Life:
    """One member, from outside."""

    name: str
    machine: Machine | None
    seen: list[Seen] = field(default_factory=list)
    """Everything its application saw, in order."""
    sent: list[EventId] = field(default_factory=list)
    crashed: bool = False
    out: str = ""
    """Why it is out, if it was expelled or has left."""
    view: int = -1
    state: list[EventId] = field(default_factory=list)
    """The application: what was delivered, from before it joined too, if it was given that."""
    copies_left: int | None = None
    """It crashes when it has sent so many more copies."""
    doom: Doom | None = None
    free_s: float = 0.0
    """When it is done with what it is sending and taking in."""
    spins: int = 0
    spun_s: float = -1.0

    @property
    def alive(self) -> bool:
        return not self.crashed and not self.out

    def delivered(self) -> list[EventId]:
        return [seen.event.id for seen in self.seen if isinstance(seen, Deliver) and seen.event.id is not None]


class World:
    def __init__(
        self,
        seed: int = 0,
        *,
        latency_s: float = 0.001,
        send_s: float = 0.0,
        through_wire: bool = False,
        group: str = GROUP,
    ) -> None:
        """`send_s` is what it costs a member to put one copy on its way, and to take one in: one after the other."""
        self.agenda = Agenda()
        self.lives: dict[str, Life] = {}
        self.sent: dict[EventId, Sent] = {}
        self.rules: list[Rule] = []
        self.rng = random.Random(seed)
        self.copies = 0
        self.bytes = 0
        self.peer_errors: list[str] = []
        self.group = group
        self.on_copy: Callable[[int, wire.Message], str] | None = None
        """Asked about every copy, by its number: "" to let it go, "loss", "late", or "crash" of the sender before
        it."""
        self._latency_s = latency_s
        self._send_s = send_s
        self._through_wire = through_wire
        self.measure = False

    # What happens ---------------------------------------------------------------------------------------------------

    def add(self, name: str, machine: Machine) -> Life:
        life = self.lives[name] = Life(name, machine)
        self._feed(life, Start())
        return life

    def multicast(
        self,
        name: str,
        content: Content | None = None,
        after: tuple[EventId, ...] = (),
        implied: tuple[EventId, ...] = (),
    ) -> EventId:
        """One message from a member, numbered, so that checkers can tell it from all others. What it comes after is
        said, or implied by what its sender was delivered."""
        life = self.lives[name]
        content = content or Content()
        content = Content(
            content.key, content.rank, content.relation, content.time_ns, content.deleted,
            {**content.attributes, SERIAL: len(self.sent)}, content.body,
        )  # fmt: skip
        id = EventId(stream_of(self.group, name), len(life.sent))
        life.sent.append(id)
        self.sent[id] = Sent(content, after + implied, life.view)
        self._feed(life, Multicast((content,), after))
        return id

    def tell(self, name: str, given: Input) -> None:
        self._feed(self.lives[name], given)

    def crash(self, name: str) -> None:
        life = self.lives[name]
        life.crashed = True
        life.machine = None

    def run(self, until_s: float) -> None:
        self.agenda.run(until_s)

    def at(self, at_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.agenda.at(at_s, action, *arguments)

    # The loop -------------------------------------------------------------------------------------------------------

    def _feed(self, life: Life, given: Input) -> None:
        machine = life.machine
        if machine is None:
            return
        try:
            effects = machine.handle(given, self.agenda.now_s)
        except PeerError as error:
            self.peer_errors.append(str(error))
            return
        for effect in effects:
            if life.crashed:
                return
            if isinstance(effect, Send):
                self._send(life, effect)
            else:
                self._show(life, effect)
        self._arm(life)

    def _show(self, life: Life, effect: Seen) -> None:
        life.seen.append(effect)
        match effect:
            case Deliver(event) if event.id is not None:
                life.state.append(event.id)
            case Joined(state):
                life.state = [EventId(*each) for each in msgspec.msgpack.decode(state)] if state else []
            case View(number, _, joined):
                life.view = number
                if joined and life.name not in joined:
                    state = msgspec.msgpack.encode(life.state)
                    self.agenda.at(self.agenda.now_s, self._feed, life, Snapshot(number, state))
            case Expelled(reason):
                life.out = reason
            case Left():
                life.out = "left"

    def _send(self, life: Life, send: Send) -> None:
        frame = wire.encode(send.message) if self._through_wire or self.measure else b""
        doom = life.doom if life.doom is not None and life.doom.picks(send.message) else None
        for at, to in enumerate(send.to):
            if doom is not None and at >= doom.copies:
                self.crash(life.name)
                doom.then(send.to[: doom.copies])
                return
            number = self.copies
            self.copies += 1
            if life.copies_left is not None:
                life.copies_left -= 1
                if life.copies_left < 0:
                    self.crash(life.name)
                    return
            fate = self.on_copy(number, send.message) if self.on_copy is not None else ""
            if fate == "crash":
                self.crash(life.name)
                return
            self.bytes += len(frame)
            copies: list[Copy] = (
                [] if fate == "loss" else [(to, doom.late_s if doom else 0.2 if fate == "late" else 0.0)]
            )
            if self.rules:
                sending = Sending(self.agenda.now_s, life.name, cast(MeshMessage, send.message), self.rng)
                for rule in self.rules:
                    copies = rule(sending, copies)
            message = wire.decode(frame) if self._through_wire else send.message
            for name, more_s in copies:
                sent_s = self.agenda.now_s
                if self._send_s:
                    sent_s = life.free_s = max(life.free_s, sent_s) + self._send_s
                self.agenda.at(sent_s + self._latency_s + more_s, self._arrive, name, Received(life.name, message))

    def _arrive(self, name: str, received: Received) -> None:
        life = self.lives.get(name)
        if life is not None and self._send_s:
            life.free_s = max(life.free_s, self.agenda.now_s) + self._send_s
            self.agenda.at(life.free_s, self._feed, life, received)
        elif life is not None:
            self._feed(life, received)

    def _arm(self, life: Life) -> None:
        if life.machine is None:
            return
        at_s = life.machine.next_deadline()
        if at_s < float("inf"):
            self.agenda.at(at_s, self._wake, life, at_s)

    def _wake(self, life: Life, due_s: float) -> None:
        if life.machine is None or life.machine.next_deadline() > self.agenda.now_s:
            return
        if self.agenda.now_s == life.spun_s:
            life.spins += 1
            assert life.spins < SPINS_MAX, f"{life.name} spins at {due_s}"
        else:
            life.spins, life.spun_s = 0, self.agenda.now_s
        self._feed(life, Wake())
