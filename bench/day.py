"""A day of a logger within a minute: whether its memory stays what it is, however many events have passed.

A hundred events a second for a day are some nine million. They are published as fast as a logger takes them, and it
keeps them for seconds instead of a day, so that all of a day's work is in it: storing, deriving, collecting, sweeping
and giving space back. The logger is a process of its own, and what counts is what it has resident.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gossamer.bench import measure
from gossamer.bench.logging import EVENTS
from gossamer.bench.measure import Row
from gossamer.bench.recovery import member
from gossamer.bench.replay import serving

NAME = "day"
DAY_EVENTS = 100 * 24 * 3600
RETAIN_S = 4
SAMPLE_S = 0.25
GROWTH_MAX = 1.1
"""Of the second half of the day over the first, after a tenth of it."""


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def rows(quick: bool = False) -> Iterator[Row]:
    packets = (DAY_EVENTS // 100 if quick else DAY_EVENTS) // EVENTS
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir=".") as folder:
        store = f"sqlite:///{folder}/log.db"
        keeping = ("--retain", f"{RETAIN_S}s", "--expire", "60s")
        with serving("logger", "--store", store, *keeping) as (pid, at), member("a", at["mesh"]) as publisher:
            seen: list[float] = []
            done = threading.Event()

            def watch() -> None:
                while not done.wait(SAMPLE_S):
                    seen.append(resident_mb(pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            began = time.monotonic()
            publisher.tell(publish=packets)
            took_s = time.monotonic() - began
            done.set()
            watcher.join()
            seen.append(resident_mb(pid))
            size_mb = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    settled = seen[len(seen) // 10 :]
    first, second = max(settled[: len(settled) // 2 + 1]), max(settled[len(settled) // 2 :])
    yield Row(NAME, "published and logged", 1e6 * took_s / (packets * EVENTS), "µs an event")
    yield Row(NAME, "resident at most, second half of the day", second, "MB")
    yield Row(NAME, "the same, of the first half", second / first, "×", GROWTH_MAX)
    yield Row(NAME, "on disk at the end", size_mb, "MB")


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run({NAME: rows}, arguments)


if __name__ == "__main__":
    main()
