"""Events that a link purged reach the subscriptions that are owed every event: from a logger, in order, once."""

import pytest

from gossamer.broker.deliveries import Deliveries
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet, Reason, assemble, pack
from gossamer.messages.session import Start, Subscribe
from gossamer.protocol.annotator import Annotator

from .test_deliveries import Consumer
from .test_replay import Run, check_all, state


def purged(packet: Packet, keep: set[int]) -> Packet:
    """A packet as it comes over a link that purged all but these, each for the last of its key."""
    last = {event.key: event.id.seq for event in packet.events() if event.id is not None}
    pieces: list[tuple[int, bytes | Reason]] = []
    for event, (seq, piece) in zip(packet.events(), packet.encoded(), strict=True):
        obsolete = event.key is not None and last[event.key] > seq and seq not in keep
        pieces.append((seq, (last[event.key], True) if obsolete else piece))
    return assemble(packet.stream, pieces)


class Slow(Run):
    """A broker behind a saturated link: its packets come late, and without some that are obsolete."""

    def __init__(self, seed: int, **options: object) -> None:
        super().__init__(seed, transactions=False, **options)  # type: ignore[arg-type]
        self.under_way: list[Packet] = []

    def said(self, annotator: Annotator) -> list[Content]:
        key = self.rng.choice([None, *"uvw"])
        attributes = {"n": self.rng.randrange(100), "s": self.rng.choice("ab")}
        return [annotator.event(attributes, key=key and annotator.stream[-5:] + key)]

    def publish(self) -> None:
        name = self.rng.choice(list(self.annotators))
        known = self.contents[name]
        new = [each for _ in range(self.rng.randrange(1, 9)) for each in self.said(self.annotators[name])]
        packet = pack(name, len(known), new)
        known += new
        for logger in self.loggers.values():
            logger.backlog.append(packet)
        self.under_way.append(packet)

    def arrive(self, count: int) -> None:
        arrived, self.under_way[:] = self.under_way[:count], self.under_way[count:]
        for packet in arrived:
            seqs = set(packet.seqs())
            keep = seqs if self.rng.random() < 0.5 else {seq for seq in sorted(seqs) if self.rng.random() < 0.3}
            self.deliveries.on_packet(purged(packet, keep))


@pytest.mark.parametrize("seed", range(60))
def test_a_subscription_without_purging_is_delivered_what_a_link_purged(seed: int) -> None:
    run = Slow(seed, log_bytes_max=300 if seed % 2 else 10_000)
    rng = run.rng
    everything = dict.fromkeys(run.contents, -1)
    subscribers = []
    for policy, start in [("none", None), ("none", Start()), ("eager", None), ("auto", None)]:
        selector = rng.choice(["n > 50", "", "s = 'a'"])
        wanted = Subscribe(len(subscribers), selector, rng.randrange(3), rng.choice([4, 50]), policy, start=start)
        subscribers.append((run.deliveries.add(Consumer(), "default", wanted), selector))
    everyone = [each for each, _ in subscribers]
    for _ in range(rng.randrange(10, 60)):
        run.publish()
        run.arrive(rng.randrange(3))
        if rng.random() < 0.5:
            run.log()
        run.ask(loss=0.2)
        run.grant(everyone)
        run.deliveries.flush()
    run.arrive(10**6)
    run.finish(everyone)
    for subscriber, selector in subscribers:
        assert not subscriber.feed.behind
        assert subscriber.lost == 0
        consumer = subscriber.outlet
        assert isinstance(consumer, Consumer)
        if subscriber.strict:
            check_all(run, subscriber, selector, everything)
            assert subscriber.feed.obsoleted == 0
        else:
            assert consumer.state == state(run, selector, everything)
            assert len(set(consumer.events)) == len(consumer.events)


def test_without_a_logger_a_gap_tells_what_a_link_purged() -> None:
    deliveries, stream = Deliveries(), "default/~a-1.0"
    strict, patient = Consumer(), Consumer()
    deliveries.add(strict, "default", Subscribe(0, "n >= 0", 100, policy="none"))
    deliveries.add(patient, "default", Subscribe(1, "n >= 0", 100))
    packet = pack(stream, 0, [Content(key="x", attributes={"n": n}) for n in range(5)])
    deliveries.on_packet(purged(packet, {0}))
    deliveries.flush()
    assert (strict.gaps, strict.lost) == ([(1, 3)], 3)
    assert (patient.gaps, patient.lost) == ([], 0)
    assert [seq for _, seq in strict.events] == [seq for _, seq in patient.events] == [0, 4]


def test_what_neither_the_link_nor_the_log_has_is_told_as_a_gap() -> None:
    run = Slow(0, log_bytes_max=10_000)
    consumer, stream = Consumer(), next(iter(run.contents))
    subscriber = run.deliveries.add(consumer, "default", Subscribe(0, "n >= 0", 100, policy="none"))
    packet = purged(pack(stream, 0, [Content(key="x", attributes={"n": n}) for n in range(5)]), {0})
    run.loggers["l1"].backlog.append(packet)
    run.loggers["l2"].backlog.append(packet)
    run.deliveries.on_packet(packet)
    run.finish([subscriber])
    assert [seq for _, seq in consumer.events] == [0, 4]
    assert (consumer.gaps, consumer.lost, subscriber.feed.behind) == ([(1, 3)], 3, False)
