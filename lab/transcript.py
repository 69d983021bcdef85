"""Scenarios as transcripts: commands, and below each, indented, what was seen of it.

    # The second copy of a's first packet is lost, and gossip repairs it.
    mesh brokers=abc loggers=L seed=1
    drop a->b
    publish a 1
        0.012 a delivers a:0
    run 1s
        0.013 c delivers a:0
        0.263 b delivers a:0

`replay` runs the commands of a text and returns it with the traces rewritten: a transcript is right if that changes
nothing (tests/scenarios/).
"""

import dataclasses
from collections.abc import Callable
from typing import get_args

from gossamer.lab.mesh import Mesh
from gossamer.lab.names import brief, seqs, short
from gossamer.lab.observer import Observer
from gossamer.lab.plain import PlainNode
from gossamer.lab.topology import uniform
from gossamer.lab.world import NodeFactory
from gossamer.messages.errors import UsageError
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Member, Message
from gossamer.protocol.config import Config
from gossamer.protocol.effects import (
    Acked,
    Attached,
    Collect,
    Covered,
    Deliver,
    Detached,
    Marked,
    Moved,
    Over,
    Record,
    Refused,
    Skip,
    Status,
    Void,
)

INDENT = "    "
KINDS = (
    "deliveries", "skips", "acks", "refusals", "status", "crashes", "durables", "disk", "messages", "losses", "times",
)  # fmt: skip
MESSAGES = tuple(kind.__name__ for kind in get_args(Message))
"""`show Recover Gone` shows messages of these kinds only, and which of them are lost."""
SHOWN_AT_FIRST = ("deliveries", "skips", "acks", "refusals", "status", "crashes", "durables", "times")


def replay(text: str, node_factory: NodeFactory | None = None) -> str:
    """The same transcript with the traces that its commands have now."""
    stage = Stage(node_factory)
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith((" ", "\t")) and line.strip():
            continue  # an old trace
        lines.append(line.rstrip())
        if line.strip() and not line.startswith("#"):
            try:
                lines += [INDENT + seen for seen in stage.perform(line)]
            except Exception as error:
                error.add_note(f"line {number} of the transcript: {line}")
                raise
    return "\n".join(lines) + "\n"


class Trace(Observer):
    """What is seen, as lines of those kinds that are shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown = dict.fromkeys(SHOWN_AT_FIRST)

    def note(self, kind: str, at_s: float, line: str) -> None:
        if kind in self.shown:
            self.lines.append(f"{at_s:.3f} {line}" if "times" in self.shown else line)

    def started(self, at_s: float, node: str, incarnation: int, logger: bool, resume: bool) -> None:
        if incarnation > 1:
            self.note("crashes", at_s, f"{node} restarts" + (" and resumes" if resume else ""))

    def crashed(self, at_s: float, node: str) -> None:
        self.note("crashes", at_s, f"{node} crashes")

    def delivered(self, at_s: float, node: str, deliver: Deliver) -> None:
        self.note("deliveries", at_s, f"{node} delivers {_packet(deliver.packet)}")

    def skipped(self, at_s: float, node: str, skip: Skip) -> None:
        self.note("skips", at_s, f"{node} skips {seqs(skip.stream, skip.first, skip.last)}: {skip.reason}")

    def acked(self, at_s: float, node: str, acked: Acked) -> None:
        self.note("acks", at_s, f"{node} has {short(acked.stream)} {acked.level} up to {acked.last}")

    def refused(self, at_s: float, node: str, refused: Refused) -> None:
        self.note("refusals", at_s, f"{node} refuses {refused.count} of {short(refused.stream)}: {refused.reason}")

    def attached(self, at_s: float, node: str, attached: Attached) -> None:
        behind = " ".join(f"{short(stream)}:{last}" for stream, last in attached.vector.items() if last >= 0)
        new = "a new " if attached.new else ""
        self.note("durables", at_s, f"{node} has {new}{attached.name}, behind {behind or 'nothing'}")

    def detached(self, at_s: float, node: str, detached: Detached) -> None:
        self.note("durables", at_s, f"{node} has {detached.name} no more: {detached.reason}")

    def became(self, at_s: float, node: str, status: Status) -> None:
        self.note("status", at_s, f"{node} is {status}")

    def persisted(self, at_s: float, node: str, records: tuple[Record, ...]) -> None:
        self.note("disk", at_s, f"{node} stores {', '.join(map(_record, records))}")

    def collected(self, at_s: float, node: str, collect: Collect) -> None:
        self.note("disk", at_s, f"{node} collects {short(collect.stream)} up to {collect.last}")

    def sent(self, at_s: float, node: str, to: tuple[str, ...], message: Message) -> None:
        self.note(self._kind(message, "messages"), at_s, f"{node}->{','.join(to)} {brief(message)}")

    def lost(self, at_s: float, node: str, to: str, message: Message) -> None:
        self.note(self._kind(message, "losses"), at_s, f"{node}->{to} {brief(message)} is lost")

    def _kind(self, message: Message, kind: str) -> str:
        name = type(message).__name__
        return name if name in self.shown else kind


class Stage:
    """One scenario under way: performs commands, and tells what was seen of each."""

    def __init__(self, node_factory: NodeFactory | None = None) -> None:
        self._node_factory = node_factory
        self._trace = Trace()
        self._mesh: Mesh | None = None
        self._commands: dict[str, Callable[..., object]] = {
            "mesh": self._begin,
            "show": self._show,
            "hide": self._hide,
            "run": lambda duration: self.mesh.run(seconds(duration)),
            "round": self._round,
            "settle": self._settle,
            "publish": self._publish,
            "open": lambda node, publisher: self.mesh.open(node, publisher),
            "close": lambda node, publisher=None: self.mesh.close(node, publisher),
            "attach": lambda node, name: self.mesh.attach(node, name),
            "mark": lambda node, name, *vector: self.mesh.mark(node, name, dict(map(_position, vector))),
            "detach": lambda node, name, *forget: self.mesh.detach(node, name, bool(forget)),
            "add": lambda *nodes: self._each(self.mesh.add, nodes),
            "add-logger": lambda node: self.mesh.add(node, logger=True),
            "leave": lambda *nodes: self._each(self.mesh.leave, nodes),
            "disconnect": lambda *nodes: self._each(self.mesh.disconnect, nodes),
            "reconnect": lambda *nodes: self._each(self.mesh.reconnect, nodes),
            "expel": lambda node, by: self.mesh.expel(node, by.removeprefix("by=")),
            "crash": lambda *nodes: self._each(self.mesh.crash, nodes),
            "restart": lambda *nodes: self._each(self.mesh.restart, nodes),
            "resume": lambda node: self.mesh.restart(node, resume=True),
            "isolate": lambda *nodes: self.mesh.isolate(*nodes),
            "partition": lambda *sides: self.mesh.partition(*map(names, sides)),
            "lose": lambda share: self.mesh.lose(float(share)),
            "drop": self._drop,
            "heal": lambda: self.mesh.heal(),
            "delivered": lambda *nodes: self._tell(nodes, "was delivered", self.mesh.delivered),
            "skipped": lambda *nodes: self._tell(nodes, "skipped", self.mesh.skipped),
            "stored": lambda *nodes: self._tell(nodes, "stores", self.mesh.stored),
        }

    @property
    def mesh(self) -> Mesh:
        if self._mesh is None:
            raise UsageError("a transcript begins with `mesh`")
        return self._mesh

    def perform(self, line: str) -> list[str]:
        command, *words = line.split()
        if command not in self._commands:
            raise UsageError(f"no command {command!r}; there are {', '.join(self._commands)}")
        self._trace.lines.clear()
        self._commands[command](*words)
        return list(self._trace.lines)

    # Commands -------------------------------------------------------------------------------------------------------

    def _begin(self, *options: str) -> None:
        """`mesh brokers=abc loggers=L seed=1 latency=1ms`, and any field of `Config`; the joining is not shown.
        `node=plain` is multicast without repair."""
        given = dict(_option(option) for option in options)
        unknown = given.keys() - {"brokers", "loggers", "seed", "latency", "node"} - _CONFIG_FIELDS
        if unknown:
            raise UsageError(f"no option {', '.join(sorted(unknown))}")
        self._mesh = Mesh(
            names(given.get("brokers", "abc")),
            names(given.get("loggers", "")),
            seed=int(given.get("seed", "1")),
            topology=uniform(seconds(given.get("latency", "1ms"))),
            config=Config(**{name: _value(given[name]) for name in given if name in _CONFIG_FIELDS}),  # type: ignore[arg-type]
            node_factory=PlainNode if given.get("node") == "plain" else self._node_factory,
        )
        self._mesh.world.observe(self._trace)

    def _show(self, *kinds: str) -> None:
        self._trace.shown |= dict.fromkeys(map(_kind, kinds))

    def _hide(self, *kinds: str) -> None:
        for kind in kinds:
            self._trace.shown.pop(_kind(kind), None)

    def _round(self, count: str = "all") -> None:
        """`round all` is one gossip period of everybody, `round 3` are three."""
        rounds = 1 if count == "all" else int(count)
        self.mesh.run(rounds * self.mesh.world.config.round_interval_s)

    def _settle(self, limit: str = "120s") -> None:
        settled = self.mesh.settle(seconds(limit))
        self._trace.lines += ["settled"] if settled else ["not settled", *self.mesh.lacking()]

    def _publish(self, node: str, count: str = "1", *options: str) -> None:
        """`publish a 3 batch=2 publisher=trades key=IBM`: count packets."""
        given = dict(_option(option) for option in options)
        self.mesh.publish(
            node, int(count), batch=int(given.get("batch", "1")), publisher=given.get("publisher"), key=given.get("key")
        )

    def _drop(self, way: str, kind: str | None = None, times: str = "1") -> None:
        """`drop a->b`, `drop a->b Data`, `drop a->* Data 3`, `drop a->b Data all`."""
        self.mesh.drop(way, kind if kind != "any" else None, None if times == "all" else int(times))

    def _each(self, action: Callable[[str], None], nodes: tuple[str, ...]) -> None:
        for node in nodes:
            action(node)

    def _tell(self, nodes: tuple[str, ...], what: str, look: Callable[[str], list[str]]) -> None:
        self._trace.lines += [f"{node} {what} {' '.join(look(node)) or 'nothing'}" for node in nodes]


_CONFIG_FIELDS = {field.name for field in dataclasses.fields(Config)}


def seconds(text: str) -> float:
    for unit, factor in (("ms", 0.001), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise UsageError(f"a time is written 250ms or 2s, not {text!r}")


def names(text: str) -> list[str]:
    """`abc` are three nodes, `b1,b2` are two."""
    return text.split(",") if "," in text else list(text)


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _position(text: str) -> tuple[str, int]:
    """`a:3` is everything of the first stream of node a, up to 3."""
    node, _, last = text.rpartition(":")
    return node, int(last)


def _value(text: str) -> int | float | str | None:
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _kind(text: str) -> str:
    if text not in KINDS + MESSAGES:
        raise UsageError(f"nothing called {text!r} to show; there are {', '.join(KINDS + MESSAGES)}")
    return text


def _packet(packet: Packet) -> str:
    line = seqs(packet.stream, packet.first, packet.last)
    return line + "".join(f" without {seqs(packet.stream, hole.first, hole.last)}" for hole in packet.holes)


def _record(record: Record) -> str:
    match record:
        case Packet():
            return _packet(record)
        case Void(span=span):
            return ", ".join(f"{seqs(span.stream, first, last)} as void" for first, last in span.ranges)
        case Member():
            return f"{record.node} as {record.status}"
        case Over(stream=stream):
            return f"{short(stream)} as over"
        case Marked(name=name, vector=vector):
            told = "forgotten" if vector is None else " ".join(f"{short(each.stream)}:{each.last}" for each in vector)
            return f"the bookmark of {name}: {told or 'nothing new'}"
        case Moved(stream=stream):
            return f"{short(stream)} as kept by others"
        case Covered(node=node, covered=covered):
            return f"{node} as {'covered' if covered else 'not covered any more'}"
    return f"{short(record.stream)} to {record.holder} up to {record.last}"
