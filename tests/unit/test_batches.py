"""How large the batches of `sub.batches()` are, by what the application pays for a batch and for an event."""

import asyncio
from collections.abc import Callable

from gossamer.messages.event import Content
from gossamer.messages.packet import encode_content
from gossamer.messages.session import Run
from gossamer.sdk.subscription import CHUNK_MAX, Subscription
from gossamer.sdk.undecoded import Undecoded
from gossamer.sdk.waiting import Turns

STREAM = "default/~a-1.0"
SIZE = 100
"""Events in a message."""


class Application:
    """Reads batches of what waits, and is busy with each for as long as it says."""

    def __init__(self, waiting: int, cost_s: Callable[[int], float], *, buffer: int = 1_024, kinds: bool = False):
        """With `kinds`, each message is of another kind than the one before it."""
        self.now = 0.0
        self.sizes: list[int] = []
        self.seqs: list[int] = []
        asyncio.run(self._read(waiting, cost_s, buffer, kinds))

    async def _read(self, waiting: int, cost_s: Callable[[int], float], buffer: int, kinds: bool) -> None:
        sub = Subscription(
            0, "", buffer=buffer, policy="none", order="fifo", notices=False, start=None,
            loop=asyncio.get_running_loop(), turns=Turns(), credit=lambda _: None,
            call=lambda call, *given: call(*given), clock=lambda: self.now,
        )  # fmt: skip
        for first in range(0, waiting, SIZE):
            last = min(first + SIZE, waiting) - 1
            encoded = [encode_content(Content(attributes={"n": n})) for n in range(first, last + 1)]
            run = Run((0,), STREAM, ((first, last),), b"".join(encoded), True)
            sub.on_run(run, Undecoded(run))
            if kinds and first // SIZE % 2:
                sub._inbox[-1] = sub._inbox[-1]._replace(plain=False)
        async for batch in sub.batches():
            self.sizes.append(len(batch))
            self.seqs += [event.id.seq for event in batch]
            self.now += cost_s(len(batch))
            if len(self.seqs) == waiting:
                return


def test_batches_grow_while_more_waits_for_an_application_that_pays_for_each_batch():
    for batch_s in (0.01, 0.05, 0.5):
        app = Application(16_000, lambda _, batch_s=batch_s: batch_s)
        assert app.seqs == list(range(16_000))
        assert app.sizes[:6] == [1, 4, 16, 64, 256, CHUNK_MAX]
        assert app.now < 22 * batch_s


def test_the_largest_batch_has_the_size_of_the_buffer_if_that_is_larger():
    assert max(Application(64_000, lambda _: 0.5, buffer=8_000).sizes) == 8_000


def test_batches_stay_small_for_an_application_that_pays_for_each_event():
    app = Application(400, lambda count: 0.05 * count)
    assert app.seqs == list(range(400))
    assert max(app.sizes) <= 4


def test_batches_balance_the_costs_of_an_application_that_pays_for_both():
    app = Application(20_000, lambda count: 0.05 + 0.001 * count)
    assert 16 <= max(app.sizes) <= 256
    assert app.now < 3 * 20_000 * 0.001


def test_batches_shrink_once_an_application_pays_for_each_event():
    spent: list[int] = []

    def cost_s(count: int) -> float:
        spent.append(count)
        return 0.5 if sum(spent) < 8_000 else 0.05 * count

    app = Application(16_000, cost_s)
    assert max(app.sizes) == CHUNK_MAX
    assert max(app.sizes[-20:]) <= 4


def test_a_batch_spans_messages_of_several_kinds():
    app = Application(16_000, lambda _: 0.5, kinds=True)
    assert app.seqs == list(range(16_000))
    assert CHUNK_MAX in app.sizes
