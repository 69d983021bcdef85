"""Back-pressure, for groups that ask for it: bounded queues, and publishers that wait (row S10, 002 §5.3).

A member whose application has room for n more events of a group divides them among the group's streams and tells each
publisher's node how far it may go (`Window`). A publisher goes as far as the lowest window of all members. Purging
makes room like consuming does, so with both switches on a publisher waits only for what is *not* obsolete.

A window may get lost: it is told again each round. A member that nobody has heard for `window_patience_s` holds up
nobody, or one crash would stop a publisher for good. A client may go on at another node with its stream: that node
knows no windows, and whoever receives its packets tells it.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import SEQ_MAX, NodeId, StreamId, group_of
from gossamer.messages.wire import BY_LENGTH_MAX, Position, Window
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Ready
from gossamer.protocol.membership import Membership
from gossamer.protocol.receiver import Receiver

NEVER = float("inf")


class Rooms:
    """The receiving side: what was granted to whom."""

    __slots__ = (
        "_at", "_by", "_ctx", "_everyone", "_granted", "_moved", "_receiver", "_rested", "_resting", "_room",
    )  # fmt: skip

    def __init__(
        self, ctx: Context, receiver: Receiver, everyone: Callable[[], tuple[NodeId, ...]] = lambda: ()
    ) -> None:
        self._ctx = ctx
        self._everyone = everyone
        self._rested: dict[StreamId, int] = {}
        """Where each stream was in the last round."""
        self._resting: set[StreamId] = set()
        self._receiver = receiver
        self._room: dict[str, int | None] = {}
        self._by: dict[str, str] = {}
        """Of each group, the consumer that has the least room."""
        self._moved: set[StreamId] = set()
        """Streams that several nodes have sent packets of: any of these may publish it now."""
        self._granted: dict[str, dict[StreamId, int]] = {}
        self._at: dict[str, dict[StreamId, int]] = {}
        """Where the streams were when the application told its room: what came since takes of it."""

    def on_room(self, group: str, events: int | None, by: str = "") -> None:
        """The application has room for so many more; `by` has the least."""
        self._room[group] = events
        self._by[group] = by[:BY_LENGTH_MAX]
        self._at[group] = self._positions(group)
        self._tell(self._grant(group))

    def on_opened(self, stream: StreamId) -> None:
        """A stream is known here: its publisher has to know our window."""
        group = group_of(stream)
        granted = self._granted.setdefault(group, {})
        if stream not in granted:
            granted[stream] = -1
            self._tell(self._grant(group))

    def on_origin(self, stream: StreamId, origin: NodeId) -> None:
        """A node has sent a packet of a stream, old or new. One that took the stream over has to know our window."""
        known = self._receiver.streams.get(stream)
        if known is not None and known.origin not in (None, origin) and stream not in self._moved:
            self._moved.add(stream)
            if stream in self._granted.get(group_of(stream), ()):
                self._tell((stream,))

    def on_round(self) -> None:
        """Tell every window once more: the last message may have been lost."""
        for group, granted in self._granted.items():
            for stream in [stream for stream in granted if stream not in self._receiver.streams]:
                del granted[stream]
            self._take_back(group)
            self._grant(group)
            self._tell(granted)

    def _take_back(self, group: str) -> None:
        """Room that a stream has not used since the last round, but for one event: others may need it."""
        if self._room.get(group) is None:
            return
        granted, positions = self._granted[group], self._positions(group)
        self._resting = {name for name, last in positions.items() if self._rested.get(name) == last}
        for name in self._resting:
            granted[name] = min(granted[name], positions[name] + 1)
        self._rested.update(positions)

    def forget(self, stream: StreamId) -> None:
        self._rested.pop(stream, None)
        self._moved.discard(stream)
        self._granted.get(group_of(stream), {}).pop(stream, None)

    def _grant(self, group: str) -> list[StreamId]:
        """Divide the room that nobody has been granted yet, first to who has least; returns whose window moved."""
        granted, room = self._granted.setdefault(group, {}), self._room.get(group)
        if room is None:
            moved = [stream for stream in granted if granted[stream] < SEQ_MAX]
            granted.update(dict.fromkeys(moved, SEQ_MAX))
            return moved
        at, told = self._positions(group), self._at[group]
        room -= sum(last - told.get(name, self._receiver.streams[name].start - 1) for name, last in at.items())
        for name, last in at.items():
            if granted[name] == SEQ_MAX or granted[name] < last:  # there was no limit until now, or it was overrun
                granted[name] = last
        spare = room - sum(granted[name] - last for name, last in at.items())
        moved = []
        wanting = [name for name in at if name not in self._resting] or list(at)
        for name in sorted(wanting, key=lambda name: (granted[name] - at[name], name)):
            if spare <= 0:
                break
            share = -(-spare // (len(wanting) - len(moved)))
            granted[name] += share
            spare -= share
            moved.append(name)
        if room > 0:  # one each, though that may be a few too many: a stream without any could not even begin
            for name in [name for name, last in at.items() if granted[name] == last]:
                granted[name] += 1
                moved.append(name)
        return moved

    def _positions(self, group: str) -> dict[StreamId, int]:
        streams = self._receiver.streams
        return {name: streams[name].next - 1 for name in self._granted.get(group, ()) if name in streams}

    def _tell(self, streams: Iterable[StreamId]) -> None:
        """Tell windows of one group's streams."""
        to: dict[NodeId, list[Position]] = {}
        by = ""
        for name in streams:
            stream, moved = self._receiver.streams.get(name), name in self._moved
            if stream is not None and (moved or stream.origin != self._ctx.node):
                by = self._by.get(group_of(name), "")
                window = Position(name, self._granted[group_of(name)][name])
                # Of a stream that came by repair alone nobody has said whose it is.
                for node in self._everyone() if moved or stream.origin is None else (stream.origin,):
                    to.setdefault(node, []).append(window)
        for node, vector in to.items():
            self._ctx.send(node, Window(tuple(vector), by))

    def limit(self, stream: StreamId) -> int:
        """The window of this very node, for a stream that is published here."""
        return self._granted.get(group_of(stream), {}).get(stream, SEQ_MAX)

    def by(self, group: str) -> str:
        """The consumer of this very node that has the least room."""
        return self._by.get(group, "")

    @property
    def full(self) -> bool:
        """Whether some group has no room here, so that publishers wait for word of it."""
        return any(room is not None and room <= 0 for room in self._room.values())


class Windows:
    """The sending side: how far each stream that is published here may go."""

    __slots__ = ("_assumed", "_ctx", "_heard", "_membership", "_rooms", "_windows", "blocked")

    def __init__(self, ctx: Context, membership: Membership, rooms: Rooms, heard: Callable[[NodeId], float]) -> None:
        """`heard(node)` is when it was last heard of."""
        self._ctx = ctx
        self._membership = membership
        self._rooms = rooms
        self._heard = heard
        self._windows: dict[StreamId, dict[NodeId, tuple[int, str]]] = {}
        """Of each stream how far each member has room, and the consumer that has the least room there."""
        self._assumed: dict[StreamId, dict[NodeId, float]] = {}
        """Of each stream the members that have told no window of it yet, and since when that is due. A member may not
        know of the group's back-pressure, or that the stream is published here now. It is waited for no longer than
        a silent member."""
        self.blocked: dict[StreamId, int] = {}
        """Streams that wait, and the seq that they wait for room for."""

    def may_send(self, stream: StreamId, following: int) -> bool:
        """Whether what comes next has room everywhere; if not, `Ready` tells when to try again. A batch that begins
        within the window is taken whole."""
        groups = self._ctx.config.groups
        if not groups or not self._ctx.config.group(group_of(stream)).backpressure:
            return True
        if following <= self._limit(stream, following)[0]:
            return True
        self.blocked[stream] = following
        return False

    def wait(self, stream: StreamId, following: int) -> int:
        """The last seq that there is room for everywhere; `Ready` tells when there is more."""
        limit = self._limit(stream, following)[0]
        if limit < SEQ_MAX:
            self.blocked[stream] = limit + 1
        else:
            self.blocked.pop(stream, None)
        return limit

    def blocker(self, stream: StreamId) -> tuple[NodeId, str]:
        """The member that leaves a stream the least room, and its consumer, if it named one."""
        node = self._limit(stream, self.blocked.get(stream, 0))[1]
        if node == self._ctx.node:
            return node, self._rooms.by(group_of(stream))
        return node, self._windows[stream][node][1]

    def on_window(self, sender: NodeId, vector: Iterable[Position], by: str = "") -> None:
        for position in vector:
            windows = self._windows.get(position.stream)
            if windows is not None:
                windows[sender] = position.last, by
                self._assumed.get(position.stream, {}).pop(sender, None)
        self.recheck()

    def recheck(self) -> None:
        """Windows, members or time have moved."""
        for stream, following in list(self.blocked.items()):
            if following <= self._limit(stream, following)[0]:
                del self.blocked[stream]
                self._ctx.emit(Ready(stream))

    def forget(self, stream: StreamId) -> None:
        self._windows.pop(stream, None)
        self._assumed.pop(stream, None)
        self.blocked.pop(stream, None)

    def _limit(self, stream: StreamId, following: int) -> tuple[int, NodeId]:
        """The lowest window, and whose it is."""
        windows, assumed = self._windows.setdefault(stream, {}), self._assumed.setdefault(stream, {})
        since = self._ctx.now - self._ctx.config.window_patience_s
        limit, by = self._rooms.limit(stream), self._ctx.node
        for node in self._membership.active:
            if node not in windows:
                windows[node] = following + self._ctx.config.window_events - 1, ""
                assumed[node] = self._ctx.now
            if windows[node][0] < limit and min(self._heard(node), assumed.get(node, NEVER)) >= since:
                limit, by = windows[node][0], node
        return limit, by
