"""Who waits for what comes: resumed where it came, and like with any other future in all else."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from gossamer.sdk.waiting import Turns, Wait

who: ContextVar[str] = ContextVar("who")


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def ran() -> None:
        asyncio.run(test())

    return ran


class Waiting:
    """Tasks that wait, and what they said when they went on."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.turns = Turns()
        self.said: list[str] = []
        self.waits: list[Wait] = []

    async def begin(self, *names: str) -> list["asyncio.Task[None]"]:
        tasks = [asyncio.create_task(self._wait(name)) for name in names]
        while len(self.waits) < len(names):
            await asyncio.sleep(0)
        return tasks

    async def _wait(self, name: str) -> None:
        who.set(name)
        wait = Wait(self.loop, self.turns)
        self.waits.append(wait)
        await wait
        self.said.append(who.get())

    def attend(self) -> list[str]:
        """Something has come for all of them; what was said by the time that the loop is done with that."""
        self.turns.attending = True
        for wait in self.waits:
            wait.settle()
        assert not self.said, "not before all is put away"
        self.turns.resume()
        return list(self.said)

    async def in_the_loop(self, call: Callable[[], list[str]]) -> list[str]:
        """What a callback of the loop's comes to, as one that watches a descriptor is called."""
        done = self.loop.create_future()
        self.loop.call_soon(lambda: done.set_result(call()))
        return await done


@in_a_loop
async def test_the_first_goes_on_at_once_and_the_others_in_the_next_turn() -> None:
    waiting = Waiting()
    tasks = await waiting.begin("a", "b", "c")
    assert await waiting.in_the_loop(waiting.attend) == ["a"]
    await asyncio.gather(*tasks)
    assert waiting.said == ["a", "b", "c"]


@in_a_loop
async def test_within_a_task_nobody_is_resumed() -> None:
    waiting = Waiting()
    (task,) = await waiting.begin("a")
    assert waiting.attend() == []
    await task
    assert waiting.said == ["a"]


@in_a_loop
async def test_what_comes_otherwise_is_had_in_the_next_turn() -> None:
    waiting = Waiting()
    (task,) = await waiting.begin("a")
    waiting.waits[0].settle()
    waiting.turns.resume()
    assert not waiting.said
    await task
    assert waiting.said == ["a"]


@in_a_loop
async def test_who_is_cancelled_is_not_resumed_by_what_comes_then() -> None:
    waiting = Waiting()
    tasks = await waiting.begin("a", "b")
    tasks[0].cancel()
    assert await waiting.in_the_loop(waiting.attend) == ["b"]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert waiting.waits[0].done()
    assert not waiting.waits[0].cancel(), "it is over"


@in_a_loop
async def test_it_may_be_waited_for_for_a_while() -> None:
    wait = Wait(asyncio.get_running_loop(), Turns())

    async def waits() -> str:
        await wait
        return "had"

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waits(), 0.001)
    later = Wait(asyncio.get_running_loop(), Turns())
    later.settle()
    await asyncio.wait_for(waits_for(later), 1)


async def waits_for(wait: Wait) -> None:
    await wait


@in_a_loop
async def test_one_whose_task_fails_takes_nobody_along() -> None:
    waiting = Waiting()
    (task,) = await waiting.begin("a")

    async def fails() -> None:
        wait = Wait(waiting.loop, waiting.turns)
        waiting.waits.insert(0, wait)
        await wait
        raise ZeroDivisionError

    failing = asyncio.create_task(fails())
    while len(waiting.waits) < 2:
        await asyncio.sleep(0)
    assert await waiting.in_the_loop(waiting.attend) == []
    with pytest.raises(ZeroDivisionError):
        await failing
    await task
    assert waiting.said == ["a"]
