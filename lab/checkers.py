"""The properties a run must have, checked from observation alone (shared vocabulary: docs/rpbcast.md).

Safety, at every step:
    no creation, no duplication, FIFO, every gap explained; an acknowledgement means what it says; no logger collects
    what it may not; what is void was never acknowledged, its publisher is dead, and nobody who lives delivered it.

    What is left out as obsolete is obsoleted, directly or in turn, by what is named (semantic integrity).

Liveness, some time after healing:
    every live member has everything that any of them has, that was acknowledged, or whose publisher lives; or, for what
    it left out as obsolete, it has something that obsoletes it (semantic validity, agreement and FIFO completeness, 000
    §4.3.1).

Events are told apart by a serial number in their attributes, so that a checker need not believe anybody's numbering.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gossamer.lab.history import History
from gossamer.lab.observer import Observer
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, StreamId
from gossamer.messages.packet import Packet
from gossamer.protocol.effects import Acked, Collect, Deliver, Moved, Record, Refused, Skip, Status, Void
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.placement import ranked

SERIAL = "serial"
WAITED_FOR: tuple[Status, ...] = ("member", "disconnecting", "disconnected")


@dataclass
class Violation(Exception):
    """A property that did not hold, and the event whose story tells why."""

    rule: str
    what: str
    event: EventId | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


@dataclass
class Life:
    """One incarnation of one node, as seen from outside."""

    node: str
    incarnation: int
    logger: bool
    before: "Life | None" = None
    """The life that it resumes."""
    member_since_s: float | None = None
    """When it first became a member, if it did; that of the life before, if it resumes it."""
    status: Status = "outside"
    up: bool = True
    next: dict[StreamId, int] = field(default_factory=dict)
    first: dict[StreamId, int] = field(default_factory=dict)
    skipped: dict[StreamId, IntervalSet] = field(default_factory=dict)
    omitted: dict[EventId, EventId] = field(default_factory=dict)
    """What it was told is obsolete, and for what."""
    acked: dict[StreamId, int] = field(default_factory=dict)

    def has(self, event: EventId) -> bool:
        """Whether this very life delivered it."""
        return self.covers(event) and event not in self.omitted

    def covers(self, event: EventId) -> bool:
        """Whether this very life delivered it, or left it out as obsolete."""
        return self.first.get(event.stream, event.seq + 1) <= event.seq < self.next.get(
            event.stream, 0
        ) and event.seq not in self.skipped.get(event.stream, ())

    def replaces(self, event: EventId, published: "Published") -> bool:
        """Whether it delivered an event, in this life or one that it resumes, or began after it."""
        if self.has(event) or (self.member_since_s is not None and published.at_s <= self.member_since_s):
            return True
        return self.before is not None and self.before.replaces(event, published)

    def owed(self, event: EventId, published: "Published") -> bool:
        """Whether it was a member when the event was published, and was not given it in the life it resumes."""
        if self.member_since_s is None or published.at_s <= self.member_since_s:
            return False
        return self.before is None or not self.before.settled(event)

    def settled(self, event: EventId) -> bool:
        """Whether it has the event, or was told why not."""
        if self.before is not None and self.before.settled(event):
            return True
        return self.next.get(event.stream, 0) > event.seq


@dataclass(slots=True)
class Published:
    """An event that a publisher offered and a node took."""

    serial: int
    stream: StreamId
    at_s: float
    life: Life
    id: EventId | None = None


class Checker(Observer):
    """Watches a run; raises `Violation` at the first thing that must not be."""

    def __init__(
        self, loggers_min: int, retain_s: float, expire_s: float, faults: int = 0, replicas: int | None = None
    ) -> None:
        self.replicas = replicas
        self.loggers_min = loggers_min
        self.retain_s = retain_s
        self.expire_s = expire_s
        self.faults = faults
        self.purging = True
        """Whether anything may be left out as obsolete."""
        self.lives: dict[str, Life] = {}
        self.ended: list[Life] = []
        self.published_events: dict[int, Published] = {}
        self.events: dict[EventId, Published] = {}
        self.acked_events: set[EventId] = set()
        self.stored: dict[str, dict[StreamId, IntervalSet]] = {}
        self.void: dict[StreamId, IntervalSet] = {}
        self.expelled: dict[str, None] = {}
        self.collected_upto: dict[tuple[str, StreamId], int] = {}
        self.delivered_count = 0
        self._offered: dict[tuple[str, StreamId], list[Published]] = {}
        self.history = History()

    # Lives ----------------------------------------------------------------------------------------------------------

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        life = self.lives[node] = Life(node, incarnation, logger)
        if resume:  # at least once: what the life before was owed and did not get, this one is owed
            life.before = next((old for old in reversed(self.ended) if old.node == node), None)

    def crashed(self, at_s: float, node: str) -> None:
        life = self.lives.pop(node)
        self._offered = {key: offered for key, offered in self._offered.items() if key[0] != node}
        life.up = False
        self.ended.append(life)

    def became(self, at_s: float, node: str, status: Status) -> None:
        life = self.lives[node]
        life.status = status
        if status == "member" and life.member_since_s is None:
            stayed = life.before is not None and life.before.status in WAITED_FOR
            since_s = life.before.member_since_s if life.before is not None and stayed else None
            life.member_since_s = at_s if since_s is None else since_s

    # Publishing -----------------------------------------------------------------------------------------------------

    def published(self, at_s: float, node: str, stream: StreamId, contents: tuple[Content, ...]) -> None:
        offered = self._offered.setdefault((node, stream), [])
        for content in contents:
            serial = content.attributes[SERIAL]
            assert isinstance(serial, int)
            published = Published(serial, stream, at_s, self.lives[node])
            self.published_events[serial] = published
            offered.append(published)

    def refused(self, at_s: float, node: str, refused: Refused) -> None:
        """The last `count` that were offered were not taken; what has an id was."""
        offered = self._offered.get((node, refused.stream), [])
        for published in offered[len(offered) - refused.count :]:
            if published.id is None:
                del self.published_events[published.serial]
        del offered[len(offered) - refused.count :]

    # Delivery -------------------------------------------------------------------------------------------------------

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        packet = deliver.packet
        life = self.lives[node]
        self._in_order(life, packet.stream, packet.first, packet.last)
        for event in packet.events():
            assert event.id is not None
            published = self.published_events.get(event.attributes.get(SERIAL))  # type: ignore[arg-type]
            if published is None or published.stream != packet.stream:
                raise Violation("no creation", f"{node} delivered {event.id}, which nobody published", event.id)
            if published.id is None:
                published.id = event.id
                if event.id in self.events:
                    raise Violation("unique ids", f"{event.id} was given to two events", event.id)
                self.events[event.id] = published
                self.history.add(event)
            elif published.id != event.id:
                raise Violation("no duplication", f"{node} delivered {published.id} again as {event.id}", event.id)
            if event.id.seq in self.void.get(packet.stream, ()):
                raise Violation("void is final", f"{node} delivered {event.id}, which loggers declared void", event.id)
            self.delivered_count += 1
        for hole in packet.holes:
            by = packet.obsoleter(hole)
            for seq in range(hole.first, hole.last + 1):
                self._left_out(life, EventId(packet.stream, seq), by)

    def _left_out(self, life: Life, event: EventId, by: EventId) -> None:
        life.omitted[event] = by
        if not self.purging:
            raise Violation("purging is off", f"{life.node} left out {event} as obsoleted by {by}", event)
        if event in self.events and by in self.events and not self.history.is_obsolete(event, by):
            what = f"{life.node} left out {event} as obsoleted by {by}, which does not obsolete it"
            raise Violation("semantic integrity", what, event)

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        life = self.lives[node]
        self._in_order(life, skip.stream, skip.first, skip.last)
        life.skipped.setdefault(skip.stream, IntervalSet()).add(skip.first, skip.last)
        if skip.reason == "collected":
            self._existed(node, skip)
        for event, published in self._events_of(skip.stream, skip.first, skip.last):
            if skip.reason == "void":
                self._may_be_void(node, event, published)
            elif skip.reason == "lost" and self._has_loggers():
                raise Violation("every gap explained", f"{node} gave up {event}, though there are loggers", event)
            elif skip.reason == "lost" and event in self.acked_events and life.owed(event, published):
                raise Violation("no acknowledged event lost", f"{node} gave up {event}, which was acknowledged", event)
            elif skip.reason == "collected" and self._is_kept_for(life, event, published, at_s):
                raise Violation("collected unseen", f"{node} was told that {event} is gone, which is owed to it", event)

    def _existed(self, node: str, skip: Skip) -> None:
        """Sequence numbers that never carried an event are void, and not loss."""
        for seq in range(skip.first, skip.last + 1):
            if (event := EventId(skip.stream, seq)) not in self.events:
                raise Violation("void is not loss", f"{node} was told that {event} is gone, which never was", event)

    def _is_kept_for(self, life: Life, event: EventId, published: Published, at_s: float) -> bool:
        """A logger that comes late takes what is left; everyone else is owed what was published in its time. But who
        leaves is not waited for in what comes after (rpbcast §5.2), and may be cut off from the loggers for long."""
        return (
            life.status in WAITED_FOR
            and not life.logger
            and life.owed(event, published)
            and at_s - published.at_s < self.expire_s
        )

    def _in_order(self, life: Life, stream: StreamId, first: int, last: int) -> None:
        expected = life.next.get(stream)
        if expected is None:
            life.first[stream] = first
            self._starts_in_time(life, stream, first)
        elif first < expected:
            event = EventId(stream, first)
            raise Violation("no duplication", f"{life.node} delivered {event} again, it was at {expected}", event)
        elif first > expected:
            event = EventId(stream, expected)
            raise Violation("every gap explained", f"{life.node} went on to {first} without {event}", event)
        life.next[stream] = last + 1

    def _starts_in_time(self, life: Life, stream: StreamId, first: int) -> None:
        """Nothing published after it became a member may lie before t_join."""
        for event, published in self._events_of(stream, 0, first - 1):
            if life.owed(event, published) and not life.logger:
                raise Violation("t_join", f"{life.node} began {stream} at {first}, but is owed {event}", event)

    def _may_be_void(self, node: str, event: EventId, published: Published) -> None:
        self.void.setdefault(event.stream, IntervalSet()).add(event.seq, event.seq)
        if event in self.acked_events:
            raise Violation("no acknowledged event lost", f"{node} was told that {event} is void", event)
        if published.life.up and published.life.status == "member" and published.life.node not in self.expelled:
            raise Violation("validity", f"{event} was declared void, but its publisher lives", event)
        for life in self.lives.values():
            # Who has disconnected or left has given it to its clients. What a logger took in passing before it left
            # nobody saw.
            counts = life.status in WAITED_FOR or not life.logger
            if counts and life.node not in self.expelled and life.has(event):
                raise Violation("uniform closing", f"{event} was declared void, but {life.node} delivered it", event)

    # Acknowledging and collecting -----------------------------------------------------------------------------------

    def persisted(self, at_s: float, node: str, records: tuple[Record, ...]) -> None:
        stored = self.stored.setdefault(node, {})
        for record in records:
            if isinstance(record, Packet):
                stored.setdefault(record.stream, IntervalSet()).add(record.first, record.last)
            elif isinstance(record, Void):
                for first, last in record.span.ranges:
                    stored.setdefault(record.span.stream, IntervalSet()).add(first, last)
            elif isinstance(record, Moved):
                self._moved(node, record.stream, stored.pop(record.stream, IntervalSet()))

    def _moved(self, node: str, stream: StreamId, dropped: IntervalSet) -> None:
        """A logger has let go of a stream that others keep: no fewer of them than were to."""
        for first, last in dropped.ranges():
            for event, _ in self._events_of(stream, first, last):
                if not self._is_collected(event) and len(self._holders(event)) < self.loggers_min:
                    what = f"{node} let go of {event}, and only {self._holders(event)} have it"
                    raise Violation("no fewer copies", what, event)

    def _holders(self, event: EventId) -> list[str]:
        return [node for node, stored in self.stored.items() if event.seq in stored.get(event.stream, ())]

    def unlogged(self, loggers: list[str], is_over: Callable[[StreamId], bool]) -> tuple[str, EventId] | None:
        """In the end: one of the loggers that is to keep an event, which was acknowledged as logged, and does not."""
        for event in self.acked_events if loggers else ():
            if self._is_collected(event) or is_over(event.stream):
                continue
            for node in ranked(event.stream, loggers)[: self.replicas]:
                if node not in self._holders(event):
                    return node, event
        return None

    def acked(self, at_s: float, node: str, acked: Acked) -> None:
        """A publisher hears that its own events up to there are kept: those of its life, and since the last time."""
        life = self.lives[node]
        first = life.acked.get(acked.stream, -1) + 1
        life.acked[acked.stream] = max(acked.last, first - 1)
        for event, published in self._events_of(acked.stream, first, acked.last):
            if published.life is life:
                self.acked_events.add(event)
                self._is_kept(event, acked)

    def _is_kept(self, event: EventId, acked: Acked) -> None:
        if acked.level == "logged":
            holders = self._holders(event)
            needed = self.loggers_min
        else:
            holders = [life.node for life in (*self.lives.values(), *self.ended) if life.covers(event)]
            # Whoever came later, or has left, cannot hold it: what all have that are owed it is as safe as can be.
            here = (life for life in self.lives.values() if life.status in WAITED_FOR)
            owed = [life for life in here if life.owed(event, self.events[event])]
            needed = 0 if all(life.settled(event) for life in owed) else self.faults + 1
        if len(set(holders)) < needed:
            what = f"{event} counts as {acked.level}, but only {holders} of {needed} have it"
            raise Violation("acknowledged means kept", what, event)

    def collected(self, at_s: float, node: str, collect: Collect) -> None:
        first = self.collected_upto.get((node, collect.stream), -1) + 1
        self.collected_upto[node, collect.stream] = max(collect.last, first - 1)
        for event, published in self._events_of(collect.stream, first, collect.last):
            age_s = at_s - published.at_s
            if age_s >= self.expire_s:
                continue
            if age_s < self.retain_s:
                raise Violation("retention", f"{node} collected {event} after {age_s:.3f} s", event)
            for life in self.lives.values():
                waits = life.owed(event, published) and life.node not in self.expelled and life.status in WAITED_FOR
                waits = waits and not (life.logger and self.replicas)  # it may begin with what came next
                if waits and not life.settled(event):
                    raise Violation("stable before collected", f"{node} collected {event}, {life.node} lacks it", event)

    # Liveness -------------------------------------------------------------------------------------------------------

    def outsider(self) -> str | None:
        """A node that is up and wants in, or out, and is not yet."""
        settled: tuple[Status, ...] = ("member", "outside")
        return next((name for name, life in self.lives.items() if life.status not in settled), None)

    def owing(self) -> tuple[str, EventId] | None:
        """A live member that lacks something it must have in the end, and what; None if there is none."""
        members = [life for life in self.lives.values() if life.status == "member" and life.member_since_s is not None]
        for published in self.published_events.values():
            event = published.id
            if event is None:
                if published.life.up and published.life.status == "member":
                    return published.life.node, EventId(published.stream, -1)
                continue
            acked = event in self.acked_events
            having = [life for life in members if life.has(event)]
            if not having and not acked and not published.life.up:
                continue  # it died with its publisher
            for life in members:
                if life.logger and self.replicas is not None:
                    continue  # `unlogged` tells of those
                started = life.first.get(event.stream, event.seq + 1) <= event.seq
                if life.logger and self._is_collected(event):
                    started = (
                        False  # it came late, and heard of a stream that is over from a mark, up to what that names
                    )
                if (life.owed(event, published) or started) and not life.settled(event):
                    return life.node, event
        return None

    def _is_collected(self, event: EventId) -> bool:
        return any(stream == event.stream and upto >= event.seq for (_, stream), upto in self.collected_upto.items())

    def unreplaced(self) -> tuple[str, EventId] | None:
        """A live member that left out an event and has nothing that obsoletes it; None if there is none."""
        for life in self.lives.values():
            if life.status == "member":
                for event in life.omitted:
                    if not self._is_replaced(life, event):
                        return life.node, event
        return None

    def _is_replaced(self, life: Life, event: EventId) -> bool:
        """By what it was told, or what that was left out for, and so on; else by anything that obsoletes it."""
        by, seen = life.omitted[event], {event}
        while by in life.omitted and by not in seen:
            seen.add(by)
            by = life.omitted[by]
        if by in self.events and self._makes_up(life, by):
            return True
        return any(self._makes_up(life, by) for by in self.history.obsoleters(event))

    def _makes_up(self, life: Life, by: EventId) -> bool:
        """Whether it has what obsoletes another. Loggers that keep a part of the streams each are read together, so to
        one of them it is as good if another has it on its disk."""
        if life.replaces(by, self.events[by]):
            return True
        return life.logger and self.replicas is not None and bool(self._holders(by))

    def _events_of(self, stream: StreamId, first: int, last: int) -> list[tuple[EventId, Published]]:
        found = []
        for seq in range(max(first, 0), last + 1):
            published = self.events.get(EventId(stream, seq))
            if published is not None:
                found.append((EventId(stream, seq), published))
        return found

    def _has_loggers(self) -> bool:
        return any(life.logger for life in [*self.lives.values(), *self.ended])
