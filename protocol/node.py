"""A member of the mesh: the machines of rpbcast, wired together.

    effects = node.handle(input, now)
    deadline = node.next_deadline()

Nothing here decides anything; each `on_…` names the machine that does. docs/rpbcast.md has a heading for each.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import EventId, NodeId, StreamId, group_of, issued_by
from gossamer.messages.packet import Packet
from gossamer.messages.wire import (
    Abandoned,
    Active,
    Beat,
    Beats,
    Bookmark,
    Bookmarked,
    Busy,
    CheckedOut,
    Checkout,
    Collected,
    Covers,
    Data,
    Digest,
    Echo,
    GapNotice,
    Gone,
    Gossip,
    Idle,
    Join,
    Kept,
    Lacking,
    Member,
    Ownership,
    Page,
    Position,
    Positions,
    Range,
    Read,
    Recall,
    Recalled,
    Recover,
    Repair,
    Request,
    Retire,
    Return,
    Roster,
    Seek,
    Sent,
    Span,
    Sponsor,
    Taken,
    Tell,
    Vouch,
    WhoOwns,
    Window,
)
from gossamer.protocol import inputs
from gossamer.protocol.bookmark_exchange import BookmarkExchange
from gossamer.protocol.closing import Closing
from gossamer.protocol.comparing import Comparing
from gossamer.protocol.config import Config
from gossamer.protocol.context import Context
from gossamer.protocol.coverage import Coverage
from gossamer.protocol.cut_through import CutThrough
from gossamer.protocol.departure import Departure
from gossamer.protocol.dissemination import Dissemination
from gossamer.protocol.durable import Bookmarks, Durables, is_durable
from gossamer.protocol.effects import Effect, Over, Paged, Reason, Refused, Stored
from gossamer.protocol.flow import Rooms, Windows
from gossamer.protocol.gossip import Answers
from gossamer.protocol.gossip_buffer import GossipBuffer, is_full
from gossamer.protocol.handover import Handover
from gossamer.protocol.heartbeats import Heartbeats
from gossamer.protocol.links import Links
from gossamer.protocol.logger import LoggerRole
from gossamer.protocol.making_room import MakingRoom
from gossamer.protocol.membership import Beginning, Membership
from gossamer.protocol.mending import Mending
from gossamer.protocol.orphans import Orphans
from gossamer.protocol.placement import Placement
from gossamer.protocol.positions import PositionExchange
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.repair import Repair as RepairMachine
from gossamer.protocol.repair import Wanted
from gossamer.protocol.safety import Safety
from gossamer.protocol.seek import END, Seeker
from gossamer.protocol.selection import Selection
from gossamer.protocol.sender import Sender
from gossamer.protocol.stability import Stability
from gossamer.protocol.stream import Stream
from gossamer.protocol.vouching import Vouching

NEVER = float("inf")

BEHIND_ROUNDS = 16
"""A logger is behind in a stream whose first gap is older than this; repair closes nearly all gaps sooner."""


class Node:
    """One life of one member."""

    def __init__(
        self,
        node: NodeId,
        config: Config,
        rng: random.Random,
        *,
        peers: tuple[NodeId, ...] = (),
        logger: bool = False,
        incarnation: int = 1,
        stored: Stored | None = None,
        roster: tuple[Member, ...] = (),
        resume: bool = False,
        wanted: Wanted | None = None,
        address: str = "",
    ) -> None:
        """`peers` are who to call first; without any, and for a logger, membership starts here. `stored` is what a
        logger finds on its disk, `roster` a membership known beforehand. `resume` takes up where a logger knows this
        member to be (at least once) instead of at a new t_join (at most once). `wanted` is the application's word on
        which gaps are worth requesting. `incarnation` grows from life to life, by more than a life has
        transitions (join, leave, disconnect): a clock in ms, or a counter times some hundred.
        `address` is where others reach this node; a peer may be given by its address too, until `Met` names it."""
        if not 0 < incarnation < 2**42:
            raise UsageError(f"incarnation must be 1 to 2**42 - 1, not {incarnation}")
        self._ctx = ctx = Context(node, config, rng, incarnation, logger)
        self.tally = ctx.tally
        self._stored = stored
        self._roster = roster
        self._resuming: dict[NodeId, None] = {}
        self._heard: dict[NodeId, float] = {}
        self._round_at = NEVER
        self._interval_s = config.round_interval_s
        self._holds: dict[StreamId, int] = {}

        self.stability = Stability()
        self.membership = Membership(ctx, peers, resume, self._vector, self._begin, self._on_record, address)
        self.selection = Selection(ctx)
        self.placement = Placement(ctx, self.membership)
        self.repair = RepairMachine(ctx, self.membership, self.selection, wanted, self._on_late, self.placement.sources)
        self.receiver = Receiver(
            ctx, self.repair.on_gap, self._on_opened, self.repair.on_awaited, lambda by: self._on_named(by)
        )
        self.repair.attach(self._excuse, self.receiver.worth_asking)
        self.heartbeats = Heartbeats(ctx, self.receiver, self._on_ended, self._on_retired)
        self.buffer = GossipBuffer(config.gossip_buffer_bytes_max)
        self.rooms = Rooms(ctx, self.receiver, lambda: self.membership.active)
        self.windows = Windows(ctx, self.membership, self.rooms, self.heard_at)
        self.sender = Sender(
            ctx,
            self.membership,
            self.windows.may_send,
            lambda node: self.links.is_saturated(node),
            self.placement.others,
        )
        self.safety = Safety(ctx, self.membership, self.stability, self._position_of, self._faults)
        self.links = Links(ctx, lambda event: self.safety.is_safe(event), self.membership.is_logger)
        self.making_room = MakingRoom(ctx, self.buffer, self.sender, lambda event: self.safety.is_safe(event))
        self.dissemination = Dissemination(ctx, self.membership)
        self.answers = Answers(
            ctx, self.receiver, self.buffer, self.sender, self.dissemination.again, self._withholds_marks
        )
        self.exchange = PositionExchange(ctx, self.membership, self._position_of, self._beyond)
        self.seeker = Seeker(
            ctx, self.membership, self._on_agreed, self._closable, self.placement.leads, self.receiver.awaits
        )
        self.cut_through = CutThrough(config, self.membership, self.sender, self.receiver)
        self.orphans = Orphans(ctx, self.membership, self.receiver, self.sender, self._announce)
        self.logger = (
            LoggerRole(
                ctx, self.buffer, self.stability, self.receiver.retired, self.placement, self._acknowledge, stored
            )
            if logger
            else None
        )
        is_over = self.receiver.retired.__contains__
        self.durables = Durables(ctx, self.membership, self._delivered, is_over)
        self.bookmarks = (
            Bookmarks(ctx, self.membership, self.stability, self.logger.save, is_over, stored, self._is_forgotten)
            if self.logger is not None
            else None
        )
        self.mending: Mending | None = None
        self.handover: Handover | None = None
        self.coverage: Coverage | None = None
        self.bookmark_exchange: BookmarkExchange | None = None
        self.vouching: Vouching | None = None
        if self.logger is not None and self.bookmarks is not None:
            self.mending = Mending(ctx, self.membership, self.logger, self.exchange.touch, self._on_unfound)
            self.seeker.unfound = self.mending.unfound
            self.seeker.on_disk = self.logger.on_disk
            self.logger.seeks = self.mending.seeks
            self.logger.on_forgotten = self.bookmarks.forget
            parts = (self.bookmarks, self.receiver, self.buffer, self.stability, self.exchange.touch)
            self.handover = Handover(ctx, self.membership, self.placement, self.logger, self.mending, *parts)
            self.logger.on_moved = self.handover.on_moved
            covered = stored.covered if stored is not None else ()
            self.coverage = Coverage(ctx, self.membership, self.handover, self.logger.save, covered)
            self.bookmark_exchange = BookmarkExchange(ctx, self.membership, self.bookmarks)
            self.logger.uncovered = lambda: self.coverage.uncovered if self.coverage is not None else ()
            if config.replicas is not None:
                self.receiver.from_the_beginning = self.placement.is_mine
            self.vouching = Vouching(ctx, self.placement, self.logger, lambda event: self.safety.is_safe(event))
            self.receiver.vouches = self.vouching.vouches
            self.receiver.keeps = self.placement.is_mine
        tables = self.heartbeats.table, self.membership.table, self.bookmark_exchange
        self.comparing = Comparing(ctx, *tables)
        self.departure = Departure(
            ctx,
            self.membership,
            self.sender,
            self.buffer,
            self.handover,
            self._may_be_sole,
            self._end_streams,
        )
        self.closing = Closing(
            ctx, self.membership, self.placement, self.repair, self.answers, self.logger, self._stream, self._excuse
        )
        self._inputs: dict[type, Callable[[Any], None]] = {
            inputs.Received: self._on_received,
            inputs.Wake: self._on_wake,
            inputs.Start: self._on_start,
            inputs.Met: self._on_met,
            inputs.Open: self._on_open,
            inputs.Publish: self._on_publish,
            inputs.Adopt: self._on_adopt,
            inputs.Claim: self._on_claim,
            inputs.Forward: self._on_forward,
            inputs.Abandon: self._on_abandon,
            inputs.Close: self._on_close,
            inputs.Attach: self._on_attach,
            inputs.Mark: self._on_mark,
            inputs.Detach: self._on_detach,
            inputs.Hold: self._on_hold,
            inputs.Room: self._on_room,
            inputs.Connected: self._on_connected,
            inputs.Persisted: self._on_persisted,
            inputs.Loaded: self._on_loaded,
            inputs.Scanned: self._on_scanned,
            inputs.Damaged: self._on_damaged,
            inputs.Measured: self._on_measured,
            inputs.Aged: self._on_aged,
            inputs.Compacted: self._on_compacted,
            inputs.Consult: self._on_consult,
            inputs.Leave: self._on_leave,
            inputs.Disconnect: self._on_disconnect,
            inputs.Reconnect: self._on_reconnect,
            inputs.Expel: self._on_expel,
        }
        self._messages: dict[type, Callable[[NodeId, Any], None]] = {
            Data: self.on_data,
            Gossip: self.on_gossip,
            Echo: self.on_echo,
            Request: self.on_request,
            Repair: self.on_repair,
            Collected: self.on_collected,
            Recover: self.on_recover,
            Gone: self.on_gone,
            Busy: self.on_busy,
            Seek: self.on_seek,
            Lacking: self.on_lacking,
            Kept: self.on_kept,
            Covers: self.on_covers,
            Vouch: self.on_vouch,
            GapNotice: self.on_gap_notice,
            Idle: self.on_idle,
            Digest: self.on_digest,
            Beats: self.on_beats,
            Roster: self.on_roster,
            Active: self.on_active,
            Retire: self.on_retire,
            Join: self.on_join,
            Sponsor: self.on_sponsor,
            Positions: self.on_positions,
            Checkout: self.on_checkout,
            CheckedOut: self.on_checked_out,
            Return: self.on_return,
            Recall: self.on_recall,
            Recalled: self.on_recalled,
            Bookmark: self.on_bookmark,
            Bookmarked: self.on_bookmarked,
            WhoOwns: self.on_who_owns,
            Ownership: self.on_ownership,
            Abandoned: self.on_abandoned,
            Tell: self.on_tell,
            Window: self.on_window,
            Sent: self.on_sent,
            Taken: self.on_taken,
            Read: self.on_read,
            Page: self.on_page,
        }

    # The two calls --------------------------------------------------------------------------------------------------

    def handle(self, given: inputs.Input, now: float) -> list[Effect]:
        """Take one input at a time; returns what is to be done, in order."""
        ctx = self._ctx
        ctx.now = now
        effects: list[Effect] = []
        ctx.effects = effects
        self._inputs[type(given)](given)
        if self.logger is not None:
            self.logger.flush()
        if self.repair.hurry and self._interval_s > ctx.config.round_interval_s:
            self._hurry()
        return self.links.admit(effects) if self.links.enabled else effects

    def next_deadline(self) -> float:
        """When to send `Wake`; infinity if nothing is due."""
        if self.membership.status in ("outside", "disconnected"):
            return NEVER
        return min(self._round_at, self.repair.next_deadline(), self.sender.next_deadline(), self.links.next_deadline())

    # Inputs ---------------------------------------------------------------------------------------------------------

    def _on_start(self, _: inputs.Start) -> None:
        if self._stored is not None:
            self.receiver.retired.merge(self._stored.retired)
        if self.logger is not None:
            self.receiver.begin(tuple(Position(name, last) for name, last in self.logger.start()))
            for name in self.receiver.streams:  # acknowledged beyond a gap: nobody may close the stream before that
                if beyond := self.logger.beyond(name):
                    self._learn(name, beyond[-1][1])
        self.membership.start((*self._roster, *(self._stored.members if self._stored else ())))
        if self.coverage is not None:
            self.coverage.start()
        for name in self.receiver.streams:
            self.exchange.touch(name)
        self._round_at = self._ctx.now + self._ctx.rng.random() * self._interval_s

    def _on_wake(self, _: inputs.Wake) -> None:
        now = self._ctx.now
        if self.membership.status in ("outside", "disconnected"):
            return
        if self.repair.next_deadline() <= now:
            self.repair.on_grace_over()
        if self.sender.next_deadline() <= now:
            self._announce(self.sender.on_due())
        if self._round_at <= now:
            self.on_round()

    def _on_received(self, given: inputs.Received) -> None:
        status = self.membership.status
        message = given.message
        if status != "member" and (
            status in ("outside", "disconnected") or (status == "joining" and type(message) not in (Sponsor, Roster))
        ):
            if status == "joining":
                self.membership.meet(given.sender)  # it takes us for a member: it may let us in when nobody else can
            return
        self._heard[given.sender] = self._ctx.now
        if self.membership.expelled:
            self.membership.expelled.pop(given.sender, None)
        on_message = self._messages.get(type(message))
        if on_message is not None:  # else it is for whoever orders events (protocol/ordered.py), if anybody does
            on_message(given.sender, message)

    def _on_met(self, given: inputs.Met) -> None:
        self.membership.meet(given.node)

    def _on_open(self, given: inputs.Open) -> None:
        if self._ctx.logger:
            self._ctx.emit(Refused(given.stream, 0, "a named publisher cannot live on a logger"))
        else:
            self.sender.open(given.stream)

    def _on_publish(self, given: inputs.Publish) -> None:
        if self.membership.status != "member":
            reason = f"not a member yet, but {self.membership.status}"
            self._ctx.emit(Refused(given.stream, len(given.contents), reason))
            return
        self._disseminate(self.sender.publish(given.stream, given.contents))

    def _on_adopt(self, given: inputs.Adopt) -> None:
        self.sender.adopt(given.stream, given.following)
        self.orphans.forget(given.stream)

    def _on_claim(self, given: inputs.Claim) -> None:
        self.sender.claim(given.stream, given.holder, given.held, given.following)

    def _on_forward(self, given: inputs.Forward) -> None:
        packet = given.packet
        stream = self.receiver.streams.get(packet.stream)
        if (
            stream is not None
            and not (stream.gaps is None and stream.never is None)  # as most often
            and stream.is_closed(packet.first, packet.last)
            and self.sender.on_sealed(stream.id)
        ):
            return
        if self.membership.status != "member":
            reason = f"not a member, but {self.membership.status}"
            self._ctx.emit(Refused(packet.stream, packet.count, reason))
            return
        self._disseminate(self.sender.forward(packet))

    def _on_abandon(self, given: inputs.Abandon) -> None:
        if self.sender.abandon(given.stream) and given.stream in self.receiver.streams:
            self._ctx.multicast(self.membership.active, Abandoned((given.stream,)))
            self.orphans.on_abandoned((given.stream,))

    def _on_close(self, given: inputs.Close) -> None:
        self._announce(self.sender.close(given.stream))

    def _on_attach(self, given: inputs.Attach) -> None:
        self.durables.attach(given.name, given.holder, given.held, given.start)
        self._hurry()

    def _on_mark(self, given: inputs.Mark) -> None:
        self.durables.mark(given.name, given.epoch, given.vector)

    def _on_detach(self, given: inputs.Detach) -> None:
        self.durables.detach(given.name, given.epoch, given.forget)
        self._hurry()

    def _on_hold(self, given: inputs.Hold) -> None:
        before, self._holds = self._holds, given.positions
        for name in {**before, **self._holds}:
            if before.get(name) != self._holds.get(name) and name in self.receiver.streams:
                self.exchange.touch(name)

    def _on_room(self, given: inputs.Room) -> None:
        self.rooms.on_room(given.group, given.events, given.by)
        self.windows.recheck()

    def _on_connected(self, given: inputs.Connected) -> None:
        self.links.on_connected(given.node)

    def _on_persisted(self, given: inputs.Persisted) -> None:
        assert self.logger is not None
        for name in self.logger.on_persisted(given.token):
            if name not in self.receiver.retired:
                self.exchange.touch(name)

    def _on_loaded(self, given: inputs.Loaded) -> None:
        assert self.logger is not None
        for packet in self.logger.on_loaded(given.token, given.packets):
            self._accept(packet, from_logger=True)

    def _on_damaged(self, given: inputs.Damaged) -> None:
        assert self.mending is not None
        self.mending.on_damaged(given.spans)

    def _on_measured(self, given: inputs.Measured) -> None:
        assert self.logger is not None
        self.logger.bytes += given.bytes

    def _on_aged(self, given: inputs.Aged) -> None:
        assert self.logger is not None
        self.logger.on_aged(given.ages)

    def _on_compacted(self, given: inputs.Compacted) -> None:
        assert self.logger is not None
        self.logger.on_compacted(given.events, given.bytes)

    def _on_scanned(self, given: inputs.Scanned) -> None:
        assert self.logger is not None
        self.logger.on_scanned(given.token, given.page)

    def _on_consult(self, given: inputs.Consult) -> None:
        self._ctx.send(given.logger, given.read)

    def _on_leave(self, _: inputs.Leave) -> None:
        self._depart(self.membership.leave)

    def _on_disconnect(self, _: inputs.Disconnect) -> None:
        if self.handover is not None:
            self.handover.stay()  # if it was about to leave: what it alone has is to come back
        self._depart(self.membership.disconnect)

    def _on_reconnect(self, _: inputs.Reconnect) -> None:
        self.departure.call_off()
        self.membership.reconnect()
        if self.handover is not None:
            self.handover.stay()
            self.handover.on_loggers()
        self._hurry()
        self.sender.hurry()

    def _on_expel(self, given: inputs.Expel) -> None:
        self.membership.expel(given.node)

    # Rounds ---------------------------------------------------------------------------------------------------------

    def on_round(self) -> None:
        """One gossip round: ask one member, age what is kept, and now and then acknowledge and collect."""
        ctx, membership = self._ctx, self.membership
        ctx.round += 1
        membership.call()
        if membership.status != "joining":
            self.departure.go_when_done()
            target = self.selection.choose(membership.active)
            lacks = self.repair.on_round(target)
            if target is not None:
                self.selection.asked(target, ctx.round)
                ctx.send(target, Gossip(ctx.round, lacks, *self.comparing.roots))
            self.buffer.collect(ctx.round - ctx.config.gclimit_rounds, keep=self._kept_by_nobody_else)
            self.making_room.on_round()
            self.seeker.on_round()
            if self.logger is not None:
                self.logger.reload((each.id, self.receiver.lacked(each)) for each in self.repair.gaping())
            if self.mending is not None:
                self.mending.on_round()
            if self.handover is not None:
                self.handover.on_round()
            if self.coverage is not None:
                self.coverage.on_round()
            if self.bookmark_exchange is not None:
                self.bookmark_exchange.on_round()
            if self.vouching is not None:
                self.vouching.on_round()
            self.orphans.on_round()
            self.safety.on_round()
            self.links.on_round()
            if self.durables.busy or ctx.round % ctx.config.positions_rounds == 0:
                self.durables.on_round()
            self.rooms.on_round()
            self.windows.recheck()
            if (
                not membership.has_loggers
                and self.departure.stays
                and (untold := self.exchange.untold(membership.active))
            ):
                self.exchange.tell((ctx.rng.choice(untold),))  # one a round: everyone to everyone would be too many
            if ctx.round % ctx.config.positions_rounds == 0:
                self._acknowledge_and_collect()
        self._pace()

    def _acknowledge_and_collect(self) -> None:
        if self.membership.has_loggers and self.departure.stays:
            self.exchange.tell(self._sinks())
        if self.logger is not None and not self.membership.is_lost:  # or it would wait for nobody
            self.logger.collect()
            if self._ctx.config.compact:
                self.logger.compact(self.membership.loggers)
            for node in (*self.membership.others, *self.membership.durables):
                if self._heard.setdefault(node, self._ctx.now) + self._ctx.config.expire_s < self._ctx.now:
                    self.membership.expel(node)
        if self.heartbeats.ended and self.membership.leads:
            self._retire_stable()

    def _retire_stable(self) -> None:
        """As the leader: ended streams that everyone has in full may be forgotten by all."""
        over = self.heartbeats.on_retire(
            [
                name
                for name, last in self.heartbeats.ended.items()
                if self.position(name) >= last and self.stability.is_over(name, last)
            ]
        )
        everyone = self.membership.active
        if over and self.logger is None:
            self._ctx.multicast(everyone, Retire(over))
        elif over and self.logger is not None:  # not before it is on disk, or it could tell a joiner of the stream
            self.logger.when_saved(lambda: self._ctx.multicast(everyone, Retire(over)))

    def _sinks(self) -> tuple[NodeId, ...]:
        """Who is told our positions: a logger tells everyone, everyone tells the loggers; without loggers, all all."""
        loggers = self.membership.loggers
        if self._ctx.logger or not loggers:
            return self.membership.active
        return tuple(node for node in self.membership.active if node in loggers)

    def _pace(self) -> None:
        """Slow down while there is nothing to do (rpbcast §8: variable gossip rates)."""
        config = self._ctx.config
        busy = (
            not self.repair.quiet
            or not self.comparing.agreed
            or bool(self.seeker)
            or bool(self.orphans)
            or bool(self.departure)
            or self.membership.pending
            or self.durables.busy
            or bool(self.mending)
            or bool(self.coverage)
            or self.rooms.full
            or bool(self.exchange.untold(self._sinks()))
        )
        self._interval_s = config.round_interval_s if busy else min(2 * self._interval_s, config.round_interval_max_s)
        self.comparing.agreed = True  # until a comparison says otherwise
        self._round_at = self._ctx.now + self._interval_s

    def _hurry(self) -> None:
        self._interval_s = self._ctx.config.round_interval_s
        self._round_at = min(self._round_at, self._ctx.now + self._interval_s)

    def _kept_by_nobody_else(self, packet: Packet) -> bool:
        """Until it is logged (without loggers: stable) a packet may have to come from here (row S5: f + 1 hold it)."""
        name, last = packet.stream, packet.last
        if self.logger is not None and self.placement.is_mine(name):
            return self.logger.prefix(name) < last
        loggers = self.membership.loggers
        if not loggers:
            return not self.stability.is_stable(name, last)
        return self.stability.holders(loggers, name, last) < self._ctx.config.loggers_min

    def _may_be_sole(self, packet: Packet) -> bool:
        """Whether a member that stays may lack a packet when we are gone. Who has left is not waited for: it tells no
        positions any more, and we would stay for ever."""
        if self.membership.has_loggers:
            return self._kept_by_nobody_else(packet)
        return not self.stability.is_with_all(packet.stream, packet.last)

    # Phase 1 --------------------------------------------------------------------------------------------------------

    def on_data(self, sender: NodeId, message: Data) -> None:
        """A packet on its first way, or sent again by its sender because it is not acknowledged."""
        if self._ctx.config.groups and self._presses(message.packet.stream):
            self.rooms.on_origin(message.packet.stream, message.origin)
        if self.logger is None and self.receiver.is_over(message.packet):
            return  # with push gossip most of what comes has come before
        fresh = self._accept(message.packet, from_logger=False, origin=message.origin)
        if fresh and (stream := self.receiver.streams[message.packet.stream]).origin is None:
            self.orphans.on_origin(stream, message.origin)
        if message.hops:
            for packet in fresh:
                if packet.stream == message.packet.stream:
                    self.dissemination.relay(sender, message, packet)
        if self.logger is None or fresh:
            return
        if self.mending:
            self.mending.on_repair(message.packet, self.receiver.makes_up_for)
        name, first, last = message.packet.stream, message.packet.first, message.packet.last
        if self.position(name) >= last or self.logger.has_on_disk(name, first, last):
            self._acknowledge(message.origin, (name,))  # the first acknowledgement was lost

    def _accept(self, packet: Packet, from_logger: bool, origin: NodeId | None = None) -> tuple[Packet, ...]:
        if origin != self._ctx.node and self.departure.goes and not self.departure.may_take_along(packet, from_logger):
            return ()
        fresh = self.receiver.accept(packet, from_logger, own=origin == self._ctx.node)
        if fresh:
            self._took(packet.stream)
            # What is multicast from here goes to every link itself; what is pushed, only to a few.
            if self.links.saturated and (origin != self._ctx.node or self._ctx.config.strategy == "gossip"):
                self.links.passing(packet)
            for part in fresh:
                self.buffer.add(part, self._ctx.round)
                if part.stream != packet.stream:  # a mark that waited for what came
                    self._took(part.stream)
            if self.logger is not None:
                self.logger.store((part for part in fresh if self.placement.is_mine(part.stream)), origin)
        return fresh

    def _took(self, name: StreamId) -> None:
        stream = self.receiver.streams[name]
        if stream.beat is not None:
            self.heartbeats.on_active(stream)
        if self.logger is None or not self.placement.is_mine(name):
            self.exchange.touch(name)

    def _presses(self, name: StreamId) -> bool:
        return self._ctx.config.group(group_of(name)).backpressure

    def _disseminate(self, packets: Iterable[Packet]) -> None:
        for packet in packets:
            if self.departure:
                self.departure.on_published(packet.stream)
            self._accept(packet, from_logger=False, origin=self._ctx.node)
            self.dissemination.send(packet)

    # Phase 2 --------------------------------------------------------------------------------------------------------

    def on_gossip(self, sender: NodeId, message: Gossip) -> None:
        """Somebody's round: repair what it lacks, and compare signatures."""
        collected = self._answer(sender, message.lacks)
        self._ctx.send(sender, Echo(message.round, collected))
        self.comparing.on_roots(sender, message.beats_root, message.members_root)
        if self.coverage is not None and message.members_root == self.membership.table.root:
            self.coverage.on_agreed()

    def on_echo(self, sender: NodeId, message: Echo) -> None:
        self.selection.answered(sender, message.round)
        if message.collected:
            self.repair.on_collected(message.collected)

    def on_request(self, sender: NodeId, message: Request) -> None:
        """A first request, outside rounds."""
        collected = self._answer(sender, message.lacks)
        if collected:
            self._ctx.send(sender, Collected(collected))

    def on_repair(self, sender: NodeId, message: Repair) -> None:
        from_logger = self.membership.is_logger(sender)
        if from_logger:
            self.repair.on_logger_answer()
        self.tally.way = "logger" if from_logger else "gossip"
        mended = False
        repaired: dict[StreamId, None] = {}
        for packet in message.packets:
            if self._accept(packet, from_logger or self.seeker.asks_for(packet.stream)):
                repaired[packet.stream] = None
            if self.mending:
                mended |= self.mending.on_repair(
                    packet, lambda packet: from_logger or self.receiver.makes_up_for(packet)
                )
        if repaired:
            self.repair.on_repaired(sender, repaired, is_full(message.packets, self._ctx.config.repair_bytes_max))
        if mended and self.mending:
            self.mending.ask(sender)
        self.tally.way = "late"

    def on_collected(self, _: NodeId, message: Collected) -> None:
        self.repair.on_collected(message.spans)

    def _answer(self, sender: NodeId, lacks: tuple[Span, ...]) -> tuple[Span, ...]:
        if not lacks:
            return ()
        over = tuple(span.stream for span in lacks if span.stream in self.receiver.retired)
        if over:
            self._ctx.send(sender, Retire(over))
        return self.answers.on_lacks(sender, lacks)

    def _withholds_marks(self, requester: NodeId, name: StreamId) -> bool:
        """Whether a logger gets no purge marks of a stream from us. Readers count on loggers for events that links have
        purged, and the sender keeps those until a logger has them: it sends them while it is there."""
        stream = self.receiver.streams.get(name)
        origin = None if stream is None else stream.origin
        return self.membership.is_logger(requester) and origin != self._ctx.node and origin in self.membership.active

    # Phase 3 --------------------------------------------------------------------------------------------------------

    def on_recover(self, sender: NodeId, message: Recover) -> None:
        if self.logger is not None:
            for span in message.lacks:  # who lacks it knows that it exists, and a logger may be the last to hear of it
                if span.ranges:
                    self._learn(span.stream, span.ranges[-1][1])
            self.logger.on_recover(sender, message.lacks, message.keeps)
        elif message.keeps:  # no logger, so it keeps nothing
            had, never = self.answers.absent(message.lacks)
            if had:
                self._ctx.send(sender, Gone(had, False, False, had=True))
            if never:
                self._ctx.send(sender, Gone(never, False, False))

    def on_read(self, sender: NodeId, message: Read) -> None:
        if self.logger is not None:
            self.logger.on_read(sender, message)

    def on_page(self, sender: NodeId, message: Page) -> None:
        if self.membership.is_logger(sender):
            self._ctx.emit(Paged(sender, message))

    def on_gone(self, sender: NodeId, message: Gone) -> None:
        trusted = self.membership.is_logger(sender)
        if trusted:
            self.repair.on_logger_answer()
        # Void was agreed by everyone, and does not change: a logger that has resigned may say so as well.
        if sender in self.membership.heirs if message.void else trusted and message.collected:
            self.closing.on_gone(sender, message)
        if not message.void and message.collected:
            self.seeker.on_collected(message.spans)
        if self.mending is not None:  # it has asked, and only a node with a log answers that something is void
            self.mending.on_gone(sender, message.spans, message.void, message.collected or message.had)

    def on_busy(self, _: NodeId, __: Busy) -> None:
        if self._ctx.config.repair_first == "auto":
            self.repair.on_busy()

    def on_seek(self, sender: NodeId, message: Seek) -> None:
        if self.membership.is_logger(sender) or not self.membership.has_loggers:
            self.closing.on_seek(sender, message)

    def on_kept(self, sender: NodeId, message: Kept) -> None:
        if self.handover is not None:
            if message.asks:  # a logger that is new has not heard that they are over
                self.heartbeats.on_retire([span.stream for span in message.spans if self._is_unknown(span.stream)])
            if self.handover.on_kept(sender, message) and self.coverage is not None:
                self.coverage.on_lacking(sender)

    def on_covers(self, sender: NodeId, message: Covers) -> None:
        if self.coverage is not None:
            self.coverage.on_covers(sender, message)

    def _is_forgotten(self, name: StreamId) -> bool:
        """Whether a finished stream was in this log and has been collected."""
        assert self.logger is not None
        gone = name in self.receiver.retired and name not in self.logger.logs
        return gone and self.coverage is not None and not self.coverage.uncovered

    def on_vouch(self, sender: NodeId, message: Vouch) -> None:
        if self.vouching is not None:
            self.vouching.on_vouch(sender, message)

    def _is_unknown(self, name: StreamId) -> bool:
        return name not in self.receiver.streams and name not in self.receiver.retired

    def on_lacking(self, sender: NodeId, message: Lacking) -> None:
        for packet in message.marks:
            self._accept(packet, self.membership.is_logger(sender) or self.seeker.asks_for(packet.stream))
        if self.comparing.agrees(sender, message.members_root):
            self.seeker.on_lacking(sender, message)

    def on_gap_notice(self, sender: NodeId, message: GapNotice) -> None:
        """A named publisher has begun anew: what nobody has of what was before will be closed by the loggers."""
        self.sender.on_taken_over(message.stream, message.epoch)
        if self._learn(message.stream, message.last):
            stream = self.receiver.streams[message.stream]
            stream.floor = max(stream.floor, message.last + 1)
            if stream.gaps is not None:
                self._on_late(stream)  # it is in nobody's hands any more: there is nothing to wait for
            if self.logger is not None and self.logger.prefix(stream.id) >= message.last:
                self._acknowledge(sender, (stream.id,))  # or we would be told again

    def _on_late(self, stream: Stream) -> bool:
        """Missing for long: a logger asks everyone; without loggers, everyone for itself."""
        seeks = self.logger is not None or not self.membership.has_loggers
        if seeks:
            self.seeker.start(stream)
        return seeks

    def _on_unfound(self, name: StreamId) -> None:
        """A span that is ours to keep was asked for everywhere, and has not come."""
        stream = self.receiver.streams.get(name)
        if stream is not None:
            self.seeker.start(stream)

    def _on_agreed(self, stream: Stream, first: int, last: int, existed: bool) -> None:
        if self.mending:
            self.mending.settle(stream.id, first, last)
        self.closing.on_agreed(stream, first, last, existed)

    def _closable(self, stream: Stream) -> int:
        """Up to where (exclusively) nobody answers for a stream any more. A named publisher may come back with what it
        has spooled, until it comes back without it; an anonymous one has what is not logged, until it says that it let
        go of it."""
        if issued_by(stream.id) is None or self.orphans.is_owned(stream):
            return stream.floor
        return END

    def _stream(self, span: Span) -> Stream | None:
        """The stream of a span that is known to exist; None if it is retired."""
        return self.receiver.streams[span.stream] if self._learn(span.stream, span.ranges[-1][1]) else None

    def _excuse(self, stream: Stream, first: int, last: int, reason: Reason) -> None:
        self.receiver.excuse(stream, first, last, reason)
        self.exchange.touch(stream.id)

    # Semantic reliability -------------------------------------------------------------------------------------------

    def on_tell(self, sender: NodeId, message: Tell) -> None:
        """Somebody would purge if it knew that enough hold what is newer."""
        known = tuple(name for name in message.streams if name in self.receiver.streams)
        if known and self.departure.stays:
            self.exchange.acknowledge(sender, known)

    def on_window(self, sender: NodeId, message: Window) -> None:
        self.windows.on_window(sender, message.vector, message.by)

    def on_sent(self, sender: NodeId, message: Sent) -> None:
        """All that was sent before it has been handled."""
        self._ctx.send(sender, Taken(message.epoch, message.bytes))

    def on_taken(self, sender: NodeId, message: Taken) -> None:
        self.links.on_taken(sender, message)

    def _on_named(self, by: EventId) -> None:
        """A mark names an event: it exists, and is worth having."""
        stream = self.receiver.streams.get(by.stream)
        if stream is None or stream.limit is None or by.seq <= stream.limit:
            self._learn(by.stream, by.seq)

    def _faults(self) -> int:
        """f, for what may be forgotten: at least one, unless it was said otherwise, or two would count as none."""
        if self._ctx.config.faults is None and self.membership.others:
            return max(1, self.membership.faults)
        return self.membership.faults

    @property
    def holds_all(self) -> bool:
        """Whether another logger is here, each has confirmed that this one holds its finished streams, and nothing is
        being repaired."""
        others = [node for node in self.membership.loggers if node != self._ctx.node and node in self.membership.active]
        if not others or self.coverage is None or self.coverage.uncovered:
            return False
        return not self.mending and not self.repair.incomplete

    def heard_at(self, node: NodeId) -> float:
        """When a member was last heard, or began to be waited for."""
        return self._heard.setdefault(node, self._ctx.now)

    # Heartbeats -----------------------------------------------------------------------------------------------------

    def on_idle(self, _: NodeId, message: Idle) -> None:
        for beat in message.beats:
            self.heartbeats.on_beat(beat)

    def on_beats(self, sender: NodeId, message: Beats) -> None:
        self.comparing.agreed = False
        self.heartbeats.on_beats(sender, message)

    def on_active(self, sender: NodeId, message: Active) -> None:
        vector = message.vector
        over = tuple(position.stream for position in vector if not self._learn(position.stream, position.last))
        if over:
            self._ctx.send(sender, Retire(over))

    def on_retire(self, _: NodeId, message: Retire) -> None:
        self.heartbeats.on_retire(message.streams)

    def on_who_owns(self, sender: NodeId, message: WhoOwns) -> None:
        self.orphans.on_who_owns(sender, message)

    def on_ownership(self, sender: NodeId, message: Ownership) -> None:
        for position in message.others:
            self._learn(position.stream, position.last)
        if self.comparing.agrees(sender, message.members_root):
            self.orphans.on_ownership(sender, message)

    def on_abandoned(self, _: NodeId, message: Abandoned) -> None:
        self.orphans.on_abandoned(message.streams)

    def _learn(self, name: StreamId, last: int) -> bool:
        """A stream is known to reach `last`; False if it is retired."""
        stream = self.receiver.learn(name, last)
        if stream is not None and stream.beat is not None:
            self.heartbeats.on_active(stream)
        return stream is not None

    def _announce(self, beats: tuple[Beat, ...]) -> None:
        if beats:
            self.heartbeats.announce(beats, self.membership.active)

    def _on_opened(self, stream: Stream) -> None:
        self.orphans.on_opened(stream)
        if self._ctx.config.groups and self._presses(stream.id):
            self.rooms.on_opened(stream.id)  # nothing more of it may come before its publisher knows our window
        if self.handover is not None:
            self.handover.on_opened(stream)

    def _on_ended(self, name: StreamId) -> None:
        self.exchange.touch(name)
        self.sender.on_lost(name)  # our own end is announced after we have let go of it

    def _on_retired(self, name: StreamId) -> None:
        self.sender.on_lost(name)
        self.exchange.forget_stream(name)
        self.orphans.forget(name)
        self.stability.retire(name)
        self.buffer.forget(name)
        self.rooms.forget(name)
        self.windows.forget(name)
        self.durables.retire(name)
        if self.logger is not None and self.bookmarks is not None:
            self.bookmarks.retire(name)
            self.logger.retire(name)
            if self.handover is not None:
                self.handover.forget(name)
            self.logger.save(Over(name))

    # Signatures -----------------------------------------------------------------------------------------------------

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        if message.table == "bookmarks" and not self.membership.is_logger(sender):
            return
        self.comparing.on_digest(sender, message)

    # Membership -----------------------------------------------------------------------------------------------------

    def on_roster(self, sender: NodeId, message: Roster) -> None:
        self.comparing.agreed = False
        self.membership.on_roster(sender, message)

    def on_join(self, sender: NodeId, message: Join) -> None:
        """Sponsor a transition; a logger writes it down first, since its word alone is enough."""
        if message.resume:
            self._resuming[sender] = None
        if self.membership.on_join(sender, message):
            if self.logger is not None:
                self.logger.when_saved(lambda: self.membership.sponsor(sender, message))
            else:
                self.membership.sponsor(sender, message)
        self._resuming.pop(sender, None)

    def on_sponsor(self, sender: NodeId, message: Sponsor) -> None:
        self.membership.on_sponsor(sender, message)

    def _on_record(self, member: Member, known: Member | None) -> None:
        """A record changed: a new life of a member knows nothing, and a member is waited for until it leaves."""
        node = member.node
        if node == self._ctx.node:
            self.exchange.forget_all()
            return
        self.comparing.agreed = False
        self._heard[node] = self._ctx.now
        if self.logger is not None:
            self.logger.save(member)  # it must be waited for in our next life as well
        if is_durable(node):
            self.durables.on_record(member)
            if self.bookmarks is not None:
                self.bookmarks.on_record(member, known)
            return
        if known is None or member.freshness > known.freshness:
            self.exchange.forget_node(node)
            self.selection.forget(node)
            self.seeker.forget_node(node)
            self.sender.on_new_life(node)
            self.safety.forget(node)
            if self.vouching is not None:
                self.vouching.forget(node)
            self.links.on_connected(node)
            if self.handover is not None:
                self.handover.on_new_life(node)
            if known is not None:
                self.orphans.on_death(node)
            if node not in self._resuming:
                self.stability.forget(node)
        if known is not None and known.logger:
            self.seeker.ask_again()
        if (member.logger or (known is not None and known.logger)) and self.handover is not None:
            self.handover.on_loggers()
        if member.status == "left":
            self.links.forget(node)
            self.orphans.on_death(node)
            self.stability.release(node, {name: stream.lastseen for name, stream in self.receiver.streams.items()})
        else:
            self.stability.wait_for(node)
            if member.logger:
                self.sender.hurry()
        self._announce(self.sender.on_members_changed())

    def _vector(self, node: NodeId | None) -> Beginning:
        retired, streams = self.receiver.retired.told(), self.receiver.streams
        if node is None:
            return tuple(Position(name, stream.lastseen) for name, stream in streams.items()), retired, ()
        found = {name: self.closing.closed(each, self.stability.position(node, name)) for name, each in streams.items()}
        closed = tuple(Span(name, ranges) for name, ranges in found.items() if ranges)
        return self.stability.positions(node), retired, closed

    def _begin(self, beginning: Beginning) -> None:
        vector, retired, closed = beginning
        self.receiver.retired.merge(retired)
        self.receiver.begin(vector)
        for span in closed:
            self.closing.seal(span)
        for name in self.receiver.streams:
            self.exchange.touch(name)

    def _depart(self, step: Callable[[], None]) -> None:
        self.departure.begin(step)
        self._hurry()
        self.departure.go_when_done()

    def _end_streams(self) -> None:
        """Nobody publishes here any more."""
        for name, out in list(self.sender.streams.items()):
            if out.adopted:
                self._on_abandon(inputs.Abandon(name))
            elif issued_by(name) is not None:
                self._announce(self.sender.close(name))

    @property
    def waits_for(self) -> str:
        """What holds a logger that is to leave for good, in words; nothing if nothing does."""
        return self.departure.waits_for

    def lacking(self) -> dict[StreamId, int]:
        """How many events this logger is to keep and lacks, by stream; gaps of the last rounds do not count. Empty on a
        broker."""
        if self.logger is None or self.mending is None:
            return {}
        missing = self.repair.lacking(self._ctx.round - BEHIND_ROUNDS)
        found = {name: count for name, count in missing.items() if self.placement.is_mine(name)}
        return found | self.mending.lacking()

    # Positions ------------------------------------------------------------------------------------------------------

    def position(self, name: StreamId) -> int:
        """The last seq up to which this node has everything (a logger: on disk), or is excused from it."""
        if self.logger is not None and self.placement.is_mine(name):
            return self.logger.prefix(name)
        stream = self.receiver.streams.get(name)
        return -1 if stream is None else stream.next - 1

    def _position_of(self, name: StreamId) -> Position:
        stream = self.receiver.streams.get(name)
        if self.logger is None and stream is not None and not self._holds:  # as almost always
            return Position(name, stream.next - 1, name in self.heartbeats.ended, stream.start)
        kept = self.logger is not None and self.placement.is_mine(name)
        start = 0 if stream is None or kept else stream.start
        last = self.position(name)
        if self._holds:  # what somebody here has yet to read is to stay in the logs
            last = min(last, max(self._holds.get(name, last), start - 1))
        return Position(name, last, name in self.heartbeats.ended, start, self.logger is not None and not kept)

    def _beyond(self, name: StreamId) -> tuple[Range, ...]:
        """The ranges that this logger keeps and has on disk after a gap."""
        if self.logger is None or not self.placement.is_mine(name):
            return ()
        return self.logger.beyond(name)

    def on_positions(self, sender: NodeId, message: Positions) -> None:
        """Somebody's acknowledgements: proof that events exist, and that they need not be kept for it."""
        record = self.membership.table.get(sender)
        if record is None or record.freshness != message.freshness:
            return
        streams, over = self.receiver.streams, []
        for position in message.vector:
            name, last = position.stream, position.last
            stream = streams.get(name)
            no_news = stream is not None and stream.beat is None and last <= stream.lastseen
            if not no_news and not self._learn(name, last):
                over.append(name)
        for span in message.beyond:  # logged, so everyone has to know of it, like the rest
            if span.stream in streams and span.ranges:
                self._learn(span.stream, span.ranges[-1][1])
        vector = message.vector
        if over:
            self._ctx.send(sender, Retire(tuple(over)))
            vector = tuple(position for position in vector if position.stream in streams)
        self.safety.on_positions(sender, message.vector)
        loggerless = not self.membership.has_loggers
        taken = True
        if record.logger and self.logger is None:
            self.stability.acknowledge(sender, vector)
        elif self.logger is not None or loggerless:
            # rpbcast §5.3: not before we know every member that it knows, or a joiner's events could be collected.
            taken = self.comparing.agrees(sender, message.members_root)
            if taken:
                self.stability.acknowledge(sender, vector)
        if record.logger or loggerless:
            beyond = message.beyond if record.logger else ()
            self._announce(self.sender.on_positions(sender, message.vector, beyond))
        # What is over is told to us again until it is forgotten there: the word that it is over may be lost.
        self.exchange.on_positions(sender, message, taken and not over)

    def _acknowledge(self, origin: NodeId, streams: Iterable[StreamId]) -> None:
        if origin == self._ctx.node:
            vector = tuple(map(self._position_of, streams))
            self._announce(self.sender.on_positions(origin, vector))
        else:
            self.exchange.acknowledge(origin, streams)

    def on_checkout(self, sender: NodeId, message: Checkout) -> None:
        if self.logger is not None:
            self.logger.on_checkout(sender, message)

    def on_checked_out(self, sender: NodeId, message: CheckedOut) -> None:
        if self.handover is None:
            self._disseminate(self.sender.on_checked_out(sender, message))
        elif sender in self.membership.heirs:  # no named publisher lives on a logger: it is another's promise
            self.handover.on_promised(sender, message)

    def on_return(self, _: NodeId, message: Return) -> None:
        if self.logger is not None:
            self.logger.on_return(message)

    # Durable subscriptions ------------------------------------------------------------------------------------------

    def _delivered(self, group: str) -> dict[StreamId, int]:
        return {name: stream.next - 1 for name, stream in self.receiver.streams.items() if group_of(name) == group}

    def on_recall(self, sender: NodeId, message: Recall) -> None:
        if self.bookmarks is not None and is_durable(message.name):
            self._heard[message.name] = self._ctx.now
            self.bookmarks.on_recall(sender, message)

    def on_recalled(self, sender: NodeId, message: Recalled) -> None:
        if self.membership.is_logger(sender):
            self.durables.on_recalled(sender, message)

    def on_bookmark(self, sender: NodeId, message: Bookmark) -> None:
        if self.bookmarks is None or not is_durable(message.name):
            return
        if self.membership.is_logger(sender):  # no subscription lives on a logger: it is handed over
            self.bookmarks.on_handed(sender, message)
        elif self.bookmarks.on_bookmark(sender, message):
            self._heard[message.name] = self._ctx.now

    def on_bookmarked(self, sender: NodeId, message: Bookmarked) -> None:
        if self.bookmarks is None:
            self.durables.on_bookmarked(sender, message)
        else:
            self.bookmarks.on_bookmarked(sender, message)

    # Tests ----------------------------------------------------------------------------------------------------------

    def check(self, names: Iterable[StreamId] | None = None) -> None:
        """Assert what must hold after every step, of some streams or of all."""
        streams = self.receiver.streams
        for name in streams if names is None else names:
            if name in streams:
                streams[name].check()
