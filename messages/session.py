"""What a client and its broker say to each other.

A client is a sender in rpbcast's sense: it numbers its own stream, and keeps what it has published until it is logged.
Its broker may die at any moment; then it says hello to another, names its stream, and sends again what was not
acknowledged. Every packet bears its numbers, so whoever has it already takes no notice of it.

    client                                    broker
    Hello(client, epoch, stream, following)   Welcome(stream, limits)        or Refusal
    … (publisher, holder)                     Numbers(first, last)           those of a named publisher, and more later
    Publish(packet)                           Acks(sent, logged, safe)       or Resend(first)
                                              Allowance(last)                with back-pressure, when there is no room
    Subscribe(sub, selector, …)               Subscribed(sub)                or Refusal(sub)
    Taken(sub, positions)                                                    of a durable subscription
    Credit(bytes, grants)                     Run, Single, Items, …          as far as the credit goes
                                              Began                          with `last_per_key`
    Ping(number)                              Pong(number), and the Acks that are owed
    Goodbye                                   Farewell(reason)

Deliveries come in two shapes. What arrives at a subscription that keeps up is passed on as a `Run`: slices of the
publisher's own bytes, encoded once for everybody who gets the same (a `Single`, if it is one event). What had to wait
in a queue comes as `Items`: events of any streams, with the notices that belong between them.

Like the messages of the mesh (messages/wire.py) these are a version byte and msgpack, and never trusted: whatever is
wrong with a frame, `decode` raises `PeerError` and nothing else.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Event, Head, Key, Time
from gossamer.messages.ids import SEQ_MAX, EventId, Last, NodeId, Seq, StreamId
from gossamer.messages.packet import BLOB_BYTES_MAX, EVENTS_MAX, Packet
from gossamer.messages.received import Received, decode_received, identify

SESSION_VERSION = 5
FRAME_BYTES_MAX = 16 * 2**20
SELECTOR_LENGTH_MAX = 64 * 1024
BUFFER_EVENTS_MAX = 1_000_000
SUBS_MAX = 2**31 - 1
ITEMS_MAX = 65_536
POSITIONS_MAX = 100_000
INTERESTS_MAX = 1_000
BY_LENGTH_MAX = 1_024

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Sub = Annotated[int, Meta(ge=0, le=SUBS_MAX)]
"""A subscription, as its client numbers them."""
Name = Annotated[str, Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=SELECTOR_LENGTH_MAX)]
Policy = Literal["auto", "eager", "lazy", "random", "none"]
"""When a broker purges obsolete events of a subscription. `auto` is the rule for live subscriptions: the SDK asks for
`none` where an application left `auto` to a durable subscription or a replay."""
Code = Literal["usage", "selector", "limit", "version", "authorization", "superseded", "closed", "stream"]
Departure = tuple[Key | None, EventId, bool]
"""Something that was shown has left: its key, its id, and whether the key was its group's."""

M = TypeVar("M")

_encoder = msgspec.msgpack.Encoder()


class _Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A message of a session; the tag of each stands in its class line."""


# From the client ------------------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag=1):
    """The first message of a session. `epoch` counts the sessions of one client: a later one ends those before it.
    `stream` is the one it has from an earlier session, and `following` the first number of it that may come now."""

    client: Annotated[str, Meta(min_length=1, max_length=100)]
    epoch: Count
    group: Name
    publisher: Name | None = None
    stream: StreamId | None = None
    following: Seq = 0
    holder: Annotated[str, Meta(max_length=100)] = ""
    """Of a named publisher: who has it, whatever client and session that is. With a `stream` it has been so before, and
    goes on only if nobody else has taken the name."""


class Publish(_Message, frozen=True, tag=2):
    """A packet of the client's own stream. If it is `patient`, nobody waits for the answer: that may come a little
    later, and be one for several."""

    packet: Packet
    patient: bool = False


class Start(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Where a subscription begins, if it is not with what comes next: behind these positions, and of other streams with
    what came since a time (by the clocks of brokers and loggers; 0: from their beginning)."""

    positions: Annotated[dict[StreamId, Last], Meta(max_length=POSITIONS_MAX)] = {}
    since_ns: Time = 0
    published_ns: Time = 0
    """Nothing that was published before this is wanted."""
    last_per_key: bool = False
    """First the newest event of each key, and before that nothing."""
    shown: Annotated[tuple[tuple[EventId, Head], ...], Meta(max_length=POSITIONS_MAX)] = ()
    """What it was last shown of each key, by another broker."""


class Subscribe(_Message, frozen=True, tag=3):
    """`credit` is how many events it takes at first; see `Credit`. A `sub` that is there gets the new selector, and
    keeps all else. With `start` it begins there, and not with what comes next.

    A `durable` one goes on where it is, and begins there only if there is none of that name yet. Whoever subscribes
    takes it over from other holders; one that has it (`held`) goes on only if none has."""

    sub: Sub
    selector: Text
    credit: Count
    buffer: Annotated[int, Meta(ge=1, le=BUFFER_EVENTS_MAX)] = 1_024
    policy: Policy = "auto"
    order: Literal["fifo", "none"] = "fifo"
    start: Start | None = None
    durable: Name | None = None
    holder: Count = 0
    held: bool = False


class Unsubscribe(_Message, frozen=True, tag=4):
    """`forget`: a durable one is not wanted any more, by anybody."""

    sub: Sub
    forget: bool = False


class Taken(_Message, frozen=True, tag=8):
    """The application has done with all that a durable subscription was sent of these streams, up to there."""

    sub: Sub
    positions: Annotated[dict[StreamId, Last], Meta(max_length=POSITIONS_MAX)]


class Credit(_Message, frozen=True, tag=5):
    """The client has taken so many bytes of deliveries in this session, and takes of each of these subscriptions so
    many events in all: totals, so that nothing is lost or counted twice."""

    bytes: Count
    grants: Annotated[tuple[tuple[Sub, Count], ...], Meta(max_length=ITEMS_MAX)] = ()


class Ping(_Message, frozen=True, tag=6):
    """Is the broker there? And what is it owing: somebody may wait for that now."""

    number: Count


class Goodbye(_Message, frozen=True, tag=7):
    """The client is done, and so is its stream."""


# From the broker ------------------------------------------------------------------------------------------------------


class Interest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Of the events of the group `of`, those that match are published in the group `name` (matching/routing.py)."""

    name: Name
    of: Name
    selector: Text


class Welcome(_Message, frozen=True, tag=32):
    """A session has begun. `stream` is the client's to publish on, from `first` on and up to the seq `last` if they are
    told; `node` is the broker."""

    epoch: Count
    node: NodeId
    stream: StreamId
    window_bytes: Count
    message_bytes_max: Count
    silence_s: Annotated[float, Meta(ge=0.001, le=3_600)]
    """Whoever says nothing for so long is taken for gone."""
    first: Seq = 0
    last: Seq = SEQ_MAX
    order: Literal["fifo", "causal", "total"] = "fifo"
    """That of the client's group: in a causal one its events are to name what they come after."""
    interests: Annotated[tuple[Interest, ...], Meta(max_length=INTERESTS_MAX)] = ()
    """The groups by interest that this broker was told, in their order."""
    purge_patience_s: Annotated[float, Meta(ge=0, le=3_600)] = 0.05
    """How long an event may wait for a consumer before `policy="auto"` purges."""
    purging: bool = True
    """Whether queues of the client's group leave out obsolete events."""
    backpressure: bool = False
    """Whether publishers of the client's group wait for its slowest subscription."""


class Acks(_Message, frozen=True, tag=33):
    """How far the client's stream is with the broker, on enough loggers' disks, and held by enough members."""

    sent: Last
    logged: Last
    safe: Last


class Resend(_Message, frozen=True, tag=34):
    """What was sent from `first` on was not taken: send it (again) now."""

    first: Seq


class Allowance(_Message, frozen=True, tag=45):
    """Back-pressure: send nothing beyond `last`, for which there is no room; another `Allowance` says when there is."""

    last: Last
    by: Annotated[str, Meta(max_length=BY_LENGTH_MAX)] = ""
    """The subscription that has no room; empty if there is enough room for now."""


class Subscribed(_Message, frozen=True, tag=35):
    sub: Sub


class Unsubscribed(_Message, frozen=True, tag=44):
    """It is over; of a durable one the loggers know where it was left."""

    sub: Sub


class Refusal(_Message, frozen=True, tag=36):
    """The one at fault is told what is wrong: with a subscription, or (None) with the session, which is then over."""

    code: Code
    reason: Annotated[str, Meta(max_length=4_096)]
    sub: Sub | None = None
    position: Count = 0


class Run(_Message, frozen=True, tag=37):
    """Events of one stream, as their publisher encoded them, for some subscriptions: seqs by ranges, bytes in a row."""

    subs: Annotated[tuple[Sub, ...], Meta(max_length=ITEMS_MAX)]
    stream: StreamId
    ranges: Annotated[tuple[tuple[Seq, Seq], ...], Meta(min_length=1, max_length=EVENTS_MAX)]
    blob: Annotated[bytes, Meta(max_length=BLOB_BYTES_MAX)]
    loose: bool = False
    """None of them has a key: whoever takes them need not look whether one replaces another."""

    @property
    def count(self) -> int:
        """How many they are; `PeerError` if they are too many."""
        ((first, last), *more) = self.ranges
        count = max(0, last - first + 1)
        for first, last in more:
            count += max(0, last - first + 1)
        if count > EVENTS_MAX:
            raise PeerError(f"a run of more than {EVENTS_MAX} events")
        return count

    def events(self) -> list[Event]:
        """Decode them all in one call; what each says only when it is looked at."""
        return decode_received(self.stream, self.ranges, self.blob)


class Single(_Message, frozen=True, tag=52):
    """A run of one event, which is most often all that there is: decoded with the message, in one call."""

    subs: Annotated[tuple[Sub, ...], Meta(max_length=ITEMS_MAX)]
    stream: StreamId
    seq: Seq
    loose: bool
    event: Received
    """Whoever encodes it has its bytes: `msgspec.Raw`."""

    def identified(self) -> Event:
        """The event with its id."""
        return identify(self.event, self.stream, self.seq)


class Notice(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What has left, before the event at `place`, or together with it; and for what, if it is not that event."""

    place: Annotated[int, Meta(ge=0, le=ITEMS_MAX)]
    together: bool
    left: Annotated[tuple[Departure, ...], Meta(max_length=ITEMS_MAX)]
    by: tuple[EventId, Head] | None = None
    replaced: Annotated[tuple[Departure, ...], Meta(max_length=ITEMS_MAX)] = ()
    """What the event itself tells to have left: a notice only if it is purged for something that does not."""


class Items(_Message, frozen=True, tag=38):
    """What waited in a subscription's queue, in order."""

    sub: Sub
    events: Annotated[list[Event], Meta(max_length=ITEMS_MAX)]
    notices: Annotated[tuple[Notice, ...], Meta(max_length=ITEMS_MAX)] = ()


class Gap(_Message, frozen=True, tag=39):
    """Some of these matched, or may have, and will not come: why."""

    sub: Sub
    stream: StreamId
    first: Seq
    last: Seq
    reason: Annotated[str, Meta(max_length=200)]


class Counts(_Message, frozen=True, tag=40):
    """The events that a subscription was not sent: totals of the session, up to a position (protocol/account.py).

    With `positions`, they count from now on, and these are the positions. Otherwise they count with the next frame of
    events, or `Reached`, of the subscription: a connection that breaks between the two leaves both out.
    """

    sub: Sub
    obsoleted: Count
    lost: Count
    unseen: Count = 0
    positions: Annotated[dict[StreamId, Last], Meta(max_length=POSITIONS_MAX)] | None = None


class Numbers(_Message, frozen=True, tag=43):
    """A named publisher may use the numbers up to `last` from now on."""

    last: Seq


class Reached(_Message, frozen=True, tag=50):
    """These subscriptions were sent all that the broker had at that time, of these streams up to here: what does not
    match has been passed as well, and need not be looked at again by whoever goes on from here."""

    subs: Annotated[tuple[Sub, ...], Meta(max_length=ITEMS_MAX)]
    time_ns: Time
    positions: Annotated[dict[StreamId, Last], Meta(max_length=POSITIONS_MAX)]


class Began(_Message, frozen=True, tag=51):
    """A subscription with `last_per_key`: what was newest up to these positions comes first, and then all that
    follows, of other streams what came since that time. Another broker is to go on from the same beginning."""

    sub: Sub
    time_ns: Time
    positions: Annotated[dict[StreamId, Last], Meta(max_length=POSITIONS_MAX)]


class Pong(_Message, frozen=True, tag=41):
    number: Count


class Farewell(_Message, frozen=True, tag=42):
    """The broker is about to end, or is cut off from the mesh: find another."""

    reason: Annotated[str, Meta(max_length=4_096)]
    stays: bool = False
    """The broker goes on: a client that knows no other broker had better stay."""


FromClient = Hello | Publish | Subscribe | Unsubscribe | Taken | Credit | Ping | Goodbye
FromBroker = (
    Welcome | Acks | Resend | Allowance | Subscribed | Unsubscribed | Refusal | Run | Single | Items | Gap | Counts
    | Began | Reached | Numbers | Pong | Farewell
)  # fmt: skip

_version = bytes([SESSION_VERSION])
_from_client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient)
_from_broker: msgspec.msgpack.Decoder[FromBroker] = msgspec.msgpack.Decoder(FromBroker)


def encode(message: FromClient | FromBroker) -> bytes:
    """One frame; encode once and send the same bytes to everyone."""
    frame = bytearray(_version)
    _encoder.encode_into(message, frame, 1)
    if len(frame) > FRAME_BYTES_MAX:
        raise UsageError(f"a {type(message).__name__} of {len(frame)} bytes is over the limit of {FRAME_BYTES_MAX}")
    return bytes(frame)


def _decode(decoder: "msgspec.msgpack.Decoder[M]", frame: bytes) -> M:
    if not frame or len(frame) > FRAME_BYTES_MAX:
        raise PeerError(f"a frame of {len(frame)} bytes: 1 to {FRAME_BYTES_MAX} it may have")
    if frame[0] != SESSION_VERSION:
        raise PeerError(f"session version {frame[0]}, this is {SESSION_VERSION}")
    try:
        return decoder.decode(memoryview(frame)[1:])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PeerError(f"malformed frame: {error}") from None


decode_from_client: Callable[[bytes], FromClient] = partial(_decode, _from_client)
"""What a client said, or `PeerError`."""
decode_from_broker: Callable[[bytes], FromBroker] = partial(_decode, _from_broker)
"""What a broker said, or `PeerError`."""
