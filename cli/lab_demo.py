"""`gossamer lab demo`: see a mesh lose messages, fall apart, and come together again."""

import time

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gossamer.lab.demo import BROKERS, LEFT, LOGGERS, Demo
from gossamer.messages.errors import UsageError

STEP_S = 0.1
SPEED_MIN, SPEED_MAX = 0.01, 1_000


def run_demo(
    seed: int = typer.Option(7, help="Another seed, other losses."),
    speed: float = typer.Option(1.0, help="Seconds of virtual time a second; 0 as fast as it goes."),
) -> None:
    """Eight brokers and two loggers under 10 % loss, cut in two and healed: nobody misses anything."""
    if not (speed == 0 or SPEED_MIN <= speed <= SPEED_MAX):
        raise UsageError(f"--speed must be 0, or from {SPEED_MIN} to {SPEED_MAX:,}, not {speed}")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, not {seed}")
    console = Console(highlight=False)
    demo = Demo(seed)
    started = time.monotonic()
    if console.is_terminal:
        with Live(_picture(demo), console=console, refresh_per_second=10) as live:
            for _ in demo.play(STEP_S):
                live.update(_picture(demo))
                _pace(demo, started, speed)
    else:
        title = ""
        for _ in demo.play(STEP_S):
            if demo.scene.title != title:
                title = demo.scene.title
                console.print(f"{demo.at_s:5.1f} s  {_line(demo)}  {title}", soft_wrap=True)
    _summary(console, demo)
    if not demo.finished:
        raise typer.Exit(1)


def _pace(demo: Demo, started: float, speed: float) -> None:
    if speed:
        time.sleep(max(0.0, started + demo.at_s / speed - time.monotonic()))


def _line(demo: Demo) -> str:
    lacking = sum(demo.tally.published_events - demo.tally.delivered_events.get(name, 0) for name in BROKERS)
    return f"{demo.tally.published_events:6,} published, {lacking:6,} deliveries outstanding."


def _picture(demo: Demo) -> RenderableType:
    tally = demo.tally
    table = Table(box=None, padding=(0, 1))
    table.add_column("")
    table.add_column("side")
    table.add_column("received", width=40)
    table.add_column("", justify="right")
    table.add_column("lacks", justify="right")
    total = max(1, tally.published_events)
    for name in (*LOGGERS, *BROKERS):
        have = tally.delivered_events.get(name, 0)
        lacks = tally.published_events - have
        side = "left" if name in LEFT else "right"
        bar = ProgressBar(total=total, completed=have, width=40)
        table.add_row(name, side, bar, f"{have:,}", Text(f"{lacks:,}", style="red" if lacks else "green"))
    heading = Text(f"{demo.at_s:5.1f} s  {demo.scene.title}", style="bold")
    repairs = Text(
        f"{tally.published_events:,} published · {tally.lost_messages:,} messages lost · repaired by peers "
        f"{tally.repaired_by_peers:,}, by loggers {tally.repaired_by_loggers:,} packets",
        style="dim",
    )
    return Group(heading, table, repairs)


def _summary(console: Console, demo: Demo) -> None:
    tally = demo.tally
    exact = sum(tally.delivered_events.get(name, 0) == tally.published_events for name in (*LOGGERS, *BROKERS))
    everyone = len(LOGGERS) + len(BROKERS)
    logged = sum(tally.logged.values())
    rows = (
        ("published", f"{tally.published_events:,} events by {len(BROKERS)} brokers"),
        ("lost on the way", f"{tally.lost_messages:,} messages, to loss and to 3 s of partition"),
        ("repaired", f"{tally.repaired_by_peers:,} packets by peers, {tally.repaired_by_loggers:,} by loggers"),
        ("delivered", f"to {exact} of {everyone} members: every event, once, in its publisher's order"),
        ("on disk", f"{logged:,} events acknowledged after a sync"),
        ("settled", f"{demo.at_s - 9.0:.1f} s after the last event, still under 10 % loss"),
    )
    table = Table(box=None, show_header=False, padding=(0, 2))
    for what, found in rows:
        table.add_row(Text(what, style="bold"), found)
    console.print(table)
    if not demo.finished:
        console.print(f"not settled: {demo.checker.owing()} is outstanding", style="bold red")
