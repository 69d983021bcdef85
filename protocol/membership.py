"""Approximate membership: who is in the mesh, spread by gossip, exact enough for garbage collection (rpbcast §5.3).

A joiner asks until k full members, or one logger, have *sponsored* it. A sponsor tells its vector of last seqs; the
element-wise maximum over the sponsors is `t_join`, the time from which the joiner is owed everything. Why that is
enough: a logger applies a sponsor's acknowledgements only while it knows every member that the sponsor knows, so
before anything after t_join can be collected the logger has learnt of the joiner, and waits for it as well.

Who leaves asks in the same way, and is not gone before a logger has written it down, if there is one: nobody else may
be left to tell (docs/decisions/sponsors.md).

Records spread by signature (protocol/signature.py). Of two records of one member the fresher counts; freshness is the
incarnation at first and grows with every transition, so that an old life never overrules a new one. At equal freshness
the graver status counts: that is how a member that has been silent for too long is expelled. The node that expels it
may have been down at its last transition, and then hears of a fresher record from another. It expels the member at
that freshness as well, until it hears the member itself, or of a new life of it.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import ENTRIES_MAX, Join, Member, Position, Retired, Roster, Span, Sponsor
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Became, Status
from gossamer.protocol.signature import SignedTable

PATIENCE_ROUNDS = 3
FRESHNESS_MAX = 2**62
"""Far beyond any incarnation and its transitions; a record at the end of the numbers could never be overruled."""

TRANSITIONS_MAX = 64
"""A record that is so much fresher is of another life: incarnations are further apart than a life has transitions."""
UNKNOWN = (-1, 0)
"""The rank of no record."""
GRAVITY = {"member": 0, "beginning": 0, "durable": 1, "disconnected": 1, "left": 2}

TRANSITIONS: dict[tuple[Status, str], Status] = {
    ("outside", "bootstrap"): "member",
    ("outside", "join"): "joining",
    ("joining", "sponsored"): "member",
    ("member", "leave"): "leaving",
    ("leaving", "sponsored"): "outside",
    ("member", "disconnect"): "disconnecting",
    ("disconnecting", "sponsored"): "disconnected",
    ("disconnected", "reconnect"): "member",
    ("disconnecting", "reconnect"): "member",
}
"""The life of a member; docs/rpbcast.md draws it from this table."""

Beginning = tuple[tuple[Position, ...], tuple[Retired, ...], tuple[Span, ...]]
"""Where a joiner begins: its positions, the streams that are over, and what it may take from a logger only."""

RECORDED: dict[Status, str] = {"leaving": "left", "disconnecting": "disconnected"}


DURABLE = ("beginning", "durable")
"""A durable subscription is in the table like a member, and is none (protocol/durable.py)."""
OUT = ("left", *DURABLE)


class _Views(NamedTuple):
    active: tuple[NodeId, ...]
    others: tuple[NodeId, ...]
    loggers: tuple[NodeId, ...]
    durables: tuple[NodeId, ...]
    alone: bool


class Membership:
    """The table of members, and this node's own way in and out."""

    __slots__ = (
        "_begin", "_closed", "_ctx", "_founded", "_on_record", "_peers", "_resigned", "_resume", "_retired",
        "_sponsored_round", "_sponsors", "_t_join", "_vector", "_views", "_witnesses", "expelled", "introduced", "own",
        "status", "table",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        peers: tuple[NodeId, ...],
        resume: bool,
        vector: Callable[[NodeId | None], Beginning],
        begin: Callable[[Beginning], None],
        on_record: Callable[[Member, Member | None], None],
        address: str = "",
    ) -> None:
        """`vector(node)` gives what to sponsor with (the positions known of `node`, if it resumes), `begin` starts the
        receiver at t_join, `on_record` hears of every record that changed; `address` is where others reach
        this node."""
        self._ctx = ctx
        self._peers = tuple(peer for peer in peers if peer != ctx.node)
        self._resume = resume
        self._vector = vector
        self._begin = begin
        self._on_record = on_record
        self.table: SignedTable[NodeId, Member] = SignedTable(str.encode, lambda _, member: _digest(member))
        self.status: Status = "outside"
        self.introduced = not self._peers
        """A peer has answered us: until then even a full member keeps calling its peers."""
        self._founded = self.introduced
        """There is nobody to be introduced to, or we were here before."""
        self.own = Member(ctx.node, "member", ctx.incarnation, ctx.logger, address)
        self._sponsors: dict[NodeId, None] = {}
        self._sponsored_round = 0
        self._t_join: dict[StreamId, int] = {}
        self._retired: tuple[Retired, ...] = ()
        self._closed: tuple[Span, ...] = ()
        self._views: _Views | None = None
        self._resigned: dict[NodeId, None] = {}
        """Those that were loggers, and are about to leave."""
        self._witnesses: dict[NodeId, None] = {}
        """Of our own resignation: those that were loggers when they knew of it."""
        self.expelled: dict[NodeId, int] = {}
        """Members expelled here that have not been heard since, and at which freshness."""

    # This node's own life -------------------------------------------------------------------------------------------

    def start(self, known: Iterable[Member] = ()) -> None:
        """A logger, and whoever has no peers or is `known` to be in, is a member from the start; anybody else has to be
        sponsored."""
        listed = False
        for member in known:
            self._founded = True
            if member.node != self._ctx.node:
                self.merge(member)
            else:
                listed = True
                if member.freshness > self.own.freshness:
                    self._renew("member", member.freshness + 1)
        if self._ctx.logger or listed or not self._peers:
            self._become("bootstrap")
            self.merge(self.own)
        else:
            self._become("join")
        self.call()

    def leave(self) -> None:
        self._depart("leave")

    def disconnect(self) -> None:
        self._depart("disconnect")

    def resign(self) -> None:
        """A logger that is about to leave is none any more: others are to keep what it kept."""
        self._serve(False)

    def resume_office(self) -> None:
        """It is one again: there are too few without it."""
        self._serve(True)

    def _serve(self, logger: bool) -> None:
        if self.own.logger != logger:
            self._witnesses.clear()
            self.own = Member(self._ctx.node, "member", self.own.freshness + 1, logger, self.own.address)
            self.merge(self.own)
            self._ctx.multicast(self.active, Roster((), (self.own,), False))

    def reconnect(self) -> None:
        """Nothing was collected that we lack: go on where we stopped, and let the others know."""
        if (self.status, "reconnect") in TRANSITIONS:
            self._become("reconnect")
            self.return_fresher(self.own.freshness)

    def return_fresher(self, freshness: int) -> None:
        """We are in, whatever a record of that freshness says."""
        self._renew("member", freshness + 1)
        self.merge(self.own)
        self.introduced = False
        self.call()

    def meet(self, node: NodeId) -> None:
        """Somebody to call: a peer of which only the address was known, and that stood for its name until it answered;
        or one that spoke to us before we were in."""
        if node not in self._peers and node != self._ctx.node:
            self._peers += (node,)

    def call(self) -> None:
        """Ask (again) to be let in or out; each round until it is granted."""
        if self.status == "joining" or self._goes:
            self._grant_if_enough()
        if self.pending:
            everyone = tuple(dict.fromkeys(self._peers + self.active))
            self._ctx.multicast(everyone, Join(self.own, self._resuming))
        elif self.is_resigned and not self.is_released:
            unaware = tuple(node for node in self.loggers if node not in self._witnesses and node in self.active)
            self._ctx.multicast(unaware, Join(self.own))

    @property
    def pending(self) -> bool:
        """Whether there is something to ask the others for."""
        return self.status == "joining" or self._goes or (self.status == "member" and not self.introduced)

    @property
    def _goes(self) -> bool:
        return self.status in RECORDED

    @property
    def _resuming(self) -> bool:
        """Only loggers know where we were."""
        return self._resume and self.status == "joining"

    def _depart(self, event: str) -> None:
        if (self.status, event) not in TRANSITIONS:
            return
        self._become(event)
        self._sponsors.clear()
        self._renew(RECORDED[self.status], self.own.freshness + 1)
        self.merge(self.own)
        if self.active:
            self.call()
        else:
            self._become("sponsored")  # there is nobody to tell

    def _become(self, event: str) -> None:
        self.status = TRANSITIONS[self.status, event]
        self._ctx.emit(Became(self.status))

    def _renew(self, status: str, freshness: int) -> None:
        self.own = Member(self._ctx.node, status, freshness, self.own.logger, self.own.address)

    # What others say ------------------------------------------------------------------------------------------------

    def on_join(self, sender: NodeId, message: Join) -> bool:
        """Take note of a transition; True if the sender may be told so (only full members sponsor)."""
        if message.member.node != sender or self.status != "member":
            if message.member.node == sender and self._goes and message.member.status != "member":
                self.merge(message.member)  # else two that go would wait for each other
                self._ctx.send(sender, Roster((), (self.own,), False))
            return False
        if not self.introduced and not self._founded and not message.member.logger:
            return False  # a new logger that has found nobody yet: it would found a second mesh
        self.merge(message.member)
        known = self.table.get(sender)
        if known != message.member and known is not None:
            self._ctx.send(sender, Roster((), (known,), False))  # an earlier life of it was fresher: it must be, too
        return known == message.member

    def sponsor(self, node: NodeId, message: Join) -> None:
        """Answer a `Join`: from now on everyone who compares signatures with us learns of it."""
        vector, retired, closed = (
            ((), (), ()) if message.member.status != "member" else self._vector(node if message.resume else None)
        )
        members = tuple(self.table.values())
        while len(vector) > ENTRIES_MAX:  # an empty member list says: more to come
            self._ctx.send(node, Sponsor(message.member.freshness, (), vector[:ENTRIES_MAX], retired))
            vector, retired = vector[ENTRIES_MAX:], ()
        self._ctx.send(node, Sponsor(message.member.freshness, members, vector, retired, closed[:ENTRIES_MAX]))

    def on_sponsor(self, sender: NodeId, message: Sponsor) -> None:
        if message.freshness != self.own.freshness or not (self.pending or self.is_resigned):
            return
        for position in message.vector:
            self._t_join[position.stream] = max(position.last, self._t_join.get(position.stream, -1))
        if not message.members:
            return
        if sender in self._peers or self.status == "joining":
            self.introduced = True
        if self.status == "joining":
            self.merge(self.own)
        for member in message.members:
            self.merge(member)
        if message.freshness != self.own.freshness or self.status in ("member", "outside", "disconnected"):
            if message.freshness == self.own.freshness and self.is_logger(sender):
                self._witnesses[sender] = None
            self._t_join.clear()
            return
        if self.status == "leaving" and (untold := self._untold(message.members)):
            self._ctx.send(sender, Roster((), untold, False))  # or it would leave with us; and it is asked again
            return
        if sender not in self._sponsors:
            self._sponsors[sender] = None
            self._sponsored_round = self._ctx.round
        self._retired += message.retired
        self._closed += message.closed
        if self.is_logger(sender):
            self._grant()
        else:
            self._grant_if_enough()

    def _untold(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """What we know of the members, and one that knows these does not."""
        theirs = {member.node: _rank(member) for member in members}
        return tuple(member for member in self.table.values() if theirs.get(member.node, UNKNOWN) < _rank(member))

    def _grant_if_enough(self) -> None:
        alone = self._goes and not self.active  # the others are going, too
        if alone or (self._is_told_enough if self.status == "leaving" else self._is_sponsored_enough):
            self._grant()

    @property
    def _is_sponsored_enough(self) -> bool:
        """k sponsors, or as many as there are: if no more answer for some rounds, there are no more (others may be
        joining themselves, and may not sponsor)."""
        answered = len(self._sponsors)
        patient = self._ctx.round < self._sponsored_round + PATIENCE_ROUNDS
        enough = answered >= self._ctx.config.sponsors and not self._resuming
        without_loggers = not self._resuming or not self.loggers  # to resume is to begin anew where there are none
        return bool(answered) and (enough or not patient) and without_loggers

    @property
    def _is_told_enough(self) -> bool:
        """Who joins is there to tell of itself, and who disconnects will be; who has left is not, and if all whom it
        has told die before they tell others it is waited for for ever. So a logger is to have it on disk, and only
        where there is none are k enough, or all that stay; one that does not answer is waited for."""
        needed = min(self._ctx.config.sponsors, len(self.active))
        return len(self._sponsors) >= needed and not any(node in self.loggers for node in self.active)

    def _grant(self) -> None:
        if self.status == "joining":
            vector = tuple(Position(stream, last) for stream, last in self._t_join.items())
            self._begin((vector, self._retired, self._closed))
        self._t_join.clear()
        self._sponsors.clear()
        self._retired, self._closed = (), ()
        self._become("sponsored")

    def on_roster(self, sender: NodeId, message: Roster) -> None:
        """Merge what differs, both ways."""
        for member in message.members:
            self.merge(member)
        if message.answer:
            theirs = {member.node: member for member in message.members}
            ours = [member for member in self.table.within(message.buckets) if theirs.get(member.node) != member]
            self._ctx.send(sender, Roster(message.buckets, tuple(ours), False))

    def expel(self, node: NodeId) -> None:
        """Declare that a member will not return; if it does, it comes back with a fresher record."""
        known = self.table.get(node)
        if known is not None and known.status != "left" and node != self._ctx.node:
            self.expelled[node] = known.freshness
            self.merge(_gone(known))

    def merge(self, member: Member) -> None:
        known = self.table.get(member.node)
        if member.freshness > FRESHNESS_MAX or (known is not None and _rank(known) >= _rank(member)):
            return
        if member.node == self._ctx.node and _rank(member) > _rank(self.own):
            # An earlier life of ours, or we were expelled while away: we are here, so be fresher than that.
            if self.status == "joining":
                self._renew("member", member.freshness + 1)
            elif self.status == "member":
                self.return_fresher(member.freshness)
            return
        ordered = self.expelled.get(member.node)
        if ordered is not None and member.freshness >= ordered + TRANSITIONS_MAX:
            del self.expelled[member.node]  # a new life
        elif ordered is not None and member.status != "left":
            member = _gone(member)  # an older word than our order, which only its own voice takes back
        resigned = known is not None and known.status == "member" and (known.logger or member.node in self._resigned)
        if resigned and member.status == "member" and not member.logger:
            self._resigned[member.node] = None
        else:
            self._resigned.pop(member.node, None)
        self.table.set(member.node, member)
        self._views = None
        self._on_record(member, known)

    # Views of the table ---------------------------------------------------------------------------------------------

    @property
    def active(self) -> tuple[NodeId, ...]:
        """The other members that can be talked to."""
        return (self._views or self._viewed()).active

    @property
    def others(self) -> tuple[NodeId, ...]:
        """All other members, disconnected ones too."""
        return (self._views or self._viewed()).others

    @property
    def loggers(self) -> tuple[NodeId, ...]:
        """The loggers among the others."""
        return (self._views or self._viewed()).loggers

    @property
    def heirs(self) -> tuple[NodeId, ...]:
        """The loggers among the others, and those that may be again: they have resigned, and are still there."""
        return (*self.loggers, *(node for node in self._resigned if node in self.active))

    @property
    def durables(self) -> tuple[NodeId, ...]:
        """The durable subscriptions that are waited for."""
        return (self._views or self._viewed()).durables

    def _viewed(self) -> "_Views":
        # Made once for many merges: a joiner learns a thousand records at a time.
        here = [member for member in self.table.values() if member.node != self._ctx.node and member.status not in OUT]
        self._views = _Views(
            tuple(member.node for member in here if member.status == "member"),
            tuple(member.node for member in here),
            tuple(member.node for member in here if member.logger),
            tuple(member.node for member in self.table.values() if member.status in DURABLE),
            not self._ctx.logger and not any(member.logger for member in here) and not self._faults(len(here)),
        )
        return self._views

    def is_logger(self, node: NodeId) -> bool:
        record = self.table.get(node)
        return record is not None and record.logger

    @property
    def has_loggers(self) -> bool:
        """Whether this mesh has stable storage at all."""
        return self._ctx.logger or bool(self.loggers)

    @property
    def faults(self) -> int:
        """f: how many members may be lost with what they hold."""
        return self._faults(len(self.others))

    def _faults(self, others: int) -> int:
        configured = self._ctx.config.faults
        return others // 2 if configured is None else configured

    @property
    def alone(self) -> bool:
        """Whether nobody else is to keep anything: there are no loggers, and no member may be lost."""
        return (self._views or self._viewed()).alone

    @property
    def is_resigned(self) -> bool:
        """Whether this node was a logger, and is about to leave."""
        return self._ctx.logger and not self.own.logger and self.status == "member"

    @property
    def is_released(self) -> bool:
        """Whether enough loggers know that this one is none any more: they will not resign if they are needed."""
        return sum(node in self._witnesses for node in self.loggers) >= self._ctx.config.loggers_min

    @property
    def is_first_to_return(self) -> bool:
        """Of those that have resigned, whether it is this one that is to be a logger again if there are too few."""
        return all(self._ctx.node <= node for node in self._resigned)

    @property
    def is_founder(self) -> bool:
        """Whether this node began the mesh, or knew its members when it started."""
        return self._founded

    @property
    def is_lost(self) -> bool:
        """Whether this node has not found the mesh yet: it knows nobody, and may be known to all."""
        return not self.introduced and not self._founded

    @property
    def leads(self) -> bool:
        """Whether this node speaks for the mesh: the first logger by name, or the first member if there is none; but
        never one that has not found the mesh yet."""
        if self.is_lost:
            return False
        if self.own.logger:
            return all(self._ctx.node < node for node in self.loggers)
        return not self.loggers and all(self._ctx.node < node for node in self.active)


def _gone(member: Member) -> Member:
    return Member(member.node, "left", member.freshness, member.logger, member.address)


def _rank(member: Member) -> tuple[int, int]:
    return member.freshness, GRAVITY[member.status]


def _digest(member: Member) -> bytes:
    return f"{member.node}\0{member.status}\0{member.freshness}\0{member.logger}\0{member.address}".encode()
