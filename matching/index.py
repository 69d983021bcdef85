"""`Index`: which of many subscriptions an event matches, at a cost that grows with the matches.

Each selector is taken apart into alternatives (`normal`), each alternative is filed under an access predicate
(`cluster`). There are two trees. In one, every alternative belongs to a selector that has no other, or whose others
exclude it, so what is found can be handed on as it is; only what is found in the other may be there twice.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from gossamer.matching.cluster import Cluster, Move
from gossamer.matching.normal import alternatives
from gossamer.matching.parser import IN_LIST_MAX
from gossamer.matching.places import Place, Verdicts
from gossamer.matching.predicates import settled
from gossamer.matching.selector import Selector
from gossamer.matching.values import Attributes

K = TypeVar("K", bound=Hashable)


class Index(Generic[K]):
    """Selectors by key. Adding, removing and matching may come in any order, and none of them stops for long.

    For one thread, or under a lock: matching changes the index too, as it learns what events are like.
    """

    __slots__ = ("_places", "_single", "_several", "_tired")

    def __init__(self) -> None:
        self._places: dict[K, Place | tuple[Place, ...]] = {}
        self._single = Cluster()
        self._several = Cluster()
        self._tired: list[Cluster] = []

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def add(self, key: K, selector: Selector | str) -> None:
        """Add a selector under a key. A key that is there already gets the new selector instead of its old one."""
        if isinstance(selector, str):
            selector = Selector(selector)
        found = dict.fromkeys(alternatives(selector.tree))
        if len(found) > 1:  # together they are filed under no more values than one selector may list
            found = dict.fromkeys(settled(terms, IN_LIST_MAX // len(found)) for terms in found)
        if key in self._places:
            self.remove(key)
        root = self._single if len(found) <= 1 else self._several
        places: list[Place] = []
        moves: list[Move] = []
        for terms in found:
            root.file(terms, key, places, moves)
        self._places[key] = _packed(places)
        if moves:
            self._move(moves)

    def remove(self, key: K) -> None:
        """Remove a key; a KeyError if it is not there."""
        places = self._places.pop(key)
        for place in places if isinstance(places, tuple) else (places,):
            place.remove(key)

    def match(self, attributes: Attributes) -> list[K]:
        """The keys whose selectors are true for these attributes, each once, in no particular order."""
        out: list[K] = []
        verdicts: Verdicts = {}
        get = attributes.get
        tired = self._tired
        self._single.collect(attributes, get, out, verdicts, tired)
        if self._several.size:
            repeated: list[K] = []
            self._several.collect(attributes, get, repeated, verdicts, tired)
            out += dict.fromkeys(repeated)
        if tired:
            self._review()
        return out

    def match_batch(self, batch: Iterable[Attributes]) -> list[list[K]]:
        """What `match` says of each event in a packet."""
        match = self.match
        return [match(attributes) for attributes in batch]

    def _review(self) -> None:
        """Look at the clusters that have tested a lot; after matching, since it moves things about."""
        moves: list[Move] = []
        for cluster in self._tired:
            cluster.review(moves)
        self._tired.clear()
        self._move(moves)

    def _move(self, moves: list[Move]) -> None:
        for key, old, new in moves:
            places = self._places[key]  # type: ignore[index]  # what was filed is a key of ours
            if places is old:
                self._places[key] = _packed(new)  # type: ignore[index]
            else:
                assert isinstance(places, tuple)
                self._places[key] = _packed([p for p in places if p is not old] + new)  # type: ignore[index]


def _packed(places: list[Place]) -> Place | tuple[Place, ...]:
    return places[0] if len(places) == 1 else tuple(places)
