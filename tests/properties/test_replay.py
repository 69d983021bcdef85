"""Whatever comes live, by pages, in which order, with which credit, whichever logger dies: the same is delivered."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from gossamer.broker.deliveries import Deliveries
from gossamer.broker.subscriber import Subscriber
from gossamer.lab.storage import Storage
from gossamer.matching import Selector
from gossamer.messages.codec import decode, encode
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet, pack
from gossamer.messages.session import Start, Subscribe
from gossamer.messages.wire import Page, Read, Span
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.effects import Void
from gossamer.protocol.inputs import Consult
from gossamer.protocol.intervals import IntervalSet
from gossamer.protocol.placement import ranked

from .test_deliveries import Consumer

SELECTORS = ["n > 50", "", "n > 20 AND n < 80", "s = 'a'"]


@dataclass
class Logger:
    """What `protocol/logger.py` and a store do, without a disk."""

    name: str
    storage: Storage = field(default_factory=Storage)
    backlog: list[Packet | Void] = field(default_factory=list)
    alive: bool = True

    def answer(self, read: Read) -> Page:
        page = self.scanned(read)
        if read.loggers:
            given = [each for each in page.stretches if ranked(each.stream, read.loggers)[0] == self.name]
            page = replace(page, stretches=tuple(given))
        return page

    def scanned(self, read: Read) -> Page:
        if read.beginning is not None and read.beginning.last_per_key:
            here = [span for span in read.lacks if span.ranges[-1][1] <= self.storage.prefix(span.stream)]
            return replace(self.storage.scan(read, ()), passed=tuple(here))
        stored = self.storage.stored().streams
        void: list[Span] = []
        for span in read.lacks:
            if span.stream in stored:
                known = IntervalSet(stored[span.stream].void)
                parts = IntervalSet(part for each in span.ranges for part in known.overlap(*each)).ranges()
                if parts:
                    void.append(Span(span.stream, parts))
        return replace(self.storage.scan(read, read.lacks), void=tuple(void))


class Run:
    """One broker, some loggers, and time."""

    def __init__(
        self,
        seed: int,
        *,
        transactions: bool,
        log_bytes_max: int,
        replicas: int | None = None,
        purge_patience_s: float = 0.05,
    ) -> None:
        self.rng = random.Random(seed)
        self.transactions = transactions
        self.deliveries = Deliveries(log_bytes_max=log_bytes_max, purge_patience_s=purge_patience_s)
        names = ("l1", "l2") if replicas is None else ("l1", "l2", "l3")
        self.loggers = {name: Logger(name) for name in names}
        self.replicas = replicas
        catching_up = self.deliveries.catching_up
        catching_up.has_loggers = lambda: True
        catching_up.readings.spread = lambda: replicas is not None
        catching_up.readings.loggers = lambda: [name for name, each in self.loggers.items() if each.alive]
        links = random.Random(f"links {seed}")  # their evidence may be wrong, either way
        catching_up.readings.is_lost = lambda _: links.random() < 0.1
        catching_up.readings.untaken_s = lambda _: 2.0 if links.random() < 0.1 else 0.0
        self.annotators = {name: Annotator(name) for name in ("default/~a-1.0", "default/~a-1.1", "default/~b-1.0")}
        self.contents: dict[str, list[Content | None]] = {name: [] for name in self.annotators}
        """What each stream has, None for what is void."""
        self.now = 0.0
        self.questions: list[Consult] = []
        self.pages: list[tuple[str, Page]] = []

    def publish(self) -> None:
        rng = self.rng
        name = rng.choice(list(self.annotators))
        annotator, known = self.annotators[name], self.contents[name]
        new = [content for _ in range(rng.randrange(1, 5)) for content in self.said(annotator)]
        first = len(known)
        packet = pack(name, first, new)
        known += new
        keepers = [self.loggers[each] for each in ranked(name, self.loggers)[: self.replicas]]
        for logger in keepers:
            logger.backlog.append(packet)
        self.deliveries.on_packet(packet)
        if rng.random() < 0.1:  # the next one died with its publisher's node
            annotator.event({"n": 0})
            span = Span(name, ((len(known), len(known)),))
            known.append(None)
            for logger in keepers:
                logger.backlog.append(Void(span))
            self.deliveries.on_void(name, *span.ranges[0])

    def said(self, annotator: Annotator) -> list[Content]:
        rng = self.rng
        attributes = {"n": rng.randrange(100), "s": rng.choice("ab")}
        key = rng.choice([None, *"uvw"])
        key = key and annotator.stream[-5:] + key
        if key is not None and rng.random() < 0.1:
            return [annotator.delete(key, attributes)]
        if self.transactions and rng.random() < 0.1:
            keys = rng.sample("uvw", rng.randrange(1, 3))
            parts = [Part({"n": rng.randrange(100), "s": "a"}, key=annotator.stream[-5:] + each) for each in keys]
            return list(annotator.transaction(parts))
        return [annotator.event(attributes, key=key)]

    def log(self, share: float = 0.5) -> None:
        """Some of what the loggers have not stored yet, in an order of their own."""
        for logger in self.loggers.values():
            self.rng.shuffle(logger.backlog) if share < 1 else None
            count = round(len(logger.backlog) * share)
            taken, logger.backlog = logger.backlog[:count], logger.backlog[count:]
            logger.storage.now_ns = time.time_ns()
            logger.storage.apply(taken)

    def ask(self, loss: float = 0.0) -> None:
        self.now += self.rng.choice([0.0, 0.01, 0.2])
        self.questions += self.deliveries.catching_up.asks(self.now)
        answered = [each for each in self.questions if loss == 0.0 or self.rng.random() < 0.7]
        self.questions = [each for each in self.questions if each not in answered]
        for consult in answered:
            logger = self.loggers[consult.logger]
            if logger.alive and self.rng.random() >= loss:
                asked = decode(encode(consult.read))
                assert isinstance(asked, Read)
                self.pages.append((consult.logger, logger.answer(asked)))
        self.rng.shuffle(self.pages)
        while self.pages and (loss == 0.0 or self.rng.random() < 0.8):
            name, page = self.pages.pop()
            page = decode(encode(page))
            assert isinstance(page, Page)
            self.deliveries.catching_up.on_page(name, page, self.now)

    def kill(self) -> None:
        self.loggers["l1"].alive = False

    def grant(self, subscribers: list[Subscriber]) -> None:
        for subscriber in subscribers:
            subscriber.outlet.open = self.rng.random() < 0.8  # type: ignore[misc]
            if self.rng.random() < 0.4:
                self.deliveries.grant(subscriber, subscriber.sent + self.rng.randrange(12))

    def finish(self, subscribers: list[Subscriber]) -> None:
        self.log(1.0)
        for subscriber in subscribers:
            subscriber.outlet.open = True  # type: ignore[misc]
            self.deliveries.grant(subscriber, 10**6)
        for _ in range(500):
            self.deliveries.flush()
            self.ask()
            self.now += 1.0
            if not any(subscriber.feed.behind for subscriber in subscribers):
                break
        self.deliveries.flush()

    def delivered(self) -> dict[str, int]:
        return {name: len(known) - 1 for name, known in self.contents.items()}

    def events(self, name: str, selector: str, after: int) -> list[tuple[str, int]]:
        """What one that lacks nothing is shown of a stream."""
        matches = Selector(selector).matches
        return [
            (name, seq)
            for seq, content in enumerate(self.contents[name])
            if seq > after and content is not None and matches(content.attributes) and not _is_commit(content)
        ]


def _is_commit(content: Content) -> bool:
    return content.relation is not None and content.relation.commit is not None


def starts(run: Run) -> list[tuple[dict[str, int], Start | None]]:
    """Where to begin, and behind what that is."""
    here = run.delivered()
    some = {name: run.rng.randrange(-1, last + 1) for name, last in here.items()}
    return [(here, None), (dict.fromkeys(here, -1), Start()), (some, Start(some)), (here, Start(last_per_key=True))]


def check_all(run: Run, subscriber: Subscriber, selector: str, behind: dict[str, int]) -> None:
    """Each stream in its order, nothing missing, nothing twice."""
    consumer = subscriber.outlet
    assert isinstance(consumer, Consumer)
    assert len(set(consumer.events)) == len(consumer.events)
    for name, after in behind.items():
        shown = [id for id in consumer.events if id[0] == name]
        assert shown == run.events(name, selector, after), (name, selector, after)


def state(run: Run, selector: str, behind: dict[str, int]) -> dict[str, object]:
    expected: dict[str, object] = {}
    for name, known in run.contents.items():
        for seq, content in enumerate(known):
            if content is not None and content.key is not None and seq > behind[name]:
                expected.pop(content.key, None)
                if not content.deleted and Selector(selector).matches(content.attributes):
                    expected[content.key] = content.attributes["n"]
    return expected


def check_state(run: Run, subscriber: Subscriber, selector: str, behind: dict[str, int]) -> None:
    """What is true of each key in the end; whatever is left out was obsolete."""
    consumer = subscriber.outlet
    assert isinstance(consumer, Consumer)
    assert consumer.state == state(run, selector, behind), selector
    matching = sum(len(run.events(name, selector, after)) for name, after in behind.items())
    assert len(consumer.events) + subscriber.feed.obsoleted == matching
    assert len(set(consumer.events)) == len(consumer.events)


def check_latest(run: Run, subscriber: Subscriber, selector: str, behind: dict[str, int]) -> None:
    """What is true of each key in the end, and all that has no key, if it came after the beginning."""
    consumer = subscriber.outlet
    assert isinstance(consumer, Consumer)
    assert len(set(consumer.events)) == len(consumer.events)
    assert consumer.state == state(run, selector, dict.fromkeys(behind, -1)), selector
    for name, after in behind.items():
        shown = [(name, seq) for stream, seq in consumer.events if stream == name and not _key(run, name, seq)]
        assert shown == [id for id in run.events(name, selector, after) if not _key(run, *id)]


def _key(run: Run, name: str, seq: int) -> str | None:
    content = run.contents[name][seq]
    assert content is not None
    return content.key


@pytest.mark.parametrize("policy", ["none", "eager", "lazy"])
@pytest.mark.parametrize("seed", range(60))
def test_reading_and_going_live_lose_and_double_nothing(seed: int, policy: str) -> None:
    check_run(Run(seed, transactions=seed % 4 == 3, log_bytes_max=300 if seed % 2 else 10_000), seed, policy)


@pytest.mark.parametrize("purge_patience_s", [1e-9, 1e9])
@pytest.mark.parametrize("seed", range(60))
def test_a_patient_subscription_that_reads_and_goes_live_ends_in_the_right_state(
    seed: int, purge_patience_s: float
) -> None:
    log_bytes_max = 300 if seed % 2 else 10_000
    run = Run(
        seed, transactions=seed % 4 == 3, log_bytes_max=log_bytes_max, purge_patience_s=purge_patience_s,
        replicas=2 if seed % 3 else None,
    )  # fmt: skip
    check_run(run, seed, "auto", everything=purge_patience_s > 1)


@pytest.mark.parametrize("policy", ["none", "eager"])
@pytest.mark.parametrize("seed", range(40))
def test_reading_loggers_that_keep_a_part_each_is_as_reading_one(seed: int, policy: str) -> None:
    log_bytes_max = 300 if seed % 2 else 10_000
    check_run(Run(seed, transactions=seed % 4 == 3, log_bytes_max=log_bytes_max, replicas=2), seed, policy)


def check_run(run: Run, seed: int, policy: str, everything: bool = False) -> None:
    rng = run.rng
    subscribers: list[tuple[Subscriber, str, dict[str, int], bool]] = []
    check: Callable[[Run, Subscriber, str, dict[str, int]], None]

    def subscribe() -> None:
        for behind, start in starts(run):
            selector = rng.choice(SELECTORS)
            wanted = Subscribe(len(subscribers), selector, rng.randrange(3), rng.choice([4, 50]), policy, start=start)
            latest = start is not None and start.last_per_key
            subscribers.append((run.deliveries.add(Consumer(), "default", wanted), selector, behind, latest))

    subscribe()
    for step in range(rng.randrange(10, 60)):
        run.publish()
        if rng.random() < 0.5:
            run.log()
        run.ask(loss=0.2)
        run.grant([each for each, *_ in subscribers])
        run.deliveries.flush()
        if step == 8 and not run.transactions:  # behind half of one is no place to be
            subscribe()
        if step == 20 and seed % 5 == 0:
            run.kill()
    run.finish([each for each, *_ in subscribers])
    for subscriber, selector, behind, latest in subscribers:
        assert not subscriber.feed.behind
        assert not len(subscriber.feed)
        assert subscriber.lost == 0
        check = check_latest if latest else check_all if policy == "none" or everything else check_state
        check(run, subscriber, selector, behind)
