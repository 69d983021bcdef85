"""Phase 1: two ways to bring a packet to the others, both unreliable (design §4.2).

`multicast` sends to every member. `gossip` pushes to `fanout` random members, each of which relays to as many more on
first receipt, for `hops` hops: a member's cost does not grow with the mesh (PSRM's top tier).
"""

from gossamer.messages.ids import NodeId
from gossamer.messages.packet import Packet
from gossamer.messages.wire import Data, Repair
from gossamer.protocol.context import Context
from gossamer.protocol.membership import Membership


class Dissemination:
    """How a packet leaves, and how it is passed on."""

    __slots__ = ("_ctx", "_membership")

    def __init__(self, ctx: Context, membership: Membership) -> None:
        self._ctx = ctx
        self._membership = membership

    def send(self, packet: Packet) -> None:
        config = self._ctx.config
        if not self._membership.active:
            return
        if config.strategy == "multicast":
            self._ctx.multicast(self._membership.active, Data(self._ctx.node, packet))
        else:
            self._push(Data(self._ctx.node, packet, config.hops - 1), ())

    def relay(self, sender: NodeId, message: Data, fresh: Packet) -> None:
        """Pass on what is new here and wanted further."""
        if message.hops:
            self._push(Data(message.origin, fresh, message.hops - 1), (sender, message.origin))

    def again(self, packet: Packet) -> None:
        """Many lack it: to everyone, once more."""
        self._ctx.multicast(self._membership.active, Repair((packet,)))

    def _push(self, message: Data, spare: tuple[NodeId, ...]) -> None:
        members = self._membership.active
        # Draw a few more than needed instead of copying the whole membership without the spared ones.
        drawn = self._ctx.rng.sample(members, min(len(members), self._ctx.config.fanout + len(spare)))
        chosen = [node for node in drawn if node not in spare][: self._ctx.config.fanout]
        self._ctx.multicast(tuple(chosen), message)
