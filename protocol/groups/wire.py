"""What members of a group exchange, and how it becomes bytes: a version byte, then msgpack.

The members of a view are numbered by their place in it, so that what is known of each is a list of numbers. Peers'
bytes are never trusted: `decode` raises `PeerError` and nothing else, and each machine checks what only it can know
(how long a list must be, who may say what) before it touches its state.
"""

from typing import Annotated

from msgspec import Meta, Struct

from gossamer.messages.event import Content
from gossamer.messages.frames import Frames
from gossamer.messages.ids import Last, NodeId, Seq

VERSION = 1
MEMBERS_MAX = 256
BATCH_MAX = 65_536
STATE_BYTES_MAX = 8 * 2**20

Place = Annotated[int, Meta(ge=0, lt=MEMBERS_MAX)]
"""Which member, by its place in the view."""
Number = Annotated[int, Meta(ge=0, le=2**62)]
Since = Annotated[int, Meta(ge=-1, le=2**62)]
"""A number, or -1 for never."""
Marks = Annotated[tuple[Last, ...], Meta(max_length=MEMBERS_MAX)]
"""For each member, the last seq of a prefix of its messages."""
Numbers = Annotated[tuple[Since, ...], Meta(max_length=MEMBERS_MAX)]
Places = Annotated[tuple[Place, ...], Meta(max_length=MEMBERS_MAX)]
Nodes = Annotated[tuple[NodeId, ...], Meta(max_length=MEMBERS_MAX)]


class _Part(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A part of a message."""


class _Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A message; the tag of each stands in its class line."""


class Cast(_Part, frozen=True):
    """One message that was multicast: what it says, and for causal order what it comes after."""

    content: Content
    after: Annotated[tuple[tuple[Place, Seq], ...], Meta(max_length=MEMBERS_MAX)] = ()


CastList = Annotated[tuple[Cast, ...], Meta(max_length=BATCH_MAX)]


class Run(_Part, frozen=True):
    """Messages of one member, without a gap."""

    origin: Place
    first: Seq
    casts: CastList


class Span(_Part, frozen=True):
    """The seqs `first` to `last` of one member's messages."""

    origin: Place
    first: Seq
    last: Seq


Runs = Annotated[tuple[Run, ...], Meta(max_length=BATCH_MAX)]
Spans = Annotated[tuple[Span, ...], Meta(max_length=BATCH_MAX)]


# urgc and urcgc -----------------------------------------------------------------------------------------------------


class Roll(_Part, frozen=True):
    """The group view that circulates: who is in, and who was silent for how many subruns."""

    subrun: Since = -1
    """Whose coordinator wrote it."""
    attempts: Numbers = ()
    expelled: Numbers = ()
    """For each member, the subrun that expelled it; -1: it is in."""
    pending: Since = -1
    """urgc: a subrun whose decision, if there was one, this coordinator could not know of; -1: it knows all."""
    busy: bool = False
    """There is something to do: the next subrun begins at once."""


class Decision(_Part, frozen=True):
    """Which messages come next: for each member, those up to a mark, one member after the other."""

    spans: Spans


class Log(_Part, frozen=True):
    """The decisions from number `base` on, as the coordinator of subrun `ballot` left them."""

    ballot: Since = -1
    base: Number = 0
    tail: Annotated[tuple[Decision, ...], Meta(max_length=BATCH_MAX)] = ()
    cursors: Marks = ()
    """How far each member's messages are ordered by all of it."""

    @property
    def total(self) -> int:
        return self.base + len(self.tail)


class Casts(_Message, frozen=True, tag=1):
    """Messages on their way: a member's own, or recovered ones that were asked for in `subrun`."""

    runs: Runs
    subrun: Since = -1
    accepted: Marks = ()
    """urcgc: how far its sender has accepted everyone's messages, if it says so."""


class Request(_Message, frozen=True, tag=2):
    """urgc, to the coordinator: the last group view I have, the decisions, and the messages."""

    subrun: Number
    roll: Roll
    log: Log
    safe: Number
    safe_ballot: Since
    held: Marks
    done: Number
    """How many decisions are delivered here."""


class Ordered(_Message, frozen=True, tag=3):
    """urgc, from the coordinator: the group view, and a decision; without `log` it is a Hold."""

    roll: Roll
    safe: Number
    safe_ballot: Since
    marks: Marks
    """How far each member's messages are held by enough members to be ordered."""
    holders: Places
    """For each member, who holds most of its messages."""
    best: Place
    """Who has delivered most."""
    log: Log | None = None


class Recover(_Message, frozen=True, tag=4):
    """To the most updated: the safe decisions from this number on, and these messages."""

    subrun: Number
    first: Since
    spans: Spans = ()


class Recovered(_Message, frozen=True, tag=5):
    """Decisions that are safe, from `first` on."""

    first: Number
    decisions: Annotated[tuple[Decision, ...], Meta(max_length=BATCH_MAX)]


class Cleaning(_Part, frozen=True):
    """How far the members that were counted since the last cleaning have accepted everyone's messages."""

    lowest: Marks
    counted: Annotated[tuple[bool, ...], Meta(max_length=MEMBERS_MAX)]


class Report(_Message, frozen=True, tag=6):
    """urcgc, to the coordinator: the last it has heard, and how far this member has accepted everyone's messages."""

    subrun: Number
    roll: Roll
    cuts: Marks
    cleaning: Cleaning
    accepted: Marks


class Agreed(_Message, frozen=True, tag=7):
    """urcgc, from the coordinator: what it knows of all."""

    roll: Roll
    stable: Marks
    """Accepted by every active member: history may forget it."""
    safe: Marks
    """Accepted by more than can fail."""
    most: Marks
    holders: Places
    """How far the most updated has accepted each member's messages, and who that is."""
    cuts: Marks
    """For who is expelled, the last message that anybody will ever accept; SEQ_MAX: not known, or still in."""
    cleaning: Cleaning


# Consensus and views ------------------------------------------------------------------------------------------------


class Value(_Part, frozen=True):
    """What consensus is about: deliver everyone's messages up to these marks, and then perhaps install a view."""

    marks: Marks
    next: Nodes | None = None
    joined: Nodes = ()


class Status(_Message, frozen=True, tag=10):
    """A heartbeat: alive, in this view, with these messages and so many decisions."""

    view: Number
    held: Marks
    decided: Number


class Data(_Message, frozen=True, tag=11):
    """Messages of a view, without a gap; those that are None were purged: something that obsoletes each is safe."""

    view: Number
    origin: Place
    first: Seq
    casts: Annotated[tuple[Cast | None, ...], Meta(max_length=BATCH_MAX)]


class Lack(_Message, frozen=True, tag=12):
    """A member asks for messages that it needs and does not have."""

    view: Number
    spans: Spans


class Pred(_Message, frozen=True, tag=14):
    """The view is to change; a member's part of the flush: what it holds, and who, as it knows, leaves and joins."""

    view: Number
    held: Marks
    leave: Nodes = ()
    join: Nodes = ()


class Estimate(_Message, frozen=True, tag=15):
    """Phase 1 of a round: what I would decide, and the round in which I adopted it."""

    view: Number
    instance: Number
    round: Number
    adopted: Since
    value: Value


class Propose(_Message, frozen=True, tag=16):
    """Phase 2: the coordinator's proposal."""

    view: Number
    instance: Number
    round: Number
    value: Value


class Answer(_Message, frozen=True, tag=17):
    """Phase 3: adopted, or the coordinator is suspected."""

    view: Number
    instance: Number
    round: Number
    adopted: bool


class Decided(_Message, frozen=True, tag=18):
    """Phase 4: it is decided."""

    view: Number
    instance: Number
    value: Value


class Hello(_Message, frozen=True, tag=20):
    """An outsider asks to be let in; `founders` are the addresses of the group it would found with others."""

    founders: Nodes = ()


class Welcome(_Message, frozen=True, tag=21):
    """To who is let in: the view it begins with, where everyone's messages go on, and the application's state."""

    view: Number
    members: Nodes
    starts: Annotated[tuple[Seq, ...], Meta(max_length=MEMBERS_MAX)] = ()
    state: Annotated[bytes, Meta(max_length=STATE_BYTES_MAX)] = b""


class Excluded(_Message, frozen=True, tag=22):
    """To who is not in the view any more: this view went on without it."""

    view: Number


Message = (
    Casts | Request | Ordered | Recover | Recovered | Report | Agreed
    | Status | Data | Lack | Pred | Estimate | Propose | Answer | Decided
    | Hello | Welcome | Excluded
)  # fmt: skip

_frames: Frames[Message] = Frames("group protocol", VERSION, Message)
encode, decode = _frames.encode, _frames.decode
