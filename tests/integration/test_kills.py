"""Kill -9 of anybody at any moment, under load: what was logged is there, once, and durable subscribers are complete.

Two brokers, two loggers of which one is enough, a named publisher with a spool, and a durable subscriber. In each round
one of them is killed, or two, and comes back. What is asserted at the end is what the documents promise
(docs/loggers.md).
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import gossamer
from gossamer.messages.wire import Span
from processes import Process, Processes, until

HERE = Path(__file__).parent
LIFE = 1_000_000
STREAM = "default/feed"


class Cast:
    """Who takes part, and how each of them is brought back."""

    def __init__(self, mesh: Processes, seed: int) -> None:
        self.mesh = mesh
        self.rng = random.Random(seed)
        self.told, self.got = mesh.folder / "told", mesh.folder / "got"
        self.told.touch()
        self.got.touch()
        self.lives = 0
        self.addresses = {name: mesh.address() for name in ("b1", "b2", "K", "L")}
        self.urls = {name: mesh.address() for name in ("b1", "b2")}
        self.up: dict[str, Process] = {}
        self.start: dict[str, Callable[[], Process]] = {
            "b1": lambda: self._broker("b1"),
            "b2": lambda: self._broker("b2"),
            "K": lambda: self._logger("K"),
            "L": lambda: self._logger("L"),
            "subscriber": lambda: mesh.script(HERE / "durable_subscriber.py", self._urls(), "reader", str(self.got)),
            "publisher": self._publisher,
        }
        for name in self.start:
            self.bring(name)

    def bring(self, *names: str) -> None:
        for name in names:
            self.up[name] = self.start[name]()
        for name in names:
            self.up[name].ready()

    def kill(self, *names: str) -> None:
        for name in names:
            self.up.pop(name).kill()

    def _peer(self, name: str) -> str | None:
        return next((self.addresses[other] for other in self.up if other in self.addresses and other != name), None)

    def _broker(self, name: str) -> Process:
        return self.mesh.broker(name, self._peer(name), mesh=self.addresses[name], listen=self.urls[name])

    def _logger(self, name: str) -> Process:
        return self.mesh.logger(name, self._peer(name), mesh=self.addresses[name])

    def _urls(self) -> str:
        return ",".join(self.rng.sample(list(self.urls.values()), 2))

    def _publisher(self) -> Process:
        first, self.lives = LIFE * self.lives, self.lives + 1
        spool = str(self.mesh.folder / "spool")
        return self.mesh.script(HERE / "named_publisher.py", self._urls(), "feed", spool, str(first), str(self.told))

    # What was seen ---------------------------------------------------------------------------------------------------

    def acknowledged(self, level: str) -> dict[int, int]:
        """The highest `n` of each of the publisher's lives that it was told of."""
        found: dict[int, int] = {}
        for line in self.told.read_text().splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == level and words[1].isdecimal():
                found[int(words[1]) // LIFE] = max(int(words[1]), found.get(int(words[1]) // LIFE, 0))
        return found

    def received(self) -> list[list[int]]:
        """What each of the subscriber's lives got; the last line of one that was killed may be torn."""
        lives: list[list[int]] = []
        for line in self.got.read_text().splitlines():
            if line.endswith("began"):
                lives.append([])
            elif line.isdecimal():
                lives[-1].append(int(line))
        return lives

    def progress(self) -> tuple[int, int]:
        return sum(self.acknowledged("logged").values()), sum(map(len, self.received()))


def has_moved(cast: Cast, before: tuple[int, int]) -> bool:
    return all(now > then for now, then in zip(cast.progress(), before, strict=True))


def play(mesh: Processes, rounds: int, seed: int) -> None:
    cast = Cast(mesh, seed)
    for number in range(rounds):
        before = cast.progress()
        until(lambda before=before: has_moved(cast, before), f"round {number}: things to move", 60.0)
        names = cast.rng.sample(list(cast.start), cast.rng.choice((1, 1, 2)))
        cast.kill(*names)
        cast.bring(*names)
    finish(cast)


def finish(cast: Cast) -> None:
    cast.kill("publisher")
    end = LIFE * cast.lives

    async def last_words() -> None:
        spool = cast.mesh.folder / "spool"
        async with gossamer.connect(list(cast.urls.values()), publisher="feed", spool=spool, timeout=60) as client:
            await client.publish({"n": end}, ack="logged", timeout=60)

    asyncio.run(last_words())
    until(lambda: cast.received()[-1][-1:] == [end], "the subscriber to get to the end", 60.0)
    sent = cast.acknowledged("sent")
    received = cast.received()
    for life, last in sent.items():  # the first life began before the subscriber did, or not
        missing = set(range(max(LIFE * life, received[0][0]), last + 1)) - {n for each in received for n in each}
        assert not missing, f"of life {life} the subscriber lacks {len(missing)}, like {min(missing)}"
    for each in received:
        assert each == sorted(set(each)), "once and in order, but for what a crash brings again"
    for name in ("K", "L"):
        cast.up[name].terminate()
    logs = [logged(cast.mesh, name) for name in ("K", "L")]
    for life, last in sent.items():
        everything = set(range(LIFE * life, last + 1))
        assert everything <= set(logs[0]) | set(logs[1]), "what was sent is logged: it was spooled"
    for log in logs:
        assert log == sorted(set(log)), "once, and in order"


def logged(mesh: Processes, name: str) -> list[int]:
    with mesh.store(name) as store:
        spans = [Span(STREAM, (part,)) for part in store.stored().streams[STREAM].stored]
        return [event.attributes["n"] for packet in store.load(spans) for event in packet.events()]


def test_anybody_may_be_killed(mesh):
    play(mesh, rounds=4, seed=1)


@pytest.mark.slow
def test_anybody_may_be_killed_fifty_times(mesh):
    play(mesh, rounds=50, seed=2)
