"""The checker of a run: a pure function over the records of clients. It asks no member and trusts no counter.

lost        acknowledged as logged (or, with a spool, as sent), and not delivered to a subscription that is owed it
doubled     one id twice within a subscription, or one publication under two ids
reordered   a stream's ids, or the publications in them, out of order within a subscription
invented    delivered and never published, or under an id that the publisher was not told
torn        the body or the key differs from the published one
accounting  matched differs from delivered + obsoleted + lost + waiting
final       the last event of a key in the log did not reach a subscription
stall       a publisher waited longer than STALL_S for an acknowledgement
died        a process ended by itself
unhealthy   a member did not answer /healthz with 200 in time after a fault
unfinished  a subscriber recorded nothing
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from gossamer.lab.chaos.records import (
    Accepted,
    Began,
    Counted,
    Delivered,
    Failed,
    Fault,
    History,
    Intended,
    Logged,
    Missed,
    Record,
    Spooled,
    body_of,
    digest_of,
    key_of,
)

STALL_S = 15.0
EXAMPLES = 3

Publication = tuple[str, int]
"""The publisher and its number."""


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    where: str
    """The client or member."""
    text: str
    at: float | None = None
    """When it happened, if the records tell."""


def check(history: History) -> list[Violation]:
    """Return every violation that the records show."""
    sent = Sent(history)
    return [
        *_lost(history, sent),
        *_sequences(history),
        *_authentic(history, sent),
        *_accounting(history, sent),
        *_final(history, sent),
        *_stalls(history),
        *_processes(history),
    ]


class Sent:
    """Publications by `(publisher, n)`, and the log as replaying readers found it."""

    def __init__(self, history: History) -> None:
        self.intended: dict[Publication, float] = {}
        self.logged: dict[Publication, float] = {}
        self.accepted: dict[Publication, tuple[str, int]] = {}
        spooled: set[Publication] = set()
        for name in history.publishers:
            for record in history.records.get(name, ()):
                match record:
                    case Intended(at, n):
                        self.intended[name, n] = at
                    case Accepted(_, n, stream, seq):
                        self.accepted[name, n] = stream, seq
                    case Spooled(_, n):
                        spooled.add((name, n))
                    case Logged(at, n):
                        self.logged[name, n] = at
        self.promised = self.logged.keys() | spooled
        """Publications that must reach the log: a spool outlives the publisher's process."""
        self.log: dict[tuple[str, int], Delivered] = {}
        """By event id, from replays."""
        for name in history.subscribers:
            if history.specs[name].start == "all" and history.specs[name].durable is None:
                self.log |= {(each.stream, each.seq): each for each in _deliveries(history.records.get(name, ()))}


def _deliveries(records: Iterable[Record]) -> Iterator[Delivered]:
    return (each for each in records if isinstance(each, Delivered))


def _since(history: History, name: str) -> float:
    """When this subscription began: it is owed later publications, or all if it replays."""
    if history.specs[name].start == "all":
        return float("-inf")
    return next((each.at for each in history.records.get(name, ()) if isinstance(each, Began)), float("inf"))


def _some(found: Iterable[Any]) -> str:
    listed = sorted(found)
    shown = ", ".join("/".join(map(str, each)) for each in listed[:EXAMPLES])
    return f"{len(listed)}: {shown}{' …' if len(listed) > EXAMPLES else ''}"


def _lost(history: History, sent: Sent) -> Iterator[Violation]:
    for name in history.subscribers:
        records = history.records.get(name, [])
        if not any(isinstance(each, Began) for each in records):
            errors = [each.error for each in records if isinstance(each, Failed)]
            yield Violation("unfinished", name, f"never subscribed: {errors[-1] if errors else 'no record'}")
        if not history.specs[name].complete:
            continue
        since = _since(history, name)
        got = {(each.publisher, each.n) for each in _deliveries(records)}
        gaps = [each for each in records if isinstance(each, Missed)]
        missing = {each for each in sent.promised - got if sent.intended.get(each, 0.0) >= since}
        if missing:
            told = {each for each in missing if _told(sent.accepted.get(each), gaps)}
            yield Violation("lost", name, f"never delivered, {len(told)} of them told as a Gap; {_some(missing)}")


def _told(event_id: tuple[str, int] | None, gaps: list[Missed]) -> bool:
    if event_id is None:
        return False
    stream, seq = event_id
    return any(gap.stream == stream and gap.first <= seq <= gap.last for gap in gaps)


def _sequences(history: History) -> Iterator[Violation]:
    """Doubled and reordered. A subscription that begins again is another one: durable ones repeat what was not done."""
    for name in history.subscribers:
        ids: dict[Publication, tuple[str, int]] = {}
        seen: set[tuple[str, int]] = set()
        last: dict[str, tuple[int, int]] = {}
        doubled: list[Delivered] = []
        reordered: list[Delivered] = []
        for record in history.records.get(name, ()):
            if isinstance(record, Began):
                seen, last = set(), {}
            elif isinstance(record, Delivered):
                event_id, publication = (record.stream, record.seq), (record.publisher, record.n)
                if event_id in seen or ids.setdefault(publication, event_id) != event_id:
                    doubled.append(record)
                else:
                    seq, n = last.get(record.stream, (-1, -1))
                    if record.seq <= seq or record.n <= n:
                        reordered.append(record)
                    last[record.stream] = max(seq, record.seq), max(n, record.n)
                seen.add(event_id)
        for kind, found in (("doubled", doubled), ("reordered", reordered)):
            if found:
                yield Violation(kind, name, _some((each.stream, each.seq) for each in found), found[0].at)


def _authentic(history: History, sent: Sent) -> Iterator[Violation]:
    for name in history.subscribers:
        invented: list[Delivered] = []
        torn: list[Delivered] = []
        for each in _deliveries(history.records.get(name, ())):
            publication = (each.publisher, each.n)
            known = sent.accepted.get(publication, (each.stream, each.seq))
            if publication not in sent.intended or known != (each.stream, each.seq):
                invented.append(each)
            elif each.key != key_of(*publication) or each.digest != digest_of(body_of(*publication)):
                torn.append(each)
        for kind, found in (("invented", invented), ("torn", torn)):
            if found:
                yield Violation(kind, name, _some((each.publisher, each.n) for each in found), found[0].at)


def _accounting(history: History, sent: Sent) -> Iterator[Violation]:
    """Only subscriptions that were never begun anew: counters are those of one `Subscription`."""
    for name in history.subscribers:
        records = history.records.get(name, [])
        counts = [each for each in records if isinstance(each, Counted)]
        if len(counts) != 1 or sum(isinstance(each, Began) for each in records) != 1:
            continue
        (count,) = counts
        got = [(each.stream, each.seq) for each in _deliveries(records)]
        since = _since(history, name)
        logged = {(each.publisher, each.n): event_id for event_id, each in sent.log.items()}
        logged |= {each: sent.accepted[each] for each in sent.logged if each in sent.accepted}
        owed = {event_id for each, event_id in logged.items() if sent.intended.get(each, since) >= since}
        matched = len(owed | set(got))
        total = count.delivered + count.obsoleted + count.lost + count.waiting
        if count.delivered != len(got):
            yield Violation("accounting", name, f"stats.delivered {count.delivered}, {len(got)} recorded")
        elif total != matched:
            parts = (
                f"{count.delivered} delivered + {count.obsoleted} obsoleted + {count.lost} lost + "
                f"{count.waiting} waiting"
            )
            yield Violation("accounting", name, f"{parts} = {total}, {matched} matched")


def _final(history: History, sent: Sent) -> Iterator[Violation]:
    newest: dict[tuple[str, str], Delivered] = {}
    for each in sent.log.values():
        if each.key is not None:
            known = newest.setdefault((each.stream, each.key), each)
            newest[each.stream, each.key] = max(known, each, key=lambda one: one.seq)
    for name in history.subscribers:
        since, last = _since(history, name), defaultdict[tuple[str, str], int](lambda: -1)
        for each in _deliveries(history.records.get(name, ())):
            if each.key is not None:
                last[each.stream, each.key] = each.seq
        behind = [
            (key, last[stream, key], each.seq)
            for (stream, key), each in newest.items()
            if last[stream, key] < each.seq and sent.intended.get((each.publisher, each.n), since) >= since
        ]
        if behind:
            yield Violation("final", name, f"keys behind the log (key/has/last) {_some(behind)}")


def _stalls(history: History) -> Iterator[Violation]:
    for name in history.publishers:
        pause_s, at = longest_pause(history, name, float("-inf"), history.stopped_at)
        if pause_s > STALL_S:
            during = [fault for fault in history.faults if fault.begun_at < at + pause_s and fault.ended_at > at]
            faults = ", ".join(f"{each.kind} {' '.join(each.targets)}" for each in during) or "no fault"
            yield Violation("stall", name, f"{pause_s:.1f} s without an acknowledgement, during {faults}", at + pause_s)


def longest_pause(history: History, publisher: str, since: float, until: float) -> tuple[float, float]:
    """The longest time without an acknowledgement in this interval, and its begin. Time in which the publisher's own
    process was down does not count."""
    records = history.records.get(publisher, [])
    began = next((each.at for each in records if isinstance(each, Began)), until)
    acks = sorted(each.at for each in records if isinstance(each, Logged) and each.at < until)
    times = [began, *acks, until]
    down = [(each.begun_at, each.ended_at) for each in history.faults if publisher in each.targets]
    pauses = (
        (other - one - sum(max(0.0, min(other, stop) - max(one, start)) for start, stop in down), one)
        for one, other in pairwise(max(since, at) for at in times)
    )
    return max(pauses, default=(0.0, since))


def _processes(history: History) -> Iterator[Violation]:
    for death in history.deaths:
        name, _, text = death.partition(": ")
        yield Violation("died", name, text)
    for fault in history.faults:
        if fault.healthy_at is None:
            where = " ".join(fault.targets)
            yield Violation("unhealthy", where, f"not healthy after {fault.kind} {fault.detail}", fault.begun_at)


# Figures --------------------------------------------------------------------------------------------------------------


def recovery_s(history: History, fault: Fault) -> float | None:
    """Seconds from the end of a fault until members are healthy and each publisher has an event logged that it
    published afterwards. None if the run ended before that."""
    if fault.healthy_at is None:
        return None
    latest = fault.healthy_at
    for name in history.publishers:
        records = history.records.get(name, ())
        after = {each.n for each in records if isinstance(each, Intended) and each.at >= fault.ended_at}
        first = next((each.at for each in records if isinstance(each, Logged) and each.n in after), None)
        if first is None:
            return None
        latest = max(latest, first)
    return latest - fault.ended_at


def _next_at(history: History, fault: Fault) -> float:
    """When the next fault began, or publishers stopped."""
    later = (each.begun_at for each in history.faults if each.begun_at > fault.begun_at)
    return min(later, default=max(history.stopped_at, fault.ended_at))


def figures(history: History, violations: Iterable[Violation]) -> dict[str, Any]:
    """The document of a run: counts, a row per kind of fault, and the violations."""
    sent = Sent(history)
    rows = []
    blamed = _blamed(history, violations)
    for kind in sorted({fault.kind for fault in history.faults}):
        faults = [fault for fault in history.faults if fault.kind == kind]
        recoveries = [each for fault in faults if (each := recovery_s(history, fault)) is not None]
        pauses = [
            longest_pause(history, name, fault.begun_at, _next_at(history, fault))[0]
            for fault in faults
            for name in history.publishers
        ]
        rows.append(
            {
                "fault": kind,
                "count": len(faults),
                "pause_max_s": round(max(pauses, default=0.0), 2),
                "recovery_median_s": round(median(recoveries), 2) if recoveries else None,
                "recovery_max_s": round(max(recoveries), 2) if recoveries else None,
                "violations": blamed.get(kind, 0),
            }
        )
    return {
        "published": len(sent.intended),
        "logged": len(sent.logged),
        "replayed": len(sent.log),
        "delivered": {name: sum(1 for _ in _deliveries(history.records.get(name, ()))) for name in history.subscribers},
        "longest_pause_s": {
            name: round(longest_pause(history, name, float("-inf"), history.stopped_at)[0], 2)
            for name in history.publishers
        },
        "errors": {
            name: [each.error for each in records if isinstance(each, Failed)]
            for name, records in history.records.items()
            if any(isinstance(each, Failed) for each in records)
        },
        "faults": rows,
        "violations": [
            {"kind": each.kind, "where": each.where, "text": each.text, "at": each.at} for each in violations
        ],
    }


def _blamed(history: History, violations: Iterable[Violation]) -> Mapping[str, int]:
    """Violations by the kind of the last fault that had begun: a hint, not a proof."""
    counts: dict[str, int] = defaultdict(int)
    for each in violations:
        before = [fault for fault in history.faults if each.at is not None and fault.begun_at <= each.at]
        if before:
            counts[max(before, key=lambda fault: fault.begun_at).kind] += 1
    return counts
