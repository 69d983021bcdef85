"""Clients at a broker: who they are, what they may do, and how far each of them is.

A session begins with a hello and ends with a goodbye, with its connection, with a silence, or with a hello of the same
client from a later epoch: then the old connection is a corpse that has not been noticed yet. A client's stream outlives
its session for a while, since the client may be on its way to another broker, or back to this one; after that it is
abandoned, and the mesh finds out whether anybody has it (protocol/orphans.py).

No client can cost another anything but its share of this thread. What is under way to each is bounded in bytes by its
window, and in events by the credit of each subscription; one that takes nothing all the same is cut off. A message
that is malformed is counted and dropped; one that asks for too much is refused with a reason.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from gossamer.broker.addresses import advertised
from gossamer.broker.back_pressure import BackPressure, Publishers, back_pressure
from gossamer.broker.connection import Connection
from gossamer.broker.counters import Counters
from gossamer.broker.deliveries import Deliveries, Had
from gossamer.broker.door import Door
from gossamer.broker.durables import Durables
from gossamer.broker.isolation import Isolation
from gossamer.broker.journal import Journal
from gossamer.broker.poll import Poll
from gossamer.broker.session import ClientLimits, Session
from gossamer.broker.subscriber import Subscriber
from gossamer.matching import SelectorError
from gossamer.messages import session as session_messages
from gossamer.messages.errors import GossamerError, PeerError, UsageError
from gossamer.messages.event import Attributes
from gossamer.messages.ids import (
    SEQ_MAX,
    SYSTEM_GROUP,
    NodeId,
    StreamId,
    anonymous_stream,
    group_of,
    issued_by,
    named_stream,
)
from gossamer.messages.packet import Packet
from gossamer.messages.session import (
    Acks,
    Code,
    Credit,
    Farewell,
    FromBroker,
    Goodbye,
    Hello,
    Interest,
    Ping,
    Pong,
    Publish,
    Refusal,
    Resend,
    Subscribe,
    Subscribed,
    Taken,
    Unsubscribe,
    Welcome,
    decode_from_client,
    encode,
)
from gossamer.messages.zmtp import Message
from gossamer.protocol.effects import Acked, Attached, Detached, Numbers, Paged, Ready, Refused, Skip
from gossamer.protocol.inputs import Abandon, Adopt, Claim, Close, Forward, Hold, Input
from gossamer.protocol.node import Node
from gossamer.protocol.numbering import needed
from gossamer.protocol.ordered import Ordered
from gossamer.protocol.retired import RetiredStreams

CONSUMERS_MAX = 4_096
TICK_S = 0.5
REACH_S = 2.0
NUMBERS_S = 1.2
"""A named publisher without sequence numbers for so long is told why, before it gives up on this broker by itself."""
"""How often clients are told how far they have come."""
HOLD_SHARE = 20.0
"""To find out how far those are who read from loggers must take no more than this fraction of the time."""
RETRY_S = 0.02
ANSWER_S = 0.005
"""So long an answer may take that nobody waits for: each wakes two threads, and that takes longer than to write it."""
NEVER = float("inf")
READ_ONLY = f"{SYSTEM_GROUP} is for telemetry: clients may read it, and not publish in it"

_log = logging.getLogger("gossamer.sessions")


class Sessions:
    """The clients of one broker; everything here runs in the node's thread."""

    def __init__(
        self,
        bind: str = "tcp://127.0.0.1:0",
        *,
        advertise: str | None = None,
        limits: ClientLimits | None = None,
        counters: Counters | None = None,
        interests: tuple[Interest, ...] = (),
    ) -> None:
        """It listens at once, and answers once the node's loop takes it along. `counters` are the node's; `interests`
        are groups that clients are told of."""
        self.interests = interests
        self.limits = limits or ClientLimits()
        self.counters = counters or Counters()
        self.deliveries = Deliveries(
            self.limits.log_bytes_max, self.counters, purge_patience_s=self.limits.purge_patience_s
        )
        self.journal = Journal(0)
        # What is a little too large gets an answer; what is far too large is not even read.
        self._door = Door(
            bind,
            2 * self.limits.message_bytes_max,
            2 * self.limits.sessions_max,
            self._complain,
            unfinished_bytes_max=self.limits.unfinished_bytes_max,
            window_bytes=self.limits.window_bytes,
        )
        try:
            self.address = advertised(self._door.address, advertise)
        except UsageError:
            self.close()
            raise
        self._sessions: dict[Connection, Session] = {}
        self._clients: dict[str, Session] = {}
        self._streams: dict[StreamId, Session] = {}
        self._forsaken: dict[StreamId, float] = {}
        """Streams whose clients are gone without a goodbye, and since when."""
        self._claiming: dict[Session, float] = {}
        """Named publishers that wait for sequence numbers, and since when."""
        self._published: dict[Session, None] = {}
        """Who is answered in this turn."""
        self._owed: dict[Session, None] = {}
        """Who is answered before long."""
        self._answer_at = NEVER
        self._blocked: dict[Session, None] = {}
        self._lost: list[Session] = []
        self._passed: Packet | None = None
        """Passed on before the node has taken it in (protocol/cut_through.py)."""
        self._numbered = 0
        self._tick_at = NEVER
        self._reach_at = self._hold_at = 0.0
        self._held: dict[StreamId, int] = {}
        """How far those have come that read from loggers."""
        self._retry_at = NEVER
        self._leaving = False
        self._pressure: BackPressure | None = None
        """The room of namespaces with back-pressure; None if there are none."""
        self.durables = Durables(self)
        self._inputs: list[Input] = []
        """What the node is to be told when it is not busy telling us something."""
        self.order: Ordered | None = None
        """What orders the events of groups, if any has another order than each publisher's."""
        self.is_lost: Callable[[NodeId], bool] = lambda _: False
        """Whether the link to a member shows that it is lost."""
        self.last_sign: Callable[[], float | None] = lambda: None
        """When any other member last gave a sign of life; None if there is none."""
        self.is_cut_off = False
        """No other member answers, though there are some."""
        self._isolation = Isolation()
        self._sent_away: dict[str, None] = {}
        """Clients that were told to go elsewhere since this broker is cut off. Those that return stay."""
        self.untaken_s: Callable[[NodeId], float] = lambda _: 0.0
        """For how long a member has not taken what lies on the link to it."""
        self._parked: list[tuple[Session, Subscribe]] = []
        """Those who wait until their group's events come in its order."""
        self._handlers: dict[type, Callable[[Session, Any], Iterable[Input]]] = {
            Publish: self._on_publish,
            Subscribe: self._on_subscribe,
            Unsubscribe: self._on_unsubscribe,
            Taken: self.durables.take,
            Credit: self._on_credit,
            Ping: self._on_ping,
            Goodbye: self._on_goodbye,
        }

    # The node's loop ------------------------------------------------------------------------------------------------

    def start(self, node: Node, name: NodeId, incarnation: int, poll: Poll) -> None:
        """Serve for this node from now on."""
        self._node, self._name = node, name
        self._cut_through = node.cut_through
        self.deliveries.tally = node.tally
        self.deliveries.progress.known = lambda: (
            (name, each.start - 1) for name, each in node.receiver.streams.items()
        )
        if self.order is not None:
            self.deliveries.catching_up.replays = self.order.replay
        self.deliveries.catching_up.has_loggers = lambda: node.membership.has_loggers
        self.deliveries.catching_up.readings.loggers = self._loggers
        self.deliveries.catching_up.readings.is_lost = self.is_lost
        self.deliveries.catching_up.readings.untaken_s = self.untaken_s
        self.deliveries.catching_up.readings.spread = lambda: node.placement.spread
        deliveries = self.deliveries
        self._pressure = back_pressure(
            node._ctx.config,
            deliveries.audiences,
            deliveries.subscribers,
            self.counters,
            _name_of,
            deliveries.make_room,
        )
        self._publishers = Publishers(node, self.counters)
        self._issuer = f"{name[:150]}-{incarnation}"
        self._tick_at = 0.0
        self._door.open(poll)

    def receive(self, now: float) -> Iterator[Input]:
        """What clients want of the node; each input is to be handled before the next is asked for."""
        for connection, message in self._door.receive(now):
            if message is None:
                self._on_gone(connection, now)
                continue
            try:
                yield from self._take(connection, message, now)
            except PeerError as error:
                self._complain(str(error))

    def flush(self, now: float) -> Iterator[Input]:
        """Send what this turn has led to, and look after those who are silent."""
        self.deliveries.flush()
        if self._pressure is not None:
            yield from self._pressure.rooms(now)
        yield from self.deliveries.catching_up.asks(now)
        while self._inputs:
            yield self._inputs.pop(0)
        if now >= self._answer_at:
            self._published |= self._owed
            self._answer_at = NEVER
        if self._published:
            for session in self._published:
                self._acknowledge(session)
            self._published.clear()
        if self._parked:
            yield from self._subscribe_parked()
        for session in self._lost:
            self._end(session, now)
        self._lost.clear()
        if self._blocked and now >= self._retry_at:
            self._unblock(now)
        if now >= self._tick_at:
            self._tick_at = now + TICK_S
            yield from self._on_tick(now)

    def next_deadline(self) -> float:
        if self._door.unread:
            return 0.0
        pressure_at = NEVER if self._pressure is None else self._pressure.next_deadline()
        reading_at = self.deliveries.catching_up.readings.next_deadline()
        return min(self._tick_at, self._retry_at, self._answer_at, pressure_at, reading_at)

    def leave(self) -> None:
        """Send everybody elsewhere, and take nobody in any more."""
        if not self._leaving:
            self._leaving = True
            frame = encode(Farewell("the broker is leaving"))
            for session in list(self._sessions.values()):
                session.send(frame)

    def _note_isolation(self, now: float) -> None:
        """Send clients elsewhere when this broker is cut off from all other members."""
        if self._isolation.look(now, self.last_sign()) is self.is_cut_off:
            return
        self.is_cut_off = not self.is_cut_off
        told = {"event": "cut-off" if self.is_cut_off else "reached"}
        if self.is_cut_off:
            _log.warning("cut off: no other member answers; clients are sent elsewhere", extra={"fields": told})
            for session in list(self._sessions.values()):
                if session.welcomed:
                    self._send_away(session)
        else:
            _log.info("other members answer again", extra={"fields": told})
            self._sent_away.clear()

    def _send_away(self, session: Session) -> None:
        """Have a client try its other brokers; once, since one that comes back has found none."""
        if session.client not in self._sent_away:
            if len(self._sent_away) >= 2 * self.limits.sessions_max:
                del self._sent_away[next(iter(self._sent_away))]
            self._sent_away[session.client] = None
            session.send(encode(Farewell("the broker is cut off from the other members", True)))

    def close(self, linger_s: float = 0.0) -> None:
        self._door.close(linger_s)

    # Telemetry ------------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, int]:
        """How it is here now."""
        return {
            "clients": len(self._sessions),
            "subscriptions": len(self.deliveries.subscribers),
            **self.deliveries.figures(),
            **({} if self._pressure is None else self._pressure.figures()),
            **({} if self._pressure is None else {"publishers_waiting": len(list(self._publishers.waiting()))}),
        }

    def consumers(self) -> Iterator[dict[str, Any]]:
        """How far subscriptions are: all of them, or if they are too many those for which something waits."""
        for subscriber in self.deliveries.consumers(CONSUMERS_MAX):
            session = subscriber.outlet
            if isinstance(session, Session) and session.group != SYSTEM_GROUP:
                told = {"client": session.client, "subscription": subscriber.sub, "group": session.group}
                blocking = self._pressure is not None and self._pressure.is_blocking(subscriber)
                yield told | subscriber.figures() | {"blocking": blocking}

    def waits(self) -> Iterator[dict[str, Any]]:
        """Publishers that wait for a subscription: for how long, and for which."""
        for session, waited_s, blocked_by in self._publishers.waiting():
            told = {"client": session.client, "stream": session.stream, "group": session.group}
            yield told | {"waited_s": round(waited_s, 3), "blocked_by": blocked_by}

    def name_obsolete(self) -> None:
        """What was left out for consumers that have taken nothing since is counted by its keys."""
        for subscriber in self.deliveries.subscribers.values():
            subscriber.feed.name_obsolete()

    def _note(self, session: Session, action: str, subscriber: Subscriber | None = None) -> None:
        if not self.journal.kept:
            return
        told: Attributes = {"action": action, "node": self._name, "client": session.client, "group": session.group}
        if subscriber is None:
            told |= {"type": "session", "stream": session.stream}
            self.journal.note(f"session/{self._name}/{session.client}", told, action == "closed")
        else:
            told |= {"type": "subscription", "subscription": subscriber.sub, **subscriber.options()}
            key = f"subscription/{self._name}/{session.client}/{subscriber.sub}"
            self.journal.note(key, told, action == "removed")

    # What the node says ---------------------------------------------------------------------------------------------

    def on_deliver(self, packet: Packet) -> None:
        if packet is self._passed:
            self._passed = None
        else:
            self._pass_on(packet)

    def _pass_on(self, packet: Packet) -> None:
        if self._pressure is not None:
            self._pressure.on_packet(packet)
        try:
            self.deliveries.on_packet(packet)
        except PeerError as error:  # another broker let it pass
            self._complain(str(error))
            self.deliveries.on_lost(packet.stream, packet.first, packet.last, "malformed")

    def on_skip(self, skip: Skip) -> None:
        if skip.reason == "void":
            self.deliveries.on_void(skip.stream, skip.first, skip.last)
        else:
            self.deliveries.on_lost(skip.stream, skip.first, skip.last, skip.reason)

    def on_page(self, paged: Paged) -> None:
        self.deliveries.catching_up.on_page(paged.logger, paged.page, time.monotonic())

    def on_acked(self, acked: Acked) -> None:
        session = self._streams.get(acked.stream)
        if session is not None:
            session.safe = max(session.safe, acked.last)
            if acked.level == "logged":
                session.logged = max(session.logged, acked.last)
            if session not in self._owed:
                self._published[session] = None

    def on_refused(self, refused: Refused) -> None:
        session = self._streams.get(refused.stream)
        if session is None:
            return
        if refused.stream in self._node.sender.streams:
            if not self._publishers.hold(session):
                self._blocked[session] = None
                self._retry_at = 0.0
        else:
            self._refuse(session.place, "superseded" if session.holder else "stream", refused.reason)
            self._lost.append(session)

    def on_numbers(self, numbers: Numbers) -> None:
        session = self._streams.get(numbers.stream)
        if session is None or session.holder != numbers.holder:
            return
        if session.welcomed:
            session.send(encode(session_messages.Numbers(numbers.last)))
        else:
            self._welcome(session, numbers.floor, numbers.last)

    def on_attached(self, attached: Attached) -> None:
        self.durables.on_attached(attached)

    def on_detached(self, detached: Detached) -> None:
        self.durables.on_detached(detached)

    def on_ready(self, ready: Ready) -> None:
        if (session := self._streams.get(ready.stream)) is not None:
            self._publishers.release(session)

    # What clients say -----------------------------------------------------------------------------------------------

    def _on_gone(self, place: Connection, now: float) -> None:
        if (session := self._sessions.get(place)) is not None:
            self._end(session, now)

    def _take(self, place: Connection, parts: Message, now: float) -> Iterable[Input]:
        if len(parts) != 1:
            raise PeerError(f"a message of {len(parts)} parts")
        (frame,) = parts
        session = self._sessions.get(place)
        if len(frame) > self.limits.message_bytes_max:
            reason = f"a message has at most {self.limits.message_bytes_max} bytes, not {len(frame)}"
            self._refuse(place, "limit", reason)
            if session is not None:
                self._end(session, now)
            return ()
        try:
            message = decode_from_client(frame)
        except PeerError as error:
            if session is None:  # it may well be of another version, and would wait for ever
                self._refuse(place, "version", str(error))
            raise
        if isinstance(message, Hello):
            return self._on_hello(place, message, now)
        if session is None:
            if not isinstance(message, Goodbye):
                self._refuse(place, "closed", "the session is over")
            return ()
        return self._handlers[type(message)](session, message)

    def _on_hello(self, place: Connection, hello: Hello, now: float) -> Iterator[Input]:
        known = self._clients.get(hello.client)
        if known is not None:
            if known.epoch > hello.epoch:
                return
            self._end(known, now)
        if (before := self._sessions.get(place)) is not None:  # a connection has one session at a time
            self._end(before, now)
        reason = self._unwelcome(hello)
        if reason is not None:
            self._refuse(place, *reason)
            return
        stream = hello.stream
        if hello.publisher is not None:
            stream = named_stream(hello.group, hello.publisher)
            if (other := self._streams.get(stream)) is not None:
                if other.holder != hello.holder:
                    self._refuse(other.place, "superseded", f"another client publishes as {hello.publisher}")
                self._end(other, now)
        elif stream is None:
            stream = anonymous_stream(hello.group, self._issuer, self._numbered)
            self._numbered += 1
        session = Session(place, hello, stream, self.limits.window_bytes, self.counters, self._on_stuck)
        self._sessions[place] = self._clients[hello.client] = self._streams[stream] = session
        self._door.know(place)
        self._forsaken.pop(stream, None)
        self.counters.client_sessions += 1
        if hello.publisher is not None:  # welcome when there are numbers for it
            self._claiming[session] = now
            yield Claim(stream, hello.holder, hello.stream is not None, hello.following)
            return
        yield Adopt(stream, hello.following)
        if session not in self._lost:  # or its stream is over, as it has been told
            self._welcome(session, 0, SEQ_MAX)

    def _welcome(self, session: Session, first: int, last: int) -> None:
        self._claiming.pop(session, None)
        session.welcomed = True
        limits, group = self.limits, self._node._ctx.config.group(session.group)
        welcome = Welcome(
            session.epoch, self._name, session.stream, limits.window_bytes, limits.message_bytes_max, limits.silence_s,
            first, last, group.order, self.interests, limits.purge_patience_s, group.purging, group.backpressure,
        )  # fmt: skip
        session.send(encode(welcome))
        if self.is_cut_off:
            self._send_away(session)
        self._tell("client %s is here", "client-in", session)
        self._note(session, "opened")
        self._published[session] = None

    def _unwelcome(self, hello: Hello) -> tuple[Code, str] | None:
        if self._leaving or self._node.membership.status != "member":
            return "closed", f"{self._name} is not a member of the mesh now"
        if len(self._sessions) >= self.limits.sessions_max:
            return "limit", f"{self._name} has {self.limits.sessions_max} clients, and takes no more"
        try:
            anonymous_stream(hello.group, self._issuer, 0)
            if hello.publisher is not None:
                named = named_stream(hello.group, hello.publisher)
        except UsageError as error:
            return "usage", str(error)
        if hello.publisher is not None and hello.group == SYSTEM_GROUP:
            return "authorization", READ_ONLY
        if hello.publisher is not None:
            if hello.stream not in (None, named) or not hello.holder:
                return "usage", f"{hello.stream} is not the stream of {hello.publisher} in {hello.group}"
            if not self._node.membership.has_loggers:
                return "closed", f"{self._name} knows of no logger, and a named publisher needs one"
        elif hello.stream is not None:
            if issued_by(hello.stream) is None or group_of(hello.stream) != hello.group:
                return "usage", f"{hello.stream} is not a client's stream in {hello.group}"
            if hello.stream in self._streams:
                return "authorization", f"{hello.stream} is another client's"
        return None

    def _on_publish(self, session: Session, message: Publish) -> Iterable[Input]:
        packet = message.packet
        assert self._passed is None, f"{self._passed.stream}:{self._passed.first} was passed on, and not delivered"
        session.told = None  # each is answered, one that we have already, too: its client counts those under way
        if not message.patient:
            self._published[session] = None
        elif session not in self._published:
            self._owed[session] = None
            self._answer_at = min(self._answer_at, session.place.heard_at + ANSWER_S)
        if packet.stream != session.stream:
            raise PeerError(f"{session.client} published on {packet.stream}, which is not its stream")
        # What must not go any further is refused here, where its publisher can be told.
        if session.group == SYSTEM_GROUP:
            return self._turn_away(session, "authorization", READ_ONLY)
        if packet.holes:
            reason = f"{packet.stream}:{packet.holes[0].first} is left out: what is published has no holes"
            return self._turn_away(session, "usage", reason)
        try:
            self.deliveries.vet(packet)
        except PeerError as error:
            return self._turn_away(session, "usage", str(error))
        counters = self.counters
        counters.packets_published += 1
        counters.events_published += len(packet.sizes) // 4
        counters.bytes_published += len(packet.blob)
        if self._cut_through.may(packet):
            self._pass_on(packet)
            self._passed = packet
        return (Forward(packet),)

    def _turn_away(self, session: Session, code: Code, reason: str) -> Iterable[Input]:
        self._refuse(session.place, code, reason)
        self._end(session, session.place.heard_at)
        return ()

    def _on_subscribe(self, session: Session, message: Subscribe) -> Iterable[Input]:
        limits, known = self.limits, session.subscribers.get(message.sub)
        reason = None
        if len(message.selector) > limits.selector_length_max:
            reason = f"a selector has at most {limits.selector_length_max} characters, not {len(message.selector)}"
        elif message.buffer > limits.buffer_events_max:
            reason = f"a buffer holds at most {limits.buffer_events_max} events, not {message.buffer}"
        elif known is None and self._subscriptions(session) >= limits.subscriptions_max:
            reason = f"a client has at most {limits.subscriptions_max} subscriptions"
        if reason is not None:
            self._refuse(session.place, "limit", reason, message.sub)
            return ()
        if self.order is not None and not self.order.ready(session.group):
            self._parked.append((session, message))
            session.parked += 1
            return ()
        if message.durable is not None and known is None:
            return self.durables.ask(session, message, message.durable)
        self.subscribe(session, message)
        return ()

    def _subscriptions(self, session: Session) -> int:
        """How many it has, or waits for."""
        return len(session.subscribers) + session.parked + self.durables.asked_by(session)

    def _subscribe_parked(self) -> Iterator[Input]:
        assert self.order is not None
        parked, self._parked = self._parked, []
        for session, message in parked:
            if not self.is_here(session):
                continue
            if self.order.ready(session.group):
                session.parked -= 1
                yield from self._on_subscribe(session, message)
            else:
                self._parked.append((session, message))

    def subscribe(self, session: Session, message: Subscribe, had: Had | None = None) -> bool:
        known = session.subscribers.get(message.sub)
        if message.policy != "random" and not self._node._ctx.config.group(session.group).purging:
            message = replace(message, policy="none")  # every event of this group matters
        try:
            if known is not None:
                self.deliveries.update(known, message.selector)
            else:
                session.subscribers[message.sub] = self.deliveries.add(session, session.group, message, had)
        except SelectorError as error:
            self._refuse(session.place, "selector", error.message, message.sub, error.position)
        except GossamerError as error:
            self._refuse(session.place, "usage", str(error), message.sub)
        else:
            self.counters.subscriptions_added += known is None
            self.counters.subscriptions_changed += known is not None
            self._note(session, "added" if known is None else "changed", session.subscribers[message.sub])
            if self._pressure is not None:
                subscriber = session.subscribers[message.sub]
                self._pressure.on_subscribed(subscriber, message.start, self.deliveries.progress)
            session.send(encode(Subscribed(message.sub)))
            return True
        return False

    def _on_unsubscribe(self, session: Session, message: Unsubscribe) -> Iterable[Input]:
        waiting = [each for each in self._parked if each[0] is not session or each[1].sub != message.sub]
        session.parked -= len(self._parked) - len(waiting)
        self._parked = waiting
        return (
            self.durables.close(session, message.sub, message.forget) if self.unsubscribe(session, message.sub) else ()
        )

    def unsubscribe(self, session: Session, sub: int) -> bool:
        subscriber = session.subscribers.pop(sub, None)
        if subscriber is None:
            return False
        self.counters.subscriptions_removed += 1
        self._note(session, "removed", subscriber)
        self._remove(subscriber)
        return True

    def _remove(self, subscriber: Subscriber) -> None:
        self.deliveries.remove(subscriber)
        if self._pressure is not None:
            self._pressure.on_unsubscribed(subscriber)

    def _on_credit(self, session: Session, message: Credit) -> Iterable[Input]:
        if message.bytes > session.sent_bytes:
            raise PeerError(f"{session.client} has taken more than it was sent")
        was_open = session.open
        session.taken_bytes = max(session.taken_bytes, message.bytes)
        for sub, total in message.grants:
            subscriber = session.subscribers.get(sub)
            if subscriber is not None:
                self.deliveries.grant(subscriber, total)
        if not was_open and session.open:
            for subscriber in session.subscribers.values():
                self.deliveries.grant(subscriber, 0)
        return ()

    def _on_ping(self, session: Session, message: Ping) -> Iterable[Input]:
        session.send(encode(Pong(message.number)))
        if session in self._owed:
            self._published[session] = None
        return ()

    def _on_goodbye(self, session: Session, _: Goodbye) -> Iterator[Input]:
        self._end(session, None)
        yield Close(session.stream)

    # For durable subscriptions (broker/durables.py) ------------------------------------------------------------------

    def now(self, group: str) -> tuple[dict[StreamId, int], int]:
        return self.deliveries.now(group)

    def known(self, group: str) -> Iterator[StreamId]:
        return (name for name in self._node.receiver.streams if group_of(name) == group)

    @property
    def retired(self) -> RetiredStreams:
        return self._node.receiver.retired

    def is_here(self, session: Session) -> bool:
        return self._sessions.get(session.place) is session

    def tell(self, session: Session, message: FromBroker) -> None:
        session.send(encode(message))

    def refuse(self, session: Session, code: Code, reason: str, sub: int, position: int = 0) -> None:
        self._refuse(session.place, code, reason, sub, position)

    def later(self, given: Input) -> None:
        self._inputs.append(given)

    # Inside ---------------------------------------------------------------------------------------------------------

    def _on_stuck(self, session: Session) -> None:
        """Not all that was sent to it is on its way; whoever takes none of too much is cut off."""
        if not self._door.look_after(session.place):
            self._lost.append(session)

    def _acknowledge(self, session: Session) -> None:
        self._owed.pop(session, None)
        if not self._owed:
            self._answer_at = NEVER
        outgoing = self._node.sender.streams.get(session.stream)
        sent = max(session.safe, -1 if outgoing is None else outgoing.next - 1)
        told = (sent, session.logged, session.safe)
        if told != session.told and session.welcomed and self.is_here(session):
            session.told = told
            session.send(encode(Acks(*told)))

    def _unblock(self, now: float) -> None:
        """Have them send again what was not taken, if it could be now."""
        config, sender = self._node._ctx.config, self._node.sender
        self._retry_at = now + RETRY_S
        if sender.bytes >= config.send_buffer_bytes_max or (self.order is not None and self.order.full):
            return
        for session in self._blocked:
            outgoing = sender.streams.get(session.stream)
            if outgoing is not None:
                self.counters.packets_resent += 1
                session.send(encode(Resend(outgoing.next)))
        self._blocked.clear()
        self._retry_at = NEVER

    def _loggers(self) -> list[NodeId]:
        """Those that can be asked now."""
        membership = self._node.membership
        return [node for node in membership.loggers if node in membership.active]

    def _on_tick(self, now: float) -> Iterator[Input]:
        if now >= self._reach_at:
            self._reach_at = now + REACH_S
            self.deliveries.reach()
        if now >= self._hold_at:
            positions = self.deliveries.catching_up.readings.positions(self._node.receiver.streams)
            self._hold_at = now + max(REACH_S, HOLD_SHARE * (time.monotonic() - now))
            if positions != self._held:
                self._held = positions
                yield Hold(positions)
        self._note_isolation(now)
        self._publishers.refresh()
        self._door.on_tick(now)
        self._tell_who_waits_for_numbers(now)
        for connection in [each for each in self._door.connections if each.heard_at + self.limits.silence_s < now]:
            self._on_gone(connection, now)
            self._door.drop(connection)
        for stream in [name for name, since in self._forsaken.items() if since + self.limits.return_s < now]:
            yield Abandon(stream)
            if stream not in self._node.sender.streams:
                del self._forsaken[stream]

    def _tell_who_waits_for_numbers(self, now: float) -> None:
        """Send a named publisher away that got no sequence numbers in time, and say which loggers did not answer."""
        for session, since in list(self._claiming.items()):
            if since + NUMBERS_S < now:
                del self._claiming[session]
                self._refuse(session.place, "closed", self._why_no_numbers(session.stream))

    def _why_no_numbers(self, stream: StreamId) -> str:
        loggers, outgoing = self._node.membership.loggers, self._node.sender.streams.get(stream)
        answered = outgoing.numbers.answered if outgoing is not None and outgoing.numbers is not None else ()
        silent = [node for node in loggers if node not in answered]
        votes = f"a named publisher needs the votes of {needed(len(loggers), False)} of {len(loggers)} loggers"
        return f"{votes}; no answer from {', '.join(silent)}" if silent else votes

    def _end(self, session: Session, now: float | None) -> None:
        """A session is over; without a goodbye its stream waits for the client to return."""
        self._claiming.pop(session, None)
        if self._sessions.pop(session.place, None) is None:
            return
        self._door.forget(session.place, session.place.heard_at if now is None else now)
        text = "client %s has left" if now is None else "client %s is gone without a goodbye"
        self._tell(text, "client-out", session)
        self.counters.clients_lost += now is not None
        self.counters.subscriptions_removed += len(session.subscribers)
        for subscriber in session.subscribers.values():
            self._note(session, "removed", subscriber)
            self._remove(subscriber)
        session.subscribers.clear()
        self._publishers.forget(session)
        self._inputs += self.durables.end(session)
        self._note(session, "closed")
        self._published.pop(session, None)
        self._owed.pop(session, None)
        self._blocked.pop(session, None)
        if not self._blocked:
            self._retry_at = NEVER
        if self._clients.get(session.client) is session:
            del self._clients[session.client]
        if self._streams.get(session.stream) is session:
            del self._streams[session.stream]
            if now is not None:
                self._forsaken[session.stream] = now

    def _refuse(self, place: Connection, code: Code, reason: str, sub: int | None = None, position: int = 0) -> None:
        self.counters.refusals[code] += 1
        session = self._sessions.get(place)
        who = "a stranger" if session is None else session.client
        told = {"event": "refusal", "client": who, "code": code, "subscription": sub}
        _log.info("refused to %s: %s: %s", who, code, reason, extra={"fields": told})
        refusal: FromBroker = Refusal(code, reason[:4_096], sub, position)
        if not place.send(encode(refusal)) and not self._door.look_after(place) and session is not None:
            self._lost.append(session)

    def _tell(self, text: str, event: str, session: Session) -> None:
        told = {"event": event, "client": session.client, "group": session.group, "stream": session.stream}
        _log.info(text, session.client, extra={"fields": told})

    def _complain(self, text: str) -> None:
        self.counters.client_errors += 1
        count = self.counters.client_errors
        if count & (count - 1) == 0:  # a flood of them is told now and then
            _log.warning("client error %d: %s", count, text)


def _name_of(subscriber: Subscriber) -> str:
    """A subscription as telemetry names it."""
    client = subscriber.outlet.client if isinstance(subscriber.outlet, Session) else "?"
    return f"{client}/{subscriber.sub}"
