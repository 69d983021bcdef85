"""The story of `gossamer demo`: a small mesh of processes on loopback, what happens to it, and what came of that.

Three brokers and a logger; somebody who publishes quotes; one subscriber that wants them all and is fast, one that is
much too slow, one that changes its mind, one that goes away and comes back. The publisher is measured beside the slow
one, and then the broker that it and the fast subscriber are with is killed. At the end everybody's account is compared
with what was published.

The measurement compares like with like. In one kind of turn the slow subscriber is slow, in the other it keeps up: so
there are as many processes on the machine's few cores in both. The turns alternate as slow, fast, fast, slow, so that a
machine that gets slower or faster meanwhile counts for both.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.messages.errors import GossamerError

BROKERS = ("broker-1", "broker-2", "broker-3")
LOGGER = "logger-1"
EVERYTHING = "type IN ('quote', 'close')"
WATCHED = ("price > 150", "symbol IN ('IBM', 'SAP')")
TOO_SLOW = 50
RATE_MIN = 0.8
"""The share of its rate that a publisher keeps beside the slow subscriber; if it had to wait it kept 1 / TOO_SLOW."""
PATIENCE_S = 60.0
STEP_S = 0.1
ANYWHERE = "tcp://127.0.0.1:0"

Account = dict[str, Any]
Asking = Generator[None, None, dict[str, Any]]


@dataclass(frozen=True)
class Timing:
    """How long the scenes are, in seconds."""

    blocks: int = 2
    """How often the publisher is measured, each time in four turns: slow, fast, fast, slow."""
    measured: float = 2.0
    changing: float = 6.0
    failing: float = 8.0


SHORT = Timing(blocks=1, measured=0.5, changing=1.0, failing=1.5)


class Failed(GossamerError):
    """The demonstration could not be given; its promises are another matter."""


SETTINGS = """
[protocol]
link_patience_s = 60.0
link_buffer_events_max = 262_144
link_buffer_bytes_max = 67_108_864
"""
"""Everyone here shares a few cores: a broker that was not scheduled for a second is not behind a slow link, and what is
obsolete by then is not to be left out for that (docs/decisions/link-patience.md)."""


class Actor:
    """A process that takes part: what it said last, and its answers."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self.said: dict[str, Any] = {}
        self.answers: deque[dict[str, Any]] = deque()
        self.killed = False
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "gossamer.cli.demo_actors", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # a Ctrl-C is for us; they end when their stdin does
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def tell(self, *command: Any) -> None:
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(command) + "\n")
            self._popen.stdin.flush()
        except OSError:
            raise Failed(self._story()) from None

    def check(self) -> None:
        """It is there, unless it was killed."""
        if not self.killed and self._popen.poll() is not None:
            self._reader.join(1.0)
            raise Failed(self._story())

    def kill(self) -> None:
        self.killed = True
        self._popen.kill()
        self._popen.wait()

    def hang_up(self) -> None:
        """It ends when its stdin does."""
        assert self._popen.stdin is not None
        with suppress(OSError):  # it is gone, and what it was told last with it
            self._popen.stdin.close()

    def close(self) -> None:
        assert self._popen.stdout is not None
        try:
            self._popen.wait(1.0)  # time for a goodbye; what they leave behind is thrown away
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._reader.join()
        self._popen.stdout.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            told = json.loads(line)
            if "done" in told:
                self.answers.append(told["done"])
            else:
                self.said = told

    def _story(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        reason = self.said.get("failed") or (lines[-1] if lines else f"exit {self._popen.returncode}")
        return f"the demonstration's {self.name} ended: {reason}"


@dataclass
class Facts:
    """What was measured."""

    published: int = 0
    symbols: int = 0
    rate_fast: float = 0.0
    rate_slow: float = 0.0
    """The publisher's, while the slow subscriber keeps up, and while it is slow."""
    rate_paced: float = 0.0
    longest_publish_ms: float = 0.0
    failover_s: float = 0.0
    """The longest silence that the fast subscriber heard around the kill."""
    missed: int = 0
    caught_up_s: float = 0.0
    """What the durable subscriber was away for, and how long it took to have it, and what came meanwhile."""
    ages_ms: dict[str, float] = field(default_factory=dict)
    """How old an event was when it was taken, while the publisher went at half its speed."""
    accounts: dict[str, Account] = field(default_factory=dict)
    """What came to each subscriber, and what did not."""
    promises: dict[str, bool] = field(default_factory=dict)
    """Each promise, and whether it was kept."""
    measured: dict[str, str] = field(default_factory=dict)
    """The measured value of each promise, and the threshold it has to reach."""

    @property
    def held(self) -> bool:
        return bool(self.promises) and all(self.promises.values())

    @property
    def ratio(self) -> float:
        return self.rate_slow / self.rate_fast

    def total(self, what: str) -> int:
        return sum(account[what] for account in self.accounts.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "published": self.published,
            "delivered": self.total("delivered"),
            "obsoleted": self.total("obsoleted"),
            "lost": self.total("lost"),
            "final_state_equal": all(account["final_state_equal"] for account in self.accounts.values()),
            "publisher_rate": {
                "without_slow_consumer": round(self.rate_fast),
                "with_slow_consumer": round(self.rate_slow),
                "ratio": round(self.ratio, 3),
                "ratio_min": RATE_MIN,
            },
            "longest_publish_ms": round(self.longest_publish_ms, 1),
            "failover_s": round(self.failover_s, 3),
            "missed_while_away": self.missed,
            "caught_up_s": round(self.caught_up_s, 3),
            "age_ms": {name: round(age_ms, 1) for name, age_ms in self.ages_ms.items()},
            "subscribers": self.accounts,
            "promises": self.promises,
            "measured": self.measured,
            "held": self.held,
        }


class Story:
    """`play` yields about every tenth of a second, for whoever shows it."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.scene = ""
        self.actors: dict[str, Actor] = {}
        self.facts = Facts()
        self.played = False
        """To the end."""
        self._folder = tempfile.TemporaryDirectory(prefix="gossamer-demo-")
        self._settings = Path(self._folder.name) / "settings.toml"
        self.store = f"sqlite:///{Path(self._folder.name) / 'log.db'}"
        self._slow_from = 0
        self._changed_before = 0
        self._before_away: Account = {}
        self._back_at = 0.0

    def __enter__(self) -> "Story":
        return self

    def __exit__(self, *_: object) -> None:
        self.curtain()
        self._folder.cleanup()

    def curtain(self) -> None:
        """Everybody goes; what the logger has kept is still there."""
        for actor in self.actors.values():
            actor.hang_up()
        for actor in self.actors.values():
            actor.close()
        self.actors.clear()

    def play(self) -> Iterator[None]:
        yield from self._start()
        yield from self._measure()
        yield from self._leave()
        yield from self._change_selector()
        yield from self._kill_broker()
        yield from self._return()
        yield from self._end()

    # Scenes ---------------------------------------------------------------------------------------------------------

    def _start(self) -> Iterator[None]:
        self.scene = "three brokers and a logger start"
        self._settings.write_text(SETTINGS)
        logger = self._node(LOGGER, "--store", self.store)
        yield from self._until(lambda: logger.said)
        for name in BROKERS:
            self._node(name, "--listen", ANYWHERE, "--peer", logger.said["mesh"])
        yield from self._until(lambda: all(self.actors[name].said for name in BROKERS))
        one, two, three = (self.actors[name].said["url"] for name in BROKERS)
        self.scene = "a publisher of quotes, a fast subscriber, a picky one, a durable one"
        self._act("publisher", "publisher", one, two, three)
        self._subscriber("fast", [one, two, three], EVERYTHING, "none")
        self._subscriber("slow", [two, three], EVERYTHING, "auto")
        self._subscriber("picky", [three, two], self._watched(0), "none")
        self._subscriber("durable", [three, two], EVERYTHING, "none", durable="ledger")
        yield from self._until(lambda: all(actor.said for actor in self.actors.values()))
        yield from self._ask("fast", "subscribe", 0.0)
        yield from self._ask("picky", "subscribe", 0.0)
        yield from self._ask("durable", "subscribe", 0.0)
        yield from self._ask("publisher", "publish", 0.2, 1_000.0)  # everybody knows everybody once this is logged

    def _measure(self) -> Iterator[None]:
        facts, measured = self.facts, self.timing.measured
        self.scene = "as fast as it goes, to see how fast that is"
        facts.rate_paced = _rate([(yield from self._ask("publisher", "publish", measured, None))]) / 2
        scenes = {
            True: f"as fast as it goes, beside a subscriber that is more than {TOO_SLOW} times too slow",
            False: "as fast as it goes, while the same subscriber keeps up",
        }
        turns: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for number, slow in enumerate((True, False, False, True) * self.timing.blocks):
            if number:
                yield from self._ask("slow", "unsubscribe")
            self.scene = scenes[slow]
            begun = yield from self._ask("slow", "subscribe", TOO_SLOW / facts.rate_paced if slow else 0.0)
            before = begun["before"]
            self._slow_from = self.actors["publisher"].said["events"] if before is None else before
            turns[slow].append((yield from self._ask("publisher", "publish", measured, None)))
        facts.rate_slow, facts.rate_fast = _rate(turns[True]), _rate(turns[False])
        facts.rate_paced = facts.rate_fast / 2

    def _leave(self) -> Iterator[None]:
        self.scene = "the durable one goes away, in the middle of it"
        self.actors["publisher"].tell("publish", 0.5, self.facts.rate_paced)
        yield from self._pass(0.2)
        self._before_away = yield from self._ask("durable", "unsubscribe")
        away = self.actors["durable"]
        away.hang_up()
        away.close()
        away.killed = True
        yield from self._answer("publisher")

    def _return(self) -> Iterator[None]:
        self.scene = "the durable one comes back, to another broker, and reads what it missed from the log"
        urls = [self.actors[name].said["url"] for name in BROKERS[1:]]
        self._subscriber("durable", urls, EVERYTHING, "none", durable="ledger")
        yield from self._until(lambda: self.actors["durable"].said)
        yield from self._ask("durable", "subscribe", 0.0)
        self._back_at = time.monotonic()

    def _change_selector(self) -> Iterator[None]:
        self.scene = f"half as fast; the picky one has  {WATCHED[0]}"
        self.actors["publisher"].tell("publish", self.timing.changing, self.facts.rate_paced)
        yield from self._pass(self.timing.changing / 2)
        yield from self._ask("picky", "update", self._watched(1))
        for _ in range(2):  # the first report may have been on its way already
            said = self.actors["publisher"].said
            yield from self._until(lambda said=said: self.actors["publisher"].said is not said)  # type: ignore[misc]
        self._changed_before = self.actors["publisher"].said["events"]
        self.scene = f"the picky one changes its selector to  {WATCHED[1]}"
        yield from self._answer("publisher")
        for name in ("fast", "slow"):
            self.facts.ages_ms[name] = self.actors[name].said["age_ms"]

    def _kill_broker(self) -> Iterator[None]:
        timing, victim = self.timing.failing, self.actors[BROKERS[0]]
        self.scene = f"publisher and fast subscriber are with {BROKERS[0]}"
        self.actors["publisher"].tell("publish", timing, self.facts.rate_paced)
        yield from self._ask("fast", "watch")
        yield from self._pass(timing / 3)
        self.scene = f"{BROKERS[0]} is killed (kill -9 {victim.pid}): they go on with another"
        victim.kill()
        yield from self._answer("publisher")
        yield from self._until(lambda: self.actors["fast"].said["node"] != BROKERS[0])
        self.facts.failover_s = self.actors["fast"].said["longest_silence_s"]

    def _end(self) -> Iterator[None]:
        self.scene = "no more quotes; the slow one comes to the end"
        ended = yield from self._ask("publisher", "end")
        facts = self.facts
        facts.published = count = ended["events"]
        facts.symbols = len(ended["state"])
        facts.longest_publish_ms = ended["longest_ms"]
        before = self._before_away
        self.actors["durable"].tell("end", count, before["delivered"])
        for name in ("fast", "slow", "picky"):
            self.actors[name].tell("end", count)
        for name in ("fast", "slow", "picky", "durable"):
            account = facts.accounts[name] = yield from self._answer(name)
            state = account.pop("state")
            account["final_state_equal"] = state == ended["state"]
            account["symbols_equal"] = sum(state.get(symbol) == n for symbol, n in ended["state"].items())
        facts.caught_up_s = time.monotonic() - self._back_at
        fast, slow, picky, durable = facts.accounts.values()
        facts.missed = durable["delivered"]
        durable["exact"] = durable["exact"] and before["exact"]
        durable["delivered"] += before["delivered"]
        durable["lost"] = count - durable["delivered"]
        # Nobody's word is taken for what is lost: it is whatever is missing from the account.
        fast["lost"] = count - fast["delivered"]
        slow["lost"] = count - self._slow_from - slow["delivered"] - slow["obsoleted"]
        changed_at = picky["changed_at"]
        picky["exact"] = changed_at is not None and changed_at[0] <= self._changed_before
        picky["final_state_equal"] = picky["exact"]
        self._judge(fast, slow, picky, durable)
        self.scene = "that is all"
        self.played = True
        yield

    def _judge(self, fast: Account, slow: Account, picky: Account, durable: Account) -> None:
        facts = self.facts
        count = f"{facts.published:,}"
        right = f"{slow.get('symbols_equal', 0)} of {facts.symbols} symbols as published last"
        judged: list[tuple[str, bool, str]] = [
            ("the fast subscriber got everything, once, in order", fast["exact"], f"{fast['delivered']:,} of {count}"),
            ("the slow one ended in the right state", slow["final_state_equal"], right),
            (
                "all that it was not given is explained",
                slow["exact"] and not slow["lost"],
                f"{slow['obsoleted']:,} obsoleted, {slow['lost']:,} lost (0 allowed)",
            ),
            (
                "with the changed selector nothing was missed, and nothing else came",
                picky["exact"],
                f"{picky['delivered']:,} delivered",
            ),
            (
                "nothing was lost with the broker",
                fast["exact"] and fast["node"] != BROKERS[0],
                f"{fast['lost']:,} lost (0 allowed), now at {fast['node']}",
            ),
            (
                "the durable one was away, and has everything, once",
                durable["exact"] and durable["final_state_equal"],
                f"{durable['delivered']:,} of {count}",
            ),
            (
                "the slow one did not hold up the publisher",
                facts.ratio >= RATE_MIN,
                f"{facts.ratio:.0%} of its rate ({RATE_MIN:.0%} at least)",
            ),
        ]
        facts.promises = {promise: held for promise, held, _ in judged}
        facts.measured = {promise: measured for promise, _, measured in judged}

    # How it is done -------------------------------------------------------------------------------------------------

    def _watched(self, which: int) -> str:
        return f"{WATCHED[which]} OR type = 'close'"

    def _act(self, name: str, *arguments: str) -> Actor:
        actor = self.actors[name] = Actor(name, *arguments)
        return actor

    def _node(self, name: str, *options: str) -> Actor:
        role = name.partition("-")[0]
        settings = "--config", str(self._settings)
        return self._act(name, "node", role, "--json", "--name", name, "--mesh", ANYWHERE, *settings, *options)

    def _subscriber(self, name: str, urls: list[str], selector: str, policy: str, durable: str | None = None) -> None:
        said = {"urls": urls, "selector": selector, "policy": policy, "durable": durable}
        self._act(name, "subscriber", json.dumps(said))

    def _ask(self, name: str, *command: Any) -> Asking:
        self.actors[name].tell(*command)
        return (yield from self._answer(name))

    def _answer(self, name: str) -> Asking:
        answers = self.actors[name].answers
        yield from self._until(lambda: answers)
        return answers.popleft()

    def _pass(self, seconds: float) -> Iterator[None]:
        over_at = time.monotonic() + seconds
        yield from self._until(lambda: time.monotonic() >= over_at)

    def _until(self, condition: Callable[[], object]) -> Iterator[None]:
        give_up_at, shown_at = time.monotonic() + PATIENCE_S, 0.0
        while not condition():
            now = time.monotonic()
            if now > give_up_at:
                raise Failed(f"nothing happened for {PATIENCE_S:g} s: {self.scene}")
            for actor in self.actors.values():
                actor.check()
            if now > shown_at + STEP_S:
                shown_at = now
                yield
            time.sleep(0.005)


def _rate(measured: list[dict[str, Any]]) -> float:
    """Events a second, of which each was logged within the time."""
    events: int = sum(each["events"] for each in measured)
    seconds: float = sum(each["logged_s"] for each in measured)
    return events / seconds
