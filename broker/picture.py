"""The mesh as its telemetry shows it: of each member and each consumer that was told of, the newest.

Every member is delivered what the others say in `$sys`, so any one of them can show them all; and so can a client that
subscribes to `$sys`. The same class makes the picture for both.
"""

from collections import Counter
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple

from gossamer.messages.event import Attributes, Event
from gossamer.messages.ids import NodeId, issued_by
from gossamer.messages.wire import Member

SOUND: dict[str, dict[str, type | UnionType]] = {
    "sample": {"node": str, "status": str, "interval_s": int | float, "members": list, "trouble": list},
    "consumer": {
        "node": str, "client": str, "subscription": int, "group": str, "delivered": int, "obsoleted": int, "lost": int,
        "queued": int, "oldest_s": int | float, "behind": bool,
    },
    "wait": {
        "node": str, "client": str, "stream": str, "group": str, "waited_s": int | float, "blocked_by": str,
    },
}  # fmt: skip
"""The kinds that make the picture, and what one has to have: they come from others, perhaps of other versions."""
THINGS_MAX = 4_096
SILENT_INTERVALS = 3
"""A member that has said nothing for so many of its intervals, and some slack, is told as silent."""
SLACK_S = 2.0
CONSUMERS_SHOWN = 20

SHOWN = (
    "role", "status", "version", "orders", "mesh", "url", "http", "uptime_s", "members_count", "clients",
    "subscriptions",
    "subscriptions_behind", "queued_events", "events_published_per_s", "events_delivered_per_s",
    "events_matched_per_s", "bytes_sent_per_s", "bytes_received_per_s", "latency_delivered_p50_ms",
    "latency_delivered_p99_ms", "latency_logged_p50_ms", "latency_logged_p99_ms", "loop_busy", "streams",
    "streams_incomplete", "send_buffer_bytes", "links_queued_bytes", "events_published", "events_delivered",
    "events_stored", "events_lost", "fallen_behind", "repaired_gossip", "repaired_logger", "client_errors",
    "peer_errors", "refusals", "publishers_waiting", "subscriptions_blocking", "subscriptions_excused",
    "streams_behind", "events_lacking", "store_commits", "store_lag_packets", "interests", "interests_hash",
)  # fmt: skip
"""What is shown of a member, as far as it has it."""
LASTING = ("role", "version", "orders", "mesh", "url", "http", "interests", "interests_hash")
"""Fields shown of a lost member: its rates and queues are those of the past."""
TOTALS = (
    "clients", "subscriptions", "subscriptions_behind", "queued_events", "events_published_per_s",
    "events_matched_per_s", "events_lost",
)  # fmt: skip


class Lost(NamedTuple):
    """The evidence that a member is lost."""

    kind: Literal["gone", "silent"]
    unheard_s: float
    address: str

    @property
    def reason(self) -> str:
        unheard = f"not heard for {self.unheard_s:.0f} s"
        if self.kind == "gone":
            return f"is gone: nothing listens at {self.address}, {unheard}"
        return f"is silent: {unheard}, and {self.address} does not answer"


class Picture:
    def __init__(self) -> None:
        self._things: dict[str, Event] = {}

    def on_event(self, event: Event) -> None:
        """The newest of a thing takes the place of what was known; a tombstone ends it."""
        key = event.key
        if key is None or not (event.deleted or _is_sound(event.attributes)):
            return
        known = self._things.pop(key, None)  # so that it goes last
        if known is not None and known.time_ns > event.time_ns:
            event = known
        if not event.deleted:
            self._things[key] = event
        if len(self._things) > THINGS_MAX:
            del self._things[next(iter(self._things))]

    @property
    def complete(self) -> bool:
        """Whether all that are known of have told of themselves."""
        known = self._known()
        return bool(known) and all(name in known for names in known.values() for name in names)

    def _known(self) -> dict[str, list[str]]:
        """Who has told of itself, and of whom it knows."""
        return {
            str(event.attributes["node"]): list(event.attributes.get("members") or ())  # type: ignore[arg-type]
            for event in self._of("sample")
        }

    def members(
        self, now_ns: int, known: tuple[Member, ...] = (), lost: Mapping[NodeId, Lost] | None = None
    ) -> list[dict[str, Any]]:
        """Each member, with what is wrong with it. `known` are the membership records, where one has them; who is only
        there is told as well, since something may be wrong with it. `lost` are the members that the one who looks has
        lost touch with; what others tell of lost members counts as well."""
        lost = lost or {}
        records = {member.node: member for member in known}
        listed = {name for names in self._known().values() for name in names}
        if records:
            listed = {name for name, member in records.items() if member.status != "left"}
        found: dict[str, dict[str, Any]] = {}
        for event in self._of("sample"):
            name = str(event.attributes["node"])
            if records and (name not in records or records[name].status == "left"):
                continue
            found[name] = _member(event, now_ns, records.get(name))
        for name in listed - found.keys():
            record = records.get(name)
            found[name] = {"node": name, "status": "member", "trouble": ["has not told of itself"]}
            if record is not None:
                found[name] |= {"role": "logger" if record.logger else "broker", "mesh": record.address}
                if record.status != "member":
                    found[name] |= {"status": record.status, "trouble": [f"is {record.status}"]}
        for name in lost.keys() & found.keys():
            found[name] |= {"trouble": [lost[name].reason], "status": lost[name].kind}
            if "age_s" in found[name]:
                found[name]["age_s"] = round(lost[name].unheard_s, 1)
        lost_to = self._lost_to(found)
        for name, member in found.items():
            if name in lost_to and member["status"] == "member":
                member["trouble"].append(f"is lost: {', '.join(lost_to[name])} cannot reach it")
                member["status"] = "lost"
            if member["status"] in ("gone", "silent", "lost"):
                for figure in set(SHOWN) - {*LASTING, "status"}:
                    member.pop(figure, None)
        _compare_orders(list(found.values()))
        return [found[name] for name in sorted(found)]

    def trouble_of(self, node: NodeId) -> str:
        """The first trouble of a member, by its last sample; nothing if it told of none."""
        for event in self._of("sample"):
            if event.attributes["node"] == node and (told := event.attributes["trouble"]):
                return str(told[0])  # type: ignore[index]
        return ""

    def _lost_to(self, found: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
        """The members that others cannot reach, by what those told last; of those that are heard of themselves."""
        lost_to: dict[str, list[str]] = {}
        for event in self._of("sample"):
            witness = str(event.attributes["node"])
            if found.get(witness, {}).get("status") == "member":
                for name in event.attributes.get("members_lost") or ():  # type: ignore[union-attr]
                    lost_to.setdefault(str(name), []).append(witness)
        return {name: sorted(witnesses) for name, witnesses in lost_to.items()}

    def as_dict(
        self, now_ns: int, known: tuple[Member, ...] = (), lost: Mapping[NodeId, Lost] | None = None
    ) -> dict[str, Any]:
        """All of it."""
        members = self.members(now_ns, known, lost)
        here = {member["node"] for member in members if member["status"] == "member"}
        lives = {event.attributes["node"]: _life(event) for event in self._of("sample")}
        trouble = [f"{member['node']}: {reason}" for member in members for reason in member["trouble"]]
        if len({member["interests_hash"] for member in members if "interests_hash" in member}) > 1:
            trouble.append("the brokers were told different groups by interest (--groups)")
        if not members:
            trouble.append("nobody has told of itself")
        consumers = [
            dict(event.attributes)
            for event in self._of("consumer")
            if (node := event.attributes["node"]) in here and _life(event) == lives[node]
        ]
        consumers.sort(key=lambda each: (each["behind"], each["queued"], each["obsoleted"]), reverse=True)
        waits: list[dict[str, Any]] = [
            dict(event.attributes)
            for event in self._of("wait")
            if (node := event.attributes["node"]) in here and _life(event) == lives[node]
        ]
        waits.sort(key=lambda each: each["waited_s"], reverse=True)
        totals = {name: _total(members, name) for name in TOTALS}
        return {
            "healthy": not trouble,
            "trouble": trouble,
            "warnings": [f"{each['node']}: {reason}" for each in members for reason in each.get("warnings", ())],
            "totals": {
                "brokers": sum(member.get("role") == "broker" for member in members if member["node"] in here),
                "loggers": sum(member.get("role") == "logger" for member in members if member["node"] in here),
                **totals,
            },
            "members": members,
            "consumers": consumers[:CONSUMERS_SHOWN],
            "waits": waits[:CONSUMERS_SHOWN],
        }

    def _of(self, kind: str) -> list[Event]:
        return [event for event in self._things.values() if event.attributes["type"] == kind]


def _is_sound(told: Attributes) -> bool:
    wanted = SOUND.get(str(told.get("type")))
    return wanted is not None and all(isinstance(told.get(name), kind) for name, kind in wanted.items())


def _life(event: Event) -> str:
    """Which life of a member told it: one that was killed has ended nothing of what it told."""
    issued = None if event.id is None else issued_by(event.id.stream)
    return "" if issued is None else issued.issuer


def _member(event: Event, now_ns: int, record: Member | None) -> dict[str, Any]:
    said = event.attributes
    age_s = max(0.0, (now_ns - event.time_ns) / 1e9)
    found: dict[str, Any] = {"node": said["node"], "age_s": round(age_s, 1)}
    found |= {name: said[name] for name in SHOWN if name in said}
    found["trouble"] = list(said.get("trouble") or ())  # type: ignore[arg-type]
    warnings = said.get("warnings")
    found["warnings"] = list(warnings) if isinstance(warnings, list) else []
    if record is not None and record.status != "member":
        found["status"] = record.status
        found["trouble"].append(f"is {record.status}")
    elif age_s > SILENT_INTERVALS * float(said.get("interval_s") or 0.0) + SLACK_S:  # type: ignore[arg-type]
        found["status"] = "silent"
        found["trouble"].append(f"has not been heard for {age_s:.0f} s")
    return found


def _compare_orders(members: list[dict[str, Any]]) -> None:
    """Brokers that were told of different orders of groups hand out what others hold back: that is trouble."""
    told = {
        member["node"]: tuple(member["orders"] or ())
        for member in members
        if member.get("role") == "broker" and "orders" in member
    }
    if len(set(told.values())) < 2:
        return
    usual, _ = Counter(told[name] for name in sorted(told)).most_common(1)[0]
    for member in members:
        orders = told.get(member["node"], usual)
        if orders != usual:
            here, there = ("; ".join(each) or "none" for each in (orders, usual))
            member["trouble"].append(f"was told of other orders of groups than the rest: {here}, not {there}")


def _total(members: list[dict[str, Any]], name: str) -> float:
    return round(sum(member.get(name) or 0 for member in members), 3)
