"""What a node wants done. The driver performs effects in the order given.

Order matters in one place: a `Persist` is answered by `Persisted` when it is on disk, and the node itself holds back
what depends on it (acknowledgements, notices, sponsorships). Everything else, gossip and live traffic, never waits.
"""

from typing import Literal

from msgspec import Struct

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Member, Message, Page, Position, Read, Retired, Span

Reason = Literal["collected", "void", "lost", "declined"]
Level = Literal["logged", "safe"]
Status = Literal["outside", "joining", "member", "leaving", "disconnecting", "disconnected"]


class Send(Struct, frozen=True):
    """Encode once, and send to each; unreliable."""

    to: tuple[NodeId, ...]
    message: Message


class Deliver(Struct, frozen=True):
    """Hand a packet's events to the application: FIFO within the stream, each at most once. Its holes were obsoleted
    by what they name, which the application has, or gets, or gets replaced in turn."""

    packet: Packet


class Skip(Struct, frozen=True):
    """In the order of deliveries: these will not come, and why.

    `collected`: every logger has collected them; `void`: they never existed, or died with their publisher; `lost`:
    a mesh without loggers could not repair them; `declined`: the application did not want them requested.
    """

    stream: StreamId
    first: int
    last: int
    reason: Reason


class Acked(Struct, frozen=True):
    """The publisher may forget its stream up to `last`: it is `logged` (in a mesh without loggers, `safe`)."""

    stream: StreamId
    last: int
    level: Level


class Refused(Struct, frozen=True):
    """A `Publish` that was not taken, and why; the events have no ids and may be offered again."""

    stream: StreamId
    count: int
    reason: str


class Ready(Struct, frozen=True):
    """A stream whose `Publish` was refused for back-pressure may be published to again."""

    stream: StreamId


class Numbers(Struct, frozen=True):
    """A client that has claimed a named publisher may use the seqs of its epoch, from `floor` up to `last`."""

    stream: StreamId
    holder: str
    floor: int
    last: int


class Promise(Struct, frozen=True):
    """A logger's word to a named publisher: its holder may use seqs from `floor` to `last`, no lower epoch any."""

    stream: StreamId
    epoch: int
    holder: str
    last: int
    floor: int = 0


class Void(Struct, frozen=True):
    """A logger's record that these will never exist."""

    span: Span


class Attached(Struct, frozen=True):
    """A durable subscription is with this broker, in that epoch: it is to go on behind these positions."""

    name: NodeId
    epoch: int
    vector: dict[StreamId, int]
    new: bool


class Detached(Struct, frozen=True):
    """A durable subscription is not with this broker any more, or could not come to be, and why."""

    name: NodeId
    epoch: int
    reason: str


class Marked(Struct, frozen=True):
    """A logger's record of what a durable subscription has taken: it has these positions now, and keeps its others;
    None: it is forgotten."""

    name: NodeId
    vector: tuple[Position, ...] | None


class Over(Struct, frozen=True):
    """A logger's record that a stream is retired: whoever joins need not be told of it."""

    stream: StreamId


class Moved(Struct, frozen=True):
    """A logger's record that others keep a stream now: nothing of it is left here, but what is promised."""

    stream: StreamId


class Covered(Struct, frozen=True):
    """A logger's record that it holds all finished streams which another logger holds; or, False, no longer."""

    node: NodeId
    covered: bool = True


Record = Packet | Void | Promise | Over | Member | Marked | Moved | Covered


class Persist(Struct, frozen=True):
    """Write all of it durably, then answer `Persisted(token)`; tokens are answered in order."""

    token: int
    records: tuple[Record, ...]


class Load(Struct, frozen=True):
    """Read these from the store, and answer `Loaded(token, packets)`, cut to what was asked for."""

    token: int
    spans: tuple[Span, ...]


class Scan(Struct, frozen=True):
    """Read the next page of the log, and answer `Scanned(token, page)`. Of `lacks` the page tells what was logged
    before the cursor it was asked from."""

    token: int
    read: Read
    lacks: tuple[Span, ...]


class Paged(Struct, frozen=True):
    """A logger has answered what was asked with `Consult`."""

    logger: NodeId
    page: Page


class Collect(Struct, frozen=True):
    """The store may forget this stream up to `last`, and must remember that it did."""

    stream: StreamId
    last: int


class Compact(Struct, frozen=True):
    """The store may drop what is obsolete for an event that is up to one of these positions: those are safe. What it
    has dropped it tells with `Compacted`."""

    safe: dict[StreamId, int]


class Became(Struct, frozen=True):
    """This node's place in the mesh changed."""

    status: Status


Effect = (
    Send | Deliver | Skip | Acked | Refused | Ready | Numbers | Attached | Detached | Persist | Load | Scan | Paged
    | Collect | Compact | Became
)  # fmt: skip


class StoredStream(Struct, frozen=True):
    """What a store holds of one stream: the seqs on disk, those that are void, and the last one collected."""

    stored: tuple[tuple[int, int], ...] = ()
    void: tuple[tuple[int, int], ...] = ()
    collected: int = -1
    promise: Promise | None = None


class Stored(Struct, frozen=True):
    """What a logger finds on its disk when it starts; empty for a new one."""

    streams: dict[StreamId, StoredStream]
    members: tuple[Member, ...] = ()
    retired: tuple[Retired, ...] = ()
    bookmarks: dict[NodeId, dict[StreamId, int]] = {}
    ages: dict[StreamId, tuple[tuple[float, int], ...]] = {}
    """How many seconds ago each stream was logged up to where, in steps."""
    covered: tuple[NodeId, ...] = ()
    """Loggers whose finished streams are all here."""
