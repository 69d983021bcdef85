"""The subscriptions to one group, whom of them an event matches, and the log for those of them that are behind."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import compress

from gossamer.broker.batch import Batch
from gossamer.broker.counters import Counters
from gossamer.broker.plain import Plain
from gossamer.matching import Index, Selector
from gossamer.matching.tree import names_of
from gossamer.messages.event import Attributes
from gossamer.messages.ids import StreamId
from gossamer.protocol.delivery import Arrival, Dispatch, Intake

FEW = 4


class Noting(Dispatch[int]):
    """Notes which feeds were offered something."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[int, None] = {}

    def offer(self, key: int, arrival: Arrival, matches: bool) -> bool:
        self.touched[key] = None
        return super().offer(key, arrival, matches)


class Audience:
    """The subscriptions to one group."""

    __slots__ = (
        "_asking", "attached", "behind", "counters", "dispatch", "index", "intake", "log", "log_bytes", "log_first",
        "names", "plain", "selectors", "sharing", "strict", "unseen",
    )  # fmt: skip

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.index: Index[str] = Index()
        """For when there are more selectors than it takes to be quicker than asking each."""
        self.selectors: dict[int, Selector] = {}
        self.sharing: dict[str, tuple[Selector, dict[int, None]]] = {}
        """By its text, a selector and who has it: it is asked once for all of them."""
        self._asking: Counter[str] = Counter()
        """By how many of these each attribute is asked for."""
        self.names: frozenset[str] = frozenset()
        """The attributes that any of them asks for; a new set when there are others."""
        self.dispatch = Noting()
        self.intake = Intake()
        self.plain: Plain | None = Plain()
        self.behind: dict[int, None] = {}
        self.attached: dict[int, None] = {}
        """Those of them that the log is kept for."""
        self.strict: dict[int, None] = {}
        """Subscriptions that are owed every event, also those that a saturated link purged."""
        self.unseen: list[tuple[StreamId, int, int]] = []
        """Events that links purged lately. Subscriptions take them into account when they are sent something."""
        self.log: deque[Batch] = deque()
        """What came since somebody is behind."""
        self.log_first = 0
        self.log_bytes = 0

    def select(self, key: int, selector: Selector | None) -> None:
        """A subscription has this selector now, or (None) is over."""
        old = self.selectors.pop(key, None)
        if old is not None:
            sharers = self.sharing[str(old)][1]
            del sharers[key]
            if not sharers:
                del self.sharing[str(old)]
                self.index.remove(str(old))
                self._ask(old, -1)
        if selector is not None:
            self.selectors[key] = selector
            if str(selector) not in self.sharing:
                self.sharing[str(selector)] = selector, {}
                self.index.add(str(selector), selector)
                self._ask(selector, 1)
            self.sharing[str(selector)][1][key] = None

    def _ask(self, selector: Selector, by: int) -> None:
        asking, known = self._asking, len(self._asking)
        for name in names_of(selector.tree):
            asking[name] += by
            if not asking[name]:
                del asking[name]
        if len(asking) != known:  # names come, or go, and not both
            self.names = frozenset(asking)

    def matched(self, batch: list[Attributes]) -> list[list[int]]:
        """Whom each of these matches, by the attributes that are asked for: one list for all that match the same."""
        if len(self.sharing) > FEW:
            texts = list(map(tuple, self.index.match_batch(batch)))
            keys = {each: self._sharers(each) for each in set(texts)}
            return [keys[each] for each in texts]
        if len(self.sharing) == 1:
            ((selector, sharers),) = self.sharing.values()
            everyone = list(sharers)
            if len(batch) == 1:
                return [everyone if selector.matches(batch[0]) else []]
            hits = selector.matches_each(batch)
            if all(hits):
                return [everyone] * len(hits)
            nobody: list[int] = []
            return [everyone if hit else nobody for hit in hits]
        rows = list(zip(*(selector.matches_each(batch) for selector, _ in self.sharing.values()), strict=True))
        chosen = {row: self._sharers(compress(self.sharing, row)) for row in set(rows)}
        return [chosen[row] for row in rows]

    def _sharers(self, texts: Iterable[str]) -> list[int]:
        return [key for text in texts for key in self.sharing[text][1]]
