"""Subruns and the rotating coordinator: what urgc and urcgc have in common (001 §4, §4.2).

A run is a sequence of numbered subruns. In each, everyone tells the coordinator of that subrun what it has; the
coordinator answers everyone. The coordinator of subrun s is member s mod n, so nobody elects one, and the crash of one
costs a subrun. Rounds are synchronous: who is late counts as silent. There is no common clock, though: whoever hears
from a later subrun goes there at once, and whoever goes on by itself tells everyone, so that all are within one network
delay of the fastest. With nothing to do a subrun takes its time; otherwise it ends when its coordinator has spoken.

A group view, the *roll*, circulates with these messages. A member that was silent for k subruns is expelled from it;
one that hears of its own expulsion leaves, and so does one that has heard no coordinator for k subruns. Only a
coordinator that hears a majority writes a roll, so of two halves of a group at most one goes on.

A late answer is not silence. Jitter lets the messages of the next subrun overtake it, and then the answer cannot be
used. Its subrun counts as one of the member's r attempts to catch up, not as one of its k silent subruns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.ids import NodeId
from gossamer.protocol.groups.wire import Numbers, Roll

NEVER = float("inf")
JUMP_MAX = 1_000_000
"""How far ahead of us a subrun may be that somebody claims to be in."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of urgc and urcgc, each with its trade-off."""

    subrun_s: float = 0.05
    """The longest a subrun takes; who cannot be heard within half of it counts as silent. Less finds crashes sooner."""
    batch: int = 256
    """h: messages a decision. More carries more, and makes the history longer."""
    silence: int = 0
    """k: subruns of silence until a member is expelled; 0: as many as may crash one after the other, and two more."""
    attempts: int = 0
    """r: subruns in which to recover what is missing, else leave; 0: enough that a dead helper is expelled first.
    A subrun whose coordinator was heard too late counts as one of them."""
    uniform: bool = True
    """Deliver when it can no longer be lost, whoever crashes; otherwise as soon as it is in order (the paper's)."""

    def k(self, members: int) -> int:
        return self.silence or (members + 1) // 2 + 2

    def r(self, members: int) -> int:
        return self.attempts or 2 * self.k(members) + members // 2 + 1


class Rotation:
    """Where this member is in the run."""

    __slots__ = (
        "_eager", "_entered_at", "_heard_time", "_late_at", "_quiet", "_waits", "alone", "heard_at", "me", "members",
        "place", "quorum", "roll", "settings", "subrun",
    )  # fmt: skip

    def __init__(self, me: NodeId, members: tuple[NodeId, ...], settings: Settings) -> None:
        if me not in members or len(set(members)) != len(members):
            raise UsageError(f"{me} is not once among the members {', '.join(members)}")
        self.me = me
        self.members = members
        self.place = members.index(me)
        self.settings = settings
        self.quorum = len(members) // 2 + 1
        self.subrun = -1
        self.roll = Roll(-1, (0,) * len(members), (-1,) * len(members))
        self.heard_at = -1
        """The last subrun whose coordinator was heard."""
        self._late_at = -1
        self._quiet = 0
        self._entered_at = NEVER
        self._heard_time = NEVER
        self.alone = self._eager = self._waits = False

    @property
    def k(self) -> int:
        return self.settings.k(len(self.members))

    def coordinator(self, subrun: int) -> int:
        return subrun % len(self.members)

    @property
    def coordinates(self) -> bool:
        return self.coordinator(self.subrun) == self.place

    @property
    def others(self) -> tuple[NodeId, ...]:
        """Everyone else who is in."""
        return tuple(self.members[place] for place in self.active if place != self.place)

    @property
    def active(self) -> list[int]:
        return active(self.roll)

    def enter(self, subrun: int, now: float) -> bool:
        """Go to a subrun; False if no coordinator was heard for so long that this member has to leave."""
        heard = self.heard_at == self.subrun
        self._quiet = 0 if heard else self._quiet + 1
        self.alone = self._eager or not heard
        self._eager = False
        self.subrun = subrun
        self._entered_at = now
        self._heard_time = NEVER
        return self._quiet < self.k

    @property
    def addressees(self) -> tuple[NodeId, ...]:
        """Whom to tell that we are in this subrun: its coordinator; everyone, if they may not know that it has
        begun."""
        return self.others if self.alone else (self.members[self.coordinator(self.subrun)],)

    def hear(self, roll: Roll, now: float) -> bool:
        """The coordinator of this subrun has spoken; False if it says that this member is out."""
        self.roll = roll
        self.heard_at = self.subrun
        self._heard_time = now
        self._waits = False
        return roll.expelled[self.place] < 0

    def hear_late(self, subrun: int) -> bool:
        """Take an earlier subrun off the silence count, as its coordinator has spoken after all.

        Returns:
            False if nothing changes: the coordinator of that subrun was heard before, or silence has ended since.
        """
        if self._quiet == 0 or not max(self.heard_at, self._late_at) < subrun < self.subrun:
            return False
        self._late_at = subrun
        self._quiet -= 1
        return True

    def hurry(self) -> None:
        """Something came up that this subrun's coordinator may not know of: go on when it has spoken, and take the
        others along."""
        self._eager = True

    def wait(self, waits: bool) -> None:
        """Something was asked for: it should be here before the next report, if it comes soon."""
        self._waits = waits

    def next_deadline(self, decided: bool) -> float:
        """When the coordinator stops waiting for the silent, or when the next subrun begins."""
        subrun_s = self.settings.subrun_s
        if self.coordinates and not decided:
            return self._entered_at + subrun_s / 2
        if self.heard_at == self.subrun and (self.roll.busy or self._eager):
            return self._heard_time + (subrun_s / 4 if self._waits else 0.0)
        return self._entered_at + subrun_s

    def write(self, rolls: Iterable[tuple[int, Roll]], pending: int = -1, busy: bool = False) -> Roll:
        """The next roll, from the freshest of those that members sent: who was silent, and who is out."""
        sent = dict(rolls)
        last = max(sent.values(), key=lambda roll: roll.subrun)
        attempts, expelled = list(last.attempts), list(last.expelled)
        for place in range(len(self.members)):
            if expelled[place] >= 0:
                continue
            attempts[place] = 0 if place in sent else attempts[place] + 1
            if attempts[place] >= self.k:
                expelled[place] = self.subrun
        return Roll(self.subrun, tuple(attempts), tuple(expelled), pending, busy)

    def is_ahead(self, subrun: int) -> bool:
        """Whether a peer is in a later subrun, and takes us along; `PeerError` if nobody could be there."""
        if subrun > self.subrun + JUMP_MAX:
            raise PeerError(f"a subrun {subrun} while this is {self.subrun}")
        return subrun > self.subrun

    @staticmethod
    def is_complete(heard: Mapping[int, Roll]) -> bool:
        """Whether everyone was heard who is in, by the freshest roll that was."""
        last = max(heard.values(), key=lambda roll: roll.subrun)
        return all(place in heard for place in active(last))

    def check(self, roll: Roll, *lists: Numbers) -> bool:
        """Whether what a peer sent is about as many members as there are."""
        count = len(self.members)
        return len(roll.attempts) == len(roll.expelled) == count and all(len(each) == count for each in lists)


def active(roll: Roll) -> list[int]:
    return [place for place, subrun in enumerate(roll.expelled) if subrun < 0]


def middle(values: Iterable[int], quorum: int) -> int:
    """The largest number that `quorum` of these reach."""
    ordered = sorted(values, reverse=True)
    return ordered[quorum - 1] if len(ordered) >= quorum else -1
