"""Every matching event is delivered, obsoleted, lost or waiting: one of them, also when brokers are killed.

Brokers and the SDK's subscription run as in production, on one clock. A client's connection may break between any two
frames; another broker, which may be behind or ahead, then serves it.
"""

import asyncio
import random
from collections import deque

import pytest

from gossamer.broker.deliveries import Deliveries
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet

from .test_keeping_up import PATIENCE_S, SELECTORS, Client, Clock, Publishers


def thinned(packet: Packet) -> Packet:
    """A packet without the events that others of it supersede."""
    heads = packet.heads()
    newest = {head.key: EventId(packet.stream, seq) for seq, head in heads if head.key is not None}
    return packet.thin([(seq, newest[head.key]) for seq, head in heads if head.key and newest[head.key].seq > seq])


class Brokers:
    """Brokers that all receive the same packets, each in its own time."""

    def __init__(self, rng: random.Random, clock: Clock, purged: float) -> None:
        """`purged`: the probability that a link purges the obsolete events of a packet."""
        self.rng = rng
        patience_s = rng.choice([0.0, PATIENCE_S])
        self.each = [Deliveries(purge_patience_s=patience_s, clock=clock) for _ in range(2)]
        self._coming: list[deque[Packet]] = [deque() for _ in self.each]
        self._purged = purged

    def on_packet(self, packet: Packet) -> None:
        for coming in self._coming:
            coming.append(thinned(packet) if self._purged and self.rng.random() < self._purged else packet)

    def receive(self, chance: float = 1.0) -> None:
        for broker, coming in zip(self.each, self._coming, strict=True):
            while coming and self.rng.random() < chance:
                broker.on_packet(coming.popleft())

    def flush(self) -> None:
        for broker in self.each:
            broker.flush()

    def reach(self) -> None:
        for broker in self.each:
            broker.reach()


class Mover(Client):
    """A client whose frames take time, and are lost with the connection."""

    def __init__(self, brokers: Brokers, *given: object) -> None:
        self._transit: deque[bytes] = deque()
        self._brokers = brokers
        super().__init__(brokers.each[0], *given)  # type: ignore[arg-type]
        self.arrive()

    def deliver(self, frame: bytes) -> None:
        self._transit.append(frame)

    def arrive(self, count: int = 1_000_000) -> None:
        while self._transit and count:
            super().deliver(self._transit.popleft())
            count -= 1

    async def read(self, count: int) -> None:
        self.arrive()
        await super().read(count)

    def grant(self) -> None:
        self._deliveries.grant(self.subscriber, 0)

    def move(self) -> None:
        """Its broker is killed, and another serves it: some of the frames on the way had come."""
        rng = self._brokers.rng
        self.arrive(rng.randrange(len(self._transit) + 1))
        self._transit.clear()
        self._deliveries.remove(self.subscriber)
        self._deliveries = rng.choice(self._brokers.each)
        self.subscriber = self._deliveries.add(self, "default", self.sub.asked(PATIENCE_S))


SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 200))]
POLICIES = ["auto", "eager", "lazy", "random", "none"]


async def run(rng: random.Random, policy: str, *, transactions: bool, purged: float) -> tuple[list[Mover], Publishers]:
    """Readers of any speed that change brokers; then everything comes. No event is ever in two counters."""
    clock = Clock()
    brokers = Brokers(rng, clock, purged)
    publishers = Publishers(rng, brokers, transactions=transactions)  # type: ignore[arg-type]
    clients = [
        Mover(brokers, clock, number, selector, policy, rng.choice([4, 50, 1_024]))
        for number, selector in enumerate(SELECTORS)
    ]
    slowness = rng.choice([0.02, 0.2, 0.7])
    for _ in range(50):
        publishers.publish()
        brokers.receive(0.8)
        brokers.flush()
        clock.now += rng.random() * 2 * PATIENCE_S
        if rng.random() < 0.1:
            brokers.reach()
        for client in clients:
            client.open = rng.random() < 0.9
            client.arrive(rng.choice([0, 1, 3]))
            if rng.random() < slowness:
                await client.read(rng.choice([1, 5, 50]))
            if rng.random() < 0.1:
                client.move()
            stats, matched = client.sub.stats, publishers.count(client.selector)
            lost = stats.lost if not purged or not client.selector else 0  # of events purged on links some do not match
            assert stats.delivered + stats.obsoleted + lost <= matched, client.selector
    brokers.receive()
    brokers.flush()
    brokers.reach()
    for client in clients:
        client.open = True
        client.grant()
        await client.read_all()
        await client.end()
    brokers.reach()
    for client in clients:
        client.arrive()
        assert client.sub.stats.delivered == len(client.events) == len({event.id for event in client.events})
        if policy != "random":
            assert client.state() == publishers.state(client.selector), client.selector
    return clients, publishers


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_matching_event_is_in_one_counter_after_any_number_of_changes_of_brokers(seed: int, policy: str) -> None:
    # At random a commit may be lost: the parts before it wait in the client, and the broker cannot count them.
    transactions = seed % 3 == 2 and policy != "random"
    clients, publishers = asyncio.run(run(random.Random(seed), policy, transactions=transactions, purged=0.0))
    for client in clients:
        stats = client.sub.stats
        assert publishers.count(client.selector) == stats.delivered + stats.obsoleted + stats.lost, client.selector
        assert stats.unseen == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_events_that_links_purged_are_unseen_or_lost(seed: int, policy: str) -> None:
    clients, publishers = asyncio.run(run(random.Random(seed), policy, transactions=False, purged=0.3))
    for client in clients:
        stats, matched = client.sub.stats, publishers.count(client.selector)
        accounted = stats.delivered + stats.obsoleted + stats.lost + stats.unseen
        assert matched == accounted if not client.selector else matched <= accounted, (client.selector, stats)
        assert policy != "none" or not stats.unseen, "no logger has them, so they are lost"
