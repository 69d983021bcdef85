"""How slow a receiver may be before its sender feels it: the analytical model of semantic reliability (000 §5.1.1).

A sender that could send T_s messages a second has a buffer of N messages for each receiver, and waits if one is full.
Without purging the slowest receiver, who takes T_r, sets the pace of all. With purging a new message is accepted by a
full buffer if it obsoletes one that is there. If the buffer held the N messages sent last, it could do so with
probability

    R_N = Σ f(x), x from 1 to N         f(x) = P(the latest message that a message obsoletes is x before it)

of a share R_N of the messages the receiver need not see anything, and the rates at the sender (and all fast receivers)
and at the slow receiver are

    T  = min(T_s, T_r / (1 - R_N))      T' = min(T, T_r)

It is not exact, in both directions (000 §5.4.1). Optimistic: a long congestion fills the buffer with what never becomes
obsolete. Pessimistic: what is purged in between brings those nearer to each other that are left, so that a small buffer
reaches further than N. `lab/purging_simulation.py` has neither error.

f is known of made traffic (`lab/traffic.py`), or is measured: of a sample by `measured(distances(contents))`, of a log
by `analytics/jobs/obsolescence.py`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from typing import NamedTuple

from gossamer.messages.event import Commit, Content, Relation

Distribution = Callable[[int], float]
"""f: from a distance to its probability; from 0 to that of obsoleting nothing."""


class Rates(NamedTuple):
    """Messages a second, in the long run."""

    sender: float
    """T: also what fast receivers get."""
    receiver: float
    """T': what the slow one gets."""


def measured(found: Iterable[int]) -> Distribution:
    """The f of a sample of distances."""
    times = Counter(found)
    total = times.total()
    return lambda x: times[x] / total if total else 0.0


def purgeable_share(f: Distribution, buffer: int) -> float:
    """R_N for N = `buffer`; the k of k-enumeration limits it likewise, so pass the smaller of the two."""
    return sum(map(f, range(1, buffer + 1)))


def rates(sender_rate: float, receiver_rate: float, purgeable: float) -> Rates:
    """T and T' for T_s, T_r and R_N."""
    accepted = receiver_rate / (1 - purgeable) if purgeable < 1 else inf
    sender = min(sender_rate, accepted)
    return Rates(sender, min(sender, receiver_rate))


# Measuring f ----------------------------------------------------------------------------------------------------------


def distances(contents: Iterable[Content]) -> Iterator[int]:
    """D of each message of a stream, in its order: how far before it the latest is that it obsoletes, 0 for none.

    The relation is that of `protocol.obsolescence.obsoletes`, but for `relation.ids`: contents do not know their ids.
    """
    seen = _Seen()
    for at, content in enumerate(contents):
        latest = seen.latest_obsoleted(at, content)
        yield 0 if latest is None else at - latest
        seen.add(at, content)


class _Seen:
    """Where in the stream is what a later message may obsolete."""

    def __init__(self) -> None:
        self._plain: dict[str, int] = {}
        """The last message of a key, parts of transactions and scope "group" aside."""
        self._set: dict[str, list[int]] = {}
        """All messages that set a key, parts included: what a commit obsoletes ends before its own parts."""
        self._group: dict[str, list[tuple[float, int]]] = {}
        """Of a key with scope "group", by place: rank (or time) and place."""
        self._commit: int | None = None

    def latest_obsoleted(self, at: int, content: Content) -> int | None:
        said, key = content.relation or Relation(), content.key
        found: list[int] = []
        bits = int.from_bytes(said.near, "little")
        if 0 < (nearest := (bits & -bits).bit_length()) <= at:
            found.append(at - nearest)
        if said.commit is not None:
            found += self._before_commit(at, said.commit)
        elif said.group and key is not None:
            lower = (place for rank, place in reversed(self._group.get(key, [])) if rank <= _rank(content))
            found += islice(lower, 1)
        elif said.part is None and not said.group and key in self._plain:
            found.append(self._plain[key])
        return max(found, default=None)

    def _before_commit(self, at: int, commit: Commit) -> Iterator[int]:
        if self._commit is not None:
            yield self._commit
        for key in commit.keys:
            places = self._set.get(key, [])
            if before := bisect_left(places, at - commit.parts):
                yield places[before - 1]

    def add(self, at: int, content: Content) -> None:
        said, key = content.relation or Relation(), content.key
        if said.group:
            if key is not None:
                self._group.setdefault(key, []).append((_rank(content), at))
            return
        if said.commit is not None:
            self._commit = at
        if key is not None:
            self._set.setdefault(key, []).append(at)
            if said.part is None:
                self._plain[key] = at


def _rank(content: Content) -> float:
    return content.time_ns if content.rank is None else content.rank
