"""At a node's door: when each event first came in, whatever the protocol then makes of it.

The papers' protocols deliver what they receive, ours in its publisher's order. To compare them, one looks at what
comes.
"""

from gossamer.lab.world import Machine
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Data, Repair
from gossamer.protocol.effects import Effect
from gossamer.protocol.inputs import Input, Received


class Arrivals:
    """When each event first came to each node."""

    def __init__(self) -> None:
        self.at_s: dict[EventId, dict[str, float]] = {}

    def note(self, at_s: float, node: str, packet: Packet) -> None:
        for seq, size in enumerate(packet.table(), packet.first):
            if size:
                came = self.at_s.setdefault(EventId(packet.stream, seq), {})
                if node not in came:
                    came[node] = at_s


class Watched:
    """A node at whose door it is written down what comes."""

    __slots__ = ("_arrivals", "_name", "_node")

    def __init__(self, node: Machine, name: str, arrivals: Arrivals) -> None:
        self._node = node
        self._name = name
        self._arrivals = arrivals

    def handle(self, given: Input, now: float, /) -> list[Effect]:
        if type(given) is Received:
            message = given.message
            if type(message) is Data:
                self._arrivals.note(now, self._name, message.packet)
            elif type(message) is Repair:
                for packet in message.packets:
                    self._arrivals.note(now, self._name, packet)
        return self._node.handle(given, now)

    def next_deadline(self) -> float:
        return self._node.next_deadline()
