"""The availability matrix of docs/reliability.md, with real processes: operations while members are down."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gossamer
from clients import run, wait_for_members
from processes import Process, Processes

pytestmark = pytest.mark.slow

WAIT_S = 12.0
"""An operation that takes longer waits; the others take less, also when a dead logger was asked first."""
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
COLUMNS = {
    "1 of 2 loggers": (2, 1, 3),
    "2 of 3 loggers": (3, 2, 3),
    "1 of 3 loggers": (3, 1, 3),
    "no logger": (2, 0, 3),
    "1 of 3 brokers": (2, 2, 1),
}
"""Loggers in all, loggers that are up, brokers that are up of three."""


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.close()


def documented(column: str) -> dict[str, str]:
    """A column of the page's table: the first word of each cell by operation."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    (head,) = (row for row in rows if row[0].strip() == "operation")
    at = next(number for number, cell in enumerate(head) if cell.strip() == column)
    body = rows[rows.index(head) + 1 :]
    return {row[0].strip(): row[at].split()[0].strip(",") for row in body if len(row) == len(head)}


async def outcome(operation: Callable[[], Awaitable[Any]]) -> str:
    try:
        await asyncio.wait_for(operation(), WAIT_S)
    except (TimeoutError, gossamer.Timeout):
        return "waits"
    except gossamer.GossamerError as error:
        return "waits" if "waited" in str(error) else "refused"
    return "yes"


async def operations(urls: list[str], take_down: Callable[[], None]) -> dict[str, str]:
    """Each operation of the table, after the others' members were taken down."""
    named = await gossamer.connect(urls, publisher="running")
    anonymous = await gossamer.connect(urls)
    live = await anonymous.subscribe("n = 1")
    known = await anonymous.subscribe("n = 1", durable="known")
    for client in (named, anonymous):
        await client.publish({"n": 0}, ack="logged")
    await known.close()
    take_down()

    async def begin_named() -> None:
        async with gossamer.connect(urls, publisher="new", timeout=60) as client:
            await client.publish({"n": 0}, ack="logged")

    async def deliver() -> None:
        await anonymous.publish({"n": 1}, ack="sent")
        await anext(live)

    async def replay() -> None:
        await anext(await anonymous.subscribe("n = 0", start="all"))

    todo: dict[str, Callable[[], Awaitable[Any]]] = {
        'publish, `ack="sent"`': lambda: anonymous.publish({"n": 2}, ack="sent"),
        "live subscription": deliver,
        'replay (`start="all"`, `"last_per_key"`, a time)': replay,
        "begin a durable subscription": lambda: anonymous.subscribe("n = 1", durable="new"),
        "go on with a durable subscription": lambda: anonymous.subscribe("n = 1", durable="known"),
        'publish, `ack="logged"`, anonymous': lambda: anonymous.publish({"n": 2}, ack="logged"),
        'publish, `ack="logged"`, running named publisher': lambda: named.publish({"n": 2}, ack="logged"),
        "begin or take over a named publisher": begin_named,
    }
    found = {name: await outcome(operation) for name, operation in todo.items()}
    for client in (named, anonymous):
        await asyncio.wait({asyncio.create_task(client.close())}, timeout=WAIT_S)
    return found


@pytest.mark.parametrize("column", COLUMNS)
def test_availability_is_as_documented(column: str, mesh: Processes) -> None:
    loggers, loggers_up, brokers_up = COLUMNS[column]
    first = mesh.broker("b1").ready()
    brokers = [first, *(mesh.broker(f"b{n}", first.address).ready() for n in (2, 3))]
    kept: list[Process] = [mesh.logger(f"l{n}", first.address).ready() for n in range(loggers)]
    wait_for_members(*brokers)

    def take_down() -> None:
        for process in (*kept[loggers_up:], *brokers[brokers_up:]):
            process.kill()

    urls = [broker.url for broker in brokers]
    assert run(operations, urls, take_down, patience_s=200) == documented(column)
