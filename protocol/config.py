"""What can be tuned, each with its trade-off. Times in seconds, sizes in bytes, the unit last in the name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NodeId

Order = Literal["fifo", "causal", "total"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, slots=True)
class Group:
    """How a group treats what is too much (row S10), and in which order its events are handed out. All members of a
    mesh are to be told the same. Both switches on is the papers' model; purging off and back-pressure on is
    conventional reliability."""

    purging: bool = True
    """Full buffers drop what is obsolete."""
    backpressure: bool = False
    """Publishers wait for the slowest live subscription, instead of it falling behind (docs/semantics.md)."""
    backpressure_max_s: float = 30.0
    """Publishers do not wait for a subscription that has no room and took nothing for so long. Short frees publishers
    sooner of a consumer that is stuck; longer than a consumer's longest pause keeps it from falling behind."""
    order: Order = "fifo"
    """`fifo`: each publisher's events in its order. `causal`: and after what their publisher had been delivered.
    `total`: the same order at every broker, agreed on by those of `agreed_by`; it costs some message delays."""

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise UsageError(f"order is {', '.join(ORDERS[:-1])} or {ORDERS[-1]}, not {self.order!r}")
        if not 0 < self.backpressure_max_s < float("inf"):
            raise UsageError(f"backpressure_max_s must be more than 0 and finite, not {self.backpressure_max_s}")


DEFAULT = Group()


@dataclass(frozen=True, slots=True)
class Config:
    """One node's settings. The defaults are the thesis's (Table 7.1) where it names one."""

    # Phase 1 --------------------------------------------------------------------------------------------------------
    strategy: Literal["multicast", "gossip"] = "multicast"
    """`multicast` sends to every member: right for tens. `gossip` pushes to `fanout` members for `hops` hops: for
    hundreds, at the price of duplicates (fanout × members copies) and a latency of `hops` links."""
    fanout: int = 4
    hops: int = 6
    """fanout ** hops should exceed the number of members; what is not reached is repaired."""

    # Phase 2 --------------------------------------------------------------------------------------------------------
    round_interval_s: float = 0.25
    """The gossip period. Shorter repairs sooner and costs more messages."""
    round_interval_max_s: float = 4.0
    """With nothing missing and signatures agreeing the period doubles up to this (rpbcast §8: variable rates)."""
    gclimit_rounds: int = 10
    """How long a packet stays in the gossip buffer, and how many unanswered rounds until a logger is asked.
    Must cover convergence: docs/rpbcast.md."""
    reorder_grace_s: float = 0.01
    """A gap younger than this is taken for reordering and not requested yet."""
    gossip_buffer_bytes_max: int = 64 * 2**20
    repair_bytes_max: int = 2**20
    """How much one answer may bring; the rest is asked for at once, from somebody else."""
    selection: Literal["uniform", "linear", "quadratic"] = "linear"
    """Bias towards near members by round-trip time (rpbcast §4.2): less traffic through the middle, more latency."""
    remulticast_requesters: int = 3
    """So many different requesters of one packet within a round: many lack it, send it to all. 0 switches it off."""

    # Phase 3 --------------------------------------------------------------------------------------------------------
    repair_first: Literal["gossip", "logger", "auto"] = "gossip"
    """The order of repair. `gossip` asks peers and spares the loggers (rpbcast §2.2); `logger` asks a
    logger; `auto` asks a logger until one is congested, then peers (§8). Figures: docs/decisions/loggers-first.md."""
    service_limit_per_s: float = 1_000.0
    """Repair requests a logger answers a second; beyond that it says it is busy."""
    busy_backoff_s: float = 2.0
    """How long `auto` stays gossip-first after a logger said it is busy."""
    seek_after_rounds: int = 12
    """A logger that lacks something for so long asks everybody, and closes the hole if nobody has it."""
    loggers_min: int = 1
    """On so many loggers' disks an event is *logged*."""
    replicas: int | None = None
    """So many loggers keep each stream (protocol/placement.py); None: all keep all. The same for all members. Fewer
    spread the load, and an event outlives the loss of `replicas - 1` disks at most."""
    faults: int | None = None
    """f: held by f + 1 members an event is *safe*. None: a minority of the members known."""
    retain_s: float = 24 * 3600.0
    """A logger keeps what is stable at least this long."""
    expire_s: float = 7 * 24 * 3600.0
    """A logger keeps nothing longer than this, whoever lacks it; members silent for so long are expelled."""
    log_bytes_max: int | None = None
    """A logger with more bytes of packets than this sheds the oldest: what is stable first, then whatever it is."""
    compact: bool = False
    """A logger also drops what is obsolete for something that is logged: the state stays, its history goes."""

    # Senders --------------------------------------------------------------------------------------------------------
    resend_s: float = 0.5
    """What no logger acknowledged is sent to the loggers again after this, doubling up to 16 times it."""
    send_buffer_bytes_max: int = 64 * 2**20
    idle_after_s: float = 0.5
    """A stream that sent nothing for so long announces itself idle, once."""
    block_seqs: int = 10_000
    """How many sequence numbers a named publisher checks out at a time: a crash may waste so many."""

    # Semantic reliability -------------------------------------------------------------------------------------------
    groups: Mapping[str, Group] = field(default_factory=dict)
    """Each group that is not like the default."""
    agreed_by: tuple[NodeId, ...] = ()
    """The members, brokers or loggers, that begin to agree on the order of groups with `order="total"`; it begins when
    all of them are there. Other brokers are let in later. Any minority may fail. None: each for itself."""
    link_window_bytes: int | None = 2**20
    """How many bytes of events may be under way to a peer that has not taken them in; None: any number. Beyond that
    they wait in the link's purging buffer. Small keeps what waits where it can be purged, large fills long links."""
    link_bandwidth_bps: float | None = None
    """Admission by a configured rate (bits a second) to each peer, instead of or besides the window."""
    link_buffer_events_max: int = 16_384
    link_buffer_bytes_max: int = 16 * 2**20
    link_policy: Literal["eager", "lazy", "random", "drop-new"] = "eager"
    """What a full link buffer drops: what is obsolete, at once (eager) or when there is no room (lazy), then at random;
    or just at random, or the newest. What is dropped without being obsolete is repaired later."""
    link_patience_s: float = 1.0
    """With `eager` and a window: nothing is purged before something has waited so long. A link that is behind for a
    moment loses nothing that way; one that stays behind is so by little more than this. 0: at once."""
    purge_above_bytes: int = 32 * 2**20
    """A gossip or send buffer with more than this is thinned, each round, by what is obsolete for something safe."""
    purge_send_buffer: bool = False
    """Whether that also holds for a publisher's own unlogged events: less to resend, at the price of holes in the
    log."""
    window_events: int = 8
    """With back-pressure: what a publisher may send before a member has told its room."""
    window_patience_s: float = 5.0
    """With back-pressure: a member that has not been heard for so long holds up nobody any more."""

    # Receivers and membership ---------------------------------------------------------------------------------------
    hold_bytes_max: int = 64 * 2**20
    """Packets held back for order behind a gap; beyond that they are left to be repaired later."""
    positions_rounds: int = 4
    """Acknowledgements go to the loggers every so many rounds."""
    sponsors: int = 3
    """A join is accepted by so many members (all, if there are fewer), or by one logger: k - 1 may fail."""

    def __post_init__(self) -> None:
        for name, ok, rule in (
            ("round_interval_s", self.round_interval_s > 0, "> 0"),
            ("round_interval_max_s", self.round_interval_max_s >= self.round_interval_s, ">= round_interval_s"),
            ("gclimit_rounds", self.gclimit_rounds >= 1, ">= 1"),
            ("reorder_grace_s", self.reorder_grace_s >= 0, ">= 0"),
            ("fanout", self.fanout >= 1, ">= 1"),
            ("hops", 1 <= self.hops <= 64, "1 to 64"),
            ("loggers_min", self.loggers_min >= 1, ">= 1"),
            ("replicas", self.replicas is None or self.replicas >= 1, ">= 1, or None"),
            (
                "loggers_min",
                self.replicas is None or self.loggers_min <= self.replicas,
                f"<= replicas ({self.replicas})",
            ),
            ("faults", self.faults is None or self.faults >= 0, ">= 0, or None"),
            ("sponsors", self.sponsors >= 1, ">= 1"),
            ("positions_rounds", self.positions_rounds >= 1, ">= 1"),
            ("block_seqs", self.block_seqs >= 1, ">= 1"),
            ("service_limit_per_s", self.service_limit_per_s > 0, "> 0"),
            ("resend_s", self.resend_s > 0, "> 0"),
            ("idle_after_s", self.idle_after_s > 0, "> 0"),
            ("link_window_bytes", self.link_window_bytes is None or self.link_window_bytes > 0, "> 0, or None"),
            ("link_bandwidth_bps", self.link_bandwidth_bps is None or self.link_bandwidth_bps > 0, "> 0, or None"),
            ("link_buffer_events_max", self.link_buffer_events_max >= 1, ">= 1"),
            ("link_buffer_bytes_max", self.link_buffer_bytes_max >= 1, ">= 1"),
            ("link_patience_s", self.link_patience_s >= 0, ">= 0"),
            ("window_events", self.window_events >= 1, ">= 1"),
            ("window_patience_s", self.window_patience_s > 0, "> 0"),
            ("expire_s", self.expire_s >= self.retain_s, ">= retain_s"),
            ("log_bytes_max", self.log_bytes_max is None or self.log_bytes_max > 0, "> 0, or None"),
        ):
            if not ok:
                raise UsageError(f"{name} must be {rule}, not {getattr(self, name)}")

    def group(self, name: str) -> Group:
        return self.groups.get(name, DEFAULT)
