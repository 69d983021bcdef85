"""A place in a group: how it is founded, or joined, before one of its protocols runs.

Those who are to found a group name each other, by address; the group begins when all of them are there, once. The one
with the lowest address then says who they are (an id has its process in it, so that one which was restarted is another
member), and everyone begins with view 0. Nobody else could say so, and it says it once in its life; so there is nothing
to agree on. Whoever is named by nobody asks the same way, and is let in by a group that exists, if its protocol can.
"""

from collections.abc import Callable
from typing import Protocol

from gossamer.messages.ids import NodeId
from gossamer.protocol.groups import inputs
from gossamer.protocol.groups.effects import Effect, Joined, Send
from gossamer.protocol.groups.wire import Hello, Welcome

HELLO_S = 0.2
NEVER = float("inf")


class Machine(Protocol):
    def handle(self, given: inputs.Input, now: float, /) -> list[Effect]: ...

    def next_deadline(self) -> float: ...


Make = Callable[[int, tuple[NodeId, ...], tuple[int, ...]], Machine]
"""The protocol, from a view, its members, and where each one's messages go on."""


class Seat:
    """Outside first, then whatever `make` makes."""

    def __init__(
        self,
        me: NodeId,
        address: str,
        peers: tuple[str, ...],
        make: Make,
        *,
        joins: bool,
        address_of: Callable[[NodeId], str],
    ) -> None:
        """`joins`: whether the protocol can let somebody in later."""
        self.me = me
        self._founders = tuple(sorted({address, *peers}))
        self._address = address
        self._make = make
        self._joins = joins
        self._address_of = address_of
        self._ids: dict[str, NodeId] = {address: me}
        self._hello_at = NEVER
        self._waiting: list[inputs.Multicast] = []
        self.inner: Machine | None = None
        self._first: Welcome | None = None
        """The view that we were among the founders of."""

    def handle(self, given: inputs.Input, now: float) -> list[Effect]:
        if self.inner is not None:
            if isinstance(given, inputs.Received) and isinstance(given.message, Hello | Welcome):
                return self._on_hello_inside(given, now)
            return self.inner.handle(given, now)
        match given:
            case inputs.Start():
                self._hello_at = now
                return self._found(now) or self._say_hello(now)
            case inputs.Wake():
                return self._say_hello(now) if now >= self._hello_at else []
            case inputs.Multicast():
                self._waiting.append(given)
            case inputs.Received(sender, Hello(founders)):
                if tuple(sorted(founders)) == self._founders and self._address_of(sender) in self._founders:
                    self._ids[self._address_of(sender)] = sender
                    return self._found(now)
            case inputs.Received(_, Welcome() as welcome):
                if self.me in welcome.members:
                    return self._begin(welcome, now)
        return []

    def next_deadline(self) -> float:
        return self._hello_at if self.inner is None else self.inner.next_deadline()

    def _say_hello(self, now: float) -> list[Effect]:
        self._hello_at = now + HELLO_S
        return [Send(tuple(peer for peer in self._founders if peer != self._address), Hello(self._founders))]

    def _found(self, now: float) -> list[Effect]:
        """All are there, and it is for us to say so."""
        if self._address != self._founders[0] or len(self._ids) < len(self._founders):
            return []
        members = tuple(self._ids[address] for address in self._founders)
        welcome = Welcome(0, members, (0,) * len(members))
        others = tuple(member for member in members if member != self.me)
        told: list[Effect] = [Send(others, welcome)] if others else []
        return told + self._begin(welcome, now)

    def _begin(self, welcome: Welcome, now: float) -> list[Effect]:
        self.inner = self._make(welcome.view, welcome.members, welcome.starts)
        self._first = welcome if welcome.view == 0 else None
        effects = [Joined(welcome.state), *self.inner.handle(inputs.Start(), now)]
        for waiting in self._waiting:
            effects += self.inner.handle(waiting, now)
        self._waiting.clear()
        return effects

    def _on_hello_inside(self, given: inputs.Received, now: float) -> list[Effect]:
        """A founder that has not heard that the group exists; or somebody who wants to join it."""
        assert self.inner is not None
        if isinstance(given.message, Welcome):
            return []
        if self._first is not None and given.sender in self._first.members and not getattr(self.inner, "view", 0):
            return [Send((given.sender,), self._first)]
        return self.inner.handle(given, now) if self._joins else []
