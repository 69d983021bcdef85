"""Whether a client's packet, once it is forwarded, will be delivered here as it is: then it may be passed on before.

To take a packet in, a node looks after what it owes others: it keeps it, arms timers, sends it on. Those who subscribe
at the publisher's own broker need none of that, and would wait for all of it. So their broker asks this first, passes
the packet on, and has the node take it in after that; the node then delivers the very same packet (`Forward` →
`Deliver`), which the broker need not pass on again. Where this says no, nothing is different but the order of the two.

It says yes only in the plainest case: the next of a stream that has no gaps, from a client that may publish it.
"""

from gossamer.messages.ids import group_of
from gossamer.messages.packet import Packet
from gossamer.protocol.config import Config
from gossamer.protocol.membership import Membership
from gossamer.protocol.receiver import Receiver
from gossamer.protocol.sender import Sender


class CutThrough:
    """It changes nothing, and asks the machines that will take the packet in."""

    __slots__ = ("_bytes_max", "_groups", "_membership", "_sender", "_streams")

    def __init__(self, config: Config, membership: Membership, sender: Sender, receiver: Receiver) -> None:
        self._bytes_max = config.send_buffer_bytes_max
        self._membership = membership
        self._sender = sender
        self._streams = receiver.streams
        self._groups = config.groups
        """These may have an order, or back-pressure."""

    def may(self, packet: Packet) -> bool:
        """Whether `Forward(packet)` will deliver this, all of it and nothing before it."""
        first, outgoing = packet.first, self._sender.streams.get(packet.stream)
        stream = self._streams.get(packet.stream)
        return (
            stream is not None
            and outgoing is not None
            and stream.next == first == outgoing.next
            and stream.gaps is None
            and stream.limit is None
            and stream.never is None
            and outgoing.numbers is None
            and not outgoing.closed
            and not packet.holes
            and (not self._groups or group_of(packet.stream) not in self._groups)
            and self._sender.bytes < self._bytes_max
            and self._membership.status == "member"
        )
