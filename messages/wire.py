"""Every message that members of the mesh exchange.

Each is a small immutable value; `codec` turns it into bytes and back. The names are those of docs/rpbcast.md, where
each message stands under the method that answers it.
"""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from gossamer.messages.event import Event, Head, Time
from gossamer.messages.ids import NAME_LENGTH_MAX, Last, NodeId, Seq, StreamId
from gossamer.messages.packet import BLOB_BYTES_MAX, EVENTS_MAX, Hole, Packet, decode_run, pieces

ENTRIES_MAX = 200_000
"""The longest list in a message; what is longer is sent in several."""
RANGES_MAX = 4_096
PACKETS_MAX = 4_096
SELECTORS_MAX = 64
BY_LENGTH_MAX = 512
SELECTOR_LENGTH_MAX = 64 * 1024
PAGE_BYTES_MAX = 4 * 2**20

Entries = Meta(max_length=ENTRIES_MAX)
Hash = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Sums of hashes, modulo 2**63 so that they fit a signed 64-bit number."""
Version = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Range = tuple[Seq, Seq]
Ranges = Annotated[tuple[Range, ...], Meta(max_length=RANGES_MAX)]
Address = Annotated[str, Meta(max_length=512)]


def _check_ranges(ranges: Ranges) -> None:
    before = -2
    for first, last in ranges:
        if not before + 1 < first <= last:
            raise ValueError("ranges must ascend and neither touch nor overlap")
        before = last


class _Part(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A part of a message."""


class Span(_Part, frozen=True):
    """Some seqs of one stream: ascending ranges that neither touch nor overlap."""

    stream: StreamId
    ranges: Ranges

    def __post_init__(self) -> None:
        _check_ranges(self.ranges)


class Position(_Part, frozen=True):
    """Everything of `stream` up to and including `last`, from `start` on: before that I was not there. `ended`: and I
    know that there will be no more. `passing`: I am a logger, but not of this stream, and have it in memory only."""

    stream: StreamId
    last: Last
    ended: bool = False
    start: Seq = 0
    passing: bool = False


class Beat(_Part, frozen=True):
    """A stream's heartbeat: its owner sent nothing after `last` and is idle (or, `ended`, will never send again)."""

    stream: StreamId
    last: Last
    ended: bool = False


class Member(_Part, frozen=True):
    """What is known of one member. Of two records of one member the fresher counts; at equal freshness, the graver."""

    node: NodeId
    status: Annotated[str, Meta(pattern=r"^(member|disconnected|left|beginning|durable)\Z")]
    freshness: Version
    logger: bool = False
    address: Address = ""


class Retired(_Part, frozen=True):
    """The anonymous streams of one issuer that are retired, by number."""

    issuer: StreamId
    ranges: Ranges

    def __post_init__(self) -> None:
        _check_ranges(self.ranges)


class Stretch(_Part, frozen=True):
    """What a reader of a log is given of a run of one stream's events, `first` to `last`: the bytes of those that match
    as they were published, and of the others what they may make obsolete."""

    number: Version
    """Where in the log it ends."""
    stream: StreamId
    first: Seq
    last: Seq
    kind: Annotated[int, Meta(ge=0, le=2)]
    """Of all of them: 0, no event has a key or a relation; 1, none has a relation; 2, some have."""
    ranges: Annotated[tuple[Range, ...], Meta(max_length=EVENTS_MAX)]
    """Those that match."""
    blob: Annotated[bytes, Meta(max_length=BLOB_BYTES_MAX)]
    heads: Annotated[tuple[tuple[Seq, Head], ...], Meta(max_length=EVENTS_MAX)] = ()
    """Of those that do not match, and have a key or a relation."""
    holes: Annotated[tuple[Hole, ...], Meta(max_length=EVENTS_MAX)] = ()

    def __post_init__(self) -> None:
        if not self.first <= self.last < self.first + EVENTS_MAX:
            raise ValueError(f"a stretch has 1 to {EVENTS_MAX} events")
        _check_ranges(self.ranges)
        if self.ranges and not self.first <= self.ranges[0][0] <= self.ranges[-1][1] <= self.last:
            raise ValueError("ranges beyond their stretch")

    @property
    def count(self) -> int:
        """How many events of it match."""
        return sum(last - first + 1 for first, last in self.ranges)

    def events(self) -> list[Event]:
        """Those that match."""
        return decode_run(self.stream, self.ranges, self.blob)

    def split(self, count: int) -> "tuple[Stretch, Stretch]":
        """Up to that many events that match, and the rest; there must be more of them."""
        ranges: list[Range] = []
        left = count
        for first, last in self.ranges:
            ranges.append((first, min(last, first + left - 1)))
            left -= last - first + 1
            if left <= 0:
                break
        return self._part(self.first, ranges[-1][1]), self._part(ranges[-1][1] + 1, self.last)

    def upto(self, last: int) -> "Stretch":
        """What of it comes up to there."""
        return self if last >= self.last else self._part(self.first, last)

    def beyond(self, last: int) -> "Stretch":
        """What of it comes after that."""
        return self if last < self.first else self._part(last + 1, self.last)

    def _part(self, first: int, last: int) -> "Stretch":
        def within(ranges: Iterable[Range]) -> tuple[Range, ...]:
            return tuple((max(low, first), min(high, last)) for low, high in ranges if low <= last and high >= first)

        ranges = within(self.ranges)
        before = sum(high - low + 1 for low, high in self.ranges if high < first) + sum(
            first - low for low, high in self.ranges if low < first <= high
        )
        count = sum(high - low + 1 for low, high in ranges)
        blob = b"".join(pieces(self.count, self.blob)[before : before + count])
        heads = tuple(each for each in self.heads if first <= each[0] <= last)
        holes = tuple(
            Hole(max(hole.first, first), min(hole.last, last), hole.by, hole.final)
            for hole in self.holes
            if hole.first <= last and hole.last >= first
        )
        return Stretch(self.number, self.stream, first, last, self.kind, ranges, blob, heads, holes)


class _Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A message of the mesh; the tag of each stands in its class line."""


Spans = Annotated[tuple[Span, ...], Entries]
Members = Annotated[tuple[Member, ...], Entries]
Vector = Annotated[tuple[Position, ...], Entries]


# Phase 1 ------------------------------------------------------------------------------------------------------------


class Data(_Message, frozen=True, tag=1):
    """A packet on its first way. `hops` more relays are wanted (strategy `gossip`); 0 for a plain multicast."""

    origin: NodeId
    packet: Packet
    hops: Annotated[int, Meta(ge=0, le=64)] = 0


# Phase 2 ------------------------------------------------------------------------------------------------------------


class Gossip(_Message, frozen=True, tag=2):
    """One round: what I lack (negative gossip), and the roots of my heartbeat and membership signatures."""

    round: Version
    lacks: Spans
    beats_root: Hash
    members_root: Hash


class Echo(_Message, frozen=True, tag=3):
    """The answer to a `Gossip`: what I had and have collected, so that a logger must be asked."""

    round: Version
    collected: Spans = ()


class Request(_Message, frozen=True, tag=4):
    """Negative gossip outside a round: the first request, at once upon detection."""

    lacks: Spans


class Repair(_Message, frozen=True, tag=5):
    """Packets that were asked for."""

    packets: Annotated[tuple[Packet, ...], Meta(max_length=PACKETS_MAX)]


class Collected(_Message, frozen=True, tag=6):
    """I had these and have collected them: ask a logger from now on. Sent only by a member that had them."""

    spans: Spans


# Phase 3 ------------------------------------------------------------------------------------------------------------


class Recover(_Message, frozen=True, tag=7):
    """A request to a logger. `keeps`: of a logger that is to keep these and has lost them, or never had them: who does
    not have them either, and does not wait for them, says that they are gone."""

    lacks: Spans
    keeps: bool = False


class Gone(_Message, frozen=True, tag=8):
    """A logger's answer. `void`: by agreement these will never exist. Otherwise this logger collected them; they are
    gone once every logger says so. Not `collected`: the answer to one that is to keep them, which is that I do not,
    whoever had them; `had`: I received them once."""

    spans: Spans
    void: bool
    collected: bool = True
    had: bool = False


class Busy(_Message, frozen=True, tag=9):
    """A logger is over its service limit and did not answer: ask peers first for a while."""


class Seek(_Message, frozen=True, tag=10):
    """A logger asks everyone for what no logger has. Whoever lacks it as well says so, and from then on takes it from
    a logger only, so that an id that nobody has can be declared void. Not so while its publisher lives (`seal` is
    false): then it is only asked for."""

    lacks: Spans
    seal: bool = True


class Lacking(_Message, frozen=True, tag=11):
    """The answer to `Seek` for what I cannot supply: I never had `spans`; `had` I have had, and collected. It counts
    only with one who knows all members that I know (`members_root`): it is everyone's word that is asked for."""

    members_root: Hash
    spans: Spans
    had: Spans = ()
    sealed: bool = True
    """And I take it from a logger only, from now on."""
    marks: Annotated[tuple[Packet, ...], Meta(max_length=PACKETS_MAX)] = ()
    """Marks of what I had: it was purged for events that are not at hand here. They come with this word, and not in a
    `Repair`, which may wait in a saturated link: without them what is obsolete would be told as gone."""


class GapNotice(_Message, frozen=True, tag=12):
    """The named publisher of a stream has begun anew, at this epoch: what was sent before, up to `last`, will not be
    sent again."""

    stream: StreamId
    last: Seq
    epoch: Version = 0


# Heartbeats, membership, positions ----------------------------------------------------------------------------------


class Idle(_Message, frozen=True, tag=13):
    """Streams that have just gone idle (one multicast; signatures correct what it misses)."""

    beats: Annotated[tuple[Beat, ...], Entries]


class Digest(_Message, frozen=True, tag=14):
    """Sums of one level of a signature tree: `(index, sum)` each. Level 0 is the root alone."""

    table: Annotated[str, Meta(pattern=r"^(beats|members|bookmarks)\Z")]
    level: Annotated[int, Meta(ge=0, le=8)]
    sums: Annotated[tuple[tuple[Seq, Hash], ...], Entries]


class Beats(_Message, frozen=True, tag=15):
    """Heartbeat entries of the buckets that differ; `answer` asks for the other side's."""

    buckets: Annotated[tuple[Seq, ...], Entries]
    beats: Annotated[tuple[Beat, ...], Entries]
    answer: bool


class Roster(_Message, frozen=True, tag=16):
    """Membership entries of the buckets that differ; `answer` asks for the other side's."""

    buckets: Annotated[tuple[Seq, ...], Entries]
    members: Members
    answer: bool


class Active(_Message, frozen=True, tag=17):
    """Positions that are known to exist in streams that are not idle here."""

    vector: Vector


class Retire(_Message, frozen=True, tag=18):
    """Ended streams that everyone has in full: forget them."""

    streams: Annotated[tuple[StreamId, ...], Entries]


class Join(_Message, frozen=True, tag=19):
    """I want in (or, `status` of the record being `left` or `disconnected`, out). `resume`: with the positions a
    logger knows of me."""

    member: Member
    resume: bool = False


class Sponsor(_Message, frozen=True, tag=20):
    """A full member accepts your `Join` of that freshness, at the time that its vector of last seqs tells. `closed` is
    for one that resumes: what it is to take from a logger only, as an earlier life may have said that it lacks it."""

    freshness: Version
    members: Members
    vector: Vector
    retired: Annotated[tuple[Retired, ...], Entries] = ()
    closed: Spans = ()


class Positions(_Message, frozen=True, tag=21):
    """Acknowledgements: I have each stream up to its position (a logger: on disk).

    Only what changed since the last `version` that the receiver confirmed; version 0 wants no confirmation, and an
    empty vector is one: `confirm` is the version of the receiver's that I have taken. `members_root` lets a logger
    apply them only when it knows every member that I know (rpbcast §5.3); `freshness` tells lives of the sender apart.
    `beyond`: a logger that lacks events has these ranges on disk after its first gap. They acknowledge their own events
    to the sender, and nothing before them.
    """

    freshness: Version
    version: Version
    confirm: Version
    members_root: Hash
    vector: Vector
    beyond: Spans = ()


class Checkout(_Message, frozen=True, tag=22):
    """For a named publisher its `holder` asks for the numbers `first` to `last`, at an `epoch`; epoch 0 only asks what
    is promised."""

    stream: StreamId
    epoch: Version
    first: Last
    last: Last
    holder: NodeId


class CheckedOut(_Message, frozen=True, tag=23):
    """A logger's answer to the `Checkout` of that epoch and last number; a grant is on its disk. Between loggers,
    of which one is to leave: what is promised there (`granted`), and the other's answer."""

    stream: StreamId
    epoch: Version
    last: Last
    granted: bool
    promised_epoch: Version
    promised_last: Last
    holder: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)] = ""
    """To whom that is promised, from which number on."""
    floor: Seq = 0


class Return(_Message, frozen=True, tag=31):
    """The holder of a named publisher is done, and gives the numbers after `last` back."""

    stream: StreamId
    epoch: Version
    holder: NodeId
    last: Last


class Recall(_Message, frozen=True, tag=36):
    """A broker asks where a durable subscription is. The answer bears the `question`: one to an earlier question may
    come late, and what it says is over."""

    name: NodeId
    question: Version


class Recalled(_Message, frozen=True, tag=37):
    """A logger's answer: what is on its disk of the bookmark, and whether it knows the subscription at all: it may have
    heard of it, and not where it is (`marked`). `more`: and there is more to come."""

    name: NodeId
    question: Version
    known: bool
    marked: bool
    vector: Vector
    more: bool = False


class Bookmark(_Message, frozen=True, tag=38):
    """A durable subscription, at that epoch, has taken each of these streams up to there: what changed since the last
    version that the receiver has confirmed; `whole`: it has confirmed none, and what it knew before does not count, if
    that is of no later epoch than `after`: the one known at the beginning, or its own, once the client has it. From a
    logger that is to leave: this is on its disk, and was confirmed."""

    name: NodeId
    epoch: Version
    version: Version
    vector: Vector
    whole: bool = False
    after: Version = 0


class Bookmarked(_Message, frozen=True, tag=39):
    """A logger has a bookmark of that version on disk."""

    name: NodeId
    epoch: Version
    version: Version


class WhoOwns(_Message, frozen=True, tag=24):
    """The leader asks whose these streams are, since their publisher's node is dead. `closing`: nobody's, so say how
    far you know each, and take nothing beyond that until I have said where it ends."""

    streams: Annotated[tuple[StreamId, ...], Entries]
    closing: bool


class Ownership(_Message, frozen=True, tag=25):
    """The answer to `WhoOwns`: which are mine, in the life of that freshness, and how far I know the others. It counts
    only with one who knows all members that I know."""

    members_root: Hash
    freshness: Version
    closing: bool
    mine: Annotated[tuple[StreamId, ...], Entries]
    others: Vector


class Abandoned(_Message, frozen=True, tag=30):
    """The clients that published these from here have vanished: perhaps to another member, perhaps for good."""

    streams: Annotated[tuple[StreamId, ...], Entries]


# Semantic reliability -----------------------------------------------------------------------------------------------


class Tell(_Message, frozen=True, tag=26):
    """What do you hold of these? Answered by `Positions` on the spot: f + 1 that hold an event make it safe."""

    streams: Annotated[tuple[StreamId, ...], Entries]


class Window(_Message, frozen=True, tag=27):
    """Back-pressure: I have room for each of these streams up to its position; do not publish beyond it."""

    vector: Vector
    by: Annotated[str, Meta(max_length=BY_LENGTH_MAX)] = ""
    """The consumer that has the least room, for people."""


class Sent(_Message, frozen=True, tag=28):
    """I have sent you so many bytes of events in this session of the link: say so when you have come to here."""

    epoch: Version
    bytes: Version


class Taken(_Message, frozen=True, tag=29):
    """The answer to `Sent`, returned as it is: all that was sent before it has been taken in, or was lost."""

    epoch: Version
    bytes: Version


# Reading a log ------------------------------------------------------------------------------------------------------


class Beginning(_Part, frozen=True):
    """Where to read from, of those who have no cursor in this log: behind these positions, and what else was logged
    since then. `last_per_key`: the newest event of each key first."""

    positions: Annotated[dict[StreamId, Last], Entries]
    since_ns: Time = 0
    last_per_key: bool = False
    had: bool = False
    """Streams that are over, and not named, were had."""


class Read(_Message, frozen=True, tag=40):
    """A broker asks a logger for the next page of its log, for subscriptions that are not live: what any of the
    selectors matches, and was published not before `published_ns`. `after` is a cursor of this logger's."""

    number: Version
    group: Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
    selectors: Annotated[
        tuple[Annotated[str, Meta(max_length=SELECTOR_LENGTH_MAX)], ...], Meta(max_length=SELECTORS_MAX)
    ]
    after: Version = 0
    beginning: Beginning | None = None
    bytes_max: Annotated[int, Meta(ge=0, le=PAGE_BYTES_MAX)] = 2**20
    published_ns: Time = 0
    newest_upto: Version = 0
    """Up to this number only the newest event of each key is wanted."""
    lacks: Spans = ()
    """What the reader waits for: has it been passed already, or will it never come?"""
    loggers: Annotated[tuple[NodeId, ...], Entries] = ()
    """Those that the reader reads together, if each keeps a part: what it is to get from another is left out."""


class Page(_Message, frozen=True, tag=41):
    """The answer to the `Read` of that number. `cursor` is where to read on; `end`: there was no more."""

    number: Version
    cursor: Version
    end: bool
    stretches: Annotated[tuple[Stretch, ...], Entries] = ()
    floor: Version = 0
    """Of streams that the reader has no position of, it wants what is above this number only."""
    passed: Spans = ()
    """What the reader lacks and this log has before the cursor it gave."""
    void: Spans = ()
    gone: Spans = ()
    """What this logger has collected, or cannot read any more."""
    refusal: Annotated[str, Meta(max_length=1_000)] = ""
    uncovered: Annotated[tuple[NodeId, ...], Entries] = ()
    """Loggers that may hold finished streams which this logger has not copied yet."""


# Total order --------------------------------------------------------------------------------------------------------


class Agree(_Message, frozen=True, tag=42):
    """Between those who agree on the total order: what one life of a member says to another, as a frame of
    protocol/groups/wire.py."""

    member: NodeId
    frame: bytes


class Holds(_Message, frozen=True, tag=43):
    """To who decides on the total order: I have each of these streams up to there, and lack a decision on it."""

    marks: Annotated[tuple[tuple[StreamId, Last], ...], Entries]


class Kept(_Message, frozen=True, tag=44):
    """Of these streams, which are over, I have this on disk. `asks`: you are to keep them, too: tell me when you have
    it."""

    spans: Spans
    asks: bool = False


class Covers(_Message, frozen=True, tag=45):
    """`asks`: do I hold all finished streams that you hold? Otherwise: you do. There is no answer for "not yet"."""

    asks: bool


class Vouch(_Message, frozen=True, tag=46):
    """These events are on my disk, though some may lie behind a hole. `asks`: which of these are on yours?"""

    spans: Spans
    asks: bool = False


Message = (
    Data | Gossip | Echo | Request | Repair | Collected | Recover | Gone | Busy | Seek | Lacking | GapNotice
    | Idle | Digest | Beats | Roster | Active | Retire | Join | Sponsor | Positions | Checkout | CheckedOut
    | Return | Recall | Recalled | Bookmark | Bookmarked | WhoOwns | Ownership | Abandoned
    | Tell | Window | Sent | Taken | Read | Page | Agree | Holds | Kept | Covers | Vouch
)  # fmt: skip
