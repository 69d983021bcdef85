"""A sender, a fast receiver and a slow one, with a buffer for each: the event simulation of 000 §5.1.2.

The sender says a message, waits until every buffer has taken it, and says the next one a period later. A receiver takes
the oldest message from its buffer, is busy with it for a fixed delay, and takes the next. A buffer takes a message if
there is room, or if room can be made by purging what is obsolete. It shares nothing with the production code, on
purpose: the two are compared.

What can be varied, as in the paper:

    eager, lazy     Whatever is obsolete goes at once, or one message goes when a full buffer is to take another.
    split           N = a + b, the two ends of a connection: a message enters the sender's end, and moves on when the
                    receiver's end takes it, in order. It purges only what is at the end where it is.
    safety delay    A message may purge others only when it has been under way for that long, as if a majority had to
                    acknowledge it first. Then even a full buffer cannot take it for what it obsoletes.
    reach           The k of k-enumeration: a message knows what it obsoletes only among the k before it.

With N = 3, eager, and messages 1 (key x), 2, 3 and 4 (key x), the receiver busy:

    1x            1x 2            1x 2 3           2 3 4x        4 was taken although there was no room, 1 is purged

What a message obsoletes is told by its key alone. Time is in whole nanoseconds: at the rates of the figures, sender and
receiver often act in the same instant, and then it must not be rounding that decides who is first. It is the receiver.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content

Policy = Literal["eager", "lazy"]
NEVER = 2**63


@dataclass(frozen=True, slots=True)
class Received:
    """One receiver's side, after the warm-up."""

    rate: float
    """Messages a second that it took."""
    purged_share: float
    """Of those that entered its buffer."""
    occupancy: float
    """Messages in its buffer, averaged over time."""
    latency_s: float
    """From when a message was said, be it that the sender had to wait, until the receiver took it; on average."""


@dataclass(frozen=True, slots=True)
class Outcome:
    sender_rate: float
    """Messages a second that every buffer took."""
    fast: Received
    slow: Received


def simulate(
    contents: Iterable[Content],
    *,
    delay_s: float,
    sender_rate: float = 100.0,
    buffer: int = 20,
    split: int = 0,
    policy: Policy = "eager",
    safety_delay_s: float = 0.0,
    reach: int = 0,
    duration_s: float = 120.0,
    warmup_s: float = 20.0,
) -> Outcome:
    """Let the sender say `contents` for a warm-up, not counted (000 §5.3.3), and `duration_s`, or to their end.

    `split` is how many of the `buffer` places are at the sender's end, 0 for a single buffer; `reach` 0 is no limit.
    """
    if not 0 <= split < buffer:
        raise UsageError(f"split: from 0 to below the buffer of {buffer}, not {split}")
    if min(delay_s, safety_delay_s, reach, warmup_s) < 0 or min(sender_rate, duration_s) <= 0:
        raise UsageError("rate and duration are positive, delays, warm-up and reach not negative")
    if _ns(1 / sender_rate) < 1:
        raise UsageError(f"sender_rate: at most a message a nanosecond, not {sender_rate}")
    sizes = [split, buffer - split] if split else [buffer]
    fast, slow = (
        _Receiver([_Section(size, policy == "eager", reach or NEVER) for size in sizes], delay_ns, _ns(safety_delay_s))
        for delay_ns in (0, _ns(delay_s))
    )
    sender = _Sender(contents, _ns(1 / sender_rate), (fast, slow))
    sender.run(_ns(warmup_s))
    begun_ns = sender.now
    for counted in (sender, fast, slow):
        counted.count_from(begun_ns)
    sender.run(_ns(warmup_s + duration_s))
    elapsed_ns = sender.now - begun_ns
    if elapsed_ns <= 0:
        raise UsageError("the messages ended before the warm-up did")
    return Outcome(sender.accepted * 1e9 / elapsed_ns, fast.received(sender.now), slow.received(sender.now))


class _Message(NamedTuple):
    number: int
    key: str | None
    said_ns: int
    safe_ns: int = 0
    """From when on it may purge others."""


class _Section:
    """A buffer, or one end of it: messages in the order of their numbers."""

    __slots__ = ("_capacity", "_eager", "_obsolete", "_of_key", "_reach", "held", "purged")

    def __init__(self, capacity: int, eager: bool, reach: int) -> None:
        self._capacity = capacity
        self._eager = eager
        self._reach = reach
        self.held: OrderedDict[int, _Message] = OrderedDict()
        self._of_key: dict[str, list[int]] = {}
        self._obsolete: OrderedDict[int, None] = OrderedDict()
        """What could be purged, and has not been yet: lazily."""
        self.purged = 0

    def take_in(self, message: _Message, now: int) -> bool:
        """Whether it is in: there was room, or it could be made."""
        if message.safe_ns <= now:
            self.purge_for(message)
        if len(self.held) >= self._capacity:
            if not self._obsolete:
                return False
            self._purge(next(iter(self._obsolete)))
        self.held[message.number] = message
        if message.key is not None:
            self._of_key.setdefault(message.key, []).append(message.number)
        return True

    def purge_for(self, message: _Message) -> None:
        """`message` is here, or about to be, and safe: what it obsoletes may go."""
        older = self._of_key.get(message.key) if message.key is not None else None
        if not older:
            return
        since = message.number - self._reach
        obsolete = [number for number in older if since <= number < message.number]
        if self._eager:
            for number in obsolete:
                self._purge(number)
        else:
            self._obsolete.update(dict.fromkeys(obsolete))

    def _purge(self, number: int) -> None:
        self.remove(number)
        self.purged += 1

    def remove(self, number: int) -> _Message:
        message = self.held.pop(number)
        self._obsolete.pop(number, None)
        if message.key is not None:
            same = self._of_key[message.key]
            same.remove(number)
            if not same:
                del self._of_key[message.key]
        return message


class _Receiver:
    """A receiver and the buffer in front of it, in one section or two."""

    def __init__(self, sections: list[_Section], delay_ns: int, safety_ns: int) -> None:
        self._sections = sections
        self._near, self._far = sections[-1], sections[0]
        """The end it takes from, and the one the sender fills: one and the same unless the buffer is split."""
        self._delay_ns = delay_ns
        self._safety_ns = safety_ns
        self._unsafe: deque[_Message] = deque()
        self._busy_until = 0
        self.count_from(0)

    def count_from(self, now: int) -> None:
        self._since = self._last = now
        self._area = self._entered = self._taken = self._waited_ns = 0
        for section in self._sections:
            section.purged = 0

    def received(self, now: int) -> Received:
        elapsed_ns = now - self._since
        purged = sum(section.purged for section in self._sections)
        return Received(
            rate=self._taken * 1e9 / elapsed_ns,
            purged_share=purged / self._entered if self._entered else 0.0,
            occupancy=self._area / elapsed_ns,
            latency_s=self._waited_ns / 1e9 / self._taken if self._taken else 0.0,
        )

    def next_ns(self) -> int:
        """When something happens here by itself."""
        busy = self._busy_until if self._near.held else NEVER
        return min(busy, self._unsafe[0].safe_ns) if self._unsafe else busy

    def offer(self, number: int, key: str | None, said_ns: int, now: int) -> bool:
        if self._busy_until <= now and not self._near.held and not self._far.held:
            self._entered += 1  # and out again: always so with a fast receiver, hence the short cut
            self._take(said_ns, now)
            return True
        message = _Message(number, key, said_ns, now + self._safety_ns)
        if not self._far.take_in(message, now):
            return False
        self._entered += 1
        if self._safety_ns and key is not None:
            self._unsafe.append(message)
        self._settle(now)
        return True

    def pass_time(self, now: int) -> None:
        """It is `now`, and nothing has happened since the last call."""
        if now > self._last:
            held = len(self._near.held) + (len(self._far.held) if self._far is not self._near else 0)
            self._area += held * (now - self._last)
            self._last = now

    def act(self, now: int) -> None:
        """Do what is due."""
        while self._unsafe and self._unsafe[0].safe_ns <= now:
            message = self._unsafe.popleft()
            for section in self._sections:
                if message.number in section.held:
                    section.purge_for(message)
        self._settle(now)

    def _settle(self, now: int) -> None:
        """Take, and move on, as long as that is possible."""
        while True:
            if self._near.held and self._busy_until <= now:
                self._take(self._near.remove(next(iter(self._near.held))).said_ns, now)
            elif self._far is self._near or not self._move_on(now):
                return

    def _take(self, said_ns: int, now: int) -> None:
        self._busy_until = now + self._delay_ns
        self._taken += 1
        self._waited_ns += now - said_ns

    def _move_on(self, now: int) -> bool:
        if not self._far.held:
            return False
        oldest = next(iter(self._far.held.values()))
        if not self._near.take_in(oldest, now):
            return False
        self._far.remove(oldest.number)
        return True


class _Sender:
    """Says one message a period, and waits for the buffers; it drives the receivers through time."""

    def __init__(self, contents: Iterable[Content], period_ns: int, receivers: tuple[_Receiver, ...]) -> None:
        self._keys = (content.key for content in contents)
        self._period_ns = period_ns
        self._receivers = receivers
        self._lacking: list[_Receiver] = []
        """Whose buffer has not taken the current message yet."""
        self._number = -1
        self._key: str | None = None
        self._said_ns = 0
        self._next_ns = 0
        self.now = 0
        self.accepted = 0

    def count_from(self, now: int) -> None:
        del now
        self.accepted = 0

    def run(self, until_ns: int) -> None:
        """Up to that time, or to the end of what there is to say."""
        while True:
            wake = self._next_ns
            for receiver in self._receivers:
                wake = min(wake, receiver.next_ns())
            self.now = min(wake, until_ns)
            for receiver in self._receivers:
                receiver.pass_time(self.now)
            if wake >= until_ns:
                return  # what is due at this very moment comes after it
            for receiver in self._receivers:
                receiver.act(self.now)
            if not self._speak():
                return

    def _speak(self) -> bool:
        """Say a message if it is time, offer what somebody lacks; false when there is nothing left to say."""
        now = self.now
        if not self._lacking:
            if now < self._next_ns:
                return True
            try:
                self._key = next(self._keys)
            except StopIteration:
                return False
            self._number += 1
            self._said_ns = now
            self._lacking = list(self._receivers)
        self._lacking = [
            receiver for receiver in self._lacking if not receiver.offer(self._number, self._key, self._said_ns, now)
        ]
        if self._lacking:
            self._next_ns = NEVER
        else:
            self._next_ns = now + self._period_ns
            self.accepted += 1
        return True


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
