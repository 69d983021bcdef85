"""A member on a lossy network as a process: `python -m gossamer.bench.lossy_member NAME PEER ORDER LOSS`.

bench/repair_order.py starts it. It writes its address, then answers each line of JSON on its standard input with one:

    {"publish": 100, "per_s": 20}  → {}                      that many packets, published at that rate
    {"events": 500}                → {"waits_s", "bytes"}    that many events of other members have arrived: how long
                                                             each repair took, and how many bytes this member sent
"""

import json
import sys
import threading
import time
from typing import Any

from gossamer.broker.faults import Faults
from gossamer.broker.runtime import Runtime
from gossamer.lab.experiments.repair_order import timed
from gossamer.lab.mutants import become
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId, anonymous_stream
from gossamer.messages.packet import Packet
from gossamer.protocol.config import Config
from gossamer.protocol.inputs import Publish

PACKET_BYTES = 1_000
PATIENCE_S = 60.0


class Member:
    """A runtime, and the events of others that arrived at it."""

    def __init__(self, name: str, peer: str, order: str, loss: str) -> None:
        self._opened: dict[tuple[str, EventId], float] = {}
        self._waits_s: list[float] = []
        self._arrived = 0
        self._changed = threading.Condition()
        self.runtime = Runtime(
            name=name,
            peers=(peer,),
            config=Config(repair_first=order),  # type: ignore[arg-type]
            faults=Faults(loss=float(loss)),
            on_deliver=self._on_deliver,
            on_became=lambda _: self._tell(),
        )
        become(self.runtime.node.receiver, timed(name, self._opened))
        self._stream = anonymous_stream("default", f"{name}-1", 0)
        self.runtime.start()
        self._until(lambda: self.runtime.status == "member")

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        match order:
            case {"publish": packets, "per_s": per_s}:
                self._publish(packets, per_s)
            case {"events": events}:
                self._until(lambda: self._arrived >= events)
                return {"waits_s": self._waits_s, "bytes": self.runtime.counters.bytes_sent}
        return {}

    def _publish(self, packets: int, per_s: float) -> None:
        content = (Content(body=bytes(PACKET_BYTES)),)
        began = time.monotonic()
        for number in range(packets):
            time.sleep(max(0.0, began + number / per_s - time.monotonic()))
            self.runtime.submit(Publish(self._stream, content))

    def _until(self, condition: Any) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, PATIENCE_S):
                raise TimeoutError(f"{self.runtime.name} is {self.runtime.status}, and has {self._arrived} events")

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify()

    def _on_deliver(self, packet: Packet) -> None:
        if packet.stream == self._stream:
            return
        now = time.monotonic()
        for seq in packet.seqs():
            opened = self._opened.pop((self.runtime.name, EventId(packet.stream, seq)), None)
            if opened is not None:
                self._waits_s.append(now - opened)
        self._arrived += packet.count
        self._tell()


def main() -> None:
    member = Member(*sys.argv[1:])
    print(json.dumps({"mesh": member.runtime.address}), flush=True)
    for line in sys.stdin:
        print(json.dumps(member.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
