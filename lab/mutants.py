"""Deliberately broken protocols: what the swarm is worth is what it catches of these.

Each is the production node with one rule taken out, the way a hurried change might take it out.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Active, Checkout, Gone, Lacking, Member, Positions, Range, Span
from gossamer.protocol.bookmark_exchange import BookmarkExchange
from gossamer.protocol.closing import Closing
from gossamer.protocol.departure import Departure
from gossamer.protocol.durable import Durables, group_of_durable
from gossamer.protocol.effects import Compact, Deliver, Stored
from gossamer.protocol.handover import Handover
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.logger import Log, LoggerRole
from gossamer.protocol.membership import Membership
from gossamer.protocol.mending import Mending
from gossamer.protocol.node import Node
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.repair import Repair
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.seek import Seeker
from gossamer.protocol.sender import Sender
from gossamer.protocol.stability import Stability
from gossamer.protocol.stream import Stream
from gossamer.protocol.vouching import Vouching

Mutant = Callable[..., Node]
MUTANTS: dict[str, Mutant] = {}
"""By name; each makes a node, as `Node` does. The swarm catches every one of them, from any seed, in 200 runs."""
RARE: dict[str, Mutant] = {}
"""Those that matter only in a coincidence too rare for random runs: tests/simulation/test_rare.py arranges it."""


def mutant(among: dict[str, Mutant]) -> Callable[[Callable[[Node], None]], Callable[[Node], None]]:
    def enter(break_it: Callable[[Node], None]) -> Callable[[Node], None]:
        def make(*arguments: Any, **keywords: Any) -> Node:
            node = Node(*arguments, **keywords)
            break_it(node)
            return node

        among[break_it.__name__.replace("_", "-")] = make
        return break_it

    return enter


def become(machine: object, kind: type) -> None:
    """Swap the behaviour of a machine and keep its state."""
    machine.__class__ = kind


@mutant(MUTANTS)
def skip_the_gap_check(node: Node) -> None:
    """A packet beyond a gap is delivered at once, and the gap forgotten."""

    class Careless(Receiver):
        __slots__ = ()

        def accept(self, packet: Packet, from_logger: bool, own: bool = False) -> tuple[Packet, ...]:
            stream = self.streams.get(packet.stream)
            if stream is not None and stream.gaps is None and packet.first > stream.next:
                stream.next, stream.lastseen = packet.first, packet.first - 1
            return super().accept(packet, from_logger, own)

    become(node.receiver, Careless)


@mutant(MUTANTS)
def deliver_twice(node: Node) -> None:
    """A duplicate is taken for news."""

    class Forgetful(Receiver):
        __slots__ = ()

        def accept(self, packet: Packet, from_logger: bool, own: bool = False) -> tuple[Packet, ...]:
            if super().is_over(packet):
                self._ctx.effects.append(Deliver(packet))
            return super().accept(packet, from_logger, own)

        def is_over(self, packet: Packet) -> bool:
            return False

    become(node.receiver, Forgetful)


@mutant(MUTANTS)
def deliver_out_of_order(node: Node) -> None:
    """What is held back for order is delivered as it comes."""

    class Hasty(Receiver):
        __slots__ = ()

        def _release(self, stream: Stream) -> None:
            for held in stream.gaps.held if stream.gaps else ():
                if isinstance(held.what, Packet) and held.first != stream.next:
                    self._ctx.effects.append(Deliver(held.what))
            super()._release(stream)

    become(node.receiver, Hasty)


@mutant(MUTANTS)
def collect_too_early(node: Node) -> None:
    """A logger takes everything that it has for stable."""

    class Optimist(Stability):
        __slots__ = ()

        def stable(self, stream: StreamId, own: int, collected: int = -1) -> int:
            return own

    become(node.stability, Optimist)


@mutant(MUTANTS)
def acknowledge_before_persisting(node: Node) -> None:
    """A logger says that it is on disk when it is on its way there."""

    class Boaster(LoggerRole):
        __slots__ = ()

        def store(self, packets: Iterable[Packet], origin: NodeId | None) -> None:
            super().store(packets, origin)
            for packet in packets:
                self.log(packet.stream).committed.add(packet.first, packet.last)
                self.log(packet.stream).advance(self._ctx.now, 0.0)
                if origin is not None:
                    self._acknowledge(origin, (packet.stream,))

    if node.logger is not None:
        become(node.logger, Boaster)


@mutant(MUTANTS)
def free_without_enough_acknowledgements(node: Node) -> None:
    """A publisher forgets what anybody at all acknowledged."""

    class Trusting(Sender):
        __slots__ = ()

        def _is_kept(self, outgoing: Any, packet: Packet) -> bool:
            return any(last >= packet.last for last in outgoing.acks.values()) or len(outgoing.acks) > 1

    become(node.sender, Trusting)


@mutant(MUTANTS)
def never_turn_to_a_logger(node: Node) -> None:
    """What gossip cannot repair stays in the gossip phase."""

    class Stubborn(Repair):
        __slots__ = ()

        def _to_logger_phase(self, stream: Stream, first: int, last: int) -> list[tuple[int, int]]:
            return []

        def _asks_loggers_first(self) -> bool:
            return False

    become(node.repair, Stubborn)


@mutant(MUTANTS)
def close_holes_without_asking(node: Node) -> None:
    """A logger declares void what it has not got, without everyone's word."""

    class Impatient(Seeker):
        __slots__ = ()

        def _close(self, stream: Stream) -> None:
            for other in self._membership.active:
                answered = self._answers[stream.id].setdefault(other, IntervalSet())
                answered.add(0, max(0, stream.lastseen))
            super()._close(stream)

    become(node.seeker, Impatient)


@mutant(MUTANTS)
def reuse_sequence_numbers(node: Node) -> None:
    """A named publisher begins at 0 in every life."""

    class Newborn(Sender):
        __slots__ = ()

        def open(self, stream: StreamId) -> None:
            super().open(stream)
            outgoing = self.streams.get(stream)
            if outgoing is not None and outgoing.numbers is not None:
                outgoing.numbers.asks, outgoing.numbers.last = None, 10**6

    become(node.sender, Newborn)


@mutant(MUTANTS)
def retire_too_early(node: Node) -> None:
    """An ended stream is forgotten before everyone has it."""

    def retire_all() -> None:
        node.heartbeats.on_retire(tuple(node.heartbeats.ended))

    node._retire_stable = retire_all  # type: ignore[method-assign]


@mutant(MUTANTS)
def begin_after_t_join(node: Node) -> None:
    """A joiner begins one event later than it is owed."""

    class Late(Receiver):
        __slots__ = ()

        def begin(self, vector: Any) -> None:
            Receiver.begin(self, vector)
            for position in vector:
                stream = self.streams.get(position.stream)
                if stream is not None and stream.gaps is None and not node._ctx.logger:
                    stream.start, stream.next, stream.lastseen = position.last + 2, position.last + 2, position.last + 1

    become(node.receiver, Late)


@mutant(MUTANTS)
def forget_what_is_retired(node: Node) -> None:
    """A late duplicate brings a stream back to life."""

    class Amnesiac(RetiredStreams):
        __slots__ = ()

        def __contains__(self, stream: StreamId) -> bool:
            return False

    become(node.receiver.retired, Amnesiac)


@mutant(RARE)
def acknowledge_for_the_unknown(node: Node) -> None:
    """A logger applies acknowledgements of members that know of joiners it does not know (rpbcast §5.3)."""
    on_positions = node.on_positions

    def apply(sender: NodeId, message: Positions) -> None:
        on_positions(sender, replace(message, members_root=node.membership.table.root))

    node._messages[Positions] = apply


@mutant(RARE)
def take_what_was_given_up(node: Node) -> None:
    """A member that told a logger it lacks an event delivers it all the same when it comes."""

    class Greedy(Repair):
        __slots__ = ()

        def seal(self, stream: Stream, first: int, last: int) -> None: ...

    become(node.repair, Greedy)


@mutant(RARE)
def forget_what_an_earlier_life_said(node: Node) -> None:
    """A member that resumes does not know what it has told a logger that it lacks, and takes it from anybody."""

    class Oblivious(Closing):
        __slots__ = ()

        def seal(self, span: Span) -> None: ...

    become(node.closing, Oblivious)


@mutant(RARE)
def call_only_whom_it_names(node: Node) -> None:
    """A joiner does not call those that take it for a member already."""

    class Shy(Membership):
        __slots__ = ()

        def meet(self, node: NodeId) -> None: ...

    become(node.membership, Shy)


@mutant(RARE)
def take_while_going(node: Node) -> None:
    """A member that waits to disconnect goes on taking what others publish, and may be gone before it is logged."""

    class Greedy(Departure):
        __slots__ = ()

        @property
        def goes(self) -> bool:
            return False

    become(node.departure, Greedy)


@mutant(RARE)
def count_on_those_who_asked_a_dead_logger(node: Node) -> None:
    """A logger goes by what members said that they lack, though they may have it from another that has died since."""

    class Trusting(Seeker):
        __slots__ = ()

        def ask_again(self) -> None:
            pass

    become(node.seeker, Trusting)


@mutant(RARE)
def take_along_what_is_in_memory(node: Node) -> None:
    """A member that waits to disconnect believes a logger that what it sends is on its disk."""

    class Trusting(Departure):
        __slots__ = ()

        def may_take_along(self, packet: Packet, from_logger: bool) -> bool:
            return from_logger

    become(node.departure, Trusting)


@mutant(RARE)
def compact_before_it_is_safe(node: Node) -> None:
    """A logger drops what is obsolete for something that is on its own disk and on no other."""

    class Hasty(LoggerRole):
        __slots__ = ()

        def compact(self, loggers: tuple[NodeId, ...]) -> None:
            self._ctx.emit(Compact({name: log.prefix for name, log in self.logs.items()}))

    if node.logger is not None:
        become(node.logger, Hasty)


@mutant(RARE)
def leave_through_anybody(node: Node) -> None:
    """Who leaves is gone when as many have heard of it as it takes to join, though no logger has written it down."""

    class Hasty(Membership):
        __slots__ = ()

        @property
        def _is_told_enough(self) -> bool:
            return self._is_sponsored_enough

    become(node.membership, Hasty)


@mutant(MUTANTS)
def forget_members_at_restart(node: Node) -> None:
    """A logger starts again without those it has to wait for."""
    if node._stored is not None:
        node._stored = Stored(node._stored.streams, ())


@mutant(MUTANTS)
def collect_beyond_the_bookmarks(node: Node) -> None:
    """A logger waits for its members, and not for the durable subscriptions."""

    class Impatient(Stability):
        __slots__ = ()

        def _bookmarked(self, stream: StreamId, highest: int) -> int:
            return highest

    become(node.stability, Impatient)


@mutant(MUTANTS)
def mark_before_it_is_taken(node: Node) -> None:
    """A broker marks what it has delivered itself, and not what the subscription has taken."""

    class Hasty(Durables):
        __slots__ = ()

        def mark(self, name: NodeId, epoch: int, vector: Mapping[StreamId, int]) -> None:
            super().mark(name, epoch, {**vector, **self._snapshot(group_of_durable(name))})

    become(node.durables, Hasty)


@mutant(MUTANTS)
def let_go_before_others_have_it(node: Node) -> None:
    """A logger forgets a stream as soon as others are to keep it."""

    class Hasty(Handover):
        __slots__ = ()

        def _may_go(self, name: StreamId, log: Log) -> bool:
            return bool(log.committed) and not log.retired and not self._placement.is_mine(name)

    if node.handover is not None:
        become(node.handover, Hasty)


@mutant(RARE)
def count_on_who_goes_as_well(node: Node) -> None:
    """A logger that is to leave believes those that may have resigned at the same time, and goes."""

    class Trusting(Membership):
        __slots__ = ()

        @property
        def is_released(self) -> bool:
            return True

    class Remembering(Stability):
        __slots__ = ()

        def forget(self, node: NodeId) -> None:
            pass

    class Hasty(Handover):
        __slots__ = ()

        def resign(self) -> bool:
            become(self._stability, Remembering)
            try:
                return super().resign()
            finally:
                become(self._stability, Stability)

    become(node.membership, Trusting)
    if node.handover is not None:
        become(node.handover, Hasty)


@mutant(RARE)
def resign_for_good(node: Node) -> None:
    """A logger that has resigned leaves it at that, though all others have, too."""

    class Stubborn(Membership):
        __slots__ = ()

        def resume_office(self) -> None:
            pass

    become(node.membership, Stubborn)


@mutant(RARE)
def take_promises_along(node: Node) -> None:
    """A logger leaves without a word about the numbers that it has promised."""

    class Silent(Handover):
        __slots__ = ()

        def _has_told_promises(self) -> bool:
            return True

    if node.handover is not None:
        become(node.handover, Silent)


@mutant(RARE)
def promise_though_resigned(node: Node) -> None:
    """A logger promises numbers to whoever asks it, though it is none any more."""

    class Generous(LoggerRole):
        __slots__ = ()

        def on_checkout(self, sender: NodeId, message: Checkout) -> None:
            self.promises = True
            super().on_checkout(sender, message)

    if node.logger is not None:
        become(node.logger, Generous)


@mutant(RARE)
def forget_who_may_return(node: Node) -> None:
    """A logger that leaves tells nothing to those that have resigned before it, and are still there."""

    class Forgetful(Membership):
        __slots__ = ()

        @property
        def heirs(self) -> tuple[NodeId, ...]:
            return self.loggers

    become(node.membership, Forgetful)


@mutant(RARE)
def take_bookmarks_along(node: Node) -> None:
    """A logger leaves without a word about how far durable subscriptions are."""

    class Silent(Handover):
        __slots__ = ()

        def _has_told_bookmarks(self) -> bool:
            return True

    if node.handover is not None:
        become(node.handover, Silent)
    compare_no_bookmarks(node)  # or another logger has asked for them before


@mutant(RARE)
def compare_no_bookmarks(node: Node) -> None:
    """Loggers do not compare their bookmarks: a logger that was down does not learn what it missed."""

    class Silent(BookmarkExchange):
        __slots__ = ()

        def on_round(self) -> None: ...

    if node.bookmark_exchange is not None:
        become(node.bookmark_exchange, Silent)


@mutant(RARE)
def offer_finished_streams_to_nobody(node: Node) -> None:
    """Loggers do not offer finished streams: a new logger never hears of them."""

    class Silent(Handover):
        __slots__ = ()

        def _offer(self) -> None: ...

    if node.handover is not None:
        become(node.handover, Silent)


@mutant(MUTANTS)
def acknowledge_in_passing(node: Node) -> None:
    """A logger acknowledges what it has only in memory as if it kept it."""

    if node.handover is not None:
        position_of = node.exchange._position
        node.exchange._position = lambda stream: replace(position_of(stream), passing=False)


@mutant(RARE)
def believe_void_of_loggers_only(node: Node) -> None:
    """A member goes on looking for numbers that a resigned logger has called void."""
    on_gone = node.on_gone

    def hear(sender: NodeId, message: Gone) -> None:
        if not message.void or node.membership.is_logger(sender):
            on_gone(sender, message)

    class Forgetful(Handover):
        __slots__ = ()

        def _take_over(self, stream: Stream) -> None:
            never, stream.never = stream.never, None
            super()._take_over(stream)
            stream.never = never

    node._messages[Gone] = hear
    if node.handover is not None:
        become(node.handover, Forgetful)


@mutant(RARE)
def take_the_unheard_for_collected(node: Node) -> None:
    """A logger that comes to keep a stream takes a span that nobody ever had for one that was collected."""

    class Credulous(Mending):
        __slots__ = ()

        def seek(self, stream: StreamId, parts: Iterable[Range], existed: bool = True) -> None:
            super().seek(stream, parts)

    if node.mending is not None:
        become(node.mending, Credulous)


@mutant(RARE)
def ask_and_never_seek(node: Node) -> None:
    """A logger that comes to keep a stream only asks for what it lacks, though another one may wait for the same."""

    class Patient(Mending):
        __slots__ = ()

        def unfound(self, stream: StreamId) -> list[Range]:
            return []

    if node.mending is not None:
        become(node.mending, Patient)
        node.seeker.unfound = node.mending.unfound


@mutant(RARE)
def go_with_what_was_published_since(node: Node) -> None:
    """A member that waits to go does not count the events that its own publishers have added meanwhile."""

    class Hasty(Departure):
        __slots__ = ()

        def on_published(self, stream: StreamId) -> None: ...

    become(node.departure, Hasty)


@mutant(RARE)
def wait_to_go_in_silence(node: Node) -> None:
    """A member that waits to go names none of the streams that hold it."""
    node._messages[Active] = lambda *_: None


@mutant(RARE)
def wait_for_those_that_left(node: Node) -> None:
    """A member that waits to go, where there are no loggers, waits for members that have left as well."""

    class Patient(Stability):
        __slots__ = ()

        def is_with_all(self, stream: StreamId, last: int) -> bool:
            return self.is_stable(stream, last)

    become(node.stability, Patient)


@mutant(RARE)
def vouch_by_positions_only(node: Node) -> None:
    """A logger asks no other whether an event is on its disk behind a hole."""

    class Silent(Vouching):
        __slots__ = ()

        def on_round(self) -> None:
            self._wanted = {}

    if node.vouching is not None:
        become(node.vouching, Silent)


@mutant(RARE)
def turn_to_peers_for_good(node: Node) -> None:
    """Events that went missing without a logger stay in the gossip phase when there is one again."""

    class Forgetful(Repair):
        __slots__ = ()

        def _age(self, stream: Stream, first: int, last: int) -> None:
            if self._membership.loggers:
                super()._age(stream, first, last)

    become(node.repair, Forgetful)


@mutant(RARE)
def ask_without_regard_to_marks(node: Node) -> None:
    """A logger that seeks an event does not take the marks that come with the answers."""
    on_lacking = node.on_lacking
    node._messages[Lacking] = lambda sender, message: on_lacking(sender, replace(message, marks=()))


@mutant(RARE)
def give_up_what_is_on_disk(node: Node) -> None:
    """A logger that misses events seeks them, though they are on its own disk, and does not read them there."""

    class Forgetful(LoggerRole):
        __slots__ = ()

        def reload(self, lacks: Iterable[tuple[StreamId, list[Range]]]) -> None: ...

    if node.logger is not None:
        become(node.logger, Forgetful)
        node.seeker.on_disk = lambda _: ()


@mutant(RARE)
def take_up_what_never_began(node: Node) -> None:
    """A subscription counts as begun before any logger has its bookmark."""

    class Hasty(Membership):
        __slots__ = ()

        def merge(self, member: Member) -> None:
            super().merge(replace(member, status="durable") if member.status == "beginning" else member)

    become(node.membership, Hasty)


@mutant(RARE)
def expel_what_is_known_only(node: Node) -> None:
    """An expulsion is undone by any fresher record of the member, whoever tells it."""

    class Yielding(Membership):
        __slots__ = ()

        def expel(self, node: NodeId) -> None:
            super().expel(node)
            self.expelled.clear()

    become(node.membership, Yielding)
