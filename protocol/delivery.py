"""From what a node delivers to what each subscription is sent: the way of an event through a broker (design §4.6, §5).

    a packet -> Intake                    once a broker: transactions made whole, late arrivals found
             -> the selectors, elsewhere  which subscriptions each event matches
             -> Dispatch                  only those that match, or that were shown what the event makes obsolete
             -> Feed, one a subscription  a verdict (protocol/shown.py), and a purging queue that a consumer drains

Transactions are made whole before they are filtered. Whether a commit may be applied depends on what was left out
before it and on what that was left out for (protocol/transactions.py), and a subscription that sees a tenth of a stream
could wait for ever for an event that its selector rejects. The same for what is late: an event that outranks another
may not match, and a subscription that is not told of it cannot know that the other one is old. So both are decided
once, for all subscriptions, on the whole stream.

A queue then purges again, and what it holds are not only events. `price > 100`, and a consumer that has taken 1:

    came           verdict          the queue
    1: IBM 101     deliver 1        (taken)
    2: IBM 103     deliver 2        2
    3: IBM 99      Left(IBM, 2)     Left         2 is obsolete; the notice takes its place, as an event of IBM would
    4: IBM 104     deliver 4        4            and is obsolete in its turn: 4 tells more

A notice therefore has the annotation of an event of its key, at the place of the event that caused it. Where that one
is of another key (it named what left), the notice has the place of what left. What leaves at a commit is told with the
commit, as one. And whenever something purges a notice that does not itself tell of that key, it takes the notice along:
a commit that sets IBM obsoletes the notice, but its own part of IBM may not match, and nobody would say so again. The
same for an event that names others, or deletes its key: if it is purged for one that tells nothing of those, that one
is sent with a notice.

A *patient* feed purges nothing while its consumer keeps up: events wait as they came. Once one of them has waited
longer than the patience, its consumer is behind, and the feed purges eagerly until nothing waits any more.

A full queue of which nothing is obsolete drops nothing. The feed is then *behind*: it keeps what it could not put, at
most what one event gave rise to, and takes no more until there is room. Meanwhile its events are elsewhere: in a log
from which they are offered again, each as if it came now, all of them, since what it will be shown is not known yet.
"""

import random
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct, msgpack

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId, StreamId, group_of
from gossamer.messages.packet import Hole, Packet
from gossamer.protocol.account import LOST, OBSOLETE, Account, Totals
from gossamer.protocol.conflation import Conflation, Source
from gossamer.protocol.entries import Entry, Omitted
from gossamer.protocol.memory import Memory
from gossamer.protocol.obsolescence import Told, named
from gossamer.protocol.purging import BYTES_MAX, Overflow, PurgingBuffer, Semantic
from gossamer.protocol.shown import DELIVER, NOTHING, Left, Shown, Slot, Verdict
from gossamer.protocol.tally import Tally
from gossamer.protocol.transactions import Applied, Assembler, Outcome

NOTICE_BYTES = 64
"""What a notice counts for in a queue."""

Purging = Semantic | Literal["patient"]
"""When a feed purges: as a purging buffer does, or eagerly once its consumer is behind."""

Key = TypeVar("Key", bound=Hashable)


class Arrival(NamedTuple):
    """An event that is to be matched now."""

    event: Event
    head: Head
    size: int
    by: EventId | None = None
    """It is late: something that was passed on before obsoletes it."""

    @property
    def id(self) -> EventId:
        assert self.event.id is not None
        return self.event.id


def arrival_of(event: Event, size: int) -> Arrival:
    return Arrival(event, Head(event.key, event.rank, event.relation, event.time_ns), size)


class Item(Struct, eq=False):
    """What a consumer is sent: an event, what has left, or both to be applied as one."""

    event: Event | None
    lefts: tuple[Left, ...] = ()
    by: Told | None = None
    """What the notices are for, if it is not the event."""
    replaced: tuple[Left, ...] = ()
    """What the event itself tells to have left, because it names it, or deletes its key."""

    @property
    def is_event(self) -> bool:
        """Whether there is an event in it for the application; a commit is none."""
        event = self.event
        return event is not None and (event.relation is None or event.relation.commit is None)


class Intake:
    """What a node delivers, in the order in which subscriptions may be told of it."""

    def __init__(self, memory: Memory | None = None, assembler: Assembler | None = None) -> None:
        self.memory = Memory() if memory is None else memory
        self.assembler = Assembler() if assembler is None else assembler
        self.lost = 0
        """Events that will not come, and not because they are obsolete."""
        self.discarded = 0
        """Transactions that lack one of those."""
        self.dropped: list[Event] = []
        """Parts of those that came, and that the last call has given up."""

    def on_packet(self, packet: Packet) -> list[Arrival]:
        """A delivered packet: what of it, and of what was held, can be matched now."""
        sizes = [size for size in packet.table() if size] if packet.holes else packet.table()
        return self.on_run(packet.stream, zip(packet.events(), sizes, strict=True), packet.holes)

    def on_run(self, stream: StreamId, events: Iterable[tuple[Event, int]], gaps: Iterable[Hole]) -> list[Arrival]:
        """Events of one stream with their sizes, and what was purged between them."""
        self.dropped = []
        arrivals: list[Arrival] = []
        assembler = self.assembler
        holes = iter(gaps)
        hole = next(holes, None)
        for event, size in events:
            assert event.id is not None
            while hole is not None and hole.first < event.id.seq:
                self._settle(assembler.on_omitted(stream, hole.first, hole.last, True, hole.by), arrivals)
                hole = next(holes, None)
            relation = event.relation
            if stream not in assembler and (relation is None or (relation.part is None and relation.commit is None)):
                self._pass(event, size, arrivals)
            else:
                self._settle(assembler.on_event(event), arrivals)
        while hole is not None:
            self._settle(assembler.on_omitted(stream, hole.first, hole.last, True, hole.by), arrivals)
            hole = next(holes, None)
        return arrivals

    def on_skip(self, stream: StreamId, first: int, last: int) -> list[Arrival]:
        """These are lost, void or collected."""
        self.dropped = []
        self.lost += last - first + 1
        arrivals: list[Arrival] = []
        self._settle(self.assembler.on_omitted(stream, first, last, False), arrivals)
        return arrivals

    def on_retired(self, stream: StreamId) -> list[Arrival]:
        """Nothing more comes of this stream."""
        self.dropped = []
        arrivals: list[Arrival] = []
        self._settle(self.assembler.on_retired(stream), arrivals)
        return arrivals

    def again(self, arrival: Arrival) -> Arrival:
        """An arrival as it is now: what was passed on since may obsolete it."""
        return arrival._replace(by=self._obsoleter(arrival.id, arrival.head))

    def _settle(self, outcomes: Iterable[Outcome], arrivals: list[Arrival]) -> None:
        if self.assembler.dropped:
            self.dropped += self.assembler.dropped
            self.assembler.dropped.clear()
        for outcome in outcomes:
            if isinstance(outcome, Applied):
                events = outcome.events if outcome.commit is None else (*outcome.events, outcome.commit)
                for event in events:
                    assert isinstance(event, Event)
                    self._pass(event, len(msgpack.encode(event)), arrivals)  # it may have come long ago
            else:
                self.discarded += 1

    def _pass(self, event: Event, size: int, arrivals: list[Arrival]) -> None:
        assert event.id is not None
        head = Head(event.key, event.rank, event.relation, event.time_ns)
        by = self._obsoleter(event.id, head)
        self.memory.passed(*event.id, head)  # a late one too: what it obsoletes is obsolete
        arrivals.append(Arrival(event, head, size, by))

    def _obsoleter(self, id: EventId, head: Head) -> EventId | None:
        relation = head.relation
        if relation is not None and (relation.part is not None or relation.commit is not None):
            return None  # whoever names one has no right to; a transaction is whole, or absent
        return self.memory.obsoleter(*id, head)


class _Waiting:
    """Keyed events of one stream that waited in a queue, as a source for a conflation."""

    __slots__ = ("_entries", "seqs", "size", "sizes", "slots", "stream")

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self.stream = entries[0].stream
        self.slots: list[Slot | None] = [(each.stream, each.head.key) for each in entries]  # type: ignore[misc, union-attr]
        self.seqs = [each.seq for each in entries]
        self.sizes = [each.size for each in entries]
        self.size = sum(self.sizes)

    def arrival(self, place: int) -> Arrival:
        entry = self._entries[place]
        assert entry.head is not None
        return Arrival(entry.payload.event, entry.head, entry.size)

    def rest(self) -> None:
        """Its events are decoded already."""


class Feed:
    """What one subscription is sent: verdicts, and the queue in which they wait for its consumer."""

    __slots__ = (
        "_bytes_max",
        "_conflation",
        "_events_max",
        "_overdue",
        "_since",
        "_tally",
        "_unmoved",
        "account",
        "behind",
        "delivered",
        "eager",
        "left",
        "lossy",
        "lost",
        "obsoleted",
        "patience_s",
        "queue",
        "shown",
    )

    def __init__(
        self,
        events_max: int,
        bytes_max: int = BYTES_MAX,
        *,
        semantic: Purging = "eager",
        patience_s: float = 0.0,
        rng: random.Random | None = None,
        tally: Tally | None = None,
        accounts: bool = False,
    ) -> None:
        """With `rng` it is never behind: when there is no room, something that waits is thrown out at random.
        `accounts`: keep an `account` of the events before the last one taken, for a consumer that may resume there.
        `patience_s` is for `semantic="patient"`: how long an event waits before its consumer counts as behind."""
        self._events_max, self._bytes_max = events_max, bytes_max
        self._tally = tally
        self.account = Account(self._waiting) if accounts else None
        self.lossy = rng is not None
        self.eager = semantic == "eager"
        """Whether it purges at once whatever is obsolete."""
        self.patience_s = patience_s if semantic == "patient" else None
        self._unmoved = 0
        """Of the events that waited at the time `_since`, how many still wait."""
        self._since = 0.0
        if semantic == "patient":
            semantic = "off"
        self.shown = Shown()
        overflow: Overflow = "refuse" if rng is None else "random"
        self.queue = PurgingBuffer(events_max, bytes_max, semantic=semantic, overflow=overflow, rng=rng)
        self._conflation: Conflation[Arrival] = Conflation()
        """What waits in place of the queue, while that is empty and no more is to be known of it than its keys."""
        self._overdue: deque[Entry] = deque()
        """What one event gave rise to and the queue had no room for."""
        self.behind = False
        """Whether it is read to from a log, and not dispatched to; who reads to the end of the log takes this back."""
        self.delivered = 0
        self.obsoleted = 0
        """Events that match and were left out here, for something that is delivered or that has been told of."""
        self.lost = 0
        """Events that match and were thrown out."""
        self.left = 0

    @property
    def full(self) -> bool:
        """Whether it takes nothing more until the consumer has taken something."""
        return bool(self._overdue)

    def __len__(self) -> int:
        return self.queue.count + len(self._conflation.last) + len(self._overdue)

    @property
    def bytes(self) -> int:
        """Of what waits."""
        return self.queue.bytes + self._conflation.bytes

    @property
    def oldest_ns(self) -> int | None:
        """When the first that waits was published."""
        if len(self._conflation):
            return self._conflation.first().head.time_ns
        oldest = next(iter(self.queue), None)
        return None if oldest is None or oldest.head is None else oldest.head.time_ns

    # Patience -------------------------------------------------------------------------------------------------------

    def on_time(self, now: float) -> None:
        """Tell the time: before something is put or taken, and when the consumer may have become late."""
        if self.patience_s is None or self.eager:
            return
        if not (waiting := len(self)):
            self._unmoved = 0
        elif self._unmoved <= 0:
            self._unmoved, self._since = waiting, now
        elif now - self._since > self.patience_s:
            self.purge()

    def purge(self) -> None:
        """The consumer of a patient feed is behind: purge what is obsolete, now and until nothing waits any more."""
        if self.patience_s is None or self.eager:
            return
        self.eager = True
        entries = self.queue.take(len(self.queue))
        self.queue = PurgingBuffer(self._events_max, self._bytes_max, semantic="eager", overflow="refuse")
        if not self._overdue and all(map(_is_conflated, entries)):
            # Tables of keys take in whole batches (protocol/conflation.py); a queue takes events one by one.
            for _, run in groupby(entries, key=lambda entry: entry.stream):
                source = _Waiting(list(run))
                obsolete = self._conflation.put(source, range(len(source.sizes)), self._events_max)
                assert obsolete is not None, "they had room one by one"
                self._came(source, range(len(source.sizes)), obsolete)
            return
        overdue, self._overdue = self._overdue, deque()
        for entry in (*entries, *overdue):
            by: Told | None = entry.payload.by
            if by is not None and by.head.relation is not None and (by.head.relation.near or by.head.relation.ids):
                self._note(self.queue.passing(*by.id, by.head))
            self._put(entry)

    def relax(self) -> None:
        """The consumer of a patient feed has everything: it is not behind any more."""
        if self.patience_s is not None and self.eager and not len(self):
            self.eager = False
            self._unmoved = 0
            self.queue = PurgingBuffer(self._events_max, self._bytes_max, semantic="off", overflow="refuse")

    # Coming in ------------------------------------------------------------------------------------------------------

    def conflate(self, source: Source[Arrival], places: Sequence[int]) -> bool:
        """Deliver these, the next of their stream, which replace what waits of their keys and nothing else. False, and
        nothing has happened, if they have to be settled one by one."""
        if not self.eager or self.lossy or len(self.queue) or self._overdue:
            return False
        if max(source.sizes) > self._bytes_max // self._events_max:
            return False
        obsolete = self._conflation.put(source, places, self._events_max)
        if obsolete is None:
            return False
        self._came(source, places, obsolete)
        return True

    def name_obsolete(self) -> None:
        """Count by its key what waits for nobody to take it (`Tally.purged_keys`)."""
        for slot, events in self._conflation.obsolete():
            self._name(slot, events)

    def _unfold(self) -> None:
        """From now on one by one: what waits by its keys goes into the queue."""
        account = self.account
        for slot, arrival, count in self._conflation.take():
            self._name(slot, count - 1)
            if account is not None and (obsolete := account.took(*arrival.id)):
                account.put(*arrival.id, Totals(obsolete))
            self._put(_entry(arrival, DELIVER))

    def offer(self, arrival: Arrival, matches: bool) -> bool:
        """The next event; False if it was the last one that there is room for: the feed is behind from here on."""
        assert not self._overdue, f"{arrival.id} is offered to a feed that is full"
        event, head = arrival.event, arrival.head
        relation = head.relation
        if arrival.by is not None:
            if matches:
                self._obsoleted(arrival.id, head.key)
            if relation is not None and relation.group:
                return True
            # What it obsoletes is obsolete all the same, and what came before it may not have named that.
            matches = False
        verdict = self.shown.on_event(arrival.id, head, matches, event.deleted)
        if matches and verdict is NOTHING and (relation is None or relation.commit is None):
            self._obsoleted(arrival.id, head.key)  # by what is shown: a key does not go back
        return self.settle(arrival, verdict)

    def settle(self, arrival: Arrival, verdict: Verdict) -> bool:
        """The next event, by one who knows what is shown. False as for `offer`."""
        if len(self._conflation):
            self._unfold()
        head = arrival.head
        relation = head.relation
        if verdict.deliver or (verdict.left and relation is not None and relation.commit is not None):
            self._put(_entry(arrival, verdict))
        elif verdict.left:
            if relation is not None and (relation.near or relation.ids):
                self._note(self.queue.passing(*arrival.id, head))
            for left in verdict.left:
                self._put(_notice(left, Told(arrival.id, head)))
        if self._overdue:
            self.behind = True
        return not self._overdue

    def make_room(self, now: float) -> None:
        """Leave out now the obsolete entries that a lazy queue keeps until it is full, a patient one for a while."""
        if self.patience_s is not None:
            self.on_time(now)
        elif not self.eager:
            self._note(self.queue.be_eager(True))
            self.queue.be_eager(False)

    def overtake(self, stream: StreamId, key: str | None, seqs: Sequence[int]) -> None:
        """These events of a key need not be settled, since an eager queue is about to be given a newer one."""
        self._count_obsolete(stream, key, len(seqs))
        for seq in seqs if self.account is not None else ():
            self.account.put(stream, seq, OBSOLETE)  # type: ignore[union-attr]

    def take(self, events_max: int, bytes_max: int = BYTES_MAX) -> list[Item]:
        """Send so much, and put what was waiting for the room."""
        items: list[Item] = (
            self._taken(events_max, bytes_max)
            if len(self._conflation)
            else [entry.payload for entry in self.queue.take(events_max, bytes_max)]
        )
        if self.account is not None and self.account.pending:
            for item in items:
                if item.event is not None and item.event.id is not None:
                    self.account.passed(*item.event.id)
        self._unmoved -= len(items)
        for item in items:
            self.delivered += item.is_event
            self.left += len(item.lefts)
        overdue, self._overdue = self._overdue, deque()
        for entry in overdue:
            self._put(entry)
        return items

    def _taken(self, events_max: int, bytes_max: int) -> list[Item]:
        items: list[Item] = []
        account, obsolete, taken_bytes = self.account, 0, 0
        for slot, arrival, count in self._conflation.take():
            self._name(slot, count - 1)
            if account is not None:
                obsolete += account.took(*arrival.id)
            items.append(_entry(arrival, DELIVER).payload)
            taken_bytes += arrival.size
            if len(items) >= events_max or taken_bytes >= bytes_max:
                break
        if account is not None and obsolete:
            account.totals = account.totals.plus(Totals(obsolete))
        return items

    def _put(self, entry: Entry) -> None:
        if self._overdue:
            self._overdue.append(entry)
            return
        omissions = self.queue.append(entry.stream, entry.seq, entry.head, entry.size, entry.payload)
        if omissions:
            if omissions[-1].refused:
                self._overdue.append(entry)
                omissions = omissions[:-1]
            self._note(omissions)

    def _note(self, omissions: Sequence[Omitted]) -> None:
        for omitted in omissions:
            item: Item = omitted.entry.payload
            if omitted.newer is None:
                self._lose(omitted.entry, item)
                continue
            if item.is_event:
                self._obsoleted(omitted.entry.id, None if omitted.entry.head is None else omitted.entry.head.key)
            if item.lefts or item.replaced:
                self._take_along(item, omitted, omissions)

    def _lose(self, entry: Entry, item: Item) -> None:
        if item.is_event:
            self.lost += 1
            if self.account is not None:
                self.account.put(entry.stream, entry.seq, LOST)
            if self._tally is not None:
                self._tally.purge("queue", "room", entry.stream, None)

    def _waiting(self) -> Iterator[EventId]:
        yield from self._conflation.waiting()
        yield from (entry.id for entry in self.queue)
        yield from (entry.id for entry in self._overdue)

    def _came(self, source: Source[Arrival], places: Sequence[int], obsolete: int) -> None:
        """A conflation has taken these in, and so many events are obsolete by that."""
        if obsolete:
            self._count_obsolete(source.stream, None, obsolete)
        if self.account is not None and places:
            seqs = source.seqs
            whole = isinstance(places, range) and places.step == 1
            chosen = seqs[places.start : places.stop] if whole else [seqs[place] for place in places]  # type: ignore[attr-defined]
            self.account.came(source.stream, chosen)

    def _obsoleted(self, id: EventId, key: str | None) -> None:
        self._count_obsolete(id.stream, key, 1)
        if self.account is not None:
            self.account.put(*id, OBSOLETE)

    def _count_obsolete(self, stream: StreamId, key: str | None, events: int) -> None:
        self.obsoleted += events
        if self._tally is not None:
            self._tally.purge("queue", "obsolete", stream, key, events)

    def _name(self, slot: Slot, events: int) -> None:
        """So many of this key were obsolete, and are counted as such."""
        if self._tally is not None and events:
            self._tally.purge_key("queue", group_of(slot[0]), slot[1], events)

    def _take_along(self, item: Item, omitted: Omitted, omissions: Sequence[Omitted]) -> None:
        """What a purged entry would have told to have left is told by what purged it; if that is not in the queue, by
        itself."""
        entry, newer = omitted.entry, omitted.newer
        if not isinstance(newer, Entry):  # from a lazy queue, or not in the queue at all
            by, others = newer, [*self.queue, *(each.entry for each in omissions)]
            newer = next((each for each in others if each.id == by and each is not entry), None)
        if newer is None:
            for left in item.lefts + item.replaced:
                self._put(_own_notice(left, item.by))
            return
        heir: Item = newer.payload
        ids = named(newer.id, newer.head.relation) if heir.is_event and newer.head is not None else ()
        untold = [left for left in item.lefts + item.replaced if not _tells(newer, left)]
        heir.lefts = (*(left for left in untold if left.id not in ids), *heir.lefts)
        heir.replaced = (*(left for left in untold if left.id in ids), *heir.replaced)


class Dispatch(Generic[Key]):
    """Many feeds: each event goes to those that match it, and to those that were shown what it may obsolete.

    That nobody else need hear of it is why a broker with many subscriptions costs what its matches cost.
    """

    def __init__(self) -> None:
        self.feeds: dict[Key, Feed] = {}
        self._holders: dict[Slot, dict[Key, None]] = {}
        """Who was shown a key, or sent an uncommitted part that sets it; some may have been told since that it left."""
        self._watchers: dict[StreamId, dict[Key, None]] = {}
        """Who was sent anything of a stream: concerned by whatever names events of it."""

    def add(self, key: Key, feed: Feed) -> None:
        self.feeds[key] = feed

    def remove(self, key: Key) -> None:
        """Forget a feed; where it is still mentioned it is passed over."""
        del self.feeds[key]

    def on_batch(self, arrivals: Sequence[Arrival], matched: Sequence[Sequence[Key]]) -> dict[Key, int]:
        """Events and whom each of them matches. Feeds that fall behind are returned, each with how many of these
        arrivals it has taken; those that are behind already are offered nothing."""
        fell: dict[Key, int] = {}
        feeds = self.feeds
        for count, (arrival, keys) in enumerate(zip(arrivals, matched, strict=True), 1):
            for key in keys:
                if not feeds[key].behind and not self.offer(key, arrival, True):
                    fell[key] = count
            head = arrival.head
            if (head.key is not None or head.relation is not None) and (others := self._concerned(arrival)):
                matching = frozenset(keys)
                for key in [key for key in others if key not in matching and key in feeds]:
                    if not feeds[key].behind and not self.offer(key, arrival, False):
                        fell[key] = count
        return fell

    def offer(self, key: Key, arrival: Arrival, matches: bool) -> bool:
        """One event to one feed; False if that is behind from here on."""
        feed = self.feeds[key]
        going = feed.offer(arrival, matches)
        slot = slot_of(arrival.id, arrival.head)
        if matches and arrival.by is None:
            self._watchers.setdefault(arrival.id.stream, {})[key] = None
            if slot is not None:
                self._holders.setdefault(slot, {})[key] = None
        elif slot is not None and not _is_part(arrival) and not feed.shown.shows(slot):
            holders = self._holders.get(slot)
            if holders is not None:
                holders.pop(key, None)
                if not holders:
                    del self._holders[slot]
        return going

    def preset(self, key: Key, id: EventId, head: Head) -> None:
        """A feed was shown an event in another way."""
        self.feeds[key].shown.on_event(id, head, True, False)
        self._watchers.setdefault(id.stream, {})[key] = None
        slot = slot_of(id, head)
        if slot is not None:
            self._holders.setdefault(slot, {})[key] = None

    def _concerned(self, arrival: Arrival) -> dict[Key, None]:
        slot, relation = slot_of(arrival.id, arrival.head), arrival.head.relation
        holders = self._holders.get(slot, {}) if slot is not None else {}
        if relation is None or not (relation.near or relation.ids or relation.commit is not None):
            return holders
        concerned = dict(holders)
        if relation.near or relation.commit is not None:
            concerned |= self._watchers.get(arrival.id.stream, {})
        for stream, _ in relation.ids:
            concerned |= self._watchers.get(stream, {})
        return concerned


def _entry(arrival: Arrival, verdict: Verdict) -> Entry:
    event, head, relation = arrival.event, arrival.head, arrival.head.relation
    replaced = verdict.replaced
    if event.deleted and head.key is not None:
        replaced = (*replaced, Left(head.key, arrival.id, relation is not None and relation.group))
    return Entry(*arrival.id, head, arrival.size, Item(event, verdict.left, replaced=replaced))


def _is_conflated(entry: Entry) -> bool:
    """Whether an entry is a plain event with a key, and nothing else."""
    head, item = entry.head, entry.payload
    return head is not None and head.key is not None and head.relation is None and not item.lefts and not item.replaced


def slot_of(id: EventId, head: Head) -> Slot | None:
    """What an event says something of: a key of its stream, or of its group."""
    if head.key is None:
        return None
    return (group_of(id.stream) if head.relation is not None and head.relation.group else id.stream), head.key


def _is_part(arrival: Arrival) -> bool:
    return arrival.head.relation is not None and arrival.head.relation.part is not None


def _notice(left: Left, by: Told) -> Entry:
    """A notice as an entry: at the place of its cause, if that is of the same key, else at that of what left."""
    head = by.head
    grouped = head.relation is not None and head.relation.group
    same = left.key is not None and left.key == head.key and left.group == grouped
    if same and (grouped or left.id.stream == by.id.stream):
        return Entry(*by.id, head if grouped else Head(left.key), NOTICE_BYTES, Item(None, (left,), by))
    return _own_notice(left, by)


def _own_notice(left: Left, by: Told | None) -> Entry:
    head = None if left.key is None or left.group else Head(left.key)
    return Entry(*left.id, head, NOTICE_BYTES, Item(None, (left,), by))


def _tells(newer: Entry, left: Left) -> bool:
    """Whether what an entry says of the key makes a notice superfluous."""
    head = newer.head
    if head is None or head.key is None or head.key != left.key:
        return False
    grouped = head.relation is not None and head.relation.group
    return grouped == left.group and (grouped or newer.stream == left.id.stream)
