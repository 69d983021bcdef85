"""A member of a mesh as a process: `python -m gossamer.bench.returning NAME PEER`, for what bench/recovery.py measures.

It says its address, and then answers each line of JSON on its standard input with one on its standard output:

    {"publish": 1000}     → {}                   so many packets are logged
    {"live": 500}         → {}                   so many packets a second are published from now on, until it ends
    {"disconnect": true}  → {}                   it is away
    {"reconnect": 64000}  → {"took_s", "cpu_s"}  it is back, and has so many events of what was published meanwhile
    {"count": true}       → {"at", "live"}       how many live events have come
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from gossamer.bench.logging import model
from gossamer.broker.runtime import Runtime
from gossamer.messages.ids import StreamId, anonymous_stream
from gossamer.messages.packet import Packet
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Acked
from gossamer.protocol.inputs import Disconnect, Publish, Reconnect

IN_FLIGHT_PACKETS = 256
PATIENCE_S = 60.0
BUFFER_BYTES = 4 * 2**20
"""Little is kept in memory for gossip: what was missed is on the logger's disk."""
MISSED, LIVE = (anonymous_stream("default", "bench-1", number) for number in (0, 1))


class Member:
    """A runtime, and what has come to it."""

    def __init__(self, name: str, peer: str) -> None:
        self._contents = tuple(model().contents())
        self._came: Counter[StreamId] = Counter()
        self._logged = -1
        self._changed = threading.Condition()
        self.runtime = Runtime(
            name=name,
            peers=(peer,),
            config=Config(gossip_buffer_bytes_max=BUFFER_BYTES),
            on_deliver=self._on_deliver,
            on_acked=self._on_acked,
            on_became=lambda _: self._tell(),
        )
        self.runtime.start()
        self._until(lambda: self.runtime.status == "member")

    def answer(self, order: dict[str, Any]) -> dict[str, float]:
        match order:
            case {"publish": packets}:
                self._publish(packets)
            case {"live": packets_per_s}:
                threading.Thread(target=self._go_on, args=(packets_per_s,), daemon=True).start()
            case {"disconnect": _}:
                self.runtime.submit(Disconnect())
                self._until(lambda: self.runtime.status == "disconnected")
            case {"reconnect": events}:
                began, spent_s = time.monotonic(), time.process_time()
                self.runtime.submit(Reconnect())
                self._until(lambda: self._came[MISSED] >= events)
                return {"took_s": time.monotonic() - began, "cpu_s": time.process_time() - spent_s}
            case {"count": _}:
                return {"at": time.monotonic(), "live": self._came[LIVE]}
        return {}

    def _publish(self, packets: int) -> None:
        events = len(self._contents)
        for number in range(packets):
            room = (number - IN_FLIGHT_PACKETS) * events
            self._until(lambda room=room: room <= self._logged)  # type: ignore[misc]
            self.runtime.submit(Publish(MISSED, self._contents))
        self._until(lambda: self._logged == packets * events - 1)

    def _go_on(self, packets_per_s: float) -> None:
        began, number = time.monotonic(), 0
        while True:
            time.sleep(max(0.0, began + number / packets_per_s - time.monotonic()))
            self.runtime.submit(Publish(LIVE, self._contents))
            number += 1

    def _until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, PATIENCE_S):
                raise TimeoutError(f"{self.runtime.name} has {dict(self._came)}, and is {self.runtime.status}")

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify()

    def _on_deliver(self, packet: Packet) -> None:
        self._came[packet.stream] += packet.count
        self._tell()

    def _on_acked(self, acked: Acked) -> None:
        if acked.level == "logged" and acked.stream == MISSED:
            self._logged = acked.last
            self._tell()


def main() -> None:
    member = Member(*sys.argv[1:])
    print(json.dumps({"mesh": member.runtime.address}), flush=True)
    for line in sys.stdin:
        print(json.dumps(member.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
