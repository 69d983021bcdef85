"""Subscriptions at a broker in the lab: selectors, delivery queues, and consumers that take their time.

What happens between a node and its clients is protocol/delivery.py and protocol/reception.py, and selectors are those
of matching/: here they are only driven. A consumer is sent one item at a time. What a feed that is behind cannot take
is kept here in full, as if it were the log that a broker would read on from (design §4.6).
"""

from collections import deque
from collections.abc import Callable

from gossamer.lab.observer import Observer
from gossamer.lab.world import World
from gossamer.matching import Index, Selector
from gossamer.messages.event import Event
from gossamer.messages.ids import EventId, group_of
from gossamer.protocol.delivery import Arrival, Dispatch, Feed, Intake, Item
from gossamer.protocol.effects import Deliver, Skip
from gossamer.protocol.obsolescence import named
from gossamer.protocol.purging import Semantic
from gossamer.protocol.reception import Reception, Step
from gossamer.protocol.shown import Left, Slot


class Subscriber:
    """A client that keeps the state it is told of: the value of every key, and every event without one that holds."""

    def __init__(
        self,
        world: World,
        *,
        delay_s: float = 0.0,
        events_max: int = 1_024,
        semantic: Semantic = "eager",
        on_step: Callable[["Subscriber", Step], None] = lambda *_: None,
    ) -> None:
        self.delay_s = delay_s
        self.feed = Feed(events_max, semantic=semantic)
        self.reception = Reception()
        self.state: dict[Slot | EventId, Event] = {}
        self.matched = self.delivered = 0
        self.backlog: deque[tuple[Arrival, bool]] = deque()
        """What came while the feed was behind, and whether it matches."""
        self._world = world
        self._on_step = on_step
        self._busy = False
        self.fill: Callable[[Subscriber], None] = lambda _: None

    @property
    def idle(self) -> bool:
        return not (self._busy or len(self.feed) or self.backlog)

    @property
    def obsoleted(self) -> int:
        return self.feed.obsoleted + self.reception.obsoleted

    @property
    def unaccounted(self) -> int:
        """Matching events of an idle subscriber that are in no counter; less than 0 if some are in two."""
        lost = self.feed.lost + self.reception.lost
        return self.matched - self.delivered - self.obsoleted - lost

    def wake(self) -> None:
        """Take the next item, if there is one and nothing is being done."""
        if not self._busy and (items := self.feed.take(1)):
            self._busy = True
            self._world.at(self._world.now_s + self.delay_s, self._done, items[0])

    def _done(self, item: Item) -> None:
        self._busy = False
        for step in self.reception.on_item(item):
            self._apply(step)
            self._on_step(self, step)
        self.fill(self)
        self.wake()

    def _apply(self, step: Step) -> None:
        for said in step.said:
            if isinstance(said, Left):
                self._leave(said)
            else:
                self.delivered += 1
                self._set(said)
        if step.commit is not None:
            self._forget_named(step.commit)

    def _set(self, event: Event) -> None:
        assert event.id is not None
        if event.key is None:
            self.state[event.id] = event
        elif event.deleted:
            self.state.pop(slot_of(event), None)
        else:
            self.state[slot_of(event)] = event
        self._forget_named(event)

    def _forget_named(self, event: Event) -> None:
        assert event.id is not None
        if ids := named(event.id, event.relation):
            self.state = {slot: held for slot, held in self.state.items() if held.id not in ids}

    def _leave(self, left: Left) -> None:
        if left.key is None:
            self.state.pop(left.id, None)
            return
        slot = (group_of(left.id.stream) if left.group else left.id.stream), left.key
        held = self.state.get(slot)
        if held is not None and held.id is not None and (left.group or held.id.seq <= left.id.seq):
            del self.state[slot]


class Subscriptions(Observer):
    """All subscriptions at one node: what is delivered there is decoded, put in order and matched once for all."""

    def __init__(self, world: World, node: str) -> None:
        self.node = node
        self.subscribers: dict[str, Subscriber] = {}
        self.intake = Intake()
        self.dispatch: Dispatch[str] = Dispatch()
        self._index: Index[str] = Index()
        self._world = world
        world.observe(self)

    @property
    def idle(self) -> bool:
        return all(subscriber.idle for subscriber in self.subscribers.values())

    @property
    def losses(self) -> int:
        """Events and transactions that nobody here got, and that were not obsolete."""
        return (
            self.intake.lost
            + self.intake.discarded
            + sum(subscriber.reception.lost for subscriber in self.subscribers.values())
        )

    def add(self, name: str, selector: Selector | str, subscriber: Subscriber) -> Subscriber:
        self._index.add(name, selector)
        self.dispatch.add(name, subscriber.feed)
        self.subscribers[name] = subscriber
        subscriber.fill = lambda behind: self._catch_up(name, behind)
        return subscriber

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        if node == self.node:
            self._on_arrivals(self.intake.on_packet(deliver.packet))

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        if node == self.node:
            self._on_arrivals(self.intake.on_skip(skip.stream, skip.first, skip.last))

    def _on_arrivals(self, arrivals: list[Arrival]) -> None:
        matched = [sorted(found) for found in self._index.match_batch(each.event.attributes for each in arrivals)]
        for arrival, names in zip(arrivals, matched, strict=True):
            relation = arrival.head.relation
            for name in names if relation is None or relation.commit is None else ():
                self.subscribers[name].matched += 1
        behind = {name: 0 for name, each in self.subscribers.items() if each.feed.behind}
        behind |= self.dispatch.on_batch(arrivals, matched)
        for name, taken in behind.items():
            rest = zip(arrivals[taken:], matched[taken:], strict=True)
            self.subscribers[name].backlog.extend((arrival, name in keys) for arrival, keys in rest)
        for subscriber in self.subscribers.values():
            subscriber.wake()

    def _catch_up(self, name: str, subscriber: Subscriber) -> None:
        """Read on from the log, skipping what has become obsolete meanwhile."""
        while subscriber.backlog and not subscriber.feed.full:
            arrival, matches = subscriber.backlog.popleft()
            self.dispatch.offer(name, self.intake.again(arrival), matches)
        subscriber.feed.behind = bool(subscriber.backlog) or subscriber.feed.full


def slot_of(event: Event) -> Slot:
    """Where a keyed event stands in a state."""
    assert event.id is not None
    assert event.key is not None
    grouped = event.relation is not None and event.relation.group
    return (group_of(event.id.stream) if grouped else event.id.stream), event.key
