"""Who in a buffer is obsoleted by whom, found without looking through the buffer.

Purging asks two questions of every arrival: what in here does it obsolete, and does anything in here obsolete it? If it
were compared with each event inside, a buffer of 100,000 would cost a hundred thousand comparisons an arrival. Each
representation of the relation (protocol/obsolescence.py) has an index that answers at the cost of the answer:

    tag              of a stream and key at most one event is current: an earlier one is purged for it, and an earlier
                     one that comes late is turned away. So the index is one entry a key, and a purge is a replacement.
    tag of a group   likewise, one entry a group and key, by their total order.
    k-enumeration    which of the last 256 events of a stream are inside is one integer, so "those that are named *and*
                     are here" is a shift and an `and` (000 §5.2.2).
    enumeration      a stream's events by seq; and, for names that come before what they name, who names an id.
    transaction      a stream's last commit, and the parts inside by key.

The index knows the events that are not obsolete. A lazy buffer may hold obsolete ones for a while; they are out of the
index from the moment they are found obsolete, else a key could have any number of entries.

Naming is rare where keys are used, and a stream's events by seq cost as much as its keys. So they are kept from the
first event on that names others, or belongs to a transaction; until then the index is `plain`.
"""

from collections.abc import Iterable

from gossamer.messages.event import REACH_MAX, Head, Relation
from gossamer.messages.ids import StreamId, group_of
from gossamer.protocol.entries import Entry
from gossamer.protocol.obsolescence import Order

STREAMS_SLACK = 64
_WINDOW = (1 << REACH_MAX) - 1
_from_bytes = int.from_bytes


class Stream:
    """What is inside of one stream."""

    __slots__ = ("tags", "seqs", "top", "present", "names", "parts", "commit", "committed")

    def __init__(self) -> None:
        self.tags: dict[str, Entry] = {}
        """The current event of each key."""
        self.seqs: dict[int, Entry] = {}
        self.top = -1
        self.present = 0
        """Bit n stands for seq `top - n`: it was put in, and was not since found to be gone."""
        self.names = False
        """Whether some event of it came with a bitmap."""
        self.parts: dict[str, dict[int, Entry]] = {}
        self.commit: Entry | None = None
        self.committed: frozenset[str] = frozenset()
        """The keys that `commit` sets."""


class Index:
    """The events of one buffer that are not obsolete, by everything that can make them so."""

    __slots__ = ("streams", "groups", "named", "plain", "_sweep_at")

    def __init__(self) -> None:
        self.streams: dict[StreamId, Stream] = {}
        self.groups: dict[tuple[str, str], tuple[Order, Entry]] = {}
        self.named: dict[tuple[StreamId, int], dict[Entry, None]] = {}
        self.plain = True
        self._sweep_at = STREAMS_SLACK

    def open(self, stream: StreamId) -> Stream:
        """A place for a stream that has none."""
        if len(self.streams) >= self._sweep_at:
            # Once for as many new streams as there are left, and not at once when a stream's last event leaves: it is
            # likely to have another one soon.
            self.streams = {name: kept for name, kept in self.streams.items() if kept.tags or kept.seqs}
            self._sweep_at = 2 * len(self.streams) + STREAMS_SLACK
        self.streams[stream] = state = Stream()
        return state

    def widen(self, entries: Iterable[Entry]) -> None:
        """From now on keep events by seq; these are inside already, and not obsolete."""
        self.plain = False
        for entry in entries:
            if entry.head is not None:
                _number(self.streams.get(entry.stream) or self.open(entry.stream), entry)

    # The two questions --------------------------------------------------------------------------------------------

    def obsoleter(self, stream: StreamId, seq: int, head: Head) -> Entry | None:
        """Something inside that obsoletes an arrival."""
        relation, key = head.relation, head.key
        by: Entry | None = None
        if relation is not None and relation.group:
            if key is not None and (found := self.groups.get((group_of(stream), key))) is not None:
                place, by = found
                by = by if place > _order(stream, seq, head) else None
        elif (state := self.streams.get(stream)) is not None:
            part = relation is not None and relation.part is not None
            if key is not None and not part and (tagged := state.tags.get(key)) is not None and tagged.seq > seq:
                by = tagged
            elif (commit := state.commit) is not None and commit.seq > seq and _covers(state, commit, seq, head):
                by = commit
        if by is None and not self.plain:
            by = self._namer(stream, seq)
        return by

    def obsoleted(self, stream: StreamId, seq: int, head: Head) -> list[Entry]:
        """What inside an arrival obsoletes."""
        relation, key = head.relation, head.key
        if relation is not None and relation.group:  # one order and nothing else (P4): what else it says is not heard
            if key is not None and (found := self.groups.get((group_of(stream), key))) is not None:
                place, old = found
                return [old] if place < _order(stream, seq, head) else []
            return []
        victims: list[Entry] = []
        state = self.streams.get(stream)
        if state is not None:
            if relation is not None and relation.commit is not None:
                victims = _superseded(state, seq, relation)
            elif key is not None and (relation is None or relation.part is None):
                if (tagged := state.tags.get(key)) is not None and tagged.seq < seq:
                    victims.append(tagged)
                commit = state.commit
                if commit is not None and commit.seq < seq and _tagged(commit, key):
                    victims.append(commit)
        if relation is None:
            return victims
        found_so_far = len(victims)
        if relation.near and state is not None:
            victims += _near(state, seq, int.from_bytes(relation.near, "little"))
        for id in relation.ids:
            of, named = id
            where = self.streams.get(of)
            if where is not None and (of != stream or named < seq) and (entry := where.seqs.get(named)) is not None:
                victims.append(entry)
        if found_so_far or relation.ids:  # the same one in two ways
            return list(dict.fromkeys(victims))
        return victims

    def _namer(self, stream: StreamId, seq: int) -> Entry | None:
        if self.named and (namers := self.named.get((stream, seq))) is not None:
            return next(iter(namers))
        state = self.streams.get(stream)
        if state is None or not state.names or seq >= state.top:
            return None
        for later in range(seq + 1, min(seq + REACH_MAX, state.top) + 1):  # a repair: not the way most events come
            if (entry := state.seqs.get(later)) is not None:
                assert entry.head is not None
                relation = entry.head.relation
                if relation is not None and not relation.group:
                    near = int.from_bytes(relation.near, "little")
                    if near >> (later - seq - 1) & 1:
                        return entry
        return None

    # Coming and going -----------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Put in an event that nothing inside obsoletes, and that obsoletes nothing inside (any more)."""
        head, stream = entry.head, entry.stream
        assert head is not None
        relation, key = head.relation, head.key
        if relation is not None and relation.group:
            if key is not None:
                self.groups[group_of(stream), key] = (_order(stream, entry.seq, head), entry)
            if self.plain:
                return
        state = self.streams.get(stream) or self.open(stream)
        if not self.plain:
            _number(state, entry)
        if relation is None:
            if key is not None:
                state.tags[key] = entry
        elif not relation.group:
            self._relate(state, entry, key, relation)

    def renew(self, state: Stream, entry: Entry, near: bytes) -> list[Entry]:
        """`add` the next event of a stream, one that names others by a bitmap alone, and `discard` those."""
        seq, seqs = entry.seq, state.seqs
        ahead = seq - state.top
        before = state.present << (ahead - 1) if ahead <= REACH_MAX else 0  # bit n for seq - 1 - n, as in the bitmap
        hits = _from_bytes(near, "little") & before
        state.present = ((before ^ hits) << 1) & _WINDOW | 1
        state.top, state.names = seq, True
        victims = []
        while hits:
            distance = hits.bit_length()
            hits ^= 1 << (distance - 1)
            if (victim := seqs.pop(seq - distance, None)) is not None:
                victims.append(victim)
                if (told := victim.head) is not None and (told.key is not None or _is_elsewhere(told.relation)):
                    self.discard(victim)
        seqs[seq] = entry
        return victims

    def discard(self, entry: Entry) -> None:
        """Take out an event that leaves, if it is in."""
        head, stream, seq = entry.head, entry.stream, entry.seq
        if head is None:
            return
        relation, key = head.relation, head.key
        state = self.streams.get(stream)
        if state is not None:
            if key is not None and state.tags.get(key) is entry:
                del state.tags[key]
            if not self.plain and state.seqs.get(seq) is entry:
                del state.seqs[seq]
        if relation is None:
            return
        if relation.group:
            if key is not None:
                item = group_of(stream), key
                if (found := self.groups.get(item)) is not None and found[1] is entry:
                    del self.groups[item]
            return
        if state is not None:
            if state.commit is entry:
                state.commit, state.committed = None, frozenset()
            elif key is not None and (parts := state.parts.get(key)) is not None and parts.get(seq) is entry:
                del parts[seq]
                if not parts:
                    del state.parts[key]
        for id in relation.ids:
            if (namers := self.named.get(id)) is not None:
                namers.pop(entry, None)
                if not namers:
                    del self.named[id]

    def _relate(self, state: Stream, entry: Entry, key: str | None, relation: Relation) -> None:
        if relation.commit is not None:
            state.commit, state.committed = entry, frozenset(relation.commit.keys)
        elif key is not None:
            if relation.part is None:
                state.tags[key] = entry
            else:
                state.parts.setdefault(key, {})[entry.seq] = entry
        if relation.near:
            state.names = True
        for id in relation.ids:
            if id[0] != entry.stream or id[1] < entry.seq:
                self.named.setdefault(id, {})[entry] = None


def _is_elsewhere(relation: Relation | None) -> bool:
    """Whether an event without a key is in the index by more than its seq."""
    return relation is not None and (relation.commit is not None or bool(relation.ids))


def _number(state: Stream, entry: Entry) -> None:
    seq = entry.seq
    state.seqs[seq] = entry
    if (ahead := seq - state.top) > 0:
        state.present = ((state.present << ahead) & _WINDOW | 1) if ahead < REACH_MAX else 1
        state.top = seq
    elif ahead > -REACH_MAX:
        state.present |= 1 << -ahead


def _order(stream: StreamId, seq: int, head: Head) -> Order:
    """`obsolescence.order`, without building a `Told`."""
    return (head.time_ns if head.rank is None else head.rank, stream, seq)


def _covers(state: Stream, commit: Entry, seq: int, head: Head) -> bool:
    """Whether a later commit obsoletes an event: a commit too, or one of its keys, set before its own transaction."""
    assert commit.head is not None
    assert commit.head.relation is not None
    said = commit.head.relation.commit
    assert said is not None
    if head.relation is not None and head.relation.commit is not None:
        return True
    return head.key is not None and seq < commit.seq - said.parts and head.key in state.committed


def _tagged(commit: Entry, key: str) -> bool:
    """Whether a commit is itself an event with this key, which a later one obsoletes."""
    assert commit.head is not None
    relation = commit.head.relation
    return commit.head.key == key and relation is not None and relation.part is None


def _superseded(state: Stream, seq: int, relation: Relation) -> list[Entry]:
    """What a commit obsoletes as such: the one before it, and what its keys were set to before its transaction."""
    commit = relation.commit
    assert commit is not None
    victims = [state.commit] if state.commit is not None and state.commit.seq < seq else []
    before = seq - commit.parts
    for key in commit.keys:
        if (tagged := state.tags.get(key)) is not None and tagged.seq < before:
            victims.append(tagged)
        if (parts := state.parts.get(key)) is not None:
            victims += [part for part in parts.values() if part.seq < before]
    return victims


def _near(state: Stream, seq: int, near: int) -> list[Entry]:
    """What is named by a bitmap, and inside."""
    if (ahead := seq - state.top) <= 0:  # late itself: what it names may be older than the window
        named = (seq - distance for distance in range(1, near.bit_length() + 1) if near >> (distance - 1) & 1)
        return [entry for earlier in named if (entry := state.seqs.get(earlier)) is not None]
    if ahead > REACH_MAX:
        return []
    victims = []
    hits = near & (state.present << (ahead - 1))
    while hits:
        distance = hits.bit_length()
        hits ^= 1 << (distance - 1)
        if (entry := state.seqs.get(seq - distance)) is not None:
            victims.append(entry)
        else:  # gone since; so each is looked for in vain but once
            state.present ^= 1 << (distance - ahead)
    return victims
