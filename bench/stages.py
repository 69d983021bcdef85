"""Where an event's time goes: the steps of its way by themselves, in packets as large as they are at full speed.

What a process used beyond its steps (bench/pubsub.py measures that from outside) goes to sockets, threads and the
kernel.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from gossamer.bench.measure import undisturbed
from gossamer.bench.systems import BODY, SELECTOR, SYMBOLS
from gossamer.matching import Selector
from gossamer.matching.tree import names_of
from gossamer.messages.event import Attributes, Content, check_content, known_names
from gossamer.messages.packet import Packet, encode_content, pack_encoded
from gossamer.messages.quick import Outbox, everyday
from gossamer.messages.session import Publish, Run, decode_from_broker, decode_from_client, encode
from gossamer.protocol.annotator import Annotator
from gossamer.protocol.clock import HybridClock
from gossamer.sdk.client import Client
from gossamer.sdk.outgoing import PACKET_EVENTS_MAX as COUNT
from gossamer.sdk.subscription import Subscription
from gossamer.sdk.waiting import Turns

STREAM = "default/~bench.0"
REPETITIONS = 30


def measure(cpu_us: dict[str, float]) -> dict[str, float]:
    """µs an event of each step, and of what is left of each process."""
    events: list[Attributes] = [
        {"type": "quote", "symbol": SYMBOLS[at & 3], "price": 100.0 + (at & 63), "volume": at} for at in range(COUNT)
    ]
    check_content(Content(attributes=events[0]))  # its names are known from now on
    encoded = [encode_content((None, None, None, time.time_ns(), False, each, BODY)) for each in events]
    packet = pack_encoded(STREAM, 0, encoded)
    publish = encode(Publish(packet))
    run = Run((0,), STREAM, ((0, COUNT - 1),), packet.blob, True)
    frame = encode(run)
    selector = Selector(SELECTOR)
    with undisturbed():
        call = _cost(_publishing(events))
        posting = _cost(lambda: _posted(events))
        taking_out = _cost(lambda: _posted(events).take(COUNT, 2**30)) - posting
        packing = taking_out + _cost(lambda: encode(Publish(Packet(STREAM, 0, packet.sizes, packet.blob))))
        taking = _cost(lambda: decode_from_client(publish))
        wanted = frozenset(names_of(selector.tree))
        vetting = _cost(lambda: everyday(packet, wanted) or packet.vetted())
        attributes = everyday(packet, wanted) or events
        matching = _cost(lambda: selector.matches_each(attributes))
        sending = _cost(lambda: encode(run))
        decoding = _cost(lambda: decode_from_broker(frame)) + _cost(run.events)
        iterating = _iterating(run)
        looking = _cost(lambda: [each.attributes for each in run.events()]) - _cost(run.events)
    steps = {
        "publisher": {
            "publish: check and encode": posting,
            "publish: the rest of the call": call - posting,
            "publish: pack": packing,
        },
        "server": {
            "broker: receive": taking,
            "broker: check and decode": vetting,
            "broker: match": matching,
            "broker: send": sending,
        },
        "subscriber": {"subscriber: decode": decoding, "subscriber: iterate": iterating},
    }
    found: dict[str, float] = {}
    for process, each in steps.items():
        found |= {name: round(max(0.0, cost), 3) for name, cost in each.items()}
        left = cpu_us[process] - sum(each.values())
        found[f"{'broker' if process == 'server' else process}: sockets, threads and all else"] = round(left, 3)
    found["one who looks at the attributes: decode them"] = round(looking, 3)
    return found


def _cost(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(REPETITIONS):
        began = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - began)
    return best / 1e3 / COUNT


class _Nowhere:
    """A transport, and what it has under way, that takes everything and does nothing."""

    def __init__(self) -> None:
        self.open_until = self.open_bytes = self.patient_until_ns = 2**62
        self.outbox = Outbox()

    def pump(self) -> None:
        self.outbox.take(COUNT, 2**30)


def _posted(events: list[Attributes]) -> Outbox:
    outbox = Outbox()
    for each in events:
        outbox.post(known_names, None, 0, each, BODY)
    return outbox


def _publishing(events: list[Attributes]) -> Callable[[], Any]:
    client = Client.__new__(Client)
    nowhere = _Nowhere()
    client.__dict__ |= {
        "_annotator": Annotator(STREAM), "_transport": nowhere, "_outgoing": nowhere, "_clock": HybridClock(),
        "_closed": False,
    }  # fmt: skip
    return lambda: [client.publish_nowait(each, BODY) for each in events]


def _iterating(run: Run) -> float:
    """From what has been decoded to the body of an `async for`."""

    async def main() -> float:
        best = float("inf")
        for _ in range(REPETITIONS):
            sub = Subscription(
                0, "", buffer=COUNT, policy="auto", order="fifo", notices=False, start=None,
                loop=asyncio.get_running_loop(), turns=Turns(), credit=lambda _: None,
                call=lambda call, *given: call(*given),
            )  # fmt: skip
            events, left = run.events(), COUNT
            began = time.process_time_ns()
            sub.on_run(run, events)
            async for _event in sub:
                left -= 1
                if not left:
                    break
            best = min(best, time.process_time_ns() - began)
        return best / 1e3 / COUNT

    return asyncio.run(main())
