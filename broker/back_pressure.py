"""Back-pressure at a broker: from its subscriptions' queues to its node, and from the node to its publishers.

    queues ── Room ──▶ node ── Window ──▶ publisher's node ── Ready ──▶ Allowance ──▶ publisher

Of each namespace with `backpressure = true` the node is told how many events the slowest subscription still takes
(`Room`), at most once a turn of the loop. A subscription counts when it is live:

    room = credit that its client granted + its buffer - events that wait in its queue, or in the log behind that

A subscription that reads the past (`start=`, a durable one that was away) reads from loggers, at its own pace: it
counts once it is live. One that goes on where it was, and is no further behind than back-pressure lets a reader be,
counts at once: its client has come back after a moment, or from another broker. One with `policy="random"` is never
full. Which of those that count are waited for, and for how long, is protocol/pressure.py. Publishers here that may go
no further are told so, and which subscription has no room.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gossamer.broker.audience import Audience
from gossamer.broker.counters import Counters
from gossamer.broker.recent import Progress
from gossamer.broker.session import Session
from gossamer.broker.subscriber import QUEUE_BYTES_MAX, Subscriber
from gossamer.messages.ids import SEQ_MAX, group_of
from gossamer.messages.packet import Packet
from gossamer.messages.session import Allowance, Resend, Start, encode
from gossamer.protocol.config import Config, Group
from gossamer.protocol.inputs import Room
from gossamer.protocol.node import Node
from gossamer.protocol.pressure import Level, Pressure

RETURNED_EVENTS_MAX = 8_192
"""Besides two buffers: so far behind a subscription may be that is waited for as soon as it is here."""
AMPLE_EVENTS = 1_024
"""A publisher with so much room is not told of any limit."""
TELL_S = 0.1
"""So long a little more room may wait to be told; a quarter of a buffer is told at once."""
LOOK_S = 0.5
NEVER = float("inf")

_log = logging.getLogger("gossamer.back_pressure")


class Namespace:
    """One namespace with back-pressure, as far as it is subscribed to here."""

    __slots__ = (
        "came", "came_bytes", "came_events", "look_at", "low", "more", "pressure", "told", "told_at", "told_by",
    )  # fmt: skip

    def __init__(self, max_s: float) -> None:
        self.pressure: Pressure[int] = Pressure(max_s)
        self.told: int | None = None
        """The room that the node was last told."""
        self.told_by: int | None = None
        """And the subscription that had no more than that."""
        self.told_at = -NEVER
        self.came = 0
        """Events that came since then."""
        self.came_bytes = self.came_events = 0
        """Of all that came, with less weight the longer ago: how large an event is."""
        self.low = False
        """Whether there is little or no room."""
        self.more = False
        """Whether there is a little more room than was told."""
        self.look_at = 0.0

    @property
    def event_bytes(self) -> int:
        """The mean size of an event."""
        return self.came_bytes // self.came_events if self.came_events else 0

    @property
    def due(self) -> bool:
        """Whether the room may have changed enough to be told, so that it is worth a look at every subscription."""
        return self.low or self.more or (self.told is not None and 4 * self.came >= self.told)


class BackPressure:
    """All namespaces with back-pressure at one broker."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        audiences: Mapping[str, Audience],
        subscribers: Mapping[int, Subscriber],
        counters: Counters,
        name_of: Callable[[Subscriber], str],
        make_room: Callable[[Subscriber], None],
    ) -> None:
        """`audiences` and `subscribers` are those of broker/deliveries.py; `name_of` names a subscription for people;
        `make_room` purges what is obsolete and has waited long enough."""
        self._namespaces = {name: Namespace(group.backpressure_max_s) for name, group in groups.items()}
        self._audiences = audiences
        self._subscribers = subscribers
        self._counters = counters
        self._name_of = name_of
        self._make_room = make_room
        self._returned: set[int] = set()
        """Subscriptions that go on where they were, a little behind, and have not been live here."""

    def on_packet(self, packet: Packet) -> None:
        """A packet was handed to the subscriptions."""
        namespace = self._namespaces.get(group_of(packet.stream))
        if namespace is not None:
            count = packet.count
            namespace.came += count
            namespace.came_events += count
            namespace.came_bytes += len(packet.blob)
            if namespace.came_events > 4_096:
                namespace.came_events //= 2
                namespace.came_bytes //= 2

    def on_subscribed(self, subscriber: Subscriber, start: Start | None, progress: Progress) -> None:
        """A subscription came, and goes on from there."""
        if subscriber.group in self._namespaces:
            self._namespaces[subscriber.group].look_at = 0.0
            if start is not None and start.since_ns and start.positions:
                reached = progress.of(subscriber.group).items()
                behind = sum(max(0, last - start.positions.get(stream, last)) for stream, last in reached)
                if behind <= 2 * subscriber.buffer + RETURNED_EVENTS_MAX:
                    self._returned.add(subscriber.key)

    def on_unsubscribed(self, subscriber: Subscriber) -> None:
        self._returned.discard(subscriber.key)
        if subscriber.group in self._namespaces:
            self._namespaces[subscriber.group].look_at = 0.0

    def rooms(self, now: float) -> Iterator[Room]:
        """Room inputs that the node needs now."""
        for group, namespace in self._namespaces.items():
            if now >= namespace.look_at or namespace.due:
                namespace.look_at = now + LOOK_S
                room = self._look(group, namespace, now)
                if self._is_news(namespace, room, now):
                    tightest = namespace.pressure.tightest
                    namespace.told, namespace.told_at, namespace.came, namespace.told_by = room, now, 0, tightest
                    by = "" if tightest is None else self._name_of(self._subscribers[tightest])
                    yield Room(group, room, by)

    def next_deadline(self) -> float:
        deadlines = [
            min(each.pressure.next_deadline(), each.told_at + TELL_S if each.more else each.look_at)
            for each in self._namespaces.values()
        ]
        return min(deadlines, default=NEVER)

    def is_blocking(self, subscriber: Subscriber) -> bool:
        """Whether publishers wait for this subscription now."""
        namespace = self._namespaces.get(subscriber.group)
        return namespace is not None and subscriber.key in namespace.pressure.blocking

    def figures(self) -> dict[str, int]:
        pressures = [each.pressure for each in self._namespaces.values()]
        return {
            "subscriptions_blocking": sum(len(each.blocking) for each in pressures),
            "subscriptions_unwaited": sum(len(each.excused) for each in pressures),
        }

    def _is_news(self, namespace: Namespace, room: int | None, now: float) -> bool:
        """Whether the node has to know it now: all of it but a little more room."""
        told = namespace.told
        tightest = namespace.pressure.tightest
        quarter = 1 if tightest is None else max(1, self._subscribers[tightest].buffer // 4)
        namespace.low, namespace.more = room is not None and room <= quarter, False
        if room is None or told is None:
            return room is not told
        left = max(0, told - namespace.came)
        more = room - left
        news = more < 0 or more >= quarter or (more > 0 and now >= namespace.told_at + TELL_S)
        news = news or (room == 0 and tightest != namespace.told_by)
        namespace.more = more > 0 and not news
        return news

    def _look(self, group: str, namespace: Namespace, now: float) -> int | None:
        """How many events all that count still take."""
        audience, pressure = self._audiences.get(group), namespace.pressure
        levels = [] if audience is None else self._levels(audience, namespace.event_bytes)
        room = pressure.room(levels, now)
        self._counters.subscriptions_excused += len(pressure.stopped)
        for key in pressure.stopped:
            text = "publishers in %s no longer wait for subscription %s: it has no room, and took nothing for %g s"
            self._tell(logging.WARNING, text, "excused", self._subscribers[key], pressure.max_s)
        for key in pressure.resumed:
            text = "publishers in %s wait for subscription %s again: it has caught up"
            self._tell(logging.INFO, text, "waited-for", self._subscribers[key])
        return room

    def _tell(self, level: int, text: str, event: str, subscriber: Subscriber, *figures: Any) -> None:
        name = self._name_of(subscriber)
        told = {"event": event, "group": subscriber.group, "subscription": name}
        _log.log(level, text, subscriber.group, name, *figures, extra={"fields": told})

    def _levels(self, audience: Audience, event_bytes: int) -> list[Level[int]]:
        subscribers = (self._subscribers[key] for key in audience.selectors)
        return [
            Level(each.key, self._room(audience, each, event_bytes), each.granted + each.sent)
            for each in subscribers
            if not each.feed.lossy and (not each.begins or each.key in self._returned)
        ]

    def _room(self, audience: Audience, subscriber: Subscriber, event_bytes: int) -> int:
        feed = subscriber.feed
        if subscriber.reading is not None:
            return 0  # it was live, here or elsewhere, and reads what it missed from memory or from loggers
        room, size = self._events_room(audience, subscriber)
        if room <= 0 and len(feed):
            self._make_room(subscriber)
            room, size = self._events_room(audience, subscriber)
        left_bytes = QUEUE_BYTES_MAX - feed.queue.bytes - size
        if event_bytes and room > left_bytes // event_bytes:
            room = left_bytes // event_bytes
        return room

    def _events_room(self, audience: Audience, subscriber: Subscriber) -> tuple[int, int]:
        """How many more events a subscription takes, and the bytes that wait for it in the broker's log."""
        feed = subscriber.feed
        credit = max(0, subscriber.credit) if subscriber.outlet.open else 0
        events, size = self._backlog(audience, subscriber) if feed.behind else (0, 0)
        return credit + subscriber.buffer - len(feed) - events, size

    def _backlog(self, audience: Audience, subscriber: Subscriber) -> tuple[int, int]:
        """Events of the broker's log that a subscription has not taken, and the bytes of their packets; no more of them
        than fill its buffer. Where it is not known which events match, all are counted."""
        assert subscriber.at is not None
        number, place = subscriber.at
        events = size = 0
        following = audience.log_first + len(audience.log)
        for batch in reversed(audience.log):
            following -= 1
            if following < number or events >= subscriber.buffer:
                break
            known = batch.answers(subscriber.selector)
            matching = batch.places(subscriber.selector) if known else range(batch.count)
            events += len(matching) - (bisect_left(matching, place) if following == number else 0)
            size += batch.size
        return events, size


class Limit:
    """One publisher that may go no further than `last` for now."""

    __slots__ = ("blocked_by", "last", "moved_at", "refused")

    def __init__(self) -> None:
        self.last = SEQ_MAX
        self.refused = False
        """Whether something that it sent was not taken: it has to send that again."""
        self.moved_at = 0.0
        """When `last` last changed."""
        self.blocked_by = ""


class Publishers:
    """Publishers at this broker that wait for subscriptions, here or elsewhere."""

    def __init__(self, node: Node, counters: Counters) -> None:
        self._windows, self._sender = node.windows, node.sender
        self._counters = counters
        self._limits: dict[Session, Limit] = {}

    def hold(self, session: Session) -> bool:
        """Something of this publisher was refused. If that was for want of room, tell it how far it may go; otherwise
        return False."""
        stream, outgoing = session.stream, self._sender.streams.get(session.stream)
        if outgoing is None or stream not in self._windows.blocked:
            return False
        if self._windows.wait(stream, outgoing.next) >= outgoing.next:
            return False
        limit = self._limits.setdefault(session, Limit())
        limit.refused = True
        self._allow(session, limit)
        return True

    def release(self, session: Session) -> None:
        """There is room for more of this publisher's stream."""
        if (limit := self._limits.get(session)) is not None:
            self._allow(session, limit)

    def refresh(self) -> None:
        """Name the subscriptions that are waited for now: others may have less room meanwhile."""
        for session, limit in self._waiting():
            if (blocked_by := self._name(session)) != limit.blocked_by:
                limit.blocked_by = blocked_by
                session.send(encode(Allowance(limit.last, blocked_by)))

    def forget(self, session: Session) -> None:
        if self._limits.pop(session, None) is not None:
            self._windows.blocked.pop(session.stream, None)

    def waiting(self) -> Iterator[tuple[Session, float, str]]:
        """Publishers that have used up their room: since when there was no more, and the subscription that has none."""
        now = time.monotonic()
        return ((session, now - limit.moved_at, limit.blocked_by) for session, limit in self._waiting())

    def _waiting(self) -> Iterator[tuple[Session, Limit]]:
        streams = self._sender.streams
        for session, limit in self._limits.items():
            outgoing = streams.get(session.stream)
            if outgoing is not None and outgoing.next > limit.last:
                yield session, limit

    def _allow(self, session: Session, limit: Limit) -> None:
        outgoing = self._sender.streams.get(session.stream)
        if outgoing is None:
            return
        before, following = limit.last, outgoing.next
        limit.last = self._windows.wait(session.stream, following)
        if limit.last - following >= AMPLE_EVENTS:
            limit.last = SEQ_MAX
            del self._limits[session]
            self._windows.blocked.pop(session.stream, None)
        if limit.last != before:
            limit.moved_at = time.monotonic()
            limit.blocked_by = self._name(session) if limit.last < SEQ_MAX else ""
            session.send(encode(Allowance(limit.last, limit.blocked_by)))
        if limit.refused and limit.last >= following:
            limit.refused = False
            self._counters.packets_resent += 1
            session.send(encode(Resend(following)))

    def _name(self, session: Session) -> str:
        node, by = self._windows.blocker(session.stream)
        return f"{by} at {node}" if by else node  # it has not told its room yet


def back_pressure(
    config: Config,
    audiences: Mapping[str, Audience],
    subscribers: Mapping[int, Subscriber],
    counters: Counters,
    name_of: Callable[[Subscriber], str],
    make_room: Callable[[Subscriber], None],
) -> BackPressure | None:
    """None if no namespace has back-pressure: then it costs nothing."""
    groups = {name: group for name, group in config.groups.items() if group.backpressure}
    return BackPressure(groups, audiences, subscribers, counters, name_of, make_room) if groups else None
