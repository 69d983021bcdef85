"""The machines of one node, set up for a test in a line: packets, a context, a membership, a node among others."""

import random
from collections.abc import Iterable
from typing import Any

from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet, assemble, pack
from gossamer.messages.wire import Member, Message
from gossamer.protocol.config import Config
from gossamer.protocol.context import Context
from gossamer.protocol.effects import Effect, Send
from gossamer.protocol.inputs import Received, Start
from gossamer.protocol.membership import Membership
from gossamer.protocol.node import Node

S = "default/~a-1.0"
T = "default/~b-1.0"


def packet(first: int, last: int | None = None, stream: str = S, body: bytes = b"") -> Packet:
    """Events `first` to `last`, each of which says which it is."""
    seqs = range(first, (first if last is None else last) + 1)
    return pack(stream, first, [Content(attributes={"seq": seq}, body=body) for seq in seqs])


def keyed(first: int, *keys: str | None, stream: str = S, body: bytes = b"") -> Packet:
    """Events from `first` on that set these keys: each obsoletes the earlier ones of its key."""
    contents = [Content(key=key, attributes={"seq": seq}, body=body) for seq, key in enumerate(keys, first)]
    return pack(stream, first, contents)


def marked(first: int, last: int, by: int | EventId, *, final: bool = False, stream: str = S) -> Packet:
    """Marks alone: `first` to `last` were purged for `by`."""
    return assemble(stream, [(seq, (by, final)) for seq in range(first, last + 1)])


def context(node: str = "me", *, seed: int = 1, incarnation: int = 1, logger: bool = False, **config: Any) -> Context:
    return Context(node, Config(**config), random.Random(seed), incarnation, logger)


def records(brokers: Iterable[str] = "", loggers: Iterable[str] = "") -> tuple[Member, ...]:
    return (*(Member(name, "member", 1) for name in brokers), *(Member(name, "member", 1, True) for name in loggers))


def membership(ctx: Context, brokers: Iterable[str] = "", loggers: Iterable[str] = "") -> Membership:
    """One that knows these, and is a member."""
    found = Membership(ctx, (), False, lambda _: ((), (), ()), lambda *_: None, lambda *_: None)
    found.start(records(brokers, loggers))
    ctx.effects = []
    return found


def node(
    name: str = "me", brokers: Iterable[str] = "ab", loggers: Iterable[str] = "", **options: Any
) -> tuple[Node, list[Effect]]:
    """A node that is a member among these, and what it did to start; options are its own or those of `Config`."""
    own = {key: options.pop(key) for key in ("logger", "incarnation", "stored", "wanted") if key in options}
    roster = (*records(brokers, loggers), Member(name, "member", 1, own.get("logger", False)))
    found = Node(name, Config(**options), random.Random(1), roster=roster, **own)
    return found, found.handle(Start(), 0.0)


def receive(into: Node, sender: str, message: Message, now: float = 0.0) -> list[Effect]:
    effects = into.handle(Received(sender, message), now)
    into.check()
    return effects


def sent(effects: Iterable[Effect], kind: type | None = None) -> list[tuple[tuple[str, ...], Message]]:
    """Who was sent what, of one kind if named."""
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [(send.to, send.message) for send in sends if kind is None or isinstance(send.message, kind)]


def only(effects: Iterable[Effect], *kinds: type) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kinds)]
