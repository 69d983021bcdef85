"""A client that changes brokers while it reads what is newest, and then the rest, misses and doubles nothing."""

import asyncio

import pytest

from gossamer.broker.subscriber import Subscriber
from gossamer.matching import Selector
from gossamer.messages.event import Content, Event
from gossamer.messages.session import Began, Counts, Gap, Items, Reached, Single, Start, decode_from_broker
from gossamer.messages.session import Run as Portion
from gossamer.protocol.annotator import Annotator
from gossamer.sdk.subscription import Left, Subscription
from gossamer.sdk.undecoded import Undecoded
from gossamer.sdk.waiting import Turns

from .test_replay import SELECTORS, Run, _key, state


class Busy(Run):
    """More keys than come in a page."""

    def said(self, annotator: Annotator) -> list[Content]:
        rng = self.rng
        attributes = {"n": rng.randrange(100), "s": rng.choice("ab")}
        key = f"{annotator.stream[-5:]}{rng.randrange(25)}" if rng.random() < 0.9 else None
        if key is not None and rng.random() < 0.05:
            return [annotator.delete(key, attributes)]
        return [annotator.event(attributes, key=key)]


class Client:
    """A subscription of the SDK, and what its transport does for it."""

    def __init__(self, run: Run, selector: str, policy: str, loop: asyncio.AbstractEventLoop) -> None:
        self.open = True
        self._run = run
        self.sub = Subscription(
            0, str(Selector(selector)), buffer=run.rng.choice([4, 50]), policy=policy, order="fifo", notices=True,
            start=Start(last_per_key=True), loop=loop, turns=Turns(), credit=lambda _: None,
            call=lambda call, *given: call(*given),
        )  # fmt: skip
        self.subscriber = self._subscribed()

    def move(self) -> None:
        """Its broker is gone, and another has what it had."""
        self._run.deliveries.remove(self.subscriber)
        self.subscriber = self._subscribed()

    def _subscribed(self) -> Subscriber:
        return self._run.deliveries.add(self, "default", self.sub.asked(0.05))

    def deliver(self, frame: bytes) -> None:
        match decode_from_broker(frame):
            case Portion() as portion:
                self.sub.on_run(portion, Undecoded(portion))
            case Single() as single:
                self.sub.on_single(single, single.identified())
            case Items() as items:
                self.sub.on_items(items)
            case Gap() as gap:
                self.sub.on_gap(gap)
            case Counts() as counts:
                self.sub.on_counts(counts)
            case Began() as began:
                self.sub.on_began(began)
            case Reached() as reached:
                self.sub.on_reached(reached)


async def check_run(run: Run, policy: str) -> None:
    rng = run.rng
    for _ in range(rng.randrange(20, 100)):
        run.publish()
    if rng.random() < 0.5:
        run.log(1.0)
    selector, behind = rng.choice(["", *SELECTORS]), run.delivered()
    client = Client(run, selector, policy, asyncio.get_running_loop())
    for _ in range(rng.randrange(20, 80)):
        if rng.random() < 0.5:
            run.publish()
        if rng.random() < 0.5:
            run.log()
        run.ask(loss=0.2)
        run.grant([client.subscriber])
        run.deliveries.flush()
        if rng.random() < 0.3:
            client.move()
    run.finish([client.subscriber])
    client.sub._closed = True  # there will be no more
    said = [each async for each in client.sub]
    events = [each for each in said if isinstance(each, Event)]
    ids = [event.id for event in events if event.id is not None]
    assert len(set(ids)) == len(ids), "nothing comes twice"
    for name, after in behind.items():
        keyless = [id for id in run.events(name, selector, after) if not _key(run, *id)]
        assert [id for id in ids if id.stream == name and not _key(run, *id)] == keyless, "all that came since is there"
    assert applied(said) == state(run, selector, dict.fromkeys(behind, -1)), selector


def applied(said: list[object]) -> dict[str, object]:
    """What is true of each key for one that was told this."""
    shown: dict[str, object] = {}
    since: dict[str, int] = {}
    for each in said:
        if isinstance(each, Left):
            if each.key in shown and since[each.key] <= each.event.seq:
                del shown[each.key]
        elif isinstance(each, Event) and each.key is not None and each.id is not None:
            shown.pop(each.key, None)
            if not each.deleted:
                shown[each.key], since[each.key] = each.attributes["n"], each.id.seq
    return shown


@pytest.mark.parametrize("policy", ["none", "eager", "auto"])
@pytest.mark.parametrize("seed", range(60))
def test_a_client_that_begins_with_last_per_key_may_change_brokers_at_any_time(seed: int, policy: str) -> None:
    run = Busy(
        seed, transactions=False, log_bytes_max=300 if seed % 2 else 10_000, replicas=2 if seed % 3 else None,
        purge_patience_s=1e-9 if seed % 4 > 1 else 10.0,  # late at once, or never
    )  # fmt: skip
    asyncio.run(check_run(run, policy))
