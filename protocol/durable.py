"""Durable subscriptions: where each of them is, as the loggers know, and who has it (rpbcast §5.3: disconnecting).

A durable subscription is a member that nobody can talk to: it is in the table of members under a name of its own, so it
is in the wait lists of all loggers, present and future, for the same reason that a joiner is (protocol/membership.py):
no logger applies anybody's acknowledgements before it knows every member that the other knows. Its acknowledgement is
its *bookmark*, the seq up to which it has taken each stream of its group, which the loggers keep on disk.

    attach      a broker asks the loggers for the bookmark, takes the element-wise best, and enters the subscription
                with a higher epoch; when that is on disk at the loggers it has it
    begin       a subscription that nobody knows is entered as *beginning*, and a logger that has its bookmark on disk
                says that it is *durable*. Its broker may die in between: then no logger has a bookmark, the client was
                told nothing, and it begins anew with the next broker
    mark        the broker tells what was taken, batched, until each logger has it on disk
    detach      the last of it is told, and the bookmark stays; or the subscription is forgotten
    hand over   a logger that is to leave tells the others its bookmarks, and confirms nothing more: it may be the only
                one that some brokers have told
    compare     loggers compare their bookmarks by signature, so that one that was down learns what it missed
                (protocol/bookmark_exchange.py)

Whoever attaches takes it over: an epoch that is not the latest counts no more, and whoever had it hears of that. There
are bits of its holder in an epoch, so that a client which comes to another broker is told whether somebody else has had
it since; and bits of chance, so that two that attach at once do not take themselves for the same. A subscription of
which nothing was heard for `expire_s` is expelled like any member. Its bookmark stays: when it returns it is told
exactly what is gone.
"""

from collections import deque
from collections.abc import Callable, Mapping

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NAME_LENGTH_MAX, NodeId, StreamId, group_of, named_stream
from gossamer.messages.wire import ENTRIES_MAX, Bookmark, Bookmarked, Member, Position, Recall, Recalled, Roster
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Attached, Detached, Marked, Stored
from gossamer.protocol.membership import DURABLE, Membership
from gossamer.protocol.stability import Stability

PATIENCE_ROUNDS = 4
"""A logger that has not answered for so long is not waited for, if another has."""
CHANCE_BITS = 8
HOLDER_BITS = 20
QUESTION_BITS = 32
TAKEN_OVER = "superseded: taken over by another client"
MARKS_A_ROUND = 64
"""Subscriptions whose bookmarks are told in a round: they take turns."""


def durable_id(group: str, name: str) -> NodeId:
    """What a durable subscription is called among the members; no node's name begins like that."""
    found = f"~{named_stream(group, name, 'durable')}"
    if len(found) > NAME_LENGTH_MAX:
        raise UsageError(f"durable: {name[:40]!r} and its group have more than {NAME_LENGTH_MAX - 2} characters")
    return found


def is_durable(node: NodeId) -> bool:
    return node.startswith("~")


def group_of_durable(name: NodeId) -> str:
    return group_of(name[1:])


def whole(group: str) -> StreamId:
    """An entry of a bookmark that is no stream: the subscription began with everything. It is owed streams that were
    over before it began, and its bookmark names those that it has taken of them. One that began with what came then
    has had every stream that is over: it is waited for in those that it has not (protocol/stability.py)."""
    return f"{group}/~whole"


def beginning(group: str) -> tuple[StreamId, StreamId]:
    """Entries beside that of `whole`: the times since which it is owed what was logged, and what was published. Each
    stream that it has not taken anything of is read from there."""
    return f"{group}/~since", f"{group}/~published"


def newest(group: str) -> StreamId:
    """An entry of a subscription with `last_per_key`: 0 while it is owed the newest event of each key, 1 when it has
    taken all. Until then its bookmark stays as it was when it began, with the time in the first entry of `beginning`:
    what is newest up to there is read anew, and then what came since. From then on it is one that began with what
    came."""
    return f"{group}/~newest"


def _names_what_is_over(vector: Mapping[StreamId, int], group: str) -> bool:
    return whole(group) in vector or vector.get(newest(group)) == 0


class _Attaching:
    """A subscription whose bookmark is being asked for."""

    __slots__ = ("answered", "held", "holder", "known", "marked", "question", "since", "start", "vector")

    def __init__(
        self, question: int, holder: int, held: bool, start: Mapping[StreamId, int] | None, since: int
    ) -> None:
        self.question = question
        self.holder = holder
        self.held = held
        self.start = start
        self.since = since
        self.answered: dict[NodeId, None] = {}
        self.known = False
        self.marked = False
        """Whether somebody has said where it is, and not only that it is."""
        self.vector: dict[StreamId, int] = {}


class Held:
    """A subscription that is attached here: what it has taken, and which logger has been told how much of that."""

    __slots__ = (
        "after", "announced", "changed", "confirmed", "epoch", "leaving", "new", "since", "told_at", "vector",
        "version", "wanted",
    )  # fmt: skip

    def __init__(self, epoch: int, after: int, vector: dict[StreamId, int], new: bool, since: int) -> None:
        self.epoch = epoch
        self.after = after
        """The epoch that was known when it was attached; its own once the client has it. Whoever attached it beside us,
        with a lower one and other loggers, has lost it, and what those were told does not count any more."""
        self.vector = vector
        self.new = new
        self.since = since
        self.announced = False
        """The client has been told that it has it."""
        self.leaving = False
        self.changed = {stream: 1 + number // ENTRIES_MAX for number, stream in enumerate(vector)}
        """By version, since a change moves a stream to the end; a version is what fits into one message."""
        self.version = self.wanted = max(self.changed.values(), default=1)
        """The version to wait for."""
        self.confirmed: dict[NodeId, int] = {}
        self.told_at = 0.0

    def mark(self, vector: Mapping[StreamId, int]) -> None:
        moved = [(stream, last) for stream, last in vector.items() if last > self.vector.get(stream, -1)]
        self.version += bool(moved)
        for stream, last in moved:
            self.vector[stream] = last
            self.changed.pop(stream, None)
            self.changed[stream] = self.version

    def forget(self, stream: StreamId) -> None:
        self.vector.pop(stream, None)
        self.changed.pop(stream, None)

    def is_with(self, logger: NodeId) -> bool:
        return self.confirmed.get(logger, 0) >= self.version

    def told(self, name: NodeId, logger: NodeId) -> Bookmark:
        """What a logger has not confirmed yet, or as much of it as goes into a message."""
        confirmed = self.confirmed.get(logger, 0)
        streams, version = self.untold(confirmed), self.version
        if len(streams) > ENTRIES_MAX:  # a version is told whole or not at all
            version = self.changed[streams[ENTRIES_MAX]] - 1
            streams = [stream for stream in streams[:ENTRIES_MAX] if self.changed[stream] <= version]
        vector = tuple(Position(stream, self.vector[stream]) for stream in streams)
        return Bookmark(name, self.epoch, version, vector, confirmed == 0, self.after)

    def untold(self, confirmed: int) -> list[StreamId]:
        """What has changed since a version, oldest first."""
        found = []
        for stream, version in reversed(self.changed.items()):
            if version <= confirmed:
                break
            found.append(stream)
        found.reverse()
        return found


class Durables:
    """A broker's side: those that are attached here, or about to be."""

    __slots__ = ("_attaching", "_ctx", "_is_over", "_membership", "_over", "_snapshot", "_turn", "held")

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        snapshot: Callable[[str], dict[StreamId, int]],
        is_over: Callable[[StreamId], bool],
    ) -> None:
        """`snapshot(group)` tells how far each stream has been delivered here; `is_over`, which are retired."""
        self._is_over = is_over
        self._ctx = ctx
        self._membership = membership
        self._snapshot = snapshot
        self._attaching: dict[NodeId, _Attaching] = {}
        self._turn = 0
        self._over: deque[tuple[float, StreamId]] = deque()
        """Streams that are over and named by some bookmark, and until when something of them may be in a log."""
        self.held: dict[NodeId, Held] = {}

    @property
    def busy(self) -> bool:
        """Whether somebody waits for the next round."""
        return bool(self._attaching) or any(not held.announced or held.leaving for held in self.held.values())

    @property
    def _loggers(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self._membership.loggers if node in self._membership.active)

    def _needed(self, new: bool) -> int:
        """Of how many loggers the word is needed. That nobody knows a subscription takes a majority to say, and to make
        one known a majority to keep it: or there would be two of it, on either side of a partition. To go on with one
        that is known, a single logger is enough."""
        return len(self._membership.loggers) // 2 + 1 if new else 1

    def _is_enough(self, attaching: _Attaching) -> bool:
        """Whether the bookmark is known as well as it must be. As long as all who have answered have only heard of it,
        the others are waited for, those that are away as well: to take it up at the beginning would be to ask for what
        is collected, since whoever knows better waits for no more than the rest."""
        if attaching.known and not attaching.marked:
            return all(node in attaching.answered for node in self._membership.loggers)
        return len(attaching.answered) >= self._needed(not attaching.known)

    # What clients want ----------------------------------------------------------------------------------------------

    def attach(self, name: NodeId, holder: int, held: bool, start: Mapping[StreamId, int] | None) -> None:
        """Take a subscription up, or begin it: behind `start`, or with what comes now. A `holder` that has it already
        goes on with it only if nobody else has taken it over. Who was about to be attached is forgotten."""
        if not self._loggers:
            self._ctx.emit(Detached(name, 0, "there is no logger to keep it"))
            return
        question = self._ctx.rng.getrandbits(QUESTION_BITS)
        self._attaching[name] = _Attaching(question, holder, held, start, self._ctx.round)
        self._ctx.multicast(self._loggers, Recall(name, question))

    def mark(self, name: NodeId, epoch: int, vector: Mapping[StreamId, int]) -> None:
        """It has taken each of these streams up to there."""
        held = self.held.get(name)
        if held is not None and held.epoch == epoch:
            if whole(group_of_durable(name)) not in held.vector:
                vector = {stream: last for stream, last in vector.items() if not self._is_over(stream)}
            if (entry := newest(group_of_durable(name))) in held.vector:  # who has not taken them says nothing yet
                vector = {**vector, entry: 1}
            held.mark(vector)

    def detach(self, name: NodeId, epoch: int, forget: bool) -> None:
        """Its client has gone: the last of its bookmark is told; or (`forget`) there is nothing to keep any more."""
        held = self.held.get(name)
        if held is None or held.epoch != epoch:
            return
        if forget:
            del self.held[name]
            record = Member(name, "left", _later(self._ctx, epoch, 0))
            self._membership.merge(record)
            self._ctx.multicast(self._loggers, Roster((), (record,), False))
        else:
            held.leaving, held.wanted, held.since = True, held.version, self._ctx.round
            self._tell(name, held)
            self._settle(name, held)

    def retire(self, stream: StreamId) -> None:
        """Everyone has it, these too."""
        for held in self.held.values():
            if not _names_what_is_over(held.vector, group_of(stream)):
                held.forget(stream)
            elif stream in held.vector:
                self._over.append((self._ctx.now + self._ctx.config.expire_s, stream))

    def _forget_expired(self) -> None:
        """Streams that were over so long ago that no logger has anything of them need not be named any more."""
        while self._over and self._over[0][0] <= self._ctx.now:
            _, stream = self._over.popleft()
            for held in self.held.values():
                held.forget(stream)

    # What the others say --------------------------------------------------------------------------------------------

    def on_recalled(self, logger: NodeId, message: Recalled) -> None:
        attaching = self._attaching.get(message.name)
        if attaching is None or attaching.question != message.question:
            return
        attaching.known |= message.known
        attaching.marked |= message.marked
        for position in message.vector:
            if position.last > attaching.vector.get(position.stream, -1):
                attaching.vector[position.stream] = position.last
        if not message.more:
            attaching.answered[logger] = None
            everyone = all(node in attaching.answered for node in self._loggers)
            if everyone and self._is_enough(attaching):
                self._enter(message.name, attaching)

    def on_bookmarked(self, logger: NodeId, message: Bookmarked) -> None:
        held = self.held.get(message.name)
        if held is not None and held.epoch == message.epoch:
            held.confirmed[logger] = max(message.version, held.confirmed.get(logger, 0))
            self._settle(message.name, held)

    def on_record(self, member: Member) -> None:
        """Somebody has attached it, or let it be forgotten: here it is no more. One that is here was not silent."""
        held = self.held.get(member.node)
        if held is None:
            return
        if member.freshness > held.epoch:
            del self.held[member.node]
            self._ctx.emit(Detached(member.node, held.epoch, TAKEN_OVER))
        elif member.freshness == held.epoch and member.status == "left":
            del self.held[member.node]
            self._hold(member.node, _holder(held.epoch), held.vector, False)

    def on_round(self) -> None:
        """Ask again; tell what was taken, of some in turn."""
        self._forget_expired()
        patience = self._ctx.round - PATIENCE_ROUNDS
        for name, attaching in list(self._attaching.items()):
            silent = tuple(node for node in self._loggers if node not in attaching.answered)
            enough = self._is_enough(attaching)
            if enough and (not silent or attaching.since < patience):
                self._enter(name, attaching)
            else:
                self._ctx.multicast(silent, Recall(name, attaching.question))
        names = list(self.held)
        self._turn = self._turn % len(names) if names else 0
        chosen = (names[self._turn :] + names[: self._turn])[:MARKS_A_ROUND]
        self._turn += MARKS_A_ROUND
        for name in chosen:
            held = self.held[name]
            self._tell(name, held)
            self._settle(name, held)

    def _enter(self, name: NodeId, attaching: _Attaching) -> None:
        """The bookmark is known as well as it can be: from here on the subscription is ours."""
        del self._attaching[name]
        record = self._membership.table.get(name)
        others = record is not None and record.status in DURABLE and _holder(record.freshness) != attaching.holder
        if attaching.held and others:
            self._ctx.emit(Detached(name, 0, TAKEN_OVER))
            return
        if attaching.known:
            vector = attaching.vector
        elif attaching.start is None:  # not before this: what is acknowledged from here on waits for it
            vector = self._snapshot(group_of_durable(name))
        else:
            vector = dict(attaching.start)
        self._hold(name, attaching.holder, vector, not attaching.known)

    def _hold(self, name: NodeId, holder: int, vector: dict[StreamId, int], new: bool) -> None:
        record = self._membership.table.get(name)
        after = 0 if record is None else record.freshness
        epoch = _later(self._ctx, after, holder)
        status = "beginning" if new and vector else "durable"
        self._membership.merge(Member(name, status, epoch))  # whoever had it here hears of it by that
        held = self.held[name] = Held(epoch, after, vector, new, self._ctx.round)
        self._tell(name, held)

    def _tell(self, name: NodeId, held: Held) -> None:
        fading = self._ctx.now > held.told_at + self._ctx.config.expire_s / 4  # it must be heard of now and then
        for logger in self._loggers:
            if fading or not held.is_with(logger):
                self._ctx.send(logger, held.told(name, logger))
                held.told_at = self._ctx.now

    def _settle(self, name: NodeId, held: Held) -> None:
        """See whether enough loggers have it on disk to go on, or to let go."""
        have = [node for node, version in held.confirmed.items() if version >= held.wanted]
        late = [node for node in self._loggers if node not in have]
        enough = len(have) >= self._needed(held.new) and (not late or held.since < self._ctx.round - PATIENCE_ROUNDS)
        if enough and held.leaving:
            del self.held[name]
            self._ctx.emit(Detached(name, held.epoch, "the loggers know where it is"))
        elif enough and not held.announced:
            held.announced, held.after = True, held.epoch
            self._ctx.emit(Attached(name, held.epoch, dict(held.vector), held.new))


class Bookmarks:
    """A logger's side: the bookmarks on its disk, and what waits for them."""

    __slots__ = (
        "_ctx", "_epochs", "_handed", "_is_forgotten", "_is_over", "_membership", "_save", "_stability", "changed",
        "marked", "positions",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        membership: Membership,
        stability: Stability,
        save: Callable[[Marked, Callable[[], None] | None], None],
        is_over: Callable[[StreamId], bool],
        stored: Stored | None,
        is_forgotten: Callable[[StreamId], bool],
    ) -> None:
        """`save(record, then)` writes a record durably; `is_over` tells which streams are retired, and `is_forgotten`
        which of those are not in this log any more: they need no place in a bookmark."""
        self._is_forgotten = is_forgotten
        self._ctx = ctx
        self._is_over = is_over
        self._membership = membership
        self._stability = stability
        self._save = save
        found = stored or Stored({})
        self._epochs = {member.node: member.freshness for member in found.members if member.status in DURABLE}
        """The last whose beginning was told."""
        self.positions = {name: dict(vector) for name, vector in found.bookmarks.items()}
        self.marked = {name: self._epochs.get(name, 0) for name in self.positions}
        """Those of which it was told where they are, and in which epoch that was."""
        self.changed: dict[NodeId, None] = {}
        """Those that have changed since they were last signed (protocol/bookmark_exchange.py)."""
        self._handed: dict[NodeId, Held] | None = None
        """Of a logger that is about to leave: what was confirmed to brokers, and which logger has how much of that."""

    def on_recall(self, sender: NodeId, message: Recall) -> None:
        record = self._membership.table.get(message.name)
        marked = message.name in self.marked
        known = marked or (record is not None and record.status == "durable")
        if record is not None:  # the epoch must be above this one
            self._ctx.send(sender, Roster((), (record,), False))
        vector = tuple(Position(*each) for each in self.positions.get(message.name, {}).items())
        while len(vector) > ENTRIES_MAX:
            part, vector = vector[:ENTRIES_MAX], vector[ENTRIES_MAX:]
            self._ctx.send(sender, Recalled(message.name, message.question, known, marked, part, True))
        self._ctx.send(sender, Recalled(message.name, message.question, known, marked, vector))

    def on_bookmark(self, sender: NodeId, message: Bookmark) -> bool:
        """Take what a broker tells, once it is on disk; False if the subscription is not with it any more."""
        begun = self._epochs.get(message.name, 0)
        if message.whole and message.epoch != begun and message.after < begun:
            return False  # it comes late, from somebody who never got to have it
        # A bookmark of nothing leaves nothing on disk to know it by but its record.
        begins = not message.after and message.name not in self.marked and bool(message.vector)
        self._membership.merge(Member(message.name, "beginning" if begins else "durable", message.epoch))
        record = self._membership.table.get(message.name)
        if record is None or record.freshness != message.epoch or record.status not in DURABLE:
            if record is not None:
                self._ctx.send(sender, Roster((), (record,), False))
            return False
        # Who attached it has said where it begins: others may have, too, who never got to have it.
        anew = message.whole and begun < message.epoch
        if anew:
            self._epochs[message.name] = message.epoch
            self._save(Marked(message.name, None), None)
        self._save(Marked(message.name, message.vector), lambda: self._on_saved(sender, message, anew))
        return True

    def _on_saved(self, sender: NodeId, message: Bookmark, anew: bool) -> None:
        self._take(message, anew)
        self._membership.merge(Member(message.name, "durable", message.epoch))
        if self._handed is None and self._membership.own.logger:
            self._ctx.send(sender, Bookmarked(message.name, message.epoch, message.version))

    def _take(self, message: Bookmark, anew: bool) -> None:
        known = self.positions.setdefault(message.name, {})
        self.marked[message.name] = message.epoch
        self.changed[message.name] = None
        if anew:
            known.clear()
        for stream, last in ((position.stream, position.last) for position in message.vector):
            if last > known.get(stream, -1) and not self._is_forgotten(stream):
                known[stream] = last
        if not _names_what_is_over(known, group_of_durable(message.name)):
            for position in message.vector:  # a stream that was retired meanwhile leaves no trace
                if self._is_over(position.stream):
                    known.pop(position.stream, None)

    # A logger leaves ------------------------------------------------------------------------------------------------

    def hand_over(self) -> bool:
        """Whether all other loggers, and those that may be loggers again, have on disk what was confirmed here; those
        that do not are told, of some at a time. All, because any of them may be the one that is asked in the end; and
        meanwhile nothing is confirmed, or there would always be more to tell."""
        if self._handed is None:
            self._handed = {}
        count = 0
        for name, epoch in self.marked.items():
            held, record = self._handed.get(name), self._membership.table.get(name)
            if record is None:
                continue  # nobody knows it
            if held is None or held.epoch != epoch:
                held = self._handed[name] = Held(epoch, epoch, dict(self.positions[name]), False, self._ctx.round)
            for logger in self._membership.heirs:
                if not held.is_with(logger) and count < MARKS_A_ROUND:
                    count += 1
                    self._ctx.send(logger, Roster((), (record,), False))
                    self._ctx.send(logger, held.told(name, logger))
        return not count

    def keep(self) -> None:
        """It stays, or has not begun to leave."""
        self._handed = None

    def on_handed(self, sender: NodeId, message: Bookmark) -> None:
        """Another logger has this on its disk, and is to leave or has compared its bookmarks with ours. Of a later
        epoch than ours it counts instead of ours, of the same one beside it; of an earlier one, or if the subscription
        is forgotten, ours is better. Who does not know the subscription yet is told again: it must be waited for, and
        the next epoch must be above this one."""
        name, begun = message.name, self._epochs.get(message.name, 0)
        record = self._membership.table.get(name)
        if record is None or record.freshness < message.epoch:
            return
        answer = Bookmarked(name, message.epoch, message.version)
        if record.status == "left" and record.freshness > message.epoch:
            self._ctx.send(sender, answer)
            return
        if message.epoch < begun:
            self._save(Marked(name, ()), lambda: self._ctx.send(sender, answer))  # when ours is on disk
            return
        anew = message.whole and begun < message.epoch
        if anew:
            self._epochs[name] = message.epoch
            self._save(Marked(name, None), None)
        self._save(Marked(name, message.vector), lambda: self._on_taken_over(sender, message, anew))

    def _on_taken_over(self, sender: NodeId, message: Bookmark, anew: bool) -> None:
        self._take(message, anew)
        held = (self._handed or {}).get(message.name)
        if held is not None and held.epoch == message.epoch:  # this one is to leave, too, and counted on
            held.mark(self.positions[message.name])
        self._ctx.send(sender, Bookmarked(message.name, message.epoch, message.version))

    def on_bookmarked(self, logger: NodeId, message: Bookmarked) -> None:
        """Another logger has what we are to hand over."""
        held = (self._handed or {}).get(message.name)
        if held is not None and held.epoch == message.epoch:
            held.confirmed[logger] = max(message.version, held.confirmed.get(logger, 0))

    # What comes and goes --------------------------------------------------------------------------------------------

    def on_record(self, member: Member, known: Member | None) -> None:
        """It is waited for while it is there; a bookmark that is forgotten is not needed any more."""
        name = member.node
        if member.status in DURABLE:
            self._stability.wait_for_durable(name, group_of_durable(name), self.positions.setdefault(name, {}))
            return
        self._stability.release_durable(name, group_of_durable(name))
        if (known is None or member.freshness > known.freshness) and self.positions.pop(name, None) is not None:
            self.marked.pop(name, None)
            self.changed[name] = None
            self._save(Marked(name, None), None)

    def retire(self, stream: StreamId) -> None:
        for name, vector in self.positions.items():
            if not _names_what_is_over(vector, group_of(stream)) and vector.pop(stream, None) is not None:
                self.changed[name] = None
                if self._handed and name in self._handed:
                    self._handed[name].forget(stream)

    def forget(self, stream: StreamId) -> None:
        """It is over, and no logger has anything of it any more: nobody can come back to it."""
        for name, vector in self.positions.items():
            if vector.pop(stream, None) is not None:
                self.changed[name] = None


def _later(ctx: Context, epoch: int, holder: int) -> int:
    count = (epoch >> HOLDER_BITS + CHANCE_BITS) + 1
    return (count << HOLDER_BITS | holder) << CHANCE_BITS | ctx.rng.getrandbits(CHANCE_BITS)


def _holder(epoch: int) -> int:
    return epoch >> CHANCE_BITS & (1 << HOLDER_BITS) - 1
