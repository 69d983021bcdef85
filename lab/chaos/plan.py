"""Faults of a run, drawn from its seed: the same seed gives the same faults in the same order."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

BROKERS = ("b1", "b2", "b3")
LOGGERS = ("l1", "l2")
MEMBERS = (*BROKERS, *LOGGERS)
RESTARTABLE = ("durable", "named", "spooled")
"""Clients with a name, which go on after a crash."""

JUMPS_S = (-86_400, -3_600, -30, 30, 3_600, 86_400, 8 * 86_400)
"""Wall-clock jumps: the last one is beyond the time after which loggers delete events (`--expire`)."""

LONG = 2.5
"""Partitions and restarts with a wrong clock last longer: members and clients need time to notice."""
PAUSABLE = (*MEMBERS, "durable", "fast", "slow")

SHIM = ("disk slow", "disk full", "disk error", "clock", "clock restart")
"""Kinds that need the preloaded library."""
NAMESPACES = ("cut off",)
"""Kinds that need network namespaces: the link-fault layer does not touch clients' sessions."""
KINDS = ("kill", "kill client", "pause", "partition", "one way", "rolling restart", *NAMESPACES, *SHIM)


@dataclass(frozen=True, slots=True)
class Draw:
    """A fault to come."""

    kind: str
    targets: tuple[str, ...]
    calm_s: float
    """Time without a fault before it."""
    length_s: float
    value: int = 0
    """Seconds of a clock jump, microseconds of a slow write; for `one way`, 1 if the targets cannot send, else 0."""

    @property
    def detail(self) -> str:
        match self.kind:
            case "clock" | "clock restart":
                return f"by {self.value:+d} s for {self.length_s:.1f} s"
            case "disk slow":
                return f"{self.value / 1_000:.0f} ms a write for {self.length_s:.1f} s"
            case "one way":
                return f"cannot {'send' if self.value else 'receive'} for {self.length_s:.1f} s"
            case "rolling restart":
                return "one after another"
        return f"for {self.length_s:.1f} s"


def draw(seed: int, kinds: tuple[str, ...] = KINDS) -> Iterator[Draw]:
    """Yield faults without end. Each kind comes once before any comes again, so that short runs see all of them.

    One fault at a time, and at most one broker and one logger in it: two brokers and a logger are always up.
    """
    rng = random.Random(f"chaos/{seed}")
    while True:
        for kind in rng.sample(KINDS, len(KINDS)):
            # Kinds that this machine cannot inject are drawn as well: the others do not depend on the machine.
            drawn = _one(kind, rng)
            if kind in kinds:
                yield drawn


def _one(kind: str, rng: random.Random) -> Draw:
    calm_s, length_s = rng.uniform(0.5, 3.0), rng.uniform(1.0, 8.0)
    side = ((rng.choice(BROKERS),), (rng.choice(LOGGERS),), (rng.choice(BROKERS), rng.choice(LOGGERS)))
    match kind:
        case "kill client":
            return Draw(kind, (rng.choice(RESTARTABLE),), calm_s, length_s / 4)
        case "pause":
            return Draw(kind, (rng.choice(PAUSABLE),), calm_s, length_s)
        case "partition":
            return Draw(kind, rng.choice(side), calm_s, LONG * length_s)
        case "one way":
            return Draw(kind, rng.choice(side), calm_s, LONG * length_s, rng.randrange(2))
        case "cut off":
            return Draw(kind, (rng.choice(BROKERS),), calm_s, length_s)
        case "rolling restart":
            return Draw(kind, tuple(rng.sample(MEMBERS, len(MEMBERS))), calm_s, 0.0)
        case "disk slow":
            return Draw(kind, (rng.choice(LOGGERS),), calm_s, length_s, rng.choice((5_000, 50_000, 200_000)))
        case "disk full" | "disk error":
            return Draw(kind, (rng.choice(LOGGERS),), calm_s, length_s)
        case "clock":
            return Draw(kind, (rng.choice(MEMBERS),), calm_s, length_s, rng.choice(JUMPS_S))
        case "clock restart":
            return Draw(kind, (rng.choice(MEMBERS),), calm_s, LONG * length_s, rng.choice(JUMPS_S))
    return Draw(kind, (rng.choice(MEMBERS),), calm_s, length_s)
