"""What has come is bytes until it is taken, and counts as what it is all the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content
from gossamer.messages.packet import EVENTS_MAX, encode_content
from gossamer.messages.session import Run
from gossamer.sdk.subscription import Subscription
from gossamer.sdk.undecoded import Undecoded
from gossamer.sdk.waiting import Turns

STREAM = "default/~a-1.0"


def loose_run(first: int, count: int, blob: bytes | None = None) -> Run:
    encoded = [encode_content(Content(attributes={"n": first + at}, body=b"x")) for at in range(count)]
    return Run((0,), STREAM, ((first, first + count - 1),), b"".join(encoded) if blob is None else blob, True)


def with_subscription(act: Callable[[Subscription], Awaitable[None]]) -> None:
    async def main() -> None:
        sub = Subscription(
            0, "", buffer=1_024, policy="eager", order="fifo", notices=False, start=None,
            loop=asyncio.get_running_loop(), turns=Turns(), credit=lambda _: None,
            call=lambda call, *given: call(*given),
        )  # fmt: skip
        await act(sub)

    asyncio.run(main())


def come(sub: Subscription, *runs: Run) -> list[Undecoded]:
    undecoded = [Undecoded(run) for run in runs]
    for run, events in zip(runs, undecoded, strict=True):
        sub.on_run(run, events)
    return undecoded


async def seqs(sub: Subscription, count: int) -> list[int]:
    taken: list[Any] = [await anext(sub) for _ in range(count)]
    assert [event.attributes["n"] for event in taken] == [event.id.seq for event in taken]
    return [event.id.seq for event in taken]


def test_nothing_is_decoded_before_it_is_taken():
    async def act(sub: Subscription) -> None:
        first, second = come(sub, loose_run(5, 3), loose_run(8, 2))
        assert (len(first), len(second)) == (3, 2)
        assert await seqs(sub, 1) == [5]  # one at a time at first
        assert (first._events is None, second._events is None) == (False, True)
        assert await seqs(sub, 4) == [6, 7, 8, 9]
        assert sub.stats.delivered == 5

    with_subscription(act)


def test_a_position_counts_what_was_not_taken():
    async def act(sub: Subscription) -> None:
        come(sub, loose_run(5, 3), loose_run(8, 2))
        assert sub.position[STREAM] == 4
        await seqs(sub, 2)
        assert sub.position[STREAM] == 6
        await seqs(sub, 3)
        assert sub.position[STREAM] == 9

    with_subscription(act)


@pytest.mark.parametrize("blob", [b"", b"\x90", b"\xc1\xc1\xc1", encode_content(Content()) * 4])
def test_of_a_malformed_run_nothing_comes_and_all_else_does(blob):
    async def act(sub: Subscription) -> None:
        come(sub, loose_run(0, 2), loose_run(2, 3, blob), loose_run(5, 2))
        assert await seqs(sub, 4) == [0, 1, 5, 6]
        assert (sub._waiting, sub.stats.delivered) == (0, 4)

    with_subscription(act)


def test_one_that_says_too_much_is_refused_before_it_counts():
    with pytest.raises(PeerError, match="more than"):
        Undecoded(Run((0,), STREAM, ((0, EVENTS_MAX - 1), (EVENTS_MAX, EVENTS_MAX)), b"", True))
    with pytest.raises(PeerError, match="more than"):
        Undecoded(Run((0,), STREAM, ((0, 2**62),), b"", True))
    assert len(Undecoded(Run((0,), STREAM, ((7, 3),), b"", True))) == 0
