"""How messages travel: fault rules first, then the topology.

As long as no link is limited and nobody measures, a copy is one arrival: its latency is known beforehand, and copies
that arrive together are one entry of the agenda. Otherwise it goes from router to router, waiting at each link.
"""

import random
from collections.abc import Callable

from gossamer.lab.agenda import Agenda
from gossamer.lab.faults import Copy, Rule, Sending
from gossamer.lab.observer import Audience
from gossamer.lab.topology import Link, Topology
from gossamer.messages import codec
from gossamer.protocol.inputs import Received

Arrive = Callable[[list[str], Received], None]
"""Where copies end up: these destinations get this message now."""


class Network:
    def __init__(
        self,
        agenda: Agenda,
        arrive: Arrive,
        audience: Audience,
        topology: Topology,
        rng: random.Random,
        *,
        measure: bool = False,
        tree: bool = False,
    ) -> None:
        """`measure`: count packets and bytes on every link. `tree`: a multicast crosses each link once, as IP multicast
        would; otherwise each destination gets a copy of its own from the start, as over ZeroMQ."""
        self.topology = topology
        self.rules: list[Rule] = []
        self.sent = 0
        """Copies handed to the network."""
        self.lost = 0
        """Copies that a rule took out, that found a queue full, or that nobody was there to take."""
        self._agenda = agenda
        self._arrive = arrive
        self._audience = audience
        self._rng = rng
        self._by_link = measure or topology.limited
        self._tree = tree
        self._router: dict[str, int] = {}

    def place(self, name: str, router: int | None = None) -> None:
        """Seat a member at a router: the one named, or the next of the topology's hosts."""
        hosts = self.topology.hosts
        self._router[name] = hosts[len(self._router) % len(hosts)] if router is None else router

    def send(self, to: tuple[str, ...], received: Received) -> None:
        self.sent += len(to)
        copies = [(name, 0.0) for name in to]
        if self.rules:
            copies = self._ruled(to, received, copies)
        if self._by_link:
            size_bytes = len(codec.encode(received.message))
            start = self._router[received.sender]
            if self._tree:
                self._hop(start, copies, received, size_bytes)
            else:
                for copy in copies:
                    self._hop(start, [copy], received, size_bytes)
        else:
            self._send_directly(copies, received)

    def lose(self, name: str, received: Received) -> None:
        self.lost += 1
        for see in self._audience.lost:
            see(self._agenda.now_s, received.sender, name, received.message)

    def _ruled(self, to: tuple[str, ...], received: Received, copies: list[Copy]) -> list[Copy]:
        sending = Sending(self._agenda.now_s, received.sender, received.message, self._rng)
        for rule in self.rules:
            copies = rule(sending, copies)
        left = {name for name, _ in copies}
        for name in to:
            if name not in left:
                self.lose(name, received)
        return copies

    def _send_directly(self, copies: list[Copy], received: Received) -> None:
        agenda, router = self._agenda, self._router
        latencies_s = self.topology.latencies_s[router[received.sender]]
        now_s = agenda.now_s
        batch: list[str] = []
        batch_s = -1.0
        for name, late_s in copies:
            seat = router.get(name)
            if seat is None:
                self.lose(name, received)
                continue
            at_s = now_s + latencies_s[seat] + late_s
            if at_s != batch_s:
                batch, batch_s = [], at_s
                agenda.at(at_s, self._arrive, batch, received)
            batch.append(name)

    def _hop(self, router: int, copies: list[Copy], received: Received, size_bytes: int) -> None:
        """Copies are at a router: hand over those for its own members, and put the others on their next links."""
        agenda = self._agenda
        ways: dict[Link, list[Copy]] = {}
        routes = self.topology.routes[router]
        for copy in copies:
            name, late_s = copy
            seat = self._router.get(name)
            if seat is None:
                self.lose(name, received)
            elif (link := routes[seat]) is not None:
                ways.setdefault(link, []).append(copy)
            else:
                # Only who never left the router pays for the way through it.
                local_s = self.topology.local_s if self._router[received.sender] == router else 0.0
                agenda.at(agenda.now_s + local_s + late_s, self._arrive, [name], received)
        for link, group in ways.items():
            at_s = link.carry(agenda.now_s, size_bytes)
            if at_s is None or (link.loss and self._rng.random() < link.loss):
                for name, _ in group:
                    self.lose(name, received)
            else:
                agenda.at(at_s, self._hop, link.target, group, received, size_bytes)
