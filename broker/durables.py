"""Durable subscriptions at a broker: asked of the loggers before they begin, and theirs again when they end.

A subscription that has a name begins when the loggers have said where it is (protocol/durable.py). Whoever comes with a
name takes it over from whoever has it, here or at another broker; the one that had it is told. What its application has
done with is passed on to the loggers, and a client that closes it is answered when they know.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from gossamer.broker.deliveries import Had
from gossamer.broker.session import Session
from gossamer.matching import Selector, SelectorError
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.session import Code, FromBroker, Reached, Start, Subscribe, Taken, Unsubscribed
from gossamer.protocol.durable import HOLDER_BITS, TAKEN_OVER, beginning, durable_id, newest, whole
from gossamer.protocol.effects import Attached, Detached
from gossamer.protocol.inputs import Attach, Detach, Input, Mark
from gossamer.protocol.retired import RetiredStreams


class Host(Protocol):
    """What is needed of the sessions at this broker."""

    def now(self, group: str) -> tuple[dict[StreamId, int], int]:
        """How far each stream of a group is, and what time it is."""

    def known(self, group: str) -> Iterator[StreamId]: ...
    @property
    def retired(self) -> RetiredStreams: ...
    def is_here(self, session: Session) -> bool: ...
    def subscribe(self, session: Session, message: Subscribe, had: Had | None = None) -> bool:
        """Whether it could be: otherwise its client has been told why not."""

    def unsubscribe(self, session: Session, sub: int) -> bool: ...
    def tell(self, session: Session, message: FromBroker) -> None: ...
    def refuse(self, session: Session, code: Code, reason: str, sub: int, position: int = 0) -> None: ...
    def later(self, given: Input) -> None:
        """For the node, when it is not busy telling us something."""


class Durables:
    """The durable subscriptions of a broker's clients."""

    __slots__ = ("_attached", "_attaching", "_detaching", "_host")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._attaching: dict[NodeId, tuple[Session, Subscribe]] = {}
        """Those that the loggers are being asked for."""
        self._attached: dict[NodeId, tuple[Session, int, int]] = {}
        """Those that are here: whose, which, and in which epoch."""
        self._detaching: dict[tuple[NodeId, int], tuple[Session, int]] = {}
        """Those whose clients have closed them, and wait for the loggers to know where they are."""

    def asked_by(self, session: Session) -> int:
        """How many a client waits for."""
        return sum(client is session for client, _ in self._attaching.values()) if self._attaching else 0

    # What clients say -----------------------------------------------------------------------------------------------

    def ask(self, session: Session, message: Subscribe, durable: str) -> Iterator[Input]:
        """Ask for it; it begins when the loggers have answered."""
        host, group = self._host, session.group
        try:
            name = durable_id(group, durable)
            Selector(message.selector)
        except SelectorError as error:
            host.refuse(session, "selector", error.message, message.sub, error.position)
            return
        except UsageError as error:
            host.refuse(session, "usage", str(error), message.sub)
            return
        waiting = self._attaching.get(name)
        if waiting is not None:
            host.refuse(waiting[0], "superseded", TAKEN_OVER, waiting[1].sub)
        self._attaching[name] = session, message
        start: dict[StreamId, int] | None = None
        if message.start is not None and not message.held:
            start = dict(message.start.positions)
            if message.start.last_per_key:
                start, since_ns = host.now(group)
                start |= {newest(group): 0, beginning(group)[0]: since_ns}
            else:
                start[whole(group)] = 0
                times = zip(beginning(group), (message.start.since_ns, message.start.published_ns), strict=True)
                start |= {name: time_ns for name, time_ns in times if time_ns}
        yield Attach(name, message.holder % 2**HOLDER_BITS, message.held, start)

    def take(self, session: Session, message: Taken) -> Iterator[Input]:
        """Its application has done with these."""
        name = session.durables.get(message.sub)
        if name is not None:
            prefix = f"{session.group}/"
            vector = {stream: last for stream, last in message.positions.items() if stream.startswith(prefix)}
            yield Mark(name, self._attached[name][2], vector)

    def close(self, session: Session, sub: int, forget: bool) -> Iterator[Input]:
        """Its client has unsubscribed, and is answered at once if the loggers need not be waited for."""
        name = session.durables.get(sub)
        if name is not None and not forget:
            self._detaching[name, self._attached[name][2]] = session, sub
        else:
            self._host.tell(session, Unsubscribed(sub))
        yield from self._let_go(session, sub, forget)

    def end(self, session: Session) -> Iterator[Input]:
        """A session is over, and its subscriptions wait for their client to return."""
        for name in [name for name, (waiting, _) in self._attaching.items() if waiting is session]:
            del self._attaching[name]
        for sub in list(session.durables):
            yield from self._let_go(session, sub, False)

    def _let_go(self, session: Session, sub: int, forget: bool) -> Iterator[Input]:
        name = session.durables.pop(sub, None)
        if name is not None:
            yield Detach(name, self._attached.pop(name)[2], forget)

    # What the node says ---------------------------------------------------------------------------------------------

    def on_attached(self, attached: Attached) -> None:
        name, epoch = attached.name, attached.epoch
        waiting = self._attaching.pop(name, None)
        if waiting is None and name in self._attached:  # it was taken for gone meanwhile
            session, sub, _ = self._attached[name]
            self._attached[name] = session, sub, epoch
            return
        if waiting is None or not self._host.is_here(waiting[0]) or not self._begin(*waiting, attached):
            self._host.later(Detach(name, epoch))
            return
        session, message = waiting
        self._attached[name] = session, message.sub, epoch
        session.durables[message.sub] = name

    def _begin(self, session: Session, message: Subscribe, attached: Attached) -> bool:
        """Begin where the loggers say it is; whether it could be."""
        host, group = self._host, session.group
        known = dict(attached.vector)
        owed = known.pop(whole(group), None) is not None
        since_ns, published_ns = (known.pop(name, 0) for name in beginning(group))
        start = message.start or Start()
        began_with_latest, taken = (entry := newest(group)) in known, known.pop(entry, 0)
        latest = began_with_latest and not taken and (start.last_per_key or not message.held)
        if began_with_latest and not latest:
            since_ns = 0
        if attached.new:
            owed = message.start is not None
        if latest or not attached.new or message.start is None:
            vector = known
            if not since_ns:  # of what began while it was away it is owed everything, too
                vector = {**dict.fromkeys(host.known(group), -1), **known}
            if message.held:  # what has come and is not taken yet waits at the client
                vector |= {stream: max(last, vector.get(stream, -1)) for stream, last in start.positions.items()}
            begins = Start(vector, since_ns, published_ns, latest, start.shown)
            message = msgspec.structs.replace(message, start=begins)
        if not host.subscribe(session, message, None if owed or latest else host.retired.__contains__):
            return False
        if start.last_per_key and not latest:  # it has had them, and what it takes counts from now on
            host.tell(session, Reached((message.sub,), 0, {}))
        return True

    def on_detached(self, detached: Detached) -> None:
        host = self._host
        left = self._detaching.pop((detached.name, detached.epoch), None)
        if left is not None:
            if host.is_here(left[0]):
                host.tell(left[0], Unsubscribed(left[1]))
            return
        waiting, attached = self._attaching.get(detached.name), self._attached.get(detached.name)
        if waiting is not None and detached.epoch == 0:
            del self._attaching[detached.name]
            code: Code = "superseded" if detached.reason == TAKEN_OVER else "usage"
            host.refuse(waiting[0], code, detached.reason, waiting[1].sub)
        elif attached is not None and detached.epoch == attached[2]:
            session, sub, _ = attached
            del self._attached[detached.name], session.durables[sub]
            host.unsubscribe(session, sub)
            host.refuse(session, "superseded", detached.reason, sub)
