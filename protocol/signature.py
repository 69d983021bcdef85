"""A table with an order-independent, incremental signature, compared top down.

Two members that hold equal tables see it from one number; two that differ find the few entries in which they differ
without sending the rest (rpbcast §5.1). The signature is a sum of xxh3 over the entries, modulo 2**63: adding,
changing or removing an entry costs the same whatever the table holds, and the order of updates does not matter.

The sums form a tree. Entries hash into 16,384 buckets, buckets into 128 groups, groups into the root:

    level 0: the root      1 sum
    level 1: groups        128 sums
    level 2: buckets       128 sums for each group that differs

A member that sees another root than its own sends its groups; the other answers with the buckets of the groups that
differ; the first sends the entries of the buckets that differ, and both merge.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from xxhash import xxh3_64_intdigest

FANOUT = 128
"""Wider: longer digests. Narrower: more entries in the one bucket that differs; so it is 6 of 100,000."""
DEPTH = 2
BUCKETS = FANOUT**DEPTH
MASK = 2**63 - 1
EMPTY = array("Q", bytes(8 * FANOUT))
"""The sums below a parent of which nothing is in the table."""
SMALL = 16
"""A table of so few entries is exchanged whole: shorter than its sums, and a round trip less."""

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")
Sums = tuple[tuple[int, int], ...]


class SignedTable(Generic[Key, Entry]):
    """A dictionary that knows the sum of the hashes of its entries, whole and by parts."""

    __slots__ = ("_buckets", "_entries", "_hash", "_place", "_root", "_sums")

    def __init__(self, place: Callable[[Key], bytes], digest: Callable[[Key, Entry], bytes]) -> None:
        """`place` decides a key's bucket, `digest` is all of an entry that must agree."""
        self._place = place
        self._hash = digest
        self._entries: dict[Key, tuple[Entry, int, int]] = {}
        self._buckets: dict[int, dict[Key, None]] = {}
        self._root = 0
        # Arrays, by parent: the sums that are compared with one another lie side by side in memory, and a table of few
        # entries has few of them (all would be 132 KB).
        self._sums: tuple[dict[int, array[int]], ...] = tuple({} for _ in range(DEPTH))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def get(self, key: Key) -> Entry | None:
        found = self._entries.get(key)
        return None if found is None else found[0]

    def values(self) -> Iterator[Entry]:
        return (found[0] for found in self._entries.values())

    @property
    def root(self) -> int:
        return self._root

    def set(self, key: Key, entry: Entry) -> None:
        hashed = xxh3_64_intdigest(self._hash(key, entry)) & MASK
        found = self._entries.get(key)
        if found is None:
            bucket = xxh3_64_intdigest(self._place(key)) % BUCKETS
            self._buckets.setdefault(bucket, {})[key] = None
            self._add(bucket, hashed)
        else:
            bucket = found[1]
            self._add(bucket, hashed - found[2])
        self._entries[key] = (entry, bucket, hashed)

    def discard(self, key: Key) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            _, bucket, hashed = found
            self._add(bucket, -hashed)
            keys = self._buckets[bucket]
            del keys[key]
            if not keys:
                del self._buckets[bucket]

    def sums(self, level: int, parents: Iterable[int]) -> Sums:
        """The sums of one level, below the given indices of the level above."""
        rows = self._sums[level - 1]
        return tuple(each for parent in parents for each in enumerate(rows.get(parent, EMPTY), parent * FANOUT))

    def differing(self, level: int, sums: Sums) -> tuple[int, ...]:
        """The indices whose sums are not ours, each once, and only such as there are: a peer may say anything."""
        rows, end = self._sums[level - 1], FANOUT**level
        found: dict[int, None] = {}
        parent, row = -1, EMPTY
        for index, total in sums:  # mostly those of one parent after the other
            if index // FANOUT != parent:
                parent = index // FANOUT
                row = rows.get(parent, EMPTY)
            if index < end and row[index % FANOUT] != total:
                found[index] = None
        return tuple(found)

    def within(self, buckets: Iterable[int]) -> list[Entry]:
        """The entries of some buckets; of all of them, if none is named."""
        named = tuple(buckets)
        if not named:
            return list(self.values())
        return [self._entries[key][0] for bucket in named for key in self._buckets.get(bucket, ())]

    def check(self) -> None:
        """Fast equals slow: the sums are those of a full re-hash."""
        fresh: SignedTable[Key, Entry] = SignedTable(self._place, self._hash)
        for key, (entry, _, _) in self._entries.items():
            fresh.set(key, entry)
        assert fresh._root == self._root
        for ours, theirs in zip(self._sums, fresh._sums, strict=True):
            assert all(theirs.get(parent, EMPTY) == row for parent, row in ours.items())
            assert theirs.keys() <= ours.keys()
        assert {b: set(keys) for b, keys in fresh._buckets.items()} == {b: set(k) for b, k in self._buckets.items()}

    def _add(self, bucket: int, amount: int) -> None:
        index = bucket
        for rows in reversed(self._sums):
            parent, place = divmod(index, FANOUT)
            row = rows.get(parent)
            if row is None:
                row = rows[parent] = array("Q", EMPTY)
            row[place] = (row[place] + amount) & MASK
            index = parent
        self._root = (self._root + amount) & MASK
