"""A reader that keeps up is delivered every matching event; one that is behind ends in the exact state, accounted for.

The broker's deliveries and the SDK's subscription run as in production, on one clock that the test turns.
"""

import asyncio
import random
from dataclasses import dataclass

import pytest

from gossamer.broker.deliveries import Deliveries
from gossamer.matching import Selector
from gossamer.messages.event import Content, Event
from gossamer.messages.packet import pack
from gossamer.messages.session import Counts, Gap, Items, Reached, Run, Single, Subscribe, decode_from_broker
from gossamer.protocol.annotator import Annotator, Part
from gossamer.sdk.subscription import Left, Said, Subscription
from gossamer.sdk.undecoded import Undecoded
from gossamer.sdk.waiting import Turns

from .test_deliveries import Consumer

PATIENCE_S = 0.05
SELECTORS = ["price > 100", "price > 100 AND symbol = 'a'", "", "price <= 100", "symbol = 'b'"]


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """A subscription at both ends, and an application that reads it."""

    def __init__(self, deliveries: Deliveries, clock: Clock, number: int, selector: str, policy: str, buffer: int):
        self.open = True
        self.selector = selector
        self.said: list[Said] = []
        self._deliveries = deliveries
        self._reading: asyncio.Task[Said] | None = None
        self.sub = Subscription(
            number, str(Selector(selector)), buffer=buffer, policy=policy, order="fifo", notices=True, start=None,
            loop=asyncio.get_running_loop(), turns=Turns(), credit=self._credit,
            call=lambda call, *given: call(*given), clock=clock,
        )  # fmt: skip
        self.subscriber = deliveries.add(self, "default", self.sub.asked(PATIENCE_S))

    def _credit(self, _: int) -> None:
        self._deliveries.grant(self.subscriber, self.sub.total())

    def deliver(self, frame: bytes) -> None:
        match decode_from_broker(frame):
            case Run() as run:
                self.sub.on_run(run, Undecoded(run))
            case Single() as single:
                self.sub.on_single(single, single.identified())
            case Items() as items:
                self.sub.on_items(items)
            case Gap() as gap:
                self.sub.on_gap(gap)
            case Counts() as counts:
                self.sub.on_counts(counts)
            case Reached() as reached:
                self.sub.on_reached(reached)

    async def read(self, count: int) -> None:
        """Take so many of what is said, or all there is: then the application waits for more."""
        while count:
            if self._reading is None:
                self._reading = asyncio.ensure_future(anext(self.sub))
            for _ in range(5):
                if self._reading.done():
                    break
                await asyncio.sleep(0)
            else:
                return
            self.said.append(self._reading.result())
            self._reading = None
            count -= 1

    async def read_all(self) -> None:
        before = -1
        while len(self.said) > before:
            before = len(self.said)
            self._deliveries.flush()
            await self.read(10**6)

    @property
    def events(self) -> list[Event]:
        return [each for each in self.said if isinstance(each, Event)]

    def state(self) -> dict[str, int]:
        """What is true of each key for an application that was told this."""
        shown: dict[str, tuple[int, int]] = {}
        for each in self.said:
            if isinstance(each, Left) and each.key in shown and shown[each.key][1] <= each.event.seq:
                del shown[each.key]
            elif isinstance(each, Event) and each.key is not None and each.id is not None:
                shown.pop(each.key, None)
                if not each.deleted:
                    shown[each.key] = each.attributes["price"], each.id.seq
        return {key: price for key, (price, _) in shown.items()}

    async def end(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


class Publishers:
    """Some streams, their events, and packets of any shape."""

    def __init__(self, rng: random.Random, deliveries: Deliveries, *, transactions: bool) -> None:
        self.rng = rng
        self._deliveries = deliveries
        self._transactions = transactions
        self._annotators = [Annotator(f"default/~{name}-1.0") for name in "ab"]
        self._keys = rng.choice([1, 3, 40])
        self._keyless = rng.choice([0.0, 0.0, 0.3])
        self.contents: dict[str, list[Content]] = {each.stream: [] for each in self._annotators}

    def publish(self) -> None:
        rng, annotator = self.rng, self.rng.choice(self._annotators)
        known = self.contents[annotator.stream]
        new: list[Content] = []
        for _ in range(rng.choice([1, 1, 2, 7, 40])):
            new += self._said(annotator)
        self._deliveries.on_packet(pack(annotator.stream, len(known), new))
        known += new

    def _said(self, annotator: Annotator) -> list[Content]:
        rng = self.rng
        key = None if rng.random() < self._keyless else f"{annotator.stream[9]}{rng.randrange(self._keys)}"
        if key is not None and rng.random() < 0.05:
            return [annotator.delete(key, self._attributes())]
        if self._transactions and rng.random() < 0.1:
            keys = {f"{annotator.stream[9]}{rng.randrange(self._keys)}" for _ in range(2)}
            return list(annotator.transaction([Part(self._attributes(), key=each) for each in sorted(keys)]))
        return [annotator.event(self._attributes(), key=key)]

    def _attributes(self) -> dict[str, object]:
        return {"price": self.rng.choice([99, 101, self.rng.randrange(200)]), "symbol": self.rng.choice("ab")}

    def matching(self, selector: str) -> dict[str, list[int]]:
        """Of each stream the seqs that match; a commit is no event."""
        matches = Selector(selector).matches
        return {
            stream: [seq for seq, each in enumerate(known) if not _is_commit(each) and matches(each.attributes)]
            for stream, known in self.contents.items()
        }

    def count(self, selector: str) -> int:
        """Matching events that were published."""
        return sum(map(len, self.matching(selector).values()))

    def state(self, selector: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for known in self.contents.values():
            for each in known:
                if each.key is not None and not _is_commit(each):
                    found.pop(each.key, None)
                    if not each.deleted and Selector(selector).matches(each.attributes):
                        found[each.key] = each.attributes["price"]
        return found


def _is_commit(content: Content) -> bool:
    return content.relation is not None and content.relation.commit is not None


def run_of(seed: int) -> tuple[random.Random, Clock, Deliveries, Publishers]:
    rng, clock = random.Random(seed), Clock()
    deliveries = Deliveries(purge_patience_s=PATIENCE_S, clock=clock)
    return rng, clock, deliveries, Publishers(rng, deliveries, transactions=seed % 3 == 2)


SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 150))]


@pytest.mark.parametrize("policy", ["auto", "none"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_that_keeps_up_is_delivered_every_matching_event(seed: int, policy: str) -> None:
    async def check() -> None:
        rng, clock, deliveries, publishers = run_of(seed)
        clients = [
            Client(deliveries, clock, number, selector, policy, rng.choice([4, 50, 1_024]))
            for number, selector in enumerate(SELECTORS)
        ]
        for _ in range(60):
            for _ in range(rng.randrange(1, 4)):
                publishers.publish()
                if rng.random() < 0.7:
                    deliveries.flush()
            clock.now += rng.random() * 0.9 * PATIENCE_S  # so long the application is busy elsewhere
            for client in clients:
                await client.read_all()
        for client in clients:
            for stream, seqs in publishers.matching(client.selector).items():
                assert [event.id.seq for event in client.events if event.id.stream == stream] == seqs, client.selector
            stats = client.sub.stats
            assert (stats.delivered, stats.obsoleted, stats.lost) == (len(client.events), 0, 0)
            assert client.state() == publishers.state(client.selector)
            await client.end()

    asyncio.run(check())


@pytest.mark.parametrize("policy", ["auto", "eager", "lazy", "none"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_that_is_behind_ends_in_the_exact_state_and_every_event_is_accounted_for(
    seed: int, policy: str
) -> None:
    async def check() -> None:
        rng, clock, deliveries, publishers = run_of(seed)
        clients = [
            Client(deliveries, clock, number, selector, policy, rng.choice([4, 50, 1_024]))
            for number, selector in enumerate(SELECTORS)
        ]
        slowness = rng.choice([0.02, 0.2])
        for _ in range(80):
            publishers.publish()
            deliveries.flush()
            clock.now += rng.random() * 2 * PATIENCE_S
            for client in clients:
                client.open = rng.random() < 0.9
                if rng.random() < slowness:
                    await client.read(rng.choice([1, 5, 50]))
        for client in clients:
            client.open = True
            matched = sum(map(len, publishers.matching(client.selector).values()))
            feed = client.subscriber.feed
            if not feed.behind:  # all that waits is in the queue, notices among it
                assert 0 <= matched - feed.delivered - feed.obsoleted <= len(feed)
            deliveries.grant(client.subscriber, 0)
            await client.read_all()
        for client in clients:
            stats = client.sub.stats
            matched = sum(map(len, publishers.matching(client.selector).values()))
            assert matched == stats.delivered + stats.obsoleted + stats.lost, client.selector
            assert stats.lost == 0
            assert stats.delivered == len(client.events) == len({event.id for event in client.events})
            assert client.state() == publishers.state(client.selector), client.selector
            for stream in publishers.contents:
                seqs = [event.id.seq for event in client.events if event.id.stream == stream]
                assert seqs == sorted(seqs)
            if policy == "none":
                assert stats.obsoleted == 0
            await client.end()

    asyncio.run(check())


def test_a_subscription_that_was_read_to_from_the_log_may_leave() -> None:
    deliveries, stream, outlet = Deliveries(), "default/~a-1.0", Consumer()
    annotator = Annotator(stream)
    deliveries.add(Consumer(), "default", Subscribe(0, "", 100))
    gone = deliveries.add(outlet, "default", Subscribe(1, "", 0, 1))
    contents = list(annotator.transaction([Part({"n": n}, key=f"k{n}") for n in range(5)]))
    deliveries.on_packet(pack(stream, 0, contents))
    deliveries.grant(gone, 100)
    deliveries.flush()
    assert len(outlet.events) == 5
    deliveries.remove(gone)
    deliveries.on_packet(pack(stream, len(contents), [annotator.event({"n": 9}, key="k9")]))
    deliveries.flush()
    assert len(outlet.events) == 5
