"""The messages of one view at one member: what is held for others, what they are known to hold, and what may go.

What everyone holds is *stable*, and need not be kept. What a majority holds is *safe*, and may take the place of what
it obsoletes (000 §4.3.2); why not before stands in protocol/groups/views.py.

A member *acknowledges* the messages that it holds, until its PRED is frozen; from then on it acknowledges its PRED. So
each acknowledgement is kept by the flush, and a majority of acknowledgements is a promise about the next view.
"""

from collections.abc import Callable
from itertools import chain

from gossamer.messages.event import Head
from gossamer.messages.ids import StreamId
from gossamer.protocol.groups.wire import Cast, Span
from gossamer.protocol.purging import PurgingBuffer

STORE_MAX = 65_536


class Kept:
    """Lists have a place for each member of the view."""

    __slots__ = (
        "_arrived", "_frozen", "_place", "_purger", "_safe_seen", "_streams", "delivered", "gone", "held", "known",
        "moved", "relates", "store",
    )  # fmt: skip

    def __init__(self, streams: tuple[StreamId, ...], place: int, marks: tuple[int, ...]) -> None:
        self._streams = streams
        self._place = place
        self.store: list[dict[int, Cast]] = [{} for _ in marks]
        """By seq; what is not in it and not beyond `held` is stable, or purged."""
        self.held = list(marks)
        self.delivered = list(marks)
        self.gone = list(marks)
        """Up to here everyone has it."""
        self.known = [list(marks) for _ in marks]
        """How far each member, this one among them, has acknowledged everyone's messages."""
        self._frozen = False
        self.moved = True
        """Whether anybody holds more, or we delivered more, since `track` last looked."""
        self.relates = False
        """Whether any message of this view could be obsolete, or make one so."""
        self._arrived: list[dict[int, Cast | None]] = [{} for _ in marks]
        """Beyond a gap."""
        self._safe_seen = list(marks)
        self._purger = PurgingBuffer(STORE_MAX, overflow="drop-new")

    @property
    def full(self) -> bool:
        return sum(map(len, self.store)) > STORE_MAX

    def add(self, casts: list[Cast]) -> None:
        """Our own, which come next."""
        first = self.held[self._place] + 1
        self._hold(self._place, first, casts)
        self._reach(self._place, first + len(casts) - 1)

    def take(self, origin: int, first: int, casts: tuple[Cast | None, ...]) -> bool:
        """What a member sent, or somebody for it; whether more is held now."""
        held, arrived, store = self.held[origin], self._arrived[origin], self.store[origin]
        if first == held + 1 and not arrived and all(casts):
            self._hold(origin, first, casts)  # type: ignore[arg-type]
            held, casts = held + len(casts), ()
        for seq, cast in enumerate(casts, first):
            if seq > held:
                if arrived.get(seq) is None:
                    arrived[seq] = cast
            elif cast is not None and seq > self.gone[origin] and seq > self.delivered[origin]:
                self.relates = self.relates or _relates(cast)
                store.setdefault(seq, cast)
        while held + 1 in arrived:
            held += 1
            if (cast := arrived.pop(held)) is not None:
                self._hold(origin, held, (cast,))
        if held == self.held[origin]:
            return False
        self._reach(origin, held)
        return True

    def _hold(self, origin: int, first: int, casts: "list[Cast] | tuple[Cast, ...]") -> None:
        self.relates = self.relates or any(map(_relates, casts))
        self.store[origin].update(zip(range(first, first + len(casts)), casts, strict=True))

    def _reach(self, origin: int, last: int) -> None:
        self.held[origin] = last
        if not self._frozen:
            self.known[self._place][origin] = last
        self.moved = True

    def freeze(self) -> None:
        """Acknowledge nothing more in this view: this member's PRED says how far it holds everyone's messages."""
        self._frozen = True

    @property
    def acknowledged(self) -> tuple[int, ...]:
        """How far this member tells others that it holds everyone's messages."""
        return tuple(self.known[self._place])

    def hear(self, place: int, held: tuple[int, ...]) -> None:
        """A member tells what it holds: of our own messages no more than there are."""
        known = self.known[place]
        for origin, mark in enumerate(held):
            if mark > known[origin]:
                known[origin] = min(mark, self.held[origin]) if origin == self._place else mark
                self.moved = True

    def casts(self, span: Span) -> tuple[Cast | None, ...]:
        """What is held of a span; what is purged, as holes."""
        return tuple(map(self.store[span.origin].get, range(span.first, span.last + 1)))

    def track(self, safe_of: Callable[[list[int]], int]) -> None:
        """What is safe may take the place of what it obsoletes; what is stable need not be kept."""
        if not self.moved:
            return
        self.moved = False
        for origin, store in enumerate(self.store):
            column = [known[origin] for known in self.known]
            stable = min(*column, self.delivered[origin])
            for seq in range(self.gone[origin] + 1, stable + 1):
                store.pop(seq, None)
            self.gone[origin] = max(self.gone[origin], stable)
            if not self.relates:
                continue
            safe = safe_of(column)
            for seq in range(max(self._safe_seen[origin], stable) + 1, safe + 1):
                if (cast := store.get(seq)) is not None and _relates(cast):
                    self._purge(origin, seq, cast)
            self._safe_seen[origin] = max(self._safe_seen[origin], safe)

    def _purge(self, origin: int, seq: int, cast: Cast) -> None:
        content = cast.content
        head = Head(content.key, content.rank, content.relation, content.time_ns)
        for omitted in self._purger.append(self._streams[origin], seq, head, 1, (origin, seq)):
            at, purged = omitted.entry.payload
            # Who has not delivered it itself keeps it till then; so it is left out only of what others are sent.
            if omitted.by is not None and purged <= self.delivered[at]:
                self.store[at].pop(purged, None)

    def obsolete(self, batch: list[tuple[int, int, Cast | None]]) -> set[tuple[int, int]]:
        """Of what is delivered as one, what another message of it obsoletes."""
        buffer = PurgingBuffer(len(batch) + 1, overflow="drop-new")
        heads = (
            buffer.append(
                self._streams[origin],
                seq,
                Head(cast.content.key, cast.content.rank, cast.content.relation, cast.content.time_ns),
                1,
                (origin, seq),
            )
            for origin, seq, cast in batch
            if cast is not None
        )
        return {omitted.entry.payload for omitted in chain.from_iterable(heads)}


def _relates(cast: Cast | None) -> bool:
    """Whether a message could be obsolete, or make another so."""
    return cast is not None and (cast.content.key is not None or cast.content.relation is not None)
