"""What a publisher says about obsolescence, made into what its events carry (protocol/obsolescence.py reads it).

Who names an event names all that was obsolete by it. 000 §3.3.2: given m1 ⊏ m2 ⊏ m3, a receiver must find m1 ⊏ m3
though m2 was purged long ago, so m3 carries both. Here 1 and 2 set `x`, 3 names 2, and 5 sets `y` as 4 did, which
named 3:

    seq   said                     carried
    1     key x                    nothing: a tag is enough
    2     key x                    nothing
    3     obsoletes=[2]            near 11         2, and 1, which had been obsolete by 2's tag
    4     key y, obsoletes=[3]     near 111        3, and what 3 carried, shifted by one: shift and or (000 §3.3.3)
    5     key y                    near 1110       what 4 carried, shifted: 4 itself goes by the tag

So for each event that is said:

    named, in this stream, within reach     its bit, its bits shifted, and those of the earlier plain events of its key
    named, further away or elsewhere        its id, and the ids of what is known to be obsolete by it: `seen` tells the
                                            annotator of events that were delivered to this client
    keyed, like an earlier one that carries what that one carried
    commit                                  what the last commit carried, that commit, what its own keys had been set
                                            to, and what its parts name (000 Fig. 3.8: one map, shifted and or-ed)

What is carried fades: a bit that is shifted out of reach is gone, and an id goes no further than `reach` events beyond
the one that named it. Otherwise one event that names a thousand others would have its key carry them for ever. Whoever
says less than is true makes others purge less, and never makes them lose anything. A false bit would: hence when
numbers jump (`skip_to`), all that was known of this stream is forgotten, for what stands how far back is then known no
more, and only what is named by id is told beyond it.

Events of scope "group" take no part in this: their total order is transitive by itself, and in one with what is named
there could be cycles (row P4). Nor may an event outside of transactions name a part or a commit: a receiver that had
one part only could then not tell that it lacks the other.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gossamer.messages.errors import UsageError
from gossamer.messages.event import (
    IDS_MAX,
    PARTS_MAX,
    REACH_MAX,
    Attributes,
    Commit,
    Content,
    Event,
    Relation,
    check_content,
)
from gossamer.messages.ids import EventId, StreamId

STREAMS_MAX = 256
"""Of how many other streams an annotator remembers what it has seen: those heard last."""

Scope = Literal["publisher", "group"]
Kind = Literal["plain", "group", "part", "commit"]


class Part(Struct, frozen=True):
    """One event of a transaction, as it is said; what it names is obsolete when the transaction is committed."""

    attributes: Attributes = {}
    body: bytes = b""
    key: str | None = None
    rank: int | float | None = None
    obsoletes: Iterable[EventId] = ()
    deleted: bool = False


class _Mark(NamedTuple):
    """What an event carries beyond its tag; an event without a mark is plain, and carries nothing."""

    kind: Kind
    near: int = 0
    ids: dict[EventId, int] = {}  # noqa: RUF012 (never changed)
    """Each with the seq of the event of ours that named it, from where it fades."""


_GROUP, _PART = _Mark("group"), _Mark("part")
_SCOPE_GROUP = Relation(group=True)


class _History:
    """The last `reach` seqs of one stream: who set which key, and who carried what."""

    __slots__ = ("keys", "last", "marks", "reach")

    def __init__(self, reach: int) -> None:
        self.reach = reach
        self.last = -1
        self.keys: dict[int, str | None] = {}
        self.marks: dict[int, _Mark] = {}

    def add(self, seq: int, key: str | None, mark: _Mark | None) -> None:
        self.keys[seq] = key
        if mark is not None:
            self.marks[seq] = mark
        if seq == self.last + 1:
            self.keys.pop(seq - self.reach, None)
            if self.marks:
                self.marks.pop(seq - self.reach, None)
        else:  # some were not seen: purged on the way, or not ours
            self.keys = {at: key for at, key in self.keys.items() if at > seq - self.reach}
            self.marks = {at: mark for at, mark in self.marks.items() if at > seq - self.reach}
        self.last = seq

    def kind(self, seq: int) -> Kind:
        mark = self.marks.get(seq)
        return "plain" if mark is None else mark.kind

    def near(self, seq: int) -> int:
        """What is obsolete by it in this stream, as its bits: what it carries, and what its tag stands for."""
        mark = self.marks.get(seq)
        bits = 0 if mark is None else mark.near
        key = self.keys[seq]
        if key is not None and (mark is None or mark.kind == "plain"):
            for at, other in self.keys.items():
                if other == key and at < seq and self.kind(at) == "plain":
                    bits |= 1 << (seq - at - 1)
        return bits

    def ids(self, seq: int) -> dict[EventId, int]:
        mark = self.marks.get(seq)
        return {} if mark is None else mark.ids


class _Closure:
    """What the event of ours with this seq obsoletes by bits and by ids, while it is being put together."""

    __slots__ = ("_by_commit", "_own", "_others", "_reach", "_seq", "_stream", "ids", "near")

    def __init__(self, annotator: "Annotator", seq: int, *, commit: bool = False) -> None:
        self._stream, self._reach = annotator.stream, annotator.reach
        self._own, self._others = annotator._own, annotator._others
        self._seq = seq
        self._by_commit = commit
        self.near = 0
        self.ids: dict[EventId, int] = {}

    def name(self, named: Sequence[EventId]) -> None:
        """What the user named, first, and what follows from it: that may be cut off at the end, this not."""
        for id in named:
            self._check(id)
            if not self._is_near(id):
                self.ids[id] = self._seq
        for id in named:
            if self._is_near(id):
                self.carry(id.seq, itself=True)
            elif (history := self._others.get(id.stream)) is not None and id.seq in history.keys:
                for distance in _distances(history.near(id.seq)):
                    self._follow(EventId(id.stream, id.seq - distance))
                for other in history.ids(id.seq):
                    self._follow(other)

    def carry(self, seq: int, *, itself: bool) -> None:
        """All that an earlier event of ours obsoletes, shifted to where we are (000 §3.3.3)."""
        distance = self._seq - seq
        mark = self._own.marks.get(seq)
        if itself:
            self.near |= self._own.near(seq) << distance | 1 << (distance - 1)
        elif mark is not None:  # the tag, which is ours too, tells the rest
            self.near |= mark.near << distance
        if mark is not None:
            for id, since in mark.ids.items():
                if self._seq - since <= self._reach:
                    self.ids.setdefault(id, since)

    def told(self) -> tuple[bytes, tuple[EventId, ...]]:
        """What the event is to carry; whatever is out of reach by now is cut off."""
        self.near &= (1 << self._reach) - 1
        if len(self.ids) > IDS_MAX:
            self.ids = dict(islice(self.ids.items(), IDS_MAX))
        return _bytes(self.near), tuple(self.ids)

    def _is_near(self, id: EventId) -> bool:
        return id.stream == self._stream and id.seq in self._own.keys and self._seq - id.seq <= self._reach

    def _follow(self, id: EventId) -> None:
        # Others may have named events of ours. We know best what those obsolete, and that a part is none of them.
        if self._is_near(id):
            if self._own.kind(id.seq) == "plain":
                self.carry(id.seq, itself=True)
        elif id.stream != self._stream or id.seq < self._seq:
            self.ids.setdefault(id, self._seq)

    def _check(self, id: EventId) -> None:
        own = id.stream == self._stream
        if own and id.seq >= self._own.last + 1:
            raise UsageError(f"obsoletes: {id} has not been published yet; the next event is {self._own.last + 1}")
        history = self._own if own and id.seq in self._own.keys else self._others.get(id.stream)
        if history is None or id.seq not in history.keys:
            return
        kind = history.kind(id.seq)
        if kind == "group":
            raise UsageError(f'obsoletes: {id} has scope "group": only what has its key and outranks it obsoletes it')
        if kind != "plain" and not (self._by_commit and own):
            what = "the end" if kind == "commit" else "part"
            raise UsageError(
                f"obsoletes: {id} is {what} of a transaction: only a transaction of its stream obsoletes it"
            )


class Annotator:
    """Turns what a user says into the contents of one stream, in order."""

    def __init__(self, stream: StreamId, *, first: int = 0, reach: int = REACH_MAX) -> None:
        if not 0 < reach <= REACH_MAX:
            raise UsageError(f"reach: 1 to {REACH_MAX} events, not {reach}")
        self.stream = stream
        self.reach = reach
        self.dependent = False
        """Every event may have something to say of others (protocol/dependent.py)."""
        self.next = first
        """The seq of the next event."""
        self._others: dict[StreamId, _History] = {}
        self.plain: deque[tuple[int, str]] = deque(maxlen=reach)
        """The keys, with their seqs, of the last events of which nothing else is to be said, as far as `_own` does not
        know them yet. Who has no time for a call (`Client.publish_nowait`) does what `count` does."""
        self._forget()

    def skip_to(self, seq: int) -> None:
        """That is the seq of the next event."""
        if seq < self.next:
            raise UsageError(f"{self.stream}: numbers only grow, and {self.next} is the next one, not {seq}")
        if seq > self.next:
            self.next = seq
            self._forget()

    def _forget(self) -> None:
        self.plain.clear()
        self._history = _History(self.reach)
        self._history.last = self.next - 1
        self.carrying: dict[str, int] = {}
        """The latest plain event of a key, if it carries something: all that a keyed event need look up."""
        self._committed: int | None = None
        """The last commit, within reach."""

    @property
    def _own(self) -> _History:
        history = self._history
        if history.last + 1 < self.next:
            keys = dict(self.plain)
            self.plain.clear()
            for seq in range(max(history.last + 1, self.next - self.reach), self.next):
                history.add(seq, keys.get(seq), None)
        return history

    def count(self, key: str | None) -> bool:
        """Number an event that is known to be good, if there is nothing to say of it but its key."""
        if self.carrying or self.dependent:
            return False
        if key is not None:
            self.plain.append((self.next, key))
        self.next += 1
        return True

    def come_after(self, ids: Iterable[EventId]) -> None:
        """The next event comes after these (protocol/dependent.py)."""
        raise UsageError(f"after={ids!r} is for groups with causal order, and this is none"[:200])

    def event(
        self,
        attributes: Attributes,
        body: bytes = b"",
        *,
        key: str | None = None,
        rank: int | float | None = None,
        scope: Scope = "publisher",
        obsoletes: Iterable[EventId] = (),
        time_ns: int = 0,
        deleted: bool = False,
    ) -> Content:
        """One event outside of transactions."""
        _check_key(key, rank, deleted, scope == "group")
        relation, mark = None, None
        if scope == "group":
            if _ids(obsoletes):
                raise UsageError('scope "group" goes with a key and a rank, not with obsoletes=')
            relation, mark = _SCOPE_GROUP, _GROUP
        elif scope != "publisher":
            raise UsageError(f'scope: "publisher" or "group", not {scope!r}')
        elif obsoletes or (self.carrying and key in self.carrying):
            relation, mark = self._related(key, _ids(obsoletes))
        content = check_content(Content(key, rank, relation, time_ns, deleted, attributes, body))
        self._record(key, mark)
        return content

    def delete(
        self,
        key: str,
        attributes: Attributes | None = None,
        *,
        rank: int | float | None = None,
        scope: Scope = "publisher",
        obsoletes: Iterable[EventId] = (),
        time_ns: int = 0,
    ) -> Content:
        """A tombstone: the key has no value any more."""
        said = {} if attributes is None else attributes
        return self.event(said, key=key, rank=rank, scope=scope, obsoletes=obsoletes, time_ns=time_ns, deleted=True)

    def transaction(self, parts: Sequence[Part], *, time_ns: int = 0) -> tuple[Content, ...]:
        """The parts and their commit; nothing if there are none."""
        count = len(parts)
        if not count:
            return ()
        if count > PARTS_MAX:
            raise UsageError(f"a transaction has at most {PARTS_MAX} parts, not {count}")
        contents = []
        for index, part in enumerate(parts):
            _check_key(part.key, part.rank, part.deleted)
            relation = Relation(part=(index, count))
            said = Content(part.key, part.rank, relation, time_ns, part.deleted, part.attributes, part.body)
            contents.append(check_content(said))
        commit, mark = self._commit(parts)
        contents.append(check_content(Content(relation=commit, time_ns=time_ns)))
        for part in parts:
            self._record(part.key, _PART)
        self._committed = self.next
        self._record(None, mark)
        return tuple(contents)

    def seen(self, event: Event) -> None:
        """An event was delivered to this client: who names it from now on names what is obsolete by it, too."""
        assert event.id is not None, event
        stream, seq = event.id
        if stream == self.stream and seq > self._own.last - len(self._own.keys):
            return  # our own, known better than it could tell
        history = self._others.pop(stream, None) or _History(self.reach)
        self._others[stream] = history  # put last: the one that goes first is the one not heard for longest
        if len(self._others) > STREAMS_MAX:
            del self._others[next(iter(self._others))]
        history.add(seq, event.key, None if event.relation is None else _mark(event.relation))

    def _related(self, key: str | None, named: Sequence[EventId]) -> tuple[Relation | None, _Mark | None]:
        closure = _Closure(self, self.next)
        closure.name(named)
        if key in self.carrying:
            closure.carry(self.carrying[key], itself=False)
        near, ids = closure.told()
        if not near and not ids:
            return None, None
        return Relation(near=near, ids=ids), _Mark("plain", closure.near, closure.ids)

    def _commit(self, parts: Sequence[Part]) -> tuple[Relation, _Mark]:
        seq = self.next + len(parts)
        closure = _Closure(self, seq, commit=True)
        closure.name([id for part in parts for id in _ids(part.obsoletes)])
        if self._committed in self._own.keys:
            closure.carry(self._committed, itself=True)
        last = {part.key: at for at, part in enumerate(parts, self.next) if part.key is not None}
        for key in last.keys() & self.carrying.keys():
            closure.carry(self.carrying[key], itself=False)
        for at, set_before in self._own.keys.items():
            if set_before in last and self._own.kind(at) != "group":
                closure.near |= 1 << (seq - at - 1)
        for at, part in enumerate(parts, self.next):
            # A key set twice in one transaction: the commit obsoletes the earlier part. No tag would say so.
            if part.key is not None and last[part.key] != at:
                if seq - at <= self.reach:
                    closure.near |= 1 << (seq - at - 1)
                else:
                    closure.ids[EventId(self.stream, at)] = seq
        near, ids = closure.told()
        relation = Relation(near=near, ids=ids, commit=Commit(len(parts), tuple(last)))
        return relation, _Mark("commit", closure.near, closure.ids)

    def _record(self, key: str | None, mark: _Mark | None) -> None:
        own, seq = self._own, self.next
        self.next += 1
        if self.carrying:
            out = seq - self.reach
            gone = own.keys.get(out)
            if gone is not None and self.carrying.get(gone) == out:
                del self.carrying[gone]
        if mark is not None and key is not None and mark.kind == "plain":
            self.carrying[key] = seq
        own.add(seq, key, mark)


def truncate(content: Content, reach: int) -> Content:
    """Without what it says of events more than `reach` before it: those are no longer where it was said that they are.

    A commit that comes apart from its parts obsoletes no key: its transaction will not be applied.
    """
    relation = content.relation
    if relation is None:
        return content
    near = _bytes(int.from_bytes(relation.near, "little") & ((1 << max(reach, 0)) - 1))
    commit = relation.commit
    if commit is not None and commit.parts > reach:
        commit = Commit(commit.parts)
    if (near, commit) == (relation.near, relation.commit):
        return content
    relation = replace(relation, near=near, commit=commit)
    return replace(content, relation=None if relation == Relation() else relation)


def _check_key(key: str | None, rank: int | float | None, deleted: bool, group: bool = False) -> None:
    if key is None and (rank is not None or deleted or group):
        what = "a rank" if rank is not None else "a tombstone" if deleted else 'scope "group"'
        raise UsageError(f"{what} needs a key")


def _mark(relation: Relation) -> _Mark:
    kind: Kind = "plain"
    if relation.group:
        kind = "group"
    elif relation.part is not None:
        kind = "part"
    elif relation.commit is not None:
        kind = "commit"
    return _Mark(kind, int.from_bytes(relation.near, "little"), dict.fromkeys(relation.ids, 0))


def _ids(obsoletes: Iterable[EventId]) -> tuple[EventId, ...]:
    if not obsoletes:
        return ()
    named = tuple(obsoletes) if isinstance(obsoletes, Iterable) else (obsoletes,)
    check_content(Content(relation=Relation(ids=named)))
    return tuple(EventId(*id) for id in named)


def _bytes(near: int) -> bytes:
    return near.to_bytes((near.bit_length() + 7) // 8, "little")


def _distances(near: int) -> list[int]:
    return [at + 1 for at in range(near.bit_length()) if near >> at & 1]
