"""Back-pressure, for groups that ask for it: bounded queues, and publishers that wait (row S10, 002 §5.3).

A member whose application has room for n more events of a group divides them among the group's streams and tells each
publisher's node how far it may go (`Window`). A publisher goes as far as the lowest window of all members. Purging
makes room like consuming does, so with both switches on a publisher waits only for what is *not* obsolete.

A window may get lost: it is told again each round. A member that nobody has heard for `window_patience_s` holds up
nobody, or one crash would stop a publisher for good.
"""

from collections.abc import Callable, Iterable

from gossamer.messages.ids import SEQ_MAX, NodeId, StreamId, group_of
from gossamer.messages.wire import Position, Window
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Ready
from gossamer.protocol.membership import Membership
from gossamer.protocol.receiver import Receiver


class Rooms:
    """The receiving side: what was granted to whom."""

    __slots__ = ("_at", "_ctx", "_everyone", "_granted", "_receiver", "_rested", "_resting", "_room")

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
        self._granted: dict[str, dict[StreamId, int]] = {}
        self._at: dict[str, dict[StreamId, int]] = {}
        """Where the streams were when the application told its room: what came since takes of it."""

    def on_room(self, group: str, events: int | None) -> None:
        """The application has room for so many more."""
        self._room[group] = events
        self._at[group] = self._positions(group)
        self._tell(self._grant(group))

    def on_taken(self, stream: StreamId) -> None:
        """Something of a stream has come: its publisher has to know our window."""
        group = group_of(stream)
        granted = self._granted.setdefault(group, {})
        if stream not in granted:
            granted[stream] = -1
            self._tell(self._grant(group))

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
        to: dict[NodeId, list[Position]] = {}
        for name in streams:
            stream = self._receiver.streams.get(name)
            if stream is not None and stream.origin != self._ctx.node:
                window = Position(name, self._granted[group_of(name)][name])
                # Of a stream that came by repair alone nobody has said whose it is.
                for node in self._everyone() if stream.origin is None else (stream.origin,):
                    to.setdefault(node, []).append(window)
        for node, vector in to.items():
            self._ctx.send(node, Window(tuple(vector)))

    def limit(self, stream: StreamId) -> int:
        """The window of this very node, for a stream that is published here."""
        return self._granted.get(group_of(stream), {}).get(stream, SEQ_MAX)


class Windows:
    """The sending side: how far each stream that is published here may go."""

    __slots__ = ("_blocked", "_ctx", "_heard", "_membership", "_rooms", "_windows")

    def __init__(self, ctx: Context, membership: Membership, rooms: Rooms, heard: Callable[[NodeId], float]) -> None:
        """`heard(node)` is when it was last heard of."""
        self._ctx = ctx
        self._membership = membership
        self._rooms = rooms
        self._heard = heard
        self._windows: dict[StreamId, dict[NodeId, int]] = {}
        self._blocked: dict[StreamId, int] = {}

    def may_send(self, stream: StreamId, following: int) -> bool:
        """Whether what comes next has room everywhere; if not, `Ready` tells when to try again. A batch that begins
        within the window is taken whole."""
        groups = self._ctx.config.groups
        if not groups or not self._ctx.config.group(group_of(stream)).backpressure:
            return True
        if following <= self._limit(stream, following):
            return True
        self._blocked[stream] = following
        return False

    def on_window(self, sender: NodeId, vector: Iterable[Position]) -> None:
        for position in vector:
            windows = self._windows.get(position.stream)
            if windows is not None:
                windows[sender] = position.last
        self.recheck()

    def recheck(self) -> None:
        """Windows, members or time have moved."""
        for stream, following in list(self._blocked.items()):
            if following <= self._limit(stream, following):
                del self._blocked[stream]
                self._ctx.emit(Ready(stream))

    def forget(self, stream: StreamId) -> None:
        self._windows.pop(stream, None)
        self._blocked.pop(stream, None)

    def _limit(self, stream: StreamId, following: int) -> int:
        windows = self._windows.setdefault(stream, {})
        since = self._ctx.now - self._ctx.config.window_patience_s
        limit = self._rooms.limit(stream)
        for node in self._membership.active:
            if node not in windows:
                windows[node] = following + self._ctx.config.window_events - 1
            if self._heard(node) >= since:
                limit = min(limit, windows[node])
        return limit
